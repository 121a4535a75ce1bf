//! The machine's sockets, by `io_uring`: one system call submits all that was asked for and waits for what completes.
//!
//! Invariants: W6 (memory in flight is the ring's), W7 (one send at a time), W8 (nothing is received that was not asked
//! for), W9 (no completion is told to a successor), W10 (no answer is lost).
//!
//! Neighbours: [`crate::transport`] says what is promised, [`crate::sockets`] opens; [`ring`] has the kernel's queues
//! and all that is not safe.

#[expect(unsafe_code, reason = "memory that the kernel reads and writes while operations are in flight")]
mod memory;
#[expect(unsafe_code, reason = "memory that the kernel reads and writes while operations are in flight")]
mod ring;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::sockets::{MachineSocket, unknown};
use crate::transport::{ListenAddress, LoopWakeUp, Readiness, SocketToken, Transport};
use memory::ArrivedBuffer;
use ring::{Completion, QueueLengths, Ring, SendNumber};

/// Bytes of one send, at most.
const SEND_BYTES: usize = 64 << 10;

/// The transport of the machine that needs few system calls. It belongs to the thread that made it.
pub struct IoUring {
    ring: Ring,
    wake_ups: Arc<OwnedFd>,
    places: Vec<Option<SocketPlace>>,
    free: Vec<u32>,
    by_token: HashMap<SocketToken, u32>,
    /// Places where a buffer has arrived since the last wait.
    arrived: Vec<u32>,
}

/// What has arrived and was not read.
enum Arrived {
    Nothing,
    /// From this byte on.
    Buffer(ArrivedBuffer, usize),
    Copied(Box<[u8]>, usize),
}

/// A listener or a connection, and what of it is in flight. It stays until nothing is (W9).
struct SocketPlace {
    token: SocketToken,
    socket: MachineSocket,
    is_closed: bool,
    /// A receive, or a listener's poll, is in flight.
    waits: bool,
    arrived: Arrived,
    /// More was there when the last bytes arrived.
    has_more: bool,
    /// Nothing more arrives, and why.
    ended: Option<Result<(), Errno>>,
    sending: Option<SendNumber>,
    /// What became of the last send; the next write tells it.
    sent: Option<Result<usize, Errno>>,
}

impl IoUring {
    /// A transport without sockets.
    ///
    /// # Errors
    /// Why this process cannot have it, in words. Use [`crate::Epoll`] then, as [`crate::MachineTransport`] does.
    pub fn new() -> io::Result<Self> {
        Self::with_queues(QueueLengths::default())
    }

    fn with_queues(lengths: QueueLengths) -> io::Result<Self> {
        let mut ring = Ring::new(lengths)?;
        // It blocks: the kernel refuses a read of an empty one at once otherwise, and does not wait.
        let wake_ups = eventfd(0, EventfdFlags::CLOEXEC)?;
        ring.read_wake_ups(wake_ups.as_fd());
        Ok(Self {
            ring,
            wake_ups: Arc::new(wake_ups),
            places: Vec::new(),
            free: Vec::new(),
            by_token: HashMap::new(),
            arrived: Vec::new(),
        })
    }

    fn add(&mut self, token: SocketToken, socket: MachineSocket) {
        let place = SocketPlace {
            token,
            socket,
            is_closed: false,
            waits: false,
            arrived: Arrived::Nothing,
            has_more: true,
            ended: None,
            sending: None,
            sent: None,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.places[number as usize] = Some(place);
                number
            }
            None => {
                self.places.push(Some(place));
                self.places.len() as u32 - 1
            }
        };
        self.by_token.insert(token, number);
    }

    /// A socket's place, and the ring.
    fn place(&mut self, token: SocketToken) -> io::Result<(u32, &mut SocketPlace, &mut Ring)> {
        let number = *self.by_token.get(&token).ok_or_else(unknown)?;
        let place = self.places[number as usize].as_mut().ok_or_else(unknown)?;
        Ok((number, place, &mut self.ring))
    }

    /// Copies what the loop has not read, so that all buffers are the kernel's (W8).
    fn copy_unread(&mut self) {
        for number in self.arrived.drain(..) {
            let Some(place) = &mut self.places[number as usize] else { continue };
            if let Arrived::Buffer(buffer, from) = &place.arrived {
                let copied = Arrived::Copied(self.ring.bytes(buffer)[*from..].into(), 0);
                if let Arrived::Buffer(buffer, _) = std::mem::replace(&mut place.arrived, copied) {
                    self.ring.give_back(buffer);
                }
            }
        }
    }

    /// Takes a completion in. `true` if the loop was woken up.
    fn complete(&mut self, completion: Completion, ready: &mut Vec<Readiness>) -> bool {
        let (number, reads) = match completion {
            Completion::Received { place, outcome, has_more } => {
                self.received(place, outcome, has_more);
                (place, true)
            }
            Completion::Sent { place, outcome } => {
                let Some(its) = &mut self.places[place as usize] else { return false };
                debug_assert!(its.sending.is_some(), "W9: a send ends once, at the place that asked for it");
                its.sending = None;
                // What was interrupted is tried again by the next write.
                its.sent = Some(outcome).filter(|outcome| !is_passing(outcome));
                (place, false)
            }
            Completion::Ready { place } => {
                let Some(its) = &mut self.places[place as usize] else { return false };
                its.waits = false;
                (place, true)
            }
            Completion::WokenUp => {
                self.ring.read_wake_ups(self.wake_ups.as_fd());
                return true;
            }
            Completion::Cancelled => return false,
        };
        match &self.places[number as usize] {
            Some(place) if !place.is_closed => {
                ready.push(Readiness { socket: place.token, reads, writes: !reads });
            }
            _ => self.forget(number),
        }
        false
    }

    fn received(&mut self, number: u32, outcome: Result<Option<ArrivedBuffer>, Errno>, has_more: bool) {
        let Some(place) = &mut self.places[number as usize] else { return };
        debug_assert!(place.waits, "W9: a receive ends once, at the place that asked for it");
        place.waits = false;
        place.has_more = has_more;
        match outcome {
            Ok(Some(buffer)) if place.is_closed => self.ring.give_back(buffer),
            Ok(Some(buffer)) => {
                place.arrived = Arrived::Buffer(buffer, 0);
                self.arrived.push(number);
            }
            Ok(None) => place.ended = Some(Ok(())),
            // No buffer was free, or a signal came. The loop reads in vain, which asks again.
            Err(_) if is_passing(&outcome) => {}
            Err(error) => place.ended = Some(Err(error)),
        }
    }

    /// Lets go of a closed socket of which nothing is in flight.
    fn forget(&mut self, number: u32) {
        let place = &mut self.places[number as usize];
        if place.as_ref().is_some_and(|place| place.is_closed && !place.waits && place.sending.is_none()) {
            *place = None;
            self.free.push(number);
        }
    }
}

