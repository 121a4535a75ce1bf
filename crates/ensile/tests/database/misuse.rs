//! Calls that cannot be right are told apart from conflicts, and say what to do.
//!
//! Neighbours: every kind of `Error` but those of the log and of conflicts; settings that `Builder::open` refuses.

use ensile::Tuning;
use ensile::prelude::*;

fn message<R: std::fmt::Debug>(result: Result<R>) -> String {
    let error = result.expect_err("it is misused");
    assert!(!error.is_retryable());
    error.to_string()
}

#[test]
fn a_table_opened_with_other_types() -> Result<()> {
    let db = Database::in_memory()?;
    let _right = db.table::<u64, String>("table")?;
    let _again = db.table::<u64, String>("table")?;
    for said in [
        message(db.table::<u32, String>("table")),
        message(db.table::<i64, String>("table")),
        message(db.table::<u64, Vec<u8>>("table")),
        message(db.table::<Descending<u64>, String>("table")),
    ] {
        assert!(said.contains("table") && said.contains("u64") && said.contains("string"), "{said}");
    }
    Ok(())
}

#[test]
fn a_name_that_is_empty_or_too_long() -> Result<()> {
    let db = Database::in_memory()?;
    let refused = message(db.table::<u64, u64>(""));
    assert_eq!(refused, "the name of a table or index is empty: give it a name of 1 to 255 bytes");
    assert!(matches!(db.table::<u64, u64>(&"x".repeat(256)), Err(Error::TooLarge { .. })));
    let _longest = db.table::<u64, u64>(&"x".repeat(255))?;
    let _unicode = db.table::<u64, u64>("Größe/名前 \0")?;
    Ok(())
}

#[test]
fn more_indexes_than_a_table_can_have_are_counted_and_not_measured_in_bytes() -> Result<()> {
    let db = Database::in_memory()?;
    let define = |indexes: u32| {
        let table = db.define::<u64, u64>("table");
        (0..indexes).fold(table, |table, at| table.index(&format!("index {at}"), 1, |key, _row| *key))
    };
    let refused = define(65).open();
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    assert_eq!(message(refused), "the number of indexes of a table is 65, the limit is 64: make fewer");
    let _most = define(64).open()?;
    Ok(())
}

#[test]
fn more_tables_than_a_database_can_have() -> Result<()> {
    let db = Database::in_memory()?;
    // The catalogue is one of them.
    for at in 1..4096 {
        let _table = db.table::<u64, u64>(&format!("table {at}"))?;
    }
    for _attempt in 0..2 {
        let refused = db.table::<u64, u64>("one too many");
        assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
        let text = "the number of tables, the catalogue among them, is 4097, the limit is 4096: make fewer";
        assert_eq!(message(refused), text);
    }
    let last = db.table::<u64, u64>("table 4095")?;
    db.run(|tx| tx.put(&last, &1, &1))
}

#[test]
fn keys_and_values_over_their_limits() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<Vec<u8>, Vec<u8>>("table")?;
    db.run(|tx| {
        tx.put(&table, &[7; 16_384], "fits".as_bytes())?;
        for result in [
            tx.put(&table, &vec![7; 16_385], &[]),
            tx.insert(&table, &vec![7; 16_385], &[]),
            tx.put(&table, b"large", &vec![0; (16 << 20) + 1]),
        ] {
            let Err(Error::TooLarge { bytes, bytes_max, .. }) = result else { panic!("{result:?}") };
            assert_eq!(bytes, bytes_max + 1);
        }
        let grown = tx.update(&table, &[7; 16_384], |row| row.resize((16 << 20) + 1, 0));
        assert!(matches!(grown, Err(Error::TooLarge { .. })), "{grown:?}");
        tx.put(&table, b"largest", &vec![0; 16 << 20])
    })?;
    let mut snapshot = db.snapshot_latest()?;
    assert_eq!(snapshot.range(&table, ..).count(), 2, "what was refused left nothing behind");
    assert_eq!(snapshot.get(&table, &[7; 16_384])?.as_deref(), Some(&b"fits"[..]));
    assert_eq!(snapshot.get_with(&table, b"largest", Vec::len)?, Some(16 << 20));
    // Reads of keys that no table can hold find nothing.
    assert_eq!(snapshot.get(&table, &vec![7; 70_000])?, None);
    assert_eq!(db.run(|tx| tx.get(&table, &vec![7; 70_000]))?, None);
    Ok(())
}

/// The limit is on the encoding: a NUL in text that something follows takes two bytes.
#[test]
fn the_limit_of_a_key_is_on_its_encoding() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<(String, u8), ()>("table")?;
    let nuls = "\0".repeat(8_192);
    db.run(|tx| {
        assert!(matches!(tx.put(&table, &(&*nuls, 1), &()), Err(Error::TooLarge { .. })));
        tx.put(&table, &(&nuls[..8_190], 1), &())
    })
}

