//! Recovery's side of the engine: log entries become records again, the largest TID wins (Silo §4.10, SiloR §5).
//!
//! Entries come in any order and from several threads. A delete leaves a tombstone, an absent record with the
//! delete's TID, that wins over older puts until replay ends; then tombstones are taken out.
//!
//! A row costs several waits for memory, each as long as all that is computed for it. So the writes of a block are
//! looked up in groups, whose descents are interleaved; each group's records are on their way before the first is
//! written. A checkpoint's entries come in key order and need neither a descent each nor a comparison of TIDs.
//!
//! Neighbours: the durability crate calls [`Recoverable::replay`]; `catalog` takes over the trees.

use std::collections::HashMap;
use std::sync::Arc as StdArc;

use ensile_base::planted::{Bug, is_planted};
use ensile_base::sync::{Arc, Mutex, Ordering, fence};
use ensile_base::{Epoch, Tid};
use ensile_durability::{Entry, Recoverable, Refused};
use ensile_epoch::{EpochConfig, Epochs, Limbo, Pinned};
use ensile_index::{Gap, Insert, Lookup, Masstree, NodeChanges, OrderedInserts, Place, Probe};
use ensile_memory::Memory;

use crate::record::blocks::{Blocks, NodeBlock, NodeBlocks};
use crate::record::word::Word;
use crate::record::{HEADER_BYTES, Handle, Record};
use crate::transaction::log_entry::{LoggedWrite, Writes};

/// Writes looked up together: enough for the descents to overlap from one to the next, few enough that all that they
/// asked for stays in the caches until it is used.
const GROUP: usize = 64;
/// Bytes of a record that are asked for: behind these the processor sees the pattern by itself.
const PREFETCHED_BYTES_MAX: usize = 768;

/// One replaying thread's memory and what it leaves for the end.
struct Worker {
    /// The trees that it has met, to find them without a shared lock.
    trees: Vec<(u32, Arc<Masstree>)>,
    blocks: Blocks,
    limbo: Limbo<NodeBlock>,
    retired_bytes: usize,
    changes: NodeChanges,
    replaced: Vec<Handle>,
    tombstones: Vec<Tombstone>,
}

struct Tombstone {
    table: u32,
    key: Box<[u8]>,
    tid: Tid,
}

/// The trees of all tables, by id.
pub(crate) type Trees = HashMap<u32, Arc<Masstree>>;

/// A database being recovered.
pub(crate) struct Replay {
    memory: StdArc<Memory>,
    trees: std::sync::RwLock<Trees>,
    #[expect(clippy::vec_box, reason = "taken and given back once per entry: as a pointer")]
    workers: Mutex<Vec<Box<Worker>>>,
    /// Nothing is freed before replay ends, so its epochs stand still.
    epochs: Epochs,
}

impl Replay {
    pub(crate) fn new(memory: &StdArc<Memory>) -> Self {
        let config = EpochConfig { first: Epoch::FIRST, snapshot_interval: std::time::Duration::MAX };
        Self {
            memory: StdArc::clone(memory),
            trees: std::sync::RwLock::default(),
            workers: Mutex::new(Vec::new()),
            epochs: Epochs::new(&config),
        }
    }

