//! A close that panics: nothing goes on behind it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ensile_durability::Health;
use ensile_sim::SimDisk;

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
        assert!(matches!(error, Error::Durability(_)) && error.to_string().contains("panicked"), "{error}");
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
