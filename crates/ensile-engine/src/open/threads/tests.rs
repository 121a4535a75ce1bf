//! A heartbeat that panics, and one between whose ticks a boundary is served.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ensile_durability::Health;
use ensile_sim::SimDisk;

use super::*;
use crate::{Database, Error, Result, Tuning};

#[test]
fn a_heartbeat_that_panics_is_told_and_nobody_waits_for_its_epochs() -> Result<()> {
    for disk in [Some(SimDisk::new()), None] {
        let has_log = disk.is_some();
        let builder = match disk {
            Some(disk) => Database::builder("unused").disk(Arc::new(disk)),
            None => Database::builder_in_memory(),
        };
        let db = builder.without_threads().open()?;
        let table = db.table::<u64, u64>("numbers")?;
        assert!(db.health().is_well());
        let receipt = db.submit(|tx| tx.put(&table, &1, &1))?.1;
        let mut answer = std::pin::pin!(receipt.durable_async());
        let mut poll = || answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(poll().is_pending(), has_log);
        std::thread::scope(|scope| {
            let panics =
                scope.spawn(|| heartbeat(db.shared(), |_, _| std::panic::resume_unwind(Box::new("a bug"))));
            assert!(panics.join().is_err());
        });
        let health = db.health();
        assert!(health.heartbeat_has_panicked && !health.is_well());
        let written = db.submit(|tx| tx.put(&table, &2, &2)).map(drop);
        if has_log {
            assert!(matches!(poll(), Poll::Ready(Err(Error::Storage(_)))));
            assert!(matches!(health.log, Some(Health::Poisoned(reason)) if reason.contains("heartbeat")));
            assert!(matches!(written, Err(Error::Storage(_))), "{written:?}");
            assert!(db.close().is_err());
        } else {
            db.close()?;
        }
    }
    Ok(())
}

#[test]
fn v1_a_boundary_is_served_before_the_next_tick_comes() -> Result<()> {
    let tuning = Tuning { snapshot_interval: Duration::from_millis(5), ..Tuning::default() };
    let builder = Database::builder_in_memory().epoch_interval(Duration::from_millis(5)).tuning(tuning);
    let db = builder.without_threads().open()?;
    let shared = db.shared();
    let (begun, met, ticks) = (Cell::new(None), Cell::new(0), Cell::new(0));
    heartbeat(shared, |shared, then| {
        ticks.set(ticks.get() + 1);
        // A heartbeat that is kept from running for long leaves a boundary to the next tick, but not each of them.
        assert!(ticks.get() < 2_000, "nothing is bound, and no boundary is served before the next tick");
        if let Some(boundary) = begun.take()
            && shared.epochs.served_snapshot() == boundary
        {
            assert_eq!(shared.epochs.limits().snapshots(), boundary, "commits keep versions for it alone");
            met.set(met.get() + 1);
        }
        heartbeat_tick(shared, &mut |advanced| {
            let now = shared.epochs.now();
            begun.set((shared.epochs.boundary_at(now) == now).then_some(now));
            then(advanced);
        });
        if met.get() == 3 {
            shared.heartbeat.stop.stop();
        }
    });
    db.close()
}

#[test]
fn v1_a_tick_is_not_kept_by_a_boundary_for_long() {
    let (short, usual) = (Duration::from_millis(1), Duration::from_millis(40));
    let (micros, epoch) = (Duration::from_micros, ensile_base::Epoch::new(7));
    let (served, held) = (Advance::Advanced(epoch), Advance::Held(epoch));
    for (last, is_ahead, passed, interval, next) in [
        (served, false, 0, usual, Serving::Over),
        (served, true, 0, usual, Serving::Again),
        (Advance::AtLimit, true, 0, usual, Serving::Over),
        (Advance::TooSoon, false, 299, usual, Serving::Spin),
        (Advance::TooSoon, true, 299, usual, Serving::Spin),
        (Advance::TooSoon, false, 300, usual, Serving::Over),
        (Advance::TooSoon, true, 300, usual, Serving::Sleep),
        (Advance::TooSoon, true, 63, short, Serving::Sleep),
        (held, false, 0, usual, Serving::Over),
        (held, true, 0, usual, Serving::Sleep),
        (held, true, 3_299, usual, Serving::Sleep),
        (held, true, 3_300, usual, Serving::Over),
        (held, true, 313, short, Serving::Over),
    ] {
        let answer = next_serving_step(last, is_ahead, micros(passed), interval);
        assert_eq!(answer, next, "{last:?}, {is_ahead}, {passed} us of {interval:?}");
    }
}