    fn take_worker(&self) -> Box<Worker> {
        let idle = self.workers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| {
            Box::new(Worker {
                trees: Vec::new(),
                blocks: Blocks::new(self.memory.cache()),
                limbo: Limbo::default(),
                retired_bytes: 0,
                changes: NodeChanges::new(),
                replaced: Vec::new(),
                tombstones: Vec::new(),
            })
        })
    }

    fn give_worker(&self, worker: Box<Worker>) {
        self.workers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(worker);
    }

    /// The place of a table's tree among those that a worker has met.
    #[inline]
    fn tree_at(&self, table: u32, trees: &mut Vec<(u32, Arc<Masstree>)>, worker: &mut Worker) -> usize {
        let known = trees.iter().position(|(id, _)| *id == table);
        known.unwrap_or_else(|| {
            trees.push((table, self.tree(table, worker)));
            trees.len() - 1
        })
    }

    #[cold]
    fn tree(&self, table: u32, worker: &mut Worker) -> Arc<Masstree> {
        let known = self.trees.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(&table).cloned();
        known.unwrap_or_else(|| {
            let mut trees = self.trees.write().unwrap_or_else(std::sync::PoisonError::into_inner);
            let new = || Arc::new(Masstree::new(&mut worker.nodes(&self.epochs).0));
            Arc::clone(trees.entry(table).or_insert_with(new))
        })
    }

    fn replay_block(
        &self,
        entries: &[Entry<'_>],
        trees: &mut Vec<(u32, Arc<Masstree>)>,
        worker: &mut Worker,
    ) -> Result<(), Refused> {
        let mut group = Vec::with_capacity(GROUP);
        for (at, &Entry { tid, body }) in entries.iter().enumerate() {
            for write in Writes(body) {
                let write = write.map_err(|detail| Refused { entry: at, detail })?;
                let tree = self.tree_at(write.table, trees, worker);
                group.push(Pending { tree, write, tid });
                if group.len() == GROUP {
                    worker.apply(trees, &group, &self.epochs);
                    group.clear();
                }
            }
        }
        worker.apply(trees, &group, &self.epochs);
        Ok(())
    }

    fn load_block(&self, entries: &[Entry<'_>], tree: &Masstree, worker: &mut Worker) -> Result<(), Refused> {
        let pinned = crate::record::blocks::sole_owner(tree);
        let mut run = OrderedInserts::new(tree);
        for (at, entry) in entries.iter().enumerate() {
            let refused = |detail: &str| Refused { entry: at, detail: detail.to_owned() };
            let (key, value) = checkpointed(entry.body).map_err(refused)?;
            let record = worker.blocks.filled(value, Word::written(entry.tid));
            let (mut nodes, changes) = worker.nodes(&self.epochs);
            changes.clear();
            if let Insert::Exists(_) = run.insert(key, record.value(), &mut nodes, changes, pinned) {
                return Err(refused("its key came before in this checkpoint"));
            }
        }
        Ok(())
    }

    /// Ends replay: takes tombstones out, frees what it replaced, hands the trees over.
    pub(crate) fn finish(self) -> Trees {
        let trees = self.trees.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let workers = self.workers.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let pinned = crate::record::blocks::sole_owner(&trees);
        for mut worker in workers {
            for tombstone in std::mem::take(&mut worker.tombstones) {
                if let Some(tree) = trees.get(&tombstone.table) {
                    worker.bury(tree, &tombstone, &self.epochs, pinned);
                }
            }
            let Worker { blocks, limbo, replaced, .. } = &mut *worker;
            for record in replaced.drain(..) {
                blocks.destroy(record);
            }
            for node in limbo.drain_all() {
                blocks.destroy_node(node);
            }
        }
        trees
    }
}

impl Recoverable for Replay {
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut worker = self.take_worker();
        let mut trees = std::mem::take(&mut worker.trees);
        let result = self.replay_block(entries, &mut trees, &mut worker);
        worker.trees = trees;
        self.give_worker(worker);
        result
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut worker = self.take_worker();
        let tree = self.tree(section, &mut worker);
        let result = self.load_block(entries, &tree, &mut worker);
        self.give_worker(worker);
        result
    }
}

/// Key and value of a checkpoint entry: `key length u16 | key | value`, little-endian.
pub(crate) fn checkpointed(body: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let (length, rest) = body.split_first_chunk::<2>().ok_or("a checkpoint entry has no key length")?;
    let length = usize::from(u16::from_le_bytes(*length));
    rest.split_at_checked(length).ok_or("a checkpoint entry ends in its key")
}

/// A write that waits for its group.
struct Pending<'b> {
    /// Place of its tree among the worker's.
    tree: usize,
    write: LoggedWrite<'b>,
    tid: Tid,
}

impl Pending<'_> {
    /// Bytes of a record that is written for it.
    fn record_bytes(&self) -> usize {
        HEADER_BYTES + self.write.value.map_or(0, <[u8]>::len)
    }
}

