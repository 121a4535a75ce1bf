//! The replies of one connection, sent in the order of their places, whenever each is told (W1).
//!
//! A told reply with no open place before goes straight to the bytes to be sent. Other replies wait in a queue, each in
//! its place.
//!
//! Neighbours: [`crate::connection`] sends the bytes; callers get the queue of a connection by
//! [`crate::NetLoop::parts`].

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::event::ConnectionId;
use crate::limits::NetLimits;
use ensile_base::panic_text;

/// The place of a reply that is to be told later, by [`crate::NetLoop::fill`].
///
/// A slot is used once. Until then all later replies of the connection wait: an owner without a reply must close the
/// connection.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "until it is filled, all later replies of its connection wait"]
pub struct ReplySlot {
    pub(crate) connection: ConnectionId,
    pub(crate) number: u64,
}

impl ReplySlot {
    /// The connection of the reply. A reply of an ended connection need not be kept.
    #[must_use]
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }
}

/// A reply that waits.
#[derive(Debug)]
enum ReplyPlace {
    /// Not told, with the bytes that the owner keeps for the reply.
    Reserved(usize),
    Told(Vec<u8>),
}

/// The replies of a connection that are not sent.
#[derive(Debug)]
pub struct ReplyQueue {
    connection: ConnectionId,
    /// Bytes to be sent, in order. The first `sent_bytes` of them are sent.
    sending: Vec<u8>,
    sent_bytes: usize,
    /// Places from the first one that is not told on.
    waiting: VecDeque<ReplyPlace>,
    /// Bytes of told replies in the queue, and of bytes that owners keep for the others.
    waiting_bytes: usize,
    /// The number of the first place in `waiting`.
    first: u64,
    /// Limit of unsent bytes. Above half of the limit no more requests are taken.
    unsent_bytes_max: usize,
    parked_max: usize,
    is_beyond: bool,
    turned_away: bool,
    /// True while the owner has set the next request aside (W18).
    holds_request: bool,
    /// True while the request that is set aside waits for an event that may never come (W18).
    waits_for_event: bool,
    /// True if the client waits for bytes that are no replies: the client's silence is not idle.
    is_listener: bool,
    /// Bytes that the owner keeps for the connection, besides those for places.
    owner_bytes: usize,
    /// Text of a panic in the writer of a reply: the stream has ended with the reply before.
    panicked: Option<Box<str>>,
}

impl ReplyQueue {
    /// Bytes of a sent buffer that are kept, at most.
    const KEEP_BYTES: usize = 32 << 10;
    /// Most places whose room is kept.
    const KEEP_PLACES: usize = 256;

    pub(crate) fn new(connection: ConnectionId, limits: &NetLimits) -> Self {
        Self {
            connection,
            sending: Vec::new(),
            sent_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            first: 0,
            unsent_bytes_max: limits.unsent_bytes_max,
            parked_max: limits.parked_max,
            is_beyond: false,
            turned_away: false,
            holds_request: false,
            waits_for_event: false,
            is_listener: false,
            owner_bytes: 0,
            panicked: None,
        }
    }

    /// True if another request may be taken. Ask before each request, or before a few. If the answer is no, leave the
    /// request unread; [`crate::NetEvent::Received`] comes again once there is room.
    pub fn has_room(&mut self) -> bool {
        self.turned_away |= self.is_full();
        !self.turned_away
    }

    /// Sets the next request aside: the owner leaves the request unread, and cannot carry the request out now. The
    /// connection is full until [`resume`](Self::resume) (W18).
    pub fn set_aside(&mut self) {
        debug_assert!(
            !self.holds_request,
            "W18: no later request is taken before a request that is set aside"
        );
        (self.turned_away, self.holds_request) = (true, true);
    }

    /// As [`set_aside`](Self::set_aside), for a request that waits for an event of other clients, which may never come.
    /// The loop goes on reading, so the client's end is noticed. The end drops the request (W18).
    pub fn set_aside_for_event(&mut self) {
        self.set_aside();
        self.waits_for_event = true;
    }

    /// Ends the wait of a request that is set aside: [`crate::NetEvent::Received`] comes again once there is room
    /// (W18). Other connections have their turns before.
    pub fn resume(&mut self) {
        debug_assert!(
            !self.holds_request || self.turned_away,
            "W18: a request that is set aside comes again"
        );
        (self.holds_request, self.waits_for_event) = (false, false);
    }

    /// Sets if the client waits for bytes that are no replies. Such a client is never idle
    /// ([`NetLimits::idle`](crate::NetLimits::idle)).
    pub fn set_listener(&mut self, is_listener: bool) {
        self.is_listener = is_listener;
    }

