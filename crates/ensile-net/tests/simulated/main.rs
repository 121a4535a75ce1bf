//! A server of lines over the simulated transport: order, bounds and limits under what a seed brings.
//!
//! Each request is a line; its reply is the same line. Some replies are told at once, others are parked, and told later
//! in any order.

mod memory;
mod tls;
mod tls_client;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::Arc;
use ensile_net::simulation::{ClientId, RingCases, SimulatedTransport};
use ensile_net::{
    CheckedLoop, CloseReason, ConnectionId, ConnectionMemory, ListenAddress, NetEvent, NetLimits, NetLoop,
    ReplySlot, TlsConfig,
};

const LIMITS: NetLimits = NetLimits {
    connections_max: 6,
    unread_bytes_max: 300,
    unsent_bytes_max: 1000,
    parked_max: 7,
    idle: Some(Duration::from_secs(30)),
    stalled: Duration::from_secs(5),
    ending: Duration::from_secs(22),
    handshake: Duration::from_secs(4),
    keepalive: None,
    linger: Duration::from_secs(3),
    linger_bytes_max: 5000,
    room_kept: Duration::from_secs(1),
    step_bytes: 200,
    accept_pause: Duration::from_millis(100),
};

/// Room that a read has, at most, while nothing is unread.
const READ_BYTES: usize = 32 << 10;

struct Server {
    /// Checked in each step, and at the end that nothing is missing.
    net: CheckedLoop<SimulatedTransport>,
    limits: NetLimits,
    clock: Clock,
    random: Random,
    parked: Vec<(ReplySlot, Vec<u8>)>,
    /// Connections in the order in which they were opened: that of the clients.
    opened: Vec<ConnectionId>,
    closed: HashMap<ConnectionId, CloseReason>,
    /// Bytes of requests that were taken.
    taken: HashMap<ConnectionId, usize>,
    pauses: usize,
    /// Of a hundred replies this number is parked.
    parked_percent: u64,
    /// Each request is replied with as many copies of its line.
    copies: usize,
    /// Connections that were told to be silent.
    silent: Vec<ConnectionId>,
    /// Parked replies are told.
    tells: bool,
    /// Each request is set aside.
    sets_aside: bool,
    /// Connections whose request is set aside.
    set_aside: Vec<ConnectionId>,
    /// Bytes of the records that a read may bring beyond the limit of unread bytes.
    records_bytes: usize,
}

impl Server {
    fn new(seed: u64) -> Self {
        Self::with_limits(seed, LIMITS)
    }

    fn with_limits(seed: u64, limits: NetLimits) -> Self {
        Self::with_memory(seed, limits, &ConnectionMemory::new(usize::MAX))
    }

    fn with_memory(seed: u64, limits: NetLimits, memory: &Arc<ConnectionMemory>) -> Self {
        Self::listening(seed, limits, memory, None)
    }

    /// A server whose clients have TLS, if it has a configuration.
    fn listening(
        seed: u64,
        limits: NetLimits,
        memory: &Arc<ConnectionMemory>,
        tls: Option<TlsConfig>,
    ) -> Self {
        let clock = Clock::manual();
        let transport = SimulatedTransport::new(clock.clone(), seed);
        let net = NetLoop::new(transport, clock.clone(), limits).with_memory(Arc::clone(memory));
        let mut net = CheckedLoop::new(net);
        let address = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let records_bytes = if tls.is_some() { tls::RECORDS_BYTES } else { 0 };
        match tls {
            None => net.listen(&address),
            Some(tls) => net.listen_tls(&address, tls),
        }
        .expect("it is simulated");
        let random = Random::from_seed(seed ^ 0x5eed);
        Self {
            net,
            limits,
            clock,
            random,
            parked: Vec::new(),
            opened: Vec::new(),
            closed: HashMap::new(),
            taken: HashMap::new(),
            pauses: 0,
            parked_percent: 50,
            copies: 1,
            silent: Vec::new(),
            tells: true,
            sets_aside: false,
            set_aside: Vec::new(),
            records_bytes,
        }
    }

    fn clients(&mut self) -> &mut SimulatedTransport {
        self.net.transport_mut()
    }

