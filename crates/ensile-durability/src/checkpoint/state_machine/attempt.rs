//! A checkpoint under way, from the opening of the walk to the installation or failure.
//!
//! Invariants:
//! - K1: an attempt has the marks of e_h in every log before its installation.
//! - The first reason of a failure counts.
//!
//! Neighbours: `machine` has at most one attempt, and moves the attempt from stage to stage.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;

use super::action::{CutParts, PartTask};
use super::parts::AttemptParts;
use super::range_schedule::{AttemptTurn, Taken, after_turn};
use super::settings::Terms;
use super::strategy::WalkEpochs;
use crate::checkpoint::disk_space::DiskSpace;
use crate::checkpoint::pages::PictureAttempt;
use crate::checkpoint::request::{CheckpointReport, Ticket};
use crate::control::adaptive::ThresholdReading;
use crate::control::recovery_time::{LogWork, RecoveryForecast};
use crate::control::trigger::CheckpointReason;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;

/// Reason of an attempt, with the figures at the decision to begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occasion {
    pub(super) reason: CheckpointReason,
    pub(super) recovery: RecoveryForecast,
    /// Reading of the adaptive threshold, if the rules have a threshold.
    pub(super) adaptive: Option<ThresholdReading>,
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) turn: AttemptTurn,
    pub(super) parts: AttemptParts,
    pub(super) epochs: WalkEpochs,
    /// Attempt of the published pages; `None` before the publication, and for other kinds.
    pub(super) pages: Option<PictureAttempt>,
    pub(super) ticket: Arc<Ticket>,
    pub(super) disk_space: Arc<DiskSpace>,
    pub(super) occasion: Occasion,
    /// Time of the beginning, in nanoseconds.
    pub(super) began_nanos: u64,
    /// Logged work at the opening of the walk; for a picture, at the announcement of the freeze.
    pub(super) logged: LogWork,
    /// Number of loggers' attempts to write to a full disk, when the reserve was given up for this attempt, if it was.
    pub(super) gave_up_at: Option<u64>,
    /// True if a caller wants a lower rate than the settings.
    pub(super) is_slowed: bool,
    pub(super) failure: Option<Arc<str>>,
}

impl Attempt {
    /// Epoch whose mark every log must have before the install. The walk has ended.
    pub(super) fn durable_min(&self) -> Epoch {
        self.epochs.durable_min().expect("the walk has ended")
    }

    /// Sets the parts. Returns the number of sets of files.
    pub(super) fn cut(&mut self, CutParts { starts, parts }: CutParts) -> u64 {
        assert!(self.failure.is_none(), "a failed attempt is not cut");
        self.turn.cut(starts);
        let sets = self.turn.sets;
        self.ticket.set_slices(self.parts.deal_out(parts, sets as usize));
        sets
    }

    /// Hands out the part of a checkpointer, once. No picture's pages are ended while parts are handed out.
    pub(super) fn part_task(&mut self, checkpointer: usize) -> Option<PartTask> {
        let slices = self.parts.take(checkpointer)?;
        let AttemptTurn { number, salt, .. } = self.turn;
        let (ticket, disk_space) = (Arc::clone(&self.ticket), Arc::clone(&self.disk_space));
        Some(PartTask { number, low: self.epochs.low(), pages: self.pages, salt, slices, ticket, disk_space })
    }

    /// Returns the manifest's entry for an attempt whose parts are all written, after the checkpoint `old`.
    pub(super) fn to_install(&self, old: Option<&InstalledCheckpoint>, terms: &Terms) -> InstalledCheckpoint {
        assert!(self.parts.are_finished(), "K1: every part is written");
        let Self { turn, epochs, parts, .. } = self;
        if epochs.is_closed_apart() {
            return InstalledCheckpoint::Picture(epochs.picture(turn.number, parts.closed_picture(), terms));
        }
        let walked = |at: u64| epochs.fuzzy_checkpoint(turn.number + at, turn.salt, &parts.of_set(at), terms);
        if turn.taken == Taken::Whole {
            return InstalledCheckpoint::Fuzzy(walked(0));
        }
        let walked = (0..turn.sets).map(walked).collect();
        InstalledCheckpoint::Cycling(after_turn(old, &turn.taken, &turn.starts, walked))
    }

    /// Report of the attempt. `installed` is the attempt's checkpoint in the manifest.
    pub(super) fn report(&self, installed: &InstalledCheckpoint, now_nanos: u64) -> CheckpointReport {
        let (number, high) = (installed.number(), installed.durable_min());
        assert_eq!((self.turn.last_number(), self.durable_min()), (number, high));
        let Occasion { reason, recovery, adaptive } = self.occasion;
        let closed = self.parts.closed_picture();
        let pages_written = closed.map_or(0, |closed| closed.pages_written);
        CheckpointReport {
            number,
            low: installed.redo_epoch(),
            high,
            reason,
            entries: installed.entries(),
            displaced: self.parts.sum(|part| part.displaced),
            displaced_tail_bytes: self.parts.sum(|part| part.tail_bytes),
            bytes: installed.bytes(),
            pages_written,
            pages_kept: closed.map_or(0, |closed| closed.pages - pages_written),
            bytes_written: self.parts.bytes_written(),
            turn: self.turn.taken.report(installed.completed_walks().len()),
            recovery,
            adaptive,
            elapsed: Duration::from_nanos(now_nanos.saturating_sub(self.began_nanos)),
        }
    }
}
