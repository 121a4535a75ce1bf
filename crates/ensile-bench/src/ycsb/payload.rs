//! The value of a YCSB record: N bytes. Transactions read or change the first word.
//!
//! Neighbours: every system of [`crate::system`] stores the value; the engine as a fixed layout.

use std::hint::black_box;

use ensile::Value;
use ensile::codec::{CodecError, ValueBuffer};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A value of `N` bytes, at least 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Payload<const N: usize>([u8; N]);

impl<const N: usize> Payload<N> {
    /// A value that differs from key to key.
    pub fn of(key: u64) -> Self {
        let mut bytes = [key as u8; N];
        bytes[..8].copy_from_slice(&key.to_le_bytes());
        Self(bytes)
    }

    /// The first word.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        u64::from_le_bytes(self.0[..8].try_into().expect("eight bytes"))
    }

    /// Reads the value in a way that the compiler cannot skip.
    #[inline]
    pub fn look(&self) {
        black_box(self.word());
    }

    /// Changes one field of the value.
    #[inline]
    pub fn bump(&mut self) {
        let word = self.word().wrapping_add(1);
        self.0[..8].copy_from_slice(&word.to_le_bytes());
    }
}

/// The expansion of `ensile::fixed_layout!` for a struct of one width, here for every width.
impl<const N: usize> Value for Payload<N> {
    const BYTES: Option<usize> = Some(N);

    #[inline]
    fn encode(&self, out: &mut ValueBuffer<'_>) {
        out.extend_from_slice(&self.0);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        Self::read_from_bytes(bytes).map_err(|_| CodecError::length(bytes.len(), N))
    }

    fn type_name() -> String {
        format!("ycsb v1[{N}]")
    }

    #[inline]
    fn view<R>(bytes: &[u8], read: impl FnOnce(&Self) -> R) -> Result<R, CodecError> {
        Self::ref_from_bytes(bytes).map(read).map_err(|_| CodecError::length(bytes.len(), N))
    }
}

#[cfg(test)]
mod tests {
    use super::Payload;

    #[test]
    fn a_payload_is_its_bytes_and_counts_its_changes() {
        assert_eq!(size_of::<Payload<100>>(), 100);
        let mut payload = Payload::<100>::of(41);
        payload.bump();
        assert_eq!(payload.word(), 42);
    }
}
