//! A simulated ring under the shipped bookkeeping of io_uring: few lent buffers, and operations that end late, in part,
//! interrupted, or with bytes although they were cancelled.
//!
//! Invariants: W6 (a returned buffer is overwritten, so a late read of the buffer shows), W7 (a write repeats the bytes
//! of the send in flight).
//!
//! Neighbours: [`crate::ring_sockets`] is the bookkeeping under test; [`super::network`] has the clients.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::time::Duration;

use rustix::io::Errno;

use super::network::{LATE_PERCENT, SimulatedNetwork};
use crate::ring_sockets::{RingSockets, SEND_BYTES, SendNumber, SocketCompletion, SocketRing};
use crate::transport::{
    ConnectionEnds, ListenAddress, LoopWakeUp, Readiness, SocketToken, Transport, TransportHoldings,
};

/// Largest number of buffers of a ring; a seed draws the number.
const BUFFERS_MAX: u64 = 4;
/// Size of a buffer in bytes.
const BUFFER_BYTES: usize = 16 << 10;
/// Percentage of the cancelled receives that still bring bytes, if bytes are there.
const CANCELLED_LATE_PERCENT: u64 = 50;

/// Number of times that the simulated ring has met each rare case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCases {
    /// Reads of a part of a lent buffer.
    pub partial_reads: u64,
    /// Lent buffers with unread bytes at a wait.
    pub copied_buffers: u64,
    /// Closes of a connection with a lent buffer.
    pub closed_with_buffer: u64,
    /// Arrivals for a closed connection.
    pub arrivals_after_close: u64,
    /// Arrivals that found all buffers lent.
    pub missing_buffers: u64,
}

/// A listener, or the connection to a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum SimulatedSocket {
    Listener,
    Connection(usize),
}

/// A buffer with arrived bytes.
#[derive(Debug)]
pub(super) struct SimulatedBuffer {
    number: usize,
    bytes: usize,
}

/// An operation in flight.
#[derive(Debug)]
struct SimulatedOperation {
    place: u32,
    kind: OperationKind,
    is_cancelled: bool,
}

#[derive(Debug)]
enum OperationKind {
    Receive(usize),
    Send(usize, SendNumber, Vec<u8>),
    Poll,
}

/// Operations of a seed.
#[derive(Debug)]
pub(super) struct SimulatedRing {
    pub(super) network: SimulatedNetwork,
    /// Percentage of the chances at which an operation is interrupted.
    in_vain_percent: u64,
    buffers: Vec<Vec<u8>>,
    free_buffers: Vec<usize>,
    operations: Vec<SimulatedOperation>,
    /// Number of sends so far.
    sends: u32,
    cases: RingCases,
}

impl SimulatedRing {
    fn new(mut network: SimulatedNetwork, in_vain_percent: u64) -> Self {
        let buffers = network.random.next_between(1, BUFFERS_MAX) as usize;
        Self {
            network,
            in_vain_percent,
            buffers: vec![vec![0; BUFFER_BYTES]; buffers],
            free_buffers: (0..buffers).collect(),
            operations: Vec::new(),
            sends: 0,
            cases: RingCases::default(),
        }
    }

    fn stage(&mut self, place: u32, kind: OperationKind) {
        self.operations.push(SimulatedOperation { place, kind, is_cancelled: false });
    }

    /// Ends operations. True if an operation could end and will end later.
    fn enter(&mut self, completions: &mut Vec<SocketCompletion<SimulatedBuffer>>) -> bool {
        self.network.clients_read();
        let mut operations = std::mem::take(&mut self.operations);
        self.network.shuffle(&mut operations);
        let mut has_more = false;
        for operation in operations {
            let is_interrupted = self.network.random.percent(self.in_vain_percent);
            if !is_interrupted && !self.may_end(&operation) {
                self.operations.push(operation);
            } else if self.network.random.percent(LATE_PERCENT) {
                has_more = true;
                self.operations.push(operation);
            } else {
                completions.push(self.end(operation, is_interrupted));
            }
        }
        has_more
    }

    fn may_end(&self, operation: &SimulatedOperation) -> bool {
        let pipes = &self.network.pipes;
        operation.is_cancelled
            || match operation.kind {
                OperationKind::Receive(pipe) => pipes[pipe].has_arrivals(),
                OperationKind::Send(pipe, ..) => pipes[pipe].has_vanished || pipes[pipe].room() > 0,
                OperationKind::Poll => !self.network.backlog.is_empty(),
            }
    }

