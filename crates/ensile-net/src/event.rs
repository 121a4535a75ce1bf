//! What a loop tells its caller, and what it calls connections.
//!
//! Neighbours: [`crate::NetLoop`] tells it.

use std::io;

use crate::transport::SocketToken;

/// A connection of a loop. No two ever have the same, so one that has ended is never taken for its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnectionId {
    pub(crate) fn token(self) -> SocketToken {
        SocketToken(u64::from(self.generation) << 32 | u64::from(self.index))
    }

    pub(crate) fn of(token: SocketToken) -> Self {
        Self { index: token.0 as u32, generation: (token.0 >> 32) as u32 }
    }
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The caller asked for it.
    Asked,
    /// The peer ended, and has all replies.
    PeerEnded,
    /// The system says that it is broken, mostly since the peer has gone.
    Failed(io::ErrorKind),
    /// More bytes of replies waited than [`crate::NetLimits::unsent_bytes_max`].
    Unsent,
    /// The peer took nothing for [`crate::NetLimits::stalled`]. Or it had [`crate::NetLimits::ending`] for what waited
    /// for it, did not take that, and its connection was to end, or others waited for its memory.
    Stalled,
    /// Nothing came for [`crate::NetLimits::idle`].
    Idle,
    /// What was to write a reply panicked ([`crate::NetLoop::last_panic`]): no reply may follow one that is missing.
    Panicked,
}

/// What a step has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetEvent {
    /// A client has connected.
    Opened(ConnectionId),
    /// Bytes have arrived, or there is room again for the requests that were left.
    Received(ConnectionId),
    /// The connection has ended; its replies that are not sent are lost.
    Closed(ConnectionId, CloseReason),
    /// The connection needs more memory than all may have together, or has waited for some for
    /// [`crate::NetLimits::memory_wait`], or has a part of a request and most of what others have waited for. Its owner
    /// tells the client and ends it ([`crate::NetLoop::close_when_sent`]), which gives back what it has.
    OutOfMemory(ConnectionId),
    /// The timer that was set with this number is due.
    TimerDue(u64),
    /// [`crate::LoopWakeUp::wake`] was called, once or more often.
    WokenUp,
    /// Nothing is accepted for [`crate::NetLimits::accept_pause`], since the system refused to: it may lack
    /// descriptors.
    AcceptPaused(io::ErrorKind),
}
