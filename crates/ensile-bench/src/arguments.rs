//! The command line of `ensile-bench`.
//!
//! Invariant: what parses can be run; numbers that make no sense are refused here, with their reason.
//!
//! Neighbours: the `ensile-bench` binary parses [`Bench`]; every benchmark takes its part.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, builder::RangedU64ValueParser, value_parser};

use crate::driver::{Pace, Plan};
use crate::failure::{Failure, Result};
use crate::recovery;
use crate::silo::Name;
use crate::silor;
use crate::system::{Options, SNAPSHOT_MS, SystemKind};
use crate::workload::tpcc::tables::Scale;
use crate::workload::tpcc::terminal::{Flags, ReadMode};
use crate::workload::ycsb::distribution::Distribution;
use crate::workload::ycsb::load::LoadOrder;
use crate::workload::ycsb::mix::Workload;

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Single-key transactions (YCSB), compared between systems.
    #[command(after_help = YCSB_EXAMPLES)]
    Ycsb(YcsbArguments),
    /// An order-entry business (TPC-C); with --crash-after it is killed, recovered and checked.
    #[command(after_help = TPCC_EXAMPLES)]
    Tpcc(TpccArguments),
    /// How long one client waits for a strict commit, beside what the disk itself needs.
    Latency(LatencyArguments),
    /// Extra memory of old versions under load that only writes.
    Snapshots(SnapshotsArguments),
    /// Whether one transaction left open disturbs the others.
    OpenTransaction(OpenTransactionArguments),
    /// The experiments of Silo's paper, each by the name of its figure: CSV, JSON and SVG files.
    #[command(after_help = SILO_EXAMPLES)]
    Silo(SiloArguments),
    /// The experiments of SiloR's paper over time: log, checkpoints, and what they cost; CSV, JSON and SVG files.
    #[command(after_help = SILOR_EXAMPLES)]
    Silor(SilorArguments),
    /// How fast a killed database is back: checkpoint and log apart, beside the device's own rate; CSV, JSON and SVG files.
    #[command(after_help = RECOVERY_EXAMPLES)]
    Recovery(RecoveryArguments),
    /// The process that `recovery` kills.
    #[command(hide = true)]
    RecoveryVictim(RecoveryVictimArguments),
    /// The process that `tpcc --crash-after` kills.
    #[command(hide = true)]
    TpccVictim(VictimArguments),
}

const YCSB_EXAMPLES: &str = "Examples:
  ensile-bench ycsb --systems memsilo,btreemap --records 10000000 --threads 1 --rounds 5
  ensile-bench ycsb --systems memsilo,btreemap --batch 16
  ensile-bench ycsb --systems memsilo,memsilo-processes --threads 2
  ensile-bench ycsb --workload a --distribution zipfian --threads 2 --json";

const TPCC_EXAMPLES: &str = "Examples:
  ensile-bench tpcc --systems memsilo,silo --warehouses 1 --threads 1 --check
  ensile-bench tpcc --systems memsilo,memsilo-processes --warehouses 2 --threads 2
  ensile-bench tpcc --crash-after 3
  ensile-bench tpcc --crash-after 0.5 --repeat 100 --items 1000 --customers 100
  ensile-bench tpcc --crash-after 0.2 --repeat 100 --lives 5 --kill-in-recovery 2 --checkpoint-ms 50 --items 200";

const SILO_EXAMPLES: &str = "Examples:
  ensile-bench silo                                   every experiment, into ./silo-results
  ensile-bench silo fig4 --records 20000000           key-value, memsilo, memsilo with a global TID
  ensile-bench silo table10 --rounds 7 --out docs/results/silo

Variants of the engine (global TIDs, no overwrites, ..) are in binaries built by
  cargo build --release -p ensile-bench --features experiments";

const SILOR_EXAMPLES: &str = "Examples:
  ensile-bench silor                                  every experiment, into ./silor-results
  ensile-bench silor fig1 --seconds 60                YCSB over time: memsilo, logsilo, silor
  ensile-bench silor fig6 --rounds 2 --out docs/results/silor";

