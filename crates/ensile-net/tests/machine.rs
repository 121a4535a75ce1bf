//! The machine's sockets, by io_uring and by epoll: pipelines with parked replies, large replies, slow clients and such
//! as vanish, wake-ups from another thread, limits.
//!
//! One suite over both transports. Where the kernel refuses io_uring its tests say so on standard error, and end. Clients
//! are std's blocking sockets.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_net::{
    CloseReason, ConnectionId, ListenAddress, MachineTransport, NetEvent, NetLimits, NetLoop, TransportChoice,
};

/// The loop of a test.
type Net = NetLoop<MachineTransport>;

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
    another_thread_wakes_it_up
    loops_share_an_address_and_each_client_has_one_of_them
    a_unix_socket_serves_too
    clients_beyond_the_limit_wait_their_turn
    a_client_that_is_gone_is_noticed
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
    NetLoop::new(MachineTransport::new(choice).expect("it can be had"), Clock::machine(), limits)
}

fn server(choice: TransportChoice, limits: NetLimits) -> (Net, SocketAddr) {
    let mut net = loop_of(choice, limits);
    let address = ListenAddress::Tcp("127.0.0.1:0".parse().expect("an address"));
    match net.listen(&address).expect("a free port") {
        ListenAddress::Tcp(at) => (net, at),
        _ => unreachable!("it was TCP"),
    }
}

/// Steps until an event is the one that is looked for; others before it are dropped.
fn until<R>(net: &mut Net, mut wanted: impl FnMut(&mut Net, NetEvent) -> Option<R>) -> R {
    loop {
        net.step(Duration::from_secs(10)).expect("the system waits");
        while let Some(event) = net.next_event() {
            if let Some(result) = wanted(net, event) {
                return result;
            }
        }
    }
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
    let slot = replies.reserve();
    replies.reply(|buffer| buffer.extend_from_slice(b"BC"));
    net.consume(id, 3);
    net.step(Duration::ZERO).expect("the system waits");
    client.set_nonblocking(true).expect("it is a socket");
    let early = client.read(&mut [0; 8]).expect_err("the first reply was not told");
    assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
    net.fill(slot, |buffer| buffer.push(b'A'));
    net.close_when_sent(id);
    net.step(Duration::ZERO).expect("the system waits");
    client.set_nonblocking(false).expect("it is a socket");
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("it is closed in order");
    assert_eq!(all, b"ABC");
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
    net.step(Duration::ZERO).expect("the system waits");
    let mut reply = [0];
    client.read_exact(&mut reply).expect("it was sent");
    assert_eq!(&reply, b"b");
    assert_eq!(net.listen(&address).expect_err("it is in use").kind(), std::io::ErrorKind::AddrInUse);
    std::fs::remove_file(&path).expect("it is there");
}

fn clients_beyond_the_limit_wait_their_turn(choice: TransportChoice) {
    let (mut net, at) = server(choice, NetLimits { connections_max: 1, ..NetLimits::default() });
    let first = TcpStream::connect(at).expect("it listens");
    let mut second = TcpStream::connect(at).expect("the kernel has a queue");
    second.write_all(b"b").expect("there is room");
    let id = opened(&mut net);
    net.step(Duration::from_millis(1)).expect("the system waits");
    assert_eq!((net.next_event(), net.stats().open), (None, 1));
    drop(first);
    let closed = until(&mut net, |_, event| match event {
        NetEvent::Closed(id, CloseReason::PeerEnded) => Some(id),
        _ => None,
    });
    assert_eq!(closed, id);
    assert_ne!(received(&mut net, 1), id);
}

fn a_client_that_is_gone_is_noticed(choice: TransportChoice) {
    let (mut net, at) = server(choice, NetLimits::default());
    let mut client = TcpStream::connect(at).expect("it listens");
    client.write_all(b"a").expect("there is room");
    let id = received(&mut net, 1);
    let slot = net.parts(id).expect("it is open").1.reserve();
    drop(client);
    net.step(Duration::ZERO).expect("the system waits");
    assert_eq!(net.next_event(), None, "it has a reply to come");
    net.fill(slot, |buffer| buffer.push(b'A'));
    until(&mut net, |_, event| matches!(event, NetEvent::Closed(at, _) if at == id).then_some(()));
}
