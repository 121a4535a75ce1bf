//! Secondary indexes: their order, how they follow their table, uniqueness, own writes.
//!
//! Neighbours: `Database::define` and reads of an `Index`; `reopening` tests their rebuilding.

use std::ops::{Bound, ControlFlow};

use ensile::prelude::*;

type Person = (String, Option<u32>);
type People = Table<u64, PersonRow>;

/// A row with a codec of its own: the age, then the name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PersonRow {
    name: String,
    age: Option<u32>,
}

impl Value for PersonRow {
    fn encode(&self, out: &mut ValueBuffer<'_>) {
        out.extend_from_slice(&self.age.unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(self.name.as_bytes());
    }

    fn decode(mut bytes: &[u8]) -> Result<Self, CodecError> {
        let age = bytes.split_off(..4).ok_or_else(|| CodecError::new("too short"))?;
        let age = <u32 as Value>::decode(age)?;
        Ok(Self { name: <String as Value>::decode(bytes)?, age: (age < u32::MAX).then_some(age) })
    }

    fn type_name() -> String {
        "PersonRow v1".to_string()
    }
}

fn person(name: &str, age: Option<u32>) -> PersonRow {
    PersonRow { name: name.to_string(), age }
}

struct Opened {
    db: Database,
    people: People,
    by_name: Index<String, u64, PersonRow>,
    by_age: Index<u32, u64, PersonRow>,
    by_both: Index<Person, u64, PersonRow>,
}

fn open() -> Result<Opened> {
    let db = Database::in_memory()?;
    let people = db
        .define::<u64, PersonRow>("people")
        .index("by_name", 1, |_id, person| person.name.clone())
        .index_some("by_age", 1, |_id, person| person.age)
        .unique_index("by_both", 1, |_id, person| (person.name.clone(), person.age))
        .open()?;
    let by_name = people.index("by_name")?;
    let by_age = people.index("by_age")?;
    let by_both = people.index("by_both")?;
    Ok(Opened { db, people, by_name, by_age, by_both })
}

fn fill(opened: &Opened, rows: &[(u64, &str, Option<u32>)]) -> Result<()> {
    opened
        .db
        .run(|tx| rows.iter().try_for_each(|(id, name, age)| tx.put(&opened.people, id, &person(name, *age))))
}

fn ids(rows: impl Iterator<Item = Result<(u64, PersonRow)>>) -> Vec<u64> {
    rows.map(|row| row.expect("it decodes").0).collect()
}

#[test]
fn rows_come_in_the_order_of_the_secondary_key_then_of_the_primary() -> Result<()> {
    let opened = open()?;
    let rows =
        [(9, "ada", Some(3)), (1, "bob", None), (5, "ada", Some(1)), (7, "", Some(2)), (2, "ada\0", None)];
    fill(&opened, &rows)?;
    opened.db.run(|tx| {
        assert_eq!(ids(tx.range(&opened.by_name, ..)), [7, 5, 9, 2, 1]);
        assert_eq!(ids(tx.range(&opened.by_name, ..).rev()), [1, 2, 9, 5, 7]);
        assert_eq!(ids(tx.find(&opened.by_name, "ada")), [5, 9]);
        assert_eq!(ids(tx.find(&opened.by_name, "ad")), [0; 0]);
        assert_eq!(ids(tx.find(&opened.by_name, "")), [7]);
        assert_eq!(ids(tx.range(&opened.by_age, ..)), [5, 7, 9], "rows without a key are not in it");
        Ok(())
    })
}

#[test]
fn bounds_cut_between_secondary_keys() -> Result<()> {
    let opened = open()?;
    let names = ["", "\0", "a", "a\0", "a\0\u{1}", "a\u{1}", "ab", "b"];
    let rows: Vec<(u64, &str, Option<u32>)> =
        names.iter().zip(0..).map(|(name, id)| (id, *name, None)).collect();
    fill(&opened, &rows)?;
    let mut snapshot = opened.db.snapshot_latest()?;
    for (lower, from) in (0u64..).zip(names.iter().copied()) {
        for (upper, to) in (0u64..).zip(names.iter().copied()) {
            let by_name = &opened.by_name;
            assert_eq!(ids(snapshot.range(by_name, from..to)), (lower..upper).collect::<Vec<_>>());
            assert_eq!(ids(snapshot.range(by_name, from..=to)), (lower..=upper).collect::<Vec<_>>());
            let open = (Bound::Excluded(from), Bound::Excluded(to));
            assert_eq!(ids(snapshot.range(by_name, open)), (lower + 1..upper).collect::<Vec<_>>());
        }
        let backwards: Vec<u64> = (0..lower).rev().collect();
        assert_eq!(ids(snapshot.range(&opened.by_name, ..from).rev()), backwards);
        assert_eq!(snapshot.first(&opened.by_name, from..)?.map(|row| row.0), Some(lower));
        assert_eq!(snapshot.last(&opened.by_name, ..=from)?.map(|row| row.0), Some(lower));
    }
    assert_eq!(ids(snapshot.range(&opened.by_name, Prefix("a"))), [2, 3, 4, 5, 6]);
    assert_eq!(ids(snapshot.range(&opened.by_name, Prefix("a\0"))), [3, 4]);
    Ok(())
}

#[test]
fn scans_go_both_ways_and_end_when_asked_to() -> Result<()> {
    let opened = open()?;
    let names = ["a", "a\0", "b", "b", "b\0", "c"];
    let rows: Vec<(u64, &str, Option<u32>)> =
        (0..).zip(names).map(|(id, name)| (id, name, Some(id as u32))).collect();
    fill(&opened, &rows)?;
    opened.db.run(|tx| {
        let mut seen = Vec::new();
        tx.scan(&opened.by_name, "a\0"..="b", |id, row| {
            assert_eq!(row.name, names[id as usize]);
            seen.push(id);
            ControlFlow::Continue(())
        })?;
        assert_eq!(seen, [1, 2, 3]);
        seen.clear();
        tx.scan_reverse(&opened.by_name, ..="b", |id, _row| {
            seen.push(id);
            if seen.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        assert_eq!(seen, [3, 2, 1]);
        assert_eq!(tx.last(&opened.by_name, Prefix("b"))?.map(|row| row.0), Some(4));
        assert_eq!(tx.first(&opened.by_age, 2..)?.map(|row| row.0), Some(2));
        Ok(())
    })
}

#[test]
fn an_index_follows_every_change_of_its_table() -> Result<()> {
    let opened = open()?;
    let Opened { db, people, by_name, by_age, .. } = &opened;
    fill(&opened, &[(1, "ada", Some(30)), (2, "bob", Some(20))])?;
    db.run(|tx| tx.update(people, &1, |row| row.name = "eve".to_string()))?;
    assert_eq!(db.run(|tx| Ok(ids(tx.find(by_name, "ada"))))?, [0; 0]);
    assert_eq!(db.run(|tx| Ok(ids(tx.find(by_name, "eve"))))?, [1]);
    db.run(|tx| tx.update(people, &1, |row| row.age = None))?;
    assert_eq!(db.run(|tx| Ok(ids(tx.range(by_age, ..))))?, [2]);
    db.run(|tx| tx.update(people, &1, |row| row.age = Some(10)))?;
    assert_eq!(db.run(|tx| Ok(ids(tx.range(by_age, ..))))?, [1, 2]);
    db.run(|tx| tx.delete(people, &2))?;
    db.run(|tx| tx.put(people, &3, &person("eve", Some(5))))?;
    assert_eq!(db.run(|tx| Ok(ids(tx.range(by_age, ..))))?, [3, 1]);
    assert_eq!(db.run(|tx| Ok(ids(tx.find(by_name, "eve"))))?, [1, 3]);
    Ok(())
}

#[test]
fn a_transaction_sees_its_own_writes_through_an_index() -> Result<()> {
    let opened = open()?;
    let Opened { db, people, by_name, by_both, .. } = &opened;
    fill(&opened, &[(1, "ada", None), (2, "bob", None), (3, "cyd", None)])?;
    let mut tx = db.begin();
    tx.put(people, &4, &person("bo", None))?;
    tx.delete(people, &1)?;
    tx.update(people, &3, |row| row.name = "aaa".to_string())?;
    assert_eq!(ids(tx.range(by_name, ..)), [3, 4, 2]);
    assert_eq!(ids(tx.range(by_name, ..).rev()), [2, 4, 3]);
    assert_eq!(tx.get(by_both, &("bo", None::<u32>))?.map(|row| row.0), Some(4));
    assert_eq!(tx.get(by_both, &("ada", None::<u32>))?, None);
    assert_eq!(db.run(|other| Ok(ids(other.range(by_name, ..))))?, [1, 2, 3]);
    tx.rollback();
    assert_eq!(db.run(|other| Ok(ids(other.range(by_name, ..))))?, [1, 2, 3]);
    Ok(())
}

#[test]
fn a_unique_index_admits_no_second_row() -> Result<()> {
    let opened = open()?;
    let Opened { db, people, by_both, .. } = &opened;
    fill(&opened, &[(1, "ada", Some(1)), (2, "ada", Some(2)), (3, "ada", None)])?;
    assert_eq!(db.run(|tx| tx.get(by_both, &("ada", Some(2))))?, Some((2, person("ada", Some(2)))));
    assert_eq!(db.run(|tx| tx.get(by_both, &("ada", Some(3))))?, None);
    db.run(|tx| {
        let taken = tx.put(people, &4, &person("ada", Some(1)));
        assert!(matches!(taken, Err(Error::NotUnique { .. })), "{taken:?}");
        let taken = tx.update(people, &3, |row| row.age = Some(2));
        assert!(matches!(taken, Err(Error::NotUnique { .. })), "{taken:?}");
        let taken = tx.insert(people, &5, &person("ada", None));
        assert!(matches!(taken, Err(Error::NotUnique { .. })), "{taken:?}");
        assert!(!tx.contains(people, &4)?, "the transaction goes on, without the write that failed");
        assert_eq!(tx.get(people, &3)?, Some(person("ada", None)));
        tx.put(people, &1, &person("ada", Some(1)))?; // the row that has the key may keep it
        tx.delete(people, &2)?;
        tx.put(people, &4, &person("ada", Some(2))) // and one may take a key that was given up
    })?;
    assert_eq!(db.run(|tx| tx.get(by_both, &("ada", Some(2))))?.map(|row| row.0), Some(4));
    Ok(())
}

#[test]
fn two_transactions_cannot_both_take_a_unique_key() -> Result<()> {
    let opened = open()?;
    let Opened { db, people, by_both, .. } = &opened;
    let (mut one, mut two) = (db.begin(), db.begin());
    one.put(people, &1, &person("ada", None))?;
    two.put(people, &2, &person("ada", None))?;
    let _receipt = one.commit()?;
    assert!(two.commit().is_err_and(|error| error.is_retryable()));
    let again = db.run(|tx| tx.put(people, &2, &person("ada", None)));
    assert!(matches!(again, Err(Error::NotUnique { .. })), "{again:?}");
    assert_eq!(db.run(|tx| Ok(ids(tx.range(by_both, ..))))?, [1]);
    Ok(())
}

#[test]
fn a_snapshot_reads_an_index_as_of_its_boundary() -> Result<()> {
    let opened = open()?;
    let Opened { db, people, by_name, .. } = &opened;
    fill(&opened, &[(1, "ada", None), (2, "bob", None)])?;
    let mut before = db.snapshot_latest()?;
    db.run(|tx| {
        tx.update(people, &1, |row| row.name = "zoe".to_string())?;
        tx.delete(people, &2)?;
        tx.put(people, &3, &person("ada", None))
    })?;
    let mut after = db.snapshot_latest()?;
    assert_eq!(ids(before.range(by_name, ..)), [1, 2]);
    assert_eq!(ids(before.find(by_name, "ada")), [1]);
    assert_eq!(ids(after.range(by_name, ..)), [3, 1]);
    Ok(())
}

/// An index on a table that has rows already.
#[test]
fn an_index_added_later_finds_the_rows_that_are_there() -> Result<()> {
    let db = Database::in_memory()?;
    let plain = db.table::<u64, PersonRow>("people")?;
    db.run(|tx| (0..500).try_for_each(|id| tx.put(&plain, &id, &person(&format!("{:03}", 999 - id), None))))?;
    drop(plain);
    let people = db
        .define::<u64, PersonRow>("people")
        .index("by_name", 1, |_id, person: &PersonRow| person.name.clone())
        .open();
    // Whether a table that is open can still be given an index is for the engine to say; silence would be wrong.
    match people {
        Ok(people) => {
            let by_name = people.index::<String>("by_name")?;
            let found = db.run(|tx| Ok(ids(tx.range(&by_name, ..))))?;
            assert!(found.into_iter().eq((0..500).rev()));
        }
        Err(error) => assert!(matches!(error, Error::Misuse(_)), "{error:?}"),
    }
    Ok(())
}
