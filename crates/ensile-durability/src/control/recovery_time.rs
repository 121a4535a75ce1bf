//! How long a recovery would take now: by what it would load and replay, and by what recoveries of this folder took.
//!
//! ```text
//! time = rest + (load + replay) / threads
//! load   = bytes and entries of the checkpoint, each at its cost
//! replay = bytes and entries of the log behind it, each at its cost, and what applying them took when they were made
//! ```
//! Costs are one thread's. A recovery that was measured corrects them, each by its share of what was predicted: what
//! took most of the time is believed to have been wrong most. What applying takes is measured while operations are
//! made, by samples. So operations that become ten times as dear are seen before any recovery has met them. So is a
//! load that becomes ten times as high, since what is logged is counted. In a life in which nothing measures what
//! applying takes, each entry is taken to need what one needed at the recoveries so far.
//!
//! A checkpoint that begins takes its time, and the log grows meanwhile. So the prediction has what replay will have
//! come to when a checkpoint that begins now is installed (`growth`).
//!
//! Invariants:
//! - The growth is the rate of the last window, or the moving average where that is higher: a quiet time before says
//!   nothing of what comes.
//! - Costs stay positive, and one measurement changes none of them beyond a factor.
//!
//! Neighbours: `checkpoint::life` fills it and asks, `trigger` decides by it; `store::rates` keeps the costs.

use std::time::Duration;

/// A phase that is predicted to take less says nothing of its costs: what it takes is mostly what any takes.
const PREDICTED_NANOS_MIN: f64 = 50e6;
/// What a measurement makes of a prediction, at most and at least: it may have been a disturbance.
const CORRECTION_MAX: f64 = 8.0;
const CORRECTION_MIN: f64 = 0.3;
/// Over at least this time the growth is taken.
const WINDOW_NANOS: u64 = 500_000_000;
/// The weight of the growth so far.
const PAST_WEIGHT: f64 = 0.5;
/// What a checkpoint takes that nobody has measured: bytes a second, and whatever it writes.
const WRITTEN_PER_SECOND: f64 = 150e6;
const WRITTEN_LEAST: Duration = Duration::from_millis(200);

/// What one thread takes of a recovery, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecoveryCosts {
    /// Whatever there is: folders, the manifest, syncs.
    pub(crate) rest: f64,
    /// Of a byte and of an entry of the checkpoint.
    pub(crate) load: [f64; 2],
    /// Of a byte and of an entry of the log, and for each nanosecond that applying took when it was logged.
    pub(crate) replay: [f64; 3],
    /// What applying an entry took at recoveries; 0 if none has measured it.
    pub(crate) applied_entry: f64,
    /// Whether a recovery was measured.
    pub(crate) is_measured: bool,
}

impl Default for RecoveryCosts {
    /// Assumed until a recovery was measured: rather too much than too little.
    fn default() -> Self {
        Self {
            rest: 50e6,
            load: [2.0, 500.0],
            replay: [1.5, 600.0, 1.0],
            applied_entry: 0.0,
            is_measured: false,
        }
    }
}

/// Some of a log: how much there is, and how long applying it took when it was logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogWork {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) applied_nanos: u64,
}

impl LogWork {
    fn amounts(&self) -> [f64; 3] {
        [self.bytes as f64, self.entries as f64, self.applied_nanos as f64]
    }

    /// What has come since `base`.
    fn since(&self, base: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(base.bytes),
            entries: self.entries.saturating_sub(base.entries),
            applied_nanos: self.applied_nanos.saturating_sub(base.applied_nanos),
        }
    }

    fn and(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            entries: self.entries + other.entries,
            applied_nanos: self.applied_nanos + other.applied_nanos,
        }
    }
}

/// A recovery that was measured. Times are those of all threads together: they began and ended as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeasuredRecovery {
    pub(crate) threads: u64,
    pub(crate) rest_nanos: u64,
    pub(crate) load_nanos: u64,
    pub(crate) load_bytes: u64,
    pub(crate) load_entries: u64,
    /// Reading the log included.
    pub(crate) replay_nanos: u64,
    /// What was replayed. How long applying took is of this recovery.
    pub(crate) replayed: LogWork,
}

impl RecoveryCosts {
    /// What this recovery teaches.
    pub(crate) fn learn(&mut self, measured: &MeasuredRecovery) {
        let threads = measured.threads.max(1) as f64;
        let loaded = [measured.load_bytes as f64, measured.load_entries as f64];
        self.is_measured |= correct(&mut self.load, loaded, measured.load_nanos, threads);
        let replayed = measured.replayed.amounts();
        self.is_measured |= correct(&mut self.replay, replayed, measured.replay_nanos, threads);
        self.learn_applied(measured, threads);
        if measured.rest_nanos > 0 {
            self.rest = (self.rest + measured.rest_nanos as f64) / 2.0;
        }
    }

