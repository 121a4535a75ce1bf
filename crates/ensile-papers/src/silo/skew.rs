//! Figure 9 (§5.4): a growing number of workers place orders on the same four warehouses, which are one partition.
//!
//! An order goes to a random warehouse of the four. The partitioned store runs one order at a time, and memsilo runs
//! orders in parallel. The orders of memsilo conflict on the counter in the district's row, unless fast ids replace the
//! counter.
//!
//! Neighbours: as [`super::cross_partition`].

use ensile_bench::Result;
use ensile_bench::driver::{Round, Subject};
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::counted;
use ensile_bench::system::SystemKind;
use ensile_bench::tpcc::flags::Flags;

use super::cross_partition::{new_orders, new_orders_course, partitioned};
use super::lab::{Lab, rates};

/// Warehouses, unless asked otherwise.
const WAREHOUSES: u16 = 4;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Vec<Figure>> {
    let warehouses = lab.arguments.warehouses.unwrap_or(WAREHOUSES);
    let layout = (warehouses, false);
    let flags = Flags { any_home: true, ..new_orders() };
    let mut rows = Vec::new();
    for workers in lab.workers() {
        let options = lab.business_options(&new_orders_course(lab, warehouses, workers));
        let memsilo = lab.business("memsilo", SystemKind::Memsilo, &options, layout, flags)?;
        let fast_ids = Flags { fast_ids: true, ..flags };
        let fast_ids = lab.business("memsilo+fast-ids", SystemKind::Memsilo, &options, layout, fast_ids)?;
        let partitioned = partitioned(lab, layout, flags)?;
        let mut subjects: Vec<&dyn Subject> = vec![&memsilo, &fast_ids];
        subjects.extend(partitioned.as_deref());
        let measured = lab.measure(&subjects, workers, |_| {})?;
        let at = Place::At(workers as f64);
        let all: Vec<(&str, Vec<f64>)> =
            subjects.iter().zip(&measured).map(|(subject, rounds)| (subject.name(), rates(rounds))).collect();
        for ((name, rates), rounds) in all.iter().zip(&measured) {
            rows.push(Row::new(name, at.clone(), ("throughput", "txn/s"), rates.clone()));
            let aborts = rounds.iter().map(|round| Round::abort_rate(round) * 100.0).collect();
            rows.push(Row::new(name, at.clone(), ("aborts", "% of attempts"), aborts));
        }
        if let [memsilo, fast_ids, partitioned] = &all[..] {
            for (left, right) in [(memsilo, partitioned), (fast_ids, partitioned), (fast_ids, memsilo)] {
                rows.push(Row::ratio((left.0, &left.1), (right.0, &right.1), at.clone()));
            }
        }
    }
    Ok(vec![Figure {
        name: "fig9",
        title: format!(
            "New-orders on {} in one partition, keys one by one",
            counted(warehouses.into(), "warehouse")
        ),
        horizontal: "workers",
        drawn: ("throughput", "txn/s"),
        rows,
        ..Figure::default()
    }])
}
