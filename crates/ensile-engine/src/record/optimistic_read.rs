//! The optimistic read of a record's latest version, without a store (Silo §4.5).
//!
//! Invariant:
//! - C5: A reader clamps the length to the capacity, which is fixed for the record's life, and trusts nothing before a
//!   second read of the TID word.
//!
//! Neighbours: `read_path` reads rows, walks of checkpoints read old enough rows, and so does a commit that leaves a
//! version to a picture (`commit::pending_removes`); `scratch` has the targets.

use ensile_base::Epoch;
use ensile_base::sync::{Ordering, fence};

use super::layout::{DATA_WORD, HEADER_BYTES};
use super::reference::Record;
use super::scratch::{self, CopyTarget, Scratch};
use super::tid_word::Word;

/// Words copied in one turn of an unrolled loop.
const UNROLLED: usize = 4;

/// Result of an optimistic read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The scratch buffer holds the data of the version with this word.
    Present(Word),
    /// The version with this word says that the key is absent.
    Absent(Word),
    /// The record is no longer the key's latest: the caller looks the key up again.
    Superseded,
}

impl Record<'_> {
    /// Copies the data out word by word, even during a write. The caller decides by the TID word if the copy is valid.
    #[inline(always)]
    pub(crate) fn copy_out<C: CopyTarget>(self, scratch: &mut C) {
        if !C::TAKES_DATA {
            return;
        }
        // Relaxed: the caller's fence and second load of the TID word validate the load (C5).
        let first = self.at_word(DATA_WORD).load(Ordering::Relaxed);
        // A torn length is clamped to the capacity (C5).
        let length = (first as u32 as usize).min(self.capacity());
        let words = scratch::words_of(length);
        let out = scratch.fill(length, words);
        debug_assert!(
            out.len() == words && (DATA_WORD + words) * 8 <= (HEADER_BYTES + length).next_multiple_of(8)
        );
        // SAFETY: the clamped length bounds `words`, so all of these words are inside the record.
        let data = unsafe { std::slice::from_raw_parts(self.words.add(DATA_WORD).as_ptr(), out.len()) };
        // Relaxed: the caller's fence and second load of the TID word validate the loads (C5).
        // Compilers do not unroll loops over atomics.
        let (slots, last_slots) = out.as_chunks_mut::<UNROLLED>();
        let (words, last_words) = data.as_chunks::<UNROLLED>();
        for (slots, words) in slots.iter_mut().zip(words) {
            *slots = words.each_ref().map(|word| word.load(Ordering::Relaxed));
        }
        for (slot, word) in last_slots.iter_mut().zip(last_words) {
            // Relaxed: the caller's fence and second load of the TID word validate the load (C5).
            *slot = word.load(Ordering::Relaxed);
        }
        // The first data bytes lie above the length in the word, on machines of either byte order.
        out[0] = out[0].to_le();
    }

    /// Reads the latest version without a store (§4.5, "to access record data"). Always inlined: a call would be a
    /// tenth of the work, and reads consist of the few callers.
    #[inline(always)]
    pub(crate) fn read(self, scratch: &mut impl CopyTarget) -> Seen {
        loop {
            let word = self.unlocked_word();
            if !word.is_latest() {
                return Seen::Superseded;
            }
            if word.is_absent() {
                return Seen::Absent(word);
            }
            self.copy_out(scratch);
            if self.still(word) {
                return Seen::Present(word);
            }
        }
    }

    /// Reads a version with an epoch below `low`, otherwise as [`Self::read`]. `None` if the key is absent, if the
    /// latest version is newer, or if the latest version is in another record. A version in another record is newer
    /// too.
    #[inline]
    pub(crate) fn read_older(self, low: Epoch, scratch: &mut Scratch) -> Option<Word> {
        loop {
            let word = self.word();
            if word.epoch() >= low || !word.is_latest() {
                return None;
            }
            if word.is_locked() {
                self.wait_unlocked();
                continue;
            }
            if word.is_absent() {
                return None;
            }
            self.copy_out(scratch);
            if self.still(word) {
                return Some(word);
            }
        }
    }

    /// True if the TID word is still `word` after the read of the data.
    #[inline]
    pub(super) fn still(self, word: Word) -> bool {
        // Acquire fence: the data loads come before the second load of the TID word. If a data load saw a later
        // commit's store, this fence pairs with the commit's fence after its locks, and the second load sees the lock
        // (C5).
        fence(Ordering::Acquire);
        // Relaxed: the fence orders the load.
        self.at_word(0).load(Ordering::Relaxed) == word.bits()
    }
}
