//! Buffer of an encoded value, behind the keys and values of the transaction's other writes.
//!
//! Invariant: an encoder appends. By type, an encoder neither sees nor changes earlier bytes.
//!
//! Neighbours: [`Value`](super::Value) fills the buffer; the write-set's arena lies below.

/// Takes the bytes of a value in order.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use std::io::Write;
/// use ensile::codec::ValueBuffer;
/// let mut bytes = b"kept ".to_vec();
/// let mut buffer = ValueBuffer::new(&mut bytes);
/// buffer.push(b'x');
/// buffer.extend_from_slice(b" = ");
/// write!(buffer, "{}", 7).unwrap();
/// assert_eq!(bytes, b"kept x = 7");
/// ```
#[derive(Debug)]
pub struct ValueBuffer<'b>(&'b mut Vec<u8>);

impl<'b> ValueBuffer<'b> {
    /// A buffer that appends to `bytes`.
    #[inline(always)]
    pub fn new(bytes: &'b mut Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Appends a byte.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Appends bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Position of the next byte.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.0.len()
    }

    /// Overwrites bytes appended since `at` was the end.
    #[inline]
    pub(super) fn set<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.0[at..at + N].copy_from_slice(&bytes);
    }

    #[cfg(feature = "serde")]
    pub(super) fn reborrow(&mut self) -> ValueBuffer<'_> {
        ValueBuffer(self.0)
    }
}

impl Extend<u8> for ValueBuffer<'_> {
    #[inline]
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        self.0.extend(bytes);
    }
}

impl std::io::Write for ValueBuffer<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
