//! `ensile-bench snapshots`: memory cost of old versions for snapshots when every transaction is a read-modify-write
//! (Silo §5.6).
//!
//! A version has to be kept while a snapshot may read the version: for two intervals at most, one until its boundary is
//! served and one until the next boundary takes its place. So the bound is the bytes of the distinct records updated in
//! two intervals, and a tenth for versions not yet freed.
//!
//! Neighbours: [`crate::ycsb::engine`] under the all-RMW mix; `watch` samples memory.

pub(crate) mod arguments;

use serde::Serialize;

use crate::driver::{self, Plan};
use crate::failure::Result;
use crate::machine::{Machine, resident_bytes};
use crate::number::{grouped, median};
use crate::progress::Progress;
use crate::snapshots::arguments::SnapshotsArguments;
use crate::system::{Options, SystemKind};
use crate::watch;
use crate::ycsb::engine::Engine;
use crate::ycsb::load::LoadPlan;
use crate::ycsb::mix::{Requests, Workload};

/// Bytes of a value.
const VALUE_BYTES: usize = 100;
/// Bytes of a record: header and value, in whole words.
const RECORD_BYTES: usize = (ensile::stats::RECORD_HEADER_BYTES + VALUE_BYTES).next_multiple_of(8);
/// Allowed memory, as a multiple of the bytes of the distinct records.
const ALLOWANCE: f64 = 1.1;

/// The measurements.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub(crate) records: u64,
    /// Memory of the loaded records, in bytes.
    pub loaded_bytes: u64,
    /// Updates in a second.
    pub updates_per_s: f64,
    /// Expected number of distinct records updated by uniform draws in two snapshot intervals.
    pub(crate) distinct_records: f64,
    /// Peak of resident memory above the memory after the load, in bytes.
    pub extra_resident_bytes: u64,
    /// Peak of the memory of old versions, in bytes.
    pub version_bytes_max: u64,
    /// Allowed extra memory, in bytes.
    pub limit_bytes: f64,
    pub(crate) within_limit: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    machine: Machine,
    #[serde(flatten)]
    measured: Measured,
}

/// Measures and prints. True if the memory is within its limit.
pub(crate) fn run(arguments: &SnapshotsArguments) -> Result<bool> {
    let machine = Machine::look();
    let mut progress = Progress::new(arguments.run.rounds);
    let measured =
        measure(arguments.records, &arguments.run.options(), &arguments.run.plan(), &mut progress)?;
    progress.clear();
    let document = Document { machine, measured };
    print(&document, arguments.run.json);
    Ok(document.measured.within_limit)
}

/// Loads `records` records, updates them for the length of the plan, and watches the memory.
pub fn measure(records: u64, options: &Options, plan: &Plan, progress: &mut Progress) -> Result<Measured> {
    progress.say(&format!("loading {} records", grouped(records as f64)));
    let engine = Engine::<VALUE_BYTES>::load(
        SystemKind::Memsilo,
        options,
        Requests::new(Workload::Rmw, records, None),
        &LoadPlan::in_order(records, plan.threads),
    )?;
    let loaded = resident_bytes();
    // Not the growth of resident memory: memory of an earlier database may be freed only now.
    let memory = engine.database().stats().memory;
    let (rounds, seen) = watch::during(engine.database(), || {
        driver::run(&[&engine], plan, |round, subject, done| {
            progress.round(round, subject.name(), done.rate())
        })
    });
    let rounds = rounds?;
    let updates_per_s = median(rounds[0].iter().map(driver::Round::rate).collect());
    let updates = updates_per_s * 2.0 * options.snapshot_interval.as_secs_f64();
    let distinct_records = records as f64 * (1.0 - (-updates / records as f64).exp());
    let limit_bytes = ALLOWANCE * distinct_records * RECORD_BYTES as f64;
    let extra_resident_bytes = seen.resident_bytes_max.saturating_sub(loaded);
    Ok(Measured {
        records,
        loaded_bytes: memory.chunk_bytes + memory.large_bytes,
        updates_per_s,
        distinct_records,
        extra_resident_bytes,
        version_bytes_max: seen.version_bytes_max,
        limit_bytes,
        within_limit: extra_resident_bytes as f64 <= limit_bytes,
    })
}

fn print(document: &Document, json: bool) {
    if json {
        println!("{}", serde_json::to_string_pretty(document).expect("plain numbers serialize"));
        return;
    }
    let document = &document.measured;
    let mb = |bytes: f64| bytes / 1e6;
    println!(
        "all read-modify-write, {} records in {:.1} MB, {} updates/s",
        grouped(document.records as f64),
        mb(document.loaded_bytes as f64),
        grouped(document.updates_per_s),
    );
    println!(
        "distinct records updated in two snapshot intervals: {} (expected of uniform draws)",
        grouped(document.distinct_records)
    );
    println!(
        "extra resident memory: {:.1} MB at most ({:.1} % of the data), of it versions {:.1} MB",
        mb(document.extra_resident_bytes as f64),
        document.extra_resident_bytes as f64 / document.loaded_bytes as f64 * 100.0,
        mb(document.version_bytes_max as f64),
    );
    println!(
        "limit 1.1 x their bytes = {:.1} MB: {}",
        mb(document.limit_bytes),
        if document.within_limit { "held" } else { "NOT HELD" },
    );
}
