//! Bounds of a table's pages in one picture, and the search for a key's page (SIREN, §2.1).
//!
//! Invariant:
//! - E1: The bounds never change, so a search waits for nothing.
//!
//! Neighbours: up, `page_map` has a state for each page; `partition` computes the bounds; commits search the page of a
//! key.

use crate::record::layout::pad_with_zeros;

/// Length of a bound's slice in bytes.
const SLICE_BYTES: usize = size_of::<u64>();
/// Largest number of slices that a search compares in sequence.
const FEW_SLICES: usize = 4;

/// The first keys of a table's pages. The first page begins with the empty key.
#[derive(Debug, Default)]
pub(crate) struct PageBounds {
    /// Common prefix of every stored bound, in front of the slices. Empty if each slice holds a whole bound.
    common: Box<[u8]>,
    /// The common prefix as a number, if the prefix has at most eight bytes.
    common_number: u64,
    /// The eight bytes of each stored bound behind the common prefix, as a number with the same order.
    slices: Box<[u64]>,
    starts: SliceStarts,
    /// True if slices hold whole bounds and lie evenly. Then slices alone locate a key of at least eight bytes.
    are_even: bool,
    /// Every bound except the first, concatenated.
    keys: Box<[u8]>,
    /// End of each stored bound in `keys`, in bytes.
    ends: Box<[usize]>,
}

/// Start of a search among slices. Ranges of equal width divide the slices, so a search has few steps where keys lie
/// evenly.
#[derive(Debug, Default)]
struct SliceStarts {
    first: u64,
    /// Width of a range, in bits.
    shift: u32,
    /// Number of slices before each range; the last entry is the number of all slices.
    starts: Box<[u32]>,
}

impl PageBounds {
    /// Pages that begin with the empty key and with each of `bounds`, in ascending order.
    pub(crate) fn new(bounds: &[impl AsRef<[u8]>]) -> Self {
        let bounds = || bounds.iter().map(AsRef::as_ref);
        debug_assert!(bounds().all(|bound| !bound.is_empty()), "the first page begins with the empty key");
        assert!(bounds().is_sorted_by(|a, b| a < b), "a page ends where the next one begins");
        let is_in_slices = bounds().all(|bound| bound.len() <= SLICE_BYTES);
        let common = match (bounds().next(), bounds().next_back()) {
            (Some(first), Some(last)) if !is_in_slices => {
                let bytes = first.iter().zip(last).take_while(|(a, b)| a == b).count();
                &first[..bytes]
            }
            _ => &[],
        };
        let slices: Box<[u64]> = bounds().map(|bound| slice_of(&bound[common.len()..])).collect();
        assert!(u32::try_from(slices.len()).is_ok(), "pages of a table are counted in half a word");
        let starts = SliceStarts::new(&slices);
        let ends = bounds().scan(0, |end, bound| {
            *end += bound.len();
            Some(*end)
        });
        Self {
            common: common.into(),
            common_number: if common.len() <= 8 { number_of(common) } else { 0 },
            are_even: is_in_slices && starts.are_few(),
            starts,
            slices,
            keys: bounds().flatten().copied().collect(),
            ends: ends.collect(),
        }
    }

