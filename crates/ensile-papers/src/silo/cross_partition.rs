//! Figure 8 (§5.4): a store partitioned by warehouse against memsilo, over the share of new-orders that cross
//! partitions. A worker for each warehouse.
//!
//! The partitioned store cannot overlap the descents of an order's keys, so memsilo does not overlap descents here
//! either. The shipped memsilo overlaps descents, and has a line of its own. No order is entered wrongly: the
//! partitioned store rolls nothing back.
//!
//! Neighbours: [`super::partitioned`] is the other store.

use ensile_bench::Result;
use ensile_bench::driver::Subject;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::counted;
use ensile_bench::system::{Options, SystemKind};
use ensile_bench::tpcc::flags::Flags;

use super::lab::{Course, Lab, Variant, rates};
#[cfg(feature = "laboratory")]
use crate::silo::partitioned::Partitioned;

/// Shares of transactions that cross partitions, in percent.
const CROSSING: [f64; 6] = [0.0, 10.0, 20.0, 30.0, 45.0, 60.0];
/// The systems beside the partitioned store.
const MEMSILO: &str = "memsilo, keys one by one";
const SPLIT: &str = "memsilo+split, keys one by one";
const AS_SHIPPED: &str = "memsilo, keys fetched together";
/// Number of lines of an order, minimum and maximum; every number is equally likely.
const LINES: std::ops::RangeInclusive<i32> = 5..=15;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Vec<Figure>> {
    lab.seconds = 1.0;
    let workers = lab.workers_max();
    let warehouses = lab.arguments.warehouses.unwrap_or(workers as u16).max(2);
    let mut rows = Vec::new();
    for crossing in CROSSING {
        let remote_items_per_million = (remote_share(crossing / 100.0) * 1e6).round() as u64;
        let flags = Flags { remote_items_per_million, ..new_orders() };
        let touching = Flags { announce: true, ..flags };
        let options = lab.business_options(&new_orders_course(lab, warehouses, workers));
        let memsilo = lab.business(MEMSILO, SystemKind::Memsilo, &options, (warehouses, false), flags)?;
        let split = lab.business(SPLIT, SystemKind::Memsilo, &options, (warehouses, true), flags)?;
        let ahead = memsilo.beside(AS_SHIPPED, touching);
        let partitioned = partitioned(lab, (warehouses, true), flags)?;
        let mut subjects: Vec<&dyn Subject> = vec![&memsilo, &split, &ahead];
        subjects.extend(partitioned.as_deref());
        let measured = lab.measure(&subjects, workers, |_| {})?;
        let at = Place::At(crossing);
        let all: Vec<(&str, Vec<f64>)> =
            subjects.iter().zip(&measured).map(|(subject, rounds)| (subject.name(), rates(rounds))).collect();
        for (name, rates) in &all {
            rows.push(Row::new(name, at.clone(), ("throughput", "txn/s"), rates.clone()));
        }
        let (name, base) = &all[0];
        for (other, rates) in &all[1..] {
            rows.push(Row::ratio((other, rates), (name, base), at.clone()));
        }
    }
    Ok(vec![Figure {
        name: "fig8",
        title: format!(
            "New-orders of {} on {}",
            counted(workers, "worker"),
            counted(warehouses.into(), "warehouse")
        ),
        horizontal: "transactions that cross partitions (%)",
        drawn: ("throughput", "txn/s"),
        rows,
        ..Figure::default()
    }])
}

/// New-orders only, none entered wrongly, keys not fetched together.
pub(super) fn new_orders() -> Flags {
    Flags { mix: [100, 0, 0, 0, 0], entry_errors: false, announce: false, ..Flags::default() }
}

/// Three databases with new-orders; one database serves two systems.
pub(super) fn new_orders_course(lab: &Lab<'_>, warehouses: u16, workers: usize) -> Course {
    let slices = 2 * lab.arguments.rounds;
    Course { databases: 3, warehouses, workers, slices, mib_per_s: Course::NEW_ORDERS }
}

/// The partitioned store; `None` if this binary has no rows without concurrency control.
#[cfg(feature = "laboratory")]
pub(super) fn partitioned(
    lab: &mut Lab<'_>,
    layout: (u16, bool),
    flags: Flags,
) -> Result<Option<Box<dyn Subject>>> {
    let course = new_orders_course(lab, layout.0, lab.workers_max());
    let options = Options { snapshots: false, ..lab.business_options(&course) };
    let Some(options) = lab.variant(PARTITIONED, options, &[Variant::Exclusive]) else { return Ok(None) };
    let business = lab.business(PARTITIONED, SystemKind::Memsilo, &options, layout, flags)?;
    Ok(Some(Box::new(Partitioned::new(business))))
}

/// The partitioned store is in builds with `laboratory` only, so this function returns `None`.
#[cfg(not(feature = "laboratory"))]
pub(super) fn partitioned(
    lab: &mut Lab<'_>,
    _layout: (u16, bool),
    _flags: Flags,
) -> Result<Option<Box<dyn Subject>>> {
    let none = lab.variant(PARTITIONED, Options::default(), &[Variant::Exclusive]);
    debug_assert!(none.is_none(), "only builds with `laboratory` have rows without concurrency control");
    Ok(None)
}

/// Name of the partitioned store.
const PARTITIONED: &str = "partitioned-store";

/// Probability that a line's item comes from another warehouse, for a given share of crossing orders. The result is the
/// inverse, by bisection, of 1 less the chance that no line crosses.
fn remote_share(crossing: f64) -> f64 {
    let crosses = |share: f64| {
        let local: f64 = LINES.map(|lines| (1.0 - share).powi(lines)).sum();
        1.0 - local / LINES.count() as f64
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if crosses(middle) < crossing { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::remote_share;

    #[test]
    fn one_line_in_a_hundred_makes_a_tenth_of_all_orders_cross() {
        // Ten lines on average at 1 % each: a little below 10 %.
        let share = remote_share(0.095);
        assert!((0.0098..0.0102).contains(&share), "{share}");
        assert!(remote_share(0.0) < 1e-9);
        assert!((0.08..0.1).contains(&remote_share(0.6)), "{}", remote_share(0.6));
    }
}
