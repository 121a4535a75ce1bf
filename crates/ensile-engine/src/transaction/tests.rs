//! Transactions over the public calls: what a user may rely on, one behaviour a test.
//!
//! Databases here are driven by hand (`without_threads`), so that epochs, snapshots and garbage move when a test says.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_index::testing::partly_equal_keys;

use crate::{Database, Durability, Error, Readable, Result, Table, Tuning};

struct Driven {
    db: Database,
    clock: Clock,
}

impl Driven {
    fn new() -> Self {
        let clock = Clock::manual();
        let db = Database::builder_in_memory()
            .manual_clock(clock.clone())
            .without_threads()
            .open()
            .expect("opens");
        Self { db, clock }
    }

    /// Ticks the epoch this many times, 40 ms each.
    fn beat(&self, beats: u32) {
        for _ in 0..beats {
            self.clock.advance(Duration::from_millis(40));
            self.db.heartbeat_step();
        }
    }

    /// Lets all garbage go that can: limits move with beats, workers free after their commits.
    fn settle(&self) {
        let table = self.db.table::<u64, u64>("settle").expect("opens");
        for _ in 0..5 {
            self.beat(60);
            for _ in 0..50 {
                self.db.run(|tx| tx.put(&table, &0, &0)).expect("commits");
            }
        }
    }

    fn with_table() -> (Self, Table<u64, u64>) {
        let driven = Self::new();
        let table = driven.table();
        (driven, table)
    }

    fn table(&self) -> Table<u64, u64> {
        self.db.table("numbers").expect("opens")
    }
}

fn all(reader: &mut impl Readable, table: &Table<u64, u64>) -> Vec<(u64, u64)> {
    reader.range(table, ..).map(|row| row.expect("reads")).collect()
}

#[test]
fn a_transaction_sees_its_own_writes_in_gets_and_scans() -> Result<()> {
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| (0..5).try_for_each(|key| tx.put(&table, &(key * 10), &key)))?;
    let mut tx = driven.db.begin();
    tx.put(&table, &5, &500)?;
    tx.put(&table, &10, &1000)?;
    assert!(tx.delete(&table, &20)?);
    tx.insert(&table, &100, &9)?;
    assert_eq!(tx.get(&table, &10)?, Some(1000));
    assert_eq!(tx.get(&table, &20)?, None);
    let rows = vec![(0, 0), (5, 500), (10, 1000), (30, 3), (40, 4), (100, 9)];
    assert_eq!(all(&mut tx, &table), rows);
    let reversed: Vec<_> = tx.range(&table, ..).rev().map(|row| row.expect("reads")).collect();
    assert_eq!(reversed, rows.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(all(&mut driven.db.begin(), &table).len(), 5, "nobody else sees them yet");
    let _ = tx.commit()?;
    assert_eq!(all(&mut driven.db.begin(), &table), rows);
    Ok(())
}

type ByteRows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Each key has its row in the model, or none, one by one, together, and in scans between any two of them.
fn check_reads(
    reader: &mut impl Readable,
    table: &Table<Vec<u8>, Vec<u8>>,
    (keys, model): (&[Vec<u8>], &ByteRows),
    random: &mut Random,
) -> Result<()> {
    let rows: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
    for (key, row) in keys.iter().zip(&rows) {
        assert_eq!(&reader.get(table, key)?, row, "{key:?}");
        assert_eq!(reader.contains(table, key)?, row.is_some(), "{key:?}");
    }
    assert_eq!(reader.get_many(table, keys)?, rows);
    for lower in keys {
        let upper = &keys[random.next_below(keys.len() as u64) as usize];
        let mut bound = |key: &Vec<u8>| match random.next_below(3) {
            0 => Bound::Included(key.clone()),
            1 => Bound::Excluded(key.clone()),
            _ => Bound::Unbounded,
        };
        let bounds = (bound(lower), bound(upper));
        let within = |key: &Vec<u8>| RangeBounds::<Vec<u8>>::contains(&bounds, key);
        let mut expected: Vec<_> =
            model.iter().filter(|(key, _)| within(key)).map(|row| (row.0.clone(), row.1.clone())).collect();
        assert_eq!(reader.range(table, bounds.clone()).collect::<Result<Vec<_>>>()?, expected, "{bounds:?}");
        expected.reverse();
        assert_eq!(
            reader.range(table, bounds.clone()).rev().collect::<Result<Vec<_>>>()?,
            expected,
            "{bounds:?}"
        );
    }
    Ok(())
}

