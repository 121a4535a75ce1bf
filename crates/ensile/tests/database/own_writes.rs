//! A transaction sees what it wrote, in point reads and in scans, and nobody else does before it commits.
//!
//! Neighbours: `secondary_indexes` has the same through an index, `model` at random.

use ensile::prelude::*;

fn open(keys: &[u32]) -> Result<(Database, Table<u32, String>)> {
    let db = Database::in_memory()?;
    let table = db.table("table")?;
    db.run(|tx| keys.iter().try_for_each(|key| tx.put(&table, key, &format!("old {key}"))))?;
    Ok((db, table))
}

fn all(reader: &mut impl Readable, table: &Table<u32, String>) -> Result<Vec<(u32, String)>> {
    let forward = reader.range(table, ..).collect::<Result<Vec<_>>>()?;
    let mut backward = reader.range(table, ..).rev().collect::<Result<Vec<_>>>()?;
    backward.reverse();
    assert_eq!(forward, backward);
    Ok(forward)
}

fn pairs(expected: &[(u32, &str)]) -> Vec<(u32, String)> {
    expected.iter().map(|(key, row)| (*key, (*row).to_string())).collect()
}

#[test]
fn points_show_own_writes() -> Result<()> {
    let (db, table) = open(&[1, 2])?;
    let mut tx = db.begin();
    tx.put(&table, &1, "new")?;
    tx.put(&table, &9, "nine")?;
    assert!(tx.delete(&table, &2)?);
    assert_eq!(tx.get(&table, &1)?.as_deref(), Some("new"));
    assert_eq!(tx.get_many(&table, &[2, 9, 3])?, [None, Some("nine".to_string()), None]);
    assert!(!tx.contains(&table, &2)?);
    assert_eq!(
        db.run(|other| all(other, &table))?,
        pairs(&[(1, "old 1"), (2, "old 2")]),
        "nobody else sees them"
    );
    let _receipt = tx.commit()?;
    assert_eq!(db.run(|other| all(other, &table))?, pairs(&[(1, "new"), (9, "nine")]));
    Ok(())
}

#[test]
fn scans_merge_own_writes() -> Result<()> {
    let (db, table) = open(&[10, 20, 30, 40])?;
    let mut tx = db.begin();
    tx.put(&table, &5, "before")?;
    tx.put(&table, &20, "over")?;
    tx.put(&table, &25, "between")?;
    tx.delete(&table, &30)?;
    tx.put(&table, &45, "behind")?;
    let expected =
        [(5, "before"), (10, "old 10"), (20, "over"), (25, "between"), (40, "old 40"), (45, "behind")];
    assert_eq!(all(&mut tx, &table)?, pairs(&expected));
    let within: Vec<u32> = tx.range(&table, 20..45).map(|row| row.map(|row| row.0)).collect::<Result<_>>()?;
    assert_eq!(within, [20, 25, 40]);
    assert_eq!(tx.first(&table, 21..)?, Some((25, "between".to_string())));
    assert_eq!(tx.last(&table, ..40)?, Some((25, "between".to_string())));
    tx.delete(&table, &5)?;
    tx.delete(&table, &10)?;
    assert_eq!(tx.first(&table, ..)?.map(|row| row.0), Some(20));
    let _receipt = tx.commit()?;
    let expected = [(20, "over"), (25, "between"), (40, "old 40"), (45, "behind")];
    assert_eq!(db.run(|tx| all(tx, &table))?, pairs(&expected));
    Ok(())
}

/// There are enough own writes that the iterator meets some in every batch.
#[test]
fn long_scans_merge_own_writes() -> Result<()> {
    let even: Vec<u32> = (0..1000).map(|n| 2 * n).collect();
    let (db, table) = open(&even)?;
    let mut tx = db.begin();
    for number in 0..2000 {
        match number % 4 {
            1 => tx.put(&table, &number, "odd")?,
            2 => assert!(tx.delete(&table, &number)?),
            _ => {}
        }
    }
    let found: Vec<u32> = all(&mut tx, &table)?.into_iter().map(|row| row.0).collect();
    assert!(found.iter().copied().eq((0..2000).filter(|number| number % 4 < 2)));
    tx.rollback();
    assert_eq!(db.run(|tx| all(tx, &table))?.len(), 1000, "nothing of it was written");
    Ok(())
}

#[test]
fn insert_update_and_delete_build_on_own_writes() -> Result<()> {
    let (db, table) = open(&[1])?;
    db.run(|tx| {
        assert!(matches!(tx.insert(&table, &1, "again"), Err(Error::KeyExists { .. })));
        tx.insert(&table, &2, "two")?;
        assert!(matches!(tx.insert(&table, &2, "twice"), Err(Error::KeyExists { .. })));
        assert!(tx.update(&table, &2, |row| row.push_str(" and more"))?);
        assert!(tx.update(&table, &2, |row| row.insert_str(0, "twenty-"))?);
        assert!(!tx.update(&table, &3, |_row| unreachable!("there is no such row"))?);
        assert!(tx.delete(&table, &1)?);
        assert!(!tx.delete(&table, &1)?);
        assert!(!tx.update(&table, &1, |_row| unreachable!("it was deleted"))?);
        tx.insert(&table, &1, "one")
    })?;
    assert_eq!(db.run(|tx| all(tx, &table))?, pairs(&[(1, "one"), (2, "twenty-two and more")]));
    Ok(())
}

#[test]
fn a_closure_that_fails_writes_nothing() -> Result<()> {
    let (db, table) = open(&[1])?;
    let failed = db.run(|tx| {
        tx.put(&table, &1, "lost")?;
        tx.put(&table, &2, "lost")?;
        Err::<(), _>(Error::Misuse("given up".to_owned()))
    });
    assert!(matches!(failed, Err(Error::Misuse(_))));
    drop({
        let mut tx = db.begin();
        tx.put(&table, &3, "lost")?;
        tx
    });
    assert_eq!(db.run(|tx| all(tx, &table))?, pairs(&[(1, "old 1")]));
    Ok(())
}
