//! A crash, or a close, on a full disk: the next open goes on, and where nothing at all is free it can be read.

use ensile_base::limits::RESERVE_BYTES;
use ensile_disk::Disk;
use ensile_engine::codec::{CodecError, ValueBuffer};

use crate::prelude::*;

const ROWS: u64 = 100;

fn builder(disk: &SimDisk) -> Builder {
    builder_with(disk, 1 << 20)
}

fn builder_with(disk: &SimDisk, log_file_bytes: u64) -> Builder {
    let builder = Database::builder("unused").disk(Arc::new(disk.mounted()));
    builder.checkpoints(Schedule::on_demand()).tuning(Tuning { log_file_bytes, ..Tuning::default() })
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

/// A disk that overwrites in place, and one that needs space to overwrite.
fn disks() -> [SimDisk; 2] {
    let copying = SimDisk::new();
    copying.set_copies_on_write(true);
    [SimDisk::new(), copying]
}

/// Takes all space that is left.
fn fill_up(disk: &SimDisk) {
    disk.set_capacity(Some(disk.used_bytes()));
}

#[test]
fn a_crash_on_a_full_disk_opens_again_and_again() -> Result<()> {
    for disk in disks() {
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
        db.close()?;
    }
    Ok(())
}

/// The log has taken all space to the last bytes, so nothing that is void is as large as the next life's files.
#[test]
fn a_crash_of_a_log_that_filled_its_disk_opens_with_the_reserve() -> Result<()> {
    for disk in disks() {
        let full_disk_wait = Duration::from_millis(20);
        let tuning = Tuning { log_file_bytes: 8 << 10, full_disk_wait, ..Tuning::default() };
        let db = builder_with(&disk, 8 << 10).tuning(tuning).open()?;
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
            let db = builder_with(&disk, bytes).open()?;
            assert!(db.health().is_well(), "{bytes}: {:?}", db.health());
            assert!(rows(&db)? as u64 >= ROWS + written);
            disk.kill();
        }
    }
    Ok(())
}

#[test]
fn a_close_on_a_full_disk_keeps_what_was_committed() -> Result<()> {
    for disk in disks() {
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
        db.close()?;
    }
    Ok(())
}

/// Nothing is free, nothing is void, and somebody has removed the reserve.
#[test]
fn a_disk_without_any_space_is_opened_to_be_read() -> Result<()> {
    for disk in disks() {
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
        db.close()?;
    }
    Ok(())
}

/// Rows with fields, as a program before the fields stored them if `STATES` is false.
struct Pair<const STATES: bool>(u64, u64);