#[test]
fn of_keys_that_agree_in_part_each_has_its_own_row_before_and_after_the_commit() -> Result<()> {
    let driven = Driven::new();
    for seed in 0..40 {
        let mut random = Random::from_seed(seed);
        let keys = partly_equal_keys(&mut random);
        let table = driven.db.table::<Vec<u8>, Vec<u8>>(&format!("bytes {seed}"))?;
        let mut model: ByteRows = keys.iter().step_by(3).map(|key| (key.clone(), key.clone())).collect();
        driven.db.run(|tx| model.iter().try_for_each(|(key, row)| tx.put(&table, key, row)))?;
        let mut tx = driven.db.begin();
        if seed % 2 == 0 {
            tx.prefetch(|prefetch| keys.iter().for_each(|key| prefetch.key(&table, key)))?;
        }
        for (step, key) in keys.iter().enumerate() {
            let row = [&key[..], &step.to_be_bytes()].concat();
            let before = model.get(key).cloned();
            let after = match random.next_below(5) {
                0 => tx.put(&table, key, &row).map(|()| Some(row))?,
                1 => match tx.insert(&table, key, &row) {
                    Ok(()) if before.is_none() => Some(row),
                    Err(Error::KeyExists { .. }) if before.is_some() => before,
                    other => panic!("{other:?} of {key:?}, which had {before:?}"),
                },
                2 => {
                    assert_eq!(
                        tx.update(&table, key, |old| old.clone_from(&row))?,
                        before.is_some(),
                        "{key:?}"
                    );
                    before.map(|_| row)
                }
                3 => {
                    assert_eq!(tx.delete(&table, key)?, before.is_some(), "{key:?}");
                    None
                }
                _ => before,
            };
            assert_eq!(tx.get(&table, key)?, after, "{key:?}");
            match after {
                Some(row) => drop(model.insert(key.clone(), row)),
                None => drop(model.remove(key)),
            }
            let other = &keys[random.next_below(keys.len() as u64) as usize];
            assert_eq!(tx.get(&table, other)?, model.get(other).cloned(), "{other:?} after {key:?}");
        }
        check_reads(&mut tx, &table, (&keys, &model), &mut random)?;
        let _ = tx.commit()?;
        check_reads(&mut driven.db.begin(), &table, (&keys, &model), &mut random)?;
        driven.beat(60);
        check_reads(&mut driven.db.snapshot()?, &table, (&keys, &model), &mut random)?;
        let announce = |key: &Vec<u8>, prefetch: &mut crate::Prefetch<'_>| prefetch.key(&table, key);
        let results = driven.db.run_batch(&keys, announce, |tx, key| tx.get(&table, key));
        for (key, result) in keys.iter().zip(results) {
            assert_eq!(result?.0.as_ref(), model.get(key), "{key:?}");
        }
    }
    Ok(())
}

#[test]
fn a_row_whose_index_key_changes_in_any_part_moves_to_the_new_key() -> Result<()> {
    let driven = Driven::new();
    for seed in 0..20 {
        let keys = partly_equal_keys(&mut Random::from_seed(seed));
        let table = driven.db.define::<u64, Vec<u8>>(&format!("rows {seed}"));
        let table = table.index("by_row", 1, |_: &u64, row: &Vec<u8>| row.clone()).open()?;
        let by_row = table.index::<Vec<u8>>("by_row")?;
        driven.db.run(|tx| tx.put(&table, &1, &keys[0]))?;
        for pair in keys.windows(2) {
            driven.db.run(|tx| tx.put(&table, &1, &pair[1]))?;
            let of = |key: &Vec<u8>| driven.db.run(|tx| tx.find(&by_row, key).collect::<Result<Vec<_>>>());
            assert_eq!(of(&pair[0])?, [], "{pair:?}");
            assert_eq!(of(&pair[1])?, [(1, pair[1].clone())], "{pair:?}");
        }
    }
    Ok(())
}

