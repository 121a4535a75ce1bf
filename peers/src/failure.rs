//! Errors: each system has its own, and all of them end the comparison with a message.
//!
//! No error is replaced by a figure. A reason in place of a figure is the outcome of a check: see [`crate::driver`].

/// Any error, of any system.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The outcome of whatever can fail.
pub(crate) type Result<T> = std::result::Result<T, Failure>;
