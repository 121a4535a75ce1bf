//! A server over simulated sockets, in memory or on a simulated disk, and the clients of a target.
//!
//! Invariant: each request of a client gets exactly one reply, or the end of the connection. A subscription gets a
//! confirmation for each channel. Messages come beside.
//!
//! Neighbours: the targets `commands` and `sandbox` play the clients; `agreement` looks at the state behind the
//! requests.

mod agreement;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ensile::Database;
use ensile_base::clock::Clock;
use ensile_net::simulation::ClientId;
use ensile_resp::{Reply, ReplyDecoder, ReplyLimits, encode_request};
use ensile_server::simulation::SimulatedServer;
use ensile_server::{ProcedureError, Server};
use ensile_sim::SimDisk;

/// Number of steps after which a client without its reply waits for another client.
const STEPS_MAX: u32 = 300;
/// Number of steps after which the reply to a client that waits for nobody does not come any more.
const STEPS_OF_NEW_MAX: u32 = 20_000;
/// Time of a script in simulated milliseconds after which the other clients are served.
const BUSY_MILLIS: u64 = 1;
/// Longest time of a script in simulated milliseconds.
const SCRIPT_MILLIS_MAX: u64 = 2;
/// Number of rounds after which a waiting client cannot be ended.
const ROUNDS_MAX: usize = 200;

pub(crate) type Words = Vec<Vec<u8>>;

/// A server, and its clients.
pub(crate) struct Served {
    server: SimulatedServer,
    clock: Clock,
    /// Disk of a server with a log.
    disk: Option<SimDisk>,
    clients: Vec<Client>,
    /// True once a client has asked for the server's end.
    has_ended: bool,
}

/// A client, with the replies that are to come.
struct Client {
    id: ClientId,
    /// Number of received bytes that are looked at.
    looked_at: usize,
    expected: VecDeque<Expected>,
    /// The replies so far; `None` for a client whose replies are not kept.
    replies: Option<Vec<Vec<u8>>>,
    /// False for a client whose bytes are no requests.
    is_checked: bool,
}

/// Replies to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    One,
    /// So many confirmations, or one error.
    Confirmations {
        count: usize,
        left: usize,
    },
}

/// Kind of a received reply.
enum Received {
    Reply { is_error: bool },
    Confirmation,
    Message,
}

