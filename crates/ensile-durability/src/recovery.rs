//! Recovery at open: manifest, chains, verdict, replay, and the next generation (SiloR §5).
//!
//! In parts, so that the caller's threads do the work: [`Scan::begin`] reads the manifest and lists the log files;
//! [`Scan::step`], called by any number of threads, reads the blocks of one file; [`Scan::finish`] puts them together and
//! decides D; [`Recovery::replay_step`], called by any number of threads, loads one file of the
//! checkpoint or replays one piece; [`Recovery::finish`] makes the
//! decision durable and begins the next generation.
//!
//! Invariants:
//! - L5: D is the minimum over the open generation's logs of the last mark of the whole chain; torn or damaged is
//!   decided in `verdict`.
//! - L4: before anything is served, the manifest says what counted in each generation and where the next begins: above
//!   every epoch in any block, ignored and torn ones included.
//! - What recovery has decided to be durable is written and synced once more where no later block proves that it was:
//!   after a failed sync, or a crash of the process alone, it may have been read from the system's cache.
//!
//! Neighbours: `judgement` judges, for [`examine`] too; below `listing`, `file`, `chain`, `verdict`, `replay`, `turns`,
//! `watermark`, `unproven`, `manifest`; above, `Database::open`, then
//! [`crate::Log::start`].

mod chain;
pub mod examine;
mod file;
mod judgement;
mod listing;
mod load;
mod merge;
mod progress;
mod reading;
mod relief;
mod replay;
mod turns;
mod unproven;
mod verdict;
mod watermark;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use ensile_disk::{Disk, DiskError};

use crate::block::origin::Origin;
use crate::block::{FORMAT, Salt};
use crate::checkpoint::parts;
use crate::error::unless_full;
use crate::log::segments::{ClosedFile, Segments};
use crate::log::{LogConfig, LogStart};
use crate::store::claim::{Wanted, claim};
use crate::store::hint::{Hint, HintWriter};
use crate::store::manifest::{Generation, Installed, Making, Manifest, ManifestKeeper};
use crate::store::names::{PartName, SegmentFile, log_folder};
use crate::store::open::Store;
use crate::store::reserve::Reserve;
use crate::store::reserved_epochs;
use crate::store::{Locks, leases};
use crate::{DurabilityError, Recoverable};
use chain::Chain;
use file::FileChain;
use judgement::{FirstEnds, Inventory};
use listing::Files;
use load::{Load, LoadStep};
pub use progress::{Phase, PhaseReport, Progress};
use reading::Pool;
pub use relief::{Finished, ReadOnly};
use replay::{Bounds, Piece};
use turns::Turns;
use verdict::Verdict;
use watermark::Watermark;

/// Why a judgement that ends with its first finding gives a value when it ends without.
const NOTHING_FOUND: &str = "the first finding has ended the open";

/// The end of a log that was being written when the database stopped: cut off, as no result rested on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct RecoveryReport {
    /// D of the last generation: everything up to this epoch is there, nothing above it.
    pub durable_epoch: Epoch,
    /// The generation that begins now; 1 for a new database.
    pub generation: u64,
    /// Its first epoch (L6). What an earlier life showed has a smaller one: it is kept if its epoch is not above
    /// `durable_epoch` and was not lost before, and lost otherwise. In a life that can only be read, as the disk is
    /// full, what is kept is kept for good only up to the database's own D: what is above that is decided by the next
    /// open.
    pub first_epoch: Epoch,
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
    /// Epochs above D that some logs have a mark of and others not. Entries of them, if a log lost any, are gone; if it was a
    /// crash that took them, none was acknowledged.
    pub unfinished_epochs: Option<(Epoch, Epoch)>,
    /// Earlier generations whose entries were merged into one file.
    pub merged_generations: u64,
    /// What each phase took, as whoever drove the steps has measured it.
    pub phases: Vec<PhaseReport>,
}

/// What the next generation begins with.
struct Next {
    segments: Vec<Segments>,
    hint: HintWriter,
    older: Vec<ClosedFile>,
}

/// A finished recovery: what [`crate::Log::start`] goes on from.
#[derive(Debug)]
pub struct Recovered {
    /// The first epoch in which transactions may commit: `EpochConfig::first`.
    pub next_first_epoch: Epoch,
    /// What was found and done.
    pub report: RecoveryReport,
    log: LogStart,
}

impl From<Recovered> for LogStart {
    fn from(recovered: Recovered) -> Self {
        recovered.log
    }
}

