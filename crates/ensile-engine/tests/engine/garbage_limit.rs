//! What waits to be freed has a limit, of all threads together and for all readers (E6).
//!
//! Databases are driven by hand: no test here depends on time.

use std::sync::mpsc;

use crate::prelude::*;

const LIMIT: u64 = 1 << 20;
/// Bytes of a row that is written once, and of what replaces it.
const SMALL: usize = 900;
const LARGE: usize = 1900;

fn limited() -> (Driven, Table<u64, Vec<u8>>) {
    let driven = Driven::open(|builder| builder.garbage_bytes_max(LIMIT));
    let table = driven.db.table("rows").expect("opens");
    (driven, table)
}

/// Leaves the old record of `key` behind.
fn replace(db: &Database, table: &Table<u64, Vec<u8>>, key: u64) -> Result<()> {
    db.run(|tx| tx.put(table, &key, &vec![0; SMALL]))?;
    db.run(|tx| tx.put(table, &key, &vec![0; LARGE]))
}

/// Leaves a deleted row behind.
fn come_and_go(db: &Database, table: &Table<u64, Vec<u8>>, key: u64) -> Result<()> {
    db.run(|tx| tx.put(table, &key, &vec![0; SMALL]))?;
    db.run(|tx| tx.delete(table, &key).map(drop))
}

fn waiting(db: &Database) -> u64 {
    let stats = db.stats();
    stats.garbage_pinned_bytes + stats.garbage_version_bytes
}

/// On a thread of its own, which then parks while `then` runs, and no longer: a failing `then` ends the test.
fn left_by_a_parked_thread(work: impl FnOnce() + Send, then: impl FnOnce()) {
    let (parked, is_parked) = mpsc::channel();
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(move |scope| {
        scope.spawn(move || {
            work();
            parked.send(()).expect("is waited for");
            assert!(is_over.recv().is_err(), "the other end is dropped");
        });
        is_parked.recv().expect("it works and parks");
        then();
        drop(over);
    });
}

#[test]
fn what_a_parked_thread_left_is_freed() -> Result<()> {
    let (driven, table) = limited();
    left_by_a_parked_thread(
        || {
            for key in 0..3000 {
                replace(&driven.db, &table, key).expect("commits");
                come_and_go(&driven.db, &table, 10_000 + key).expect("commits");
            }
        },
        || {
            assert!(waiting(&driven.db) > LIMIT);
            driven.pass_ticks(150);
            let stats = driven.db.stats();
            assert_eq!(
                (stats.garbage_things, waiting(&driven.db)),
                (0, 0),
                "nobody commits, and nobody reads"
            );
        },
    );
    assert_eq!(driven.db.stats().expired, 0, "no reader had a part in it");
    Ok(())
}

#[test]
fn what_ended_threads_left_is_freed() -> Result<()> {
    let (driven, table) = limited();
    for thread in 0..20 {
        let (db, table) = (&driven.db, &table);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for key in 0..200 {
                    come_and_go(db, table, 1000 * thread + key).expect("commits");
                }
            });
        });
    }
    driven.pass_ticks(150);
    assert_eq!(driven.db.stats().garbage_things, 0);
    Ok(())
}

type Work = fn(&Database, &Table<u64, Vec<u8>>, u64) -> Result<()>;

/// Kinds of garbage: for pins, for snapshots (rows that are changed in place), and of both kinds beside a trickle of
/// deletes.
const LOADS: [Work; 4] = [
    replace,
    |db, table, key| {
        let row = key % 2000;
        db.run(|tx| tx.put(table, &row, &vec![key as u8; SMALL]))
    },
    come_and_go,
    |db, table, key| {
        if key % 10 == 0 { come_and_go(db, table, 100_000 + key) } else { replace(db, table, key % 1000) }
    },
];

/// The load whose garbage is versions in pages.
const IN_PLACE: usize = 1;

/// The most that waits at any tick.
fn most_waiting(driven: &Driven, table: &Table<u64, Vec<u8>>, work: Work) -> Result<u64> {
    let mut most = 0;
    for key in 0..6000 {
        work(&driven.db, table, key)?;
        if key % 20 == 0 {
            driven.pass_ticks(1);
            most = most.max(waiting(&driven.db));
        }
    }
    Ok(most)
}

