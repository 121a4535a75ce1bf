//! A reply under way, within a limit.
//!
//! Invariant W2: a reply has no more bytes than the limit permits; a longer reply becomes an error.
//!
//! Neighbours: commands write; [`crate::dispatch`] joins the replies of `EXEC`.

use ensile_resp::{ReplyEncoder, RespVersion};

use crate::limits::REPLY_BYTES;

/// A reply that is being written, after the bytes that are in the buffer.
#[derive(Debug)]
pub struct NewReply<'b> {
    buffer: &'b mut Vec<u8>,
    /// Length of the buffer before the reply, in bytes.
    begin: usize,
    /// Largest length of the reply in bytes. An error may be longer.
    bytes_max: usize,
    version: RespVersion,
    /// True if a part did not fit: the written part is no reply.
    is_beyond: bool,
}

impl<'b> NewReply<'b> {
    /// Begins a reply of at most `bytes_max` bytes behind the bytes of the buffer.
    #[inline]
    pub fn new(buffer: &'b mut Vec<u8>, bytes_max: usize, version: RespVersion) -> Self {
        let begin = buffer.len();
        Self { buffer, begin, bytes_max, version, is_beyond: false }
    }

    /// Appends to the reply. Parts behind the limit are left out, and [`NewReply::limit`] replaces the reply.
    #[inline]
    pub fn write<R>(&mut self, write: impl FnOnce(&mut ReplyEncoder<'_>) -> R) -> R {
        let bytes_max = self.bytes_max.saturating_sub(self.len());
        let mut encoder = ReplyEncoder::new(self.buffer, self.version).at_most(bytes_max);
        let written = write(&mut encoder);
        self.is_beyond |= encoder.is_beyond();
        written
    }

    /// Version of the protocol in which the reply is written.
    #[must_use]
    pub fn version(&self) -> RespVersion {
        self.version
    }

    /// Length of the written part of the reply in bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len() - self.begin
    }

    /// True if nothing is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The written part of the reply.
    #[must_use]
    pub fn written_bytes(&self) -> &[u8] {
        &self.buffer[self.begin..]
    }

    /// Appends bytes of a reply that was written elsewhere in the same version of the protocol.
    pub fn append(&mut self, written: &[u8]) {
        self.buffer.extend_from_slice(written);
    }

    /// Takes the written part of the reply back.
    pub fn clear(&mut self) {
        self.buffer.truncate(self.begin);
        self.is_beyond = false;
    }

    /// True if a part did not fit: the reply becomes an error.
    #[must_use]
    pub fn is_beyond(&self) -> bool {
        self.is_beyond
    }

    /// Replaces the written part of the reply by an error.
    pub fn fail(&mut self, code: &str, text: &str) {
        debug_assert!(self.begin <= self.buffer.len(), "W1: a command takes no earlier reply away");
        self.clear();
        ReplyEncoder::new(self.buffer, self.version).error(code, text);
    }

    /// Replaces a reply beyond its limit by an error. An error may be longer than the limit.
    #[inline]
    pub fn limit(&mut self) {
        if self.is_beyond {
            self.fail("ERR", &reply_too_long());
        }
    }

    /// As [`NewReply::limit`], for errors too: other replies of the same array need their room.
    pub(crate) fn limit_all(&mut self) {
        self.is_beyond |= self.len() > self.bytes_max;
        self.limit();
    }

    /// A reply behind the written part, of at most `bytes_max` bytes.
    pub(crate) fn reply_behind(&mut self, bytes_max: usize) -> NewReply<'_> {
        NewReply::new(self.buffer, bytes_max, self.version)
    }
}

/// Text of the error for a reply beyond [`REPLY_BYTES`].
pub(crate) fn reply_too_long() -> String {
    format!("the reply would be longer than {REPLY_BYTES} bytes: ask for less at once")
}
