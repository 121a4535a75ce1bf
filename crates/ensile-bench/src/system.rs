//! The compared systems, and the open of a database for a system.
//!
//! `memsilo` is the database without a log. `memsilo-processes` is a memsilo in each of several processes. `silo` is
//! the database with its log in a folder. `key-value` is the database's index and records without transactions.
//! `btreemap` is std's `BTreeMap` on one thread, a yardstick that is available everywhere.
//!
//! Neighbours: workloads open systems here.

pub(crate) mod processes;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use ensile::checkpoint::Schedule;
use ensile::{Builder, Database, Durability, Tuning};
use ensile_base::sync::sleep;

use crate::failure::{Failure, Result};
use crate::machine;

/// Time between snapshot boundaries, in milliseconds; the default of a database.
pub const SNAPSHOT_MS: u64 = 250;

/// A system by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SystemKind {
    /// The database in memory, without a log.
    Memsilo,
    /// A process for each requested thread, and in each process a memsilo with a share of the data and one thread: the
    /// rate that threads of one database could reach without mutual disturbance.
    MemsiloProcesses,
    /// The database with its log; a transaction counts when it is durable.
    Silo,
    /// The database's index and records: atomic gets and puts of single keys, no transactions (YCSB only).
    KeyValue,
    /// std's BTreeMap on one thread, values changed in place (YCSB only).
    Btreemap,
}

impl SystemKind {
    /// The system's name on the command line, in tables and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memsilo => "memsilo",
            Self::MemsiloProcesses => "memsilo-processes",
            Self::Silo => "silo",
            Self::KeyValue => "key-value",
            Self::Btreemap => "btreemap",
        }
    }

    /// True if the system runs transactions.
    pub(crate) fn is_transactional(self) -> bool {
        matches!(self, Self::Memsilo | Self::MemsiloProcesses | Self::Silo)
    }
}

/// The pictures of a database in memory. The variants show the cost of pictures for commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PicturesPassed {
    /// No pictures: the database was opened without pictures.
    #[default]
    Closed,
    /// No picture yet: the database was opened for pictures.
    Opened,
    /// One picture has passed after the load, so the next change of each key marks the key's page.
    Passed,
}

/// Options of an open of a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// The parent folder of the folders of benchmarks.
    pub data: PathBuf,
    /// Time between epochs.
    pub epoch_interval: Duration,
    /// Time between snapshot boundaries.
    pub snapshot_interval: Duration,
    /// Number of loggers; 0 for a database without a log.
    pub loggers: usize,
    /// Memory to map and touch beforehand, in bytes.
    pub prefault_bytes: usize,
    /// Durability of transactions of the system with a log.
    pub durability: Durability,
    /// True if old versions are kept for snapshots.
    pub snapshots: bool,
    /// Number of cores reserved for workers: the database's own threads keep off these cores. 0: the threads run
    /// anywhere.
    pub workers_own: usize,
    /// Schedule of checkpoints, if the database has a log. The default is no checkpoints, as in Silo.
    pub checkpoints: Schedule,
    /// Further tuning. The fields above take precedence.
    pub tuning: Tuning,
    /// True if the log has the value that each write replaced.
    pub before_images: bool,
    /// Pictures of a database in memory.
    pub pictures: PicturesPassed,
    /// Bytes of a page of the picture that passes.
    pub page_bytes: usize,
    /// The engine's experimental variants.
    #[cfg(feature = "laboratory")]
    pub variants: ensile::Variants,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data: PathBuf::from("ensile-data"),
            epoch_interval: Duration::from_millis(40),
            snapshot_interval: Duration::from_millis(SNAPSHOT_MS),
            loggers: 1,
            prefault_bytes: 0,
            durability: Durability::Relaxed,
            snapshots: true,
            workers_own: 0,
            checkpoints: Schedule::on_demand(),
            tuning: Tuning::default(),
            before_images: false,
            pictures: PicturesPassed::Closed,
            page_bytes: 64 << 10,
            #[cfg(feature = "laboratory")]
            variants: ensile::Variants::default(),
        }
    }
}

impl Options {
    /// Opens a fresh database of a system. A system with a log has its files in the folder `folder`.
    pub(crate) fn open_fresh(&self, kind: SystemKind, folder: &str) -> Result<Database> {
        if kind == SystemKind::Silo {
            let path = self.fresh_folder(folder)?;
            return self.open_at(&path, self.durability);
        }
        let builder = Database::builder_in_memory();
        self.open(if self.pictures == PicturesPassed::Closed { builder } else { builder.pictures() })
    }

    /// Passes a picture, if the options say so. The call follows the load of a database in memory.
    pub(crate) fn pass_pictures(&self, db: &Database) {
        if self.pictures == PicturesPassed::Passed {
            db.pass_a_picture(self.page_bytes, || sleep(self.epoch_interval / 8));
        }
    }

    /// Opens the database in a folder, with any present content.
    pub fn open_at(&self, path: &Path, durability: Durability) -> Result<Database> {
        self.open(Database::builder(path).durability(durability))
    }

    /// Opens a database with these options in addition to the builder's own.
    pub fn open(&self, builder: Builder) -> Result<Database> {
        let builder = builder
            .epoch_interval(self.epoch_interval)
            .checkpoints(self.checkpoints.clone())
            .tuning(Tuning {
                loggers: (self.loggers > 0).then_some(self.loggers),
                snapshot_interval: self.snapshot_interval,
                prefault_bytes: self.prefault_bytes,
                ..self.tuning.clone()
            })
            .snapshots(self.snapshots)
            .before_images(self.before_images);
        #[cfg(feature = "laboratory")]
        let builder = builder.variants(self.variants);
        let open = || Ok(builder.open()?);
        if self.workers_own == 0 { open() } else { machine::on_cores_from(self.workers_own, open) }
    }

    /// Makes an empty folder of this name in the data folder; removes the content of an earlier benchmark.
    pub fn fresh_folder(&self, name: &str) -> Result<PathBuf> {
        fresh_folder(&self.data, name)
    }
}

/// Folders made for a benchmark. The folders that were absent before are removed at the end of the benchmark, unless a
/// folder has content.
#[derive(Debug)]
pub struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    /// Keeps the folders that do not exist yet.
    pub fn new<const N: usize>(folders: [&Path; N]) -> Self {
        Self(folders.into_iter().filter(|folder| !folder.exists()).map(Path::to_owned).collect())
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in &self.0 {
            // The removal fails for a folder that was never made, or that has content after a failure. The folder then
            // stays.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Makes an empty folder of this name in the folder `data`; removes the content of an earlier benchmark.
pub fn fresh_folder(data: &Path, name: &str) -> Result<PathBuf> {
    let path = data.join(name);
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Failure::io(format!("emptying {}", path.display()))(error));
        }
        _ => {}
    }
    fs::create_dir_all(&path).map_err(Failure::io(format!("making the folder {}", path.display())))?;
    Ok(path)
}
