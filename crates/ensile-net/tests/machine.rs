//! The machine's sockets, by io_uring and by epoll: pipelines with parked replies, large replies, slow clients and such
//! as vanish, wake-ups from another thread, limits.
//!
//! One suite over both transports. Where the kernel refuses io_uring its tests say so on standard error, and end.
//! Clients are std's blocking sockets.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_net::{
    CheckedLoop, CloseReason, ConnectionId, ListenAddress, MachineTransport, NetEvent, NetLimits, NetLoop,
    ReplySlot, TlsClients, TlsConfig, TlsPem, TransportChoice,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The loop of a test: each step is checked, and at the end that nothing is missing.
type Net = CheckedLoop<MachineTransport>;

/// Each test once for each transport.
macro_rules! over_both_transports {
    ($($name:ident)*) => {
        mod epoll {
            $(#[test] fn $name() { super::$name(ensile_net::TransportChoice::Epoll); })*
        }

        mod io_uring {
            $(#[test] fn $name() { super::with_io_uring(super::$name); })*
        }
    };
}

over_both_transports! {
    a_pipeline_whose_first_reply_comes_last
    much_goes_both_ways
    w20_much_goes_both_ways_by_tls
    another_thread_wakes_it_up
    loops_share_an_address_and_each_client_has_one_of_them
    a_unix_socket_serves_too
    clients_beyond_the_limit_wait_their_turn
    a_client_that_is_gone_is_noticed
    lines_come_back_in_order_whoever_else_asks
    a_large_reply_waits_for_a_slow_client
    a_client_that_vanishes_behind_a_large_reply_is_noticed
    a_full_connection_is_not_read
    full_connections_hold_up_nobody
    a_client_is_not_taken_for_one_that_ended_in_the_same_step
    closed_with_bytes_in_flight
    a_loop_ends_with_operations_in_flight
    a_wake_up_before_the_wait_ends_it
    a_process_that_is_stopped_and_goes_on_ends_no_loop
    w13_a_client_that_sends_all_of_a_large_request_reads_why_it_is_refused
    w3_the_kernel_asks_a_silent_client_whether_it_is_there
}

/// Runs a test over io_uring. Where the kernel refuses it, says so where nothing holds it back, and passes.
fn with_io_uring(test: fn(TransportChoice)) {
    match MachineTransport::new(TransportChoice::IoUring) {
        Ok(_) => test(TransportChoice::IoUring),
        Err(refused) => {
            let name = std::thread::current().name().unwrap_or("a test").to_owned();
            writeln!(io::stderr(), "{name} is passed over: {refused}").expect("it is open");
        }
    }
}

fn loop_of(choice: TransportChoice, limits: NetLimits) -> Net {
    let transport = MachineTransport::new(choice).expect("it can be had");
    CheckedLoop::new(NetLoop::new(transport, Clock::machine(), limits))
}

fn server(choice: TransportChoice, limits: NetLimits) -> (Net, SocketAddr) {
    let mut net = loop_of(choice, limits);
    let address = ListenAddress::Tcp("127.0.0.1:0".parse().expect("an address"));
    match net.listen(&address).expect("a free port") {
        ListenAddress::Tcp(at) => (net, at),
        _ => unreachable!("it was TCP"),
    }
}

/// How long nothing may come at all before a test fails rather than hangs: far longer than a busy machine lets a client
/// wait.
const HANG_NANOS: u64 = 300_000_000_000;

/// Steps until an event is the one that is looked for; others before it are dropped.
///
/// # Panics
/// If nothing comes at all, see [`HANG_NANOS`].
fn until<R>(net: &mut Net, mut wanted: impl FnMut(&mut Net, NetEvent) -> Option<R>) -> R {
    // By time: a step may end early, and bring nothing.
    let clock = Clock::machine();
    let mut heard = clock.nanos();
    while clock.nanos() - heard < HANG_NANOS {
        let before = net.stats();
        net.step(Duration::from_secs(1)).expect("the system waits");
        while let Some(event) = net.next_event() {
            heard = clock.nanos();
            if let Some(result) = wanted(net, event) {
                return result;
            }
        }
        let after = net.stats();
        if (before.sent_bytes, before.received_bytes) != (after.sent_bytes, after.received_bytes) {
            heard = clock.nanos();
        }
    }
    panic!("it does not come");
}

/// What comes to a client until it has this many bytes, or its connection is closed in order. The loop takes as many
/// steps as that needs, and its events stay. The client's socket must not block.
///
/// # Panics
/// If it does not come, see [`HANG_NANOS`].
fn read_while_stepping(net: &mut Net, client: &mut impl Read, bytes: usize) -> Vec<u8> {
    let clock = Clock::machine();
    let begun = clock.nanos();
    let mut all = Vec::new();
    while clock.nanos() - begun < HANG_NANOS {
        match client.by_ref().take((bytes - all.len()) as u64).read_to_end(&mut all) {
            Ok(_) => return all,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
        }
        net.step(Duration::from_millis(1)).expect("the system waits");
    }
    panic!("it does not come: {} of {bytes} bytes", all.len());
}

/// Why this connection has ended, once it has.
fn closed(net: &mut Net, id: ConnectionId) -> CloseReason {
    until(net, |_, event| match event {
        NetEvent::Closed(at, reason) if at == id => Some(reason),
        _ => None,
    })
}

fn opened(net: &mut Net) -> ConnectionId {
    until(net, |_, event| match event {
        NetEvent::Opened(id) => Some(id),
        _ => None,
    })
}

/// The connection once it has sent `bytes`.
fn received(net: &mut Net, bytes: usize) -> ConnectionId {
    until(net, |net, event| match event {
        NetEvent::Received(id) if net.parts(id).is_some_and(|(received, _)| received.len() == bytes) => {
            Some(id)
        }
        _ => None,
    })
}

fn a_pipeline_whose_first_reply_comes_last(choice: TransportChoice) {
    let (mut net, at) = server(choice, NetLimits::default());
    let mut client = TcpStream::connect(at).expect("it listens");
    client.write_all(b"abc").expect("there is room");
    let id = received(&mut net, 3);
    let (_, replies) = net.parts(id).expect("it is open");
    let slot = replies.reserve(0);
    replies.reply(|buffer| buffer.extend_from_slice(b"BC"));
    net.consume(id, 3);
    net.step(Duration::ZERO).expect("the system waits");
    client.set_nonblocking(true).expect("it is a socket");
    let early = client.read(&mut [0; 8]).expect_err("the first reply was not told");
    assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
    net.fill(slot, |buffer| buffer.push(b'A'));
    net.close_when_sent(id);
    assert_eq!(read_while_stepping(&mut net, &mut client, usize::MAX), b"ABC");
}

fn w20_much_goes_both_ways_by_tls(choice: TransportChoice) {
    let mut net = loop_of(choice, NetLimits::default());
    let tls = TlsConfig::from_pem(&TlsPem {
        certificates: include_bytes!("certificates/server-ecdsa.pem"),
        key: include_bytes!("certificates/server-ecdsa.key"),
        client_authorities: None,
        clients: TlsClients::NotAsked,
    });
    let address = ListenAddress::Tcp("127.0.0.1:0".parse().expect("an address"));
    let at = net.listen_tls(&address, tls.expect("the test's certificate")).expect("a free port");
    let ListenAddress::Tcp(at) = at else { unreachable!("it was TCP") };
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let received = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut roots = RootCertStore::empty();
            let authority = CertificateDer::from_pem_slice(include_bytes!("certificates/authority.pem"));
            roots.add(authority.expect("a certificate")).expect("an authority");
            let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("the versions of both sides")
                .with_root_certificates(roots)
                .with_no_client_auth();
            let name = ServerName::try_from("localhost").expect("a name");
            let client = ClientConnection::new(std::sync::Arc::new(config), name).expect("a session");
            let mut stream = StreamOwned::new(client, TcpStream::connect(at).expect("it listens"));
            stream.write_all(&sent).expect("it is read");
            stream.conn.send_close_notify();
            stream.flush().expect("an open connection");
            let mut all = Vec::new();
            // An end without TLS' last record is an error.
            stream.read_to_end(&mut all).map(|_| all)
        });
        let reason = until(&mut net, |net, event| match event {
            NetEvent::Received(id) => {
                let (received, replies) = net.parts(id)?;
                replies.reply(|buffer| buffer.extend_from_slice(received));
                let bytes = received.len();
                net.consume(id, bytes);
                None
            }
            NetEvent::Closed(_, reason) => Some(reason),
            _ => None,
        });
        assert_eq!(reason, CloseReason::PeerEnded);
        client.join().expect("no panic").expect("it is ended in order")
    });
    assert!(received == sent, "W1: {} bytes", received.len());
}