/// A database with some rows and a boundary behind them.
fn filled() -> Result<(Driven, Table<u64, Vec<u8>>)> {
    let (driven, table) = limited();
    driven.db.run(|tx| (0..2000).try_for_each(|key| tx.put(&table, &key, &vec![0; SMALL])))?;
    driven.pass_ticks(100);
    Ok((driven, table))
}

/// What waits with somebody who holds it back is at most a limit and a quarter more than without.
fn at_most(work: Work) -> Result<u64> {
    let (driven, table) = filled()?;
    Ok(most_waiting(&driven, &table, work)? + LIMIT + LIMIT / 4)
}

#[test]
fn idle_transactions_are_ended_before_more_than_the_limit_waits() -> Result<()> {
    for (number, work) in LOADS.into_iter().enumerate() {
        let (driven, table) = filled()?;
        let begun = |_| -> Result<Transaction<'_>> {
            let mut tx = driven.db.begin();
            tx.get(&table, &0)?;
            driven.pass_ticks(1);
            Ok(tx)
        };
        let mut idle = (0..30).map(begun).collect::<Result<Vec<_>>>()?;
        let (most, bound) = (most_waiting(&driven, &table, work)?, at_most(work)?);
        assert!(most <= bound, "load {number}: {most} bytes waited, at most {bound} may");
        let is_ended = |tx: &mut Transaction<'_>| matches!(tx.get(&table, &0), Err(Error::Expired));
        let ended = idle.iter_mut().map(is_ended).filter(|&is| is).count();
        assert_eq!(driven.db.stats().expired, ended as u64, "load {number}: those that were ended count");
        let holding = if number == IN_PLACE { 0 } else { idle.len() };
        assert_eq!(ended, holding, "load {number}: all hold back the same, and no version in a page");
    }
    Ok(())
}

#[test]
fn snapshots_are_ended_before_more_than_the_limit_waits() -> Result<()> {
    for (number, work) in LOADS.into_iter().enumerate() {
        let (driven, table) = filled()?;
        let open = |_| -> Result<Snapshot<'_>> {
            driven.pass_ticks(30);
            let mut snapshot = driven.db.snapshot()?;
            snapshot.get(&table, &0)?;
            Ok(snapshot)
        };
        let mut held = (0..30).map(open).collect::<Result<Vec<_>>>()?;
        let (most, bound) = (most_waiting(&driven, &table, work)?, at_most(work)?);
        assert!(most <= bound, "load {number}: {most} bytes waited, at most {bound} may");
        let is_ended = |snapshot: &mut Snapshot<'_>| matches!(snapshot.get(&table, &0), Err(Error::Expired));
        let ended = held.iter_mut().map(is_ended).filter(|&is| is).count();
        assert_eq!(driven.db.stats().expired, ended as u64, "load {number}: those that were ended count");
        assert!(ended > 0, "load {number}: they hold back all of it");
    }
    Ok(())
}

#[test]
fn a_leaked_snapshot_is_ended_too() -> Result<()> {
    let (driven, table) = filled()?;
    std::mem::forget(driven.db.snapshot()?);
    let (most, bound) = (most_waiting(&driven, &table, come_and_go)?, at_most(come_and_go)?);
    assert!(most <= bound, "{most} bytes waited, at most {bound} may");
    assert_eq!(driven.db.stats().expired, 1);
    Ok(())
}

#[test]
fn young_readers_outlive_those_that_hold_back_too_much() -> Result<()> {
    let (driven, table) = filled()?;
    let mut old = driven.db.begin();
    old.get(&table, &0)?;
    let (mut young, mut rounds) = (None, 0);
    while driven.db.stats().expired == 0 {
        // A reader that holds back less than half of the limit, whenever the old one is ended.
        young = Some(driven.db.begin());
        for key in 0..100 {
            replace(&driven.db, &table, 10_000 + 100 * rounds + key)?;
        }
        driven.pass_ticks(3);
        rounds += 1;
        assert!(rounds < 1000, "the old one is never ended");
    }
    assert!(matches!(old.get(&table, &0), Err(Error::Expired)));
    assert!(young.is_some_and(|mut young| young.get(&table, &0).is_ok()));
    Ok(())
}

