//! Garbage: memory that commits leave behind, and the conditions for its free (Silo §4.8, §4.9).
//!
//! | garbage | waits until |
//! |---|---|
//! | index nodes, replaced records | every pin is newer than their unlink (E3) |
//! | versions: copies, replaced records | no snapshot up to the superseding epoch is read or served (S1); then pins |
//! | pages of copies | as versions, but then for commits, not for pins (V1) |
//! | unlinked versions | a collection finds the mark (V1); then pins |
//! | absent records | U2: snapshots have passed, `E >= e_d + 2`, `e_d <= D`; then unhook (U1) |
//! | absent records beyond a worker's first 16 | burial (U3): the record leaves its tree, and waits for U2 outside |
//!
//! Each worker has its own garbage, under a lock. The worker's thread takes the lock when it adds or frees, and never
//! while it is bound (E1). The thread frees a bounded amount between requests. The heartbeat frees garbage that still
//! waits a tick after it could be freed (E6).
//!
//! Invariant (E6): Waiting garbage is counted in bytes at its addition, and uncounted at its free.
//!
//! Neighbours: `commit` adds. Workers collect after their commits, and the heartbeat collects for workers without
//! commits. `record::blocks` frees.

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Ordering, fence};
use ensile_epoch::{CommitSlot, Epochs, GarbageList, Pinned, ReclaimLimits, RevisitedList};
use ensile_index::KeyRemoval;

use crate::commit_gate::Gate;
#[cfg(feature = "audit")]
use crate::record::block_audit::AtRest;
use crate::record::blocks::{Blocks, NodeBlock, NodeBlocks, PageBlock};
use crate::record::ownership::{Absent, Becomes, RegisteredAbsent, RetiredRecord, Unlinked};
use crate::record::tid_word::Word;
use crate::record::tree::RecordTree;
use crate::tables::side_index::SideIndex;
use crate::tables::{Directory, TableCore};

/// Distance, in places, of the prefetch before a free: the garbage was last used long ago.
const FETCHED_AHEAD: usize = 8;

/// Largest number of a worker's absent records in the trees that transactions walk, after a collection (U3). A scan
/// walks a leaf or two of absent records for each worker.
const IN_TREES_MAX: usize = if cfg!(shuttle) { 1 } else { 16 };

/// Largest number of burials between two looks at the gate of turns.
const BURIALS_PER_LOOK: usize = 64;
/// Largest number of burials in a collection.
const BURIALS_PER_COLLECTION: usize = 1024;

/// An absent record that must leave the index.
#[derive(Debug)]
struct Unhook {
    table: u32,
    key: Box<[u8]>,
    record: RegisteredAbsent,
    /// The word that the record must still have at its unhook (U1).
    word: Word,
    /// True if the record is in the side index of its table.
    is_aside: bool,
}

impl Unhook {
    /// Enters the record in the side index of its table, if snapshots read the table.
    fn enter(&mut self, table: &TableCore, nodes: &mut NodeBlocks<'_>, pinned: Pinned<'_>) {
        // A placeholder has no version that a snapshot shows.
        if table.side.has_readers() && !self.word.is_placeholder() {
            table.side.enter(&self.key, self.record.record(), nodes, pinned);
            self.is_aside = true;
        }
    }

    /// Takes the record out of the side index.
    fn leave(&mut self, table: &TableCore, nodes: &mut NodeBlocks<'_>, pinned: Pinned<'_>) {
        if std::mem::take(&mut self.is_aside) {
            table.side.leave(&self.key, self.record.record(), nodes, pinned);
        }
    }