#[test]
fn dropping_a_transaction_leaves_no_trace() -> Result<()> {
    let (driven, table) = Driven::with_table();
    let mut tx = driven.db.begin();
    tx.put(&table, &1, &1)?;
    drop(tx);
    let mut tx = driven.db.begin();
    tx.put(&table, &2, &2)?;
    tx.rollback();
    assert_eq!(all(&mut driven.db.begin(), &table), []);
    Ok(())
}

#[test]
fn a_lost_update_and_write_skew_are_conflicts() -> Result<()> {
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| tx.put(&table, &1, &10))?;
    let (mut a, mut b) = (driven.db.begin(), driven.db.begin());
    for tx in [&mut a, &mut b] {
        let value = tx.get(&table, &1)?.expect("there");
        tx.put(&table, &1, &(value + 1))?;
    }
    let _ = a.commit()?;
    assert!(matches!(b.commit(), Err(Error::Conflict)));
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| (1..=2).try_for_each(|key| tx.put(&table, &key, &1)))?;
    let (mut a, mut b) = (driven.db.begin(), driven.db.begin());
    for (tx, mine) in [(&mut a, 1), (&mut b, 2)] {
        let on_call = tx.get(&table, &1)?.expect("there") + tx.get(&table, &2)?.expect("there");
        assert_eq!(on_call, 2);
        tx.put(&table, &mine, &0)?;
    }
    let _ = a.commit()?;
    assert!(matches!(b.commit(), Err(Error::Conflict)));
    Ok(())
}

#[test]
fn phantoms_are_conflicts_whether_inserted_or_deleted() -> Result<()> {
    for delete in [false, true] {
        let (driven, table) = Driven::with_table();
        driven.db.run(|tx| (0..40).try_for_each(|key| tx.put(&table, &(key * 2), &1)))?;
        let mut reader = driven.db.begin();
        let sum: u64 = all(&mut reader, &table).iter().map(|(_, value)| value).sum();
        reader.put(&table, &1000, &sum)?;
        driven
            .db
            .run(|tx| if delete { tx.delete(&table, &20).map(drop) } else { tx.insert(&table, &21, &1) })?;
        assert!(matches!(reader.commit(), Err(Error::Conflict)), "delete: {delete}");
    }
    Ok(())
}

#[test]
fn a_missed_key_that_appears_or_a_second_read_of_a_changed_one_is_a_conflict() -> Result<()> {
    let (driven, table) = Driven::with_table();
    let mut tx = driven.db.begin();
    assert_eq!(tx.get(&table, &1)?, None);
    assert!(!tx.delete(&table, &2)?);
    tx.put(&table, &3, &3)?;
    driven.db.run(|tx| tx.put(&table, &2, &2))?;
    assert!(matches!(tx.commit(), Err(Error::Conflict)));
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| tx.put(&table, &1, &1))?;
    let mut tx = driven.db.begin();
    assert_eq!(tx.get(&table, &1)?, Some(1));
    driven.db.run(|tx| tx.put(&table, &1, &2))?;
    assert_eq!(tx.get(&table, &1)?, Some(2));
    assert!(matches!(tx.commit(), Err(Error::Conflict)), "two states");
    Ok(())
}

#[test]
fn own_inserts_into_scanned_leaves_do_not_abort_their_transaction() -> Result<()> {
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| (0..30).try_for_each(|key| tx.put(&table, &(key * 100), &key)))?;
    let mut tx = driven.db.begin();
    assert_eq!(all(&mut tx, &table).len(), 30);
    for key in 0..2000 {
        tx.put(&table, &(key * 7 + 3), &key)?;
    }
    let _ = tx.commit()?;
    Ok(())
}

#[test]
fn two_inserts_of_one_key_cannot_both_succeed() -> Result<()> {
    let (driven, table) = Driven::with_table();
    let (mut a, mut b) = (driven.db.begin(), driven.db.begin());
    a.insert(&table, &1, &1)?;
    b.insert(&table, &1, &2)?;
    let _ = a.commit()?;
    assert!(matches!(b.commit(), Err(Error::Conflict)));
    let again = driven.db.run(|tx| tx.insert(&table, &1, &2));
    assert!(matches!(again, Err(Error::KeyExists { .. })));
    Ok(())
}

