//! A reply under way, within a limit.
//!
//! Invariant W2: a reply has no more bytes than the limit permits; a longer reply becomes an error. The text of an
//! error is cut.
//!
//! Neighbours: commands write; [`crate::dispatch`] joins the replies of `EXEC`.

use std::borrow::Cow;

use ensile_resp::{ReplyEncoder, RespVersion};

use crate::limits::REPLY_BYTES;

/// Longest text of an error, in bytes.
pub(crate) const ERROR_BYTES: usize = 4096;

/// Longest word of a request that an error shows, in bytes.
pub(crate) const SHOWN_BYTES: usize = 128;

const _: () = assert!(SHOWN_BYTES < ERROR_BYTES, "an error shows the word and says more");

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
    /// True if the request may have several replies.
    is_several: bool,
}

impl<'b> NewReply<'b> {
    /// Begins a reply of at most `bytes_max` bytes behind the bytes of the buffer.
    #[inline]
    pub fn new(buffer: &'b mut Vec<u8>, bytes_max: usize, version: RespVersion) -> Self {
        let begin = buffer.len();
        Self { buffer, begin, bytes_max, version, is_beyond: false, is_several: false }
    }

    /// Permits several replies to the request, as `SUBSCRIBE` has.
    pub fn permit_several(&mut self) {
        self.is_several = true;
    }

    /// True if the request may have several replies.
    pub(crate) fn is_several(&self) -> bool {
        self.is_several
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

    /// True if a part did not fit: the written part is no reply, and an error replaces the reply.
    #[inline]
    #[must_use]
    pub fn is_beyond(&self) -> bool {
        self.is_beyond
    }

    /// Replaces the written part of the reply by an error. A text of more than 4 KiB is cut.
    pub fn fail(&mut self, code: &str, text: &str) {
        debug_assert!(self.begin <= self.buffer.len(), "W1: a command takes no earlier reply away");
        self.clear();
        ReplyEncoder::new(self.buffer, self.version).error(code, cut_to(text, ERROR_BYTES));
        debug_assert!(!self.is_beyond && !self.is_empty(), "an error is a reply");
    }

    /// As [`NewReply::fail`], for a text of any bytes that has the code.
    pub fn fail_line(&mut self, text: &[u8]) {
        self.clear();
        ReplyEncoder::new(self.buffer, self.version).error_line(&text[..text.len().min(ERROR_BYTES)]);
        debug_assert!(!self.is_beyond && !self.is_empty(), "an error is a reply");
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

/// The beginning of a text, of at most this number of bytes, cut between two characters.
pub(crate) fn cut_to(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    debug_assert!(end == text.len() || end + 4 > bytes_max, "a cut takes one character more at most");
    &text[..end]
}

/// The beginning of a word of a request, for an error.
pub(crate) fn shown_word(word: &[u8]) -> Cow<'_, str> {
    shown_part(word, SHOWN_BYTES)
}

/// As [`shown_word`], of at most this number of bytes.
pub(crate) fn shown_part(word: &[u8], bytes_max: usize) -> Cow<'_, str> {
    debug_assert!(bytes_max <= SHOWN_BYTES, "an error shows a part of a long word");
    String::from_utf8_lossy(&word[..word.len().min(bytes_max)])
}

/// Text of the error for a reply beyond [`REPLY_BYTES`].
pub(crate) fn reply_too_long() -> String {
    format!("the reply would be longer than {REPLY_BYTES} bytes: ask for less at once")
}

#[cfg(test)]
mod tests {
    use ensile_resp::RespVersion;

    use super::{ERROR_BYTES, NewReply};

    #[test]
    fn a_long_error_is_cut_between_two_characters() {
        let mut buffer = Vec::new();
        let text = "\u{fffd}".repeat(16 << 20);
        NewReply::new(&mut buffer, 100, RespVersion::Resp2).fail("ERR", &text);
        let told = std::str::from_utf8(&buffer).expect("whole characters");
        assert_eq!(told, format!("-ERR {}\r\n", "\u{fffd}".repeat(ERROR_BYTES / 3)));
    }
}
