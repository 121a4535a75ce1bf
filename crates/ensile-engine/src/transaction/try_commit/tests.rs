//! Commits without a wait: busy without log space and in another thread's turn, and what comes of their transactions.
//!
//! Neighbours: `commit/tests/tries.rs` has commits that are busy after their preparation, `commit_gate/tests.rs` the
//! calls of wakers at the gate.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::limits::LOG_BUFFER_BYTES;
use ensile_disk::Operation;
use ensile_durability::UserCode;
use ensile_sim::SimDisk;

use crate::commit::tries::{Counts, beside_a_turn};
use crate::{Builder, Database, Durability, Error, Readable, Result, Table, Transaction, Tuning};

/// Length of a row that takes more than half a log buffer.
const LONG: usize = LOG_BUFFER_BYTES / 2 + 1000;

/// A database that the test drives, with one log buffer for its one worker.
struct Driven {
    db: Database,
    rows: Table<u64, Vec<u8>>,
    clock: Clock,
    disk: SimDisk,
}

impl Driven {
    fn open(settings: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        let (disk, clock) = (SimDisk::new(), Clock::manual());
        let tuning = Tuning { log_buffer_bytes_max: LOG_BUFFER_BYTES, ..Tuning::default() };
        let builder = Database::builder("unused").disk(Arc::new(disk.mounted())).manual_clock(clock.clone());
        let builder = builder.durability(Durability::Relaxed).snapshots(false).tuning(tuning);
        let db = settings(builder.without_threads()).open()?;
        let rows = db.table::<u64, Vec<u8>>("rows")?;
        let driven = Self { db, rows, clock, disk };
        driven.beat();
        Ok(driven)
    }

    fn beat(&self) {
        self.clock.advance(Duration::from_millis(40));
        self.db.heartbeat_step();
        self.db.logger_step(0);
    }

    fn put_long(&self, key: u64) -> Result<Transaction<'_>> {
        let mut tx = self.db.begin();
        tx.put(&self.rows, &key, &vec![key as u8; LONG])?;
        Ok(tx)
    }

    /// A transaction that is busy, because the only buffer is full.
    fn without_space(&self, waker: &Waker) -> Result<Transaction<'_>> {
        self.put_long(1)?.submit()?;
        let mut tx = self.put_long(2)?;
        assert!(matches!(tx.try_commit(waker), Err(Error::Busy)), "the logger has not stepped");
        Ok(tx)
    }

    /// A transaction whose entry is larger than a usual log buffer.
    fn put_large(&self, key: u64) -> Result<Transaction<'_>> {
        let mut tx = self.db.begin();
        tx.put(&self.rows, &key, &vec![key as u8; 2 * LOG_BUFFER_BYTES])?;
        Ok(tx)
    }

    fn length(&self, key: u64) -> Result<Option<usize>> {
        self.db.run(|tx| Ok(tx.get(&self.rows, &key)?.map(|row| row.len())))
    }
}

fn check_ended(tx: &mut Transaction<'_>, rows: &Table<u64, Vec<u8>>, waker: &Waker) {
    assert!(matches!(tx.get(rows, &1), Err(Error::Misuse(_))));
    assert!(matches!(tx.put(rows, &1, &vec![1]), Err(Error::Misuse(_))));
    assert!(matches!(tx.try_commit(waker), Err(Error::Misuse(_))));
}

