//! Anomalies of reads: non-repeatable read, read skew; what a closure and a snapshot see of them.
//!
//! Neighbours: `main` says how to read the drawings; `skews` has those where both sides write.

use ensile::prelude::*;

use super::{is_conflict, open};

/// ```text
/// one    get x=1                     get x=2  commit!
/// two             put x=2  commit
/// ```
/// Reads are optimistic: nothing keeps two out, and one's second look shows two's value; but both looks are in one's
/// read-set, and commit checks both. one's commit fails with `Conflict`; run again, both looks agree.
#[test]
fn non_repeatable_read() -> Result<()> {
    let (db, table) = open(&[(1, 1)])?;
    let mut one = db.begin();
    assert_eq!(one.get(&table, &1)?, Some(1));
    db.run(|tx| tx.put(&table, &1, &2))?;
    assert_eq!(one.get(&table, &1)?, Some(2), "open transactions read the newest value");
    assert!(is_conflict(one.commit()));
    let twice = db.run(|tx| Ok((tx.get(&table, &1)?, tx.get(&table, &1)?)))?;
    assert_eq!(twice, (Some(2), Some(2)));
    Ok(())
}

/// ```text
/// one    get x=50                               get y=100  commit!
/// two              put x=0  put y=100  commit
/// ```
/// A commit that writes nothing checks its reads too, after a fence and without a lock, so x and y must have stood
/// together. one's commit fails with `Conflict`; run again, it reads both as two left them.
#[test]
fn read_skew() -> Result<()> {
    let (db, table) = open(&[(1, 50), (2, 50)])?;
    let mut one = db.begin();
    assert_eq!(one.get(&table, &1)?, Some(50));
    db.run(|tx| {
        tx.put(&table, &1, &0)?;
        tx.put(&table, &2, &100)
    })?;
    assert_eq!(one.get(&table, &2)?, Some(100), "a sum of 150 that never was");
    assert!(is_conflict(one.commit()));
    let both = db.run(|tx| tx.get_many(&table, &[1, 2]))?;
    assert_eq!(both, [Some(0), Some(100)]);
    Ok(())
}

/// ```text
/// one    get x=50                               get y=50
/// two              put x=0  put y=100  commit
/// ```
/// A snapshot reads the versions of one boundary between epochs, which commits keep for it. The engine refuses nothing:
/// a snapshot never conflicts, and shows either all of two or, as here, nothing.
#[test]
fn read_skew_in_a_snapshot() -> Result<()> {
    let (db, table) = open(&[(1, 50), (2, 50)])?;
    let mut one = db.snapshot_latest()?;
    assert_eq!(one.get(&table, &1)?, Some(50));
    db.run(|tx| {
        tx.put(&table, &1, &0)?;
        tx.put(&table, &2, &100)
    })?;
    assert_eq!(one.get(&table, &2)?, Some(50));
    assert_eq!(db.snapshot_latest()?.get_many(&table, &[1, 2])?, [Some(0), Some(100)]);
    Ok(())
}

/// ```text
/// one    get x=50                               get y=100  rolls back: "x + y is not 100"!
/// two              put x=0  put y=100  commit
/// ```
/// What a closure returns, an error too, is handed on only when its reads stood together, so a decision on a state
/// that never was is not shown. The engine drops the error and runs the closure again, which then sees two's state.
#[test]
fn an_error_that_rests_on_read_skew_is_never_returned() -> Result<()> {
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
        if one + two == 100 { Ok(one) } else { Err(Error::Misuse("given up".to_owned())) }
    });
    assert_eq!(outcome?, 0);
    assert_eq!(attempts, 2);
    Ok(())
}

/// ```text
/// one    put x=2  commit
/// two                     get x=2
/// ```
/// A transaction that begins after another's commit returned reads the records that it installed: the serial order
/// agrees with time (strict serializability). The engine refuses nothing; only `snapshot` may show the moment before.
#[test]
fn stale_read() -> Result<()> {
    let (db, table) = open(&[(1, 1)])?;
    for value in 2..200 {
        db.run(|tx| tx.put(&table, &1, &value))?;
        assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(value));
        let old = db.snapshot()?.get(&table, &1)?;
        assert!(old.is_none_or(|old| old <= value), "a snapshot may be old and is never ahead");
    }
    assert_eq!(db.snapshot_latest()?.get(&table, &1)?, Some(199));
    Ok(())
}
