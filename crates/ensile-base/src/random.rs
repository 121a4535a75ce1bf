//! Random numbers. Only this module draws random numbers.
//!
//! [`Random`] is xoshiro256++ seeded through splitmix64: fast, reproducible by the seed, not for secrets.
//!
//! Neighbours: back-off in the engine, workloads in the bench, schedules in the simulator.

/// A small, seeded generator. The same seed gives the same numbers on every machine.
///
/// ```
/// use ensile_base::random::Random;
/// let mut a = Random::from_seed(42);
/// let mut b = Random::from_seed(42);
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert!(a.next_below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator with the seed `seed`.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut mixer = seed;
        let mut next = || {
            mixer = mixer.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = mixer;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self { state: [next(), next(), next(), next()] }
    }

    /// A generator with an unpredictable seed from std's per-process hash keys. Under shuttle, the schedule sets the
    /// seed.
    #[must_use]
    pub fn unpredictable() -> Self {
        #[cfg(shuttle)]
        return Self::from_seed(crate::sync::next_u64());
        #[cfg(not(shuttle))]
        Self::from_process()
    }

    #[cfg(not(shuttle))]
    fn from_process() -> Self {
        use std::hash::{BuildHasher, Hasher};
        Self::from_seed(std::collections::hash_map::RandomState::new().build_hasher().finish())
    }

    /// 128 bits that no earlier call has returned, in any process: for identities. The system draws the bits, because a
    /// fork copies std's hash keys. Under shuttle, the schedule sets the bits.
    ///
    /// # Panics
    /// If the system has no random numbers: two identities could not be told apart.
    #[must_use]
    pub fn unique_128() -> u128 {
        #[cfg(shuttle)]
        return u128::from(crate::sync::next_u64()) << 64 | u128::from(crate::sync::next_u64());
        #[cfg(not(shuttle))]
        {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).expect("the system gives random numbers");
            u128::from_le_bytes(bytes)
        }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`, by multiplication (bias below 2^-32 for bounds below 2^32). `bound` must not be zero.
    #[inline]
    pub fn next_below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`.
    #[inline]
    pub fn next_between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next_below(high - low + 1)
    }

    /// A number in `0.0..1.0`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True `percent` times in a hundred.
    #[inline]
    pub fn percent(&mut self, percent: u64) -> bool {
        self.next_below(100) < percent
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut random = Random::from_seed(1);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[random.next_below(7) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
    }

    #[test]
    fn units_lie_in_the_unit_interval_with_a_sane_mean() {
        let mut random = Random::from_seed(2);
        let sum: f64 = (0..10_000)
            .map(|_| {
                let x = random.unit();
                assert!((0.0..1.0).contains(&x));
                x
            })
            .sum();
        assert!((4_800.0..5_200.0).contains(&sum), "sum {sum}");
    }
}
