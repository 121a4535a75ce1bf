//! Failures that end a benchmark early, with texts for the user at the terminal.
//!
//! Neighbours: every module returns the failures; [`crate::run`] returns the failure to the command line. The command
//! line prints the failure and exits.

use std::io;

/// Reason for the refusal or the early end of a benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The arguments are impossible.
    #[error("{0}")]
    Usage(String),
    /// The database refused or failed.
    #[error("the database reported: {0}")]
    Database(#[from] ensile::Error),
    /// Persistent objects refused or failed.
    #[error("the objects reported: {0}")]
    Objects(#[from] ensile_objects::ObjectsError),
    /// A file, a pipe or a child process failed.
    #[error("{what}: {source}")]
    Io {
        /// The failed action.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Message of a panic in a thread.
    #[error("a thread panicked: {0}")]
    Panic(String),
}

impl Failure {
    /// Constructor of an error of the system during the action `what`, for `map_err`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// The benchmark's result.
pub type Result<T, E = Failure> = std::result::Result<T, E>;
