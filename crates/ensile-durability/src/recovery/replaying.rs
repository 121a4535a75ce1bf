//! A recovery under way: what was read and decided, and the replay, which any number of threads share.
//!
//! Invariants:
//! - L4: `seen` is the largest epoch in any block, ignored and torn ones included: the next generation begins above it.
//! - K1: every file of the checkpoint is loaded before an entry of the log is replayed.
//! - L8: the state hears that an epoch has passed only when no piece with an entry below it is left.
//!
//! Neighbours: `scan` fills it, a repair too; `load`, `turns`, `watermark` and `replay` have the parts of the replay;
//! `finish` makes the decision durable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Ordering};
use ensile_disk::Disk;

use super::chain::Chain;
use super::load::{Load, LoadStep};
use super::progress::{Phase, Progress};
use super::reading::BufferPool;
use super::replay::{self, Bounds};
use super::report::RecoveryReport;
use super::turns::{self, Turns};
use super::verdict::Verdict;
use super::watermark::Watermark;
use crate::log::LogConfig;
use crate::store::Locks;
use crate::store::manifest::{Generation, ManifestKeeper};
use crate::store::names::SegmentFile;
use crate::{DurabilityError, Recoverable};

/// A recovery under way.
#[derive(Debug)]
pub struct Recovery {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) keeper: ManifestKeeper,
    pub(super) config: LogConfig,
    pub(super) locks: Locks,
    /// As read; empty for a new database.
    pub(super) generations: Vec<Generation>,
    /// Numbers of generations with entries that count.
    pub(super) with_entries: Vec<u64>,
    /// Bytes of log of each generation that was read; none in a repair, which merges nothing.
    pub(super) log_bytes: BTreeMap<u64, u64>,
    /// Chains of all generations, and of the open one.
    pub(super) closed_chains: Vec<Chain>,
    pub(super) open_chains: Vec<Chain>,
    /// Files of no listed generation, removed first.
    pub(super) unlisted: Vec<SegmentFile>,
    /// Files that a repair gives up: removed once the manifest no longer lists them, or says that they are discarded.
    /// Until then they show which epochs were used (L4).
    pub(super) given_up: Vec<SegmentFile>,
    /// Where a repair cuts files that stay, once the manifest is durable.
    pub(super) cuts: Vec<(SegmentFile, u64)>,
    pub(super) seen: Epoch,
    /// The last E of the life before, if it was closed cleanly.
    pub(super) ended: Option<Epoch>,
    /// What is recovered is on the medium up to this epoch; up to D once what is not proven was written again.
    pub(super) proven: Epoch,
    pub(super) load: Load,
    pub(super) turns: Turns,
    pub(super) watermark: Watermark,
    pub(super) bytes_total: u64,
    pub(super) buffers: BufferPool,
    pub(super) done: Done,
    pub(super) report: RecoveryReport,
}

#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) bytes: AtomicU64,
    pub(super) blocks: AtomicU64,
    pub(super) entries: AtomicU64,
    pub(super) ignored: AtomicU64,
    pub(super) covered: AtomicU64,
}

