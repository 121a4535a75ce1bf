//! Commits of tasks that are busy after their preparation: a turn begins behind the look ahead.
//!
//! Neighbours: `transaction/try_commit/tests.rs` has commits that are busy before, and uses the helpers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Wake, Waker};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_sim::SimDisk;

use super::{Commit, CommitTask, Turned};
use crate::session::{self, Session};
use crate::sets::context::Context;
use crate::{Database, Durability, Error, Readable, Result, Transaction};

/// A waker that counts its calls.
#[derive(Default)]
pub(crate) struct Counts(AtomicU64);

impl Counts {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let counts = Arc::new(Self::default());
        (Arc::clone(&counts), Waker::from(counts))
    }

    pub(crate) fn calls(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// Another thread has a turn while `beside` runs.
pub(crate) fn beside_a_turn(db: &Database, beside: impl FnOnce() -> Result<()>) -> Result<()> {
    let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut request = db.request_turn(Duration::from_secs(10), Waker::noop());
            let turn = loop {
                if let Some(turn) = request.try_begin(Waker::noop()).expect("it is open") {
                    break turn;
                }
            };
            begin.send(()).expect("it is waited for");
            let _ = ended.recv();
            assert!(!turn.is_over());
        });
        begun.recv().expect("its turn begins");
        // Dropped by a panic too.
        let _end = end;
        beside()
    })
}

/// A turn begins after the look before the preparation. `tx` has prepared its commit, and is busy under its locks.
fn busy_under_locks(db: &Database, tx: &mut Transaction<'_>, waker: &Waker) -> Result<()> {
    let shared = db.shared();
    let Some(Session { kept, worker }) = &mut *tx.session else { unreachable!("it has not ended") };
    kept.enter(
        |pinned, Context { sets, waits, .. }| {
            let worker = session::worker_of(shared, worker);
            let (mut waker, has_witnesses) = (Some(waker.clone()), sets.nodes.len() > 0);
            let task = CommitTask { waker: &mut waker, waits, has_witnesses };
            let turned = Turned { task: Some(task), ..Turned::default() };
            let mut commit = Commit { shared, worker, sets, pinned, turned };
            let versions = commit.worker.blocks.place();
            commit.place()?;
            let mut busy = Ok(());
            beside_a_turn(db, || {
                busy = commit.prepare_and_take_effect().map(drop);
                Ok(())
            })?;
            assert!(matches!(busy, Err(Error::Busy)), "{busy:?}");
            commit.abandon(versions);
            Ok::<_, Error>(())
        },
        |_| panic!("nobody expires it"),
    )?;
    let Some(session) = &mut *tx.session else { unreachable!("it has not ended") };
    session::return_worker(shared, &mut session.worker);
    Ok(())
}

#[test]
fn p2_a_commit_that_a_turn_meets_under_its_locks_gives_all_back_and_commits_by_its_next_try() -> Result<()> {
    for (before_images, ticks) in [(false, 0), (false, 5), (true, 0)] {
        let (disk, clock) = (SimDisk::new(), Clock::manual());
        let builder = Database::builder("unused").disk(Arc::new(disk)).manual_clock(clock.clone());
        let builder = builder.durability(Durability::Relaxed).snapshots(false).before_images(before_images);
        let db = builder.without_threads().open()?;
        let rows = db.table::<u64, Vec<u8>>("rows")?;
        db.run(|tx| (1..4).try_for_each(|key| tx.put(&rows, &key, &vec![1; 8])))?;
        let (counts, waker) = Counts::new();
        let mut tx = db.begin();
        assert_eq!(tx.get(&rows, &1)?, Some(vec![1; 8]));
        tx.put(&rows, &1, &vec![2; 8])?;
        tx.put(&rows, &2, &vec![2; 900])?;
        assert!(tx.delete(&rows, &3)?);
        tx.put(&rows, &5, &vec![2; 8])?;
        busy_under_locks(&db, &mut tx, &waker)?;
        assert_eq!(counts.calls(), 1, "the turn has ended");
        assert_eq!(tx.get(&rows, &1)?, Some(vec![2; 8]), "its own writes stay");
        assert_eq!(db.run(|other| other.get(&rows, &5))?, None, "a placeholder shows no row");
        // The placeholder is cleaned up, or not yet.
        for _ in 0..ticks {
            clock.advance(Duration::from_millis(40));
            db.heartbeat_step();
            db.logger_step(0);
        }
        tx.try_commit(&waker)?;
        drop(tx);
        let read = db.run(|tx| {
            (1..6).map(|key| Ok(tx.get(&rows, &key)?.map(|row| row.len()))).collect::<Result<Vec<_>>>()
        })?;
        assert_eq!(read, [Some(8), Some(900), None, None, Some(8)]);
    }
    Ok(())
}

