//! Anomalies of writes: dirty write, dirty read, intermediate read, circular information flow, lost update.
//!
//! Neighbours: `main` says how to read the drawings.

use ensile::prelude::*;

use super::{is_conflict, open, rows};

/// ```text
/// one    put x=1                      put y=1  commit
/// two             put x=2  put y=2  commit
/// ```
/// Writes are private until commit, which installs all of them under locks: nobody can write over half of a
/// transaction. The engine refuses nothing, since neither read anything: the transactions stand in the order of their
/// commits.
#[test]
fn dirty_write() -> Result<()> {
    let (db, table) = open(&[(1, 0), (2, 0)])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    one.put(&table, &1, &1)?;
    two.put(&table, &1, &2)?;
    two.put(&table, &2, &2)?;
    let _two = two.commit()?;
    assert_eq!(rows(&db, &table)?, [(1, 2), (2, 2)], "all of two, nothing of one");
    one.put(&table, &2, &1)?;
    let _one = one.commit()?;
    assert_eq!(rows(&db, &table)?, [(1, 1), (2, 1)], "then all of one");
    Ok(())
}

/// ```text
/// one    put x=1                     rollback
/// two             put x=2  commit
/// ```
/// A rollback forgets private writes and puts nothing back, so it cannot take away what another committed meanwhile.
/// The engine refuses nothing.
#[test]
fn dirty_write_that_is_rolled_back() -> Result<()> {
    let (db, table) = open(&[(1, 0)])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    one.put(&table, &1, &1)?;
    two.put(&table, &1, &2)?;
    let _two = two.commit()?;
    one.rollback();
    assert_eq!(rows(&db, &table)?, [(1, 2)]);
    Ok(())
}

/// ```text
/// one    put x=1            rollback
/// two             get x=0             put y  commit
/// ```
/// What a transaction wrote is in no record before it commits, so there is nothing dirty to read (`G1a`).
/// The engine answers with the committed value, and lets two commit, as nothing that it read has changed.
#[test]
fn dirty_read() -> Result<()> {
    let (db, table) = open(&[(1, 0)])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    one.put(&table, &1, &1)?;
    assert_eq!(two.get(&table, &1)?, Some(0));
    assert_eq!(two.range(&table, ..).collect::<Result<Vec<_>>>()?, [(1, 0)], "nor by a scan");
    one.rollback();
    two.put(&table, &2, &0)?;
    let _receipt = two.commit()?;
    assert_eq!(rows(&db, &table)?, [(1, 0), (2, 0)]);
    Ok(())
}

/// ```text
/// one    put x=1            put x=2  commit
/// two             get x=0                    put y=x  commit!
/// ```
/// Only the last value that a transaction gave a row is installed, so nobody reads an earlier one (`G1b`).
/// two read what one then replaced: its commit fails with `Conflict`, and run again it reads one's last value.
#[test]
fn intermediate_read() -> Result<()> {
    let (db, table) = open(&[(1, 0)])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    one.put(&table, &1, &1)?;
    let seen = two.get(&table, &1)?.unwrap_or(-1);
    assert_eq!(seen, 0);
    one.put(&table, &1, &2)?;
    let _one = one.commit()?;
    two.put(&table, &2, &seen)?;
    assert!(is_conflict(two.commit()));
    db.run(|tx| {
        let seen = tx.get(&table, &1)?.unwrap_or(-1);
        tx.put(&table, &2, &seen)
    })?;
    assert_eq!(rows(&db, &table)?, [(1, 2), (2, 2)]);
    Ok(())
}

/// ```text
/// one    put x=1           get y=0            commit
/// two             put y=2            get x=0          commit!
/// ```
/// Neither sees the other's write before it commits, so information cannot go around in a circle (`G1c`).
/// two's commit fails with `Conflict`, since one changed the x that it read; run again, two reads one's x.
#[test]
fn circular_information_flow() -> Result<()> {
    let (db, table) = open(&[(1, 0), (2, 0)])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    one.put(&table, &1, &1)?;
    two.put(&table, &2, &2)?;
    assert_eq!(one.get(&table, &2)?, Some(0));
    assert_eq!(two.get(&table, &1)?, Some(0));
    let _one = one.commit()?;
    assert!(is_conflict(two.commit()));
    let seen = db.run(|tx| {
        tx.put(&table, &2, &2)?;
        tx.get(&table, &1)
    })?;
    assert_eq!(seen, Some(1));
    Ok(())
}

/// ```text
/// one    get x=10            put x=11  commit
/// two              get x=10                    put x=12  commit!
/// ```
/// A commit locks what it writes and then checks that everything it read is as it was, so the second addition cannot
/// rest on the value before the first. two's commit fails with `Conflict`; run again, it adds to what one left.
#[test]
fn lost_update() -> Result<()> {
    let (db, table) = open(&[(1, 10)])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    one.update(&table, &1, |row| *row += 1)?;
    two.update(&table, &1, |row| *row += 2)?;
    let _one = one.commit()?;
    assert!(is_conflict(two.commit()));
    assert_eq!(rows(&db, &table)?, [(1, 11)], "nothing of two");
    db.run(|tx| tx.update(&table, &1, |row| *row += 2))?;
    assert_eq!(rows(&db, &table)?, [(1, 13)]);
    Ok(())
}

/// ```text
/// one    insert x=1            commit
/// two                insert x=2          commit!
/// ```
/// Whether the key is free is checked again under its record's lock, so only one insert can find it so.
/// two's commit fails with `Conflict`; run again, its `insert` fails with `KeyExists`, which is not retryable.
#[test]
fn two_inserts_of_one_key() -> Result<()> {
    let (db, table) = open(&[])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    one.insert(&table, &1, &1)?;
    two.insert(&table, &1, &2)?;
    let _one = one.commit()?;
    assert!(is_conflict(two.commit()));
    let again = db.run(|tx| tx.insert(&table, &1, &2));
    assert!(again.is_err_and(|error| matches!(error, Error::KeyExists { .. }) && !error.is_retryable()));
    Ok(())
}
