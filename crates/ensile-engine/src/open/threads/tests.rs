//! A heartbeat that panics.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ensile_durability::Health;
use ensile_sim::SimDisk;

use super::heartbeat;
use crate::{Database, Error, Result};

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
                scope.spawn(|| heartbeat(db.shared(), |_| std::panic::resume_unwind(Box::new("a bug"))));
            assert!(panics.join().is_err());
        });
        let health = db.health();
        assert!(health.heartbeat_has_panicked && !health.is_well());
        let written = db.submit(|tx| tx.put(&table, &2, &2)).map(drop);
        if has_log {
            assert!(matches!(poll(), Poll::Ready(Err(Error::Durability(_)))));
            assert!(matches!(health.log, Some(Health::Poisoned(reason)) if reason.contains("heartbeat")));
            assert!(matches!(written, Err(Error::Durability(_))), "{written:?}");
            assert!(db.close().is_err());
        } else {
            db.close()?;
        }
    }
    Ok(())
}
