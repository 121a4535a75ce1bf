//! A close that panics: nothing goes on behind it. A close in a waker: nothing hangs.
#![expect(clippy::disallowed_methods, reason = "tests start threads that may hang")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use ensile_durability::{Health, UserCode};
use ensile_sim::SimDisk;

use crate::checkpoint::Schedule;
use crate::{Database, Error, Readable, Result};

#[test]
fn a_close_that_panics_ends_the_threads_and_gives_the_folder_back() -> Result<()> {
    for disk in [Some(SimDisk::new()), None] {
        let open = || match &disk {
            Some(disk) => Database::builder("unused").disk(Arc::new(disk.mounted())).open(),
            None => Database::builder_in_memory().open(),
        };
        let db = open()?;
        let table = db.table::<u64, u64>("numbers")?;
        db.run(|tx| tx.put(&table, &1, &1))?;
        let panics = || db.open.close_by(|| std::panic::resume_unwind(Box::new("a bug")));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(db.open.threads.have_ended(), "the close has waited for all of them");
        if disk.is_some() {
            let health = db.health().log;
            assert!(matches!(&health, Some(Health::Poisoned(why)) if why.contains("close")), "{health:?}");
        }
        assert!(db.run(|tx| tx.put(&table, &2, &2)).is_err());
        let error = db.close().expect_err("it does not panic again");
        assert!(matches!(error, Error::Storage(_)) && error.to_string().contains("panicked"), "{error}");
        drop((table, db));
        if disk.is_some() {
            let again = open()?;
            let table = again.table::<u64, u64>("numbers")?;
            assert_eq!(again.run(|tx| tx.get(&table, &1))?, Some(1), "what was durable is there");
            again.close()?;
        }
    }
    Ok(())
}

#[test]
fn a_handle_that_is_dropped_by_a_panic_closes_the_database_whole() -> Result<()> {
    let disk = SimDisk::new();
    let open = || Database::builder("unused").disk(Arc::new(disk.mounted())).open();
    let db = open()?;
    let table = db.table::<u64, u64>("numbers")?;
    db.run(|tx| tx.put(&table, &1, &1))?;
    drop(table);
    let panics = move || {
        let _db = db;
        std::panic::resume_unwind(Box::new("the application's"))
    };
    let panicked: std::thread::Result<()> = catch_unwind(AssertUnwindSafe(panics));
    assert!(panicked.is_err());
    let again = open()?;
    assert!(again.recovery_report().is_some_and(|report| report.torn_tails.is_empty()));
    again.close()
}

/// A test that waits for longer hangs.
const HANG: Duration = Duration::from_secs(600);

/// Calls this as a waker.
struct CallAsWaker<F>(F);

impl<F: Fn() + Send + Sync> Wake for CallAsWaker<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn o8_a_waker_that_closes_while_another_thread_closes_is_refused_and_both_end() -> Result<()> {
    let disk = SimDisk::new();
    let db = Database::builder("closing").disk(Arc::new(disk.mounted())).open()?;
    let table = db.table::<u64, u64>("numbers")?;
    let ((begin, begun), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let its = db.clone();
    let waker = Waker::from(Arc::new(CallAsWaker(move || {
        begin.send(()).expect("the other thread waits for it");
        // Until the other thread is in its close.
        while its.open.closed.try_lock().is_some() {
            std::thread::yield_now();
        }
        tell.send(its.close()).expect("the test waits for it");
    })));
    loop {
        let mut durable = db.submit(|tx| tx.put(&table, &1, &1))?.1.durable_async();
        if Pin::new(&mut durable).poll(&mut Context::from_waker(&waker)).is_pending() {
            // A future that is dropped takes its waker back.
            std::mem::forget(durable);
            break;
        }
    }
    let (its, (tell_closed, closed)) = (db.clone(), mpsc::channel());
    std::thread::spawn(move || {
        begun.recv().expect("it is called");
        tell_closed.send(its.close()).expect("the test waits for it");
    });
    let refused = told.recv_timeout(HANG).expect("O8: the waker waits for the close that waits for it");
    assert!(matches!(refused, Err(Error::InCallBack)), "{refused:?}");
    closed.recv_timeout(HANG).expect("O8: it ends")?;
    db.close()
}

#[test]
fn o8_a_waker_of_a_checkpoints_step_that_closes_is_refused() -> Result<()> {
    let builder = Database::builder("closing").disk(Arc::new(SimDisk::new().mounted())).without_log();
    let db = builder.checkpoints(Schedule::on_demand()).open()?;
    let table = db.table::<u64, u64>("numbers")?;
    let ((tell, told), its) = (mpsc::channel(), db.clone());
    let close = move || tell.send(its.close()).expect("the test waits for it");
    let waker = Waker::from(Arc::new(CallAsWaker(close)));
    // No picture shows it before one is asked for.
    let mut durable = db.submit(|tx| tx.put(&table, &1, &1))?.1.durable_async();
    assert!(Pin::new(&mut durable).poll(&mut Context::from_waker(&waker)).is_pending());
    let picture = db.checkpoint()?;
    let refused = told.recv_timeout(HANG).expect("O8: the close waits for the step that it is in");
    assert!(matches!(refused, Err(Error::InCallBack)), "{refused:?}");
    picture.wait()?;
    db.close()
}

#[test]
fn o8_user_code_of_objects_reaches_no_database() -> Result<()> {
    let builder = || Database::builder("closing").disk(Arc::new(SimDisk::new().mounted()));
    let db = builder().open()?;
    let table = db.table::<u64, u64>("numbers")?;
    let (open, receipt) = (db.begin(), db.submit(|tx| tx.put(&table, &1, &1))?.1);
    {
        let _user_code = UserCode::begin();
        let refused = [
            db.run(|tx| tx.put(&table, &1, &2)),
            db.submit(|tx| tx.put(&table, &1, &2)).map(drop),
            db.begin().put(&table, &1, &2),
            open.commit().map(drop),
            db.table::<u64, u64>("others").map(drop),
            db.snapshot().map(drop),
            db.snapshot_latest().map(drop),
            db.checkpoint().map(drop),
            db.reschedule_checkpoints(Schedule::on_demand()),
            db.backup("nowhere").map(drop),
            receipt.durable(),
            db.close(),
            builder().open().map(drop),
        ];
        for (call, result) in refused.iter().enumerate() {
            assert!(matches!(result, Err(Error::InCallBack)), "{call}: {result:?}");
        }
    }
    assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(1));
    db.close()
}
