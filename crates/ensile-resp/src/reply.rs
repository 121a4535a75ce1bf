//! Replies, as a client reads them: both versions, every type that redis sends.
//!
//! A reply becomes a flat list of elements, parents before children. The texts of elements are places in the input. An
//! attribute, which describes the reply behind it, is read and skipped. Strings and arrays without a length at their
//! beginning (`$?`, `*?`), which redis never sends, are errors.
//!
//! Neighbours: [`crate::encode`] writes the replies; load generators and tests of servers read.

use crate::error::ProtocolError;
use crate::header::{header, integer};

mod view;

pub use view::{DecodedReply, Replies, Reply};

/// Limits of replies. A reply beyond a limit is a [`ProtocolError`] as soon as its header shows the excess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Longest string in bytes.
    pub bulk_bytes_max: usize,
    /// Longest line (simple text, an error, a number) in bytes.
    pub line_bytes_max: usize,
    /// Largest number of elements of a reply, over all levels.
    pub elements_max: usize,
    /// Largest number of levels of nested arrays, maps and sets.
    pub levels_max: usize,
    /// Longest reply in bytes. Larger values count as 4 GiB - 1 bytes.
    pub reply_bytes_max: usize,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        Self {
            bulk_bytes_max: 512 << 20,
            line_bytes_max: 64 << 10,
            elements_max: 1 << 24,
            levels_max: 32,
            reply_bytes_max: 1 << 30,
        }
    }
}

/// Type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementKind {
    Simple,
    Error,
    Integer,
    Bulk,
    Null,
    Double,
    Boolean,
    Verbatim,
    BigNumber,
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

impl ElementKind {
    fn from_byte(first: u8) -> Result<Self, ProtocolError> {
        Ok(match first {
            b'+' => Self::Simple,
            b'-' | b'!' => Self::Error,
            b':' => Self::Integer,
            b'$' => Self::Bulk,
            b'_' => Self::Null,
            b',' => Self::Double,
            b'#' => Self::Boolean,
            b'=' => Self::Verbatim,
            b'(' => Self::BigNumber,
            b'*' => Self::Array,
            b'%' => Self::Map,
            b'~' => Self::Set,
            b'>' => Self::Push,
            b'|' => Self::Attribute,
            other => return Err(ProtocolError::ReplyType(other)),
        })
    }
}

/// An element. A text has its place, counted from the reply's first byte. A parent has the number of its children, and
/// the begin of the elements behind its last descendant.
#[derive(Clone, Copy, Debug)]
struct Element {
    kind: ElementKind,
    from: u32,
    to: u32,
}

/// A parent with children that have not arrived.
#[derive(Clone, Copy, Debug)]
struct OpenParent {
    element: usize,
    missing: u64,
}

/// Decodes the replies of one connection; the crate's documentation lists the promises.
#[derive(Debug)]
pub struct ReplyDecoder {
    limits: ReplyLimits,
    elements: Vec<Element>,
    parents: Vec<OpenParent>,
    /// Begin of the next element, from the reply's first byte.
    position: usize,
    /// Number of bytes of the line under way that were searched for its end.
    searched: usize,
    /// Length of the string under way, once read. `position` is the string's first byte then.
    bulk_bytes: Option<usize>,
    is_whole: bool,
    failed: Option<ProtocolError>,
}

impl ReplyDecoder {
    /// Largest number of elements with room kept from reply to reply.
    const KEEP_ELEMENTS: usize = 1 << 10;

    /// Creates a decoder at the beginning of a stream.
    #[must_use]
    pub fn new(limits: ReplyLimits) -> Self {
        let reply_bytes_max = limits.reply_bytes_max.min(u32::MAX as usize);
        let elements_max = limits.elements_max.min(u32::MAX as usize / 2);
        Self {
            limits: ReplyLimits { reply_bytes_max, elements_max, ..limits },
            elements: Vec::new(),
            parents: Vec::new(),
            position: 0,
            searched: 0,
            bulk_bytes: None,
            is_whole: false,
            failed: None,
        }
    }

