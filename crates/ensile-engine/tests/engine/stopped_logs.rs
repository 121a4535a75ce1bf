//! What goes on while the log cannot: reads and snapshots of what is durable, on a full disk and after a failed sync.
//! Everything is stepped by the tests, so a result that would wait for ever is one that says so.

use std::pin::pin;
use std::task::Wake;

use ensile_durability::Health;

use crate::prelude::*;

/// Keys below this are durable.
const DURABLE: u64 = 300;
/// One of them that was deleted, which is durable too.
const DELETED: u64 = 3;

/// A database that its test drives.
struct Driven {
    disk: SimDisk,
    db: Database,
    table: Table<u64, Vec<u8>>,
    clock: Clock,
}

impl Driven {
    /// With durable rows, and a snapshot boundary behind them.
    fn open() -> Result<Self> {
        Self::open_with(|builder| builder)
    }

    fn open_with(settings: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        let (disk, clock) = (SimDisk::new(), Clock::manual());
        let builder = Database::builder("unused").disk(Arc::new(disk.mounted())).manual_clock(clock.clone());
        let db = settings(builder.checkpoints(Schedule::on_demand()).without_threads()).open()?;
        let table =
            db.define::<u64, Vec<u8>>("rows").index("by_length", 1, |_, row| row.len() as u64).open()?;
        let driven = Self { disk, db, table, clock };
        for key in 0..DURABLE {
            driven.db.submit(|tx| tx.put(&driven.table, &key, &vec![1; 100]))?;
        }
        driven.db.submit(|tx| tx.delete(&driven.table, &DELETED))?;
        driven.pass(Duration::from_secs(2));
        Ok(driven)
    }

    /// So much time passes, in beats.
    fn pass(&self, time: Duration) {
        const BEAT: Duration = Duration::from_millis(40);
        for _ in 0..time.as_millis() / BEAT.as_millis() {
            self.clock.advance(BEAT);
            self.db.heartbeat_step();
            self.db.logger_step(0);
        }
    }

    /// Deletes and overwrites rows until the disk is full; the key whose delete waits for space.
    fn fill(&self) -> u64 {
        self.disk.set_capacity(Some(self.disk.used_bytes()));
        for key in 100.. {
            let written = self.db.submit(|tx| {
                tx.delete(&self.table, &key)?;
                tx.put(&self.table, &0, &vec![2; 100_000])
            });
            match written {
                Ok(_) => self.pass(Duration::from_millis(80)),
                Err(Error::DiskFull(_)) => return key - 1,
                Err(other) => panic!("{other}"),
            }
        }
        unreachable!("the disk is finite")
    }

    /// What a read-only transaction is told of these keys, and whether that is durable.
    fn reads(&self, keys: &[u64]) -> Result<(usize, bool)> {
        let read = |tx: &mut ensile_engine::Transaction<'_>| {
            keys.iter().map(|key| Ok(usize::from(tx.get(&self.table, key)?.is_some()))).sum::<Result<usize>>()
        };
        let (found, receipt) = self.db.submit(read)?;
        Ok((found, receipt.is_durable()))
    }

    /// What a snapshot shows of what is durable, in every way, is durable at once.
    fn shows_what_is_durable(&self, snapshot: &mut Snapshot<'_>) -> Result<()> {
        let durable = self.db.durable_epoch();
        assert_eq!(snapshot.get(&self.table, &5)?.map(|row| row.len()), Some(100));
        assert_eq!(snapshot.get(&self.table, &DELETED)?, None);
        assert_eq!(snapshot.get(&self.table, &77_777)?, None, "never there");
        assert_eq!(snapshot.range(&self.table, 1..50).count(), 48);
        let many = snapshot.get_many(&self.table, &[1, DELETED, 5, 77_777])?;
        assert_eq!(many.iter().flatten().count(), 2);
        assert!(
            snapshot.shown_epoch() <= durable,
            "{} is shown, {durable} is durable",
            snapshot.shown_epoch()
        );
        assert!(snapshot.epoch().previous() > durable, "a snapshot that is newer than what is durable");
        snapshot.durable()
    }
}

#[test]
fn on_a_full_disk_what_is_durable_is_read_and_shown_at_once() -> Result<()> {
    let driven = Driven::open()?;
    let waits = driven.fill();
    driven.pass(Duration::from_secs(60));
    // An hour.
    for _ in 0..60 {
        driven.clock.advance(Duration::from_secs(60));
        driven.pass(Duration::from_millis(400));
    }
    assert!(matches!(driven.db.stats().log_health, Some(Health::Full(_))));
    assert_eq!(driven.reads(&[5, 6, DELETED, 77_777])?, (2, true));
    assert_eq!(driven.db.run(|tx| tx.get(&driven.table, &5))?.map(|row| row.len()), Some(100));
    assert_eq!(driven.reads(&[waits])?, (0, false), "its delete waits for space");
    let mut snapshot = driven.db.snapshot()?;
    driven.shows_what_is_durable(&mut snapshot)?;
    assert_eq!(snapshot.get(&driven.table, &waits)?, None, "its delete waits for space");
    assert!(snapshot.shown_epoch() > driven.db.durable_epoch());
    driven.disk.set_capacity(None);
    driven.pass(Duration::from_millis(400));
    snapshot.durable()?;
    assert_eq!(driven.reads(&[waits])?, (0, true));
    Ok(())
}

