//! `siren cost`: what a commit pays for pictures while none is written: instructions and last-level misses, counted by
//! callgrind, and resident bytes of a row.
//!
//! Each run is a process of its own: it opens a database, fills it, and does so many transactions on one thread. What a
//! transaction costs is the difference between N and 2N of them. Instructions are those of all threads, the log's
//! included. Misses are the worker's alone: those of the load, of the log's checksums and of the walk come and go with
//! how threads take turns, and are many times those of the writes. They stand for each transaction that writes, of
//! which the log has an entry each: in YCSB that is a write, in TPC-C many, so there no limit is set. Epochs take ten
//! seconds there: under valgrind the speed of the machine would decide how many transactions an epoch has.
//!
//! ```text
//! in memory               neither log nor pictures
//! fuzzy                   a log, and fuzzy checkpoints: what pictures are compared with
//! before the first        a log, opened for pictures, none begun
//! behind one              a log, and a full picture has ended: each key's first change marks its page
//! ```
//! Neighbours: [`run`] is the process, [`cachegrind`] runs it; [`crate::ycsb`] and [`crate::tpcc`] are what it does.

pub(crate) mod run;

use std::path::Path;

use clap::ValueEnum as _;

use super::Made;
use super::arguments::SirenArguments;
use crate::cachegrind::{self, LAST_LEVEL};
use crate::failure::{Failure, Result};
use crate::figure::{Figure, Place, Row};
use crate::number::grouped;
use crate::progress::Progress;
use crate::system::fresh_folder;
pub(crate) use run::one_run;
use run::{COUNTED_WORK, CostLoad, CostSetup};

/// Where cachegrind writes, in the folder of all data.
const FOLDER: &str = "siren-cost";
/// Keys of the house's figure of YCSB: they fit into the cache.
const HOUSE_RECORDS: u64 = 20_000;
/// Of the transactions of YCSB that are asked for, where nearly every write is a first change, and in TPC-C: so many.
const FEWER: u64 = 20;
/// Of a transaction of YCSB 80/20 so much is a write.
const YCSB_WRITES: f64 = 0.2;
/// What is asked for: percent of instructions with pictures, the worker's misses for a write, bytes of a row.
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

/// What is run under cachegrind.
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
    /// All of them. First changes are as many as the draw says: so many keys are written for the first time.
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

/// Which share of the writes between N and 2N transactions meets a row that was not written before.
fn first_changes(records: u64, transactions: u64) -> f64 {
    let (records, writes) = (records as f64, transactions as f64 * YCSB_WRITES);
    let written = |writes: f64| records * (1.0 - (1.0 - 1.0 / records).powf(writes));
    (written(2.0 * writes) - written(writes)) / writes
}

/// All scenes.
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

/// What a transaction takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    /// Of all threads.
    instructions: f64,
    /// Of the last level, the worker's alone.
    misses: f64,
    /// Transactions that write: entries of the log.
    writing: f64,
}

/// What a transaction of a scene takes.
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

/// What pictures add to what fuzzy checkpoints take.
#[derive(Clone, Copy, Debug, PartialEq)]
struct More {
    instructions: f64,
    /// The same, of what a transaction takes in memory: the log's part makes no share smaller.
    percent: f64,
    /// For each transaction that writes.
    misses: f64,
}

impl More {
    /// Of one setup, where `each` has all of them. Those that write are counted with the fuzzy one, whose
    /// transactions are the same.
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
