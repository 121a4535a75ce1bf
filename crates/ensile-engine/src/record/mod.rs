//! Records: a TID word, a link to the version before and inline data (Silo §4.3), and the optimistic read (§4.5).
//!
//! ```text
//! 0        8        16   20                      capacity = class - HEADER_BYTES
//! +--------+--------+----+-----------------...
//! |TID word|chain   |len |data                   all in 8-byte words; the third holds len and the first 4 data bytes
//! +--------+--------+----+-----------------...
//!           48 bits address of the version before, 8 bits size class; marks in its low bits
//! ```
//!
//! Invariants:
//! - C5: A writer overwrites data in place under the lock, as atomic words, behind the commit's fence. A reader clamps
//!   the length to the capacity, which is fixed for the record's life, and trusts nothing before a second read of the
//!   TID word.
//! - K3: The version before is linked before the new TID is stored.
//! - E3: A [`Record`] carries the pin under which a search found the record. A [`Handle`] carries the same pin; a
//!   transaction keeps handles between calls (`pin_scope`). Code follows a handle under exactly this pin. An
//!   [`Address`] is plain bits: safe code compares and prefetches addresses, and never follows an address.
//!
//! Neighbours: `tree` maps keys to records; `read_path` reads, `commit` locks and installs; `prune` unlinks versions
//! that no snapshot can show; `garbage` destroys.

#[cfg(feature = "audit")]
pub(crate) mod block_audit;
pub(crate) mod blocks;
mod fetch;
pub(crate) mod ownership;
pub(crate) mod page_map;
pub(crate) mod pending_removes;
pub(crate) mod pin_scope;
mod prune;
mod scratch;
pub(crate) mod tid_word;
pub(crate) mod tree;
pub(crate) mod version_page;
mod witness;

use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::ptr::NonNull;

use ensile_base::sync::{AtomicU64, Backoff, Ordering, fence};
use ensile_base::{Epoch, Tid};
use ensile_epoch::Pinned;
use ensile_memory::prefetch::{self, LINE_BYTES};
use ensile_memory::{FREED_WORD, SizeClass};

use ownership::{Absent, PreservedVersion, VersionRoom};
use pin_scope::Boundary;

pub(crate) use fetch::Fetch;
pub(crate) use scratch::{CopyTarget, KeptRow, NoData, RowSpace, Scratch};
use tid_word::Word;
pub(crate) use witness::{LeafChange, LeafChanges, LeafWitness};

/// Length of a record's header in bytes. The paper's header has 32 (§4.3).
pub(crate) const HEADER_BYTES: usize = 20;
/// Data bytes that share the word of the length.
const FIRST_BYTES: usize = 4;
/// Words before the word of the length and the first data bytes.
const DATA_WORD: usize = 2;

/// Least length, in bytes, from which immutable data is copied as a whole and not word by word.
const COPIED_AS_A_WHOLE: usize = 128;

/// Words copied in one turn of an unrolled loop.
const UNROLLED: usize = 4;

const ADDRESS_BITS: u32 = 48;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;

/// The address bits of a link. Records are aligned to words, so the low bits of a link are free for marks.
const LINK_MASK: u64 = ADDRESS_MASK & !7;
/// Mark: the version lies in a page of versions. The mark is fixed for the version's life.
const PAGED: u64 = 1;
/// Mark: the version is out of its chain, or the record is out of its tree and no link leads to the record (V1).
const UNLINKED: u64 = 2;
/// Mark of a deleted record that has left its table's tree for the side index (U3).
const BURIED: u64 = 4;

const _: () = assert!((PAGED | UNLINKED | BURIED) & LINK_MASK == 0 && LINK_MASK | 7 == ADDRESS_MASK);
const _: () = assert!(ADDRESS_BITS + u8::BITS <= u64::BITS, "a size class lies above the address");
const _: () = assert!(HEADER_BYTES <= 24 && HEADER_BYTES + FIRST_BYTES == (DATA_WORD + 1) * 8);
const _: () = assert!(SizeClass::BYTES_MAX >= ensile_base::limits::VALUE_BYTES_MAX + HEADER_BYTES);

