//! Deleted keys aside: what snapshots, inserts and receipts find of them (U3).

use std::collections::BTreeMap;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::random::Random;

use super::*;
use crate::codec::bounds::encode_key;
use crate::garbage::RetiredNodes;
use crate::record::blocks::Blocks;
use crate::record::tree::RecordLookup;
use crate::tables::TableCore;
use crate::{Database, Error, Index, Readable, Result, Snapshot, Table};

/// More deletes than a worker leaves in the trees. Of one commit, the last deletes are buried.
const MANY: u64 = 100;

struct Driven {
    db: Database,
    clock: Clock,
    rows: Table<u64, u64>,
    by_value: Index<u64, u64, u64>,
}

impl Driven {
    fn new() -> Self {
        let clock = Clock::manual();
        let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads();
        let db = builder.open().expect("opens");
        let rows = db.define::<u64, u64>("rows").index("by_value", 1, |_key, value| *value);
        let rows = rows.open().expect("opens");
        let by_value = rows.index::<u64>("by_value").expect("it is defined");
        Self { db, clock, rows, by_value }
    }

    /// Ticks the epoch this many times, 40 ms each.
    fn beat(&self, beats: u32) {
        for _ in 0..beats {
            self.clock.advance(Duration::from_millis(40));
            self.db.heartbeat_step();
        }
    }

    fn core(&self) -> &TableCore {
        &self.rows.core
    }

    fn put(&self, keys: impl Iterator<Item = u64>) {
        let mut keys = keys;
        self.db.run(|tx| keys.try_for_each(|key| tx.put(&self.rows, &key, &key))).expect("commits");
    }

    fn delete(&self, keys: impl Iterator<Item = u64>) {
        let mut keys = keys;
        self.db.run(|tx| keys.try_for_each(|key| tx.delete(&self.rows, &key).map(drop))).expect("commits");
    }
}

type Model = BTreeMap<u64, u64>;

/// Each reading operation shows the rows of the model.
fn check(reader: &mut impl Readable, driven: &Driven, model: &Model, random: &mut Random) -> Result<()> {
    let Driven { rows, by_value, .. } = driven;
    let expected: Vec<(u64, u64)> = model.iter().map(|(key, value)| (*key, *value)).collect();
    assert_eq!(reader.range(rows, ..).collect::<Result<Vec<_>>>()?, expected, "U3: forwards");
    let reversed: Vec<_> = expected.iter().rev().copied().collect();
    assert_eq!(reader.range(rows, ..).rev().collect::<Result<Vec<_>>>()?, reversed, "U3: backwards");
    assert_eq!(reader.first(rows, ..)?, expected.first().copied());
    assert_eq!(reader.last(rows, ..)?, expected.last().copied());
    let keys: Vec<u64> = (0..3 * MANY).collect();
    let values: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(reader.get_many(rows, &keys)?, values, "U3: many at once");
    for key in keys {
        assert_eq!(reader.get(rows, &key)?, model.get(&key).copied(), "U3: {key}");
    }
    let mut by_values: Vec<_> = expected.iter().map(|(key, value)| (*value, *key)).collect();
    by_values.sort_unstable();
    let by_values: Vec<(u64, u64)> = by_values.into_iter().map(|(value, key)| (key, value)).collect();
    assert_eq!(
        reader.range(by_value, ..).collect::<Result<Vec<_>>>()?,
        by_values,
        "U3: in the index's order"
    );
    let lower = random.next_below(3 * MANY);
    let within =
        reader.range(rows, (Bound::Excluded(lower), Bound::Unbounded)).collect::<Result<Vec<_>>>()?;
    assert_eq!(within, model.range(lower + 1..).map(|(key, value)| (*key, *value)).collect::<Vec<_>>());
    Ok(())
}

/// A snapshot with the rows that it shows.
type Held<'d> = (Snapshot<'d>, Model);

