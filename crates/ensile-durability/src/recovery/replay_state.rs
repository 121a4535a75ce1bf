//! Recovery under way: the facts read and decided, and the replay, shared by any number of threads.
//!
//! Invariants: L4: `seen` is the largest epoch in the blocks, ignored and torn blocks included. K1, L8:
//! `replay_scheduler` decides the order of loading, replaying, and reporting an epoch as passed.
//!
//! Neighbours: `scan` or a repair fills the recovery; `load` and `replay` carry a thread's step out. The opens of the
//! engine and of the objects bring the threads.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{Condvar, Mutex};
use ensile_disk::Disk;

use super::chain::Chain;
use super::durable_epoch::Verdict;
use super::generation_plan::DecidedGeneration;
use super::load::Load;
use super::read_ahead::ReadBuffers;
use super::replay::{self, Bounds, Counts, LogPiece};
use super::replay_scheduler::{Turn, Turns};
use super::report::{Phase, Progress, RecoveryReport};
use crate::files::manifest::ManifestKeeper;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::SegmentFile;
use crate::log::LogConfig;
use crate::store::Locks;
use crate::store::archive::Archive;
use crate::store::ownership::check_entries;
use crate::{Recoverable, Result};

/// Facts that an open or a repair has read and decided.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// Generations as read; empty for a new database.
    pub(super) generations: Vec<DecidedGeneration>,
    /// Chains of closed generations, and of the open generation.
    pub(super) closed_chains: Vec<Chain>,
    pub(super) open_chains: Vec<Chain>,
    /// Files of unlisted generations, removed first.
    pub(super) unlisted: Vec<SegmentFile>,
    /// Unlisted files that do not prove to be this database's: the files stay (I1).
    pub(super) not_removable: Vec<SegmentFile>,
    /// Files of a backup: `older` goes once the manifest has no older states; `left`, of an unfinished run, first.
    pub(super) older: Vec<SegmentFile>,
    pub(super) left: Vec<SegmentFile>,
    /// Files that a repair gives up, removed after its manifest. Until then the files show the used epochs (L4).
    pub(super) given_up: Vec<SegmentFile>,
    /// Offsets at which a repair cuts files that stay, once the manifest is durable.
    pub(super) cuts: Vec<(SegmentFile, u64)>,
    pub(super) seen: Epoch,
    /// Last E of the previous life, if that life was closed cleanly.
    pub(super) ended: Option<Epoch>,
}

/// Recovery under way.
#[derive(Debug)]
pub struct Recovery {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) keeper: ManifestKeeper,
    pub(super) config: LogConfig,
    pub(super) locks: Locks,
    pub(super) judged: Judged,
    /// Epoch up to which results are proven to be on the medium; D once the tail is written again.
    pub(super) proven: Epoch,
    pub(super) load: Load,
    /// Archive that receives files before their removal. A repair has no archive: a repair ends the archive.
    pub(super) archive: Option<Archive>,
    /// True if the manifest that was read lists the archive's folder.
    pub(super) is_archive_listed: bool,
    pub(super) pieces: Vec<LogPiece>,
    bytes_total: u64,
    shared: Mutex<SharedReplay>,
    /// Signals that another thread's turn has ended or failed.
    turn_ended: Condvar,
    /// Buffers that no thread is using.
    buffers: Mutex<Vec<ReadBuffers>>,
    pub(super) report: RecoveryReport,
}

#[derive(Debug)]
struct SharedReplay {
    turns: Turns,
    /// Bytes of replayed pieces, and counts of their contents.
    bytes: u64,
    counts: Counts,
}

