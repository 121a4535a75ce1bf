//! `siren marks`: five ways to know the changed pages, over the same keys (A to E in section 4 of
//! `docs/internals/protocols/pictures.md`): nanoseconds and instructions of a first change, cost of the freeze, bytes
//! of a row.
//!
//! Rows are looked up as in a commit, in a stand-in for the index ([`ways`]). The cost of the look-up alone is taken
//! off. Two tables are measured, with a tenth of `--rows` and with all rows. Rows change once each, at random: one in a
//! hundred, or every row. Instructions are counted in the smaller table. Ways take turns in each round.
//!
//! Invariant: each way finds the pages of every changed row, or the exit code is 1.
//!
//! Neighbours: [`ways`] has the ways; the feature `experiments` exports the engine's own search, marks and maps.

pub(crate) mod ways;

use std::path::Path;

use clap::{Args, ValueEnum as _, value_parser};
use ensile_base::clock::Clock;

use self::ways::{Rows, Way};
use super::Made;
use super::arguments::SirenArguments;
use super::run::must_fit;
use crate::cachegrind::{self, Counted};
use crate::failure::{Failure, Result};
use crate::figure::{Figure, Place, Row};
use crate::number::grouped;
use crate::progress::Progress;
use crate::system::fresh_folder;
use crate::ycsb::permutation::Permutation;

/// Folder for cachegrind's output, in the folder of all data.
const FOLDER: &str = "siren-marks";
/// Default number of rounds.
const ROUNDS: usize = 5;
/// Rows per changed row: one row in a hundred changes, or every row.
const ONE_OF: [u64; 2] = [100, 1];
/// Size of the whole table, as a multiple of the smaller table.
const SMALLER: u64 = 10;

const LOOK_UP: (&str, &str) = ("time of the look-up", "ns a change");
const NANOS: (&str, &str) = ("time, without the look-up", "ns a change");
const FREEZE: (&str, &str) = ("at the freeze", "ms");
const BYTES: (&str, &str) = ("memory", "bytes a row");
const INSTRUCTIONS: (&str, &str) = ("instructions, without the look-up", "a change");
const MISSES: (&str, &str) = ("last-level misses, without the look-up", "a change");

/// `ensile-bench siren-marks-run`: the process under cachegrind.
#[derive(Clone, Debug, Args)]
pub struct MarksRunArguments {
    #[arg(long, value_enum)]
    way: Way,
    #[arg(long, value_parser = value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    rows: u64,
    #[arg(long, value_parser = value_parser!(u64).range(0..))]
    changes: u64,
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    page_rows: u64,
    #[arg(long)]
    seed: u64,
}

/// Makes the run.
pub(crate) fn one_run(arguments: &MarksRunArguments) {
    let &MarksRunArguments { way, rows, changes, page_rows, seed } = arguments;
    Rows::new(rows, page_rows, seed).change(way, &drawn(rows, changes, seed));
}

/// `changes` of the rows, drawn at random without repetition.
fn drawn(rows: u64, changes: u64, seed: u64) -> Vec<u32> {
    let order = Permutation::new(rows, seed.wrapping_add(1));
    (0..changes.min(rows)).map(|at| order.at(at) as u32).collect()
}

/// Measurements of one way, by round.
#[derive(Default)]
struct Taken {
    nanos: Vec<f64>,
    freeze: Vec<f64>,
    bytes: Vec<f64>,
}

/// Number of rows of a page.
fn page_rows(arguments: &SirenArguments) -> u64 {
    (arguments.page_bytes / arguments.row_bytes).max(1) as u64
}