    /// Bytes of the record's block, of the key and of this entry.
    fn bytes(&self) -> usize {
        self.record.record().class().bytes() + self.key.len() + size_of::<Self>()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Garbage {
    /// Index nodes, by an epoch at or after their unlink.
    nodes: GarbageList<NodeBlock>,
    /// Records that wait for pins alone, by an epoch at or after their unlink.
    records: GarbageList<RetiredRecord>,
    /// Versions in blocks of their own, by the epoch of the commit that superseded them.
    versions: RevisitedList<RetiredRecord>,
    /// Full pages of versions, by the epoch of the commit that filled them.
    pages: GarbageList<PageBlock>,
    /// Pages that no snapshot shows any more, by the epoch of the pass. A commit of this epoch or of the epoch before
    /// may stand on a version in such a page (V1).
    passed_pages: GarbageList<PageBlock>,
    /// Absent records in the trees that transactions walk, by the epoch in which they became absent.
    unhooks: RevisitedList<Unhook>,
    /// Absent records that are never buried, and wait for U2: superseded records, and records with a key too long for
    /// an entry of a side index.
    unburied: RevisitedList<Unhook>,
    /// Buried records that lead to versions, by the epoch of the burial (U3).
    buried: GarbageList<Unhook>,
    /// Buried records without versions: a snapshot of the time before the delete finds nothing in them.
    buried_bare: GarbageList<Unhook>,
    /// True if a snapshot holds back versions or absent records. Some of them may be unlinked.
    is_revisiting: bool,
    /// Garbage that waits for pins.
    for_pins: WaitingBytes,
    /// Garbage that waits for snapshots. Pages count until they are freed.
    for_snapshots: WaitingBytes,
    /// Bytes of absent records in `for_snapshots`. Absent records wait for E and D too.
    unhook_bytes: usize,
}

/// Amount of garbage that waits for one kind of reader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitingBytes {
    /// Bytes that wait now.
    pub(crate) bytes: usize,
    /// Bytes that ever began to wait.
    pub(crate) made: u64,
}

impl WaitingBytes {
    /// Counts garbage that begins to wait.
    #[inline]
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.made += bytes as u64;
    }

    /// Uncounts garbage at the end of its wait.
    #[inline]
    fn take(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.bytes, "what is freed was counted when it was added (E6)");
        self.bytes -= bytes;
    }
}

/// Nodes that a worker's inserts have retired, before the nodes join the worker's garbage.
#[derive(Debug, Default)]
pub(crate) struct RetiredNodes {
    /// Index nodes that the index no longer leads to, by an epoch at or after their unlink.
    nodes: GarbageList<NodeBlock>,
    bytes: usize,
}

impl RetiredNodes {
    /// The index's view of the worker's memory.
    #[inline]
    pub(crate) fn node_memory<'w>(
        &'w mut self,
        blocks: &'w mut Blocks,
        epochs: &'w Epochs,
    ) -> NodeBlocks<'w> {
        NodeBlocks { blocks, garbage_list: &mut self.nodes, epochs, retired_bytes: &mut self.bytes }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// Epochs up to which garbage may be freed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EpochLimits {
    /// Limits of the pins and of the snapshots.
    pub(crate) readers: ReclaimLimits,
    /// Absent records with a delete of an epoch below this limit may be unhooked (U2).
    pub(crate) unhooks: Epoch,
    /// The same limit for records without versions, which wait for no snapshot (U3).
    pub(crate) bare: Epoch,
    /// All commits of epochs below this limit have ended (E2).
    pub(crate) commits: Epoch,
}

/// The state of the database that a collection relies on.
pub(crate) struct Horizon<'c> {
    pub(crate) limits: EpochLimits,
    pub(crate) epochs: &'c Epochs,
    pub(crate) tables: &'c Directory,
    /// The gate of turns: nothing is unhooked during a turn (P1).
    pub(crate) gate: &'c Gate,
    /// Place for the epochs of deletes, if records are unhooked before their deletes are durable: without a log.
    pub(crate) unhooked: Option<&'c UnhookedEpoch>,
}

/// The newest epoch of a delete with an unhooked record, in a database without a log. There records do not wait for D,
/// so a reader that finds no record rests on this epoch (N19). With a log the epoch stays zero: every delete with an
/// unhooked record was durable (U2).
#[derive(Debug, Default)]
pub(crate) struct UnhookedEpoch(AtomicU64);

impl UnhookedEpoch {
    /// The epoch on which a reader rests that has found no record.
    #[inline]
    pub(crate) fn newest(&self) -> Epoch {
        // Acquire: a reader that saw the leaf without the record sees the record's delete here (partner: `raise`).
        Epoch::new(self.0.load(Ordering::Acquire))
    }

