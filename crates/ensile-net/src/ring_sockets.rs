//! Sockets over a ring of operations: arrived bytes, the send in flight, and the places that completions name.
//!
//! The bookkeeping makes no system call and shares no memory with a kernel. A ring is a trait, so that io_uring and the
//! simulated transport run the same code.
//!
//! Invariants: W7 (one send at a time), W8 (a receive follows a read that asks; a wait holds no lent buffer), W9
//! (no completion for the successor of a socket).
//!
//! Neighbours: `uring` has the kernel's ring, `simulation` a seed's; [`crate::transport`] has the promises.

use std::collections::HashMap;
use std::io;

use rustix::io::Errno;

use crate::sockets::unknown;
use crate::transport::{Readiness, SocketToken};

/// Bytes of one send, at most.
pub(crate) const SEND_BYTES: usize = 64 << 10;

/// The name of a send in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendNumber(pub(crate) u32);

/// A ring of operations on sockets, with buffers that it lends for arrivals.
pub(crate) trait SocketRing {
    /// An open socket.
    type Socket;
    /// A lent buffer with arrived bytes, until [`SocketRing::give_back`] takes it.
    type Buffer;

    /// Accepts a connection without an operation.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if no client waits, and errors of the system.
    fn accept(&mut self, listener: &Self::Socket) -> io::Result<Self::Socket>;

    /// Asks for one receive into a lent buffer. If `at_once` is true, bytes have probably arrived: the ring tries the
    /// receive before a wait.
    fn receive(&mut self, socket: &Self::Socket, place: u32, at_once: bool);

    /// Asks for a send of the beginning of a copy of `bytes`.
    fn send(&mut self, socket: &Self::Socket, place: u32, bytes: &[u8]) -> SendNumber;

    /// Asks for word of the next client of a listener.
    fn poll(&mut self, listener: &Self::Socket, place: u32);

    /// Cancels the receive or the poll of a place.
    fn cancel_waiting(&mut self, place: u32);

    /// Cancels a send. A part of its bytes may have gone.
    fn cancel_send(&mut self, send: SendNumber);

    /// Ends the sending direction of a socket.
    fn end_sending(&mut self, socket: &Self::Socket);

    /// Ends both directions of a socket.
    fn shut_down(&mut self, socket: &Self::Socket);

    /// Closes a socket without an operation in flight.
    fn close(&mut self, socket: Self::Socket);

    fn bytes<'a>(&'a self, buffer: &'a Self::Buffer) -> &'a [u8];

    /// Ends the loan of a buffer.
    fn give_back(&mut self, buffer: Self::Buffer);

    fn lent_buffers(&self) -> usize;

    /// Number of sends in flight.
    #[cfg(feature = "simulation")]
    fn sends(&self) -> usize;
}

/// The end of an operation of a place.
#[derive(Debug)]
pub(crate) enum SocketCompletion<B> {
    /// End of a receive. `None` is the peer's end.
    Received { place: u32, outcome: Result<Option<B>, Errno>, has_more: bool },
    /// End of a send, with the number of sent bytes.
    Sent { place: u32, outcome: Result<usize, Errno> },
    /// End of a poll: a client may wait.
    Ready { place: u32 },
}

/// Arrived bytes that no read has taken yet.
enum Arrived<B> {
    Nothing,
    /// Bytes of a lent buffer, from this one on.
    Buffer(B, usize),
    Copied(Box<[u8]>, usize),
}

/// A listener or a connection with its operations in flight. The place stays until the last of them has ended (W9).
struct SocketPlace<S, B> {
    token: SocketToken,
    socket: S,
    is_closed: bool,
    /// True if a receive, or the poll of a listener, is in flight.
    waits: bool,
    arrived: Arrived<B>,
    /// True if more bytes were there when the last ones arrived.
    has_more: bool,
    /// End of arrivals, with its reason.
    ended: Option<Result<(), Errno>>,
    sending: Option<SendNumber>,
    /// Length of the copy of this send, in bytes.
    sending_bytes: usize,
    /// Outcome of the last send, for the next write.
    sent: Option<Result<usize, Errno>>,
}

type PlaceOf<R> = SocketPlace<<R as SocketRing>::Socket, <R as SocketRing>::Buffer>;

/// All sockets of a ring, by token and by place.
pub(crate) struct RingSockets<R: SocketRing> {
    ring: R,
    places: Vec<Option<PlaceOf<R>>>,
    free: Vec<u32>,
    by_token: HashMap<SocketToken, u32>,
    /// Places with a buffer that arrived since the last wait.
    arrived: Vec<u32>,
}

impl<R: SocketRing> RingSockets<R> {
    /// No sockets yet.
    pub(crate) fn new(ring: R) -> Self {
        Self { ring, places: Vec::new(), free: Vec::new(), by_token: HashMap::new(), arrived: Vec::new() }
    }

