//! Memory for an encoded key: on the stack for a short key, on the heap for a long key.
//!
//! Invariant: The bytes lie in `inline` while `length <= INLINE_BYTES`, and all of them in `spilled` above that. The
//! bounds check of a store also distinguishes the two cases, and is optimised away for keys of fixed width in a fresh
//! buffer.
//!
//! Neighbours: [`AsKey`](super::AsKey) fills the buffer. The typed API reads the bytes and passes them to the index.

use std::fmt;

/// Largest length of a key encoded without an allocation, in bytes.
const INLINE_BYTES: usize = 64;

/// A growing key. Short keys stay inline; longer keys move to the heap.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::codec::{AsKey, KeyBuffer};
/// let mut buffer = KeyBuffer::new();
/// (7u16, "abc").encode(&mut buffer); // as a key of type (u16, String)
/// assert_eq!(buffer.as_ref(), [0, 7, b'a', b'b', b'c']);
/// ```
#[derive(Clone)]
pub struct KeyBuffer {
    length: usize,
    inline: [u8; INLINE_BYTES],
    spilled: Vec<u8>,
}

impl KeyBuffer {
    /// An empty buffer.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { length: 0, inline: [0; INLINE_BYTES], spilled: Vec::new() }
    }

    /// A buffer with these bytes.
    #[inline]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut buffer = Self::new();
        buffer.push(bytes);
        buffer
    }

    /// Number of bytes.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// True if the buffer has no bytes.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Removes the bytes and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends `bytes`.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        match self.inline.get_mut(self.length..end) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.length = end;
            }
            None => self.spill(bytes),
        }
    }

    /// Appends an array with a width known to the compiler.
    #[inline]
    pub fn push_array<const N: usize>(&mut self, bytes: [u8; N]) {
        self.push(&bytes);
    }

    /// Replaces every byte from `start` on by its complement, to reverse the order.
    #[inline]
    pub(crate) fn complement_from(&mut self, start: usize) {
        let bytes = match self.inline.get_mut(..self.length) {
            Some(bytes) => bytes,
            None => &mut self.spilled,
        };
        for byte in &mut bytes[start..] {
            *byte = !*byte;
        }
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        if self.length <= INLINE_BYTES {
            self.spilled.clear();
            self.spilled.reserve(2 * INLINE_BYTES + bytes.len());
            self.spilled.extend_from_slice(&self.inline[..self.length]);
        }
        self.spilled.extend_from_slice(bytes);
        self.length = self.spilled.len();
        assert!(self.length > INLINE_BYTES, "only what does not fit inline spills");
    }
}

impl AsRef<[u8]> for KeyBuffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self.inline.get(..self.length) {
            Some(bytes) => bytes,
            None => &self.spilled,
        }
    }
}

impl Default for KeyBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KeyBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyBuffer").field(&self.as_ref()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_the_move_to_the_heap_at_every_length() {
        for split in 0..2 * INLINE_BYTES {
            let bytes: Vec<u8> = (0..3 * INLINE_BYTES).map(|i| u8::try_from(i).expect("fits")).collect();
            let mut buffer = KeyBuffer::new();
            buffer.push(&bytes[..split]);
            assert_eq!(buffer.as_ref(), &bytes[..split]);
            buffer.push(&bytes[split..]);
            assert_eq!(buffer.as_ref(), bytes);
            assert_eq!(buffer.len(), bytes.len());
        }
    }

    #[test]
    fn a_cleared_buffer_starts_inline_again() {
        let mut buffer = KeyBuffer::new();
        buffer.push(&[1; INLINE_BYTES + 1]);
        buffer.clear();
        assert!(buffer.is_empty());
        buffer.push(b"ab");
        assert_eq!(buffer.as_ref(), b"ab");
        buffer.push(&[3; INLINE_BYTES]);
        assert_eq!(&buffer.as_ref()[..3], b"ab\x03");
        assert_eq!(buffer.len(), INLINE_BYTES + 2);
    }

    #[test]
    fn complement_reaches_inline_and_spilled_bytes() {
        for length in [3, INLINE_BYTES, INLINE_BYTES + 1] {
            let mut buffer = KeyBuffer::new();
            buffer.push(&vec![0x0F; length]);
            buffer.complement_from(1);
            assert_eq!(buffer.as_ref()[0], 0x0F);
            assert!(buffer.as_ref()[1..].iter().all(|&byte| byte == 0xF0));
        }
    }
}
