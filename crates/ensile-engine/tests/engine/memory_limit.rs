//! The memory in use has a limit: writes stop at the limit, and go on when rows are deleted (M4).
//!
//! Databases are driven by hand, except where threads race for the last bytes. Bytes are those of the database's own
//! statistics.
//!
//! Neighbours: `commit::room` has the steps of a commit; the memory's own tests have the count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ensile_base::limits::{MEMORY_BYTES_LEAST, MEMORY_EXCESS_BYTES_MAX};
use ensile_engine::checkpoint::Schedule;
use ensile_engine::{Builder, Database, Durability, Error, ErrorKind, Readable, Result, Table};
use ensile_sim::SimDisk;

use crate::driven::Driven;

const LIMIT: u64 = 4 << 20;
/// Bytes of a row that a page of versions takes.
const ROW_BYTES: usize = 900;
/// Ticks of a second.
const SECOND: u32 = 25;
/// Bytes that a cache may not have reported.
const UNREPORTED: u64 = 64 << 10;

type Rows = Table<u64, Vec<u8>>;

fn limited() -> Result<(Driven, Rows)> {
    let driven = Driven::open(|builder| builder.memory_bytes_max(LIMIT));
    let table = driven.db.table("rows")?;
    Ok((driven, table))
}

fn put(db: &Database, table: &Rows, key: u64, bytes: usize) -> Result<()> {
    db.run(|tx| tx.put(table, &key, &vec![key as u8; bytes]))
}

/// Puts rows from key 0 on until the memory is full. Returns their number.
fn fill(db: &Database, table: &Rows, bytes: usize) -> u64 {
    let refused = (0..).find_map(|key| put(db, table, key, bytes).err().map(|error| (key, error)));
    let (rows, error) = refused.expect("the memory has a limit");
    assert!(is_full(&error), "{error}");
    rows
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::MemoryFull { bytes, bytes_max } if bytes >= bytes_max)
}

fn assert_full<R: std::fmt::Debug>(result: Result<R>) {
    let error = result.expect_err("the memory is full");
    assert!(is_full(&error), "{error}");
}

fn used(db: &Database) -> u64 {
    db.stats().memory.live_bytes
}

fn count(db: &Database, table: &Rows) -> Result<u64> {
    db.run(|tx| Ok(tx.range(table, ..).count() as u64))
}

#[test]
fn a_write_at_the_limit_is_refused_and_nothing_is_changed() -> Result<()> {
    let (driven, table) = limited()?;
    let db = &driven.db;
    assert_eq!(db.stats().memory.bytes_max, Some(LIMIT));
    assert!(db.health().is_well());
    let rows = fill(db, &table, ROW_BYTES);
    assert!(used(db).abs_diff(LIMIT) <= 2 * UNREPORTED, "{} bytes", used(db));
    assert!(rows * ROW_BYTES as u64 > LIMIT * 3 / 4, "most of it is rows: {rows}");
    assert!(db.health().memory_full.is_some_and(|memory| memory.bytes_max == LIMIT));

    let before = used(db);
    assert_full(put(db, &table, 0, ROW_BYTES));
    assert_full(db.run(|tx| tx.insert(&table, &(rows + 1), &vec![1; ROW_BYTES])));
    assert_full(db.run(|tx| tx.update(&table, &0, |row| row[0] = 9)));
    assert_eq!((count(db, &table)?, used(db)), (rows, before));
    assert_eq!(db.run(|tx| tx.get(&table, &0))?, Some(vec![0; ROW_BYTES]), "reads go on");
    let error = put(db, &table, 0, 1).expect_err("it is full");
    assert_eq!(error.kind(), ErrorKind::FreeSpace);
    let text = error.to_string();
    assert!(text.contains(&LIMIT.to_string()) && text.contains("delete rows"), "{text}");
    Ok(())
}

#[test]
fn a_refused_write_leaves_its_transaction_open_for_deletes() -> Result<()> {
    let (driven, table) = limited()?;
    let rows = fill(&driven.db, &table, ROW_BYTES);
    let mut tx = driven.db.begin();
    assert_full(tx.put(&table, &rows, &vec![1; ROW_BYTES]));
    assert!(tx.delete(&table, &0)?);
    tx.commit()?;
    assert_eq!(count(&driven.db, &table)?, rows - 1);
    Ok(())
}