    /// Number of pages.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slices.len() + 1
    }

    /// Memory of the bounds outside of the value itself, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let Self { common, slices, starts, keys, ends, common_number: _, are_even: _ } = self;
        debug_assert_eq!(slices.len(), ends.len(), "each bound has its slice and its end");
        let slices = size_of_val(&**slices) + size_of_val(&*starts.starts);
        common.len() + slices + keys.len() + size_of_val(&**ends)
    }

    /// First key of the page.
    pub(crate) fn lower(&self, page: usize) -> &[u8] {
        debug_assert!(page < self.len());
        if page == 0 { &[] } else { self.bound(page - 1) }
    }

    /// End of the page, exclusive; `None` is the table's end.
    pub(crate) fn upper(&self, page: usize) -> Option<&[u8]> {
        debug_assert!(page < self.len());
        (page < self.slices.len()).then(|| self.bound(page))
    }

    /// The stored bound at this index.
    #[inline]
    fn bound(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.keys[from..self.ends[at]]
    }

    /// Compares the key's first bytes with the common prefix. Most keys have at least eight bytes, so a comparison of
    /// numbers is the usual case.
    #[inline]
    fn compare_with_common(&self, key: &[u8]) -> std::cmp::Ordering {
        let bytes = self.common.len();
        match key.first_chunk() {
            Some(first) if bytes <= 8 => {
                // With an empty prefix the shift removes all bits.
                let first = u64::from_be_bytes(*first).unbounded_shr(u64::BITS - 8 * bytes as u32);
                first.cmp(&self.common_number)
            }
            _ => key[..key.len().min(bytes)].cmp(&self.common),
        }
    }

    /// Number of bounds with a smaller slice.
    #[inline]
    fn count_below(&self, slice: u64) -> usize {
        let (from, to) = self.starts.candidate_range(slice);
        let mut below = from;
        if to - from <= FEW_SLICES {
            while below < to && self.slices[below] < slice {
                below += 1;
            }
        } else {
            // A search without branches that depend on the key.
            below += self.slices[from..to].partition_point(|bound| *bound < slice);
        }
        debug_assert_eq!(below, self.slices.partition_point(|bound| *bound < slice));
        below
    }

    /// The page of a key: the number of stored bounds that are not above the key.
    #[inline(always)]
    pub(crate) fn page_of(&self, key: &[u8]) -> usize {
        let page = match key.first_chunk() {
            Some(slice) if self.are_even => self.page_of_slice(u64::from_be_bytes(*slice)),
            _ => self.search(key),
        };
        debug_assert!(page == 0 || self.bound(page - 1) <= key, "a page begins at its first key, or before");
        debug_assert!(page == self.slices.len() || key < self.bound(page), "a page ends behind its keys");
        page
    }

    /// As [`PageBounds::page_of`], for a key that begins with `slice`. Every bound ends within its slice, so a bound
    /// with an equal slice is not above the key.
    #[inline(always)]
    fn page_of_slice(&self, slice: u64) -> usize {
        debug_assert!(self.are_even);
        let Some(mut page) = self.starts.begin(slice) else { return self.slices.len() };
        while self.slices.get(page).is_some_and(|bound| *bound <= slice) {
            page += 1;
        }
        page
    }

    /// As [`PageBounds::page_of`], for any key and any bounds.
    #[inline(never)]
    fn search(&self, key: &[u8]) -> usize {
        let slice = if self.common.is_empty() {
            slice_of(key)
        } else {
            match self.compare_with_common(key) {
                // Covers a key that ends within the common prefix: every bound is above the key.
                std::cmp::Ordering::Less => return 0,
                std::cmp::Ordering::Greater => return self.slices.len(),
                std::cmp::Ordering::Equal => slice_of(&key[self.common.len()..]),
            }
        };
        let below = self.count_below(slice);
        if self.slices.get(below) == Some(&slice) { self.page_among(below, key) } else { below }
    }

    /// As [`PageBounds::page_of`], for a key whose slice equals the slice of the bounds from `low` on. Equal slices
    /// decide nothing: bounds may differ behind the slices, or in zeros at the end.
    #[cold]
    #[inline(never)]
    fn page_among(&self, mut low: usize, key: &[u8]) -> usize {
        let slice = self.slices[low];
        let mut high = low + self.slices[low..].partition_point(|bound| *bound == slice);
        while low < high {
            let middle = low.midpoint(high);
            if self.bound(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low
    }
}

impl SliceStarts {
    /// The starts of these slices, in ascending order, with about as many ranges as slices.
    fn new(slices: &[u64]) -> Self {
        let (Some(&first), Some(&last)) = (slices.first(), slices.last()) else { return Self::default() };
        let range_bits = u64::BITS - (last - first).leading_zeros();
        // The shift is below a word's bits: a range of 64 bits has at least two slices.
        let shift = range_bits.saturating_sub(slices.len().ilog2());
        let ranges = (last - first).wrapping_shr(shift) + 1;
        let start =
            |range: u64| slices.partition_point(|slice| (slice - first).wrapping_shr(shift) < range) as u32;
        Self { first, shift, starts: (0..=ranges).map(start).collect() }
    }

    /// True if every range has at most [`FEW_SLICES`] slices.
    fn are_few(&self) -> bool {
        self.starts.windows(2).all(|range| (range[1] - range[0]) as usize <= FEW_SLICES)
    }

    /// Number of slices below the range of `slice`; `None` if `slice` is above all ranges.
    #[inline(always)]
    fn begin(&self, slice: u64) -> Option<usize> {
        let Some(behind) = slice.checked_sub(self.first) else { return Some(0) };
        self.starts.get(behind.wrapping_shr(self.shift) as usize).map(|begin| *begin as usize)
    }

    /// Bounds of the slices in the range of `slice`, as indices from and to. The bounds are equal if `slice` is below
    /// all ranges, or above.
    #[inline]
    fn candidate_range(&self, slice: u64) -> (usize, usize) {
        let Some(behind) = slice.checked_sub(self.first) else { return (0, 0) };
        let range = behind.wrapping_shr(self.shift) as usize;
        match self.starts.get(range..).unwrap_or_default() {
            [from, to, ..] => {
                debug_assert!(from <= to);
                (*from as usize, *to as usize)
            }
            _ => {
                let all = self.starts.last().map_or(0, |all| *all as usize);
                (all, all)
            }
        }
    }
}

/// A key's first eight bytes, padded with zeros, as a number. Of two keys the smaller key never has the larger number.
#[inline]
fn slice_of(key: &[u8]) -> u64 {
    match (key.first_chunk(), key.first_chunk(), key.last_chunk()) {
        (Some(all), _, _) => u64::from_be_bytes(*all),
        (None, Some(head), Some(tail)) => {
            // Two loads overlap: both put the same bytes in the same places.
            let tail = u64::from(u32::from_be_bytes(*tail)) << (u64::BITS as usize - 8 * key.len());
            u64::from(u32::from_be_bytes(*head)) << 32 | tail
        }
        _ => u64::from_be_bytes(pad_with_zeros(key)),
    }
}

/// Eight bytes or fewer as a number.
fn number_of(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() <= 8);
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
