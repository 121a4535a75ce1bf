//! Recovery at open: manifest, chains, verdict, replay, and the next generation (SiloR §5).
//!
//! Three parts, so that the caller's threads do the work: [`Recovery::open`] reads the manifest and every log once and
//! decides D; [`Recovery::replay_step`], called by any number of threads, loads one file of the checkpoint or replays one piece; [`Recovery::finish`] makes
//! the decision durable and begins the next generation.
//!
//! Invariants:
//! - L5: D is the minimum over the open generation's logs of the last mark of the whole chain; torn or damaged is
//!   decided in `verdict`.
//! - L4: before anything is served, the manifest says what counted in each generation and where the next begins: above
//!   every epoch in any block, ignored and torn ones included.
//! - What recovery has decided to be durable is written and synced once more where no later block proves that it was:
//!   after a failed sync, or a crash of the process alone, it may have been read from the system's cache.
//!
//! Neighbours: below `chain`, `scan`, `verdict`, `replay`, `manifest`; above, `Database::open`, then [`crate::Log::start`].

mod chain;
mod load;
mod progress;
mod reading;
mod replay;
mod scan;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::planted::{Bug, is_planted};
use ensile_base::random::Random;
use ensile_base::sync::{AtomicU64, AtomicUsize, Ordering};
use ensile_disk::{Disk, DiskLock};

use crate::checkpoint::void;
use crate::log::LogConfig;
use crate::log::block::{HEADER_BYTES, Salt};
use crate::log::segments::Segments;
use crate::manifest::{Generation, Installed, Manifest, ManifestKeeper};
use crate::names::{LOCK, MANIFEST, SegmentName};
use crate::{DurabilityError, Recoverable};
use chain::Chain;
use load::{Load, LoadStep};
pub use progress::{Phase, PhaseReport, Progress};
use reading::{AHEAD, Pool};
use replay::{Bounds, Piece};

/// The end of a log that was being written when the database stopped: cut off, as no result rested on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file in which the whole part ends.
    pub file: String,
    /// Where it ends.
    pub offset: u64,
    /// Bytes behind it that were written, over all later files of the log.
    pub bytes: u64,
    /// Epochs of entries in blocks there, as far as they can be read.
    pub epochs: Option<(Epoch, Epoch)>,
    /// Why the whole part ends there.
    pub detail: &'static str,
}

/// What recovery found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// D of the last generation: everything up to this epoch is there, nothing above it.
    pub durable_epoch: Epoch,
    /// The generation that begins now; 1 for a new database.
    pub generation: u64,
    /// e_l and e_h of the checkpoint that was loaded.
    pub checkpoint: Option<(Epoch, Epoch)>,
    /// Entries loaded from it.
    pub checkpoint_entries: u64,
    /// Bytes of its files.
    pub checkpoint_bytes: u64,
    /// Data blocks replayed.
    pub blocks: u64,
    /// Entries replayed.
    pub entries: u64,
    /// Bytes of blocks replayed.
    pub bytes: u64,
    /// Entries whose file is still there and which the checkpoint covers: not replayed (K1).
    pub covered_entries: u64,
    /// Whole entries that were not replayed, as their epochs never became durable.
    pub ignored_entries: u64,
    /// Ends of logs that were cut.
    pub torn_tails: Vec<TornTail>,
    /// What each phase took, as whoever drove the steps has measured it.
    pub phases: Vec<PhaseReport>,
}

/// A finished recovery: what [`crate::Log::start`] goes on from.
#[derive(Debug)]
pub struct Recovered {
    /// The first epoch in which transactions may commit: `EpochConfig::first`.
    pub next_first_epoch: Epoch,
    /// What was found and done.
    pub report: RecoveryReport,
    pub(crate) config: LogConfig,
    pub(crate) segments: Vec<Segments>,
    pub(crate) keeper: ManifestKeeper,
    pub(crate) lock: Box<dyn DiskLock>,
}

/// A recovery under way.
#[derive(Debug)]
pub struct Recovery {
    disk: StdArc<dyn Disk>,
    keeper: ManifestKeeper,
    config: LogConfig,
    lock: Box<dyn DiskLock>,
    /// As read; empty for a new database.
    generations: Vec<Generation>,
    /// Numbers of generations with entries that count.
    with_entries: Vec<u64>,
    /// Chains of the open generation.
    open_chains: Vec<Chain>,
    /// Files of no listed generation, removed first.
    unlisted: Vec<String>,
    /// The open generation's files behind the end of its chains: void, and removed, once the manifest says so.
    beyond: Vec<String>,
    seen: Epoch,
    load: Load,
    /// Oldest first; `taken` counts from the end.
    pieces: Vec<Piece>,
    bytes_total: u64,
    taken: AtomicUsize,
    buffers: Pool,
    done: Done,
    report: RecoveryReport,
}