fn much_goes_both_ways(choice: TransportChoice) {
    let (mut net, at) = server(choice, NetLimits::default());
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let (sent, to_send) = (bytes.clone(), bytes);
    let client = std::thread::scope(|scope| {
        let client = scope.spawn(move || {
            let mut client = TcpStream::connect(at).expect("it listens");
            let mut reader = client.try_clone().expect("descriptors");
            let reading = scope.spawn(move || {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).map(|_| all)
            });
            client.write_all(&to_send).expect("it is read");
            client.shutdown(std::net::Shutdown::Write).expect("it is a socket");
            reading.join().expect("no panic").expect("it is closed in order")
        });
        let reason = until(&mut net, |net, event| match event {
            NetEvent::Received(id) => {
                let (received, replies) = net.parts(id)?;
                replies.reply(|buffer| buffer.extend_from_slice(received));
                let bytes = received.len();
                net.consume(id, bytes);
                None
            }
            NetEvent::Closed(_, reason) => Some(reason),
            _ => None,
        });
        assert_eq!(reason, CloseReason::PeerEnded);
        client.join().expect("no panic")
    });
    assert!(client == sent);
    let stats = net.stats();
    assert_eq!((stats.received_bytes, stats.sent_bytes, stats.open), (3_000_000, 3_000_000, 0));
}