impl Recovery {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        keeper: ManifestKeeper,
        config: LogConfig,
        locks: Locks,
        load: Load,
        judged: Judged,
    ) -> Self {
        Self {
            disk,
            keeper,
            config,
            locks,
            judged,
            proven: load.checkpoint().map_or(Epoch::ZERO, InstalledCheckpoint::durable_min),
            archive: None,
            is_archive_listed: false,
            pieces: Vec::new(),
            bytes_total: 0,
            shared: Mutex::new(SharedReplay {
                turns: Turns::of_files(load.remaining_items()),
                bytes: 0,
                counts: Counts::default(),
            }),
            turn_ended: Condvar::new(),
            load,
            buffers: Mutex::default(),
            report: RecoveryReport { generation: 1, ..RecoveryReport::default() },
        }
    }

    /// Adds a generation with its verdict. The caller adds the oldest generation first.
    pub(super) fn take_generation(&mut self, generation: Generation, chains: Vec<Chain>, verdict: Verdict) {
        let number = generation.number;
        let before = self.judged.generations.last();
        assert!(before.is_none_or(|last| last.generation.number < number), "the oldest come first");
        assert!(verdict.durable.next() >= generation.first, "L5: what is below a generation was durable");
        assert!(generation.durable.is_none_or(|durable| durable == verdict.durable), "L4: decided once");
        let bounds = Bounds { first: generation.first, covered: self.load.low(), durable: verdict.durable };
        let before = self.pieces.len();
        let log_bytes = chains.iter().flat_map(|chain| &chain.links).map(|link| link.end).sum();
        for chain in &chains {
            self.judged.seen = self.judged.seen.max(chain.seen);
            self.pieces.extend(replay::cut(chain, bounds, &mut self.report));
        }
        self.judged.seen = self.judged.seen.max(verdict.durable).max(generation.first);
        self.report.durable_epoch = verdict.durable;
        self.report.generation = number + 1;
        self.report.torn_tails.extend(verdict.torn);
        self.report.unfinished_epochs = verdict.unfinished;
        if generation.durable.is_none() {
            assert!(self.judged.open_chains.is_empty(), "one generation is open");
            self.judged.open_chains = chains;
        } else {
            self.judged.closed_chains.extend(chains);
        }
        self.judged.generations.push(DecidedGeneration {
            generation: Generation { durable: Some(verdict.durable), ..generation },
            has_entries: self.pieces.len() > before,
            log_bytes: Some(log_bytes),
        });
    }

    /// Gives the pieces of all logs and generations their turns, once all generations are added.
    pub(super) fn order_pieces(&mut self) {
        self.bytes_total = self.pieces.iter().map(|piece| piece.bytes).sum();
        let SharedReplay { turns, .. } = self.shared.get_mut();
        turns.order(&mut self.pieces);
    }

    /// Next turn of the calling thread, which waits for others. `take` receives the bytes kept for older entries.
    fn take_turn(&self, target: &dyn Recoverable, take: fn(&mut Turns, u64) -> Turn) -> Turn {
        loop {
            // The state has its own locks, so the question comes before the lock.
            let waiting = target.waiting_bytes();
            let mut shared = self.shared.lock();
            match take(&mut shared.turns, waiting) {
                Turn::Wait => drop(self.turn_ended.wait(shared)),
                turn => return turn,
            }
        }
    }

    /// Checks the manifest's kind of entries, even without an entry in the folder.
    pub(super) fn check_entries(&self, target: &dyn Recoverable) -> Result<()> {
        check_entries(&*self.disk, self.keeper.manifest(), target.entries())
    }

    /// Loads one checkpoint file that no thread has taken. False once all files are loaded, or if a load has failed.
    ///
    /// # Errors
    /// As for [`Recovery::replay_step`].
    pub fn load_step(&self, target: &dyn Recoverable) -> Result<bool> {
        self.check_entries(target)?;
        match self.take_turn(target, |turns, _| turns.take_file()) {
            Turn::Load(file) => self.load_file(file, target),
            _ => Ok(false),
        }
    }

    /// Loads one file of the checkpoint. Once the checkpoint is loaded, replays one piece of the log that no thread has
    /// taken: the newest piece, or the oldest piece if much data [waits](Recoverable::waiting_bytes) for older pieces.
    /// If no piece is left, waits for the pieces of other threads, and then returns `false`.
    ///
    /// # Errors
    /// [`crate::DurabilityError::OtherEntries`]; errors of `target`; damage since the scan. The recovery ends.
    pub fn replay_step(&self, target: &dyn Recoverable) -> Result<bool> {
        self.check_entries(target)?;
        match self.take_turn(target, Turns::take) {
            Turn::Load(file) => self.load_file(file, target),
            Turn::Replay { piece, ahead } => {
                ahead.into_iter().for_each(|later| replay::ask_for(&*self.disk, &self.pieces[later]));
                self.replay_piece(&self.pieces[piece], target)
            }
            Turn::Ended => {
                // Each thread reports the end: the state divides its remaining work among the threads.
                target.advance_watermark(Epoch::MAX);
                Ok(false)
            }
            Turn::Wait | Turn::Failed => Ok(false),
        }
    }

    /// Carries out the turn [`Turn::Load`]. Returns true: another turn may follow.
    fn load_file(&self, file: usize, target: &dyn Recoverable) -> Result<bool> {
        let turn = TurnUnderWay { recovery: self, is_done: false };
        self.load.load(file, &*self.disk, target)?;
        turn.end(|shared| shared.turns.record_load());
        Ok(true)
    }

    /// Carries out the turn [`Turn::Replay`], and tells the state the new watermark. Returns true: go on.
    fn replay_piece(&self, piece: &LogPiece, target: &dyn Recoverable) -> Result<bool> {
        let turn = TurnUnderWay { recovery: self, is_done: false };
        let mut buffers = self.buffers.lock().pop().unwrap_or_default();
        let counts = replay::replay(&*self.disk, piece, &mut buffers, target)?;
        self.buffers.lock().push(buffers);
        let watermark = turn.end(|shared| {
            shared.bytes += piece.bytes;
            shared.counts.add(counts);
            shared.turns.record_replay(piece.oldest)
        });
        if watermark < Epoch::MAX {
            target.advance_watermark(watermark);
        }
        Ok(true)
    }

    pub(super) fn is_replayed(&self) -> bool {
        self.shared.lock().turns.has_ended()
    }

    /// Progress of the current phase. `elapsed` is the caller's time since the beginning of that phase.
    #[must_use]
    pub fn progress(&self, elapsed: Duration) -> Progress {
        let (phase, bytes_done, bytes_total) = if self.load.remaining_items() == 0 {
            (Phase::Replay, self.shared.lock().bytes, self.bytes_total)
        } else {
            (Phase::Load, self.load.loaded_totals().0, self.load.bytes_total())
        };
        Progress { phase, bytes_done, bytes_total, elapsed }
    }

    /// Final report; the next life begins at `first`.
    pub(super) fn final_report(&mut self, first: Epoch) -> RecoveryReport {
        assert!(first > self.report.durable_epoch, "L4: epochs never come twice");
        let mut report = std::mem::take(&mut self.report);
        report.first_epoch = first;
        report.checkpoint =
            self.load.checkpoint().map(|checkpoint| (checkpoint.redo_epoch(), checkpoint.durable_min()));
        (report.checkpoint_bytes, report.checkpoint_entries) = self.load.loaded_totals();
        let SharedReplay { bytes, counts, .. } = self.shared.get_mut();
        (report.bytes, report.blocks, report.entries) = (*bytes, counts.blocks, counts.entries);
        report.ignored_entries += counts.ignored;
        report.covered_entries += counts.covered;
        report
    }
}

/// Turn of a thread. The drop wakes the waiting threads on every path.
struct TurnUnderWay<'r> {
    recovery: &'r Recovery,
    is_done: bool,
}

impl TurnUnderWay<'_> {
    /// Ends a turn that was carried out. `change` records the turn under the lock.
    fn end<T>(mut self, change: impl FnOnce(&mut SharedReplay) -> T) -> T {
        self.is_done = true;
        change(&mut self.recovery.shared.lock())
    }
}

impl Drop for TurnUnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.recovery.shared.lock().turns.record_failure();
        }
        self.recovery.turn_ended.notify_all();
    }
}
