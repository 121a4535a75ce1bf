//! Deletes of rows too large for a page of versions copy nothing: the old record is the old version, or garbage (V1).
//!
//! Epochs move when the test says so; bytes are those of the database's own statistics and of its memory.
//!
//! Neighbours: `held_snapshots` has updates. `before_images` and `logged_writes` delete such rows at random, with a
//! log.

use crate::prelude::*;

/// A row whose record fills a block of [`BLOCK_BYTES`].
const LENGTH: usize = BLOCK_BYTES as usize - 20;
const BLOCK_BYTES: u64 = 64 << 10;
const ROWS: u64 = 40;
/// What one deleted row may leave besides: its absent record, its key, and the note that it is to be unhooked.
const LEFT_BYTES: u64 = 200;
/// Ticks of a second: four snapshot intervals.
const SECOND: u32 = 25;

type Rows = Table<u64, Vec<u8>>;

/// A row that no other byte makes.
fn row(byte: u8) -> Vec<u8> {
    vec![byte; LENGTH]
}

fn fill(db: &Database, table: &Rows, byte: u8) -> Result<()> {
    (0..ROWS).try_for_each(|key| db.run(|tx| tx.put(table, &key, &row(byte))))
}

/// Half of the rows one by one, the others together.
fn delete_all(db: &Database, table: &Rows) -> Result<()> {
    let (single, together) = (0..ROWS / 2, ROWS / 2..ROWS);
    for key in single {
        assert!(db.run(|tx| tx.delete(table, &key))?);
    }
    db.run(|tx| together.clone().try_for_each(|key| tx.delete(table, &key).map(|found| assert!(found))))
}

/// A database with a table of such rows, older than the boundary that is served.
fn filled() -> Result<(Driven, Rows)> {
    let driven = Driven::open(|builder| builder);
    let table = driven.db.table("rows")?;
    fill(&driven.db, &table, 1)?;
    driven.pass_ticks(2 * SECOND);
    assert_eq!(held(&driven.db), (0, 0, ROWS));
    Ok((driven, table))
}

/// Bytes that wait for snapshots, bytes that wait for pins, and how many blocks of a row's size there are.
fn held(db: &Database) -> (u64, u64, u64) {
    let stats = db.stats();
    assert_eq!(stats.memory.large_bytes % BLOCK_BYTES, 0, "all large blocks are rows");
    (stats.garbage_version_bytes, stats.garbage_pinned_bytes, stats.memory.large_bytes / BLOCK_BYTES)
}

fn shown(reader: &mut impl Readable, table: &Rows) -> Result<Vec<(u64, Vec<u8>)>> {
    reader.range(table, ..).collect()
}

fn assert_shows_all(snapshot: &mut Snapshot<'_>, table: &Rows, byte: u8) -> Result<()> {
    let rows = shown(snapshot, table)?;
    assert!(rows.into_iter().eq((0..ROWS).map(|key| (key, row(byte)))), "it shows its moment");
    Ok(())
}

/// No snapshot, no reader, and nothing deleted any more.
fn assert_nothing_left(driven: &Driven) {
    driven.pass_ticks(4 * SECOND);
    assert_eq!(driven.db.stats().garbage_things, 0);
    assert_eq!(held(&driven.db), (0, 0, 0));
}

#[test]
fn v1_deleted_rows_of_64_kib_are_held_once_by_a_snapshot() -> Result<()> {
    let (driven, table) = filled()?;
    let mut snapshot = driven.db.snapshot()?;
    delete_all(&driven.db, &table)?;
    // Leaves of the index that the deletes have emptied go.
    driven.pass_ticks(SECOND);
    for _ in 0..3 {
        let (version_bytes, pinned_bytes, blocks) = held(&driven.db);
        let of_rows = ROWS * BLOCK_BYTES;
        assert!(
            (of_rows..=of_rows + ROWS * LEFT_BYTES).contains(&version_bytes) && pinned_bytes == 0,
            "{version_bytes} bytes wait for one snapshot of {of_rows}, and {pinned_bytes} for pins"
        );
        assert_eq!(blocks, ROWS, "each row stands once");
        assert_eq!(
            driven.db.stats().garbage_things,
            2 * ROWS,
            "each row, and the absent record in its place"
        );
        assert_shows_all(&mut snapshot, &table, 1)?;
        assert_eq!(shown(&mut driven.db.begin(), &table)?, []);
        assert_eq!(shown(&mut driven.db.snapshot_latest()?, &table)?, []);
        driven.pass_ticks(2 * SECOND);
    }
    drop(snapshot);
    assert_nothing_left(&driven);
    Ok(())
}

