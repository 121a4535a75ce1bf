//! The read of the version that a snapshot shows (Silo §4.9).
//!
//! Invariant:
//! - K3: The version before is linked before the new TID is stored, so a reader of a too new TID finds the link.
//!
//! Neighbours: snapshots read versions, one by one (`read_path`) or in batches (`sets::multi_get`); `prune` unlinks
//! versions that no snapshot can show.

use std::ops::ControlFlow;

use ensile_base::sync::Backoff;

use super::fetch::Fetch;
use super::layout::HEADER_BYTES;
use super::pin_scope::Boundary;
use super::reference::Record;
use super::scratch::CopyTarget;
use super::tid_word::Word;

/// Least length, in bytes, from which immutable data is copied as a whole and not word by word.
const COPIED_AS_A_WHOLE: usize = 128;

impl<'p> Record<'p> {
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
}
