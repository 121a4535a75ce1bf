//! The options of `ensile-bench recovery`.
//!
//! Neighbours: parsed by [`crate::command`]; [`super`] runs by the options.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, builder::RangedU64ValueParser, value_parser};

use super::content::Writes;
use crate::arguments::RunArguments;
use crate::tpcc::arguments::BusinessArguments;

/// The scene to recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// Every scene, one after the other.
    All,
    /// A log of rows of 8 + 100 bytes, written in random order.
    Log,
    /// A checkpoint of rows of 8 + 100 bytes.
    Checkpoint,
    /// A checkpoint and the log since, of a process that died just before the next checkpoint was complete.
    Interrupted,
    /// A log of rows of 8 + 1,024 bytes, each written twenty times.
    Versions,
    /// A log of rows that were deleted soon after they were put.
    Queue,
    /// An order-entry business.
    Tpcc,
}

impl Load {
    /// The scenes, by name.
    pub(super) const SCENES: [(Self, &'static str); 6] = [
        (Self::Log, "log"),
        (Self::Checkpoint, "checkpoint"),
        (Self::Interrupted, "interrupted"),
        (Self::Versions, "versions"),
        (Self::Queue, "queue"),
        (Self::Tpcc, "tpcc"),
    ];
}

/// `ensile-bench recovery`.
#[derive(Clone, Debug, Args)]
pub struct RecoveryArguments {
    /// Content of the database
    #[arg(value_enum, default_value_t = Load::All)]
    pub(crate) scene: Load,
    #[command(flatten)]
    pub(crate) run: RunArguments,
    #[command(flatten)]
    pub(crate) business: BusinessArguments,
    /// Keys of YCSB
    #[arg(long, default_value_t = 10_000_000, value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub(crate) records: u64,
    /// Writes of YCSB, each in a separate transaction [default: two to each key; interrupted: three]
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) writes: Option<u64>,
    /// Threads that recover [default: 1, and the number of cores]
    #[arg(long, value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) recovery_threads: Vec<usize>,
    /// Recover the folder of an earlier run with the same settings, if present, and leave the folder again
    #[arg(long)]
    pub(crate) keep: bool,
    /// Folder for the figures
    #[arg(long, default_value = "recovery-results")]
    pub(crate) out: PathBuf,
}

impl RecoveryArguments {
    /// The writes of a scene's victim.
    pub(crate) fn writes(&self, load: Load) -> Writes {
        let last_is_open = load == Load::Interrupted;
        let (records, versions) = match load {
            Load::Interrupted => (self.records, 3),
            // About as many bytes as in the other scenes.
            Load::Versions => ((self.records / 200).max(1), 20),
            Load::Queue => (self.records, 1),
            _ => (self.records, 2),
        };
        Writes {
            records,
            count: self.writes.unwrap_or(versions * records),
            last_is_open,
            threads: self.run.threads as u64,
            seed: self.run.seed,
        }
    }

    /// Numbers of recovering threads: the requested numbers, or one and the number of cores.
    pub(crate) fn thread_counts(&self) -> Vec<usize> {
        if !self.recovery_threads.is_empty() {
            return self.recovery_threads.clone();
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores > 1 { vec![1, cores] } else { vec![1] }
    }

    /// True if the run uses the folder of an earlier run.
    pub(crate) fn keeps(&self, folder: &Path) -> bool {
        self.keep && folder.join("MANIFEST").exists()
    }
}

/// `ensile-bench recovery-victim`: not for people.
#[derive(Clone, Debug, Args)]
pub struct RecoveryVictimArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    /// The scene to leave
    #[arg(long, value_enum)]
    pub(crate) load: Load,
    /// Keys
    #[arg(long)]
    pub(crate) records: u64,
    /// Writes
    #[arg(long)]
    pub(crate) writes: u64,
    /// The database's folder
    #[arg(long)]
    pub(crate) folder: PathBuf,
}

impl RecoveryVictimArguments {
    /// The victim's writes.
    pub(crate) fn writes(&self) -> Writes {
        Writes {
            records: self.records,
            count: self.writes,
            last_is_open: self.load == Load::Interrupted,
            threads: self.run.threads as u64,
            seed: self.run.seed,
        }
    }
}
