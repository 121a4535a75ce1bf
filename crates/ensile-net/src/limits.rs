//! Limits of the clients of a loop: connections, bytes, time.
//!
//! Neighbours: [`crate::NetLoop`] enforces the limits (W2, W3, W13, W17).

use std::time::Duration;

/// Limits of a loop and of each of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetLimits {
    /// Largest number of connections. Further connections wait in the kernel's queue until a connection ends.
    pub connections_max: usize,
    /// Largest number of bytes that have arrived and are not consumed: the loop reads no more. Must exceed the longest
    /// request.
    pub unread_bytes_max: usize,
    /// Largest number of unsent bytes of replies, parked replies included. Above half of this number, the loop takes no
    /// more requests; a connection beyond this number is closed.
    pub unsent_bytes_max: usize,
    /// Number of reserved and unsent replies at which the loop takes no more requests.
    pub parked_max: usize,
    /// Time without input after which a connection without parked replies is closed. `None`: never.
    pub idle: Option<Duration>,
    /// Time after which a connection is closed if the client takes none of the waiting bytes.
    pub stalled: Duration,
    /// Time for the client to take the remaining replies of a connection that owner or client has ended, once no
    /// further reply comes. Then the connection is closed, although the client may still take bytes:
    /// [`stalled`](Self::stalled) begins anew with every byte.
    pub ending: Duration,
    /// Longest time of a connection's TLS handshake. Then the connection is closed, although the client may still send
    /// bytes.
    pub handshake: Duration,
    /// Silence after which the kernel probes a TCP client, with at most [`KEEPALIVE_PROBES`](crate::KEEPALIVE_PROBES)
    /// probes, a third of this time apart. The connection of a client that does not answer has failed. `None`: no
    /// client is probed, and the connection of an unplugged client stays.
    pub keepalive: Option<Duration>,
    /// Longest wait of a connection that the owner ends, after the replies are sent, for the client's end. Zero: the
    /// connection is closed at once, and a client that still sends may lose the last replies.
    pub linger: Duration,
    /// Number of bytes that are read and dropped from a client while the connection ends. At this number the connection
    /// is closed.
    pub linger_bytes_max: usize,
    /// Silence after which a connection gives back the room that its buffers keep for the next request and reply, and
    /// the owner is told ([`NetEvent::Silent`](crate::NetEvent::Silent)). Up to twice this time may pass.
    pub room_kept: Duration,
    /// Number of bytes from a connection after which the next connection has a turn. The read that reaches this number
    /// may bring more: as many bytes as are unread, or 32 KiB.
    pub step_bytes: usize,
    /// Pause of accepting after an error such as a lack of descriptors.
    pub accept_pause: Duration,
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
            handshake: Duration::from_secs(10),
            keepalive: Some(Duration::from_secs(300)),
            linger: Duration::from_secs(30),
            linger_bytes_max: 1 << 30,
            room_kept: Duration::from_secs(1),
            step_bytes: 64 << 10,
            accept_pause: Duration::from_millis(100),
        }
    }
}
