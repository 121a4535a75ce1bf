//! One connection: what has arrived, what is to be sent, and which of its states it is in.
//!
//! Neighbours: [`crate::NetLoop`] owns connections and decides when each has its turn; [`crate::replies`] keeps order.

use std::io;

use crate::event::{CloseReason, ConnectionId};
use crate::limits::NetLimits;
use crate::replies::ReplyQueue;
use crate::timers::TimerId;
use crate::transport::Transport;

/// The least that a read has room for.
const READ_BYTES: usize = 16 << 10;

/// A connection of a loop.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) replies: ReplyQueue,
    received: Vec<u8>,
    consumed: usize,
    /// The transport has said so, and no call has returned `WouldBlock` since.
    pub(crate) may_read: bool,
    pub(crate) may_write: bool,
    /// The peer sends no more.
    pub(crate) peer_ended: bool,
    /// It is to be closed when all replies are sent; it is not read.
    pub(crate) is_ending: bool,
    /// An event that tells of its bytes is in the queue.
    pub(crate) is_announced: bool,
    /// It is in the list of those to be looked at again.
    pub(crate) is_listed: bool,
    /// When its limits of time are looked at next.
    pub(crate) timer: Option<TimerId>,
    /// When bytes last came.
    pub(crate) heard_nanos: u64,
    /// When bytes last went.
    sent_nanos: u64,
    /// Since when the bytes that wait have waited, each that goes makes it anew.
    waits_since_nanos: Option<u64>,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, limits: &NetLimits, now_nanos: u64) -> Self {
        Self {
            id,
            replies: ReplyQueue::new(id, limits.unsent_bytes_max, limits.parked_max),
            received: Vec::new(),
            consumed: 0,
            // A first call finds out; the transport's word may have come before the loop knew the socket.
            may_read: true,
            may_write: true,
            peer_ended: false,
            is_ending: false,
            is_announced: false,
            is_listed: false,
            timer: None,
            heard_nanos: now_nanos,
            sent_nanos: now_nanos,
            waits_since_nanos: None,
        }
    }

    /// Bytes that have arrived and are not consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.received[self.consumed..]
    }

    pub(crate) fn parts(&mut self) -> (&[u8], &mut ReplyQueue) {
        (&self.received[self.consumed..], &mut self.replies)
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.consumed = self.consumed.saturating_add(bytes).min(self.received.len());
        if self.consumed == self.received.len() {
            self.received.clear();
            self.consumed = 0;
            self.received.shrink_to(2 * READ_BYTES);
        }
    }

    /// Whether its turn would bring anything in.
    pub(crate) fn wants_read(&self, limits: &NetLimits) -> bool {
        self.may_read
            && !self.peer_ended
            && !self.is_ending
            && !self.replies.is_full()
            && self.unread().len() < limits.unread_bytes_max
    }

    /// Reads until nothing is there, the limit of unread bytes is met, or others have waited long enough. `true` if
    /// bytes came.
    pub(crate) fn read(
        &mut self,
        transport: &mut impl Transport,
        limits: &NetLimits,
        now_nanos: u64,
    ) -> Result<bool, CloseReason> {
        let mut taken = 0;
        while taken < limits.step_bytes && self.wants_read(limits) {
            self.make_room(limits);
            match transport.read(self.id.token(), &mut self.received) {
                Ok(0) => self.peer_ended = true,
                Ok(bytes) => taken += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.may_read = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CloseReason::Failed(error.kind())),
            }
        }
        if taken > 0 {
            self.heard_nanos = now_nanos;
        }
        Ok(taken > 0)
    }

    /// Room for another read, within the limit of unread bytes: what was consumed goes first.
    fn make_room(&mut self, limits: &NetLimits) {
        if self.received.capacity() - self.received.len() >= READ_BYTES / 2 {
            return;
        }
        self.received.drain(..self.consumed);
        self.consumed = 0;
        // Each doubling reads as much as was read before, so bytes are moved a constant number of times.
        let room = self.received.len().max(READ_BYTES).min(limits.unread_bytes_max - self.received.len());
        self.received.reserve_exact(room.max(1));
    }

    /// Sends what can be sent.
    pub(crate) fn write(
        &mut self,
        transport: &mut impl Transport,
        now_nanos: u64,
    ) -> Result<u64, CloseReason> {
        let mut sent = 0;
        while self.may_write && !self.replies.to_send().is_empty() {
            match transport.write(self.id.token(), self.replies.to_send()) {
                Ok(bytes) => {
                    self.replies.sent(bytes);
                    sent += bytes as u64;
                    self.sent_nanos = now_nanos;
                    self.waits_since_nanos = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.may_write = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CloseReason::Failed(error.kind())),
            }
        }
        let waits = !self.replies.to_send().is_empty();
        self.waits_since_nanos = waits.then(|| self.waits_since_nanos.unwrap_or(now_nanos));
        Ok(sent)
    }

    /// Why it should end now, if it should.
    pub(crate) fn ends(&self) -> Option<CloseReason> {
        if self.replies.is_beyond() {
            return Some(CloseReason::Unsent);
        }
        let is_answered = self.replies.is_empty() && !self.is_announced;
        match (is_answered, self.is_ending, self.peer_ended) {
            (true, true, _) => Some(CloseReason::Asked),
            (true, _, true) => Some(CloseReason::PeerEnded),
            _ => None,
        }
    }

    /// When time alone would end it, and why.
    pub(crate) fn expires(&self, limits: &NetLimits) -> Option<(u64, CloseReason)> {
        let after = |nanos: u64, by: std::time::Duration| {
            nanos.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX))
        };
        if let Some(since) = self.waits_since_nanos {
            return Some((after(since, limits.stalled), CloseReason::Stalled));
        }
        let idle = limits.idle.filter(|_| self.replies.is_empty())?;
        Some((after(self.heard_nanos.max(self.sent_nanos), idle), CloseReason::Idle))
    }
}
