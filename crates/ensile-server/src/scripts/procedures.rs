//! Procedures: functions of the program that clients call with `FCALL`.
//!
//! Neighbours: [`crate::ServerBuilder::procedure`] registers; `script_calls` carries out the commands of a procedure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ensile::{Error, Transaction};
use ensile_resp::{Reply, ReplyDecoder, ReplyEncoder, ReplyLimits, RequestBuffer, RespVersion};
use ensile_serving::{NewReply, REPLY_BYTES};

use super::command_host::{CallRefusal, CommandHost};
use super::lua_state::ScriptArguments;

/// A value of a reply: of a command that a procedure calls, or of the procedure itself.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyValue {
    /// No value.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// A string of any bytes.
    Bulk(Vec<u8>),
    /// A line of text, such as `OK`.
    Simple(String),
    /// An error: its code and its text. The effects of the procedure stay.
    Error(String),
    /// Values in order.
    Array(Vec<ReplyValue>),
    /// Keys and their values.
    Map(Vec<(ReplyValue, ReplyValue)>),
}

/// Error of a procedure. Nothing that the procedure has written stays.
#[derive(Debug)]
pub enum ProcedureError {
    /// The client gets this text, which begins with a code such as `ERR`.
    Reply(String),
    /// An error of the engine has ended the transaction. The server runs the procedure again after a conflict.
    Engine(Error),
    /// A command has ended the transaction, and the server has the error. No later command succeeds.
    Ended,
}

impl From<Error> for ProcedureError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl fmt::Display for ProcedureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(text) => f.write_str(text),
            Self::Engine(error) => error.fmt(f),
            Self::Ended => f.write_str("the transaction has ended"),
        }
    }
}

impl std::error::Error for ProcedureError {}

/// A procedure of the program.
pub(crate) type Procedure =
    dyn Fn(&mut ProcedureCall<'_, '_>) -> Result<ReplyValue, ProcedureError> + Send + Sync;

/// Procedures of a server by their names.
#[derive(Clone, Default)]
pub(crate) struct Procedures {
    by_name: BTreeMap<String, Arc<Procedure>>,
}

impl fmt::Debug for Procedures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl Procedures {
    pub(crate) fn insert(&mut self, name: &str, procedure: Arc<Procedure>) {
        self.by_name.insert(name.to_owned(), procedure);
    }

    /// Names in their order.
    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<Procedure>> {
        self.by_name.get(std::str::from_utf8(name).ok()?)
    }
}

/// A call of a procedure by a client, within a transaction.
///
/// The server calls the procedure again after a conflict, so a procedure has no effect but through the call.
pub struct ProcedureCall<'c, 'db> {
    given: ScriptArguments<'c>,
    host: &'c mut dyn CommandHost<'db>,
    request: RequestBuffer,
    /// Reply of the newest command.
    written: Vec<u8>,
}

impl fmt::Debug for ProcedureCall<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcedureCall").field("given", &self.given).finish_non_exhaustive()
    }
}

impl<'c, 'db> ProcedureCall<'c, 'db> {
    pub(crate) fn new(given: ScriptArguments<'c>, host: &'c mut dyn CommandHost<'db>) -> Self {
        Self { given, host, request: RequestBuffer::default(), written: Vec::new() }
    }

    /// The keys that the client has named.
    #[must_use]
    pub fn keys(&self) -> &[&'c [u8]] {
        &self.given.keys
    }

    /// The arguments behind the keys.
    #[must_use]
    pub fn arguments(&self) -> &[&'c [u8]] {
        &self.given.arguments
    }