const RECOVERY_EXAMPLES: &str = "Examples:
  ensile-bench recovery                               every scene, into ./recovery-results
  ensile-bench recovery log --records 10000000 --writes 20000000
  ensile-bench recovery queue --records 3000000        rows put and deleted: the memory that it takes
  ensile-bench recovery tpcc --warehouses 2 --threads 2 --seconds 60 --out docs/results/recovery";

/// What all comparisons have in common.
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
    /// End each slice after so many transactions instead (to count instructions under callgrind)
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) transactions: Option<u64>,
    /// Rounds; figures are medians over them
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) rounds: usize,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder for logs; each benchmark makes folders of its own in it
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
    /// Where the first worker is kept, counted among the cores that this process may use
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) first_core: usize,
    /// Slices begin and end when standard input says so
    #[arg(long, hide = true)]
    pub(crate) conducted: bool,
}

impl RunArguments {
    /// The systems asked for, or the `usual` ones.
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

    /// The options that a process of its own needs to do the `index`-th share of the same work on one thread.
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
            ..Options::default()
        }
    }
}

/// `ensile-bench ycsb`.
#[derive(Clone, Debug, Args)]
pub struct YcsbArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    /// Keys that the table is loaded with
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
    /// What the transactions do
    #[arg(long, value_enum, default_value_t = Workload::Silo)]
    pub(crate) workload: Workload,
    /// How keys are chosen [default: the workload's own: uniform for silo, silor and rmw, zipfian for a to f]
    #[arg(long, value_enum)]
    pub(crate) distribution: Option<Distribution>,
    /// Size of a value: 8, 30, 100, 1000 or 10000
    #[arg(long, default_value_t = 100)]
    pub(crate) value_bytes: usize,
    /// In which order the keys are loaded
    #[arg(long, value_enum, default_value_t = LoadOrder::InOrder)]
    pub(crate) load_order: LoadOrder,
}

/// How large TPC-C's business is and what is done in it.
#[derive(Clone, Debug, Args)]
pub struct BusinessArguments {
    /// Warehouses
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u16).range(1..=4_000))]
    pub(crate) warehouses: u16,
    /// Items of the catalogue (fewer than 100000 to try things out)
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u32).range(20..=1_000_000))]
    pub(crate) items: u32,
    /// Customers of a district (fewer than 3000 to try things out)
    #[arg(long, default_value_t = 3_000, value_parser = value_parser!(u32).range(10..=60_000))]
    pub(crate) customers: u32,
    /// Shares of new-order, payment, order-status, delivery and stock-level
    #[arg(long, default_value = "45,43,4,4,4", value_parser = parse_mix)]
    pub(crate) mix: Mix,
    /// Percent of order lines that another warehouse supplies (with more than one warehouse)
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(0..=100))]
    pub(crate) remote: u64,
    /// Percent of payments by customers of another warehouse (with more than one warehouse)
    #[arg(long, default_value_t = 15, value_parser = value_parser!(u64).range(0..=100))]
    pub(crate) remote_payments: u64,
    /// What order-status reads
    #[arg(long, value_enum, default_value_t = ReadMode::Snapshot)]
    pub(crate) order_status: ReadMode,
    /// What stock-level reads
    #[arg(long, value_enum, default_value_t = ReadMode::Snapshot)]
    pub(crate) stock_level: ReadMode,
}

/// Shares of TPC-C's five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix(pub(crate) [u64; 5]);