    pub(crate) fn ring(&self) -> &R {
        &self.ring
    }

    pub(crate) fn ring_mut(&mut self) -> &mut R {
        &mut self.ring
    }

    /// Number of sockets that are not closed.
    pub(crate) fn open(&self) -> usize {
        self.by_token.len()
    }

    /// Gives an open socket a place.
    pub(crate) fn add(&mut self, token: SocketToken, socket: R::Socket) {
        let place = SocketPlace {
            token,
            socket,
            is_closed: false,
            waits: false,
            arrived: Arrived::Nothing,
            has_more: true,
            ended: None,
            sending: None,
            sending_bytes: 0,
            sent: None,
        };
        let number = match self.free.pop() {
            Some(number) => {
                let earlier = self.places[number as usize].replace(place);
                debug_assert!(earlier.is_none(), "W9: a free place has no socket");
                number
            }
            None => {
                self.places.push(Some(place));
                self.places.len() as u32 - 1
            }
        };
        let earlier = self.by_token.insert(token, number);
        debug_assert!(earlier.is_none(), "W9: a token names one open socket");
    }

    /// The place of a socket, its number, and the ring.
    fn place(&mut self, token: SocketToken) -> io::Result<(u32, &mut PlaceOf<R>, &mut R)> {
        let number = *self.by_token.get(&token).ok_or_else(unknown)?;
        let place = self.places[number as usize].as_mut().ok_or_else(unknown)?;
        Ok((number, place, &mut self.ring))
    }

    /// The open socket of this name.
    pub(crate) fn socket(&self, token: SocketToken) -> Option<&R::Socket> {
        let number = *self.by_token.get(&token)?;
        let place = self.places[number as usize].as_ref();
        debug_assert!(
            place.is_some_and(|place| place.token == token && !place.is_closed),
            "W9: a token names an open socket"
        );
        place.map(|place| &place.socket)
    }

