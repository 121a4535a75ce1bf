//! Clients: a RESP client for any server, and a client for each service.
//!
//! A client blocks its caller. Requests may be pipelined: [`RespClient::request`] several times, then
//! [`RespClient::receive`] as many replies. No client repeats a request: a failed request may have been carried out.
//!
//! Neighbours: `ensile-resp` has the codec; applications, tests and load generators call.

mod hosts;
mod table;
mod urls;

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use ensile_resp::{ProtocolError, Reply, ReplyDecoder, ReplyLimits, encode_request};

pub use hosts::HostClient;
pub use table::TableClient;
pub use urls::UrlClient;

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection failed: the request may have been carried out. Connect again.
    #[error("the connection to the server: {0}")]
    Connection(#[from] io::Error),
    /// The received bytes are no RESP: the server is no RESP server.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The server's error reply: its code, and the message.
    #[error("the server replied: {0}")]
    Refused(Box<str>),
    /// The reply has another type than the request's: the server has another service.
    #[error("the server's reply is of another type: {0}")]
    Unexpected(Box<str>),
}

/// Result of a client's calls.
pub type ClientResult<T, E = ClientError> = Result<T, E>;

/// A connection to a server of RESP.
#[derive(Debug)]
pub struct RespClient {
    stream: TcpStream,
    decoder: ReplyDecoder,
    received: Vec<u8>,
    consumed: usize,
    to_send: Vec<u8>,
}

/// Smallest room for a read, in bytes.
const READ_BYTES: usize = 16 << 10;

