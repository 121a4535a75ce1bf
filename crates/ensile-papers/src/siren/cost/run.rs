//! The process that `siren cost` counts: a database, its rows, and transactions on one thread.
//!
//! The process prints the resident bytes of the rows, pictures included, or the number of log entries, load included:
//! one entry for each writing transaction. The work of the only worker is inside [`counted_work`], so callgrind
//! separates the worker's cost from the cost of other threads.
//!
//! Neighbours: [`super`] starts the process, under cachegrind or alone.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use ensile::checkpoint::{Schedule, Strategy};
use ensile::{Database, Durability, Tuning};
use ensile_bench::arguments::positive_seconds;
use ensile_bench::driver::{self, Pace, Plan, Slice, Subject};
use ensile_bench::machine::resident_bytes;
use ensile_bench::system::{Options, SystemKind, fresh_folder};
use ensile_bench::tpcc::draw::Constants;
use ensile_bench::tpcc::flags::Flags;
use ensile_bench::tpcc::tables::{Scale, Tables};
use ensile_bench::tpcc::{Business, load};
use ensile_bench::ycsb::engine::Engine;
use ensile_bench::ycsb::load::LoadPlan;
use ensile_bench::ycsb::mix::{Requests, Workload};
use ensile_bench::{Failure, Result};

use crate::siren::arguments::SirenArguments;

/// The folder of the database, within the folder of all data.
const FOLDER: &str = "siren-cost-run";
const VALUE_BYTES: usize = 100;
/// TPC-C in the size of the project's other counts.
const SCALE: Scale = Scale { warehouses: 1, items: 1_000, customers: 60 };
/// Interval of snapshot boundaries; longer than a run, so a run has no boundary.
const SNAPSHOTS: Duration = Duration::from_secs(3_600);

/// The load of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CostLoad {
    Ycsb,
    Tpcc,
}

/// Logs and pictures of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CostSetup {
    /// Neither log nor pictures.
    InMemory,
    /// A log, and fuzzy checkpoints.
    Fuzzy,
    /// A log; the database is opened for pictures, and no picture has begun.
    Before,
    /// A log, and a full picture has ended.
    Behind,
}

impl CostSetup {
    pub(super) fn has_pictures(self) -> bool {
        matches!(self, Self::Before | Self::Behind)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::InMemory => "in memory",
            Self::Fuzzy => "fuzzy",
            Self::Before => "before the first picture",
            Self::Behind => "behind a picture",
        }
    }
}

/// `ensile-papers siren-cost-run`.
#[derive(Clone, Debug, Args)]
pub struct CostRunArguments {
    #[arg(long, value_enum)]
    load: CostLoad,
    #[arg(long, value_enum)]
    setup: CostSetup,
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    records: u64,
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 40))]
    transactions: u64,
    #[arg(long)]
    page_bytes: usize,
    #[arg(long)]
    data: PathBuf,
    #[arg(long)]
    seed: u64,
    /// Print the entries of the log, in place of resident bytes
    #[arg(long)]
    says_entries: bool,
    /// Time between epochs, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = positive_seconds)]
    epoch: f64,
}

/// The option for a run that prints the number of log entries.
pub(super) const SAYS_ENTRIES: &str = "--says-entries";

/// The words of a run's command line.
pub(super) fn words(
    load: CostLoad,
    setup: CostSetup,
    (records, transactions): (u64, u64),
    arguments: &SirenArguments,
) -> Vec<String> {
    let name = |value: Option<clap::builder::PossibleValue>| {
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    };
    let mut words = vec!["siren-cost-run".to_owned()];
    for (option, value) in [
        ("--load", name(load.to_possible_value())),
        ("--setup", name(setup.to_possible_value())),
        ("--records", records.max(1).to_string()),
        ("--transactions", transactions.to_string()),
        ("--page-bytes", arguments.page_bytes.to_string()),
        ("--data", arguments.data.display().to_string()),
        ("--seed", arguments.seed.to_string()),
    ] {
        words.extend([option.to_owned(), value]);
    }
    words
}

/// Makes the run.
pub(crate) fn one_run(arguments: &CostRunArguments) -> Result<()> {
    let path = fresh_folder(&arguments.data, FOLDER)?;
    let tuning = Tuning {
        checkpointers: Some(1),
        checkpoint_page_bytes: arguments.page_bytes,
        checkpoint_strategy: match arguments.setup {
            CostSetup::InMemory => None,
            CostSetup::Fuzzy => Some(Strategy::Fuzzy),
            CostSetup::Before | CostSetup::Behind => Some(Strategy::Pictures),
        },
        ..Tuning::default()
    };
    let options = Options {
        epoch_interval: Duration::from_secs_f64(arguments.epoch),
        snapshot_interval: SNAPSHOTS,
        checkpoints: Schedule::on_demand(),
        tuning,
        ..Options::default()
    };
    let before = resident_bytes();
    let db = options.open(match arguments.setup {
        CostSetup::InMemory => Database::builder_in_memory(),
        _ => Database::builder(&path).durability(Durability::Relaxed),
    })?;
    match arguments.load {
        CostLoad::Ycsb => {
            let requests = Requests::new(Workload::Silo, arguments.records, None);
            let plan = LoadPlan::in_order(arguments.records, 1);
            let engine = Engine::<VALUE_BYTES>::over(SystemKind::Memsilo, db.clone(), requests, &plan)?;
            transactions(arguments, &db, &engine, before)?;
        }
        CostLoad::Tpcc => {
            let tables = Tables::open(&db, SCALE)?;
            let constants = Constants::seeded(arguments.seed);
            load::load(&tables, constants, arguments.seed, 1)?;
            // From here on snapshots show the whole business.
            drop(db.snapshot_latest()?);
            let business = Business::new(SystemKind::Memsilo, tables, Flags::default(), constants);
            transactions(arguments, &db, &business, before)?;
        }
    }
    db.close()?;
    if arguments.says_entries {
        println!("{}", db.stats().log.map_or(0, |log| log.entries));
    }
    std::fs::remove_dir_all(&path).map_err(Failure::io(format!("removing {}", path.display())))
}

/// Takes a picture if the setup has one, prints the resident bytes, and runs the transactions.
fn transactions(
    arguments: &CostRunArguments,
    db: &Database,
    subject: &dyn Subject,
    before: u64,
) -> Result<()> {
    if arguments.setup == CostSetup::Behind {
        db.checkpoint()?.wait()?;
    }
    if !arguments.says_entries {
        println!("{}", resident_bytes().saturating_sub(before));
    }
    let pace = Pace::Counted(arguments.transactions);
    let plan = Plan { threads: 1, batch: 1, pace, rounds: 1, seed: arguments.seed, pin: None };
    driver::run(&[&OneWorker(subject)], &plan, |_, _, _| {}).map(drop)
}

/// A load whose only worker works within [`counted_work`].
struct OneWorker<'s>(&'s dyn Subject);

impl Subject for OneWorker<'_> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        counted_work(self.0, slice)
    }
}

/// Name of the worker's function in callgrind's file.
pub(super) const COUNTED_WORK: &str = "counted_work";

/// The whole work of the worker, in a separate function.
#[inline(never)]
fn counted_work(subject: &dyn Subject, slice: &mut Slice<'_>) -> Result<()> {
    subject.work(slice)
}