    fn step(&mut self) {
        self.net.step(Duration::from_millis(1)).expect("it is simulated");
        while let Some(event) = self.net.next_event() {
            match event {
                NetEvent::Opened(id) => self.opened.push(id),
                NetEvent::Received(id) => self.serve(id),
                NetEvent::Closed(id, reason) => {
                    assert!(self.closed.insert(id, reason).is_none(), "closed twice")
                }
                NetEvent::Silent(id) => self.silent.push(id),
                NetEvent::AcceptPaused(_) => self.pauses += 1,
                NetEvent::TimerDue(_) | NetEvent::WokenUp => {}
            }
        }
        assert!(self.net.stats().open <= LIMITS.connections_max);
        while self.tells && !self.parked.is_empty() && self.random.percent(60) {
            let at = self.random.next_below(self.parked.len() as u64) as usize;
            let (slot, line) = self.parked.swap_remove(at);
            self.net.fill(slot, |buffer| buffer.extend(line));
        }
    }

    fn serve(&mut self, id: ConnectionId) {
        let Some((received, replies)) = self.net.parts(id) else { return };
        assert!(received.len() <= self.limits.unread_bytes_max + self.records_bytes, "W2");
        let mut consumed = 0;
        while let Some(end) = received[consumed..].iter().position(|&byte| byte == b'\n') {
            if !replies.has_room() {
                break;
            }
            if self.sets_aside {
                replies.set_aside();
                self.set_aside.push(id);
                break;
            }
            let line = &received[consumed..=consumed + end];
            let reply = line.repeat(self.copies);
            if self.random.percent(self.parked_percent) {
                self.parked.push((replies.reserve(reply.len()), reply));
            } else {
                replies.reply(|buffer| buffer.extend_from_slice(&reply));
            }
            assert!(
                replies.deferred_count() <= self.limits.parked_max
                    && replies.unsent_bytes() <= self.limits.unsent_bytes_max,
                "W2"
            );
            consumed += line.len();
        }
        self.net.consume(id, consumed);
        *self.taken.entry(id).or_default() += consumed;
    }

    /// Steps until `done`, a bounded number of times.
    fn run(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("never: {what}");
    }
}

/// Requests of a client, no two alike.
fn lines(client: usize, count: usize, random: &mut Random) -> Vec<u8> {
    let line = |number| format!("{client} {number} {}\n", "x".repeat(random.next_below(60) as usize));
    (0..count).map(line).collect::<String>().into_bytes()
}

#[test]
fn w18_a_client_that_ends_its_side_is_served_at_the_resume_of_its_request() {
    for seed in 0..40 {
        let mut server = Server::new(seed);
        (server.parked_percent, server.sets_aside) = (0, true);
        let client = server.clients().connect(1000, 1000);
        server.clients().send(client, b"a\nb\n");
        server.clients().end(client);
        for _ in 0..3 {
            server.run("the request is set aside", |server| !server.set_aside.is_empty());
            server.clock.advance(2 * LIMITS.idle.expect("a limit"));
            (0..20).for_each(|_| server.step());
            assert_eq!(server.set_aside.len(), 1, "W18: a request comes again at its resume, seed {seed}");
            assert!(server.closed.is_empty(), "W18: {:?}, seed {seed}", server.closed);
            let id = server.set_aside.remove(0);
            server.net.parts(id).expect("a connection").1.resume();
        }
        server.sets_aside = false;
        server.run("it is closed", |server| server.clients().has_closed(client));
        assert_eq!(server.clients().received_bytes(client), b"a\nb\n", "W18, seed {seed}");
    }
}

#[test]
fn replies_come_in_order_whatever_happens_to_others() {
    for seed in 0..150 {
        let mut server = Server::new(seed);
        let mut random = Random::from_seed(seed);
        let clients: Vec<ClientId> = (0..9)
            .map(|_| {
                let (window, speed) = (random.next_between(1, 200), random.next_between(1, 100));
                server.clients().connect(window as usize, speed as usize)
            })
            .collect();
        let sent: Vec<Vec<u8>> = (0..clients.len()).map(|client| lines(client, 40, &mut random)).collect();
        // The first vanishes at some moment; all others stay for their replies.
        let vanishes = random.next_below(sent[0].len() as u64) as usize;
        let mut left: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
        left[0] = &left[0][..vanishes];
        while left.iter().any(|rest| !rest.is_empty()) {
            for (at, client) in clients.iter().enumerate() {
                if random.percent(60) {
                    continue;
                }
                let (piece, rest) = left[at].split_at(left[at].len().min(random.next_below(90) as usize));
                server.clients().send(*client, piece);
                match (rest.is_empty(), at) {
                    (true, 0) => server.clients().vanish(*client),
                    (true, _) => server.clients().end(*client),
                    _ => {}
                }
                left[at] = rest;
            }
            server.step();
        }
        server.run("all are closed", |server| {
            clients[1..].iter().all(|client| server.net.transport_mut().has_closed(*client))
        });
        for (client, sent) in clients.iter().zip(&sent).skip(1) {
            let received = server.clients().received_bytes(*client);
            assert!(received == sent, "seed {seed}: W1, {client:?} has {} of {}", received.len(), sent.len());
        }
        assert!(sent[0].starts_with(server.clients().received_bytes(clients[0])), "W1");
        let ended = server.closed.values().filter(|reason| **reason == CloseReason::PeerEnded).count();
        assert!(ended >= 8 && server.net.stats().accepted == 9, "{ended}");
    }
}

