//! A child process that was forked from the one that opened a database (I4): every call of its fails, every drop is
//! empty, and the parent goes on as if there had been none. On real folders, with a real `fork`.
//!
//! A child of these tests calls the database and ends at once: locks of other threads may be held in it for ever, and
//! that it does not hang is part of what is shown.
#![cfg(all(unix, not(any(loom, shuttle))))]

mod own_folder;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ensile_durability::DurabilityError;
use ensile_engine::{Database, Durability, Error, Readable, Result, Table};
use own_folder::Folder;

/// A test's child that hangs is killed after this many seconds.
const HANG_SECONDS: libc::c_uint = 100;

/// Forks, and says whether what `child` claims held in the child.
fn holds_in_a_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `child`, which calls nothing that waits for another thread, and ends.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: asks for a signal, which ends a child that hangs.
        unsafe { libc::alarm(HANG_SECONDS) };
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(false);
        // SAFETY: ends the process at once, without destructors.
        unsafe { libc::_exit(i32::from(!held)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child above, and writes to the local variable.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn is_forked<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Storage(why)) if matches!(why.cause(), DurabilityError::Forked))
}

fn put(db: &Database, table: &Table<u64, u64>, keys: std::ops::Range<u64>) {
    for key in keys {
        db.run(|tx| tx.put(table, &key, &key)).expect("commits");
    }
}

fn rows(db: &Database) -> usize {
    let table = db.table::<u64, u64>("rows").expect("a table");
    db.run(|tx| Ok(tx.range(&table, ..).count())).expect("runs")
}

/// Every call in the child, with a transaction, a snapshot, a receipt and a table that are open at the fork.
fn every_call_fails(db: &Database, table: &Table<u64, u64>) -> bool {
    let indexed =
        db.define::<u64, u64>("indexed").index("by", 1, |_, value: &u64| *value).open().expect("opens");
    let mut open = db.begin_owned();
    open.put(table, &1_000_000, &1).expect("kept private");
    let mut other = db.begin();
    let _ = other.get(table, &1).expect("reads");
    let mut snapshot = db.snapshot().expect("opens");
    let (_, receipt) = db.submit(|tx| tx.put(table, &0, &0)).expect("commits");
    let mut future = receipt.durable_async();
    let mut poll = move || Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
    // It waits, or is durable already.
    let _ = poll();
    holds_in_a_child(|| {
        let mut batch = db
            .run_batch(&[1, 2], |id, prefetch| prefetch.key(table, id), |tx, id| tx.get(table, id))
            .into_iter();
        let refused = [
            is_forked(open.get(table, &1)),
            is_forked(open.put(table, &2, &2)),
            is_forked(open.put(&indexed, &2, &2)),
            is_forked(open.insert(table, &3_000_000, &2)),
            is_forked(open.delete(table, &1)),
            is_forked(open.update(table, &1, |value| *value += 1)),
            is_forked(open.range(table, ..).next().unwrap_or(Ok((0, 0)))),
            is_forked(open.prefetch(|prefetch| prefetch.key(table, &1))),
            is_forked(open.commit()),
            is_forked(other.submit()),
            is_forked(snapshot.get(table, &1)),
            is_forked(snapshot.range(table, ..).next().unwrap_or(Ok((0, 0)))),
            is_forked(snapshot.durable()),
            is_forked(receipt.durable()),
            match poll() {
                Poll::Ready(result) => is_forked(result),
                Poll::Pending => false,
            },
            is_forked(db.run(|tx| tx.get(table, &1))),
            is_forked(db.run(|_| -> Result<()> { unreachable!("no closure runs") })),
            is_forked(db.submit(|tx| tx.put(table, &1, &1))),
            batch.all(is_forked),
            is_forked(db.begin().get(table, &1)),
            is_forked(db.begin().put(&indexed, &1, &1)),
            is_forked(db.begin().commit()),
            is_forked(db.snapshot()),
            is_forked(db.snapshot_latest()),
            is_forked(db.table::<u64, u64>("another")),
            is_forked(db.checkpoint()),
            is_forked(db.backup("never-made")),
            #[cfg(feature = "laboratory")]
            is_forked(db.key_value(table).map(drop)),
            is_forked(db.close()),
            db.stats().commits == 0,
            db.health().is_forked && !db.health().is_well(),
        ];
        drop((poll, snapshot, db.clone()));
        if let Some(first) = refused.iter().position(|refused| !refused) {
            // Standard error has no lock in a child that the parent's threads could have kept: it is written at once.
            let line = format!("call number {first} was not refused\n");
            // SAFETY: writes the bytes of the local string.
            unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
        }
        refused.iter().all(|refused| *refused)
    })
}

#[test]
fn every_call_fails_in_a_child_and_the_parent_goes_on() {
    let folder = Folder::new("forked-calls");
    let db = Database::open(folder.path()).expect("opens");
    let table = db.table::<u64, u64>("rows").expect("a table");
    put(&db, &table, 1..10);
    assert!(every_call_fails(&db, &table));
    put(&db, &table, 10..20);
    db.close().expect("closes");
    drop((table, db));
    assert_eq!(rows(&Database::open(folder.path()).expect("opens")), 20);
}

#[test]
fn in_memory_too() {
    let db = Database::in_memory().expect("opens");
    let table = db.table::<u64, u64>("rows").expect("a table");
    put(&db, &table, 1..10);
    let indexed = table.clone();
    assert!(holds_in_a_child(|| {
        is_forked(db.run(|tx| tx.get(&indexed, &1)))
            && is_forked(db.begin().commit())
            && is_forked(db.close())
            && {
                // A database of the child's own works.
                let own = Database::in_memory().expect("opens");
                let table = own.table::<u64, u64>("own").expect("a table");
                put(&own, &table, 0..100);
                own.close().is_ok()
            }
    }));
    put(&db, &table, 10..20);
    assert_eq!(rows(&db), 19);
}

