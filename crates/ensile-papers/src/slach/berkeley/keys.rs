//! Loaded keys and called keys, equal for Ensile and Berkeley DB. `berkeley.c` has the same functions in C.
//!
//! A key is a mixed ascending number. A load in ascending order therefore reaches the tree in random order.
//!
//! Neighbours: [`super::table`] calls the keys; `berkeley.c` is the C side.

/// Number of keys of a multi-get.
pub(super) const MULTI_GET: usize = 16;

/// The last step of splitmix64, a bijection: two different numbers stay different.
#[inline]
pub(super) fn mixed(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Sequence of called keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrawnKeys {
    state: u64,
    keys: u64,
}

impl DrawnKeys {
    /// A sequence over `keys` keys.
    pub(super) fn new(seed: u64, keys: u64) -> Self {
        Self { state: seed, keys }
    }

    /// The next key.
    #[inline]
    pub(super) fn next_key(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(((u128::from(mixed(self.state)) * u128::from(self.keys)) >> 64) as u64)
    }
}