#[test]
fn a_try_without_obstacles_commits_and_ends_the_transaction() -> Result<()> {
    let (db, (counts, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    let mut tx = db.begin();
    tx.put(&rows, &1, &vec![7])?;
    let receipt = tx.try_commit(&waker)?;
    assert_eq!(receipt.epoch(), receipt.tid().epoch());
    check_ended(&mut tx, &rows, &waker);
    drop(tx);
    // Of reads only.
    let mut tx = db.begin_owned();
    assert_eq!(tx.get(&rows, &1)?, Some(vec![7]));
    assert_eq!(tx.try_commit(&waker)?.epoch(), receipt.epoch());
    check_ended(&mut tx, &rows, &waker);
    assert_eq!(counts.calls(), 0);
    Ok(())
}

#[test]
fn a_try_that_conflicts_ends_the_transaction() -> Result<()> {
    let (db, (_, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    let mut tx = db.begin();
    assert_eq!(tx.get(&rows, &1)?, None);
    tx.put(&rows, &2, &vec![1])?;
    db.run(|other| other.put(&rows, &1, &vec![1]))?;
    assert!(matches!(tx.try_commit(&waker), Err(Error::Conflict)));
    check_ended(&mut tx, &rows, &waker);
    assert_eq!(db.run(|tx| tx.get(&rows, &2))?, None);
    Ok(())
}

#[test]
fn p2_without_log_space_a_try_is_busy_and_the_logger_calls_its_waker() -> Result<()> {
    for before_images in [false, true] {
        let driven = Driven::open(|builder| builder.before_images(before_images))?;
        let (counts, waker) = Counts::new();
        let before = driven.db.stats();
        let mut tx = driven.without_space(&waker)?;
        assert!(matches!(tx.try_commit(&waker), Err(Error::Busy)), "again, without a wake-up");
        assert_eq!(driven.db.stats().aborts, before.aborts, "a busy commit has not failed");
        assert_eq!(tx.get(&driven.rows, &2)?.map(|row| row.len()), Some(LONG), "it is open as before");
        tx.put(&driven.rows, &3, &vec![3])?;
        assert_eq!((counts.calls(), driven.length(2)?), (0, None));
        driven.beat();
        assert_eq!(counts.calls(), 1, "one registration, whatever its tries");
        tx.try_commit(&waker)?;
        assert_eq!((driven.length(2)?, driven.length(3)?), (Some(LONG), Some(1)));
    }
    Ok(())
}

#[test]
fn p2_a_full_buffer_that_a_later_step_writes_does_not_lose_the_wake_up() -> Result<()> {
    let driven = Driven::open(|builder| builder)?;
    let (counts, waker) = Counts::new();
    let mut tx = driven.without_space(&waker)?;
    for round in 1..4 {
        driven.beat();
        assert_eq!(counts.calls(), round, "each return of space calls");
        // Another commit takes the space.
        driven.put_long(10 + round)?.submit()?;
        assert!(matches!(tx.try_commit(&waker), Err(Error::Busy)));
    }
    driven.beat();
    tx.try_commit(&waker).map(drop)
}

#[test]
fn p2_during_a_slow_sync_the_heartbeat_calls_the_waker() -> Result<()> {
    let driven = Driven::open(|builder| builder)?;
    let (counts, waker) = Counts::new();
    let mut tx = driven.without_space(&waker)?;
    driven.clock.advance(Duration::from_millis(40));
    driven.db.heartbeat_step();
    assert_eq!(counts.calls(), 0, "the buffer is not written");
    driven.disk.stall(&[Operation::Sync]);
    let tried = std::thread::scope(|scope| {
        let logger = scope.spawn(|| driven.db.logger_step(0));
        while driven.disk.waiting() == 0 && !logger.is_finished() {
            std::thread::yield_now();
        }
        driven.db.heartbeat_step();
        let (calls, is_stalled) = (counts.calls(), driven.disk.waiting() == 1);
        let tried = tx.try_commit(&waker).map(drop);
        driven.disk.release();
        (calls, is_stalled, tried)
    });
    assert!(matches!(tried, (1, true, Ok(()))), "{tried:?}");
    Ok(())
}

#[test]
fn p2_a_buffer_that_a_try_gives_back_does_not_call_its_own_task() -> Result<()> {
    let driven = Driven::open(|builder| builder)?;
    let (counts, waker) = Counts::new();
    // One large buffer at a time.
    driven.put_large(1)?.submit()?;
    let mut tx = driven.put_large(2)?;
    for _ in 0..3 {
        assert!(matches!(tx.try_commit(&waker), Err(Error::Busy)));
        // The entry of this transaction has no records, so the worker keeps an empty buffer.
        let mut nothing = driven.db.begin();
        nothing.put(&driven.rows, &7, &vec![7])?;
        assert!(nothing.delete(&driven.rows, &7)?, "its own row");
        nothing.try_commit(Waker::noop())?;
    }
    driven.db.heartbeat_step();
    assert_eq!(counts.calls(), 0, "no space has come");
    driven.beat();
    assert_eq!(counts.calls(), 1);
    tx.try_commit(&waker)?;
    assert_eq!(driven.length(2)?, Some(2 * LOG_BUFFER_BYTES));
    Ok(())
}

/// A look for less would succeed, and the try would lack the space again.
#[test]
fn p2_a_try_looks_for_the_space_that_the_try_before_lacked() -> Result<()> {
    let driven = Driven::open(|builder| builder)?;
    let (counts, waker) = Counts::new();
    driven.put_large(1)?.submit()?;
    let mut tx = driven.db.begin();
    tx.put(&driven.rows, &2, &vec![2])?;
    tx.run_outside_call(|context| context.waits.lacked_bytes = 2 * LOG_BUFFER_BYTES);
    assert!(matches!(tx.try_commit(&waker), Err(Error::Busy)));
    driven.beat();
    assert_eq!(counts.calls(), 1);
    tx.try_commit(&waker)?;
    assert_eq!(tx.run_outside_call(|context| context.waits.lacked_bytes), 0);
    assert_eq!(driven.length(2)?, Some(1));
    Ok(())
}

#[test]
fn a_commit_that_is_busy_for_a_turn_does_not_wait_for_space_any_more() -> Result<()> {
    let driven = Driven::open(|builder| builder)?;
    let (counts, waker) = Counts::new();
    let mut tx = driven.without_space(&waker)?;
    beside_a_turn(&driven.db, || {
        assert!(matches!(tx.try_commit(&waker), Err(Error::Busy)));
        driven.beat();
        assert_eq!(counts.calls(), 0, "it waits for the turn's end");
        Ok(())
    })?;
    assert_eq!(counts.calls(), 1);
    tx.try_commit(&waker).map(drop)
}

#[test]
fn e4_a_try_leaves_its_worker_to_the_thread_whatever_its_outcome() -> Result<()> {
    let (db, (_, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    let has_worker =
        |tx: &Transaction<'_>| tx.session.as_ref().is_some_and(|session| session.worker.is_some());
    let mut done = db.begin();
    done.put(&rows, &1, &vec![1])?;
    done.try_commit(&waker)?;
    let mut lost = db.begin();
    assert_eq!(lost.get(&rows, &1)?, Some(vec![1]));
    lost.put(&rows, &2, &vec![1])?;
    db.run(|other| other.put(&rows, &1, &vec![2]))?;
    assert!(matches!(lost.try_commit(&waker), Err(Error::Conflict)));
    assert!(!has_worker(&done) && !has_worker(&lost));
    // A thread that runs no closures keeps its worker too.
    std::thread::scope(|scope| {
        let begins = || {
            let mut tx = db.begin();
            tx.put(&rows, &3, &vec![1])?;
            tx.try_commit(&waker)?;
            Ok::<_, Error>(db.shared().workers.idle.lock().len())
        };
        assert_eq!(scope.spawn(begins).join().expect("no panic")?, 0);
        Ok(())
    })
}

/// The drop of an earlier waker within a try does not end the try, and the commit gives everything back.
#[test]
fn e1_no_panic_of_a_waker_interrupts_a_try() -> Result<()> {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("the drop of a waker panics in this test");
        }
    }
    let (db, (_, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    let mut tx = db.begin();
    tx.put(&rows, &1, &vec![1])?;
    beside_a_turn(&db, || {
        let first = Arc::new(Panics);
        assert!(matches!(tx.try_commit(&Waker::from(Arc::clone(&first))), Err(Error::Busy)));
        drop(first);
        // The registration has the last reference.
        assert!(
            matches!(tx.try_commit(&waker), Err(Error::Busy)),
            "the drop of the first waker has panicked"
        );
        Ok(())
    })?;
    tx.try_commit(&waker)?;
    assert_eq!(db.run(|tx| tx.get(&rows, &1))?, Some(vec![1]));
    Ok(())
}

#[test]
fn p2_the_waker_of_a_dropped_transaction_is_not_called() -> Result<()> {
    let driven = Driven::open(|builder| builder)?;
    let (counts, waker) = Counts::new();
    drop(driven.without_space(&waker)?);
    assert_eq!(Arc::strong_count(&counts), 2, "the test has the waker, and nobody else");
    driven.beat();
    assert_eq!(counts.calls(), 0);
    Ok(())
}

#[test]
fn a_busy_transaction_commits_by_a_submit_that_waits() -> Result<()> {
    let driven = Driven::open(|builder| builder)?;
    let (counts, waker) = Counts::new();
    let tx = driven.without_space(&waker)?;
    driven.beat();
    tx.submit()?;
    assert_eq!((driven.length(2)?, Arc::strong_count(&counts)), (Some(LONG), 2));
    Ok(())
}

#[test]
fn a_conflict_is_found_by_the_second_try() -> Result<()> {
    let driven = Driven::open(|builder| builder)?;
    let (_, waker) = Counts::new();
    driven.db.run(|tx| tx.put(&driven.rows, &9, &vec![1]))?;
    driven.put_long(1)?.submit()?;
    let mut tx = driven.put_long(2)?;
    assert_eq!(tx.get(&driven.rows, &9)?, Some(vec![1]));
    assert!(matches!(tx.try_commit(&waker), Err(Error::Busy)));
    driven.beat();
    driven.db.run(|tx| tx.put(&driven.rows, &9, &vec![2]))?;
    assert!(matches!(tx.try_commit(&waker), Err(Error::Conflict)));
    check_ended(&mut tx, &driven.rows, &waker);
    assert_eq!(driven.length(2)?, None);
    Ok(())
}

#[test]
fn p2_a_full_disk_calls_the_waker_and_is_an_error_at_once() -> Result<()> {
    let driven = Driven::open(|builder| builder)?;
    let (counts, waker) = Counts::new();
    driven.disk.set_capacity(Some(driven.disk.used_bytes()));
    // The log uses its spare space first.
    for key in 1.. {
        let mut tx = driven.put_long(key)?;
        let mut tried = tx.try_commit(&waker).map(drop);
        if matches!(tried, Err(Error::Busy)) {
            let before = counts.calls();
            driven.beat();
            assert_eq!(counts.calls(), before + 1, "a new try is worthwhile");
            tried = tx.try_commit(&waker).map(drop);
        }
        match tried {
            Ok(()) => {}
            Err(Error::DiskFull(_)) => {
                check_ended(&mut tx, &driven.rows, &waker);
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
    driven.disk.set_capacity(None);
    driven.beat();
    driven.put_long(1)?.try_commit(&waker).map(drop)
}

#[test]
fn p2_a_failed_log_and_a_close_call_the_waker() -> Result<()> {
    for fails in [true, false] {
        let driven = Driven::open(|builder| builder)?;
        let (counts, waker) = Counts::new();
        let mut tx = driven.without_space(&waker)?;
        if fails {
            driven.db.shared().storage.log.as_ref().expect("it has a log").stop("for the test");
        } else {
            driven.db.close()?;
        }
        assert!(counts.calls() > 0);
        let refused = tx.try_commit(&waker);
        assert!(matches!(refused, Err(Error::Storage(_) | Error::Closed)), "{refused:?}");
        check_ended(&mut tx, &driven.rows, &waker);
    }
    Ok(())
}

#[test]
fn p2_in_anothers_turn_a_try_is_busy_and_the_turns_end_calls_its_waker() -> Result<()> {
    let (db, (counts, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| tx.put(&rows, &1, &vec![1]))?;
    let mut tx = db.begin();
    beside_a_turn(&db, || {
        assert_eq!(tx.get(&rows, &1)?, Some(vec![1]));
        tx.put(&rows, &1, &vec![2])?;
        tx.insert(&rows, &2, &vec![2])?;
        assert!(matches!(tx.try_commit(&waker), Err(Error::Busy)));
        assert!(matches!(tx.try_commit(&waker), Err(Error::Busy)));
        assert_eq!((counts.calls(), db.shared().life.gate.passing_commits()), (0, 1));
        // A transaction of reads has nothing to wait for.
        let mut reads = db.begin();
        assert_eq!(reads.get(&rows, &1)?, Some(vec![1]));
        reads.try_commit(&waker).map(drop)
    })?;
    assert_eq!((counts.calls(), db.shared().life.gate.passing_commits()), (1, 1), "it keeps its passing");
    tx.try_commit(&waker)?;
    assert_eq!(db.shared().life.gate.passing_commits(), 0);
    let read = db.run(|tx| Ok((tx.get(&rows, &1)?, tx.get(&rows, &2)?)))?;
    assert_eq!(read, (Some(vec![2]), Some(vec![2])));
    Ok(())
}

#[test]
fn p1_a_busy_transaction_that_is_dropped_holds_no_turn_back() -> Result<()> {
    let (db, (counts, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    beside_a_turn(&db, || {
        let mut tx = db.begin();
        tx.put(&rows, &1, &vec![1])?;
        assert!(matches!(tx.try_commit(&waker), Err(Error::Busy)));
        drop(tx);
        assert_eq!((db.shared().life.gate.passing_commits(), Arc::strong_count(&counts)), (0, 2));
        Ok(())
    })
}

#[test]
fn a_try_in_a_closure_is_refused_and_the_closure_commits() -> Result<()> {
    let (db, (_, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| {
        tx.put(&rows, &1, &vec![1])?;
        assert!(matches!(tx.try_commit(&waker), Err(Error::Misuse(why)) if why.contains("closure")));
        tx.put(&rows, &2, &vec![2])
    })?;
    assert_eq!(db.run(|tx| Ok((tx.get(&rows, &1)?, tx.get(&rows, &2)?)))?, (Some(vec![1]), Some(vec![2])));
    Ok(())
}

#[test]
fn a_request_begins_one_turn_and_a_closed_database_none() -> Result<()> {
    let (db, (counts, waker)) = (Database::in_memory()?, Counts::new());
    let longest = Duration::from_secs(1);
    let mut request = db.request_turn_owned(longest, &waker);
    assert_eq!(counts.calls(), 1, "nothing is in its way");
    assert!(request.try_begin(&waker)?.is_some_and(|turn| !turn.is_over()));
    assert!(matches!(request.try_begin(&waker), Err(Error::Misuse(_))), "the turn has ended");
    assert_eq!(db.stats().turns, 1);
    let mut waiting = db.request_turn(longest, &waker);
    db.close()?;
    assert!(matches!(waiting.try_begin(&waker), Err(Error::Closed)));
    let before = counts.calls();
    let mut late = db.request_turn(longest, &waker);
    assert_eq!(counts.calls(), before + 1, "its task asks for the reason");
    assert!(matches!(late.try_begin(&waker), Err(Error::Closed)));
    Ok(())
}

#[test]
fn o8_a_request_of_user_code_is_refused_and_the_heartbeat_calls_its_waker() -> Result<()> {
    let driven = Driven::open(|builder| builder)?;
    let (counts, waker) = Counts::new();
    let code = UserCode::begin();
    let mut request = driven.db.request_turn(Duration::from_secs(1), &waker);
    drop(code);
    assert_eq!(counts.calls(), 0, "the user code may hold a lock");
    driven.beat();
    assert_eq!(counts.calls(), 1);
    assert!(matches!(request.try_begin(&waker), Err(Error::InCallBack)), "the reason stays");
    Ok(())
}

#[test]
fn p1_a_transaction_in_its_threads_turn_commits_beside_others_that_make_way() -> Result<()> {
    let (db, (counts, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| tx.put(&rows, &1, &vec![1]))?;
    let mut request = db.request_turn(Duration::from_secs(10), &waker);
    let turn = request.try_begin(&waker)?.expect("nobody else has a turn");
    let mut tx = db.begin();
    assert_eq!(tx.get(&rows, &1)?, Some(vec![1]));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut other = db.begin();
            other.put(&rows, &1, &vec![9])?;
            assert!(matches!(other.try_commit(&waker), Err(Error::Busy)));
            Ok::<_, Error>(())
        });
        other.join().expect("no panic")
    })?;
    tx.put(&rows, &1, &vec![2])?;
    tx.try_commit(&waker)?;
    drop(turn);
    assert_eq!((db.run(|tx| tx.get(&rows, &1))?, counts.calls()), (Some(vec![2]), 1));
    Ok(())
}

/// A waker of a heartbeat's or a turn's thread may drop or close what it likes elsewhere; a close of the same database
/// beside a close under way is refused, and does not wait for itself.
#[test]
fn o8_a_waker_that_closes_the_database_of_a_turn_is_answered() -> Result<()> {
    struct Closes(Database);
    impl Wake for Closes {
        fn wake(self: Arc<Self>) {
            assert!(matches!(self.0.close(), Ok(()) | Err(Error::InCallBack)));
        }
    }
    let db = Database::in_memory()?;
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    let mut tx = db.begin();
    beside_a_turn(&db, || {
        tx.put(&rows, &1, &vec![1])?;
        assert!(matches!(tx.try_commit(&Waker::from(Arc::new(Closes(db.clone())))), Err(Error::Busy)));
        Ok(())
    })?;
    assert!(matches!(tx.try_commit(Waker::noop()), Err(Error::Closed)));
    Ok(())
}

#[test]
fn a_transaction_that_begins_again_is_another_transaction() -> Result<()> {
    let db = Database::in_memory()?;
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    let mut tx = db.begin();
    assert!(matches!(tx.begin_again(), Err(Error::Misuse(_))), "the transaction is open");
    tx.put(&rows, &1, &vec![1])?;
    let first = tx.try_commit_epoch(Waker::noop())?;
    assert!(matches!(tx.get(&rows, &1), Err(Error::Misuse(_))), "the transaction has ended");
    tx.begin_again()?;
    // The first transaction has read nothing for the second, and locks nothing.
    db.run(|other| other.put(&rows, &1, &vec![2; 900]))?;
    assert_eq!(tx.get(&rows, &1)?, Some(vec![2; 900]));
    db.run(|other| other.put(&rows, &1, &vec![3]))?;
    tx.put(&rows, &2, &vec![3])?;
    assert!(matches!(tx.try_commit(Waker::noop()), Err(Error::Conflict)), "its read has changed");
    tx.begin_again()?;
    assert_eq!((tx.get(&rows, &1)?, tx.get(&rows, &2)?), (Some(vec![3]), None));
    assert!(tx.try_commit_epoch(Waker::noop())? >= first);
    tx.begin_again()?;
    db.close()?;
    tx.put(&rows, &1, &vec![4])?;
    assert!(matches!(tx.try_commit(Waker::noop()), Err(Error::Closed)));
    assert!(matches!(tx.begin_again(), Err(Error::Closed)));
    Ok(())
}

#[test]
fn keys_that_are_fetched_ahead_show_each_transaction_the_newest_rows() -> Result<()> {
    let db = Database::in_memory()?;
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| (0..8).try_for_each(|key| tx.put(&rows, &key, &vec![0])))?;
    // Few keys are compared, more keys have a filter.
    for keys in [2, 16] {
        let mut tx = db.begin();
        tx.prefetch_ahead(|prefetch| (0..keys).for_each(|key| prefetch.key(&rows, &key)))?;
        for turn in 1..5 {
            for key in 0..20 {
                // A row of another length gets another record.
                let before = vec![turn; 1 + usize::from(turn) * 300];
                db.run(|other| other.put(&rows, &key, &before))?;
                assert_eq!(tx.get(&rows, &key)?, Some(before.clone()), "{key} in turn {turn}");
                tx.put(&rows, &key, &[&before[..], &[9]].concat())?;
                assert_eq!(tx.get(&rows, &key)?.map(|row| row.len()), Some(before.len() + 1));
                tx.try_commit(Waker::noop())?;
                tx.begin_again()?;
                assert!(tx.delete(&rows, &key)?);
                tx.try_commit(Waker::noop())?;
                tx.begin_again()?;
                assert_eq!(tx.get(&rows, &key)?, None);
                db.run(|other| other.put(&rows, &key, &vec![8]))?;
                tx.put(&rows, &20, &vec![7])?;
                assert!(matches!(tx.try_commit(Waker::noop()), Err(Error::Conflict)), "the key was absent");
                tx.begin_again()?;
            }
        }
    }
    let mut tx = db.begin();
    tx.prefetch_ahead(|prefetch| prefetch.key(&rows, &1))?;
    db.run(|other| other.put(&rows, &1, &vec![1; 900]))?;
    tx.put(&rows, &1, &vec![2])?;
    assert!(matches!(tx.try_commit(Waker::noop()), Err(Error::Conflict)), "the fetched record was replaced");
    tx.begin_again()?;
    tx.put(&rows, &1, &vec![2])?;
    tx.try_commit(Waker::noop())?;
    let mut tx = db.begin();
    tx.get(&rows, &1)?;
    assert!(matches!(tx.prefetch_ahead(|_| {}), Err(Error::Misuse(_))), "a read came before");
    Ok(())
}
