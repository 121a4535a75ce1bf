//! Trees that map keys to records only: the answer of a lookup is a record that carries its pin.
//!
//! The index knows 64-bit values only. Every tree of the engine is a [`RecordTree`], and each value in a tree is the
//! address of a record that was a [`Fresh`] record. So each value that comes out is the address of a record that was
//! linked while the caller's pin stood. Nothing frees the record while the pin stands (E3).
//!
//! Neighbours: tables and their indexes are such trees; `blocks` makes records; `ensile-index` has the algorithms.
//! `read_path`, `commit`, `checkpoint`, `garbage` and `open` walk the trees.

use std::ops::ControlFlow;

use ensile_epoch::Pinned;
use ensile_index::{
    Direction, Gap, Insert, KeyRemoval, Lookup, Masstree, NodeChanges, OrderedInserts, Place, Probe, Range,
    ScanVisitor, Witness,
};

use super::blocks::{Blocks, Fresh, NodeBlocks, Placeholder, Unseen};
use super::ownership::{Absent, Becomes, RetiredRecord, Unlinked};
use super::reference::{Address, Record};
use super::tid_word::Word;
use super::witness::{LeafChanges, LeafWitness};

#[derive(Debug)]
pub(crate) struct RecordTree(Masstree);

/// The answer of a point read.
#[derive(Clone, Copy)]
pub(crate) enum RecordLookup<'p> {
    /// The key's record.
    Found(Record<'p>),
    /// The key has no record, for as long as the witness holds.
    Missing(LeafWitness<'p>),
}

/// The outcome of an insert.
pub(crate) enum RecordInsert<'p> {
    /// The key was missing; this record is in the tree now.
    Inserted(Record<'p>),
    /// The key had this record; the new record comes back.
    Exists(Record<'p>, Fresh),
}

/// The outcome of placing a placeholder.
pub(crate) enum RecordPlacing<'c, 'p> {
    /// The key was missing; the placeholder is in the tree now, with these changes of leaves.
    Placed(Record<'p>, Absent<'p>, LeafChanges<'c, 'p>),
    /// The key had this record; the placeholder comes back.
    Exists(Record<'p>, Placeholder),
}

/// One key to look up in one tree.
#[derive(Clone, Copy)]
pub(crate) struct RecordProbe<'a, L> {
    pub(crate) tree: &'a RecordTree,
    pub(crate) key: &'a [u8],
    /// The caller's name for the key, handed back with the answer.
    pub(crate) label: L,
}

impl<'a, L> RecordProbe<'a, L> {
    #[inline(always)]
    fn of_index(self) -> Probe<'a, L> {
        Probe { tree: &self.tree.0, key: self.key, label: self.label }
    }
}

/// Result of a descent for a key that may be inserted afterwards.
#[derive(Clone, Copy)]
pub(crate) enum RecordPlace<'a, 'p> {
    /// The key's record.
    Found(Record<'p>),
    /// The place of a missing key.
    Gap(RecordGap<'a, 'p>),
}

/// The place of a missing key.
#[derive(Clone, Copy)]
pub(crate) struct RecordGap<'a, 'p>(Gap<'a, 'p>);

impl<'a: 'g, 'g> RecordGap<'a, 'g> {
    /// Inserts the key, unless another thread has inserted the key meanwhile.
    #[inline]
    pub(crate) fn insert<'p: 'g>(
        &self,
        record: Fresh,
        nodes: &mut NodeBlocks<'_>,
        changes: &mut NodeChanges,
        pinned: Pinned<'p>,
    ) -> RecordInsert<'p> {
        insert_outcome(self.0.insert(record.value(), nodes, changes, pinned), record, pinned)
    }
}

/// A run of inserts in key order. `'r` is within the pin, and within the tree's life.
pub(crate) struct RecordRun<'a, 'r>(OrderedInserts<'a, 'r>);

impl<'a: 'r, 'r> RecordRun<'a, 'r> {
    pub(crate) fn new(tree: &'a RecordTree) -> Self {
        Self(OrderedInserts::new(&tree.0))
    }

    /// Inserts the next key, unless the key exists.
    pub(crate) fn insert<'p: 'r>(
        &mut self,
        key: &'a [u8],
        record: Fresh,
        nodes: &mut NodeBlocks<'_>,
        changes: &mut NodeChanges,
        pinned: Pinned<'p>,
    ) -> RecordInsert<'p> {
        insert_outcome(self.0.insert(key, record.value(), nodes, changes, pinned), record, pinned)
    }
}

