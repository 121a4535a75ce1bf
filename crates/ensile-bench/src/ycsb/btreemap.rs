//! YCSB on std's `BTreeMap`: one thread, values inside the nodes and changed in place, the system's allocator. Not a
//! database: a yardstick.
//!
//! Neighbours: as [`super::engine`].

use std::collections::BTreeMap;

use ensile_base::sync::{AtomicU64, Mutex};

use crate::driver::{Slice, Subject};
use crate::failure::Result;
use crate::system::SystemKind;
use crate::tally::Step;
use crate::ycsb::load::LoadPlan;
use crate::ycsb::mix::{Operation, Request, Requests};
use crate::ycsb::payload::Payload;

/// The map under YCSB.
pub(crate) struct Map<const N: usize> {
    /// Locked once for a slice, not for a request.
    map: Mutex<BTreeMap<u64, Payload<N>>>,
    requests: Requests,
    present: AtomicU64,
}

impl<const N: usize> Map<N> {
    /// Loads it.
    pub(crate) fn load(requests: Requests, plan: &LoadPlan) -> Self {
        let mut map = BTreeMap::new();
        for position in 0..plan.records {
            let key = plan.key_at(position);
            map.insert(key, Payload::of(key));
        }
        Self { map: Mutex::new(map), requests, present: AtomicU64::new(plan.records) }
    }
}

#[inline]
fn one<const N: usize>(map: &mut BTreeMap<u64, Payload<N>>, request: Request) {
    let key = request.key;
    match request.operation {
        Operation::Read => {
            if let Some(value) = map.get(&key) {
                value.look();
            }
        }
        Operation::Modify => {
            if let Some(value) = map.get_mut(&key) {
                value.bump();
            }
        }
        Operation::Put => {
            map.insert(key, Payload::of(!key));
        }
        Operation::Insert => {
            map.insert(key, Payload::of(key));
        }
        Operation::Scan(rows) => map.range(key..).take(rows as usize).for_each(|(_, value)| value.look()),
    }
}

impl<const N: usize> Subject for Map<N> {
    fn name(&self) -> &'static str {
        SystemKind::Btreemap.name()
    }

    fn threads(&self, _asked: usize) -> usize {
        1
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        let mut map = self.map.lock();
        let batch = slice.batch;
        let mut requests = Vec::with_capacity(batch);
        slice.repeat(
            || 0,
            |random| {
                if batch == 1 {
                    one(&mut map, self.requests.draw(random, &self.present));
                    return Ok(Step { committed: 1, conflicts: 0, epoch: 0 });
                }
                requests.clear();
                requests.extend((0..batch).map(|_| self.requests.draw(random, &self.present)));
                requests.iter().for_each(|request| one(&mut map, *request));
                Ok(Step { committed: batch as u32, conflicts: 0, epoch: 0 })
            },
        )
    }
}
