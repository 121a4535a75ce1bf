//! Connections of a load generator: none blocks, and one wait is for all connections.
//!
//! Invariant: the replies of a connection are the replies to its requests, in the order of the requests.
//!
//! Neighbours: [`super::open_loop`] decides when a request is sent; the callers of [`super::open_loop`] evaluate
//! replies.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use ensile_bench::{Failure, Result};
use ensile_resp::{Reply as RespReply, ReplyDecoder, ReplyLimits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes of room for a read.
const READ_BYTES: usize = 64 << 10;

/// The reply to a request.
pub(super) struct Reply {
    /// Index of the connection.
    pub(super) connection: usize,
    /// The intended arrival of the request, in nanoseconds.
    pub(super) arrived: u64,
    /// True if the reply is no error.
    pub(super) is_good: bool,
}

struct Connection {
    stream: TcpStream,
    decoder: ReplyDecoder,
    /// Received bytes. The bytes up to `received_end` wait for the decoder; the rest is room.
    received: Vec<u8>,
    received_end: usize,
    to_send: Vec<u8>,
    sent: usize,
    /// The intended arrivals of requests without a reply.
    under_way: VecDeque<u64>,
}

/// All connections.
pub(super) struct Clients(Vec<Connection>);

impl Clients {
    pub(super) fn connect(address: SocketAddr, count: usize) -> Result<Self> {
        let connect = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(Connection {
                stream,
                decoder: ReplyDecoder::new(ReplyLimits::default()),
                received: Vec::new(),
                received_end: 0,
                to_send: Vec::new(),
                sent: 0,
                under_way: VecDeque::new(),
            })
        };
        let all: io::Result<Vec<Connection>> = (0..count).map(|_| connect()).collect();
        Ok(Self(all.map_err(Failure::io(format!("connecting to {address}")))?))
    }

    /// Number of requests without a reply.
    pub(super) fn under_way(&self) -> usize {
        self.0.iter().map(|one| one.under_way.len()).sum()
    }

    /// Appends an encoded request to the bytes that a connection is to send.
    pub(super) fn request(&mut self, connection: usize, arrived: u64, append: impl FnOnce(&mut Vec<u8>)) {
        let one = &mut self.0[connection];
        append(&mut one.to_send);
        one.under_way.push_back(arrived);
    }

    /// Sends as many bytes as possible, and calls `tell` for every received reply.
    pub(super) fn exchange(&mut self, mut tell: impl FnMut(Reply)) -> Result<()> {
        let mut all = self.0.iter_mut().enumerate();
        all.try_for_each(|(connection, one)| {
            one.send()?;
            one.receive(|arrived, is_good| tell(Reply { connection, arrived, is_good }))
        })
        .map_err(Failure::io("talking to the service"))
    }

    /// Waits until a receive or a send is possible, at most `nanos` nanoseconds.
    pub(super) fn wait(&self, nanos: u64) -> Result<()> {
        let mut all: Vec<PollFd<'_>> = self
            .0
            .iter()
            .map(|one| {
                let sends = if one.sent < one.to_send.len() { PollFlags::OUT } else { PollFlags::empty() };
                PollFd::new(&one.stream, PollFlags::IN | sends)
            })
            .collect();
        let wait =
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        match poll(&mut all, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::io("waiting for the service")(error.into())),
        }
    }
}

impl Connection {
    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.to_send.len() {
            match self.stream.write(&self.to_send[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.to_send.clear();
        self.sent = 0;
        Ok(())
    }

    fn receive(&mut self, mut tell: impl FnMut(u64, bool)) -> io::Result<()> {
        if self.under_way.is_empty() {
            return Ok(());
        }
        loop {
            if self.received.len() < self.received_end + READ_BYTES {
                self.received.resize(self.received_end + READ_BYTES, 0);
            }
            let room = &mut self.received[self.received_end..];
            let room_bytes = room.len();
            match self.stream.read(room) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    let is_all = bytes < room_bytes;
                    self.received_end += bytes;
                    self.take_replies(&mut tell)?;
                    if is_all {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn take_replies(&mut self, tell: &mut impl FnMut(u64, bool)) -> io::Result<()> {
        let (mut consumed, end) = (0, self.received_end);
        let received = &self.received[..end];
        while let Some(decoded) = self.decoder.decode(&received[consumed..]).map_err(io::Error::other)? {
            let is_good = !matches!(decoded.reply(), RespReply::Error(_));
            consumed += decoded.consumed_bytes();
            let arrived = self.under_way.pop_front();
            let none = || io::Error::other("a reply came that nobody had asked for");
            tell(arrived.ok_or_else(none)?, is_good);
        }
        self.received.copy_within(consumed..end, 0);
        self.received_end = end - consumed;
        Ok(())
    }
}
