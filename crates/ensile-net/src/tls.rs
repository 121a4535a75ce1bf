//! TLS between the socket of a connection and its requests and replies: the server's side.
//!
//! ```text
//! socket -> incoming records -> arrived bytes of the connection
//! replies -> outgoing records -> socket
//! ```
//! The session has both buffers, so all memory of TLS is counted, and no transport knows of TLS.
//!
//! Invariants: W20 (a handshake is bounded in time, memory and turns), W16 (the session counts its memory), W7
//! (outgoing records are only appended until they are sent).
//!
//! Neighbours: [`crate::connection`] has a session for each connection of a TLS listener; `records` calls rustls;
//! `absent` stands for `records` in a build without the feature `tls`; [`TlsConfig`] has certificate and key.

#[cfg(not(feature = "tls"))]
mod absent;
mod config;
#[cfg(feature = "tls")]
mod records;
#[cfg(feature = "tls")]
mod server_config;

#[cfg(not(feature = "tls"))]
use absent as records;

use crate::event::TlsFailure;
pub use config::{TlsClients, TlsConfig, TlsConfigError, TlsPart, TlsPem};
use records::Records;

/// Most bytes of records that have arrived and are not taken: the longest record, and the longest message of a
/// handshake, such as a client's chain of certificates.
const INCOMING_BYTES_MAX: usize = 32 << 10;
/// First room for arriving records in bytes.
const INCOMING_BYTES: usize = 4 << 10;
/// Most bytes of replies that are encrypted at once: three records, which fit into one send with their overhead.
const ENCRYPTED_BYTES: usize = 3 * RECORD_BYTES;
/// Most bytes of requests or replies in a record.
pub(crate) const RECORD_BYTES: usize = 16 << 10;
/// Most room that a session keeps for the next records to be sent.
const KEPT_BYTES: usize = 16 << 10;
/// First byte of every record of a handshake.
const HANDSHAKE_RECORD: u8 = 22;
/// Reply to a client that begins without TLS.
const PLAIN_TEXT_REPLY: &[u8] = b"-ERR this port takes TLS connections only\r\n";

/// Outcome of a take of records.
struct TakenRecords {
    /// Number of bytes to remove from the front of the arrived bytes.
    consumed_bytes: usize,
    /// True if the client has sent its last record.
    has_peer_ended: bool,
    /// Text of the error that ends the connection.
    error: Option<String>,
}

/// The TLS of a connection.
pub(crate) struct TlsSession {
    records: Records,
    /// Arrived records that are not taken: a part of a record, or of a message of the handshake.
    incoming: Vec<u8>,
    /// Records to be sent. The first `sent_bytes` of them are sent.
    outgoing: Vec<u8>,
    sent_bytes: usize,
    begun_nanos: u64,
    /// True once bytes have come that may be TLS.
    has_begun: bool,
    /// True once the handshake is over.
    is_ready: bool,
    /// True once the last record is among the outgoing ones.
    has_ended: bool,
    /// Memory of the client's certificates in bytes.
    certificate_bytes: usize,
    failure: Option<(TlsFailure, Box<str>)>,
}

impl TlsSession {
    /// Begins a session; `None` if rustls refuses the configuration.
    pub(crate) fn begin(config: &TlsConfig, now_nanos: u64) -> Option<Self> {
        Some(Self {
            records: records::begin(config)?,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            sent_bytes: 0,
            begun_nanos: now_nanos,
            has_begun: false,
            is_ready: false,
            has_ended: false,
            certificate_bytes: 0,
            failure: None,
        })
    }

    /// Time of the session's begin in nanoseconds.
    pub(crate) fn begun_nanos(&self) -> u64 {
        self.begun_nanos
    }

    /// True once the handshake is over.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Reason why the session has failed.
    pub(crate) fn failure(&self) -> Option<TlsFailure> {
        self.failure.as_ref().map(|(failure, _)| *failure)
    }

    /// Text of the failure, once.
    pub(crate) fn take_failure(&mut self) -> Option<Box<str>> {
        self.failure.take().map(|(_, text)| text)
    }

    /// The buffer for arriving records, with room.
    pub(crate) fn incoming_room(&mut self) -> &mut Vec<u8> {
        let room = self.incoming.capacity() - self.incoming.len();
        if room < self.incoming.capacity() / 2 || room == 0 {
            let doubled = (2 * self.incoming.capacity()).clamp(INCOMING_BYTES, INCOMING_BYTES_MAX);
            self.incoming.reserve_exact(doubled.saturating_sub(self.incoming.len()).max(1));
        }
        debug_assert!(self.incoming.capacity() > self.incoming.len(), "W3: a read has room");
        &mut self.incoming
    }