impl<'a: 'r, 'r> RecordRun<'a, 'r> {
    /// Places a placeholder for the next key, unless the key exists.
    #[inline]
    pub(crate) fn place<'c, 'p: 'r>(
        &mut self,
        key: &'a [u8],
        Placeholder(fresh): Placeholder,
        nodes: &mut NodeBlocks<'_>,
        changes: &'c mut NodeChanges,
        pinned: Pinned<'p>,
    ) -> RecordPlacing<'c, 'p> {
        debug_assert!(
            fresh.record().word().is_placeholder(),
            "it shows no row until its commit fills it (C3)"
        );
        changes.clear();
        match self.insert(key, fresh, nodes, changes, pinned) {
            RecordInsert::Inserted(record) => {
                let changes = LeafChanges::new(changes, pinned);
                RecordPlacing::Placed(record, Absent(record.handle()), changes)
            }
            RecordInsert::Exists(record, fresh) => RecordPlacing::Exists(record, Placeholder(fresh)),
        }
    }
}

/// The outcome of an insert of `record`, from the index's answer.
#[inline(always)]
fn insert_outcome<'p>(answer: Insert, record: Fresh, pinned: Pinned<'p>) -> RecordInsert<'p> {
    match answer {
        Insert::Inserted => {
            // SAFETY: a thread that unlinks the record from here on waits for this pin (E3).
            RecordInsert::Inserted(unsafe { record.publish().record() })
        }
        Insert::Exists(value) => {
            debug_assert_ne!(value, record.value(), "a new record is in no tree");
            RecordInsert::Exists(of_value(value, pinned), record)
        }
    }
}

/// The record at the address in a tree's value.
#[inline(always)]
fn of_value<'p>(value: u64, _pinned: Pinned<'p>) -> Record<'p> {
    // SAFETY: a tree holds only addresses of records, and this record was linked while the pin stood (module header).
    unsafe { Address::from_value(value).record() }
}

/// The record that takes the place of a key's record.
#[derive(Debug)]
pub(crate) struct Successor {
    pub(crate) record: Fresh,
    /// The record's word at its publication.
    pub(crate) word: Word,
    /// True if the replaced record stays as a version for a snapshot (K3).
    pub(crate) keeps_old: bool,
}

