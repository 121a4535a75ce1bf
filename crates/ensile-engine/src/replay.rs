//! Recovery's side of the engine: log entries become records again, the largest TID wins (Silo §4.10, SiloR §5).
//!
//! Entries come in any order and from several threads. A delete leaves a tombstone, an absent record with the
//! delete's TID, that wins over older puts until replay ends; then tombstones are taken out.
//!
//! Neighbours: the durability crate calls [`Recoverable::replay`]; `catalog` takes over the trees.

use std::collections::HashMap;
use std::sync::Arc as StdArc;

use ensile_base::planted::{Bug, is_planted};
use ensile_base::sync::{Arc, Mutex, Ordering, fence};
use ensile_base::{Epoch, Tid};
use ensile_durability::{Entry, Recoverable, Refused};
use ensile_epoch::{EpochConfig, Epochs, Limbo, Pinned};
use ensile_index::{Insert, Masstree, NodeChanges};
use ensile_memory::Memory;

use crate::record::Handle;
use crate::record::blocks::{Blocks, NodeBlock, NodeBlocks};
use crate::record::word::Word;
use crate::transaction::log_entry::{LoggedWrite, Writes};

/// One replaying thread's memory and what it leaves for the end.
struct Worker {
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

    fn tree(&self, table: u32, worker: &mut Worker) -> Arc<Masstree> {
        let known = self.trees.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(&table).cloned();
        known.unwrap_or_else(|| {
            let mut trees = self.trees.write().unwrap_or_else(std::sync::PoisonError::into_inner);
            let tree = trees
                .entry(table)
                .or_insert_with(|| Arc::new(Masstree::new(&mut worker.nodes(&self.epochs).0)));
            Arc::clone(tree)
        })
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
        let result = entries.iter().enumerate().try_for_each(|(at, entry)| {
            Writes(entry.body).try_for_each(|write| {
                let write = write.map_err(|detail| Refused { entry: at, detail })?;
                let tree = self.tree(write.table, &mut worker);
                worker.apply(&tree, &write, entry.tid, &self.epochs);
                Ok(())
            })
        });
        self.give_worker(worker);
        result
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut worker = self.take_worker();
        let tree = self.tree(section, &mut worker);
        let result = entries.iter().enumerate().try_for_each(|(at, entry)| {
            let (key, value) = checkpointed(entry.body).map_err(|detail| Refused { entry: at, detail })?;
            let write = LoggedWrite { table: section, key, value: Some(value) };
            worker.apply(&tree, &write, entry.tid, &self.epochs);
            Ok(())
        });
        self.give_worker(worker);
        result
    }
}

/// Key and value of a checkpoint entry: `key length u16 | key | value`, little-endian.
fn checkpointed(body: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let (length, rest) = body.split_first_chunk::<2>().ok_or("a checkpoint entry has no key length")?;
    let length = usize::from(u16::from_le_bytes(*length));
    rest.split_at_checked(length).ok_or_else(|| "a checkpoint entry ends in its key".to_owned())
}

impl Worker {
    fn nodes<'w>(&'w mut self, epochs: &'w Epochs) -> (NodeBlocks<'w>, &'w mut NodeChanges) {
        let Self { blocks, limbo, retired_bytes, changes, .. } = self;
        (NodeBlocks { blocks, limbo, epochs, retired_bytes }, changes)
    }

    /// Applies one write if it is newer than what the key has.
    fn apply(&mut self, tree: &Masstree, write: &LoggedWrite<'_>, tid: Tid, epochs: &Epochs) {
        let pinned = crate::record::blocks::sole_owner(tree);
        loop {
            let record = self.record_of(tree, write, epochs, pinned).at(pinned);
            let before = record.lock();
            if !before.is_latest() {
                record.unlock_with(before);
                continue;
            }
            if tid <= before.tid() && !is_planted(Bug::OlderReplayed) {
                record.unlock_with(before);
                return;
            }
            // Release: the lock is seen before the data stores that follow (C5); partner: the readers' Acquire fence.
            fence(Ordering::Release);
            match write.value {
                None if is_planted(Bug::DeleteLeavesNoTombstone) && before.is_placeholder() => {
                    record.unlock_with(before);
                }
                None => {
                    record.unlock_with(Word::deleted(tid));
                    self.tombstones.push(Tombstone { table: write.table, key: write.key.into(), tid });
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
            return;
        }
    }

    fn record_of(
        &mut self,
        tree: &Masstree,
        write: &LoggedWrite<'_>,
        epochs: &Epochs,
        pinned: Pinned<'_>,
    ) -> Handle {
        let placeholder = self.blocks.placeholder(write.value.map_or(0, <[u8]>::len));
        self.changes.clear();
        let (mut nodes, changes) = self.nodes(epochs);
        match tree.insert_if_absent(write.key, placeholder.value(), &mut nodes, changes, pinned) {
            Insert::Inserted => placeholder,
            Insert::Exists(value) => {
                self.blocks.destroy(placeholder);
                Handle::from_value(value)
            }
        }
    }

    /// Takes a tombstone out of the index if it is still what its key has.
    fn bury(&mut self, tree: &Masstree, tombstone: &Tombstone, epochs: &Epochs, pinned: Pinned<'_>) {
        let ensile_index::Lookup::Found(value) = tree.get(&tombstone.key, pinned) else { return };
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