#[derive(Debug, Default)]
struct Done {
    pieces: AtomicUsize,
    bytes: AtomicU64,
    blocks: AtomicU64,
    entries: AtomicU64,
    ignored: AtomicU64,
    covered: AtomicU64,
}

/// How many files each listed log has, by generation and logger.
type Files = BTreeMap<(u64, u32), u64>;

impl Recovery {
    /// Takes the folder's lock, reads manifest and logs, and decides D.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset when something that was durable is not there;
    /// [`ensile_disk::DiskError::InUse`] when another process has the database open.
    pub fn open(disk: StdArc<dyn Disk>, config: LogConfig) -> Result<Self, DurabilityError> {
        config.check()?;
        let lock = disk.lock(LOCK)?;
        let keeper = ManifestKeeper::read(&disk)?;
        let generations = keeper.manifest().generations.clone();
        let (files, unlisted) = sort_files(&*disk, &generations)?;
        let load = Load::new(&*disk, keeper.manifest().checkpoint.clone())?;
        let mut recovery = Self {
            disk,
            keeper,
            config,
            lock,
            generations: Vec::new(),
            with_entries: Vec::new(),
            open_chains: Vec::new(),
            unlisted,
            beyond: Vec::new(),
            seen: load.checkpoint().map_or(Epoch::ZERO, |checkpoint| checkpoint.high),
            bytes_total: 0,
            load,
            pieces: Vec::new(),
            taken: AtomicUsize::new(0),
            buffers: Pool::default(),
            done: Done::default(),
            report: RecoveryReport { generation: 1, ..RecoveryReport::default() },
        };
        for generation in generations {
            recovery.read_generation(generation, &files)?;
        }
        Ok(recovery)
    }

    fn read_generation(&mut self, generation: Generation, files: &Files) -> Result<(), DurabilityError> {
        let number = generation.number;
        let chains = (0..generation.logs)
            .map(|logger| Chain::read(&*self.disk, number, logger, files[&(number, logger)]))
            .collect::<Result<Vec<_>, _>>()?;
        let verdict = verdict::decide(&generation, &chains)?;
        if let Some(checkpoint) = self.load.checkpoint().filter(|checkpoint| checkpoint.generation == number)
        {
            check_high(checkpoint, verdict.durable, &chains)?;
        }
        let before = self.pieces.len();
        for chain in &chains {
            self.seen = self.seen.max(chain.seen);
            let bounds =
                Bounds { first: generation.first, covered: self.load.low(), durable: verdict.durable };
            let pieces = replay::cut(chain, bounds, &mut self.report);
            self.bytes_total += pieces.iter().map(|piece| piece.bytes).sum::<u64>();
            self.pieces.extend(pieces);
        }
        if self.pieces.len() > before {
            self.with_entries.push(number);
        }
        self.seen = self.seen.max(verdict.durable).max(generation.first);
        self.report.durable_epoch = verdict.durable;
        self.report.generation = number + 1;
        self.report.torn_tails.extend(verdict.torn);
        if generation.durable.is_none() {
            for chain in &chains {
                let beyond = chain.end.number + 1..files[&(number, chain.logger)];
                self.beyond.extend(beyond.map(|number| chain.segment(number).to_string()));
            }
            self.open_chains = chains;
        }
        self.generations.push(Generation { durable: Some(verdict.durable), ..generation });
        Ok(())
    }

    /// Loads one file of the checkpoint that nobody has taken. `false` once all of them are loaded, or one cannot be.
    ///
    /// # Errors
    /// As [`Recovery::replay_step`].
    pub fn load_step(&self, target: &dyn Recoverable) -> Result<bool, DurabilityError> {
        Ok(self.load.step(&*self.disk, target)? == LoadStep::Loaded)
    }

    /// Loads one file of the checkpoint, or, once all of it is loaded, replays one piece of the log, the newest that
    /// nobody has taken. `false` when none is left, though other threads may still be at theirs.
    ///
    /// # Errors
    /// As `target` says, or damage that was not there a moment ago. The recovery cannot be finished then.
    pub fn replay_step(&self, target: &dyn Recoverable) -> Result<bool, DurabilityError> {
        match self.load.step(&*self.disk, target)? {
            LoadStep::Loaded => return Ok(true),
            LoadStep::Failed => return Ok(false),
            LoadStep::Ended => {}
        }
        // Relaxed: hands out numbers; what a piece holds was there before any thread was started.
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        let Some(piece) = self.piece(taken) else { return Ok(false) };
        // Each piece is asked for once: the first few by whoever takes the first.
        let ahead = if taken == 0 { 1..=AHEAD } else { taken + AHEAD..=taken + AHEAD };
        ahead.filter_map(|later| self.piece(later)).for_each(|later| replay::ask_for(&*self.disk, later));
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
        // Release: all of this piece is replayed (partner: the Acquire in `finish`).
        self.done.pieces.fetch_add(1, Ordering::Release);
        Ok(true)
    }

