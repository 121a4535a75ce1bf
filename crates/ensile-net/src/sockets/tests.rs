//! What an accepted socket has of its listener.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

use super::{KEEPALIVE_PROBES, KEEPALIVE_SECONDS_MAX, MachineSocket, check_free};
use crate::transport::ListenAddress;

/// A connection that was accepted where this is the time of keepalive.
fn accepted(listen: fn(std::net::SocketAddr) -> ListenAddress, keepalive: Option<Duration>) -> MachineSocket {
    let any = listen("127.0.0.1:0".parse().expect("an address"));
    let (listener, at) = MachineSocket::listen(&any, keepalive).expect("a free port");
    let (ListenAddress::Tcp(at) | ListenAddress::TcpShared(at)) = at else { unreachable!("it was TCP") };
    let _client = TcpStream::connect(at).expect("it listens");
    loop {
        match listener.accept() {
            // The kernel may be about to queue it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            accepted => return accepted.expect("it has connected"),
        }
    }
}

#[test]
fn an_accepted_client_is_asked_whether_it_is_there_if_its_listener_says_so() {
    for listen in [ListenAddress::Tcp, ListenAddress::TcpShared] {
        let longest = KEEPALIVE_SECONDS_MAX;
        let times =
            [(300, 300, 100), (2, 2, 1), (longest, longest, longest / 3), (1_000_000, longest, longest / 3)];
        for (asked, idle, between) in times {
            let socket = accepted(listen, Some(Duration::from_secs(asked))).descriptor;
            assert!(sockopt::socket_keepalive(&socket).expect("it is a socket"));
            let found = sockopt::tcp_keepidle(&socket).expect("it is TCP");
            assert_eq!(found, Duration::from_secs(idle), "{asked} s");
            let found = sockopt::tcp_keepintvl(&socket).expect("it is TCP");
            assert_eq!(found, Duration::from_secs(between), "{asked} s");
            assert_eq!(sockopt::tcp_keepcnt(&socket).expect("it is TCP"), KEEPALIVE_PROBES);
        }
        let socket = accepted(listen, None).descriptor;
        assert!(!sockopt::socket_keepalive(&socket).expect("it is a socket"));
    }
}

#[test]
fn an_address_at_which_somebody_listens_is_not_free_where_it_may_be_shared_either() {
    for listen in [ListenAddress::Tcp, ListenAddress::TcpShared] {
        let any = listen("127.0.0.1:0".parse().expect("an address"));
        let (listener, at) = MachineSocket::listen(&any, None).expect("a free port");
        let (ListenAddress::Tcp(at) | ListenAddress::TcpShared(at)) = at else { unreachable!("it was TCP") };
        let taken = check_free(at).expect_err("somebody listens there");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        check_free(at).expect("nobody listens there");
    }
}
