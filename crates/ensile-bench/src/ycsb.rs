//! YCSB: transactions on single keys of one table, with 8-byte keys and values of a fixed size.
//!
//! Neighbours: the command line gives [`YcsbArguments`]; [`crate::system`] has the systems that run YCSB.

pub(crate) mod arguments;
pub(crate) mod btreemap;
pub(crate) mod distribution;
pub mod engine;
#[cfg(feature = "laboratory")]
pub(crate) mod key_value;
pub mod load;
pub mod mix;
pub mod payload;
pub(crate) mod permutation;

use clap::ValueEnum;
use ensile::Durability;

use crate::driver::{self, Subject};
use crate::failure::{Failure, Result};
use crate::machine::{Machine, huge_page_bytes, resident_bytes};
use crate::progress::Progress;
use crate::report::{Facts, Outcome, Report};
use crate::system::processes::{self, Processes};
use crate::system::{Options, SystemKind};
use crate::ycsb::arguments::YcsbArguments;
use crate::ycsb::btreemap::Map;
use crate::ycsb::engine::Engine;
use load::LoadPlan;
use mix::Requests;

/// The sizes of value that are compiled in.
pub(crate) const VALUE_BYTES: [usize; 5] = [8, 30, 100, 1_000, 10_000];

/// A system with loaded records.
struct Loaded {
    subject: Box<dyn Subject>,
    rss_bytes: u64,
    records: u64,
}

/// Least bytes of a map that should be on huge pages. The benchmark reports a larger map with less than half of its
/// memory on huge pages.
const HUGE_EXPECTED_FROM: u64 = 64 << 20;

/// Default systems of the comparison.
#[cfg(not(feature = "laboratory"))]
const USUAL: [SystemKind; 3] = [SystemKind::Memsilo, SystemKind::Silo, SystemKind::Btreemap];
#[cfg(feature = "laboratory")]
const USUAL: [SystemKind; 4] =
    [SystemKind::Memsilo, SystemKind::Silo, SystemKind::KeyValue, SystemKind::Btreemap];

/// Runs YCSB and returns the report.
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

/// Loads the key-value store.
#[cfg(feature = "laboratory")]
pub fn load_key_value<const N: usize>(
    options: &Options,
    requests: Requests,
    plan: &LoadPlan,
) -> Result<Box<dyn Subject>> {
    Ok(Box::new(key_value::KeyValueStore::<N>::load(options, requests, plan)?))
}

/// Returns a usage error that names the feature.
#[cfg(not(feature = "laboratory"))]
pub fn load_key_value<const N: usize>(_: &Options, _: Requests, _: &LoadPlan) -> Result<Box<dyn Subject>> {
    let words = "key-value is in builds with `--features laboratory`: leave it out of --systems, or build so";
    Err(Failure::Usage(words.to_owned()))
}

/// True if std's `BTreeMap` is among the systems.
pub(crate) fn compares_btreemap(arguments: &YcsbArguments) -> Result<bool> {
    Ok(arguments.run.systems_or(&USUAL)?.contains(&SystemKind::Btreemap))
}

/// The heading of the table.
pub(crate) fn title(arguments: &YcsbArguments) -> String {
    format!(
        "YCSB {:?}{}: {} records of {} bytes loaded {:?}, keys {}, {} rounds of {} s, epochs of {} ms, snapshots every {} ms",
        arguments.workload,
        if arguments.strict { ", silo strict" } else { "" },
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
    let systems = arguments.run.systems_or(&USUAL)?;
    if arguments.workload.scans() && systems.contains(&SystemKind::KeyValue) {
        return Err(Failure::Usage("key-value cannot scan: leave it out of workload e".to_owned()));
    }
    if arguments.strict && (arguments.run.batch > 1 || !systems.contains(&SystemKind::Silo)) {
        let refused = "--strict is of silo, whose transactions wait one by one: leave --batch out, and name silo in \
                       --systems";
        return Err(Failure::Usage(refused.to_owned()));
    }
    let machine = Machine::look();
    let mut progress = Progress::new(arguments.run.rounds);
    let requests = Requests::new(arguments.workload, arguments.records, arguments.distribution);
    let plan = LoadPlan::new(arguments);
    let durability = if arguments.strict { Durability::Strict } else { Durability::Relaxed };
    let options = Options { durability, ..arguments.run.options() };
    let mut loaded = Vec::new();
    for kind in systems {
        progress.say(&format!("loading {} records into {}", plan.records, kind.name()));
        let (before, huge_before) = (resident_bytes(), huge_page_bytes());
        let subject: Box<dyn Subject> = match kind {
            SystemKind::MemsiloProcesses => {
                let processes =
                    Processes::start(arguments.run.threads, |index| for_process(arguments, index))?;
                let (rss_bytes, records) = (processes.resident_bytes(), processes.records());
                loaded.push(Loaded { subject: Box::new(processes), rss_bytes, records });
                continue;
            }
            SystemKind::Memsilo | SystemKind::Silo => {
                Box::new(Engine::<N>::load(kind, &options, requests, &plan)?)
            }
            SystemKind::KeyValue => load_key_value::<N>(&options, requests, &plan)?,
            SystemKind::Btreemap => Box::new(Map::<N>::load(requests, &plan)),
        };
        let rss_bytes = resident_bytes().saturating_sub(before);
        let huge_bytes = huge_page_bytes().saturating_sub(huge_before);
        if kind == SystemKind::Btreemap && rss_bytes > HUGE_EXPECTED_FROM && huge_bytes < rss_bytes / 2 {
            eprintln!("btreemap is not on huge pages: {huge_bytes} of {rss_bytes} bytes are");
        }
        loaded.push(Loaded { subject, rss_bytes, records: plan.records });
    }
    let subjects: Vec<&dyn Subject> = loaded.iter().map(|loaded| &*loaded.subject).collect();
    processes::ready(arguments.run.conducted, loaded.iter().map(|loaded| (loaded.rss_bytes, loaded.records)));
    let rounds = driver::run(&subjects, &arguments.run.plan(), |round, subject, done| {
        processes::tell_round(arguments.run.conducted, done);
        progress.round(round, subject.name(), done.rate());
    })?;
    progress.clear();
    let results = loaded
        .iter()
        .zip(&rounds)
        .map(|(Loaded { subject, rss_bytes, records }, rounds)| {
            let facts = Facts {
                system: subject.name(),
                threads: subject.parallelism(arguments.run.threads),
                batch: arguments.run.batch,
                durable: subject.durable_epoch().is_some(),
                records: *records,
                rss_bytes: *rss_bytes,
            };
            Outcome::new(&facts, rounds)
        })
        .collect();
    Ok(Report { machine, results })
}

/// The command line of one of several processes, with a share of the records.
fn for_process(arguments: &YcsbArguments, index: usize) -> Vec<String> {
    fn name(value: &impl ValueEnum) -> String {
        value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
    let mut words = vec!["ycsb".to_owned()];
    words.extend(arguments.run.for_process(index));
    for (option, value) in [
        ("--records", arguments.records.div_ceil(arguments.run.threads as u64).to_string()),
        ("--workload", name(&arguments.workload)),
        ("--value-bytes", arguments.value_bytes.to_string()),
        ("--load-order", name(&arguments.load_order)),
    ] {
        words.extend([option.to_owned(), value]);
    }
    if let Some(distribution) = &arguments.distribution {
        words.extend(["--distribution".to_owned(), name(distribution)]);
    }
    words
}
