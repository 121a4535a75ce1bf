//! Schedule of checkpoints: the time of the next checkpoint, by the rules, the load and the expected recovery.
//!
//! Neighbours: `machine` asks the schedule between two checkpoints; `control` has the rules and the predictions.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::action::{Circumstances, OpenFigures, Rules};
use super::attempt::{Attempt, Occasion};
use super::range_schedule::{Taken, TurnBytes};
use crate::checkpoint::request::CheckpointReport;
use crate::checkpoint::stats::CheckpointStats;
use crate::control::adaptive::ThresholdMeasure;
use crate::control::load::{LoadAverage, LoadCounts};
use crate::control::recovery_time::{DataAmount, LogWork, RecoveryForecast, RecoveryOutlook};
use crate::control::trigger::{CheckpointVerdict, Situation};
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;

/// Amounts of log since the e_l of the installed checkpoint.
#[derive(Debug)]
pub(super) struct UncoveredLog {
    /// Bytes logged since the open when the e_l of the installed checkpoint was fixed; 0 before the first install.
    base_bytes: u64,
    /// Entries logged since the open when the e_l of the installed checkpoint was fixed.
    base_records: u64,
    /// Bytes of log replayed at the open; 0 after the first install.
    bytes_before: u64,
    /// Bytes of log replayed at the open, which ranges of an earlier process need until a turn replaces them.
    replayed_bytes: u64,
    turn_bytes: TurnBytes,
}

impl UncoveredLog {
    /// The log of a database whose open has replayed this many bytes.
    pub(super) fn new(replayed_bytes: u64) -> Self {
        let turn_bytes = TurnBytes::default();
        Self { base_bytes: 0, base_records: 0, bytes_before: replayed_bytes, replayed_bytes, turn_bytes }
    }

    /// Bytes and entries since the last checkpoint began, scaled from one turn to a round of `turns`.
    pub(super) fn scaled(&self, seen: &Circumstances, turns: u32) -> DataAmount {
        assert!(turns > 0, "a round has a turn");
        let turns = u64::from(turns);
        let bytes =
            (seen.log_bytes - self.base_bytes).saturating_mul(turns).saturating_add(self.bytes_before);
        DataAmount { bytes, entries: (seen.log_records - self.base_records).saturating_mul(turns) }
    }

    /// Bytes of log that a recovery would replay now. Without a log: changed bytes.
    pub(super) fn replayed_bytes(&self, installed: Option<&InstalledCheckpoint>, log_bytes: u64) -> u64 {
        match installed {
            // Replay begins at the least e_l (K5).
            Some(installed @ InstalledCheckpoint::Cycling(_)) => match self.turn_bytes.least(installed) {
                Some(began) => log_bytes - began,
                None => log_bytes + self.replayed_bytes,
            },
            _ => log_bytes - self.base_bytes + self.bytes_before,
        }
    }

    /// True if commits, which logged `log_bytes` so far, have changed bytes since the installed e_l was fixed.
    pub(super) fn has_changed(&self, log_bytes: u64) -> bool {
        assert!(log_bytes >= self.base_bytes, "what has changed only grows");
        log_bytes > self.base_bytes
    }

    /// Records the installation of the sets with these numbers. `base` is the logged work at the opening of their walk.
    pub(super) fn record_install(
        &mut self,
        base: &LogWork,
        numbers: RangeInclusive<u64>,
        installed: &InstalledCheckpoint,
    ) {
        assert!(base.bytes >= self.base_bytes, "a later checkpoint covers more of the log");
        (self.base_bytes, self.base_records, self.bytes_before) = (base.bytes, base.entries, 0);
        self.turn_bytes.add_turn(numbers, base.bytes, installed);
    }
}

/// Rules that begin checkpoints, with the measured load and the expected recovery.
#[derive(Debug)]
pub(super) struct CheckpointSchedule {
    rules: Rules,
    load: LoadAverage,
    outlook: RecoveryOutlook,
    pub(super) log: UncoveredLog,
    /// Largest write rate of checkpoints, in bytes a second.
    bandwidth: Option<u64>,
    verdict: CheckpointVerdict,
    occasion: Option<Occasion>,
    /// Duration of the last checkpoint at the full rate of the settings, and the bytes written.
    last_took: Option<(Duration, u64)>,
}