    /// The `turn`-th newest piece.
    fn piece(&self, turn: usize) -> Option<&Piece> {
        self.pieces.get(self.pieces.len().checked_sub(turn.checked_add(1)?)?)
    }

    /// How far it is. The caller tells how long this phase has run.
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

    /// Makes the decision durable and begins the next generation (L4).
    ///
    /// # Errors
    /// When a piece is not replayed, or the disk refuses; nothing was promised yet, and opening again starts over.
    pub fn finish(mut self) -> Result<Recovered, DurabilityError> {
        // Acquire: partner is the Release in `replay_step`.
        if self.done.pieces.load(Ordering::Acquire) < self.pieces.len() || !self.load.has_ended() {
            return Err(DurabilityError::Config(
                "every piece must be replayed before a recovery is finished",
            ));
        }
        self.harden_open_chains()?;
        let seen = if is_planted(Bug::FirstJustAboveDurable) { self.report.durable_epoch } else { self.seen };
        let first = if self.generations.is_empty() { Epoch::FIRST } else { seen.next() };
        if first.next() >= Epoch::MAX {
            return Err(DurabilityError::Config("the epochs are used up: copy the data into a new database"));
        }
        let number = self.report.generation;
        let logs = self.config.loggers as u32;
        let dropped = self.drop_empty_generations();
        let mut generations = std::mem::take(&mut self.generations);
        generations.push(Generation { number, first, logs, durable: None });
        let manifest = Manifest { checkpoint: self.keeper.manifest().checkpoint.clone(), generations };
        if is_planted(Bug::ManifestBeforeFiles) {
            self.keeper.replace(manifest.clone())?;
        }
        for name in &self.unlisted {
            self.disk.remove(name)?;
        }
        // The files first, each with its synced mark, then the manifest that lists them: a listed log that is missing
        // is damage, and an unlisted one holds no entry.
        let (mut segments, mut random) = (Vec::new(), Random::unpredictable());
        for logger in 0..logs {
            let name = SegmentName { generation: number, logger, number: 0 };
            let salt = Salt::draw(&mut random);
            let (bytes, durable) = (self.config.segment_bytes, first.previous());
            let log = Segments::create(&self.disk, name, bytes, durable, salt)?;
            #[cfg(feature = "experiments")]
            let log = log.compressed(self.config.compress);
            segments.push(log);
        }
        self.disk.sync_folder("")?;
        self.keeper.replace(manifest)?;
        let installed = self.load.checkpoint().map(|checkpoint| checkpoint.number);
        void::remove_parts(&*self.disk, |part| Some(part.checkpoint) != installed)?;
        self.cut_tails(&dropped)?;
        let report = self.final_report();
        let Self { keeper, config, lock, .. } = self;
        Ok(Recovered { next_first_epoch: first, report, config, segments, keeper, lock })
    }

    /// Writes again, and syncs, what no later block shows to be on stable storage.
    fn harden_open_chains(&self) -> Result<(), DurabilityError> {
        for chain in &self.open_chains {
            let (from_number, mut from) = chain.synced_to;
            for number in from_number..=chain.end.number {
                let file = self.disk.open(&chain.segment(number).to_string())?;
                let to = if number == chain.end.number { chain.end.offset } else { file.len()? };
                while from < to {
                    let mut bytes = vec![0; (to - from).min(1 << 20) as usize];
                    file.read_at(&mut bytes, from)?;
                    file.write_at(&bytes, from)?;
                    from += bytes.len() as u64;
                }
                file.sync_all()?;
                from = 0;
            }
        }
        Ok(())
    }