#[test]
fn p2_a_row_that_changed_between_two_tries_is_a_conflict() -> Result<()> {
    let (db, (_, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| tx.put(&rows, &1, &vec![1]))?;
    let mut tx = db.begin();
    assert_eq!(tx.get(&rows, &1)?, Some(vec![1]));
    tx.put(&rows, &1, &vec![2])?;
    busy_under_locks(&db, &mut tx, &waker)?;
    db.run(|other| other.put(&rows, &1, &vec![3]))?;
    assert!(matches!(tx.try_commit(&waker), Err(Error::Conflict)), "its read is not the latest version");
    assert_eq!(db.run(|tx| tx.get(&rows, &1))?, Some(vec![3]));
    Ok(())
}

#[test]
fn a_blind_write_commits_by_its_next_try_over_a_row_that_changed_in_between() -> Result<()> {
    let (db, (_, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| tx.put(&rows, &1, &vec![1]))?;
    let mut tx = db.begin();
    tx.put(&rows, &1, &vec![2])?;
    busy_under_locks(&db, &mut tx, &waker)?;
    // The row gets another record.
    db.run(|other| other.put(&rows, &1, &vec![3; 900]))?;
    tx.try_commit(&waker)?;
    assert_eq!(db.run(|tx| tx.get(&rows, &1))?, Some(vec![2]));
    Ok(())
}

/// The delete of a key without a record looks at the key's leaf in each try.
#[test]
fn a_delete_of_a_missing_key_binds_the_next_try_to_no_record() -> Result<()> {
    let (db, (_, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| tx.put(&rows, &1, &vec![1]))?;
    let mut tx = db.begin();
    tx.put(&rows, &1, &vec![2])?;
    tx.put(&rows, &7, &vec![2])?;
    assert!(tx.delete(&rows, &7)?, "its own row");
    busy_under_locks(&db, &mut tx, &waker)?;
    assert_eq!(tx.leaves(), 0, "the transaction has looked for no row");
    // The row gets another record.
    db.run(|other| other.put(&rows, &1, &vec![3; 900]))?;
    tx.try_commit(&waker)?;
    assert_eq!(db.run(|tx| Ok((tx.get(&rows, &1)?, tx.get(&rows, &7)?)))?, (Some(vec![2]), None));
    Ok(())
}

/// The witness of the absence includes the placeholder of the first try, and the other commit changes no leaf.
#[test]
fn p2_an_absence_that_ends_between_two_tries_is_a_conflict() -> Result<()> {
    for tries in 1..4 {
        let (db, (_, waker)) = (Database::in_memory()?, Counts::new());
        let rows = db.table::<u64, Vec<u8>>("rows")?;
        let mut tx = db.begin();
        assert_eq!(tx.get(&rows, &5)?, None);
        tx.put(&rows, &5, &vec![2])?;
        for _ in 0..tries {
            busy_under_locks(&db, &mut tx, &waker)?;
        }
        db.run(|other| other.put(&rows, &5, &vec![3]))?;
        assert!(matches!(tx.try_commit(&waker), Err(Error::Conflict)), "the key is not absent");
        assert_eq!(db.run(|tx| tx.get(&rows, &5))?, Some(vec![3]));
    }
    Ok(())
}

#[test]
fn p2_an_absence_that_lasts_until_the_next_try_is_no_conflict() -> Result<()> {
    let (db, (_, waker)) = (Database::in_memory()?, Counts::new());
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    let mut tx = db.begin();
    assert_eq!(tx.get(&rows, &5)?, None);
    tx.put(&rows, &5, &vec![2])?;
    let mut later = None;
    beside_a_turn(&db, || {
        later = Some(tx.try_commit(&waker).map(drop));
        Ok(())
    })?;
    assert!(matches!(later, Some(Err(Error::Busy))), "{later:?}");
    tx.try_commit(&waker)?;
    assert_eq!(db.run(|tx| tx.get(&rows, &5))?, Some(vec![2]));
    Ok(())
}
