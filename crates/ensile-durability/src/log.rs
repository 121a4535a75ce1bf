//! The log of an open database: workers append, loggers write, and D is the durable epoch.
//!
//! ```text
//! appender (per worker) --part-filled, taken by the logger (L2)--> logger --> segment files --> synced mark d
//!           \--full, through the logger's queue-----------------/                               |
//!                                       D = min over logs (marks) --> waiters <-----------------+
//! ```
//! No thread is spawned here: a logger's thread calls `logger_wait` and `logger_step`. A log may have no loggers (SIREN
//! §5): then no entry is appended, and a waiter asks for a picture in place of a mark (`no_log`).
//!
//! Neighbours: below, `buffers` has the entries of workers, and `store` the folders, which log and checkpoints share.
//! `recovery` hands over the first files of a generation. Above, commits of the engine and of the objects append, and
//! their receipts wait. The shipper ships closed files.

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
