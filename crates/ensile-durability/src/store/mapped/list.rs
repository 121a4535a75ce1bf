//! Which buffers of a log are mapped: a mapped file of its own, so that one that is missing is noticed (B4).
//!
//! ```text
//! header, as a buffer has one | alive until u64 | a bit for each buffer, by its number
//! ```
//! Invariants:
//! - B4: a buffer is listed before it is handed out, so before it holds an entry; it is struck before its file goes,
//!   when it holds none any more. So one that is listed is there, whenever the process dies.
//! - A file that is not listed counts nothing, and is damage if it does.
//!
//! Neighbours: [`super`] makes and removes the buffers, and reads the list of a dead process.

use std::time::Duration;

use ensile_base::clock::unix_seconds;
use ensile_base::sync::Mutex;
use ensile_disk::{Disk, DiskError, MappedWords};

use super::{BufferOwner, MappedKind, damaged, make};
use crate::DurabilityError;
use crate::buffers::FRONT_BYTES;

const WORD_BYTES: usize = size_of::<u64>();
const WORD_BITS: u64 = u64::BITS as u64;
/// Bytes of the file: a log has no more buffers than it has bits for, which is more than memory has.
const LIST_BYTES: usize = 16 << 10;
const WORDS: usize = (LIST_BYTES - FRONT_BYTES) / WORD_BYTES;
/// Where the first of the bits are, and the second until which its process changed its files.
const BITS_WORD: usize = FRONT_BYTES / WORD_BYTES;
const ALIVE_AT: usize = 112;
const ALIVE_WORD: usize = ALIVE_AT / WORD_BYTES;
/// Seconds by which a thread that says that the process lives may be late.
const LATE_SECONDS: u64 = 10;

/// The list of a log that is open.
#[derive(Debug)]
pub(super) struct BufferList {
    words: MappedWords,
    /// Nothing under this lock leaves it half changed.
    state: Mutex<ListState>,
    late_seconds: u64,
}

#[derive(Debug)]
struct ListState {
    /// Numbers that have a file, are getting one, or had one that is being removed.
    taken: Box<[u64]>,
    /// As the file says it.
    listed: Box<[u64]>,
    alive_until: u64,
}

fn place_of(number: u64) -> (usize, u64) {
    ((number / WORD_BITS) as usize, 1 << (number % WORD_BITS))
}

impl BufferList {
    /// Makes the file of a log that has no buffers.
    pub(super) fn make(
        disk: &dyn Disk,
        owner: &BufferOwner,
        epoch_interval: Duration,
    ) -> Result<Self, DiskError> {
        let words = make(disk, MappedKind::List, owner)?.map(LIST_BYTES as u64)?;
        let none = || vec![0; WORDS].into_boxed_slice();
        let state = Mutex::new(ListState { taken: none(), listed: none(), alive_until: 0 });
        let late_seconds = LATE_SECONDS + 2 * epoch_interval.as_secs();
        let list = Self { words, state, late_seconds };
        list.note_alive(unix_seconds());
        Ok(list)
    }

    /// A number for a buffer that is to be made: the least one; `None` if there is none.
    pub(super) fn take(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let at = state.taken.iter().position(|word| *word != u64::MAX)?;
        let bit = state.taken[at].trailing_ones();
        state.taken[at] |= 1 << bit;
        Some(at as u64 * WORD_BITS + u64::from(bit))
    }

    /// The number's buffer is there.
    pub(super) fn add(&self, number: u64) {
        let (at, bit) = place_of(number);
        let mut state = self.state.lock();
        assert!(state.taken[at] & bit != 0 && state.listed[at] & bit == 0, "buffer {number} is made once");
        state.listed[at] |= bit;
        self.words.publish(BITS_WORD + at, state.listed[at]);
    }

    /// The number's buffer is to be removed, and holds nothing.
    pub(super) fn strike(&self, number: u64) {
        let (at, bit) = place_of(number);
        let mut state = self.state.lock();
        assert!(state.listed[at] & bit != 0, "buffer {number} is listed");
        state.listed[at] &= !bit;
        self.words.retract(BITS_WORD + at, state.listed[at]);
    }

    /// The number has no file any more, or never had one.
    pub(super) fn give_back(&self, number: u64) {
        let (at, bit) = place_of(number);
        let mut state = self.state.lock();
        assert!(state.taken[at] & bit != 0 && state.listed[at] & bit == 0, "B4: buffer {number} is listed");
        state.taken[at] &= !bit;
    }

    /// The process lives at this time, in seconds since 1970, and will say so again.
    pub(super) fn note_alive(&self, unix_seconds: u64) {
        let until = unix_seconds + self.late_seconds;
        let mut state = self.state.lock();
        // A clock that is set back makes nothing that was changed before then late.
        if until > state.alive_until {
            state.alive_until = until;
            self.words.publish(ALIVE_WORD, until);
        }
    }
}

/// What a dead process's list says.
#[derive(Debug)]
pub(super) struct Listed {
    bits: Vec<u64>,
    alive_until: u64,
}

impl Listed {
    /// In this file, whose owner the caller knows.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`].
    pub(super) fn read(disk: &dyn Disk, path: &str) -> Result<Self, DurabilityError> {
        let mut bytes = vec![0; LIST_BYTES];
        if disk.open_to_read(path)?.read_at(&mut bytes, 0)? < bytes.len() {
            return Err(damaged(path, 0, "the list was cut"));
        }
        let (words, _) = bytes.as_chunks::<WORD_BYTES>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        Ok(Self { bits: words[BITS_WORD..].to_vec(), alive_until: words[ALIVE_WORD] })
    }

    /// Is the buffer there?
    pub(super) fn has(&self, number: u64) -> bool {
        let (at, bit) = place_of(number);
        self.bits.get(at).is_some_and(|word| word & bit != 0)
    }

    /// The buffers that are there.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let all = self.bits.iter().enumerate().filter(|(_, word)| **word != 0);
        all.flat_map(|(at, word)| {
            (0..WORD_BITS)
                .filter(move |bit| word & (1 << bit) != 0)
                .map(move |bit| at as u64 * WORD_BITS + bit)
        })
    }

    /// What its process changed it changed before this, in seconds since 1970.
    pub(super) fn alive_until(&self) -> u64 {
        self.alive_until
    }
}
