//! The machine's sockets by `io_uring`: one system call submits all operations and waits for completions.
//!
//! Invariants: W6 (memory in flight is the ring's) and W10 (no answer is lost); W7, W8 and W9 by
//! [`crate::ring_sockets`].
//!
//! Neighbours: [`crate::transport`] has the promises, [`crate::ring_sockets`] the bookkeeping, [`crate::sockets`] the
//! opening of sockets; [`ring`] has the kernel's queues, and with [`memory`] all unsafe code.

#[expect(unsafe_code, reason = "memory that the kernel reads and writes while operations are in flight")]
mod memory;
#[expect(unsafe_code, reason = "memory that the kernel reads and writes while operations are in flight")]
mod ring;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::ring_sockets::RingSockets;
use crate::sockets::MachineSocket;
#[cfg(feature = "simulation")]
use crate::transport::TransportHoldings;
use crate::transport::{ConnectionEnds, ListenAddress, LoopWakeUp, Readiness, SocketToken, Transport};
use ring::{QueueLengths, Ring, RingCompletion};

/// The machine's transport with few system calls. A value belongs to the thread that made the value.
pub struct IoUring {
    sockets: RingSockets<Ring>,
    wake_ups: Arc<OwnedFd>,
}

impl IoUring {
    /// Creates a transport without sockets.
    ///
    /// # Errors
    /// The reason why this process cannot use io_uring, in words. Use [`crate::Epoll`] then, as
    /// [`crate::MachineTransport`] does.
    pub fn new() -> io::Result<Self> {
        Self::with_queues(QueueLengths::default())
    }

    fn with_queues(lengths: QueueLengths) -> io::Result<Self> {
        let mut ring = Ring::new(lengths)?;
        // The counter blocks: for a non-blocking counter the kernel refuses a read at zero at once, and does not wait.
        let wake_ups = eventfd(0, EventfdFlags::CLOEXEC)?;
        ring.read_wake_ups(wake_ups.as_fd());
        Ok(Self { sockets: RingSockets::new(ring), wake_ups: Arc::new(wake_ups) })
    }
}

impl fmt::Debug for IoUring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoUring")
            .field("sockets", &self.sockets.open())
            .field("ring", self.sockets.ring())
            .finish()
    }
}

impl Transport for IoUring {
    fn listen(
        &mut self,
        address: &ListenAddress,
        listener: SocketToken,
        keepalive: Option<Duration>,
    ) -> io::Result<ListenAddress> {
        let (socket, at) = MachineSocket::listen(address, keepalive)?;
        self.sockets.add(listener, socket);
        Ok(at)
    }

    fn accept(&mut self, listener: SocketToken, connection: SocketToken) -> io::Result<()> {
        self.sockets.accept(listener, connection)
    }

    fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.sockets.read(connection, buffer)
    }

    fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize> {
        self.sockets.write(connection, bytes)
    }

    fn end_sending(&mut self, connection: SocketToken) {
        self.sockets.end_sending(connection);
    }

    fn close(&mut self, socket: SocketToken) {
        self.sockets.close(socket);
    }

    fn wait(&mut self, wait_max: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<bool> {
        self.sockets.begin_wait();
        self.sockets.ring_mut().enter(wait_max)?;
        let mut woken = false;
        while let Some(completion) = self.sockets.ring_mut().next_completion() {
            match completion {
                RingCompletion::Socket(completion) => self.sockets.complete(completion, ready),
                RingCompletion::WokenUp => {
                    self.sockets.ring_mut().read_wake_ups(self.wake_ups.as_fd());
                    woken = true;
                }
                RingCompletion::Cancelled => {}
            }
        }
        Ok(woken)
    }

    fn ends(&self, connection: SocketToken) -> Option<ConnectionEnds> {
        self.sockets.socket(connection)?.ends()
    }

    fn held_bytes(&self, connection: SocketToken) -> usize {
        self.sockets.held_bytes(connection)
    }

    fn wake_up(&self) -> LoopWakeUp {
        let wake_ups = Arc::clone(&self.wake_ups);
        LoopWakeUp::new(move || {
            // The write would wait at a count of 2^64 - 2; the loop's reads make the count zero long before.
            let _ = rustix::io::write(&*wake_ups, &1_u64.to_ne_bytes());
        })
    }

    #[cfg(feature = "simulation")]
    fn holdings(&self) -> TransportHoldings {
        self.sockets.holdings()
    }
}

#[cfg(test)]
mod tests;
