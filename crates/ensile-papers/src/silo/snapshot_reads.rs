//! Figure 10 (§5.5): half new-orders, half stock-levels, two workers on each warehouse. A stock-level reads hundreds of
//! rows that new-orders change. On a snapshot a stock-level never meets a conflict; in the present a conflict runs the
//! stock-level again. As in the paper, new-orders execute as usual in both cases, so new-orders keep versions even
//! without readers. A database without versions stands beside.
//!
//! Neighbours: [`ensile_bench::tpcc`] has counts by kind, which show the conflicts of each kind.

use std::ops::Range;

use ensile_bench::Result;
use ensile_bench::driver::Subject;
use ensile_bench::figure::{Figure, Place, RATIO, Row};
use ensile_bench::number::{counted, grouped};
use ensile_bench::system::{Options, SystemKind};
use ensile_bench::tpcc::counts::{Counts, KINDS};
use ensile_bench::tpcc::flags::{Flags, ReadMode};

use super::lab::{Course, Lab, rates};

/// Shares of the mix.
const HALF_AND_HALF: [u64; 5] = [50, 0, 0, 0, 50];
const STOCK_LEVEL_ONLY: [u64; 5] = [0, 0, 0, 0, 100];
/// The kinds that run, by index in [`KINDS`].
const RUN: [usize; 2] = [0, 4];

/// Number of fresh loads of both databases; the loads alternate the order. The place of a database in memory may move
/// the throughput of every round.
const LOADS: usize = 4;
/// The systems, in the order of their turns: compared systems are adjacent. The paper calls the second `MemSilo+NoSS`.
const SYSTEMS: [&str; 5] = [
    "memsilo",
    "memsilo, read in the present",
    "memsilo+no-snapshots",
    "stock-level alone",
    "stock-level alone, read in the present",
];

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Vec<Figure>> {
    let warehouses = lab.arguments.warehouses.unwrap_or(1);
    let workers = lab.arguments.workers.unwrap_or(2 * usize::from(warehouses));
    let mut all = SYSTEMS.map(|_| Measured::default());
    let loads = LOADS.min(lab.arguments.rounds);
    for load in 0..loads {
        let at = |load: usize| load * lab.arguments.rounds / loads;
        measure(lab, (warehouses, workers), load % 2 == 1, at(load)..at(load + 1), &mut all)?;
    }
    let rows = rows(&all);
    Ok(vec![Figure {
        name: "table10",
        title: format!(
            "Half new-order, half stock-level: {} on {}",
            counted(workers, "worker"),
            counted(warehouses.into(), "warehouse")
        ),
        horizontal: "",
        drawn: ("throughput", "txn/s"),
        notes: notes(&rows),
        rows,
        ..Figure::default()
    }])
}

/// Rounds of a system, with counts.
#[derive(Default)]
struct Measured {
    rates: Vec<f64>,
    counts: Vec<Counts>,
}

/// Loads both databases and measures all systems for a range of rounds.
fn measure(
    lab: &mut Lab<'_>,
    (warehouses, workers): (u16, usize),
    none_first: bool,
    rounds: Range<usize>,
    all: &mut [Measured; SYSTEMS.len()],
) -> Result<()> {
    let slices = 2 * rounds.len();
    let course = Course { databases: 2, warehouses, workers, slices, mib_per_s: Course::HALF_NEW_ORDERS };
    let kept = lab.business_options(&course);
    let not_kept = Options { snapshots: false, ..kept.clone() };
    let flags = |mix, stock_level| Flags { mix, stock_level, ..Flags::default() };
    let (past, present) = (ReadMode::Snapshot, ReadMode::Serializable);
    let mut found = |name, options: &Options, mode| {
        lab.business(name, SystemKind::Memsilo, options, (warehouses, false), flags(HALF_AND_HALF, mode))
    };
    let (keeps, keeps_none) = if none_first {
        let keeps_none = found(SYSTEMS[2], &not_kept, present)?;
        (found(SYSTEMS[0], &kept, past)?, keeps_none)
    } else {
        (found(SYSTEMS[0], &kept, past)?, found(SYSTEMS[2], &not_kept, present)?)
    };
    let systems = [
        keeps.beside(SYSTEMS[0], flags(HALF_AND_HALF, past)),
        keeps.beside(SYSTEMS[1], flags(HALF_AND_HALF, present)),
        keeps_none.beside(SYSTEMS[2], flags(HALF_AND_HALF, present)),
        keeps.beside(SYSTEMS[3], flags(STOCK_LEVEL_ONLY, past)),
        keeps.beside(SYSTEMS[4], flags(STOCK_LEVEL_ONLY, present)),
    ];
    let subjects = systems.each_ref().map(|system| system as &dyn Subject);
    let measured = lab.measure_some(&subjects, workers, rounds, |index| {
        all[index].counts.push(systems[index].take_counts());
    })?;
    for (all, measured) in all.iter_mut().zip(&measured) {
        all.rates.extend(rates(measured));
    }
    Ok(())
}

