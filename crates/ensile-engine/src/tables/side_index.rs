//! The side index of a table: deleted keys that have left the table's tree, for snapshots (Silo §4.9).
//!
//! ```text
//! bury     enter the deleted record here | take it out of the table's tree         (clean-up, U3)
//! read     the table's tree, and without an answer there the side index            (snapshots)
//! insert   the table's tree; in place of a placeholder, a TID above the newest delete's  (commit)
//! free     take the record out here, once U2 holds
//! ```
//! A table that no snapshot has read has no entries here: a buried record waits in the list of its worker. The first
//! snapshot that reads the table enters the records of all lists.
//!
//! Invariants (U3), once a snapshot has read the table:
//! - A record is here before it leaves the table's tree. A reader looks in the tree first, so it finds the record.
//! - The entries of a key are its deletes, the newest first.
//!
//! Neighbours: `garbage` buries and frees; `read_path` looks keys up; `commit` and a transaction's reads ask for the
//! newest TID.

use std::ops::{Bound, ControlFlow};

use ensile_base::Tid;
use ensile_base::limits::INDEX_KEY_BYTES_MAX;
use ensile_base::sync::{AtomicBool, AtomicU64, Mutex, OnceLock, Ordering};
use ensile_epoch::Pinned;
use ensile_index::{Direction, Range};

use crate::codec::bounds::encode_key_delimited;
use crate::codec::{Key, KeyBuffer};
use crate::record::blocks::NodeBlocks;
use crate::record::tree::{RecordTree, RecordVisitor};
use crate::record::{LeafWitness, Record};

/// Number of bytes in an entry behind the escaped key: the end of the key, and the TID.
const END_BYTES: usize = 2 + size_of::<u64>();

/// Numbers above and below all TIDs, for the bounds of a key's entries.
const NEWEST: u64 = u64::MAX;
const OLDEST: u64 = 0;

/// Deleted keys outside their table's tree.
#[derive(Debug, Default)]
pub(crate) struct SideIndex {
    tree: OnceLock<RecordTree>,
    /// True if buried records enter: a snapshot reads the table.
    has_readers: AtomicBool,
    /// True once the records of all lists have entered.
    is_filled: AtomicBool,
    /// Lock of the thread that enters the records of all lists.
    filling: Mutex<()>,
    /// Number of entries. A record counts before it enters.
    count: AtomicU64,
    /// Number of records that ever entered. A record counts after its entry, and before the record leaves the table's
    /// tree.
    burials: AtomicU64,
    /// Largest TID of a buried delete.
    newest: AtomicU64,
}

/// A side index with entries, as of one look at its counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SideTree<'t> {
    tree: &'t RecordTree,
    /// Number of records that ever entered. A key that has left the table's tree since has raised the number.
    pub(crate) burials: u64,
}

impl SideIndex {
    /// True if a key's records can be buried: the key is not too long for an entry.
    pub(crate) fn takes(key: &[u8]) -> bool {
        key.len() + key.iter().filter(|byte| **byte == 0).count() + END_BYTES <= INDEX_KEY_BYTES_MAX
    }

    /// TID of the newest buried delete. A commit that fills or replaces a placeholder has a larger TID (U3).
    #[inline(always)]
    pub(crate) fn newest(&self) -> Tid {
        // Relaxed: the placeholder entered the leaf after the buried record had left the leaf, so the leaf's version
        // orders this load (C4); partner: `raise`.
        Tid::from_word(self.newest.load(Ordering::Relaxed))
    }

    /// Notes the TID of a delete, before the deleted record leaves the table's tree.
    pub(crate) fn raise(&self, tid: Tid) {
        // Relaxed: the version of the leaf that the record leaves publishes the store (C4); partner: `newest`.
        self.newest.fetch_max(tid.bits(), Ordering::Relaxed);
    }

    /// True if buried records enter: a snapshot reads the table. The caller holds the lock of its list of garbage.
    pub(crate) fn has_readers(&self) -> bool {
        // Relaxed: the thread that fills the side index takes the lock of each list after its store. A caller that held
        // the lock before has its record in the list. A caller that takes the lock later sees the store.
        self.has_readers.load(Ordering::Relaxed)
    }

    /// True if snapshots may read the table: each buried record has entered.
    #[inline(always)]
    pub(crate) fn is_filled(&self) -> bool {
        // Acquire: the entries of all lists are seen; partner: `fill`.
        self.is_filled.load(Ordering::Acquire)
    }

    /// Fills the side index by `enter_all`, which takes the lock of each list, unless another thread has filled it. The
    /// first snapshot that reads the table calls this function.
    pub(crate) fn fill(&self, enter_all: impl FnOnce()) {
        let _filling = self.filling.lock();
        if self.is_filled() {
            return;
        }
        // Relaxed: the lock of each list orders the store; partner: `has_readers`.
        self.has_readers.store(true, Ordering::Relaxed);
        enter_all();
        // Release: partner: `is_filled`.
        self.is_filled.store(true, Ordering::Release);
    }

