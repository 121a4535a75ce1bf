//! The options of `ensile-papers siren`: table 2 of the paper.
//!
//! Neighbours: [`crate::command`] parses the options; [`super`] runs by them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, builder::RangedU64ValueParser, value_parser};
use ensile_bench::arguments::positive_seconds;

use super::formulas::Rates;
use super::slow_disk::{SlowFiles, Speed};
use super::strategy::{Strategy, Way};

/// The disk of the paper, in MB a second.
const PAPERS_DISK_MB: u64 = 30;

/// Experiments to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Every experiment, one after the other.
    All,
    /// Extra memory by the paper's formulas: table 3 (§4.1).
    Formulas,
    /// Bytes a second that the slow device takes on this machine.
    Device,
    /// Extra memory of a full picture, by the rate of updates, and over time: table 3 and figure 8 (§4.1).
    Table3,
    /// As `table3`, with 99 % of the updates on 1 % of the rows: one version of each row is kept.
    Skew,
    /// Throughput with pictures and with SiloR's fuzzy checkpoints, always within a full checkpoint (§5).
    AgainstFuzzy,
    /// Throughput by clients, relaxed and strict, with pictures and with before-images in the log (§5, figure 9).
    Fig9,
    /// As `fig9`, with log and checkpoints on one slow disk, a checkpoint every 2000000 updates.
    Fig9OneDisk,
    /// Log that a recovery would replay, with checkpoints that go round by ranges and with whole checkpoints (SiloR
    /// §8).
    Cycling,
    /// Throughput of YCSB, and latencies of relaxed and of strict commits, while a full picture is written, against
    /// throughput and latencies without a picture.
    Foreground,
    /// The longest commit of YCSB while each write and sync of a picture takes seconds, against without a picture.
    Hang,
    /// Bytes and processor time of pictures with few changed pages; files and opens after many such pictures.
    Increments,
    /// Throughput of YCSB while a full backup is made, against without; an increment of the backup, and a restore.
    Backup,
    /// A process that backs up an open database is killed, again and again: state of the backup after each kill.
    BackupKills,
    /// Instructions, cache misses and memory of commits while no picture is written; needs valgrind.
    Cost,
}