fn another_thread_wakes_it_up(choice: TransportChoice) {
    let (mut net, _) = server(choice, NetLimits::default());
    let wake_up = net.wake_up();
    for _ in 0..3 {
        let wake_up = wake_up.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || wake_up.wake());
            until(&mut net, |_, event| (event == NetEvent::WokenUp).then_some(()));
        });
    }
    net.step(Duration::ZERO).expect("the system waits");
    assert_eq!(net.next_event(), None);
}

fn loops_share_an_address_and_each_client_has_one_of_them(choice: TransportChoice) {
    let any = ListenAddress::TcpShared("127.0.0.1:0".parse().expect("an address"));
    let new = || loop_of(choice, NetLimits::default());
    let (mut first, mut second) = (new(), new());
    let at = first.listen(&any).expect("a free port");
    assert_eq!(second.listen(&at).expect("it is shared"), at);
    let ListenAddress::TcpShared(address) = at else { unreachable!("it was shared") };
    let clients: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    while first.stats().open + second.stats().open < clients.len() {
        first.step(Duration::from_millis(1)).expect("the system waits");
        second.step(Duration::from_millis(1)).expect("the system waits");
    }
    assert_eq!(first.stats().accepted + second.stats().accepted, 20);
    let alone = new().listen(&ListenAddress::Tcp(address)).expect_err("who shares nothing is refused");
    assert_eq!(alone.kind(), std::io::ErrorKind::AddrInUse);
}

