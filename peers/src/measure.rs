//! Loops that run a workload for some seconds and count, and that check every answer.
//!
//! A tenth of the time is a warm-up, which is not counted. Keys are drawn uniformly.

use std::sync::Barrier;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::clock::Stopwatch;
use crate::failure::Result;
use crate::rows::{ROWS_AT_ONCE, Random, key_in};
use crate::store::Store;
use crate::workload::Workload;

/// Operations between two looks at the clock.
const READS_PER_LOOK: u64 = 16;

/// The outcome of a workload.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Rate {
    /// Units of the workload in a second, without the warm-up.
    pub(crate) per_second: f64,
    /// Operations, with the warm-up.
    pub(crate) operations: u64,
}

/// Time and draws of one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    pub(crate) seed: u64,
}

/// Runs a workload on a store.
pub(crate) fn measure(store: &dyn Store, workload: Workload, plan: Plan) -> Result<Rate> {
    let (at_once, rows) = (ROWS_AT_ONCE as u64, plan.rows);
    let first_key = |random: &mut Random| random.below(rows - at_once + 1);
    let sum_from = |from: u64| at_once * from + at_once * (at_once - 1) / 2;
    match workload {
        Workload::PointReads => one_client(plan, READS_PER_LOOK, 1, |random| {
            let key = random.below(rows);
            check(store.read(key)?, key)
        }),
        Workload::ReadMany => {
            let mut keys = [0; ROWS_AT_ONCE];
            one_client(plan, 1, at_once, |random| {
                keys.fill_with(|| random.below(rows));
                check(store.read_many(&keys)?, keys.iter().sum())
            })
        }
        Workload::Scan => one_client(plan, 1, at_once, |random| {
            let from = first_key(random);
            check(store.scan(from, ROWS_AT_ONCE)?, sum_from(from))
        }),
        Workload::Lend => one_client(plan, 1, at_once, |random| {
            let from = first_key(random);
            check(store.lend(from, ROWS_AT_ONCE)?, sum_from(from))
        }),
        Workload::Range => {
            let mut copies = Vec::with_capacity(ROWS_AT_ONCE);
            one_client(plan, 1, at_once, |random| {
                let from = first_key(random);
                store.range(from, ROWS_AT_ONCE, &mut copies)?;
                check(copies.iter().map(|(_key, value)| key_in(value)).sum(), sum_from(from))?;
                check(copies.iter().map(|(key, _value)| key).sum(), sum_from(from))
            })
        }
        Workload::Update => one_client(plan, READS_PER_LOOK, 1, |random| store.update(random.below(rows))),
        Workload::Strict1 | Workload::Strict16 | Workload::Strict64 => {
            many_clients(workload.clients(), plan, |random| store.update(random.below(rows)))
        }
        Workload::Load
        | Workload::Files
        | Workload::MemoryLoad
        | Workload::Reopen
        | Workload::MemoryReads => Err(format!("{} is measured by the driver", workload.name()).into()),
    }
}

fn check(found: u64, expected: u64) -> Result<()> {
    if found == expected { Ok(()) } else { Err(format!("read {found} where {expected} was written").into()) }
}

fn one_client(
    plan: Plan,
    operations_per_look: u64,
    units: u64,
    mut operation: impl FnMut(&mut Random) -> Result<()>,
) -> Result<Rate> {
    let mut random = Random::new(plan.seed);
    let mut run = |seconds: f64| -> Result<(u64, f64)> {
        let (watch, mut operations) = (Stopwatch::start(), 0);
        loop {
            for _ in 0..operations_per_look {
                operation(&mut random)?;
            }
            operations += operations_per_look;
            let elapsed = watch.seconds();
            if elapsed >= seconds {
                return Ok((operations, elapsed));
            }
        }
    };
    let (warm_up, _) = run(plan.seconds / 10.0)?;
    let (operations, elapsed) = run(plan.seconds)?;
    Ok(Rate { per_second: (operations * units) as f64 / elapsed, operations: warm_up + operations })
}

fn many_clients(
    clients: u64,
    plan: Plan,
    operation: impl Fn(&mut Random) -> Result<()> + Sync,
) -> Result<Rate> {
    let start = Barrier::new(clients as usize);
    let run = |client: u64| {
        start.wait();
        // Distant starts of one sequence: no client draws as another does.
        one_client(Plan { seed: plan.seed ^ (client << 48), ..plan }, 1, 1, &operation)
    };
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|client| scope.spawn(move || run(client))).collect();
        let mut all = Rate { per_second: 0.0, operations: 0 };
        for thread in threads {
            let rate = thread.join().expect("a client fails by its result")?;
            all.per_second += rate.per_second;
            all.operations += rate.operations;
        }
        Ok(all)
    })
}
