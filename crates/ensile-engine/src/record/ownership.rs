//! Values that own a record or its future free. The values cannot be copied, so nothing is freed twice.
//!
//! | value | made by | goes to |
//! |---|---|---|
//! | [`Fresh`](super::blocks::Fresh) | `Blocks` | a tree, or back to `Blocks` |
//! | [`VersionRoom`] | `Blocks::version` | [`Record::preserve`], or back to `Blocks` |
//! | [`PreservedVersion`] | [`Record::preserve`] | garbage, under the epoch of the commit that preserved it |
//! | [`Unlinked`] | a tree, for the record that it no longer leads to | garbage |
//! | [`Absent`] | [`Record::delete`], or a tree that took an absent record | garbage, which unhooks the record |
//!
//! Invariant:
//! - U1: An absent record belongs to the holder of its [`Absent`], or [`RegisteredAbsent`]. A commit that replaces the
//!   record does not free the record.
//!
//! Neighbours: commit holds these values in its write-set; `garbage` and `blocks` take the values.

use ensile_epoch::Pinned;

use super::reference::{Address, Handle, Record};

/// Room for a version that nothing links to. Not `Copy`.
#[derive(Debug)]
#[must_use = "preserve a version in it or give it back: its memory is lost otherwise"]
pub(crate) struct VersionRoom(pub(super) Address);

/// A version that a record links to. Not `Copy`.
#[derive(Debug)]
#[must_use = "hand it to the garbage: its memory is lost otherwise"]
pub(crate) struct PreservedVersion(pub(super) Address);

/// A record that its tree no longer leads to. Not `Copy`.
#[derive(Debug)]
#[must_use = "hand it to the garbage: its memory is lost otherwise"]
pub(crate) struct Unlinked {
    pub(super) record: Address,
    pub(super) becomes: Becomes,
}

/// Use of an unlinked record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Becomes {
    /// No use: the record is freed once pins have passed.
    Garbage,
    /// A version for snapshots: the record's successor links to the record.
    Version,
    /// The record was absent: the holder of its [`Absent`] frees the record.
    AnothersGarbage,
}

/// The duty to unhook a record that became absent, or was placed as an absent record, under the pin of `'p`. Not
/// `Copy`.
#[derive(Debug)]
#[must_use = "hand it to the garbage: the key's absent record stays in its tree otherwise"]
pub(crate) struct Absent<'p>(pub(super) Handle<'p>);

/// An absent record that belongs to its registrar: nothing else frees the record (U1). Not `Copy`.
#[derive(Debug)]
pub(crate) struct RegisteredAbsent(Address);

/// A record for a garbage list to free. Not `Copy`.
#[derive(Debug)]
pub(crate) struct RetiredRecord(pub(super) Address);

impl VersionRoom {
    /// The room as a record without data.
    #[inline]
    pub(super) fn record(&self) -> Record<'_> {
        // SAFETY: no other thread knows the room, and a free of the room takes `self` by value.
        let room = unsafe { self.0.record() };
        debug_assert!(cfg!(any(loom, shuttle)) || room.word().bits() == 0, "nothing was preserved here yet");
        room
    }
}

impl PreservedVersion {
    /// The version as garbage, if the version has a block of its own. Otherwise the version's page is freed as a whole.
    #[inline]
    pub(crate) fn own_block(self) -> Option<RetiredRecord> {
        // SAFETY: a free of the version takes `self` by value.
        let version = unsafe { self.0.record() };
        debug_assert!(!version.word().is_latest(), "a version was superseded (C2)");
        (!version.is_paged()).then_some(RetiredRecord(self.0))
    }
}

impl Unlinked {
    /// Use of the record from now on.
    #[inline]
    pub(crate) fn becomes(&self) -> Becomes {
        self.becomes
    }

    /// The record as garbage; `None` if the holder of its [`Absent`] frees the record.
    #[inline]
    pub(crate) fn into_retired(self) -> Option<RetiredRecord> {
        (self.becomes != Becomes::AnothersGarbage).then_some(RetiredRecord(self.record))
    }

    /// The record as garbage, absent or not.
    ///
    /// # Safety
    /// No thread has registered the record as absent: in replay, tombstones are found by their keys.
    pub(crate) unsafe fn retired_by_finder(self) -> RetiredRecord {
        debug_assert!(self.becomes != Becomes::Version, "replay keeps no versions");
        RetiredRecord(self.record)
    }
}

impl<'p> Absent<'p> {
    /// Registers the record, under the pin under which it became absent. `None` if the record shows a row by now: a
    /// filled placeholder.
    #[inline]
    pub(crate) fn register(self, pinned: Pinned<'p>) -> Option<RegisteredAbsent> {
        self.0.resolve(pinned).word().is_absent().then_some(RegisteredAbsent(self.0.address()))
    }
}

impl RegisteredAbsent {
    #[inline]
    pub(crate) fn record(&self) -> Record<'_> {
        // SAFETY: the record was absent at its registration. From then on nothing else frees the record (U1), and a
        // free takes `self` by value.
        let record = unsafe { self.0.record() };
        debug_assert!(record.word().is_absent(), "an absent record is superseded, never rewritten (U1)");
        record
    }

    /// Prefetches the record's first line.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.0.prefetch(1);
    }

    /// The record as garbage.
    ///
    /// # Safety
    /// No tree leads to the record any more.
    #[inline]
    pub(crate) unsafe fn into_retired(self) -> RetiredRecord {
        debug_assert!(
            !self.record().word().is_latest(),
            "what a tree leads to is its key's latest record (C2)"
        );
        RetiredRecord(self.0)
    }
}

impl RetiredRecord {
    /// Prefetches the record's first line, before the record is freed.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.0.prefetch(1);
    }

    /// True if the chain has lost the record before the end of the record's snapshots (V1).
    #[inline]
    pub(crate) fn is_unlinked(&self) -> bool {
        // SAFETY: a free of the record takes `self` by value.
        unsafe { self.0.record() }.is_unlinked()
    }

    /// Length of the record's block in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        // SAFETY: a free of the record takes `self` by value.
        unsafe { self.0.record() }.class().bytes()
    }
}
