//! Clients: one that speaks RESP to any server, and one of each service.
//!
//! A client blocks its caller. Requests may be pipelined: [`RespClient::request`] several, then
//! [`RespClient::receive`] as many replies. No client tries a request again: one that has failed may have been carried
//! out.
//!
//! Neighbours: `ensile-resp` has the codec; applications, tests and load generators call.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use ensile_resp::{ProtocolError, Reply, ReplyDecoder, ReplyLimits, encode_request};

/// What can go wrong with a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection: what was asked may have been done. Connect again.
    #[error("the connection to the server: {0}")]
    Connection(#[from] io::Error),
    /// What came is no RESP: this is another server.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The server's error reply: its code, and what happened.
    #[error("the server replied: {0}")]
    Refused(Box<str>),
    /// A reply of another type than the request has: this is another service.
    #[error("the server's reply is of another type: {0}")]
    Unexpected(Box<str>),
}

/// What calls of a client return.
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

/// The least that a read has room for.
const READ_BYTES: usize = 16 << 10;

impl RespClient {
    /// Connects.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(address: impl ToSocketAddrs) -> ClientResult<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let decoder = ReplyDecoder::new(ReplyLimits::default());
        Ok(Self { stream, decoder, received: Vec::new(), consumed: 0, to_send: Vec::new() })
    }

    /// A reply that does not come for this time is an error from now on; `None` waits for ever.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> ClientResult<()> {
        Ok(self.stream.set_read_timeout(timeout)?)
    }

    /// Puts a request behind those that are to be sent.
    pub fn request<A: AsRef<[u8]>>(&mut self, arguments: &[A]) {
        encode_request(&mut self.to_send, arguments);
    }

    /// Sends what is to be sent.
    ///
    /// # Errors
    /// [`ClientError::Connection`].
    pub fn send(&mut self) -> ClientResult<()> {
        let sent = self.stream.write_all(&self.to_send);
        self.to_send.clear();
        Ok(sent?)
    }

    /// Sends what is to be sent and shows the next reply, an error too.
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
                self.consumed += decoded.consumed();
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

    /// One request and its reply.
    ///
    /// # Errors
    /// Those of [`receive`](Self::receive); [`ClientError::Refused`]; and [`ClientError::Unexpected`] where `look` says
    /// that this is no reply to it.
    pub fn call<A: AsRef<[u8]>, R>(
        &mut self,
        arguments: &[A],
        look: impl FnOnce(Reply<'_>) -> Option<R>,
    ) -> ClientResult<R> {
        self.request(arguments);
        self.receive(|reply| match reply {
            Reply::Error(error) => Err(ClientError::Refused(String::from_utf8_lossy(error).into())),
            reply => look(reply).ok_or_else(|| ClientError::Unexpected(format!("{reply:?}").into())),
        })?
    }

    /// Asks the server to make everything durable and to end.
    ///
    /// # Errors
    /// Those of [`call`](Self::call), if the server refuses.
    pub fn shut_down(&mut self) -> ClientResult<()> {
        match self.call(&["SHUTDOWN"], |_| None::<()>) {
            // It replies by its end.
            Err(ClientError::Connection(_)) => Ok(()),
            other => other,
        }
    }
}

/// A reply in words, for people and tests: text as it is, lines behind `+`, errors behind `!`, numbers behind `:`, `-`
/// for no value, and brackets around several.
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
pub(crate) fn integer_of(reply: Reply<'_>) -> Option<i64> {
    match reply {
        Reply::Integer(number) => Some(number),
        _ => None,
    }
}

/// A string, or none.
pub(crate) fn value_of(reply: Reply<'_>) -> Option<Option<Vec<u8>>> {
    match reply {
        Reply::Bulk(bytes) => Some(Some(bytes.to_vec())),
        Reply::Null => Some(None),
        _ => None,
    }
}

/// Several replies.
pub(crate) fn all_of<R>(reply: Reply<'_>, one: impl Fn(Reply<'_>) -> Option<R>) -> Option<Vec<R>> {
    match reply {
        Reply::Array(replies) => replies.map(one).collect(),
        _ => None,
    }
}

/// A client of the hash table, [`crate::pht`].
#[derive(Debug)]
pub struct TableClient(RespClient);

impl TableClient {
    /// Connects.
    ///
    /// # Errors
    /// [`ClientError::Connection`].
    pub fn connect(address: impl ToSocketAddrs) -> ClientResult<Self> {
        RespClient::connect(address).map(Self)
    }

    /// The connection, for other commands.
    pub fn connection(&mut self) -> &mut RespClient {
        &mut self.0
    }

    /// A value, if it is there.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn get(&mut self, key: &[u8]) -> ClientResult<Option<Vec<u8>>> {
        self.0.call(&[&b"GET"[..], key], value_of)
    }

    /// Values, in the order of their keys, in one round trip.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn get_many(&mut self, keys: &[&[u8]]) -> ClientResult<Vec<Option<Vec<u8>>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let arguments: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(keys.iter().copied()).collect();
        self.0.call(&arguments, |reply| all_of(reply, value_of))
    }

    /// Sets a value.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> ClientResult<()> {
        self.0.call(&[&b"SET"[..], key, value], is_ok)?;
        Ok(())
    }

    /// Sets a value if the one that is there is `expected`, or if there is none and none is expected. Whether it was.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn compare_and_set(
        &mut self,
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> ClientResult<bool> {
        match expected {
            Some(expected) => self.0.call(&[&b"SET"[..], key, value, b"IFEQ", expected], is_ok),
            None => self.0.call(&[&b"SET"[..], key, value, b"NX"], is_ok),
        }
    }

    /// Deletes an element; whether it was there.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn delete(&mut self, key: &[u8]) -> ClientResult<bool> {
        Ok(self.0.call(&[&b"DEL"[..], key], integer_of)? == 1)
    }

    /// Adds to a whole number, which is zero where there is none. What it is then.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn increment(&mut self, key: &[u8], by: i64) -> ClientResult<i64> {
        self.0.call(&[&b"INCRBY"[..], key, by.to_string().as_bytes()], integer_of)
    }

    /// A step of a scan: keys, and the cursor to go on from; zero begins, and zero says that it was the last step.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn scan(&mut self, cursor: u64, count: usize) -> ClientResult<(u64, Vec<Vec<u8>>)> {
        let (cursor, count) = (cursor.to_string(), count.to_string());
        self.0.call(&["SCAN", &cursor, "COUNT", &count], |reply| {
            let Reply::Array(mut parts) = reply else { return None };
            let Reply::Bulk(next) = parts.next()? else { return None };
            let keys = all_of(parts.next()?, value_of)?.into_iter().flatten().collect();
            Some((std::str::from_utf8(next).ok()?.parse().ok()?, keys))
        })
    }

    /// Asks the server to make everything durable and to end.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn shut_down(&mut self) -> ClientResult<()> {
        self.0.shut_down()
    }
}

/// Whether it says `OK`, and not that there was nothing to do.
fn is_ok(reply: Reply<'_>) -> Option<bool> {
    match reply {
        Reply::Simple(b"OK") => Some(true),
        Reply::Null => Some(false),
        _ => None,
    }
}