#[test]
fn a_key_deleted_and_put_again_goes_through_every_form() -> Result<()> {
    let driven = Driven::new();
    let table = driven.db.table::<u64, Vec<u8>>("bytes")?;
    for round in 0..200u64 {
        let length = (round * 37 % 500) as usize;
        driven.db.run(|tx| tx.put(&table, &1, &vec![round as u8; length]))?;
        if round % 3 == 0 {
            driven.beat((round % 40) as u32);
        }
        assert_eq!(driven.db.run(|tx| tx.get(&table, &1))?, Some(vec![round as u8; length]));
        if round % 2 == 0 {
            assert!(driven.db.run(|tx| tx.delete(&table, &1))?);
            assert_eq!(driven.db.run(|tx| tx.get(&table, &1))?, None);
        }
    }
    driven.settle();
    let stats = driven.db.stats();
    assert!(stats.garbage_things <= 1, "the last put's own version at most: {stats:?}");
    Ok(())
}

#[test]
fn an_aborted_inserts_placeholder_is_taken_out_or_committed_into() -> Result<()> {
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| tx.put(&table, &1, &1))?;
    let mut loser = driven.db.begin();
    loser.get(&table, &1)?;
    loser.put(&table, &50, &50)?;
    loser.put(&table, &60, &60)?;
    driven.db.run(|tx| tx.put(&table, &1, &2))?;
    assert!(matches!(loser.commit(), Err(Error::Conflict)));
    driven.db.run(|tx| tx.put(&table, &60, &61))?;
    for _ in 0..4 {
        driven.beat(60);
        driven.db.run(|tx| tx.put(&table, &1, &3))?;
    }
    assert_eq!(all(&mut driven.db.begin(), &table), [(1, 3), (60, 61)]);
    driven.beat(60);
    driven.db.run(|tx| tx.put(&table, &1, &4))?;
    driven.db.run(|tx| tx.put(&table, &60, &62))?;
    assert_eq!(all(&mut driven.db.begin(), &table), [(1, 4), (60, 62)]);
    Ok(())
}

#[test]
fn a_snapshot_stands_still_while_everything_changes() -> Result<()> {
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| (0..100).try_for_each(|key| tx.put(&table, &key, &0)))?;
    driven.beat(60);
    let mut snapshot = driven.db.snapshot()?;
    let before = all(&mut snapshot, &table);
    assert_eq!(before.len(), 100);
    for round in 1..20 {
        driven.db.run(|tx| (0..100).try_for_each(|key| tx.put(&table, &key, &round)))?;
        driven.db.run(|tx| tx.delete(&table, &(round * 3)).map(drop))?;
        driven.db.run(|tx| tx.put(&table, &(1000 + round), &round))?;
        driven.beat(30);
        assert_eq!(all(&mut snapshot, &table), before, "round {round}");
    }
    assert_eq!(snapshot.get(&table, &3)?, Some(0));
    assert_eq!(snapshot.get(&table, &1001)?, None);
    drop(snapshot);
    driven.settle();
    let stats = driven.db.stats();
    assert!(stats.garbage_things <= 1, "the last put's own version at most: {stats:?}");
    Ok(())
}

#[test]
fn a_latest_snapshot_shows_what_was_just_committed() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("numbers")?;
    db.run(|tx| tx.put(&table, &1, &1))?;
    assert_eq!(db.snapshot_latest()?.get(&table, &1)?, Some(1));
    Ok(())
}

#[test]
fn an_open_transaction_holds_nobody_up_and_is_ended_at_the_garbage_limit() -> Result<()> {
    let clock = Clock::manual();
    let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads();
    let db = builder.garbage_bytes_max(1 << 20).open()?;
    let driven = Driven { db, clock };
    let table = driven.db.table::<u64, Vec<u8>>("bytes")?;
    let mut idle = driven.db.begin();
    assert_eq!(idle.get(&table, &0)?, None);
    let mut most = 0;
    for round in 0..3000usize {
        // A value that grows replaces its record: garbage that waits for pins.
        driven.db.run(|tx| tx.put(&table, &(1 + round as u64), &vec![0; 900]))?;
        driven.db.run(|tx| tx.put(&table, &(1 + round as u64), &vec![0; 1900]))?;
        if round % 10 == 0 {
            driven.beat(1);
        }
        most = most.max(driven.db.stats().garbage_pinned_bytes);
    }
    assert!(most < 2 << 20, "{most}");
    assert_eq!(driven.db.stats().expired, 1);
    let error = idle.get(&table, &1).expect_err("ended");
    assert!(error.is_retryable() && matches!(error, Error::Expired), "{error}");
    assert!(matches!(idle.commit(), Err(Error::Expired)));
    Ok(())
}

