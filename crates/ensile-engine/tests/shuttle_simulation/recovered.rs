//! What an open finds must be the serial prefix at D: of each key the newest write of an epoch up to it, and nothing of
//! a key whose newest change is a delete, whatever checkpoint was installed (K1, K4, K5;
//! `docs/internals/protocols/checkpoints.md`).
//!
//! Neighbours: `life` checks copies of what crashes leave; what has to be there comes from `pictures`, by the history.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ensile_engine::{Readable, Result};
use ensile_sim::SimDisk;
use ensile_sim::history::{History, Key, Value};

use crate::life::{Life, manifest, number, whole};
use crate::pictures::versions_at;
use crate::plan::Plan;
use crate::seen;

/// Opens a copy of the disk as the life of this number would.
pub(crate) fn check(disk: &SimDisk, plan: &Plan, life: usize, history: &History) {
    let manifest = manifest(disk);
    let opened = Life::open(plan, life, disk, &Arc::new(AtomicU64::new(1)));
    let life = opened.unwrap_or_else(|error| panic!("what is left cannot be recovered: {error}\n{manifest}"));
    let durable = life.db.recovery_report().expect("it has a folder").durable_epoch;
    seen::count_opened(&manifest);
    let expected: BTreeMap<Key, Value> = versions_at(history, durable)
        .into_iter()
        .filter_map(|(key, (_, value))| Some((key, value?)))
        .collect();
    let found = rows(&life).expect("nobody else is here");
    let other =
        |key: &Key| (found.get(key) != expected.get(key)).then(|| (*key, found.get(key), expected.get(key)));
    let others: Vec<_> = (0..plan.keys + plan.late_tables).filter_map(|key| other(&key)).collect();
    assert!(found == expected, "not the state at {durable}: key, found, expected: {others:x?}\n{manifest}");
}

/// All rows of all tables.
fn rows(life: &Life) -> Result<BTreeMap<Key, Value>> {
    let Plan { keys, late_tables, .. } = life.plan;
    (keys..keys + late_tables).try_for_each(|number| life.open_late_table(number))?;
    let (mut rows, mut tx) = (BTreeMap::new(), life.db.begin());
    tx.scan(&life.rows, .., |key: Vec<u8>, row| {
        rows.insert(number(&key), whole(row));
        ControlFlow::Continue(())
    })?;
    for late in keys..keys + late_tables {
        let table = life.table(late).expect("it was opened");
        rows.extend(tx.get(&table, &life.key(late))?.map(|row| (late, whole(&row))));
    }
    Ok(rows)
}
