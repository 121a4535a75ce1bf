//! The body of a log entry: the transaction's writes with table, key and value (Silo §4.10), and optionally the
//! replaced values.
//!
//! ```text
//! body  := write*
//! write := table u32 | key length u16 | value length u32, or DELETE | key | value                  all little-endian
//!        | table u32 | key length u16 | RECORDED + value length u32, or DELETE_RECORDED | before length u32, or ABSENT
//!          | key | value | before
//! ```
//! RECORDED is a length that no body has, so a program that only knows the first form refuses the second form. Byte
//! example: `docs/internals/formats/log.md`.
//!
//! Neighbours: `commit` encodes. `open::replay` decodes at recovery, `open::folder` decodes for the inspection of a
//! log. The durability crate frames the body with TID and length.

use ensile_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// The value length of a delete.
const DELETE: u32 = u32::MAX;
/// The value length of a delete with a before-image.
const DELETE_RECORDED: u32 = u32::MAX - 1;
/// Bit added to the value length before a before-image.
const RECORDED: u32 = 1 << 31;
/// Length of a before-image for an absent key.
const ABSENT: u32 = u32::MAX;
const HEADER_BYTES: usize = 10;
/// Size of a before-image without its value, in bytes.
const IMAGE_HEADER_BYTES: usize = 4;

const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(VALUE_BYTES_MAX < (DELETE_RECORDED - RECORDED) as usize);
const _: () = assert!(ensile_base::limits::TRANSACTION_BYTES_MAX < RECORDED as usize);

/// The before-image of a write: the state of the key when the transaction took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before<'b> {
    /// The log has no before-image ([`Builder::before_images`](crate::Builder::before_images) was off).
    NotRecorded,
    /// The key was absent.
    Absent,
    /// The replaced value.
    Value(&'b [u8]),
}

/// Size of a write in a body, without a before-image, in bytes; `key` and `value` are the sizes of both.
#[inline]
pub(crate) const fn bytes(key: usize, value: usize) -> usize {
    HEADER_BYTES + key + value
}

/// Additional bytes for the before-image of a value of `before` bytes; 0 also stands for an absent key.
#[inline]
pub(crate) const fn image_bytes(before: usize) -> usize {
    IMAGE_HEADER_BYTES + before
}

/// The before-image in the head of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// No before-image.
    NotRecorded,
    /// The key was absent, and no bytes follow.
    Absent,
    /// A value of this many bytes, appended by the caller. The caller copies the locked record once, into reserved
    /// memory (E1).
    Bytes(usize),
}

/// Appends a write up to its before-image; without a value the key becomes absent. Always inlined: a build of the call
/// without before-images keeps no code for them.
#[inline(always)]
pub(crate) fn encode(out: &mut Vec<u8>, table: u32, key: &[u8], value: Option<&[u8]>, image: Image) {
    let start = out.len();
    let recorded = image != Image::NotRecorded;
    let length = match value {
        None if recorded => DELETE_RECORDED,
        None => DELETE,
        Some(value) if recorded => RECORDED | value.len() as u32,
        Some(value) => value.len() as u32,
    };
    out.extend_from_slice(&header(table, key.len(), length));
    match image {
        Image::NotRecorded => {}
        Image::Absent => out.extend_from_slice(&ABSENT.to_le_bytes()),
        Image::Bytes(length) => out.extend_from_slice(&(length as u32).to_le_bytes()),
    }
    out.extend_from_slice(key);
    out.extend_from_slice(value.unwrap_or_default());
    let image_header = if recorded { IMAGE_HEADER_BYTES } else { 0 };
    let written = bytes(key.len(), value.map_or(0, <[u8]>::len)) + image_header;
    debug_assert_eq!(out.len() - start, written, "an entry takes what was reserved for it");
}

/// As [`encode`] without a before-image, for a key with its value directly behind: a single copy of both.
#[inline(always)]
pub(crate) fn encode_together(out: &mut Vec<u8>, table: u32, key: usize, key_and_value: &[u8]) {
    debug_assert!(key <= key_and_value.len(), "the key comes first");
    out.extend_from_slice(&header(table, key, (key_and_value.len() - key) as u32));
    out.extend_from_slice(key_and_value);
}

/// The bytes of a write before its key. `length` is the length of the value with the marks of the format.
#[inline(always)]
fn header(table: u32, key: usize, length: u32) -> [u8; HEADER_BYTES] {
    debug_assert!(key <= KEY_BYTES_MAX, "a table refuses longer keys: {key} bytes");
    debug_assert!(
        length & !RECORDED <= VALUE_BYTES_MAX as u32 || length >= DELETE_RECORDED,
        "a table refuses longer values"
    );
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&table.to_le_bytes());
    header[4..6].copy_from_slice(&(key as u16).to_le_bytes());
    header[6..].copy_from_slice(&length.to_le_bytes());
    header
}

/// A write of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedWrite<'b> {
    pub(crate) table: u32,
    pub(crate) key: &'b [u8],
    /// The value; `None`: deleted.
    pub(crate) value: Option<&'b [u8]>,
    pub(crate) before: Before<'b>,
}

/// Decoder of the writes of a body: an iterator that returns each write, or the fault of the body.
pub(crate) struct Writes<'b>(pub(crate) &'b [u8]);

const CUT: &str = "a log entry ends in the middle of a write";
const UNKNOWN: &str = "a write in a log entry is of a form that this program does not know";

impl<'b> Writes<'b> {
    fn take(&mut self, bytes: usize) -> Result<&'b [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn take_u32(&mut self) -> Result<u32, &'static str> {
        let (number, rest) = self.0.split_first_chunk().ok_or(CUT)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*number))
    }

    /// Splits the next write off the body. Fails if the body ends within the write, or if the form of the write is
    /// unknown.
    fn split(&mut self) -> Result<LoggedWrite<'b>, &'static str> {
        let (header, rest) = self.0.split_first_chunk::<HEADER_BYTES>().ok_or(CUT)?;
        self.0 = rest;
        let table = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let key_length = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let length = u32::from_le_bytes([header[6], header[7], header[8], header[9]]);
        let (length, recorded) = match length {
            DELETE => (None, false),
            DELETE_RECORDED => (None, true),
            _ => (Some((length & !RECORDED) as usize), length & RECORDED != 0),
        };
        let image_length = if recorded { Some(self.take_u32()?) } else { None };
        let key = self.take(key_length)?;
        let value = length.map(|length| self.take(length)).transpose()?;
        let before = match image_length {
            None => Before::NotRecorded,
            // A delete of an absent key is no write, so no log has this form.
            Some(ABSENT) if value.is_none() => return Err(UNKNOWN),
            Some(ABSENT) => Before::Absent,
            Some(length) => Before::Value(self.take(length as usize)?),
        };
        Ok(LoggedWrite { table, key, value, before })
    }
}

impl<'b> Iterator for Writes<'b> {
    type Item = Result<LoggedWrite<'b>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let write = self.split();
        if write.is_err() {
            self.0 = &[];
        }
        Some(write.map_err(str::to_owned))
    }
}

#[cfg(test)]
mod tests;
