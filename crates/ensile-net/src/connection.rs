//! One connection: its arrived bytes, its unsent bytes, and its state.
//!
//! Neighbours: [`crate::NetLoop`] owns connections and decides when each has its turn; [`crate::replies`] keeps order;
//! `encrypted` reads and writes the bytes of connections with TLS.

mod encrypted;

use std::io;
use std::time::Duration;

use crate::event::{CloseReason, ConnectionId};
use crate::limits::NetLimits;
use crate::replies::ReplyQueue;
use crate::timers::TimerId;
use crate::tls::TlsSession;
use crate::transport::Transport;

/// Least room of a read, in bytes.
const READ_BYTES: usize = 16 << 10;
/// Most room that stays for arrivals while no bytes are present.
const KEEP_BYTES: usize = 2 * READ_BYTES;

/// Arrived bytes of a connection that the owner has borrowed, by [`NetLoop::lend`](crate::NetLoop::lend).
#[derive(Debug)]
pub struct LentBytes {
    connection: ConnectionId,
    received: Vec<u8>,
    consumed: usize,
}

impl LentBytes {
    /// The connection of the bytes.
    #[must_use]
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Arrived, unconsumed bytes.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        &self.received[self.consumed..]
    }

    /// Consumes the first `bytes` of the arrived bytes.
    pub fn consume(&mut self, bytes: usize) {
        self.consumed = self.consumed.saturating_add(bytes).min(self.received.len());
        debug_assert!(bytes <= self.consumed, "W2: no byte is consumed before it arrives");
    }
}

/// A connection of a loop.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) replies: ReplyQueue,
    received: Vec<u8>,
    consumed: usize,
    /// Room of the arrived bytes in bytes, while the owner has the arrived bytes (W19).
    lent_bytes: Option<usize>,
    /// TLS between the socket and these bytes; `None` without TLS.
    tls: Option<Box<TlsSession>>,
    /// True from a readiness until a call returns `WouldBlock`.
    pub(crate) may_read: bool,
    pub(crate) may_write: bool,
    /// True if the peer sends no more.
    pub(crate) peer_ended: bool,
    /// True if the connection is closed after the last reply is sent. Later bytes are dropped (W13).
    is_ending: bool,
    dropped_bytes: usize,
    /// Time from which the connection is to be closed and no further reply comes.
    told_since_nanos: Option<u64>,
    /// Time from which all replies are sent and the peer is to end.
    lingers_since_nanos: Option<u64>,
    /// Silence of the peer after which a connection that lingers is closed.
    quiet: Option<Duration>,
    /// True while an event of arrived bytes is in the queue.
    pub(crate) is_announced: bool,
    /// True while the connection is listed for a turn.
    pub(crate) is_listed: bool,
    /// Memory of the connection as the loop counts it, in bytes (W16).
    pub(crate) counted_bytes: usize,
    /// Timer of the next look at limits of time.
    pub(crate) timer: Option<TimerId>,
    pub(crate) heard_nanos: u64,
    sent_nanos: u64,
    /// Time from which unsent bytes have waited. Every sent byte begins the time anew.
    waits_since_nanos: Option<u64>,
}

impl Connection {
    pub(crate) fn new(
        id: ConnectionId,
        limits: &NetLimits,
        now_nanos: u64,
        tls: Option<Box<TlsSession>>,
    ) -> Self {
        Self {
            id,
            replies: ReplyQueue::new(id, limits),
            received: Vec::new(),
            consumed: 0,
            lent_bytes: None,
            tls,
            // The first call finds out: readiness may have come before the loop knew the socket.
            may_read: true,
            may_write: true,
            peer_ended: false,
            is_ending: false,
            dropped_bytes: 0,
            told_since_nanos: None,
            lingers_since_nanos: None,
            quiet: None,
            is_announced: false,
            is_listed: false,
            counted_bytes: 0,
            timer: None,
            heard_nanos: now_nanos,
            sent_nanos: now_nanos,
            waits_since_nanos: None,
        }
    }