#[test]
fn a_client_that_never_reads_is_dropped_and_holds_up_nobody() {
    for seed in 0..50 {
        let mut server = Server::new(seed);
        let mute = server.clients().connect(10, 0);
        let other = server.clients().connect(10, 10);
        let mut random = Random::from_seed(seed);
        let (much, few) = (lines(0, 1000, &mut random), lines(1, 20, &mut random));
        server.clients().send(mute, &much);
        server.clients().send(other, &few);
        server.run("the other is served", |server| server.clients().received_bytes(other) == few);
        let nanos = server.clock.nanos();
        assert!(
            nanos < LIMITS.stalled.as_nanos() as u64,
            "W4: it waited for the one that never reads: {nanos}"
        );
        server.run("it is dropped", |server| server.closed.contains_key(&server.opened[0]));
        assert_eq!(server.closed[&server.opened[0]], CloseReason::Stalled);
    }
}

#[test]
fn one_client_brings_in_a_share_a_step() {
    let limits = NetLimits { unread_bytes_max: usize::MAX, ..LIMITS };
    for seed in 0..20 {
        let mut server = Server::with_limits(seed, limits);
        let client = server.clients().connect(100, 100);
        server.clients().send(client, &vec![b'x'; 1 << 20]);
        let mut steps = 0;
        while server.net.stats().received_bytes < 1 << 20 {
            let before = server.net.stats().received_bytes;
            server.net.step(Duration::from_millis(1)).expect("it is simulated");
            let came = server.net.stats().received_bytes - before;
            if let Some(id) = server.opened.first().copied() {
                server.net.consume(id, usize::MAX);
            }
            server.opened.extend(std::iter::from_fn(|| server.net.next_event()).filter_map(
                |event| match event {
                    NetEvent::Opened(id) => Some(id),
                    _ => None,
                },
            ));
            // Two turns a step, each of which ends after the read that uses its share up.
            assert!(came <= 2 * (limits.step_bytes + READ_BYTES) as u64, "W4: {came}");
            steps += 1;
        }
        assert!(steps > 10);
    }
}

#[test]
fn pushes_beyond_the_limit_end_a_connection() {
    let mut server = Server::new(1);
    let mute = server.clients().connect(10, 0);
    server.run("it is open", |server| !server.opened.is_empty());
    let id = server.opened[0];
    let (_, replies) = server.net.parts(id).expect("it is open");
    replies.reply(|buffer| buffer.resize(LIMITS.unsent_bytes_max + 1, b'x'));
    assert_eq!(replies.unsent_bytes(), 0, "W2: nothing of it is kept");
    server.run("it is dropped", |server| !server.closed.is_empty());
    assert_eq!(server.closed[&id], CloseReason::Unsent);
    assert!(server.net.parts(id).is_none() && server.clients().received_bytes(mute).is_empty());
}

#[test]
fn idle_clients_are_dropped_unless_a_reply_is_parked() {
    for seed in 0..20 {
        let mut server = Server::new(seed);
        let (_quiet, waits) = (server.clients().connect(100, 100), server.clients().connect(100, 100));
        server.parked_percent = 100;
        server.tells = false;
        server.clients().send(waits, b"a\n");
        server.run("the quiet one is dropped", |server| !server.closed.is_empty());
        assert_eq!(server.closed[&server.opened[0]], CloseReason::Idle);
        let nanos = server.clock.nanos();
        assert!((30_000_000_000..36_000_000_000).contains(&nanos), "{nanos}");
        server.run("time passes", |server| server.clock.nanos() > 100_000_000_000);
        assert_eq!(server.closed.len(), 1, "W3: the other waits for a reply");
        server.tells = true;
        server.run("it is told", |server| server.clients().received_bytes(waits) == b"a\n");
        server.run("it is idle now", |server| server.closed.len() == 2);
        assert!(server.clock.nanos() >= 130_000_000_000);
    }
}

