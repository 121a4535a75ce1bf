//! Actions of YCSB requests: the mixes by name, and the draw of one request.
//!
//! `silo` is the mix of Silo §5.2 (80 % reads, 20 % read-modify-writes), `silor` the mix of SiloR §6.2 (70 % gets, 30 %
//! puts); `a` to `f` are the standard mixes.
//!
//! Neighbours: every system of [`crate::system`] carries out the same `Request`s.

use clap::ValueEnum;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicU64, Ordering};

use super::distribution::{Distribution, KeyChooser};

/// Maximum number of rows in a scan of workload e.
const SCAN_ROWS_MAX: u64 = 100;

/// The mixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// 80 % reads, 20 % read-modify-writes (Silo §5.2).
    Silo,
    /// 70 % gets, 30 % puts of whole values (SiloR §6.2).
    Silor,
    /// 100 % read-modify-writes (Silo §5.6).
    Rmw,
    /// 50 % reads, 50 % updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// 95 % reads of recent keys, 5 % inserts.
    D,
    /// 95 % short scans, 5 % inserts.
    E,
    /// 50 % reads, 50 % read-modify-writes.
    F,
}

/// The action of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Get the value and read it.
    Read,
    /// Get the value and change one field.
    Modify,
    /// Write the whole value, unread.
    Put,
    /// Write a new key.
    Insert,
    /// Read this many rows from the key on.
    Scan(u32),
}

/// One transaction of YCSB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) key: u64,
    pub(crate) operation: Operation,
}

/// Percentages of reads, modifies, puts, inserts and scans, in this order, and the usual choice of keys.
const fn shares(workload: Workload) -> ([u64; 5], Distribution) {
    match workload {
        Workload::Silo => ([80, 20, 0, 0, 0], Distribution::Uniform),
        Workload::Silor => ([70, 0, 30, 0, 0], Distribution::Uniform),
        Workload::Rmw => ([0, 100, 0, 0, 0], Distribution::Uniform),
        Workload::A => ([50, 0, 50, 0, 0], Distribution::Zipfian),
        Workload::B => ([95, 0, 5, 0, 0], Distribution::Zipfian),
        Workload::C => ([100, 0, 0, 0, 0], Distribution::Zipfian),
        Workload::D => ([95, 0, 0, 5, 0], Distribution::Latest),
        Workload::E => ([0, 0, 0, 5, 95], Distribution::Zipfian),
        Workload::F => ([50, 50, 0, 0, 0], Distribution::Zipfian),
    }
}

impl Workload {
    /// True if the mix scans. Some systems cannot scan.
    pub(crate) fn scans(self) -> bool {
        shares(self).0[4] > 0
    }
}

/// Draws the requests of one mix.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// The upper ends of the shares, cumulated.
    ends: [u64; 4],
    inserts: bool,
    keys: KeyChooser,
}

impl Requests {
    /// The mix over a table of `records`; `distribution` overrides the mix's own.
    pub fn new(workload: Workload, records: u64, distribution: Option<Distribution>) -> Self {
        let (shares, usual) = shares(workload);
        let mut ends = [0; 4];
        let mut sum = 0;
        for (end, share) in ends.iter_mut().zip(shares) {
            sum += share;
            *end = sum;
        }
        Self { ends, inserts: shares[3] > 0, keys: KeyChooser::new(records, distribution.unwrap_or(usual)) }
    }

    /// Draws one request. `present` is the number of keys in the system's table; inserts increase the number.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random, present: &AtomicU64) -> Request {
        let dice = random.next_below(100);
        let [reads, modifies, puts, inserts] = self.ends;
        if dice >= puts && dice < inserts {
            // Relaxed: the counter only hands out numbers; transactions order the rows under the numbers.
            let key = present.fetch_add(1, Ordering::Relaxed);
            return Request { key, operation: Operation::Insert };
        }
        let operation = if dice < reads {
            Operation::Read
        } else if dice < modifies {
            Operation::Modify
        } else if dice < puts {
            Operation::Put
        } else {
            Operation::Scan(random.next_between(1, SCAN_ROWS_MAX) as u32)
        };
        // Relaxed: any recent count serves, transactions order the rows under the keys; without inserts the counter
        // never moves and is not read.
        let present = if self.inserts { present.load(Ordering::Relaxed) } else { 0 };
        Request { key: self.keys.draw(random, present), operation }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use ensile_base::random::Random;
    use ensile_base::sync::AtomicU64;

    use super::{Operation, Requests, Workload, shares};

    #[test]
    fn every_mix_adds_up_and_is_drawn_as_stated() {
        for workload in Workload::value_variants() {
            let (shares, _) = shares(*workload);
            assert_eq!(shares.iter().sum::<u64>(), 100);
            let requests = Requests::new(*workload, 1_000, None);
            let present = AtomicU64::new(1_000);
            let mut random = Random::from_seed(5);
            let mut seen = [0u64; 5];
            for _ in 0..100_000 {
                let request = requests.draw(&mut random, &present);
                let kind = match request.operation {
                    Operation::Read => 0,
                    Operation::Modify => 1,
                    Operation::Put => 2,
                    Operation::Insert => 3,
                    Operation::Scan(rows) => {
                        assert!((1..=100).contains(&rows));
                        4
                    }
                };
                seen[kind] += 1;
                assert!(request.key < 1_000 + seen[3]);
            }
            for (seen, share) in seen.iter().zip(shares) {
                assert!(seen.abs_diff(share * 1_000) < 600, "{workload:?}: {seen} against {share} %");
            }
        }
    }
}
