//! Recovery's side of the engine: log entries become records again, and the largest TID wins (Silo §4.10, SiloR §5).
//!
//! Entries come from several threads, with the entries of an epoch in any order. A delete leaves a tombstone: an absent
//! record with the delete's TID, which wins over older puts. A tombstone is removed after all logs have passed its
//! epoch (L8). The newest entries come first, so that most older versions are skipped. When tombstones take
//! `REPLAY_WAITING_BYTES_MAX`, the oldest entries come first. So memory grows with the number of rows, and not with the
//! length of the log.
//!
//! A row costs several waits for memory, and each wait is as long as the whole computation for the row. So the writes
//! of a block are looked up in groups with interleaved descents. The records of a group are prefetched before the first
//! write. A checkpoint's entries come in key order, and need neither a descent for each entry nor a comparison of TIDs.
//!
//! In a database with pictures and a loaded picture, the load and each write mark the picture's incomplete pages
//! (`pictures::loaded_pages`). The next picture writes only the marked pages.
//!
//! Invariants:
//! - M4: A recovery ends if the rows exceed the limit of the memory by more than a running database can.
//! - E3: A thread in a block holds a pin. Memory unlinked by another thread in the meantime is freed later.
//!
//! Neighbours: the durability crate calls [`Recoverable::replay`]. `worker` writes the records, `tombstones` has the
//! deletes. `tables::catalog` takes over the trees.

mod tombstones;
mod worker;

use std::collections::HashMap;
use std::sync::Arc as StdArc;

use ensile_base::Epoch;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Arc, AtomicU64, Mutex, Ordering};
use ensile_durability::{CheckpointAmount, DurabilityError, Entry, Recoverable, Refused};
use ensile_epoch::{EpochConfig, Epochs, PinHandle, Pinned};
use ensile_memory::{Memory, MemoryUse};

use crate::error::Error;
use crate::formats::checkpoint_entry;
use crate::formats::log_entry::Writes;
use crate::pictures::loaded_pages::{LoadedMaps, LoadedTablePages};
use crate::record::tid_word::Word;
use crate::record::tree::{RecordInsert, RecordRun, RecordTree};
use crate::tables::catalog::Trees;
use tombstones::{BlockDeletes, Tombstones};
use worker::{GROUP, PendingWrite, ReplayWorker};

/// Bytes of a checkpoint's entry that are no key and no value: TID, and the lengths of entry and key.
const ENTRY_HEADER_BYTES: u64 = 14;
/// Part of a checkpoint's bytes that may be headers of blocks and padding: one of so many.
const PADDING_PART: u64 = 16;
/// Least memory of a row, in bytes: the header of its record, and its place in a full leaf of the index.
const ROW_BYTES_MIN: u64 = 40;

/// A table under recovery.
#[derive(Clone)]
struct ReplayedTable {
    tree: Arc<RecordTree>,
    /// Pages of the loaded picture, if pages are marked.
    pages: Option<StdArc<LoadedTablePages>>,
}

/// Tables after a recovery.
pub(crate) struct RecoveredTables {
    pub(crate) trees: Trees,
    /// Pages of each table in the loaded picture, in a database with pictures.
    pub(crate) pages: Option<LoadedMaps>,
}

/// State of a thread in a block: memory, known tables, and a pin.
struct ReplaySession {
    tables: Vec<(u32, ReplayedTable)>,
    worker: ReplayWorker,
    pin: PinHandle,
}

/// A database under recovery.
pub(crate) struct Replay {
    memory: StdArc<Memory>,
    takes_pictures: bool,
    /// Tables by id. The pages of a picture are announced before any load, so before any session has met the table.
    tables: Mutex<HashMap<u32, ReplayedTable>>,
    #[expect(clippy::vec_box, reason = "taken and given back once per block: as a pointer")]
    sessions: Mutex<Vec<Box<ReplaySession>>>,
    tombstones: Tombstones,
    /// Use of the memory at which a block was refused; `None` while the rows are within the limit.
    excess: Mutex<Option<MemoryUse>>,
    /// Epochs of the replay alone, for reclamation. The epochs advance at each progress report of the durability crate.
    epochs: Epochs,
    /// Number of advances of the epochs.
    ticks: AtomicU64,
}

impl Replay {
    /// Creates a replay. `takes_pictures`: pages of a loaded picture are marked.
    pub(crate) fn new(memory: &StdArc<Memory>, takes_pictures: bool) -> Self {
        let config = EpochConfig { first: Epoch::FIRST, snapshot_interval: std::time::Duration::MAX };
        Self {
            memory: StdArc::clone(memory),
            takes_pictures,
            tables: Mutex::new(HashMap::new()),
            sessions: Mutex::new(Vec::new()),
            tombstones: Tombstones::new(),
            excess: Mutex::new(None),
            epochs: Epochs::new(&config),
            ticks: AtomicU64::new(0),
        }
    }

