//! The lock of a record, and the changes of its words under the lock (Silo §4.4).
//!
//! Invariants:
//! - C5: A writer overwrites data in place under the lock, as atomic words, behind the commit's fence.
//! - K3: The version before is linked before the new TID is stored.
//!
//! Neighbours: `commit` locks and installs; `blocks` stores the data of new records; `prune` changes links; `garbage`
//! unhooks under the lock. Replay (`open::replay::worker`) and the laboratory write like a commit.

use ensile_base::Tid;
use ensile_base::sync::{Backoff, Ordering};
use ensile_memory::FREED_WORD;

use super::layout::{DATA_WORD, FIRST_BYTES, LINK_MASK, pad_with_zeros};
use super::ownership::{Absent, PreservedVersion, VersionRoom};
use super::reference::{Address, Record};
use super::scratch;
use super::tid_word::Word;

/// Words stored in one turn of an unrolled loop.
const UNROLLED: usize = 4;

impl<'p> Record<'p> {
    /// Locks the record (§4.4 phase 1); spins while another commit holds the lock. Returns the word before the lock.
    #[inline]
    pub(crate) fn lock(self) -> Word {
        let mut backoff = Backoff::new();
        loop {
            debug_assert_ne!(self.word().bits(), FREED_WORD);
            // Relaxed: the load is only a guess for the exchange.
            let seen = Word::from_bits(self.at_word(0).load(Ordering::Relaxed)).without_lock_bit();
            if self.try_lock_at(seen) {
                return seen;
            }
            backoff.wait();
        }
    }

