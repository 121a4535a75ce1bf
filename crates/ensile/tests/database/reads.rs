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
        assert!(reader.get_many(&towns, &[] as &[Town])?.is_empty());
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
        assert_eq!(rows(reader.range(&towns, ..).rev()), all.iter().rev().copied().collect::<Vec<_>>());
        assert_eq!(rows(reader.range(&towns, (1, "b")..(2, "a"))), [14, 15, 20]);
        assert_eq!(rows(reader.range(&towns, (1, "b")..=(2, "a"))), [14, 15, 20, 21]);
        assert_eq!(rows(reader.range(&towns, (1, "b")..=(2, "a")).rev()), [21, 20, 15, 14]);
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
        assert_eq!(rows(reader.range(&towns, Prefix((2,)))), [20, 21, 22, 23, 24, 25]);
        assert_eq!(rows(reader.range(&towns, Prefix((4,)))), [0; 0]);
        assert_eq!(rows(reader.range(&towns, Prefix((3,))).rev()), [35, 34, 33, 32, 31, 30]);
        assert_eq!(rows(reader.range(&names, Prefix("a"))), [1, 2, 3]);
        assert_eq!(rows(reader.range(&names, Prefix("a\0"))), [2]);
        assert_eq!(rows(reader.range(&names, Prefix(""))).len(), NAMES.len());
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
            seen.push(*row);
            if country == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        assert_eq!(seen, [13, 14, 15, 20]);
        seen.clear();
        reader.scan_reverse(&towns, .., |key, row| {
            assert_eq!(NAMES[(*row % 10) as usize], key.1);
            seen.push(*row);
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
            .range(&blobs, -1000..=1000)
            .rev()
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

#[test]
fn a_range_is_read_from_both_ends_and_no_row_comes_twice() -> Result<()> {
    const ROWS: u64 = 3000;
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("numbers")?;
    db.run(|tx| (0..ROWS).try_for_each(|key| tx.put(&table, &key, &key)))?;
    through_both!(db, |reader| {
        // Every share of steps from the back, so that batches of the two ends meet anywhere.
        for share in [0, 1, 2, 5, 9, 10] {
            let mut found = reader.range(&table, 7..ROWS - 5);
            let mut expected: std::collections::VecDeque<u64> = (7..ROWS - 5).collect();
            for step in 0.. {
                // Some rows by value, some by reference.
                let shown = |key, row: &u64| (key, *row);
                let (row, due) = match (step % 10 < share, step % 3 == 0) {
                    (true, false) => (found.next_back().transpose()?, expected.pop_back()),
                    (true, true) => (found.next_back_with(shown)?, expected.pop_back()),
                    (false, false) => (found.next().transpose()?, expected.pop_front()),
                    (false, true) => (found.next_with(shown)?, expected.pop_front()),
                };
                assert_eq!(row, due.map(|key| (key, key)));
                if due.is_none() {
                    break;
                }
            }
            assert!(found.next().is_none() && found.next_back().is_none());
        }
    });
    Ok(())
}

#[test]
fn a_table_and_its_indexes_are_read_by_the_same_verbs() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db
        .define::<u64, u64>("squares")
        .unique_index("by_square", 1, |_key, square| *square)
        .index("by_digit", 1, |_key, square| square % 10)
        .open()?;
    let (by_square, by_digit) = (table.index::<u64>("by_square")?, table.index::<u64>("by_digit")?);
    db.run(|tx| (0..20).try_for_each(|key| tx.put(&table, &key, &(key * key))))?;
    through_both!(db, |reader| {
        assert_eq!((reader.get(&table, &9)?, reader.get(&by_square, &81)?), (Some(81), Some((9, 81))));
        assert_eq!(reader.get_many(&by_square, &[81, 82, 4])?, [Some((9, 81)), None, Some((2, 4))]);
        let mut seen = Vec::new();
        reader.get_many_with(&by_square, &[82, 4], |at, row| seen.push((at, row.copied())))?;
        assert_eq!(seen, [(0, None), (1, Some(4))]);
        assert_eq!(reader.get_with(&by_square, &16, |row| row + 1)?, Some(17));
        assert!(reader.contains(&by_square, &16)? && !reader.contains(&by_square, &17)?);
        assert!(reader.contains(&by_digit, &6)? && !reader.contains(&by_digit, &7)?);
        assert_eq!(rows(reader.find(&table, &3)), [9]);
        assert_eq!(rows(reader.find(&table, &20)), [0; 0]);
        assert_eq!(rows(reader.find(&by_digit, &6).rev()), [256, 196, 36, 16]);
        for many in [
            reader.get(&by_digit, &6).map(drop),
            reader.get_with(&by_digit, &6, |_row| ()).map(drop),
            reader.get_many(&by_digit, &[6]).map(drop),
        ] {
            assert!(matches!(&many, Err(Error::Misuse(why)) if why.contains("not unique")), "{many:?}");
        }
        let (mut keys, mut indexed) = (Vec::new(), Vec::new());
        reader.scan_keys(&table, 17.., |key| {
            keys.push(key);
            ControlFlow::Continue(())
        })?;
        reader.scan_keys(&by_square, ..=4, |key| {
            indexed.push(key);
            ControlFlow::Continue(())
        })?;
        assert_eq!((keys, indexed), (vec![17, 18, 19], vec![0, 1, 2]));
    });
    Ok(())
}