#[test]
fn v1_deleted_rows_of_64_kib_that_no_snapshot_holds_are_freed() -> Result<()> {
    let (driven, table) = filled()?;
    delete_all(&driven.db, &table)?;
    assert_eq!(shown(&mut driven.db.begin(), &table)?, []);
    assert_nothing_left(&driven);
    Ok(())
}

#[test]
fn v1_rows_of_64_kib_that_come_and_go_between_two_boundaries_hold_next_to_nothing_under_a_snapshot()
-> Result<()> {
    let driven = Driven::open(|builder| builder);
    let table: Rows = driven.db.table("rows")?;
    driven.pass_ticks(2 * SECOND);
    let mut snapshot = driven.db.snapshot()?;
    // No boundary begins meanwhile, so none needs the rows.
    fill(&driven.db, &table, 1)?;
    delete_all(&driven.db, &table)?;
    let (version_bytes, pinned_bytes, _) = held(&driven.db);
    assert!(
        version_bytes <= ROWS * LEFT_BYTES,
        "{version_bytes} bytes wait for a snapshot that shows no row"
    );
    assert!(pinned_bytes <= ROWS * (BLOCK_BYTES + LEFT_BYTES), "{pinned_bytes} bytes of garbage");
    driven.pass_ticks(4 * SECOND);
    let (version_bytes, pinned_bytes, blocks) = held(&driven.db);
    assert!(version_bytes <= ROWS * LEFT_BYTES && (pinned_bytes, blocks) == (0, 0));
    assert_eq!(shown(&mut snapshot, &table)?, []);
    drop(snapshot);
    assert_nothing_left(&driven);
    Ok(())
}

#[test]
fn v1_rows_of_64_kib_that_are_deleted_and_inserted_again_show_each_snapshot_its_moment() -> Result<()> {
    let (driven, table) = filled()?;
    let mut held_snapshots = Vec::new();
    for byte in 2..5 {
        held_snapshots.push((driven.db.snapshot()?, byte - 1));
        delete_all(&driven.db, &table)?;
        driven.pass_ticks(SECOND);
        let mut between = driven.db.snapshot()?;
        (0..ROWS).try_for_each(|key| driven.db.run(|tx| tx.insert(&table, &key, &row(byte))))?;
        driven.pass_ticks(SECOND);
        assert_eq!(shown(&mut between, &table)?, [], "its moment is between a delete and an insert");
        for (snapshot, byte) in &mut held_snapshots {
            assert_shows_all(snapshot, &table, *byte)?;
        }
        drop(between);
    }
    delete_all(&driven.db, &table)?;
    // The middle one goes first.
    drop(held_snapshots.remove(1));
    driven.pass_ticks(SECOND);
    for (snapshot, byte) in &mut held_snapshots {
        assert_shows_all(snapshot, &table, *byte)?;
    }
    drop(held_snapshots);
    assert_nothing_left(&driven);
    Ok(())
}

#[test]
fn a_transaction_that_has_read_a_row_of_64_kib_loses_to_its_delete_and_may_read_on() -> Result<()> {
    let (driven, table) = filled()?;
    let db = &driven.db;
    let (mut reads, mut writes, mut misses) = (db.begin(), db.begin(), db.begin());
    for tx in [&mut reads, &mut writes] {
        assert_eq!(tx.get(&table, &1)?, Some(row(1)));
    }
    db.run(|tx| tx.delete(&table, &1))?;
    assert_eq!(misses.get(&table, &1)?, None);
    driven.pass_ticks(2 * SECOND);
    // The old record, which the first transactions know, is garbage that their pins hold.
    writes.put(&table, &1, &row(2))?;
    assert!(matches!(writes.submit(), Err(Error::Conflict)), "it would write into garbage");
    assert_eq!(reads.get(&table, &1)?, None);
    assert!(matches!(reads.submit(), Err(Error::Conflict)), "it has read a row and none");
    // The absent record is superseded, and its registrar finds that (U1).
    db.run(|tx| tx.insert(&table, &1, &row(3)))?;
    misses.put(&table, &2, &row(3))?;
    assert!(matches!(misses.submit(), Err(Error::Conflict)), "the key that it missed is there");
    assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(row(3)));
    delete_all(db, &table)?;
    assert_nothing_left(&driven);
    Ok(())
}

