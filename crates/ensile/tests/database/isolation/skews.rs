//! Anomalies that snapshot isolation lets through: write skew, and the read-only transaction anomaly.
//!
//! Neighbours: `main` says how to read the drawings; `phantoms` has write skew over a range.

use ensile::prelude::*;

use super::{Rows, is_conflict, open, rows};

/// ```text
/// one    get x=50  get y=50                      put x=-40  commit
/// two                        get x=50  get y=50                     put y=-40  commit!
/// ```
/// Each may draw on the other's balance as long as the sum allows it; both reads are checked after the own lock is
/// taken, so of two that read what the other writes the later one sees it. two's commit fails with `Conflict`; run
/// again, it finds too little and leaves y alone.
#[test]
fn write_skew() -> Result<()> {
    fn withdraw(tx: &mut Transaction<'_>, table: &Rows, from: u32) -> Result<()> {
        let sum: i64 = tx.get_many(table, &[1, 2])?.into_iter().flatten().sum();
        if sum >= 90 {
            tx.update(table, &from, |balance| *balance -= 90)?;
        }
        Ok(())
    }
    let (db, table) = open(&[(1, 50), (2, 50)])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    withdraw(&mut one, &table, 1)?;
    withdraw(&mut two, &table, 2)?;
    let _one = one.commit()?;
    assert!(is_conflict(two.commit()));
    db.run(|tx| withdraw(tx, &table, 2))?;
    assert_eq!(rows(&db, &table)?, [(1, -40), (2, 50)]);
    Ok(())
}

/// What the withdrawal of the read-only anomaly does: 10 from checking, and 1 more if that overdraws both accounts.
fn withdraw_ten(tx: &mut Transaction<'_>, table: &Rows) -> Result<()> {
    let (checking, savings) = (tx.get(table, &1)?.unwrap_or(0), tx.get(table, &2)?.unwrap_or(0));
    let fee = i64::from(checking + savings < 10);
    tx.put(table, &1, &(checking - 10 - fee))
}

/// ```text
/// one                            put savings=20  commit
/// two    get both=0,0                                                     put checking=-11  commit!
/// three                                                   get both=0,20  commit
/// ```
/// Once three has shown the deposit without a fee, the withdrawal must come after the deposit and cost none (Fekete et
/// al. 2004). two read the savings that one replaced, so its commit fails with `Conflict`; run again, it takes no fee.
#[test]
fn read_only_transaction_anomaly() -> Result<()> {
    let (db, table) = open(&[(1, 0), (2, 0)])?;
    let mut two = db.begin();
    withdraw_ten(&mut two, &table)?;
    db.run(|tx| tx.put(&table, &2, &20))?;
    let mut three = db.begin();
    assert_eq!(three.get_many(&table, &[1, 2])?, [Some(0), Some(20)]);
    let _three = three.commit()?;
    assert!(is_conflict(two.commit()));
    db.run(|tx| withdraw_ten(tx, &table))?;
    assert_eq!(rows(&db, &table)?, [(1, -10), (2, 20)]);
    Ok(())
}

/// As [`read_only_transaction_anomaly`], with a snapshot as three: it never conflicts and fails nobody, and what it
/// shows is the state between two commits of the serial order all the same. two's commit fails with `Conflict`, as
/// before.
#[test]
fn read_only_transaction_anomaly_with_a_snapshot() -> Result<()> {
    let (db, table) = open(&[(1, 0), (2, 0)])?;
    let mut two = db.begin();
    withdraw_ten(&mut two, &table)?;
    db.run(|tx| tx.put(&table, &2, &20))?;
    let mut three = db.snapshot_latest()?;
    assert_eq!(three.get_many(&table, &[1, 2])?, [Some(0), Some(20)]);
    assert!(is_conflict(two.commit()));
    db.run(|tx| withdraw_ten(tx, &table))?;
    assert_eq!(three.get_many(&table, &[1, 2])?, [Some(0), Some(20)], "it stands still");
    assert_eq!(rows(&db, &table)?, [(1, -10), (2, 20)]);
    Ok(())
}
