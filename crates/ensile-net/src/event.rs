//! Events of a loop for its caller, and the names of connections.
//!
//! Neighbours: [`crate::NetLoop`] reports the events.

use std::io;

use crate::transport::SocketToken;

/// Name of a connection of a loop. A loop never uses a name twice, so an ended connection is never taken for its
/// successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// The name as a number, for the number of a timer.
    #[must_use]
    pub fn number(self) -> u64 {
        self.token().0
    }

    /// The name with this number. No connection may have the name any more.
    #[must_use]
    pub fn of_number(number: u64) -> Self {
        Self::from_token(SocketToken(number))
    }

    pub(crate) fn token(self) -> SocketToken {
        let token = SocketToken(u64::from(self.generation) << 32 | u64::from(self.index));
        debug_assert_eq!(Self::from_token(token), self, "W9: a token names one connection");
        token
    }

    pub(crate) fn from_token(token: SocketToken) -> Self {
        Self { index: token.0 as u32, generation: (token.0 >> 32) as u32 }
    }
}

/// Reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The caller ended the connection.
    Asked,
    /// The peer ended, and has all replies.
    PeerEnded,
    /// The system reports a broken connection, mostly because the peer has gone.
    Failed(io::ErrorKind),
    /// More bytes of replies waited than [`crate::NetLimits::unsent_bytes_max`].
    Unsent,
    /// The peer took nothing for [`crate::NetLimits::stalled`]. Or the connection was to end, and the peer did not take
    /// the waiting replies within [`crate::NetLimits::ending`].
    Stalled,
    /// No input came for [`crate::NetLimits::idle`].
    Idle,
    /// The connection had the largest buffers when the buffers of all connections exceeded the limit
    /// ([`crate::ConnectionMemory`]).
    Evicted,
    /// The writer of a reply panicked ([`crate::NetLoop::last_panic`]): no reply may follow a missing reply.
    Panicked,
    /// The connection's TLS failed; [`crate::NetLoop::last_tls_failure`] has the reason in words.
    Tls(TlsFailure),
}

/// Failure of a connection's TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// The client began without TLS.
    PlainText,
    /// The handshake failed: client and server have no common version, or one refuses the other's certificate.
    Handshake,
    /// The handshake was not over after [`crate::NetLimits::handshake`].
    TimedOut,
    /// Bytes behind the handshake were no records of the client.
    Broken,
}

/// Event of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetEvent {
    /// A client has connected.
    Opened(ConnectionId),
    /// Bytes have arrived, or there is room again for the remaining requests.
    Received(ConnectionId),
    /// The connection has ended; its unsent replies are lost.
    Closed(ConnectionId, CloseReason),
    /// The client was silent for [`crate::NetLimits::room_kept`], and all its requests and replies are done. The loop
    /// has given back the room of the connection's buffers. The owner may do the same with its own.
    Silent(ConnectionId),
    /// The timer with this number is due.
    TimerDue(u64),
    /// [`crate::LoopWakeUp::wake`] was called, once or more often.
    WokenUp,
    /// Nothing is accepted for [`crate::NetLimits::accept_pause`], because the system refused a connection: the process
    /// may lack descriptors.
    AcceptPaused(io::ErrorKind),
}
