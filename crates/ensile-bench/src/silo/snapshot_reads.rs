//! Figure 10 (§5.5): half new-orders, half stock-levels, two workers on each warehouse. A stock-level reads hundreds of
//! rows that new-orders change: on a snapshot it never meets a conflict, in the present it is run again.
//!
//! Neighbours: [`crate::workload::tpcc`], whose counts by kind tell who met the conflicts.

use super::lab::{Course, Lab, rates};
use crate::driver::Subject;
use crate::failure::Result;
use crate::figure::{Figure, Place, Row};
use crate::system::{Options, SystemKind};
use crate::workload::tpcc::Business;
use crate::workload::tpcc::counts::{Counts, KINDS};
use crate::workload::tpcc::terminal::{Flags, ReadMode};

/// Shares of the mix.
const HALF_AND_HALF: [u64; 5] = [50, 0, 0, 0, 50];
const STOCK_LEVEL_ONLY: [u64; 5] = [0, 0, 0, 0, 100];
/// The kinds that run, by their place in [`KINDS`].
const RUN: [usize; 2] = [0, 4];

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Vec<Figure>> {
    let warehouses = lab.arguments.warehouses.unwrap_or(1);
    let workers = lab.arguments.workers.unwrap_or(2 * usize::from(warehouses));
    let course =
        Course { databases: 2, warehouses, workers, subjects: 2, mib_per_s: Course::HALF_NEW_ORDERS };
    let kept = lab.business_options(&course);
    let not_kept = Options { snapshots: false, ..kept.clone() };
    let flags = |mix, stock_level| Flags { mix, stock_level, ..Flags::default() };
    let (past, present) = (ReadMode::Snapshot, ReadMode::Serializable);
    let snapshot =
        lab.business("memsilo", SystemKind::Memsilo, &kept, (warehouses, false), flags(HALF_AND_HALF, past))?;
    let without = lab.business(
        "memsilo+no-snapshots",
        SystemKind::Memsilo,
        &not_kept,
        (warehouses, false),
        flags(HALF_AND_HALF, present),
    )?;
    let systems = [
        snapshot.beside("memsilo", flags(HALF_AND_HALF, past)),
        without.beside("memsilo+no-snapshots", flags(HALF_AND_HALF, present)),
        snapshot.beside("memsilo, read in the present", flags(HALF_AND_HALF, present)),
        snapshot.beside("stock-level alone", flags(STOCK_LEVEL_ONLY, past)),
        without.beside("stock-level alone+no-snapshots", flags(STOCK_LEVEL_ONLY, present)),
    ];
    let rows = measure(lab, &systems, workers)?;
    Ok(vec![Figure {
        name: "table10",
        title: format!("Half new-order, half stock-level: {workers} workers on {warehouses} warehouse(s)"),
        horizontal: "",
        drawn: ("throughput", "txn/s"),
        rows,
    }])
}

fn measure(lab: &mut Lab<'_>, systems: &[Business<'_>], workers: usize) -> Result<Vec<Row>> {
    let subjects: Vec<&dyn Subject> = systems.iter().map(|system| system as &dyn Subject).collect();
    let mut counts: Vec<Vec<Counts>> = systems.iter().map(|_| Vec::new()).collect();
    let measured =
        lab.measure(&subjects, workers, |index| counts[index].push(systems[index].take_counts()))?;
    let all: Vec<Vec<f64>> = measured.iter().map(|rounds| rates(rounds)).collect();
    let mut rows = Vec::new();
    for ((system, rates), counts) in systems.iter().zip(&all).zip(&counts) {
        let place = Place::Bar(system.name.to_owned());
        let mut row = |metric: &str, unit, values| {
            rows.push(Row::new(system.name, place.clone(), (metric, unit), values));
        };
        row("throughput", "txn/s", rates.clone());
        for kind in RUN {
            // Counted over the whole slice, its lead-in included; the window's rate is shared out accordingly.
            let per_s = |what: fn(&Counts, usize) -> u64| {
                let share = |counts: &Counts| what(counts, kind) as f64 / counts.done().max(1) as f64;
                rates.iter().zip(counts).map(|(rate, counts)| rate * share(counts)).collect()
            };
            row(KINDS[kind], "txn/s", per_s(|counts, kind| counts.0[kind].done));
            let aborts = format!("{} run again", KINDS[kind]);
            row(&aborts, "aborts/s", per_s(|counts, kind| counts.0[kind].conflicts));
        }
    }
    for (left, right) in [(0, 1), (0, 2), (3, 4)] {
        let name = |index: usize| systems[index].name;
        let place = Place::Bar(name(left).to_owned());
        rows.push(Row::ratio((name(left), &all[left]), (name(right), &all[right]), place));
    }
    Ok(rows)
}
