//! What transactions see of a disk that fails, and of one that is full: through the engine's own threads.

use std::sync::atomic::{AtomicBool, Ordering};

use ensile_disk::Disk;
use ensile_durability::Health;

use crate::prelude::*;

fn builder(disk: &SimDisk) -> Builder {
    Database::builder("unused").disk(Arc::new(disk.clone())).epoch_interval(Duration::from_millis(2))
}

fn put(db: &Database, table: &Table<u64, u64>, key: u64, value: u64) -> Result<()> {
    db.run(|tx| tx.put(table, &key, &value))
}

fn get(db: &Database, durability: Durability, table: &Table<u64, u64>, key: u64) -> Result<Option<u64>> {
    db.run(|tx| {
        tx.set_durability(durability);
        tx.get(table, &key)
    })
}

fn is_unknown<T: std::fmt::Debug>(result: Result<T>) -> bool {
    match result {
        Err(Error::Storage(error)) => {
            matches!(error.cause(), DurabilityError::OutcomeUnknown(_))
                && error.to_string().contains("outcome unknown")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn after_a_failed_sync_only_what_is_durable_is_read_strictly() -> Result<()> {
    let disk = SimDisk::new();
    let db = builder(&disk).open()?;
    let table = db.table::<u64, u64>("numbers")?;
    put(&db, &table, 1, 10)?;
    put(&db, &table, 2, 20)?;
    let mut durable_snapshot = db.snapshot_latest()?;
    durable_snapshot.durable()?;

    disk.fail_all_syncs(true);
    assert!(is_unknown(put(&db, &table, 1, 11)));
    let durable = db.durable_epoch();
    disk.fail_all_syncs(false);
    for _ in 0..3 {
        assert!(is_unknown(get(&db, Durability::Strict, &table, 1)), "what it saw is not durable");
        assert_eq!(get(&db, Durability::Strict, &table, 2)?, Some(20), "what it saw is durable");
        assert_eq!(get(&db, Durability::Relaxed, &table, 1)?, Some(11));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(is_unknown(db.run(|tx| tx.range(&table, ..).collect::<Result<Vec<_>>>())));
    // Snapshots: one at or below D goes on, one above it cannot become durable.
    assert_eq!(durable_snapshot.get(&table, &1)?, Some(10));
    durable_snapshot.durable()?;
    let mut later = db.snapshot_latest()?;
    assert_eq!(later.get(&table, &1)?, Some(11));
    assert!(is_unknown(later.durable()));
    // Nothing is committed any more, whatever the disk does by now, and no epoch becomes durable.
    for durability in [Durability::Strict, Durability::Relaxed] {
        let refused = db.run(|tx| {
            tx.set_durability(durability);
            tx.put(&table, &3, &30)
        });
        assert!(
            matches!(refused.as_ref().err().and_then(cause), Some(DurabilityError::Stopped(_))),
            "{refused:?}"
        );
    }
    assert_eq!(get(&db, Durability::Relaxed, &table, 3)?, None);
    assert_eq!(db.durable_epoch(), durable);
    assert!(matches!(db.stats().log_health, Some(Health::Poisoned(_))));
    drop(later);
    drop(durable_snapshot);
    assert!(is_unknown(db.close()));
    Ok(())
}

#[test]
fn a_full_disk_refuses_writers_lets_readers_go_on_and_needs_no_restart() -> Result<()> {
    let disk = SimDisk::new();
    let db = builder(&disk).tuning(Tuning { log_file_bytes: 8192, ..Tuning::default() }).open()?;
    let table = db.table::<u64, u64>("numbers")?;
    put(&db, &table, 1, 10)?;
    disk.set_capacity(Some(disk.used_bytes()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Strict writers fill what is set aside; then some wait, and others are refused.
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                let (db, table, stop) = (&db, &table, &stop);
                scope.spawn(move || {
                    let mut written = 0;
                    // Relaxed: only ends the loop.
                    while !stop.load(Ordering::Relaxed) {
                        match put(db, table, (writer + 1) << 32 | written, 0) {
                            Ok(()) => written += 1,
                            Err(Error::DiskFull(reason)) => assert!(reason.contains("log0"), "{reason}"),
                            Err(other) => panic!("{other}"),
                        }
                    }
                    written
                })
            })
            .collect();
        while !matches!(db.stats().log_health, Some(Health::Full(_))) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let refused = db.run(|tx| {
            tx.set_durability(Durability::Relaxed);
            tx.put(&table, &5, &50)
        });
        assert!(matches!(&refused, Err(error @ Error::DiskFull(_)) if !error.is_retryable()), "{refused:?}");
        assert_eq!(get(&db, Durability::Strict, &table, 1).expect("reads go on"), Some(10));
        assert_eq!(get(&db, Durability::Relaxed, &table, 5).expect("reads go on"), None);
        let durable = db.durable_epoch();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(db.durable_epoch(), durable, "nothing is acknowledged");
        disk.set_capacity(None);
        while db.stats().log_health != Some(Health::Running) {
            std::thread::sleep(Duration::from_millis(1));
        }
        put(&db, &table, 1, 11).expect("there is space");
        // Relaxed: the writers are joined before their work is judged.
        stop.store(true, Ordering::Relaxed);
        let written: u64 = writers.into_iter().map(|writer| writer.join().expect("no panic")).sum();
        let rows = db.run(|tx| tx.range(&table, ..).collect::<Result<Vec<_>>>()).expect("reads");
        assert_eq!(rows.len() as u64, 1 + written);
    });
    let before = get(&db, Durability::Strict, &table, 1)?;
    let rows = db.run(|tx| tx.range(&table, ..).collect::<Result<Vec<_>>>())?;
    db.close()?;
    disk.crash(1);
    let db = builder(&disk).open()?;
    let table = db.table::<u64, u64>("numbers")?;
    assert_eq!(get(&db, Durability::Strict, &table, 1)?, before);
    assert_eq!(db.run(|tx| tx.range(&table, ..).collect::<Result<Vec<_>>>())?, rows, "all of it");
    Ok(())
}

#[test]
fn settings_of_the_log_that_cannot_be_are_misuse() -> Result<()> {
    let disk = SimDisk::new();
    drop(builder(&disk).log_folders(["/a", "/b"]).open()?);
    disk.kill();
    let refused = builder(&disk).log_folders(["/a", "/c"]).open();
    assert!(matches!(&refused, Err(Error::Misuse(what)) if what.contains("log1")), "{refused:?}");
    disk.kill();
    let db = builder(&disk).tuning(Tuning { loggers: Some(2), ..Tuning::default() }).open()?;
    let table = db.table::<u64, Vec<u8>>("numbers")?;
    db.run(|tx| tx.put(&table, &1, &vec![7; 10_000]))?;
    db.close()?;
    let files = disk.list("log1").map_err(DurabilityError::from)?;
    assert_eq!(files.iter().filter(|name| name.starts_with("log-")).count(), 1, "{files:?}");
    disk.kill();
    let db = builder(&disk).open()?;
    let table = db.table::<u64, Vec<u8>>("numbers")?;
    assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(vec![7; 10_000]));
    Ok(())
}
