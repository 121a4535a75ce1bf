//! Single keys without transactions: what they show, and what they refuse.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use crate::{Database, Error, Readable, Result};

#[test]
#[expect(clippy::disallowed_methods, reason = "a thread that hangs can be told of, and not be joined")]
fn a_panic_while_a_record_is_locked_leaves_it_free_and_unchanged() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("numbers")?;
    let mut numbers = db.key_value(&table)?;
    numbers.put(&1, &10)?;
    let panicked = catch_unwind(AssertUnwindSafe(|| numbers.modify(&1, |_| panic!("the application's"))));
    assert!(panicked.is_err());
    // Another thread looks, so that a record that is locked for ever fails this test and does not hang it.
    let (sender, receiver) = mpsc::channel();
    let (other, shared) = (db.clone(), table.clone());
    std::thread::spawn(move || {
        let mut numbers = other.key_value(&shared).expect("in memory");
        let changed = numbers.modify(&1, |value| *value += 1);
        let _ = sender.send(changed.and_then(|_| numbers.get(&1)));
    });
    let seen = receiver.recv_timeout(Duration::from_secs(600)).expect("the record is not locked any more");
    assert_eq!(seen?, Some(11));
    assert_eq!(numbers.get(&1)?, Some(11), "the handle that saw the panic goes on");
    Ok(())
}

#[test]
fn a_put_over_a_deleted_row_ends_and_is_seen() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, Vec<u8>>("texts")?;
    for (round, length) in [3, 300, 0].into_iter().enumerate() {
        db.run(|tx| tx.put(&table, &1, &vec![1; length]))?;
        db.run(|tx| tx.delete(&table, &1))?;
        let mut texts = db.key_value(&table)?;
        assert_eq!(texts.get(&1)?, None);
        // Longer than what was deleted: the new row has a record of its own.
        let row = vec![round as u8; length + 100];
        texts.put(&1, &row)?;
        assert_eq!(texts.get(&1)?.as_ref(), Some(&row));
        assert_eq!(db.run(|tx| tx.get(&table, &1))?.as_ref(), Some(&row));
        db.run(|tx| tx.delete(&table, &1))?;
    }
    Ok(())
}

#[test]
fn a_database_with_a_log_is_refused_as_its_recovery_would_not_find_the_writes() -> Result<()> {
    let disk = std::sync::Arc::new(ensile_sim::SimDisk::new());
    let db = Database::builder("unused").disk(disk).open()?;
    let table = db.table::<u64, u64>("numbers")?;
    let Err(Error::Misuse(words)) = db.key_value(&table) else { panic!("it is refused") };
    assert!(words.contains("writes no log, and this database has one"), "{words}");
    let other = Database::in_memory()?;
    assert!(matches!(other.key_value(&table), Err(Error::Misuse(_))), "another database's table");
    Ok(())
}

#[test]
fn a_value_that_does_not_fit_is_no_new_version() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, Vec<u8>>("texts")?;
    let mut texts = db.key_value(&table)?;
    texts.put(&1, &b"short".to_vec())?;
    let mut reader = db.begin();
    assert_eq!(reader.get(&table, &1)?.as_deref(), Some(&b"short"[..]));
    assert!(matches!(texts.put(&1, &vec![7; 4096]), Err(Error::Misuse(_))));
    assert_eq!(texts.get(&1)?.as_deref(), Some(&b"short"[..]));
    let _receipt = reader.commit()?;
    Ok(())
}

#[test]
fn concurrent_modifications_of_one_key_are_all_there() -> Result<()> {
    const EACH: u64 = 20_000;
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("numbers")?;
    db.key_value(&table)?.put(&1, &0)?;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                let mut numbers = db.key_value(table).expect("in memory");
                for _ in 0..EACH {
                    assert!(numbers.modify(&1, |value| *value += 1).expect("fits"));
                }
            });
        }
    });
    assert_eq!(db.key_value(&table)?.get(&1)?, Some(3 * EACH));
    Ok(())
}
