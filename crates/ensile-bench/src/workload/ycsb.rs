//! YCSB: transactions on single keys of one table, with 8-byte keys and values of a fixed size.
//!
//! Neighbours: the command line gives [`YcsbArguments`](crate::arguments::YcsbArguments); [`crate::system`] has the
//! systems that run it.

pub(crate) mod distribution;
pub(crate) mod load;
pub(crate) mod mix;
pub(crate) mod payload;
pub(crate) mod permutation;

use clap::ValueEnum;

use crate::arguments::YcsbArguments;
use crate::driver::{self, Subject};
use crate::failure::{Failure, Result};
use crate::machine::{Machine, resident_bytes};
use crate::progress::Progress;
use crate::report::{Facts, Outcome, Report};
use crate::system::SystemKind;
use crate::system::btreemap::Map;
use crate::system::engine::Engine;
use crate::system::key_value::KeyValueStore;
use load::LoadPlan;
use mix::Requests;

/// The sizes of value that are compiled in.
pub(crate) const VALUE_BYTES: [usize; 5] = [8, 30, 100, 1_000, 10_000];

/// Runs YCSB and reports it.
pub(crate) fn run(arguments: &YcsbArguments) -> Result<Report> {
    match arguments.value_bytes {
        8 => run_sized::<8>(arguments),
        30 => run_sized::<30>(arguments),
        100 => run_sized::<100>(arguments),
        1_000 => run_sized::<1_000>(arguments),
        10_000 => run_sized::<10_000>(arguments),
        other => Err(Failure::Usage(format!("--value-bytes {other}: sizes are {VALUE_BYTES:?}"))),
    }
}

/// What heads the table.
pub(crate) fn title(arguments: &YcsbArguments) -> String {
    format!(
        "YCSB {:?}: {} records of {} bytes loaded {:?}, keys {}, {} rounds of {} s, epochs of {} ms, snapshots every {} ms",
        arguments.workload,
        arguments.records,
        arguments.value_bytes,
        arguments.load_order,
        arguments.distribution.map_or("as usual".to_owned(), |distribution| format!("{distribution:?}")),
        arguments.run.rounds,
        arguments.run.seconds,
        arguments.run.epoch_ms,
        arguments.run.snapshot_ms,
    )
}

fn run_sized<const N: usize>(arguments: &YcsbArguments) -> Result<Report> {
    let systems = arguments.run.systems_or(SystemKind::value_variants());
    if arguments.workload.scans() && systems.contains(&SystemKind::KeyValue) {
        return Err(Failure::Usage("key-value cannot scan: leave it out of workload e".to_owned()));
    }
    let mut progress = Progress::new(arguments.run.rounds);
    let requests = Requests::new(arguments.workload, arguments.records, arguments.distribution);
    let plan = LoadPlan::new(arguments);
    let options = arguments.run.options();
    let mut loaded: Vec<(Box<dyn Subject>, u64)> = Vec::new();
    for kind in systems {
        progress.say(&format!("loading {} records into {}", plan.records, kind.name()));
        let before = resident_bytes();
        let subject: Box<dyn Subject> = match kind {
            SystemKind::Memsilo | SystemKind::Silo => {
                Box::new(Engine::<N>::load(kind, &options, requests, &plan)?)
            }
            SystemKind::KeyValue => Box::new(KeyValueStore::<N>::load(&options, requests, &plan)?),
            SystemKind::Btreemap => Box::new(Map::<N>::load(requests, &plan)),
        };
        loaded.push((subject, resident_bytes().saturating_sub(before)));
    }
    let subjects: Vec<&dyn Subject> = loaded.iter().map(|(subject, _)| &**subject).collect();
    let rounds = driver::run(&subjects, &arguments.run.plan(), |round, subject, done| {
        progress.round(round, subject.name(), done.rate());
    })?;
    progress.clear();
    let results = loaded
        .iter()
        .zip(&rounds)
        .map(|((subject, rss_bytes), rounds)| {
            let facts = Facts {
                system: subject.name(),
                threads: subject.threads(arguments.run.threads),
                batch: arguments.run.batch,
                durable: subject.durable_epoch().is_some(),
                records: arguments.records,
                rss_bytes: *rss_bytes,
            };
            Outcome::new(&facts, rounds)
        })
        .collect();
    Ok(Report { machine: Machine::look(), results })
}
