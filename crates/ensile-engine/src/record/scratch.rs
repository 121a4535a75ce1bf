//! Where an optimistic read puts its copy: a word-aligned buffer that is reused, so that reads allocate nothing.
//!
//! Neighbours: filled by `record`, handed on as bytes by `transaction` and `snapshot`.

use zerocopy::IntoBytes;

use super::FIRST_BYTES;

/// A copy of one record's data.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    words: Vec<u64>,
    length: usize,
}

impl Scratch {
    /// Room for `words` words that hold `length` data bytes, the first of them behind the length.
    #[inline]
    pub(super) fn fill(&mut self, length: usize, words: usize) -> &mut [u64] {
        debug_assert!(FIRST_BYTES + length <= words * size_of::<u64>(), "the words hold the data");
        self.length = length;
        if self.words.len() < words {
            return self.grow(words);
        }
        &mut self.words[..words]
    }

    #[cold]
    fn grow(&mut self, words: usize) -> &mut [u64] {
        debug_assert!(words > self.words.len(), "asked for what does not fit");
        self.words.resize(words.next_power_of_two(), 0);
        &mut self.words[..words]
    }

    /// Bytes of memory that it holds.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// The data.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        debug_assert!(self.length == 0 || FIRST_BYTES + self.length <= self.words.len() * size_of::<u64>());
        &self.words.as_bytes()[FIRST_BYTES..][..self.length]
    }
}