#[test]
fn deleted_rows_that_wait_for_the_disk_count_and_end_nobody() -> Result<()> {
    let (disk, clock) = (SimDisk::new(), Clock::manual());
    let builder = Database::builder("unused").disk(Arc::new(disk.mounted())).manual_clock(clock.clone());
    let db = builder.garbage_bytes_max(LIMIT).without_threads().open()?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    let tick = || {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
    };
    let mut reader = db.begin();
    // The loggers take no step: D stands still.
    for key in 0..3000 {
        db.submit(|tx| tx.put(&table, &key, &vec![0; SMALL]))?;
        db.submit(|tx| tx.delete(&table, &key).map(drop))?;
        if key % 20 == 0 {
            tick();
        }
    }
    (0..100).for_each(|_| tick());
    assert!(waiting(&db) > LIMIT, "{} bytes of deleted rows stand in the table", waiting(&db));
    assert_eq!((reader.get(&table, &0)?, db.stats().expired), (None, 0));
    Ok(())
}

/// A call-back that waits while `work` goes on beside it; what waited at most, and what became of the scan.
fn most_beside_a_call_back(
    driven: &Driven,
    table: &Table<u64, Vec<u8>>,
    scan: impl FnOnce(&mut dyn FnMut() -> std::ops::ControlFlow<()>) -> Result<()> + Send,
) -> Result<(u64, Result<()>)> {
    let (within, is_within) = mpsc::channel();
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(move |scope| {
        let waits = scope.spawn(move || {
            let mut has_waited = false;
            scan(&mut || {
                if !std::mem::replace(&mut has_waited, true) {
                    within.send(()).expect("is waited for");
                    assert!(is_over.recv().is_err(), "the other end is dropped");
                }
                std::ops::ControlFlow::Continue(())
            })
        });
        is_within.recv().expect("the scan shows a row");
        let most = most_waiting(driven, table, replace)?;
        drop(over);
        Ok((most, waits.join().expect("the scan returns")))
    })
}

#[test]
fn a_call_back_that_waits_holds_back_no_more_than_the_limit() -> Result<()> {
    let bound = at_most(replace)?;
    let (driven, table) = filled()?;
    let (most, scanned) =
        most_beside_a_call_back(&driven, &table, |wait| driven.db.begin().scan(&table, .., |_, _| wait()))?;
    assert!(most <= bound, "{most} bytes waited, at most {bound} may");
    assert!(matches!(scanned, Err(Error::Expired)), "more rows come behind the first batch: {scanned:?}");
    assert_eq!(driven.db.stats().expired, 1);
    Ok(())
}

type Look = fn(&Driven, &Table<u64, Vec<u8>>, &mut dyn FnMut()) -> Result<()>;

#[test]
fn what_looks_at_a_row_may_wait_too() -> Result<()> {
    let bound = at_most(replace)?;
    let (driven, table) = filled()?;
    let looks: [Look; 3] = [
        |driven, table, wait| driven.db.begin().get_with(table, &1, |_| wait()).map(drop),
        |driven, table, wait| driven.db.begin().get_many_with(table, &[1, 2, 3], |_, _| wait()),
        |driven, table, wait| driven.db.snapshot()?.get_with(table, &1, |_| wait()).map(drop),
    ];
    for look in looks {
        let (most, looked) = most_beside_a_call_back(&driven, &table, |wait| {
            look(&driven, &table, &mut || {
                let _ = wait();
            })
        })?;
        assert!(most <= bound, "{most} bytes waited, at most {bound} may");
        assert!(looked.is_ok(), "the row had been read: {looked:?}");
    }
    Ok(())
}