/// Callbacks of a scan.
pub(crate) trait RecordVisitor<'p> {
    /// Receives a leaf that the answer depends on, before the entries read from the leaf.
    fn witness(&mut self, witness: LeafWitness<'p>);

    /// Receives the next entry in order. `Break` ends the scan.
    fn entry(&mut self, key: &[u8], record: Record<'p>) -> ControlFlow<()>;

    /// Receives the record of an entry that follows soon, for a prefetch.
    #[inline]
    fn announce(&mut self, record: Address) {
        let _ = record;
    }
}

/// Adapter of a visitor of records to the index.
struct OfIndex<'v, 'p, V> {
    visitor: &'v mut V,
    pinned: Pinned<'p>,
}

impl<'p, V: RecordVisitor<'p>> ScanVisitor for OfIndex<'_, 'p, V> {
    #[inline]
    fn witness(&mut self, witness: Witness) {
        self.visitor.witness(LeafWitness::new(witness, self.pinned));
    }

    #[inline]
    fn entry(&mut self, key: &[u8], value: u64) -> ControlFlow<()> {
        self.visitor.entry(key, of_value(value, self.pinned))
    }

    #[inline]
    fn announce(&mut self, value: u64) {
        self.visitor.announce(Address::from_value(value));
    }
}

impl RecordTree {
    /// An empty tree.
    pub(crate) fn new(nodes: &mut NodeBlocks<'_>) -> Self {
        Self(Masstree::new(nodes))
    }

    /// The record of a key: the record was the key's at some moment during the call.
    ///
    /// Always inline: a point read's way down is most of a short transaction.
    #[inline(always)]
    pub(crate) fn get<'p>(&self, key: &[u8], pinned: Pinned<'p>) -> RecordLookup<'p> {
        match self.0.get(key, pinned) {
            Lookup::Found(value) => RecordLookup::Found(of_value(value, pinned)),
            Lookup::Missing(witness) => RecordLookup::Missing(LeafWitness::new(witness, pinned)),
        }
    }

    /// Looks up many keys, in many trees. Calls `found(label, lookup)` once for each probe, in any order.
    #[inline]
    pub(crate) fn get_batch<'a, 'p, L: Copy>(
        probes: impl IntoIterator<Item = RecordProbe<'a, L>>,
        pinned: Pinned<'p>,
        found: &mut impl FnMut(L, RecordLookup<'p>),
    ) {
        let probes = probes.into_iter().map(RecordProbe::of_index);
        Masstree::get_batch(probes, pinned, &mut |label, lookup| {
            found(
                label,
                match lookup {
                    Lookup::Found(value) => RecordLookup::Found(of_value(value, pinned)),
                    Lookup::Missing(witness) => RecordLookup::Missing(LeafWitness::new(witness, pinned)),
                },
            );
        });
    }

    /// As [`RecordTree::get_batch`], for replay, which often inserts the keys afterwards: a missing key comes with its
    /// gap in the leaf.
    #[inline]
    pub(crate) fn place_batch<'a: 'p, 'p, L: Copy>(
        probes: impl IntoIterator<Item = RecordProbe<'a, L>>,
        pinned: Pinned<'p>,
        placed: &mut impl FnMut(L, RecordPlace<'a, 'p>),
    ) {
        let probes = probes.into_iter().map(RecordProbe::of_index);
        Masstree::place_batch(probes, pinned, &mut |label, place| {
            placed(
                label,
                match place {
                    Place::Found(value) => RecordPlace::Found(of_value(value, pinned)),
                    Place::Gap(gap) => RecordPlace::Gap(RecordGap(gap)),
                },
            );
        });
    }

    /// Inserts a key, unless the key exists: for replay and the laboratory, as commits place keys by [`RecordRun`].
    /// `changes` reports every leaf with a changed witness.
    #[inline]
    pub(crate) fn insert_if_absent<'p>(
        &self,
        key: &[u8],
        record: Fresh,
        nodes: &mut NodeBlocks<'_>,
        changes: &mut NodeChanges,
        pinned: Pinned<'p>,
    ) -> RecordInsert<'p> {
        insert_outcome(self.0.insert_if_absent(key, record.value(), nodes, changes, pinned), record, pinned)
    }

    /// Replaces `old` by `new`. `old` is the key's record, and the caller holds its lock.
    #[inline]
    pub(crate) fn replace(&self, key: &[u8], old: Record<'_>, new: Fresh, pinned: Pinned<'_>) -> Unlinked {
        self.exchange(key, old, new, Becomes::Garbage, pinned)
    }

    /// As [`Self::replace`], with the successor's word and version chain. The version before the successor is `old` if
    /// the successor keeps `old` (K3), otherwise the version before `old`.
    #[inline]
    pub(crate) fn supersede(
        &self,
        key: &[u8],
        old: Record<'_>,
        successor: Successor,
        pinned: Pinned<'_>,
    ) -> Unlinked {
        let Successor { record: new, word, keeps_old } = successor;
        debug_assert!(!keeps_old || !old.word().is_placeholder(), "no snapshot shows a placeholder");
        let (previous, becomes) = match keeps_old {
            true => (Some(old.address()), Becomes::Version),
            false => (old.previous_address(), Becomes::Garbage),
        };
        new.finish(word, previous);
        self.exchange(key, old, new, becomes, pinned)
    }

    /// As [`Self::supersede`], by a record without data, with the word of a deleted key. The caller must unhook the new
    /// record (U1).
    pub(crate) fn supersede_by_absent<'p>(
        &self,
        key: &[u8],
        old: Record<'_>,
        successor: Successor,
        pinned: Pinned<'p>,
    ) -> (Unlinked, Absent<'p>) {
        debug_assert!(successor.word.is_absent(), "the record is the caller's to unhook (U1)");
        let new = successor.record.record();
        debug_assert!(new.length() == 0, "an absent record has no data");
        let address = new.address();
        let unlinked = self.supersede(key, old, successor, pinned);
        // SAFETY: the tree has led to the record under this pin. A thread that unlinks the record waits for the pin
        // (E3).
        let absent = unsafe { address.record::<'p>() };
        (unlinked, Absent(absent.handle()))
    }

    /// Makes the tree lead to `new` in the place of `old`, whose lock the caller holds.
    #[inline]
    fn exchange(
        &self,
        key: &[u8],
        old: Record<'_>,
        new: Fresh,
        becomes: Becomes,
        pinned: Pinned<'_>,
    ) -> Unlinked {
        debug_assert!(new.record().address() != old.address(), "a record is not replaced by itself");
        debug_assert!(
            cfg!(any(loom, shuttle)) || old.word().is_locked(),
            "the record that is replaced is locked"
        );
        let replaced = self.0.replace(key, old.address().value(), new.publish().value(), pinned);
        assert!(replaced, "the index maps a key to its latest record");
        new_unlinked(old, becomes)
    }

    /// Takes a key out. `old` is the key's record, and the caller holds its lock. [`Self::remove_emptied_leaf`] removes
    /// emptied leaves, once the record is unlocked.
    pub(crate) fn take_out(&self, key: &[u8], old: Record<'_>, pinned: Pinned<'_>) -> (Unlinked, KeyRemoval) {
        debug_assert!(
            cfg!(any(loom, shuttle)) || old.word().is_locked(),
            "the record that is removed is locked (U1)"
        );
        let Some(removed) = self.0.take_out(key, old.address().value(), pinned) else {
            unreachable!("the index maps a key to its latest record")
        };
        (new_unlinked(old, Becomes::Garbage), removed)
    }

    /// Unlinks a leaf that the key's removal left empty, and folds a layer that the removal left with nothing but the
    /// way to another layer.
    pub(crate) fn remove_emptied_leaf(
        &self,
        key: &[u8],
        removed: KeyRemoval,
        nodes: &mut NodeBlocks<'_>,
        pinned: Pinned<'_>,
    ) {
        self.0.prune(key, removed, nodes, pinned);
    }

    /// Enters a record into a side index (U3): another tree leads to the record, or has led to the record until now.
    /// The key has no record here.
    pub(crate) fn enter(
        &self,
        key: &[u8],
        record: Record<'_>,
        nodes: &mut NodeBlocks<'_>,
        pinned: Pinned<'_>,
    ) {
        debug_assert!(record.word().is_absent(), "side indexes hold deletes");
        let value = record.address().value();
        let entered = self.0.insert_if_absent(key, value, nodes, &mut NodeChanges::new(), pinned);
        assert!(matches!(entered, Insert::Inserted), "a record enters once");
    }

    /// Takes a key with this record out of a side index. The caller alone takes the record out; no lock is needed, as
    /// no transaction reads the tree.
    pub(crate) fn leave(
        &self,
        key: &[u8],
        record: Record<'_>,
        nodes: &mut NodeBlocks<'_>,
        pinned: Pinned<'_>,
    ) {
        let Some(removed) = self.0.take_out(key, record.address().value(), pinned) else {
            unreachable!("the record has entered")
        };
        self.remove_emptied_leaf(key, removed, nodes, pinned);
    }

    /// Visits the keys of a range in order.
    pub(crate) fn scan<'p>(
        &self,
        range: Range<'_>,
        direction: Direction,
        visitor: &mut impl RecordVisitor<'p>,
        pinned: Pinned<'p>,
    ) {
        self.scan_in(range, direction, &mut Vec::new(), visitor, pinned);
    }

    /// As [`Self::scan`], for callers that keep a buffer for the keys of their scans.
    #[inline]
    pub(crate) fn scan_in<'p>(
        &self,
        range: Range<'_>,
        direction: Direction,
        key_buffer: &mut Vec<u8>,
        visitor: &mut impl RecordVisitor<'p>,
        pinned: Pinned<'p>,
    ) {
        self.0.scan_in(range, direction, key_buffer, &mut OfIndex { visitor, pinned }, pinned);
    }

    /// At most `parts - 1` keys, in order, that divide the tree into parts with about the same number of records.
    pub(crate) fn separators(&self, parts: usize, pinned: Pinned<'_>) -> Vec<Vec<u8>> {
        let separators = self.0.separators(parts, pinned);
        debug_assert!(separators.is_sorted(), "parts follow each other");
        debug_assert!(separators.len() < parts.max(1), "there are fewer ends between parts than parts");
        separators
    }

    /// As [`Self::scan`], of a tree without other users, such as a tree that an inspection of a folder has rebuilt: no
    /// pin is needed.
    pub(crate) fn scan_alone(
        &mut self,
        range: Range<'_>,
        direction: Direction,
        visitor: &mut impl for<'p> RecordVisitor<'p>,
    ) {
        // SAFETY: records are freed only after their unlink from a tree; no other thread has this tree during the
        // borrow.
        self.scan(range, direction, visitor, unsafe { Pinned::assume() });
    }

    /// The word of a key's record, in a tree without other users.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn word_alone(&mut self, key: &[u8]) -> Option<Word> {
        // SAFETY: records are freed only after their unlink from a tree; no other thread has this tree during the
        // borrow.
        match self.get(key, unsafe { Pinned::assume() }) {
            RecordLookup::Found(record) => Some(record.word()),
            RecordLookup::Missing(_) => None,
        }
    }
}