    /// Carries out a command within the transaction, and returns its reply. A later command sees the effects.
    ///
    /// # Errors
    /// [`ProcedureError::Reply`]: the command was refused, and has changed nothing. The procedure may go on.
    /// [`ProcedureError::Ended`]: the transaction has ended; return the error.
    pub fn command(&mut self, words: &[&[u8]]) -> Result<ReplyValue, ProcedureError> {
        self.request.clear();
        let fit = words.iter().all(|word| self.request.push(word));
        let Some(request) = self.request.request().filter(|_| fit) else {
            return Err(ProcedureError::Reply("ERR a command has a name, and 4 GiB at most".to_owned()));
        };
        self.written.clear();
        let mut reply = NewReply::new(&mut self.written, REPLY_BYTES, RespVersion::Resp3);
        match self.host.call(request, &mut reply) {
            Ok(()) => {}
            Err(CallRefusal::Reply(text)) => {
                return Err(ProcedureError::Reply(String::from_utf8_lossy(&text).into_owned()));
            }
            Err(CallRefusal::Ended) => return Err(ProcedureError::Ended),
        }
        let mut decoder = ReplyDecoder::new(ReplyLimits::default());
        match decoder.decode(&self.written) {
            Ok(Some(decoded)) => Ok(ReplyValue::from_reply(decoded.reply())),
            Ok(None) | Err(_) => {
                debug_assert!(false, "a command writes one reply");
                Err(ProcedureError::Reply("ERR the command's reply cannot be read".to_owned()))
            }
        }
    }

    /// The transaction, for tables of the program. The tables of the server are written by commands only.
    ///
    /// # Errors
    /// The call is of `FCALL_RO`, which writes nothing, or of a user without all rights.
    pub fn transaction(&mut self) -> Result<&mut Transaction<'db>, ProcedureError> {
        self.host.transaction().map_err(|refusal| ProcedureError::Reply(refusal.to_owned()))
    }
}

impl ReplyValue {
    fn from_reply(reply: Reply<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match reply {
            Reply::Null => Self::Null,
            Reply::Integer(number) => Self::Integer(number),
            Reply::Double(number) => Self::Double(number),
            Reply::Boolean(is_true) => Self::Boolean(is_true),
            Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) | Reply::BigNumber(bytes) => {
                Self::Bulk(bytes.to_vec())
            }
            Reply::Simple(bytes) => Self::Simple(text(bytes)),
            Reply::Error(bytes) => Self::Error(text(bytes)),
            Reply::Array(replies) | Reply::Set(replies) | Reply::Push(replies) => {
                Self::Array(replies.map(Self::from_reply).collect())
            }
            Reply::Map(mut replies) => {
                let mut pairs = Vec::new();
                while let (Some(key), Some(value)) = (replies.next(), replies.next()) {
                    pairs.push((Self::from_reply(key), Self::from_reply(value)));
                }
                Self::Map(pairs)
            }
        }
    }

    /// Number of levels of nested values, or `most` if there are more.
    pub(crate) fn levels(&self, most: usize) -> usize {
        if most == 0 {
            return 0;
        }
        let deepest = |values: &mut dyn Iterator<Item = &Self>| {
            1 + values.map(|value| value.levels(most - 1)).max().unwrap_or(0)
        };
        match self {
            Self::Array(values) => deepest(&mut values.iter()),
            Self::Map(pairs) => deepest(&mut pairs.iter().flat_map(|(key, value)| [key, value])),
            _ => 0,
        }
    }

    pub(crate) fn write(&self, reply: &mut ReplyEncoder<'_>) {
        match self {
            Self::Null => reply.null(),
            Self::Integer(number) => reply.integer(*number),
            Self::Double(number) => reply.double(*number),
            Self::Boolean(is_true) => reply.boolean(*is_true),
            Self::Bulk(bytes) => reply.bulk(bytes),
            Self::Simple(text) => reply.simple(text),
            Self::Error(text) => reply.error_line(text.as_bytes()),
            Self::Array(values) => {
                reply.array(values.len());
                values.iter().for_each(|value| value.write(reply));
            }
            Self::Map(pairs) => {
                reply.map(pairs.len());
                for (key, value) in pairs {
                    key.write(reply);
                    value.write(reply);
                }
            }
        }
    }
}