    fn end(
        &mut self,
        operation: SimulatedOperation,
        is_interrupted: bool,
    ) -> SocketCompletion<SimulatedBuffer> {
        let SimulatedOperation { place, kind, is_cancelled } = operation;
        match kind {
            OperationKind::Receive(pipe) => {
                let outcome =
                    if is_interrupted { Err(Errno::INTR) } else { self.receive_now(pipe, is_cancelled) };
                let has_more = !self.network.pipes[pipe].to_loop.is_empty();
                SocketCompletion::Received { place, outcome, has_more }
            }
            OperationKind::Send(pipe, _, bytes) => {
                let pipe = &mut self.network.pipes[pipe];
                let outcome = match (is_interrupted, is_cancelled) {
                    (true, _) => Err(Errno::INTR),
                    _ if pipe.has_vanished => Err(Errno::PIPE),
                    (_, true) => Err(Errno::CANCELED),
                    _ => {
                        let most = pipe.room().min(bytes.len()) as u64;
                        let sent = self.network.random.next_between(1, most) as usize;
                        pipe.to_client.extend(&bytes[..sent]);
                        Ok(sent)
                    }
                };
                SocketCompletion::Sent { place, outcome }
            }
            OperationKind::Poll => SocketCompletion::Ready { place },
        }
    }

    fn receive_now(&mut self, pipe: usize, is_cancelled: bool) -> Result<Option<SimulatedBuffer>, Errno> {
        let SimulatedNetwork { pipes, random, .. } = &mut self.network;
        let pipe = &mut pipes[pipe];
        if pipe.has_vanished {
            return Err(Errno::CONNRESET);
        }
        if is_cancelled && (pipe.to_loop.is_empty() || !random.percent(CANCELLED_LATE_PERCENT)) {
            return Err(Errno::CANCELED);
        }
        if pipe.to_loop.is_empty() {
            return Ok(None);
        }
        let Some(number) = self.free_buffers.pop() else {
            self.cases.missing_buffers += 1;
            return Err(Errno::NOBUFS);
        };
        self.cases.arrivals_after_close += u64::from(is_cancelled);
        let bytes = random.next_between(1, pipe.to_loop.len().min(BUFFER_BYTES) as u64) as usize;
        let arrived = pipe.to_loop.drain(..bytes);
        self.buffers[number].iter_mut().zip(arrived).for_each(|(place, byte)| *place = byte);
        Ok(Some(SimulatedBuffer { number, bytes }))
    }
}

impl SocketRing for SimulatedRing {
    type Socket = SimulatedSocket;
    type Buffer = SimulatedBuffer;

    fn accept(&mut self, _: &SimulatedSocket) -> io::Result<SimulatedSocket> {
        self.network.accept().map(SimulatedSocket::Connection)
    }

    fn receive(&mut self, socket: &SimulatedSocket, place: u32, _: bool) {
        self.stage(place, OperationKind::Receive(socket.pipe()));
    }

    fn send(&mut self, socket: &SimulatedSocket, place: u32, bytes: &[u8]) -> SendNumber {
        let number = SendNumber(self.sends);
        self.sends += 1;
        self.stage(place, OperationKind::Send(socket.pipe(), number, bytes.to_vec()));
        number
    }

    fn poll(&mut self, _: &SimulatedSocket, place: u32) {
        self.stage(place, OperationKind::Poll);
    }

    fn cancel_waiting(&mut self, place: u32) {
        for operation in &mut self.operations {
            let is_send = matches!(operation.kind, OperationKind::Send(..));
            operation.is_cancelled |= operation.place == place && !is_send;
        }
    }

    fn cancel_send(&mut self, send: SendNumber) {
        for operation in &mut self.operations {
            operation.is_cancelled |=
                matches!(operation.kind, OperationKind::Send(_, number, _) if number == send);
        }
    }

    fn end_sending(&mut self, socket: &SimulatedSocket) {
        self.network.pipes[socket.pipe()].sends_no_more = true;
    }

    fn shut_down(&mut self, socket: &SimulatedSocket) {
        if let SimulatedSocket::Connection(pipe) = *socket {
            self.network.pipes[pipe].sends_no_more = true;
        }
    }

    fn close(&mut self, socket: SimulatedSocket) {
        if let SimulatedSocket::Connection(pipe) = socket {
            self.network.pipes[pipe].close();
        }
    }

