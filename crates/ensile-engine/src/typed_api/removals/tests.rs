//! Rows removed in key order, and reads of the transaction that has removed them.

use std::ops::ControlFlow;

use ensile_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

use super::*;
use crate::receipt::RangeDeletion;
use crate::{Database, Error, Readable, Result, Table};

fn filled(keys: impl Iterator<Item = u64>) -> Result<(Database, Table<u64, u64>)> {
    let mut keys = keys;
    let db = Database::in_memory()?;
    let table = db.table("rows")?;
    db.run(|tx| keys.try_for_each(|key| tx.put(&table, &key, &(2 * key))))?;
    Ok((db, table))
}

#[test]
fn a_transaction_empties_a_queue_from_both_ends_and_reads_each_row_a_few_times() -> Result<()> {
    const ROWS: u64 = 3000;
    let (db, queue) = filled(0..ROWS)?;
    let mut tx = db.begin();
    for at in 0..ROWS / 2 {
        assert_eq!(tx.pop_first(&queue, ..)?, Some((at, 2 * at)));
        let last = ROWS - 1 - at;
        assert_eq!(tx.pop_last(&queue, ..)?, Some((last, 2 * last)));
    }
    assert_eq!((tx.pop_first(&queue, ..)?, tx.pop_last(&queue, ..)?), (None, None));
    assert!(tx.reads() <= 3 * ROWS as usize, "{} reads", tx.reads());
    let _ = tx.commit()?;
    assert_eq!(db.run(|tx| tx.first(&queue, ..))?, None);
    Ok(())
}

#[test]
fn a_scan_behind_own_deletes_is_as_short_for_each_operation() -> Result<()> {
    let (db, table) = filled(0..2000)?;
    let mut tx = db.begin();
    for key in (0..900).chain(1100..2000) {
        assert!(tx.delete(&table, &key)?);
    }
    for read in 0..6 {
        let mut found = || {
            Ok::<_, Error>(match read {
                0 => tx.first(&table, ..)?,
                1 => tx.last(&table, ..)?,
                2 => tx.range(&table, ..).next().transpose()?,
                3 => tx.range(&table, ..).next_back().transpose()?,
                4 | 5 => {
                    let mut shown = None;
                    let show = |key, value: &u64| {
                        shown = Some((key, *value));
                        ControlFlow::Break(())
                    };
                    if read == 4 {
                        tx.scan(&table, .., show)?
                    } else {
                        tx.scan_reverse(&table, .., show)?
                    }
                    shown
                }
                _ => None,
            })
        };
        let expected = if read % 2 == 0 { (900, 1800) } else { (1099, 2198) };
        assert_eq!(found()?, Some(expected));
        let again = (0..5).map(|_| found()).collect::<Result<Vec<_>>>()?;
        assert_eq!(again, [Some(expected); 5]);
        let leaves = tx.leaves();
        assert!(leaves < 2 * 2000 / 7 + 15 * (read + 1), "{leaves} leaves: some were visited again");
    }
    Ok(())
}

#[test]
fn own_puts_among_own_deletes_are_shown() -> Result<()> {
    let (db, table) = filled(0..100)?;
    db.run(|tx| {
        assert_eq!(tx.delete_range(&table, ..90)?, RangeDeletion { rows: 90, stopped_at: None });
        assert_eq!(tx.first(&table, ..)?, Some((90, 180)));
        tx.put(&table, &50, &1)?;
        assert_eq!(tx.first(&table, ..)?, Some((50, 1)));
        assert_eq!(tx.first(&table, 51..)?, Some((90, 180)));
        assert_eq!(tx.pop_first(&table, ..)?, Some((50, 1)));
        assert_eq!(tx.first(&table, ..)?, Some((90, 180)));
        assert_eq!(tx.last(&table, ..90)?, None);
        tx.insert(&table, &3, &3)?;
        assert_eq!(tx.last(&table, ..90)?, Some((3, 3)));
        Ok(())
    })
}

#[test]
fn a_row_of_another_transaction_among_own_deletes_is_a_conflict() -> Result<()> {
    for others_key in [7, 91] {
        let (db, table) = filled((0..100).step_by(2))?;
        let mut tx = db.begin();
        tx.delete_range(&table, ..90)?;
        assert_eq!(tx.first(&table, ..)?, Some((90, 180)));
        db.run(|other| other.put(&table, &others_key, &1))?;
        assert_eq!(tx.first(&table, ..)?, Some((90, 180)), "a dead range is not walked again");
        assert!(matches!(tx.commit(), Err(Error::Conflict)), "C4: {others_key}");
    }
    Ok(())
}

#[test]
fn rows_of_an_index_are_removed_in_its_order() -> Result<()> {
    let db = Database::in_memory()?;
    let tasks = db.define::<u64, u32>("tasks").index("by_priority", 1, |_task, priority| *priority).open()?;
    let by_priority = tasks.index::<u32>("by_priority")?;
    db.run(|tx| [(1, 5), (2, 3), (3, 9), (4, 3)].iter().try_for_each(|(task, of)| tx.put(&tasks, task, of)))?;
    let taken = db.run(|tx| Ok([tx.pop_first(&by_priority, ..)?, tx.pop_last(&by_priority, ..)?]))?;
    assert_eq!(taken, [Some((2, 3)), Some((3, 9))]);
    let left = db.run(|tx| tx.range(&by_priority, ..).collect::<Result<Vec<_>>>())?;
    assert_eq!(left, [(4, 3), (1, 5)]);
    Ok(())
}

#[test]
fn a_range_that_a_transaction_cannot_delete_is_deleted_in_parts() -> Result<()> {
    const ROWS: u64 = 4000;
    let db = Database::in_memory()?;
    let (rows, fill) = (db.table::<Vec<u8>, u8>("rows")?, db.table::<u64, Vec<u8>>("fill")?);
    let key = |number: u64| [&number.to_be_bytes()[..], &[0; KEY_BYTES_MAX / 4]].concat();
    db.run(|tx| (0..ROWS).try_for_each(|number| tx.put(&rows, &key(number), &1)))?;
    let part = |from: Bound<Vec<u8>>| {
        db.run(|tx| {
            // Leaves room for some of the deletes.
            (0..15).try_for_each(|at| tx.put(&fill, &at, &vec![0; VALUE_BYTES_MAX]))?;
            tx.put(&fill, &15, &vec![0; VALUE_BYTES_MAX / 2])?;
            tx.delete_range(&rows, (from.clone(), Bound::Unbounded))
        })
    };
    let first = part(Bound::Unbounded)?;
    assert!(first.rows > 1000 && first.rows < ROWS, "{}", first.rows);
    assert_eq!(first.stopped_at, Some(key(first.rows - 1)));
    let (mut deleted, mut stopped_at) = (first.rows, first.stopped_at);
    while let Some(key) = stopped_at {
        let next = part(Bound::Excluded(key))?;
        (deleted, stopped_at) = (deleted + next.rows, next.stopped_at);
    }
    assert_eq!(deleted, ROWS);
    assert_eq!(db.run(|tx| Ok(tx.range(&rows, ..).count()))?, 0);
    Ok(())
}
