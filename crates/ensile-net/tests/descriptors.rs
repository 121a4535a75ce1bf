//! A process without free descriptors: nobody is lost, the loop does not spin (W5), and all descriptors are given back.
//!
//! The limit is the process's, so this is a test of its own, and does not share it with others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_net::{
    CheckedLoop, ListenAddress, MachineTransport, NetEvent, NetLimits, NetLoop, TransportChoice,
};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Runs `call` while the process can open nothing.
fn without_descriptors<R>(socket: &TcpStream, call: impl FnOnce() -> R) -> R {
    let before = getrlimit(Resource::Nofile);
    let first_free = socket.try_clone().expect("one is free").as_raw_fd();
    let mut none = before;
    none.current = Some(u64::try_from(first_free).expect("a descriptor is no negative number"));
    setrlimit(Resource::Nofile, none).expect("a limit can be lowered");
    let result = call();
    setrlimit(Resource::Nofile, before).expect("it is not above the maximum");
    result
}

/// Number of open descriptors of this process.
fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux tells").count()
}

fn accepts_wait_for_descriptors(choice: TransportChoice) {
    let clock = Clock::manual();
    let transport = MachineTransport::new(choice).expect("it can be had");
    let mut net = CheckedLoop::new(NetLoop::new(transport, clock.clone(), NetLimits::default()));
    let any = ListenAddress::Tcp("127.0.0.1:0".parse().expect("an address"));
    let ListenAddress::Tcp(at) = net.listen(&any).expect("a free port") else { unreachable!("it was TCP") };
    let mut clients: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(at).expect("it listens")).collect();
    for client in &mut clients {
        client.write_all(b"a").expect("there is room");
    }
    let mut pauses = 0;
    without_descriptors(&clients[0], || {
        // Until it pauses, and some steps more.
        let (mut steps, mut behind) = (0, 0);
        while behind < 10 {
            assert!(steps < 60_000, "W5: clients wait, and accepts do not pause");
            net.step(Duration::from_millis(1)).expect("the system waits");
            while let Some(event) = net.next_event() {
                assert!(matches!(event, NetEvent::AcceptPaused(_)), "{event:?}");
                pauses += 1;
            }
            steps += 1;
            behind += i32::from(pauses > 0);
        }
    });
    assert_eq!((pauses, net.stats().open), (1, 0), "W5: the clock stands, so it pauses once");
    clock.advance(NetLimits::default().accept_pause);
    let mut served = 0;
    while served < 3 {
        net.step(Duration::from_secs(10)).expect("the system waits");
        while let Some(event) = net.next_event() {
            if let NetEvent::Received(id) = event {
                net.parts(id).expect("it is open").1.reply(|buffer| buffer.push(b'A'));
                net.close_when_sent(id);
                served += 1;
            }
        }
    }
    for mut client in clients {
        client.set_nonblocking(true).expect("it is a socket");
        let mut all = Vec::new();
        // The loop takes as many steps as its replies need.
        while let Err(error) = client.read_to_end(&mut all) {
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
            net.step(Duration::from_millis(1)).expect("the system waits");
        }
        assert_eq!(all, b"A");
    }
}

#[test]
fn accepts_wait_for_descriptors_over_both_transports() {
    let before = open_descriptors();
    accepts_wait_for_descriptors(TransportChoice::Epoll);
    assert_eq!(open_descriptors(), before, "epoll gives all descriptors back");
    match MachineTransport::new(TransportChoice::IoUring) {
        Ok(transport) => {
            drop(transport);
            accepts_wait_for_descriptors(TransportChoice::IoUring);
            assert_eq!(open_descriptors(), before, "io_uring gives all descriptors back");
        }
        Err(refused) => {
            writeln!(std::io::stderr(), "io_uring is passed over: {refused}").expect("it is open");
        }
    }
}
