//! Bytes of connections with TLS: records are read and written in place of requests and replies.
//!
//! Invariants: W20; W13, the client reads TLS' last record behind the last reply; W2, the arrived bytes exceed their
//! limit by the records of one read at most.
//!
//! Neighbours: [`super`] has the state; [`crate::tls`] has the records.

use std::io;
use std::time::Duration;

use super::{Connection, READ_BYTES, later_nanos};
use crate::event::{CloseReason, TlsFailure};
use crate::limits::NetLimits;
use crate::tls::{RECORD_BYTES, TlsSession};
use crate::transport::Transport;

/// Silence of a client whose TLS has failed, after which the connection is closed: the client has read the reason.
const FAILED_QUIET: Duration = Duration::from_secs(1);

const _: () = assert!(RECORD_BYTES <= READ_BYTES, "W2: a record fits into the room of a read");

impl Connection {
    /// As [`Connection::read`]. Returns the number of bytes of requests.
    pub(super) fn read_encrypted(
        &mut self,
        transport: &mut impl Transport,
        limits: &NetLimits,
        now_nanos: u64,
    ) -> Result<usize, CloseReason> {
        let (mut taken, mut came) = (0, 0);
        while taken < limits.step_bytes && self.wants_read(limits) {
            let Some(tls) = &mut self.tls else { break };
            match transport.read(self.id.token(), tls.incoming_room()) {
                Ok(0) => self.peer_ended = true,
                Ok(bytes) => {
                    taken += bytes;
                    if self.is_ending {
                        self.dropped_bytes = self.dropped_bytes.saturating_add(bytes);
                        tls.drop_last(bytes);
                    } else {
                        came += self.take_records();
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
        Ok(came)
    }

    /// Takes the whole records that have arrived. Returns the number of bytes of requests.
    fn take_records(&mut self) -> usize {
        let Self { tls, received, consumed, .. } = self;
        let Some(tls) = tls else { return 0 };
        let mut came = 0;
        self.peer_ended |= tls.take_records(&mut |bytes| {
            came += bytes.len();
            append(received, consumed, bytes);
        });
        if tls.failure().is_some() {
            // The client reads the reason before the end.
            self.begin_ending();
            self.end_when_quiet(FAILED_QUIET);
            return 0;
        }
        came
    }

    /// As [`Connection::write`]. Returns the number of bytes of replies.
    pub(super) fn write_encrypted(
        &mut self,
        transport: &mut impl Transport,
        now_nanos: u64,
    ) -> Result<u64, CloseReason> {
        let Some(tls) = &mut self.tls else { return Ok(0) };
        let mut sent = 0;
        while self.may_write {
            let encrypted = tls.encrypt(self.replies.to_send());
            if encrypted > 0 {
                self.replies.mark_sent(encrypted);
                sent += encrypted as u64;
            }
            if tls.to_send().is_empty() {
                break;
            }
            match transport.write(self.id.token(), tls.to_send()) {
                Ok(bytes) => {
                    tls.mark_sent(bytes);
                    self.sent_nanos = now_nanos;
                    self.waits_since_nanos = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.may_write = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CloseReason::Failed(error.kind())),
            }
        }
        let waits = !tls.to_send().is_empty() || !tls.is_over() && !self.replies.to_send().is_empty();
        let is_failed = tls.failure().is_some();
        self.waits_since_nanos = waits.then(|| self.waits_since_nanos.unwrap_or(now_nanos));
        if is_failed && !self.is_ending {
            self.begin_ending();
            self.end_when_quiet(FAILED_QUIET);
        }
        Ok(sent)
    }

    /// True if TLS has records to be written behind a read: answers of the handshake, an alert, or the last record. The
    /// last record is appended once all replies are encrypted and no more come.
    #[inline]
    pub(crate) fn has_records_to_write(&mut self) -> bool {
        if self.tls.is_none() {
            return false;
        }
        let is_last =
            self.owes_end() && self.replies.is_empty() && !self.is_with_owner() && !self.leaves_requests();
        let Some(tls) = &mut self.tls else { return false };
        if is_last {
            tls.end();
        }
        self.may_write && !tls.to_send().is_empty()
    }

    /// True if the connection ends, and the client has not been told by TLS' last record.
    pub(super) fn owes_end(&self) -> bool {
        (self.is_ending || self.peer_ended) && self.tls.as_deref().is_some_and(TlsSession::needs_end)
    }

    /// True while the handshake goes on.
    #[inline]
    pub(crate) fn is_in_handshake(&self) -> bool {
        let tls = self.tls.as_deref().filter(|_| !self.is_ending);
        tls.is_some_and(|tls| !tls.is_ready() && tls.failure().is_none())
    }

    /// Reason of an end by a failure of TLS.
    pub(super) fn tls_failure(&self) -> Option<CloseReason> {
        self.tls.as_deref().and_then(TlsSession::failure).map(CloseReason::Tls)
    }

    /// Text of the failure of TLS, once.
    pub(crate) fn take_tls_failure(&mut self) -> Option<Box<str>> {
        self.tls.as_mut().and_then(|tls| tls.take_failure())
    }

    /// Time at which an unfinished handshake ends the connection, with the reason.
    pub(super) fn handshake_expires(&self, limits: &NetLimits) -> Option<(u64, CloseReason)> {
        let tls = self.tls.as_deref().filter(|tls| !tls.is_ready())?;
        let reason = CloseReason::Tls(tls.failure().unwrap_or(TlsFailure::TimedOut));
        Some((later_nanos(tls.begun_nanos(), limits.handshake), reason))
    }

    /// Number of replies that the client has not heard, as [`crate::replies::ReplyQueue::unheard`] counts.
    pub(crate) fn unheard(&self) -> u64 {
        let is_under_way = self.replies.to_send().is_empty()
            && self.tls.as_deref().is_some_and(|tls| tls.is_ready() && !tls.to_send().is_empty());
        self.replies.unheard() + u64::from(is_under_way)
    }
}

/// Appends bytes of requests. Consumed bytes go first.
fn append(received: &mut Vec<u8>, consumed: &mut usize, bytes: &[u8]) {
    debug_assert!(bytes.len() <= RECORD_BYTES, "W2: a record has {} bytes", bytes.len());
    if received.capacity() - received.len() < bytes.len() {
        received.drain(..*consumed);
        *consumed = 0;
        // A doubling moves a byte a constant number of times.
        received.reserve_exact(received.len().max(bytes.len()));
    }
    received.extend_from_slice(bytes);
}