fn a_unix_socket_serves_too(choice: TransportChoice) {
    let path = std::env::temp_dir().join(format!("ensile-net-{choice:?}-{}.socket", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let mut net = loop_of(choice, NetLimits::default());
    let address = ListenAddress::Unix(path.clone());
    assert_eq!(net.listen(&address).expect("the file is not there"), address);
    let mut client = UnixStream::connect(&path).expect("it listens");
    client.write_all(b"a").expect("there is room");
    let id = received(&mut net, 1);
    net.parts(id).expect("it is open").1.reply(|buffer| buffer.push(b'b'));
    client.set_nonblocking(true).expect("it is a socket");
    assert_eq!(read_while_stepping(&mut net, &mut client, 1), b"b");
    assert_eq!(net.listen(&address).expect_err("it is in use").kind(), std::io::ErrorKind::AddrInUse);
    std::fs::remove_file(&path).expect("it is there");
}

fn clients_beyond_the_limit_wait_their_turn(choice: TransportChoice) {
    let (mut net, at) = server(choice, NetLimits { connections_max: 1, ..NetLimits::default() });
    let clients = [b'a', b'b'].map(|byte| {
        let mut client = TcpStream::connect(at).expect("the kernel has a queue");
        client.write_all(&[byte]).expect("there is room");
        (byte, client)
    });
    // Which of them comes first in the queue is the kernel's matter.
    let id = received(&mut net, 1);
    let first = net.parts(id).expect("it is open").0[0];
    net.consume(id, 1);
    net.step(Duration::from_millis(1)).expect("the system waits");
    assert_eq!((net.next_event(), net.stats().open), (None, 1));
    let (firsts, seconds): (Vec<_>, Vec<_>) = clients.into_iter().partition(|(byte, _)| *byte == first);
    drop(firsts);
    assert_eq!(closed(&mut net, id), CloseReason::PeerEnded);
    let next = received(&mut net, 1);
    assert!(next != id && net.parts(next).expect("it is open").0 == [seconds[0].0]);
}

fn a_client_that_is_gone_is_noticed(choice: TransportChoice) {
    let (mut net, at) = server(choice, NetLimits::default());
    let mut client = TcpStream::connect(at).expect("it listens");
    client.write_all(b"a").expect("there is room");
    let id = received(&mut net, 1);
    let slot = net.parts(id).expect("it is open").1.reserve(0);
    drop(client);
    net.step(Duration::ZERO).expect("the system waits");
    assert_eq!(net.next_event(), None, "it has a reply to come");
    net.fill(slot, |buffer| buffer.push(b'A'));
    until(&mut net, |_, event| matches!(event, NetEvent::Closed(at, _) if at == id).then_some(()));
}

/// A server at a Unix socket, whose file is removed with this.
struct UnixServer {
    net: Net,
    path: PathBuf,
}

impl UnixServer {
    fn new(choice: TransportChoice, name: &str, limits: NetLimits) -> Self {
        let path = std::env::temp_dir().join(format!("ensile-net-{name}-{choice:?}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut net = loop_of(choice, limits);
        net.listen(&ListenAddress::Unix(path.clone())).expect("the file is not there");
        Self { net, path }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).expect("it listens")
    }
}

impl Drop for UnixServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
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

/// Bytes of which no piece looks like another one.
fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 31 + at / 251 + seed * 97) % 253) as u8).collect()
}

/// Serves lines: each is its reply, some at once, others later in any order.
struct Lines {
    parked: Vec<(ReplySlot, Vec<u8>)>,
    random: Random,
}

impl Lines {
    fn serve(&mut self, net: &mut Net, id: ConnectionId) {
        let Some((received, replies)) = net.parts(id) else { return };
        let mut consumed = 0;
        while let Some(end) = received[consumed..].iter().position(|&byte| byte == b'\n') {
            if !replies.has_room() {
                break;
            }
            let line = &received[consumed..=consumed + end];
            if self.random.percent(30) {
                self.parked.push((replies.reserve(line.len()), line.to_vec()));
            } else {
                replies.reply(|buffer| buffer.extend_from_slice(line));
            }
            consumed += line.len();
        }
        net.consume(id, consumed);
    }

    fn tell(&mut self, net: &mut Net) {
        while !self.parked.is_empty() {
            let at = self.random.next_below(self.parked.len() as u64) as usize;
            let (slot, line) = self.parked.swap_remove(at);
            net.fill(slot, |buffer| buffer.extend(line));
        }
    }
}

/// Lines of a client, some of them longer than what one operation brings, and what comes back of them.
fn lines_of_a_client(at: SocketAddr, number: u64) {
    let mut random = Random::from_seed(number);
    let mut sent = Vec::new();
    for line in 0..300 {
        let length = if random.percent(3) { random.next_below(100_000) } else { random.next_below(60) };
        sent.extend_from_slice(format!("{number} {line} {}\n", "x".repeat(length as usize)).as_bytes());
    }
    let mut client = TcpStream::connect(at).expect("it listens");
    let mut reader = client.try_clone().expect("descriptors");
    let reading = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let piece = rest.len().min(random.next_between(1, 20_000) as usize);
            client.write_all(&rest[..piece]).expect("it is read");
            rest = &rest[piece..];
        }
        client.shutdown(std::net::Shutdown::Write).expect("it is a socket");
        reading.join().expect("no panic").expect("it is closed in order")
    });
    assert!(reading == sent, "W1: client {number} has {} of {} bytes", reading.len(), sent.len());
}