/// The duty to free a record that its tree no longer leads to. An absent record becomes its registrar's garbage (U1).
#[inline]
fn new_unlinked(old: Record<'_>, becomes: Becomes) -> Unlinked {
    let word = old.word();
    debug_assert!(cfg!(any(loom, shuttle)) || word.is_latest(), "a record is superseded once (C2)");
    let becomes = if word.is_absent() { Becomes::AnothersGarbage } else { becomes };
    Unlinked { record: old.address(), becomes }
}

/// A tree that only its builder has: records go in, and no record comes out before publication.
pub(crate) struct UnseenTree(RecordTree);

impl UnseenTree {
    /// An empty tree.
    pub(crate) fn new(nodes: &mut NodeBlocks<'_>) -> Self {
        Self(RecordTree::new(nodes))
    }

    /// Inserts a key, unless the key exists.
    ///
    /// # Errors
    /// The record, if the key exists.
    pub(crate) fn insert(
        &self,
        key: &[u8],
        record: Fresh,
        nodes: &mut NodeBlocks<'_>,
        changes: &mut NodeChanges,
        pinned: Pinned<'_>,
    ) -> Result<(), Fresh> {
        match self.0.insert_if_absent(key, record, nodes, changes, pinned) {
            RecordInsert::Inserted(_) => Ok(()),
            RecordInsert::Exists(_, record) => Err(record),
        }
    }