#[test]
fn a_client_that_vanishes_has_failed() {
    for seed in 0..20 {
        let mut server = Server::new(seed);
        let client = server.clients().connect(100, 100);
        server.clients().send(client, b"a\n");
        server.run("it is replied", |server| server.clients().received_bytes(client) == b"a\n");
        server.clients().vanish(client);
        server.run("it is closed", |server| server.closed.len() == 1);
        let failed = CloseReason::Failed(std::io::ErrorKind::ConnectionReset);
        assert_eq!(server.closed[&server.opened[0]], failed, "seed {seed}");
    }
}

#[test]
fn refused_accepts_pause_and_go_on() {
    let mut server = Server::new(3);
    server.clients().refuse_accepts(3);
    let client = server.clients().connect(100, 100);
    server.clients().send(client, b"a\n");
    server.run("it is served", |server| server.clients().received_bytes(client) == b"a\n");
    assert_eq!(server.pauses, 3);
    assert!(server.clock.nanos() >= 300_000_000, "W5: three pauses");
    assert!(server.clients().accepts() <= 10, "W5: {} calls", server.clients().accepts());
}

#[test]
fn a_connection_ends_after_its_replies() {
    for seed in 0..50 {
        let mut server = Server::new(seed);
        server.parked_percent = 100;
        let client = server.clients().connect(3, 1);
        server.clients().send(client, b"one\ntwo\n");
        server.tells = false;
        server.run("both are parked", |server| server.parked.len() == 2);
        server.net.close_when_sent(server.opened[0]);
        server.clients().send(client, b"three\n");
        (0..100).for_each(|_| server.step());
        assert!(server.closed.is_empty());
        server.tells = true;
        server.run("it is closed", |server| server.clients().has_closed(client));
        assert_eq!(server.clients().received_bytes(client), b"one\ntwo\n");
        server.run("it is forgotten", |server| !server.closed.is_empty());
        assert_eq!(server.closed[&server.opened[0]], CloseReason::Asked);
    }
}

/// A server that ends each client at its first request, with a last reply. The client has sent more by then, or goes on
/// sending.
#[test]
fn w13_a_client_that_still_sends_reads_the_last_reply_and_the_end() {
    for seed in 0..100 {
        let mut server = Server::new(seed);
        let mut random = Random::from_seed(seed);
        let client = server.clients().connect(5, random.next_between(1, 5) as usize);
        server.clients().send(client, &vec![b'x'; random.next_between(1, 2500) as usize]);
        server.run("it is open", |server| !server.opened.is_empty());
        let id = server.opened[0];
        let (_, replies) = server.net.parts(id).expect("it is open");
        replies.reply(|buffer| buffer.extend_from_slice(b"the last words"));
        server.net.close_when_sent(id);
        for _ in 0..random.next_below(20) {
            // Once it has read the end it has no reason to.
            if !server.clients().has_closed(client) {
                server.clients().send(client, &[b'y'; 100]);
            }
            server.step();
            let received = server.net.parts(id).map(|(received, _)| received.len());
            assert!(matches!(received, None | Some(0)), "W13: nothing of it counts: {received:?}");
        }
        server.run("it is told", |server| server.clients().has_closed(client));
        assert_eq!(server.clients().received_bytes(client), b"the last words", "W13: seed {seed}");
        server.run("it is forgotten", |server| !server.closed.is_empty());
        assert_eq!(server.closed[&id], CloseReason::Asked);
        assert!(server.clock.nanos() < LIMITS.linger.as_nanos() as u64, "the client has ended");
    }
}