/// The reading of the logs, file by file: the first part of a recovery.
#[derive(Debug)]
pub struct Scan {
    disk: Arc<dyn Disk>,
    config: LogConfig,
    locks: Locks,
    keeper: ManifestKeeper,
    hint: Option<Hint>,
    load: Load,
    listed: Files,
    unlisted: Vec<SegmentFile>,
    /// Every listed file and the one behind it in its log.
    files: Vec<(SegmentFile, Option<SegmentFile>)>,
    taken: AtomicUsize,
    /// In the order of `files`.
    read: Mutex<Vec<Option<FileChain>>>,
}

/// A recovery under way.
#[derive(Debug)]
pub struct Recovery {
    disk: Arc<dyn Disk>,
    keeper: ManifestKeeper,
    config: LogConfig,
    locks: Locks,
    /// As read; empty for a new database.
    generations: Vec<Generation>,
    /// Numbers of generations with entries that count.
    with_entries: Vec<u64>,
    /// Bytes of log of each generation that was read; none in a repair, which merges nothing.
    log_bytes: BTreeMap<u64, u64>,
    /// Chains of all generations, and of the open one.
    closed_chains: Vec<Chain>,
    open_chains: Vec<Chain>,
    /// Files of no listed generation, removed first.
    unlisted: Vec<SegmentFile>,
    /// Files that a repair gives up: removed once the manifest no longer lists them, or says that they are void, as until
    /// then they tell which epochs were used (L4).
    given_up: Vec<SegmentFile>,
    /// Where a repair cuts files that stay, once the manifest is durable.
    cuts: Vec<(SegmentFile, u64)>,
    seen: Epoch,
    /// The last E of the life before, if it was closed cleanly.
    ended: Option<Epoch>,
    /// What is recovered is on the medium up to this epoch; up to D once what is not proven was written again.
    proven: Epoch,
    load: Load,
    turns: Turns,
    watermark: Watermark,
    bytes_total: u64,
    buffers: Pool,
    done: Done,
    report: RecoveryReport,
}

#[derive(Debug, Default)]
struct Done {
    bytes: AtomicU64,
    blocks: AtomicU64,
    entries: AtomicU64,
    ignored: AtomicU64,
    covered: AtomicU64,
}

impl Scan {
    /// Opens the store, makes the logs' folders and finds the files.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset when something that was durable is not there;
    /// [`DurabilityError::InUse`] when another process has the database open; [`DurabilityError::Config`] and
    /// [`DurabilityError::FolderMissing`] for log folders that cannot be used; [`DurabilityError::Copied`],
    /// [`DurabilityError::ForeignFolder`], [`DurabilityError::NotMounted`] and [`DurabilityError::NotADatabase`] before anything is
    /// changed.
    pub fn begin(disk: Arc<dyn Disk>, config: LogConfig) -> Result<Self, DurabilityError> {
        config.check()?;
        let Store { disk, mut keeper, mut locks } = Store::open(disk, config.opening)?;
        let hint = judgement::hint(&*disk, keeper.manifest(), &mut FirstEnds)?;
        let logs = Wanted { count: config.loggers, links: &config.folders, name: log_folder };
        let (count, links) = (config.checkpointers, &config.checkpoint_folders);
        let checkpoints = Wanted { count, links, name: PartName::folder };
        locks.extend(claim(&mut keeper, &[logs, checkpoints])?.0);
        let inventory = Inventory::take(&*disk, keeper.manifest(), &mut FirstEnds)?;
        let Inventory { listed, removable: unlisted, load, .. } = inventory.expect(NOTHING_FOUND);
        let load = load.expect(NOTHING_FOUND);
        let with_next = |files: &Vec<SegmentFile>| {
            let next = files.iter().skip(1).copied().map(Some).chain([None]);
            files.iter().copied().zip(next).collect::<Vec<_>>()
        };
        let files: Vec<_> = listed.values().flat_map(with_next).collect();
        let read = Mutex::new(files.iter().map(|_| None).collect());
        let taken = AtomicUsize::new(0);
        Ok(Self { disk, config, locks, keeper, hint, load, listed, unlisted, files, taken, read })
    }

    /// Reads one file that nobody has taken. `false` when none is left, though other threads may still be at theirs.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`], or the disk's. The scan cannot be finished then.
    pub fn step(&self) -> Result<bool, DurabilityError> {
        // Relaxed: hands out numbers; what a number stands for was there before any thread was started.
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        let Some(&(file, next)) = self.files.get(taken) else { return Ok(false) };
        let chain = FileChain::read(&*self.disk, file, next)?;
        // Only whole elements are put in under this lock.
        self.read.lock()[taken] = Some(chain);
        Ok(true)
    }

