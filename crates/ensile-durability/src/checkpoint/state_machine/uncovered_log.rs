//! Log that the installed checkpoint does not cover.
//!
//! Neighbours: `schedule` compares the log with the limits of the rules, and predicts the replay.

use std::ops::RangeInclusive;

use super::action::Circumstances;
use super::range_schedule::TurnBytes;
use crate::control::recovery_time::{DataAmount, LogWork};
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
