//! `siren cost`: cost of pictures for a commit while no picture is written: instructions and last-level misses, counted
//! by callgrind, and resident bytes of a row.
//!
//! Each run is a process of its own: the process opens a database, fills it, and runs a number of transactions on one
//! thread. The cost of a transaction is the difference between N and 2N transactions. Instructions are the instructions
//! of all threads, including the log's threads. Misses are the worker's alone: misses of the load, of the log's
//! checksums and of the walk vary with the order in which threads run, and are many times the misses of the writes.
//! Misses are given per writing transaction. The log has one entry per writing transaction: in YCSB a write, in TPC-C
//! many writes, so TPC-C has no limit. Epochs take ten seconds here: under valgrind the speed of the machine would
//! decide the number of transactions in an epoch.
//!
//! ```text
//! in memory               neither log nor pictures
//! fuzzy                   a log, and fuzzy checkpoints: what pictures are compared with
//! before the first        a log, opened for pictures, none begun
//! behind one              a log, and a full picture has ended: each key's first change marks its page
//! ```
//! Neighbours: [`run`] is the process, [`cachegrind`] runs it; [`ensile_bench::ycsb`] and [`ensile_bench::tpcc`] are
//! the workloads.

pub(crate) mod run;

use std::path::Path;

use clap::ValueEnum as _;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::grouped;
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};

use super::arguments::SirenArguments;
use super::results::Made;
use crate::cachegrind::{self, LAST_LEVEL};
pub(crate) use run::one_run;
use run::{COUNTED_WORK, CostLoad, CostSetup};

/// Folder for cachegrind's output, in the folder of all data.
const FOLDER: &str = "siren-cost";
/// Number of keys of the house's figure of YCSB. The keys fit into the cache.
const HOUSE_RECORDS: u64 = 20_000;
/// Divisor of YCSB's number of transactions, for the scene with nearly only first changes, and for TPC-C.
const FEWER: u64 = 20;
/// Share of writes in the transactions of YCSB 80/20.
const YCSB_WRITES: f64 = 0.2;
/// Limits: percent of instructions with pictures, the worker's misses per write, bytes of a row.
const INSTRUCTIONS_MAX: f64 = 2.0;
const MISSES_MAX: f64 = 0.1;
const BYTES_MAX: f64 = 2.0;

const INSTRUCTIONS: (&str, &str) = ("instructions", "a transaction");
const MORE: (&str, &str) = ("instructions, more than fuzzy", "a transaction");
const MORE_PERCENT: (&str, &str) = ("instructions, more than fuzzy", "% of a transaction in memory");
const MISSES: (&str, &str) = ("last-level misses of the worker", "a transaction");
const MORE_MISSES: (&str, &str) =
    ("last-level misses of the worker, more than fuzzy", "a transaction that writes");
const WRITING: (&str, &str) = ("transactions that write", "a transaction");
const RESIDENT: (&str, &str) = ("resident", "bytes a row");

/// A workload under cachegrind.
#[derive(Clone, Debug)]
struct Scene {
    name: String,
    load: CostLoad,
    /// Rows of YCSB.
    records: u64,
    /// N.
    transactions: u64,
}

impl Scene {
    /// Every scene. The share of first changes follows from the random draw of keys.
    fn all(arguments: &SirenArguments) -> Vec<Self> {
        let (many, few) = (arguments.transactions, (arguments.transactions / FEWER).max(1));
        let ycsb = |records: u64, transactions| Self {
            name: format!(
                "YCSB 80/20, {} rows, {:.0} % of the writes are first changes",
                grouped(records as f64),
                first_changes(records, transactions) * 100.0
            ),
            load: CostLoad::Ycsb,
            records,
            transactions,
        };
        let house = HOUSE_RECORDS.min(arguments.rows);
        let mut scenes = vec![ycsb(house, many), ycsb(house, few)];
        if arguments.rows > house {
            scenes.push(ycsb(arguments.rows, many));
        }
        let name = "TPC-C, 1,000 items, 60 customers a district".to_owned();
        scenes.push(Self { name, load: CostLoad::Tpcc, records: 0, transactions: few });
        scenes
    }
}

/// Share of the writes between N and 2N transactions that change a row for the first time.
fn first_changes(records: u64, transactions: u64) -> f64 {
    let (records, writes) = (records as f64, transactions as f64 * YCSB_WRITES);
    let written = |writes: f64| records * (1.0 - (1.0 - 1.0 / records).powf(writes));
    (written(2.0 * writes) - written(writes)) / writes
}

/// Runs every scene.
pub(super) fn cost(arguments: &SirenArguments) -> Result<Made> {
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let mut progress = Progress::new(1);
    let (mut rows, mut said) = (Vec::new(), String::new());
    for scene in Scene::all(arguments) {
        let mut each = Vec::new();
        for &setup in CostSetup::value_variants() {
            each.push(a_transaction(arguments, (&scene, setup), &folder, &mut progress)?);
        }
        for (&setup, &counted) in CostSetup::value_variants().iter().zip(&each) {
            let more = (setup.has_pictures()).then(|| More::of(counted, &each));
            rows.extend(rows_of(&scene, setup, counted, more));
            said += &words_of(&scene, setup, counted, more);
        }
    }
    let bytes = resident(arguments, &mut progress)?;
    for (setup, per_row) in CostSetup::value_variants().iter().zip(&bytes) {
        let count = grouped(arguments.rows as f64);
        rows.push(Row::new(setup.name(), Place::Bar(format!("{count} rows")), RESIDENT, vec![*per_row]));
        said += &format!("  {count} rows, {}: {per_row:.2} resident bytes a row", setup.name());
        if setup.has_pictures() {
            said += &format!(", {:+.2}, asked <= +{BYTES_MAX}", per_row - bytes[CostSetup::Fuzzy as usize]);
        }
        said.push('\n');
    }
    progress.clear();
    std::fs::remove_dir_all(&folder).map_err(Failure::io(format!("removing {}", folder.display())))?;
    let title = "What a transaction costs by callgrind, no checkpoint running".to_owned();
    let notes = vec![format!("last level: {LAST_LEVEL}")];
    let figure = Figure { name: "cost", title, drawn: INSTRUCTIONS, notes, rows, ..Figure::default() };
    Ok(Made(vec![figure], true, said))
}

