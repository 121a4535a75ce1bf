//! Times of a recovery's phases, measured by the caller of the steps, for the report and the next forecast.
//!
//! Neighbours: `report` has the figures; `control::recovery_time` predicts by the figures; engine and objects measure.

use std::time::Duration;

use ensile_base::clock::Clock;

use super::install_generation::Recovered;
use super::report::{Phase, PhaseReport, RecoveryReport};
use crate::control::recovery_time::{LogWork, MeasuredRecovery};

/// Stopwatch for the phases of a recovery, one after the other.
#[derive(Debug)]
pub struct RecoveryWatch<'c> {
    clock: &'c Clock,
    /// Clock time at which the current phase began.
    begun: Duration,
    /// Ended phases, each with its time and its number of threads.
    ended: Vec<(Phase, Duration, usize)>,
}

impl<'c> RecoveryWatch<'c> {
    /// Begins the first phase.
    #[must_use]
    pub fn new(clock: &'c Clock) -> Self {
        Self { clock, begun: now(clock), ended: Vec::new() }
    }

    /// Ends a phase, and begins the next phase. `threads` is the number of threads that worked in the ended phase.
    pub fn end(&mut self, phase: Phase, threads: usize) {
        assert!(threads > 0, "somebody did it");
        assert!(self.ended.iter().all(|(ended, ..)| *ended != phase), "a phase ends once");
        let now = now(self.clock);
        assert!(now >= self.begun, "time goes on");
        self.ended.push((phase, now.saturating_sub(self.begun), threads));
        self.begun = now;
    }

    /// Clock time at which the current phase began.
    #[must_use]
    pub fn phase_start(&self) -> Duration {
        self.begun
    }

    /// Reports of the phases, with the amounts of work in the recovery's report.
    #[must_use]
    pub fn reports(self, report: &RecoveryReport) -> Vec<PhaseReport> {
        let with_work = |(phase, elapsed, threads)| {
            let (bytes, entries) = match phase {
                Phase::Load => (report.checkpoint_bytes, report.checkpoint_entries),
                Phase::Replay => (report.bytes, report.entries),
                Phase::Scan | Phase::Finish => (0, 0),
            };
            PhaseReport { phase, elapsed, threads, bytes, entries }
        };
        self.ended.into_iter().map(with_work).collect()
    }
}

fn now(clock: &Clock) -> Duration {
    Duration::from_nanos(clock.nanos())
}

impl Recovered {
    /// Records the measured times of the report, for the forecast of the next recovery. `applied_nanos` is the time of
    /// applying operations, if measured ([`Walk::applied_nanos`](crate::Walk::applied_nanos)).
    pub fn learn(&mut self, applied_nanos: u64) {
        self.checkpoints.measured = measured_recovery(&self.report, applied_nanos);
    }
}

fn measured_recovery(report: &RecoveryReport, applied_nanos: u64) -> MeasuredRecovery {
    let replayed = LogWork { bytes: report.bytes, entries: report.entries, applied_nanos };
    let mut measured = MeasuredRecovery { replayed, ..MeasuredRecovery::default() };
    for phase in &report.phases {
        let nanos = u64::try_from(phase.elapsed.as_nanos()).unwrap_or(u64::MAX);
        measured.threads = measured.threads.max(phase.threads as u64);
        match phase.phase {
            Phase::Load => {
                measured.load_nanos = nanos;
                (measured.load_bytes, measured.load_entries) = (phase.bytes, phase.entries);
            }
            // Recovery reads the log twice: for the judgement, and for the replay.
            Phase::Scan | Phase::Replay => measured.replay_nanos += nanos,
            Phase::Finish => measured.rest_nanos += nanos,
        }
    }
    measured
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::time::Duration;

    use ensile_base::clock::Clock;

    use super::{LogWork, MeasuredRecovery, Phase, RecoveryReport, RecoveryWatch, measured_recovery};

    #[test]
    fn reading_the_log_to_judge_it_counts_with_its_replay() {
        let (clock, mut report) = (Clock::manual(), RecoveryReport::default());
        (report.bytes, report.entries, report.checkpoint_bytes, report.checkpoint_entries) = (700, 7, 900, 9);
        let mut watch = RecoveryWatch::new(&clock);
        for (phase, millis, threads) in
            [(Phase::Scan, 1, 2), (Phase::Load, 20, 2), (Phase::Replay, 300, 2), (Phase::Finish, 4000, 1)]
        {
            clock.advance(Duration::from_millis(millis));
            watch.end(phase, threads);
        }
        report.phases = watch.reports(&report);
        let millis = |millis: u64| millis * 1_000_000;
        let expected = MeasuredRecovery {
            threads: 2,
            rest_nanos: millis(4000),
            load_nanos: millis(20),
            load_bytes: 900,
            load_entries: 9,
            replay_nanos: millis(301),
            replayed: LogWork { bytes: 700, entries: 7, applied_nanos: 5 },
        };
        assert_eq!(measured_recovery(&report, 5), expected);
    }
}