    /// Notes the epoch of a delete before the unhook of the deleted record.
    fn raise(&self, epoch: Epoch) {
        // Release: the store comes before the leaf changes, and the leaf's lock publishes the store too (partner:
        // `newest`).
        self.0.fetch_max(epoch.number(), Ordering::Release);
    }
}

/// Frees at most `most` entries below `limit`. True if no entry below the limit is left; false also after exactly
/// `most` entries.
#[inline]
fn drain<T>(
    garbage_list: &mut GarbageList<T>,
    limit: Epoch,
    most: usize,
    fetch: impl Fn(&T),
    mut free: impl FnMut(T),
) -> bool {
    for _ in 0..most {
        let Some(thing) = garbage_list.pop_below(limit) else { return true };
        garbage_list.peek_ahead(FETCHED_AHEAD).inspect(|later| fetch(later));
        free(thing);
    }
    false
}

/// Garbage of one replaying thread: nodes and records that no tree leads to any more.
#[derive(Debug, Default)]
pub(crate) struct ReplayGarbage {
    nodes: RetiredNodes,
    records: GarbageList<RetiredRecord>,
}

impl ReplayGarbage {
    /// The index's view of a replaying thread's memory.
    #[inline]
    pub(crate) fn node_memory<'w>(
        &'w mut self,
        blocks: &'w mut Blocks,
        epochs: &'w Epochs,
    ) -> NodeBlocks<'w> {
        self.nodes.node_memory(blocks, epochs)
    }

    /// Adds a record that no tree leads to any more. Another thread may still read the record.
    pub(crate) fn retire(&mut self, record: Unlinked, epochs: &Epochs) {
        // SAFETY: replay registers no absent record. Replay notes the keys of its tombstones.
        let record = unsafe { record.retired_by_finder() };
        // SeqCst: the unlink comes before the tag's epoch is read (E3); partner: the heavy fence of the scan.
        fence(Ordering::SeqCst);
        self.records.push(epochs.now(), record);
    }

    /// Frees the garbage that no thread of replay can reach: every pin is newer than the unlink (E3).
    pub(crate) fn collect(&mut self, blocks: &mut Blocks, epochs: &Epochs) {
        let limit = epochs.limits().pins();
        while let Some(record) = self.records.pop_below(limit) {
            // SAFETY: every pin is newer than the record's unlink (E3).
            unsafe { blocks.destroy(record) };
        }
        while let Some(node) = self.nodes.nodes.pop_below(limit) {
            // SAFETY: every pin is newer than the node's unlink (E3).
            self.nodes.bytes -= unsafe { blocks.destroy_node(node) };
        }
    }

    /// True if no garbage waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.records.is_empty()
    }
}

impl Garbage {
    /// Adds a page of versions. A commit of `epoch` superseded the page's last version; only snapshot readers can reach
    /// the versions.
    pub(crate) fn add_page(&mut self, epoch: Epoch, page: PageBlock) {
        self.pages.push(epoch, page);
        self.for_snapshots.add(PageBlock::BYTES);
    }

    /// Adds nodes that inserts have retired. The tag is the current epoch, long after the unlink.
    #[cold]
    pub(crate) fn add_nodes(&mut self, retired: &mut RetiredNodes, epochs: &Epochs) {
        let now = epochs.now();
        while let Some(node) = retired.nodes.pop_below(Epoch::MAX) {
            debug_assert!(now < Epoch::MAX, "no tag is beyond all limits");
            self.nodes.push(now, node);
        }
        self.for_pins.add(std::mem::take(&mut retired.bytes));
    }

    /// Adds a record that a commit of `epoch` replaced. An absent record is left to the commit that registered the
    /// record for cleanup, so the record's address stays valid until the cleanup (U1).
    #[cold]
    pub(crate) fn add_replaced(&mut self, epoch: Epoch, record: Unlinked, epochs: &Epochs) {
        let is_version = record.becomes() == Becomes::Version;
        let Some(record) = record.into_retired() else { return };
        if is_version {
            self.add_version(epoch, record);
        } else {
            self.add_unlinked(record, epochs);
        }
    }

