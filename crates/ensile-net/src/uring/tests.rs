//! Queues of the kernel that are too short, buffers that are too few, and a ring that ends.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use ensile_base::clock::Clock;

use super::*;
use crate::{NetEvent, NetLimits, NetLoop};

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

/// A loop at a Unix socket of this name, and its clients, each of which has connected.
fn with_clients(
    transport: IoUring,
    name: &str,
    count: usize,
) -> (NetLoop<IoUring>, Vec<UnixStream>, PathBuf) {
    let path = std::env::temp_dir().join(format!("ensile-net-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let mut net = NetLoop::new(transport, Clock::machine(), NetLimits::default());
    net.listen(&ListenAddress::Unix(path.clone())).expect("the file is not there");
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(UnixStream::connect(&path).expect("it listens"));
        net.step(Duration::ZERO).expect("the system waits");
    }
    while net.stats().open < count {
        net.step(Duration::from_secs(1)).expect("the system waits");
    }
    while net.next_event().is_some() {}
    net.step(Duration::ZERO).expect("the system waits");
    (net, clients, path)
}

/// Repeats what has come, until this many bytes have been sent.
fn echo(net: &mut NetLoop<IoUring>, bytes: u64) {
    // By time, as a step may end early and bring nothing: five minutes, as a busy machine may let a client wait.
    let clock = Clock::machine();
    let mut heard = clock.nanos();
    while net.stats().sent_bytes < bytes {
        let before = (net.stats().received_bytes, net.stats().sent_bytes);
        net.step(Duration::from_secs(1)).expect("the system waits");
        while let Some(event) = net.next_event() {
            let NetEvent::Received(id) = event else { continue };
            let Some((received, replies)) = net.parts(id) else { continue };
            replies.reply(|buffer| buffer.extend_from_slice(received));
            let count = received.len();
            net.consume(id, count);
        }
        if before != (net.stats().received_bytes, net.stats().sent_bytes) {
            heard = clock.nanos();
        }
        assert!(clock.nanos() - heard < 300_000_000_000, "W10: nothing comes, {before:?} of {bytes}");
    }
}

/// All clients ask at once, several times; each gets its own bytes back.
fn all_ask_at_once(mut net: NetLoop<IoUring>, mut clients: Vec<UnixStream>) {
    let count = clients.len() as u64;
    for round in 1..=5_u64 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.write_all(&(number as u64 * round).to_le_bytes()).expect("there is room");
        }
        echo(&mut net, 8 * count * round);
        for (number, client) in clients.iter_mut().enumerate() {
            let mut reply = [0; 8];
            client.read_exact(&mut reply).expect("it was sent");
            assert_eq!(u64::from_le_bytes(reply), number as u64 * round);
        }
    }
}

#[test]
fn short_queues_lose_nothing() {
    let Some(transport) = transport(2, 4) else { return };
    let (net, clients, path) = with_clients(transport, "short-queues", 50);
    all_ask_at_once(net, clients);
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn more_bytes_arrive_at_once_than_there_are_buffers() {
    let Some(transport) = transport(256, 4096) else { return };
    allow_many_descriptors();
    let (net, clients, path) = with_clients(transport, "few-buffers", usize::from(memory::BUFFERS) + 50);
    all_ask_at_once(net, clients);
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn a_ring_that_ends_has_nothing_in_flight() {
    let Some(transport) = transport(2, 4) else { return };
    let (mut net, mut clients, path) = with_clients(transport, "end", 20);
    clients[0].write_all(b"a").expect("there is room");
    let id = loop {
        net.step(Duration::from_secs(1)).expect("the system waits");
        if let Some(NetEvent::Received(id)) = net.next_event() {
            break id;
        }
    };
    // It stays in flight: nobody reads it.
    net.parts(id).expect("it is open").1.reply(|buffer| buffer.resize(8 << 20, b'x'));
    (0..20).for_each(|_| net.step(Duration::ZERO).expect("the system waits"));
    let ring = &mut net.transport_mut().ring;
    ring.cancel_all();
    assert_eq!(ring.in_flight(), 0, "W6");
    drop(net);
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn a_forked_child_neither_waits_nor_cancels() {
    let Some(transport) = transport(256, 4096) else { return };
    let (mut net, clients, path) = with_clients(transport, "forked-child", 3);
    let ring = &mut net.transport_mut().ring;
    let in_flight = ring.in_flight();
    assert!(in_flight > 0, "receives wait");
    ring.set_maker(0);
    ring.cancel_all();
    assert_eq!(ring.in_flight(), in_flight, "W12");
    net.step(Duration::ZERO).expect_err("W12");
    net.transport_mut().ring.set_maker(std::process::id());
    all_ask_at_once(net, clients);
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn a_wait_without_an_end_waits() {
    let Some(transport) = transport(2, 4) else { return };
    let mut net = NetLoop::new(transport, Clock::machine(), NetLimits::default());
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
