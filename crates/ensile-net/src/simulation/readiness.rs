//! Simulated sockets with readiness as edges, like epoll's.
//!
//! Calls take a part of the bytes and return `WouldBlock` without need. Readiness comes late, and for half of the seeds
//! in vain.
//!
//! Neighbours: [`super::network`] has the clients; [`super::ring`] is the other view of the clients.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use ensile_base::random::Random;

use super::network::{LATE_PERCENT, Pipe, SimulatedNetwork};
use crate::sockets::unknown;
use crate::transport::{
    ConnectionEnds, ListenAddress, LoopWakeUp, Readiness, SocketToken, Transport, TransportHoldings,
};

/// Percent of the calls that return `WouldBlock` although they could go on.
const SPURIOUS_PERCENT: u64 = 10;

/// A connection and its next edges.
#[derive(Debug)]
struct EdgeSocket {
    pipe: usize,
    /// True if the next readiness is to be told.
    tells_reads: bool,
    tells_writes: bool,
}

#[derive(Debug)]
pub(super) struct ReadinessSockets {
    pub(super) network: SimulatedNetwork,
    /// Percent of the chances at which readiness is told in vain.
    in_vain_percent: u64,
    listeners: Vec<SocketToken>,
    tells_accept: bool,
    sockets: BTreeMap<SocketToken, EdgeSocket>,
}

impl ReadinessSockets {
    pub(super) fn new(network: SimulatedNetwork, in_vain_percent: u64) -> Self {
        Self { network, in_vain_percent, listeners: Vec::new(), tells_accept: true, sockets: BTreeMap::new() }
    }

    fn socket(&mut self, token: SocketToken) -> io::Result<(&mut EdgeSocket, &mut Pipe, &mut Random)> {
        let socket = self.sockets.get_mut(&token).ok_or_else(unknown)?;
        let pipe = &mut self.network.pipes[socket.pipe];
        if pipe.has_vanished {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok((socket, pipe, &mut self.network.random))
    }

    /// Tells readiness. True if some readiness is late.
    fn tell(&mut self, ready: &mut Vec<Readiness>) -> bool {
        self.network.clients_read();
        let mut has_more = false;
        let SimulatedNetwork { pipes, random, backlog, .. } = &mut self.network;
        for (token, socket) in &mut self.sockets {
            let pipe = &pipes[socket.pipe];
            let reads = socket.tells_reads && pipe.has_arrivals();
            let writes = socket.tells_writes && (pipe.has_vanished || pipe.room() > 0);
            let is_in_vain = random.percent(self.in_vain_percent);
            if (reads || writes) && random.percent(LATE_PERCENT) {
                has_more = true;
            } else if reads || writes || is_in_vain {
                socket.tells_reads &= !reads;
                socket.tells_writes &= !writes;
                ready.push(Readiness {
                    socket: *token,
                    reads: reads || is_in_vain,
                    writes: writes || is_in_vain,
                });
            }
        }
        if self.tells_accept && !backlog.is_empty() {
            self.tells_accept = false;
            ready.extend(self.listeners.iter().map(|listener| Readiness {
                socket: *listener,
                reads: true,
                writes: false,
            }));
        }
        self.network.shuffle(ready);
        has_more
    }
}

impl Transport for ReadinessSockets {
    fn listen(
        &mut self,
        address: &ListenAddress,
        listener: SocketToken,
        _: Option<Duration>,
    ) -> io::Result<ListenAddress> {
        self.listeners.push(listener);
        Ok(address.clone())
    }

    fn accept(&mut self, _: SocketToken, connection: SocketToken) -> io::Result<()> {
        let accepted = self.network.accept();
        self.tells_accept |= accepted.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        let socket = EdgeSocket { pipe: accepted?, tells_reads: true, tells_writes: true };
        self.sockets.insert(connection, socket);
        Ok(())
    }

    fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let (socket, pipe, random) = self.socket(connection)?;
        let available = pipe.to_loop.len().min(buffer.capacity() - buffer.len());
        if pipe.to_loop.is_empty() && pipe.has_ended {
            return Ok(0);
        }
        if available == 0 || random.percent(SPURIOUS_PERCENT) {
            socket.tells_reads = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let bytes = random.next_between(1, available as u64) as usize;
        buffer.extend(pipe.to_loop.drain(..bytes));
        Ok(bytes)
    }

    fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize> {
        let (socket, pipe, random) = self.socket(connection)?;
        let room = pipe.room().min(bytes.len());
        if room == 0 || random.percent(SPURIOUS_PERCENT) {
            socket.tells_writes = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = random.next_between(1, room as u64) as usize;
        pipe.to_client.extend(&bytes[..taken]);
        Ok(taken)
    }

    fn end_sending(&mut self, connection: SocketToken) {
        if let Ok((_, pipe, _)) = self.socket(connection) {
            pipe.sends_no_more = true;
        }
    }

    fn close(&mut self, socket: SocketToken) {
        self.listeners.retain(|listener| *listener != socket);
        if let Some(closed) = self.sockets.remove(&socket) {
            self.network.pipes[closed.pipe].close();
        }
    }

    fn wait(&mut self, wait_max: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<bool> {
        let has_more = self.tell(ready);
        Ok(self.network.end_wait(wait_max, !ready.is_empty(), has_more))
    }

    fn ends(&self, connection: SocketToken) -> Option<ConnectionEnds> {
        self.sockets.get(&connection).and_then(|socket| self.network.ends(socket.pipe))
    }

    fn wake_up(&self) -> LoopWakeUp {
        self.network.wake_up()
    }

    fn holdings(&self) -> TransportHoldings {
        let sockets = self.listeners.len() + self.sockets.len();
        TransportHoldings { sockets, ..TransportHoldings::default() }
    }
}
