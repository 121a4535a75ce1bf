//! The body of a log entry: the transaction's writes, table, key and value each (Silo §4.10).
//!
//! ```text
//! write := table u32 | key length u16 | value length u32, or DELETE | key | value          all little-endian
//! body  := write*
//! ```
//!
//! Neighbours: commit encodes; `replay` decodes at recovery; the durability crate frames it with TID and length.

use ensile_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// The value length of a delete.
const DELETE: u32 = u32::MAX;
const HEADER_BYTES: usize = 10;

const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize && VALUE_BYTES_MAX < DELETE as usize);

/// Bytes of one write in a body.
#[inline]
pub(crate) const fn bytes(key: usize, value: usize) -> usize {
    HEADER_BYTES + key + value
}

/// Appends one write; no value means that the key becomes absent.
#[inline]
pub(crate) fn encode(out: &mut Vec<u8>, table: u32, key: &[u8], value: Option<&[u8]>) {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&table.to_le_bytes());
    header[4..6].copy_from_slice(&(key.len() as u16).to_le_bytes());
    header[6..].copy_from_slice(&value.map_or(DELETE, |value| value.len() as u32).to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(key);
    out.extend_from_slice(value.unwrap_or_default());
}

/// One write of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedWrite<'b> {
    pub(crate) table: u32,
    pub(crate) key: &'b [u8],
    /// `None`: deleted.
    pub(crate) value: Option<&'b [u8]>,
}

/// Takes the writes of a body apart.
pub(crate) struct Writes<'b>(pub(crate) &'b [u8]);

impl<'b> Writes<'b> {
    fn split(&mut self) -> Option<LoggedWrite<'b>> {
        let (header, rest) = self.0.split_first_chunk::<HEADER_BYTES>()?;
        let table = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let key_length = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let value_length = u32::from_le_bytes([header[6], header[7], header[8], header[9]]);
        let (key, rest) = rest.split_at_checked(key_length)?;
        let (value, rest) = if value_length == DELETE {
            (None, rest)
        } else {
            let (value, rest) = rest.split_at_checked(value_length as usize)?;
            (Some(value), rest)
        };
        self.0 = rest;
        Some(LoggedWrite { table, key, value })
    }
}

impl<'b> Iterator for Writes<'b> {
    type Item = Result<LoggedWrite<'b>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let write = self.split();
        if write.is_none() {
            self.0 = &[];
        }
        Some(write.ok_or_else(|| "a log entry ends in the middle of a write".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::{LoggedWrite, Writes, bytes, encode};

    #[test]
    fn what_is_encoded_comes_back() {
        let mut body = Vec::new();
        encode(&mut body, 7, b"key", Some(b"value"));
        encode(&mut body, 8, b"", None);
        encode(&mut body, 9, &[0; 300], Some(b""));
        assert_eq!(body.len(), bytes(3, 5) + bytes(0, 0) + bytes(300, 0));
        let writes: Vec<_> = Writes(&body).map(|write| write.expect("whole")).collect();
        assert_eq!(writes[0], LoggedWrite { table: 7, key: b"key", value: Some(b"value") });
        assert_eq!(writes[1], LoggedWrite { table: 8, key: b"", value: None });
        assert_eq!(writes[2], LoggedWrite { table: 9, key: &[0; 300], value: Some(b"") });
    }

    #[test]
    fn a_cut_body_is_an_error_at_every_length() {
        let mut body = Vec::new();
        encode(&mut body, 7, b"key", Some(b"value"));
        for length in 1..body.len() {
            assert!(Writes(&body[..length]).any(|write| write.is_err()), "cut at {length}");
        }
    }
}
