//! What the heartbeat frees, a step at a time.

use std::sync::Barrier;

use super::*;
use crate::database::Database;
use crate::error::Result;
use crate::typed_api::Readable;
use crate::worker::READS_PER_COLLECTION;

/// A turn lasts for seconds, and nobody unhooks or buries beside one: steps that free nothing must come to an end.
#[test]
fn the_heartbeat_does_not_look_again_and_again_at_what_waits_for_a_turn() -> Result<()> {
    let clock = ensile_base::clock::Clock::manual();
    let db = Database::builder_in_memory().manual_clock(clock.clone()).without_threads().open()?;
    let table = db.table::<u64, u64>("numbers")?;
    let tick = || {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
    };
    db.run(|tx| (0..5000).try_for_each(|key| tx.put(&table, &key, &key)))?;
    let shared = db.shared();
    let turn = shared.life.gate.take_turn(&shared.epochs, &shared.clock, Duration::from_secs(100), None)?;
    db.run(|tx| (0..5000).try_for_each(|key| tx.delete(&table, &key).map(drop)))?;
    (0..100).for_each(|_| tick());
    let waits = db.stats().garbage_things;
    assert!(waits >= 5000, "{waits} wait for the end of the turn");
    let mut collector = shared.heartbeat.collector.lock();
    shared.collection_tick(&mut collector);
    let steps = (0..1000).take_while(|_| shared.collection_step(&mut collector)).count();
    assert!(steps < 10, "{steps} steps");
    drop((collector, turn));
    (0..100).for_each(|_| tick());
    assert_eq!(db.stats().garbage_things, 0);
    Ok(())
}

#[test]
fn a_tick_frees_all_that_may_go_in_as_many_steps_as_that_takes() -> Result<()> {
    let clock = ensile_base::clock::Clock::manual();
    let builder = Database::builder_in_memory().manual_clock(clock.clone()).snapshots(false);
    let db = builder.without_threads().open()?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    let put = |bytes: usize| {
        let rows = 0..5 * FREED_PER_VISIT as u64;
        db.run(|tx| rows.clone().try_for_each(|key| tx.put(&table, &key, vec![1; bytes].as_slice())))
    };
    let tick = || {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
        db.stats().garbage_things
    };
    put(10)?;
    while tick() > 0 {}
    // Each record is replaced by a larger one.
    put(1000)?;
    let waiting = db.stats().garbage_things;
    assert_eq!(waiting, 5 * FREED_PER_VISIT as u64);
    // A driven heartbeat takes one step.
    while tick() == waiting {}
    let (shared, mut collector) = (db.shared(), db.shared().heartbeat.collector.lock());
    shared.collection_tick(&mut collector);
    shared.collect_for(&mut collector, Duration::from_secs(1));
    assert_eq!(db.stats().garbage_things, 0);
    Ok(())
}

#[test]
fn a_step_visits_few_workers() -> Result<()> {
    const WORKERS: usize = 3 * VISITS_PER_STEP;
    let clock = ensile_base::clock::Clock::manual();
    let db = Database::builder_in_memory().manual_clock(clock.clone()).without_threads().open()?;
    let table = db.table::<u64, u64>("numbers")?;
    let together = Barrier::new(WORKERS);
    std::thread::scope(|scope| {
        for key in 0..WORKERS as u64 {
            let (db, table, together) = (&db, &table, &together);
            scope.spawn(move || {
                db.run(|tx| tx.put(table, &key, &key)).expect("commits");
                db.run(|tx| tx.delete(table, &key)).expect("commits");
                // Each thread has a worker of its own until the last one has committed.
                together.wait();
            });
        }
    });
    let shared = db.shared();
    let turn = shared.life.gate.take_turn(&shared.epochs, &shared.clock, Duration::from_secs(100), None)?;
    for _ in 0..100 {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
    }
    drop(turn);
    let waiting = || {
        let mut waiting = 0;
        // Relaxed: nobody else works on the database.
        let bytes = |worker: &crate::worker::WorkerShared| {
            worker.counters.garbage_unhook_bytes.load(Ordering::Relaxed)
        };
        shared.workers.each_worker(|worker| waiting += usize::from(bytes(worker) > 0));
        waiting
    };
    let mut collector = shared.heartbeat.collector.lock();
    shared.collection_tick(&mut collector);
    for left in [WORKERS, WORKERS - VISITS_PER_STEP, WORKERS - 2 * VISITS_PER_STEP] {
        assert_eq!(waiting(), left);
        shared.collection_step(&mut collector);
    }
    assert_eq!(waiting(), 0);
    Ok(())
}

/// No heartbeat collects here: its scan alone says what may go.
#[test]
fn a_thread_that_only_reads_frees_what_its_writes_have_left() -> Result<()> {
    let db = Database::builder_in_memory().snapshots(false).without_threads().open()?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| tx.put(&table, &1, [1; 100].as_slice()))?;
    db.run(|tx| tx.put(&table, &1, [2; 1000].as_slice()))?;
    let epochs = &db.shared().epochs;
    for millis in 1..10 {
        let _ = epochs.try_advance(millis * 1_000_000_000);
        epochs.scan();
    }
    assert!(db.stats().garbage_things > 0, "the record that was replaced");
    (0..=READS_PER_COLLECTION).try_for_each(|_| db.run(|tx| tx.contains(&table, &1)).map(drop))?;
    assert_eq!(db.stats().garbage_things, 0);
    Ok(())
}

/// The rows are scattered over the chunks. A few free blocks in a cache keep most chunks from the system.
#[test]
fn the_memory_of_an_emptied_table_goes_back_while_the_database_runs() -> Result<()> {
    let clock = ensile_base::clock::Clock::manual();
    let db = Database::builder_in_memory().manual_clock(clock.clone()).without_threads().open()?;
    let table = db.table::<u64, [u8; 64]>("rows")?;
    let tick = || {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
    };
    const ROWS: u64 = 200_000;
    const ROWS_PER_RUN: u64 = 1_000;
    let keys = |run: u64| (0..ROWS_PER_RUN).map(move |at| (run * ROWS_PER_RUN + at).wrapping_mul(ODD));
    for run in 0..ROWS / ROWS_PER_RUN {
        db.run(|tx| keys(run).try_for_each(|key| tx.put(&table, &key, &[7; 64])))?;
    }
    let full = db.stats().memory.chunk_bytes;
    for run in 0..ROWS / ROWS_PER_RUN {
        db.run(|tx| keys(run).try_for_each(|key| tx.delete(&table, &key).map(drop)))?;
        tick();
    }
    (0..100).for_each(|_| tick());
    assert_eq!(db.stats().garbage_things, 0);
    let left = db.stats().memory.chunk_bytes;
    assert!(left <= full / 2, "{left} of {full} bytes of chunks are in use by an empty table");
    Ok(())
}

/// An odd factor, which scatters keys.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
