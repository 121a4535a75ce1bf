//! Garbage: what commits leave behind, and when it may go (Silo §4.8, §4.9).
//!
//! | garbage | waits until |
//! |---|---|
//! | index nodes, replaced records | every pin is newer than their unlink (E3) |
//! | preserved versions | no snapshot at or below the superseding epoch is read or served (S1) |
//! | replaced records that serve as versions | the snapshots, then the pins |
//! | absent records | U2: snapshots have passed, `E >= e_d + 2`, `e_d <= D`; then they are unhooked (U1) |
//!
//! Each worker keeps its own and frees a bounded amount between requests.
//!
//! Neighbours: commit adds; workers collect after their commits and when they are idle; `record::blocks` frees.

use ensile_base::Epoch;
use ensile_base::sync::{Ordering, fence};
use ensile_epoch::{CommitSlot, Epochs, GarbageList, Pinned, ReclaimLimits};

use crate::record::blocks::{Blocks, NodeBlock, NodeBlocks, PageBlock};
use crate::record::word::Word;
use crate::record::{Handle, Record};
use crate::shared::gate::Gate;
use crate::tables::Directory;

/// How far ahead of its turn a thing to be freed is fetched from memory: it was last touched long ago.
const FETCHED_AHEAD: usize = 8;

/// An absent record that is to leave the index.
#[derive(Debug)]
pub(crate) struct Unhook {
    pub(crate) table: u32,
    pub(crate) key: Box<[u8]>,
    pub(crate) record: Handle,
    /// The word that the record must still have (U1).
    pub(crate) word: Word,
}

impl Unhook {
    /// Bytes that it keeps from being freed.
    fn bytes(&self, pinned: Pinned<'_>) -> usize {
        self.record.at(pinned).class().bytes() + self.key.len()
    }
}

/// One worker's garbage.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    pub(crate) nodes: GarbageList<NodeBlock>,
    records: GarbageList<Handle>,
    versions: GarbageList<Handle>,
    pages: GarbageList<PageBlock>,
    replaced: GarbageList<Handle>,
    unhooks: GarbageList<Unhook>,
    /// Bytes that wait for pins.
    pub(crate) pinned_bytes: usize,
    /// Bytes that wait for snapshots.
    pub(crate) version_bytes: usize,
}

/// What a collection may rely on.
pub(crate) struct Horizon<'c> {
    pub(crate) limits: ReclaimLimits,
    pub(crate) durable: Epoch,
    pub(crate) epochs: &'c Epochs,
    pub(crate) tables: &'c Directory,
    /// Whose turn it is: nobody unhooks beside a turn (P1).
    pub(crate) gate: &'c Gate,
}

/// Frees at most `most` things of one kind, those that wait below `limit`. True if none of them is left.
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
        garbage_list.upcoming(FETCHED_AHEAD).inspect(|later| fetch(later));
        free(thing);
    }
    false
}

/// What one replaying thread leaves behind: nodes and records that no tree leads to any more.
#[derive(Debug, Default)]
pub(crate) struct ReplayGarbage {
    pub(crate) nodes: GarbageList<NodeBlock>,
    records: GarbageList<Handle>,
    pub(crate) node_bytes: usize,
}

impl ReplayGarbage {
    /// A record that no tree leads to any more: another thread may still look at it.
    pub(crate) fn retire(&mut self, record: Record<'_>, epochs: &Epochs) {
        // SeqCst: the unlink comes before the tag's epoch is read (E3); partner: the heavy fence of the scan.
        fence(Ordering::SeqCst);
        self.records.push(epochs.now(), record.handle());
    }

    /// Frees what no thread of replay can reach any more: every pin is newer than its unlink (E3).
    pub(crate) fn collect(&mut self, blocks: &mut Blocks, epochs: &Epochs) {
        self.collect_below(blocks, epochs.limits().pins);
    }