    /// Puts the logs together and decides D.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset; [`DurabilityError::Config`] if a file was not read.
    pub fn finish(self) -> Result<Recovery, DurabilityError> {
        let Self { disk, config, locks, keeper, hint, load, listed, unlisted, read, .. } = self;
        let generations = keeper.manifest().generations.clone();
        let read = read.into_inner();
        let Some(read) = read.into_iter().collect::<Option<Vec<_>>>() else {
            return Err(DurabilityError::config("every file must be read before a scan is finished"));
        };
        let mut recovery = Recovery::new(disk, keeper, config, locks, load);
        recovery.unlisted = unlisted;
        let mut read = read.into_iter();
        let mut chains = Vec::new();
        for ((number, _), files) in &listed {
            let files: Vec<_> = read.by_ref().take(files.len()).collect();
            let listing = generations.iter().find(|generation| generation.number == *number);
            let (listing, low) = (listing.expect("it lists them"), recovery.load.low());
            let chain = judgement::log(&*recovery.disk, listing, files, low, &mut FirstEnds)?;
            chains.push(chain.expect(NOTHING_FOUND));
        }
        let mut chains = chains.into_iter();
        for generation in generations {
            let logs = generation.logs as usize;
            let chains: Vec<_> = chains.by_ref().take(logs).collect();
            let checkpoint = recovery.load.checkpoint();
            let verdict =
                judgement::generation(&generation, &chains, hint.as_ref(), checkpoint, &mut FirstEnds)?;
            if generation.durable.is_none() {
                // The verdict has found all blocks that the hint counts: nothing was written after it.
                let own = hint.as_ref().filter(|hint| hint.is_of(&generation));
                recovery.ended = own.and_then(|hint| hint.ended);
                recovery.proven = verdict::shown(&generation, &chains, own).max(generation.first.previous());
            }
            recovery.take_generation(generation, chains, verdict.expect(NOTHING_FOUND));
        }
        judgement::reserved(recovery.keeper.manifest(), hint.as_ref(), recovery.seen, &mut FirstEnds)?;
        recovery.order_pieces();
        Ok(recovery)
    }
}