/// Measures every way, in both tables.
pub(super) fn run(arguments: &SirenArguments) -> Result<Made> {
    must_fit(arguments)?;
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let mut progress = Progress::new(arguments.rounds.unwrap_or(ROUNDS));
    let (mut rows, mut said, mut all_found) = (Vec::new(), String::new(), true);
    for (count, is_smaller) in [((arguments.rows / SMALLER).max(1), true), (arguments.rows, false)] {
        progress.say(&format!("making {} rows", grouped(count as f64)));
        let mut table = Rows::new(count, page_rows(arguments), arguments.seed);
        for one_of in ONE_OF {
            let changed = drawn(count, (count / one_of).max(1), arguments.seed);
            let name = format!("{} of {} rows", grouped(changed.len() as f64), grouped(count as f64));
            let taken = timed(arguments, &mut table, &changed, &mut progress, &name);
            for (&way, (taken, found)) in Way::value_variants().iter().zip(taken) {
                all_found &= found;
                if !found {
                    said += &format!("  {name}, {}: a page that has changed is NOT FOUND\n", way.name());
                }
                let row = |metric, values| Row::new(way.name(), Place::Bar(name.clone()), metric, values);
                if way == Way::LookUp {
                    rows.push(row(LOOK_UP, taken.nanos));
                } else {
                    rows.extend([
                        row(NANOS, taken.nanos),
                        row(FREEZE, taken.freeze),
                        row(BYTES, taken.bytes),
                    ]);
                }
            }
            if is_smaller {
                let [count, changes] = [count, changed.len() as u64];
                rows.extend(counted(arguments, [count, changes], &folder, &mut progress, &name)?);
            }
        }
    }
    progress.clear();
    std::fs::remove_dir_all(&folder).map_err(Failure::io(format!("removing {}", folder.display())))?;
    let title = format!("To know which pages have changed: pages of {} rows", page_rows(arguments));
    let notes =
        vec!["stand-ins for index and records; search, marks and maps of pages as they ship".to_owned()];
    let figure = Figure { name: "marks", title, drawn: NANOS, notes, rows, ..Figure::default() };
    Ok(Made(vec![figure], all_found, said))
}

/// Times each way. True for a way that found the pages of every change. The look-up's own time is taken off the other
/// ways' times.
fn timed(
    arguments: &SirenArguments,
    table: &mut Rows,
    changed: &[u32],
    progress: &mut Progress,
    name: &str,
) -> Vec<(Taken, bool)> {
    let clock = Clock::machine();
    let mut pages: Vec<usize> =
        changed.iter().map(|row| *row as usize / page_rows(arguments) as usize).collect();
    pages.sort_unstable();
    pages.dedup();
    let mut all: Vec<_> = Way::value_variants().iter().map(|_| (Taken::default(), true)).collect();
    for round in 0..arguments.rounds.unwrap_or(ROUNDS) {
        let mut look_up = 0.0;
        for (&way, (taken, found)) in Way::value_variants().iter().zip(&mut all) {
            progress.update(&format!("{name}, round {}: {}", round + 1, way.name()));
            // The same look-ups fill the caches before each way, so the previous way does not matter.
            table.change(Way::LookUp, changed);
            let began = clock.nanos();
            table.change(way, changed);
            let nanos = (clock.nanos() - began) as f64 / changed.len() as f64;
            taken.bytes.push(table.bytes_per_row(way));
            let began = clock.nanos();
            let known = table.freeze(way);
            taken.freeze.push((clock.nanos() - began) as f64 / 1e6);
            table.forget();
            if way == Way::LookUp {
                look_up = nanos;
                taken.nanos.push(nanos);
            } else {
                taken.nanos.push(nanos - look_up);
                *found &= pages.iter().all(|page| known.binary_search(page).is_ok());
            }
        }
    }
    all
}

/// Counts each way: its changes beside a run without changes. With the look-up the draw of the row is taken off.
fn counted(
    arguments: &SirenArguments,
    [rows, changes]: [u64; 2],
    folder: &Path,
    progress: &mut Progress,
    name: &str,
) -> Result<Vec<Row>> {
    let mut all: Vec<Row> = Vec::new();
    let mut look_up = Counted { instructions: 0.0, misses: 0.0 };
    for &way in Way::value_variants() {
        progress.update(&format!("{name}, counting: {}", way.name()));
        let of = |changes| cachegrind::count(&words(arguments, way, [rows, changes]), folder);
        let (none, some) = (of(0)?, of(changes)?);
        let each = |of: fn(&Counted) -> f64| (of(&some) - of(&none)) / changes as f64;
        let each = Counted { instructions: each(|it| it.instructions), misses: each(|it| it.misses) };
        let row = |metric, value| Row::new(way.name(), Place::Bar(name.to_owned()), metric, vec![value]);
        if way == Way::LookUp {
            look_up = each;
        } else {
            all.push(row(INSTRUCTIONS, each.instructions - look_up.instructions));
            all.push(row(MISSES, each.misses - look_up.misses));
        }
    }
    Ok(all)
}

/// The command line of a run.
fn words(arguments: &SirenArguments, way: Way, [rows, changes]: [u64; 2]) -> Vec<String> {
    let way = way.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let values = [rows, changes, page_rows(arguments), arguments.seed].map(|value| value.to_string());
    let options = ["--rows", "--changes", "--page-rows", "--seed"].map(str::to_owned);
    let mut words = ["siren-marks-run", "--way", &way].map(str::to_owned).to_vec();
    words.extend(options.into_iter().zip(values).flat_map(<[String; 2]>::from));
    words
}
