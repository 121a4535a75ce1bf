//! A transport that a seed drives, and the clients at its other end, for tests of this crate and of servers.
//!
//! A seed draws the kind of the machine's transport. Half of the seeds have edges of readiness, as epoll: calls take a
//! part of the bytes and return `WouldBlock` without need. The others have the shipped bookkeeping of io_uring over a
//! simulated ring: bytes arrive with a completion in one of few lent buffers, and a send goes behind its call (W7).
//! With both, readiness is late or in vain, clients are slow, end or vanish, and the system refuses to accept. A test
//! repeats with its seed.
//!
//! Neighbours: [`crate::Transport`] has the promises; a test plays clients by [`crate::NetLoop::transport_mut`].

mod network;
mod readiness;
mod ring;

use std::io;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;

use crate::transport::{
    ConnectionEnds, ListenAddress, LoopWakeUp, Readiness, SocketToken, Transport, TransportHoldings,
};
use network::SimulatedNetwork;
use readiness::ReadinessSockets;
use ring::CompletionSockets;
pub use ring::RingCases;

/// Percent of the readiness in vain. Half of the seeds have none: it hides that a loop has lost an edge.
const IN_VAIN_PERCENT: u64 = 2;

/// A client of the simulated transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(usize);

/// Sockets of a seed.
#[derive(Debug)]
pub struct SimulatedTransport(SimulatedSockets);

#[derive(Debug)]
enum SimulatedSockets {
    Readiness(ReadinessSockets),
    Completion(Box<CompletionSockets>),
}

impl SimulatedTransport {
    /// A transport without clients; `clock` is manual.
    #[must_use]
    pub fn new(clock: Clock, seed: u64) -> Self {
        let mut random = Random::from_seed(seed);
        let in_vain_percent = if random.percent(50) { IN_VAIN_PERCENT } else { 0 };
        let has_ring = random.percent(50);
        let network = SimulatedNetwork::new(clock, random);
        Self(if has_ring {
            SimulatedSockets::Completion(Box::new(CompletionSockets::new(network, in_vain_percent)))
        } else {
            SimulatedSockets::Readiness(ReadinessSockets::new(network, in_vain_percent))
        })
    }

    /// Rare cases so far. `None` if the seed has no ring.
    #[must_use]
    pub fn ring_cases(&self) -> Option<RingCases> {
        match &self.0 {
            SimulatedSockets::Readiness(_) => None,
            SimulatedSockets::Completion(sockets) => Some(sockets.cases()),
        }
    }

    /// A client connects. `window_bytes` are under way to it at most, and it takes `speed_bytes` in a wait of the loop;
    /// zero is a client that never reads.
    pub fn connect(&mut self, window_bytes: usize, speed_bytes: usize) -> ClientId {
        ClientId(self.network_mut().connect(window_bytes, speed_bytes))
    }

    /// The client sends.
    pub fn send(&mut self, client: ClientId, bytes: &[u8]) {
        self.network_mut().pipes[client.0].send(bytes);
    }

    /// The client stays connected once it has read the loop's end. Others end then.
    pub fn stay(&mut self, client: ClientId) {
        self.network_mut().pipes[client.0].stays = true;
    }

    /// The client sends no more, and goes on reading.
    pub fn end(&mut self, client: ClientId) {
        self.network_mut().pipes[client.0].has_ended = true;
    }

    /// The client is gone with all bytes under way.
    pub fn vanish(&mut self, client: ClientId) {
        self.network_mut().pipes[client.0].vanish();
    }

    /// The client takes this number of bytes in a wait from now on.
    pub fn set_speed(&mut self, client: ClientId, speed_bytes: usize) {
        self.network_mut().pipes[client.0].speed_bytes = speed_bytes;
    }

    /// All that the client has received.
    #[must_use]
    pub fn received_bytes(&self, client: ClientId) -> &[u8] {
        &self.network().pipes[client.0].taken
    }

    /// True if the client has read the loop's end, behind all bytes that were sent before.
    #[must_use]
    pub fn has_closed(&self, client: ClientId) -> bool {
        self.network().pipes[client.0].has_read_the_end()
    }

    /// The next `count` calls of `accept` fail: the process has no descriptors left.
    pub fn refuse_accepts(&mut self, count: usize) {
        self.network_mut().refusals = count;
    }

    /// Calls of `accept` so far.
    #[must_use]
    pub fn accepts(&self) -> usize {
        self.network().accepts
    }

    fn network(&self) -> &SimulatedNetwork {
        match &self.0 {
            SimulatedSockets::Readiness(sockets) => &sockets.network,
            SimulatedSockets::Completion(sockets) => sockets.network(),
        }
    }

    fn network_mut(&mut self) -> &mut SimulatedNetwork {
        match &mut self.0 {
            SimulatedSockets::Readiness(sockets) => &mut sockets.network,
            SimulatedSockets::Completion(sockets) => sockets.network_mut(),
        }
    }

    fn sockets(&self) -> &dyn Transport {
        match &self.0 {
            SimulatedSockets::Readiness(sockets) => sockets,
            SimulatedSockets::Completion(sockets) => &**sockets,
        }
    }

    fn sockets_mut(&mut self) -> &mut dyn Transport {
        match &mut self.0 {
            SimulatedSockets::Readiness(sockets) => sockets,
            SimulatedSockets::Completion(sockets) => &mut **sockets,
        }
    }
}

impl Transport for SimulatedTransport {
    fn listen(
        &mut self,
        address: &ListenAddress,
        listener: SocketToken,
        keepalive: Option<Duration>,
    ) -> io::Result<ListenAddress> {
        self.sockets_mut().listen(address, listener, keepalive)
    }

    fn accept(&mut self, listener: SocketToken, connection: SocketToken) -> io::Result<()> {
        self.sockets_mut().accept(listener, connection)
    }

    fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.sockets_mut().read(connection, buffer)
    }

    fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize> {
        self.sockets_mut().write(connection, bytes)
    }

    fn end_sending(&mut self, connection: SocketToken) {
        self.sockets_mut().end_sending(connection);
    }

    fn close(&mut self, socket: SocketToken) {
        self.sockets_mut().close(socket);
    }

    fn wait(&mut self, wait_max: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<bool> {
        self.sockets_mut().wait(wait_max, ready)
    }

    fn ends(&self, connection: SocketToken) -> Option<ConnectionEnds> {
        self.sockets().ends(connection)
    }

    fn held_bytes(&self, connection: SocketToken) -> usize {
        self.sockets().held_bytes(connection)
    }

    fn wake_up(&self) -> LoopWakeUp {
        self.sockets().wake_up()
    }

    fn holdings(&self) -> TransportHoldings {
        self.sockets().holdings()
    }
}

#[cfg(test)]
mod tests;
