//! Forecast of the time that a recovery would take now, from the amounts to load and replay and from measured
//! recoveries of this folder: `rest + (load + replay) / threads`, each amount at its cost (K6).
//!
//! A measured recovery corrects each cost by its share of the predicted time: the largest share was most likely wrong
//! most. Samples measure the time of applying operations while operations are made, so a tenfold increase shows before
//! any recovery meets it. If nothing measures that time, the forecast assumes the time per entry of earlier recoveries.
//! A checkpoint takes time, so the forecast includes the growth of replay until a checkpoint that begins now is
//! installed.
//!
//! Invariants: the growth is the larger of the last window's rate and the moving average, because a quiet time does not
//! predict the load that follows. Costs stay positive, and one measurement changes a cost by a bounded factor.
//!
//! Neighbours: `checkpoint::state_machine` updates the forecast and asks for it, `trigger` decides by it;
//! `files::rates` keeps the costs.

use std::time::Duration;

/// Least predicted time of a phase that corrects costs, in nanoseconds. A shorter phase is mostly fixed cost.
const PREDICTED_NANOS_MIN: f64 = 50e6;
/// Largest and smallest correction of a prediction by one measurement, which may have been disturbed.
const CORRECTION_MAX: f64 = 8.0;
const CORRECTION_MIN: f64 = 0.3;
/// Shortest window over which the growth is measured, in nanoseconds.
const WINDOW_NANOS: u64 = 500_000_000;
/// Weight of the past growth, per window.
const PAST_WEIGHT: f64 = 0.5;
/// Assumed speed of a checkpoint before any checkpoint was measured, in bytes a second, and the assumed fixed time.
const WRITTEN_PER_SECOND: f64 = 150e6;
const WRITTEN_LEAST: Duration = Duration::from_millis(200);

/// Costs of a recovery for one thread, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecoveryCosts {
    /// Fixed cost: folders, the manifest, syncs.
    pub(crate) rest: f64,
    /// Cost of a byte and of an entry of the checkpoint.
    pub(crate) load: [f64; 2],
    /// Cost of a byte and of an entry of the log, and factor for each nanosecond that applying took when the entry was
    /// logged.
    pub(crate) replay: [f64; 3],
    /// Time of applying an entry at recoveries; 0 if no recovery has measured it.
    pub(crate) applied_entry: f64,
    pub(crate) is_measured: bool,
}

impl Default for RecoveryCosts {
    /// Costs before the first measured recovery: rather too high than too low.
    fn default() -> Self {
        let (load, replay) = ([2.0, 500.0], [1.5, 600.0, 1.0]);
        Self { rest: 50e6, load, replay, applied_entry: 0.0, is_measured: false }
    }
}

/// Amount of a checkpoint or of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataAmount {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// Amount of log, with the time that applying took when the log was written.
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

    fn delta_since(&self, base: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(base.bytes),
            entries: self.entries.saturating_sub(base.entries),
            applied_nanos: self.applied_nanos.saturating_sub(base.applied_nanos),
        }
    }

    /// Sum of both amounts.
    fn and(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            entries: self.entries + other.entries,
            applied_nanos: self.applied_nanos + other.applied_nanos,
        }
    }
}

/// Measured recovery. The threads began and ended together; a time is the wall time of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeasuredRecovery {
    pub(crate) threads: u64,
    pub(crate) rest_nanos: u64,
    pub(crate) load_nanos: u64,
    pub(crate) load_bytes: u64,
    pub(crate) load_entries: u64,
    /// Time of replay, reading the log included.
    pub(crate) replay_nanos: u64,
    /// Replayed work. The time of applying is the time in this recovery.
    pub(crate) replayed: LogWork,
}

impl RecoveryCosts {
    /// Corrects the costs by this recovery.
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

    /// Corrects the time of applying an entry. A short replay is ignored, because few of its entries were timed.
    fn learn_applied(&mut self, measured: &MeasuredRecovery, threads: f64) {
        let LogWork { entries, applied_nanos, .. } = measured.replayed;
        if entries == 0 || applied_nanos == 0 || (measured.replay_nanos as f64) < PREDICTED_NANOS_MIN {
            return;
        }
        // Sampled times may sum to more than the time that was available.
        let applied = (applied_nanos as f64).min(measured.replay_nanos as f64 * threads) / entries as f64;
        let known = if self.applied_entry > 0.0 { self.applied_entry } else { applied };
        (self.applied_entry, self.is_measured) = ((known + applied) / 2.0, true);
    }
}

/// Corrects each cost by its share of the prediction, so that the prediction equals the measured time. False if the
/// prediction or the measured time is too small to learn from.
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

/// Forecast of the time that the next open would take if the process ended now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RecoveryForecast {
    /// Target time of a recovery; `None` if no target is set.
    pub target: Option<Duration>,
    /// Time to load the installed checkpoint.
    pub load: Duration,
    /// Time to read and replay the log behind the checkpoint.
    pub replay: Duration,
    /// Fixed time, independent of the amounts to load and replay.
    pub rest: Duration,
    /// Growth of `replay`, at the current rate, until a checkpoint that begins now is installed.
    pub growth: Duration,
    /// Expected time of such a checkpoint.
    pub checkpoint: Duration,
    /// Bytes of the log that recovery would replay.
    pub log_bytes: u64,
    /// Entries of the log that recovery would replay.
    pub log_entries: u64,
    /// Rates behind the forecast.
    pub rates: RecoveryRates,
}

