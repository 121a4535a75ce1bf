//! Queues of the kernel that are too short, buffers that are too few or that nobody reads, and a ring that ends.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use ensile_base::clock::Clock;
use rustix::event::{EventfdFlags, eventfd};

use super::*;
use crate::{CheckedLoop, ConnectionId, NetEvent, NetLimits, NetLoop};

/// A transport with queues of these lengths; where the kernel refuses it, that is said where nothing holds it back.
fn transport(submissions: u32, completions: u32) -> Option<IoUring> {
    match IoUring::with_queues(QueueLengths { submissions, completions }) {
        Ok(transport) => Some(transport),
        Err(refused) => {
            let name = std::thread::current().name().unwrap_or("a test").to_owned();
            writeln!(io::stderr(), "{name} is passed over: {refused}").expect("it is open");
            None
        }
    }
}

/// Many sockets at both ends: more than a process has by default.
fn allow_many_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(8192, |maximum| maximum.min(8192));
    limit.current = limit.current.map(|current| current.max(wanted));
    setrlimit(Resource::Nofile, limit).expect("it is not above the maximum");
}

/// The file of a Unix socket, until this value is dropped.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A loop at a Unix socket, and its clients. Each step is checked, and at the end that nothing is missing.
struct RingServer {
    net: CheckedLoop<IoUring>,
    clients: Vec<UnixStream>,
    file: SocketFile,
}

impl RingServer {
    fn new(transport: IoUring, name: &str, count: usize) -> Self {
        let net = NetLoop::new(transport, Clock::machine(), NetLimits::default());
        Self::over(net, name, count)
    }

