//! The sent side: replies of a server, requests of a client.
//!
//! Invariant: a line never has CR or LF inside, for any given text: a value cannot pretend to be a second reply.
//!
//! Neighbours: servers send the replies; [`crate::reply`] reads the replies.

use std::io::Write;

use crate::header::HEADER_BYTES_MAX;

/// Version of the protocol that a client speaks: the second, until the client requests the third (`HELLO 3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RespVersion {
    /// Five types.
    #[default]
    Resp2,
    /// Also maps, sets, doubles, booleans, pushes and more.
    Resp3,
}

/// Appends replies to a buffer.
///
/// An array, map, set or push is its header; the header's number of replies follows (for a map twice the number). For
/// [`RespVersion::Resp2`] a missing type is written as redis writes the type: a map, set or push as an array, a double,
/// big number or verbatim text as a bulk string, a boolean as 0 or 1.
///
/// Replies may have a limit ([`ReplyEncoder::at_most`]). A part that does not fit is not written, nor is any part
/// behind, and [`ReplyEncoder::is_beyond`] is true: the caller then drops the written bytes, and replies an error.
///
/// ```
/// use ensile_resp::{ReplyEncoder, RespVersion};
///
/// let mut sent = Vec::new();
/// let mut reply = ReplyEncoder::new(&mut sent, RespVersion::Resp2).at_most(100);
/// reply.array(3);
/// (0..3).for_each(|_| reply.bulk(&[b'x'; 40]));
/// assert!(reply.is_beyond());
/// assert!(sent.len() <= 100);
/// ```
#[derive(Debug)]
pub struct ReplyEncoder<'b> {
    buffer: &'b mut Vec<u8>,
    version: RespVersion,
    /// Largest length of the buffer in bytes.
    end_max: usize,
    is_beyond: bool,
}

impl<'b> ReplyEncoder<'b> {
    /// Creates an encoder that appends to `buffer`.
    #[inline]
    pub fn new(buffer: &'b mut Vec<u8>, version: RespVersion) -> Self {
        Self { buffer, version, end_max: usize::MAX, is_beyond: false }
    }

    /// Limits the bytes written from here on. A line with less room than the longest line of its kind,
    /// [`HEADER_BYTES_MAX`], may count as too long.
    #[must_use]
    #[inline]
    pub fn at_most(self, bytes: usize) -> Self {
        Self { end_max: self.buffer.len().saturating_add(bytes), ..self }
    }

    /// True if a part did not fit: the written bytes are no reply. A command that shows much checks this now and then,
    /// and stops.
    #[must_use]
    #[inline]
    pub fn is_beyond(&self) -> bool {
        self.is_beyond
    }

    /// Version that the client speaks.
    #[must_use]
    pub fn version(&self) -> RespVersion {
        self.version
    }

    /// Sets the version that the client speaks from here on.
    pub fn set_version(&mut self, version: RespVersion) {
        self.version = version;
    }

    /// True if a part with a text of this length fits. After a part that does not fit, no part fits.
    #[inline]
    fn has_room(&mut self, text_bytes: usize) -> bool {
        let end = self.buffer.len().saturating_add(text_bytes).saturating_add(HEADER_BYTES_MAX);
        self.is_beyond |= end > self.end_max;
        !self.is_beyond
    }

    /// A line of text, such as `OK`.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: its code in capitals (`ERR`, `WRONGTYPE`), and the message.
    pub fn error(&mut self, code: &str, message: &str) {
        if !self.has_room(code.len().saturating_add(message.len())) {
            return;
        }
        self.buffer.push(b'-');
        self.line_text(code.as_bytes());
        self.buffer.push(b' ');
        self.line_text(message.as_bytes());
        self.crlf();
    }

    /// An error whose text has the code, if the error has a code.
    pub fn error_line(&mut self, text: &[u8]) {
        self.line(b'-', text);
    }

    /// A line of text of any bytes.
    pub fn simple_bytes(&mut self, text: &[u8]) {
        self.line(b'+', text);
    }

