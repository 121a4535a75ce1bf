//! First part of a recovery: reads the manifest and the blocks of the logs, and decides D.
//!
//! Invariants:
//! - I1, I3, I5: the folders are locked, and proved to be this database's, before anything is read.
//! - B4, B5: entries that a process-safe life of this boot left above D are made durable first.
//!
//! Neighbours: the opens of engine and objects begin here; the store opens the folders, `file_chain` reads files on any
//! thread, `validation` judges.

use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::sync::{AtomicUsize, Mutex, Ordering};
use ensile_disk::Disk;

use super::chain::Chain;
use super::durable_epoch::{self, Verdict};
use super::install_generation::Recovered;
use super::log_files::{Files, with_next};
use super::mapped_tail::{self, EntriesToTake, JudgedLife};
use super::replay_state::{Judged, Recovery};
use super::validation::{self, FirstEnds, Inventory};
use crate::files::hint::Hint;
use crate::files::log::file_chain::FileChain;
use crate::files::manifest::ManifestKeeper;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::{ARCHIVE_FOLDER, SegmentFile, checkpoint_folder, log_folder};
use crate::log::LogConfig;
use crate::store::archive::{self, Archive};
use crate::store::claim::{Wanted, claim};
use crate::store::open::{Store, WantedStore};
use crate::store::{Archiving, Locks};
use crate::{DurabilityError, Recoverable, Result};

/// Reason that a judgement of an open returns a value if the judgement ends without an error.
const NOTHING_FOUND: &str = "the first finding has ended the open";

/// Claims the archive's folder for this database, if the settings ask for an archive.
fn claim_archive(keeper: &mut ManifestKeeper, config: &LogConfig) -> Result<Locks> {
    if let Archiving::To(folder) = &config.archiving {
        archive::check_new(&**keeper.disk(), keeper.manifest(), folder)?;
        let links = std::slice::from_ref(folder);
        return Ok(claim(keeper, &[Wanted { count: 1, links, name: |_| ARCHIVE_FOLDER.to_owned() }])?.0);
    }
    if keeper.manifest().has_archive() && config.loggers == 0 {
        return Err(DurabilityError::config(
            "its log is archived, and without a log there is nothing to archive: end the archive, or open it with a log",
        ));
    }
    Ok(Locks::empty())
}

/// Amount of a checkpoint, as its manifest states the amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointAmount {
    /// Number of entries.
    pub entries: u64,
    /// Bytes that a load reads, with headers and padding.
    pub bytes: u64,
}

/// Reading of the logs, file by file: the first part of a recovery.
#[derive(Debug)]
pub struct LogScan {
    /// Recovery that has not taken its generations yet.
    recovery: Recovery,
    hint: Option<Hint>,
    listed: Files,
    /// Listed files, each with the next file of its log.
    files: Vec<(SegmentFile, Option<SegmentFile>)>,
    /// Number of files that threads have taken.
    taken: AtomicUsize,
    /// Chains in the order of `files`.
    read: Mutex<Vec<Option<FileChain>>>,
}

