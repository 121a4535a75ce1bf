//! Batches: every request is its own transaction, in order, whatever is announced.
//!
//! Neighbours: `Database::run_batch` and `Prefetch::key`; `isolation` has transactions one at a time.

use ensile::prelude::*;

#[test]
fn each_request_sees_those_before_it() -> Result<()> {
    let db = Database::in_memory()?;
    let counters = db.table::<u64, u64>("counters")?;
    let requests: Vec<u64> = (0..200).map(|at| at % 7).collect();
    let results = db.run_batch(
        &requests,
        |key, prefetch| prefetch.key(&counters, key),
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
        |key, prefetch| prefetch.key(&table, *key),
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
fn a_request_that_panics_fails_alone_and_the_others_have_their_results() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("table")?;
    let requests: Vec<u64> = (0..100).collect();
    let results = db.run_batch(
        &requests,
        |key, prefetch| prefetch.key(&table, key),
        |tx, key| {
            tx.put(&table, key, key)?;
            assert_ne!(key % 40, 7, "an unlucky request");
            Ok(*key)
        },
    );
    assert_eq!(results.len(), requests.len());
    for (key, result) in requests.iter().zip(results) {
        match result {
            Ok((same, _receipt)) => assert_eq!(*key, same),
            Err(error) => {
                assert_eq!(key % 40, 7);
                assert!(
                    matches!(&error, Error::Misuse(why) if why.contains("an unlucky request")),
                    "{error}"
                );
            }
        }
        assert_eq!(db.run(|tx| tx.contains(&table, key))?, key % 40 != 7, "{key}");
    }
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
        |key, prefetch| {
            prefetch.key(&table, &(99 - key));
            prefetch.key(&words, "not there");
            prefetch.key(&other, key);
            if key % 2 == 0 {
                prefetch.key(&table, key);
                prefetch.key(&table, key);
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

#[test]
fn a_request_that_reads_many_rows_loses_no_key_and_none_that_it_announced() -> Result<()> {
    let db = Database::in_memory()?;
    let names = db.table::<String, u64>("names")?;
    let counters = db.table::<u64, u64>("counters")?;
    // Up to the longest, so that keys that stand where they are made and keys that do not come in turns.
    let name = |at: u64| format!("{at}").repeat(if at.is_multiple_of(3) { 4_000 } else { 1 });
    db.run(|tx| (0..150).filter(|at| at % 7 != 0).try_for_each(|at| tx.put(&names, &name(at), &at)))?;
    let wanted: Vec<String> = (0..150).rev().map(name).collect();
    let requests: Vec<u64> = (0..40).map(|at| at % 3).collect();
    let results = db.run_batch(
        &requests,
        |key, prefetch| {
            prefetch.key(&counters, key);
            prefetch.key(&names, &name(*key));
        },
        |tx, key| {
            let count = tx.get(&counters, key)?.unwrap_or(0);
            tx.put(&counters, key, &(count + 1))?;
            tx.put(&names, "149", &(1_000 + count))?;
            let found = tx.get_many(&names, &wanted)?;
            assert_eq!(tx.get(&names, &name(*key))?, (key % 7 != 0).then_some(*key));
            assert_eq!(tx.get_many(&counters, &[*key, 9])?, [Some(count + 1), None]);
            Ok((count, found))
        },
    );
    for (result, at) in results.into_iter().zip(0..) {
        let ((count, found), _) = result?;
        assert_eq!(count, at / 3);
        for (at, row) in (0..150).rev().zip(found) {
            let expected = if at == 149 { Some(1_000 + count) } else { (at % 7 != 0).then_some(at) };
            assert_eq!(row, expected, "{at}");
        }
    }
    Ok(())
}
