//! Turns: a closure that loses to other transactions again and again commits all the same (P1).
//!
//! Each closure here loses by construction: while it runs, before its turn, other threads commit what it has read. So
//! without turns it runs for ever, however fast the machine is.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::prelude::*;

/// Rows of the scanned table: more than a turn after the first loss asks for.
const ROWS: u64 = 5_000;

/// Without boundaries, for which a closure would lose once more.
fn filled() -> Result<(Database, Table<u64, u64>)> {
    let db = Database::builder_in_memory().snapshots(false).open()?;
    let table = db.table::<u64, u64>("numbers")?;
    db.run(|tx| (0..ROWS).try_for_each(|row| tx.put(&table, &(2 * row), &1)))?;
    Ok((db, table))
}

/// Until this many commits of others have passed, or others wait for our turn.
fn wait_for(others: &AtomicU64, commits: u64, db: &Database) {
    let until = others.load(Ordering::Relaxed) + commits;
    while others.load(Ordering::Relaxed) < until && db.stats().turns == 0 {
        std::thread::yield_now();
    }
}

/// A closure that reads all rows beside threads that do `work` without an end. It loses once, and then only where its
/// turn was ended because the machine took too long for it: in a turn nothing changes what it reads.
fn check_that_reading_all_commits_beside(
    work: impl Fn(&Database, &Table<u64, u64>, u64) -> Result<()> + Sync,
) -> Result<()> {
    let (db, table) = filled()?;
    let (done, others, runs) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (db, table, done, others, work) = (&db, &table, &done, &others, &work);
            scope.spawn(move || {
                for round in 0.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    work(db, table, (2 * round + thread) % (2 * ROWS)).expect("commits");
                    others.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let sum = db.run(|tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            let mut sum = 0;
            tx.scan(&table, .., |_, row| {
                sum += row;
                ControlFlow::Continue(())
            })?;
            wait_for(&others, 4 * ROWS, &db);
            tx.put(&table, &u64::MAX, &sum)
        });
        done.store(true, Ordering::Relaxed);
        sum
    })?;
    let (runs, stats) = (u64::from(runs.into_inner()), db.stats());
    assert!(runs >= 2 && stats.retries >= 1, "it loses by construction");
    assert!(
        stats.turns >= runs - 1,
        "each run after the first has a turn: {runs} runs, {} turns",
        stats.turns
    );
    Ok(())
}

#[test]
fn a_closure_that_reads_much_commits_beside_updates_inserts_and_deletes() -> Result<()> {
    check_that_reading_all_commits_beside(|db, table, key| db.run(|tx| tx.put(table, &(key & !1), &2)))?;
    check_that_reading_all_commits_beside(|db, table, key| {
        db.run(|tx| tx.put(table, &(key | 1), &1))?;
        db.run(|tx| tx.delete(table, &(key | 1)).map(drop))
    })
}

#[test]
fn closures_that_lose_to_each_other_all_commit() -> Result<()> {
    let (db, table) = filled()?;
    std::thread::scope(|scope| {
        let add_all = || {
            db.run(|tx| {
                let mut sum = 0;
                tx.scan(&table, .., |_, row| {
                    sum += row;
                    ControlFlow::Continue(())
                })?;
                std::thread::yield_now();
                tx.update(&table, &(sum % 7 * 2), |row| *row += 1).map(drop)
            })
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(add_all)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let sum = db.run(|tx| tx.range(&table, ..).try_fold(0, |sum, row| Ok(sum + row?.1)))?;
    assert_eq!(sum, ROWS + 8, "each added one");
    Ok(())
}

#[test]
fn transactions_that_a_closure_begins_pass_in_its_turn() -> Result<()> {
    let (db, table) = filled()?;
    let mut runs = 0u64;
    db.run(|tx| {
        runs += 1;
        tx.scan(&table, .., |_, _| ControlFlow::Continue(()))?;
        if runs == 1 {
            db.run(|other| other.put(&table, &0, &7))?;
        }
        // In the turn: what this closure has not read.
        db.run(|other| other.put(&db.table::<u64, u64>("runs")?, &runs, &runs))?;
        tx.put(&table, &2, &runs)
    })?;
    assert_eq!((runs, db.stats().turns), (2, 1));
    assert_eq!(db.run(|tx| tx.get(&table, &2))?, Some(2));
    Ok(())
}

#[test]
fn a_closure_that_conflicts_with_itself_has_few_turns_and_is_told_so_by_its_limit() -> Result<()> {
    let (db, table) = filled()?;
    let lost = db.run_with(20, Duration::MAX, |tx| {
        tx.scan(&table, .., |_, _| ControlFlow::Continue(()))?;
        db.run(|other| other.update(&table, &0, |row| *row += 1).map(drop))?;
        tx.put(&table, &2, &7)
    });
    assert!(matches!(lost, Err(Error::LostTooOften { attempts: 20, .. })), "{lost:?}");
    assert_eq!(
        db.stats().turns,
        4,
        "after 1, 4, 9 and 18 losses: a turn that did not help is given ever more rarely"
    );
    db.run(|tx| tx.put(&table, &2, &8))
}

#[test]
fn a_commit_that_made_way_commits_after_the_turn_with_what_it_inserted() -> Result<()> {
    let (db, table) = filled()?;
    let (db, table) = (&db, &table);
    let mut runs = 0;
    std::thread::scope(|scope| {
        let mut inserter = None;
        db.run(|tx| {
            runs += 1;
            tx.scan(table, .., |_, _| ControlFlow::Continue(()))?;
            if runs == 1 {
                db.run(|other| other.put(table, &0, &7))?;
            } else {
                // It cannot end before this turn does.
                inserter.get_or_insert_with(|| scope.spawn(|| db.run(|other| other.insert(table, &1, &1))));
            }
            tx.put(table, &2, &9)
        })?;
        inserter.expect("it had a turn").join().expect("no panic")
    })?;
    assert_eq!(db.run(|tx| Ok((tx.get(table, &1)?, tx.get(table, &2)?)))?, (Some(1), Some(9)));
    Ok(())
}

#[test]
fn a_turn_ends_when_its_closure_panics() -> Result<()> {
    let (db, table) = filled()?;
    let mut runs = 0;
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.run(|tx| {
            runs += 1;
            tx.scan(&table, .., |_, _| ControlFlow::Continue(()))?;
            assert!(runs == 1, "in its turn");
            db.run(|other| other.put(&table, &0, &7))?;
            tx.put(&table, &2, &9)
        })
    }));
    assert!(panicked.is_err() && db.stats().turns == 1);
    std::thread::scope(|scope| scope.spawn(|| db.run(|tx| tx.put(&table, &4, &4))).join().expect("no panic"))
}