#[test]
fn a_table_of_another_database() -> Result<()> {
    let (one, two) = (Database::in_memory()?, Database::in_memory()?);
    let table = one.table::<u64, u64>("table")?;
    let _same_name = two.table::<u64, u64>("table")?;
    assert!(message(two.run(|tx| tx.put(&table, &1, &1))).contains("another database"));
    assert!(message(two.run(|tx| tx.get(&table, &1))).contains("another database"));
    assert!(message(two.run(|tx| tx.delete(&table, &1))).contains("another database"));
    assert!(message(two.run(|tx| tx.first(&table, ..))).contains("another database"));
    assert!(message(two.snapshot_latest()?.get(&table, &1)).contains("another database"));
    Ok(())
}

#[test]
fn an_index_that_is_not_there_or_has_other_keys() -> Result<()> {
    let db = Database::in_memory()?;
    let people = db
        .define::<u64, String>("people")
        .index("by_length", 1, |_id, name: &String| name.len() as u64)
        .open()?;
    assert!(message(people.index::<u64>("by_size")).contains("by_size"));
    let said = message(people.index::<String>("by_length"));
    assert!(said.contains("u64") && said.contains("string"), "{said}");
    let by_length = people.index::<u64>("by_length")?;
    assert!(message(db.run(|tx| tx.get(&by_length, &3))).contains("find returns them all"));
    Ok(())
}

#[test]
fn indexes_that_contradict_each_other() -> Result<()> {
    let db = Database::in_memory()?;
    let twice =
        db.define::<u64, u64>("twice").index("by", 1, |_key, row| *row).index("by", 1, |key, _row| *key);
    assert!(message(twice.open()).contains("two indexes"));
    let first = db.define::<u64, u64>("table").index("by_row", 1, |_key, row| *row).open()?;
    let other = db.define::<u64, u64>("table").index("by_key", 1, |key, _row| *key).open();
    assert!(matches!(other, Err(Error::Misuse(_))), "{other:?}");
    let newer = db.define::<u64, u64>("table").index("by_row", 2, |_key, row| *row).open();
    assert!(matches!(newer, Err(Error::Misuse(_))), "{newer:?}");
    let without = db.table::<u64, u64>("table")?;
    let _still_indexed = without.index::<u64>("by_row")?;
    db.run(|tx| tx.put(&without, &1, &5))?;
    let by_row = first.index::<u64>("by_row")?;
    assert_eq!(db.run(|tx| tx.find(&by_row, &5).collect::<Result<Vec<_>>>())?, [(1, 5)]);
    Ok(())
}

#[test]
fn a_unique_index_over_rows_that_are_not() -> Result<()> {
    let db = Database::in_memory()?;
    let plain = db.table::<u64, u64>("plain")?;
    db.run(|tx| {
        tx.put(&plain, &1, &5)?;
        tx.put(&plain, &2, &5)
    })?;
    let unique = db.define::<u64, u64>("plain").unique_index("by_row", 1, |_key, row| *row).open();
    assert!(unique.is_err(), "{unique:?}");
    assert_eq!(db.run(|tx| tx.get(&plain, &2))?, Some(5));
    Ok(())
}

/// A row whose codec refuses its own bytes: what a changed type with an unchanged name looks like.
#[derive(Debug)]
struct Stubborn;

impl Value for Stubborn {
    fn encode(&self, out: &mut ValueBuffer<'_>) {
        out.push(1);
    }

    fn decode(_bytes: &[u8]) -> Result<Self, CodecError> {
        Err(CodecError::new("never"))
    }

    fn type_name() -> String {
        "stubborn".to_string()
    }
}

#[test]
fn bytes_that_do_not_decode() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, Stubborn>("table")?;
    db.run(|tx| tx.put(&table, &1, &Stubborn))?;
    db.run(|tx| {
        assert!(matches!(tx.get(&table, &1), Err(Error::Decode { .. })));
        assert!(matches!(tx.get_with(&table, &1, |_row| ()), Err(Error::Decode { .. })));
        assert!(matches!(tx.get_many(&table, &[1]), Err(Error::Decode { .. })));
        assert!(matches!(tx.update(&table, &1, |_row| ()), Err(Error::Decode { .. })));
        assert!(matches!(tx.first(&table, ..), Err(Error::Decode { .. })));
        let mut shown = tx.range(&table, ..);
        assert!(matches!(shown.next_with(|_key, _row| ()), Err(Error::Decode { .. })));
        assert!(matches!(shown.next_with(|_key, _row| ()), Ok(None)), "an iterator ends after an error");
        let mut rows = tx.range(&table, ..);
        let Some(Err(Error::Decode { table, type_name, detail })) = rows.next() else {
            panic!("it cannot decode")
        };
        assert_eq!((&*table, &*type_name, &*detail), ("table", "stubborn", "never"));
        assert!(rows.next().is_none(), "an iterator ends after an error");
        Ok(())
    })?;
    assert!(db.run(|tx| tx.contains(&table, &1))?, "what is not decoded is not refused");
    assert!(db.run(|tx| tx.delete(&table, &1))?);
    let indexed = db.define::<u64, Stubborn>("indexed").index("by", 1, |key, _row| *key).open()?;
    let refused = db.run(|tx| tx.put(&indexed, &1, &Stubborn));
    assert!(matches!(refused, Err(Error::Decode { .. })), "{refused:?}");
    Ok(())
}

