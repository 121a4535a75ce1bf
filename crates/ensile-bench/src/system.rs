//! The systems that are compared, and how a database is opened for one of them.
//!
//! `memsilo` is the database without a log, `memsilo-processes` one such database in each of several processes, `silo`
//! the same with its log in a folder, `key-value` its index and records without transactions, `btreemap` std's
//! `BTreeMap` on one thread: a yardstick that everybody has.
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

/// Time between snapshot boundaries, in milliseconds: as a database has it.
pub(crate) const SNAPSHOT_MS: u64 = 250;

/// A system by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SystemKind {
    /// The database in memory, without a log.
    Memsilo,
    /// As many processes as threads were asked for, each with a memsilo of its share of the data and one thread: what
    /// threads of one database could reach if they did not disturb each other.
    MemsiloProcesses,
    /// The database with its log; a transaction counts when it is durable.
    Silo,
    /// Its index and records: atomic gets and puts of single keys, no transactions (YCSB only).
    KeyValue,
    /// std's BTreeMap on one thread, values changed in place (YCSB only).
    Btreemap,
}

impl SystemKind {
    /// As it is written on the command line, in tables and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memsilo => "memsilo",
            Self::MemsiloProcesses => "memsilo-processes",
            Self::Silo => "silo",
            Self::KeyValue => "key-value",
            Self::Btreemap => "btreemap",
        }
    }

    /// Whether it runs transactions.
    pub(crate) fn is_transactional(self) -> bool {
        matches!(self, Self::Memsilo | Self::MemsiloProcesses | Self::Silo)
    }
}

/// What pictures there are of a database in memory, so that what they cost its commits can be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PicturesPassed {
    /// None: it was not opened for them.
    #[default]
    Closed,
    /// None yet: it was opened for them.
    Opened,
    /// One has passed behind the load, so each key's next change marks its page.
    Passed,
}

/// How databases are opened.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Folder that benchmarks make their own folders in.
    pub(crate) data: PathBuf,
    pub(crate) epoch_interval: Duration,
    pub(crate) snapshot_interval: Duration,
    /// 0 for a database without a log.
    pub(crate) loggers: usize,
    pub(crate) prefault_bytes: usize,
    /// Whether a transaction of the system with a log waits until it is durable.
    pub(crate) durability: Durability,
    /// Whether old versions are kept for snapshots.
    pub(crate) snapshots: bool,
    /// Cores that are the workers': the database's own threads keep off them. 0: they run anywhere.
    pub(crate) workers_own: usize,
    /// When checkpoints are made, where there is a log; none by default, as in Silo.
    pub(crate) checkpoints: Schedule,
    /// What else is tuned. The fields above overrule it.
    pub(crate) tuning: Tuning,
    /// Whether the log tells what each write replaced.
    pub(crate) before_images: bool,
    pub(crate) pictures: PicturesPassed,
    /// Bytes of a page of the picture that passes.
    pub(crate) page_bytes: usize,
    /// What the engine does otherwise than it ships.
    #[cfg(feature = "experiments")]
    pub(crate) variants: ensile::Variants,
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
            #[cfg(feature = "experiments")]
            variants: ensile::Variants::default(),
        }
    }
}

impl Options {
    /// Opens the database of a system: a fresh one, in a folder called `folder` where it has a log.
    pub(crate) fn open_fresh(&self, kind: SystemKind, folder: &str) -> Result<Database> {
        if kind == SystemKind::Silo {
            let path = self.fresh_folder(folder)?;
            return self.open_at(&path, self.durability);
        }
        let builder = Database::builder_in_memory();
        self.open(if self.pictures == PicturesPassed::Closed { builder } else { builder.pictures() })
    }

    /// Behind the load of a database in memory: passes a picture, if that was asked for.
    pub(crate) fn pass_pictures(&self, db: &Database) {
        if self.pictures == PicturesPassed::Passed {
            db.pass_a_picture(self.page_bytes, || sleep(self.epoch_interval / 8));
        }
    }

    /// Opens the database in a folder, whatever is in it.
    pub(crate) fn open_at(&self, path: &Path, durability: Durability) -> Result<Database> {
        self.open(Database::builder(path).durability(durability))
    }

    /// Opens a database with these options besides.
    pub(crate) fn open(&self, builder: Builder) -> Result<Database> {
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
        #[cfg(feature = "experiments")]
        let builder = builder.variants(self.variants);
        let open = || Ok(builder.open()?);
        if self.workers_own == 0 { open() } else { machine::on_cores_from(self.workers_own, open) }
    }

    /// A folder of that name in the data folder, emptied of what an earlier benchmark left there.
    pub(crate) fn fresh_folder(&self, name: &str) -> Result<PathBuf> {
        fresh_folder(&self.data, name)
    }
}

/// Folders that are made for a benchmark: those that were not there before go at its end, unless something is left in
/// them.
#[derive(Debug)]
pub(crate) struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    /// Of these folders those that are not there yet.
    pub(crate) fn new<const N: usize>(folders: [&Path; N]) -> Self {
        Self(folders.into_iter().filter(|folder| !folder.exists()).map(Path::to_owned).collect())
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in &self.0 {
            // One that was not made, or in which a failure left something, stays as it is.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// A folder of that name in the folder `data`, emptied of what an earlier benchmark left there.
pub(crate) fn fresh_folder(data: &Path, name: &str) -> Result<PathBuf> {
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