/// The put is accepted while there is room, and others use the room up.
#[test]
fn a_commit_with_a_put_is_refused_even_if_it_deletes_more() -> Result<()> {
    let (driven, table) = limited()?;
    let db = &driven.db;
    put(db, &table, 1 << 40, ROW_BYTES)?;
    let mut tx = db.begin();
    assert!(tx.delete(&table, &(1 << 40))?);
    tx.put(&table, &(1 << 41), &vec![1; 10])?;
    let rows = fill(db, &table, ROW_BYTES);
    assert_full(tx.submit().map(drop));
    assert_eq!(count(db, &table)?, rows + 1, "neither is done");
    Ok(())
}

#[test]
fn deleted_rows_are_free_for_writes_within_a_second() -> Result<()> {
    for single in [true, false] {
        let (driven, table) = limited()?;
        let db = &driven.db;
        let rows = fill(db, &table, ROW_BYTES);
        driven.pass_ticks(SECOND);
        assert_full(put(db, &table, rows, ROW_BYTES));
        let delete = |key: u64| db.run(|tx| tx.delete(&table, &key)).map(|found| assert!(found));
        // On a thread of its own, which ends: the rest is the heartbeat's work alone.
        std::thread::scope(|scope| {
            let half = scope.spawn(|| match single {
                true => (0..rows / 2).try_for_each(delete),
                false => db.run(|tx| (0..rows / 2).try_for_each(|key| tx.delete(&table, &key).map(drop))),
            });
            half.join().expect("no panic")
        })?;
        driven.pass_ticks(SECOND);
        assert!(used(db) <= LIMIT * 6 / 10, "{} bytes", used(db));
        assert_eq!(db.health().memory_full, None);
        (0..rows / 3).try_for_each(|key| put(db, &table, key, ROW_BYTES))?;
        assert_eq!(count(db, &table)?, rows - rows / 2 + rows / 3);
    }
    Ok(())
}

/// Snapshots need the rows, and a copy of each would be as large as all rows.
#[test]
fn deletes_at_the_limit_copy_no_versions() -> Result<()> {
    let (driven, table) = limited()?;
    let db = &driven.db;
    let rows = fill(db, &table, ROW_BYTES);
    driven.pass_ticks(SECOND);
    let (mut snapshot, before) = (db.snapshot()?, used(db));
    (0..rows).try_for_each(|key| db.run(|tx| tx.delete(&table, &key)).map(drop))?;
    assert!(used(db) <= before + LIMIT / 10, "{} bytes, {before} before", used(db));
    assert_eq!(snapshot.range(&table, ..).count() as u64, rows, "the snapshot has them all");
    drop(snapshot);
    driven.pass_ticks(2 * SECOND);
    assert!(used(db) <= LIMIT / 10, "{} bytes", used(db));
    Ok(())
}

/// The snapshot holds the memory of updated and of deleted rows, until they are half of the limit.
#[test]
fn an_idle_snapshot_does_not_keep_the_memory_full() -> Result<()> {
    const ROWS: u64 = 2500;
    let (driven, table) = limited()?;
    let db = &driven.db;
    (0..ROWS).try_for_each(|key| put(db, &table, key, ROW_BYTES))?;
    driven.pass_ticks(SECOND);
    let mut snapshot = db.snapshot()?;
    // A larger row needs a new record, and the old record is the snapshot's version.
    assert_full((0..ROWS).try_for_each(|key| put(db, &table, key, ROW_BYTES + 100)));
    driven.pass_ticks(SECOND);
    assert_full(put(db, &table, ROWS, ROW_BYTES));
    (ROWS / 2..ROWS).try_for_each(|key| db.run(|tx| tx.delete(&table, &key)).map(drop))?;
    driven.pass_ticks(SECOND);
    assert!(matches!(snapshot.get(&table, &0), Err(Error::Expired)), "{:?}", db.stats());
    driven.pass_ticks(SECOND);
    put(db, &table, ROWS, ROW_BYTES)
}