    /// Takes generations that left no entry off the list; returns the files to remove once the manifest is written.
    fn drop_empty_generations(&mut self) -> Vec<(u64, u32)> {
        let with_entries = &self.with_entries;
        let (kept, dropped): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.generations).into_iter().partition(|g| with_entries.contains(&g.number));
        self.generations = kept;
        dropped.iter().flat_map(|g| (0..g.logs).map(move |logger| (g.number, logger))).collect()
    }

    /// Cuts the torn tails and the unused space of the generation that has just been closed, and removes the files of
    /// dropped ones. The manifest has made them void; a crash here leaves them to the next recovery.
    fn cut_tails(&self, dropped: &[(u64, u32)]) -> Result<(), DurabilityError> {
        // The last one first, each for good before the next: a crash must not leave a gap in a listed log.
        for name in self.beyond.iter().rev() {
            self.disk.remove(name)?;
            self.disk.sync_folder("")?;
        }
        for name in self.disk.list("")? {
            let dropped = |segment: SegmentName| dropped.contains(&(segment.generation, segment.logger));
            if SegmentName::parse(&name).is_some_and(dropped) {
                self.disk.remove(&name)?;
            }
        }
        for chain in &self.open_chains {
            if dropped.contains(&(chain.generation, chain.logger)) {
                continue;
            }
            let file = self.disk.open(&chain.end_file())?;
            if file.len()? > chain.end.offset {
                file.set_len(chain.end.offset)?;
                file.sync_all()?;
            }
        }
        Ok(self.disk.sync_folder("")?)
    }

    fn final_report(&mut self) -> RecoveryReport {
        let mut report = std::mem::take(&mut self.report);
        report.checkpoint = self.load.checkpoint().map(|checkpoint| (checkpoint.low, checkpoint.high));
        (report.checkpoint_bytes, report.checkpoint_entries) = self.load.done();
        // Relaxed: the Acquire in `finish` came before.
        report.blocks = self.done.blocks.load(Ordering::Relaxed);
        // Relaxed: as above.
        report.entries = self.done.entries.load(Ordering::Relaxed);
        // Relaxed: as above.
        report.bytes = self.done.bytes.load(Ordering::Relaxed);
        // Relaxed: as above.
        report.ignored_entries += self.done.ignored.load(Ordering::Relaxed);
        // Relaxed: as above.
        report.covered_entries += self.done.covered.load(Ordering::Relaxed);
        report
    }
}

/// A checkpoint was installed once marks of its e_h were synced in every log (K1): a log that is whole for less lost some.
fn check_high(checkpoint: &Installed, durable: Epoch, chains: &[Chain]) -> Result<(), DurabilityError> {
    let Some(shortest) = chains.iter().min_by_key(|chain| chain.mark) else { return Ok(()) };
    if durable >= checkpoint.high {
        return Ok(());
    }
    let detail = format!(
        "{}; checkpoint {} was installed when epoch {} was durable, but this log is whole up to epoch {} only",
        shortest.end.detail, checkpoint.number, checkpoint.high, shortest.mark
    );
    Err(DurabilityError::damaged(&shortest.end_file(), shortest.end.offset, detail))
}

/// Sorts the log files on disk: listed logs, which must be there whole, and names to remove.
fn sort_files(disk: &dyn Disk, generations: &[Generation]) -> Result<(Files, Vec<String>), DurabilityError> {
    let mut found: BTreeMap<(u64, u32), Vec<u64>> = BTreeMap::new();
    for name in disk.list("")?.iter().filter_map(|name| SegmentName::parse(name)) {
        found.entry((name.generation, name.logger)).or_default().push(name.number);
    }
    let mut files = Files::new();
    for generation in generations {
        for logger in 0..generation.logs {
            let key = (generation.number, logger);
            let mut numbers = found.remove(&key).unwrap_or_default();
            numbers.sort_unstable();
            let gap = numbers.iter().zip(0..).find(|(number, expected)| *number != expected);
            if let Some(missing) = gap.map(|(_, expected)| expected).or(numbers.is_empty().then_some(0)) {
                let name = SegmentName { generation: key.0, logger, number: missing };
                return Err(DurabilityError::damaged(
                    &name.to_string(),
                    0,
                    "a log that the manifest lists is missing",
                ));
            }
            files.insert(key, numbers.len() as u64);
        }
    }
    let open = generations.last().map_or(0, |last| last.number);
    let mut leftover = Vec::new();
    for ((generation, logger), numbers) in found {
        // Older ones were dropped for holding no entry that counts; newer ones were never listed, so they hold none,
        // unless the manifest is not the one that they were written under.
        if generation >= open {
            let chain = Chain::read(disk, generation, logger, u64::from(numbers.contains(&0)))?;
            // Behind a gap too: what is removed here cannot be asked again. Without its first block a log tells nothing
            // of the rest; one that was being made holds nothing else.
            let is_unreadable = chain.end.offset == 0 && chain.tail.bytes > HEADER_BYTES as u64;
            if !chain.blocks.is_empty() || chain.tail.epochs.is_some() || is_unreadable {
                let detail =
                    format!("it is missing or too old: {} holds entries and is not listed", chain.end_file());
                return Err(DurabilityError::damaged(MANIFEST, 0, detail));
            }
        }
        leftover.extend(
            numbers.iter().map(|number| SegmentName { generation, logger, number: *number }.to_string()),
        );
    }
    Ok((files, leftover))
}

/// Recovers with the calling thread alone.
///
/// # Errors
/// As [`Recovery::open`], [`Recovery::replay_step`] and [`Recovery::finish`].
pub fn recover(
    disk: StdArc<dyn Disk>,
    config: LogConfig,
    target: &dyn Recoverable,
) -> Result<Recovered, DurabilityError> {
    let recovery = Recovery::open(disk, config)?;
    while recovery.replay_step(target)? {}
    recovery.finish()
}