    /// What applying an entry takes. A short replay says nothing: few of its entries were timed.
    fn learn_applied(&mut self, measured: &MeasuredRecovery, threads: f64) {
        let LogWork { entries, applied_nanos, .. } = measured.replayed;
        if entries == 0 || applied_nanos == 0 || (measured.replay_nanos as f64) < PREDICTED_NANOS_MIN {
            return;
        }
        // Samples may say more than there was time for.
        let applied = (applied_nanos as f64).min(measured.replay_nanos as f64 * threads) / entries as f64;
        let known = if self.applied_entry > 0.0 { self.applied_entry } else { applied };
        (self.applied_entry, self.is_measured) = ((known + applied) / 2.0, true);
    }
}

/// Corrects each cost by its share of what was predicted, so that the prediction comes to what was measured. False if
/// there was too little to learn from.
fn correct<const N: usize>(costs: &mut [f64; N], amounts: [f64; N], nanos: u64, threads: f64) -> bool {
    let parts: [f64; N] = std::array::from_fn(|at| costs[at] * amounts[at]);
    let predicted: f64 = parts.iter().sum();
    if predicted / threads < PREDICTED_NANOS_MIN || nanos == 0 {
        return false;
    }
    let ratio = (nanos as f64 * threads / predicted).clamp(CORRECTION_MIN, CORRECTION_MAX);
    let squares: f64 = parts.iter().map(|part| (part / predicted).powi(2)).sum();
    for (cost, part) in costs.iter_mut().zip(parts) {
        *cost *= 1.0 + (ratio - 1.0) * part / predicted / squares;
        assert!(*cost > 0.0, "a cost stays positive");
    }
    true
}

fn dot<const N: usize>(costs: &[f64; N], amounts: [f64; N]) -> f64 {
    costs.iter().zip(amounts).map(|(cost, amount)| cost * amount).sum()
}

/// How long the next open would take if the process ended now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryForecast {
    /// What it may take; `None` if nobody has said it.
    pub target: Option<Duration>,
    /// Loading the installed checkpoint.
    pub load: Duration,
    /// Reading and replaying the log behind it.
    pub replay: Duration,
    /// Whatever there is to load and replay.
    pub rest: Duration,
    /// By how much replay will have grown, at the rate of now, when a checkpoint that begins now is installed.
    pub growth: Duration,
    /// How long such a checkpoint is expected to take.
    pub checkpoint: Duration,
    /// What would be replayed: bytes and entries of the log.
    pub log_bytes: u64,
    /// See [`RecoveryForecast::log_bytes`].
    pub log_entries: u64,
    /// At which rates.
    pub rates: RecoveryRates,
}

/// The rates of a [`RecoveryForecast`], of all threads together, for entries like those that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryRates {
    /// Whether a recovery of this folder was measured; else the rates are assumed.
    pub is_measured: bool,
    /// Threads that recover.
    pub threads: u64,
    /// Bytes of the checkpoint loaded in a second; 0 if there is none.
    pub load_bytes_per_second: u64,
    /// Entries of the log replayed in a second; 0 if there are none.
    pub replay_entries_per_second: u64,
    /// What applying an operation takes, as sampled while operations are made; as sampled at recoveries, where it is
    /// measured at those alone; 0 where it is not measured.
    pub applied_nanos_per_entry: u64,
}

impl RecoveryForecast {
    /// Load, replay and all else.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.rest + self.load + self.replay
    }

    /// Whether loading leaves any time for replay. If not, no checkpoint would keep the target.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.target.is_none_or(|target| self.rest + self.load < target)
    }

    /// Why no checkpoint would keep this target; `None` if one can.
    pub(crate) fn refusal(&self) -> Option<String> {
        let target = self.target.filter(|_| !self.is_reachable())?;
        let least = self.rest + self.load;
        let how = if self.rates.is_measured { "as this folder's recoveries did" } else { "as is assumed" };
        let rate = match self.rates.load_bytes_per_second {
            0 => String::new(),
            rate => format!(", at {rate} bytes a second"),
        };
        Some(format!(
            "a recovery time of {target:?} cannot be kept: loading the checkpoint alone takes {least:.1?}{rate}, {how}; set \
             more than that, or have fewer data in a folder"
        ))
    }
}

/// The prediction, from one look to the next.
#[derive(Clone, Debug)]
pub(crate) struct RecoveryOutlook {
    costs: RecoveryCosts,
    threads: f64,
    /// What earlier lives have left in the log, until the first checkpoint of this one is installed.
    before: LogWork,
    /// What this life had logged when the installed checkpoint's walk was opened, and by now.
    base: LogWork,
    seen: LogWork,
    /// Of that, what applying took, where it is measured.
    applied_nanos: Option<u64>,
    /// When the window began that is not over, and what replay came to then.
    since_nanos: u64,
    since_cost: f64,
    /// Nanoseconds of replay that come in a nanosecond: in the last window, and the average.
    last_growth: f64,
    growth: f64,
}