impl CheckpointSchedule {
    /// Schedule of a database, from the figures of its open. `outlook` predicts recoveries.
    pub(super) fn new(
        rules: Rules,
        outlook: RecoveryOutlook,
        bandwidth: Option<u64>,
        OpenFigures { now_nanos, replayed_bytes }: OpenFigures,
    ) -> Self {
        assert_ne!(bandwidth, Some(0), "settings were checked");
        Self {
            rules,
            load: LoadAverage::new(now_nanos, LoadCounts::default()),
            outlook,
            log: UncoveredLog::new(replayed_bytes),
            bandwidth,
            verdict: CheckpointVerdict::default(),
            occasion: None,
            last_took: None,
        }
    }

    /// Replaces the rules, and starts a new estimate of the load.
    pub(super) fn set_rules(&mut self, rules: Rules, seen: &Circumstances) {
        self.rules = rules;
        self.load = LoadAverage::new(seen.now_nanos, seen.load_counts());
    }

    pub(super) fn observe(&mut self, seen: &Circumstances) {
        if let Some(adaptive) = &self.rules.adaptive {
            self.load.observe(seen.now_nanos, seen.load_counts(), adaptive);
        }
        let logged = DataAmount { bytes: seen.log_bytes, entries: seen.log_records };
        self.outlook.observe(seen.now_nanos, logged, seen.applied_nanos);
        assert_eq!(self.logged_work().bytes, seen.log_bytes, "the last observation counts");
    }

    /// Work logged since the open, at the last observation.
    pub(super) fn logged_work(&self) -> LogWork {
        self.outlook.logged_work()
    }

    /// Last measured time of applying all entries logged since the open, in nanoseconds; `None` if not measured.
    pub(super) fn applied_nanos(&self) -> Option<u64> {
        self.outlook.applied_nanos()
    }

    pub(super) fn target(&self) -> Option<Duration> {
        self.rules.recovery_time
    }

    pub(super) fn load(&self) -> f64 {
        self.load.load()
    }

    /// Predicts a recovery after `log_bytes` of log since the open, if the next checkpoint takes `taken`.
    pub(super) fn forecast(
        &self,
        installed: Option<&InstalledCheckpoint>,
        taken: &Taken,
        log_bytes: u64,
        target: Option<Duration>,
    ) -> RecoveryForecast {
        let amount = |of: &InstalledCheckpoint| DataAmount { bytes: of.bytes(), entries: of.entries() };
        let loaded = installed.map(amount).unwrap_or_default();
        let replayed = self.log.replayed_bytes(installed, log_bytes);
        // The size of a first checkpoint is unknown, and at most the size of the log.
        let written = if loaded.bytes > 0 { taken.bytes(installed) } else { replayed };
        let expected = RecoveryOutlook::expected_duration(written, self.last_took, self.bandwidth);
        self.outlook.forecast(loaded, replayed, expected, target)
    }

    /// True if the rules begin an attempt now. The schedule then notes the occasion of the attempt.
    pub(super) fn is_due(&mut self, situation: &Situation) -> bool {
        self.verdict = self.rules.policy.verdict(situation);
        let CheckpointVerdict::Begins(reason) = self.verdict else { return false };
        let reading = |terms| situation.threshold_reading(&terms, self.load.capacity(&terms));
        let adaptive = self.rules.adaptive.map(reading);
        self.occasion = Some(Occasion { reason, recovery: situation.recovery, adaptive });
        true
    }

    pub(super) fn occasion(&self) -> Occasion {
        self.occasion.expect("the rules have begun an attempt")
    }

    pub(super) fn record_install(
        &mut self,
        attempt: &Attempt,
        report: &CheckpointReport,
        installed: &InstalledCheckpoint,
    ) {
        assert_eq!(report.number, installed.number(), "the report is of the attempt");
        let took = (!attempt.is_slowed).then_some((report.elapsed, report.bytes_written));
        self.last_took = took.or(self.last_took);
        self.outlook.record_install(attempt.logged);
        self.log.record_install(&attempt.logged, attempt.turn.number..=attempt.turn.last_number(), installed);
    }

    pub(super) fn stats(&self, counted: CheckpointStats) -> CheckpointStats {
        let adaptive = self.rules.adaptive;
        let threshold = |of: ThresholdMeasure| {
            let terms = adaptive.filter(|terms| terms.measure == of)?;
            Some(terms.threshold(self.load.load()))
        };
        CheckpointStats {
            load: adaptive.map(|_| self.load.load()),
            capacity: adaptive.map(|terms| self.load.capacity(&terms) as u64),
            log_bytes_threshold: threshold(ThresholdMeasure::Bytes),
            log_records_threshold: threshold(ThresholdMeasure::Records),
            interval_threshold: threshold(ThresholdMeasure::Time).map(Duration::from_millis),
            verdict: self.verdict,
            ..counted
        }
    }
}
