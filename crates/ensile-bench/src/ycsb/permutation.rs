//! A permutation of `0..n` that needs no memory: loading keys at random must not show in the resident bytes.
//!
//! A four-round Feistel network on the next even number of bits, walked along its cycle until it lands below `n`.
//!
//! Neighbours: [`super::load`](super) with `--load-order random`; [`super::distribution`] scatters popular keys by it.

/// A pseudo-random order of the numbers below a bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    bound: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// An order of `0..bound`, the same for the same seed.
    pub(crate) fn new(bound: u64, seed: u64) -> Self {
        let bits = (64 - bound.saturating_sub(1).leading_zeros()).max(2);
        Self { bound, half_bits: bits.div_ceil(2), seed }
    }

    /// The number at `position`, which must be below the bound.
    pub(crate) fn at(self, position: u64) -> u64 {
        debug_assert!(position < self.bound);
        let mut value = position;
        loop {
            value = self.scramble(value);
            if value < self.bound {
                return value;
            }
        }
    }

    fn scramble(self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..4 {
            let mixed = mix(right ^ self.seed.rotate_left(round * 16));
            (left, right) = (right, left ^ (mixed & mask));
        }
        (left << self.half_bits) | right
    }
}

/// The finalizer of splitmix64: every bit of the input changes about half of the bits of the output.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::Permutation;

    #[test]
    fn every_number_comes_once_in_an_order_that_is_not_the_natural_one() {
        for bound in [1u64, 2, 3, 1000, 4096, 5000] {
            let permutation = Permutation::new(bound, 7);
            let order: Vec<u64> = (0..bound).map(|position| permutation.at(position)).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..bound), "{bound}: {order:?}");
            let in_place =
                order.iter().enumerate().filter(|(position, key)| *position as u64 == **key).count();
            assert!(bound < 1000 || in_place < 10, "{bound}: {in_place} stay in place");
        }
    }
}
