//! The process that is killed: it writes rows in random order until so many are durable, says so, and waits.
//!
//! Neighbours: started by [`super`]; what it writes stands in `content`.

use std::io::Write as _;
use std::time::Duration;

use ensile::{Database, Durability, Receipt, Table};

use super::content::{Row, Writes, table};
use crate::arguments::RecoveryVictimArguments;
use crate::failure::{Failure, Result};

/// What it says when everything is durable.
pub(super) const READY: &[u8] = b"ready";

/// Runs until it is killed.
pub(crate) fn run(arguments: &RecoveryVictimArguments) -> Result<()> {
    let run = &arguments.run;
    let db = run.options().open_at(&arguments.folder, Durability::Relaxed)?;
    let table = table(&db)?;
    let writes = Writes { records: arguments.records, count: arguments.writes, seed: run.seed };
    for pass in 0..writes.passes() {
        write_pass(&db, &table, &writes, pass, run.threads as u64)?;
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(READY).and_then(|()| stdout.flush()).map_err(Failure::io("telling what is durable"))?;
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Writes a pass, each row in a transaction of its own, and waits until all of it is durable.
fn write_pass(
    db: &Database,
    table: &Table<u64, Row>,
    writes: &Writes,
    pass: u64,
    threads: u64,
) -> Result<()> {
    let (order, count) = (writes.order(pass), writes.of_pass(pass));
    let share = |thread: u64| count * thread / threads..count * (thread + 1) / threads;
    let write = |positions: std::ops::Range<u64>| -> Result<()> {
        let mut last: Option<Receipt<'_>> = None;
        for position in positions {
            let key = order.at(position);
            last = Some(db.submit(|tx| tx.put(table, &key, &Row::of(key, pass)))?.1);
        }
        Ok(last.map_or(Ok(()), |receipt| receipt.durable())?)
    };
    std::thread::scope(|scope| {
        let write = &write;
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || write(share(thread)))).collect();
        let mut outcome = write(share(0));
        for other in others {
            outcome = outcome.and(other.join().expect("a writer does not panic"));
        }
        outcome
    })
}