    /// The tree, for others to read.
    pub(crate) fn publish(self) -> RecordTree {
        self.0
    }

    /// Frees the tree and its records.
    pub(crate) fn destroy(self, blocks: &mut Blocks) {
        // SAFETY: the tree is taken by value, so no thread uses the tree now or later, and no record came out of the
        // tree.
        let _absent = unsafe { self.0.destroy(blocks) };
    }
}

impl RecordTree {
    /// Frees the tree and its records. Returns the number of absent records.
    ///
    /// # Safety
    /// No other thread uses the tree now, and no thread uses the tree or its records afterwards. Workers of the
    /// database of `blocks` allocated the whole tree.
    pub(super) unsafe fn destroy(&self, blocks: &mut Blocks) -> usize {
        let all = Range { lower: std::ops::Bound::Unbounded, upper: std::ops::Bound::Unbounded };
        // SAFETY: no other thread has the tree, and only the code below frees its nodes.
        let alone = unsafe { Pinned::assume() };
        let mut freed = FreeRecords { blocks, absent: 0 };
        self.0.scan(all, Direction::Forward, &mut freed, alone);
        let FreeRecords { blocks, absent } = freed;
        // SAFETY: the caller promises the conditions of `dismantle`.
        unsafe { self.0.dismantle(&mut Unseen(blocks)) };
        absent
    }

    /// Frees the tree, and none of its records.
    ///
    /// # Safety
    /// As for [`Self::destroy`].
    #[cfg(feature = "audit")]
    pub(super) unsafe fn destroy_nodes(&self, blocks: &mut Blocks) {
        // SAFETY: the caller promises the conditions of `dismantle`.
        unsafe { self.0.dismantle(&mut Unseen(blocks)) };
    }
}

/// Visitor that frees the records of a destroyed tree.
struct FreeRecords<'b> {
    blocks: &'b mut Blocks,
    absent: usize,
}

impl ScanVisitor for FreeRecords<'_> {
    fn witness(&mut self, _witness: Witness) {}

    fn entry(&mut self, _key: &[u8], value: u64) -> ControlFlow<()> {
        let address = Address::from_value(value);
        // SAFETY: no thread uses a record of the tree any more; the scan shows each key once.
        unsafe {
            self.absent += usize::from(address.record().word().is_absent());
            self.blocks.destroy(RetiredRecord(address));
        }
        ControlFlow::Continue(())
    }
}