    /// [`crate::Transport::accept`].
    pub(crate) fn accept(&mut self, listener: SocketToken, connection: SocketToken) -> io::Result<()> {
        let (number, place, ring) = self.place(listener)?;
        let accepted = ring.accept(&place.socket);
        if accepted.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) && !place.waits {
            place.waits = true;
            ring.poll(&place.socket, number);
        }
        self.add(connection, accepted?);
        Ok(())
    }

    /// [`crate::Transport::read`].
    pub(crate) fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize> {
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
                            ring.receive(&place.socket, number, place.has_more);
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

    /// [`crate::Transport::write`].
    pub(crate) fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize> {
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
                debug_assert!(!bytes.is_empty(), "W7: a send has bytes, so its end is progress");
                if place.sending.is_none() {
                    let part = &bytes[..bytes.len().min(SEND_BYTES)];
                    place.sending_bytes = part.len();
                    place.sending = Some(ring.send(&place.socket, number, part));
                }
                Err(would_block())
            }
        }
    }

    /// [`crate::Transport::held_bytes`]. A lent buffer counts as the copy that the next wait makes of its unread bytes.
    pub(crate) fn held_bytes(&self, connection: SocketToken) -> usize {
        let number = self.by_token.get(&connection);
        let Some(place) = number.and_then(|number| self.places[*number as usize].as_ref()) else { return 0 };
        let arrived_bytes = match &place.arrived {
            Arrived::Nothing => 0,
            Arrived::Buffer(buffer, from) => self.ring.bytes(buffer).len() - from,
            Arrived::Copied(bytes, _) => bytes.len(),
        };
        arrived_bytes + place.sending_bytes
    }

    /// [`crate::Transport::end_sending`].
    pub(crate) fn end_sending(&mut self, connection: SocketToken) {
        if let Ok((_, place, ring)) = self.place(connection) {
            debug_assert!(place.sending.is_none() && place.sent.is_none(), "W7: all that was sent was told");
            ring.end_sending(&place.socket);
        }
    }

    /// [`crate::Transport::close`].
    pub(crate) fn close(&mut self, socket: SocketToken) {
        let Some(number) = self.by_token.remove(&socket) else { return };
        let Some(place) = &mut self.places[number as usize] else { return };
        place.is_closed = true;
        if let Arrived::Buffer(buffer, _) = std::mem::replace(&mut place.arrived, Arrived::Nothing) {
            self.ring.give_back(buffer);
        }
        if place.waits || place.sending.is_some() {
            // The peer hears of the close now, and not when the last operation has ended.
            self.ring.shut_down(&place.socket);
        }
        if place.waits {
            self.ring.cancel_waiting(number);
        }
        if let Some(send) = place.sending {
            self.ring.cancel_send(send);
        }
        self.forget(number);
    }

    /// Gives all lent buffers back, for the wait that follows (W8).
    pub(crate) fn begin_wait(&mut self) {
        self.copy_unread();
        debug_assert_eq!(self.ring.lent_buffers(), 0, "W8: the ring has all its buffers while it works");
    }

    /// Copies the unread bytes of lent buffers to memory of their connections.
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

    /// Notes the end of an operation, and adds the readiness of its socket.
    pub(crate) fn complete(&mut self, completion: SocketCompletion<R::Buffer>, ready: &mut Vec<Readiness>) {
        let (number, reads) = match completion {
            SocketCompletion::Received { place, outcome, has_more } => {
                self.complete_receive(place, outcome, has_more);
                (place, true)
            }
            SocketCompletion::Sent { place, outcome } => {
                let Some(its) = &mut self.places[place as usize] else { return };
                its.sending_bytes = 0;
                debug_assert!(its.sending.is_some(), "W9: a send ends once, at the place that asked for it");
                its.sending = None;
                // The next write repeats a send that was interrupted.
                its.sent = Some(outcome).filter(|outcome| !is_passing(outcome));
                (place, false)
            }
            SocketCompletion::Ready { place } => {
                let Some(its) = &mut self.places[place as usize] else { return };
                debug_assert!(its.waits, "W9: a poll ends once, at the place that asked for it");
                its.waits = false;
                (place, true)
            }
        };
        match &self.places[number as usize] {
            Some(place) if !place.is_closed => {
                ready.push(Readiness { socket: place.token, reads, writes: !reads });
            }
            _ => self.forget(number),
        }
    }

    fn complete_receive(&mut self, number: u32, outcome: Result<Option<R::Buffer>, Errno>, has_more: bool) {
        let Some(place) = &mut self.places[number as usize] else { return };
        debug_assert!(place.waits, "W9: a receive ends once, at the place that asked for it");
        place.waits = false;
        place.has_more = has_more;
        match outcome {
            Ok(Some(buffer)) if place.is_closed => self.ring.give_back(buffer),
            Ok(Some(buffer)) => {
                debug_assert!(
                    matches!(place.arrived, Arrived::Nothing),
                    "W8: a receive follows a read of all bytes"
                );
                place.arrived = Arrived::Buffer(buffer, 0);
                self.arrived.push(number);
            }
            Ok(None) => place.ended = Some(Ok(())),
            // The ring has no free buffer, or a signal interrupts. The next read asks again.
            Err(_) if is_passing(&outcome) => {}
            Err(error) => place.ended = Some(Err(error)),
        }
    }

    /// Closes the socket of a closed place without operations in flight, and frees the place.
    fn forget(&mut self, number: u32) {
        let place = &mut self.places[number as usize];
        let is_over = |place: &mut PlaceOf<R>| place.is_closed && !place.waits && place.sending.is_none();
        if let Some(place) = place.take_if(is_over) {
            self.ring.close(place.socket);
            self.free.push(number);
        }
    }

    /// Checks places, tokens, lent buffers and sends against each other.
    ///
    /// # Panics
    /// If one of them is missing or is counted twice.
    #[cfg(feature = "simulation")]
    pub(crate) fn holdings(&self) -> crate::transport::TransportHoldings {
        let places: Vec<_> = self.places.iter().flatten().collect();
        assert_eq!(self.free.len() + places.len(), self.places.len(), "W9: a place is free or in use");
        let is_free = |number: &u32| self.places[*number as usize].is_none();
        assert!(self.free.iter().all(is_free), "W9: a free place has no socket");
        let open = places.iter().filter(|place| !place.is_closed);
        assert_eq!(open.count(), self.by_token.len(), "W9: an open socket has a token");
        for (token, number) in &self.by_token {
            let place = self.places[*number as usize].as_ref().expect("W9: a token names a place in use");
            assert!(place.token == *token && !place.is_closed, "W9: the place has this token");
        }
        let buffers = places.iter().filter(|place| matches!(place.arrived, Arrived::Buffer(..))).count();
        assert_eq!(buffers, self.ring.lent_buffers(), "W6: each lent buffer is the one of a place");
        let sends = places.iter().filter(|place| place.sending.is_some()).count();
        assert_eq!(sends, self.ring.sends(), "W7: each send in flight is the one of a place");
        crate::transport::TransportHoldings { sockets: places.len(), buffers, sends }
    }
}

/// True if an operation has ended and says nothing about its socket.
fn is_passing<T>(outcome: &Result<T, Errno>) -> bool {
    matches!(outcome, Err(Errno::NOBUFS | Errno::INTR | Errno::AGAIN | Errno::CANCELED))
}

/// The error of a call that cannot go on.
fn would_block() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}
