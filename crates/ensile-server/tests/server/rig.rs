//! A server over simulated sockets, whose steps a test drives, and its clients.
//!
//! A test writes requests and replies as lines: `GET a | $1 x`. The reply stands as its bytes, with a space for each
//! line end, so types are visible in both versions of the protocol.

use std::cell::RefMut;
use std::sync::Arc;
use std::time::Duration;

use ensile::Database;
use ensile_base::clock::Clock;
use ensile_net::simulation::{ClientId, SimulatedTransport};
use ensile_resp::{ReplyDecoder, ReplyLimits, encode_request};
use ensile_server::simulation::SimulatedServer;
use ensile_server::{Server, ServerBuilder};
use ensile_sim::SimDisk;

/// Number of steps after which a missing reply does not come any more.
const STEPS_MAX: u64 = 20_000;

/// A server, and the first client.
pub(crate) struct Rig {
    pub(crate) server: SimulatedServer,
    pub(crate) clock: Clock,
    /// Client of [`Rig::play`].
    pub(crate) client: ClientId,
    /// True if the log is written and synced in each step.
    pub(crate) syncs: bool,
    /// Number of received bytes that a test has looked at, by client.
    seen: Vec<(ClientId, usize)>,
}

impl Rig {
    /// A server without a log.
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    /// A server without a log, with these settings.
    pub(crate) fn with(set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let clock = Clock::manual();
        let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads();
        Self::over(builder.open().expect("a new database"), &clock, set)
    }

    /// A server without a database, until [`Rig::load`].
    pub(crate) fn loading(set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let clock = Clock::manual();
        let server = set(Server::builder_of_loading()).build_simulated(&clock, 1).expect("known settings");
        Self::of(server, &clock)
    }

    /// Gives the server a new database, without a log.
    pub(crate) fn load(&mut self) {
        let builder = Database::builder_in_memory().manual_clock(self.clock.clone()).without_threads();
        self.server.load(builder.open().expect("a new database")).expect("new tables");
    }

    /// A server without a log, with a limit of the memory in bytes.
    pub(crate) fn limited(bytes: u64) -> Self {
        let clock = Clock::manual();
        let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads();
        let db = builder.memory_bytes_max(bytes).open().expect("a new database");
        Self::over(db, &clock, |builder| builder)
    }

    /// A server with a log on this disk.
    pub(crate) fn on(disk: &SimDisk, set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let clock = Clock::manual();
        let builder = Database::builder("/").disk(Arc::new(disk.mounted())).manual_clock(clock.clone());
        Self::over(builder.without_threads().open().expect("the disk works"), &clock, set)
    }

    fn over(db: Database, clock: &Clock, set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let server = set(Server::builder(db)).build_simulated(clock, 1).expect("new tables");
        Self::of(server, clock)
    }

    fn of(mut server: SimulatedServer, clock: &Clock) -> Self {
        let client = server.transport_mut().connect(1 << 20, 1 << 20);
        Self { server, clock: clock.clone(), client, syncs: true, seen: Vec::new() }
    }

    pub(crate) fn clients(&mut self) -> RefMut<'_, SimulatedTransport> {
        self.server.transport_mut()
    }

    pub(crate) fn connect(&mut self) -> ClientId {
        self.clients().connect(1 << 20, 1 << 20)
    }

    pub(crate) fn step(&mut self) {
        assert!(self.server.step(), "no client has asked for the end");
        self.clock.advance(Duration::from_millis(1));
        if self.server.is_open() {
            self.server.database().heartbeat_step();
            self.server.database().boundary_step();
            while self.syncs && self.server.database().logger_step(0) {}
        }
    }

    pub(crate) fn steps(&mut self, count: u64) {
        (0..count).for_each(|_| self.step());
    }

    /// Lets time pass, without the sweeper.
    pub(crate) fn pass(&mut self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
        self.step();
    }

    pub(crate) fn send(&mut self, client: ClientId, words: &[&[u8]]) {
        let mut bytes = Vec::new();
        encode_request(&mut bytes, words);
        self.clients().send(client, &bytes);
    }

    /// Bytes of the next reply to a client, if the reply is there.
    pub(crate) fn received(&mut self, client: ClientId) -> Option<Vec<u8>> {
        if !self.seen.iter().any(|(of, _)| *of == client) {
            self.seen.push((client, 0));
        }
        let transport = self.server.transport_mut();
        let bytes = transport.received_bytes(client);
        let (_, at) = self.seen.iter_mut().find(|(of, _)| *of == client)?;
        let mut decoder = ReplyDecoder::new(ReplyLimits::default());
        let length = decoder.decode(&bytes[*at..]).expect("a reply is RESP")?.consumed_bytes();
        let reply = bytes[*at..*at + length].to_vec();
        *at += length;
        Some(reply)
    }

    /// Sends a request, and waits for its reply.
    pub(crate) fn ask_bytes(&mut self, client: ClientId, words: &[&[u8]]) -> Vec<u8> {
        self.send(client, words);
        for _ in 0..STEPS_MAX {
            if let Some(reply) = self.received(client) {
                return reply;
            }
            self.step();
        }
        panic!(
            "no reply to {:?}",
            words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>()
        );
    }

    /// As [`Rig::ask_bytes`], for a line of words.
    pub(crate) fn ask(&mut self, client: ClientId, line: &str) -> String {
        let words = words(line);
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        shown(&self.ask_bytes(client, &words))
    }

    /// Sends the requests of a script one after the other, and compares the replies. A script has a line for each
    /// request: the request, a bar, the reply; `..` at the end of a reply stands for any rest.
    pub(crate) fn play(&mut self, script: &str) {
        self.play_as(self.client, script);
    }

    /// As [`Rig::play`], for another client.
    pub(crate) fn play_as(&mut self, client: ClientId, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (request, expected) = line.split_once(" | ").expect("a request, a bar, a reply");
            let reply = self.ask(client, request.trim());
            match expected.trim().strip_suffix("..") {
                Some(begin) => assert!(reply.starts_with(begin), "{request}\n got {reply}\nnot {begin}.."),
                None => assert_eq!(reply, expected.trim(), "{request}"),
            }
        }
    }
}

/// The words of a line. `''` is an empty word, and `\s` a space.
fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(|word| word.replace("''", "").replace("\\s", " ")).collect()
}

/// A reply on a line.
pub(crate) fn shown(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).replace("\r\n", " ").trim_end().to_owned()
}