impl Recovery {
    /// Of a checkpoint and of no generation yet.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        keeper: ManifestKeeper,
        config: LogConfig,
        locks: Locks,
        load: Load,
    ) -> Self {
        Self {
            disk,
            keeper,
            config,
            locks,
            generations: Vec::new(),
            with_entries: Vec::new(),
            log_bytes: BTreeMap::new(),
            closed_chains: Vec::new(),
            open_chains: Vec::new(),
            unlisted: Vec::new(),
            given_up: Vec::new(),
            ended: None,
            proven: load.checkpoint().map_or(Epoch::ZERO, |checkpoint| checkpoint.high),
            cuts: Vec::new(),
            seen: load.checkpoint().map_or(Epoch::ZERO, |checkpoint| checkpoint.high),
            bytes_total: 0,
            load,
            turns: Turns::default(),
            watermark: Watermark::default(),
            buffers: BufferPool::default(),
            done: Done::default(),
            report: RecoveryReport { generation: 1, ..RecoveryReport::default() },
        }
    }

    /// Takes the verdict over a generation, oldest first.
    pub(super) fn take_generation(&mut self, generation: Generation, chains: Vec<Chain>, verdict: Verdict) {
        let number = generation.number;
        assert!(self.generations.last().is_none_or(|last| last.number < number), "the oldest come first");
        assert!(verdict.durable.next() >= generation.first, "L5: what is below a generation was durable");
        assert!(
            generation.durable.is_none_or(|durable| durable == verdict.durable),
            "L4: it was decided once"
        );
        let bounds = Bounds { first: generation.first, covered: self.load.low(), durable: verdict.durable };
        let mut pieces = Vec::new();
        self.log_bytes
            .insert(number, chains.iter().flat_map(|chain| &chain.links).map(|link| link.end).sum());
        for chain in &chains {
            self.seen = self.seen.max(chain.seen);
            pieces.extend(replay::cut(chain, bounds, &mut self.report));
        }
        if !pieces.is_empty() {
            self.with_entries.push(number);
        }
        self.bytes_total += pieces.iter().map(|piece| piece.bytes).sum::<u64>();
        self.turns.add(pieces);
        self.seen = self.seen.max(verdict.durable).max(generation.first);
        self.report.durable_epoch = verdict.durable;
        self.report.generation = number + 1;
        self.report.torn_tails.extend(verdict.torn);
        self.report.unfinished_epochs = verdict.unfinished;
        if generation.durable.is_none() {
            assert!(self.open_chains.is_empty(), "one generation is open");
            self.open_chains = chains;
        } else {
            self.closed_chains.extend(chains);
        }
        self.generations.push(Generation { durable: Some(verdict.durable), ..generation });
    }

    /// Gives the pieces of all logs and generations their turns.
    pub(super) fn order_pieces(&mut self) {
        self.turns.order();
        #[cfg(feature = "experiments")]
        self.turns.limit_waiting(self.config.replay_waiting_bytes_max);
        self.turns.pieces().iter().for_each(|piece| self.watermark.add(piece.oldest));
    }

    /// Loads one file of the checkpoint that nobody has taken. `false` once all of them are loaded, or one cannot be.
    ///
    /// # Errors
    /// As [`Recovery::replay_step`].
    pub fn load_step(&self, target: &dyn Recoverable) -> Result<bool, DurabilityError> {
        Ok(self.load.step(&*self.disk, target)? == LoadStep::Loaded)
    }

    /// Loads one file of the checkpoint, or, once all of it is loaded, replays one piece of the log that nobody has
    /// taken: the newest, or the oldest where much [waits](Recoverable::waiting) for older ones. When none is left,
    /// waits for those that other threads are at; `false` then.
    ///
    /// # Errors
    /// As `target` says, or damage that was not there a moment ago. The recovery cannot be finished then.
    pub fn replay_step(&self, target: &dyn Recoverable) -> Result<bool, DurabilityError> {
        match self.load.step(&*self.disk, target)? {
            LoadStep::Loaded => return Ok(true),
            LoadStep::Failed => return Ok(false),
            LoadStep::Ended => {}
        }
        let Some(turns::PieceTurn { piece, ahead }) = self.turns.take(target) else {
            if self.watermark.wait_for_end() {
                // Each thread says so: what the state has left to do is work for all of them.
                target.passed(Epoch::MAX);
            }
            return Ok(false);
        };
        assert!(self.load.has_ended(), "K1: the checkpoint is loaded before the log is replayed");
        let under_way = self.watermark.begin(piece.oldest);
        ahead.into_iter().for_each(|later| replay::ask_for(&*self.disk, later));
        let mut buffers = self.buffers.take();
        let counts = replay::replay(&*self.disk, piece, &mut buffers, target)?;
        self.buffers.give(buffers);
        let add = |counter: &AtomicU64, count| {
            // Relaxed: counts for people, read after the threads were joined or for progress only.
            counter.fetch_add(count, Ordering::Relaxed);
        };
        add(&self.done.bytes, piece.bytes);
        add(&self.done.blocks, counts.blocks);
        add(&self.done.entries, counts.entries);
        add(&self.done.ignored, counts.ignored);
        add(&self.done.covered, counts.covered);
        let watermark = under_way.end();
        if watermark < Epoch::MAX {
            target.passed(watermark);
        }
        Ok(true)
    }

    /// How far it is. The caller says how long this phase has run.
    #[must_use]
    pub fn progress(&self, elapsed: Duration) -> Progress {
        if !self.load.has_ended() {
            let bytes_done = self.load.done().0;
            return Progress {
                phase: Phase::Load,
                bytes_done,
                bytes_total: self.load.bytes_total(),
                elapsed,
            };
        }
        // Relaxed: for people.
        let bytes_done = self.done.bytes.load(Ordering::Relaxed);
        Progress { phase: Phase::Replay, bytes_done, bytes_total: self.bytes_total, elapsed }
    }

    /// What it came to; the next life begins at `first`.
    pub(super) fn final_report(&mut self, first: Epoch) -> RecoveryReport {
        assert!(first > self.report.durable_epoch, "L4: epochs never come twice");
        let mut report = std::mem::take(&mut self.report);
        report.first_epoch = first;
        report.checkpoint = self.load.checkpoint().map(|checkpoint| (checkpoint.low, checkpoint.high));
        (report.checkpoint_bytes, report.checkpoint_entries) = self.load.done();
        // Relaxed: the watermark's lock in `finish` came before.
        report.blocks = self.done.blocks.load(Ordering::Relaxed);
        // Relaxed: the watermark's lock in `finish` came before; the threads that count have ended.
        report.entries = self.done.entries.load(Ordering::Relaxed);
        // Relaxed: the watermark's lock in `finish` came before; the threads that count have ended.
        report.bytes = self.done.bytes.load(Ordering::Relaxed);
        // Relaxed: the watermark's lock in `finish` came before; the threads that count have ended.
        report.ignored_entries += self.done.ignored.load(Ordering::Relaxed);
        // Relaxed: the watermark's lock in `finish` came before; the threads that count have ended.
        report.covered_entries += self.done.covered.load(Ordering::Relaxed);
        report
    }
}
