//! Every typed read of a table, through a transaction and through a snapshot.
//!
//! Neighbours: `Readable`; `secondary_indexes` has the reads through an index.

use std::ops::{Bound, ControlFlow};

use ensile::prelude::*;

type Town = (u16, String);

const NAMES: [&str; 6] = ["", "a", "a\0", "ab", "b", "ÿ"];

/// Three countries with the same names in each; the row says which one it is: country * 10 + place.
fn open() -> Result<(Database, Table<Town, u64>)> {
    let db = Database::in_memory()?;
    let towns = db.table("towns")?;
    db.run(|tx| {
        for country in [3, 1, 2u16] {
            for (place, name) in NAMES.iter().enumerate() {
                tx.put(&towns, &(country, *name), &(u64::from(country) * 10 + place as u64))?;
            }
        }
        Ok(())
    })?;
    Ok((db, towns))
}

/// Runs `body` with both kinds of reader.
macro_rules! through_both {
    ($db:expr, |$reader:ident| $body:block) => {{
        $db.run(|$reader| {
            $body
            Ok(())
        })?;
        let $reader = &mut $db.snapshot_latest()?;
        $body
    }};
}

fn rows<K>(found: impl Iterator<Item = Result<(K, u64)>>) -> Vec<u64> {
    found.map(|row| row.expect("it decodes").1).collect()
}

#[test]
fn points() -> Result<()> {
    let (db, towns) = open()?;
    through_both!(db, |reader| {
        assert_eq!(reader.get(&towns, &(2, "ab"))?, Some(23));
        assert_eq!(reader.get(&towns, &(2, "ab".to_string()))?, Some(23));
        assert_eq!(reader.get(&towns, &(2, "abc"))?, None);
        assert_eq!(reader.get(&towns, &(2, ""))?, Some(20));
        assert!(reader.contains(&towns, &(3, "a\0"))?);
        assert!(!reader.contains(&towns, &(4, "a"))?);
        assert_eq!(reader.get_with(&towns, &(1, "b"), |row| row + 1)?, Some(15));
        assert_eq!(reader.get_with(&towns, &(1, "c"), |row| row + 1)?, None);
    });
    Ok(())
}

