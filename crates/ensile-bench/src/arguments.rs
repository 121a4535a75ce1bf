//! Common options of all comparisons.
//!
//! Invariant: parsed options can be run; numbers out of range are refused here, with the reason.
//!
//! Neighbours: `command` is the command line; benchmarks have further options.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, builder::RangedU64ValueParser, value_parser};

use crate::driver::{Pace, Plan};
use crate::failure::{Failure, Result};
use crate::system::{Options, PicturesPassed, SNAPSHOT_MS, SystemKind};

/// Common options of all comparisons.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// Systems to run side by side, in turns [default: memsilo and silo; for YCSB key-value and btreemap too]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) systems: Vec<SystemKind>,
    /// Worker threads
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) threads: usize,
    /// Independent transactions per call
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    pub(crate) batch: usize,
    /// Length of a timed slice, in seconds
    #[arg(long, default_value_t = 5.0, value_parser = positive_seconds)]
    pub(crate) seconds: f64,
    /// End each slice after this many transactions instead (to count instructions under callgrind)
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) transactions: Option<u64>,
    /// Rounds; figures are medians over them
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) rounds: usize,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder for logs; each benchmark makes its own subfolders
    #[arg(long, default_value = "ensile-data")]
    pub(crate) data: PathBuf,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Keep each worker on one core
    #[arg(long)]
    pub(crate) pin: bool,
    /// Time between epochs, in milliseconds
    #[arg(long, default_value_t = 40, value_parser = value_parser!(u64).range(1..=10_000))]
    pub(crate) epoch_ms: u64,
    /// Time between snapshot boundaries, in milliseconds
    #[arg(long, default_value_t = SNAPSHOT_MS, value_parser = value_parser!(u64).range(1..=3_600_000))]
    pub(crate) snapshot_ms: u64,
    /// Logger threads
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub(crate) loggers: usize,
    /// Memory to map and touch beforehand, in MiB
    #[arg(long, default_value_t = 0)]
    pub(crate) prefault_mib: usize,
    /// Pictures of memsilo: none, none yet, or one behind the load (to count the cost for a commit)
    #[arg(long, value_enum, default_value_t = PicturesPassed::Closed)]
    pub(crate) pictures: PicturesPassed,
    /// Bytes of a page of the passed picture
    #[arg(long, default_value_t = 64 << 10, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1 << 30))]
    pub(crate) page_bytes: usize,
    /// Core of the first worker, counted among the cores that this process may use
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) first_core: usize,
    /// Slices begin and end when standard input says so
    #[arg(long, hide = true)]
    pub(crate) conducted: bool,
}

impl RunArguments {
    /// The requested systems, or the `usual` systems.
    pub(crate) fn systems_or(&self, usual: &[SystemKind]) -> Result<Vec<SystemKind>> {
        if self.systems.is_empty() {
            return Ok(usual.to_vec());
        }
        for (index, kind) in self.systems.iter().enumerate() {
            if self.systems[..index].contains(kind) {
                return Err(Failure::Usage(format!("--systems names {} twice", kind.name())));
            }
        }
        Ok(self.systems.clone())
    }

    /// Options of a separate process for the `index`-th share of the same work on one thread.
    pub(crate) fn for_process(&self, index: usize) -> Vec<String> {
        let mut words =
            vec!["--systems".to_owned(), SystemKind::Memsilo.name().to_owned(), "--conducted".to_owned()];
        for (option, value) in [
            ("--batch", self.batch as u64),
            ("--rounds", self.rounds as u64),
            ("--seed", self.seed + index as u64),
            ("--epoch-ms", self.epoch_ms),
            ("--snapshot-ms", self.snapshot_ms),
            ("--prefault-mib", self.prefault_mib as u64),
            ("--first-core", (self.first_core + index) as u64),
        ] {
            words.extend([option.to_owned(), value.to_string()]);
        }
        if self.pin {
            words.push("--pin".to_owned());
        }
        words
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan {
            threads: self.threads,
            batch: self.batch,
            pace: match (self.conducted, self.transactions) {
                (true, _) => Pace::Conducted,
                (false, Some(count)) => Pace::Counted(count),
                (false, None) => Pace::Timed(self.seconds),
            },
            rounds: self.rounds,
            seed: self.seed,
            pin: self.pin.then_some(self.first_core),
        }
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            data: self.data.clone(),
            epoch_interval: Duration::from_millis(self.epoch_ms),
            snapshot_interval: Duration::from_millis(self.snapshot_ms),
            loggers: self.loggers,
            prefault_bytes: self.prefault_mib << 20,
            pictures: self.pictures,
            page_bytes: self.page_bytes,
            ..Options::default()
        }
    }
}

/// Parses a length of time on the command line, in seconds.
pub fn positive_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is due, such as 5 or 0.5".to_owned())?;
    if seconds.is_finite() && (0.01..=1e6).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("between 0.01 and 1000000 seconds".to_owned())
    }
}
