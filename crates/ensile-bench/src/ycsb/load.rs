//! The plan of a load: number and order of the keys, and number of threads.
//!
//! Neighbours: every system of [`crate::system`] loads by the same plan.

use std::ops::Range;

use clap::ValueEnum;

use super::permutation::Permutation;
use crate::failure::Result;
use crate::ycsb::arguments::YcsbArguments;

/// The order of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadOrder {
    /// Ascending keys.
    InOrder,
    /// A fixed random order.
    Random,
}

/// The plan of a load.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The keys are `0..records`.
    pub(crate) records: u64,
    threads: usize,
    order: Option<Permutation>,
}

impl LoadPlan {
    pub(crate) fn new(arguments: &YcsbArguments) -> Self {
        Self::in_order(arguments.records, arguments.run.threads)
            .shuffled(arguments.load_order, arguments.run.seed)
    }

    /// Ascending keys.
    pub fn in_order(records: u64, threads: usize) -> Self {
        Self { records, threads, order: None }
    }

    fn shuffled(mut self, order: LoadOrder, seed: u64) -> Self {
        self.order = (order == LoadOrder::Random).then(|| Permutation::new(self.records, seed));
        self
    }

    /// The key at a position of the load.
    #[inline]
    pub(crate) fn key_at(&self, position: u64) -> u64 {
        self.order.map_or(position, |order| order.at(position))
    }
}

/// Runs `load` on every loading thread with the thread's share of the positions.
pub(crate) fn for_each_share(plan: &LoadPlan, load: impl Fn(Range<u64>) -> Result<()> + Sync) -> Result<()> {
    let threads = plan.threads as u64;
    let share = |index: u64| plan.records * index / threads..plan.records * (index + 1) / threads;
    std::thread::scope(|scope| {
        let load = &load;
        let others: Vec<_> = (1..threads).map(|index| scope.spawn(move || load(share(index)))).collect();
        let mut outcome = load(share(0));
        for other in others {
            outcome = outcome.and(other.join().expect("a loader does not panic"));
        }
        outcome
    })
}

#[cfg(test)]
mod tests {
    use ensile_base::sync::{AtomicU64, Ordering};

    use super::{LoadOrder, LoadPlan, for_each_share};

    #[test]
    fn the_shares_cover_every_key_once() {
        let plan = LoadPlan::in_order(1_001, 3).shuffled(LoadOrder::Random, 5);
        let (count, sum) = (AtomicU64::new(0), AtomicU64::new(0));
        for_each_share(&plan, |positions| {
            for position in positions {
                // Relaxed: the test joins the counting threads before the test reads the sums.
                count.fetch_add(1, Ordering::Relaxed);
                // Relaxed: the test joins the counting threads before the test reads the sums.
                sum.fetch_add(plan.key_at(position), Ordering::Relaxed);
            }
            Ok(())
        })
        .expect("nothing fails");
        assert_eq!((count.into_inner(), sum.into_inner()), (1_001, 1_001 * 1_000 / 2));
    }
}