fn rows(all: &[Measured; SYSTEMS.len()]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, Measured { rates, counts }) in SYSTEMS.into_iter().zip(all) {
        let place = Place::Bar(name.to_owned());
        let mut row = |metric: &str, unit, values| {
            rows.push(Row::new(name, place.clone(), (metric, unit), values));
        };
        row("throughput", "txn/s", rates.clone());
        for kind in RUN {
            // Counts cover the whole slice, lead-in included; the window's rate is divided in the ratio of the counts.
            let per_s = |what: fn(&Counts, usize) -> u64| {
                let share = |counts: &Counts| what(counts, kind) as f64 / counts.done().max(1) as f64;
                rates.iter().zip(counts).map(|(rate, counts)| rate * share(counts)).collect()
            };
            row(KINDS[kind], "txn/s", per_s(|counts, kind| counts.0[kind].done));
            row(&run_again(kind), "aborts/s", per_s(|counts, kind| counts.0[kind].conflicts));
        }
    }
    for (left, right) in [(0, 1), (0, 2), (3, 4)] {
        let place = Place::Bar(SYSTEMS[left].to_owned());
        let of = |at: usize| (SYSTEMS[at], all[at].rates.as_slice());
        rows.push(Row::ratio(of(left), of(right), place));
    }
    rows
}

/// The metric of a kind's attempts ended by a conflict.
fn run_again(kind: usize) -> String {
    format!("{} run again", KINDS[kind])
}

/// Figures beside the bars: ratios, and the cost of conflicts.
fn notes(rows: &[Row]) -> Vec<String> {
    let ratios = rows.iter().filter(|row| row.metric == RATIO.0).map(|row| {
        let Row { system, median, min, max, .. } = row;
        format!("{system}: {median:.2} ({min:.2} .. {max:.2})")
    });
    let again = RUN.into_iter().map(|kind| {
        let metric = run_again(kind);
        let of_kind = rows.iter().filter(|row| row.metric == metric && row.median > 0.0);
        let each: Vec<String> =
            of_kind.map(|row| format!("{} {}", row.system, grouped(row.median))).collect();
        let none = if each.is_empty() { "none" } else { "" };
        format!("{metric}, a second: {}{none}", each.join("; "))
    });
    ratios.chain(again).collect()
}

#[cfg(test)]
mod tests {
    use super::{Place, Row, SYSTEMS, notes, run_again};

    #[test]
    fn notes_tell_every_ratio_and_who_met_conflicts() {
        let row = |system: &str, metric: &str, value| {
            Row::new(system, Place::Bar(system.to_owned()), (metric, "aborts/s"), vec![value])
        };
        let rows = [
            row(SYSTEMS[0], &run_again(0), 0.0),
            row(SYSTEMS[0], &run_again(4), 0.0),
            row(SYSTEMS[1], &run_again(4), 8_489.0),
            Row::ratio(("a", &[12.0]), ("b", &[10.0]), Place::Bar("a".to_owned())),
        ];
        let expected = [
            "a / b: 1.20 (1.20 .. 1.20)",
            "new-order run again, a second: none",
            "stock-level run again, a second: memsilo, read in the present 8,489",
        ];
        assert_eq!(notes(&rows), expected);
    }
}