#[test]
fn w13_a_client_that_does_not_end_is_closed_at_a_limit() {
    for seed in 0..20 {
        for sends_on in [false, true] {
            let mut server = Server::new(seed);
            let client = server.clients().connect(100, 100);
            server.clients().stay(client);
            server.run("it is open", |server| !server.opened.is_empty());
            let id = server.opened[0];
            server.net.parts(id).expect("it is open").1.reply(|buffer| buffer.extend_from_slice(b"end"));
            server.net.close_when_sent(id);
            server.run("it is told", |server| server.clients().has_closed(client));
            let (began, mut sent) = (server.clock.nanos(), 0);
            while server.closed.is_empty() {
                if sends_on {
                    server.clients().send(client, &[b'y'; 100]);
                    sent += 100;
                }
                server.step();
                assert!(sent < 100_000, "W13: bytes without an end");
            }
            assert_eq!(server.closed[&id], CloseReason::Asked);
            let lingered = server.clock.nanos() - began;
            let limit = LIMITS.linger.as_nanos() as u64;
            if sends_on {
                assert!(sent >= LIMITS.linger_bytes_max && lingered < limit, "{sent} bytes, {lingered} ns");
            } else {
                assert!((limit / 2..=limit + 100_000_000).contains(&lingered), "{lingered} ns");
            }
            assert_eq!(server.net.stats().open, 0);
        }
    }
}

/// `stalled` begins anew with each byte that goes, so it never ends a client that takes one now and then.
#[test]
fn w13_a_client_that_takes_a_byte_now_and_then_is_closed_at_a_limit() {
    for seed in 0..20 {
        for client_ends in [false, true] {
            let mut server = Server::new(seed);
            server.parked_percent = 0;
            let client = server.clients().connect(3, 0);
            server.clients().send(client, &[[b'x'; 99].as_slice(), b"\n"].concat());
            if client_ends {
                server.clients().end(client);
            }
            server.run("it is replied", |server| server.taken.values().sum::<usize>() == 100);
            let (id, began) = (server.opened[0], server.clock.nanos());
            if !client_ends {
                server.net.close_when_sent(id);
            }
            let nanos_max = (LIMITS.ending + LIMITS.stalled).as_nanos() as u64;
            while server.closed.is_empty() {
                let nanos = server.clock.nanos() - began;
                assert!(nanos < nanos_max, "W13: it is open still after {nanos} ns");
                let next = server.clock.nanos() + LIMITS.stalled.as_nanos() as u64 * 4 / 5;
                server.run("a byte goes", |server| {
                    let goes = server.clock.nanos() >= next;
                    server.clients().set_speed(client, usize::from(goes));
                    goes || !server.closed.is_empty()
                });
                server.step();
            }
            assert_eq!(server.closed[&id], CloseReason::Stalled, "seed {seed}");
            let nanos = server.clock.nanos() - began;
            assert!(nanos >= LIMITS.ending.as_nanos() as u64, "it had its time: {nanos} ns");
            assert!((1..100).contains(&server.clients().received_bytes(client).len()), "it took some");
        }
    }
}

#[test]
fn w13_an_end_has_its_limit_beside_a_longer_one_of_stalled() {
    let limits =
        NetLimits { ending: Duration::from_secs(2), stalled: Duration::from_secs(60), idle: None, ..LIMITS };
    for seed in 0..20 {
        let mut server = Server::with_limits(seed, limits);
        let _mute = server.clients().connect(3, 0);
        server.run("it is open", |server| !server.opened.is_empty());
        let id = server.opened[0];
        server
            .net
            .parts(id)
            .expect("it is open")
            .1
            .reply(|buffer| buffer.extend_from_slice(b"the last words"));
        server.net.close_when_sent(id);
        server.run("it is closed", |server| !server.closed.is_empty());
        assert_eq!(server.closed[&id], CloseReason::Stalled);
        let (nanos, limit) = (server.clock.nanos(), limits.ending.as_nanos() as u64);
        assert!((limit..=2 * limit + 100_000_000).contains(&nanos), "W13: seed {seed}: {nanos} ns");
    }
}