    /// Refuses a checkpoint whose rows exceed the limit of the memory, before any row is loaded. The estimate is below
    /// the memory of the rows, unless keys have long prefixes in common (M4).
    pub(crate) fn check_estimate(&self, checkpoint: CheckpointAmount) -> Result<(), Error> {
        let CheckpointAmount { entries, bytes } = checkpoint;
        let data = (bytes - bytes / PADDING_PART).saturating_sub(entries * ENTRY_HEADER_BYTES);
        let bytes = data.max(entries * ROW_BYTES_MIN);
        let needed = MemoryUse { bytes, ..self.memory.memory_use() };
        if needed.is_beyond_excess() { Err(Error::too_large_for_memory(needed)) } else { Ok(()) }
    }

    /// Refuses a block if the loaded rows exceed the limit of the memory (M4).
    fn check_memory(&self) -> Result<(), Refused> {
        let memory = self.memory.memory_use();
        if !memory.is_beyond_excess() {
            return Ok(());
        }
        self.excess.lock().get_or_insert(memory);
        Err(Refused { entry: 0, detail: "the rows exceed the limit of the memory".to_owned() })
    }

    /// The reason of a failed step: the limit of the memory, if this replay has refused a block for the limit.
    #[cold]
    pub(crate) fn reason_of(&self, error: DurabilityError) -> Error {
        self.excess.lock().map_or_else(|| error.into(), Error::too_large_for_memory)
    }

    /// Runs `work` in a session without another thread, under the session's pin.
    fn in_session<R>(
        &self,
        work: impl FnOnce(&mut ReplayWorker, &mut Vec<(u32, ReplayedTable)>, Pinned<'_>) -> R,
    ) -> R {
        let free = self.sessions.lock().pop();
        let mut session = free.unwrap_or_else(|| {
            let worker = ReplayWorker::new(self.memory.cache());
            Box::new(ReplaySession { tables: Vec::new(), worker, pin: self.epochs.register_pin() })
        });
        let ReplaySession { tables, worker, pin } = &mut *session;
        let call = pin.begin(self.epochs.now());
        let result = work(worker, tables, call.pin_token());
        drop(call);
        pin.end();
        worker.garbage.collect(&mut worker.blocks, &self.epochs);
        if worker.deletes.len() > 0 {
            self.tombstones.give(std::mem::take(&mut worker.deletes));
        }
        self.sessions.lock().push(session);
        result
    }

    /// Position of a table among the tables known to a worker. An unknown table is added.
    #[inline]
    fn table_at(&self, id: u32, tables: &mut Vec<(u32, ReplayedTable)>, worker: &mut ReplayWorker) -> usize {
        let known = tables.iter().position(|(met, _)| *met == id);
        known.unwrap_or_else(|| {
            tables.push((id, self.table(id, worker)));
            tables.len() - 1
        })
    }

    /// The table of an id. The first call for an id makes an empty table.
    #[cold]
    fn table(&self, id: u32, worker: &mut ReplayWorker) -> ReplayedTable {
        // Called for each thread and table, and for each block of a checkpoint.
        let mut tables = self.tables.lock();
        let new = || {
            let tree = Arc::new(RecordTree::new(&mut worker.nodes(&self.epochs).0));
            ReplayedTable { tree, pages: None }
        };
        tables.entry(id).or_insert_with(new).clone()
    }

    /// Applies the writes of a log block in groups. Fails with the position of the first entry that does not decode.
    fn replay_block(
        &self,
        entries: &[Entry<'_>],
        tables: &mut Vec<(u32, ReplayedTable)>,
        worker: &mut ReplayWorker,
        pinned: Pinned<'_>,
    ) -> Result<(), Refused> {
        let mut group = Vec::with_capacity(GROUP);
        for (at, &Entry { tid, body }) in entries.iter().enumerate() {
            for write in Writes(body) {
                let write = write.map_err(|detail| Refused { entry: at, detail })?;
                let table = self.table_at(write.table, tables, worker);
                group.push(PendingWrite { table, write, tid });
                if group.len() == GROUP {
                    worker.apply(tables, &group, &self.epochs, pinned);
                    group.clear();
                }
            }
        }
        worker.apply(tables, &group, &self.epochs, pinned);
        Ok(())
    }

    /// Inserts the rows of a checkpoint block, which are in key order. Fails for a second row of a key with another
    /// TID.
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
            let record = worker.blocks.create_record(value, Word::for_write(entry.tid));
            let (mut nodes, changes) = worker.nodes(&self.epochs);
            changes.clear();
            let inserted = run.insert(key, record, &mut nodes, changes, pinned);
            if let RecordInsert::Exists(there, record) = inserted {
                worker.blocks.discard(record);
                // A picture may have a row in its page and also beside the pages (N11).
                if there.word().tid() != entry.tid {
                    return Err(refused("its key came before in this checkpoint, with another TID"));
                }
            }
        }
        Ok(())
    }