    /// With as many clients, each of which has connected.
    fn over(net: NetLoop<IoUring>, name: &str, count: usize) -> Self {
        let path = std::env::temp_dir().join(format!("ensile-net-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut server =
            Self { net: CheckedLoop::new(net), clients: Vec::new(), file: SocketFile(path.clone()) };
        server.net.listen(&ListenAddress::Unix(path)).expect("the file is not there");
        for _ in 0..count {
            server.connect();
        }
        server.step();
        server
    }

    /// A client connects, and is accepted.
    fn connect(&mut self) -> ConnectionId {
        self.clients.push(UnixStream::connect(&self.file.0).expect("it listens"));
        loop {
            while let Some(event) = self.net.next_event() {
                if let NetEvent::Opened(id) = event {
                    return id;
                }
            }
            self.net.step(Duration::from_secs(1)).expect("the system waits");
        }
    }

    /// A step that does not wait, and whose events do not count.
    fn step(&mut self) {
        while self.net.next_event().is_some() {}
        self.net.step(Duration::ZERO).expect("the system waits");
    }

    /// The first client sends.
    fn send(&mut self, bytes: &[u8]) {
        self.clients[0].write_all(bytes).expect("there is room");
    }

    /// Steps until `done`; `serve` sees each connection from which bytes have come.
    fn serve(
        &mut self,
        mut serve: impl FnMut(&mut NetLoop<IoUring>, ConnectionId),
        done: impl Fn(&NetLoop<IoUring>) -> bool,
    ) {
        // A limit in time: a step may end early and bring nothing, and a busy machine may let a client wait.
        let clock = Clock::machine();
        let mut progress = clock.nanos();
        while !done(&self.net) {
            let before = self.net.stats();
            self.net.step(Duration::from_secs(1)).expect("the system waits");
            while let Some(event) = self.net.next_event() {
                if let NetEvent::Received(id) = event {
                    serve(&mut self.net, id);
                }
            }
            let after = self.net.stats();
            let is_idle =
                (before.received_bytes, before.sent_bytes) == (after.received_bytes, after.sent_bytes);
            if !is_idle {
                progress = clock.nanos();
            }
            assert!(clock.nanos() - progress < 300_000_000_000, "W10: nothing comes: {before:?}");
        }
    }

    /// Repeats all arrived bytes, until this number of bytes has been sent.
    fn echo(&mut self, bytes: u64) {
        let echo = |net: &mut NetLoop<IoUring>, id| {
            let Some((received, replies)) = net.parts(id) else { return };
            replies.reply(|buffer| buffer.extend_from_slice(received));
            let count = received.len();
            net.consume(id, count);
        };
        self.serve(echo, |net| net.stats().sent_bytes >= bytes);
    }

    /// All arrived bytes, once this number has come.
    fn received(&mut self, bytes: u64) -> Vec<u8> {
        let mut all = Vec::new();
        let take = |net: &mut NetLoop<IoUring>, id| {
            let Some((received, _)) = net.parts(id) else { return };
            all.extend_from_slice(received);
            let count = received.len();
            net.consume(id, count);
        };
        self.serve(take, |net| net.stats().received_bytes >= bytes);
        all
    }

    /// All clients ask at once, several times; each gets its own bytes back.
    fn all_ask_at_once(&mut self) {
        let (count, before) = (self.clients.len() as u64, self.net.stats().sent_bytes);
        for round in 1..=5_u64 {
            for (number, client) in self.clients.iter_mut().enumerate() {
                client.write_all(&(number as u64 * round).to_le_bytes()).expect("there is room");
            }
            self.echo(before + 8 * count * round);
            for (number, client) in self.clients.iter_mut().enumerate() {
                let mut reply = [0; 8];
                client.read_exact(&mut reply).expect("it was sent");
                assert_eq!(u64::from_le_bytes(reply), number as u64 * round);
            }
        }
    }
}

#[test]
fn short_queues_lose_nothing() {
    let Some(transport) = transport(2, 4) else { return };
    RingServer::new(transport, "short-queues", 50).all_ask_at_once();
}

#[test]
fn more_bytes_arrive_at_once_than_there_are_buffers() {
    let Some(transport) = transport(256, 4096) else { return };
    allow_many_descriptors();
    RingServer::new(transport, "few-buffers", usize::from(memory::BUFFERS) + 50).all_ask_at_once();
}

/// A loop that takes three bytes of a connection and leaves the others in their lent buffer.
fn that_reads_three_bytes(transport: IoUring) -> NetLoop<IoUring> {
    let limits = NetLimits { unread_bytes_max: 3, ..NetLimits::default() };
    NetLoop::new(transport, Clock::machine(), limits)
}

#[test]
fn w8_bytes_that_are_read_in_part_before_a_wait_come_once() {
    let Some(transport) = transport(256, 4096) else { return };
    let mut server = RingServer::over(that_reads_three_bytes(transport), "in-part", 1);
    server.send(b"abcdefgh");
    assert_eq!(server.received(8), b"abcdefgh", "W8");
    server.send(b"ijk");
    assert_eq!(server.received(11), b"ijk", "W8: no byte comes twice");
}

/// Rounds of connections that are closed with arrived bytes, more than the ring has buffers. Then another client is
/// heard.
fn closes_many(mut server: RingServer, clients: usize, arrive: impl Fn(&mut RingServer)) {
    for _ in 0..usize::from(memory::BUFFERS) / clients + 20 {
        let ids: Vec<ConnectionId> = (0..clients).map(|_| server.connect()).collect();
        server.step();
        server.clients.iter_mut().for_each(|client| client.write_all(b"12345678").expect("there is room"));
        arrive(&mut server);
        ids.into_iter().for_each(|id| server.net.close(id));
        server.clients.clear();
        server.step();
    }
    server.connect();
    server.send(b"abcdefgh");
    let before = server.net.stats().received_bytes;
    assert_eq!(server.received(before + 8), b"abcdefgh", "W6: the ring has its buffers");
}

#[test]
fn w6_a_lent_buffer_goes_back_when_its_connection_is_closed() {
    let Some(transport) = transport(256, 4096) else { return };
    let server = RingServer::over(that_reads_three_bytes(transport), "closed", 0);
    closes_many(server, 1, |server| {
        let before = server.net.stats().received_bytes;
        server.serve(|_, _| (), |net| net.stats().received_bytes > before);
        assert_eq!(server.net.stats().received_bytes - before, 3, "five bytes are in the buffer");
    });
}

/// Of twenty arrivals in one wait the kernel tells the first four then, and the others with the next waits.
#[test]
fn w6_a_buffer_that_arrives_behind_the_close_of_its_connection_goes_back() {
    let Some(transport) = transport(2, 4) else { return };
    let server = RingServer::new(transport, "arrives-late", 0);
    closes_many(server, 20, RingServer::step);
}

#[test]
fn w9_a_client_reads_the_end_before_the_last_operation_has_ended() {
    let Some(transport) = transport(256, 4096) else { return };
    let mut server = RingServer::new(transport, "shut-down", 0);
    let id = server.connect();
    server.step();
    server.net.close(id);
    let client = &mut server.clients[0];
    client.set_nonblocking(true).expect("it is a socket");
    assert_eq!(client.read(&mut [0]).expect("W9: the socket is shut down"), 0);
}

#[test]
fn w16_the_copies_that_a_ring_holds_count() {
    let Some(transport) = transport(256, 4096) else { return };
    let limits = NetLimits { unread_bytes_max: 1, ..NetLimits::default() };
    let mut server = RingServer::over(NetLoop::new(transport, Clock::machine(), limits), "copies", 0);
    let id = server.connect();
    server.send(&[b'x'; 1000]);
    server.serve(|_, _| (), |net| net.stats().received_bytes == 1);
    server.net.parts(id).expect("it is open").1.reply(|buffer| buffer.resize(8 << 20, b'x'));
    (0..20).for_each(|_| server.step());
    let held = server.net.transport_mut().held_bytes(id.token());
    assert_eq!(
        held,
        999 + crate::ring_sockets::SEND_BYTES,
        "W16: the bytes that nobody has read, and a send"
    );
    let unsent = server.net.parts(id).expect("it is open").1.unsent_bytes();
    assert!(server.net.stats().room_bytes >= unsent + held, "W16");
}

#[test]
fn the_memory_of_the_longest_send_is_used_again() {
    let Some(transport) = transport(256, 4096) else { return };
    let mut server = RingServer::new(transport, "sends", 0);
    let id = server.connect();
    let bytes = crate::ring_sockets::SEND_BYTES;
    for round in 1..=3 {
        server.net.parts(id).expect("it is open").1.reply(|buffer| buffer.resize(bytes, b'x'));
        let (is_sent, mut reply) = (round * bytes as u64, vec![0; bytes]);
        server.serve(|_, _| (), |net| net.stats().sent_bytes == is_sent);
        server.clients[0].read_exact(&mut reply).expect("it was sent");
        assert_eq!(server.net.transport_mut().sockets.ring().spare(), 1, "round {round}");
    }
}

#[test]
fn a_ring_that_ends_has_nothing_in_flight() {
    let Some(transport) = transport(2, 4) else { return };
    let mut server = RingServer::new(transport, "end", 20);
    server.send(b"a");
    let id = loop {
        server.net.step(Duration::from_secs(1)).expect("the system waits");
        if let Some(NetEvent::Received(id)) = server.net.next_event() {
            break id;
        }
    };
    // It stays in flight: nobody reads it.
    server.net.parts(id).expect("it is open").1.reply(|buffer| buffer.resize(8 << 20, b'x'));
    (0..20).for_each(|_| server.net.step(Duration::ZERO).expect("the system waits"));
    // The places of the cancelled operations wait for completions that nobody tells them.
    let mut net = server.net.into_inner();
    let ring = net.transport_mut().sockets.ring_mut();
    ring.cancel_all();
    assert_eq!(ring.in_flight(), 0, "W6");
}

#[test]
fn a_ring_that_ends_does_not_wait_for_operations_that_it_did_not_submit() {
    let Some(transport) = transport(256, 4096) else { return };
    let mut server = RingServer::new(transport, "staged", 1);
    server.send(b"a");
    server.serve(|_, _| (), |net| net.stats().received_bytes == 1);
    let mut net = server.net.into_inner();
    let ring = net.transport_mut().sockets.ring_mut();
    assert!(ring.staged_count() > 0, "the next receive is asked for");
    ring.cancel_all();
    assert_eq!(ring.in_flight(), 0, "W6");
}

/// The only operation that ends by itself has no place in the first queue.
#[test]
fn a_ring_does_not_wait_while_operations_are_staged() {
    const WAIT: Duration = Duration::from_secs(60);
    let Some(transport) = transport(2, 64) else { return };
    let clock = Clock::machine();
    let mut net = NetLoop::new(transport, clock.clone(), NetLimits::default());
    let ring = net.transport_mut().sockets.ring_mut();
    let counter = |value| eventfd(value, EventfdFlags::CLOEXEC).expect("the system has counters");
    let (zero, one) = (counter(0), counter(1));
    (0..5).for_each(|_| ring.read_wake_ups(zero.as_fd()));
    ring.read_wake_ups(one.as_fd());
    let begin = clock.nanos();
    ring.enter(Some(WAIT)).expect("the system waits");
    assert!(u128::from(clock.nanos() - begin) < WAIT.as_nanos(), "a wait hides staged operations");
    assert!(matches!(ring.next_completion(), Some(RingCompletion::WokenUp)), "the last operation has ended");
}

#[test]
fn a_forked_child_neither_waits_nor_cancels() {
    let Some(transport) = transport(256, 4096) else { return };
    let mut server = RingServer::new(transport, "forked-child", 3);
    let ring = server.net.transport_mut().sockets.ring_mut();
    let in_flight = ring.in_flight();
    assert!(in_flight > 0, "receives wait");
    ring.set_maker(0);
    ring.cancel_all();
    assert_eq!(ring.in_flight(), in_flight, "W12");
    server.net.step(Duration::ZERO).expect_err("W12");
    server.net.transport_mut().sockets.ring_mut().set_maker(std::process::id());
    server.all_ask_at_once();
}

#[test]
fn a_wait_without_an_end_waits() {
    let Some(transport) = transport(2, 4) else { return };
    let mut net = CheckedLoop::new(NetLoop::new(transport, Clock::machine(), NetLimits::default()));
    let wake_up = net.wake_up();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            wake_up.wake();
        });
        net.step(Duration::MAX).expect("the system waits");
    });
    let events: Vec<NetEvent> = std::iter::from_fn(|| net.next_event()).collect();
    assert!(events.iter().any(|event| matches!(event, NetEvent::WokenUp)), "it ended by itself: {events:?}");
}
