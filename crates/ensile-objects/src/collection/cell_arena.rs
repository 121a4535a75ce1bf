//! Places with fixed addresses, by number: made a segment at a time, and reached without a lock.
//!
//! ```text
//! segments   8 8 8 8 | 16 16 16 16 | 32 32 32 32 | ..           a fifth of the places is unused at most, once there are some
//! ```
//! Invariant: a segment is made once, whole, and stays. A holder of the arena may therefore hold a place.
//!
//! Neighbours: `shards` numbers cells, and uses the cells of removed objects again.

use ensile_base::sync::OnceLock;

/// Number of segments of the same length, as a power of two.
const ALIKE_BITS: u32 = 2;
/// Number of places of the first segment, as a power of two.
const FIRST_BITS: u32 = if cfg!(shuttle) { 0 } else { 3 };
/// Number of bits of the largest place number.
const NUMBER_BITS: u32 = 30;
const SEGMENTS: usize = ((NUMBER_BITS - FIRST_BITS - ALIKE_BITS) << ALIKE_BITS) as usize;

#[derive(Debug)]
pub(super) struct CellArena<P> {
    /// Segments, inline in the struct: a search has one load less to wait for.
    segments: [OnceLock<Box<[P]>>; SEGMENTS],
}

/// Segment of a place; the place in the segment, in the lowest bits, as many as the segment's length takes; and the
/// number of these bits.
#[inline]
fn place_of(number: u32) -> (usize, usize, u32) {
    // The number counts as if segments of all smaller lengths stood before the first: a number's leading bits then give
    // the segment.
    let number = u64::from(number) + (1 << (FIRST_BITS + ALIKE_BITS));
    let bits = number.ilog2() - ALIKE_BITS;
    let before = (FIRST_BITS as usize + 1) << ALIKE_BITS;
    let segment = ((bits as usize) << ALIKE_BITS) + (number >> bits) as usize - before;
    debug_assert!(bits >= FIRST_BITS, "no segment is shorter than the first");
    debug_assert_eq!(segment >> ALIKE_BITS, (bits - FIRST_BITS) as usize, "segments alike stand together");
    (segment, number as usize, bits)
}

impl<P> CellArena<P> {
    pub(super) fn new() -> Self {
        Self { segments: [const { OnceLock::new() }; SEGMENTS] }
    }

    /// Place of this number, if its segment is made.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&P> {
        let (segment, at, _) = place_of(number);
        let places = self.segments.get(segment)?.get()?;
        places.get(at & (places.len() - 1))
    }

    /// Place of this number. A missing segment is made.
    ///
    /// # Panics
    /// If the number is too large.
    pub(super) fn make(&self, number: u32, empty: impl Fn() -> P) -> &P {
        let (segment, at, bits) = place_of(number);
        assert!(segment < SEGMENTS, "a shard has fewer objects than memory has bytes");
        let places = self.segments[segment].get_or_init(|| (0..1_usize << bits).map(|_| empty()).collect());
        debug_assert_eq!(places.len(), 1 << bits, "a segment is made whole");
        let place = &places[at & (places.len() - 1)];
        debug_assert!(self.get(number).is_some_and(|found| std::ptr::eq(found, place)), "a place stays");
        place
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{CellArena, SEGMENTS, place_of};

    #[test]
    fn segments_follow_each_other_and_each_number_has_a_place_of_its_own() {
        let mut due = (0, 0);
        for number in 0..100_000 {
            let (segment, at, bits) = place_of(number);
            let (at, length) = (at & ((1 << bits) - 1), 1 << bits);
            assert_eq!((segment, at), due);
            due = if at + 1 == length { (segment + 1, 0) } else { (segment, at + 1) };
        }
        assert_eq!([0, 31, 32, 96].map(|number| 1 << place_of(number).2), [8, 8, 16, 32]);
        assert!(place_of((1 << 30) - 33).0 < SEGMENTS && place_of(1 << 30).0 >= SEGMENTS);
    }

    #[test]
    fn a_place_stays_where_it_is() {
        let arena = CellArena::new();
        assert!(arena.get(0).is_none());
        let first: *const u32 = arena.make(0, || 7);
        assert!(arena.get(7).is_some() && arena.get(8).is_none(), "a segment is made whole");
        for number in 0..10_000 {
            arena.make(number, || 0);
        }
        assert_eq!((first, arena.get(0)), (std::ptr::from_ref(arena.make(0, || 0)), Some(&7)));
    }
}
