//! Batches: every request is its own transaction, in order, whatever is announced.
//!
//! Neighbours: `Database::run_batch` and `Touch::key`; `isolation` has transactions one at a time.

use ensile::prelude::*;

#[test]
fn each_request_sees_those_before_it() -> Result<()> {
    let db = Database::in_memory()?;
    let counters = db.table::<u64, u64>("counters")?;
    let requests: Vec<u64> = (0..200).map(|at| at % 7).collect();
    let results = db.run_batch(
        &requests,
        |key, touch| touch.key(&counters, key),
        |tx, key| {
            let count = tx.get(&counters, key)?.unwrap_or(0);
            tx.put(&counters, key, &(count + 1))?;
            Ok(count)
        },
    );
    let mut last = None;
    for (result, at) in results.into_iter().zip(0..) {
        let (count, receipt) = result?;
        assert_eq!(count, at / 7);
        assert!(last < Some(receipt.tid()) || at % 7 != 0);
        last = Some(receipt.tid());
    }
    Ok(())
}

#[test]
fn a_request_that_fails_fails_alone() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<String, u64>("table")?;
    let requests = ["a", "b", "a", "c"];
    let results = db.run_batch(
        &requests,
        |key, touch| touch.key(&table, *key),
        |tx, key| {
            tx.put(&table, "last", &0)?;
            tx.insert(&table, *key, &1)
        },
    );
    let taken: Vec<bool> =
        results.iter().map(|result| matches!(result, Err(Error::KeyExists { .. }))).collect();
    assert_eq!(taken, [false, false, true, false]);
    assert_eq!(db.run(|tx| Ok(tx.range(&table, ..).count()))?, 4);
    Ok(())
}

#[test]
fn what_is_announced_need_not_be_true() -> Result<()> {
    let db = Database::in_memory()?;
    let other = Database::in_memory()?.table::<u64, u64>("table")?;
    let table = db.table::<u64, u64>("table")?;
    let words = db.table::<String, u64>("words")?;
    db.run(|tx| (0..100).try_for_each(|key| tx.put(&table, &key, &(key * key))))?;
    let requests: Vec<u64> = (0..100).rev().collect();
    let results = db.run_batch(
        &requests,
        |key, touch| {
            touch.key(&table, &(99 - key));
            touch.key(&words, "not there");
            touch.key(&other, key);
            if key % 2 == 0 {
                touch.key(&table, key);
                touch.key(&table, key);
            }
        },
        |tx, key| {
            let row = tx.get(&table, key)?;
            tx.delete(&table, &(99 - key))?;
            Ok(row)
        },
    );
    let rows =
        results.into_iter().map(|result| result.map(|(row, _receipt)| row)).collect::<Result<Vec<_>>>()?;
    for (key, row) in requests.iter().zip(rows) {
        assert_eq!(row, (*key >= 50).then_some(key * key), "key {key}: earlier requests delete from below");
    }
    Ok(())
}
