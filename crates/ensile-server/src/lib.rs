//! An Ensile database for redis clients: `MULTI` as serializable transactions on all cores, durable before the reply.
//!
//! ```text
//! request -> command -> transaction over the tables of the model -> commit -> reply waits until its epoch is durable
//! ```
//! - [`Server`] opens the tables of a database and serves.
//! - `commands` has the commands, a file a type of value.
//! - `model` has the rows: databases, keys, values, counts.
//! - `access` has the password.
//! - `admin` has the parameters and the figures.
//!
//! Invariants:
//! - R1: a reply rests on the epoch of its transaction's receipt, reads and errors included.
//! - A command that fails has written nothing to its transaction.
//! - A loop never waits: a request that would wait is set aside, and is called again after a wake-up.
//!
//! Neighbours: below, `ensile` has transactions, and `ensile-serving` has loops, clients and `MULTI`'s queue. Above, the
//! `ensile` tool.
#![forbid(unsafe_code)]

mod access;
mod admin;
mod calendar;
mod commands;
mod contest;
mod execution;
mod model;
mod running;
mod served_database;
mod server;
#[cfg(feature = "simulation")]
pub mod simulation;
mod sweeper;

pub use ensile_serving::threads::{ListeningServer, ServerConfig, TransportChoice};
pub use running::RunningServer;
pub use server::{Appendfsync, Server, ServerBuilder};
