//! How much the clients of a loop may take: connections, bytes, time.
//!
//! Neighbours: [`crate::NetLoop`] holds them (W2, W3, W13, W16).

use std::time::Duration;

/// Limits of a loop and of each of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetLimits {
    /// Most connections. More wait in the kernel's queue until one ends.
    pub connections_max: usize,
    /// Bytes that have arrived and are not consumed: no more are read. It must exceed the longest request.
    pub unread_bytes_max: usize,
    /// Bytes of replies that are not sent, parked ones included. Above half of it no more requests are taken; a
    /// connection that gets beyond it all the same is closed.
    pub unsent_bytes_max: usize,
    /// Replies that are reserved and not sent. At this number no more requests are taken.
    pub parked_max: usize,
    /// A connection from which nothing came for this time, and for which no reply is parked, is closed. `None`: never.
    pub idle: Option<Duration>,
    /// A connection that has taken none of the bytes that wait for it for this time is closed.
    pub stalled: Duration,
    /// A connection that its owner or its client has ended, and for which no reply is to come any more, has this time
    /// to take those that wait for it. Then it is closed, whatever it still takes: [`stalled`](Self::stalled) begins
    /// anew with each byte.
    pub ending: Duration,
    /// A TCP client that has been silent for this time is asked by the kernel whether it is still there, at most
    /// [`KEEPALIVE_PROBES`](crate::KEEPALIVE_PROBES) times, each a third of this time behind the one before. If it
    /// does not answer, its connection has failed. `None`: it is never asked, and one that was unplugged stays.
    pub keepalive: Option<Duration>,
    /// A connection that its owner ends, and whose replies are sent, waits for this time at most until the client ends
    /// too. Zero: it is closed at once, and a client that still sends may lose the last replies.
    pub linger: Duration,
    /// Bytes that a client still sends while its connection ends: as many are read, and dropped. At this number it is
    /// closed.
    pub linger_bytes_max: usize,
    /// Bytes that a connection may have, unread and unsent, without counting against what all may have together
    /// ([`ConnectionMemory`](crate::ConnectionMemory)).
    pub free_bytes: usize,
    /// When a connection cannot go on for want of that memory for this time, and owes its client nothing, one is told
    /// of ([`NetEvent::OutOfMemory`](crate::NetEvent::OutOfMemory)): of those that wait so, and those whose clients
    /// have sent a part of a request and are silent for this time, the one that has most.
    pub memory_wait: Duration,
    /// After this number of bytes from one connection the others have their turn. The read that reaches it may bring
    /// more: as much as is unread, or 32 KiB.
    pub step_bytes: usize,
    /// For this time nothing is accepted after an error such as a lack of descriptors.
    pub accept_pause: Duration,
}

impl NetLimits {
    /// A connection that cannot go on for want of memory for this time does not wait for those that came long behind
    /// it; one that has most of what others wait for gives it back, although its client still sends.
    pub(crate) fn memory_wait_max(&self) -> Duration {
        self.memory_wait.saturating_add(self.stalled)
    }
}

impl Default for NetLimits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            unread_bytes_max: 64 << 20,
            unsent_bytes_max: 64 << 20,
            parked_max: 16 << 10,
            idle: None,
            stalled: Duration::from_secs(60),
            ending: Duration::from_secs(300),
            keepalive: Some(Duration::from_secs(300)),
            linger: Duration::from_secs(30),
            linger_bytes_max: 1 << 30,
            free_bytes: 64 << 10,
            memory_wait: Duration::from_secs(10),
            step_bytes: 64 << 10,
            accept_pause: Duration::from_millis(100),
        }
    }
}
