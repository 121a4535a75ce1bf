//! Many clients of `ensile serve`, no descriptors, and clients that never read: other clients wait a second at most.
//!
//! The tests take descriptors, memory and seconds, so a plain `cargo test` leaves them out. `ci/connections.sh` runs
//! the tests, and prints their figures.
//!
//! Neighbours: `ensile-net` has the limits of a loop's connections, and its own tests of each limit.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_net::raise_descriptors_max;
use ensile_services::client::{RespClient, in_words};

use crate::outside::Folder;
use crate::serve::{call, connect};
use crate::server::Server;

const IDLE: usize = 10_000;
/// Number of idle clients with an open `WATCH`.
const WATCHING: usize = 1_000;
const IDLE_BYTES_MAX: u64 = 8 << 10;
/// Longest wait of another client.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Time after which a silent client's buffers are freed, with some reserve.
const SILENCE: Duration = Duration::from_secs(4);

/// Time since the clock was made.
fn passed(clock: &Clock) -> Duration {
    Duration::from_nanos(clock.nanos())
}

/// A client that sends one durable change and one read after the other, and notes the longest wait.
struct Probe {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<(Duration, u64)>,
}

impl Probe {
    fn start(address: SocketAddr) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ended);
        let thread = std::thread::Builder::new().spawn(move || {
            let mut client = RespClient::connect(address).expect("it listens");
            let (mut longest, mut requests) = (Duration::ZERO, 0);
            while !until.load(Ordering::Relaxed) {
                for words in [&["SET", "probe", "x"][..], &["GET", "probe"]] {
                    let clock = Clock::machine();
                    client.request(words);
                    let reply = client.receive(in_words).expect("a reply");
                    assert!(matches!(reply.as_str(), "+OK" | "x"), "{reply}");
                    longest = longest.max(passed(&clock));
                    requests += 1;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            (longest, requests)
        });
        let thread = thread.expect("the system has a thread");
        Self { ended, thread }
    }

    /// Ends the client; its longest wait.
    fn end(self) -> Duration {
        self.ended.store(true, Ordering::Relaxed);
        let (longest, requests) = self.thread.join().expect("each request has its reply");
        println!("another client: {requests} requests, the longest {:.1} ms", longest.as_secs_f64() * 1e3);
        longest
    }
}

/// Sends lines, and reads as many bytes as the reply has.
fn exchange(client: &mut TcpStream, lines: &str, reply: &str) {
    client.write_all(lines.as_bytes()).expect("an open socket");
    let mut got = vec![0; reply.len()];
    client.read_exact(&mut got).expect("a reply");
    assert_eq!(String::from_utf8_lossy(&got), reply, "{lines}");
}

/// A figure of `INFO`.
fn figure(client: &mut RespClient, name: &str) -> u64 {
    let text = call(client, "INFO");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name}: {text}")).trim().parse().expect("a number")
}

#[test]
#[ignore = "takes ten thousand descriptors: ci/connections.sh runs this"]
fn ten_thousand_idle_clients_take_little_memory_and_hold_up_nobody() {
    assert!(raise_descriptors_max() > IDLE + 100, "raise the hard limit of descriptors: ulimit -Hn");
    let folder = Folder::new("connections-idle");
    let server = Server::start(&folder, "--loops 2");
    let mut other = connect(&server);
    for number in 0..1000 {
        assert_eq!(call(&mut other, &format!("SET key{number} x")), "+OK");
    }
    std::thread::sleep(SILENCE);
    let before = figure(&mut other, "used_memory_rss");
    let probe = Probe::start(server.address);
    let mut idle: Vec<TcpStream> = (0..IDLE)
        .map(|number| {
            let mut client = TcpStream::connect(server.address).expect("it listens");
            let lines = if number < WATCHING { "WATCH watched key1\r\n" } else { "SET key2 x\r\n" };
            exchange(&mut client, lines, "+OK\r\n");
            client
        })
        .collect();
    std::thread::sleep(SILENCE);
    let bytes = figure(&mut other, "used_memory_rss").saturating_sub(before) / IDLE as u64;
    assert_eq!(figure(&mut other, "connected_clients"), IDLE as u64 + 2);
    println!("{IDLE} idle clients, {WATCHING} with an open WATCH: {bytes} bytes of memory for each");
    assert_eq!(call(&mut other, "SET watched 1"), "+OK");
    for (number, client) in idle.iter_mut().enumerate() {
        if number < WATCHING {
            exchange(client, "MULTI\r\nGET key1\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n*-1\r\n");
        } else {
            exchange(client, "GET key1\r\n", "$1\r\nx\r\n");
        }
    }
    drop(idle);
    let longest = probe.end();
    assert!(longest <= WAIT_MAX, "a client has waited for {longest:?}");
    assert!(bytes <= IDLE_BYTES_MAX, "{bytes} bytes for an idle client");
}

