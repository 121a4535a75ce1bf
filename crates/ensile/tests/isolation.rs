//! Anomalies that weaker isolation lets through: each is tried, and refused with a conflict.
//!
//! Neighbours: single threads and open transactions here; the simulator has the schedules of many.

use ensile::prelude::*;

fn open(rows: &[(u32, i64)]) -> Result<(Database, Table<u32, i64>)> {
    let db = Database::in_memory()?;
    let table = db.table("table")?;
    db.run(|tx| rows.iter().try_for_each(|(key, row)| tx.put(&table, key, row)))?;
    Ok((db, table))
}

fn is_conflict(result: Result<Receipt<'_>>) -> bool {
    matches!(result, Err(Error::Conflict))
}

/// Both read 10 and write 10 plus something: one addition would be lost.
#[test]
fn lost_update() -> Result<()> {
    let (db, table) = open(&[(1, 10)])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    one.update(&table, &1, |row| *row += 1)?;
    two.update(&table, &1, |row| *row += 2)?;
    let _receipt = one.commit()?;
    assert!(is_conflict(two.commit()));
    assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(11));
    Ok(())
}

/// Each reads what the other writes: serial, one would have seen the other's zero.
#[test]
fn write_skew() -> Result<()> {
    let (db, table) = open(&[(1, 50), (2, 50)])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    assert_eq!(one.get(&table, &2)?, Some(50));
    assert_eq!(two.get(&table, &1)?, Some(50));
    one.put(&table, &1, &0)?;
    two.put(&table, &2, &0)?;
    let _receipt = one.commit()?;
    assert!(is_conflict(two.commit()));
    Ok(())
}

/// A range was counted, then a row appeared in it.
#[test]
fn phantom() -> Result<()> {
    let (db, table) = open(&[(1, 1), (9, 9)])?;
    let mut counting = db.begin();
    assert_eq!(counting.range(&table, 2..9).count(), 0);
    counting.put(&table, &100, &0)?;
    db.run(|tx| tx.put(&table, &5, &5))?;
    assert!(is_conflict(counting.commit()));
    Ok(())
}

/// A key was found missing, then it appeared.
#[test]
fn a_miss_is_a_read_too() -> Result<()> {
    let (db, table) = open(&[])?;
    let mut looking = db.begin();
    assert_eq!(looking.get(&table, &5)?, None);
    looking.put(&table, &6, &0)?;
    db.run(|tx| tx.put(&table, &5, &5))?;
    assert!(is_conflict(looking.commit()));
    Ok(())
}

/// The row that a scan stopped at changed; rows behind it are nobody's business.
#[test]
fn a_scan_depends_on_no_more_than_it_read() -> Result<()> {
    let rows: Vec<(u32, i64)> = (0..1000).map(|key| (key, 0)).collect();
    let (db, table) = open(&rows)?;
    let mut first = db.begin();
    assert_eq!(first.first(&table, 10..)?, Some((10, 0)));
    first.put(&table, &5000, &0)?;
    db.run(|tx| tx.put(&table, &900, &1))?;
    let _receipt = first.commit()?;
    let mut first = db.begin();
    assert_eq!(first.first(&table, 10..)?, Some((10, 0)));
    first.put(&table, &5000, &0)?;
    db.run(|tx| tx.put(&table, &10, &1))?;
    assert!(is_conflict(first.commit()));
    Ok(())
}

/// An iterator fetches ahead, but a few rows, and fewer when they are large.
#[test]
fn an_iterator_depends_on_no_more_than_it_fetched() -> Result<()> {
    let db = Database::in_memory()?;
    for (name, bytes, far) in [("small", 1, 100), ("large", 200_000, 5)] {
        let table = db.table::<u32, Vec<u8>>(name)?;
        for key in 0..=far {
            db.run(|tx| tx.put(&table, &key, &vec![0; bytes]))?;
        }
        let mut reading = db.begin();
        assert!(reading.range(&table, ..).next().is_some());
        reading.put(&table, &5000, &[])?;
        db.run(|tx| tx.put(&table, &far, &vec![1; bytes]))?;
        let _receipt = reading.commit()?;
    }
    Ok(())
}

/// Two inserts of one key: the second finds it taken when it runs again.
#[test]
fn two_inserts_of_one_key() -> Result<()> {
    let (db, table) = open(&[])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    one.insert(&table, &1, &1)?;
    two.insert(&table, &1, &2)?;
    let _receipt = one.commit()?;
    assert!(two.commit().is_err_and(|error| error.is_retryable()));
    assert!(matches!(db.run(|tx| tx.insert(&table, &1, &2)), Err(Error::KeyExists { .. })));
    Ok(())
}

#[test]
fn blind_writes_do_not_conflict() -> Result<()> {
    let (db, table) = open(&[(1, 0)])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    one.put(&table, &1, &1)?;
    two.put(&table, &1, &2)?;
    let _one = one.commit()?;
    let _two = two.commit()?;
    assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(2));
    Ok(())
}

/// A rollback after an inconsistent read is retried, not shown to the caller.
#[test]
fn a_closure_never_ends_on_what_it_should_not_have_seen() -> Result<()> {
    let (db, table) = open(&[(1, 50), (2, 50)])?;
    let mut attempts = 0;
    let outcome = db.run(|tx| {
        attempts += 1;
        let one = tx.get(&table, &1)?.unwrap_or(0);
        if attempts == 1 {
            db.run(|other| {
                other.put(&table, &1, &0)?;
                other.put(&table, &2, &100)
            })?;
        }
        let two = tx.get(&table, &2)?.unwrap_or(0);
        if one + two == 100 { Ok(one) } else { Err(Error::RolledBack) }
    });
    assert_eq!(outcome?, 0);
    assert_eq!(attempts, 2);
    Ok(())
}

#[test]
fn a_snapshot_stands_still() -> Result<()> {
    let (db, table) = open(&[(1, 1), (2, 2)])?;
    let mut before = db.snapshot_latest()?;
    for round in 0..100 {
        db.run(|tx| {
            tx.put(&table, &1, &(100 + round))?;
            tx.delete(&table, &2)?;
            tx.put(&table, &3, &round)
        })?;
        assert_eq!(before.range(&table, ..).collect::<Result<Vec<_>>>()?, [(1, 1), (2, 2)]);
        assert_eq!(before.get_many(&table, &[1, 2, 3])?, [Some(1), Some(2), None]);
    }
    let mut after = db.snapshot_latest()?;
    assert_eq!(after.range(&table, ..).collect::<Result<Vec<_>>>()?, [(1, 199), (3, 99)]);
    assert!(after.epoch() > before.epoch());
    Ok(())
}
