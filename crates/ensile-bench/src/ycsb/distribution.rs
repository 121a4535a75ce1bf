//! Which key a YCSB request names: uniform, zipfian (scattered over the key space), or near the latest insert.
//!
//! The zipfian draw is that of Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD'94), with
//! YCSB's constant; popular ranks are scattered by a permutation, so that they don't share leaves.
//!
//! Neighbours: [`super::mix`] draws requests with it; the same draw serves every system.

use clap::ValueEnum;
use ensile_base::random::Random;

use super::permutation::Permutation;

/// YCSB's skew.
const THETA: f64 = 0.99;

/// How requests choose their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// Each key as likely as any other.
    Uniform,
    /// Few keys take most requests (theta 0.99).
    Zipfian,
    /// The keys inserted last take most requests (workload d).
    #[value(skip)]
    Latest,
}

/// Zipfian ranks: 0 is drawn most often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipfian {
    count: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// Ranks `0..count`; takes time in proportion to `count`, once.
    pub(crate) fn new(count: u64) -> Self {
        let zeta: f64 = (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum();
        let zeta_two = 1.0 + 0.5f64.powf(THETA);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - zeta_two / zeta);
        Self { count: count as f64, zeta, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// One rank.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = (self.count * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64;
        rank.min(self.count as u64 - 1)
    }
}

/// Draws keys of a table that was loaded with the keys `0..records`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyChooser {
    records: u64,
    distribution: Distribution,
    zipfian: Option<Zipfian>,
    scatter: Permutation,
}

impl KeyChooser {
    pub(crate) fn new(records: u64, distribution: Distribution) -> Self {
        Self {
            records,
            distribution,
            // Two ranks are the least for which the formula has a meaning.
            zipfian: (distribution != Distribution::Uniform).then(|| Zipfian::new(records.max(2))),
            scatter: Permutation::new(records, 0x5ca7_7e2d),
        }
    }

    /// One key; `present` is the number of keys that the table holds by now.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random, present: u64) -> u64 {
        let Some(zipfian) = &self.zipfian else {
            return random.next_below(self.records);
        };
        let rank = zipfian.draw(random).min(self.records - 1);
        match self.distribution {
            Distribution::Latest => present - 1 - rank,
            _ => self.scatter.at(rank),
        }
    }
}

#[cfg(test)]
mod tests;