#[test]
fn garbage_that_an_idle_thread_could_free_expires_nobody() -> Result<()> {
    let clock = Clock::manual();
    let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads();
    let db = builder.garbage_bytes_max(1 << 20).open()?;
    let driven = Driven { db, clock };
    let table = driven.db.table::<u64, Vec<u8>>("bytes")?;
    let (idle, wake) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in 0..3000u64 {
                driven.db.run(|tx| tx.put(&table, &key, &vec![0; 900])).expect("commits");
                driven.db.run(|tx| tx.put(&table, &key, &vec![0; 1900])).expect("commits");
            }
            idle.wait();
            wake.wait();
        });
        idle.wait();
        assert!(driven.db.stats().garbage_pinned_bytes > 1 << 20);
        driven.beat(3);
        let mut tx = driven.db.begin();
        driven.beat(50);
        assert!(tx.get(&table, &1).is_ok(), "it holds back none of it");
        wake.wait();
    });
    assert_eq!(driven.db.stats().expired, 0);
    Ok(())
}

#[test]
fn any_number_of_transactions_may_be_open_and_move_between_threads() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("numbers")?;
    let mut open = Vec::new();
    for key in 0..500 {
        let mut tx = db.begin_owned();
        tx.put(&table, &key, &key)?;
        open.push(tx);
    }
    std::thread::scope(|scope| {
        for chunk in open.into_iter().collect::<Vec<_>>().chunks_mut(1) {
            let mut tx = db.begin_owned();
            std::mem::swap(&mut tx, &mut chunk[0]);
            scope.spawn(move || tx.commit().map(drop).expect("commits"));
        }
    });
    assert_eq!(all(&mut db.begin(), &table).len(), 500);
    Ok(())
}

#[test]
fn a_failed_closure_is_run_again_if_its_reads_did_not_stand_together() -> Result<()> {
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| (1..=2).try_for_each(|key| tx.put(&table, &key, &0)))?;
    let mut runs = 0;
    let result = driven.db.run(|tx| {
        runs += 1;
        let first = tx.get(&table, &1)?;
        if runs == 1 {
            driven.db.run(|other| (1..=2).try_for_each(|key| other.put(&table, &key, &1)))?;
        }
        if tx.get(&table, &2)? == first { Ok(()) } else { Err(Error::Misuse("given up".to_owned())) }
    });
    result?;
    assert_eq!(runs, 2);
    Ok(())
}

#[test]
fn a_key_that_was_read_stands_once_in_the_read_set_and_needs_no_descent_to_be_written() -> Result<()> {
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| (0..40).try_for_each(|key| tx.put(&table, &key, &key)))?;
    for keys in [1, 2, 3, 12] {
        let mut tx = driven.db.begin();
        for _ in 0..3 {
            for key in 0..keys {
                assert_eq!(tx.get(&table, &key)?, Some(key));
            }
        }
        assert_eq!(tx.run_outside_call(|context| context.sets.reads.len()), keys as usize, "each once");
        for key in (0..keys).rev() {
            tx.put(&table, &key, &(key + 100))?;
            assert_eq!(tx.get(&table, &key)?, Some(key + 100), "its own write");
            assert!(tx.update(&table, &key, |value| *value -= 100)?);
        }
        tx.put(&table, &1000, &1)?;
        tx.run_outside_call(|context| {
            let writes = &context.sets.writes.entries;
            assert_eq!(writes.len(), keys as usize + 1, "each key once");
            assert!(
                writes[..keys as usize].iter().all(|write| write.record.is_some()),
                "found when it was read"
            );
            assert!(writes[keys as usize].record.is_none(), "never met before");
        });
        let _ = tx.commit()?;
        assert!(driven.db.run(|tx| tx.delete(&table, &1000))?);
        assert_eq!(all(&mut driven.db.begin(), &table), (0..40).map(|key| (key, key)).collect::<Vec<_>>());
    }
    Ok(())
}