#[test]
fn a_delete_over_what_an_aborted_insert_of_64_kib_left_deletes_nothing() -> Result<()> {
    let (driven, table) = filled()?;
    let db = &driven.db;
    let mut aborted = db.begin();
    assert!(aborted.get(&table, &0)?.is_some());
    aborted.insert(&table, &ROWS, &row(1))?;
    db.run(|tx| tx.put(&table, &0, &row(2)))?;
    assert!(matches!(aborted.submit(), Err(Error::Conflict)));
    // The key has a record, absent and large.
    assert!(!db.run(|tx| tx.delete(&table, &ROWS))?);
    db.run(|tx| tx.insert(&table, &ROWS, &row(3)))?;
    assert!(db.run(|tx| tx.delete(&table, &ROWS))?);
    delete_all(db, &table)?;
    assert_nothing_left(&driven);
    Ok(())
}

/// An index whose entries are deleted with their rows.
#[test]
fn an_index_follows_deletes_of_rows_of_64_kib() -> Result<()> {
    let driven = Driven::open(|builder| builder);
    let (table, by_first) = {
        let defined = driven.db.define::<u64, Vec<u8>>("rows");
        let defined = defined.index("by_first", 1, |_: &u64, row: &Vec<u8>| u64::from(row[0]));
        let table = defined.open()?;
        let by_first = table.index::<u64>("by_first")?;
        (table, by_first)
    };
    fill(&driven.db, &table, 1)?;
    driven.pass_ticks(2 * SECOND);
    let mut snapshot = driven.db.snapshot()?;
    delete_all(&driven.db, &table)?;
    driven.db.run(|tx| tx.put(&table, &7, &row(2)))?;
    driven.pass_ticks(2 * SECOND);
    let found = |reader: &mut Snapshot<'_>, byte: u64| -> Result<Vec<u64>> {
        reader.range(&by_first, byte..=byte).map(|row| row.map(|(key, _)| key)).collect()
    };
    assert_eq!(found(&mut snapshot, 1)?, (0..ROWS).collect::<Vec<_>>());
    let mut latest = driven.db.snapshot_latest()?;
    assert_eq!((found(&mut latest, 1)?, found(&mut latest, 2)?), (vec![], vec![7]));
    Ok(())
}

/// A database on this disk.
fn on_disk(disk: &SimDisk, before_images: bool) -> Result<Database> {
    let builder = Database::builder("unused").disk(Arc::new(disk.mounted()));
    builder.before_images(before_images).epoch_interval(Duration::from_millis(1)).open()
}

fn check_recovery(before_images: bool) -> Result<()> {
    let disk = SimDisk::new();
    let db = on_disk(&disk, before_images)?;
    let table: Rows = db.table("rows")?;
    fill(&db, &table, 1)?;
    let mut snapshot = db.snapshot_latest()?;
    delete_all(&db, &table)?;
    for key in (0..ROWS).step_by(3) {
        db.run(|tx| tx.insert(&table, &key, &row(2)))?;
    }
    // The last thing that is logged is a delete over an insert.
    let (_, receipt) = db.submit(|tx| tx.delete(&table, &3))?;
    receipt.durable()?;
    assert_shows_all(&mut snapshot, &table, 1)?;
    let left = shown(&mut db.begin(), &table)?;
    assert_eq!(left.len() as u64, ROWS.div_ceil(3) - 1);
    drop(snapshot);
    disk.crash(1);
    drop((table, db));

    let db = on_disk(&disk, before_images)?;
    let table: Rows = db.table("rows")?;
    assert!(shown(&mut db.begin(), &table)? == left, "the log says what was deleted");
    Ok(())
}

/// With and without before-images.
#[test]
fn deletes_of_rows_of_64_kib_are_recovered() -> Result<()> {
    [false, true].into_iter().try_for_each(check_recovery)
}

/// Bytes, blocks and entries of the log for deletes of rows of this length, by a logger that the test steps.
fn logged(length: usize) -> Result<[u64; 3]> {
    let (disk, clock) = (SimDisk::new(), Clock::manual());
    let builder = Database::builder("unused").disk(Arc::new(disk.mounted())).manual_clock(clock.clone());
    let tuning = Tuning { loggers: Some(1), ..Tuning::default() };
    let db = builder.durability(Durability::Relaxed).tuning(tuning).without_threads().open()?;
    let table: Rows = db.table("rows")?;
    let settle = || {
        for _ in 0..5 {
            clock.advance(Duration::from_millis(40));
            db.heartbeat_step();
            db.logger_step(0);
        }
        let log = db.stats().log.expect("there is one");
        [log.bytes, log.blocks, log.entries]
    };
    for key in 0..10 {
        db.run(|tx| tx.put(&table, &key, &vec![1; length]))?;
        settle();
    }
    let before = settle();
    for key in 0..10 {
        assert!(db.run(|tx| tx.delete(&table, &key))?);
    }
    let after = settle();
    Ok([0, 1, 2].map(|figure| after[figure] - before[figure]))
}