    fn bytes<'a>(&'a self, buffer: &'a SimulatedBuffer) -> &'a [u8] {
        &self.buffers[buffer.number][..buffer.bytes]
    }

    fn give_back(&mut self, buffer: SimulatedBuffer) {
        self.buffers[buffer.number][..buffer.bytes].fill(0xEE);
        self.free_buffers.push(buffer.number);
    }

    fn lent_buffers(&self) -> usize {
        self.buffers.len() - self.free_buffers.len()
    }

    fn sends(&self) -> usize {
        let is_send = |operation: &&SimulatedOperation| matches!(operation.kind, OperationKind::Send(..));
        self.operations.iter().filter(is_send).count()
    }
}

impl SimulatedSocket {
    fn pipe(self) -> usize {
        match self {
            Self::Connection(pipe) => pipe,
            Self::Listener => unreachable!("a listener neither sends nor receives"),
        }
    }
}

pub(super) struct CompletionSockets {
    sockets: RingSockets<SimulatedRing>,
    /// Bytes of the send in flight of every connection.
    given: HashMap<SocketToken, Vec<u8>>,
}

impl CompletionSockets {
    pub(super) fn new(network: SimulatedNetwork, in_vain_percent: u64) -> Self {
        let ring = SimulatedRing::new(network, in_vain_percent);
        Self { sockets: RingSockets::new(ring), given: HashMap::new() }
    }

    pub(super) fn network(&self) -> &SimulatedNetwork {
        &self.sockets.ring().network
    }

    pub(super) fn network_mut(&mut self) -> &mut SimulatedNetwork {
        &mut self.sockets.ring_mut().network
    }

    pub(super) fn cases(&self) -> RingCases {
        self.sockets.ring().cases
    }
}

impl fmt::Debug for CompletionSockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionSockets")
            .field("open", &self.sockets.open())
            .field("ring", self.sockets.ring())
            .finish_non_exhaustive()
    }
}

impl Transport for CompletionSockets {
    fn listen(
        &mut self,
        address: &ListenAddress,
        listener: SocketToken,
        _: Option<Duration>,
    ) -> io::Result<ListenAddress> {
        self.sockets.add(listener, SimulatedSocket::Listener);
        Ok(address.clone())
    }

    fn accept(&mut self, listener: SocketToken, connection: SocketToken) -> io::Result<()> {
        self.sockets.accept(listener, connection)
    }

    fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let lent = self.sockets.ring().lent_buffers();
        let outcome = self.sockets.read(connection, buffer);
        let ring = self.sockets.ring_mut();
        ring.cases.partial_reads += u64::from(lent > 0 && outcome.is_ok() && ring.lent_buffers() == lent);
        outcome
    }

    fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize> {
        let given = self.given.entry(connection).or_default();
        assert!(bytes.starts_with(given), "W7: a write repeats the bytes of the send in flight");
        let outcome = self.sockets.write(connection, bytes);
        if outcome.is_ok() {
            given.clear();
        } else if given.is_empty() {
            given.extend_from_slice(&bytes[..bytes.len().min(SEND_BYTES)]);
        }
        outcome
    }

    fn end_sending(&mut self, connection: SocketToken) {
        self.sockets.end_sending(connection);
    }

    fn close(&mut self, socket: SocketToken) {
        self.given.remove(&socket);
        let lent = self.sockets.ring().lent_buffers();
        self.sockets.close(socket);
        let ring = self.sockets.ring_mut();
        ring.cases.closed_with_buffer += u64::from(ring.lent_buffers() < lent);
    }

    fn wait(&mut self, wait_max: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<bool> {
        let lent = self.sockets.ring().lent_buffers() as u64;
        self.sockets.ring_mut().cases.copied_buffers += lent;
        self.sockets.begin_wait();
        let mut completions = Vec::new();
        let has_more = self.sockets.ring_mut().enter(&mut completions);
        completions.into_iter().for_each(|completion| self.sockets.complete(completion, ready));
        Ok(self.network_mut().end_wait(wait_max, !ready.is_empty(), has_more))
    }

    fn ends(&self, connection: SocketToken) -> Option<ConnectionEnds> {
        self.sockets.socket(connection).and_then(|socket| self.network().ends(socket.pipe()))
    }

    fn held_bytes(&self, connection: SocketToken) -> usize {
        self.sockets.held_bytes(connection)
    }

    fn wake_up(&self) -> LoopWakeUp {
        self.network().wake_up()
    }

    fn holdings(&self) -> TransportHoldings {
        self.sockets.holdings()
    }
}
