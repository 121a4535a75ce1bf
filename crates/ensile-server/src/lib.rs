//! An Ensile database for redis clients: `MULTI` as serializable transactions on all cores, durable before the reply.
//!
//! ```text
//! request -> command -> transaction over the tables of the model -> commit -> reply waits until its epoch is durable
//! ```
//! Modules, in the order from below: a module uses only modules before it.
//! - `calendar` and `appendfsync` are settings. `channels` has the listeners of all loops. `effects` has the effects
//!   of a transaction outside of the database, and `blocking` the clients that wait for keys. `disk_wait` has requests
//!   that wait for the disk. `model` has the rows: databases, keys, values, counts.
//! - `commands` has the functions over data, a file a type of value. They know nothing of the server.
//! - `scripts` has scripts in Lua, and procedures of the program.
//! - `sweeper` removes rows that nobody sees. `command_figures`, `slow_log` and `load_progress` have figures.
//!   `served_database` is the state that all loops share.
//! - `execution` makes a transaction of a request. `publish` has the commands of channels, `admin` the parameters and
//!   figures, and `access` lets clients in.
//! - `script_calls` carries out the commands of scripts and procedures.
//! - `command_table` names all functions, and `served_program` is the interface to the loops.
//! - [`Server`] opens the tables of a database and serves, [`LoadingServer`] also meanwhile (`running_load`).
//!   `admin_port` shows figures by HTTP.
//!
//! Invariants:
//! - R1: a reply rests on the epoch of its transaction's receipt, reads and errors included.
//! - A command that fails has changed no key in its transaction.
//! - A loop never waits: a request that would wait is set aside, and is called again after a wake-up.
//!
//! Neighbours: below, `ensile` has transactions, and `ensile-serving` has loops, clients and `MULTI`'s queue. Above is
//! the `ensile` tool.
#![forbid(unsafe_code)]

mod access;
mod admin;
mod admin_port;
mod appendfsync;
mod blocking;
mod calendar;
mod channels;
mod command;
mod command_figures;
mod command_table;
mod commands;
mod contest;
mod disk_wait;
mod effects;
mod execution;
mod load_progress;
mod model;
mod observed;
mod pending;
mod publish;
mod running;
mod running_load;
mod script_calls;
mod scripts;
mod served_database;
mod served_program;
mod server;
#[cfg(feature = "simulation")]
pub mod simulation;
mod slow_log;
mod sweeper;

pub use access::{PASSWORD_BYTES_MAX, User, hash_password};
pub use admin_port::AdminConfig;
pub use appendfsync::Appendfsync;
pub use ensile_net::{TlsClients, TlsConfigError, TlsPart, TlsPem};
pub use ensile_serving::threads::{ListeningServer, ServerConfig, ServerTls, TlsConfig, TransportChoice};
pub use load_progress::LoadProgress;
pub use running::RunningServer;
pub use running_load::{LoadedDatabase, LoadingError, LoadingServer};
pub use scripts::{ProcedureCall, ProcedureError, ReplyValue};
pub use server::{Server, ServerBuilder};
pub use slow_log::SLOW_REQUESTS_MAX;