#[test]
fn settings_that_would_hang_or_panic_are_refused_by_the_builders_names() {
    type Set = fn(&mut Tuning);
    let folder = crate::common::Folder::new();
    let settings: [(&str, Set); 7] = [
        ("checkpoint_bandwidth", |tuning| tuning.checkpoint_bandwidth = Some(0)),
        ("checkpoint_niceness is between 0", |tuning| tuning.checkpoint_niceness = 20),
        ("prefault_bytes", |tuning| tuning.prefault_bytes = usize::MAX),
        ("log_file_bytes must be at least 4096", |tuning| tuning.log_file_bytes = 0),
        ("log_buffer_bytes_max must be at least 524288", |tuning| tuning.log_buffer_bytes_max = 0),
        ("loggers", |tuning| tuning.loggers = Some(0)),
        ("checkpointers", |tuning| tuning.checkpointers = Some(0)),
    ];
    for (said, set) in settings {
        let mut tuning = Tuning::default();
        set(&mut tuning);
        let refused = Database::builder(folder.path()).tuning(tuning).open();
        assert!(matches!(&refused, Err(Error::Misuse(why)) if why.contains(said)), "{refused:?}");
    }
}

#[test]
fn a_closed_database() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("table")?;
    let mut open = db.begin();
    open.put(&table, &1, &1)?;
    db.close()?;
    db.close()?;
    assert!(matches!(open.commit(), Err(Error::Closed)));
    assert!(matches!(db.run(|tx| tx.put(&table, &1, &1)), Err(Error::Closed)));
    assert!(matches!(db.table::<u64, u64>("other"), Err(Error::Closed)));
    assert!(matches!(db.snapshot(), Err(Error::Closed)));
    Ok(())
}

#[test]
fn a_transaction_that_was_exchanged_for_another_databases() -> Result<()> {
    let (here, there) = (Database::in_memory()?, Database::in_memory()?);
    let rows = there.table::<u64, u64>("rows")?;
    let mut runs = 0;
    let mut exchange = |tx: &mut Transaction<'_>| {
        runs += 1;
        let mut other = there.begin_owned();
        std::mem::swap(tx, &mut other);
        tx.prefetch(|prefetch| prefetch.key(&rows, &1))?;
        tx.put(&rows, &1, &1)
    };
    for said in [message(here.run(&mut exchange)), message(here.submit(&mut exchange).map(drop))] {
        assert!(said.contains("exchanged"), "{said}");
    }
    let batch = here.run_batch(&[1; 40], |_, _| {}, |tx, _| exchange(tx));
    assert!(batch.into_iter().all(|result| message(result.map(drop)).contains("exchanged")));
    assert_eq!(runs, 42, "it is not run again");
    assert_eq!(there.run(|tx| tx.get(&rows, &1))?, None, "and nothing is committed");
    // One of the same database is as good as the one that was lent.
    let mut exchange = |tx: &mut Transaction<'_>, key: &u64| {
        let mut other = there.begin_owned();
        std::mem::swap(tx, &mut other);
        tx.prefetch(|prefetch| prefetch.key(&rows, key))?;
        tx.put(&rows, key, key)
    };
    there.run(|tx| exchange(tx, &1))?;
    let keys: Vec<u64> = (2..50).collect();
    for result in there.run_batch(&keys, |key, prefetch| prefetch.key(&rows, key), &mut exchange) {
        result?;
    }
    assert_eq!(there.run(|tx| Ok(tx.range(&rows, ..).count()))?, 49);
    Ok(())
}

#[test]
fn an_index_whose_key_of_a_row_that_is_there_is_too_long() -> Result<()> {
    let folder = crate::common::Folder::new();
    let db = Database::open(folder.path())?;
    let rows = db.table::<u64, String>("rows")?;
    db.run(|tx| tx.put(&rows, &1, &"x".repeat(1 << 20)))?;
    db.close()?;
    drop((rows, db));
    let db = Database::open(folder.path())?;
    let refused = db.define::<u64, String>("rows").index("by_text", 1, |_, row| row.clone()).open();
    assert!(matches!(refused, Err(Error::TooLarge { bytes, .. }) if bytes > 1 << 20), "{refused:?}");
    let rows = db.define::<u64, String>("rows").index("by_length", 1, |_, row| row.len() as u64).open()?;
    assert_eq!(db.run(|tx| Ok(tx.range(&rows, ..).count()))?, 1);
    db.close()
}
