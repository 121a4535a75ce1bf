//! The log of an open database: workers append, loggers write, and D is the durable epoch.
//!
//! ```text
//! appender (per worker) --part-filled, taken by the logger (L2)--> logger --> segment files --> synced mark d
//!           \--full, through the logger's queue-----------------/                               |
//!                                       D = min over logs (marks) --> waiters <-----------------+
//! ```
//! No thread is spawned here: `Database` gives every logger a thread that runs
//! `loop { log.logger_wait(i, interval); log.logger_step(i); }`, and a simulator calls the steps itself.
//!
//! A log may have no loggers (SIREN §5): then no entry is appended. D is e_c of the installed picture (the last epoch
//! in the picture). The checkpoints announce D, and a waiter asks for a picture in place of a mark. Waiters, the close,
//! refusals and reserved epochs work as with loggers.
//!
//! Invariants: E1 in `appender`, L1 and L2 in `worker_scan` and `buffers`, L3 in `marks` and `segments`, the end of the
//! log in `waiters` and `shutdown`.
//!
//! Neighbours: below, `buffers` has the entries of workers, and `store` the folders, which log and checkpoints share.
//! `recovery` hands over the first files of a generation. Above, the engine's commits append, and its receipts wait.

// Order of the modules, low to high: a file uses files before it. `open_log` and `logger` use each other.
mod config;
mod marks;
mod refusal;
mod stats;
mod waiters;
mod worker_scan;

pub(crate) mod segments;

mod next_file_plan;

mod logger;
mod open_log;

mod admission;
mod appender;
mod archival;
mod durable_epoch;
mod epoch_reservation;
mod figures;
mod inline_step;
mod no_log;
mod removal;
mod shutdown;
pub(crate) mod start;

#[cfg(all(test, loom))]
mod loom_tests;

pub use admission::Health;
pub use appender::{Appender, SpaceTask, SpaceWait};
pub use config::LogConfig;
pub use durable_epoch::Durable;
pub use logger::LoggerStep;
pub use open_log::Log;
pub use removal::Removed;
pub use start::LogStart;
pub use stats::LogStats;
