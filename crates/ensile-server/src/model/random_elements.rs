//! Random elements of a collection: each element is drawn with the same chance, at a bounded cost.
//!
//! A draw from a larger collection rejects empty places. The range of hashes is divided into buckets of equal width,
//! with [`BUCKET_ELEMENTS_LEAST`] to twice as many elements on average. A draw takes a random bucket and a random place
//! below [`BUCKET_PLACES`]. After an empty place the draw is repeated. Each element has one place, so all elements have
//! the same chance.
//!
//! Invariants:
//! - The number of buckets is chosen before the bucket, so the chance of a bucket does not depend on its elements.
//! - A draw reads one stripe and some buckets, so draws seldom conflict with writes.
//!
//! Neighbours: `elements` has the rows; `SPOP`, `SRANDMEMBER`, `HRANDFIELD` draw.

use std::ops::ControlFlow;

use ensile::{Readable, Result};
use ensile_base::random::Random;

use super::elements::{Collection, ElementRows, Form, written_count};
use super::{Keyspace, packed};

/// Smallest number of elements of a bucket on average. The largest is twice as large.
const BUCKET_ELEMENTS_LEAST: u64 = 8;
/// Number of places of a bucket. A bucket of hashes has more elements once in billions of draws.
const BUCKET_PLACES: u64 = 48;
/// Number of draws after which any element is taken. A draw finds an element with a chance of one in six at least.
const DRAWS_MAX: usize = 256;

const _: () =
    assert!(BUCKET_PLACES >= 6 * BUCKET_ELEMENTS_LEAST, "the places have room for more than the average");

/// A bucket of hashes: its number, and the number of bits that name a bucket.
#[derive(Clone, Copy)]
struct Bucket {
    number: u64,
    bits: u32,
}

impl Bucket {
    /// First hash of the bucket.
    fn begin(self) -> u64 {
        debug_assert!(
            self.bits < u64::BITS && self.number >> self.bits == 0,
            "the number is below the number of buckets"
        );
        self.number.checked_shl(u64::BITS - self.bits).unwrap_or(0)
    }

    /// First hash behind the bucket; `None` for the last bucket.
    fn end(self) -> Option<u64> {
        let next = self.number + 1;
        (next >> self.bits == 0).then(|| Self { number: next, ..self }.begin())
    }
}

/// Bits that name a bucket of a collection with this number of elements.
fn bucket_bits(elements: i64) -> u32 {
    let elements = u64::try_from(elements).unwrap_or(0);
    (elements / BUCKET_ELEMENTS_LEAST).checked_ilog2().unwrap_or(0)
}

impl Collection {
    /// A random element; `None` without elements.
    pub(crate) fn random(
        &self,
        keyspace: &mut Keyspace<'_, '_>,
        random: &mut Random,
    ) -> Result<Option<Vec<u8>>> {
        match &self.form {
            Form::Packed { bytes, .. } => {
                let count = packed::pair_count(bytes) as u64;
                if count == 0 {
                    return Ok(None);
                }
                let place = random.next_below(count) as usize;
                Ok(packed::pairs(bytes).nth(place).map(|pair| pair.element.to_vec()))
            }
            Form::Rows(rows) => rows.random(keyspace, random),
        }
    }
}

impl ElementRows {
    fn random(&self, keyspace: &mut Keyspace<'_, '_>, random: &mut Random) -> Result<Option<Vec<u8>>> {
        let stripe = random.next_below(1 << self.stripe_bits) as u32;
        let count =
            keyspace.tx.get(&keyspace.model.stripes, &(self.object, stripe))?.map_or(0, |(count, _)| count);
        let mut bits = bucket_bits(count << self.stripe_bits);
        let mut is_counted = false;
        for _ in 0..DRAWS_MAX {
            let number = if bits == 0 { 0 } else { random.next_u64() >> (u64::BITS - bits) };
            let mut elements = self.elements_of(keyspace, Bucket { number, bits })?;
            let count = elements.len() as u64;
            if count > BUCKET_PLACES {
                // The stripe has few elements beside the other stripes.
                let counted = if is_counted { 0 } else { bucket_bits(written_count(keyspace, self.object)?) };
                (bits, is_counted) = (counted.max(bits + 1), true);
                continue;
            }
            let places = if bits == 0 { count } else { BUCKET_PLACES };
            if places == 0 {
                return Ok(None);
            }
            let place = random.next_below(places);
            if place < count {
                return Ok(Some(elements.swap_remove(place as usize)));
            }
        }
        self.first_behind(keyspace, random.next_u64())
    }

    /// The elements of a bucket, one more than [`BUCKET_PLACES`] at most.
    fn elements_of(&self, keyspace: &mut Keyspace<'_, '_>, bucket: Bucket) -> Result<Vec<Vec<u8>>> {
        let mut elements = Vec::new();
        let end = bucket.end().map_or((self.object + 1, 0), |end| (self.object, end));
        let bounds = (self.object, bucket.begin(), Vec::new())..(end.0, end.1, Vec::new());
        keyspace.tx.scan_keys(&keyspace.model.elements, bounds, |(_, _, element)| {
            elements.push(element);
            if elements.len() as u64 > BUCKET_PLACES {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        keyspace.copied_bytes += elements.iter().map(Vec::len).sum::<usize>();
        Ok(elements)
    }

    /// The first element from a hash on, or from the first hash on.
    fn first_behind(&self, keyspace: &mut Keyspace<'_, '_>, hash: u64) -> Result<Option<Vec<u8>>> {
        for from in [hash, 0] {
            let bounds = (self.object, from, Vec::new())..(self.object + 1, 0, Vec::new());
            let first = keyspace.tx.first(&keyspace.model.elements, bounds)?;
            if let Some(((_, _, element), _)) = first {
                return Ok(Some(element));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKET_ELEMENTS_LEAST, Bucket, bucket_bits};

    #[test]
    fn buckets_cover_all_hashes_once() {
        for bits in [0, 1, 5, 40] {
            let last = (1_u64 << bits) - 1;
            assert_eq!((Bucket { number: 0, bits }.begin(), Bucket { number: last, bits }.end()), (0, None));
            for number in (0..last).take(100) {
                assert_eq!(Bucket { number, bits }.end(), Some(Bucket { number: number + 1, bits }.begin()));
            }
        }
    }

    #[test]
    fn a_bucket_has_a_bounded_number_of_elements_on_average() {
        assert_eq!([-1, 0, 1, 15].map(bucket_bits), [0; 4]);
        for elements in (16..1 << 40).step_by(1_234_567_891) {
            let average = elements >> bucket_bits(elements);
            assert!(
                (BUCKET_ELEMENTS_LEAST as i64..2 * BUCKET_ELEMENTS_LEAST as i64).contains(&average),
                "{elements}"
            );
        }
    }
}