#[test]
fn w14_the_end_of_a_loop_loses_no_reply_of_clients_that_still_send() {
    for seed in 0..100 {
        let mut server = Server::new(seed);
        let mut random = Random::from_seed(seed);
        let clients: Vec<ClientId> = (0..4)
            .map(|_| {
                server
                    .clients()
                    .connect(random.next_between(1, 200) as usize, random.next_between(1, 100) as usize)
            })
            .collect();
        let sent: Vec<Vec<u8>> = (0..4).map(|client| lines(client, 20, &mut random)).collect();
        for (client, sent) in clients.iter().zip(&sent) {
            server.clients().send(*client, sent);
        }
        let steps = random.next_below(60);
        server.run("all are open", |server| server.opened.len() == 4);
        (0..steps).for_each(|_| server.step());
        server.net.end_all(Duration::from_secs(1));
        for _ in 0..random.next_below(30) {
            for client in &clients {
                // Once it has read the end it has no reason to.
                if !server.clients().has_closed(*client) {
                    server.clients().send(*client, b"more that is not carried out\n");
                }
            }
            server.step();
        }
        server.run("it is over", |server| server.net.stats().open == 0);
        for ((client, sent), id) in clients.iter().zip(&sent).zip(server.opened.clone()) {
            let taken = server.taken.get(&id).copied().unwrap_or_default();
            let received = server.clients().received_bytes(*client);
            assert!(received == &sent[..taken], "W14: seed {seed}: {} of {taken} bytes", received.len());
            assert_eq!(server.closed[&id], CloseReason::Asked);
        }
        let late = server.clients().connect(10, 10);
        (0..50).for_each(|_| server.step());
        assert!(
            server.opened.len() == 4 && !server.clients().has_closed(late),
            "nobody is accepted any more"
        );
    }
}

#[test]
fn w14_the_end_of_a_loop_waits_for_a_silent_client_for_a_short_time_only() {
    let quiet = Duration::from_secs(1);
    for seed in 0..20 {
        for sends_on in [false, true] {
            let mut server = Server::new(seed);
            let client = server.clients().connect(100, 100);
            server.clients().stay(client);
            server.run("it is open", |server| !server.opened.is_empty());
            // It lingers already, with all the time that a connection has by itself.
            if random_bit(seed) {
                server.net.close_when_sent(server.opened[0]);
                (0..20).for_each(|_| server.step());
            }
            let began = server.clock.nanos();
            server.net.end_all(quiet);
            let mut last = began;
            while server.closed.is_empty() {
                if sends_on && server.clock.nanos() - last > quiet.as_nanos() as u64 / 2 {
                    last = server.clock.nanos();
                    server.clients().send(client, b"y");
                }
                server.step();
            }
            let ended = server.clock.nanos() - began;
            let limit = if sends_on { LIMITS.linger } else { quiet }.as_nanos() as u64;
            assert!((limit / 2..=limit + 100_000_000).contains(&ended), "W14: seed {seed}: {ended} ns");
        }
    }
}

fn random_bit(seed: u64) -> bool {
    Random::from_seed(seed).percent(50)
}

#[test]
fn w15_a_reply_whose_writer_panics_ends_its_connection_and_no_other() {
    for seed in 0..50 {
        for is_parked in [false, true] {
            let mut server = Server::new(seed);
            server.parked_percent = 0;
            let (one, other) = (server.clients().connect(100, 100), server.clients().connect(10, 3));
            server.clients().send(one, b"before\n");
            server.run("it is replied", |server| server.clients().received_bytes(one) == b"before\n");
            let (id, parts) = (server.opened[0], "it is open");
            let slot = is_parked.then(|| server.net.parts(id).expect(parts).1.reserve(5));
            if is_parked {
                // It waits behind the one that panics, and is never sent.
                server.net.parts(id).expect(parts).1.reply(|buffer| buffer.extend_from_slice(b"behind\n"));
            }
            let panics = |buffer: &mut Vec<u8>| {
                buffer.extend_from_slice(b"half of");
                std::panic::resume_unwind(Box::new("the owner's bug"))
            };
            let crossed = catch_unwind(AssertUnwindSafe(|| match slot {
                Some(slot) => server.net.fill(slot, panics),
                None => server.net.parts(id).expect(parts).1.reply(panics),
            }));
            assert!(crossed.is_ok(), "W15: the panic crosses");
            let sent = lines(1, 20, &mut Random::from_seed(seed));
            server.clients().send(other, &sent);
            server.run("it is closed", |server| server.closed.contains_key(&id));
            assert_eq!(server.closed[&id], CloseReason::Panicked);
            assert_eq!(server.net.last_panic(), Some("the owner's bug"));
            server.run("the other is served", |server| server.clients().received_bytes(other) == sent);
            assert_eq!(
                server.clients().received_bytes(one),
                b"before\n",
                "W15: nothing follows what is missing"
            );
        }
    }
}

