//! What was committed is there when the folder is opened again, under the same names and types.
//!
//! Neighbours: the catalogue and recovery, as applications see them; crashes are the simulator's.

use std::time::Duration;

use crate::common::Folder;
use ensile::Tuning;
use ensile::prelude::*;

fn open(folder: &Folder) -> Result<Database> {
    let tuning = Tuning { loggers: Some(2), ..Tuning::default() };
    Database::builder(folder.path()).epoch_interval(Duration::from_millis(2)).tuning(tuning).open()
}

#[test]
fn rows_come_back() -> Result<()> {
    let folder = Folder::new();
    {
        let db = open(&folder)?;
        let (numbers, words) =
            (db.table::<i32, String>("numbers")?, db.table::<String, Option<u8>>("words")?);
        db.run(|tx| {
            tx.put(&words, "a\0b", &Some(7))?;
            tx.put(&words, "", &None)?;
            (-50..50).try_for_each(|number| tx.put(&numbers, &number, &number.to_string()))
        })?;
        db.run(|tx| tx.delete(&numbers, &13))?;
        db.run(|tx| tx.update(&numbers, &-13, |text| text.push('!')))?;
        db.close()?;
    }
    let db = open(&folder)?;
    let (numbers, words) = (db.table::<i32, String>("numbers")?, db.table::<String, Option<u8>>("words")?);
    db.run(|tx| {
        assert_eq!(tx.get(&words, "a\0b")?, Some(Some(7)));
        assert_eq!(tx.get(&words, "")?, Some(None));
        let keys = tx.range(&numbers, ..).map(|row| row.map(|row| row.0)).collect::<Result<Vec<_>>>()?;
        assert!(keys.into_iter().eq((-50..50).filter(|number| *number != 13)));
        assert_eq!(tx.get(&numbers, &-13)?.as_deref(), Some("-13!"));
        tx.put(&numbers, &13, "back")
    })?;
    Ok(())
}