impl Worker {
    fn nodes<'w>(&'w mut self, epochs: &'w Epochs) -> (NodeBlocks<'w>, &'w mut NodeChanges) {
        let Self { blocks, limbo, retired_bytes, changes, .. } = self;
        (NodeBlocks { blocks, limbo, epochs, retired_bytes }, changes)
    }

    /// Applies a group of writes, each if it is newer than what its key has.
    fn apply(&mut self, trees: &[(u32, Arc<Masstree>)], group: &[Pending<'_>], epochs: &Epochs) {
        if group.is_empty() {
            return;
        }
        let pinned = crate::record::blocks::sole_owner(trees);
        let probes = group.iter().enumerate().map(|(at, pending)| Probe {
            tree: &trees[pending.tree].1,
            key: pending.write.key,
            label: at,
        });
        let mut places = [Place::Found(0); GROUP];
        Masstree::place_batch(probes, pinned, &mut |at, place| {
            if let Place::Found(value) = place {
                let bytes = group[at].record_bytes().min(PREFETCHED_BYTES_MAX);
                Handle::from_value(value).prefetch_exactly(bytes);
            }
            places[at] = place;
        });
        for (pending, place) in group.iter().zip(&places) {
            let record = match place {
                Place::Found(value) => Some(Handle::from_value(*value)),
                Place::Gap(gap) => self.insert(gap, pending, epochs, pinned),
            };
            if let Some(record) = record {
                self.renew(&trees[pending.tree].1, record, pending, pinned);
            }
        }
    }

    /// Inserts the record of a key that had none. If it has one by now, that one.
    fn insert<'p>(
        &mut self,
        gap: &Gap<'p, 'p>,
        pending: &Pending<'_>,
        epochs: &Epochs,
        pinned: Pinned<'p>,
    ) -> Option<Handle> {
        let word = match pending.write.value {
            Some(_) => Word::written(pending.tid),
            None if is_planted(Bug::DeleteLeavesNoTombstone) => return None,
            None => Word::deleted(pending.tid),
        };
        let record = self.blocks.filled(pending.write.value.unwrap_or_default(), word);
        let (mut nodes, changes) = self.nodes(epochs);
        changes.clear();
        match gap.insert(record.value(), &mut nodes, changes, pinned) {
            Insert::Inserted => {
                if pending.write.value.is_none() {
                    self.bury_later(pending);
                }
                None
            }
            Insert::Exists(value) => {
                self.blocks.destroy(record);
                Some(Handle::from_value(value))
            }
        }
    }

    /// Applies a write to its key's record if it is newer.
    fn renew(&mut self, tree: &Masstree, mut found: Handle, pending: &Pending<'_>, pinned: Pinned<'_>) {
        loop {
            let record = found.at(pinned);
            // TIDs only grow, and a record is superseded by a larger one: most old versions end here, without a lock.
            if pending.tid <= record.word().tid() && !is_planted(Bug::OlderReplayed) {
                return;
            }
            let before = record.lock();
            if before.is_latest() {
                return self.renew_locked(tree, record, before, pending, pinned);
            }
            record.unlock_with(before);
            let Lookup::Found(value) = tree.get(pending.write.key, pinned) else {
                unreachable!("replay takes no key out")
            };
            found = Handle::from_value(value);
        }
    }

    fn renew_locked(
        &mut self,
        tree: &Masstree,
        record: Record<'_>,
        before: Word,
        pending: &Pending<'_>,
        pinned: Pinned<'_>,
    ) {
        let &Pending { write, tid, .. } = pending;
        if tid <= before.tid() && !is_planted(Bug::OlderReplayed) {
            record.unlock_with(before);
            return;
        }
        // Release: the lock is seen before the data stores that follow (C5); partner: the readers' Acquire fence.
        fence(Ordering::Release);
        match write.value {
            None => {
                record.unlock_with(Word::deleted(tid));
                self.bury_later(pending);
            }
            Some(value) if record.fits(value.len()) => {
                record.overwrite(value);
                record.unlock_with(Word::written(tid));
            }
            Some(value) => {
                let new = self.blocks.filled(value, Word::written(tid));
                let replaced = tree.replace(write.key, record.handle().value(), new.value(), pinned);
                assert!(replaced, "the index maps a key to its latest record");
                record.unlock_with(before.superseded());
                // Another thread may be waiting for this record's lock: freed when replay ends.
                self.replaced.push(record.handle());
            }
        }
    }

    fn bury_later(&mut self, pending: &Pending<'_>) {
        let &Pending { write, tid, .. } = pending;
        self.tombstones.push(Tombstone { table: write.table, key: write.key.into(), tid });
    }

    /// Takes a tombstone out of the index if it is still what its key has.
    fn bury(&mut self, tree: &Masstree, tombstone: &Tombstone, epochs: &Epochs, pinned: Pinned<'_>) {
        let Lookup::Found(value) = tree.get(&tombstone.key, pinned) else { return };
        let record = Handle::from_value(value);
        if record.at(pinned).word() != Word::deleted(tombstone.tid) {
            return;
        }
        let (mut nodes, _) = self.nodes(epochs);
        let removed = tree.remove(&tombstone.key, value, &mut nodes, pinned);
        assert!(removed, "nobody else changes the index now");
        self.blocks.destroy(record);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
