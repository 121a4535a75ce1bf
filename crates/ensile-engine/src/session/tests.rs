//! What threads keep of databases, and what they do not.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_sim::SimDisk;

use super::*;
use crate::{Database, Readable, Result};

fn driven() -> (Database, Clock) {
    let clock = Clock::manual();
    let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads();
    (builder.open().expect("opens"), clock)
}

fn beat(db: &Database, clock: &Clock, beats: u32) {
    for _ in 0..beats {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
    }
}

/// One transaction on another database is enough for a thread to let go of one that is closed.
#[test]
fn a_thread_that_works_on_another_database_lets_go_of_a_closed_one() -> Result<()> {
    let (first, _) = driven();
    let table = first.table::<u64, u64>("t")?;
    first.run(|tx| tx.put(&table, &1, &1))?;
    let memory = Arc::downgrade(&first.shared().memory);
    // Closed by another thread, which has no way to this one's session.
    std::thread::scope(|scope| scope.spawn(|| drop((table, first))).join()).expect("ends");
    assert!(memory.upgrade().is_some(), "this thread has a session");
    let (second, _) = driven();
    let table = second.table::<u64, u64>("t")?;
    for i in 0..100 {
        second.run(|tx| tx.put(&table, &1, &i))?;
    }
    assert!(memory.upgrade().is_none(), "the closed database's memory is still held by this thread");
    Ok(())
}

#[test]
fn the_thread_that_drops_a_database_keeps_nothing_of_it_and_its_seats_of_others() -> Result<()> {
    let (first, _) = driven();
    let (second, _) = driven();
    let (in_first, in_second) = (first.table::<u64, u64>("t")?, second.table::<u64, u64>("t")?);
    // Sessions of both, the last one and others.
    let open = [first.begin(), first.begin()];
    first.run(|tx| {
        tx.put(&in_first, &1, &1)?;
        second.run(|tx| tx.put(&in_second, &1, &1))
    })?;
    drop(open);
    let memory = Arc::downgrade(&first.shared().memory);
    let (workers, _) = second.shared().epochs.registered_counts();
    drop((in_first, first));
    assert!(memory.upgrade().is_none(), "the closed database's memory is still held by this thread");
    second.run(|tx| tx.put(&in_second, &1, &2))?;
    assert_eq!(second.shared().epochs.registered_counts().0, workers, "its worker was there");
    Ok(())
}

#[test]
fn a_thread_that_had_many_transactions_open_at_once_keeps_few_sessions() -> Result<()> {
    let (db, _) = driven();
    let open: Vec<_> = (0..100).map(|_| db.begin()).collect();
    assert!(db.shared().epochs.registered_counts().1 >= 100);
    drop(open);
    let (_, pins) = db.shared().epochs.registered_counts();
    assert!(pins <= OTHERS_MAX + 1, "{pins} pins");
    Ok(())
}

/// The threads that fill an index have retired nodes, and commit nothing.
#[test]
fn what_an_opening_retires_is_freed_though_its_threads_never_commit() -> Result<()> {
    let disk = SimDisk::new();
    let open = |clock: &Clock| {
        let builder = Database::builder("indexed").disk(Arc::new(disk.mounted()));
        builder.manual_clock(clock.clone()).without_threads().open()
    };
    let db = open(&Clock::manual())?;
    let table = db.table::<u64, u64>("rows")?;
    db.submit(|tx| (0..1000).try_for_each(|key| tx.put(&table, &key, &key)))?;
    db.close()?;
    drop((table, db));
    let clock = Clock::manual();
    let db = open(&clock)?;
    let key = |_: &u64, row: &u64| format!("a key of some length, {row}");
    std::thread::scope(|scope| {
        let indexed = || db.define::<u64, u64>("rows").index("by_text", 1, key).open().map(drop);
        scope.spawn(indexed).join().expect("no panic")
    })?;
    assert!(db.stats().garbage_things > 0, "suffix blocks that were replaced");
    beat(&db, &clock, 100);
    assert_eq!(db.stats().garbage_things, 0);
    Ok(())
}

/// A second worker that a nested run needed once is not to keep its garbage for as long as the thread lives.
#[test]
fn the_garbage_of_a_nested_runs_worker_is_collected_after_it() -> Result<()> {
    let (db, clock) = driven();
    let table = db.table::<u64, u64>("t")?;
    db.run(|tx| (0..2000).try_for_each(|key| tx.put(&table, &key, &key)))?;
    beat(&db, &clock, 100);
    db.run(|outer| {
        outer.put(&table, &5000, &1)?;
        db.run(|inner| (0..2000).try_for_each(|key| inner.delete(&table, &key).map(drop)))
    })?;
    for i in 0..1000 {
        beat(&db, &clock, 3);
        db.run(|tx| tx.put(&table, &6000, &i))?;
    }
    let stats = db.stats();
    assert!(stats.garbage_things < 100, "{} things still wait", stats.garbage_things);
    Ok(())
}

#[test]
fn nested_runs_panics_and_threads_neither_lose_nor_multiply_workers() -> Result<()> {
    let (a, clock) = driven();
    let (b, _) = driven();
    let (ta, tb) = (a.table::<u64, u64>("t")?, b.table::<u64, u64>("t")?);
    for round in 0..50u64 {
        std::thread::scope(|scope| {
            let spawned = scope.spawn(|| {
                for i in 0..20u64 {
                    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        a.run(|tx| {
                            tx.put(&ta, &i, &round)?;
                            b.run(|tb_| tb_.put(&tb, &i, &round))?;
                            a.run(|tx| {
                                tx.put(&ta, &(i + 100), &round)?;
                                assert!(i % 5 != 4, "planned");
                                Ok(())
                            })?;
                            let _snapshot = a.snapshot()?;
                            Ok(())
                        })
                    }));
                    assert_eq!(panicked.is_err(), i % 5 == 4);
                    let mut open = a.begin_owned();
                    open.put(&ta, &(i + 200), &round).expect("puts");
                    let work = move || {
                        if i % 2 == 0 {
                            let _ = open.submit();
                        } else {
                            drop(open);
                        }
                    };
                    // Joined, so that the thread's locals are gone.
                    std::thread::scope(|scope| scope.spawn(work).join()).expect("ends");
                }
            });
            spawned.join().expect("ends");
        });
        beat(&a, &clock, 5);
    }
    for db in [&a, &b] {
        let (workers, pins) = db.shared().epochs.registered_counts();
        assert!(workers <= 4, "{workers} workers");
        assert!(pins <= 12, "{pins} pins");
        let mut made = 0;
        db.shared().workers.each_worker(|_| made += 1);
        assert!(made <= 4, "{made} workers were made: a thread that ends leaves its worker to the next");
    }
    assert_eq!(b.run(|tx| tx.get(&tb, &3))?, Some(49));
    Ok(())
}
