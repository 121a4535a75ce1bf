//! Errors of commands, in redis' words where redis has the error.
//!
//! Neighbours: commands return the errors; `execution` writes the reply, and runs a transaction again.

use ensile::{Error, ErrorKind};
use ensile_serving::NewReply;

use super::arguments::PATTERN_BYTES_MAX;
use crate::blocking::KeyWait;
use crate::model::elements::OpenError;

/// Reason why a command was not carried out.
#[derive(Debug)]
pub(crate) enum CommandError {
    Syntax,
    NotInteger,
    NotFloat,
    /// The sum does not fit into 64 bits.
    Overflow,
    /// The sum is no finite number.
    NotFinite,
    /// A cursor that no scan returns.
    Cursor,
    NoSuchKey,
    /// The key has a value of another type.
    WrongKind,
    /// The number of a database that does not exist.
    NoSuchDatabase,
    /// An expiry that is not positive, or beyond the range of times; of this command.
    Expiry(&'static str),
    /// An item beyond its limit.
    TooLong {
        /// Kind of the item.
        item: &'static str,
        /// Length in bytes.
        bytes: usize,
        /// Limit in bytes.
        bytes_max: usize,
    },
    /// A pattern beyond its limit.
    LongPattern {
        /// Length in bytes.
        bytes: usize,
    },
    /// The number of arguments of this command is wrong.
    WrongNumber(&'static str),
    /// An option of `EXPIRE` that does not exist.
    UnknownOption(String),
    /// A number outside of its range.
    OutOfRange {
        /// Smallest number.
        least: i64,
        /// Largest number.
        most: i64,
    },
    /// A number that is not positive.
    NotPositive,
    /// This command has no key for its input.
    NoInput(&'static str),
    /// An error in words, with the code `ERR`.
    Text(&'static str),
    /// A missing feature, by its name.
    Missing(&'static str),
    /// Nothing is found, and the command waits for keys ([`DataCall::wait`](super::DataCall::wait)). No reply shows it.
    Wait(KeyWait),
    /// A script of this SHA-1 is unknown.
    NoScript,
    /// A script or a procedure has raised an error: nothing of its transaction stays.
    Raised(RaisedError),
    /// An error of the engine.
    Engine(Error),
}

/// An error that a script or a procedure has raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RaisedError {
    /// Text of the reply, with its code.
    pub(crate) line: Vec<u8>,
    /// True if a command before has written.
    pub(crate) has_written: bool,
    /// True for `SCRIPT KILL` and the limit of time, which no row has led to: the script does not run again.
    pub(crate) is_final: bool,
}

/// Longest text of a client that an error shows, in bytes.
const SHOWN_BYTES_MAX: usize = 128;

/// Text of a client, cut for an error.
pub(crate) fn shown_text(text: &[u8]) -> String {
    let shown = &text[..text.len().min(SHOWN_BYTES_MAX)];
    let dots = if shown.len() < text.len() { ".." } else { "" };
    format!("{}{dots}", String::from_utf8_lossy(shown))
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<OpenError> for CommandError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::WrongKind => Self::WrongKind,
            OpenError::Engine(error) => Self::Engine(error),
        }
    }
}

impl CommandError {
    /// Code at the beginning of the reply.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Engine(error) => match error.kind() {
                ErrorKind::FreeSpace => "MISCONF",
                _ => "ERR",
            },
            Self::WrongKind => "WRONGTYPE",
            Self::NoScript => "NOSCRIPT",
            _ => "ERR",
        }
    }

    /// Replies the error.
    pub(crate) fn reply(&self, reply: &mut NewReply<'_>) {
        match self {
            Self::Raised(raised) => reply.fail_line(&raised.line),
            _ => reply.fail(self.code(), &self.text()),
        }
    }

    /// Text behind the code.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Syntax => "syntax error".to_owned(),
            Self::NotInteger => "value is not an integer or out of range".to_owned(),
            Self::NotFloat => "value is not a valid float".to_owned(),
            Self::Overflow => "increment or decrement would overflow".to_owned(),
            Self::NotFinite => "increment would produce NaN or Infinity".to_owned(),
            Self::Cursor => "invalid cursor".to_owned(),
            Self::NoSuchKey => "no such key".to_owned(),
            Self::WrongKind => "Operation against a key holding the wrong kind of value".to_owned(),
            Self::NoSuchDatabase => "DB index is out of range".to_owned(),
            Self::Expiry(command) => format!("invalid expire time in '{command}' command"),
            Self::TooLong { item, bytes, bytes_max } => {
                format!(
                    "{item} exceeds maximum allowed size (proto-max-bulk-len): {bytes} bytes, the limit is {bytes_max} bytes"
                )
            }
            Self::LongPattern { bytes } => {
                format!("pattern of {bytes} bytes: a pattern has {PATTERN_BYTES_MAX} bytes at most")
            }
            Self::WrongNumber(command) => format!("wrong number of arguments for '{command}' command"),
            Self::UnknownOption(option) => format!("Unsupported option {option}"),
            Self::OutOfRange { least, most } => {
                format!("value is out of range, value must between {least} and {most}")
            }
            Self::NotPositive => "value is out of range, must be positive".to_owned(),
            Self::NoInput(command) => format!("at least 1 input key is needed for '{command}' command"),
            Self::Text(text) => (*text).to_owned(),
            Self::Missing(feature) => format!("{feature} is not available in this version of ensile"),
            Self::Wait(_) => "the command waits for keys".to_owned(),
            Self::NoScript => "No matching script. Please use EVAL.".to_owned(),
            Self::Raised(raised) => String::from_utf8_lossy(&raised.line).into_owned(),
            Self::Engine(error) => error.to_string(),
        }
    }
}