#[test]
fn rows_that_a_scan_copied_and_did_not_show_are_in_nobodys_way() -> Result<()> {
    let (driven, table) = filled()?;
    let mut tx = driven.db.begin();
    let mut shown = 0;
    tx.scan(&table, .., |_, _| {
        shown += 1;
        std::ops::ControlFlow::Break(())
    })?;
    tx.put(&table, &5000, &Vec::new())?;
    driven.db.run(|other| other.put(&table, &1, &vec![7; SMALL]))?;
    tx.commit()?;
    assert_eq!(shown, 1, "row 1 was copied with row 0, and not shown");
    let mut tx = driven.db.begin();
    tx.scan(&table, .., |_, _| std::ops::ControlFlow::Break(()))?;
    tx.put(&table, &5000, &Vec::new())?;
    driven.db.run(|other| other.put(&table, &0, &vec![7; SMALL]))?;
    assert!(matches!(tx.commit(), Err(Error::Conflict)), "row 0 was shown");
    Ok(())
}

#[test]
fn a_read_set_has_a_limit_of_its_own() -> Result<()> {
    let driven = Driven::open(|builder| builder);
    let table = driven.db.table::<u64, ()>("keys")?;
    driven.db.run(|tx| (0..20_000).try_for_each(|key| tx.put(&table, &key, &())))?;
    let mut tx = driven.db.begin();
    let scan = |tx: &mut Transaction<'_>| tx.scan_keys(&table, .., |_| std::ops::ControlFlow::Continue(()));
    let refused = (0..2000).find_map(|_| scan(&mut tx).err());
    assert!(matches!(refused, Some(Error::TooLarge { .. })), "{refused:?}");
    drop(tx);
    // The same key again and again is one read.
    let mut tx = driven.db.begin();
    (0..100_000).try_for_each(|_| tx.get(&table, &1).map(drop))?;
    tx.commit().map(drop)
}

#[test]
fn a_snapshot_that_holds_back_nothing_is_not_ended_for_a_transactions_garbage() -> Result<()> {
    let (driven, table) = filled()?;
    let mut old = driven.db.snapshot()?;
    driven.pass_ticks(80);
    let mut idle = driven.db.begin();
    idle.get(&table, &0)?;
    for key in 0.. {
        replace(&driven.db, &table, 10_000 + key)?;
        if key % 20 == 0 {
            driven.pass_ticks(1);
        }
        if driven.db.stats().expired > 0 {
            break;
        }
        assert!(key < 10_000, "the transaction is never ended");
    }
    assert!(matches!(idle.get(&table, &0), Err(Error::Expired)));
    assert!(old.get(&table, &0).is_ok(), "no version waits for it");
    Ok(())
}

/// Versions wait for the boundary that is served, with or without a reader: to end one would free nothing.
#[test]
fn snapshots_of_the_boundary_that_is_served_are_not_ended() -> Result<()> {
    let (driven, table) = filled()?;
    for round in 0..60 {
        let mut keys = (0..450).map(|key| (round * 450 + key) % 2000);
        keys.try_for_each(|key| driven.db.run(|tx| tx.put(&table, &key, &vec![1; SMALL])))?;
        let mut snapshot = driven.db.snapshot()?;
        snapshot.get(&table, &1)?;
        driven.pass_ticks(1);
        assert!(snapshot.get(&table, &1).is_ok(), "round {round}: it is one tick old");
    }
    Ok(())
}

#[test]
fn deleted_rows_that_wait_for_the_disk_end_no_snapshot() -> Result<()> {
    let (disk, clock) = (SimDisk::new(), Clock::manual());
    let builder = Database::builder("unused").disk(Arc::new(disk.mounted())).manual_clock(clock.clone());
    let db = builder.garbage_bytes_max(LIMIT).without_threads().open()?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    let tick = || {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
    };
    for _ in 0..50 {
        tick();
        while db.logger_step(0) {}
    }
    let mut snapshot = db.snapshot()?;
    // From here on D stands still.
    for key in 0..3000 {
        db.submit(|tx| tx.put(&table, &key, &vec![0; SMALL]))?;
        db.submit(|tx| tx.delete(&table, &key).map(drop))?;
        if key % 20 == 0 {
            tick();
        }
    }
    (0..100).for_each(|_| tick());
    assert_eq!((snapshot.get(&table, &0)?, db.stats().expired), (None, 0));
    Ok(())
}

