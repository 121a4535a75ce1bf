//! A server over simulated sockets and a simulated disk, whose steps a test drives, and its clients.

use std::cell::RefMut;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_net::ListenAddress;
use ensile_net::NetLimits;
use ensile_net::simulation::{ClientId, SimulatedTransport};
use ensile_objects::{CheckpointPolicy, ObjectDurability, ObjectsBuilder, ObjectsResult};
use ensile_resp::{ReplyDecoder, ReplyLimits, encode_request};
use ensile_services::client::in_words;
use ensile_services::server::{LIMITS, ServiceLoop, server_state};
use ensile_services::service::Service;
use ensile_sim::SimDisk;

/// How a service opens its folder.
pub(crate) type Open<S> = fn(ObjectsBuilder) -> ObjectsResult<S>;

/// A server and what it stands on.
pub(crate) struct Rig<S: Service> {
    pub(crate) server: ServiceLoop<SimulatedTransport, S>,
    pub(crate) service: Arc<S>,
    pub(crate) clock: Clock,
    /// Whether logger, heartbeat and checkpointer have their turns.
    pub(crate) keeps: bool,
    /// What people were told.
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
}

impl<S: Service> Rig<S> {
    pub(crate) fn new(seed: u64, open: Open<S>) -> Self {
        Self::on(&SimDisk::new(), seed, open, LIMITS)
    }

    pub(crate) fn on(disk: &SimDisk, seed: u64, open: Open<S>, limits: NetLimits) -> Self {
        Self::with(disk, seed, open, limits, ObjectDurability::Strict)
    }

    /// With a limit of memory over all clients, in bytes.
    pub(crate) fn with_client_memory(
        disk: &SimDisk,
        seed: u64,
        open: Open<S>,
        limits: NetLimits,
        bytes_max: usize,
    ) -> Self {
        let durability = ObjectDurability::Strict;
        Self::try_with(disk, seed, open, limits, durability, Some(bytes_max)).expect("it opens")
    }

    pub(crate) fn with(
        disk: &SimDisk,
        seed: u64,
        open: Open<S>,
        limits: NetLimits,
        durability: ObjectDurability,
    ) -> Self {
        Self::try_with(disk, seed, open, limits, durability, None).expect("it opens")
    }

    pub(crate) fn try_with(
        disk: &SimDisk,
        seed: u64,
        open: Open<S>,
        limits: NetLimits,
        durability: ObjectDurability,
        client_memory: Option<usize>,
    ) -> ObjectsResult<Self> {
        let clock = Clock::manual();
        let objects = ObjectsBuilder::new("/")
            .disk(Arc::new(disk.mounted()))
            .manual_clock(clock.clone())
            .policy(&CheckpointPolicy::on_demand())
            .durability(durability)
            .recovery_threads(1)
            .without_threads();
        let service = Arc::new(open(objects)?);
        let notices = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&notices);
        let state = server_state(Arc::clone(&service), durability, clock.clone())
            .with_client_memory(client_memory)
            .with_notice_handler(move |notice| told.lock().expect("no panic").push(notice.to_owned()));
        let state = Arc::new(state);
        let mut server = ServiceLoop::new(SimulatedTransport::new(clock.clone(), seed), state, limits);
        let address = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        server.listen(&address).expect("it is simulated");
        Ok(Self { server, service, clock, keeps: true, notices })
    }

    pub(crate) fn clients(&mut self) -> RefMut<'_, SimulatedTransport> {
        self.server.transport_mut()
    }

    /// A client that takes all that comes.
    pub(crate) fn connect(&mut self) -> ClientId {
        self.clients().connect(1 << 20, 1 << 20)
    }

    pub(crate) fn step(&mut self) -> bool {
        let goes_on = self.server.step(Duration::from_micros(200)).expect("it is simulated");
        if self.keeps {
            self.clock.advance(Duration::from_millis(1));
            self.service.persistent_objects().step();
        }
        goes_on
    }

    pub(crate) fn steps(&mut self, count: u64) {
        (0..count).for_each(|_| assert!(self.step(), "nobody has ended it"));
    }

    /// Steps until `done`, a bounded number of times.
    pub(crate) fn run(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..100_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("never: {what}");
    }

    /// What a client is told for these requests, each a line of words.
    pub(crate) fn told(&mut self, lines: &[&str]) -> Vec<String> {
        let client = self.connect();
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| encode_request(&mut bytes, &line.split(' ').collect::<Vec<_>>()));
        self.clients().send(client, &bytes);
        self.clients().end(client);
        self.run("all is replied", |rig| rig.clients().has_closed(client));
        replies(self.clients().received_bytes(client))
    }
}

/// Replies in words.
pub(crate) fn replies(mut received: &[u8]) -> Vec<String> {
    let mut decoder = ReplyDecoder::new(ReplyLimits::default());
    let mut all = Vec::new();
    while let Some(reply) = decoder.decode(received).expect("it is RESP") {
        all.push(in_words(reply.reply()));
        let consumed = reply.consumed_bytes();
        received = &received[consumed..];
    }
    all
}