impl Recovery {
    /// Of a checkpoint and of no generation yet.
    fn new(disk: Arc<dyn Disk>, keeper: ManifestKeeper, config: LogConfig, locks: Locks, load: Load) -> Self {
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
            buffers: Pool::default(),
            done: Done::default(),
            report: RecoveryReport { generation: 1, ..RecoveryReport::default() },
        }
    }

    /// The whole scan on the calling thread: see [`Scan`].
    ///
    /// # Errors
    /// As for [`Scan`]'s parts.
    pub fn open(disk: Arc<dyn Disk>, config: LogConfig) -> Result<Self, DurabilityError> {
        let scan = Scan::begin(disk, config)?;
        while scan.step()? {}
        scan.finish()
    }

    fn take_generation(&mut self, generation: Generation, chains: Vec<Chain>, verdict: Verdict) {
        let number = generation.number;
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
            self.open_chains = chains;
        } else {
            self.closed_chains.extend(chains);
        }
        self.generations.push(Generation { durable: Some(verdict.durable), ..generation });
    }

    /// Gives the pieces of all logs and generations their turns.
    fn order_pieces(&mut self) {
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
        let Some(turns::Turn { piece, ahead }) = self.turns.take(target) else {
            if self.watermark.wait_for_end() {
                // Each thread says so: what the state has left to do is work for all of them.
                target.passed(Epoch::MAX);
            }
            return Ok(false);
        };
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
    pub fn finish(self) -> Result<Recovered, DurabilityError> {
        match self.finish_or_read()? {
            Finished::Open(recovered) => Ok(*recovered),
            Finished::ReadOnly(read_only) => Err(DurabilityError::NoRoomToOpen(read_only.reason)),
        }
    }

    /// As [`Recovery::finish`], but on a disk that is too full to begin the next generation what was recovered can be read.
    ///
    /// # Errors
    /// As for [`Recovery::finish`].
    pub fn finish_or_read(mut self) -> Result<Finished, DurabilityError> {
        if !self.watermark.has_ended() || !self.load.has_ended() {
            return Err(DurabilityError::config(
                "every piece must be replayed before a recovery is finished",
            ));
        }
        let (first, reserved) = self.next_epochs(self.seen)?;
        let has_earlier = self.report.generation > 1;
        let reserve = Reserve::of(&self.disk, self.config.loggers as u32)?;
        let Next { segments, hint, older } = match self.begin_next(first, reserved, &reserve) {
            Ok(begun) => begun,
            // There is something to read, whichever of the two manifests stands, and whatever of the void files is
            // there.
            Err(DurabilityError::Disk(error)) if error.is_full() && has_earlier => {
                return Ok(Finished::ReadOnly(Box::new(self.into_read_only(first, &error))));
            }
            Err(error) => return Err(error),
        };
        let report = self.final_report(first);
        let replayed_bytes = report.bytes;
        let Self { disk, keeper, config, locks, .. } = self;
        let log = LogStart {
            next_first_epoch: first,
            config,
            disk,
            segments,
            keeper,
            hint,
            older,
            locks,
            reserve,
            replayed_bytes,
        };
        let recovered = Recovered { next_first_epoch: first, report, log };
        Ok(Finished::Open(Box::new(recovered)))
    }

    /// Everything that the next generation needs on disk, and what it makes void is gone.
    fn begin_next(
        &mut self,
        first: Epoch,
        reserved: Epoch,
        reserve: &Reserve,
    ) -> Result<Next, DurabilityError> {
        // Held to the end, so that no lease begins while files go. An open does not wait for leases that are held (I3).
        let _clearance = leases::try_lock(&*self.disk)?;
        self.write_unproven(reserve)?;
        let mut dropped = self.drop_empty_generations();
        let merged = self.merge_generations(&mut dropped)?;
        let number = self.report.generation;
        let logs = self.config.loggers as u32;
        let mut generations = std::mem::take(&mut self.generations);
        let salt = Salt::draw(&mut Random::unpredictable());
        let (format, entries) = (FORMAT, self.config.entries);
        let before = self.keeper.manifest().clone();
        let origin = Origin { identity: before.identity, salt, entries };
        let database = before.identity;
        generations.push(Generation { number, first, format, entries, logs, salt, database, durable: None });
        let manifest = Manifest { state: Making::Created, reserved, generations, ..before };
        let (segments, hint) = self.begin_generation(&manifest, origin, reserve)?;
        let installed = self.load.checkpoint().map(|checkpoint| checkpoint.number);
        parts::remove(&*self.disk, self.keeper.manifest(), |part| Some(part.checkpoint) != installed)?;
        let mut older = self.clean_up(&dropped)?;
        older.extend(merged);
        self.disk.sync_folder("")?;
        reserve.make()?;
        Ok(Next { segments, hint, older })
    }

    /// Where the next generation begins, and what is reserved for it: above every epoch that an earlier life may have shown (L6)
    /// and every one that was `seen` (L4).
    fn next_epochs(&self, seen: Epoch) -> Result<(Epoch, Epoch), DurabilityError> {
        let before = self.keeper.manifest().reserved;
        // A hint of an epoch that was not reserved is damage: see `judgement::reserved`.
        let unused = self.ended.map_or(before, Epoch::next);
        debug_assert!(unused <= before, "L6: {unused} of {before}");
        let first = if self.generations.is_empty() { before } else { seen.next().max(unused) };
        reserved_epochs::at_open(first, self.config.epoch_interval)
            .map(|reserved| (first, reserved))
            .ok_or_else(|| {
                DurabilityError::config("the epochs are used up: copy the data into a new database")
            })
    }

    /// Takes generations that left no entry off the list; returns their numbers: their files are removed once the manifest
    /// is written.
    fn drop_empty_generations(&mut self) -> Vec<u64> {
        let with_entries = &self.with_entries;
        let (kept, dropped): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.generations).into_iter().partition(|g| with_entries.contains(&g.number));
        self.generations = kept;
        dropped.iter().map(|generation| generation.number).collect()
    }

    /// Merges closed generations if there are many. Those that leave the manifest's list for it are added to `dropped`: their
    /// files are removed once it is written.
    fn merge_generations(&mut self, dropped: &mut Vec<u64>) -> Result<Option<ClosedFile>, DurabilityError> {
        if !self.unlisted.is_empty() {
            // The manifest that does not list them may be a rename that only the system's cache has.
            self.disk.sync_folder("")?;
        }
        // Perhaps what a merge left that had not ended; another one may need its name.
        for file in &self.unlisted {
            self.disk.remove(&file.to_string())?;
        }
        let checkpoint = self.load.checkpoint().map(|checkpoint| checkpoint.generation);
        let Some(sources) = merge::sources(&self.generations, checkpoint, &self.log_bytes) else {
            return Ok(None);
        };
        let merging = &self.generations[sources.clone()];
        let numbers: Vec<u64> = merging.iter().map(|generation| generation.number).collect();
        let mut logs: BTreeMap<(u64, u32), Vec<Piece>> = BTreeMap::new();
        for piece in self.turns.pieces().iter().filter(|piece| numbers.contains(&piece.file.name.generation))
        {
            let name = piece.file.name;
            logs.entry((name.generation, name.logger)).or_default().push(piece.clone());
        }
        for log in logs.values_mut() {
            log.sort_by_key(|piece| (piece.file.name.number, piece.offset));
        }
        let own = (self.keeper.manifest().identity, self.report.generation);
        let logs = logs.into_values().collect();
        let merged = merge::write(&self.disk, &self.config, own, merging, logs)?;
        let Some((generation, file)) = merged else { return Ok(None) };
        self.generations.splice(sources, [generation]);
        self.report.merged_generations = numbers.len() as u64;
        self.report.generation += 1;
        dropped.extend(numbers);
        Ok(Some(file))
    }

    /// Removes what the manifest has made void: files behind the ends of the logs that have just been closed, their torn tails
    /// and unused space, the files of dropped generations. A crash here leaves it to the next recovery. Returns what stays.
    fn clean_up(&self, dropped: &[u64]) -> Result<Vec<ClosedFile>, DurabilityError> {
        self.given_up.iter().try_for_each(|file| self.disk.remove(&file.to_string()))?;
        let folders: BTreeSet<u32> = self.given_up.iter().map(|file| file.name.logger).collect();
        folders.into_iter().try_for_each(|logger| self.disk.sync_folder(&log_folder(logger)))?;
        self.cuts.iter().try_for_each(|(file, end)| self.cut_file(&file.to_string(), *end))?;
        let (mut kept, mut changed) = (Vec::new(), BTreeSet::new());
        for chain in self.closed_chains.iter().chain(&self.open_chains) {
            let folder = log_folder(chain.logger);
            self.remove_unread(chain)?;
            let is_dropped = dropped.contains(&chain.generation);
            let removed = if is_dropped { &chain.links[..] } else { &[] };
            for link in removed {
                self.disk.remove(&link.file.to_string())?;
            }
            if !(chain.void.is_empty() && removed.is_empty()) {
                changed.insert(folder);
            }
            if !is_dropped {
                self.cut_tail(chain)?;
                kept.extend(chain.closed_files());
            }
        }
        changed.iter().try_for_each(|folder| self.disk.sync_folder(folder))?;
        Ok(kept)
    }

    /// Removes the files of a closed generation's log that recovery does not read. One that is gone was removed before.
    fn remove_unread(&self, chain: &Chain) -> Result<(), DiskError> {
        let remove = |file: &SegmentFile| match self.disk.remove(&file.to_string()) {
            Err(error) if error.is_not_found() => Ok(()),
            removed => removed,
        };
        // The last one first, each for good before the next: a crash must not leave a gap in a listed log.
        for file in chain.beyond.iter().rev() {
            remove(file)?;
            self.disk.sync_folder(&log_folder(chain.logger))?;
        }
        chain.void.iter().try_for_each(remove)
    }

    /// Gives back what stands behind the end of a chain, and behind the blocks of the files before that: a file is cut when the
    /// next one is begun, and the cut is not synced. A disk that has no space even for that keeps it: it says nothing.
    fn cut_tail(&self, chain: &Chain) -> Result<(), DiskError> {
        let ends = chain.links.iter().map(|link| (link.file.to_string(), link.end));
        for (name, end) in ends.chain([(chain.end_file(), chain.end.offset)]) {
            unless_full(self.cut_file(&name, end))?;
        }
        Ok(())
    }

    fn cut_file(&self, name: &str, end: u64) -> Result<(), DiskError> {
        let file = self.disk.open(name)?;
        if file.len()? > end {
            file.set_len(end)?;
            file.sync_all()?;
        }
        Ok(())
    }

    fn final_report(&mut self, first: Epoch) -> RecoveryReport {
        let mut report = std::mem::take(&mut self.report);
        report.first_epoch = first;
        report.checkpoint = self.load.checkpoint().map(|checkpoint| (checkpoint.low, checkpoint.high));
        (report.checkpoint_bytes, report.checkpoint_entries) = self.load.done();
        // Relaxed: the watermark's lock in `finish` came before.
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

/// Recovers with the calling thread alone.
///
/// # Errors
/// As [`Recovery::open`], [`Recovery::replay_step`] and [`Recovery::finish`].
pub fn recover(
    disk: Arc<dyn Disk>,
    config: LogConfig,
    target: &dyn Recoverable,
) -> Result<Recovered, DurabilityError> {
    let recovery = Recovery::open(disk, config)?;
    while recovery.replay_step(target)? {}
    recovery.finish()
}