#[test]
fn entries_of_indexes_count() -> Result<()> {
    let rows = |indexed: bool| -> Result<u64> {
        let driven = Driven::open(|builder| builder.memory_bytes_max(LIMIT));
        let definition = driven.db.define::<u64, Vec<u8>>("rows");
        let table = match indexed {
            true => definition.index("by_row", 1, |_, row| row.clone()).open()?,
            false => definition.open()?,
        };
        Ok((0..).take_while(|key| driven.db.run(|tx| tx.put(&table, key, &key_row(*key))).is_ok()).count()
            as u64)
    };
    let (plain, indexed) = (rows(false)?, rows(true)?);
    assert!(indexed < plain * 7 / 10, "{indexed} rows with entries, {plain} without");
    Ok(())
}

/// A row that differs from others in its first bytes.
fn key_row(key: u64) -> Vec<u8> {
    key.to_le_bytes().into_iter().chain([7; 92]).collect()
}

#[test]
fn a_large_transaction_is_refused_before_its_first_row() -> Result<()> {
    let (driven, table) = limited()?;
    let db = &driven.db;
    put(db, &table, 0, ROW_BYTES)?;
    let before = used(db);
    let large =
        |rows: u64| db.run(|tx| (1..=rows).try_for_each(|key| tx.put(&table, &key, &vec![1; 50_000])));
    let error = large(LIMIT / 50_000 + 1).expect_err("it has no room");
    assert!(
        matches!(error, Error::MemoryFull { bytes, .. } if bytes < LIMIT),
        "the use is as before: {error}"
    );
    assert_eq!((used(db), count(db, &table)?), (before, 1));
    large(LIMIT / 50_000 / 2)?;
    assert!(used(db) <= LIMIT / 2 + 2 * UNREPORTED, "what was set aside is given back: {}", used(db));
    put(db, &table, 1000, ROW_BYTES)
}

/// Small rows, large rows, and transactions of many rows, on threads that all want the last bytes.
#[test]
fn threads_exceed_the_limit_by_a_bounded_number_of_bytes() -> Result<()> {
    const THREADS: u64 = 8;
    const LIMIT: u64 = 48 << 20;
    let db = Database::builder_in_memory().memory_bytes_max(LIMIT).open()?;
    let table: Rows = db.table("rows")?;
    let (most, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !ends.load(Ordering::Acquire) {
                most.fetch_max(used(&db), Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    let (rows, bytes) = [(1, 100), (1, 1 << 20), (200, 3000), (20, 300)][thread as usize % 4];
                    let mut refused = 0;
                    for run in 0.. {
                        let first = (thread << 40) | (run * rows);
                        let done = db.run(|tx| {
                            tx.set_durability(Durability::Relaxed);
                            (first..first + rows).try_for_each(|key| tx.put(table, &key, &vec![1; bytes]))
                        });
                        match done {
                            Ok(()) => {}
                            Err(Error::MemoryFull { .. }) if refused < 100 => refused += 1,
                            Err(error) => return error,
                        }
                    }
                    unreachable!("the memory has a limit")
                })
            })
            .collect();
        for writer in writers {
            assert!(matches!(writer.join().expect("no panic"), Error::MemoryFull { .. }));
        }
        ends.store(true, Ordering::Release);
        watch.join().expect("no panic");
    });
    let most = most.into_inner();
    let a_worker = 256 << 10;
    assert!(most <= LIMIT + THREADS * a_worker, "{most} bytes, {LIMIT} are allowed");
    assert!(most >= LIMIT * 9 / 10, "{most} bytes: the memory was used");
    assert!(THREADS * a_worker <= MEMORY_EXCESS_BYTES_MAX);
    Ok(())
}

fn builder(disk: &SimDisk) -> Builder {
    let builder = Database::builder("unused").disk(Arc::new(disk.mounted()));
    builder.checkpoints(Schedule::on_demand()).durability(Durability::Relaxed)
}

/// Makes a checkpoint with all rows: a checkpoint leaves rows of its own epoch to the log.
fn checkpoint_of_all(db: &Database) -> Result<ensile_engine::checkpoint::CheckpointReport> {
    let filled = db.epoch();
    while db.epoch() == filled {
        std::thread::yield_now();
    }
    db.checkpoint()?.wait()
}

