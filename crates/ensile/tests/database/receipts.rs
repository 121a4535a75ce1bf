//! Receipts: their order, and waiting for them, from a thread or as a future.
//!
//! Neighbours: `reopening` has what a durable receipt promises.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::common::{Folder, cause};
use ensile::Tuning;
use ensile::prelude::*;
use ensile_durability::DurabilityError;

/// Runs one future, parked between polls: an executor as small as they get.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn tids_follow_the_order_of_dependent_commits() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u8, u64>("table")?;
    let mut last = None;
    for round in 0..100 {
        let (before, receipt) = db.submit(|tx| {
            let before = tx.get(&table, &0)?;
            tx.put(&table, &0, &round)?;
            Ok(before)
        })?;
        assert_eq!(before, round.checked_sub(1));
        assert!(last < Some(receipt.tid()), "a later commit has a larger TID");
        assert_eq!(receipt.tid().epoch(), receipt.epoch());
        last = Some(receipt.tid());
    }
    let (_, reading) = db.submit(|tx| tx.get(&table, &0))?;
    assert!(Some(reading.tid()) >= last, "a read rests on what it saw");
    Ok(())
}

#[test]
fn a_future_waits_as_a_thread_does() -> Result<()> {
    let folder = Folder::new();
    let db = Database::open(folder.path())?;
    let table = db.table::<u64, u64>("table")?;
    let mut receipts = Vec::new();
    for key in 0..50 {
        let ((), receipt) = db.submit(|tx| tx.put(&table, &key, &key))?;
        receipts.push(receipt);
    }
    for receipt in &receipts {
        block_on(receipt.durable_async())?;
        assert!(receipt.is_durable());
    }
    let detached = receipts[0].durable_async();
    drop(receipts);
    block_on(detached)
}

#[test]
fn a_receipt_can_be_awaited() -> Result<()> {
    let folder = Folder::new();
    let db = Database::open(folder.path())?;
    let table = db.table::<u64, u64>("table")?;
    let ((), receipt) = db.submit(|tx| tx.put(&table, &1, &1))?;
    let epoch = receipt.epoch();
    block_on(async move { receipt.await })?;
    assert!(db.durable_epoch() >= epoch);
    Ok(())
}

#[test]
fn without_a_log_nothing_is_waited_for() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("table")?;
    let ((), receipt) = db.submit(|tx| tx.put(&table, &1, &1))?;
    assert!(receipt.is_durable());
    receipt.durable()?;
    block_on(receipt.durable_async())
}

#[test]
fn a_read_only_transaction_waits_for_what_it_read() -> Result<()> {
    let folder = Folder::new();
    let db = Database::open(folder.path())?;
    let table = db.table::<u64, u64>("table")?;
    let ((), written) = db.submit(|tx| tx.put(&table, &1, &1))?;
    let (seen, read) = db.submit(|tx| tx.get(&table, &1))?;
    assert_eq!(seen, Some(1));
    assert_eq!(read.epoch(), written.epoch());
    read.durable()?;
    assert!(written.is_durable());
    Ok(())
}

/// Removes the folder of an open database. The log may make its next file meanwhile.
fn remove(path: &Path) {
    while let Err(error) = std::fs::remove_dir_all(path) {
        assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty);
    }
}

#[test]
fn l9_no_result_is_durable_in_a_folder_that_was_removed() -> Result<()> {
    for durability in [Durability::Strict, Durability::Relaxed, Durability::Process] {
        let folder = Folder::new();
        let path = folder.path().join("data");
        let db = Database::builder(&path).durability(durability).open()?;
        let table = db.table::<u64, u64>("table")?;
        db.submit(|tx| tx.put(&table, &1, &1))?.1.durable()?;
        remove(&path);
        let next = db.submit(|tx| tx.put(&table, &2, &2)).and_then(|(_, receipt)| receipt.durable());
        for refused in [next, db.close()] {
            let refused = refused.expect_err("its log is nowhere");
            assert!(
                matches!(cause(&refused), Some(DurabilityError::Removed(_))),
                "{durability:?}: {refused}"
            );
            let text = refused.to_string();
            assert!(text.contains("restore a backup") && !text.contains("open the database"), "{text}");
        }
        assert!(!path.exists(), "nothing is made there again");
    }
    Ok(())
}

#[test]
fn l9_no_result_is_durable_in_a_file_that_was_removed() -> Result<()> {
    let folder = Folder::new();
    let db = Database::open(folder.path())?;
    let table = db.table::<u64, u64>("table")?;
    db.run(|tx| tx.put(&table, &1, &1))?;
    for file in std::fs::read_dir(folder.path().join("log0")).expect("lists") {
        let file = file.expect("lists");
        if file.file_name().to_string_lossy().starts_with("log-") {
            std::fs::remove_file(file.path()).expect("it is there");
        }
    }
    let refused = db.run(|tx| tx.put(&table, &2, &2)).expect_err("its log is gone");
    assert!(matches!(cause(&refused), Some(DurabilityError::Removed(_))), "{refused}");
    Ok(())
}

/// Each commit begins a log file, so a creation of a file fails before a sync does.
#[test]
fn l9_a_log_that_cannot_begin_a_file_in_a_removed_folder_ends_as_removed() -> Result<()> {
    let folder = Folder::new();
    let path = folder.path().join("data");
    let tuning = Tuning { log_file_bytes: 64 << 10, ..Tuning::default() };
    let db = Database::builder(&path).tuning(tuning).open()?;
    let table = db.table::<u64, Vec<u8>>("table")?;
    let put = |key| db.run(|tx| tx.put(&table, &key, &vec![1; 100_000]));
    (0..3).try_for_each(put)?;
    remove(&path);
    let refused = (3..9).try_for_each(put).expect_err("its folder is gone");
    assert!(matches!(cause(&refused), Some(DurabilityError::Removed(_))), "{refused}");
    let health = db.health().log.expect("it has a log");
    assert_eq!(health.name(), "removed", "{health:?}");
    Ok(())
}

#[test]
fn l9_a_folder_that_is_not_needed_any_more_may_go() -> Result<()> {
    let folder = Folder::new();
    let open = |loggers| {
        let tuning = Tuning { loggers: Some(loggers), ..Tuning::default() };
        Database::builder(folder.path()).tuning(tuning).open()
    };
    open(2)?.close()?;
    let db = open(1)?;
    let table = db.table::<u64, u64>("table")?;
    db.checkpoint()?.wait()?;
    std::fs::remove_dir_all(folder.path().join("log1")).expect("it is there");
    db.run(|tx| tx.put(&table, &1, &1))?;
    db.close()
}

/// A hard link keeps the file of the log, and the folder is gone.
#[test]
fn l9_no_result_is_durable_in_a_removed_folder_whose_files_have_other_names() -> Result<()> {
    let folder = Folder::new();
    let path = folder.path().join("data");
    let db = Database::open(&path)?;
    let table = db.table::<u64, u64>("table")?;
    db.run(|tx| tx.put(&table, &1, &1))?;
    std::fs::create_dir(folder.path().join("links")).expect("makes");
    for file in std::fs::read_dir(path.join("log0")).expect("lists") {
        let file = file.expect("lists");
        std::fs::hard_link(file.path(), folder.path().join("links").join(file.file_name())).expect("links");
    }
    remove(&path);
    let refused = db.run(|tx| tx.put(&table, &2, &2)).expect_err("its folder is gone");
    assert!(matches!(cause(&refused), Some(DurabilityError::Removed(_))), "{refused}");
    Ok(())
}