    /// Drops the last arrived bytes of a connection that ends. The bytes before stay: rustls may know their places.
    pub(crate) fn drop_last(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.incoming.len(), "W13: arrived bytes are dropped");
        self.incoming.truncate(self.incoming.len() - bytes);
    }

    /// Takes all whole records, and hands the bytes of requests over. True if the client sends no more.
    pub(crate) fn take_records(&mut self, receive: &mut dyn FnMut(&[u8])) -> bool {
        debug_assert!(self.failure.is_none(), "W20: a failed session takes no record");
        match self.incoming.first() {
            Some(&first) if !self.has_begun && first != HANDSHAKE_RECORD => {
                self.outgoing.extend_from_slice(PLAIN_TEXT_REPLY);
                self.fail(TlsFailure::PlainText, "a client sent no TLS: let the client use TLS (redis-cli --tls), or give it a port without TLS");
                return false;
            }
            first => self.has_begun |= first.is_some(),
        }
        let TakenRecords { consumed_bytes, has_peer_ended, error } =
            records::take(&mut self.records, &mut self.incoming, &mut self.outgoing, receive);
        self.incoming.drain(..consumed_bytes);
        if let Some(error) = error {
            let failure = if self.is_ready { TlsFailure::Broken } else { TlsFailure::Handshake };
            self.fail(failure, &error);
            return false;
        }
        if !self.is_ready && records::is_ready(&self.records) {
            self.is_ready = true;
            self.certificate_bytes = records::certificate_bytes(&self.records);
        }
        if self.incoming.len() >= INCOMING_BYTES_MAX {
            self.fail(TlsFailure::Handshake, "a message of the handshake is too long");
            return false;
        }
        has_peer_ended
    }

    /// Ends the session with a failure. Nothing is encrypted from now on.
    fn fail(&mut self, failure: TlsFailure, text: &str) {
        self.failure = Some((failure, text.into()));
        self.incoming = Vec::new();
    }

    /// Encrypts the first bytes of replies, if all earlier records are sent. Returns the number of encrypted bytes.
    pub(crate) fn encrypt(&mut self, replies: &[u8]) -> usize {
        if !self.is_ready || self.is_over() || !self.to_send().is_empty() || replies.is_empty() {
            return 0;
        }
        let part = &replies[..replies.len().min(ENCRYPTED_BYTES)];
        match records::encrypt(&mut self.records, &mut self.incoming, part, &mut self.outgoing) {
            Ok(()) => part.len(),
            Err(error) => {
                self.fail(TlsFailure::Broken, &error);
                0
            }
        }
    }

    /// True if no reply goes any more: the session has failed, or its last record is among the outgoing ones.
    pub(crate) fn is_over(&self) -> bool {
        self.failure.is_some() || self.has_ended
    }

    /// Appends the last record. The client waits for it.
    pub(crate) fn end(&mut self) {
        debug_assert!(self.needs_end(), "W20: one record is the last");
        self.has_ended = true;
        records::end(&mut self.records, &mut self.incoming, &mut self.outgoing);
    }

    /// True if the client waits for the last record.
    pub(crate) fn needs_end(&self) -> bool {
        self.is_ready && !self.is_over()
    }

    /// Records to be sent.
    pub(crate) fn to_send(&self) -> &[u8] {
        &self.outgoing[self.sent_bytes..]
    }

    pub(crate) fn mark_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        debug_assert!(self.sent_bytes <= self.outgoing.len(), "no more is sent than there is");
        if self.sent_bytes == self.outgoing.len() {
            self.outgoing.clear();
            self.sent_bytes = 0;
            self.outgoing.shrink_to(KEPT_BYTES);
        }
    }

    /// Memory of the session in bytes (W16).
    pub(crate) fn memory_bytes(&self) -> usize {
        let buffers = self.incoming.capacity() + self.outgoing.capacity();
        size_of::<Self>() + records::HEAP_BYTES + self.certificate_bytes + buffers
    }

    /// True if no part of a record waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.incoming.is_empty() && self.outgoing.is_empty()
    }

    /// True if the buffers keep room.
    pub(crate) fn keeps_room(&self) -> bool {
        self.incoming.capacity() > 0 || self.outgoing.capacity() > 0
    }

    /// Gives back the room of the buffers. No record waits.
    pub(crate) fn release_room(&mut self) {
        debug_assert!(self.is_idle(), "W17: a record that waits is kept");
        (self.incoming, self.outgoing, self.sent_bytes) = (Vec::new(), Vec::new(), 0);
    }

    /// Checks counts against contents.
    #[cfg(feature = "simulation")]
    pub(crate) fn check(&self) {
        assert!(self.sent_bytes < self.outgoing.len() || self.sent_bytes == 0, "W1: sent records go");
        assert!(self.incoming.len() < INCOMING_BYTES_MAX, "W20: a handshake has bounded memory");
        assert!(self.failure.is_none() || self.incoming.is_empty(), "W20: a failed session keeps no record");
        let room = self.incoming.capacity();
        assert!(room <= INCOMING_BYTES_MAX, "W20: {room} bytes of room for records");
        assert!(!self.has_ended || self.is_ready, "W20: the last record is behind the handshake");
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests;

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSession").field("is_ready", &self.is_ready).finish_non_exhaustive()
    }
}