impl BusinessArguments {
    /// The options that say this again, for a business of so many `warehouses`.
    pub(crate) fn words(&self, warehouses: u16) -> Vec<String> {
        let mix: Vec<String> = self.mix.0.iter().map(u64::to_string).collect();
        let mode = |mode: ReadMode| {
            mode.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
        };
        [
            ("--warehouses", warehouses.to_string()),
            ("--items", self.items.to_string()),
            ("--customers", self.customers.to_string()),
            ("--mix", mix.join(",")),
            ("--remote", self.remote.to_string()),
            ("--remote-payments", self.remote_payments.to_string()),
            ("--order-status", mode(self.order_status)),
            ("--stock-level", mode(self.stock_level)),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value])
        .collect()
    }

    pub(crate) fn scale(&self) -> Scale {
        Scale { warehouses: self.warehouses, items: self.items, customers: self.customers }
    }

    pub(crate) fn flags(&self) -> Flags {
        Flags {
            mix: self.mix.0,
            remote_items_per_million: self.remote * 10_000,
            remote_payments: self.remote_payments,
            order_status: self.order_status,
            stock_level: self.stock_level,
            ..Flags::default()
        }
    }
}

/// `ensile-bench tpcc`.
#[derive(Clone, Debug, Args)]
pub struct TpccArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    #[command(flatten)]
    pub(crate) business: BusinessArguments,
    /// Check the consistency conditions 1 to 12 when all rounds are done
    #[arg(long)]
    pub(crate) check: bool,
    /// Run with the log in a process of its own, kill it after so many seconds of load, recover, and check that
    /// everything acknowledged is there
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) crash_after: Option<f64>,
    /// How often to do that, each time on a fresh database
    #[arg(long, default_value_t = 1, requires = "crash_after", value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: u32,
    /// How often each database is killed and recovered before the next fresh one
    #[arg(long, default_value_t = 1, requires = "crash_after", value_parser = value_parser!(u32).range(1..=50))]
    pub(crate) lives: u32,
    /// How often the recovery after each kill is killed itself, at a random moment, before one may end
    #[arg(long, default_value_t = 0, requires = "crash_after", value_parser = value_parser!(u32).range(0..=50))]
    pub(crate) kill_in_recovery: u32,
    /// The process that is killed makes a checkpoint every so many milliseconds [default: as a database does]
    #[arg(long, requires = "crash_after", value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) checkpoint_ms: Option<u64>,
}

/// `ensile-bench tpcc-victim`: not for people.
#[derive(Clone, Debug, Args)]
pub struct VictimArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    #[command(flatten)]
    pub(crate) business: BusinessArguments,
    /// How many victims the folder has had before
    #[arg(long)]
    pub(crate) life: u32,
    /// Only open the database, and wait
    #[arg(long)]
    pub(crate) recover_only: bool,
    /// Time between checkpoints
    #[arg(long)]
    pub(crate) checkpoint_ms: Option<u64>,
    /// The database's folder
    #[arg(long)]
    pub(crate) folder: PathBuf,
}

/// `ensile-bench latency`.
#[derive(Clone, Debug, Args)]
pub struct LatencyArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    /// Keys that the table is loaded with
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
}

/// `ensile-bench snapshots`.
#[derive(Clone, Debug, Args)]
pub struct SnapshotsArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    /// Keys that the table is loaded with
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
}

/// `ensile-bench open-transaction`.
#[derive(Clone, Debug, Args)]
pub struct OpenTransactionArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    /// Keys that the table is loaded with
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
}

/// What the experiments of both papers have in common.
#[derive(Clone, Debug, Args)]
pub struct ExperimentArguments {
    /// Items of TPC-C's catalogue (fewer than 100000 to try things out)
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u32).range(20..=1_000_000))]
    pub(crate) items: u32,
    /// Customers of a district (fewer than 3000 to try things out)
    #[arg(long, default_value_t = 3_000, value_parser = value_parser!(u32).range(10..=60_000))]
    pub(crate) customers: u32,
    /// Folder for logs and checkpoints on disk; removed when they are measured
    #[arg(long, default_value = "ensile-data")]
    pub(crate) data: PathBuf,
    /// Logger threads
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub(crate) loggers: usize,
    /// Time between epochs, in milliseconds
    #[arg(long, default_value_t = 40, value_parser = value_parser!(u64).range(1..=10_000))]
    pub(crate) epoch_ms: u64,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
}