    /// Adds a version that a commit of `epoch` superseded, with a block of its own. A version in a page is freed with
    /// the page.
    #[inline]
    pub(crate) fn add_version(&mut self, epoch: Epoch, version: RetiredRecord) {
        self.for_snapshots.add(version.bytes());
        self.versions.push(epoch, version);
    }

    /// Adds a record that nothing links to any more.
    fn add_unlinked(&mut self, record: RetiredRecord, epochs: &Epochs) {
        self.for_pins.add(record.bytes());
        // SeqCst: the unlink comes before the tag's epoch is read (E3).
        fence(Ordering::SeqCst);
        self.records.push(epochs.now(), record);
    }

    /// Adds a record that became absent in `epoch`, with the word `word`. The record belongs to its registrar from now
    /// on (U1). `pinned` is the pin of the transaction that made the record absent or placed the record.
    pub(crate) fn add_unhook<'p>(
        &mut self,
        epoch: Epoch,
        table: u32,
        key: &[u8],
        record: Absent<'p>,
        word: Word,
        pinned: Pinned<'p>,
    ) {
        let Some(record) = record.register(pinned) else {
            debug_assert!(false, "a record that shows a row is not unhooked");
            return;
        };
        let unhook = Unhook { table, key: key.into(), record, word, is_aside: false };
        let bytes = unhook.bytes();
        self.for_snapshots.add(bytes);
        self.unhook_bytes += bytes;
        self.unhooks.push(epoch, unhook);
    }

    /// True if absent records wait to be unhooked. Absent records wait for D too, and D moves without the limits.
    pub(crate) fn has_unhooks(&self) -> bool {
        self.absent() > 0
    }

    /// True if too many absent records are in the trees that transactions walk (U3).
    #[inline]
    pub(crate) fn has_burials(&self) -> bool {
        self.unhooks.len() > IN_TREES_MAX
    }

    /// True if pages wait for commits. Such pages wait for E, and E moves without the readers' limits.
    pub(crate) fn has_passed_pages(&self) -> bool {
        !self.passed_pages.is_empty()
    }

    /// True if a collection may free garbage although the limits stand: marks come at any time (V1).
    pub(crate) fn is_revisiting(&self) -> bool {
        self.is_revisiting
    }

    /// Garbage that waits for pins, garbage that waits for snapshots, and bytes of absent records in the latter.
    #[inline]
    pub(crate) fn waiting_bytes(&self) -> (WaitingBytes, WaitingBytes, usize) {
        debug_assert!(self.unhook_bytes <= self.for_snapshots.bytes, "absent records wait for snapshots too");
        (self.for_pins, self.for_snapshots, self.unhook_bytes)
    }

    /// Number of waiting entries.
    pub(crate) fn len(&self) -> usize {
        let versions = self.pages.len() + self.passed_pages.len() + self.versions.len();
        self.nodes.len() + self.records.len() + versions + self.absent()
    }

    /// Number of waiting absent records.
    fn absent(&self) -> usize {
        self.unhooks.len() + self.unburied.len() + self.buried.len() + self.buried_bare.len()
    }

    /// Measure of the remaining work, for the heartbeat. Each step of a collection makes the measure smaller. An absent
    /// record in a tree counts twice, because a burial only moves the record to another list.
    pub(crate) fn work(&self) -> usize {
        self.len() + self.unhooks.len()
    }

    /// Frees at most `most` entries of each kind. `pinned` is a pin of the caller's. True if these limits allow no
    /// further free.
    pub(crate) fn collect(
        &mut self,
        blocks: &mut Blocks,
        worker: &CommitSlot,
        horizon: &Horizon<'_>,
        pinned: Pinned<'_>,
        most: usize,
    ) -> bool {
        let mut drained = self.pass_snapshots(horizon, most);
        self.revisit(horizon, most);
        let pins = horizon.limits.readers.pins();
        let Self { records, nodes, passed_pages, for_pins, for_snapshots, .. } = self;
        let fetch = RetiredRecord::prefetch;
        // SAFETY: every pin is newer than the record's unlink (E3).
        let free_record = |record| for_pins.take(unsafe { blocks.destroy(record) });
        drained &= drain(records, pins, most, fetch, free_record);
        // SAFETY: every pin is newer than the node's unlink (E3).
        let free_node = |node| for_pins.take(unsafe { blocks.destroy_node(node) });
        drained &= drain(nodes, pins, most, |_| (), free_node);
        // SAFETY: no snapshot shows a version in the page (S1). All commits up to the page's tag have ended, and only
        // such a commit could stand on a version in the page (V1).
        let free_page = |page| for_snapshots.take(unsafe { blocks.destroy_page(page) });
        drained &= drain(passed_pages, horizon.limits.commits, most, |_| (), free_page);
        drained &= self.collect_unhooks(blocks, worker, horizon, pinned, most);
        drained &= self.bury(blocks, worker, horizon, pinned, most);
        drained & self.collect_buried(blocks, horizon, pinned, most)
    }

    /// Moves on the versions and pages that no snapshot shows any more. They wait a little longer, because a commit
    /// that unlinks versions may stand on such a version (V1): pages wait until the present commits have ended. The
    /// versions wait for pins, since a transaction may hold a replaced record in its read-set. True if no entry is left
    /// below the limit.
    fn pass_snapshots(&mut self, horizon: &Horizon<'_>, most: usize) -> bool {
        let limit = horizon.limits.readers.snapshots();
        let is_below = |tag: Option<Epoch>| tag.is_some_and(|tag| tag < limit);
        if !is_below(self.pages.first_tag()) && !is_below(self.versions.first_tag()) {
            return true;
        }
        // SeqCst: the read of the limit comes before the read of the tag. A pin or a commit that the tag does not wait
        // for sees limits at least as new, and follows no link to an entry that passes here (V1, E3); partners: the
        // heavy fence of the scan, and a commit's fence behind its epoch (C1).
        fence(Ordering::SeqCst);
        let tag = horizon.epochs.now();
        let Self { pages, passed_pages, versions, records, for_pins, for_snapshots, .. } = self;
        for _ in 0..most {
            let Some(page) = pages.pop_below(limit) else { break };
            passed_pages.push(tag, page);
        }
        for _ in 0..most {
            let Some(version) = versions.pop_below(limit) else { break };
            versions.peek_ahead(FETCHED_AHEAD).inspect(|later| later.prefetch());
            for_snapshots.take(version.bytes());
            for_pins.add(version.bytes());
            records.push(tag, version);
        }
        !is_below(pages.first_tag()) && !is_below(versions.first_tag())
    }

    /// Visits, in turn, some of the entries that a snapshot holds back: unlinked entries wait for pins only (V1).
    fn revisit(&mut self, horizon: &Horizon<'_>, most: usize) {
        let has_marks = !(self.versions.is_empty() && self.unhooks.is_empty() && self.unburied.is_empty());
        self.is_revisiting =
            has_marks && horizon.limits.readers.snapshots() < horizon.epochs.served_snapshot();
        if !self.is_revisiting {
            return;
        }
        for _ in 0..most.min(self.versions.len()) {
            self.versions.peek_ahead(FETCHED_AHEAD).inspect(|later| later.prefetch());
            if let Some(version) = self.versions.revisit(RetiredRecord::is_unlinked) {
                self.for_snapshots.take(version.bytes());
                self.add_unlinked(version, horizon.epochs);
            }
        }
        let is_unlinked = |unhook: &Unhook| unhook.record.record().is_unlinked();
        for _ in 0..most.min(self.unhooks.len() + self.unburied.len()) {
            self.unhooks.peek_ahead(FETCHED_AHEAD).inspect(|later| later.record.prefetch());
            let unlinked = self.unhooks.revisit(is_unlinked).or_else(|| self.unburied.revisit(is_unlinked));
            if let Some(unhook) = unlinked {
                self.uncount(&unhook);
                // SAFETY: the record was superseded: the record's tree leads to its successor.
                let record = unsafe { unhook.record.into_retired() };
                self.add_unlinked(record, horizon.epochs);
            }
        }
    }

    /// Unhooks at most `most` of the absent records for which U2 holds. True if no such record is left; false during a
    /// turn (P1).
    fn collect_unhooks(
        &mut self,
        blocks: &mut Blocks,
        worker: &CommitSlot,
        horizon: &Horizon<'_>,
        pinned: Pinned<'_>,
        most: usize,
    ) -> bool {
        let limit = horizon.limits.unhooks;
        let is_below = |tag: Option<Epoch>| tag.is_some_and(|tag| tag < limit);
        if !is_below(self.unhooks.first_tag()) && !is_below(self.unburied.first_tag()) {
            return true;
        }
        // An unhook changes a leaf, and locks a record, so the unhook waits for the end of a turn (P1).
        let _entered = horizon.epochs.enter_index(worker);
        if horizon.gate.has_turn() {
            return false;
        }
        for _ in 0..most {
            let Some(unhook) = self.unhooks.pop_below(limit).or_else(|| self.unburied.pop_below(limit))
            else {
                return true;
            };
            self.unhook_now(unhook, blocks, worker, horizon, pinned);
        }
        false
    }

    /// Runs `work` with memory for index nodes. The nodes that `work` retires become garbage.
    fn with_nodes(&mut self, blocks: &mut Blocks, epochs: &Epochs, work: impl FnOnce(&mut NodeBlocks<'_>)) {
        let (mut retired_bytes, garbage_list) = (0, &mut self.nodes);
        work(&mut NodeBlocks { blocks, garbage_list, epochs, retired_bytes: &mut retired_bytes });
        self.for_pins.add(retired_bytes);
    }

    /// Uncounts an absent record, at the end of its wait.
    fn uncount(&mut self, unhook: &Unhook) {
        self.for_snapshots.take(unhook.bytes());
        self.unhook_bytes -= unhook.bytes();
    }

    /// Buries absent records, the oldest chunk of the list first, down to [`IN_TREES_MAX`] records (U3). True if no
    /// more are left in the trees.
    fn bury(
        &mut self,
        blocks: &mut Blocks,
        worker: &CommitSlot,
        horizon: &Horizon<'_>,
        pinned: Pinned<'_>,
        most: usize,
    ) -> bool {
        let mut left = most.min(BURIALS_PER_COLLECTION);
        while left > 0 && self.has_burials() {
            // A burial changes a leaf, and locks a record, so the burial waits for the end of a turn (P1).
            let _entered = horizon.epochs.enter_index(worker);
            if horizon.gate.has_turn() {
                return false;
            }
            let burials = (self.unhooks.len() - IN_TREES_MAX).min(BURIALS_PER_LOOK).min(left);
            for _ in 0..burials {
                if let Some(unhook) = self.unhooks.pop_below(Epoch::MAX) {
                    self.bury_now(unhook, blocks, worker, horizon, pinned);
                }
            }
            left -= burials;
        }
        !self.has_burials()
    }

    /// Buries a record (U3). A superseded record, and a record with too long a key, is never buried: U2 ends its wait.
    fn bury_now(
        &mut self,
        unhook: Unhook,
        blocks: &mut Blocks,
        worker: &CommitSlot,
        horizon: &Horizon<'_>,
        pinned: Pinned<'_>,
    ) {
        let epochs = horizon.epochs;
        let table = horizon.tables.get(unhook.table).filter(|_| SideIndex::takes(&unhook.key));
        let Some(table) = table else { return self.unburied.push(epochs.now(), unhook) };
        let (mut retired_bytes, garbage_list) = (0, &mut self.nodes);
        let mut nodes = NodeBlocks { blocks, garbage_list, epochs, retired_bytes: &mut retired_bytes };
        let mut unhook = unhook;
        // The record enters before it leaves its tree: a snapshot finds the record in one of the two (U3).
        unhook.enter(table, &mut nodes, pinned);
        // The TID is noted before the record leaves the tree. A commit or a reader that finds no record then sees this
        // delete's TID (U3, N19).
        table.side.raise(unhook.word.tid());
        match take_out(&unhook, &table.tree, worker, epochs, pinned) {
            Some(TakenOut::Removed(removed)) => {
                table.tree.remove_emptied_leaf(&unhook.key, removed, &mut nodes, pinned);
                let is_bare = unhook.record.record().is_without_versions();
                let list = if is_bare { &mut self.buried_bare } else { &mut self.buried };
                list.push(epochs.now(), unhook);
            }
            // A newer record has taken the record's place, and leads to the older versions.
            Some(TakenOut::Superseded) | None => {
                unhook.leave(table, &mut nodes, pinned);
                self.unburied.push(epochs.now(), unhook);
            }
        }
        self.for_pins.add(retired_bytes);
    }

    /// Enters the buried records of a table in its side index: a chunk of the lists in each step, for the first
    /// snapshot that reads the table. Later burials already enter by themselves. False if the lists have no such chunk.
    pub(crate) fn fill_side(
        &mut self,
        table: &TableCore,
        step: usize,
        blocks: &mut Blocks,
        epochs: &Epochs,
        pinned: Pinned<'_>,
    ) -> bool {
        debug_assert!(table.side.has_readers(), "a later burial enters by itself");
        let (mut retired_bytes, garbage_list) = (0, &mut self.nodes);
        let mut nodes = NodeBlocks { blocks, garbage_list, epochs, retired_bytes: &mut retired_bytes };
        // The lists grow at their back. A step after a growth sees the chunk of the step before again, and changes
        // nothing.
        let (with, bare) = (self.buried.chunk_from_back(step), self.buried_bare.chunk_from_back(step));
        let has_chunk = with.is_some() || bare.is_some();
        let waiting = with.into_iter().chain(bare).flatten();
        let of_table = |unhook: &&mut Unhook| unhook.table == table.id && !unhook.is_aside;
        waiting.filter(of_table).for_each(|unhook| unhook.enter(table, &mut nodes, pinned));
        self.for_pins.add(retired_bytes);
        has_chunk
    }

    /// Removes from the side indexes the buried records for which U2 holds, and retires the records. True if no such
    /// record is left.
    fn collect_buried(
        &mut self,
        blocks: &mut Blocks,
        horizon: &Horizon<'_>,
        pinned: Pinned<'_>,
        most: usize,
    ) -> bool {
        for _ in 0..most {
            let EpochLimits { unhooks, bare, .. } = horizon.limits;
            let buried = self.buried.pop_below(unhooks).or_else(|| self.buried_bare.pop_below(bare));
            let Some(unhook) = buried else { return true };
            self.uncount(&unhook);
            let Some(table) = horizon.tables.get(unhook.table) else { continue };
            if let Some(unhooked) = horizon.unhooked {
                unhooked.raise(unhook.word.epoch());
            }
            let mut unhook = unhook;
            self.with_nodes(blocks, horizon.epochs, |nodes| unhook.leave(table, nodes, pinned));
            // SAFETY: no tree leads to the record: its burial took it out of the table's tree, and `leave` out of the
            // side index.
            let record = unsafe { unhook.record.into_retired() };
            self.add_unlinked(record, horizon.epochs);
        }
        false
    }

    /// Unhooks an absent record, once U2 holds: takes the key out of its tree, and makes the record garbage.
    fn unhook_now(
        &mut self,
        unhook: Unhook,
        blocks: &mut Blocks,
        worker: &CommitSlot,
        horizon: &Horizon<'_>,
        pinned: Pinned<'_>,
    ) {
        self.uncount(&unhook);
        let Some(table) = horizon.tables.get(unhook.table) else { return };
        if let Some(unhooked) = horizon.unhooked {
            unhooked.raise(unhook.word.epoch());
        }
        match take_out(&unhook, &table.tree, worker, horizon.epochs, pinned) {
            Some(TakenOut::Removed(removed)) => {
                self.with_nodes(blocks, horizon.epochs, |nodes| {
                    table.tree.remove_emptied_leaf(&unhook.key, removed, nodes, pinned);
                });
                // SAFETY: the record was just removed from the tree.
                let record = unsafe { unhook.record.into_retired() };
                self.add_unlinked(record, horizon.epochs);
            }
            Some(TakenOut::Superseded) => {
                // SAFETY: the record was superseded: the tree leads to its successor.
                let record = unsafe { unhook.record.into_retired() };
                if record.is_unlinked() {
                    self.add_unlinked(record, horizon.epochs);
                } else {
                    self.add_version(horizon.epochs.now(), record);
                }
            }
            None => {}
        }
    }
}

