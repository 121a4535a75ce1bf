//! What a buffer's entries have beside them in a mapped file: the same bytes, for the process that comes after this one
//! (docs/protocols/process.md, docs/formats/buffer.md).
//!
//! ```text
//! header (whose it is) | how many blocks the log had | how many bytes of entries there are, and their checksum: one word | entries
//! ```
//! Invariants:
//! - B1: an entry is here before the append returns, so before anybody can see its effect.
//! - B2: the word that counts an entry is stored behind the entry's last byte. What it does not count is not there.
//! - B3: it is taken back to zero only by the thread that owns the buffer, once the entries stand in the log's file.
//!   The next entries are stored behind that. Before it how many blocks the log has then: a log that has fewer is an
//!   older one.
//!
//! Neighbours: `buffer` stores here what it holds; `store::mapped` makes the files, and reads what a dead process left.

use std::fmt::Debug;

use ensile_disk::{DiskError, MappedWords};

/// Bytes in front of the entries: the header and the word.
pub(crate) const FRONT_BYTES: usize = 128;
/// The word that counts.
const COUNT_WORD: usize = FRONT_BYTES / WORD_BYTES - 1;
/// The word that says how many blocks the log had when the entries before these had been written to it.
const BLOCKS_WORD: usize = COUNT_WORD - 3;
/// Where in the file it stands.
pub(crate) const BLOCKS_AT: usize = BLOCKS_WORD * WORD_BYTES;
/// Where in the file the word that counts stands.
pub(crate) const COUNT_AT: usize = COUNT_WORD * WORD_BYTES;
const WORD_BYTES: usize = size_of::<u64>();
const _: () = assert!(FRONT_BYTES.is_multiple_of(WORD_BYTES));

/// Makes files for mapped buffers, and takes them away.
pub(crate) trait MappedFiles: Debug + Send + Sync {
    /// A number for a file that is to be made; none if there are as many as there can be. It waits for nothing.
    fn take_number(&self) -> Option<u64>;

    /// Makes the file of a number that was taken, with room for this number of bytes of entries, and maps it. Takes as
    /// long as the disk takes. If no file can be had the number is free again.
    fn make(&self, number: u64, bytes: usize) -> Result<MappedEntries, DiskError>;

    /// Removes a file whose entries, if it had any, stand in the log. What stays is removed by the next open.
    fn remove(&self, mapped: MappedEntries);

    /// Says that the process lives at this time, in seconds since 1970.
    fn note_alive(&self, unix_seconds: u64);
}

/// How many bytes of entries there are, and their checksum: as the word says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
}

impl Counted {
    /// As it stands in the file.
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.bytes) | u64::from(self.crc) << 32
    }

    /// As [`Counted::to_word`] gives it.
    pub(crate) fn of_word(word: u64) -> Self {
        Self { bytes: word as u32, crc: (word >> 32) as u32 }
    }
}

/// The entries of one buffer in its mapped file.
#[derive(Debug)]
pub(crate) struct MappedEntries {
    words: MappedWords,
    number: u64,
    counted: Counted,
    /// The checksum of the whole words among the bytes that are counted: the next entry's begins there.
    words_crc: u32,
}

impl MappedEntries {
    /// Of the file of this number, which has its header and no entry.
    pub(crate) fn new(words: MappedWords, number: u64) -> Self {
        assert!(words.len() * WORD_BYTES >= FRONT_BYTES, "a file with room for the word");
        Self { words, number, counted: Counted::default(), words_crc: 0 }
    }

    /// The number of the file.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Stores the last entry of `entries`, which are all that the buffer holds (B1, B2).
    #[inline]
    pub(crate) fn push(&mut self, entries: &[u8]) {
        let from = self.counted.bytes as usize;
        debug_assert!(from < entries.len(), "an entry has bytes");
        // The word in which it begins may hold the end of the entry before: it gets the same bytes again.
        let word = from / WORD_BYTES;
        let at = FRONT_BYTES / WORD_BYTES + word;
        let sum = self.words.store_summed(at, &entries[word * WORD_BYTES..], self.words_crc);
        self.words_crc = sum.words;
        self.counted = Counted { bytes: entries.len() as u32, crc: sum.bytes };
        self.words.publish(COUNT_WORD, self.counted.to_word());
    }

    /// The entries stand in the log's file, which has this number of blocks by now: forgets them (B3). The pages that
    /// they took are made ready for the next ones here, where waiting for the system holds nobody up.
    pub(crate) fn forget(&mut self, log_blocks: u64) {
        if self.counted.bytes == 0 {
            return;
        }
        assert!(log_blocks > 0, "B3: a block has its entries");
        self.words.publish(BLOCKS_WORD, log_blocks);
        self.words.retract(COUNT_WORD, 0);
        self.words.touch(FRONT_BYTES + self.counted.bytes as usize);
        (self.counted, self.words_crc) = (Counted::default(), 0);
    }

    /// The checksum of all entries, as a dead process's successor would compute it.
    pub(crate) fn crc(&self) -> u32 {
        self.counted.crc
    }
}