/// `ensile-bench silo`.
#[derive(Clone, Debug, Args)]
pub struct SiloArguments {
    /// Which experiment
    #[arg(value_enum, default_value_t = Name::All)]
    pub(crate) figure: Name,
    /// Folder for the figures
    #[arg(long, default_value = "silo-results")]
    pub(crate) out: PathBuf,
    /// Length of a timed slice, in seconds [default: 2, where there are many of them 1]
    #[arg(long, value_parser = positive_seconds)]
    pub(crate) seconds: Option<f64>,
    /// Rounds; figures are medians over them
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) rounds: usize,
    /// The most worker threads [default: as many as there are cores; for table10 two on each warehouse]
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) workers: Option<usize>,
    /// Keys of the key-value experiments [default: the experiment's own]
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: Option<u64>,
    /// Warehouses of fig8, fig9, table10 and fig11 [default: one for each worker; fig9 4, table10 1]
    #[arg(long, value_parser = value_parser!(u16).range(1..=64))]
    pub(crate) warehouses: Option<u16>,
    /// Folder for logs in memory (in a tmpfs); removed when they are measured
    #[arg(long, default_value = "/dev/shm/ensile-data")]
    pub(crate) tmpfs: PathBuf,
    /// Memory that each database of TPC-C maps and touches beforehand, in MiB [default: what it will grow to, as far as
    /// half of the machine's memory goes]
    #[arg(long)]
    pub(crate) prefault_mib: Option<usize>,
    /// Time between snapshot boundaries, in milliseconds
    #[arg(long, default_value_t = SNAPSHOT_MS, value_parser = value_parser!(u64).range(1..=3_600_000))]
    pub(crate) snapshot_ms: u64,
    /// Keep each worker on one core
    #[arg(long)]
    pub(crate) pin: bool,
    #[command(flatten)]
    pub(crate) common: ExperimentArguments,
}

/// `ensile-bench silor`.
#[derive(Clone, Debug, Args)]
pub struct SilorArguments {
    /// Which experiment
    #[arg(value_enum, default_value_t = silor::Name::All)]
    pub(crate) figure: silor::Name,
    /// Folder for the figures
    #[arg(long, default_value = "silor-results")]
    pub(crate) out: PathBuf,
    /// Length of a run, in seconds
    #[arg(long, default_value_t = 60.0, value_parser = positive_seconds)]
    pub(crate) seconds: f64,
    /// Rounds of what is repeated
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) rounds: usize,
    /// Worker threads [default: one less than there are cores, which is left to loggers and checkpointers]
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) workers: Option<usize>,
    /// Keys of YCSB
    #[arg(long, default_value_t = 10_000_000, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
    /// Warehouses of TPC-C [default: one for each worker]
    #[arg(long, value_parser = value_parser!(u16).range(1..=64))]
    pub(crate) warehouses: Option<u16>,
    /// Memory at which a run ends early, in GB: TPC-C's business grows for ever
    #[arg(long, default_value_t = 12.0)]
    pub(crate) resident_max_gb: f64,
    /// Checkpointer threads
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub(crate) checkpointers: usize,
    /// Time from the end of a checkpoint to the beginning of the next, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = positive_seconds)]
    pub(crate) checkpoint_seconds: f64,
    /// Checkpoints that each run with checkpoints is to show from beginning to end: one that has not goes on, up to a
    /// hundred times --seconds and ten minutes at least
    #[arg(long, default_value_t = 0)]
    pub(crate) least_checkpoints: usize,
    /// Most that checkpointers write, all together, in MiB a second: what they leave of the disk is the log's
    #[arg(long, default_value_t = 450, value_parser = value_parser!(u64).range(1..))]
    pub(crate) checkpoint_mib: u64,
    /// Let all threads run on all cores; otherwise each worker has a core to itself where there are cores to spare
    #[arg(long)]
    pub(crate) no_pin: bool,
    #[command(flatten)]
    pub(crate) common: ExperimentArguments,
}

