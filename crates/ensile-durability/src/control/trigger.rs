//! When a checkpoint begins (SiloR §4.3 has a fixed pause, and wished for what is here).
//!
//! Neighbours: asked by `checkpoint::manager` while no checkpoint is under way.

use std::time::Duration;

/// The log has hardly grown while it is smaller than this part of the installed checkpoint: writing all again would
/// cost more than replaying so little.
const HARDLY_GREW_SHARE: u64 = 8;
/// Nor is a database small enough for this worth a checkpoint by itself.
const HARDLY_GREW_BYTES: u64 = 1 << 20;
/// A failed attempt is not repeated before this has passed, unless a caller asks; it doubles with each failure in a
/// row.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Doublings of it at most: about a minute.
const PAUSE_DOUBLINGS_MAX: u32 = 6;
/// A target for recovery time begins a checkpoint only if replaying the log is this part of the target: the remainder
/// is the checkpoint's own load, which another checkpoint would not shorten.
const REPLAY_SHARE: u32 = 8;

/// The policy of SiloR and of this database: time, bytes of log, and how long a recovery would take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trigger {
    /// Time after the last one ended.
    pub(crate) interval: Option<Duration>,
    /// Log written since the last one began.
    pub(crate) log_bytes: Option<u64>,
    /// What recovery may take.
    pub(crate) recovery_time: Option<Duration>,
}

/// How things stand.
#[derive(Clone, Debug)]
pub(crate) struct Situation {
    /// A caller asks for one.
    pub(crate) is_demanded: bool,
    /// How many attempts have failed since one did not.
    pub(crate) failures: u32,
    /// The log waits for space on its disk.
    pub(crate) is_log_full: bool,
    /// Since the last attempt ended, or the database was opened.
    pub(crate) since_end: Duration,
    /// Bytes of log that recovery would replay now.
    pub(crate) log_bytes: u64,
    /// Bytes of the installed checkpoint.
    pub(crate) checkpoint_bytes: u64,
    /// What recovery manages, bytes a second.
    pub(crate) load_rate: u64,
    pub(crate) replay_rate: u64,
}

/// Why a checkpoint begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A caller asked.
    Demand,
    /// Time has passed, and the log has grown.
    Interval,
    /// The log is as long as it may be.
    LogBytes,
    /// Recovery would take as long as it may.
    RecoveryTime,
}

/// Decides when a checkpoint begins. It sees the situation and nothing else.
pub(crate) trait Policy: std::fmt::Debug + Send + Sync {
    /// Whether a checkpoint begins now, and why.
    fn decide(&self, now: &Situation) -> Option<Reason>;
}

impl Policy for Trigger {
    fn decide(&self, now: &Situation) -> Option<Reason> {
        if now.is_demanded {
            return Some(Reason::Demand);
        }
        // While the log waits for space a checkpoint could take it, and could not be installed: no mark is written
        // before.
        if now.is_log_full || now.since_end < now.pause() {
            return None;
        }
        if self.log_bytes.is_some_and(|most| now.log_bytes >= most) {
            return Some(Reason::LogBytes);
        }
        if self.recovery_time.is_some_and(|target| now.misses(target)) {
            return Some(Reason::RecoveryTime);
        }
        let is_due = self.interval.is_some_and(|interval| now.since_end >= interval);
        (is_due && now.has_grown()).then_some(Reason::Interval)
    }
}

impl Situation {
    /// How long the last attempt must be over.
    fn pause(&self) -> Duration {
        match self.failures.checked_sub(1) {
            Some(more) => PAUSE_AFTER_FAILURE * (1 << more.min(PAUSE_DOUBLINGS_MAX)),
            None => Duration::ZERO,
        }
    }

    fn has_grown(&self) -> bool {
        self.log_bytes >= HARDLY_GREW_BYTES.max(self.checkpoint_bytes / HARDLY_GREW_SHARE)
    }

