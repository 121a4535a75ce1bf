//! A server over RESP for any program: a loop of sockets a thread, and replies that wait until they are durable.
//!
//! ```text
//! bytes -> requests -> command -> service -> outcome  reply: waits until its epoch is durable if the service says so
//!                                                     busy: the request is set aside, and called after a wake-up
//! ```
//! The served program is a [`ServedProgram`]: a table of commands, and a call for each request. The crate knows no
//! database and no log. It learns through [`DurableEpochs`] which replies may go.
//!
//! Invariants:
//! - R1: a reply that waits goes out only when the epoch that the reply rests on is durable. The rule holds for replies
//!   to reads as well.
//! - W1 to W4 of the loop: replies keep the order of requests, memory is bounded, nobody waits unheard.
//! - Every request gets one reply, an error if the request was not carried out. O6: a command that panics is such a
//!   request.
//! - W18: a request that is set aside is called again before any later request of its connection.
//!
//! Neighbours: below, `ensile-net` has the loop of sockets, and `ensile-resp` has the codec. Above, `ensile-services`
//! and `ensile-server` are served. `served_program` is the interface. `serving_loop` has the loop of a server; `state`
//! has the state that loops share; `client_state` has the state of a client; `limits` has the limits. `dispatch` takes
//! requests, `queue` keeps the requests after `MULTI`, and `execution` calls commands. `common_commands` and
//! `handshake` have the commands of every server; `info` writes the text of `INFO`; `log_notices` has the notices
//! about the log. `deferred_replies` keeps the waiting replies, and [`threads`] starts loops. [`program`]
//! has the parts that all programs with a server share.
#![forbid(unsafe_code)]

// A module uses modules above it only.
pub mod command;
mod durable_epochs;
mod figures;
pub mod glob;
mod info;
mod latency;
mod limits;
mod loop_traffic;
mod outcome;
mod queue;
mod reply;

mod client_state;
mod log_notices;
mod loop_poll;
mod mail;
mod state;

mod served_program;

mod handshake;

mod common_commands;

mod execution;

mod dispatch;

mod deferred_replies;

mod loop_core;

mod loop_clients;

mod request_serving;

mod busy_poll;

mod serving_loop;

pub mod program;
pub mod threads;

pub use client_state::{Client, ClientState, ReplySilence, ServedClient};
pub use common_commands::{all_commands, client_command};
pub use durable_epochs::{CheckpointWait, DurableEpoch, DurableEpochs, LogState};
pub use execution::TOGETHER;
pub use figures::ServerFigures;
pub use info::InfoText;
pub use latency::{Latency, LatencyBucket};
pub use limits::{CLIENT_MEMORY_BYTES, KEEPALIVE_SECONDS, LIMITS, QUEUED_REPLY_BYTES, REPLY_BYTES};
pub use loop_poll::LoopPoll;
pub use loop_traffic::ServedTraffic;
pub use mail::{LoopClients, LoopMail, MAIL_BYTES_MAX};
pub use outcome::{ANSWERED, AuthProgress, AuthRefusal, Outcome, RightsRefusal};
pub use reply::NewReply;
pub use served_program::{AheadKey, BusyCall, Exec, LoopParts, ServedProgram, ServiceCall};
pub use serving_loop::{END_WAIT, ServingLoop};
pub use state::ServingState;
