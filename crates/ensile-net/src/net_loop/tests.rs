//! Ends of the loop and of a place's generations.

use std::net::{Ipv4Addr, SocketAddr};

use super::*;
use crate::simulation::SimulatedTransport;

fn address() -> ListenAddress {
    ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)))
}

fn listening(seed: u64) -> NetLoop<SimulatedTransport> {
    let clock = Clock::manual();
    let transport = SimulatedTransport::new(clock.clone(), seed);
    let mut net = NetLoop::new(transport, clock, NetLimits::default());
    net.listen(&address()).expect("the network is simulated");
    net
}

/// The next connection that the loop opens.
fn opened(net: &mut NetLoop<SimulatedTransport>) -> ConnectionId {
    net.transport_mut().connect(10, 10);
    loop {
        net.step(Duration::from_millis(1)).expect("the network is simulated");
        net.check();
        while let Some(event) = net.next_event() {
            if let NetEvent::Opened(id) = event {
                return id;
            }
        }
    }
}

#[test]
fn a_place_without_a_generation_left_is_not_open() {
    let mut net = listening(1);
    let first = opened(&mut net);
    net.close(first);
    net.places[first.index as usize].generation = u32::MAX - 1;
    let last = opened(&mut net);
    assert_eq!((last.index, last.generation), (first.index, u32::MAX - 1));
    assert_eq!(net.stats().open, 1);
    net.close(last);
    net.check();
    assert_eq!((net.stats().open, net.given_up), (0, 1));
    let next = opened(&mut net);
    assert_ne!(next.index, last.index, "the place is given up");
    assert_eq!(net.stats().open, 1);
    net.assert_all_returned();
}

#[test]
fn a_loop_that_ends_takes_no_listener() {
    let mut net = listening(2);
    net.end_all(Duration::ZERO);
    assert!(net.listen(&address()).is_err());
    net.assert_all_returned();
}

/// The steps are not checked from outside: the loop itself asserts that a pause ends once.
#[test]
fn w5_each_refused_accept_begins_a_pause() {
    let mut net = listening(3);
    net.transport_mut().refuse_accepts(2);
    net.transport_mut().connect(10, 10);
    let mut pauses = 0;
    while net.stats().accepted == 0 {
        net.step(Duration::from_millis(100)).expect("the network is simulated");
        while let Some(event) = net.next_event() {
            pauses += usize::from(matches!(event, NetEvent::AcceptPaused(_)));
        }
    }
    assert_eq!(pauses, 2);
    (0..20).for_each(|_| net.step(Duration::from_millis(100)).expect("the network is simulated"));
    net.assert_all_returned();
}
