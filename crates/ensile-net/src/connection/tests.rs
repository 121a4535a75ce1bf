//! Claims on a connection whose client takes its replies slowly, over a transport with scripted writes, and reads that
//! wait for memory.

use std::collections::VecDeque;

use super::*;
use crate::memory::ConnectionMemory;
use crate::transport::{ListenAddress, LoopWakeUp, Readiness, SocketToken, TransportHoldings};

const LIMITS: NetLimits = NetLimits {
    ending: Duration::from_nanos(100),
    connections_max: 1,
    unread_bytes_max: 1000,
    unsent_bytes_max: 1000,
    parked_max: 10,
    idle: None,
    stalled: Duration::from_secs(1),
    keepalive: None,
    linger: Duration::ZERO,
    linger_bytes_max: 0,
    free_bytes: 0,
    memory_wait: Duration::from_secs(1),
    room_kept: Duration::from_secs(1),
    step_bytes: 1000,
    accept_pause: Duration::ZERO,
};

/// Numbers of bytes that the next writes take; then there is no room.
struct ScriptedWrites(VecDeque<usize>);

impl Transport for ScriptedWrites {
    fn listen(
        &mut self,
        _: &ListenAddress,
        _: SocketToken,
        _: Option<Duration>,
    ) -> io::Result<ListenAddress> {
        unreachable!("it writes only")
    }

    fn accept(&mut self, _: SocketToken, _: SocketToken) -> io::Result<()> {
        unreachable!("it writes only")
    }

    fn read(&mut self, _: SocketToken, _: &mut Vec<u8>) -> io::Result<usize> {
        unreachable!("it writes only")
    }

    fn write(&mut self, _: SocketToken, _: &[u8]) -> io::Result<usize> {
        self.0.pop_front().ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn end_sending(&mut self, _: SocketToken) {}

    fn close(&mut self, _: SocketToken) {}

    fn wait(&mut self, _: Option<Duration>, _: &mut Vec<Readiness>) -> io::Result<bool> {
        unreachable!("it writes only")
    }

    fn wake_up(&self) -> LoopWakeUp {
        unreachable!("it writes only")
    }

    fn holdings(&self) -> TransportHoldings {
        TransportHoldings::default()
    }
}

/// A connection whose replies of ten bytes each wait at these times, while its client takes these bytes.
fn replied(writes: &[(u64, &[usize])]) -> Connection {
    let memory = LoopMemory::new(ConnectionMemory::new(usize::MAX));
    let id = ConnectionId { index: 0, generation: 0 };
    let mut connection = Connection::new(id, &LIMITS, &memory, 0);
    for (now_nanos, taken) in writes {
        connection.replies.reply(|buffer| buffer.extend_from_slice(b"ten bytes."));
        connection.may_write = true;
        let mut transport = ScriptedWrites(taken.iter().copied().collect());
        let sent = connection.write(&mut transport, *now_nanos).expect("no write fails");
        assert_eq!(sent, taken.iter().sum::<usize>() as u64);
    }
    connection
}

#[test]
fn w16_a_connection_whose_request_waits_for_memory_is_not_read() {
    let memory = LoopMemory::new(ConnectionMemory::new(1000));
    let new = |index| Connection::new(ConnectionId { index, generation: 0 }, &LIMITS, &memory, 0);
    let (mut connection, mut other) = (new(0), new(1));
    other.replies.set_owner_bytes(600);
    assert!(connection.wants_read(&LIMITS));
    assert_eq!(connection.replies.fits(500), MemoryFit::Later, "W16");
    assert!(!connection.wants_read(&LIMITS), "W16: its client waits");
    other.replies.set_owner_bytes(0);
    assert!(connection.wants_read(&LIMITS), "W16: there is memory again");
}

#[test]
fn w16_a_client_that_does_not_take_what_waited_is_closed_for_others() {
    let connection = replied(&[(0, &[]), (50, &[9])]);
    assert_eq!(connection.claim(&LIMITS, 0, 99), None, "W16: its time is not over");
    assert_eq!(connection.claim(&LIMITS, 0, 100), Some(MemoryClaim::Closed), "W16");
}

#[test]
fn w16_the_time_of_a_client_begins_anew_once_it_has_taken_all_that_waited() {
    let connection = replied(&[(0, &[]), (50, &[4, 6])]);
    assert_eq!(connection.claim(&LIMITS, 0, 149), None, "W16: it took all that waited at first");
    assert_eq!(connection.claim(&LIMITS, 0, 150), Some(MemoryClaim::Closed), "W16");
}
