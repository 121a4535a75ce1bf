//! Keys as a trie of layers sees keys: 8-byte slices with a rank.
//!
//! Within a layer an entry is ordered by its [`KeyPart`]: the next eight bytes as a big-endian number, zero-padded,
//! then the rank. The rank is the number of key bytes in the slice (0..=8), or [`LONG`] when the key goes on. So `"a" <
//! "a\0"`, NULs are ordinary bytes, and the entries of one slice (ten at most) stand side by side, LONG last.
//!
//! Neighbours: up, every operation; down, nothing.

/// Bytes of a slice.
pub(crate) const SLICE_BYTES: usize = 8;

/// The rank of an entry whose key continues after the slice.
pub(crate) const LONG: u8 = 9;

/// Place of a key within a layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct KeyPart {
    pub(crate) slice: u64,
    pub(crate) rank: u8,
}

impl KeyPart {
    /// The part of a key whose rest at this layer is `rest`.
    #[inline(always)]
    pub(crate) fn from_rest(rest: &[u8]) -> Self {
        if let Some(first) = rest.first_chunk::<SLICE_BYTES>() {
            let rank = if rest.len() > SLICE_BYTES { LONG } else { SLICE_BYTES as u8 };
            return Self { slice: u64::from_be_bytes(*first), rank };
        }
        Self { slice: short_slice(rest), rank: rest.len() as u8 }
    }

    pub(crate) fn is_long(self) -> bool {
        self.rank == LONG
    }

    /// Appends the key bytes of the slice to `key`.
    #[inline]
    pub(crate) fn append_to(self, key: &mut Vec<u8>) {
        let end = key.len() + usize::from(self.rank);
        // A width that the compiler knows: a single store.
        key.extend_from_slice(&self.slice.to_be_bytes());
        key.truncate(end);
    }
}

/// Fewer than eight bytes as a zero-padded big-endian number.
#[inline(always)]
fn short_slice(rest: &[u8]) -> u64 {
    debug_assert!(rest.len() < SLICE_BYTES);
    if let (Some(head), Some(tail)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        // Two overlapping loads put the same bytes in the same places.
        let head = u64::from(u32::from_be_bytes(*head)) << 32;
        let tail = u64::from(u32::from_be_bytes(*tail)) << (64 - 8 * rest.len());
        return head | tail;
    }
    let mut slice = 0;
    for (index, &byte) in rest.iter().enumerate() {
        slice |= u64::from(byte) << (56 - 8 * index);
    }
    slice
}

/// The shortest key whose slice is `slice`: the slice without its trailing NULs.
pub(crate) fn shortest(slice: u64) -> KeyPart {
    let zeros = if slice == 0 { SLICE_BYTES as u32 } else { slice.trailing_zeros() / 8 };
    KeyPart { slice, rank: SLICE_BYTES as u8 - zeros as u8 }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
