//! Recovery's side of the engine: log entries become records again, the largest TID wins (Silo §4.10, SiloR §5).
//!
//! Entries come from several threads, those of one epoch in any order. A delete leaves a tombstone, an absent record
//! with the delete's TID, that wins over older puts; it is removed once all logs have passed its epoch (L8). The newest
//! entries come first, so that most older versions are skipped, until tombstones take `REPLAY_WAITING_BYTES_MAX`; then
//! the oldest come first. So memory grows with the rows that there are, not with the length of the log.
//!
//! A row costs several waits for memory, each as long as all that is computed for it. So the writes of a block are
//! looked up in groups, whose descents are interleaved; each group's records are on their way before the first is
//! written. A checkpoint's entries come in key order and need neither a descent each nor a comparison of TIDs.
//!
//! Invariants:
//! - E3: a thread holds a pin for as long as it is in a block. What another thread unlinks meanwhile is freed later.
//!
//! Neighbours: the durability crate calls [`Recoverable::replay`]; `worker` writes the records, `tombstones` has the
//! deletes; `tables::catalog` takes over the trees.

mod tombstones;
mod worker;

use std::sync::Arc as StdArc;

use ensile_base::Epoch;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Arc, AtomicU64, Mutex, Ordering};
use ensile_durability::{Entry, Recoverable, Refused};
use ensile_epoch::{EpochConfig, Epochs, PinHandle, Pinned};
use ensile_memory::Memory;

use crate::formats::checkpoint_entry;
use crate::formats::log_entry::Writes;
use crate::record::tree::{RecordInsert, RecordRun, RecordTree};
use crate::record::word::Word;
use crate::tables::catalog::Trees;
use tombstones::{BlockDeletes, Tombstones};
use worker::{GROUP, PendingWrite, ReplayWorker};

/// What a thread takes for as long as it is in a block: memory, the trees that it has met, and a pin.
struct ReplaySession {
    trees: Vec<(u32, Arc<RecordTree>)>,
    worker: ReplayWorker,
    pin: PinHandle,
}

/// A database being recovered.
pub(crate) struct Replay {
    memory: StdArc<Memory>,
    trees: Mutex<Trees>,
    #[expect(clippy::vec_box, reason = "taken and given back once per block: as a pointer")]
    sessions: Mutex<Vec<Box<ReplaySession>>>,
    tombstones: Tombstones,
    /// Replay's own epochs, for reclamation alone. They move each time that the durability crate reports how far replay
    /// is.
    epochs: Epochs,
    /// How often they were moved.
    ticks: AtomicU64,
}

impl Replay {
    pub(crate) fn new(memory: &StdArc<Memory>) -> Self {
        let config = EpochConfig { first: Epoch::FIRST, snapshot_interval: std::time::Duration::MAX };
        Self {
            memory: StdArc::clone(memory),
            trees: Mutex::new(Trees::new()),
            sessions: Mutex::new(Vec::new()),
            tombstones: Tombstones::new(),
            epochs: Epochs::new(&config),
            ticks: AtomicU64::new(0),
        }
    }