#[test]
fn rows_written_several_times_in_one_transaction_come_back_as_written_last() -> Result<()> {
    let folder = Folder::new();
    let lengths = [[3, 50, 0], [50, 3, 3], [0, 9, 200], [7, 7, 8]];
    let last = |key: usize| "x".repeat(lengths[key][2]) + &key.to_string();
    {
        let db = open(&folder)?;
        let texts = db.table::<u32, String>("texts")?;
        db.run(|tx| {
            for at in 0..3 {
                for (key, lengths) in lengths.iter().enumerate() {
                    if at == 2 && key == 3 {
                        tx.delete(&texts, &3)?;
                    }
                    tx.put(&texts, &(key as u32), &("x".repeat(lengths[at]) + &key.to_string()))?;
                }
            }
            tx.put(&texts, &9, "gone")?;
            tx.delete(&texts, &9)
        })?;
        db.close()?;
    }
    let db = open(&folder)?;
    let texts = db.table::<u32, String>("texts")?;
    let rows = db.run(|tx| tx.range(&texts, ..).collect::<Result<Vec<_>>>())?;
    assert_eq!(rows, (0..4).map(|key| (key as u32, last(key))).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn a_strict_result_needs_no_close() -> Result<()> {
    let folder = Folder::new();
    let db = open(&folder)?;
    let table = db.table::<u32, u32>("table")?;
    db.run(|tx| tx.put(&table, &1, &1))?;
    let ((), receipt) = db.submit(|tx| tx.put(&table, &2, &2))?;
    receipt.durable()?;
    assert!(receipt.is_durable() && db.durable_epoch() >= receipt.epoch());
    drop((db, table));
    let db = open(&folder)?;
    let table = db.table::<u32, u32>("table")?;
    assert_eq!(db.run(|tx| tx.range(&table, ..).collect::<Result<Vec<_>>>())?, [(1, 1), (2, 2)]);
    Ok(())
}

#[test]
fn relaxed_results_are_durable_soon() -> Result<()> {
    let folder = Folder::new();
    let db = Database::builder(folder.path()).durability(Durability::Relaxed).open()?;
    let table = db.table::<u32, u32>("table")?;
    db.run(|tx| tx.put(&table, &1, &1))?;
    let mut tx = db.begin();
    tx.put(&table, &2, &2)?;
    let receipt = tx.commit()?;
    receipt.durable()?;
    db.close()?;
    let db = open(&folder)?;
    let table = db.table::<u32, u32>("table")?;
    assert_eq!(db.run(|tx| tx.get_many(&table, &[1, 2]))?, [Some(1), Some(2)]);
    Ok(())
}

#[test]
fn types_are_remembered() -> Result<()> {
    let folder = Folder::new();
    {
        let db = open(&folder)?;
        let table = db.table::<u32, u32>("table")?;
        db.run(|tx| tx.put(&table, &1, &1))?;
    }
    let db = open(&folder)?;
    assert!(matches!(db.table::<u32, i32>("table"), Err(Error::Misuse(_))));
    assert!(matches!(db.table::<u64, u32>("table"), Err(Error::Misuse(_))));
    let table = db.table::<u32, u32>("table")?;
    assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(1));
    Ok(())
}

#[test]
fn indexes_are_there_again_and_follow_their_version() -> Result<()> {
    let folder = Folder::new();
    let find = |db: &Database, version, key: fn(&u32, &String) -> String, wanted: &str| {
        let table = db.define::<u32, String>("table").index("by_word", version, key).open()?;
        let by_word = table.index::<String>("by_word")?;
        db.run(|tx| {
            let word = format!("New {version}");
            tx.put(&table, &version, &word)?;
            tx.find(&by_word, wanted).map(|row| row.map(|row| row.0)).collect::<Result<Vec<u32>>>()
        })
    };
    {
        let db = open(&folder)?;
        let table =
            db.define::<u32, String>("table").index("by_word", 1, |_key, word| word.clone()).open()?;
        db.run(|tx| (10..15).try_for_each(|key| tx.put(&table, &key, "Word")))?;
        db.run(|tx| tx.delete(&table, &12))?;
    }
    assert_eq!(find(&open(&folder)?, 1, |_key, word| word.clone(), "Word")?, [10, 11, 13, 14]);
    assert_eq!(find(&open(&folder)?, 2, |_key, word| word.to_lowercase(), "word")?, [10, 11, 13, 14]);
    assert_eq!(find(&open(&folder)?, 3, |_key, word| word.to_lowercase(), "new 1")?, [1]);
    Ok(())
}

/// An application that does not know the index yet writes to the table; the index misses nothing later.
#[test]
fn an_index_can_be_left_out_and_taken_up_again() -> Result<()> {
    let folder = Folder::new();
    {
        let db = open(&folder)?;
        let table = db.define::<u32, u32>("table").index("by_row", 1, |_key, row| *row).open()?;
        db.run(|tx| tx.put(&table, &1, &7))?;
    }
    {
        let db = open(&folder)?;
        assert!(matches!(db.table::<u32, u32>("table"), Err(Error::Misuse(_))), "not by an oversight");
        let table = db.define::<u32, u32>("table").open()?;
        assert!(matches!(table.index::<u32>("by_row"), Err(Error::Misuse(_))));
        db.run(|tx| tx.put(&table, &2, &7))?;
    }
    let db = open(&folder)?;
    let table = db.define::<u32, u32>("table").index("by_row", 1, |_key, row| *row).open()?;
    let by_row = table.index::<u32>("by_row")?;
    assert_eq!(db.run(|tx| tx.find(&by_row, &7).collect::<Result<Vec<_>>>())?, [(1, 7), (2, 7)]);
    Ok(())
}

#[test]
fn a_folder_has_one_database_at_a_time() -> Result<()> {
    let folder = Folder::new();
    let db = open(&folder)?;
    assert!(matches!(open(&folder), Err(Error::Storage(_))));
    db.close()?;
    open(&folder).map(drop)
}

/// Rows enough that several threads rebuild their indexes, each a part of the table.
#[test]
fn several_threads_rebuild_an_index_and_enter_each_row_once() -> Result<()> {
    const ROWS: u64 = 20_000;
    let folder = Folder::new();
    {
        let db = open(&folder)?;
        let table = db.table::<u64, u64>("table")?;
        for from in (0..ROWS).step_by(500) {
            db.run(|tx| (from..from + 500).try_for_each(|id| tx.put(&table, &id, &(id * 7919 % ROWS))))?;
        }
        db.close()?;
    }
    for threads in [1, 2, 5] {
        let tuning = Tuning { recovery_threads: threads, ..Tuning::default() };
        let db = Database::builder(folder.path()).tuning(tuning).open()?;
        let twice =
            db.define::<u64, u64>("table").unique_index("halved", 1, |_id, row| row / 2).open().map(drop);
        assert!(matches!(twice, Err(Error::NotUnique { .. })), "{twice:?}");
        let table = db
            .define::<u64, u64>("table")
            .unique_index("by_row", 1, |_id, row| *row)
            .index("by_digit", 1, |_id, row| row % 10)
            .open()?;
        let (by_row, by_digit) = (table.index::<u64>("by_row")?, table.index::<u64>("by_digit")?);
        let rows = db.run(|tx| tx.range(&by_row, ..).collect::<Result<Vec<_>>>())?;
        assert!(rows.iter().map(|row| row.1).eq(0..ROWS), "{threads} threads: each row once, in order");
        let of_seven = db.run(|tx| tx.find(&by_digit, &7).collect::<Result<Vec<_>>>())?;
        assert_eq!(of_seven.len() as u64, ROWS / 10);
        db.close()?;
    }
    Ok(())
}