fn lines_come_back_in_order_whoever_else_asks(choice: TransportChoice) {
    let limits = NetLimits { parked_max: 20, unsent_bytes_max: 1 << 20, ..NetLimits::default() };
    let (mut net, at) = server(choice, limits);
    let mut lines = Lines { parked: Vec::new(), random: Random::from_seed(7) };
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..6).map(|number| scope.spawn(move || lines_of_a_client(at, number))).collect();
        let mut left = clients.len();
        while left > 0 && !clients.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            net.step(Duration::from_millis(10)).expect("the system waits");
            while let Some(event) = net.next_event() {
                match event {
                    NetEvent::Received(id) => lines.serve(&mut net, id),
                    NetEvent::Closed(_, reason) => {
                        assert_eq!(reason, CloseReason::PeerEnded);
                        left -= 1;
                    }
                    _ => {}
                }
            }
            lines.tell(&mut net);
        }
        clients.into_iter().for_each(|client| client.join().expect("each has its replies"));
    });
}

fn a_large_reply_waits_for_a_slow_client(choice: TransportChoice) {
    let (mut net, at) = server(choice, NetLimits::default());
    let mut client = TcpStream::connect(at).expect("it listens");
    client.write_all(b"a").expect("there is room");
    let id = received(&mut net, 1);
    net.consume(id, 1);
    let replies: Vec<Vec<u8>> = (0..5).map(|seed| pattern(4 << 20, seed)).collect();
    for reply in &replies {
        net.parts(id).expect("it is open").1.reply(|buffer| buffer.extend_from_slice(reply));
        net.step(Duration::ZERO).expect("the system waits");
    }
    net.close_when_sent(id);
    // All that goes without the client.
    let mut sent = u64::MAX;
    while net.stats().sent_bytes != sent {
        sent = net.stats().sent_bytes;
        (0..3).for_each(|_| net.step(Duration::from_millis(1)).expect("the system waits"));
    }
    assert!(sent < 20 << 20, "the kernel takes less than all of it: {sent}");
    let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
    client.set_nonblocking(true).expect("it is a socket");
    loop {
        net.step(Duration::ZERO).expect("the system waits");
        match client.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => all.extend_from_slice(&buffer[..bytes]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    assert!(all == replies.concat(), "W7: {} bytes came of {}", all.len(), 20 << 20);
    assert_eq!(net.stats().sent_bytes, 20 << 20);
}

fn a_client_that_vanishes_behind_a_large_reply_is_noticed(choice: TransportChoice) {
    let (mut net, at) = server(choice, NetLimits::default());
    let mut client = TcpStream::connect(at).expect("it listens");
    client.write_all(b"a").expect("there is room");
    let id = received(&mut net, 1);
    net.parts(id).expect("it is open").1.reply(|buffer| buffer.resize(20 << 20, b'x'));
    (0..20).for_each(|_| net.step(Duration::from_millis(1)).expect("the system waits"));
    // What it has not read makes the kernel say at once that it has gone.
    drop(client);
    until(&mut net, |_, event| {
        matches!(event, NetEvent::Closed(at, CloseReason::Failed(_)) if at == id).then_some(())
    });
    let mut next = TcpStream::connect(at).expect("it listens");
    next.write_all(b"bc").expect("there is room");
    let id = received(&mut net, 2);
    net.parts(id).expect("it is open").1.reply(|buffer| buffer.push(b'y'));
    net.close_when_sent(id);
    next.set_nonblocking(true).expect("it is a socket");
    assert_eq!(read_while_stepping(&mut net, &mut next, usize::MAX), b"y");
    drop(next);
    assert_eq!(closed(&mut net, id), CloseReason::Asked);
}

/// A server that gives up at the first bytes of a request, and a client that sends all of it before it reads. Where the
/// socket is closed with bytes that nobody has read, the kernel resets the connection, and the reason is lost.
fn w13_a_client_that_sends_all_of_a_large_request_reads_why_it_is_refused(choice: TransportChoice) {
    // However late a client of a busy machine goes on, it is waited for.
    let linger = Duration::from_secs(600);
    let (mut net, at) =
        server(choice, NetLimits { unread_bytes_max: 1 << 20, linger, ..NetLimits::default() });
    for bytes in [1, 100_000, 20 << 20] {
        std::thread::scope(|scope| {
            let client = scope.spawn(move || {
                let mut client = TcpStream::connect(at).expect("it listens");
                client.write_all(&vec![b'x'; bytes])?;
                let mut all = Vec::new();
                client.read_to_end(&mut all).map(|_| all)
            });
            let id = until(&mut net, |_, event| match event {
                NetEvent::Received(id) => Some(id),
                _ => None,
            });
            net.parts(id).expect("it is open").1.reply(|buffer| buffer.extend_from_slice(b"too large"));
            net.close_when_sent(id);
            assert_eq!(closed(&mut net, id), CloseReason::Asked);
            let told = client.join().expect("no panic").expect("W13: it is closed in order");
            assert_eq!(told, b"too large");
        });
    }
}

/// The timer of a connection's socket, as Linux tells it (`/proc/net/tcp`): which, and hundredths of a second until it
/// goes off. While others connect and close, the list may have a socket twice, or lack it.
///
/// # Panics
/// If a thousand lists lack it.
fn timer_of(local: SocketAddr, remote: SocketAddr) -> (String, u64) {
    let port = |address: &str| {
        let (_, port) = address.split_once(':').expect("address and port");
        u16::from_str_radix(port, 16).expect("a number")
    };
    let listed = || {
        let sockets = std::fs::read_to_string("/proc/net/tcp").expect("Linux tells");
        sockets.lines().skip(1).find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_it = (port(words[1]), port(words[2])) == (local.port(), remote.port()) && words[3] == "01";
            is_it.then(|| words[5].to_owned())
        })
    };
    let timer = (0..1000).find_map(|_| listed()).expect("a socket that is connected is listed");
    let (which, left) = timer.split_once(':').expect("a timer and its time");
    (which.to_owned(), u64::from_str_radix(left, 16).expect("a number"))
}

