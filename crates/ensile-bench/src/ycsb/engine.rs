//! YCSB on the database: `memsilo` without a log, `silo` with a log. Each request is a transaction of its own, alone or
//! in a batch with overlapped descents.
//!
//! Neighbours: requests come from [`crate::ycsb`]; the driver runs an engine as a [`Subject`].

use std::ops::ControlFlow;

use ensile::{Database, Durability, Error, Readable, Receipt, Table, Transaction};
use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_base::sync::AtomicU64;

use crate::driver::{Slice, Subject};
use crate::failure::Result;
use crate::system::{Options, SystemKind};
use crate::tally::{Step, epoch_to_wait_for};
use crate::ycsb::load::{LoadPlan, for_each_share};
use crate::ycsb::mix::{Operation, Request, Requests};
use crate::ycsb::payload::Payload;

/// Number of rows in one loading transaction.
const ROWS_PER_TRANSACTION: u64 = 64;

/// A database under YCSB.
pub struct Engine<const N: usize> {
    kind: SystemKind,
    name: &'static str,
    db: Database,
    table: Table<u64, Payload<N>>,
    requests: Requests,
    present: AtomicU64,
    is_strict: bool,
}

impl<const N: usize> Engine<N> {
    /// Opens and loads the database.
    pub fn load(kind: SystemKind, options: &Options, requests: Requests, plan: &LoadPlan) -> Result<Self> {
        let loaded = Self::over(kind, options.open_fresh(kind, "ycsb-silo")?, requests, plan)?;
        options.pass_pictures(&loaded.db);
        let waits = kind == SystemKind::Silo && options.durability == Durability::Strict;
        Ok(if waits { loaded.strict() } else { loaded })
    }

    /// Loads an empty database that the caller has opened.
    pub fn over(kind: SystemKind, db: Database, requests: Requests, plan: &LoadPlan) -> Result<Self> {
        let table = db.table("usertable")?;
        load_table(&db, &table, plan)?;
        let present = AtomicU64::new(plan.records);
        Ok(Self { kind, name: kind.name(), db, table, requests, present, is_strict: false })
    }

    /// The engine with waits until each transaction is durable: for a database opened with `Durability::Strict`.
    pub fn strict(self) -> Self {
        Self { is_strict: true, ..self }
    }

    /// True if transactions wait until durable.
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// The engine under another name: for a variant of the engine.
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The database, for benchmarks of more than its rate.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// The one table of the database.
    pub fn table(&self) -> &Table<u64, Payload<N>> {
        &self.table
    }

    /// Runs the next request of the mix, as a transaction of its own.
    #[inline]
    pub fn step(&self, random: &mut Random) -> Result<Step> {
        self.one(self.requests.draw(random, &self.present))
    }

    /// As [`Engine::step`], until the result is durable. So the step has nothing to wait for afterwards. The second
    /// value is true if the transaction wrote.
    #[inline]
    pub fn step_strict(&self, random: &mut Random) -> Result<(Step, bool)> {
        let request = self.requests.draw(random, &self.present);
        let mut attempts = 0;
        self.db.run(|tx| {
            attempts += 1;
            body(tx, &self.table, request)
        })?;
        let writes = !matches!(request.operation, Operation::Read | Operation::Scan(_));
        Ok((Step { committed: 1, conflicts: attempts - 1, epoch: 0 }, writes))
    }

    #[inline]
    fn one(&self, request: Request) -> Result<Step> {
        let mut attempts = 0;
        let ((), receipt) = self.db.submit(|tx| {
            attempts += 1;
            body(tx, &self.table, request)
        })?;
        let epoch = epoch_to_wait_for(receipt.epoch(), self.db.durable_epoch());
        Ok(Step { committed: 1, conflicts: attempts - 1, epoch })
    }

    #[inline]
    fn many(&self, requests: &[Request]) -> Result<Step> {
        let (mut attempts, mut epoch, mut failed) = (0, Epoch::ZERO, None);
        self.db.run_batch_with(
            requests,
            |request, prefetch| prefetch.key(&self.table, &request.key),
            |tx, request| {
                attempts += 1;
                body(tx, &self.table, *request)
            },
            |outcome| match outcome {
                Ok(((), receipt)) => epoch = epoch.max(receipt.epoch()),
                Err(error) => failed = Some(error),
            },
        );
        if let Some(error) = failed {
            return Err(error.into());
        }
        let committed = requests.len() as u32;
        let epoch = epoch_to_wait_for(epoch, self.db.durable_epoch());
        Ok(Step { committed, conflicts: attempts - committed, epoch })
    }
}

/// Writes the loaded keys of a plan.
pub fn load_table<const N: usize>(
    db: &Database,
    table: &Table<u64, Payload<N>>,
    plan: &LoadPlan,
) -> Result<()> {
    for_each_share(plan, |positions| {
        let mut last: Option<Receipt> = None;
        let mut first = positions.start;
        while first < positions.end {
            let end = positions.end.min(first + ROWS_PER_TRANSACTION);
            let ((), receipt) = db.submit(|tx| {
                for position in first..end {
                    let key = plan.key_at(position);
                    tx.put(table, &key, &Payload::of(key))?;
                }
                Ok(())
            })?;
            last = Some(receipt);
            first = end;
        }
        if let Some(receipt) = last {
            receipt.durable()?;
        }
        Ok(())
    })
}

/// The transaction of one request.
#[inline]
fn body<const N: usize>(
    tx: &mut Transaction<'_>,
    table: &Table<u64, Payload<N>>,
    request: Request,
) -> Result<(), Error> {
    let key = request.key;
    match request.operation {
        Operation::Read => {
            tx.get_with(table, &key, Payload::look)?;
        }
        Operation::Modify => {
            tx.update(table, &key, Payload::bump)?;
        }
        Operation::Put => tx.put(table, &key, &Payload::of(!key))?,
        Operation::Insert => tx.insert(table, &key, &Payload::of(key))?,
        Operation::Scan(rows) => {
            let mut left = rows;
            tx.scan(table, key.., |_, value| {
                value.look();
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
    }
    Ok(())
}

impl<const N: usize> Subject for Engine<N> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn durable_epoch(&self) -> Option<u64> {
        (self.kind == SystemKind::Silo).then(|| self.db.durable_epoch().number())
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        let durable = || self.db.durable_epoch().number();
        let batch = slice.batch;
        if self.is_strict {
            return slice.repeat(durable, |random| Ok(self.step_strict(random)?.0));
        }
        if batch == 1 {
            return slice.repeat(durable, |random| self.step(random));
        }
        let mut requests = Vec::with_capacity(batch);
        slice.repeat(durable, |random| {
            requests.clear();
            requests.extend((0..batch).map(|_| self.requests.draw(random, &self.present)));
            self.many(&requests)
        })
    }
}