impl<const STATES: bool> Value for Pair<STATES> {
    fn encode(&self, out: &mut ValueBuffer<'_>) {
        (self.0, self.1).encode(out);
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, CodecError> {
        Value::decode(bytes).map(|(one, two)| Self(one, two))
    }

    fn type_name() -> String {
        "pair".to_owned()
    }

    fn layout() -> Option<String> {
        STATES.then(|| "{one:u64,two:u64}".to_owned())
    }
}

#[test]
fn x2_a_table_without_fields_is_read_where_nothing_can_be_written_and_gets_them_later() -> Result<()> {
    let disk = SimDisk::new();
    let db = builder(&disk).open()?;
    let pairs = db.table::<u64, Pair<false>>("pairs")?;
    db.run(|tx| tx.put(&pairs, &1, &Pair(2, 3)))?;
    db.close()?;
    drop((pairs, db));
    disk.remove("RESERVE").expect("it is kept");
    disk.sync_folder("").expect("syncs");
    disk.set_capacity(Some(disk.used_bytes()));
    disk.kill();
    let has_fields = || {
        let log = disk.files().into_iter().rfind(|file| file.starts_with("log0/log-")).expect("a log");
        disk.bytes(&log).windows(5).any(|bytes| bytes == b"{one:")
    };
    let db = builder(&disk).open()?;
    assert!(db.health().read_only.is_some());
    let pairs = db.table::<u64, Pair<true>>("pairs")?;
    assert_eq!(db.run(|tx| tx.get(&pairs, &1))?.map(|pair| pair.1), Some(3));
    db.close()?;
    drop((pairs, db));
    assert!(!has_fields());
    disk.set_capacity(None);
    let db = builder(&disk).open()?;
    db.table::<u64, Pair<true>>("pairs")?;
    db.close()?;
    assert!(has_fields());
    Ok(())
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

/// A file system that copies on write, without any space: nothing can be written again, so what only the cache may have
/// is told apart.
#[test]
fn what_a_full_disk_cannot_write_again_is_shown_and_not_called_durable() -> Result<()> {
    let disk = SimDisk::new();
    disk.set_copies_on_write(true);
    let db = builder(&disk).durability(Durability::Relaxed).open()?;
    fill(&db)?;
    let rows_of = table(&db)?;
    let early = db.submit(|tx| tx.put(&rows_of, &1000, &vec![1; 10]))?.1;
    early.durable()?;
    let proof = db.submit(|tx| tx.put(&rows_of, &1001, &vec![1; 10]))?.1;
    proof.durable()?;
    // Its mark is the last, and no block behind it shows that it was synced.
    let last = db.submit(|tx| tx.put(&rows_of, &1002, &vec![1; 10]))?.1;
    last.durable()?;
    let (early, last) = (early.epoch(), last.epoch());
    disk.kill();
    drop((rows_of, db));
    disk.remove("RESERVE").expect("it is kept");
    disk.lose("HINT");
    // Others have taken what the log's unused space gives back.
    disk.set_capacity(Some(0));
    let db = builder(&disk).open()?;
    assert!(db.health().read_only.is_some(), "{:?}", db.health());
    let rows_of = table(&db)?;
    assert!(db.durable_epoch() >= early && db.durable_epoch() < last, "{}", db.durable_epoch());
    assert!(db.run(|tx| tx.get(&rows_of, &1000))?.is_some(), "what is proven is read at once");
    let unproven = db.run(|tx| tx.get(&rows_of, &1002));
    let Err(Error::Storage(error)) = unproven else { panic!("{unproven:?}") };
    assert!(matches!(error.cause(), DurabilityError::NotProven { .. }), "{error}");
    assert!(error.to_string().contains("open the database again"), "{error}");
    let (value, receipt) = db.submit(|tx| tx.get(&rows_of, &1002))?;
    assert!(value.is_some() && receipt.epoch() == last && !receipt.is_durable());
    let mut later = receipt.durable_async();
    let answer = std::pin::pin!(&mut later).poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Err(unproven)) = answer else { panic!("{answer:?}") };
    assert!(matches!(cause(&unproven), Some(DurabilityError::NotProven { .. })), "{unproven}");
    let mut snapshot = db.snapshot_latest()?;
    assert!(snapshot.get(&rows_of, &1000)?.is_some());
    snapshot.durable()?;
    assert!(snapshot.get(&rows_of, &1002)?.is_some());
    assert!(snapshot.durable().is_err());
    drop(snapshot);
    db.close()?;
    drop((rows_of, db));
    disk.set_capacity(None);
    let db = builder(&disk).open()?;
    assert!(db.durable_epoch() >= last, "it was written again");
    assert_eq!(rows(&db)? as u64, ROWS + 3);
    db.close()
}

/// Such a life gives its receipts the epochs of what it read, and reserves none: they must not come again (L6).
#[test]
fn l6_no_receipt_of_a_life_that_only_reads_has_an_epoch_of_a_later_life() -> Result<()> {
    for disk in disks() {
        fill(&builder(&disk).open()?)?;
        disk.kill();
        disk.remove("RESERVE").expect("it is kept");
        fill_up(&disk);
        let db = builder(&disk).open()?;
        assert!(db.health().read_only.is_some());
        let rows_of = table(&db)?;
        let mut shown = Vec::new();
        for _ in 0..20 {
            // E goes on meanwhile.
            drop(db.snapshot_latest()?);
            shown.push(db.submit(|tx| Ok(tx.range(&rows_of, ..).count()))?.1.epoch());
            shown.push(db.submit(|tx| tx.get(&rows_of, &(2 * ROWS)))?.1.epoch());
            let mut snapshot = db.snapshot_latest()?;
            assert_eq!(snapshot.range(&rows_of, ..).count() as u64, ROWS);
            shown.push(snapshot.shown_epoch());
        }
        let durable = db.recovery_report().expect("it has a folder").durable_epoch;
        let last = shown.into_iter().max().expect("some");
        assert!(last <= durable && durable < db.epoch(), "{last}, {durable}, {}", db.epoch());
        db.close()?;
        drop((rows_of, db));
        disk.set_capacity(None);
        let db = builder(&disk).open()?;
        assert!(last < db.recovery_report().expect("it has a folder").first_epoch);
        db.close()?;
    }
    Ok(())
}

#[test]
fn a_new_database_on_a_full_disk_says_what_to_do_and_opens_once_there_is_space() -> Result<()> {
    // Without any, without a log's, and nearly enough.
    for bytes in [0, 600, 1200, 2000] {
        let disk = SimDisk::new();
        disk.set_capacity(Some(bytes));
        match builder(&disk).open() {
            Ok(db) => db.close()?,
            Err(Error::Storage(error)) => {
                assert!(matches!(error.cause(), DurabilityError::NoRoomToOpen(_)), "{error}");
                assert!(error.to_string().contains("free some space and open again"), "{error}");
            }
            Err(error) => panic!("{bytes}: {error}"),
        }
        disk.set_capacity(None);
        let db = builder(&disk).open()?;
        fill(&db)?;
        db.close()?;
    }
    Ok(())
}