    /// Memory of the decoder in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.elements.capacity() * size_of::<Element>() + self.parents.capacity() * size_of::<OpenParent>()
    }

    /// Decodes the reply at the beginning of `input`; `None` if the reply is incomplete.
    ///
    /// `input` is everything that has arrived and was not consumed; bytes that are handed over again must be the same
    /// bytes.
    ///
    /// # Errors
    /// [`ProtocolError`] if the stream is no RESP or beyond a limit: close the stream. Every later call returns the
    /// same error.
    pub fn decode<'a>(&'a mut self, input: &'a [u8]) -> Result<Option<DecodedReply<'a>>, ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.is_whole {
            self.is_whole = false;
            self.position = 0;
            self.elements.clear();
            self.elements.shrink_to(Self::KEEP_ELEMENTS);
        }
        loop {
            match self.element(input) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => {
                    self.failed = Some(error);
                    return Err(error);
                }
            }
            if self.close_parents() {
                self.is_whole = true;
                return Ok(Some(DecodedReply::new(&self.elements, input, self.position)));
            }
        }
    }

    /// Reads an element without its children. False if the element is incomplete.
    fn element(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        if let Some(bytes) = self.bulk_bytes {
            return self.bulk(input, bytes);
        }
        let Some(&first) = input.get(self.position) else { return Ok(false) };
        let kind = ElementKind::from_byte(first)?;
        match kind {
            ElementKind::Bulk | ElementKind::Verbatim => self.read_string(input, kind),
            ElementKind::Error if first == b'!' => self.read_string(input, kind),
            ElementKind::Array
            | ElementKind::Map
            | ElementKind::Set
            | ElementKind::Push
            | ElementKind::Attribute => self.parent(input, kind),
            _ => self.line(input, kind),
        }
    }

    fn number(&self, input: &[u8]) -> Result<Option<(i64, usize)>, ProtocolError> {
        header(input, self.position + 1).number(ProtocolError::ReplyLine, ProtocolError::ReplyValue)
    }

    /// Reads a string behind its length. The element is made with its header, and holds the kind for later calls.
    fn read_string(&mut self, input: &[u8], kind: ElementKind) -> Result<bool, ProtocolError> {
        let Some((bytes, next)) = self.number(input)? else { return Ok(false) };
        self.within_bytes(next)?;
        if bytes == -1 && kind == ElementKind::Bulk {
            self.push(ElementKind::Null, 0, 0)?;
            self.position = next;
            return Ok(true);
        }
        let bytes = usize::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes <= self.limits.bulk_bytes_max)
            .ok_or(ProtocolError::BulkLength)?;
        let end = next.saturating_add(bytes);
        self.within_bytes(end.saturating_add(2))?;
        self.push(kind, next, end)?;
        self.position = next;
        self.bulk_bytes = Some(bytes);
        self.bulk(input, bytes)
    }

    /// Reads the bytes of the string whose header was read.
    fn bulk(&mut self, input: &[u8], bytes: usize) -> Result<bool, ProtocolError> {
        let end = self.position + bytes;
        match input.get(end..end + 2) {
            None => return Ok(false),
            Some(b"\r\n") => {}
            Some(_) => return Err(ProtocolError::ExpectedCrlf),
        }
        let is_verbatim = self.elements.last().is_some_and(|element| element.kind == ElementKind::Verbatim);
        if is_verbatim && (bytes < 4 || input[self.position + 3] != b':') {
            return Err(ProtocolError::ReplyValue);
        }
        self.position = end + 2;
        self.bulk_bytes = None;
        Ok(true)
    }

    fn parent(&mut self, input: &[u8], kind: ElementKind) -> Result<bool, ProtocolError> {
        let Some((count, next)) = self.number(input)? else { return Ok(false) };
        self.within_bytes(next)?;
        if count == -1 && kind == ElementKind::Array {
            self.push(ElementKind::Null, 0, 0)?;
            self.position = next;
            return Ok(true);
        }
        let count = usize::try_from(count).map_err(|_| ProtocolError::ReplyValue)?;
        let is_of_pairs = matches!(kind, ElementKind::Map | ElementKind::Attribute);
        let missing = if is_of_pairs { count.saturating_mul(2) } else { count };
        if missing > self.limits.elements_max || self.parents.len() == self.limits.levels_max {
            return Err(ProtocolError::ReplyElements);
        }
        self.parents.push(OpenParent { element: self.elements.len(), missing: missing as u64 });
        self.push(kind, missing, 0)?;
        self.position = next;
        Ok(true)
    }

    fn line(&mut self, input: &[u8], kind: ElementKind) -> Result<bool, ProtocolError> {
        let from = self.position + 1;
        let searched = (from + self.searched).min(input.len());
        let found = input[searched..].iter().position(|&byte| byte == b'\r');
        let end = found.map_or(input.len(), |found| searched + found);
        // The nearer limit is met first, however the line arrives.
        let bytes_left = self.limits.reply_bytes_max.saturating_sub(from + 2);
        if end - from > self.limits.line_bytes_max.min(bytes_left) {
            let is_line = self.limits.line_bytes_max <= bytes_left;
            return Err(if is_line { ProtocolError::ReplyLine } else { ProtocolError::RequestBytes });
        }
        self.searched = end - from;
        if found.is_none() || input.len() < end + 2 {
            return Ok(false);
        }
        if input[end + 1] != b'\n' {
            return Err(ProtocolError::ExpectedCrlf);
        }
        if !is_valid(kind, &input[from..end]) {
            return Err(ProtocolError::ReplyValue);
        }
        self.push(kind, from, end)?;
        self.position = end + 2;
        self.searched = 0;
        Ok(true)
    }

    fn within_bytes(&self, end: usize) -> Result<(), ProtocolError> {
        if end > self.limits.reply_bytes_max { Err(ProtocolError::RequestBytes) } else { Ok(()) }
    }

    /// `from` and `to` are within 32 bits by the limits of bytes and elements.
    fn push(&mut self, kind: ElementKind, from: usize, to: usize) -> Result<(), ProtocolError> {
        if self.elements.len() == self.limits.elements_max {
            return Err(ProtocolError::ReplyElements);
        }
        self.elements.push(Element { kind, from: from as u32, to: to as u32 });
        Ok(())
    }

    /// Closes the parents that the last element completes. True if the reply is complete.
    fn close_parents(&mut self) -> bool {
        let mut finished = self.elements.len() - 1;
        if self.parents.last().is_some_and(|parent| parent.element == finished && parent.missing == 0) {
            self.close_parent(finished);
        } else if self.parents.last().is_some_and(|parent| parent.element == finished) {
            return false;
        }
        // An attribute is no child: the described value comes behind the attribute.
        while self.elements[finished].kind != ElementKind::Attribute {
            let Some(parent) = self.parents.last_mut() else { return true };
            parent.missing -= 1;
            if parent.missing > 0 {
                return false;
            }
            finished = parent.element;
            self.close_parent(finished);
        }
        false
    }

    fn close_parent(&mut self, element: usize) {
        self.elements[element].to = self.elements.len() as u32;
        self.parents.pop();
    }
}

/// True if a line is a valid value of its type.
fn is_valid(kind: ElementKind, text: &[u8]) -> bool {
    match kind {
        ElementKind::Simple | ElementKind::Error => !text.contains(&b'\n'),
        ElementKind::Integer => integer(text).is_some(),
        ElementKind::Null => text.is_empty(),
        ElementKind::Boolean => matches!(text, b"t" | b"f"),
        ElementKind::Double => double(text).is_some(),
        ElementKind::BigNumber => {
            let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// Parses a double, in any form that a C library may print.
fn double(text: &[u8]) -> Option<f64> {
    match text {
        b"inf" => Some(f64::INFINITY),
        b"-inf" => Some(f64::NEG_INFINITY),
        b"nan" | b"-nan" => Some(f64::NAN),
        _ => {
            let is_number = text
                .iter()
                .all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
            std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
        }
    }
}

#[cfg(test)]
mod tests;
