//! A server of one service over RESP: a loop of sockets per thread, and replies that wait until they are durable.
//!
//! ```text
//! bytes -> requests -> command -> service -> reply  relaxed: sent at once
//!                                                   strict:  parked until the epoch that it rests on is durable
//! ```
//! Invariants:
//! - R1: a strict server sends a reply only when the epoch that the reply rests on is durable; the rule holds for
//!   replies to reads as well.
//! - W1 to W4 of the loop: replies keep the order of requests, memory is bounded, nobody waits unheard.
//! - Every request gets one reply, an error if the request was not carried out. O6: a command that panics is such a
//!   request.
//!
//! Neighbours: `ensile-net` has the loop of sockets, and `ensile-resp` has the codec. [`crate::service`] is the served
//! side. `service_loop` has the loop of a server; `state` has the state that loops share; `client_state` has the state
//! of a client; `limits` has the limits. `dispatch` takes requests, `queue` keeps the requests after `MULTI`, and
//! `execution` calls commands. `common_commands` and `handshake` have the commands of every server; `figures` has the
//! text of `INFO`; `log_notices` has the notices about the log. `deferred_replies` keeps the waiting replies, and
//! [`threads`] starts loops.

mod client_state;
mod common_commands;
mod deferred_replies;
mod dispatch;
mod execution;
mod figures;
mod flow;
mod handshake;
mod limits;
mod log_notices;
mod queue;
mod service_loop;
mod state;
pub mod threads;

pub use limits::{CLIENT_MEMORY_BYTES, KEEPALIVE_SECONDS, LIMITS};
pub use service_loop::{END_WAIT, ServiceLoop};
pub use state::ServerState;