    /// A whole number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        if !self.has_room(0) {
            return;
        }
        self.buffer.push(b':');
        if number < 0 {
            self.buffer.push(b'-');
        }
        decimal(self.buffer, number.unsigned_abs());
        self.crlf();
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if !self.has_room(bytes.len()) {
            return;
        }
        bulk(self.buffer, bytes);
    }

    /// No value.
    #[inline]
    pub fn null(&mut self) {
        if !self.has_room(0) {
            return;
        }
        self.buffer.extend_from_slice(match self.version {
            RespVersion::Resp2 => b"$-1\r\n",
            RespVersion::Resp3 => b"_\r\n",
        });
    }

    /// A missing array, for a client of the second version that waits for an array.
    pub fn null_array(&mut self) {
        if !self.has_room(0) {
            return;
        }
        self.buffer.extend_from_slice(match self.version {
            RespVersion::Resp2 => b"*-1\r\n",
            RespVersion::Resp3 => b"_\r\n",
        });
    }

    /// Header of an array: `count` replies follow.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.write_header(b'*', count);
    }

    /// Header of a map: `pairs` keys follow, each with its value.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            RespVersion::Resp2 => self.write_header(b'*', pairs.saturating_mul(2)),
            RespVersion::Resp3 => self.write_header(b'%', pairs),
        }
    }

    /// Header of a set: `count` replies follow, in no order.
    pub fn set(&mut self, count: usize) {
        self.write_typed_header(b'~', b'*', count);
    }

    /// Header of a message that answers no request: `count` replies follow.
    pub fn push(&mut self, count: usize) {
        self.write_typed_header(b'>', b'*', count);
    }

    /// A floating point number, as [`double_text`] has it.
    pub fn double(&mut self, number: f64) {
        let mut text = Vec::new();
        double_text(&mut text, number);
        match self.version {
            RespVersion::Resp2 => self.bulk(&text),
            RespVersion::Resp3 => self.line(b',', &text),
        }
    }

    /// True or false.
    pub fn boolean(&mut self, is_true: bool) {
        match self.version {
            RespVersion::Resp2 => self.integer(i64::from(is_true)),
            RespVersion::Resp3 => self.line(b'#', if is_true { b"t" } else { b"f" }),
        }
    }

    /// Text for a person, with its format in three letters (`txt`, `mkd`).
    pub fn verbatim(&mut self, format: [u8; 3], text: &[u8]) {
        if self.version == RespVersion::Resp2 {
            return self.bulk(text);
        }
        if !self.has_room(text.len()) {
            return;
        }
        sized_line(self.buffer, b'=', text.len().saturating_add(4));
        self.buffer.extend_from_slice(&format);
        self.buffer.push(b':');
        self.buffer.extend_from_slice(text);
        self.crlf();
    }

    /// A whole number of any size: a minus sign below zero, and digits. The caller is responsible for the form.
    pub fn big_number(&mut self, digits: &str) {
        match self.version {
            RespVersion::Resp2 => self.bulk(digits.as_bytes()),
            RespVersion::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    fn write_typed_header(&mut self, third: u8, second: u8, count: usize) {
        let kind = if self.version == RespVersion::Resp3 { third } else { second };
        self.write_header(kind, count);
    }

    #[inline]
    fn write_header(&mut self, kind: u8, count: usize) {
        if self.has_room(0) {
            sized_line(self.buffer, kind, count);
        }
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        if !self.has_room(text.len()) {
            return;
        }
        self.buffer.push(kind);
        self.line_text(text);
        self.crlf();
    }

    /// Text within a line. Spaces replace line ends, as in redis.
    fn line_text(&mut self, text: &[u8]) {
        let from = self.buffer.len();
        self.buffer.extend_from_slice(text);
        for byte in &mut self.buffer[from..] {
            if matches!(*byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
    }

    #[inline]
    fn crlf(&mut self) {
        self.buffer.extend_from_slice(b"\r\n");
    }
}

/// Appends a request of a client, in either version.
pub fn encode_request<A: AsRef<[u8]>>(buffer: &mut Vec<u8>, arguments: &[A]) {
    sized_line(buffer, b'*', arguments.len());
    arguments.iter().for_each(|argument| bulk(buffer, argument.as_ref()));
}

/// Appends a bulk string.
#[inline]
pub(crate) fn bulk(buffer: &mut Vec<u8>, bytes: &[u8]) {
    sized_line(buffer, b'$', bytes.len());
    buffer.extend_from_slice(bytes);
    buffer.extend_from_slice(b"\r\n");
}

#[inline]
pub(crate) fn sized_line(buffer: &mut Vec<u8>, kind: u8, count: usize) {
    buffer.push(kind);
    decimal(buffer, count as u64);
    buffer.extend_from_slice(b"\r\n");
}

/// Appends the digits of a number.
#[inline]
fn decimal(buffer: &mut Vec<u8>, number: u64) {
    if number < 10 {
        return buffer.push(b'0' + number as u8);
    }
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), number);
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    buffer.extend_from_slice(&digits[at..]);
}

/// Digits of a [`double_text`].
const DOUBLE_DIGITS: usize = 17;
/// Bound of whole numbers that a double has exactly, and that have no exponent.
const SHORT_WHOLE_MAX: f64 = 1e15;

/// Appends a floating point number as redis 7.0 writes it: in 17 digits, without zeros at the end, and with an exponent
/// for small and large numbers.
pub fn double_text(text: &mut Vec<u8>, number: f64) {
    if number.is_nan() {
        return text.extend_from_slice(b"nan");
    }
    // A write to memory does not fail. Infinity is `inf` in both protocols and in Rust.
    let _ = if number.is_infinite() || number.abs() < SHORT_WHOLE_MAX && number.fract() == 0.0 {
        write!(text, "{number}")
    } else {
        let scientific = format!("{number:.*e}", DOUBLE_DIGITS - 1);
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if (-4..DOUBLE_DIGITS as i32).contains(&exponent) {
            let digits_behind = (DOUBLE_DIGITS as i32 - 1 - exponent) as usize;
            write!(text, "{}", without_zeros(&format!("{number:.digits_behind$}")))
        } else {
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(text, "{}e{sign}{:02}", without_zeros(digits), exponent.unsigned_abs())
        }
    };
}

/// A number's text without zeros at the end of its fraction.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}
