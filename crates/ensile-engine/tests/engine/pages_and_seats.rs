//! Runs against version pages, the write-set's shortcuts and the one-call update.

use crate::prelude::*;

/// Commits of 200 rows that all fail: what they reserved for versions was never a version.
fn abort_often(driven: &Driven, table: &Table<u64, Vec<u8>>, times: u64) -> Result<()> {
    for i in 0..times {
        let mut tx = driven.db.begin();
        tx.get(table, &9999)?;
        for key in 0..200 {
            tx.put(table, &key, &vec![7; 100])?;
        }
        driven.db.run(|other| other.put(table, &9999, &i.to_be_bytes().to_vec()))?;
        assert!(matches!(tx.commit(), Err(Error::Conflict)));
    }
    Ok(())
}

fn filled(garbage_bytes_max: u64) -> Result<(Driven, Table<u64, Vec<u8>>)> {
    let driven = Driven::open(|builder| builder.garbage_bytes_max(garbage_bytes_max));
    let table = driven.db.table::<u64, Vec<u8>>("rows")?;
    driven.db.run(|tx| (0..200).chain([9999]).try_for_each(|key| tx.put(&table, &key, &vec![1; 100])))?;
    driven.pass_ticks(100);
    Ok((driven, table))
}

#[test]
fn failed_commits_leave_no_versions_behind() -> Result<()> {
    let (driven, table) = filled(256 << 20)?;
    abort_often(&driven, &table, 500)?;
    let bytes = driven.db.stats().garbage_version_bytes;
    assert!(bytes < 100_000, "{bytes} bytes of versions, and nothing but one row was ever overwritten");
    Ok(())
}

#[test]
fn failed_commits_do_not_expire_a_snapshot() -> Result<()> {
    let (driven, table) = filled(1 << 20)?;
    let mut snapshot = driven.db.snapshot()?;
    for _ in 0..20 {
        abort_often(&driven, &table, 20)?;
        driven.pass_ticks(5);
    }
    let row = snapshot.get(&table, &1);
    assert!(row.is_ok(), "{row:?}, with {} bytes of versions", driven.db.stats().garbage_version_bytes);
    Ok(())
}