/// `ensile-bench recovery`.
#[derive(Clone, Debug, Args)]
pub struct RecoveryArguments {
    /// What is in the database
    #[arg(value_enum, default_value_t = recovery::Load::All)]
    pub(crate) scene: recovery::Load,
    #[command(flatten)]
    pub(crate) run: RunArguments,
    #[command(flatten)]
    pub(crate) business: BusinessArguments,
    /// Keys of YCSB
    #[arg(long, default_value_t = 10_000_000, value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub(crate) records: u64,
    /// Writes of YCSB, each in a transaction of its own [default: two to each key; interrupted: three]
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) writes: Option<u64>,
    /// Threads that recover [default: 1, and as many as there are cores]
    #[arg(long, value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) recovery_threads: Vec<usize>,
    /// Which parts of the log are replayed first
    #[arg(long, value_enum, default_value_t = recovery::Order::BothEnds)]
    pub(crate) order: recovery::Order,
    /// Recover what an earlier run with the same settings left, if it is still there, and leave it again
    #[arg(long)]
    pub(crate) keep: bool,
    /// Folder for the figures
    #[arg(long, default_value = "recovery-results")]
    pub(crate) out: PathBuf,
}

impl RecoveryArguments {
    /// What the victim of a scene writes.
    pub(crate) fn writes(&self, load: recovery::Load) -> recovery::Writes {
        let last_is_open = load == recovery::Load::Interrupted;
        let (records, versions) = match load {
            recovery::Load::Interrupted => (self.records, 3),
            // As many bytes as the others, about.
            recovery::Load::Versions => ((self.records / 200).max(1), 20),
            recovery::Load::Queue => (self.records, 1),
            _ => (self.records, 2),
        };
        recovery::Writes {
            records,
            count: self.writes.unwrap_or(versions * records),
            last_is_open,
            threads: self.run.threads as u64,
            seed: self.run.seed,
        }
    }

    /// Counts of threads that recover: as asked for, or one, and as many as there are cores.
    pub(crate) fn thread_counts(&self) -> Vec<usize> {
        if !self.recovery_threads.is_empty() {
            return self.recovery_threads.clone();
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores > 1 { vec![1, cores] } else { vec![1] }
    }

    /// Whether the folder of this name is to be used as an earlier run left it.
    pub(crate) fn keeps(&self, folder: &std::path::Path) -> bool {
        self.keep && folder.join("MANIFEST").exists()
    }
}

/// `ensile-bench recovery-victim`: not for people.
#[derive(Clone, Debug, Args)]
pub struct RecoveryVictimArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    /// What it is to leave
    #[arg(long, value_enum)]
    pub(crate) load: recovery::Load,
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
    /// What it writes.
    pub(crate) fn writes(&self) -> recovery::Writes {
        recovery::Writes {
            records: self.records,
            count: self.writes,
            last_is_open: self.load == recovery::Load::Interrupted,
            threads: self.run.threads as u64,
            seed: self.run.seed,
        }
    }
}

fn positive_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is due, such as 5 or 0.5".to_owned())?;
    if seconds.is_finite() && (0.01..=1e6).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("between 0.01 and 1000000 seconds".to_owned())
    }
}

fn parse_mix(text: &str) -> Result<Mix, String> {
    let problem = || "five shares are due, such as 45,43,4,4,4".to_owned();
    let shares: Vec<u64> =
        text.split([',', '/']).map(str::parse).collect::<Result<_, _>>().map_err(|_| problem())?;
    let shares: [u64; 5] = shares.try_into().map_err(|_| problem())?;
    match shares.iter().sum() {
        0u64 => Err("the shares are all 0".to_owned()),
        1..=1_000_000 => Ok(Mix(shares)),
        _ => Err("shares of more than 1000000 in all".to_owned()),
    }
}

#[cfg(test)]
mod tests;
