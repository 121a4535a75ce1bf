//! The rows that every system stores: keys 0, 1, .. and values of 100 bytes, loaded in a random order.
//!
//! A value begins with its key and a count of updates, so each read and each final state can be checked.

/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 100;

/// Rows of a scan, of a range, and reads of a transaction that reads many.
pub(crate) const ROWS_AT_ONCE: usize = 100;

/// A value as every system stores it: the key and the count, little-endian, then filler without a pattern.
pub(crate) type Value = [u8; VALUE_BYTES];

/// SplitMix64: fast, and the same on every machine for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A sequence for this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// The keys `0..rows` in a random order.
pub(crate) fn shuffled_keys(rows: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut keys: Vec<u64> = (0..rows).collect();
    for last in (1..keys.len()).rev() {
        let other = random.below(last as u64 + 1) as usize;
        keys.swap(last, other);
    }
    keys
}

/// The value that is loaded for a key.
pub(crate) fn value_of(key: u64) -> Value {
    let mut value = [0; VALUE_BYTES];
    let mut random = Random::new(key);
    for chunk in value[16..].chunks_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
    }
    value[..8].copy_from_slice(&key.to_le_bytes());
    value
}

/// The key that a value carries.
#[inline]
pub(crate) fn key_in(value: &[u8]) -> u64 {
    u64_at(value, 0)
}

/// Number of updates of a value.
#[inline]
pub(crate) fn count_in(value: &[u8]) -> u64 {
    u64_at(value, 8)
}

/// The value after one more update.
#[inline]
pub(crate) fn updated(value: &[u8]) -> Value {
    let mut new: Value = value.try_into().expect("every value has the same width");
    new[8..16].copy_from_slice(&(count_in(value) + 1).to_le_bytes());
    new
}

fn u64_at(value: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::{count_in, key_in, shuffled_keys, updated, value_of};

    #[test]
    fn the_order_of_the_load_has_every_key_once() {
        let keys = shuffled_keys(1_000, 7);
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        assert_ne!(keys, sorted);
        assert!(sorted.into_iter().eq(0..1_000));
    }

    #[test]
    fn an_update_raises_the_count_and_keeps_the_rest() {
        let (old, new) = (value_of(5), updated(&value_of(5)));
        assert_eq!((key_in(&new), count_in(&old), count_in(&new)), (5, 0, 1));
        assert_eq!(old[16..], new[16..]);
    }
}