    /// Arrived, unconsumed bytes.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.received[self.consumed..]
    }

    pub(crate) fn parts(&mut self) -> (&[u8], &mut ReplyQueue) {
        (&self.received[self.consumed..], &mut self.replies)
    }

    /// Lends the arrived bytes. Until [`give_back`](Self::give_back) the connection reads nothing (W19).
    pub(crate) fn lend(&mut self) -> LentBytes {
        debug_assert!(!self.is_lent(), "W19: arrived bytes have one owner");
        let received = std::mem::take(&mut self.received);
        self.lent_bytes = Some(received.capacity());
        LentBytes { connection: self.id, received, consumed: std::mem::take(&mut self.consumed) }
    }

    /// Takes the arrived bytes back. A connection that has begun to end drops the bytes.
    pub(crate) fn give_back(&mut self, lent: LentBytes) {
        debug_assert!(self.is_lent() && lent.connection == self.id, "W19: bytes go back to their connection");
        self.lent_bytes = None;
        if !self.is_ending {
            debug_assert!(self.received.is_empty(), "W19: nothing is read while arrived bytes are lent");
            (self.received, self.consumed) = (lent.received, lent.consumed);
            self.consume(0);
        }
    }

    /// True while the owner has the arrived bytes (W19).
    pub(crate) fn is_lent(&self) -> bool {
        self.lent_bytes.is_some()
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.consumed = self.consumed.saturating_add(bytes).min(self.received.len());
        debug_assert!(!self.is_ending || self.received.is_empty(), "W13: bytes at the end are dropped");
        if self.consumed == self.received.len() {
            self.received.clear();
            self.consumed = 0;
            self.received.shrink_to(KEEP_BYTES);
        } else if self.received.capacity() > KEEP_BYTES && self.unread().len() <= self.received.capacity() / 4
        {
            // The beginning of the next request keeps no room of a large request. A byte is moved a constant number of
            // times, because three times as many bytes were consumed.
            self.received.drain(..self.consumed);
            self.consumed = 0;
            self.received.shrink_to((2 * self.received.len()).max(KEEP_BYTES));
        }
        debug_assert!(
            self.consumed < self.received.len() || self.consumed == 0,
            "W2: no byte is consumed twice"
        );
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Closes the connection after the last reply is sent. Unread and later bytes are dropped.
    pub(crate) fn begin_ending(&mut self) {
        self.is_ending = true;
        (self.received, self.consumed) = (Vec::new(), 0);
    }

    /// Memory of the connection with the room of its buffers, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let tls_bytes = self.tls.as_ref().map_or(0, |tls| tls.memory_bytes());
        let received_bytes = self.received.capacity() + self.lent_bytes.unwrap_or(0);
        received_bytes + self.replies.memory_bytes() + tls_bytes
    }

    /// Gives back the room of the buffers after `room_kept` of silence (W17). True if there was room.
    pub(crate) fn release_room(&mut self, room_kept: Duration, now_nanos: u64) -> bool {
        let silence_nanos = now_nanos.saturating_sub(self.heard_nanos.max(self.sent_nanos));
        let is_silent = u128::from(silence_nanos) >= room_kept.as_nanos();
        let tls = self.tls.as_deref();
        let is_done = self.received.is_empty()
            && self.replies.is_empty()
            && !self.is_with_owner()
            && tls.is_none_or(TlsSession::is_idle);
        let has_room = self.received.capacity() > 0
            || self.replies.keeps_room()
            || tls.is_some_and(TlsSession::keeps_room);
        let releases = is_silent && is_done && has_room;
        if releases {
            let before = self.memory_bytes();
            self.received = Vec::new();
            self.replies.release_room();
            if let Some(tls) = &mut self.tls {
                tls.release_room();
            }
            debug_assert!(self.memory_bytes() < before, "W17: a connection with room gives memory back");
        }
        releases
    }

    /// Closes the connection, while it lingers, after this silence of the peer.
    pub(crate) fn end_when_quiet(&mut self, quiet: Duration) {
        self.quiet = Some(quiet);
    }

    /// True if a read may bring bytes.
    pub(crate) fn wants_read(&self, limits: &NetLimits) -> bool {
        let has_room = if self.is_ending {
            self.dropped_bytes < limits.linger_bytes_max
        } else {
            let may_take = !self.replies.is_full() || self.replies.waits_for_event();
            may_take && self.unread().len() < limits.unread_bytes_max
        };
        self.may_read && !self.peer_ended && has_room && !self.is_lent()
    }

    /// Reads until no bytes are left, a limit is met, or other connections have waited long enough. Returns the number
    /// of read bytes.
    pub(crate) fn read(
        &mut self,
        transport: &mut impl Transport,
        limits: &NetLimits,
        now_nanos: u64,
    ) -> Result<usize, CloseReason> {
        if self.tls.is_some() {
            return self.read_encrypted(transport, limits, now_nanos);
        }
        let mut taken = 0;
        while taken < limits.step_bytes && self.wants_read(limits) {
            self.make_room(limits);
            let before = self.received.len();
            match transport.read(self.id.token(), &mut self.received) {
                Ok(0) => self.peer_ended = true,
                Ok(bytes) => {
                    debug_assert_eq!(
                        self.received.len(),
                        before + bytes,
                        "a read appends the bytes that it reports"
                    );
                    taken += bytes;
                    if self.is_ending {
                        self.dropped_bytes = self.dropped_bytes.saturating_add(bytes);
                        self.received.clear();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.may_read = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CloseReason::Failed(error.kind())),
            }
        }
        if taken > 0 {
            self.heard_nanos = now_nanos;
        }
        Ok(taken)
    }

    /// Makes room for another read, within the limit of unread bytes. Consumed bytes go first.
    fn make_room(&mut self, limits: &NetLimits) {
        if self.received.capacity() - self.received.len() >= READ_BYTES / 2 {
            return;
        }
        self.received.drain(..self.consumed);
        self.consumed = 0;
        debug_assert!(
            self.is_ending || self.received.len() < limits.unread_bytes_max,
            "W2: a connection with all the bytes that it may have reads no more"
        );
        // A read without room would be taken for the peer's end.
        let room_max = (limits.unread_bytes_max - self.received.len()).max(1);
        // A doubling reads as much as was read before, so a byte is moved a constant number of times.
        self.received.reserve_exact(self.received.len().max(READ_BYTES).min(room_max));
        debug_assert!(self.received.capacity() > self.received.len(), "W3: a read has room");
    }

    /// Sends as many bytes as the transport takes.
    pub(crate) fn write(
        &mut self,
        transport: &mut impl Transport,
        now_nanos: u64,
    ) -> Result<u64, CloseReason> {
        if self.tls.is_some() {
            return self.write_encrypted(transport, now_nanos);
        }
        let mut sent = 0;
        let before = self.replies.to_send().len() as u64;
        while self.may_write && !self.replies.to_send().is_empty() {
            match transport.write(self.id.token(), self.replies.to_send()) {
                Ok(bytes) => {
                    self.replies.mark_sent(bytes);
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
        debug_assert_eq!(self.replies.to_send().len() as u64 + sent, before, "W1: a byte is sent once");
        self.waits_since_nanos = waits.then(|| self.waits_since_nanos.unwrap_or(now_nanos));
        Ok(sent)
    }

    /// Checks counts against contents.
    #[cfg(feature = "simulation")]
    pub(crate) fn check(&self) {
        assert!(self.consumed <= self.received.len(), "W2: no byte is consumed before it arrives");
        assert!(!self.is_ending || self.received.is_empty(), "W13: bytes that come at the end are dropped");
        let is_idle = self.received.is_empty() && !self.is_ending;
        let room = self.received.capacity();
        assert!(!is_idle || room <= KEEP_BYTES, "W16: {room} bytes of room, and nothing is unread");
        self.replies.check();
        if let Some(tls) = &self.tls {
            tls.check();
        }
    }

    /// True if all bytes of replies are sent, and no reply waits. A reply behind TLS' last record, such as a message to
    /// a client that has ended its side, is not sent.
    fn is_sent(&self) -> bool {
        match &self.tls {
            None => self.replies.is_empty(),
            Some(tls) => tls.to_send().is_empty() && (tls.is_over() || self.replies.is_empty()),
        }
    }

    /// Reason to end now; `None` if the connection goes on.
    pub(crate) fn ends(&self, limits: &NetLimits) -> Option<CloseReason> {
        if self.replies.has_panicked() {
            return Some(CloseReason::Panicked);
        }
        if self.replies.is_beyond() {
            return Some(CloseReason::Unsent);
        }
        // Nobody is left who waits for the event (W18).
        if self.peer_ended && self.replies.waits_for_event() && self.is_sent() {
            return Some(CloseReason::PeerEnded);
        }
        let is_heard = self.peer_ended || self.dropped_bytes >= limits.linger_bytes_max;
        let reason = match (self.is_answered(), self.is_ending) {
            (true, true) if is_heard => Some(CloseReason::Asked),
            (true, false) if self.peer_ended => Some(CloseReason::PeerEnded),
            _ => None,
        };
        // A failure of TLS ends a connection as the owner does.
        reason.map(|reason| self.tls_failure().unwrap_or(reason))
    }

    /// True if the owner has left requests, for want of room or set aside, and takes them later.
    fn leaves_requests(&self) -> bool {
        !self.is_ending && self.replies.has_turned_away()
    }

    /// True while arrived bytes are announced or lent: the owner may reply.
    fn is_with_owner(&self) -> bool {
        self.is_announced || self.is_lent()
    }

    /// True if all replies are sent, and the owner has seen the last bytes.
    fn is_answered(&self) -> bool {
        self.is_sent() && !self.is_with_owner() && !self.leaves_requests() && !self.owes_end()
    }

    /// Notes the time from which only the client holds up the end: from then on the end has a limit (W13).
    pub(crate) fn note_end(&mut self, now_nanos: u64) {
        // A client that has ended, and has sent requests that wait for room, is still served.
        let is_over = self.is_ending || self.peer_ended && !self.is_with_owner() && !self.leaves_requests();
        let is_told = is_over && self.replies.deferred_count() == 0;
        self.told_since_nanos = is_told.then(|| self.told_since_nanos.unwrap_or(now_nanos));
    }

    /// True once, when all replies are sent: the connection waits for the peer's end from now on (W13).
    pub(crate) fn begins_to_linger(&mut self, now_nanos: u64) -> bool {
        let begins = self.is_ending && self.is_answered() && self.lingers_since_nanos.is_none();
        if begins {
            self.lingers_since_nanos = Some(now_nanos);
        }
        begins
    }

    /// The time at which a limit ends the connection, with the reason.
    pub(crate) fn expires(&self, limits: &NetLimits) -> Option<(u64, CloseReason)> {
        let expires = self.expires_as_ready(limits);
        let Some(handshake) = self.handshake_expires(limits) else { return expires };
        Some(expires.filter(|(nanos, _)| *nanos <= handshake.0).unwrap_or(handshake))
    }

    /// The time and the reason of the limits of connections without a handshake.
    fn expires_as_ready(&self, limits: &NetLimits) -> Option<(u64, CloseReason)> {
        if let Some(since) = self.lingers_since_nanos {
            let heard = self.heard_nanos.max(since);
            let quiet = self.quiet.map_or(u64::MAX, |quiet| later_nanos(heard, quiet));
            let reason = self.tls_failure().unwrap_or(CloseReason::Asked);
            return Some((later_nanos(since, limits.linger).min(quiet), reason));
        }
        if let Some(since) = self.waits_since_nanos {
            let ending = self.told_since_nanos.map_or(u64::MAX, |told| later_nanos(told, limits.ending));
            return Some((later_nanos(since, limits.stalled).min(ending), CloseReason::Stalled));
        }
        // A client with bytes that the loop has not read or handed out is not silent (W3). The loop may have been
        // paused (W16), or the owner has left a request (W18).
        let may_be_heard = self.is_with_owner()
            || self.may_read && !self.peer_ended
            || self.leaves_requests()
            || self.replies.is_listener();
        let idle = limits.idle.filter(|_| self.is_sent() && !may_be_heard)?;
        Some((later_nanos(self.heard_nanos.max(self.sent_nanos), idle), CloseReason::Idle))
    }
}

/// The time `by` after a time.
fn later_nanos(nanos: u64, by: Duration) -> u64 {
    nanos.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX))
}