#[cfg(feature = "audit")]
impl Garbage {
    /// Frees all garbage of a database without users.
    ///
    /// # Panics
    /// If the counters of waiting bytes are not zero afterwards (E6).
    pub(crate) fn free_all(&mut self, at_rest: &mut AtRest<'_>) {
        while let Some(unhook) = self.unhooks.pop_below(Epoch::MAX) {
            self.unburied.push(Epoch::ZERO, unhook);
        }
        for list in [&mut self.buried, &mut self.buried_bare] {
            while let Some(unhook) = list.pop_below(Epoch::MAX) {
                self.unburied.push(Epoch::ZERO, unhook);
            }
        }
        while let Some(unhook) = self.unburied.pop_below(Epoch::MAX) {
            self.uncount(&unhook);
            at_rest.free_absent(unhook.record);
        }
        let blocks = &mut at_rest.blocks;
        while let Some(record) = self.records.pop_below(Epoch::MAX) {
            // SAFETY: no thread uses a block of the database any more.
            self.for_pins.take(unsafe { blocks.destroy(record) });
        }
        while let Some(version) = self.versions.pop_below(Epoch::MAX) {
            // SAFETY: no thread uses a block of the database any more.
            self.for_snapshots.take(unsafe { blocks.destroy(version) });
        }
        while let Some(node) = self.nodes.pop_below(Epoch::MAX) {
            // SAFETY: no thread uses a block of the database any more.
            self.for_pins.take(unsafe { blocks.destroy_node(node) });
        }
        for pages in [&mut self.pages, &mut self.passed_pages] {
            while let Some(page) = pages.pop_below(Epoch::MAX) {
                // SAFETY: no thread uses a block of the database any more.
                self.for_snapshots.take(unsafe { blocks.destroy_page(page) });
            }
        }
        let waiting = (self.for_pins.bytes, self.for_snapshots.bytes, self.unhook_bytes, self.len());
        assert_eq!(waiting, (0, 0, 0, 0), "what was freed was counted when it was added (E6)");
    }
}

