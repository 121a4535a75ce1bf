//! Figure 11 (§5.7): cumulative gain of the techniques, in two groups. The load is TPC-C's mix with a warehouse per
//! worker.
//!
//! The groups run in sequence, and the systems of a group take turns. Memory therefore holds only the databases of the
//! running group.
//!
//! Neighbours: the engine defines the variants.

use ensile_bench::Result;
use ensile_bench::driver::Subject;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::system::{Options, SystemKind};
use ensile_bench::tpcc::LOG_FOLDER;
use ensile_bench::tpcc::flags::{Flags, ReadMode};

use super::lab::{Course, Lab, Variant, rates};

/// One bar of the figure.
struct Factor {
    name: &'static str,
    kind: SystemKind,
    snapshots: bool,
    variants: &'static [Variant],
}

const fn factor(
    name: &'static str,
    kind: SystemKind,
    snapshots: bool,
    variants: &'static [Variant],
) -> Factor {
    Factor { name, kind, snapshots, variants }
}

const REGULAR: &[Factor] = &[
    factor("simple", SystemKind::Memsilo, true, &[Variant::NoSlabs, Variant::NoOverwrites]),
    factor("+allocator", SystemKind::Memsilo, true, &[Variant::NoOverwrites]),
    factor("+overwrites", SystemKind::Memsilo, true, &[]),
    factor("+no-snapshots", SystemKind::Memsilo, false, &[]),
    factor("+no-gc", SystemKind::Memsilo, false, &[Variant::NoCollection]),
];
const PERSISTENCE: &[Factor] = &[
    factor("memsilo", SystemKind::Memsilo, true, &[]),
    factor("+small-records", SystemKind::Silo, true, &[Variant::SmallRecords]),
    factor("+full-records", SystemKind::Silo, true, &[]),
];
/// Baseline of each group: the shipping engine, without a log.
const BASELINES: [&str; 2] = ["+overwrites", "memsilo"];

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Vec<Figure>> {
    let mut rows = Vec::new();
    for ((group, factors), baseline) in
        [("regular", REGULAR), ("persistence", PERSISTENCE)].into_iter().zip(BASELINES)
    {
        rows.extend(measure(lab, group, factors, baseline)?);
    }
    Ok(vec![Figure {
        name: "fig11",
        title: "TPC-C, a warehouse for each worker: factors, cumulative within each group".to_owned(),
        horizontal: "left: without a log; right: with it, counted when durable",
        drawn: ("throughput", "txn/s"),
        rows,
        ..Figure::default()
    }])
}

fn measure(lab: &mut Lab<'_>, group: &str, factors: &[Factor], baseline: &str) -> Result<Vec<Row>> {
    let workers = lab.workers_max();
    let warehouses = lab.arguments.warehouses.unwrap_or(workers as u16);
    let databases = factors.len();
    let slices = lab.arguments.rounds;
    let course = Course { databases, warehouses, workers, slices, mib_per_s: Course::MIX };
    let (mut systems, mut logs) = (Vec::new(), Vec::new());
    for factor in factors {
        let common = lab.business_options(&course);
        let options = Options {
            snapshots: factor.snapshots,
            data: common.data.join(factor.name.trim_start_matches('+')),
            ..common
        };
        let Some(options) = lab.variant(factor.name, options, factor.variants) else { continue };
        // Without snapshots, read-only transactions read the current versions.
        let mode = if factor.snapshots { ReadMode::Snapshot } else { ReadMode::Serializable };
        let flags = Flags { order_status: mode, stock_level: mode, ..Flags::default() };
        systems.push(lab.business(factor.name, factor.kind, &options, (warehouses, false), flags)?);
        if factor.kind == SystemKind::Silo {
            logs.push(options);
        }
    }
    let subjects: Vec<&dyn Subject> = systems.iter().map(|system| system as &dyn Subject).collect();
    let measured = lab.measure(&subjects, workers, |_| {})?;
    let mut rows = Vec::new();
    let base = systems.iter().position(|system| system.name == baseline);
    for (system, rounds) in systems.iter().zip(&measured) {
        let place = Place::Bar(system.name.to_owned());
        rows.push(Row::new(group, place.clone(), ("throughput", "txn/s"), rates(rounds)));
        if let Some(base) = base.filter(|base| systems[*base].name != system.name) {
            let base = (systems[base].name, rates(&measured[base]));
            rows.push(Row::ratio((system.name, &rates(rounds)), (base.0, &base.1), place));
        }
    }
    drop(systems);
    for options in logs {
        lab.remove(&options, LOG_FOLDER)?;
        lab.remove(&options, "")?;
    }
    Ok(rows)
}
