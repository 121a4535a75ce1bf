//! YCSB on the bare index and records: atomic single-key gets and puts, without read- and write-sets. The cost of
//! memsilo's transactions is the distance between `memsilo` and the key-value store.
//!
//! Neighbours: as [`super::engine`].

use ensile::{Database, KeyValue, Table};
use ensile_base::sync::AtomicU64;

use super::engine::load_table;
use crate::driver::{Slice, Subject};
use crate::failure::{Failure, Result};
use crate::system::{Options, SystemKind};
use crate::tally::Step;
use crate::ycsb::load::LoadPlan;
use crate::ycsb::mix::{Operation, Request, Requests};
use crate::ycsb::payload::Payload;

/// The key-value store under YCSB.
pub(crate) struct KeyValueStore<const N: usize> {
    db: Database,
    table: Table<u64, Payload<N>>,
    requests: Requests,
    present: AtomicU64,
}

impl<const N: usize> KeyValueStore<N> {
    /// Opens and loads the store in the same way as the database.
    pub(crate) fn load(options: &Options, requests: Requests, plan: &LoadPlan) -> Result<Self> {
        let db = options.open_fresh(SystemKind::KeyValue, "")?;
        let table = db.table("usertable")?;
        load_table(&db, &table, plan)?;
        Ok(Self { db, table, requests, present: AtomicU64::new(plan.records) })
    }
}

#[inline]
fn one<const N: usize>(store: &mut KeyValue<'_, u64, Payload<N>>, request: Request) -> Result<()> {
    let key = request.key;
    match request.operation {
        Operation::Read => {
            if let Some(value) = store.get(&key)? {
                value.look();
            }
        }
        Operation::Modify => {
            store.modify(&key, Payload::bump)?;
        }
        Operation::Put => store.put(&key, &Payload::of(!key))?,
        Operation::Insert => store.put(&key, &Payload::of(key))?,
        Operation::Scan(_) => {
            return Err(Failure::Usage("key-value cannot scan: leave it out of workload e".to_owned()));
        }
    }
    Ok(())
}

impl<const N: usize> Subject for KeyValueStore<N> {
    fn name(&self) -> &'static str {
        SystemKind::KeyValue.name()
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        let mut store = self.db.key_value(&self.table)?;
        let batch = slice.batch;
        let mut requests = Vec::with_capacity(batch);
        slice.repeat(
            || 0,
            |random| {
                if batch == 1 {
                    one(&mut store, self.requests.draw(random, &self.present))?;
                    return Ok(Step { committed: 1, conflicts: 0, epoch: 0 });
                }
                requests.clear();
                requests.extend((0..batch).map(|_| self.requests.draw(random, &self.present)));
                requests.iter().try_for_each(|request| one(&mut store, *request))?;
                Ok(Step { committed: batch as u32, conflicts: 0, epoch: 0 })
            },
        )
    }
}