fn w3_the_kernel_asks_a_silent_client_whether_it_is_there(choice: TransportChoice) {
    const KEEPALIVE: &str = "02";
    for keepalive in [NetLimits::default().keepalive, Some(Duration::from_secs(1_000)), None] {
        let (mut net, at) = server(choice, NetLimits { keepalive, ..NetLimits::default() });
        let mut client = TcpStream::connect(at).expect("it listens");
        client.write_all(b"a").expect("there is room");
        let id = received(&mut net, 1);
        let (timer, left) = timer_of(at, client.local_addr().expect("it is connected"));
        match keepalive {
            Some(after) => {
                let most = after.as_secs() * 100;
                assert!(timer == KEEPALIVE && left <= most && left > most / 2, "W3: {timer}, {left}");
            }
            None => assert_ne!(timer, KEEPALIVE),
        }
        net.close(id);
    }
}

/// Bytes that a client can send while the loop takes steps and its connection is full.
fn taken_of(net: &mut Net, client: &mut UnixStream, bytes: &[u8]) -> usize {
    client.set_nonblocking(true).expect("it is a socket");
    let (mut taken, mut refused) = (0, 0);
    while taken < bytes.len() && refused < 20 {
        match client.write(&bytes[taken..bytes.len().min(taken + 10_000)]) {
            Ok(written) => (taken, refused) = (taken + written, 0),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                net.step(Duration::from_millis(1)).expect("the system waits");
                refused += 1;
            }
        }
    }
    taken
}

fn a_full_connection_is_not_read(choice: TransportChoice) {
    let limits = NetLimits { parked_max: 1, ..NetLimits::default() };
    let mut server = UnixServer::new(choice, "full", limits);
    let mut client = server.connect();
    client.write_all(b"a").expect("there is room");
    let net = &mut server.net;
    let id = received(net, 1);
    net.consume(id, 1);
    let (_, replies) = net.parts(id).expect("it is open");
    let slot = replies.reserve(0);
    assert!(!replies.has_room());
    // The kernel's buffers take some hundred KiB.
    let bytes = pattern(16 << 20, 1);
    let taken = taken_of(net, &mut client, &bytes);
    assert!((1..2 << 20).contains(&taken), "W8: it took {taken} bytes");
    assert_eq!(net.stats().received_bytes, 1, "W2: nothing is read of a full connection");
    net.fill(slot, |buffer| buffer.push(b'A'));
    until(net, |net, event| {
        assert_eq!(event, NetEvent::Received(id));
        (net.parts(id).expect("it is open").0.len() == taken).then_some(())
    });
    assert!(net.parts(id).expect("it is open").0 == &bytes[..taken], "in order and whole");
}