impl LogScan {
    /// Opens the store, claims the folders and finds the files.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset if durable data is missing; [`DurabilityError::InUse`] if
    /// another process has the database open; [`DurabilityError::Config`] and [`DurabilityError::FolderMissing`] for
    /// unusable log folders; [`DurabilityError::Copied`], [`DurabilityError::OtherApplication`],
    /// [`DurabilityError::OtherType`], [`DurabilityError::ForeignFolder`], [`DurabilityError::NotMounted`] and
    /// [`DurabilityError::NotADatabase`] before anything is changed.
    pub fn begin(disk: Arc<dyn Disk>, config: LogConfig) -> Result<Self> {
        config.check()?;
        config.boot(&*disk)?;
        let wanted = WantedStore {
            opening: config.opening,
            naming: &config.naming,
            types: &config.types,
            shipping: config.shipping,
            gives_up_archive: config.archiving == Archiving::Ended,
        };
        let Store { disk, mut keeper, mut locks } = Store::open(disk, &wanted)?;
        mapped_tail::check_boot(&*disk, keeper.manifest())?;
        let is_archive_listed = keeper.manifest().has_archive();
        let hint = validation::hint(&*disk, keeper.manifest(), &mut FirstEnds)?;
        let logs = Wanted { count: config.loggers, links: &config.folders, name: log_folder };
        let (count, links) = (config.checkpointers, &config.checkpoint_folders);
        let checkpoints = Wanted { count, links, name: checkpoint_folder };
        locks.extend(claim(&mut keeper, &[logs, checkpoints])?.0);
        locks.extend(claim_archive(&mut keeper, &config)?);
        let inventory = Inventory::take(&*disk, keeper.manifest(), &mut FirstEnds)?;
        let Inventory { listed, unlisted: others, removable: unlisted, older, left, load, .. } =
            inventory.expect(NOTHING_FOUND);
        let not_removable = others.into_values().flatten().filter(|file| !unlisted.contains(file)).collect();
        let load = load.expect(NOTHING_FOUND).of_database_with(config.checkpointers);
        let seen = load.checkpoint().map_or(Epoch::ZERO, InstalledCheckpoint::durable_min);
        let judged = Judged { unlisted, not_removable, older, left, seen, ..Judged::default() };
        let files: Vec<_> = listed.values().flat_map(|files| with_next(files)).collect();
        let read = Mutex::new(files.iter().map(|_| None).collect());
        let taken = AtomicUsize::new(0);
        let archive = keeper.manifest().has_archive().then(|| Archive::new(&disk, keeper.manifest()));
        let mut recovery = Recovery::new(disk, keeper, config, locks, load, judged);
        (recovery.archive, recovery.is_archive_listed) = (archive, is_archive_listed);
        Ok(Self { recovery, hint, listed, files, taken, read })
    }

    /// Amount of the installed checkpoint, known before any row is read.
    #[must_use]
    pub fn checkpoint_amount(&self) -> CheckpointAmount {
        self.recovery.load.checkpoint().map_or(CheckpointAmount::default(), |checkpoint| CheckpointAmount {
            entries: checkpoint.entries(),
            bytes: checkpoint.bytes(),
        })
    }

    /// Reads one file that no thread has taken. `false` if no file is left, even while other threads still read files.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`], or errors of the disk. The scan then cannot be finished.
    pub fn step(&self) -> Result<bool> {
        // Relaxed: hands out numbers; the files behind the numbers were there before any thread was started.
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        let Some(&(file, next)) = self.files.get(taken) else { return Ok(false) };
        let until = self.recovery.keeper.manifest().log_bytes(file.name).unwrap_or(0);
        assert!(until > 0, "N21: {file} is of a listed log");
        let chain = FileChain::read_until(&*self.recovery.disk, file, next, until)?;
        // Only whole elements are put in under this lock.
        let before = self.read.lock()[taken].replace(chain);
        assert!(before.is_none(), "a file is read once");
        Ok(true)
    }

    /// Puts the logs together and decides D.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset; [`DurabilityError::Config`] if a file was not read.
    pub fn finish(self) -> Result<Recovery> {
        let Self { mut recovery, hint, listed, read, .. } = self;
        let generations = recovery.keeper.manifest().generations.clone();
        let Some(read) = read.into_inner().into_iter().collect::<Option<Vec<_>>>() else {
            return Err(DurabilityError::config("every file must be read before a scan is finished"));
        };
        let mut read = read.into_iter();
        for generation in generations {
            // Files were read in the order of generations and logs.
            let logs = (0..generation.logs)
                .map(|logger| read.by_ref().take(listed[&(generation.number, logger)].len()).collect())
                .collect();
            let (chains, verdict) = recovery.judge_and_take(&generation, logs, hint.as_ref())?;
            let checkpoint = recovery.load.checkpoint();
            if generation.durable.is_none() {
                // The verdict has found all blocks that the hint counts: nothing was written after the hint.
                let own = hint.as_ref().filter(|hint| hint.belongs_to(&generation));
                recovery.judged.ended = own.and_then(|hint| hint.ended);
                let shown = durable_epoch::proven_durable_epoch(&generation, &chains, own)
                    .max(generation.first.previous());
                // A picture is on the medium before the manifest names the picture (N12).
                let picture =
                    checkpoint.filter(|_| generation.logs == 0).map(InstalledCheckpoint::durable_min);
                recovery.proven = shown.max(picture.unwrap_or_default());
            }
            recovery.take_generation(generation, chains, verdict);
        }
        assert!(read.next().is_none(), "each file has its log, and each log its generation");
        let (manifest, seen) = (recovery.keeper.manifest(), recovery.judged.seen);
        validation::check_reserved_epochs(manifest, hint.as_ref(), seen, &mut FirstEnds)?;
        recovery.order_pieces();
        Ok(recovery)
    }
}