impl Served {
    /// A server whose sockets behave by a seed, without a log.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(None, seed)
    }

    /// As [`Served::new`], with a log whose results are durable before the replies.
    pub(crate) fn on_disk(seed: u64) -> Self {
        Self::with(Some(SimDisk::new()), seed)
    }

    fn with(disk: Option<SimDisk>, seed: u64) -> Self {
        let clock = Clock::manual();
        let server = open(disk.as_ref(), &clock, seed);
        Self { server, clock, disk, clients: Vec::new(), has_ended: false }
    }

    /// Cuts the power of the disk, and opens the folder again, with a new server.
    pub(crate) fn cut_power(self, seed: u64) -> Option<Self> {
        let disk = self.disk?;
        disk.crash(seed);
        drop(self.server);
        let server = open(Some(&disk), &self.clock, seed);
        Some(Self { server, clock: self.clock, disk: Some(disk), clients: Vec::new(), has_ended: false })
    }

    /// Number of a new client.
    pub(crate) fn connect(&mut self) -> usize {
        self.connect_with(None, true)
    }

    /// Number of a new client whose bytes are no requests.
    pub(crate) fn connect_stranger(&mut self) -> usize {
        self.connect_with(None, false)
    }

    fn connect_with(&mut self, replies: Option<Vec<Vec<u8>>>, is_checked: bool) -> usize {
        let id = self.server.transport_mut().connect(1 << 20, 1 << 20);
        self.clients.push(Client { id, looked_at: 0, expected: VecDeque::new(), replies, is_checked });
        self.clients.len() - 1
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(crate) fn send(&mut self, client: usize, words: &[impl AsRef<[u8]>]) {
        let mut bytes = Vec::new();
        encode_request(&mut bytes, words);
        let name = words.first().map(AsRef::as_ref).unwrap_or_default().to_ascii_uppercase();
        let client = &mut self.clients[client];
        client.expected.push_back(match (name.ends_with(b"SUBSCRIBE"), words.len() - 1) {
            (true, count @ 1..) => Expected::Confirmations { count, left: count },
            _ => Expected::One,
        });
        self.server.transport_mut().send(client.id, &bytes);
    }

    /// Sends bytes that are no request.
    pub(crate) fn send_bytes(&mut self, client: usize, bytes: &[u8]) {
        let client = &self.clients[client];
        debug_assert!(!client.is_checked, "the bytes may be any number of requests");
        self.server.transport_mut().send(client.id, bytes);
    }

    fn step(&mut self) {
        if self.has_ended {
            return;
        }
        if !self.server.step() {
            self.has_ended = true;
            return;
        }
        self.clock.advance(Duration::from_millis(1));
        self.server.database().heartbeat_step();
        self.server.database().boundary_step();
        if self.disk.is_some() {
            while self.server.database().logger_step(0) {}
            self.server.database().checkpoint_step(0);
        }
        (0..self.clients.len()).for_each(|client| self.receive(client));
    }

    /// Takes steps until the client has its replies, or waits for another client.
    pub(crate) fn settle(&mut self, client: usize) {
        self.settle_within(client, STEPS_MAX);
    }

    fn settle_within(&mut self, client: usize, steps_max: u32) {
        for _ in 0..steps_max {
            if self.has_ended || self.is_settled(client) {
                return;
            }
            self.step();
        }
    }

    fn is_settled(&mut self, client: usize) -> bool {
        let Client { id, is_checked, .. } = self.clients[client];
        self.clients[client].expected.is_empty() && is_checked || self.server.transport_mut().has_closed(id)
    }

    /// Looks at the received bytes of a client.
    fn receive(&mut self, client: usize) {
        let Client { id, is_checked, expected, replies, looked_at } = &mut self.clients[client];
        let transport = self.server.transport_mut();
        let bytes = &transport.received_bytes(*id)[*looked_at..];
        let mut rest = bytes;
        let mut decoder = ReplyDecoder::new(ReplyLimits::default());
        while let Some(decoded) = decoder.decode(rest).expect("every reply is RESP") {
            let (received, length) = (kind_of(decoded.reply()), decoded.consumed_bytes());
            if *is_checked {
                match (received, expected.front().copied()) {
                    (Received::Message, _) => {}
                    (Received::Reply { .. }, Some(Expected::One)) => drop(expected.pop_front()),
                    (Received::Reply { is_error: true }, Some(Expected::Confirmations { count, left })) => {
                        assert_eq!(count, left, "an error behind a confirmation");
                        expected.pop_front();
                    }
                    (Received::Confirmation, Some(Expected::Confirmations { count, left })) => {
                        expected.pop_front();
                        if left > 1 {
                            expected.push_front(Expected::Confirmations { count, left: left - 1 });
                        }
                    }
                    (_, other) => {
                        panic!("{:?} for {other:?}", String::from_utf8_lossy(&rest[..length.min(300)]))
                    }
                }
            }
            if let Some(replies) = replies {
                replies.push(rest[..length].to_vec());
            }
            rest = &rest[length..];
        }
        *looked_at += bytes.len() - rest.len();
    }

    /// Takes steps until every client has its replies. Clients that wait for a key are ended by `CLIENT UNBLOCK`.
    ///
    /// # Panics
    /// A request has no reply.
    pub(crate) fn settle_all(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let is_checked = |client: &usize| self.clients[*client].is_checked;
            let checked: Vec<usize> = (0..self.clients.len()).filter(is_checked).collect();
            checked.iter().for_each(|client| self.settle(*client));
            if self.has_ended || checked.into_iter().all(|client| self.is_settled(client)) {
                return;
            }
            let ids = self.ask_new(&[vec![b"CLIENT".to_vec(), b"LIST".to_vec()]]);
            let ids =
                ids.first().map(|reply| String::from_utf8_lossy(reply).into_owned()).unwrap_or_default();
            let numbers = ids.split_ascii_whitespace().filter_map(|word| word.strip_prefix("id="));
            let unblock = |id: &str| [b"CLIENT".to_vec(), b"UNBLOCK".to_vec(), id.into()].to_vec();
            let requests: Vec<Words> = numbers.map(unblock).collect();
            self.ask_new(&requests);
        }
        let waiting: Vec<_> = self.clients.iter().map(|client| &client.expected).collect();
        panic!("a request has no reply: {waiting:?}");
    }

    /// Sends requests as a new client, and returns the replies. There are fewer replies if the server has ended, or if
    /// another client has ended the connection.
    pub(crate) fn ask_new(&mut self, requests: &[Words]) -> Vec<Vec<u8>> {
        let client = self.connect_with(Some(Vec::new()), true);
        for request in requests {
            self.send(client, request);
        }
        self.settle_within(client, STEPS_OF_NEW_MAX);
        let is_complete = self.clients[client].expected.is_empty();
        self.server.transport_mut().vanish(self.clients[client].id);
        let gone = self.clients.remove(client);
        assert!(is_complete || self.has_ended, "no reply to a new client: {:?}", gone.expected);
        gone.replies.unwrap_or_default()
    }
}

/// A server over a disk, or without a log.
fn open(disk: Option<&SimDisk>, clock: &Clock, seed: u64) -> SimulatedServer {
    let builder = match disk {
        Some(disk) => Database::builder("/").disk(Arc::new(disk.mounted())),
        None => Database::builder_in_memory(),
    };
    let db = builder.manual_clock(clock.clone()).without_threads().open().expect("the disk works");
    Server::builder(db)
        .busy_reply_threshold(Duration::from_millis(BUSY_MILLIS))
        .script_time_limit(Duration::from_millis(SCRIPT_MILLIS_MAX))
        .procedure("f", |call| match call.arguments() {
            [] => Err(ProcedureError::Reply("ERR a procedure without arguments".to_owned())),
            words => {
                let words = words.to_vec();
                call.command(&words)
            }
        })
        .build_simulated(clock, seed)
        .expect("the tables are of this server")
}

/// Kind of a reply. The words of the targets' values are no kinds of messages.
fn kind_of(reply: Reply<'_>) -> Received {
    let first = match reply {
        Reply::Array(mut replies) | Reply::Push(mut replies) => replies.next(),
        Reply::Error(_) => return Received::Reply { is_error: true },
        _ => None,
    };
    match first {
        Some(Reply::Bulk(b"message" | b"pmessage" | b"smessage")) => Received::Message,
        Some(Reply::Bulk(word)) if word.ends_with(b"subscribe") => Received::Confirmation,
        _ => Received::Reply { is_error: false },
    }
}
