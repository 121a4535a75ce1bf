//! Phantoms: a search is repeated and finds other rows, by an insert, by a delete, through a secondary index.
//!
//! Neighbours: `main` says how to read the drawings; `width` shows how little a scan depends on.

use ensile::prelude::*;

use super::{Rows, is_conflict, open};

/// Counts the rows of a range and keeps the count in row 100.
fn count_into_100(tx: &mut Transaction<'_>, table: &Rows) -> Result<i64> {
    let count = tx.range(table, 1..10).count() as i64;
    tx.put(table, &100, &count)?;
    Ok(count)
}

/// ```text
/// one    count 1..10 = 2                        put 100=2  commit!
/// two                     insert 5=5  commit
/// ```
/// A scan keeps a witness of every leaf that it passed, and an insert moves the version of the leaf that it goes into.
/// one's commit fails with `Conflict`; run again, it counts three.
#[test]
fn phantom_by_insert() -> Result<()> {
    let (db, table) = open(&[(1, 1), (9, 9)])?;
    let mut one = db.begin();
    assert_eq!(count_into_100(&mut one, &table)?, 2);
    db.run(|tx| tx.insert(&table, &5, &5))?;
    assert!(is_conflict(one.commit()));
    assert_eq!(db.run(|tx| count_into_100(tx, &table))?, 3);
    Ok(())
}

/// ```text
/// one    count 1..10 = 0                        put 100=0  commit!
/// two                     insert 5=5  commit
/// ```
/// A range without rows is witnessed as well: the leaf that would hold them. one's commit fails with `Conflict`; run
/// again, it counts one.
#[test]
fn phantom_by_insert_into_an_empty_table() -> Result<()> {
    let (db, table) = open(&[])?;
    let mut one = db.begin();
    assert_eq!(count_into_100(&mut one, &table)?, 0);
    db.run(|tx| tx.insert(&table, &5, &5))?;
    assert!(is_conflict(one.commit()));
    assert_eq!(db.run(|tx| count_into_100(tx, &table))?, 1);
    Ok(())
}

/// ```text
/// one    get 5=none                        put 6  commit!
/// two                insert 5=5  commit
/// ```
/// A miss is a scan of one key, and is witnessed by the leaf that lacks it. one's commit fails with `Conflict`; run
/// again, it finds the row.
#[test]
fn phantom_by_insert_of_a_missed_key() -> Result<()> {
    let (db, table) = open(&[])?;
    let mut one = db.begin();
    assert_eq!(one.get(&table, &5)?, None);
    one.put(&table, &6, &0)?;
    db.run(|tx| tx.insert(&table, &5, &5))?;
    assert!(is_conflict(one.commit()));
    let found = db.run(|tx| {
        tx.put(&table, &6, &0)?;
        tx.get(&table, &5)
    })?;
    assert_eq!(found, Some(5));
    Ok(())
}

/// ```text
/// one    count 1..10 = 3                      put 100=3  commit!
/// two                     delete 5  commit
/// ```
/// A delete changes the record that the scan read to absent, and the scan's read-set holds that record. one's commit
/// fails with `Conflict`; run again, it counts two.
#[test]
fn phantom_by_delete() -> Result<()> {
    let (db, table) = open(&[(1, 1), (5, 5), (9, 9)])?;
    let mut one = db.begin();
    assert_eq!(count_into_100(&mut one, &table)?, 3);
    db.run(|tx| tx.delete(&table, &5))?;
    assert!(is_conflict(one.commit()));
    assert_eq!(db.run(|tx| count_into_100(tx, &table))?, 2);
    Ok(())
}

/// ```text
/// one    count 1..10 = 3                                           put 100=3  commit!
/// two                     delete 5  commit
/// three                                     insert 5=5  commit
/// ```
/// The count is right again, and the row even equal; but its record carries a later TID, or is another one, and commit
/// compares TIDs and not values. one's commit fails with `Conflict`; run again, it counts three.
#[test]
fn phantom_by_delete_and_insert() -> Result<()> {
    let (db, table) = open(&[(1, 1), (5, 5), (9, 9)])?;
    let mut one = db.begin();
    assert_eq!(count_into_100(&mut one, &table)?, 3);
    db.run(|tx| tx.delete(&table, &5))?;
    db.run(|tx| tx.insert(&table, &5, &5))?;
    assert!(is_conflict(one.commit()));
    assert_eq!(db.run(|tx| count_into_100(tx, &table))?, 3);
    Ok(())
}

