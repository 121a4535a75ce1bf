//! How little a transaction depends on: what it read, and nothing beside it; a snapshot, on nothing at all.
//!
//! Neighbours: the other files show what is refused; here is what is not.

use ensile::prelude::*;

use super::{is_conflict, open};

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
