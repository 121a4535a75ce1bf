//! §5.6: how much memory old versions take when every transaction is a read-modify-write.
//!
//! Neighbours: measured by [`ensile_bench::snapshots`], as `ensile-bench snapshots` does.

use ensile_bench::Result;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::machine::must_fit;
use ensile_bench::number::grouped;
use ensile_bench::snapshots;

use super::lab::Lab;
use crate::silo::arguments::SiloArguments;

/// Sizes of table, the least first, unless asked otherwise. The paper has 160 million.
const RECORDS: [u64; 2] = [10_000_000, 60_000_000];
/// Memory that a record needs at most while this runs, versions included.
const BYTES_PER_RECORD_MAX: u64 = 190;

fn sizes(arguments: &SiloArguments) -> Vec<u64> {
    arguments.records.map_or(RECORDS.to_vec(), |records| vec![records])
}

/// Refuses what leaves nothing to be measured.
pub(super) fn check(arguments: &SiloArguments) -> Result<()> {
    sizes(arguments).first().map_or(Ok(()), |least| must_fit(*least, BYTES_PER_RECORD_MAX))
}

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Vec<Figure>> {
    check(lab.arguments)?;
    let mut rows = Vec::new();
    for records in sizes(lab.arguments) {
        if let Err(refusal) = must_fit(records, BYTES_PER_RECORD_MAX) {
            lab.say(&format!("left out: {refusal}\n"));
            continue;
        }
        let plan = lab.plan(lab.workers_max());
        let measured = snapshots::measure(records, &lab.options(), &plan, &mut lab.progress)?;
        let place = Place::Bar(format!("{} records", grouped(records as f64)));
        let mut row = |metric, unit, value: f64| {
            rows.push(Row::new("memsilo", place.clone(), (metric, unit), vec![value]));
        };
        let (data, extra) = (measured.loaded_bytes as f64, measured.extra_resident_bytes as f64);
        row("extra memory", "% of the data", extra / data * 100.0);
        row("data", "MB", data / 1e6);
        row("extra memory", "MB", extra / 1e6);
        row("versions kept", "MB", measured.version_bytes_max as f64 / 1e6);
        row("1.1 x records updated in two intervals", "MB", measured.limit_bytes / 1e6);
        row("throughput", "txn/s", measured.updates_per_s);
    }
    Ok(vec![Figure {
        name: "space",
        title: "All read-modify-write of 100-byte rows: the most memory beyond the loaded data".to_owned(),
        horizontal: "size of the table",
        drawn: ("extra memory", "% of the data"),
        rows,
        ..Figure::default()
    }])
}