#[test]
fn a_delete_of_a_row_too_large_for_pages_logs_what_a_delete_of_a_short_row_does() -> Result<()> {
    let short = logged(100)?;
    assert_eq!(short[2], 10, "{short:?}");
    assert_eq!(logged(2_000)?, short);
    Ok(())
}

/// A row is moved by deleting it and inserting it under another key. At each moment there is one row of a pair of keys.
#[test]
fn threads_that_move_rows_too_large_for_pages_show_every_reader_whole_rows_and_each_row_once() -> Result<()> {
    const PAIRS: u64 = 8;
    const LENGTH: usize = 1_500;
    let db = Database::builder_in_memory().epoch_interval(Duration::from_millis(1)).open()?;
    let table: Rows = db.table("rows")?;
    db.run(|tx| (0..PAIRS).try_for_each(|pair| tx.put(&table, &(2 * pair), &vec![0; LENGTH])))?;
    // From here on the boundary that is served shows the rows.
    drop(db.snapshot_latest()?);
    let moved = |thread: u64| -> Result<()> {
        for step in 0..1_500 {
            let key = 2 * (step * 5 % PAIRS);
            db.run(|tx| {
                let from = if tx.contains(&table, &key)? { key } else { key + 1 };
                // What a closure has read need not have stood together until it is validated. An error is validated.
                if !tx.delete(&table, &from)? {
                    return Err(Error::Misuse("a pair without a row".to_owned()));
                }
                tx.insert(&table, &(from ^ 1), &vec![(step + thread) as u8; LENGTH])
            })?;
        }
        Ok(())
    };
    let check = |rows: Vec<(u64, Vec<u8>)>| {
        let pairs: Vec<u64> = rows.iter().map(|row| row.0 / 2).collect();
        assert!(pairs.iter().copied().eq(0..PAIRS), "each pair has one row: {pairs:?}");
        assert!(rows.iter().all(|row| row.1 == vec![row.1[0]; LENGTH]), "a row is whole");
    };
    std::thread::scope(|scope| {
        let movers = [0, 1].map(|thread| scope.spawn(move || moved(thread)));
        while !movers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let mut held = db.snapshot()?;
            check(db.run(|tx| shown(tx, &table))?);
            check(shown(&mut db.snapshot_latest()?, &table)?);
            check(shown(&mut held, &table)?);
        }
        movers.into_iter().try_for_each(|mover| mover.join().expect("no panic"))
    })
}

/// Tries to delete a row in vain: the commit fails.
fn delete_and_lose(db: &Database, table: &Rows) -> Result<()> {
    let mut loser = db.begin();
    loser.get(table, &0)?;
    loser.delete(table, &1)?;
    db.run(|tx| tx.put(table, &0, &row(2)))?;
    assert!(matches!(loser.submit(), Err(Error::Conflict)));
    Ok(())
}

/// Leaves the placeholder of an insert that loses.
fn insert_and_lose(db: &Database, table: &Rows, key: u64) -> Result<()> {
    let mut loser = db.begin();
    loser.get(table, &0)?;
    loser.insert(table, &key, &row(3))?;
    db.run(|tx| tx.put(table, &0, &row(2)))?;
    assert!(matches!(loser.submit(), Err(Error::Conflict)));
    Ok(())
}

#[test]
fn absent_records_that_a_delete_did_not_need_come_back() -> Result<()> {
    let (driven, table) = filled()?;
    let db = &driven.db;
    let mut chunk_bytes = Vec::new();
    for _ in 0..3 {
        for _ in 0..2_000 {
            delete_and_lose(db, &table)?;
        }
        for _ in 0..200 {
            insert_and_lose(db, &table, ROWS)?;
            // Deletes of what the same transaction inserted, where the placeholder stands.
            for _ in 0..500 {
                db.run(|tx| {
                    tx.insert(&table, &ROWS, &vec![4; 2_000])?;
                    assert!(tx.delete(&table, &ROWS)?);
                    Ok(())
                })?;
            }
            driven.pass_ticks(2 * SECOND);
        }
        chunk_bytes.push(db.stats().memory.chunk_bytes);
    }
    assert_eq!(chunk_bytes[2], chunk_bytes[0], "{chunk_bytes:?}");
    Ok(())
}
