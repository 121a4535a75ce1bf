//! Copy of a buffer's entries in a mapped file, for the process after this process
//! (docs/internals/protocols/process.md, docs/internals/formats/buffer.md).
//!
//! Invariants: B1 to B3. Only the thread that owns the buffer resets the count to zero. The number of the log's blocks
//! is stored before the reset: a log with fewer blocks is an older log.
//!
//! Neighbours: `buffer` stores its entries here; `store::mapped_buffers` makes the files, and reads the files of a dead
//! process.

use std::fmt::Debug;

use ensile_disk::{DiskError, MappedWords};

/// Bytes before the entries: the header and the count word.
pub(crate) const FRONT_BYTES: usize = 128;
const COUNT_WORD: usize = FRONT_BYTES / WORD_BYTES - 1;
/// Index of the word with the number of the log's blocks after the write of the previous entries.
const BLOCKS_WORD: usize = COUNT_WORD - 3;
/// Offset of this word in the file, in bytes.
pub(crate) const BLOCKS_AT: usize = BLOCKS_WORD * WORD_BYTES;
/// Offset of the count word in the file, in bytes.
pub(crate) const COUNT_AT: usize = COUNT_WORD * WORD_BYTES;
const WORD_BYTES: usize = size_of::<u64>();
const _: () = assert!(FRONT_BYTES.is_multiple_of(WORD_BYTES));

/// Makes and removes the files of mapped buffers.
pub(crate) trait MappedFiles: Debug + Send + Sync {
    /// Number for a new file; none if the limit of files is reached. The call waits for nothing.
    fn take_number(&self) -> Option<u64>;

    /// Makes the file of a taken number, with room for this number of bytes of entries, and maps the file. The call
    /// takes as long as the disk takes. If no file is available, the number is free again.
    fn make(&self, number: u64, bytes: usize) -> Result<MappedEntries, DiskError>;

    /// Removes a file whose entries, if any, stand in the log. The next open removes a file that stays.
    fn remove(&self, mapped: MappedEntries);

    /// Records that the process is alive at this time, in seconds since 1970.
    fn note_alive(&self, unix_seconds: u64);
}

/// Length of the entries in bytes, and their checksum: the content of the count word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
}

impl Counted {
    /// The count word, as stored in the file.
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.bytes) | u64::from(self.crc) << 32
    }

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
    /// Checksum of the whole words among the counted bytes, from which the next entry's checksum continues.
    words_crc: u32,
}

impl MappedEntries {
    /// Entries of the file of this number, which has its header and no entry.
    pub(crate) fn new(words: MappedWords, number: u64) -> Self {
        assert!(words.len() * WORD_BYTES >= FRONT_BYTES, "a file with room for the word");
        Self { words, number, counted: Counted::default(), words_crc: 0 }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Stores the last entry of `entries`, the complete content of the buffer (B1, B2).
    #[inline]
    pub(crate) fn push(&mut self, entries: &[u8]) {
        let from = self.counted.bytes as usize;
        debug_assert!(from < entries.len(), "an entry has bytes");
        // The first word may hold the end of the entry before, and gets the same bytes again.
        let word = from / WORD_BYTES;
        let at = FRONT_BYTES / WORD_BYTES + word;
        let sum = self.words.store_summed(at, &entries[word * WORD_BYTES..], self.words_crc);
        self.words_crc = sum.words;
        self.counted = Counted { bytes: entries.len() as u32, crc: sum.bytes };
        self.words.publish(COUNT_WORD, self.counted.to_word());
    }

    /// Empties the file for the next entries: the old entries stand in the log's file, which has `log_blocks` blocks by
    /// now (B3). The call also makes the used pages ready for the next entries: here a wait for the system delays no
    /// worker.
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

    /// Checksum of all entries, as the next process would compute it.
    pub(crate) fn crc(&self) -> u32 {
        self.counted.crc
    }
}