#[test]
fn many_keys_at_once_are_as_many_gets_whatever_became_of_the_rows_since() -> Result<()> {
    const KEYS: u64 = 200;
    // Rows of one length, which are changed where they stand, and of any length, which are replaced too.
    let db = Database::in_memory()?;
    let (numbers, texts) = (db.table::<u64, [u8; 24]>("numbers")?, db.table::<u64, String>("texts")?);
    let text = |key: u64, round: u64| "x".repeat((key * 37 % 900 * round) as usize);
    let write = |tx: &mut Transaction<'_>, key: u64, round: u64| {
        tx.put(&numbers, &key, &[(key + round) as u8; 24])?;
        tx.put(&texts, &key, &text(key, round))
    };
    db.run(|tx| (0..KEYS).filter(|key| key % 5 != 0).try_for_each(|key| write(tx, key, 1)))?;
    let mut before = db.snapshot_latest()?;
    db.run(|tx| {
        for key in 0..KEYS {
            match key % 4 {
                0 => write(tx, key, 2)?,
                1 => {
                    tx.delete(&numbers, &key)?;
                    tx.delete(&texts, &key)?;
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    // Longer than what is fetched together, not in order, some twice, some never written.
    let keys: Vec<u64> = (0..KEYS + 50).map(|at| at * 97 % (KEYS + 20)).collect();
    for count in [0, 1, 15, 16, 17, 63, 64, 65, 128, 129, keys.len()] {
        let keys = &keys[..count];
        let found = before.get_many(&numbers, keys)?.into_iter().zip(before.get_many(&texts, keys)?);
        for (key, (number, found_text)) in keys.iter().zip(found) {
            let there = *key < KEYS && key % 5 != 0;
            assert_eq!(number, there.then_some([(key + 1) as u8; 24]), "{key} of {count}");
            assert_eq!(found_text, there.then(|| text(*key, 1)), "{key} of {count}");
        }
        through_both!(db, |reader| {
            let found = reader.get_many(&numbers, keys)?.into_iter().zip(reader.get_many(&texts, keys)?);
            for (key, (number, text)) in keys.iter().zip(found) {
                assert_eq!(number, reader.get(&numbers, key)?, "{key} of {count}");
                assert_eq!(text, reader.get(&texts, key)?, "{key} of {count}");
            }
        });
    }
    Ok(())
}

#[test]
fn many_points_come_in_the_order_asked_for() -> Result<()> {
    let (db, towns) = open()?;
    through_both!(db, |reader| {
        let found = reader.get_many(&towns, &[(3, "b"), (9, "b"), (1, ""), (3, "b"), (2, "ÿ")])?;
        assert_eq!(found, [Some(34), None, Some(10), Some(34), Some(25)]);
        assert!(reader.get_many::<Town, u64>(&towns, &[] as &[Town])?.is_empty());
    });
    Ok(())
}

#[test]
fn a_hundred_points_at_once() -> Result<()> {
    let db = Database::in_memory()?;
    let squares = db.table::<u32, u64>("squares")?;
    db.run(|tx| (0..100).try_for_each(|n: u32| tx.put(&squares, &(2 * n), &u64::from(n * n))))?;
    let keys: Vec<u32> = (0..200).rev().collect();
    through_both!(db, |reader| {
        let found = reader.get_many(&squares, &keys)?;
        for (key, row) in keys.iter().zip(found) {
            let half = u64::from(key / 2);
            assert_eq!(row, (key % 2 == 0).then_some(half * half));
        }
    });
    Ok(())
}

#[test]
fn ranges_in_both_directions() -> Result<()> {
    let (db, towns) = open()?;
    through_both!(db, |reader| {
        let all: Vec<u64> =
            (1..=3).flat_map(|country| (0..6).map(move |place| country * 10 + place)).collect();
        assert_eq!(rows(reader.range(&towns, ..)), all);
        assert_eq!(rows(reader.range_reverse(&towns, ..)), all.iter().rev().copied().collect::<Vec<_>>());
        assert_eq!(rows(reader.range(&towns, (1, "b")..(2, "a"))), [14, 15, 20]);
        assert_eq!(rows(reader.range(&towns, (1, "b")..=(2, "a"))), [14, 15, 20, 21]);
        assert_eq!(rows(reader.range_reverse(&towns, (1, "b")..=(2, "a"))), [21, 20, 15, 14]);
        let behind = (Bound::Excluded((3, "a")), Bound::Unbounded);
        assert_eq!(rows(reader.range(&towns, behind)), [32, 33, 34, 35]);
        assert_eq!(rows(reader.range(&towns, ..(1, "a\0"))), [10, 11]);
        assert_eq!(rows(reader.range(&towns, ..=(1, "a\0"))), [10, 11, 12]);
        assert_eq!(rows(reader.range(&towns, (3, "c")..(3, "ÿ"))), [0; 0]);
        let (from, to) = ((3, "a"), (1, "a"));
        assert_eq!(rows(reader.range(&towns, from..to)), [0; 0], "a range that ends before it begins");
    });
    Ok(())
}

#[test]
fn prefixes_of_tuples_and_of_text() -> Result<()> {
    let (db, towns) = open()?;
    let names = db.table::<String, u64>("names")?;
    db.run(|tx| NAMES.iter().zip(0..).try_for_each(|(name, place)| tx.put(&names, *name, &place)))?;
    through_both!(db, |reader| {
        assert_eq!(rows(reader.prefix(&towns, (2,))), [20, 21, 22, 23, 24, 25]);
        assert_eq!(rows(reader.prefix(&towns, (4,))), [0; 0]);
        assert_eq!(rows(reader.range_reverse(&towns, Prefix((3,)))), [35, 34, 33, 32, 31, 30]);
        assert_eq!(rows(reader.prefix(&names, "a")), [1, 2, 3]);
        assert_eq!(rows(reader.prefix(&names, "a\0")), [2]);
        assert_eq!(rows(reader.prefix(&names, "")).len(), NAMES.len());
        assert_eq!(reader.last(&names, Prefix("a"))?, Some(("ab".to_string(), 3)));
    });
    Ok(())
}

#[test]
fn first_and_last() -> Result<()> {
    let (db, towns) = open()?;
    through_both!(db, |reader| {
        assert_eq!(reader.first(&towns, ..)?, Some(((1, String::new()), 10)));
        assert_eq!(reader.last(&towns, ..)?, Some(((3, "ÿ".to_string()), 35)));
        assert_eq!(reader.first(&towns, Prefix((2,)))?.map(|row| row.1), Some(20));
        assert_eq!(reader.last(&towns, ..(2, ""))?.map(|row| row.1), Some(15));
        assert_eq!(reader.last(&towns, ..(1, ""))?, None);
        assert_eq!(reader.first(&towns, Prefix((9,)))?, None);
    });
    Ok(())
}

#[test]
fn a_scan_ends_when_its_visitor_breaks() -> Result<()> {
    let (db, towns) = open()?;
    through_both!(db, |reader| {
        let mut seen = Vec::new();
        reader.scan(&towns, (1, "ab").., |(country, _name), row| {
            seen.push(row);
            if country == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        assert_eq!(seen, [13, 14, 15, 20]);
        seen.clear();
        reader.scan_reverse(&towns, .., |key, row| {
            assert_eq!(NAMES[(row % 10) as usize], key.1);
            seen.push(row);
            if seen.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        assert_eq!(seen, [35, 34, 33]);
    });
    Ok(())
}

/// More rows, and longer ones, than a batch of the iterator holds.
#[test]
fn long_ranges_lose_no_row_between_batches() -> Result<()> {
    let db = Database::in_memory()?;
    let blobs = db.table::<i32, Vec<u8>>("blobs")?;
    let numbers = -1500..1500;
    for chunk in numbers.clone().collect::<Vec<i32>>().chunks(250) {
        db.run(|tx| {
            chunk.iter().try_for_each(|number| {
                tx.put(&blobs, number, &vec![*number as u8; (number.abs() % 7) as usize * 999])
            })
        })?;
    }
    through_both!(db, |reader| {
        let mut expected = numbers.clone();
        for row in reader.range(&blobs, ..) {
            let (number, blob) = row?;
            assert_eq!(Some(number), expected.next());
            assert_eq!(blob.len(), (number.abs() % 7) as usize * 999);
        }
        assert_eq!(expected.next(), None);
        let backwards: Vec<i32> = reader
            .range_reverse(&blobs, -1000..=1000)
            .map(|row| row.map(|row| row.0))
            .collect::<Result<_>>()?;
        assert!(backwards.iter().copied().eq((-1000..=1000).rev()));
        for taken in [1, 7, 8, 9, 24, 100] {
            assert_eq!(reader.range(&blobs, 0..).take(taken).filter_map(Result::ok).count(), taken);
        }
    });
    Ok(())
}

#[test]
fn an_iterator_that_has_ended_stays_so() -> Result<()> {
    let (db, towns) = open()?;
    through_both!(db, |reader| {
        let mut found = reader.range(&towns, Prefix((3,)));
        assert_eq!(found.by_ref().count(), 6);
        assert!(found.next().is_none() && found.next().is_none());
    });
    Ok(())
}

#[test]
fn an_empty_table_and_an_empty_key() -> Result<()> {
    let db = Database::in_memory()?;
    let words = db.table::<String, String>("words")?;
    let only = db.table::<(), u32>("only")?;
    through_both!(db, |reader| {
        assert_eq!(reader.get(&words, "")?, None);
        assert_eq!(reader.first(&words, ..)?, None);
        assert_eq!(reader.last(&words, ..)?, None);
        assert_eq!(reader.range(&words, ..).count(), 0);
    });
    db.run(|tx| {
        tx.put(&words, "", "")?;
        tx.put(&only, &(), &7)
    })?;
    through_both!(db, |reader| {
        assert_eq!(reader.get(&words, "")?.as_deref(), Some(""));
        assert_eq!(reader.range(&words, ..="").count(), 1);
        assert_eq!(reader.get(&only, &())?, Some(7));
    });
    Ok(())
}
