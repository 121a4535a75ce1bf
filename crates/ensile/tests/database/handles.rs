//! Handles go between threads; open transactions are many and belong to none.
//!
//! Neighbours: the bounds that applications rely on for `Database`, `Table`, `Transaction` and their kin.

use std::thread;

use ensile::prelude::*;

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_clone<T: Clone>() {}

/// Neither key nor value may go between threads, their table may: it holds none of them.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Local(u8, std::marker::PhantomData<*const u8>);

#[test]
fn handles_go_between_threads() {
    is_send::<Database>();
    is_sync::<Database>();
    is_clone::<Database>();
    is_send::<Table<Local, Local>>();
    is_sync::<Table<Local, Local>>();
    is_clone::<Table<Local, Local>>();
    is_send::<Index<Local, Local, Local>>();
    is_sync::<Index<Local, Local, Local>>();
    is_clone::<Index<Local, Local, Local>>();
    is_send::<Transaction<'_>>();
    is_send::<Snapshot<'_>>();
    is_send::<Receipt<'_>>();
    is_sync::<Receipt<'_>>();
    is_send::<Error>();
    is_sync::<Error>();
}

#[test]
fn a_transaction_goes_on_in_another_thread() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("table")?;
    let mut tx: Transaction<'static> = db.begin_owned();
    tx.put(&table, &1, &10)?;
    let mut tx = thread::scope(|scope| {
        let table = &table;
        let moved = scope.spawn(move || {
            assert_eq!(tx.get(table, &1)?, Some(10));
            tx.put(table, &2, &20)?;
            Ok::<_, Error>(tx)
        });
        moved.join().expect("it does not panic")
    })?;
    assert_eq!(tx.range(&table, ..).count(), 2);
    let _receipt = tx.commit()?;
    assert_eq!(db.run(|tx| tx.get(&table, &2))?, Some(20));
    Ok(())
}

#[test]
fn an_owned_transaction_keeps_its_database_open() -> Result<()> {
    let (mut tx, table) = {
        let db = Database::in_memory()?;
        let table = db.table::<u64, u64>("table")?;
        (db.begin_owned(), table)
    };
    tx.put(&table, &1, &1)?;
    assert_eq!(tx.get(&table, &1)?, Some(1));
    let _receipt = tx.commit()?;
    Ok(())
}

#[test]
fn a_thousand_open_transactions_hold_nobody_up() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("table")?;
    db.run(|tx| (0..1000).try_for_each(|key| tx.put(&table, &key, &0)))?;
    let mut open: Vec<Transaction<'_>> = (0..1000).map(|_| db.begin()).collect();
    for (tx, key) in open.iter_mut().zip(0..) {
        assert!(tx.update(&table, &key, |row| *row += key)?);
    }
    // Epochs go on, others commit, and the open ones move between threads.
    let before = db.epoch();
    while db.epoch() < before.plus(3) {
        thread::yield_now();
    }
    db.run(|tx| (2000..3000).try_for_each(|key| tx.put(&table, &key, &key)))?;
    thread::scope(|scope| {
        for (share, from) in open.chunks_mut(250).zip([4000, 5000, 6000, 7000]) {
            let table = &table;
            scope.spawn(move || {
                share
                    .iter_mut()
                    .zip(from..)
                    .for_each(|(tx, key)| tx.put(table, &key, &key).expect("it is open"));
            });
        }
    });
    for tx in open {
        let _receipt = tx.commit()?;
    }
    let rows =
        db.run(|tx| tx.range(&table, ..).map(|row| row.map(|row| row.1)).collect::<Result<Vec<_>>>())?;
    assert_eq!(rows.len(), 3000);
    assert!(rows[..1000].iter().copied().eq(0..1000));
    Ok(())
}

#[test]
fn threads_that_add_to_the_same_rows_lose_nothing() -> Result<()> {
    const THREADS: u64 = 4;
    const ADDS: u64 = 2000;
    let db = Database::in_memory()?;
    let counters = db.define::<u8, u64>("counters").index("by_count", 1, |_key, count| *count).open()?;
    let by_count = counters.index::<u64>("by_count")?;
    db.run(|tx| (0..3).try_for_each(|key| tx.put(&counters, &key, &0)))?;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, counters) = (db.clone(), counters.clone());
            scope.spawn(move || {
                for add in 0..ADDS {
                    let key = ((thread + add) % 3) as u8;
                    db.run(|tx| tx.update(&counters, &key, |count| *count += 1))
                        .expect("no error but conflicts");
                }
            });
        }
    });
    let rows = db.run(|tx| tx.range(&counters, ..).collect::<Result<Vec<_>>>())?;
    assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), THREADS * ADDS);
    let mut indexed = db.run(|tx| tx.range(&by_count, ..).collect::<Result<Vec<_>>>())?;
    assert!(indexed.is_sorted_by_key(|row| row.1));
    indexed.sort_unstable();
    assert_eq!(indexed, rows, "the index has each row once");
    Ok(())
}