    /// Frees all of it. Replay is over: the caller has all of it, so no thread is in a block.
    pub(crate) fn collect_all(&mut self, blocks: &mut Blocks) {
        self.collect_below(blocks, Epoch::MAX);
    }

    fn collect_below(&mut self, blocks: &mut Blocks, limit: Epoch) {
        while let Some(record) = self.records.pop_below(limit) {
            // SAFETY: every pin is newer than the record's unlink (E3), or no thread is left; the list held it once.
            unsafe { blocks.destroy(record) };
        }
        while let Some(node) = self.nodes.pop_below(limit) {
            // SAFETY: every pin is newer than the node's unlink (E3), or no thread is left; the list held it once.
            self.node_bytes -= unsafe { blocks.destroy_node(node) };
        }
    }
}

impl Garbage {
    /// A page of versions, the last of which a commit of `epoch` superseded; only snapshot readers can reach them.
    pub(crate) fn page(&mut self, epoch: Epoch, page: PageBlock) {
        self.pages.push(epoch, page);
        self.version_bytes += PageBlock::BYTES;
    }

    /// A version in a block of its own that a commit of `epoch` superseded.
    #[inline]
    pub(crate) fn version(&mut self, epoch: Epoch, version: Handle, bytes: usize) {
        self.versions.push(epoch, version);
        self.version_bytes += bytes;
    }

    /// A record that a commit of `epoch` replaced and that serves as a version.
    pub(crate) fn replaced(&mut self, epoch: Epoch, record: Handle, bytes: usize) {
        self.replaced.push(epoch, record);
        self.version_bytes += bytes;
    }

    /// A record that nothing links to any more. `tag` was read after the unlink and a SeqCst fence (E3).
    pub(crate) fn record(&mut self, tag: Epoch, record: Handle, bytes: usize) {
        self.records.push(tag, record);
        self.pinned_bytes += bytes;
    }

    /// A record that became absent in `epoch`.
    pub(crate) fn unhook(&mut self, epoch: Epoch, unhook: Unhook, pinned: Pinned<'_>) {
        self.version_bytes += unhook.bytes(pinned);
        self.unhooks.push(epoch, unhook);
    }

    /// Whether absent records wait to be unhooked: for D too, which moves without the limits.
    pub(crate) fn has_unhooks(&self) -> bool {
        !self.unhooks.is_empty()
    }

    /// Whether an absent record waits that snapshots with this limit let go: then it waits for D, or for E.
    pub(crate) fn waits_for_epochs(&self, snapshots: Epoch) -> bool {
        self.unhooks.first_tag().is_some_and(|tag| tag < snapshots)
    }

    /// How many things wait.
    pub(crate) fn len(&self) -> usize {
        let versions = self.pages.len() + self.versions.len() + self.replaced.len();
        self.nodes.len() + self.records.len() + versions + self.unhooks.len()
    }

    /// Frees at most `most` things of each kind. `pinned` is a pin of the caller's. True if nothing is left that these
    /// limits let go.
    pub(crate) fn collect(
        &mut self,
        blocks: &mut Blocks,
        worker: &CommitSlot,
        horizon: &Horizon<'_>,
        pinned: Pinned<'_>,
        most: usize,
    ) -> bool {
        let (pins, snapshots) = (horizon.limits.pins, horizon.limits.snapshots);
        let Self { pages, versions, records, nodes, pinned_bytes, version_bytes, .. } = self;
        let fetch = |record: &Handle| record.prefetch(1);
        // SAFETY: the snapshots that could reach a version of the page are over (S1); the list held the page once.
        let free_page = |page| *version_bytes -= unsafe { blocks.destroy_page(page) };
        let mut drained = drain(pages, snapshots, most, |_| (), free_page);
        // SAFETY: the snapshots that could reach the version are over (S1); the list held it once.
        let free_version = |version| *version_bytes -= unsafe { blocks.destroy(version) };
        drained &= drain(versions, snapshots, most, fetch, free_version);
        // SAFETY: every pin is newer than the record's unlink (E3); the list held it once.
        let free_record = |record| *pinned_bytes -= unsafe { blocks.destroy(record) };
        drained &= drain(records, pins, most, fetch, free_record);
        // SAFETY: every pin is newer than the node's unlink (E3); the list held it once.
        let free_node = |node| *pinned_bytes -= unsafe { blocks.destroy_node(node) };
        drained &= drain(nodes, pins, most, |_| (), free_node);
        drained &= self.collect_replaced(horizon, pinned, most);
        drained & self.collect_unhooks(blocks, worker, horizon, pinned, most)
    }