    /// The entries; `None` without an entry. The caller has looked in the table's tree before.
    #[inline(always)]
    pub(crate) fn look(&self) -> Option<SideTree<'_>> {
        // Relaxed: a record counts before it leaves the table's tree, and the version of the leaf that it left orders
        // this load behind the count (C4).
        if self.count.load(Ordering::Relaxed) == 0 { None } else { self.look_further() }
    }

    #[cold]
    fn look_further(&self) -> Option<SideTree<'_>> {
        // Acquire: the records of this number are here; partner: `enter`.
        let burials = self.burials.load(Ordering::Acquire);
        Some(SideTree { tree: self.tree.get()?, burials })
    }

    /// Enters the record of a buried delete.
    pub(crate) fn enter(
        &self,
        key: &[u8],
        record: Record<'_>,
        nodes: &mut NodeBlocks<'_>,
        pinned: Pinned<'_>,
    ) {
        // Relaxed: comes before the record leaves the table's tree, and the leaf's version orders the two (C4).
        self.count.fetch_add(1, Ordering::Relaxed);
        let tree = self.tree.get_or_init(|| RecordTree::new(nodes));
        tree.enter(entry_of(key, record.word().tid().bits()).as_ref(), record, nodes, pinned);
        // Release: the record is here for a reader that sees the number; partner: `look_further`. The leaf's version
        // orders the number before the record's removal from the table's tree.
        self.burials.fetch_add(1, Ordering::Release);
    }

    /// Takes out a record that has entered, at the end of its wait (U2).
    pub(crate) fn leave(
        &self,
        key: &[u8],
        record: Record<'_>,
        nodes: &mut NodeBlocks<'_>,
        pinned: Pinned<'_>,
    ) {
        let Some(tree) = self.tree.get() else { unreachable!("the record has entered") };
        tree.leave(entry_of(key, record.word().tid().bits()).as_ref(), record, nodes, pinned);
        // Relaxed: a reader that misses the change looks in vain.
        let before = self.count.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "an entry leaves after it has entered");
    }

    /// Number of entries.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The tree, if there ever was an entry.
    #[cfg(feature = "audit")]
    pub(crate) fn tree(&self) -> Option<&RecordTree> {
        self.tree.get()
    }
}

impl SideTree<'_> {
    /// Visits the records of a key's deletes, the newest first, until `visit` breaks.
    pub(crate) fn each_of<'p>(
        self,
        key: &[u8],
        pinned: Pinned<'p>,
        mut visit: impl FnMut(Record<'p>) -> ControlFlow<()>,
    ) {
        if !SideIndex::takes(key) {
            return;
        }
        let (lower, upper) = (entry_of(key, NEWEST), entry_of(key, OLDEST));
        let range = Range { lower: Bound::Included(lower.as_ref()), upper: Bound::Included(upper.as_ref()) };
        let mut visitor = EachEntry(|_: &[u8], record| visit(record));
        self.tree.scan(range, Direction::Forward, &mut visitor, pinned);
    }

    /// Visits the keys within a range, each once, until `visit` breaks.
    pub(crate) fn each_key(
        self,
        range: Range<'_>,
        direction: Direction,
        pinned: Pinned<'_>,
        mut visit: impl FnMut(Vec<u8>) -> ControlFlow<()>,
    ) {
        let before = |key: &[u8]| entry_of(key, NEWEST);
        let behind = |key: &[u8]| entry_of(key, OLDEST);
        let lower = match range.lower {
            Bound::Included(key) => Bound::Included(before(key)),
            Bound::Excluded(key) => Bound::Excluded(behind(key)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let upper = match range.upper {
            Bound::Included(key) => Bound::Included(behind(key)),
            Bound::Excluded(key) => Bound::Excluded(before(key)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let range = Range {
            lower: lower.as_ref().map(KeyBuffer::as_ref),
            upper: upper.as_ref().map(KeyBuffer::as_ref),
        };
        let mut last = None;
        let mut visitor = EachEntry(|entry: &[u8], _record| {
            let key = key_of(entry);
            if last.as_ref() == Some(&key) {
                return ControlFlow::Continue(());
            }
            last = Some(key.clone());
            visit(key)
        });
        self.tree.scan(range, direction, &mut visitor, pinned);
    }
}

/// An entry: the key in its delimited form, and the TID in descending order. Entries are in the order of their keys.
fn entry_of(key: &[u8], tid: u64) -> KeyBuffer {
    let mut entry = encode_key_delimited::<Vec<u8>>(key);
    entry.push_array((!tid).to_be_bytes());
    entry
}

fn key_of(entry: &[u8]) -> Vec<u8> {
    let Ok(key) = Vec::decode_delimited(&mut &*entry) else { unreachable!("an entry begins with its key") };
    key
}

/// Visitor of the entries of a walk through the side index.
struct EachEntry<F>(F);

impl<'p, F: FnMut(&[u8], Record<'p>) -> ControlFlow<()>> RecordVisitor<'p> for EachEntry<F> {
    fn witness(&mut self, _witness: LeafWitness<'p>) {}

    fn entry(&mut self, key: &[u8], record: Record<'p>) -> ControlFlow<()> {
        (self.0)(key, record)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
