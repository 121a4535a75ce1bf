//! A crash, or a close, on a full disk: the next open goes on, and where nothing at all is free it can be read.

#![cfg(not(any(loom, shuttle)))]

use std::sync::Arc;
use std::time::Duration;

use ensile_base::limits::RESERVE_BYTES;
use ensile_disk::Disk;
use ensile_engine::{Builder, Database, Error, Readable, Result, Table};
use ensile_sim::SimDisk;

const ROWS: u64 = 100;

fn builder(disk: &SimDisk) -> Builder {
    Database::builder("unused").disk(Arc::new(disk.mounted())).checkpoints_on_demand().log_file_bytes(1 << 20)
}

fn table(db: &Database) -> Result<Table<u64, Vec<u8>>> {
    db.define::<u64, Vec<u8>>("rows").index("by_length", 1, |_, row| row.len() as u64).open()
}

fn fill(db: &Database) -> Result<()> {
    let table = table(db)?;
    (0..ROWS).try_for_each(|key| db.run(|tx| tx.put(&table, &key, &vec![1; 100])))
}

fn rows(db: &Database) -> Result<usize> {
    let table = table(db)?;
    db.run(|tx| Ok(tx.range(&table, ..).count()))
}

/// Takes all space that is left.
fn fill_up(disk: &SimDisk) {
    disk.set_capacity(Some(disk.used_bytes()));
}

#[test]
fn a_crash_on_a_full_disk_opens_again_and_again() -> Result<()> {
    let disk = SimDisk::new();
    fill(&builder(&disk).open()?)?;
    fill_up(&disk);
    for life in 0..8 {
        if life % 2 == 0 {
            disk.kill()
        } else {
            disk.crash(life)
        }
        let db = builder(&disk).open()?;
        assert!(db.health().is_well(), "life {life}: {:?}", db.health());
        assert_eq!(rows(&db)? as u64, ROWS);
        drop(db);
    }
    disk.set_capacity(None);
    let db = builder(&disk).open()?;
    fill(&db)?;
    db.close()
}

/// The log has taken all space to the last bytes, so nothing that is void is as large as the next life's files.
#[test]
fn a_crash_of_a_log_that_filled_its_disk_opens_with_the_reserve() -> Result<()> {
    let disk = SimDisk::new();
    let wait = Duration::from_millis(20);
    let db = builder(&disk).log_file_bytes(8 << 10).full_disk_wait(wait).open()?;
    fill(&db)?;
    fill_up(&disk);
    let rows_of = table(&db)?;
    let mut written = 0;
    while db.run(|tx| tx.put(&rows_of, &(1000 + written), &vec![2; 10])).is_ok() {
        written += 1;
    }
    disk.kill();
    drop((rows_of, db));
    // With files that set aside as much as the reserve holds, or more.
    for bytes in [RESERVE_BYTES, 1 << 20] {
        let db = builder(&disk).log_file_bytes(bytes).open()?;
        assert!(db.health().is_well(), "{bytes}: {:?}", db.health());
        assert!(rows(&db)? as u64 >= ROWS + written);
        disk.kill();
    }
    Ok(())
}

#[test]
fn a_close_on_a_full_disk_keeps_what_was_committed() -> Result<()> {
    let disk = SimDisk::new();
    let db = builder(&disk).open()?;
    fill(&db)?;
    fill_up(&disk);
    let rows_of = table(&db)?;
    // Relaxed, until nothing fits any more.
    let mut written = 0;
    let refused = loop {
        match db.submit(|tx| tx.put(&rows_of, &(1000 + written), &vec![2; 30_000])) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::DiskFull(_)), "{refused:?}");
    let closed = db.close();
    let kept = if closed.is_ok() { written } else { 0 };
    drop((rows_of, db));
    let db = builder(&disk).open()?;
    assert!(rows(&db)? as u64 >= ROWS + kept, "{closed:?}");
    db.close()
}

/// Nothing is free, nothing is void, and somebody has removed the reserve.
#[test]
fn a_disk_without_any_space_is_opened_to_be_read() -> Result<()> {
    let disk = SimDisk::new();
    let db = builder(&disk).open()?;
    fill(&db)?;
    db.close()?;
    drop(db);
    disk.remove("RESERVE").expect("it is kept");
    disk.sync_folder("").expect("syncs");
    fill_up(&disk);
    disk.kill();
    let before = disk.files();
    let db = builder(&disk).open()?;
    assert!(db.health().read_only.is_some() && !db.health().is_well());
    let rows_of = table(&db)?;
    assert_eq!(rows(&db)? as u64, ROWS);
    assert_eq!(db.run(|tx| tx.get(&rows_of, &5))?.map(|row| row.len()), Some(100));
    let mut snapshot = db.snapshot_latest()?;
    assert_eq!(snapshot.range(&rows_of, ..).count() as u64, ROWS);
    snapshot.durable()?;
    for refused in [
        db.run(|tx| tx.put(&rows_of, &5, &vec![2; 2])),
        db.table::<u64, u64>("another").map(drop),
        db.checkpoint().map(drop),
    ] {
        let Err(error @ Error::DiskFull(_)) = refused else { panic!("{refused:?}") };
        assert!(error.to_string().contains("open it again"), "{error}");
    }
    assert!(builder(&disk).open().is_err(), "its folder is taken");
    drop(snapshot);
    db.close()?;
    drop((rows_of, db));
    assert_eq!(disk.files(), before, "nothing was changed");
    disk.set_capacity(None);
    let db = builder(&disk).open()?;
    assert!(db.health().is_well());
    fill(&db)?;
    db.close()
}

#[test]
fn a_reserve_that_was_given_up_is_made_again_when_there_is_space() -> Result<()> {
    let disk = SimDisk::new();
    fill(&builder(&disk).open()?)?;
    let is_there = || disk.files().iter().any(|name| name == "RESERVE");
    assert!(is_there());
    disk.kill();
    disk.remove("RESERVE").expect("it was there");
    drop(builder(&disk).open()?);
    assert!(is_there(), "made by the open");
    Ok(())
}