/// Address of a record, in plain bits. The index maps keys to addresses. An address is never zero, so an `Option` of an
/// address is a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Address(NonZeroUsize);

/// Address of a record that a search found under the pin of `'p`, for keeping between calls. The order of handles is
/// the order of commit locks (§4.4).
///
/// `'p` is invariant: a handle passes neither for a handle of a longer pin nor for a handle of a shorter pin. So a pin
/// follows no handle of another pin, because the other pin may have ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Handle<'p> {
    address: Address,
    pin: PhantomData<fn(&'p ()) -> &'p ()>,
}

impl<'p> Handle<'p> {
    /// The record. The search's pin stands now, and has stood since the search (E3).
    #[inline]
    pub(crate) fn resolve(self, _pinned: Pinned<'p>) -> Record<'p> {
        // SAFETY: the record was linked while this very pin stood. The pin honours every record found under the pin
        // (E3): only the object that keeps the pin makes a token for `'p` (`pin_scope`).
        unsafe { self.address.record() }
    }

    /// The record's address.
    #[inline]
    pub(crate) fn address(self) -> Address {
        self.address
    }
}

impl Address {
    /// The address in a tree's value.
    #[inline]
    const fn from_value(value: u64) -> Self {
        let Some(address) = NonZeroUsize::new(value as usize) else { panic!("no record at address zero") };
        debug_assert!(value & 7 == 0 && value & !ADDRESS_MASK == 0, "a record lies at a word's address");
        Self(address)
    }

    /// The tree's value for this address.
    #[inline]
    const fn value(self) -> u64 {
        self.0.get() as u64
    }

    /// The record at this address.
    ///
    /// # Safety
    /// A record lies at this address, and nothing frees the record within `'p`.
    #[inline]
    unsafe fn record<'p>(self) -> Record<'p> {
        debug_assert!(self.0.get().is_multiple_of(8), "a record lies at a word's address");
        Record { words: NonNull::with_exposed_provenance(self.0), _pin: PhantomData }
    }

    #[inline]
    fn bytes(self) -> *const u8 {
        std::ptr::with_exposed_provenance(self.0.get())
    }

    /// Prefetches the lines of a record of about `bytes` bytes.
    #[inline]
    pub(crate) fn prefetch(self, bytes: usize) {
        prefetch::lines(self.bytes(), bytes);
    }

    /// Prefetches the lines of exactly `bytes` bytes. About half of the small records stand across two lines.
    #[inline]
    pub(crate) fn prefetch_exactly(self, bytes: usize) {
        debug_assert!(bytes > 0, "a record has a header");
        prefetch::line(self.bytes());
        // Most records of reads in batches are small: no loop for small records.
        if bytes > LINE_BYTES {
            prefetch::line(self.bytes().wrapping_add(LINE_BYTES));
        }
        if bytes > 2 * LINE_BYTES {
            self.prefetch_rest(2 * LINE_BYTES, bytes);
        }
        prefetch::line(self.bytes().wrapping_add(bytes - 1));
    }

    /// Prefetches the lines from byte `from` to byte `to`.
    #[inline]
    pub(crate) fn prefetch_rest(self, from: usize, to: usize) {
        debug_assert!(from <= to);
        prefetch::lines(self.bytes().wrapping_add(from), to - from);
    }
}

/// A record that nothing frees during `'p`. `Record` is not `Send`. Data that a transaction keeps between calls must be
/// `Send`, so a transaction keeps no `Record`.
#[derive(Clone, Copy)]
pub(crate) struct Record<'p> {
    words: NonNull<AtomicU64>,
    _pin: PhantomData<&'p AtomicU64>,
}

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

