//! A connection whose errors end a client's life: the server is killed while clients wait.
//!
//! Neighbours: `workload` sends transactions.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use ensile_resp::{Reply, ReplyDecoder, ReplyLimits, encode_request};

/// Words of a request.
pub(crate) type Words = Vec<Vec<u8>>;

/// An owned reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Error(String),
    List(Vec<Value>),
}

impl Value {
    fn of(reply: Reply<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match reply {
            Reply::Null => Self::Null,
            Reply::Integer(number) => Self::Integer(number),
            Reply::Bulk(bytes) | Reply::Simple(bytes) => Self::Text(text(bytes)),
            Reply::Error(bytes) => Self::Error(text(bytes)),
            Reply::Array(replies) => Self::List(replies.map(Self::of).collect()),
            other => panic!("a reply of another version: {other:?}"),
        }
    }
}

/// A client's connection.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends requests at once, and waits for their replies.
    pub(crate) fn ask(&mut self, requests: &[Words]) -> io::Result<Vec<Value>> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|words| encode_request(&mut bytes, words));
        self.stream.write_all(&bytes)?;
        requests.iter().map(|_| self.next()).collect()
    }

    fn next(&mut self) -> io::Result<Value> {
        let mut decoder = ReplyDecoder::new(ReplyLimits::default());
        loop {
            if let Some(reply) = decoder.decode(&self.received).map_err(io::Error::other)? {
                let (value, length) = (Value::of(reply.reply()), reply.consumed_bytes());
                self.received.drain(..length);
                return Ok(value);
            }
            let mut part = [0; 16 << 10];
            let length = self.stream.read(&mut part)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(&part[..length]);
        }
    }
}