fn full_connections_hold_up_nobody(choice: TransportChoice) {
    allow_many_descriptors();
    let limits = NetLimits { parked_max: 1, ..NetLimits::default() };
    let mut server = UnixServer::new(choice, "many", limits);
    // More than a ring has buffers.
    let mut clients = Vec::new();
    let mut slots = Vec::new();
    for _ in 0..300 {
        let mut client = server.connect();
        client.write_all(b"a").expect("there is room");
        let id = received(&mut server.net, 1);
        server.net.consume(id, 1);
        server.net.step(Duration::ZERO).expect("the system waits");
        slots.push((id, server.net.parts(id).expect("it is open").1.reserve(0)));
        client.write_all(b"later").expect("there is room");
        clients.push(client);
    }
    let mut other = server.connect();
    other.set_nonblocking(true).expect("it is a socket");
    for round in 1..=100 {
        other.write_all(b"b").expect("there is room");
        let id = received(&mut server.net, 1);
        server.net.consume(id, 1);
        let (_, replies) = server.net.parts(id).expect("it is open");
        replies.reply(|buffer| buffer.push(round));
        assert_eq!(read_while_stepping(&mut server.net, &mut other, 1), [round]);
    }
    assert_eq!(server.net.stats().received_bytes, 400, "W2: of full ones nothing is read");
    // All of them are heard when they are full no longer.
    for (id, slot) in slots {
        server.net.fill(slot, |buffer| buffer.push(b'A'));
        until(&mut server.net, |net, event| {
            (event == NetEvent::Received(id)).then(|| {
                assert_eq!(net.parts(id).expect("it is open").0, b"later", "W6");
            })
        });
    }
}

fn a_client_is_not_taken_for_one_that_ended_in_the_same_step(choice: TransportChoice) {
    let clock = Clock::manual();
    let limits = NetLimits { idle: Some(Duration::from_secs(20)), ..NetLimits::default() };
    let transport = MachineTransport::new(choice).expect("it can be had");
    let mut net = CheckedLoop::new(NetLoop::new(transport, clock.clone(), limits));
    let any = ListenAddress::Tcp("127.0.0.1:0".parse().expect("an address"));
    let ListenAddress::Tcp(at) = net.listen(&any).expect("a free port") else { unreachable!("it was TCP") };
    for _ in 0..5 {
        let quiet = TcpStream::connect(at).expect("it listens");
        let first = opened(&mut net);
        net.step(Duration::ZERO).expect("the system waits");
        // Its time is over, and another one waits, when the loop looks again.
        let mut next = TcpStream::connect(at).expect("the kernel has a queue");
        clock.advance(Duration::from_secs(30));
        next.write_all(b"b").expect("there is room");
        let mut ended = Vec::new();
        let id = until(&mut net, |net, event| match event {
            NetEvent::Closed(id, reason) => {
                ended.push((id, reason));
                None
            }
            NetEvent::Received(id) if net.parts(id).is_some_and(|(received, _)| received == b"b") => Some(id),
            _ => None,
        });
        assert_eq!(ended, [(first, CloseReason::Idle)], "W9");
        net.consume(id, 1);
        net.step(Duration::ZERO).expect("the system waits");
        next.write_all(b"c").expect("there is room");
        assert_eq!(received(&mut net, 1), id);
        net.parts(id).expect("it is open").1.reply(|buffer| buffer.push(b'B'));
        net.close_when_sent(id);
        next.set_nonblocking(true).expect("it is a socket");
        assert_eq!(read_while_stepping(&mut net, &mut next, usize::MAX), b"B");
        drop((quiet, next));
        assert_eq!(closed(&mut net, id), CloseReason::Asked);
    }
}

