//! Targets of optimistic reads: reused buffers, aligned to words, so that reads allocate nothing.
//!
//! [`Scratch`] holds one copy; [`RowSpace`] holds copies in sequence: the rows of a batch stay where reads put the
//! rows.
//!
//! Neighbours: `record` fills the buffers; `transaction` and `snapshot` hand the contents on as bytes; `checkpoint`
//! copies rows through a buffer.

use ensile_base::limits::KEEP_BYTES_MAX;
use zerocopy::IntoBytes;

use super::layout::FIRST_BYTES;

/// Number of reads that a large buffer counts for. A transaction with so many reads checks the size of its kept space
/// at its end.
const LARGE_AS_READS: usize = 2;

/// Target of a copy of a record's data.
pub(crate) trait CopyTarget {
    /// False if the target takes no data.
    const TAKES_DATA: bool = true;

    /// Room for `words` words. The words hold `length` data bytes, and the first data bytes stand behind the length.
    fn fill(&mut self, length: usize, words: usize) -> &mut [u64];

    /// Copies a row that no thread writes.
    #[inline]
    fn copy(&mut self, row: &[u8]) {
        self.fill(row.len(), words_of(row.len())).as_mut_bytes()[FIRST_BYTES..][..row.len()]
            .copy_from_slice(row);
    }
}

/// Number of words for `length` data bytes, with the first data bytes behind the length.
#[inline(always)]
#[expect(
    clippy::manual_div_ceil,
    reason = "which minds an overflow that no record's length comes near: slower"
)]
pub(super) const fn words_of(length: usize) -> usize {
    (FIRST_BYTES + length + size_of::<u64>() - 1) / size_of::<u64>()
}

/// Target of a read that needs no data.
pub(crate) struct NoData;

impl CopyTarget for NoData {
    const TAKES_DATA: bool = false;

    fn fill(&mut self, _length: usize, _words: usize) -> &mut [u64] {
        unreachable!("no data is copied")
    }

    #[inline(always)]
    fn copy(&mut self, _row: &[u8]) {}
}

/// A copy of one record's data.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    words: Vec<u64>,
    length: usize,
    /// [`LARGE_AS_READS`] if a huge row has grown the buffer, else 0.
    large_as_reads: usize,
}

impl CopyTarget for Scratch {
    #[inline]
    fn fill(&mut self, length: usize, words: usize) -> &mut [u64] {
        debug_assert!(FIRST_BYTES + length <= words * size_of::<u64>(), "the words hold the data");
        self.length = length;
        if self.words.len() < words {
            self.large_as_reads = grow(&mut self.words, words);
        }
        &mut self.words[..words]
    }
}

/// Makes room. Returns [`LARGE_AS_READS`] if the room is more than transactions keep, else 0.
#[cold]
fn grow(words: &mut Vec<u64>, needed: usize) -> usize {
    debug_assert!(needed > words.len(), "asked for what does not fit");
    words.resize(needed.next_power_of_two(), 0);
    if words.capacity() * size_of::<u64>() > KEEP_BYTES_MAX { LARGE_AS_READS } else { 0 }
}

impl Scratch {
    /// Memory of the buffer in bytes.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// [`LARGE_AS_READS`] if a huge row has grown the buffer, else 0. The caller adds the value to a number of reads.
    #[inline(always)]
    pub(crate) fn large_as_reads(&self) -> usize {
        self.large_as_reads
    }

    /// Notes a change of the kept space: `are_huge` is true if rows elsewhere in the context are huge. The end of the
    /// transaction then checks the space.
    #[cold]
    pub(crate) fn note_large(&mut self, are_huge: bool) {
        let is_own = self.kept_bytes() > KEEP_BYTES_MAX;
        debug_assert!(!is_own || self.large_as_reads == LARGE_AS_READS, "a huge row has grown the buffer");
        self.large_as_reads = if is_own || are_huge { LARGE_AS_READS } else { 0 };
    }

    /// The data.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        debug_assert!(self.length == 0 || FIRST_BYTES + self.length <= self.words.len() * size_of::<u64>());
        &self.words.as_bytes()[FIRST_BYTES..][..self.length]
    }
}

/// Copies of records' data, in sequence. The next copy overwrites the last copy unless the last copy is kept.
#[derive(Debug, Default)]
pub(crate) struct RowSpace {
    words: Vec<u64>,
    /// Start of the next copy, in words.
    next: usize,
    /// End of the last copy, in words.
    end: usize,
    /// Length of the last copy in bytes.
    length: usize,
}

/// Location of a kept copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptRow {
    start: u32,
    length: u32,
}

impl KeptRow {
    /// No copy.
    pub(crate) const NONE: Self = Self { start: u32::MAX, length: 0 };
}

impl CopyTarget for RowSpace {
    #[inline]
    fn fill(&mut self, length: usize, words: usize) -> &mut [u64] {
        debug_assert!(FIRST_BYTES + length <= words * size_of::<u64>(), "the words hold the data");
        let end = self.next + words;
        (self.end, self.length) = (end, length);
        if self.words.len() < end {
            let _is_large = grow(&mut self.words, end);
        }
        &mut self.words[self.next..end]
    }
}

impl RowSpace {
    /// Forgets all copies.
    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.next, self.end, self.length) = (0, 0, 0);
    }

    /// Keeps the last copy: the next copy goes behind the last.
    #[inline]
    pub(crate) fn keep(&mut self) -> KeptRow {
        let kept = KeptRow { start: self.next as u32, length: self.length as u32 };
        debug_assert_eq!(
            self.end,
            self.next + words_of(self.length),
            "the last copy is whole, and is kept once"
        );
        debug_assert!(self.next < u32::MAX as usize && self.length <= u32::MAX as usize, "a batch is small");
        self.next = self.end;
        kept
    }

    /// The kept copy; `None` for [`KeptRow::NONE`].
    #[inline]
    pub(crate) fn get(&self, kept: KeptRow) -> Option<&[u8]> {
        (kept != KeptRow::NONE).then(|| self.row(kept))
    }

    /// The data of a kept copy.
    #[inline]
    pub(crate) fn row(&self, kept: KeptRow) -> &[u8] {
        debug_assert!((kept.start as usize) < self.next, "it was kept since the space was cleared");
        &self.words.as_bytes()[kept.start as usize * size_of::<u64>() + FIRST_BYTES..][..kept.length as usize]
    }

    /// Bytes of the kept copies.
    #[inline]
    pub(crate) fn used_bytes(&self) -> usize {
        self.next * size_of::<u64>()
    }

    /// Memory of the space in bytes.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}