/// Most such transactions read each key once, and need no table of their keys.
#[test]
fn a_transaction_that_reads_many_keys_again_and_again_keeps_a_small_read_set() -> Result<()> {
    const KEYS: u64 = 40;
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| (0..KEYS).try_for_each(|key| tx.put(&table, &key, &key)))?;
    let mut tx = driven.db.begin();
    for round in 0..1000 {
        for key in 0..KEYS {
            assert_eq!(tx.get(&table, &key)?, Some(key));
        }
        let (reads, keys) =
            tx.run_outside_call(|context| (context.sets.reads.len(), context.sets.writes.keys.len()));
        assert!(reads < 2000, "{reads} reads of {KEYS} keys");
        assert!(round > 0 || (8..KEYS as usize).contains(&keys), "{keys} keys are entered at first");
    }
    for key in 0..KEYS {
        tx.put(&table, &key, &(key + 1))?;
        assert_eq!(tx.get(&table, &key)?, Some(key + 1), "its own write");
    }
    let _ = tx.commit()?;
    assert_eq!(all(&mut driven.db.begin(), &table), (0..KEYS).map(|key| (key, key + 1)).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn rows_of_scans_and_multi_gets_enter_no_key() -> Result<()> {
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| (0..40).try_for_each(|key| tx.put(&table, &key, &key)))?;
    let mut tx = driven.db.begin();
    assert_eq!(all(&mut tx, &table).len(), 40);
    assert_eq!(tx.get_many(&table, &[3, 4, 5])?.len(), 3);
    assert_eq!(tx.run_outside_call(|context| context.sets.writes.keys.len()), 0);
    Ok(())
}

#[test]
fn many_reads_leave_room_for_writes_however_long_their_keys_are() -> Result<()> {
    let driven = Driven::new();
    let table: Table<String, u64> = driven.db.table("long keys")?;
    let key = |at: u32| format!("{at:0>900}");
    driven.db.run(|tx| (0..8000).try_for_each(|at| tx.put(&table, &key(at), &7)))?;
    let mut tx = driven.db.begin();
    for at in 0..8000 {
        assert_eq!(tx.get(&table, &key(at))?, Some(7));
    }
    let met = tx.run_outside_call(|context| context.sets.writes.keys.len());
    assert!(met < 8000, "it remembers some keys, not any number of them");
    for at in (0..8000).rev() {
        tx.put(&table, &key(at), &8)?;
    }
    let _ = tx.commit()?;
    assert_eq!(driven.db.run(|tx| tx.get(&table, &key(1)))?, Some(8));
    Ok(())
}

#[test]
fn batches_commit_each_request_by_itself() -> Result<()> {
    let (driven, table) = Driven::with_table();
    driven.db.run(|tx| (0..1000).try_for_each(|key| tx.put(&table, &key, &key)))?;
    let requests: Vec<u64> = (0..100).map(|i| i * 13 % 1200).collect();
    let results = driven.db.run_batch(
        &requests,
        |key, prefetch| prefetch.key(&table, key),
        |tx, key| {
            let old = tx.get(&table, key)?;
            tx.put(&table, key, &(old.unwrap_or(0) + 1))?;
            if key % 5 == 0 { Err(Error::Misuse("given up".to_owned())) } else { Ok(old) }
        },
    );
    for (key, result) in requests.iter().zip(results) {
        let expected = (*key < 1000).then_some(*key);
        if key % 5 == 0 {
            assert!(matches!(result, Err(Error::Misuse(_))));
            assert_eq!(driven.db.run(|tx| tx.get(&table, key))?, expected);
        } else {
            assert_eq!(result?.0, expected);
            assert_eq!(driven.db.run(|tx| tx.get(&table, key))?, Some(expected.unwrap_or(0) + 1));
        }
    }
    Ok(())
}

#[test]
fn tables_of_another_database_are_refused() -> Result<()> {
    let (a, b) = (Driven::new(), Driven::new());
    let table = a.table();
    assert!(matches!(b.db.run(|tx| tx.get(&table, &1)), Err(Error::Misuse(_))));
    Ok(())
}

