//! The killed process: writes rows in random order, and makes checkpoints if its scene has checkpoints.
//!
//! Neighbours: started by [`super`]; `content` defines the writes.

use std::io::Write as _;
use std::time::Duration;

use ensile::checkpoint::{CheckpointHandle, Schedule};
use ensile::{Database, Durability, Receipt, Table, Transaction, Tuning, Value};
use ensile_base::sync::{AtomicBool, Ordering};

use super::content::{LARGE_VALUE_BYTES, QUEUED, Row, VALUE_BYTES, Writes, table};
use crate::failure::{Failure, Result};
use crate::recovery::arguments::{Load, RecoveryVictimArguments};

/// Message of a victim that may be killed.
pub(super) const READY: &[u8] = b"ready";
/// Written share of a checkpoint at its interruption.
const INTERRUPTED_SHARE: f64 = 0.9;

/// Runs until the kill.
pub(crate) fn run(arguments: &RecoveryVictimArguments) -> Result<()> {
    let run = &arguments.run;
    let db = Database::builder(&arguments.folder)
        .durability(Durability::Relaxed)
        .tuning(Tuning { loggers: Some(run.loggers), ..Tuning::default() })
        .epoch_interval(Duration::from_millis(run.epoch_ms))
        .checkpoints(Schedule::on_demand())
        .open()?;
    match arguments.load {
        Load::Queue => queue(&db, arguments.writes().count)?,
        Load::Versions => rows::<LARGE_VALUE_BYTES>(&db, arguments)?,
        _ => rows::<VALUE_BYTES>(&db, arguments)?,
    }
    say_ready()?;
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Puts `count` rows, and deletes each row once [`QUEUED`] later rows are present.
fn queue(db: &Database, count: u64) -> Result<()> {
    let table = table::<VALUE_BYTES>(db)?;
    let mut last: Option<Receipt<'_>> = None;
    for key in 0..count {
        let write = |tx: &mut Transaction<'_>| {
            tx.put(&table, &key, &Row::of(key, 0))?;
            key.checked_sub(QUEUED).map_or(Ok(()), |old| tx.delete(&table, &old).map(drop))
        };
        last = Some(db.submit(write)?.1);
    }
    Ok(last.map_or(Ok(()), |receipt| receipt.durable())?)
}

/// Writes rows in random orders.
fn rows<const BYTES: usize>(db: &Database, arguments: &RecoveryVictimArguments) -> Result<()>
where
    Row<BYTES>: Value,
{
    let table = table::<BYTES>(db)?;
    let writes = arguments.writes();
    let passes = writes.passes() - u64::from(writes.last_is_open);
    for pass in 0..passes {
        write_pass(db, &table, &writes, pass, &|| false)?;
        if pass == 0 && arguments.load == Load::Interrupted {
            db.checkpoint()?.wait()?;
        }
    }
    if arguments.load == Load::Checkpoint {
        db.checkpoint()?.wait()?;
    }
    if arguments.load == Load::Interrupted {
        let checkpoint = db.checkpoint()?;
        return write_until_interrupted(db, &table, &writes, &checkpoint);
    }
    Ok(())
}

fn say_ready() -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(READY).and_then(|()| stdout.flush()).map_err(Failure::io("telling what is durable"))
}

/// Writes the last pass beside a checkpoint, and ends the process when the checkpoint is nearly written.
fn write_until_interrupted<const BYTES: usize>(
    db: &Database,
    table: &Table<u64, Row<BYTES>>,
    writes: &Writes,
    checkpoint: &CheckpointHandle,
) -> Result<()>
where
    Row<BYTES>: Value,
{
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while checkpoint.outcome().is_none() {
                if checkpoint.progress().share >= INTERRUPTED_SHARE && say_ready().is_ok() {
                    // Equals a kill from outside, but without delay: nothing is closed.
                    std::process::exit(0);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            // Relaxed: only ends the other threads.
            over.store(true, Ordering::Relaxed);
        });
        // Relaxed: the flag only ends the pass; no read depends on the flag.
        write_pass(db, table, writes, writes.passes() - 1, &|| over.load(Ordering::Relaxed))
    })?;
    Err(Failure::Usage("the checkpoint ended before it was interrupted: raise --records".to_owned()))
}

/// Writes a pass, each row in a separate transaction, and waits until the pass is durable.
fn write_pass<const BYTES: usize>(
    db: &Database,
    table: &Table<u64, Row<BYTES>>,
    writes: &Writes,
    pass: u64,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<()>
where
    Row<BYTES>: Value,
{
    let order = writes.order(pass);
    let write = |thread: u64| -> Result<()> {
        let mut last: Option<Receipt<'_>> = None;
        for position in writes.share(pass, thread) {
            let key = order.at(position);
            last = Some(db.submit(|tx| tx.put(table, &key, &Row::of(key, pass)))?.1);
            if is_over() {
                break;
            }
        }
        Ok(last.map_or(Ok(()), |receipt| receipt.durable())?)
    };
    std::thread::scope(|scope| {
        let write = &write;
        let others: Vec<_> = (1..writes.threads).map(|thread| scope.spawn(move || write(thread))).collect();
        let mut outcome = write(0);
        for other in others {
            outcome = outcome.and(other.join().expect("a writer does not panic"));
        }
        outcome
    })
}
