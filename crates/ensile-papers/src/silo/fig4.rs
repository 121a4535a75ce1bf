//! Figure 4 (§5.2): cost of read-set, write-set and TID over the bare index, and cost of a shared TID counter.
//!
//! The load is YCSB's: 80 % reads and 20 % read-modify-writes of 100-byte rows, uniform keys, a fixed table size.
//!
//! Neighbours: [`ensile_bench::system`] has the systems; the engine has the variant with the shared counter.

use ensile_bench::Result;
use ensile_bench::driver::Subject;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::machine::must_fit;
use ensile_bench::number::grouped;
use ensile_bench::system::SystemKind;
use ensile_bench::ycsb::engine::Engine;
use ensile_bench::ycsb::load::LoadPlan;
use ensile_bench::ycsb::load_key_value;
use ensile_bench::ycsb::mix::{Requests, Workload};

use super::lab::{Lab, Variant, rates};
use crate::silo::arguments::SiloArguments;

/// Bytes of a value.
const VALUE_BYTES: usize = 100;
/// Default number of keys. The paper has 160 million.
const RECORDS: u64 = 10_000_000;

/// Memory of a record in a database, in bytes. The databases are loaded side by side.
const BYTES_PER_RECORD: u64 = 150;
/// Memory for the old versions of a record, in bytes. Only the running database has old versions.
const VERSION_BYTES: u64 = 40;
/// Number of databases: memsilo, and in builds with `laboratory` key-value and memsilo with a global TID.
const DATABASES: u64 = if cfg!(feature = "laboratory") { 3 } else { 1 };

/// Refuses more records than fit into memory.
pub(super) fn check(arguments: &SiloArguments) -> Result<()> {
    must_fit(arguments.records.unwrap_or(RECORDS), DATABASES * BYTES_PER_RECORD + VERSION_BYTES)
}

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Vec<Figure>> {
    check(lab.arguments)?;
    let records = lab.arguments.records.unwrap_or(RECORDS);
    let requests = Requests::new(Workload::Silo, records, None);
    let plan = LoadPlan::in_order(records, lab.workers_max());
    let options = lab.options();
    let key_value = match lab.variant("key-value", options.clone(), &[Variant::KeyValue]) {
        Some(options) => {
            lab.say("loading key-value");
            Some(load_key_value::<VALUE_BYTES>(&options, requests, &plan)?)
        }
        None => None,
    };
    lab.say("loading memsilo");
    let memsilo = Engine::<VALUE_BYTES>::load(SystemKind::Memsilo, &options, requests, &plan)?;
    let global_tid = match lab.variant("memsilo+global-tid", options, &[Variant::GlobalTid]) {
        Some(options) => {
            lab.say("loading memsilo+global-tid");
            let engine = Engine::<VALUE_BYTES>::load(SystemKind::Memsilo, &options, requests, &plan)?;
            Some(engine.named("memsilo+global-tid"))
        }
        None => None,
    };
    let mut subjects: Vec<&dyn Subject> = key_value.as_deref().into_iter().collect();
    subjects.push(&memsilo);
    subjects.extend(global_tid.as_ref().map(|engine| engine as &dyn Subject));
    let mut rows = Vec::new();
    for workers in lab.workers() {
        let at = Place::At(workers as f64);
        let measured = lab.measure(&subjects, workers, |_| {})?;
        let rates: Vec<(&str, Vec<f64>)> =
            subjects.iter().zip(&measured).map(|(subject, rounds)| (subject.name(), rates(rounds))).collect();
        for (name, rates) in &rates {
            rows.push(Row::new(name, at.clone(), ("throughput", "txn/s"), rates.clone()));
        }
        for (name, other) in &rates[1..] {
            rows.push(Row::ratio((name, other), (rates[0].0, &rates[0].1), at.clone()));
        }
        if let [_, memsilo, global_tid] = &rates[..] {
            rows.push(Row::ratio((memsilo.0, &memsilo.1), (global_tid.0, &global_tid.1), at));
        }
    }
    Ok(vec![Figure {
        name: "fig4",
        title: format!(
            "YCSB, 80 % reads and 20 % read-modify-writes of {} rows of 100 bytes",
            grouped(records as f64)
        ),
        horizontal: "workers",
        drawn: ("throughput", "txn/s"),
        rows,
        ..Figure::default()
    }])
}