/// Outcome of [`take_out`].
enum TakenOut {
    /// The record is out of its tree.
    Removed(KeyRemoval),
    /// Another record took the record's place before.
    Superseded,
}

/// The binding of a worker that holds a record's lock outside a commit. The drop unbinds the worker.
struct BoundCleaner<'w>(&'w CommitSlot);

impl Drop for BoundCleaner<'_> {
    fn drop(&mut self) {
        self.0.unbind();
    }
}

/// Takes a record out of its tree, if the record is still the registered absent record (U1). A record superseded in the
/// meantime was left for its registrar to retire, so the record's address was good until now. `None` if the record is
/// latest, but with another word than the registered word.
///
/// The worker is bound while it holds the record's lock (E1): commits that wait for the lock are bound too. The free of
/// memory and the unlink of emptied leaves come after the lock.
fn take_out(
    unhook: &Unhook,
    tree: &RecordTree,
    worker: &CommitSlot,
    epochs: &Epochs,
    pinned: Pinned<'_>,
) -> Option<TakenOut> {
    worker.bind(epochs.now());
    let _bound = BoundCleaner(worker);
    let record = unhook.record.record();
    let word = record.lock();
    if !word.is_latest() {
        record.unlock_with(word);
        return Some(TakenOut::Superseded);
    }
    if word != unhook.word {
        // A placeholder that its transaction has filled cannot be registered. Nothing else changes an absent record
        // that stays latest.
        debug_assert!(false, "an absent record is superseded, never rewritten: {word:?}");
        record.unlock_with(word);
        return None;
    }
    // The mark comes before the removal. A snapshot that then misses the record in the tree may follow the record's
    // versions (U3).
    record.mark_buried();
    // Readers that meet the record now wait for the lock, and then find the record superseded. They look the key up
    // again and find no record.
    // SeqCst: the lock comes before the index changes on every machine (C1).
    fence(Ordering::SeqCst);
    let (unlinked, removed) = tree.take_out(&unhook.key, record, pinned);
    record.unlock_with(word.to_superseded());
    debug_assert_eq!(
        unlinked.becomes(),
        Becomes::AnothersGarbage,
        "an absent record is its registrar's (U1)"
    );
    Some(TakenOut::Removed(removed))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
