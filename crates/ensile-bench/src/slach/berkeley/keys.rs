//! Which keys there are, and which of them are called: the same on both sides. `berkeley.c` has these lines in C.
//!
//! Keys are numbers that go up, mixed: so a load in the order of the numbers comes to a tree at random.
//!
//! Neighbours: [`super::table`] calls; `berkeley.c` does the same.

/// The last step of splitmix64: no two numbers become the same.
#[inline]
pub(super) fn mixed(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Keys that are called, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrawnKeys {
    state: u64,
    keys: u64,
}

impl DrawnKeys {
    /// Of this many keys.
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