impl RecoveryOutlook {
    /// Of a folder that was opened now, with so much in its logs.
    pub(crate) fn new(costs: RecoveryCosts, threads: u64, before: LogWork, now_nanos: u64) -> Self {
        let (base, seen) = (LogWork::default(), LogWork::default());
        let threads = threads.max(1) as f64;
        Self {
            costs,
            threads,
            before,
            base,
            seen,
            applied_nanos: None,
            since_nanos: now_nanos,
            since_cost: 0.0,
            last_growth: 0.0,
            growth: 0.0,
        }
    }

    /// Nanoseconds of replay.
    fn cost(&self, work: &LogWork) -> f64 {
        dot(&self.costs.replay, work.amounts()) / self.threads
    }

    /// By now so much was logged since the open: bytes and entries, and what applying them took, where that is
    /// measured.
    pub(crate) fn observe(
        &mut self,
        now_nanos: u64,
        (bytes, entries): (u64, u64),
        applied_nanos: Option<u64>,
    ) {
        let expected = || (entries as f64 * self.costs.applied_entry) as u64;
        self.seen = LogWork { bytes, entries, applied_nanos: applied_nanos.unwrap_or_else(expected) };
        self.applied_nanos = applied_nanos;
        let passed = now_nanos.saturating_sub(self.since_nanos);
        if passed < WINDOW_NANOS {
            return;
        }
        let cost = self.cost(&self.seen);
        self.last_growth = (cost - self.since_cost).max(0.0) / passed as f64;
        let past = PAST_WEIGHT.powf(passed as f64 / WINDOW_NANOS as f64);
        self.growth = past * self.growth + (1.0 - past) * self.last_growth;
        (self.since_nanos, self.since_cost) = (now_nanos, cost);
    }

    /// What was logged since the open, as it was seen last.
    pub(crate) fn seen(&self) -> LogWork {
        self.seen
    }

    /// What applying that took, where it is measured.
    pub(crate) fn applied_nanos(&self) -> Option<u64> {
        self.applied_nanos
    }

    /// A checkpoint is installed whose walk was opened when so much was logged.
    pub(crate) fn installed(&mut self, base: LogWork) {
        (self.base, self.before) = (base, LogWork::default());
    }

    /// How long a checkpoint takes that writes this many bytes, if the last one took this for those.
    pub(crate) fn expected(bytes: u64, last: Option<(Duration, u64)>, bandwidth: Option<u64>) -> Duration {
        match last {
            Some((elapsed, last_bytes)) => {
                elapsed.mul_f64((bytes as f64 / last_bytes.max(1) as f64).max(1.0))
            }
            None => {
                let rate = bandwidth.map_or(WRITTEN_PER_SECOND, |rate| WRITTEN_PER_SECOND.min(rate as f64));
                WRITTEN_LEAST + Duration::from_secs_f64(bytes as f64 / rate.max(1.0))
            }
        }
    }

    /// The prediction for an installed checkpoint of these bytes and entries. `replayed_bytes` is how much of the log
    /// a recovery would replay: more than what came since the last checkpoint, where that took a part of the state.
    pub(crate) fn forecast(
        &self,
        (bytes, entries): (u64, u64),
        replayed_bytes: u64,
        checkpoint: Duration,
        target: Option<Duration>,
    ) -> RecoveryForecast {
        let since = self.seen.since(&self.base).and(&self.before);
        let all = if since.bytes > 0 { since } else { self.seen.and(&self.before) };
        // Of a part of the log the rest is taken to be like what is known.
        let share = if all.bytes > 0 { replayed_bytes as f64 / all.bytes as f64 } else { 0.0 };
        let replay = self.cost(&all) * share;
        let load = dot(&self.costs.load, [bytes as f64, entries as f64]) / self.threads;
        let growth = self.last_growth.max(self.growth) * checkpoint.as_nanos() as f64;
        let per_second =
            |amount: u64, nanos: f64| if nanos > 0.0 { (amount as f64 * 1e9 / nanos) as u64 } else { 0 };
        let rates = RecoveryRates {
            is_measured: self.costs.is_measured,
            threads: self.threads as u64,
            load_bytes_per_second: per_second(bytes, load),
            replay_entries_per_second: per_second(all.entries, self.cost(&all)),
            applied_nanos_per_entry: all.applied_nanos / all.entries.max(1),
        };
        let nanos = |nanos: f64| Duration::from_nanos(nanos as u64);
        RecoveryForecast {
            target,
            load: nanos(load),
            replay: nanos(replay),
            rest: nanos(self.costs.rest),
            growth: nanos(growth),
            checkpoint,
            log_bytes: replayed_bytes,
            log_entries: (all.entries as f64 * share) as u64,
            rates,
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