impl Recovery {
    /// Runs the whole scan on the calling thread: see [`LogScan`].
    ///
    /// # Errors
    /// As for [`LogScan`]'s parts.
    pub fn open(disk: Arc<dyn Disk>, config: LogConfig) -> Result<Self> {
        let scan = LogScan::begin(disk, config)?;
        while scan.step()? {}
        scan.finish()
    }

    /// Judges a generation by the files of its logs. If a process-safe life of this boot left the generation, recovery
    /// first takes the entries that the process had given to the system, and then judges the logs again (B4, B5).
    fn judge_and_take(
        &mut self,
        generation: &Generation,
        logs: Vec<Vec<FileChain>>,
        hint: Option<&Hint>,
    ) -> Result<(Vec<Chain>, Verdict)> {
        let disk = Arc::clone(&self.disk);
        let left = mapped_tail::find(&*disk, self.keeper.manifest(), generation)?;
        let Some(buffers) = left.buffers(&*disk, generation)? else {
            let (chains, verdict) = self.judge(generation, logs, hint)?;
            let (durable, covered) = (Some(verdict.durable), self.load.low());
            let judged = JudgedLife { generation, chains: &chains, durable, covered, is_whole: true };
            let told = mapped_tail::unproven_report(&*disk, &left, judged, None)?;
            self.report.not_proven = self.report.not_proven.take().or(told);
            return Ok((chains, verdict));
        };
        let (chains, verdict) = self.judge(generation, logs.clone(), hint)?;
        let taken = EntriesToTake::from_buffers(&*disk, &chains, buffers, verdict.durable)?;
        self.report.not_proven = taken.not_proven;
        let Some(missing) = taken.missing else { return Ok((chains, verdict)) };
        let high = missing.high();
        self.report.taken_entries = missing.entries();
        missing.write(&*disk, &chains)?;
        let grown = chains.iter().zip(logs);
        let logs = grown.map(|(chain, files)| mapped_tail::reread(&*disk, chain, files));
        let (chains, verdict) = self.judge(generation, logs.collect::<Result<_, _>>()?, hint)?;
        assert_eq!(verdict.durable, high, "B5: D covers all that counts");
        Ok((chains, verdict))
    }

    /// Puts the logs of a generation together, and decides D. The first finding is the error.
    fn judge(
        &self,
        generation: &Generation,
        logs: Vec<Vec<FileChain>>,
        hint: Option<&Hint>,
    ) -> Result<(Vec<Chain>, Verdict)> {
        let (low, mut chains) = (self.load.low(), Vec::new());
        for files in logs {
            chains.extend(validation::log(&*self.disk, generation, files, low, &mut FirstEnds)?);
        }
        let checkpoint = self.load.checkpoint();
        let verdict = validation::generation(generation, &chains, hint, checkpoint, &mut FirstEnds)?;
        Ok((chains, verdict.expect(NOTHING_FOUND)))
    }
}

/// Recovers on the calling thread alone: scan, replay into `target`, and finish.
///
/// # Errors
/// As [`Recovery::open`], [`Recovery::replay_step`] and [`Recovery::finish`].
pub fn recover(disk: Arc<dyn Disk>, config: LogConfig, target: &dyn Recoverable) -> Result<Recovered> {
    let recovery = Recovery::open(disk, config)?;
    while recovery.replay_step(target)? {}
    recovery.finish(target)
}
