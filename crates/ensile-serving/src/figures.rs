//! Figures of a server, for `INFO`.
//!
//! Neighbours: [`crate::ServingState`] counts; a [`ServedProgram`](crate::ServedProgram) shows.

use crate::latency::Latency;
use crate::loop_traffic::ServedTraffic;

/// Figures of a server: sums over its loops since the start, if nothing else is said.
#[derive(Clone, Debug)]
pub struct ServerFigures {
    /// Descriptions of the transports of the loops' sockets.
    pub transports: String,
    /// Number of open connections now.
    pub connections: u64,
    /// Number of connections.
    pub opened: u64,
    /// Memory of all clients together now, in bytes (W16).
    pub client_memory_bytes: usize,
    /// Limit of this memory in bytes; `None` without a limit.
    pub client_memory_bytes_max: Option<usize>,
    /// Number of clients disconnected because the memory of all clients exceeded the limit.
    pub evicted: u64,
    /// Largest number of open connections. Further clients wait.
    pub connections_max: usize,
    /// Requests and bytes.
    pub total: ServedTraffic,
    /// Requests and bytes of the last second.
    pub rate: ServedTraffic,
    /// Times from the arrival of requests to their replies.
    pub latency: Latency,
    /// Number of requests whose command panicked.
    pub panicked: u64,
    /// Number of requests that the service's log refused.
    pub turned_away: u64,
    /// Number of clients disconnected because they took pushed bytes too slowly.
    pub slow_listeners: u64,
    /// Number of replies that no client had waited for.
    pub unheard: u64,
}