/// Rates of a [`RecoveryForecast`], for all threads together and for entries like the present entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RecoveryRates {
    /// True if a recovery of this folder was measured; otherwise the rates are assumed.
    pub is_measured: bool,
    /// Number of threads that recover.
    pub threads: u64,
    /// Bytes of the checkpoint that are loaded per second; 0 if there is no checkpoint.
    pub load_bytes_per_second: u64,
    /// Entries of the log that are replayed per second; 0 if there are no entries.
    pub replay_entries_per_second: u64,
    /// Time of applying an operation, in nanoseconds, sampled while operations are made. If only recoveries measure
    /// that time, the sample is of recoveries; 0 if nothing measures it.
    pub applied_nanos_per_entry: u64,
}

impl RecoveryForecast {
    /// Sum of load, replay and fixed time.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.rest + self.load + self.replay
    }

    /// True if loading leaves time for replay, or if no target is set. If false, no checkpoint can keep the target.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.target.is_none_or(|target| self.rest + self.load < target)
    }

    /// Reason that no checkpoint can keep this target; `None` if a checkpoint can.
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

/// State of the forecast between two observations.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecoveryOutlook {
    costs: RecoveryCosts,
    threads: f64,
    /// Log work of earlier processes, until this process installs its first checkpoint.
    before: LogWork,
    /// Work that this process had logged when the installed checkpoint's walk was opened, and the work logged by now.
    base: LogWork,
    seen: LogWork,
    /// Time of applying within `seen`, in nanoseconds, if measured.
    applied_nanos: Option<u64>,
    /// Start of the current window in nanoseconds, and the cost of replay at that start.
    since_nanos: u64,
    since_cost: f64,
    /// Nanoseconds of replay added per nanosecond: in the last window, and on average.
    last_growth: f64,
    growth: f64,
}

impl RecoveryOutlook {
    /// Outlook of a folder that is opened now, with this work in its logs.
    pub(crate) fn new(costs: RecoveryCosts, threads: u64, before: LogWork, now_nanos: u64) -> Self {
        let threads = threads.max(1) as f64;
        Self { costs, threads, before, since_nanos: now_nanos, ..Self::default() }
    }

    /// Nanoseconds of replay for this work.
    fn cost(&self, work: &LogWork) -> f64 {
        dot(&self.costs.replay, work.amounts()) / self.threads
    }

    /// Records the amount logged since the open, and the time of applying, if measured.
    pub(crate) fn observe(&mut self, now_nanos: u64, logged: DataAmount, applied_nanos: Option<u64>) {
        let DataAmount { bytes, entries } = logged;
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

    /// Work logged since the open, at the last observation.
    pub(crate) fn logged_work(&self) -> LogWork {
        self.seen
    }

    /// Time of applying the seen work, in nanoseconds, if measured.
    pub(crate) fn applied_nanos(&self) -> Option<u64> {
        self.applied_nanos
    }

    /// Records the installation of a checkpoint whose walk was opened at the logged work `base`.
    pub(crate) fn record_install(&mut self, base: LogWork) {
        (self.base, self.before) = (base, LogWork::default());
    }

    /// Expected time of a checkpoint that writes this many bytes, from the time and bytes of the last checkpoint.
    pub(crate) fn expected_duration(
        bytes: u64,
        last: Option<(Duration, u64)>,
        bandwidth: Option<u64>,
    ) -> Duration {
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

    /// Forecast for an installed checkpoint of this amount. `replayed_bytes` is the part of the log that a recovery
    /// would replay. After a checkpoint of a part of the state, `replayed_bytes` exceeds the log since that checkpoint.
    pub(crate) fn forecast(
        &self,
        installed: DataAmount,
        replayed_bytes: u64,
        checkpoint: Duration,
        target: Option<Duration>,
    ) -> RecoveryForecast {
        let since = self.seen.delta_since(&self.base).and(&self.before);
        let all = if since.bytes > 0 { since } else { self.seen.and(&self.before) };
        // The unknown part of the log is taken to resemble the known part.
        let share = if all.bytes > 0 { replayed_bytes as f64 / all.bytes as f64 } else { 0.0 };
        let replay = self.cost(&all) * share;
        let load = dot(&self.costs.load, [installed.bytes as f64, installed.entries as f64]) / self.threads;
        let growth = self.last_growth.max(self.growth) * checkpoint.as_nanos() as f64;
        let per_second = |of: u64, nanos: f64| if nanos > 0.0 { (of as f64 * 1e9 / nanos) as u64 } else { 0 };
        let rates = RecoveryRates {
            is_measured: self.costs.is_measured,
            threads: self.threads as u64,
            load_bytes_per_second: per_second(installed.bytes, load),
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
