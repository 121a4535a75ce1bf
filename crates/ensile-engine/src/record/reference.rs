//! References to a record, and the words behind a reference. A reference is an address, a handle, or a [`Record`] with
//! its pin.
//!
//! Invariant:
//! - E3: A [`Record`] carries the pin under which a search found the record. A [`Handle`] carries the same pin; a
//!   transaction keeps handles between calls (`pin_scope`). Code follows a handle under exactly this pin. An
//!   [`Address`] is plain bits: safe code compares and prefetches addresses, and never follows an address.
//!
//! Neighbours: down, `layout`; up, `optimistic_read`, `version_read` and `locked_write` access the words. `sets` keeps
//! handles between calls, and commits resolve the handles.

use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use ensile_base::sync::{AtomicU64, Backoff, Ordering};
use ensile_epoch::Pinned;
use ensile_memory::prefetch::{self, LINE_BYTES};
use ensile_memory::{FREED_WORD, SizeClass};

use super::layout::{ADDRESS_BITS, ADDRESS_MASK, DATA_WORD, HEADER_BYTES, LINK_MASK};
use super::tid_word::Word;

/// Address of a record, in plain bits. The index maps keys to addresses. An address is never zero, so an `Option` of an
/// address is a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Address(pub(super) NonZeroUsize);

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
    pub(super) const fn from_value(value: u64) -> Self {
        let Some(address) = NonZeroUsize::new(value as usize) else { panic!("no record at address zero") };
        debug_assert!(value & 7 == 0 && value & !ADDRESS_MASK == 0, "a record lies at a word's address");
        Self(address)
    }

    /// The tree's value for this address.
    #[inline]
    pub(super) const fn value(self) -> u64 {
        self.0.get() as u64
    }

    /// The record at this address.
    ///
    /// # Safety
    /// A record lies at this address, and nothing frees the record within `'p`.
    #[inline]
    pub(super) unsafe fn record<'p>(self) -> Record<'p> {
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
    pub(super) words: NonNull<AtomicU64>,
    pub(super) _pin: PhantomData<&'p AtomicU64>,
}

impl<'p> Record<'p> {
    /// The word at this index: the TID word at 0, the chain word at 1, length and data from 2 on.
    #[inline(always)]
    pub(super) fn at_word(self, index: usize) -> &'p AtomicU64 {
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
    pub(super) fn unlocked_word(self) -> Word {
        let word = self.word();
        if !word.is_locked() { word } else { self.wait_unlocked() }
    }

    #[cold]
    pub(super) fn wait_unlocked(self) -> Word {
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
    pub(super) fn chain(self) -> u64 {
        // Acquire: a version is complete before it is linked; partner: `link`.
        let chain = self.at_word(1).load(Ordering::Acquire);
        debug_assert_ne!(chain, FREED_WORD, "a record that was freed is followed (E3)");
        chain
    }

    /// The version before this version; `None` if no commit kept a version.
    #[inline]
    pub(super) fn previous(self) -> Option<Self> {
        let words = NonNull::new((self.chain() & LINK_MASK) as *mut AtomicU64)?;
        debug_assert!(
            words.is_aligned() && words != self.words,
            "a version lies elsewhere, at a word's address"
        );
        Some(Self { words, _pin: self._pin })
    }

    /// Address of the version before, for linking elsewhere.
    #[inline]
    pub(super) fn previous_address(self) -> Option<Address> {
        self.previous().map(Record::address)
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

    /// Length of the data in bytes. The length is exact under the lock or of an immutable version; else the length is a
    /// guess, until a read of the version confirms it.
    #[inline]
    pub(crate) fn length(self) -> usize {
        // Relaxed: the caller holds the lock, or no thread writes, or the caller only guesses.
        (self.at_word(DATA_WORD).load(Ordering::Relaxed) as u32 as usize).min(self.capacity())
    }
}
