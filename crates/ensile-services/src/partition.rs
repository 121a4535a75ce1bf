//! The mapping of objects to the processes of a partitioned service: by the hash of the key (SLACH §5).
//!
//! Invariant: clients and processes choose alike, by the same hash and the same number of partitions. A process refuses
//! an object of another process, so a client with a wrong choice gets an error, and changes nothing.
//!
//! Neighbours: [`crate::hash`]; [`crate::ups`] is partitioned, and its client chooses the process of a URL here.

use std::fmt;

use crate::hash::stable_hash;
use crate::service::CallError;

/// Place of a process among the processes of a partitioned service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    this: usize,
    all: usize,
}

impl Partition {
    /// Place of a process that has all objects.
    pub const WHOLE: Self = Self { this: 0, all: 1 };

    /// Place number `this`, from 0, of `all`; `None` for an invalid number.
    #[must_use]
    pub fn new(this: usize, all: usize) -> Option<Self> {
        (this < all).then_some(Self { this, all })
    }

    /// Number of the process that has this key, among `all`. `all` is above 0; the result for 0 is 0.
    #[must_use]
    pub fn number_for_key(key: &[u8], all: usize) -> usize {
        // The upper half of the product is below `all`, and follows the hash's upper bits.
        let number = ((u128::from(stable_hash(key)) * all as u128) >> 64) as usize;
        debug_assert!(all == 0 || number < all, "a key has one of the processes");
        number
    }

    /// Number of this process, and number of processes.
    pub(crate) fn numbers(self) -> [usize; 2] {
        [self.this, self.all]
    }

    /// Refuses a key of another process.
    pub(crate) fn check(self, key: &[u8]) -> Result<(), CallError> {
        let (of, Self { this, all }) = (Self::number_for_key(key, self.all), self);
        if of == this { Ok(()) } else { Err(CallError::WrongPartition { of, this, all }) }
    }
}

/// Text of the partition in a folder's name.
impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {} of {}", self.this, self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::Partition;

    #[test]
    fn every_key_has_one_process_and_all_have_their_share() {
        assert_eq!((Partition::new(2, 2), Partition::new(0, 0)), (None, None));
        let mut keys = [0; 5];
        for number in 0..10_000 {
            let key = format!("http://host{}.example/page{number}", number % 100);
            let of = Partition::number_for_key(key.as_bytes(), 5);
            keys[of] += 1;
            for this in 0..5 {
                let partition = Partition::new(this, 5).expect("it is one of five");
                assert_eq!(partition.check(key.as_bytes()).is_ok(), this == of);
            }
            assert!(Partition::WHOLE.check(key.as_bytes()).is_ok());
        }
        assert_eq!(Partition::number_for_key(b"key", 0), 0);
        assert!(keys.iter().all(|keys| (1_800..2_200).contains(keys)), "{keys:?}");
    }
}
