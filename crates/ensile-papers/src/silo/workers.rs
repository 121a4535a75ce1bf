//! Figures 5, 6 and 7 (§5.3): throughput, throughput per core, and latency of TPC-C over workers, with one warehouse
//! per worker. The systems are the database without a log, with a log on disk, and with a log in a memory file system.
//!
//! With a log, a transaction counts when the transaction is durable, and the latency ends at the same moment.
//!
//! Neighbours: [`ensile_bench::tpcc`] has the transactions.

use ensile_bench::driver::{Round, Subject};
use ensile_bench::figure::{Dashed, Figure, Place, Row};
use ensile_bench::machine::is_in_memory;
use ensile_bench::system::SystemKind;
use ensile_bench::tpcc::LOG_FOLDER;
use ensile_bench::tpcc::flags::Flags;
use ensile_bench::{Failure, Result};

use super::lab::{Course, Lab, rates};
use crate::silo::arguments::SiloArguments;

/// The metrics of figure 7.
const MEDIAN: (&str, &str) = ("median latency", "ms");
const P99: (&str, &str) = ("p99 latency", "ms");

/// Refuses a `--tmpfs` folder outside of a memory file system: the figures would have a wrong name.
pub(super) fn check(arguments: &SiloArguments) -> Result<()> {
    if is_in_memory(&arguments.tmpfs)? {
        return Ok(());
    }
    let folder = arguments.tmpfs.display();
    let words = format!(
        "--tmpfs {folder} is in no memory file system (tmpfs), and silo+tmpfs is to be measured in one"
    );
    Err(Failure::Usage(words))
}

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Vec<Figure>> {
    let (mut throughput, mut per_core, mut latency) = (Vec::new(), Vec::new(), Vec::new());
    for workers in lab.workers() {
        let warehouses = (workers as u16, false);
        let slices = lab.arguments.rounds;
        let course =
            Course { databases: 3, warehouses: workers as u16, workers, slices, mib_per_s: Course::MIX };
        let (disk, tmpfs) = (lab.business_options(&course), lab.tmpfs_options(&course));
        let systems = [
            lab.business("memsilo", SystemKind::Memsilo, &disk, warehouses, Flags::default())?,
            lab.business("silo", SystemKind::Silo, &disk, warehouses, Flags::default())?,
            lab.business("silo+tmpfs", SystemKind::Silo, &tmpfs, warehouses, Flags::default())?,
        ];
        let subjects: Vec<&dyn Subject> = systems.iter().map(|system| system as &dyn Subject).collect();
        let measured = lab.measure(&subjects, workers, |_| {})?;
        let at = Place::At(workers as f64);
        let all: Vec<(&str, Vec<f64>)> =
            subjects.iter().zip(&measured).map(|(subject, rounds)| (subject.name(), rates(rounds))).collect();
        for ((name, rates), rounds) in all.iter().zip(&measured) {
            let each = rates.iter().map(|rate| rate / workers as f64).collect();
            throughput.push(Row::new(name, at.clone(), ("throughput", "txn/s"), rates.clone()));
            per_core.push(Row::new(name, at.clone(), ("throughput per core", "txn/s"), each));
            for (metric, quantile) in [(MEDIAN, 0.5), (P99, 0.99)] {
                latency.push(Row::new(name, at.clone(), metric, quantiles(rounds, quantile)));
            }
        }
        for (left, right) in [(1, 0), (2, 0), (2, 1)] {
            let (left, right) = (&all[left], &all[right]);
            throughput.push(Row::ratio((left.0, &left.1), (right.0, &right.1), at.clone()));
        }
        drop(systems);
        lab.remove(&disk, LOG_FOLDER)?;
        lab.remove(&tmpfs, LOG_FOLDER)?;
    }
    let figure = |name, what: &str, drawn, rows| Figure {
        name,
        title: format!("TPC-C, one warehouse for each worker: {what}"),
        horizontal: "workers",
        drawn,
        rows,
        ..Figure::default()
    };
    Ok(vec![
        figure("fig5", "throughput", ("throughput", "txn/s"), throughput),
        figure("fig6", "throughput per core", ("throughput per core", "txn/s"), per_core),
        Figure {
            dashed: Dashed::Metric(P99),
            ..figure("fig7", "latency (memsilo: at commit; silo: when durable)", MEDIAN, latency)
        },
    ])
}

/// Quantile of the latencies, in milliseconds, per round.
fn quantiles(rounds: &[Round], quantile: f64) -> Vec<f64> {
    rounds.iter().map(|round| round.latencies.value_at_quantile(quantile) as f64 / 1e6).collect()
}