#[test]
fn after_poison_a_snapshot_of_what_is_durable_is_durable() -> Result<()> {
    let driven = Driven::open()?;
    driven.disk.fail_all_syncs(true);
    driven.db.submit(|tx| tx.delete(&driven.table, &100))?;
    driven.db.submit(|tx| tx.put(&driven.table, &101, &vec![3; 7]))?;
    driven.pass(Duration::from_secs(2));
    assert!(matches!(driven.db.stats().log_health, Some(Health::Poisoned(_))));
    let mut snapshot = driven.db.snapshot()?;
    driven.shows_what_is_durable(&mut snapshot)?;
    for (key, length) in [(100, None), (101, Some(7))] {
        let mut snapshot = driven.db.snapshot()?;
        assert_eq!(snapshot.get(&driven.table, &key)?.map(|row| row.len()), length);
        let refused = snapshot.durable();
        assert!(matches!(refused, Err(Error::Storage(_))), "{refused:?}");
    }
    assert_eq!(snapshot.range(&driven.table, 90..=100).count(), 10);
    assert!(snapshot.durable().is_err(), "a scan that passes by a delete");
    Ok(())
}

/// A task's waker, of which only copies are counted.
struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn futures_that_are_dropped_or_polled_in_turn_leave_no_wakers_behind() -> Result<()> {
    let driven = Driven::open()?;
    driven.fill();
    let task = Arc::new(Task);
    let read =
        || driven.db.submit(|tx| tx.get(&driven.table, &0)).map(|(_, receipt)| receipt.durable_async());
    // Requests of a server that wait, are timed out by their clients, and dropped.
    for _ in 0..10_000 {
        let mut future = pin!(read()?);
        let waker = Waker::from(Arc::clone(&task));
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(Arc::strong_count(&task), 1, "wakers of dropped futures");
    let (mut one, mut other) = (pin!(read()?), pin!(read()?));
    for _ in 0..10_000 {
        for future in [&mut one, &mut other] {
            let waker = Waker::from(Arc::clone(&task));
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    assert_eq!(Arc::strong_count(&task), 3, "two futures, polled in turn");
    driven.disk.set_capacity(None);
    driven.pass(Duration::from_millis(400));
    assert_eq!(Arc::strong_count(&task), 1, "woken");
    Ok(())
}

#[test]
fn a_result_that_waits_for_space_is_told_so_after_the_stated_time() -> Result<()> {
    let tuning = Tuning { full_disk_wait: Duration::from_secs(5), ..Tuning::default() };
    let driven = Driven::open_with(|builder| builder.tuning(tuning))?;
    let waits = driven.fill();
    let receipt = driven.db.submit(|tx| tx.get(&driven.table, &waits))?.1;
    let mut answer = pin!(receipt.durable_async());
    let mut poll = || answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    driven.pass(Duration::from_secs(4));
    assert!(poll().is_pending());
    driven.pass(Duration::from_secs(2));
    let told = poll();
    let Poll::Ready(Err(Error::Storage(error))) = told else { panic!("{told:?}") };
    assert!(matches!(error.cause(), DurabilityError::NotDurableYet(_)), "{error}");
    assert!(error.to_string().contains("without running it again"), "{error}");
    assert!(matches!(driven.db.health().log, Some(Health::Full(_))));
    driven.disk.set_capacity(None);
    driven.pass(Duration::from_millis(400));
    receipt.durable()
}

/// A delete whose record was replaced by a newer row, at or above the boundary, is still what the snapshot rests on.
#[test]
fn an_absence_that_a_later_row_covers_counts_in_a_snapshots_receipt() -> Result<()> {
    let driven = Driven::open()?;
    let deleted = driven.db.submit(|tx| tx.delete(&driven.table, &100))?.1.epoch();
    let mut snapshot = driven.db.snapshot_latest()?;
    driven.db.submit(|tx| tx.put(&driven.table, &100, &vec![4; 4]))?;
    assert_eq!(snapshot.get_many(&driven.table, &[100])?, [None]);
    assert_eq!(snapshot.shown_epoch(), deleted);
    let mut again = driven.db.snapshot_latest()?;
    assert_eq!(again.get(&driven.table, &100)?, Some(vec![4; 4]));
    Ok(())
}

#[test]
fn inserts_that_a_stopped_log_refuses_leave_nothing_behind() -> Result<()> {
    let driven = Driven::open()?;
    driven.disk.fail_all_syncs(true);
    driven.db.submit(|tx| tx.put(&driven.table, &101, &vec![3; 7]))?;
    driven.pass(Duration::from_secs(2));
    assert!(matches!(driven.db.stats().log_health, Some(Health::Poisoned(_))));
    let before = driven.db.stats().garbage_things;
    for key in 1000..3000 {
        let refused = driven.db.submit(|tx| tx.insert(&driven.table, &key, &vec![4; 100]));
        assert!(matches!(refused, Err(Error::Storage(_))), "{:?}", refused.map(drop));
    }
    driven.pass(Duration::from_secs(4));
    let _ = driven.db.submit(|tx| tx.insert(&driven.table, &999, &vec![4; 100]));
    let after = driven.db.stats().garbage_things;
    assert!(after <= before + 20, "{before} things waited, and {after} do");
    Ok(())
}