#[test]
fn a_checkpoint_at_the_limit_succeeds() -> Result<()> {
    let disk = SimDisk::new();
    let db = builder(&disk).memory_bytes_max(LIMIT).open()?;
    let table: Rows = db.table("rows")?;
    let rows = fill(&db, &table, ROW_BYTES);
    let report = checkpoint_of_all(&db)?;
    assert!(report.entries > rows, "the rows, and the table's definition: {}", report.entries);
    Ok(())
}

/// All files of a disk with their bytes.
fn files(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    disk.files().into_iter().map(|name| (name.clone(), disk.bytes(&name))).collect()
}

#[test]
fn a_database_at_its_limit_opens_again_with_its_indexes_and_deletes() -> Result<()> {
    let disk = SimDisk::new();
    let open = || -> Result<(Database, Rows)> {
        let db = builder(&disk).memory_bytes_max(LIMIT).open()?;
        let table = db.define("rows").index("by_length", 1, |_, row: &Vec<u8>| row.len() as u64).open()?;
        Ok((db, table))
    };
    let (db, table) = open()?;
    let rows = fill(&db, &table, ROW_BYTES);
    db.close()?;
    drop((db, table));
    let (db, table) = open()?;
    assert_eq!(count(&db, &table)?, rows);
    assert!(db.run(|tx| tx.delete(&table, &0))?);
    Ok(())
}

/// Rows beyond the limit and the excess.
fn too_many_rows(db: &Database) -> Result<u64> {
    let (table, bytes): (Rows, usize) = (db.table("rows")?, 16_000);
    let rows = (LIMIT + MEMORY_EXCESS_BYTES_MAX) * 5 / 4 / bytes as u64;
    (0..rows / 50).try_for_each(|at| {
        db.run(|tx| (0..50).try_for_each(|key| tx.put(&table, &(at * 50 + key), &vec![7; bytes])))
    })?;
    Ok(rows / 50 * 50)
}

/// Refuses the open of the disk at the limit, and changes nothing. True if a row was loaded.
fn is_refused_after_a_load(disk: &SimDisk) -> bool {
    let (before, has_loaded) = (files(disk), Arc::new(AtomicBool::new(false)));
    let loaded = Arc::clone(&has_loaded);
    let refused = builder(disk)
        .memory_bytes_max(LIMIT)
        .recover(move |progress| loaded.store(progress.bytes_done > 0, Ordering::Relaxed));
    let error = refused.map(drop).expect_err("the rows exceed the limit");
    assert_eq!(error.kind(), ErrorKind::FixCall, "{error}");
    let text = error.to_string();
    let needed: Vec<u64> =
        text.split_whitespace().filter_map(|word| word.trim_end_matches(';').parse().ok()).collect();
    assert!(matches!(needed[..], [needed, LIMIT] if needed > LIMIT), "{text}");
    assert!(files(disk) == before, "the folder is unchanged");
    has_loaded.load(Ordering::Relaxed)
}

#[test]
fn an_open_beyond_the_limit_is_refused_before_rows_are_loaded() -> Result<()> {
    let disk = SimDisk::new();
    let db = builder(&disk).open()?;
    let rows = too_many_rows(&db)?;
    checkpoint_of_all(&db)?;
    db.close()?;
    drop(db);
    assert!(!is_refused_after_a_load(&disk), "no row is loaded");
    let db = builder(&disk).open_existing()?;
    assert_eq!(count(&db, &db.table("rows")?)?, rows);
    Ok(())
}

#[test]
fn an_open_beyond_the_limit_is_refused_during_the_replay_of_a_log() -> Result<()> {
    let disk = SimDisk::new();
    let db = builder(&disk).open()?;
    let rows = too_many_rows(&db)?;
    db.close()?;
    drop(db);
    let _has_loaded = is_refused_after_a_load(&disk);
    let db = builder(&disk).memory_bytes_max(rows * 20_000).open_existing()?;
    assert_eq!(count(&db, &db.table("rows")?)?, rows);
    Ok(())
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let opened = Database::builder_in_memory().memory_bytes_max(MEMORY_BYTES_LEAST - 1).open();
    assert!(matches!(opened, Err(Error::Misuse(_))));
    let tuning = ensile_engine::Tuning { prefault_bytes: 16 << 20, ..ensile_engine::Tuning::default() };
    let opened = Database::builder_in_memory().memory_bytes_max(8 << 20).tuning(tuning).open();
    assert!(matches!(opened, Err(Error::Misuse(_))));
}