/// Cost of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    /// Instructions of all threads.
    instructions: f64,
    /// Last-level misses of the worker alone.
    misses: f64,
    /// Number of writing transactions: entries of the log.
    writing: f64,
}

/// Measures the cost of a transaction of a scene.
fn a_transaction(
    arguments: &SirenArguments,
    (scene, setup): (&Scene, CostSetup),
    folder: &Path,
    progress: &mut Progress,
) -> Result<Cost> {
    let mut runs = [Cost::default(); 2];
    for (run, times) in runs.iter_mut().zip([1, 2]) {
        let transactions = times * scene.transactions;
        let count = grouped(transactions as f64);
        progress.say(&format!("{}: {}, {count} transactions", scene.name, setup.name()));
        let mut words = run::words(scene.load, setup, (scene.records, transactions), arguments);
        words.push(run::SAYS_ENTRIES.to_owned());
        let counted = cachegrind::count_within(&words, folder, COUNTED_WORK)?;
        let (instructions, misses) = (counted.all.instructions, counted.within.misses);
        *run = Cost { instructions, misses, writing: counted.said };
    }
    let per = |of: fn(&Cost) -> f64| (of(&runs[1]) - of(&runs[0])) / scene.transactions as f64;
    Ok(Cost {
        instructions: per(|cost| cost.instructions),
        misses: per(|cost| cost.misses),
        writing: per(|cost| cost.writing),
    })
}

/// Additional cost of pictures, beside the cost with fuzzy checkpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
struct More {
    instructions: f64,
    /// Additional instructions in percent of a transaction's instructions in memory: the log's part makes no share
    /// smaller.
    percent: f64,
    /// Additional misses per writing transaction.
    misses: f64,
}

impl More {
    /// The additional cost of one setup; `each` has the costs of every setup. Misses are divided by the fuzzy setup's
    /// number of writing transactions: the transactions of the setups are the same.
    fn of(cost: Cost, each: &[Cost]) -> Self {
        let (memory, fuzzy) = (each[CostSetup::InMemory as usize], each[CostSetup::Fuzzy as usize]);
        let instructions = cost.instructions - fuzzy.instructions;
        let percent = instructions / memory.instructions * 100.0;
        Self { instructions, percent, misses: (cost.misses - fuzzy.misses) / fuzzy.writing }
    }
}

fn rows_of(scene: &Scene, setup: CostSetup, cost: Cost, more: Option<More>) -> Vec<Row> {
    let row = |metric, value| Row::new(setup.name(), Place::Bar(scene.name.clone()), metric, vec![value]);
    let mut rows = vec![row(INSTRUCTIONS, cost.instructions), row(MISSES, cost.misses)];
    if setup != CostSetup::InMemory {
        rows.push(row(WRITING, cost.writing));
    }
    if let Some(more) = more {
        rows.extend([
            row(MORE, more.instructions),
            row(MORE_PERCENT, more.percent),
            row(MORE_MISSES, more.misses),
        ]);
    }
    rows
}

fn words_of(scene: &Scene, setup: CostSetup, cost: Cost, more: Option<More>) -> String {
    let mut said = format!("  {}, {}: {:.1} instructions", scene.name, setup.name(), cost.instructions);
    if let Some(more) = more {
        said += &format!(
            ", {:+.1} and {:+.2} % of what is in memory, asked <= +{INSTRUCTIONS_MAX} %; {:+.3} misses of the worker",
            more.instructions, more.percent, more.misses
        );
        said += &match scene.load {
            CostLoad::Ycsb => format!(" a write, asked <= +{MISSES_MAX}"),
            CostLoad::Tpcc => " a transaction that writes".to_owned(),
        };
    }
    said + "\n"
}

/// Resident bytes of a row in each setup, without valgrind.
fn resident(arguments: &SirenArguments, progress: &mut Progress) -> Result<Vec<f64>> {
    let measure = |setup: &CostSetup| {
        progress.say(&format!("resident memory: {}", setup.name()));
        let words = run::words(CostLoad::Ycsb, *setup, (arguments.rows, 1), arguments);
        Ok(cachegrind::said_alone(&words)? / arguments.rows as f64)
    };
    CostSetup::value_variants().iter().map(measure).collect()
}

#[cfg(test)]
mod tests {
    use super::{Cost, More, first_changes};

    #[test]
    fn pictures_are_compared_with_fuzzy_checkpoints_and_what_is_in_memory() {
        let [memory, fuzzy, behind] = [(1_000.0, 1.0, 0.0), (1_500.0, 2.0, 4.0), (1_520.0, 2.5, 4.1)]
            .map(|(instructions, misses, writing)| Cost { instructions, misses, writing });
        let more = More::of(behind, &[memory, fuzzy]);
        assert_eq!(more, More { instructions: 20.0, percent: 2.0, misses: 0.125 });
    }

    #[test]
    fn first_changes_become_fewer() {
        let share = |records, transactions| (first_changes(records, transactions) * 100.0).round();
        assert_eq!((share(20_000, 100_000), share(20_000, 5_000)), (23.0, 93.0));
        assert_eq!(share(1_000_000_000, 10), 100.0);
    }
}
