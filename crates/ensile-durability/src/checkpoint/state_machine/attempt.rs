//! A checkpoint under way, from the opening of the walk to the installation or failure.
//!
//! Invariants:
//! - K1: no part is unfinished when the walk ends, and every log has the marks of e_h before the installation.
//! - K4: a part has its share of each range of the turn.
//! - The first reason of a failure counts.
//!
//! Neighbours: `machine` has at most one attempt, and moves the attempt from stage to stage.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;

use super::action::{CutParts, PartTask, Terms};
use super::range_schedule::{AttemptTurn, Taken, after_turn};
use super::strategy::WalkEpochs;
use crate::checkpoint::disk_space::DiskSpace;
use crate::checkpoint::pages::PictureAttempt;
use crate::checkpoint::picture::picture_set::ClosedPicture;
use crate::checkpoint::request::{CheckpointReport, Ticket};
use crate::checkpoint::walk::Slice;
use crate::control::adaptive::ThresholdReading;
use crate::control::recovery_time::{LogWork, RecoveryForecast};
use crate::control::trigger::CheckpointReason;
use crate::files::checkpoint::writer::PartWritten;
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

/// The parts of an attempt, one for each checkpointer, from the cut to the written files.
#[derive(Debug)]
pub(super) struct AttemptParts {
    /// Slices of the parts not yet begun, by set of files.
    waiting: Vec<Option<Vec<Vec<Slice>>>>,
    written: Vec<Vec<PartWritten>>,
    /// Number of checkpointers with a part not begun or not ended.
    unfinished: usize,
    closed: Option<ClosedPicture>,
}

impl AttemptParts {
    pub(super) fn new(checkpointers: usize) -> Self {
        assert!(checkpointers > 0, "a checkpointer writes");
        let written = vec![Vec::new(); checkpointers];
        Self { waiting: Vec::new(), written, unfinished: checkpointers, closed: None }
    }

    /// Deals the parts out, and an empty part of `sets` sets to each other checkpointer. Returns the number of slices.
    pub(super) fn deal_out(&mut self, mut parts: Vec<Vec<Vec<Slice>>>, sets: usize) -> u64 {
        let checkpointers = self.written.len();
        assert!(parts.len() <= checkpointers, "a part for each checkpointer");
        parts.resize_with(checkpointers, || vec![Vec::new(); sets]);
        assert!(parts.iter().all(|part| part.len() == sets), "K4: a part has its share of each range");
        assert_eq!(self.unfinished, checkpointers, "no part was begun");
        let slices = parts.iter().flatten().map(Vec::len).sum::<usize>();
        self.waiting = parts.into_iter().map(Some).collect();
        slices as u64
    }

    pub(super) fn take(&mut self, checkpointer: usize) -> Option<Vec<Vec<Slice>>> {
        assert_eq!(self.waiting.len(), self.written.len(), "the parts are dealt out");
        self.waiting[checkpointer].take()
    }

    /// Records a written part with `sets` sets. True if every part has ended.
    pub(super) fn record_written(&mut self, writer: usize, written: Vec<PartWritten>, sets: u64) -> bool {
        assert!(self.waiting[writer].is_none(), "it was begun");
        assert!(self.written[writer].is_empty(), "a part ends once");
        assert_eq!(written.len() as u64, sets, "K4: it has written its share of each range");
        self.written[writer] = written;
        self.record_left();
        self.are_finished()
    }

    pub(super) fn record_left(&mut self) {
        self.unfinished = self.unfinished.checked_sub(1).expect("it was unfinished");
    }

    /// Records that a part cannot be written. Parts not begun count as ended.
    pub(super) fn record_failed(&mut self) {
        let not_begun = self.waiting.iter_mut().filter_map(Option::take).count();
        self.unfinished = self.unfinished.checked_sub(not_begun + 1).expect("they were unfinished");
    }

    /// Counts every part as ended. The call comes before parts are dealt out, or after every part has ended.
    pub(super) fn abandon(&mut self) {
        assert!(self.waiting.is_empty() || self.are_finished(), "no checkpointer writes a part");
        self.unfinished = 0;
    }

    /// True if no checkpointer has a part that is not begun or not ended.
    pub(super) fn are_finished(&self) -> bool {
        assert!(self.unfinished <= self.written.len(), "a checkpointer has one part");
        self.unfinished == 0
    }

    pub(super) fn record_close(&mut self, closed: ClosedPicture) {
        assert!(self.are_finished(), "N12: the root is written after the parts");
        let before = self.closed.replace(closed);
        assert!(before.is_none(), "a picture is closed once");
    }

    /// The closed picture; `None` before the close, and for other kinds.
    pub(super) fn closed_picture(&self) -> Option<&ClosedPicture> {
        self.closed.as_ref()
    }

    pub(super) fn of_set(&self, at: u64) -> Vec<&PartWritten> {
        assert!(self.are_finished(), "K1: every part is written");
        self.written.iter().map(|part| &part[at as usize]).collect()
    }

    pub(super) fn sum(&self, figure: impl Fn(&PartWritten) -> u64) -> u64 {
        assert!(self.are_finished(), "K1: every part is written");
        self.written.iter().flatten().map(figure).sum()
    }

    /// Bytes that the attempt wrote. A picture does not write the kept pages.
    pub(super) fn bytes_written(&self) -> u64 {
        self.closed.as_ref().map_or_else(|| self.sum(|part| part.bytes), |closed| closed.bytes_written)
    }
}