struct Lcg(u64);
impl Lcg {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

type Change = (u64, u64, Option<Vec<u8>>);

fn at_boundary(history: &[Change], boundary: u64) -> BTreeMap<u64, Vec<u8>> {
    let mut state = BTreeMap::new();
    for (epoch, key, value) in history {
        if *epoch >= boundary {
            continue;
        }
        match value {
            Some(value) => state.insert(*key, value.clone()),
            None => state.remove(key),
        };
    }
    state
}

fn check(open: &mut [(Snapshot<'_>, BTreeMap<u64, Vec<u8>>)], table: &Table<u64, Vec<u8>>) {
    for (snapshot, model) in open {
        let seen: BTreeMap<_, _> = snapshot.range(table, ..).map(|row| row.expect("reads")).collect();
        assert_eq!(&seen, model, "snapshot at {:?}", snapshot.epoch());
    }
}

#[test]
fn snapshots_see_their_versions_whatever_pages_and_aborts_do() -> Result<()> {
    for seed in 0..6 {
        let mut random = Lcg(seed * 7919 + 1);
        let driven = Driven::open(|builder| builder);
        let db = &driven.db;
        let table = db.table::<u64, Vec<u8>>("rows")?;
        let mut history: Vec<Change> = Vec::new();
        let mut open: Vec<(Snapshot<'_>, BTreeMap<u64, Vec<u8>>)> = Vec::new();
        for step in 0..2000u64 {
            let abort = random.below(4) == 0;
            // `begin` before a nested worker is taken: several workers write.
            let mut tx = db.begin();
            tx.get(&table, &100_000)?;
            let mut changes = Vec::new();
            for _ in 0..1 + random.below(if step % 50 == 0 { 120 } else { 6 }) {
                let key = random.below(150);
                if changes.iter().any(|(other, _)| *other == key) {
                    continue;
                }
                if random.below(8) == 0 {
                    if tx.delete(&table, &key)? {
                        changes.push((key, None));
                    }
                } else {
                    let long = [40, 200, 900, 1500][random.below(4) as usize];
                    let value = vec![step as u8; 1 + random.below(long) as usize];
                    tx.put(&table, &key, &value)?;
                    changes.push((key, Some(value)));
                }
            }
            if abort {
                let receipt = db.submit(|outer| {
                    db.run(|other| other.put(&table, &100_001, &vec![0; 1]))?;
                    outer.put(&table, &100_002, &vec![0; 3])?;
                    Ok(())
                });
                drop(receipt);
                let (_, receipt) =
                    db.submit(|other| other.put(&table, &100_000, &step.to_be_bytes().to_vec()))?;
                history.push((receipt.epoch().number(), 100_000, Some(step.to_be_bytes().to_vec())));
                assert!(matches!(tx.submit(), Err(Error::Conflict)));
            } else {
                let epoch = tx.submit()?.epoch().number();
                history.extend(changes.into_iter().map(|(key, value)| (epoch, key, value)));
            }
            if random.below(3) == 0 {
                driven.pass_ticks(1 + random.below(40) as u32);
            }
            if random.below(20) == 0 && open.len() < 4 {
                let snapshot = db.snapshot()?;
                let mut model = at_boundary(&history, snapshot.epoch().number());
                let mut snapshot = snapshot;
                for key in [100_001u64, 100_002] {
                    if let Some(value) = snapshot.get(&table, &key)? {
                        model.insert(key, value);
                    }
                }
                open.push((snapshot, model));
            }
            if step % 20 == 0 {
                check(&mut open, &table);
                if random.below(6) == 0 && !open.is_empty() {
                    let at = random.below(open.len() as u64) as usize;
                    drop(open.swap_remove(at));
                }
            }
        }
        check(&mut open, &table);
    }
    Ok(())
}

#[test]
fn an_update_in_one_call_is_a_get_and_a_put() -> Result<()> {
    let driven = Driven::open(|builder| builder);
    let db = &driven.db;
    let table = db.table::<String, u64>("rows")?;
    let keys: Vec<String> = [1usize, 7, 8, 9, 31, 32, 33, 64, 200].iter().map(|n| "k".repeat(*n)).collect();
    db.run(|tx| keys.iter().try_for_each(|key| tx.put(&table, key, &1)))?;
    for key in &keys {
        let mut tx = db.begin();
        assert!(tx.update(&table, key, |v| *v += 10)?);
        assert!(tx.update(&table, key, |v| *v += 100)?);
        assert_eq!(tx.get(&table, key)?, Some(111));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tx.update(&table, key, |v| {
                *v = 0;
                panic!("planned")
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(tx.get(&table, key)?, Some(111));
        assert!(tx.delete(&table, key)?);
        assert!(!tx.update(&table, key, |v| *v += 1)?);
        tx.insert(&table, key, &5)?;
        assert!(tx.update(&table, key, |v| *v += 1)?);
        assert!(!tx.update(&table, &format!("{key}x"), |v| *v += 1)?);
        let other = &keys[0];
        if other != key {
            assert!(tx.update(&table, other, |v| *v += 0)?);
        }
        let _ = tx.commit()?;
        assert_eq!(db.run(|tx| tx.get(&table, key))?, Some(6), "{key}");
    }
    // The key before the missing one is not written in its place.
    db.run(|tx| {
        tx.get(&table, &keys[3])?;
        assert!(tx.update(&table, &keys[8], |v| *v = 77)?);
        assert!(tx.update(&table, &keys[2], |v| *v = 78)?);
        Ok(())
    })?;
    assert_eq!(db.run(|tx| tx.get(&table, &keys[3]))?, Some(6));
    assert_eq!(db.run(|tx| tx.get(&table, &keys[8]))?, Some(77));
    assert_eq!(db.run(|tx| tx.get(&table, &keys[2]))?, Some(78));
    Ok(())
}

#[test]
fn write_sets_of_any_size_find_their_entries_after_one_another() -> Result<()> {
    let driven = Driven::open(|builder| builder);
    let db = &driven.db;
    let table = db.table::<String, u64>("rows")?;
    for round in 0..3u64 {
        for size in [1usize, 2, 3, 47, 48, 49, 50, 97, 200] {
            let name = |i: usize| "n".repeat(i % 40 + 1) + &i.to_string();
            db.run(|tx| {
                for i in 0..size {
                    tx.put(&table, &name(i), &(i as u64 + round))?;
                    for j in 0..=i {
                        assert_eq!(tx.get(&table, &name(j))?, Some(j as u64 + round));
                    }
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}