impl RespClient {
    /// Connects to a server.
    ///
    /// # Errors
    /// The system's error.
    pub fn connect(address: impl ToSocketAddrs) -> ClientResult<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let decoder = ReplyDecoder::new(ReplyLimits::default());
        Ok(Self { stream, decoder, received: Vec::new(), consumed: 0, to_send: Vec::new() })
    }

    /// Sets the longest wait for a reply; a later reply is an error. `None` waits for ever.
    ///
    /// # Errors
    /// The system's error.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> ClientResult<()> {
        Ok(self.stream.set_read_timeout(timeout)?)
    }

    /// Appends a request to the requests to send. Without arguments nothing is appended, and no reply comes.
    pub fn request<A: AsRef<[u8]>>(&mut self, arguments: &[A]) {
        if !arguments.is_empty() {
            encode_request(&mut self.to_send, arguments);
        }
    }

    /// Sends the appended requests.
    ///
    /// # Errors
    /// [`ClientError::Connection`].
    pub fn send(&mut self) -> ClientResult<()> {
        let sent = self.stream.write_all(&self.to_send);
        self.to_send.clear();
        Ok(sent?)
    }

    /// Sends the appended requests and shows the next reply, an error too.
    ///
    /// # Errors
    /// [`ClientError::Connection`] and [`ClientError::Protocol`].
    pub fn receive<R>(&mut self, look: impl FnOnce(Reply<'_>) -> R) -> ClientResult<R> {
        if !self.to_send.is_empty() {
            self.send()?;
        }
        loop {
            if let Some(decoded) = self.decoder.decode(&self.received[self.consumed..])? {
                let seen = look(decoded.reply());
                self.consumed += decoded.consumed_bytes();
                debug_assert!(self.consumed <= self.received.len(), "a reply is consumed once");
                return Ok(seen);
            }
            self.received.drain(..self.consumed);
            self.consumed = 0;
            let before = self.received.len();
            self.received.resize(before + READ_BYTES.max(before), 0);
            let read = self.stream.read(&mut self.received[before..]);
            self.received.truncate(before + read.as_ref().map_or(0, |read| *read));
            if read? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Sends a request and shows its reply.
    ///
    /// # Errors
    /// The errors of [`receive`](Self::receive); [`ClientError::Refused`]; and [`ClientError::Unexpected`] if `look`
    /// returns `None` for a reply of another type. [`ClientError::Connection`] without arguments: nothing is sent.
    pub fn call<A: AsRef<[u8]>, R>(
        &mut self,
        arguments: &[A],
        look: impl FnOnce(Reply<'_>) -> Option<R>,
    ) -> ClientResult<R> {
        if arguments.is_empty() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "a request has the command's name");
            return Err(error.into());
        }
        self.request(arguments);
        self.receive_as(look)
    }

    /// Sends the appended requests. Shows the next reply, which must have the type that `look` takes.
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub fn receive_as<R>(&mut self, look: impl FnOnce(Reply<'_>) -> Option<R>) -> ClientResult<R> {
        self.receive(|reply| match reply {
            Reply::Error(error) => Err(ClientError::Refused(String::from_utf8_lossy(error).into())),
            reply => look(reply).ok_or_else(|| ClientError::Unexpected(in_words(reply).into())),
        })?
    }

    /// Requests the server's end, after everything is durable.
    ///
    /// # Errors
    /// The errors of [`call`](Self::call), if the server refuses.
    pub fn shut_down(&mut self) -> ClientResult<()> {
        match self.call(&["SHUTDOWN"], |_| None::<()>) {
            // The server replies by its end.
            Err(ClientError::Connection(_)) => Ok(()),
            other => other,
        }
    }
}

/// Text of a reply for people and tests: strings as they are, lines after `+`, errors after `!`, numbers after `:`,
/// `-` for no value, and brackets around several replies.
#[must_use]
pub fn in_words(reply: Reply<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match reply {
        Reply::Simple(bytes) => format!("+{}", text(bytes)),
        Reply::Error(bytes) => format!("!{}", text(bytes)),
        Reply::Integer(number) => format!(":{number}"),
        Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) | Reply::BigNumber(bytes) => text(bytes),
        Reply::Null => "-".to_owned(),
        Reply::Double(number) => number.to_string(),
        Reply::Boolean(is_true) => is_true.to_string(),
        Reply::Array(replies) | Reply::Map(replies) | Reply::Set(replies) | Reply::Push(replies) => {
            format!("[{}]", replies.map(in_words).collect::<Vec<_>>().join(" "))
        }
    }
}

/// A number.
fn integer_of(reply: Reply<'_>) -> Option<i64> {
    match reply {
        Reply::Integer(number) => Some(number),
        _ => None,
    }
}

/// A string, or `None` for null.
fn value_of(reply: Reply<'_>) -> Option<Option<Vec<u8>>> {
    match reply {
        Reply::Bulk(bytes) => Some(Some(bytes.to_vec())),
        Reply::Null => Some(None),
        _ => None,
    }
}

/// Several replies.
fn all_of<R>(reply: Reply<'_>, one: impl Fn(Reply<'_>) -> Option<R>) -> Option<Vec<R>> {
    match reply {
        Reply::Array(replies) => replies.map(one).collect(),
        _ => None,
    }
}

/// Values of a map, in the order in which a service shows them.
fn map_of(reply: Reply<'_>) -> Option<Vec<MapValue>> {
    let value = |reply: Reply<'_>| match reply {
        Reply::Integer(number) => Some(MapValue::Number(number)),
        Reply::Bulk(bytes) => Some(MapValue::Code(bytes.try_into().unwrap_or([0; 2]))),
        _ => None,
    };
    match reply {
        Reply::Array(replies) | Reply::Map(replies) => replies.skip(1).step_by(2).map(value).collect(),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug)]
enum MapValue {
    Number(i64),
    Code([u8; 2]),
}

impl MapValue {
    /// Number of this type; `None` for a code, and for a number out of range.
    fn number<N: TryFrom<i64>>(self) -> Option<N> {
        match self {
            Self::Number(number) => N::try_from(number).ok(),
            Self::Code(_) => None,
        }
    }

    fn code(self) -> Option<[u8; 2]> {
        match self {
            Self::Number(_) => None,
            Self::Code(code) => Some(code),
        }
    }
}

/// An object, or `None` for null.
fn object_of<T>(reply: Reply<'_>, of: impl Fn(&[MapValue]) -> Option<T>) -> Option<Option<T>> {
    match reply {
        Reply::Null => Some(None),
        reply => of(&map_of(reply)?).map(Some),
    }
}