/// Closes the connections of twenty clients at any moment, and serves another client then. The rare cases of its ring,
/// if the seed has one.
fn closes_at_any_moment(seed: u64) -> Option<RingCases> {
    let mut server = Server::new(seed);
    let mut random = Random::from_seed(seed);
    for number in 0..20 {
        let client = server
            .clients()
            .connect(random.next_between(1, 200) as usize, random.next_between(1, 100) as usize);
        server.clients().send(client, &lines(number, 20, &mut random));
        (0..random.next_below(20)).for_each(|_| server.step());
        if let Some(last) = server.opened.len().checked_sub(1) {
            let id = server.opened[random.next_between(last.saturating_sub(5) as u64, last as u64) as usize];
            server.net.close(id);
        }
    }
    server.run("all are closed", |server| {
        let open: Vec<_> =
            server.opened.iter().filter(|id| !server.closed.contains_key(id)).copied().collect();
        open.into_iter().for_each(|id| server.net.close(id));
        server.closed.len() == 20
    });
    let client = server.clients().connect(50, 50);
    let sent = lines(20, 10, &mut random);
    server.clients().send(client, &sent);
    server.run("another one is served", |server| server.clients().received_bytes(client) == sent);
    server.clients().ring_cases()
}

#[test]
fn w6_connections_that_are_closed_at_any_moment_take_nothing_with_them() {
    for seed in 0..100 {
        closes_at_any_moment(seed);
    }
}

#[test]
fn seeds_with_a_ring_meet_its_rare_cases() {
    let all: Vec<RingCases> = (0..100).filter_map(closes_at_any_moment).collect();
    assert!((20..80).contains(&all.len()), "half of the seeds have a ring: {}", all.len());
    for (name, count) in [
        ("partial reads", all.iter().map(|cases| cases.partial_reads).sum::<u64>()),
        ("copied buffers", all.iter().map(|cases| cases.copied_buffers).sum()),
        ("closed with a buffer", all.iter().map(|cases| cases.closed_with_buffer).sum()),
        ("arrivals behind a close", all.iter().map(|cases| cases.arrivals_after_close).sum()),
        ("missing buffers", all.iter().map(|cases| cases.missing_buffers).sum()),
    ] {
        assert!(count > 20, "{name}: {count}");
    }
}

#[test]
fn timers_and_wake_ups_end_a_wait() {
    let mut server = Server::new(4);
    let net = &mut server.net;
    let cancelled = net.set_timer(Duration::from_micros(500), 1);
    net.set_timer(Duration::from_micros(700), 2);
    net.set_timer(Duration::from_micros(600), 3);
    assert!(net.cancel_timer(cancelled) && !net.cancel_timer(cancelled));
    let mut heard = Vec::new();
    while server.clock.nanos() < 10_000_000 && heard.len() < 2 {
        net.step(Duration::from_secs(1)).expect("it is simulated");
        heard.extend(std::iter::from_fn(|| net.next_event()));
    }
    assert_eq!(heard, [NetEvent::TimerDue(3), NetEvent::TimerDue(2)]);
    assert_eq!(server.clock.nanos(), 700_000);
    let wake_up = net.wake_up();
    wake_up.wake();
    wake_up.clone().wake();
    net.step(Duration::from_secs(1)).expect("it is simulated");
    assert_eq!((net.next_event(), net.next_event()), (Some(NetEvent::WokenUp), None));
    assert_eq!(server.clock.nanos(), 700_000);
}

#[test]
fn an_ended_connection_is_not_taken_for_its_successor() {
    let mut server = Server::with_limits(5, NetLimits { connections_max: 1, ..LIMITS });
    server.parked_percent = 100;
    server.tells = false;
    let first = server.clients().connect(100, 100);
    server.clients().send(first, b"a\n");
    server.run("it is parked", |server| server.parked.len() == 1);
    let second = server.clients().connect(100, 100);
    server.clients().vanish(first);
    server.clients().send(second, b"b\n");
    server.run("the second is parked", |server| server.parked.len() == 2);
    let slots: Vec<(ReplySlot, Vec<u8>)> = server.parked.drain(..).collect();
    for (slot, line) in slots {
        server.net.fill(slot, |buffer| buffer.extend(line));
    }
    server.run("it is told", |server| server.clients().received_bytes(second) == b"b\n");
    assert_eq!(server.clients().received_bytes(first), b"");
    assert_ne!(server.opened[0], server.opened[1]);
}