    /// Removes the tombstones of a due batch.
    fn remove(&self, batch: &BlockDeletes) {
        self.in_session(|worker, tables, pinned| {
            let of_batch: Vec<_> =
                batch.iter().map(|noted| self.table_at(noted.table, tables, worker)).collect();
            let of_batch: Vec<&RecordTree> = of_batch.into_iter().map(|at| &*tables[at].1.tree).collect();
            worker.remove(batch, &of_batch, &self.epochs, pinned);
        });
    }

    /// Advances the epochs: objects retired before become free after the end of the blocks under way.
    fn tick(&self) {
        // Relaxed: a number; the epochs have their own lock.
        let ticks = self.ticks.fetch_add(1, Ordering::Relaxed) + 1;
        // A tick stands for the shortest epoch, without a clock. No thread is bound, and a late thread changes nothing.
        self.epochs.try_advance(ticks.saturating_mul(EPOCH_MICROS_MIN * 1_000));
        self.epochs.scan();
    }

    /// Ends the replay: removes the remaining tombstones, if the last report left any, and returns the tables.
    pub(crate) fn finish(self) -> RecoveredTables {
        self.advance_watermark(Epoch::MAX);
        // No thread is in a block any more: after a tick every pin is newer than any unlink.
        self.tick();
        let sessions = self.sessions.into_inner();
        for mut session in sessions {
            let ReplayWorker { blocks, garbage, .. } = &mut session.worker;
            garbage.collect(blocks, &self.epochs);
            debug_assert!(garbage.is_empty(), "replay leaves no garbage behind");
        }
        let (mut trees, mut pages) = (Trees::new(), LoadedMaps::new());
        for (id, ReplayedTable { tree, pages: own }) in self.tables.into_inner() {
            trees.insert(id, tree);
            let Some(own) = own else { continue };
            let Ok(own) = StdArc::try_unwrap(own) else { unreachable!("no session is left") };
            pages.insert(id, own);
        }
        RecoveredTables { trees, pages: (!pages.is_empty()).then_some(pages) }
    }
}

impl Recoverable for Replay {
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.check_memory()?;
        self.in_session(|worker, tables, pinned| self.replay_block(entries, tables, worker, pinned))
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.check_memory()?;
        self.in_session(|worker, _, pinned| {
            let table = self.table(section, worker);
            self.load_block(entries, &table.tree, worker, pinned)
        })
    }

    fn load_pages(&self, pages: &ensile_durability::LoadedPages<'_>) -> bool {
        if self.takes_pictures {
            let own = LoadedTablePages::new(pages.first_keys, pages.epoch);
            pages.to_move.iter().for_each(|page| own.mark(pages.first_keys[*page]));
            // Announced also for a section without a row: the next picture keeps the section's pages.
            let table = self.in_session(|worker, _, _| self.table(pages.section, worker));
            let named = ReplayedTable { pages: Some(StdArc::new(own)), ..table };
            self.tables.lock().insert(pages.section, named);
        }
        self.takes_pictures
    }

    fn load_displaced(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.load(section, entries)?;
        let pages = self.tables.lock().get(&section).and_then(|table| table.pages.clone());
        if let Some(pages) = pages {
            // The pages on the disk lack these rows (N10).
            let keys = entries.iter().filter_map(|entry| checkpoint_entry::key_of(entry.body));
            keys.for_each(|key| pages.mark(key));
        }
        Ok(())
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        checkpoint_entry::key_of(body)
    }

    fn advance_watermark(&self, epoch: Epoch) {
        self.tick();
        self.tombstones.pass(epoch);
        while let Some(batch) = self.tombstones.take_due() {
            self.remove(&batch);
        }
    }

    fn waiting_bytes(&self) -> u64 {
        self.tombstones.bytes()
    }
}

#[cfg(all(test, not(loom)))]
mod queue_log;
#[cfg(all(test, shuttle))]
mod shuttled;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