impl<'p> Record<'p> {
    /// The word at this index: the TID word at 0, the chain word at 1, length and data from 2 on.
    #[inline(always)]
    fn at_word(self, index: usize) -> &'p AtomicU64 {
        debug_assert!(index < SizeClass::BYTES_MAX / 8, "no record is so long");
        // SAFETY: every caller stays below the record's size: header words always exist, and the capacity bounds data
        // words. The record lives for 'p (module header), and every access to a record's words is atomic.
        unsafe { self.words.add(index).as_ref() }
    }

    /// The record's address with the pin, for a transaction to keep.
    #[inline]
    pub(crate) fn handle(self) -> Handle<'p> {
        Handle { address: self.address(), pin: PhantomData }
    }

    #[inline]
    pub(crate) fn address(self) -> Address {
        Address(self.words.expose_provenance())
    }

    /// The current TID word.
    #[inline(always)]
    pub(crate) fn word(self) -> Word {
        // Acquire: the reader sees everything that the word's writer installed before the word; partner: `unlock_with`.
        let bits = self.at_word(0).load(Ordering::Acquire);
        debug_assert_ne!(bits, FREED_WORD, "a record that was freed is read (E3)");
        Word::from_bits(bits)
    }

    /// The TID word without a lock: waits until the lock is free.
    #[inline]
    fn unlocked_word(self) -> Word {
        let word = self.word();
        if !word.is_locked() { word } else { self.wait_unlocked() }
    }

    #[cold]
    fn wait_unlocked(self) -> Word {
        let mut backoff = Backoff::new();
        loop {
            backoff.wait();
            let word = self.word();
            if !word.is_locked() {
                return word;
            }
        }
    }

    /// The chain word: address of the version before, size class and marks.
    #[inline]
    fn chain(self) -> u64 {
        // Acquire: a version is complete before it is linked; partner: `link`.
        let chain = self.at_word(1).load(Ordering::Acquire);
        debug_assert_ne!(chain, FREED_WORD, "a record that was freed is followed (E3)");
        chain
    }

    /// The version before this version; `None` if no commit kept a version.
    #[inline]
    fn previous(self) -> Option<Self> {
        let words = NonNull::new((self.chain() & LINK_MASK) as *mut AtomicU64)?;
        debug_assert!(
            words.is_aligned() && words != self.words,
            "a version lies elsewhere, at a word's address"
        );
        Some(Self { words, _pin: self._pin })
    }

    /// The record's size class, fixed for the record's life.
    #[inline]
    pub(crate) fn class(self) -> SizeClass {
        SizeClass::from_index((self.chain() >> ADDRESS_BITS) as usize)
    }

    /// Largest length of data in bytes, fixed for the record's life.
    #[inline]
    pub(crate) fn capacity(self) -> usize {
        let class = self.class();
        debug_assert!(class.bytes() >= (DATA_WORD + 1) * 8, "a record holds its header and its length");
        class.bytes() - HEADER_BYTES
    }

    /// True if a writer can overwrite the data in place with `bytes` bytes.
    #[inline]
    pub(crate) fn fits(self, bytes: usize) -> bool {
        bytes <= self.capacity()
    }

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
    fn still(self, word: Word) -> bool {
        // Acquire fence: the data loads come before the second load of the TID word. If a data load saw a later
        // commit's store, this fence pairs with the commit's fence after its locks, and the second load sees the lock
        // (C5).
        fence(Ordering::Acquire);
        // Relaxed: the fence orders the load.
        self.at_word(0).load(Ordering::Relaxed) == word.bits()
    }

    /// The version of snapshot `boundary`, the newest version with an epoch below the boundary (S1), and the version's
    /// word, which may say that the key was absent. `None` if no version is old enough. The caller is a registered
    /// reader of the snapshot.
    #[inline]
    fn find_version(self, boundary: Boundary<'p>) -> Option<(Self, Word)> {
        let boundary = boundary.epoch();
        let mut version = self;
        let mut backoff = Backoff::new();
        loop {
            let word = version.word();
            if word.epoch() >= boundary {
                // K3: the link was stored before this word's TID, so the link is visible. No link means that the key is
                // newer than the boundary.
                version = version.previous()?;
            } else if word.is_locked() {
                backoff.wait();
            } else {
                debug_assert!(
                    word.epoch() < boundary && !word.is_locked(),
                    "the snapshot's version is complete (S1)"
                );
                return Some((version, word));
            }
        }
    }

    /// The word of the version of snapshot `boundary`, if the version exists. If the word says that the key was
    /// present, the data is copied out. Always inlined, as [`Self::read`].
    #[inline(always)]
    pub(crate) fn read_version(self, boundary: Boundary<'p>, scratch: &mut impl CopyTarget) -> Option<Word> {
        loop {
            let (version, word) = self.find_version(boundary)?;
            debug_assert!(
                word.epoch() < boundary.epoch(),
                "a snapshot shows what is older than its boundary (S1)"
            );
            if word.is_absent() {
                return Some(word);
            }
            if let Some(data) = version.settled_data(word) {
                scratch.copy(data);
                return Some(word);
            }
            version.copy_out(scratch);
            if version.still(word) {
                return Some(word);
            }
        }
    }

    /// The data, in place, of a version that was superseded before the read of `word`. `None` also for short data: a
    /// copy word by word is as fast.
    #[inline]
    fn settled_data(self, word: Word) -> Option<&'p [u8]> {
        // Loom's atomics are no plain memory. A big-endian machine has the first bytes in reverse order.
        if word.is_latest() || cfg!(any(loom, target_endian = "big")) {
            return None;
        }
        let length = self.length();
        if length < COPIED_AS_A_WHOLE {
            return None;
        }
        // SAFETY: the data lies behind the header, up to the clamped length. Nothing writes the data: commits overwrite
        // only a key's latest record (C2), and a superseded record never is the latest again. All of the data was
        // stored before the word (K3), or before the link that led to the version; both loads are Acquire. The version
        // lives for 'p.
        Some(unsafe {
            std::slice::from_raw_parts(self.words.as_ptr().cast::<u8>().add(HEADER_BYTES), length)
        })
    }

    /// One step of [`Self::read_version`] for a batch of records: prefetches the version before, and continues with it
    /// (`None` at the end of the chain). Breaks at a version with an epoch below the boundary.
    #[inline]
    pub(crate) fn step_back(self, boundary: Boundary<'p>, fetch: Fetch) -> ControlFlow<(), Option<Self>> {
        if self.word().epoch() < boundary.epoch() {
            return ControlFlow::Break(());
        }
        let previous = self.previous();
        ControlFlow::Continue(previous.inspect(|version| fetch.ask_knowing(version.address(), self.class())))
    }

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
    fn try_lock_at(self, seen: Word) -> bool {
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
    fn link(self, previous: Option<Address>) {
        // Relaxed: links and marks change only under the lock, or while no other thread knows the record.
        let others = self.at_word(1).load(Ordering::Relaxed) & !LINK_MASK;
        // Release: the version behind the link is complete; partner: Acquire in `chain`.
        self.at_word(1).store(others | previous.map_or(0, Address::value), Ordering::Release);
    }

    /// Address of the version before, for linking elsewhere.
    #[inline]
    fn previous_address(self) -> Option<Address> {
        self.previous().map(Record::address)
    }

    /// Length of the data in bytes. The length is exact under the lock or of an immutable version; else the length is a
    /// guess, until a read of the version confirms it.
    #[inline]
    pub(crate) fn length(self) -> usize {
        // Relaxed: the caller holds the lock, or no thread writes, or the caller only guesses.
        (self.at_word(DATA_WORD).load(Ordering::Relaxed) as u32 as usize).min(self.capacity())
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

/// `bytes`, padded with zeros to `N` bytes.
#[inline]
fn pad_with_zeros<const N: usize>(bytes: &[u8]) -> [u8; N] {
    debug_assert!(bytes.len() <= N, "what is left fills a word at most");
    let mut word = [0; N];
    word[..bytes.len()].copy_from_slice(bytes);
    word
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod testing;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
