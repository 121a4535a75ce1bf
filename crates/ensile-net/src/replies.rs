//! The replies of one connection: sent in the order in which their places were taken, whenever they are told (W1).
//!
//! A reply that is told when nothing before it waits goes straight to the bytes to be sent. Others wait in a queue,
//! each in its place.
//!
//! Neighbours: [`crate::connection`] sends the bytes; callers get a connection's by [`crate::NetLoop::parts`].

use std::collections::VecDeque;

use crate::event::ConnectionId;

/// The place of a reply that is to be told later, by [`crate::NetLoop::fill`].
///
/// It is used once. Until then all later replies of its connection wait: an owner that has no reply must close the
/// connection.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "until it is filled, all later replies of its connection wait"]
pub struct ReplySlot {
    pub(crate) connection: ConnectionId,
    pub(crate) number: u64,
}

/// A reply that waits.
#[derive(Debug)]
enum ReplyPlace {
    /// Not told; the bytes that its owner keeps for it.
    Reserved(usize),
    Told(Vec<u8>),
}

/// The replies of a connection that are not sent.
#[derive(Debug)]
pub struct ReplyQueue {
    connection: ConnectionId,
    /// In order, to be sent; those before `sent_bytes` were.
    sending: Vec<u8>,
    sent_bytes: usize,
    /// Places from the first one that is not told on.
    waiting: VecDeque<ReplyPlace>,
    /// Of those that are told, and those that their owner keeps for the others.
    waiting_bytes: usize,
    /// The number of the first place in `waiting`.
    first: u64,
    /// Above half of it no more requests are taken.
    unsent_bytes_max: usize,
    parked_max: usize,
    is_beyond: bool,
    turned_away: bool,
}

impl ReplyQueue {
    /// Bytes of a sent buffer that are kept, at most.
    const KEEP_BYTES: usize = 64 << 10;

    pub(crate) fn new(connection: ConnectionId, unsent_bytes_max: usize, parked_max: usize) -> Self {
        Self {
            connection,
            sending: Vec::new(),
            sent_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            first: 0,
            unsent_bytes_max,
            parked_max,
            is_beyond: false,
            turned_away: false,
        }
    }

    /// Whether another request may be taken. Ask before each, or before each few: when the answer is no, leave the
    /// request where it is; [`crate::NetEvent::Received`] comes again once there is room.
    pub fn has_room(&mut self) -> bool {
        self.turned_away |= self.is_full();
        !self.turned_away
    }

    /// A reply that may be sent at once. `write` appends it to the buffer, and changes nothing else there.
    pub fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.waiting.is_empty() {
            write(&mut self.sending);
            self.first += 1;
        } else {
            let mut bytes = Vec::new();
            write(&mut bytes);
            self.waiting_bytes += bytes.len();
            self.waiting.push_back(ReplyPlace::Told(bytes));
        }
        self.check_bytes();
    }

    /// Takes the next place, for a reply that comes later. `bytes` are those that its owner keeps for it meanwhile:
    /// they count as unsent, so that no client has more of them kept than it may have told (W2).
    pub fn reserve(&mut self, bytes: usize) -> ReplySlot {
        let number = self.first + self.waiting.len() as u64;
        self.waiting.push_back(ReplyPlace::Reserved(bytes));
        self.waiting_bytes += bytes;
        self.check_bytes();
        ReplySlot { connection: self.connection, number }
    }

    /// Bytes that are told and not sent, or kept to be told.
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        self.sending.len() - self.sent_bytes + self.waiting_bytes
    }

    /// Replies that are reserved and not told, and those behind them.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn fill(&mut self, number: u64, write: impl FnOnce(&mut Vec<u8>)) {
        if number == self.first && !self.waiting.is_empty() {
            write(&mut self.sending);
            self.forget_reserved(0);
            self.waiting.pop_front();
            self.first += 1;
            while let Some(ReplyPlace::Told(bytes)) = self.waiting.front() {
                self.sending.extend_from_slice(bytes);
                self.waiting_bytes -= bytes.len();
                self.waiting.pop_front();
                self.first += 1;
            }
        } else if let Some(at) =
            number.checked_sub(self.first).map(|at| at as usize).filter(|at| *at < self.waiting.len())
        {
            self.forget_reserved(at);
            let mut bytes = Vec::new();
            write(&mut bytes);
            self.waiting_bytes += bytes.len();
            self.waiting[at] = ReplyPlace::Told(bytes);
        }
        self.check_bytes();
    }

    /// The owner of a place keeps nothing for it any more.
    fn forget_reserved(&mut self, at: usize) {
        debug_assert!(matches!(self.waiting[at], ReplyPlace::Reserved(_)), "a slot is used once");
        if let ReplyPlace::Reserved(bytes) = &mut self.waiting[at] {
            self.waiting_bytes -= std::mem::take(bytes);
        }
    }

    pub(crate) fn to_send(&self) -> &[u8] {
        &self.sending[self.sent_bytes..]
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        debug_assert!(self.sent_bytes <= self.sending.len(), "no more is sent than there is");
        if self.sent_bytes == self.sending.len() {
            self.sending.clear();
            self.sent_bytes = 0;
            self.sending.shrink_to(Self::KEEP_BYTES);
        } else if self.sent_bytes >= Self::KEEP_BYTES && self.sent_bytes * 2 >= self.sending.len() {
            self.sending.drain(..self.sent_bytes);
            self.sent_bytes = 0;
        }
    }

    /// Nothing waits, told or not.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.to_send().is_empty()
    }

    /// Replies that nobody has heard: those that wait, and one for what is not sent whole.
    pub(crate) fn unheard(&self) -> u64 {
        self.waiting.len() as u64 + u64::from(!self.to_send().is_empty())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.parked_max || self.unsent_bytes() > self.unsent_bytes_max / 2
    }

    /// The limit of bytes was exceeded: what was told since is not kept, and the connection must go.
    pub(crate) fn is_beyond(&self) -> bool {
        self.is_beyond
    }

    /// Whether a caller was turned away and there is room again; says so once.
    pub(crate) fn takes_again(&mut self) -> bool {
        let takes = self.turned_away && !self.is_full();
        self.turned_away &= !takes;
        takes
    }

    fn check_bytes(&mut self) {
        if self.unsent_bytes() > self.unsent_bytes_max {
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

#[cfg(test)]
mod tests;