/// ```text
/// one    count 1..10 = 1            insert 4  commit
/// two                      count 1..10 = 1            insert 6  commit!
/// ```
/// Write skew over a range: each may add a booking if there is but one. one's insert moved the leaf that two's count
/// witnessed, so two's commit fails with `Conflict`; run again, it finds two and adds none.
#[test]
fn write_skew_through_phantoms() -> Result<()> {
    fn book(tx: &mut Transaction<'_>, table: &Rows, at: u32) -> Result<bool> {
        let is_free = tx.range(table, 1..10).count() < 2;
        if is_free {
            tx.insert(table, &at, &0)?;
        }
        Ok(is_free)
    }
    let (db, table) = open(&[(1, 0)])?;
    let (mut one, mut two) = (db.begin(), db.begin());
    assert!(book(&mut one, &table, 4)?);
    assert!(book(&mut two, &table, 6)?);
    let _one = one.commit()?;
    assert!(is_conflict(two.commit()));
    assert!(!db.run(|tx| book(tx, &table, 6))?);
    Ok(())
}

/// People by the city they live in, and a table to write to.
struct Cities {
    db: Database,
    people: Table<u32, String>,
    by_city: Index<String, u32, String>,
    counts: Table<String, i64>,
}

impl Cities {
    fn open(people: &[(u32, &str)]) -> Result<Self> {
        let db = Database::in_memory()?;
        let table = db
            .define::<u32, String>("people")
            .index("by_city", 1, |_id, city: &String| city.clone())
            .open()?;
        db.run(|tx| people.iter().try_for_each(|(id, city)| tx.put(&table, id, *city)))?;
        let (by_city, counts) = (table.index("by_city")?, db.table("counts")?);
        Ok(Self { db, people: table, by_city, counts })
    }

    /// Counts the people who live in Oslo, and notes the count.
    fn count_oslo(&self, tx: &mut Transaction<'_>) -> Result<i64> {
        let count = tx.range(&self.by_city, "oslo"..="oslo").count() as i64;
        tx.put(&self.counts, "oslo", &count)?;
        Ok(count)
    }

    /// one counts, `change` commits, one's commit fails; run again one counts `then`.
    fn check(
        &self,
        first: i64,
        change: impl Fn(&mut Transaction<'_>) -> Result<()>,
        then: i64,
    ) -> Result<()> {
        let mut one = self.db.begin();
        assert_eq!(self.count_oslo(&mut one)?, first);
        self.db.run(change)?;
        assert!(is_conflict(one.commit()));
        assert_eq!(self.db.run(|tx| self.count_oslo(tx))?, then);
        Ok(())
    }
}

/// ```text
/// one    count by city, oslo = 1                                put count=1  commit!
/// two                             insert 7 in oslo  commit
/// ```
/// An index is a tree like a table's, and its entries are written by the transaction that writes the row, so its leaves
/// are witnessed too. one's commit fails with `Conflict`; run again, it counts two.
#[test]
fn phantom_through_a_secondary_index() -> Result<()> {
    let cities = Cities::open(&[(1, "oslo"), (2, "rome")])?;
    cities.check(1, |tx| tx.insert(&cities.people, &7, "oslo"), 2)
}

/// ```text
/// one    count by city, oslo = 1                              put count=1  commit!
/// two                             put 2 in oslo  commit
/// ```
/// one never read row 2, which was in Rome when it counted; the entry that two's update adds to the index moves the
/// leaf that one witnessed. one's commit fails with `Conflict`; run again, it counts two.
#[test]
fn phantom_through_a_secondary_index_by_update() -> Result<()> {
    let cities = Cities::open(&[(1, "oslo"), (2, "rome")])?;
    cities.check(1, |tx| tx.put(&cities.people, &2, "oslo"), 2)
}

/// ```text
/// one    count by city, oslo = 2                            put count=2  commit!
/// two                             delete row 1  commit
/// ```
/// two takes the row's entry out of the index in the same commit, and one's read-set holds that entry and the row.
/// one's commit fails with `Conflict`; run again, it counts one.
#[test]
fn phantom_through_a_secondary_index_by_delete() -> Result<()> {
    let cities = Cities::open(&[(1, "oslo"), (2, "oslo")])?;
    cities.check(2, |tx| tx.delete(&cities.people, &1).map(drop), 1)
}