/// The child drops the last handle that it has, or closes; the parent's commits after the fork were cut off by that.
#[test]
fn a_child_that_drops_the_last_handle_or_closes_cuts_nothing_off() {
    let folder = Folder::new("forked-drops");
    let db = folder.builder().durability(Durability::Strict).open().expect("opens");
    let table = db.table::<u64, u64>("rows").expect("a table");
    put(&db, &table, 0..50);
    let mut given = Some(db);
    assert!(holds_in_a_child(|| {
        let db = given.take().expect("it has a copy");
        let refused = db.close().is_err();
        drop(db);
        refused
    }));
    let db = given.take().expect("the parent's own");
    put(&db, &table, 50..100);
    // A second process finds the folder in use, whether it was forked or not.
    assert!(holds_in_a_child(|| {
        let opened = Database::open(folder.path());
        matches!(&opened, Err(Error::Storage(error)) if error.to_string().contains("in use"))
    }));
    put(&db, &table, 100..150);
    drop((db, table));
    assert_eq!(rows(&Database::open(folder.path()).expect("opens")), 150);
}

/// The fork comes in the midst of a closure, and the child returns from it.
#[test]
fn a_closure_that_forks_commits_in_the_parent_only() {
    let folder = Folder::new("forked-closure");
    let db = Database::open(folder.path()).expect("opens");
    let table = db.table::<u64, u64>("rows").expect("a table");
    put(&db, &table, 0..5);
    let mut pid = -1;
    let committed = db.run(|tx| {
        tx.put(&table, &5, &5)?;
        // SAFETY: the child returns from the closure, is refused, and ends.
        pid = unsafe { libc::fork() };
        Ok(())
    });
    if pid == 0 {
        // SAFETY: ends the process at once, without destructors.
        unsafe { libc::_exit(i32::from(!is_forked(committed))) };
    }
    let mut status = 0;
    // SAFETY: waits for the child above, and writes to the local variable.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child's commit");
    committed.expect("the parent's commit");
    drop((table, db));
    assert_eq!(rows(&Database::open(folder.path()).expect("opens")), 6);
}

/// In the child nothing can be validated: an error of the closure's own might rest on what never stood (R2).
#[test]
fn the_error_of_a_closure_that_forks_is_handed_out_in_the_parent_only() {
    let db = Database::in_memory().expect("opens");
    let table = db.table::<u64, u64>("rows").expect("a table");
    let mut pid = -1;
    let refused = db.run(|tx| -> Result<()> {
        tx.get(&table, &1)?;
        // SAFETY: the child returns from the closure, is refused, and ends.
        pid = unsafe { libc::fork() };
        Err(Error::KeyExists { table: "rows".to_owned() })
    });
    if pid == 0 {
        // SAFETY: ends the process at once, without destructors.
        unsafe { libc::_exit(i32::from(!is_forked(refused))) };
    }
    let mut status = 0;
    // SAFETY: waits for the child above, and writes to the local variable.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "the child was told its closure's error"
    );
    assert!(matches!(refused, Err(Error::KeyExists { .. })));
}

/// Threads work while others fork: in a child the locks that they held at the fork are held for ever.
#[test]
fn children_of_a_busy_process_do_not_hang_and_nothing_acknowledged_is_lost() {
    const THREADS: u64 = 3;
    const ROWS: u64 = 200;
    let folder = Folder::new("forked-busy");
    let db = Database::open(folder.path()).expect("opens");
    let table = db.table::<u64, u64>("rows").expect("a table");
    put(&db, &table, 0..1);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, table) = (&db, &table);
            scope.spawn(move || put(db, table, 1 + thread * ROWS..1 + (thread + 1) * ROWS));
        }
        for _ in 0..20 {
            assert!(holds_in_a_child(|| {
                is_forked(db.run(|tx| tx.get(&table, &0)))
                    && is_forked(db.begin().get(&table, &0))
                    && is_forked(db.snapshot())
                    && is_forked(db.table::<u64, u64>("new"))
                    && db.stats().commits == 0
                    && is_forked(db.close())
            }));
        }
    });
    drop((table, db));
    assert_eq!(rows(&Database::open(folder.path()).expect("opens")) as u64, 1 + THREADS * ROWS);
}

/// Forks again and again while other threads do `beside`, until a child of `child` does not hold.
fn holds_in_every_child(forks: usize, beside: impl Fn() + Sync, mut child: impl FnMut() -> bool) -> bool {
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                    beside();
                }
            });
        }
        let held = (0..forks).all(|_| child());
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        held
    })
}

#[test]
fn figures_are_told_in_a_child_whatever_its_parents_threads_had_locked() {
    let db = Database::in_memory().expect("opens");
    let beside = || drop(std::hint::black_box(db.stats()));
    let child = || holds_in_a_child(|| db.stats().memory == Default::default());
    assert!(holds_in_every_child(200, beside, child), "stats hang in a child");
}

#[cfg(feature = "laboratory")]
#[test]
fn what_reads_single_keys_is_dropped_in_a_child_whatever_its_parents_threads_had_locked() {
    let db = Database::in_memory().expect("opens");
    let table = db.table::<u64, u64>("rows").expect("a table");
    let beside = || drop(db.key_value(&table).expect("it is in memory"));
    let child = || {
        let single = db.key_value(&table).expect("it is in memory");
        holds_in_a_child(move || {
            drop(single);
            true
        })
    };
    assert!(holds_in_every_child(200, beside, child), "the drop hangs in a child");
}