    /// A reply that may be sent at once. `write` appends it to the buffer, and changes nothing else there. It runs on
    /// the loop's thread, so it does not wait for anything: no other connection of the loop goes on meanwhile. If it
    /// panics the connection is closed, and all others are served (W15).
    pub fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.waiting.is_empty() {
            self.panicked = append(&mut self.sending, write).err().or(self.panicked.take());
            self.first += 1;
        } else {
            let mut bytes = Vec::new();
            self.panicked = append(&mut bytes, write).err().or(self.panicked.take());
            self.waiting_bytes += bytes.len();
            self.waiting.push_back(ReplyPlace::Told(bytes));
        }
        self.check_bytes();
    }

    /// As [`reply`](Self::reply), for a reply that is written already. A long reply is moved, and `bytes` gets another
    /// buffer. `bytes` is empty afterwards.
    pub fn reply_written(&mut self, bytes: &mut Vec<u8>) {
        if bytes.len() > Self::KEEP_BYTES && self.is_empty() {
            let unsent = self.unsent_bytes() + bytes.len();
            std::mem::swap(&mut self.sending, bytes);
            self.sent_bytes = 0;
            self.first += 1;
            self.check_bytes();
            debug_assert!(self.is_beyond || self.unsent_bytes() == unsent, "W1: no unsent byte is dropped");
        } else {
            self.reply(|buffer| buffer.extend_from_slice(bytes));
        }
        bytes.clear();
    }

    /// Takes the next place, for a later reply. The owner keeps `bytes` for the reply meanwhile. They count as unsent,
    /// so no client has more bytes kept than told (W2).
    pub fn reserve(&mut self, bytes: usize) -> ReplySlot {
        let number = self.first + self.waiting.len() as u64;
        self.waiting.push_back(ReplyPlace::Reserved(bytes));
        self.waiting_bytes += bytes;
        self.check_bytes();
        ReplySlot { connection: self.connection, number }
    }

    /// The owner keeps this number of bytes for the connection from now on, besides those for places: such as the
    /// decoded part of a request that has not come whole. The bytes count in the memory of all connections (W16).
    pub fn set_owner_bytes(&mut self, bytes: usize) {
        self.owner_bytes = bytes;
    }

    /// Bytes that are told and not sent, or kept to be told.
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        self.ready_bytes() + self.waiting_bytes
    }

    /// Bytes that may be sent now: no earlier place is open.
    #[must_use]
    pub fn ready_bytes(&self) -> usize {
        self.sending.len() - self.sent_bytes
    }

    /// Replies that are reserved and not told, and those behind them.
    #[must_use]
    pub fn deferred_count(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn fill(&mut self, number: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let end = self.first + self.waiting.len() as u64;
        if number == self.first && !self.waiting.is_empty() {
            self.panicked = append(&mut self.sending, write).err().or(self.panicked.take());
            self.forget_reserved(0);
            self.waiting.pop_front();
            self.first += 1;
            while let Some(ReplyPlace::Told(bytes)) = self.waiting.front() {
                self.sending.extend_from_slice(bytes);
                self.waiting_bytes -= bytes.len();
                self.waiting.pop_front();
                self.first += 1;
            }
            if self.waiting.capacity() > Self::KEEP_PLACES.max(4 * self.waiting.len()) {
                self.waiting.shrink_to(Self::KEEP_PLACES.max(2 * self.waiting.len()));
            }
            debug_assert!(
                !self.waiting.is_empty() || self.waiting_bytes == 0,
                "W2: no bytes wait without a place"
            );
        } else if let Some(at) =
            number.checked_sub(self.first).map(|at| at as usize).filter(|at| *at < self.waiting.len())
        {
            self.forget_reserved(at);
            let mut bytes = Vec::new();
            self.panicked = append(&mut bytes, write).err().or(self.panicked.take());
            self.waiting_bytes += bytes.len();
            self.waiting[at] = ReplyPlace::Told(bytes);
        }
        debug_assert_eq!(self.first + self.waiting.len() as u64, end, "W1: a told reply moves no place");
        self.check_bytes();
    }

    /// The owner of a place keeps no bytes for the reply any more.
    fn forget_reserved(&mut self, at: usize) {
        debug_assert!(matches!(self.waiting[at], ReplyPlace::Reserved(_)), "a slot is used once");
        if let ReplyPlace::Reserved(bytes) = &mut self.waiting[at] {
            self.waiting_bytes -= std::mem::take(bytes);
        }
    }

    pub(crate) fn to_send(&self) -> &[u8] {
        debug_assert!(
            self.is_beyond || self.sent_bytes < self.sending.len() || self.sent_bytes == 0,
            "W1: a buffer without unsent bytes is empty, unless the stream has ended"
        );
        &self.sending[self.sent_bytes..]
    }

    pub(crate) fn mark_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        debug_assert!(self.sent_bytes <= self.sending.len(), "no more is sent than there is");
        if self.sent_bytes == self.sending.len() {
            self.sending.clear();
            self.sent_bytes = 0;
            self.sending.shrink_to(Self::KEEP_BYTES);
        } else if self.sent_bytes >= Self::KEEP_BYTES && self.sent_bytes * 2 >= self.sending.len() {
            // Half of the buffer, so that bytes are moved a constant number of times.
            self.sending.drain(..self.sent_bytes);
            self.sent_bytes = 0;
            if self.sending.capacity() > 2 * Self::KEEP_BYTES.max(self.sending.len()) {
                self.sending.shrink_to(Self::KEEP_BYTES);
            }
        }
    }

    /// True if no reply waits, told or not.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.to_send().is_empty()
    }

    /// True if the caller has left a request: for want of room, or set aside.
    pub(crate) fn has_turned_away(&self) -> bool {
        self.turned_away
    }

    /// True while the first unread request waits for an event that may never come (W18).
    pub(crate) fn waits_for_event(&self) -> bool {
        debug_assert!(
            !self.waits_for_event || self.holds_request,
            "W18: the request that waits is set aside"
        );
        self.waits_for_event
    }

    /// True if the client's silence is not idle.
    pub(crate) fn is_listener(&self) -> bool {
        self.is_listener
    }

    /// Number of replies that the client has not heard: replies that wait, and one for bytes that are not sent.
    pub(crate) fn unheard(&self) -> u64 {
        self.waiting.len() as u64 + u64::from(!self.to_send().is_empty())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.holds_request
            || self.waiting.len() >= self.parked_max
            || self.unsent_bytes() > self.unsent_bytes_max / 2
    }

    /// True if the limit of bytes was exceeded. Later replies are not kept, and the connection must go.
    pub(crate) fn is_beyond(&self) -> bool {
        self.is_beyond
    }

    pub(crate) fn has_panicked(&self) -> bool {
        self.panicked.is_some()
    }

    /// Text of a panic in the writer of a reply, once.
    pub(crate) fn take_panic(&mut self) -> Option<Box<str>> {
        self.panicked.take()
    }

    /// True once if a caller was turned away and there is room again.
    pub(crate) fn takes_again(&mut self) -> bool {
        let takes = self.turned_away && !self.is_full();
        self.turned_away &= !takes;
        takes
    }

    /// Memory that replies and the owner take, in bytes, with the room of buffers (W16).
    pub(crate) fn memory_bytes(&self) -> usize {
        let places = self.waiting.capacity() * size_of::<ReplyPlace>();
        self.sending.capacity() + places + self.waiting_bytes + self.owner_bytes
    }

    /// True if the buffers keep room.
    pub(crate) fn keeps_room(&self) -> bool {
        self.sending.capacity() > 0 || self.waiting.capacity() > 0
    }

    /// Gives back the room of the buffers. No reply waits.
    pub(crate) fn release_room(&mut self) {
        debug_assert!(self.is_empty(), "W17: a reply that waits is kept");
        (self.sending, self.sent_bytes, self.waiting) = (Vec::new(), 0, VecDeque::new());
    }

    /// Checks counts against contents.
    #[cfg(feature = "simulation")]
    pub(crate) fn check(&self) {
        let waiting_bytes: usize = self
            .waiting
            .iter()
            .map(|place| match place {
                ReplyPlace::Reserved(bytes) => *bytes,
                ReplyPlace::Told(bytes) => bytes.len(),
            })
            .sum();
        assert_eq!(self.waiting_bytes, waiting_bytes, "W2: bytes of replies that wait");
        assert!(!matches!(self.waiting.front(), Some(ReplyPlace::Told(_))), "W1: a told reply is first");
        assert!(!self.holds_request || self.turned_away, "W18: a request that is set aside comes again");
    }

    fn check_bytes(&mut self) {
        if self.unsent_bytes() > self.unsent_bytes_max || self.panicked.is_some() {
            self.is_beyond = true;
        }
        if self.is_beyond {
            // The stream ends here: no reply may follow one that is missing.
            self.sending.truncate(self.sent_bytes);
            self.waiting.iter_mut().for_each(|place| match place {
                ReplyPlace::Reserved(bytes) => *bytes = 0,
                ReplyPlace::Told(bytes) => bytes.clear(),
            });
            self.waiting_bytes = 0;
        }
    }
}

/// Appends a reply. A writer that panics leaves nothing; the panic hook has reported the panic.
///
/// # Errors
/// The text of the panic.
fn append(buffer: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Box<str>> {
    let before = buffer.len();
    // The buffer is cut to its old length. Other state that the writer leaves half changed is the owner's.
    catch_unwind(AssertUnwindSafe(|| write(&mut *buffer))).map_err(|panic| {
        buffer.truncate(before);
        panic_text(&*panic).unwrap_or("without a text").into()
    })
}

#[cfg(test)]
mod tests;