    /// Works in a session that no other thread has, under its pin.
    fn in_session<R>(
        &self,
        work: impl FnOnce(&mut ReplayWorker, &mut Vec<(u32, Arc<RecordTree>)>, Pinned<'_>) -> R,
    ) -> R {
        let free = self.sessions.lock().pop();
        let mut session = free.unwrap_or_else(|| {
            let worker = ReplayWorker::new(self.memory.cache());
            Box::new(ReplaySession { trees: Vec::new(), worker, pin: self.epochs.register_pin() })
        });
        let ReplaySession { trees, worker, pin } = &mut *session;
        let call = pin.begin(self.epochs.now());
        let result = work(worker, trees, call.pinned());
        drop(call);
        pin.end();
        worker.garbage.collect(&mut worker.blocks, &self.epochs);
        if worker.deletes.len() > 0 {
            self.tombstones.give(std::mem::take(&mut worker.deletes));
        }
        self.sessions.lock().push(session);
        result
    }

    /// The place of a table's tree among those that a worker has met.
    #[inline]
    fn tree_at(
        &self,
        table: u32,
        trees: &mut Vec<(u32, Arc<RecordTree>)>,
        worker: &mut ReplayWorker,
    ) -> usize {
        let known = trees.iter().position(|(id, _)| *id == table);
        known.unwrap_or_else(|| {
            trees.push((table, self.tree(table, worker)));
            trees.len() - 1
        })
    }

    #[cold]
    fn tree(&self, table: u32, worker: &mut ReplayWorker) -> Arc<RecordTree> {
        // Once for each thread and table, and for each block of a checkpoint.
        let mut trees = self.trees.lock();
        let new = || Arc::new(RecordTree::new(&mut worker.nodes(&self.epochs).0));
        Arc::clone(trees.entry(table).or_insert_with(new))
    }

    fn replay_block(
        &self,
        entries: &[Entry<'_>],
        trees: &mut Vec<(u32, Arc<RecordTree>)>,
        worker: &mut ReplayWorker,
        pinned: Pinned<'_>,
    ) -> Result<(), Refused> {
        let mut group = Vec::with_capacity(GROUP);
        for (at, &Entry { tid, body }) in entries.iter().enumerate() {
            for write in Writes(body) {
                let write = write.map_err(|detail| Refused { entry: at, detail })?;
                let tree = self.tree_at(write.table, trees, worker);
                group.push(PendingWrite { tree, write, tid });
                if group.len() == GROUP {
                    worker.apply(trees, &group, &self.epochs, pinned);
                    group.clear();
                }
            }
        }
        worker.apply(trees, &group, &self.epochs, pinned);
        Ok(())
    }

    fn load_block(
        &self,
        entries: &[Entry<'_>],
        tree: &RecordTree,
        worker: &mut ReplayWorker,
        pinned: Pinned<'_>,
    ) -> Result<(), Refused> {
        let mut run = RecordRun::new(tree);
        for (at, entry) in entries.iter().enumerate() {
            let refused = |detail: &str| Refused { entry: at, detail: detail.to_owned() };
            let (key, value) = checkpoint_entry::decode(entry.body).map_err(refused)?;
            let record = worker.blocks.filled(value, Word::written(entry.tid));
            let (mut nodes, changes) = worker.nodes(&self.epochs);
            changes.clear();
            let inserted = run.insert(key, record, &mut nodes, changes, pinned);
            if let RecordInsert::Exists(there, record) = inserted {
                worker.blocks.discard(record);
                // A picture may have a row in its page, and beside the pages (N11).
                if there.word().tid() != entry.tid {
                    return Err(refused("its key came before in this checkpoint, with another TID"));
                }
            }
        }
        Ok(())
    }

    /// Removes the tombstones of a batch that is due.
    fn remove(&self, batch: &BlockDeletes) {
        self.in_session(|worker, trees, pinned| {
            let of_batch: Vec<_> =
                batch.iter().map(|noted| self.tree_at(noted.table, trees, worker)).collect();
            let of_batch: Vec<&RecordTree> = of_batch.into_iter().map(|at| &*trees[at].1).collect();
            worker.remove(batch, &of_batch, &self.epochs, pinned);
        });
    }

    /// Moves the epochs on: what was retired before is free once the blocks that are under way now have ended.
    fn tick(&self) {
        // Relaxed: a number; the epochs have their own lock.
        let ticks = self.ticks.fetch_add(1, Ordering::Relaxed) + 1;
        // No clock: a tick stands for the shortest epoch. Nobody is bound, and a thread that comes too late changes
        // nothing.
        self.epochs.try_advance(ticks.saturating_mul(EPOCH_MICROS_MIN * 1_000));
        self.epochs.scan();
    }

    /// Ends replay: removes the tombstones that are left, if not all entries were said to be in, and hands the trees
    /// over.
    pub(crate) fn finish(self) -> Trees {
        self.passed(Epoch::MAX);
        // No thread is in a block any more: after a tick every pin is newer than any unlink.
        self.tick();
        let sessions = self.sessions.into_inner();
        for mut session in sessions {
            let ReplayWorker { blocks, garbage, .. } = &mut session.worker;
            garbage.collect(blocks, &self.epochs);
            debug_assert!(garbage.is_empty(), "replay leaves no garbage behind");
        }
        self.trees.into_inner()
    }
}

impl Recoverable for Replay {
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.in_session(|worker, trees, pinned| self.replay_block(entries, trees, worker, pinned))
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.in_session(|worker, _, pinned| {
            let tree = self.tree(section, worker);
            self.load_block(entries, &tree, worker, pinned)
        })
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        checkpoint_entry::key_of(body)
    }

    fn passed(&self, epoch: Epoch) {
        self.tick();
        self.tombstones.pass(epoch);
        while let Some(batch) = self.tombstones.take_due() {
            self.remove(&batch);
        }
    }

    fn waiting(&self) -> u64 {
        self.tombstones.bytes()
    }
}

#[cfg(all(test, not(loom)))]
mod queue_log;
#[cfg(all(test, shuttle))]
mod shuttled;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