    fn misses(&self, target: Duration) -> bool {
        let seconds = |bytes: u64, rate: u64| Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        let replay = seconds(self.log_bytes, self.replay_rate);
        let load = seconds(self.checkpoint_bytes, self.load_rate);
        replay + load >= target && replay >= target / REPLAY_SHARE
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{Policy, Reason, Situation, Trigger};
    use std::time::Duration;

    const MB: u64 = 1 << 20;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn situation(since_end: u64, log_bytes: u64, checkpoint_bytes: u64) -> Situation {
        Situation {
            is_demanded: false,
            failures: 0,
            is_log_full: false,
            since_end: seconds(since_end),
            log_bytes,
            checkpoint_bytes,
            load_rate: 200 * MB,
            replay_rate: 100 * MB,
        }
    }

    #[test]
    fn the_interval_is_put_off_while_the_log_hardly_grows() {
        let trigger = Trigger { interval: Some(seconds(10)), ..Trigger::default() };
        for (since_end, log, checkpoint, expected) in [
            (9, 500 * MB, 0, None),
            (10, 500 * MB, 0, Some(Reason::Interval)),
            (10, MB - 1, 0, None),
            (10, MB, 0, Some(Reason::Interval)),
            (1000, 100 * MB, 1000 * MB, None),
            (10, 125 * MB, 1000 * MB, Some(Reason::Interval)),
        ] {
            let found = trigger.decide(&situation(since_end, log, checkpoint));
            assert_eq!(found, expected, "{since_end} s, {log} of log, {checkpoint} of checkpoint");
        }
    }

    #[test]
    fn so_many_bytes_of_log_do_not_wait_for_the_interval() {
        let trigger = Trigger { interval: Some(seconds(10)), log_bytes: Some(64 * MB), recovery_time: None };
        assert_eq!(trigger.decide(&situation(1, 64 * MB, 10_000 * MB)), Some(Reason::LogBytes));
        assert_eq!(trigger.decide(&situation(1, 64 * MB - 1, 0)), None);
    }

    #[test]
    fn a_target_for_recovery_counts_load_and_replay_at_their_rates() {
        let trigger = Trigger { recovery_time: Some(seconds(8)), ..Trigger::default() };
        for (log, checkpoint, expected) in [
            (799 * MB, 0, None),
            (800 * MB, 0, Some(Reason::RecoveryTime)),
            (200 * MB, 1200 * MB, Some(Reason::RecoveryTime)),
            (199 * MB, 1200 * MB, None),
            // The load alone is above the target: another checkpoint helps once the log is worth it.
            (99 * MB, 4000 * MB, None),
            (100 * MB, 4000 * MB, Some(Reason::RecoveryTime)),
        ] {
            assert_eq!(trigger.decide(&situation(1, log, checkpoint)), expected, "{log}, {checkpoint}");
        }
    }

    #[test]
    fn after_a_failure_only_a_demand_is_answered_at_once() {
        let trigger = Trigger { interval: Some(seconds(0)), log_bytes: Some(1), ..Trigger::default() };
        let failed = Situation { failures: 1, ..situation(0, 64 * MB, 0) };
        assert_eq!(trigger.decide(&failed), None);
        let demanded = Situation { is_demanded: true, ..failed.clone() };
        assert_eq!(trigger.decide(&demanded), Some(Reason::Demand));
        let later = Situation { since_end: seconds(1), ..failed };
        assert_eq!(trigger.decide(&later), Some(Reason::LogBytes));
    }

    #[test]
    fn failures_in_a_row_put_the_next_attempt_off_for_longer_and_longer() {
        let trigger = Trigger { log_bytes: Some(1), ..Trigger::default() };
        for (failures, pause) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 64), (8, 64), (u32::MAX, 64)] {
            let after = |since_end| Situation { failures, ..situation(since_end, MB, 0) };
            assert_eq!(trigger.decide(&after(pause - 1)), None, "{failures} failures");
            assert_eq!(trigger.decide(&after(pause)), Some(Reason::LogBytes), "{failures} failures");
        }
    }

    #[test]
    fn a_log_that_waits_for_space_is_left_what_there_is() {
        let trigger = Trigger { interval: Some(seconds(10)), log_bytes: Some(MB), recovery_time: None };
        let full = Situation { is_log_full: true, ..situation(20, 64 * MB, 0) };
        assert_eq!(trigger.decide(&full), None);
        let demanded = Situation { is_demanded: true, ..full };
        assert_eq!(trigger.decide(&demanded), Some(Reason::Demand));
    }

    #[test]
    fn without_settings_only_a_demand_begins_one() {
        assert_eq!(Trigger::default().decide(&situation(1 << 20, 1 << 40, 0)), None);
    }
}
