//! Calls of the transport by themselves: errors that stay.

use std::net::{Ipv4Addr, SocketAddr};

use super::*;

const LISTENER: SocketToken = SocketToken(1);
const CONNECTION: SocketToken = SocketToken(2);

/// A transport and its one client, whose connection is open.
fn connected(seed: u64) -> (SimulatedTransport, ClientId) {
    let mut transport = SimulatedTransport::new(Clock::manual(), seed);
    let address = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    transport.listen(&address, LISTENER, None).expect("it is simulated");
    let client = transport.connect(10, 10);
    transport.accept(LISTENER, CONNECTION).expect("a client waits");
    (transport, client)
}

/// The outcome of a call, once it does not block.
fn outcome<R>(
    transport: &mut SimulatedTransport,
    mut call: impl FnMut(&mut SimulatedTransport) -> io::Result<R>,
) -> Result<R, io::ErrorKind> {
    for _ in 0..1000 {
        match call(transport) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                transport.wait(Some(Duration::from_millis(1)), &mut Vec::new()).expect("it is simulated");
            }
            outcome => return outcome.map_err(|error| error.kind()),
        }
    }
    panic!("it blocks")
}

#[test]
fn each_call_tells_that_a_client_has_vanished() {
    for seed in 0..50 {
        let (mut transport, client) = connected(seed);
        transport.vanish(client);
        for _ in 0..3 {
            let read =
                outcome(&mut transport, |transport| transport.read(CONNECTION, &mut Vec::with_capacity(10)));
            assert_eq!(read, Err(io::ErrorKind::ConnectionReset), "seed {seed}");
        }
        let written: Vec<_> = (0..3)
            .map(|_| outcome(&mut transport, |transport| transport.write(CONNECTION, b"reply")))
            .collect();
        let broken = if transport.ring_cases().is_some() {
            io::ErrorKind::BrokenPipe
        } else {
            io::ErrorKind::ConnectionReset
        };
        assert_eq!(written, [Err(broken); 3], "seed {seed}");
    }
}