    /// Locks the record if the TID word is `seen` without a lock; true on success.
    #[inline]
    pub(super) fn try_lock_at(self, seen: Word) -> bool {
        // Acquire: this thread may read everything that the last holder installed; partner: `unlock_with`.
        // Release: the binding comes before the lock, and `fence_after_exchange` relies on this order (E2). The same
        // fence orders the following stores after the lock (C1, C5).
        // Relaxed on failure: nothing is concluded.
        let locked = seen.with_lock_bit().bits();
        debug_assert_ne!(locked, seen.bits(), "taking a lock changes the word");
        self.at_word(0).compare_exchange(seen.bits(), locked, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Appends the data to `out`. The caller holds the lock, so nothing changes the data. `out` has room, so the call
    /// allocates nothing (E1).
    #[inline]
    pub(crate) fn append_locked(self, out: &mut Vec<u8>) {
        debug_assert!(self.word().is_locked());
        let length = self.length();
        // Relaxed, both: the lock's exchange acquired everything that the last holder installed.
        let first = self.at_word(DATA_WORD).load(Ordering::Relaxed).to_le_bytes();
        let head = length.min(FIRST_BYTES);
        out.extend_from_slice(&first[size_of::<u32>()..][..head]);
        let at = out.len();
        out.resize(at + length - head, 0);
        let word = |index| {
            // Relaxed: the lock's exchange acquired everything that the last holder installed.
            self.at_word(DATA_WORD + 1 + index).load(Ordering::Relaxed).to_ne_bytes()
        };
        let (whole, tail) = out[at..].as_chunks_mut::<8>();
        let words = whole.len();
        whole.iter_mut().enumerate().for_each(|(index, bytes)| *bytes = word(index));
        if !tail.is_empty() {
            tail.copy_from_slice(&word(words)[..tail.len()]);
        }
    }

    /// Releases the lock and stores `word`: the new version's word, or the word before the lock.
    #[inline]
    pub(crate) fn unlock_with(self, word: Word) {
        debug_assert!(!word.is_locked());
        let before = || Word::from_bits(self.at_word(0).load(Ordering::Relaxed)); // Relaxed: for the assertion only.
        debug_assert!(
            cfg!(any(loom, shuttle)) || before().tid() <= word.tid(),
            "a record's TID only grows (E5)"
        );
        // Release: stores of data, link and index come before; partner: Acquire in `word` and `lock`.
        self.at_word(0).store(word.bits(), Ordering::Release);
    }

    /// Overwrites the data in place, under the lock (C5).
    #[inline]
    pub(crate) fn overwrite(self, value: &[u8]) {
        debug_assert!(self.fits(value.len()));
        debug_assert!(self.word().is_locked());
        self.store_data(value);
    }

    /// Stores length and data, word by word. The caller holds the lock, or no other thread knows the record (C5).
    #[inline]
    pub(crate) fn store_data(self, value: &[u8]) {
        debug_assert!(cfg!(any(loom, shuttle)) || self.fits(value.len()), "the value fits the record");
        let (head, rest) = match value.split_first_chunk::<FIRST_BYTES>() {
            Some((head, rest)) => (*head, rest),
            None => (pad_with_zeros(value), &[][..]),
        };
        // Relaxed, all data stores: the stores stand behind the lock's fence, before the unlocking Release (C5).
        self.at_word(DATA_WORD).store(combine(value.len() as u32, head), Ordering::Relaxed);
        let (words, tail) = rest.as_chunks::<8>();
        // SAFETY: the value fits the record, so these words are inside the record.
        let slots =
            unsafe { std::slice::from_raw_parts(self.words.add(DATA_WORD + 1).as_ptr(), words.len()) };
        let (slots, last_slots) = slots.as_chunks::<UNROLLED>();
        let (words, last_words) = words.as_chunks::<UNROLLED>();
        for (slots, words) in slots.iter().zip(words) {
            for (slot, word) in slots.each_ref().into_iter().zip(*words) {
                // Relaxed: the store stands behind the lock's fence, before the unlocking Release (C5).
                slot.store(u64::from_ne_bytes(word), Ordering::Relaxed);
            }
        }
        for (slot, word) in last_slots.iter().zip(last_words) {
            // Relaxed: the store stands behind the lock's fence, before the unlocking Release (C5).
            slot.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        if !tail.is_empty() {
            // Relaxed: the store stands behind the lock's fence, before the unlocking Release (C5).
            self.at_word(DATA_WORD + 1 + rest.len() / 8)
                .store(u64::from_ne_bytes(pad_with_zeros(tail)), Ordering::Relaxed);
        }
    }

    /// Links `previous` (or nothing) as the version before, under the lock or before publication (K3). A link to a
    /// freed version stays behind (E3), so `previous` may be the address of `self`, if `self` took the freed version's
    /// memory.
    #[inline]
    pub(super) fn link(self, previous: Option<Address>) {
        // Relaxed: links and marks change only under the lock, or while no other thread knows the record.
        let others = self.at_word(1).load(Ordering::Relaxed) & !LINK_MASK;
        // Release: the version behind the link is complete; partner: Acquire in `chain`.
        self.at_word(1).store(others | previous.map_or(0, Address::value), Ordering::Release);
    }

    /// Makes the record absent with `tid`, and releases the lock. The caller must unhook the record (U1).
    #[inline]
    pub(crate) fn delete(self, tid: Tid) -> Absent<'p> {
        debug_assert!(cfg!(any(loom, shuttle)) || !self.word().is_absent(), "a present record is deleted");
        self.unlock_with(Word::for_delete(tid));
        Absent(self.handle())
    }

    /// Copies the version in `self`, with the word `word`, into `room`, and links `room` as the version before. The
    /// caller holds the lock. The tree's pointer stays (§4.9).
    #[inline]
    pub(crate) fn preserve(self, word: Word, room: VersionRoom) -> PreservedVersion {
        let old = room.record();
        debug_assert!(word.is_latest() && !word.is_locked(), "the version that was locked is copied");
        debug_assert!(cfg!(any(loom, shuttle)) || self.word().is_locked(), "a copy is made under the lock");
        debug_assert!(old.capacity() >= self.length(), "the room is as large as the record");
        let words = scratch::words_of(self.length());
        for index in DATA_WORD..DATA_WORD + words {
            // Relaxed, both: the lock keeps the source unchanged; `link`'s Release publishes the copy.
            let data = self.at_word(index).load(Ordering::Relaxed);
            old.at_word(index).store(data, Ordering::Relaxed);
        }
        old.link(self.previous_address());
        // Relaxed: the old version is still private; `link`'s Release below publishes the version with its word.
        old.at_word(0).store(word.to_superseded().bits(), Ordering::Relaxed);
        self.link(Some(room.0));
        PreservedVersion(room.0)
    }
}

/// A word with the length in the low half and the first data bytes above, on machines of either byte order.
#[inline]
fn combine(length: u32, first: [u8; FIRST_BYTES]) -> u64 {
    debug_assert!(length as usize <= ensile_base::limits::VALUE_BYTES_MAX, "no value is so long");
    u64::from(length) | u64::from(u32::from_le_bytes(first)) << 32
}
