//! `limits ends`: the longest epoch while many threads end, after deletes of many rows in every thread (E1).
//!
//! A thread puts rows and deletes the rows. After the last delete the threads end at once, and the database frees the
//! garbage of the threads. The longest epoch is measured from the end of the threads until the garbage is gone. The
//! figure beside it is the longest epoch before, during the puts and deletes, without a thread that ends.
//!
//! Neighbours: [`crate::watch`] observes the epochs.

use std::sync::Barrier;
use std::time::Duration;

use ensile::{Database, Error, Table};
use ensile_base::clock::Clock;

use super::arguments::LimitsArguments;
use super::databases::{builder, open};
use super::rows::Row;
use crate::failure::Result;
use crate::progress::Progress;
use crate::watch;

const THREADS: usize = 64;
const ROWS: u64 = 20_000;
/// Rows of a transaction.
const ROWS_AT_ONCE: u64 = 1_000;
/// Longest wait in seconds for the release of the garbage.
const SECONDS_MAX: f64 = 60.0;

/// Measures one row of figures.
pub(super) fn run(arguments: &LimitsArguments, progress: &mut Progress) -> Result<Vec<Row>> {
    let (threads, rows) = (arguments.threads_or(THREADS), arguments.records.unwrap_or(ROWS));
    let db = open(builder(arguments))?;
    let table = db.table("rows")?;
    // The threads and the measuring thread meet twice: after the last delete, and before the threads end.
    let meeting = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let (db, table, meeting) = (&db, &table, &meeting);
        let running: Vec<_> = (0..threads as u64)
            .map(|thread| {
                scope.spawn(move || {
                    let done = put_and_delete(db, table, thread * rows..(thread + 1) * rows);
                    meeting.wait();
                    meeting.wait();
                    done
                })
            })
            .collect();
        progress.say("putting and deleting");
        let ((), before) = watch::during(db, || {
            meeting.wait();
        });
        let left = db.stats();
        progress.say("ending");
        let (outcome, after) = watch::during(db, || {
            meeting.wait();
            let ended: Result<Vec<()>, Error> =
                running.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            ended.map(|_| until_nothing_is_left(db, arguments.seconds))
        });
        let seconds = outcome?;
        Ok(vec![
            Row::default()
                .with("threads", threads as u64)
                .with("deletes_each", rows)
                .with("epoch_ms", arguments.epoch_ms)
                .with("longest_epoch_before_ms", before.epoch_gap_nanos_max as f64 / 1e6)
                .with("longest_epoch_ms", after.epoch_gap_nanos_max as f64 / 1e6)
                .with("epochs_s", after.epochs_per_s())
                .with("left_things", left.garbage_things)
                .with("left_in_the_end", db.stats().garbage_things)
                .with("s_until_freed", seconds),
        ])
    })
}

fn put_and_delete(db: &Database, table: &Table<u64, u64>, keys: std::ops::Range<u64>) -> Result<(), Error> {
    for is_delete in [false, true] {
        for first in keys.clone().step_by(ROWS_AT_ONCE as usize) {
            db.run(|tx| {
                (first..keys.end.min(first + ROWS_AT_ONCE)).try_for_each(|key| match is_delete {
                    false => tx.put(table, &key, &key),
                    true => tx.delete(table, &key).map(drop),
                })
            })?;
        }
    }
    Ok(())
}

/// Waits until the database has freed the garbage: at least `seconds` and at most [`SECONDS_MAX`]. Returns the time in
/// seconds of the last observed garbage.
fn until_nothing_is_left(db: &Database, seconds: f64) -> f64 {
    let clock = Clock::machine();
    let begun = clock.nanos();
    let mut left_at = 0.0;
    loop {
        let now = (clock.nanos() - begun) as f64 / 1e9;
        let is_left = db.stats().garbage_things > 0;
        if is_left {
            left_at = now;
        }
        if now > SECONDS_MAX || now > seconds && !is_left {
            return left_at;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