/// `ensile-papers siren`.
#[derive(Clone, Debug, Args)]
pub struct SirenArguments {
    /// Experiment
    #[arg(value_enum, default_value_t = Name::All)]
    pub(crate) figure: Name,
    /// Folder for the figures
    #[arg(long, default_value = "siren-results")]
    pub(crate) out: PathBuf,
    /// Print JSON documents instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder for the database; removed after the measurement
    #[arg(long, default_value = "ensile-data")]
    pub(crate) data: PathBuf,
    /// Rows of the table (6666667 of 300 bytes are the paper's 2 GB)
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(100..=1 << 32))]
    pub(crate) rows: u64,
    /// Bytes of a row, its key of four bytes included
    #[arg(long, default_value_t = 300, value_parser = RangedU64ValueParser::<usize>::new().range(8..=65_536))]
    pub(crate) row_bytes: usize,
    /// Bytes of a page
    #[arg(long, default_value_t = 16_384, value_parser = RangedU64ValueParser::<usize>::new().range(4_096..=1 << 20))]
    pub(crate) page_bytes: usize,
    /// Share of rows in a page, in percent, as in the paper's: for formula (2) only, as pictures pack their pages
    #[arg(long, default_value_t = 53, value_parser = value_parser!(u64).range(1..=100))]
    pub(crate) fill: u64,
    /// Bandwidth of the device, in MB a second [default: 30, as the paper's; `against-fuzzy` and `fig9` have the device
    /// of this machine, and with this option their checkpoints are paced]
    #[arg(long, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) disk_mb: Option<u64>,
    /// Time of a sync of the slow device, in milliseconds [default: 0; 1 for `fig9-one-disk`]
    #[arg(long, value_parser = value_parser!(u64).range(0..=60_000))]
    pub(crate) sync_ms: Option<u64>,
    /// Files on the slow device
    #[arg(long, value_enum, default_value_t = SlowFiles::All)]
    pub(crate) device: SlowFiles,
    /// Updates a second, one run each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100000,50000,20000,10000",
        value_parser = value_parser!(u64).range(1..=100_000_000)
    )]
    pub(crate) updates: Vec<u64>,
    /// Ways of taking pictures, one run each
    #[arg(long, value_enum, value_delimiter = ',', default_value = "lists,semi-fuzzy,semi-fuzzy-on-device")]
    pub(crate) ways: Vec<Way>,
    /// Threads that update [default: one less than the number of cores; one core is left to the checkpointer]
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) workers: Option<usize>,
    /// Rounds; figures are medians over them [default: 3; 9 for `foreground`, 5 for `hang` and `backup`]
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) rounds: Option<usize>,
    /// Read-only transactions of `against-fuzzy`, `fig9` and `fig9-one-disk`, in percent
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u64).range(0..=100))]
    pub(crate) read_percent: u64,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Tuples written a second, for the experiment `formulas`: the paper's number for 30 MB/s
    #[arg(long, default_value_t = 70_000, value_parser = value_parser!(u64).range(1..))]
    pub(crate) formula_writes: u64,
    /// Length of a run of `against-fuzzy`, `fig9` and `device`, and of each side of `foreground` and `hang`, in
    /// seconds; `backup` has a side without a backup of this length, and a side as long as the backup; a run of
    /// `fig9-one-disk` is ten times as long, for a few turns of a checkpoint and its pause
    #[arg(long, default_value_t = 10.0, value_parser = positive_seconds)]
    pub(crate) seconds: f64,
    /// Clients of `fig9` and `fig9-one-disk`, one run each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,2,5,10,20",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024)
    )]
    pub(crate) clients: Vec<usize>,
    /// Keep snapshots beside pictures, which need none
    #[arg(long)]
    pub(crate) snapshots: bool,
    /// Updates between two checkpoints of `fig9` and `fig9-one-disk` [default: in `fig9` a checkpoint is always under
    /// way; 2000000 for `fig9-one-disk`, as in the paper]
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) checkpoint_updates: Option<u64>,
    /// Ranges of checkpoints that go round, in `cycling`; `cycling` has the least rate of `--updates`
    #[arg(long, default_value_t = 16, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) ranges: usize,
    /// Dirty pages in `increments`, in percent; the many increments have the first percentage
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,10",
        value_parser = value_parser!(u64).range(1..=100)
    )]
    pub(crate) dirty: Vec<u64>,
    /// Number of increments in a row in `increments`
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) increments: u64,
    /// Transactions of YCSB that `cost` counts: a run has as many, a second run has twice as many
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub(crate) transactions: u64,
    /// Bandwidth of the picture of `foreground`, in MB a second: some 3.3 s for each GB of rows; in `backup` also the
    /// bandwidth of the copy, for reads and writes (1000000: as fast as possible)
    #[arg(long, default_value_t = 350, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) picture_mb: u64,
    /// Number of copiers killed in `backup-kills`
    #[arg(long, default_value_t = 200, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub(crate) kills: usize,
    /// Time of each write and each sync of a checkpoint's files in `hang`, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = positive_seconds)]
    pub(crate) hang: f64,
}

impl SirenArguments {
    /// Np: rows of a page of formula (2).
    pub(super) fn rows_per_page(&self) -> f64 {
        (self.page_bytes as f64 * self.fill as f64 / 100.0 / self.row_bytes as f64).max(1.0)
    }

    /// Bandwidth of the slow device, in MB a second.
    pub(super) fn slow_mb(&self) -> u64 {
        self.disk_mb.unwrap_or(PAPERS_DISK_MB)
    }

    /// Bandwidth of checkpoints on this machine's own device, in bytes a second. `None`: full speed of the device.
    pub(super) fn pace(&self) -> Option<u64> {
        self.disk_mb.map(|megabytes| megabytes * 1_000_000)
    }

    /// The bandwidth of [`Self::pace`], for people.
    pub(super) fn pace_words(&self) -> String {
        self.disk_mb.map_or_else(
            || "as fast as this machine's disk".to_owned(),
            |megabytes| format!("at {megabytes} MB/s"),
        )
    }

    /// Speed of the slow device.
    pub(super) fn speed(&self) -> Speed {
        Speed {
            bytes_per_s: self.slow_mb() * 1_000_000,
            sync: Duration::from_millis(self.sync_ms.unwrap_or(0)),
            write: Duration::ZERO,
        }
    }

    /// Number of threads that update.
    pub(super) fn workers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.unwrap_or(cores.saturating_sub(1).max(1))
    }

    /// The strategies of the ways, each once.
    pub(super) fn strategies(&self) -> Vec<Strategy> {
        let mut strategies = Vec::new();
        for strategy in self.ways.iter().map(|way| way.strategy()) {
            if !strategies.contains(&strategy) {
                strategies.push(strategy);
            }
        }
        strategies
    }

    /// The rates of the paper's table.
    pub(super) fn rates(&self, updated_per_s: u64) -> Rates {
        Rates {
            tuples: self.rows as f64,
            written_per_s: self.formula_writes as f64,
            updated_per_s: updated_per_s as f64,
        }
    }
}