/// Whether an operation has ended without a word on the socket.
fn is_passing<T>(outcome: &Result<T, Errno>) -> bool {
    matches!(outcome, Err(Errno::NOBUFS | Errno::INTR | Errno::AGAIN | Errno::CANCELED))
}

/// A call that cannot go on.
fn would_block() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

impl fmt::Debug for IoUring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoUring").field("sockets", &self.by_token.len()).field("ring", &self.ring).finish()
    }
}

impl Transport for IoUring {
    fn listen(
        &mut self,
        address: &ListenAddress,
        listener: SocketToken,
        keepalive: Option<Duration>,
    ) -> io::Result<ListenAddress> {
        let (socket, at) = MachineSocket::listening(address, keepalive)?;
        self.add(listener, socket);
        Ok(at)
    }

    fn accept(&mut self, listener: SocketToken, connection: SocketToken) -> io::Result<()> {
        let (number, place, ring) = self.place(listener)?;
        let accepted = place.socket.accept();
        if accepted.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) && !place.waits {
            place.waits = true;
            ring.poll(place.socket.descriptor.as_fd(), number);
        }
        self.add(connection, accepted?);
        Ok(())
    }

    fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let (number, place, ring) = self.place(connection)?;
        let room = buffer.capacity() - buffer.len();
        let (unread, from) = match &mut place.arrived {
            Arrived::Buffer(arrived, from) => (&ring.bytes(arrived)[*from..], from),
            Arrived::Copied(bytes, from) => (&bytes[*from..], from),
            Arrived::Nothing => {
                return match place.ended {
                    Some(Ok(())) => Ok(0),
                    Some(Err(error)) => Err(error.into()),
                    None => {
                        if !place.waits {
                            place.waits = true;
                            ring.receive(place.socket.descriptor.as_fd(), number, place.has_more);
                        }
                        Err(would_block())
                    }
                };
            }
        };
        let bytes = unread.len().min(room);
        buffer.extend_from_slice(&unread[..bytes]);
        *from += bytes;
        if bytes == unread.len()
            && let Arrived::Buffer(arrived, _) = std::mem::replace(&mut place.arrived, Arrived::Nothing)
        {
            ring.give_back(arrived);
        }
        Ok(bytes)
    }

    fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize> {
        let (number, place, ring) = self.place(connection)?;
        match place.sent.take() {
            Some(Ok(sent)) => {
                debug_assert!(sent <= bytes.len(), "W7: these bytes begin with what was sent");
                Ok(sent)
            }
            Some(Err(error)) => {
                place.sent = Some(Err(error));
                Err(error.into())
            }
            None => {
                if place.sending.is_none() {
                    let part = &bytes[..bytes.len().min(SEND_BYTES)];
                    place.sending = Some(ring.send(place.socket.descriptor.as_fd(), number, part));
                }
                Err(would_block())
            }
        }
    }

    fn end_sending(&mut self, connection: SocketToken) {
        if let Ok((_, place, _)) = self.place(connection) {
            debug_assert!(place.sending.is_none() && place.sent.is_none(), "W7: all that was sent was told");
            place.socket.end_sending();
        }
    }

    fn close(&mut self, socket: SocketToken) {
        let Some(number) = self.by_token.remove(&socket) else { return };
        let Some(place) = &mut self.places[number as usize] else { return };
        place.is_closed = true;
        if let Arrived::Buffer(buffer, _) = std::mem::replace(&mut place.arrived, Arrived::Nothing) {
            self.ring.give_back(buffer);
        }
        if place.waits || place.sending.is_some() {
            // The peer hears of it now. It has gone if this fails.
            let _ = rustix::net::shutdown(&place.socket.descriptor, Shutdown::Both);
        }
        if place.waits {
            self.ring.cancel_waiting(number);
        }
        if let Some(send) = place.sending {
            self.ring.cancel_send(send);
        }
        self.forget(number);
    }

    fn wait(&mut self, wait_max: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<bool> {
        self.copy_unread();
        self.ring.enter(wait_max)?;
        let mut woken = false;
        while let Some(completion) = self.ring.next_completion() {
            woken |= self.complete(completion, ready);
        }
        Ok(woken)
    }

    fn wake_up(&self) -> LoopWakeUp {
        let wake_ups = Arc::clone(&self.wake_ups);
        LoopWakeUp::new(move || {
            // It would wait at a count of 2^64 - 2, which the loop's reads make zero long before.
            let _ = rustix::io::write(&*wake_ups, &1_u64.to_ne_bytes());
        })
    }
}

#[cfg(test)]
mod tests;
