//! List of the mapped buffers of a log, in a separate mapped file. The list makes a missing buffer noticeable (B4).
//!
//! ```text
//! header, as a buffer has one | alive until u64 | a bit for each buffer, by its number
//! ```
//! Invariant: B4: a buffer is listed before its first entry, and struck when empty, before the removal of its file. So
//! a listed buffer exists at every death of the process, and an unlisted file with an entry is damage.
//!
//! Neighbours: [`super`] makes and removes the buffers, and reads the list of a dead process.

use std::time::Duration;

use ensile_base::clock::unix_seconds;
use ensile_base::sync::Mutex;
use ensile_disk::{Disk, DiskError, MappedWords};

use super::{BufferOwner, MappedKind, damaged_file_error, make};
use crate::Result;
use crate::buffers::FRONT_BYTES;

const WORD_BYTES: usize = size_of::<u64>();
const WORD_BITS: u64 = u64::BITS as u64;
/// Length of the file in bytes. The file has a bit for every buffer of a log: more buffers than fit in memory.
const LIST_BYTES: usize = 16 << 10;
const WORDS: usize = (LIST_BYTES - FRONT_BYTES) / WORD_BYTES;
/// Word with the first bits; `ALIVE_AT`: offset in bytes of the time up to which the process changed its files.
const BITS_WORD: usize = FRONT_BYTES / WORD_BYTES;
const ALIVE_AT: usize = 112;
const ALIVE_WORD: usize = ALIVE_AT / WORD_BYTES;
const _: () =
    assert!(ALIVE_AT.is_multiple_of(WORD_BYTES) && ALIVE_WORD < BITS_WORD, "the time stands before the bits");
const _: () = assert!(BITS_WORD + WORDS == LIST_BYTES / WORD_BYTES, "each word behind the front has bits");
/// Largest delay of the thread that notes that the process lives, in seconds.
const LATE_SECONDS: u64 = 10;

/// List of an open log.
#[derive(Debug)]
pub(super) struct BufferList {
    words: MappedWords,
    /// State of the list. No panic under this lock leaves a half-changed state.
    state: Mutex<ListState>,
    late_seconds: u64,
}

#[derive(Debug)]
struct ListState {
    /// Numbers with a file, or with a file that is being made or removed.
    taken: Box<[u64]>,
    listed: Box<[u64]>,
    alive_until: u64,
}

/// Index of the word of this buffer's bit, and the bit as a mask.
fn place_of(number: u64) -> (usize, u64) {
    ((number / WORD_BITS) as usize, 1 << (number % WORD_BITS))
}

impl BufferList {
    /// Makes the file of a log without buffers.
    pub(super) fn make(disk: &dyn Disk, owner: &BufferOwner, interval: Duration) -> Result<Self, DiskError> {
        let words = make(disk, MappedKind::List, owner)?.map(LIST_BYTES as u64)?;
        let none = || vec![0; WORDS].into_boxed_slice();
        let state = Mutex::new(ListState { taken: none(), listed: none(), alive_until: 0 });
        let late_seconds = LATE_SECONDS + 2 * interval.as_secs();
        let list = Self { words, state, late_seconds };
        list.note_alive(unix_seconds());
        Ok(list)
    }

    /// Takes the least free number for a new buffer; `None` if every number is taken.
    pub(super) fn take(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let at = state.taken.iter().position(|word| *word != u64::MAX)?;
        let bit = state.taken[at].trailing_ones();
        assert!(state.listed[at] & 1 << bit == 0, "B4: a free number is listed");
        state.taken[at] |= 1 << bit;
        let number = at as u64 * WORD_BITS + u64::from(bit);
        debug_assert_eq!(place_of(number), (at, 1 << bit), "B4: the bit of a number leads back");
        Some(number)
    }

    /// Adds the buffer of this number to the list in the file, after the creation of its file.
    pub(super) fn add(&self, number: u64) {
        let (at, bit) = place_of(number);
        let mut state = self.state.lock();
        assert!(state.taken[at] & bit != 0 && state.listed[at] & bit == 0, "buffer {number} is made once");
        state.listed[at] |= bit;
        self.words.publish(BITS_WORD + at, state.listed[at]);
    }

    /// Strikes the buffer of this number from the list, before the removal of its file. The buffer is empty.
    pub(super) fn strike(&self, number: u64) {
        let (at, bit) = place_of(number);
        let mut state = self.state.lock();
        assert!(state.listed[at] & bit != 0, "buffer {number} is listed");
        state.listed[at] &= !bit;
        self.words.retract(BITS_WORD + at, state.listed[at]);
    }

    /// Frees the number, after the removal of its file or a failed creation.
    pub(super) fn give_back(&self, number: u64) {
        let (at, bit) = place_of(number);
        let mut state = self.state.lock();
        assert!(state.taken[at] & bit != 0 && state.listed[at] & bit == 0, "B4: buffer {number} is listed");
        state.taken[at] &= !bit;
    }

    /// Records that the process lives at this time, in seconds since 1970. The heartbeat calls again in each epoch.
    pub(super) fn note_alive(&self, unix_seconds: u64) {
        let until = unix_seconds + self.late_seconds;
        let mut state = self.state.lock();
        // If the clock is set back, `alive_until` stays: earlier changes must not count as late.
        if until > state.alive_until {
            state.alive_until = until;
            self.words.publish(ALIVE_WORD, until);
        }
    }
}

/// List of a dead process.
#[derive(Debug)]
pub(super) struct Listed {
    bits: Vec<u64>,
    /// Time up to which the process changed its files, in seconds since 1970. A later change is another process's.
    pub(super) alive_until: u64,
}

impl Listed {
    /// Reads the list from this file. The caller has checked the owner of the file.
    pub(super) fn read(disk: &dyn Disk, path: &str) -> Result<Self> {
        let mut bytes = vec![0; LIST_BYTES];
        if disk.open_to_read(path)?.read_at(&mut bytes, 0)? < bytes.len() {
            return Err(damaged_file_error(path, 0, "the list was cut"));
        }
        let (words, _) = bytes.as_chunks::<WORD_BYTES>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        Ok(Self { bits: words[BITS_WORD..].to_vec(), alive_until: words[ALIVE_WORD] })
    }

    pub(super) fn has(&self, number: u64) -> bool {
        let (at, bit) = place_of(number);
        self.bits.get(at).is_some_and(|word| word & bit != 0)
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let all = self.bits.iter().enumerate().filter(|(_, word)| **word != 0);
        all.flat_map(|(at, word)| {
            (0..WORD_BITS)
                .filter(move |bit| word & (1 << bit) != 0)
                .map(move |bit| at as u64 * WORD_BITS + bit)
        })
    }
}