    /// Out of every snapshot's reach, a replaced record still waits for pins: a transaction may hold it in its
    /// read-set. Its tag is read now, long after the unlink.
    fn collect_replaced(&mut self, horizon: &Horizon<'_>, pinned: Pinned<'_>, most: usize) -> bool {
        for _ in 0..most {
            let Some(record) = self.replaced.pop_below(horizon.limits.snapshots) else { return true };
            let bytes = record.at(pinned).class().bytes();
            self.version_bytes -= bytes;
            self.record(horizon.epochs.now(), record, bytes);
        }
        false
    }

    fn collect_unhooks(
        &mut self,
        blocks: &mut Blocks,
        worker: &CommitSlot,
        horizon: &Horizon<'_>,
        pinned: Pinned<'_>,
        most: usize,
    ) -> bool {
        // U2: the tag e_d must be below the snapshots' limit, at most E - 2, and at most D.
        let two_before = horizon.epochs.now().previous();
        let limit = horizon.limits.snapshots.min(two_before).min(horizon.durable.next());
        if self.unhooks.first_tag().is_none_or(|tag| tag >= limit) {
            return true;
        }
        // An unhook changes a leaf, and locks a record: it waits for the end of a turn (P1).
        let _entered = horizon.epochs.enter_index(worker);
        if horizon.gate.has_turn() {
            return false;
        }
        for _ in 0..most {
            let Some(unhook) = self.unhooks.pop_below(limit) else { return true };
            self.unhook_now(&unhook, blocks, horizon, pinned);
        }
        false
    }

    /// U1: unhooks only if the record is still the absent one that was registered. A record that was superseded in
    /// the meantime was left for us to retire: so its address was good until now.
    fn unhook_now(
        &mut self,
        unhook: &Unhook,
        blocks: &mut Blocks,
        horizon: &Horizon<'_>,
        pinned: Pinned<'_>,
    ) {
        self.version_bytes -= unhook.bytes(pinned);
        let Some(table) = horizon.tables.get(unhook.table) else { return };
        let record = unhook.record.at(pinned);
        let word = record.lock();
        if !word.is_latest() {
            record.unlock_with(word);
            let bytes = record.class().bytes();
            self.replaced(horizon.epochs.now(), unhook.record, bytes);
            return;
        }
        if word != unhook.word {
            // A placeholder that its transaction committed into after all cannot be registered; nothing else changes
            // an absent record that stays latest.
            debug_assert!(false, "an absent record is superseded, never rewritten: {word:?}");
            record.unlock_with(word);
            return;
        }
        // Readers that meet the record now wait for the lock and then find it superseded; they look the key up
        // again and find it gone. SeqCst: the lock comes before the index changes on every machine (C1).
        fence(Ordering::SeqCst);
        let mut nodes = NodeBlocks {
            blocks,
            garbage_list: &mut self.nodes,
            epochs: horizon.epochs,
            retired_bytes: &mut self.pinned_bytes,
        };
        table.tree.remove(&unhook.key, record, &mut nodes, pinned);
        record.unlock_with(word.superseded());
        let bytes = record.class().bytes();
        // SeqCst: the unlink comes before the tag's epoch is read (E3).
        fence(Ordering::SeqCst);
        self.record(horizon.epochs.now(), unhook.record, bytes);
    }
}