#[test]
fn u3_snapshots_and_transactions_show_their_rows_while_keys_go_and_come_again() -> Result<()> {
    let mut most_aside = 0;
    for seed in 0..12 {
        let (driven, mut random) = (Driven::new(), Random::from_seed(seed));
        let (mut model, mut held) = (Model::new(), Vec::<Held<'_>>::new());
        for _ in 0..120 {
            let (first, count, value) =
                (random.next_below(3 * MANY), random.next_below(MANY), random.next_below(1 << 20));
            let keys = first..(first + count).min(3 * MANY);
            if random.next_below(3) == 0 {
                driven
                    .db
                    .run(|tx| keys.clone().try_for_each(|key| tx.put(&driven.rows, &key, &(value ^ key))))?;
                model.extend(keys.map(|key| (key, value ^ key)));
            } else {
                driven.delete(keys.clone());
                model.retain(|key, _| !keys.contains(key));
            }
            most_aside = most_aside.max(driven.core().side.count());
            driven.beat(random.next_below(3) as u32);
            if random.next_below(8) == 0 {
                held.push((driven.db.snapshot_latest()?, model.clone()));
            }
            if held.len() > 3 || random.next_below(20) == 0 && !held.is_empty() {
                held.swap_remove(random.next_below(held.len() as u64) as usize);
            }
            for (snapshot, rows) in &mut held {
                check(snapshot, &driven, rows, &mut random)?;
            }
            driven.db.run(|tx| check(tx, &driven, &model, &mut random))?;
        }
        held.clear();
        driven.delete(0..3 * MANY);
        driven.beat(100);
        (0..2 * MANY).for_each(|_| driven.put(0..1));
        assert_eq!(driven.core().side.count(), 0, "U2 holds for every delete");
    }
    assert!(most_aside > MANY, "the records went aside");
    Ok(())
}

#[test]
fn u3_a_scan_walks_a_bounded_number_of_deleted_rows_beside_a_snapshot() -> Result<()> {
    let driven = Driven::new();
    driven.put(0..3 * MANY);
    let mut snapshot = driven.db.snapshot_latest()?;
    driven.delete(0..2 * MANY);
    let mut tx = driven.db.begin();
    assert_eq!(tx.first(&driven.rows, ..)?, Some((2 * MANY, 2 * MANY)));
    assert!(tx.reads() <= 17, "U3: it has read {} records", tx.reads());
    assert_eq!(snapshot.first(&driven.rows, ..)?, Some((0, 0)));
    Ok(())
}

#[test]
fn u3_an_insert_has_a_tid_above_the_delete_of_a_buried_record() -> Result<()> {
    let driven = Driven::new();
    driven.put(0..MANY);
    driven.beat(2);
    let deleted =
        driven.db.submit(|tx| (0..MANY).try_for_each(|key| tx.delete(&driven.rows, &key).map(drop)))?.1.tid();
    assert!(driven.core().side.newest() > Tid::ZERO, "the first records went aside");
    // Another worker's first TID of this epoch would be the smallest.
    let mut tx = driven.db.begin();
    tx.insert(&driven.rows, &(MANY - 1), &7)?;
    tx.session.as_mut().expect("it is open").worker = Some(driven.db.shared().new_worker());
    let inserted = tx.submit()?.tid();
    assert!(inserted > deleted, "U3: recovery would take {inserted} for older than {deleted}");
    assert_eq!(inserted.epoch(), deleted.epoch());
    Ok(())
}

#[test]
fn n19_an_absence_without_a_record_rests_on_the_delete_of_a_buried_record() -> Result<()> {
    let driven = Driven::new();
    driven.put(0..MANY);
    driven.beat(3);
    let deleted =
        driven.db.submit(|tx| (0..MANY).try_for_each(|key| tx.delete(&driven.rows, &key).map(drop)))?.1;
    assert!(driven.core().side.newest() > Tid::ZERO, "the first records went aside");
    let (row, one) = driven.db.submit(|tx| tx.get(&driven.rows, &(MANY - 1)))?;
    let (first, all) = driven.db.submit(|tx| tx.first(&driven.rows, MANY - 2..))?;
    assert!(row.is_none() && first.is_none());
    assert!(one.epoch() >= deleted.epoch() && all.epoch() >= deleted.epoch(), "N19: {one:?}, {all:?}");
    Ok(())
}

#[test]
fn u3_a_placeholder_hides_no_buried_record_from_a_snapshot() -> Result<()> {
    let driven = Driven::new();
    driven.put(0..MANY);
    let mut snapshot = driven.db.snapshot_latest()?;
    driven.delete(0..MANY);
    let mut failing = driven.db.begin();
    assert_eq!(failing.get(&driven.rows, &(2 * MANY))?, None);
    failing.put(&driven.rows, &(MANY - 1), &7)?;
    driven.put(2 * MANY..2 * MANY + 1);
    assert!(matches!(failing.submit(), Err(Error::Conflict)));
    assert_eq!(
        snapshot.get(&driven.rows, &(MANY - 1))?,
        Some(MANY - 1),
        "U3: the failed insert left a placeholder"
    );
    assert_eq!(snapshot.get_many(&driven.rows, &[0, MANY - 1])?, [Some(0), Some(MANY - 1)]);
    assert_eq!(snapshot.last(&driven.rows, ..)?, Some((MANY - 1, MANY - 1)));
    Ok(())
}

#[test]
fn u3_entries_are_in_the_order_of_their_keys_and_the_newest_delete_first() {
    let mut random = Random::from_seed(7);
    let mut key = || {
        (0..random.next_below(5)).map(|_| [0, 0, 1, 0xFF][random.next_below(4) as usize]).collect::<Vec<u8>>()
    };
    for _ in 0..2000 {
        let (one, other) = (key(), key());
        let entries = (super::entry_of(&one, 3), super::entry_of(&other, 9));
        assert_eq!(super::key_of(entries.0.as_ref()), one);
        if one == other {
            assert!(entries.0.as_ref() > entries.1.as_ref(), "{one:?}");
        } else {
            assert_eq!(entries.0.as_ref().cmp(entries.1.as_ref()), one.cmp(&other), "{one:?}, {other:?}");
        }
    }
}

#[test]
fn u3_a_key_that_is_buried_twice_has_both_generations() -> Result<()> {
    let driven = Driven::new();
    driven.put(0..MANY);
    let mut first = driven.db.snapshot_latest()?;
    driven.delete(0..MANY);
    driven.db.run(|tx| (0..MANY).try_for_each(|key| tx.put(&driven.rows, &key, &(key + 1))))?;
    let mut second = driven.db.snapshot_latest()?;
    driven.delete(0..MANY);
    let mut third = driven.db.snapshot_latest()?;
    for _ in 0..2 {
        assert_eq!(first.get(&driven.rows, &0)?, Some(0), "U3");
        assert_eq!(second.get(&driven.rows, &0)?, Some(1), "U3");
        assert_eq!(third.get(&driven.rows, &0)?, None, "U3");
        assert_eq!(first.range(&driven.rows, ..).count() as u64, MANY);
        assert_eq!(second.range(&driven.rows, ..).rev().count() as u64, MANY);
        assert_eq!(third.range(&driven.rows, ..).count(), 0);
        driven.beat(3);
    }
    Ok(())
}

/// Clean-up enters a record before it finds that a newer record has taken the record's place.
#[test]
fn u3_a_snapshot_follows_only_records_that_a_burial_has_taken_out_of_their_tree() -> Result<()> {
    let driven = Driven::new();
    driven.put(0..1);
    driven.delete(0..1);
    let mut snapshot = driven.db.snapshot_latest()?;
    assert_eq!(snapshot.get(&driven.rows, &7)?, None);
    let (shared, side) = (driven.db.shared(), &driven.core().side);
    let mut pin = shared.register_pin();
    let call = pin.begin(shared.epochs.now());
    let mut blocks = Blocks::new(shared.memory.cache());
    let mut retired = RetiredNodes::default();
    let mut nodes = retired.node_memory(&mut blocks, &shared.epochs);
    let deleted = encode_key::<u64>(&0);
    let RecordLookup::Found(record) = driven.core().tree.get(deleted.as_ref(), call.pin_token()) else {
        panic!("a few deleted records stay in the tree")
    };
    let key = encode_key::<u64>(&7);
    side.enter(key.as_ref(), record, &mut nodes, call.pin_token());
    assert_eq!((snapshot.get(&driven.rows, &7)?, snapshot.shown_epoch()), (None, Epoch::ZERO), "U3");
    side.leave(key.as_ref(), record, &mut nodes, call.pin_token());
    Ok(())
}
