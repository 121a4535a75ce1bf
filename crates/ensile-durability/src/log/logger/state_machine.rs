//! The steps of a logger as decisions. The code is pure: observations and results of an action go in, the next action
//! comes out.
//!
//! ```text
//!          entries, a mark of d or none        the file has all of it          the sync is done
//! Empty ------------------------------> Encoded -------------------> Submitted ----------------> Empty, and d counts
//!                                        |   ^   \-- no mark: nothing is to be synced --> Empty
//!                               no space v   | a later step submits the same bytes
//!                                         Held
//! ```
//! Invariants: held blocks are submitted before anything else is encoded, because they come first in the chain (L5). A
//! mark counts once the sync after its write is done (L3). A close, or the end of the log, ends the steps at any stage.
//!
//! Neighbours: `super` carries the actions out, and reports their results.

use ensile_base::Epoch;
use ensile_base::limits::LOG_BUFFER_BYTES;

/// Bytes per mark above which the device counts as busy. Epochs then close only at the heartbeat's interval.
const EARLY_CLOSE_BYTES_MAX: u64 = LOG_BUFFER_BYTES as u64 / 2;

/// The thread that takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepBy {
    /// The logger's own thread, or a thread that drives the logger.
    Logger,
    /// A waiter's thread: the logger does the work that the waiter's result does not need.
    Waiter,
}

/// Stage of the encoded blocks, the states of the diagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StepStage {
    /// No encoded blocks: all blocks are written, and all marks synced.
    #[default]
    Empty,
    /// In memory.
    Encoded,
    /// In memory, because the disk is full.
    Held,
    /// In the file; the mark of the blocks waits for the sync.
    Submitted,
    /// The last mark is written, or the log is closed without the mark.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstAction {
    /// Nothing: the log has ended.
    Stop,
    /// Submit the held blocks.
    SubmitHeld,
    /// Take the entries of the workers, and encode them. If the device is idle, the epoch may close early before that.
    Encode {
        /// True if the device is idle.
        may_close_epoch: bool,
    },
}

/// Encoded and unwritten blocks of a logger, and the load of its device.
#[derive(Debug, Default)]
pub(super) struct Steps {
    stage: StepStage,
    /// Encoded mark d that is not synced yet.
    mark_due: Option<Epoch>,
    /// Bytes since the last mark; `bytes_recent`: between the last two marks.
    bytes_since_mark: u64,
    bytes_recent: u64,
    /// True if the device was busy when the step began, or blocks were held.
    is_heavy: bool,
}

impl Steps {
    /// Checks that stage and mark agree.
    fn check(&self) {
        let is_encoded = matches!(self.stage, StepStage::Encoded | StepStage::Held | StepStage::Submitted);
        debug_assert!(self.mark_due.is_none() || is_encoded || self.is_closed(), "a mark of nothing encoded");
        debug_assert!(self.stage != StepStage::Submitted || self.mark_due.is_some(), "a sync without a mark");
    }

    fn is_busy(&self) -> bool {
        self.bytes_recent.max(self.bytes_since_mark) > EARLY_CLOSE_BYTES_MAX
    }

    /// True if the device was busy when this step began.
    pub(super) fn is_heavy(&self) -> bool {
        self.is_heavy
    }

    /// True if encoded blocks wait for space.
    pub(super) fn is_held(&self) -> bool {
        self.stage == StepStage::Held
    }

    /// True if a waiter may take the next step. With a full disk or a busy device, only the logger steps.
    pub(super) fn is_for_waiter(&self) -> bool {
        !self.is_held() && !self.is_busy()
    }

    /// True if a new file may begin. All blocks of the current file are synced before.
    pub(super) fn may_roll(&self) -> bool {
        self.bytes_since_mark == 0 && !self.is_held()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stage == StepStage::Closed
    }

    /// Begins a step; `has_ended` is true if the log has ended. Returns the first action.
    pub(super) fn begin(&mut self, has_ended: bool) -> FirstAction {
        if has_ended || self.is_closed() {
            return FirstAction::Stop;
        }
        debug_assert!(matches!(self.stage, StepStage::Empty | StepStage::Held), "a step within another one");
        if self.is_held() {
            self.is_heavy = true;
            return FirstAction::SubmitHeld;
        }
        self.is_heavy = self.is_busy();
        FirstAction::Encode { may_close_epoch: !self.is_heavy }
    }

    /// Notes encoded blocks, followed by a mark of this d or by none.
    pub(super) fn record_encode(&mut self, mark: Option<Epoch>) {
        assert_eq!(self.stage, StepStage::Empty, "what is held comes before anything else in the chain (L5)");
        assert_eq!(self.mark_due, None, "one mark at a time");
        (self.stage, self.mark_due) = (StepStage::Encoded, mark);
        self.check();
    }

    /// Notes the write of `bytes` encoded bytes: all blocks, or as many as the disk had space for. Returns d of a
    /// written mark, which needs a sync.
    pub(super) fn record_write(&mut self, bytes: u64, is_full: bool) -> Option<Epoch> {
        assert!(matches!(self.stage, StepStage::Encoded | StepStage::Held), "written without being encoded");
        self.bytes_since_mark += bytes;
        self.stage = match self.mark_due {
            _ if is_full => StepStage::Held,
            Some(_) => StepStage::Submitted,
            None => StepStage::Empty,
        };
        self.check();
        self.mark_due.filter(|_| !is_full)
    }

    /// Notes that the sync after the write is done: the mark of this d counts.
    pub(super) fn record_sync(&mut self, mark: Epoch) {
        assert_eq!(self.stage, StepStage::Submitted, "synced without being written (L3)");
        assert_eq!(self.mark_due, Some(mark), "synced is the mark that was written");
        (self.stage, self.mark_due) = (StepStage::Empty, None);
        self.bytes_recent = std::mem::take(&mut self.bytes_since_mark);
        self.check();
    }

    /// Closes the log: nothing is written afterwards.
    pub(super) fn close(&mut self) {
        self.stage = StepStage::Closed;
    }
}

/// True if the next step should come soon: a strict result waits for a commit that is ending, or for the epoch's least
/// length. `wanted` is the largest epoch with a waiter, and `durable` is D.
pub(super) fn is_hurried(claim: Epoch, wanted: Epoch, durable: Epoch) -> bool {
    wanted > durable && claim < wanted
}

/// True if the epoch should close early, because a strict result of the current epoch `now` waits for D.
pub(super) fn closes_epoch(wanted: Epoch, durable: Epoch, now: Epoch) -> bool {
    wanted > durable && now <= wanted
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