#[test]
fn money_is_neither_made_nor_lost_by_threads_that_move_it() -> Result<()> {
    const ACCOUNTS: u64 = 20;
    let tuning = Tuning { snapshot_interval: Duration::from_millis(5), ..Tuning::default() };
    let db = Database::builder_in_memory().tuning(tuning).open()?;
    let table = db.table::<u64, u64>("accounts")?;
    db.run(|tx| (0..ACCOUNTS).try_for_each(|key| tx.put(&table, &key, &100)))?;
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                let mut random = ensile_base::random::Random::from_seed(thread);
                for round in 0..3000 {
                    let (from, to) = (random.next_below(ACCOUNTS), random.next_below(ACCOUNTS));
                    db.run(|tx| {
                        let amount = tx.get(table, &from)?.unwrap_or(0).min(7);
                        // The two reads need not stand together before commit has said so.
                        tx.update(table, &from, |value| *value = value.saturating_sub(amount))?;
                        if round % 50 == 0 && tx.get(table, &from)? == Some(0) {
                            tx.delete(table, &from)?;
                        }
                        let there = tx.get(table, &to)?.unwrap_or(0);
                        tx.put(table, &to, &(there + amount))
                    })
                    .expect("commits");
                    if round % 20 == 0 {
                        let total = |rows: Vec<(u64, u64)>| rows.iter().map(|(_, value)| value).sum::<u64>();
                        let now =
                            db.run(|tx| tx.range(table, ..).collect::<Result<Vec<_>>>()).expect("reads");
                        assert_eq!(total(now), 100 * ACCOUNTS);
                        let mut snapshot = db.snapshot().expect("opens");
                        let then = all(&mut snapshot, table);
                        assert!(then.is_empty() || total(then) == 100 * ACCOUNTS);
                    }
                }
            });
        }
    });
    Ok(())
}

#[test]
fn a_closed_database_runs_nothing_more_and_lets_open_transactions_read() -> Result<()> {
    let driven = Driven::new();
    let (db, table) = (&driven.db, driven.table());
    db.run(|tx| tx.put(&table, &1, &10))?;
    driven.beat(100);
    let (mut open, mut snapshot) = (db.begin(), db.snapshot()?);
    open.put(&table, &2, &20)?;
    db.close()?;
    let mut runs = 0;
    let mut count = |tx: &mut crate::Transaction<'_>| {
        runs += 1;
        tx.get(&table, &1)
    };
    assert!(matches!(db.run(&mut count), Err(Error::Closed)));
    assert!(matches!(db.submit(&mut count), Err(Error::Closed)));
    let batch = db.run_batch(&[1, 1], |key, prefetch| prefetch.key(&table, key), |tx, _| count(tx));
    assert!(batch.iter().all(|result| matches!(result, Err(Error::Closed))));
    assert_eq!(runs, 0, "no closure runs");
    assert!(matches!(db.begin().get(&table, &1), Err(Error::Closed)));
    assert!(matches!(db.begin_owned().put(&table, &1, &1), Err(Error::Closed)));
    assert!(matches!(db.begin().commit(), Err(Error::Closed)));
    assert!(matches!(db.snapshot(), Err(Error::Closed)));
    assert!(matches!(db.table::<u64, u64>("other"), Err(Error::Closed)));
    assert_eq!(snapshot.get(&table, &1)?, Some(10));
    assert_eq!((open.get(&table, &1)?, open.get(&table, &2)?), (Some(10), Some(20)));
    assert!(matches!(open.commit(), Err(Error::Closed)));
    Ok(())
}

