//! What can end a benchmark early, in words for the person at the terminal.
//!
//! Neighbours: every module returns it; [`crate::run`] hands it to the command line, which prints it and exits.

use std::io;

/// Why a benchmark could not run or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The arguments ask for something that cannot be.
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
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A thread panicked; its message.
    #[error("a thread panicked: {0}")]
    Panic(String),
}

impl Failure {
    /// An error of the system while doing `what`; made for `map_err`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// The benchmark's result.
pub type Result<T, E = Failure> = std::result::Result<T, E>;