fn closed_with_bytes_in_flight(choice: TransportChoice) {
    let (mut net, at) = server(choice, NetLimits::default());
    let bytes = pattern(20 << 20, 3);
    for _ in 0..5 {
        let mut client = TcpStream::connect(at).expect("it listens");
        client.write_all(b"a").expect("there is room");
        let id = received(&mut net, 1);
        net.parts(id).expect("it is open").1.reply(|buffer| buffer.extend_from_slice(&bytes));
        (0..20).for_each(|_| net.step(Duration::from_millis(1)).expect("the system waits"));
        net.close(id);
        // Others get their own bytes.
        let mut next = TcpStream::connect(at).expect("it listens");
        next.write_all(b"bb").expect("there is room");
        let other = received(&mut net, 2);
        net.parts(other).expect("it is open").1.reply(|buffer| buffer.extend_from_slice(b"BB"));
        net.close_when_sent(other);
        next.set_nonblocking(true).expect("it is a socket");
        assert_eq!(read_while_stepping(&mut net, &mut next, usize::MAX), b"BB");
        drop(next);
        assert_eq!(closed(&mut net, other), CloseReason::Asked);
        let mut all = Vec::new();
        // The kernel may call it broken: the loop has not taken the end of what it was sent.
        let _ = client.read_to_end(&mut all);
        assert!(!all.is_empty() && all.len() < bytes.len() && bytes.starts_with(&all), "{} bytes", all.len());
    }
    assert_eq!(net.stats().open, 0);
}

fn a_loop_ends_with_operations_in_flight(choice: TransportChoice) {
    for _ in 0..10 {
        let (mut net, at) = server(choice, NetLimits::default());
        let mut clients: Vec<TcpStream> =
            (0..8).map(|_| TcpStream::connect(at).expect("it listens")).collect();
        let wake_up = net.wake_up();
        for client in &mut clients[..4] {
            client.write_all(b"a").expect("there is room");
            let id = received(&mut net, 1);
            net.parts(id).expect("it is open").1.reply(|buffer| buffer.resize(20 << 20, b'x'));
            net.consume(id, 1);
        }
        (0..10).for_each(|_| net.step(Duration::from_millis(1)).expect("the system waits"));
        // Some of it is asked for, and not submitted.
        clients[0].write_all(b"b").expect("there is room");
        clients[1].shutdown(std::net::Shutdown::Both).expect("it is a socket");
        drop(net.into_inner());
        wake_up.wake();
        for mut client in clients {
            let mut all = Vec::new();
            // The kernel may call it broken.
            let _ = client.read_to_end(&mut all);
            assert!(all.len() < 20 << 20 && all.iter().all(|&byte| byte == b'x'));
        }
    }
}

/// Stops this process for a moment once the thread waits in the system, which interrupts the wait. A stop that is not
/// carried out when the process is to go on never is: hence the pause.
#[cfg(target_os = "linux")]
fn stop_while_waiting(thread: &std::path::Path) {
    let is_waiting = || {
        let stat = std::fs::read_to_string(std::path::Path::new("/proc").join(thread).join("stat"));
        stat.expect("the thread lives").rsplit(')').next().is_some_and(|rest| rest.starts_with(" S "))
    };
    while !is_waiting() {
        std::thread::yield_now();
    }
    let stopped = std::process::Command::new("sh")
        .args(["-c", "kill -STOP $PPID; sleep 0.1; kill -CONT $PPID"])
        .status();
    assert!(stopped.expect("a shell").success());
}

#[cfg(target_os = "linux")]
fn a_process_that_is_stopped_and_goes_on_ends_no_loop(choice: TransportChoice) {
    let (mut net, _) = server(choice, NetLimits::default());
    let wake_up = net.wake_up();
    let thread = std::fs::read_link("/proc/thread-self").expect("a thread");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            stop_while_waiting(&thread);
            wake_up.wake();
        });
        // Each step is looked at.
        until(&mut net, |_, event| (event == NetEvent::WokenUp).then_some(()));
    });
}

#[cfg(not(target_os = "linux"))]
fn a_process_that_is_stopped_and_goes_on_ends_no_loop(_: TransportChoice) {}

fn a_wake_up_before_the_wait_ends_it(choice: TransportChoice) {
    let (mut net, _) = server(choice, NetLimits::default());
    let wake_up = net.wake_up();
    for _ in 0..100 {
        wake_up.wake();
        wake_up.wake();
        until(&mut net, |_, event| (event == NetEvent::WokenUp).then_some(()));
        net.step(Duration::ZERO).expect("the system waits");
        assert_eq!(net.next_event(), None, "two before a wait are one");
    }
}
