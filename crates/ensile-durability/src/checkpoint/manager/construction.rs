//! Construction of the checkpoints of a database that is being opened.
//!
//! Invariant: a new checkpoint's number is above the number of every file in the checkpointers' folders.
//!
//! Neighbours: an open calls `Checkpoints::start` after the recovery; [`CheckpointStart`] has the recovery's results.

use std::sync::Arc as StdArc;

use ensile_base::sync::{Arc, Mutex};
use ensile_disk::Disk;

use super::{CheckpointerState, Checkpoints, rules_of};
use crate::checkpoint::config::{CheckpointConfig, Strategy};
use crate::checkpoint::orphans;
use crate::checkpoint::pages::WantedPages;
use crate::checkpoint::picture::base_picture::ReopenedPicture;
use crate::checkpoint::picture::picture_set::{PagesOrigin, PictureKeeper};
use crate::checkpoint::state_machine::{CheckpointStateMachine, OpenFigures, Terms};
use crate::checkpoint::stats::CheckpointCounters;
use crate::control::pace::CheckpointPace;
use crate::control::recovery_time::{LogWork, MeasuredRecovery, RecoveryOutlook};
use crate::files::checkpoint::block::LargePermit;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::{MANIFEST, PageFileName, PartName, checkpoint_folder};
use crate::files::picture::loaded_picture::LoadedPicture;
use crate::files::rates;
use crate::identity::Identity;
use crate::log::Log;
use crate::number;
use crate::store::claim::{Wanted, claim};
use crate::store::leases;
use crate::store::open_store::OpenStore;
use crate::{DurabilityError, Result};

/// Base of [`crate::Checkpoints::start`]: the places of all pages, if a picture was loaded.
#[derive(Debug, Default)]
pub struct CheckpointStart {
    pub(crate) picture: Option<LoadedPicture>,
    /// Measured cost of the recovery, if the caller has measured the recovery.
    pub(crate) measured: MeasuredRecovery,
}

impl CheckpointStart {
    /// The loaded picture with its files opened to write, if the next picture can go on from the loaded picture.
    fn reopen(
        self,
        store: &OpenStore,
        database: Identity,
        config: &CheckpointConfig,
    ) -> Result<Option<ReopenedPicture>> {
        let Some(loaded) = self.picture.filter(|_| config.strategy == Strategy::Pictures) else {
            return Ok(None);
        };
        assert!(config.checkpointers > 0, "somebody writes");
        let disk = &**store.disk();
        // The lock is let go of at once: a lease that begins from here on is of the installed picture.
        let is_leased = leases::try_lock(disk)?.is_none();
        ReopenedPicture::open(disk, loaded, database, config.checkpointers, is_leased)
    }
}

impl Checkpoints {
    /// Creates the checkpoints of a database, with their folders, once after the recovery that `start` comes from.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] for settings that cannot work, or an error of the disk.
    pub fn start(
        store: &StdArc<OpenStore>,
        log: &StdArc<Log>,
        config: CheckpointConfig,
        start: CheckpointStart,
    ) -> Result<StdArc<Self>> {
        assert!(StdArc::ptr_eq(store, &log.store), "the log is in this store");
        config.check()?;
        let is_without_log = !log.has_loggers();
        if is_without_log && config.strategy != Strategy::Pictures {
            return Err(DurabilityError::config("without a log checkpoints are pictures (K1)"));
        }
        let mut keeper = store.manifest();
        let wanted = Wanted { count: config.checkpointers, links: &config.folders, name: checkpoint_folder };
        let (locks, is_new) = claim(&mut keeper, &[wanted])?;
        store.keep_locks(locks);
        if is_new {
            // The manifest lists the folders before a file is there: a bare mount point is not taken for the folder.
            let next = keeper.manifest().clone();
            keeper.replace(next)?;
        }
        let there = orphans::list::<PartName>(&**store.disk(), keeper.manifest())?;
        let page_files = orphans::list::<PageFileName>(&**store.disk(), keeper.manifest())?;
        let (database, installed) = (keeper.manifest().identity, keeper.manifest().checkpoint.clone());
        let open = keeper.manifest().open_generation();
        let (generation, entries) = (open.number, open.entries);
        drop(keeper);
        assert!(installed.as_ref().is_none_or(|installed| *installed.generations().end() <= generation));
        let number = free_number(installed.as_ref(), &there)?;
        let origin = PagesOrigin { identity: database, entries, generation };
        let next_page = installed.as_ref().map_or(0, InstalledCheckpoint::next_page);
        let measured = start.measured;
        let base = start.reopen(store, database, &config)?;
        let pictures = PictureKeeper::new(origin, config.checkpointers, &page_files, next_page, base)?;
        let goes_on = pictures.pages_to_write() == WantedPages::Changed;
        let terms = terms(&config, log, database, generation, goes_on);
        let opened = OpenFigures { now_nanos: store.clock().nanos(), replayed_bytes: store.replayed_bytes };
        let outlook = outlook_of(&**store.disk(), database, &config, measured, opened);
        let rules = rules_of(&config, is_without_log);
        let machine = CheckpointStateMachine::new(terms, rules, installed, number, opened, outlook);
        Ok(StdArc::new(Self {
            log: StdArc::clone(log),
            store: StdArc::clone(store),
            epochs: Arc::clone(store.epochs()),
            clock: store.clock().clone(),
            database,
            generation,
            entries,
            pictures,
            checkpointers: (0..config.checkpointers)
                .map(|number| CheckpointerState::new(number, log))
                .collect(),
            machine: Mutex::new(machine),
            pace: StdArc::new(Mutex::new(CheckpointPace::new(config.bandwidth))),
            permit: LargePermit::default(),
            counters: CheckpointCounters::default(),
            config,
        }))
    }
}

/// Returns the settings that are fixed while `database` is open. `goes_on`: the first picture keeps installed pages.
fn terms(config: &CheckpointConfig, log: &Log, database: Identity, generation: u64, goes_on: bool) -> Terms {
    Terms {
        strategy: config.strategy,
        ranges: config.ranges as u32,
        bandwidth: config.bandwidth,
        checkpointers: config.checkpointers,
        files: config.files as u32,
        loggers: log.loggers() as u64,
        database,
        generation,
        goes_on,
    }
}

/// The prediction of recoveries, from the costs of this folder's earlier recoveries and of the last recovery.
fn outlook_of(
    disk: &dyn Disk,
    database: Identity,
    config: &CheckpointConfig,
    measured: MeasuredRecovery,
    opened: OpenFigures,
) -> RecoveryOutlook {
    let costs = rates::learn(disk, database, &measured);
    let threads = if config.recovery_threads > 0 { config.recovery_threads as u64 } else { measured.threads };
    let before = LogWork { bytes: opened.replayed_bytes, ..measured.replayed };
    RecoveryOutlook::new(costs, threads, before, opened.now_nanos)
}

/// Returns the number of the next checkpoint, above the installed checkpoint's and those of all files (`there`).
fn free_number(installed: Option<&InstalledCheckpoint>, there: &[PartName]) -> Result<u64> {
    let last = there.iter().max_by_key(|part| part.checkpoint);
    let before = installed.map_or(0, InstalledCheckpoint::number);
    number::next(before.max(last.map_or(0, |last| last.checkpoint))).ok_or_else(|| {
        let file = last.map_or(MANIFEST.to_owned(), PartName::to_string);
        DurabilityError::damaged_file(
            &file,
            0,
            "no number is left behind that of the checkpoint that it names",
        )
    })
}