#[test]
fn what_a_snapshots_scan_copied_and_did_not_show_is_not_in_its_receipt() -> Result<()> {
    let (driven, table) = filled()?;
    driven.db.run(|tx| tx.put(&table, &0, &vec![1; SMALL]))?;
    driven.pass_ticks(10);
    driven.db.run(|tx| tx.put(&table, &1, &vec![1; SMALL]))?;
    driven.pass_ticks(20);
    let mut snapshot = driven.db.snapshot()?;
    snapshot.get(&table, &0)?;
    let shown = snapshot.shown_epoch();
    snapshot.scan(&table, .., |_, _| std::ops::ControlFlow::Break(()))?;
    assert_eq!(snapshot.shown_epoch(), shown, "row 0 alone was shown");
    snapshot.get(&table, &1)?;
    assert!(snapshot.shown_epoch() > shown);
    Ok(())
}

/// 16 bytes each.
const READS_OF_THE_LIMIT: usize = (256 << 20) / 16 + 10;

#[test]
fn reads_of_refused_inserts_and_of_gaps_have_the_limit_of_a_read_set_too() -> Result<()> {
    let driven = Driven::open(|builder| builder);
    let table = driven.db.table::<u64, ()>("keys")?;
    driven.db.run(|tx| (0..100).try_for_each(|key| tx.put(&table, &(2 * key), &())))?;
    let mut tx = driven.db.begin();
    let refused = (0..READS_OF_THE_LIMIT).find_map(|_| match tx.insert(&table, &2, &()) {
        Err(Error::KeyExists { .. }) => None,
        other => Some(other),
    });
    assert!(matches!(refused, Some(Err(Error::TooLarge { .. }))), "{refused:?}");
    drop(tx);
    let mut tx = driven.db.begin();
    let gap = |read| 1 + (read as u64 % 2) * 150;
    let refused = (0..READS_OF_THE_LIMIT).find_map(|read| tx.get(&table, &gap(read)).err());
    assert!(matches!(refused, Some(Error::TooLarge { .. })), "{refused:?}");
    Ok(())
}

/// However long it stays open: old versions are for snapshots, and a transaction reads the latest rows.
#[test]
fn an_open_transaction_holds_back_no_version_of_rows_that_are_changed_in_place() -> Result<()> {
    let (driven, table) = filled()?;
    let without = most_waiting(&driven, &table, LOADS[IN_PLACE])?;
    let mut open = driven.db.begin();
    let row = open.get(&table, &5)?;
    let with = most_waiting(&driven, &table, LOADS[IN_PLACE])?;
    assert!(without > 0, "boundaries come, and rows are kept for them");
    assert!(with <= without + without / 10, "{with} bytes wait beside it, and {without} without it");
    assert_eq!((driven.db.stats().expired, row.map(|row| row.len())), (0, Some(SMALL)));
    // It goes on; its row has changed since.
    open.put(&table, &100_000, &vec![1])?;
    assert!(matches!(open.commit(), Err(Error::Conflict)));
    Ok(())
}

/// A worker that commits frees its pages itself, beside an open transaction too: so it uses the memory again that its
/// core knows, and the heartbeat is in nobody's way.
#[test]
fn commits_free_the_pages_that_they_leave_and_ticks_find_none() -> Result<()> {
    for is_one_open in [false, true] {
        let (driven, table) = filled()?;
        let mut open = is_one_open.then(|| driven.db.begin());
        open.as_mut().map_or(Ok(None), |tx| tx.get(&table, &0))?;
        let (mut by_commits, mut by_ticks) = (0, 0);
        for round in 0..60 {
            let before = waiting(&driven.db);
            let mut most = before;
            for key in 0..300 {
                driven
                    .db
                    .run(|tx| tx.put(&table, &((round * 300 + key) % 2000), &vec![round as u8; SMALL]))?;
                let now = waiting(&driven.db);
                by_commits += most.saturating_sub(now);
                most = now;
            }
            driven.pass_ticks(1);
            by_ticks += most.saturating_sub(waiting(&driven.db));
        }
        assert!(by_commits > LIMIT, "versions come and go: {by_commits}");
        assert_eq!(by_ticks, 0, "beside {by_commits} bytes that commits freed (one open: {is_one_open})");
    }
    Ok(())
}
