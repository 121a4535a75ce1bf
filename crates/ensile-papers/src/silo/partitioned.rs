//! Partitioned-Store (§5.4): each warehouse's tables behind one coarse lock, and no other concurrency control.
//!
//! A transaction takes the locks of all required partitions, in order, and then has exclusive access to the rows. The
//! input of the transaction determines the partitions. Each spin lock has a cache line of its own, as in the paper.
//! Snapshots, versions, log and undo are absent, so no transaction may roll back. The tree is memsilo's own and keeps
//! its latches, although the paper removed latches: a reader of the tree writes nothing, an insert latches one leaf.
//!
//! Neighbours: rows without concurrency control are [`ensile::Exclusive`]; the order is placed by the same code as in
//! memsilo.

use ensile::{Error, ExclusiveRows, Key, Table, Value};
use ensile_base::sync::{AtomicBool, Backoff, Ordering};
use ensile_bench::Result;
use ensile_bench::driver::{Slice, Subject};
use ensile_bench::tally::Step;
use ensile_bench::tpcc::Business;
use ensile_bench::tpcc::new_order::{self, Input, OrderStore, Refused};
use ensile_bench::tpcc::tables::OwnLine;
use ensile_bench::tpcc::terminal::{Request, Terminal};

/// A business under partition locks: one lock for each set of tables.
pub(super) struct Partitioned {
    business: Business<'static>,
    locks: Vec<OwnLine<AtomicBool>>,
}

impl Partitioned {
    pub(super) fn new(business: Business<'static>) -> Self {
        assert!(!business.flags.entry_errors, "there is no undo");
        let locks: Vec<_> = business.tables.sets().iter().map(|_| OwnLine::default()).collect();
        assert!(locks.len() <= u64::BITS as usize, "partitions are bits of one word");
        Self { business, locks }
    }

    /// The partitions of an order, as a bit set.
    fn partitions(&self, input: &Input) -> u64 {
        if self.locks.len() == 1 {
            return 1;
        }
        let bit = |warehouse: u16| 1u64 << (warehouse - 1);
        input.lines().iter().fold(bit(input.warehouse), |bits, line| bits | bit(line.supply_warehouse))
    }

    /// Takes the locks in ascending order, so that no two transactions wait for each other.
    fn lock(&self, partitions: u64) -> Locked<'_> {
        let locked = Locked { locks: &self.locks, partitions };
        for lock in locked.each() {
            let mut backoff = Backoff::new();
            // Acquire: the writes of the last holder become readable; partner: the Release in `drop`. Relaxed on
            // failure: a failed exchange reads no rows.
            while lock.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
                // Relaxed: only waits until another try can succeed.
                while lock.load(Ordering::Relaxed) {
                    backoff.wait();
                }
            }
        }
        locked
    }
}

/// Held locks.
struct Locked<'l> {
    locks: &'l [OwnLine<AtomicBool>],
    partitions: u64,
}

impl<'l> Locked<'l> {
    fn each(&self) -> impl Iterator<Item = &'l AtomicBool> + use<'l> {
        let partitions = self.partitions;
        self.locks
            .iter()
            .enumerate()
            .filter(move |(at, _)| partitions >> at & 1 == 1)
            .map(|(_, lock)| &lock.0)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        for lock in self.each() {
            // Release: the writes under the lock come before; partner: the Acquire in `lock`.
            lock.store(false, Ordering::Release);
        }
    }
}

/// The rows of locked partitions.
struct LockedRows<'r, 'e>(&'r mut ExclusiveRows<'e>);

impl OrderStore for LockedRows<'_, '_> {
    #[inline]
    fn read<K: Key, V: Value, R>(
        &mut self,
        table: &Table<K, V>,
        key: &K,
        read: impl FnOnce(&V) -> R,
    ) -> Result<Option<R>, Error> {
        self.0.read(table, key, read)
    }

    #[inline]
    fn update<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &K,
        change: impl FnOnce(&mut V),
    ) -> Result<bool, Error> {
        self.0.update(table, key, change)
    }

    #[inline]
    fn put<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> Result<(), Error> {
        self.0.put(table, key, value)
    }

    #[inline]
    fn insert<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> Result<(), Error> {
        self.0.insert(table, key, value)
    }
}

impl Subject for Partitioned {
    fn name(&self) -> &'static str {
        self.business.name
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        let Business { tables, flags, constants, .. } = &self.business;
        let terminal = Terminal::new(tables, flags, *constants, (slice.worker, slice.workers));
        let mut exclusive = tables.db.exclusive()?;
        slice.repeat(
            || 0,
            |random| {
                let Request::NewOrder(input) = terminal.draw(random) else {
                    unreachable!("new-orders only are compared")
                };
                let locked = self.lock(self.partitions(&input));
                let placed = exclusive
                    .run(|rows| new_order::run(&mut LockedRows(rows), tables, &input))
                    .map_err(Refused::into_error)?;
                drop(locked);
                std::hint::black_box((placed.total, placed.brand_lines));
                Ok(Step { committed: 1, conflicts: 0, epoch: 0 })
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Partitioned;
    use crate::silo::cross_partition::new_orders;
    use ensile_bench::driver::{self, Pace, Plan};
    use ensile_bench::system::{Options, SystemKind};
    use ensile_bench::tpcc::flags::Flags;
    use ensile_bench::tpcc::tables::Scale;
    use ensile_bench::tpcc::{Business, Founding, consistency};

    #[test]
    fn orders_of_several_workers_leave_a_consistent_business() {
        let options = Options {
            data: std::env::temp_dir(),
            epoch_interval: std::time::Duration::from_millis(5),
            snapshot_interval: std::time::Duration::from_millis(20),
            ..Options::default()
        };
        let flags = Flags { any_home: true, remote_items_per_million: 300_000, ..new_orders() };
        let scale = Scale { warehouses: 3, items: 50, customers: 20 };
        let founding = Founding { scale, split: false, flags, seed: 5, threads: 1 };
        let (business, _) = Business::load(SystemKind::Memsilo, &options, &founding).expect("it loads");
        let store = Partitioned::new(business);
        let plan = Plan { threads: 3, batch: 1, pace: Pace::Timed(0.1), rounds: 1, seed: 5, pin: None };
        let rounds = driver::run(&[&store], &plan, |_, _, _| {}).expect("it runs");
        assert!(rounds[0][0].transactions > 100);
        let findings = consistency::check(&store.business.tables).expect("it reads");
        assert!(findings.is_clean(), "{findings}");
    }
}