#[test]
fn absent_records_stay_in_the_index_beside_a_turn() -> Result<()> {
    let driven = Driven::open(|builder| builder.snapshots(false));
    let (db, table) = (&driven.db, driven.db.table::<u64, u64>("numbers")?);
    let others = db.table::<u64, u64>("others")?;
    db.run(|tx| (0..ROWS).try_for_each(|row| tx.put(&table, &row, &1)))?;
    let mut runs = 0;
    db.run(|tx| {
        runs += 1;
        if runs == 1 {
            db.run(|other| other.delete(&table, &1).map(drop))?;
            tx.scan(&table, .., |_, _| ControlFlow::Continue(()))?;
            db.run(|other| other.put(&table, &0, &7))?;
        } else {
            let mut seen = 0;
            tx.scan(&table, .., |_, _| {
                seen += 1;
                ControlFlow::Continue(())
            })?;
            assert_eq!(seen, ROWS - 1);
            // The deleted row's time has come, and another commit of this thread cleans up after itself.
            for round in 0..20 {
                driven.pass_ticks(1);
                db.run(|other| other.put(&others, &round, &7))?;
            }
        }
        tx.put(&table, &0, &9)
    })?;
    assert_eq!(runs, 2, "a leaf changed beside the turn");
    let things = db.stats().garbage_things;
    driven.pass_ticks(20);
    db.run(|tx| tx.put(&others, &0, &8))?;
    assert!(db.stats().garbage_things < things, "{things} things waited, and go after the turn");
    Ok(())
}

#[test]
fn a_closure_that_needs_longer_than_a_turn_has_few_of_them() -> Result<()> {
    let driven = Driven::open(|builder| builder);
    let (db, table) = (&driven.db, driven.db.table::<u64, u64>("numbers")?);
    db.run(|tx| (0..ROWS).try_for_each(|row| tx.put(&table, &row, &1)))?;
    let lost = db.run_with(12, Duration::MAX, |tx| {
        tx.scan(&table, .., |_, _| ControlFlow::Continue(()))?;
        // It waits for another thread's commit of what it has read, which waits for its turn to be over.
        std::thread::scope(|scope| {
            let other = scope.spawn(|| db.run(|other| other.put(&table, &0, &7)));
            driven.pass_ticks(300);
            other.join().expect("no panic")
        })?;
        tx.put(&table, &2, &9)
    });
    assert!(matches!(lost, Err(Error::LostTooOften { attempts: 12, .. })), "{lost:?}");
    assert!(db.stats().turns <= 3, "{} turns of ten seconds", db.stats().turns);
    Ok(())
}

#[test]
fn a_closure_that_was_ended_in_its_turn_has_another_later() -> Result<()> {
    let driven = Driven::open(|builder| builder.garbage_bytes_max(10_000));
    let (db, table) = (&driven.db, driven.db.table::<u64, u64>("numbers")?);
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| (0..ROWS).try_for_each(|row| tx.put(&table, &row, &1)))?;
    db.run(|tx| (0..500).try_for_each(|row| tx.put(&rows, &row, &vec![1; 100])))?;
    driven.pass_ticks(80);
    let mut runs = 0;
    db.run_with(20, Duration::MAX, |tx| {
        runs += 1;
        tx.scan(&table, .., |_, _| ControlFlow::Continue(()))?;
        if runs == 1 {
            db.run(|other| (0..500).try_for_each(|row| other.put(&rows, &row, &vec![2; 1000])))?;
        } else if runs == 2 {
            // In its turn: garbage from before counts as held back by it.
            driven.pass_ticks(100);
        }
        std::thread::scope(|scope| {
            let other = || db.run(|other| other.put(&table, &0, &7));
            // Beside its turns nobody commits.
            if db.stats().turns < 2 && runs != 2 {
                scope.spawn(other).join().expect("no panic")
            } else {
                Ok(())
            }
        })?;
        tx.put(&table, &2, &9)
    })
}

#[test]
fn a_table_is_opened_and_made_beside_a_turn() -> Result<()> {
    let (db, table) = filled()?;
    let mut runs = 0;
    db.run(|tx| {
        runs += 1;
        tx.scan(&table, .., |_, _| ControlFlow::Continue(()))?;
        if runs == 1 {
            db.run(|other| other.put(&table, &0, &7))?;
        } else {
            // Its definition is a commit, under the catalogue's lock.
            let make = || db.table::<u64, u64>("new").map(drop);
            std::thread::scope(|scope| scope.spawn(make).join().expect("no panic"))?;
            db.table::<u64, u64>("numbers")?;
        }
        tx.put(&table, &2, &9)
    })?;
    assert_eq!(runs, 2, "nothing waited for the turn to be over");
    Ok(())
}