/// First number that no descriptor of a process has.
fn first_free_descriptor(process: u32) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).expect("Linux tells");
    let taken: Vec<usize> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    (0..).find(|number| !taken.contains(number)).expect("some number is free")
}

/// Sets the number of descriptors that a process may have.
fn limit_descriptors(process: u32, limit: &str) {
    let arguments = ["--pid", &process.to_string(), &format!("--nofile={limit}")];
    let set = Command::new("prlimit").args(arguments).status().expect("util-linux has prlimit");
    assert!(set.success());
}

#[test]
#[ignore = "takes seconds: ci/connections.sh runs this"]
fn a_server_without_descriptors_serves_its_clients_and_then_all_others() {
    let folder = Folder::new("connections-descriptors");
    let server = Server::start(&folder, "--loops 2");
    let probe = Probe::start(server.address);
    let mut other = connect(&server);
    assert_eq!(call(&mut other, "SET a 1"), "+OK");
    while figure(&mut other, "connected_clients") < 2 {}
    limit_descriptors(server.process_id(), &format!("{}:", first_free_descriptor(server.process_id())));
    let mut waiting: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut client = TcpStream::connect(server.address).expect("the kernel takes the connection");
            client.write_all(b"GET a\r\n").expect("the kernel takes the request");
            client
        })
        .collect();
    for number in 0..2000 {
        assert_eq!(call(&mut other, &format!("SET key{number} x")), "+OK", "the log goes on");
    }
    assert_eq!(figure(&mut other, "connected_clients"), 2, "no descriptor is free");
    // The log and a checkpoint may close a file meanwhile, which gives a descriptor to a client.
    let mut served = 0;
    for client in &waiting {
        client.set_nonblocking(true).expect("a socket");
        match client.peek(&mut [0]) {
            Ok(bytes) => {
                assert!(bytes > 0, "the client is not refused");
                served += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "the client waits"),
        }
        client.set_nonblocking(false).expect("a socket");
    }
    assert!(served < waiting.len(), "clients wait for descriptors");
    limit_descriptors(server.process_id(), "1000:");
    let clock = Clock::machine();
    for client in &mut waiting {
        let mut reply = [0; 7];
        client.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"$1\r\n1\r\n");
    }
    println!(
        "50 clients that had waited for descriptors: served {:.0} ms after",
        passed(&clock).as_secs_f64() * 1e3
    );
    assert!(passed(&clock) <= WAIT_MAX);
    let longest = probe.end();
    assert!(longest <= WAIT_MAX, "a client has waited for {longest:?}");
}

#[test]
#[ignore = "takes memory: ci/connections.sh runs this"]
fn clients_that_never_read_hold_up_nobody() {
    const CLIENTS_BYTES: u64 = 128 << 20;
    let folder = Folder::new("connections-unread");
    let server = Server::start(
        &folder,
        &format!("--loops 2 --appendfsync everysec --maxmemory-clients {CLIENTS_BYTES}"),
    );
    let mut other = connect(&server);
    let value = "x".repeat(1 << 20);
    assert_eq!(call(&mut other, &format!("SET big {value}")), "+OK");
    let probe = Probe::start(server.address);
    let mut deaf = Vec::new();
    for number in 0..32 {
        let mut client = TcpStream::connect(server.address).expect("it listens");
        let lines = if number % 4 == 0 { "SUBSCRIBE news\r\n".to_owned() } else { "GET big\r\n".repeat(200) };
        client.write_all(lines.as_bytes()).expect("the server takes short requests");
        deaf.push(client);
    }
    while figure(&mut other, "pubsub_channels") == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..60 {
        assert!(call(&mut other, &format!("PUBLISH news {value}")).starts_with(':'));
        // The clients' memory is bounded at each moment, but for the replies of one turn.
        assert!(figure(&mut other, "client_memory_bytes") < 2 * CLIENTS_BYTES);
    }
    std::thread::sleep(Duration::from_secs(2));
    let lost = figure(&mut other, "evicted_clients") + figure(&mut other, "slow_subscribers");
    println!("32 clients that never read: {lost} disconnected for their memory");
    assert!(lost > 0, "the memory of these clients is limited");
    drop(deaf);
    let is_free = |_| {
        std::thread::sleep(Duration::from_millis(50));
        figure(&mut other, "client_memory_bytes") < CLIENTS_BYTES / 10
    };
    assert!((0..200).any(is_free), "the memory is free again");
    let longest = probe.end();
    assert!(longest <= WAIT_MAX, "a client has waited for {longest:?}");
}