#[test]
fn a_huge_transaction_leaves_no_memory_in_its_context_and_others_leave_theirs() -> Result<()> {
    const ROWS: u64 = 40_000;
    let driven = Driven::new();
    let (db, table) = (&driven.db, driven.table());
    let values =
        db.define::<u64, Vec<u8>>("values").unique_index("by_length", 1, |_, row| row.len() as u64).open()?;
    let by_length = values.index::<u64>("by_length")?;
    db.run(|tx| (0..ROWS).try_for_each(|key| tx.put(&table, &key, &key)))?;
    db.run(|tx| tx.put(&values, &1, &vec![7; 3 << 20]))?;
    // Each grows one: the read-set; the buffer of a record; the space for rows; the buffer of a value.
    type Grow<'t> = &'t dyn Fn(&mut crate::Transaction<'_>) -> Result<()>;
    let (reads, scratch): (Grow<'_>, Grow<'_>) =
        (&|tx| (0..2 * ROWS).try_for_each(|key| tx.get(&table, &(key % ROWS)).map(drop)), &|tx| {
            tx.get(&values, &1).map(drop)
        });
    let (rows, value): (Grow<'_>, Grow<'_>) =
        (&|tx| tx.get(&by_length, &(3 << 20)).map(drop), &|tx| tx.put(&values, &2, &vec![8; 2 << 20]));
    let range: Grow<'_> = &|tx| tx.range(&values, ..).next_with(|_key, _row| ()).map(drop);
    for (name, grow) in
        [("reads", reads), ("scratch", scratch), ("rows", rows), ("value", value), ("range", range)]
    {
        let mut tx = db.begin();
        grow(&mut tx)?;
        tx.restart();
        let kept = tx.run_outside_call(|context| context.kept_bytes());
        assert!(kept <= crate::sets::KEEP_BYTES_MAX, "{name}: {kept} bytes");
    }
    let mut tx = db.begin();
    (0..100).try_for_each(|key| tx.get(&table, &key).map(drop))?;
    let small = tx.run_outside_call(|context| context.kept_bytes());
    tx.restart();
    assert!(small > 0 && tx.run_outside_call(|context| context.kept_bytes()) == small);
    Ok(())
}

#[test]
fn the_durability_that_one_attempt_chooses_is_not_the_next_ones() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("numbers")?;
    let mut runs = 0;
    db.run(|tx| {
        runs += 1;
        assert_eq!(tx.durability, Durability::Strict);
        tx.set_durability(Durability::Relaxed);
        tx.get(&table, &1)?;
        if runs == 1 {
            db.run(|other| other.put(&table, &1, &1))?;
        }
        tx.put(&table, &2, &2)
    })?;
    assert_eq!(runs, 2);
    Ok(())
}

/// A snapshot and 3000 rows of 900 bytes each.
fn held_by_a_snapshot(work: impl Fn(&Driven, &Table<u64, Vec<u8>>, u64)) -> Result<u64> {
    let clock = Clock::manual();
    let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads();
    let db = builder.garbage_bytes_max(1 << 20).open()?;
    let driven = Driven { db, clock };
    let table = driven.db.table::<u64, Vec<u8>>("bytes")?;
    for key in 0..3000 {
        driven.db.run(|tx| tx.put(&table, &key, &vec![0; 900]))?;
    }
    driven.beat(100);
    let mut snapshot = driven.db.snapshot()?;
    assert!(snapshot.get(&table, &0)?.is_some());
    for key in 0..3000 {
        work(&driven, &table, key);
        if key % 10 == 0 {
            driven.beat(1);
        }
    }
    driven.beat(100);
    let ended = matches!(snapshot.get(&table, &0), Err(Error::Expired));
    assert_eq!(u64::from(ended), driven.db.stats().expired);
    Ok(driven.db.stats().expired)
}

#[test]
fn a_snapshot_that_holds_back_a_delete_is_ended_at_the_garbage_limit_too() -> Result<()> {
    let overwrite = |driven: &Driven, table: &Table<u64, Vec<u8>>, key| {
        driven
            .db
            .run(|tx| if key == 0 { tx.delete(table, &key).map(drop) } else { Ok(()) })
            .expect("commits");
        driven.db.run(|tx| tx.put(table, &(key + 1), &vec![1; 900])).expect("commits");
    };
    assert_eq!(held_by_a_snapshot(overwrite)?, 1);
    Ok(())
}

#[test]
fn u3_rows_that_come_and_go_under_a_snapshot_do_not_wait_for_it() -> Result<()> {
    let come_and_go = |driven: &Driven, table: &Table<u64, Vec<u8>>, key| {
        driven.db.run(|tx| tx.insert(table, &(10_000 + key), &vec![1; 900])).expect("commits");
        driven.db.run(|tx| tx.delete(table, &(10_000 + key))).expect("commits");
    };
    assert_eq!(held_by_a_snapshot(come_and_go)?, 0);
    Ok(())
}
