//! The steps of a logger as decisions. Pure: what is seen and what came of an action go in, the next action comes out.
//!
//! ```text
//!          entries, a mark of d or none        the file has all of it          the sync is done
//! Empty ------------------------------> Encoded -------------------> Submitted ----------------> Empty, and d counts
//!                                        |   ^   \-- no mark: nothing is to be synced --> Empty
//!                               no space v   | a later step submits the same bytes
//!                                         Held
//! ```
//! A close, or the end of the log, leads from any stage to none: nothing is written any more.
//!
//! Invariants:
//! - What is held is submitted before anything else is encoded: it comes first in the chain (L5).
//! - A mark counts once the sync that followed its write is done (L3). One sync serves all that is submitted.
//! - An asynchronous store may answer later than it was asked: the stage is `Submitted` until then.
//!
//! Neighbours: `super` carries the actions out, and reports what came of them.

use ensile_base::Epoch;
use ensile_base::limits::LOG_BUFFER_BYTES;

/// Above this many bytes since the last mark the device is busy, and epochs close at the heartbeat's interval.
const EARLY_CLOSE_BYTES_MAX: u64 = LOG_BUFFER_BYTES as u64 / 2;

/// The thread that takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepBy {
    /// The logger's own, or one that drives it.
    Logger,
    /// A waiter's: what its result does not wait for is left to the logger.
    Waiter,
}

/// Where the encoded blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepStage {
    /// There are none: all are written, and all marks synced.
    Empty,
    /// In memory.
    Encoded,
    /// In memory, since the disk is full.
    Held,
    /// In the file, and their mark waits for the sync.
    Submitted,
    /// The last mark is written, or the log is closed without it.
    Closed,
}

/// What a step does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstAction {
    /// Nothing: the log has ended.
    Stop,
    /// Submit what is held.
    SubmitHeld,
    /// Take what the workers appended, and encode it. If the device is idle, the epoch may close early before that.
    Encode {
        /// The device is idle.
        may_close_epoch: bool,
    },
}

/// What follows a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterWrite {
    /// Keep what is not written, and give space back.
    Hold,
    /// Sync: a mark of this d is among what was written.
    Sync(Epoch),
    /// No mark was written.
    Done,
}

/// What a step does last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastAction {
    /// Begin a new file.
    Roll,
    /// Leave the new file to the logger's thread.
    WakeLogger,
    /// Nothing.
    Rest,
}

/// What a logger has encoded and not written, and how busy its device is.
#[derive(Debug)]
pub(super) struct Steps {
    stage: StepStage,
    /// A mark of this d is encoded, and not synced yet.
    mark_due: Option<Epoch>,
    /// Bytes since the last mark, and up to it since the mark before.
    bytes_since_mark: u64,
    bytes_recent: u64,
    /// The device was busy when the step began.
    is_heavy: bool,
}

impl Steps {
    pub(super) fn new() -> Self {
        Self {
            stage: StepStage::Empty,
            mark_due: None,
            bytes_since_mark: 0,
            bytes_recent: 0,
            is_heavy: false,
        }
    }

    /// Stage and mark agree.
    fn check(&self) {
        let is_encoded = matches!(self.stage, StepStage::Encoded | StepStage::Held | StepStage::Submitted);
        debug_assert!(self.mark_due.is_none() || is_encoded || self.is_closed(), "a mark of nothing encoded");
        debug_assert!(self.stage != StepStage::Submitted || self.mark_due.is_some(), "a sync without a mark");
    }

    /// Is the device busy?
    fn is_busy(&self) -> bool {
        self.bytes_recent.max(self.bytes_since_mark) > EARLY_CLOSE_BYTES_MAX
    }

    /// Was the device busy when this step began?
    pub(super) fn is_heavy(&self) -> bool {
        self.is_heavy
    }

    /// Does some of what is encoded wait for space?
    pub(super) fn is_held(&self) -> bool {
        self.stage == StepStage::Held
    }

    /// May a waiter take the next step? It leaves a full disk and a busy device to the logger.
    pub(super) fn is_for_waiter(&self) -> bool {
        !self.is_held() && !self.is_busy()
    }

    /// May a new file be begun? Not before all that was written to this one is synced.
    pub(super) fn may_roll(&self) -> bool {
        self.bytes_since_mark == 0 && !self.is_held()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stage == StepStage::Closed
    }

    /// A step begins.
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

    /// Blocks are encoded, behind them a mark of this d or none.
    pub(super) fn encoded(&mut self, mark: Option<Epoch>) {
        assert_eq!(self.stage, StepStage::Empty, "what is held comes before anything else in the chain (L5)");
        assert_eq!(self.mark_due, None, "one mark at a time");
        (self.stage, self.mark_due) = (StepStage::Encoded, mark);
        self.check();
    }

    /// `bytes` bytes of what was encoded are written: all, or as many as there was space for.
    pub(super) fn written(&mut self, bytes: u64, is_full: bool) -> AfterWrite {
        assert!(matches!(self.stage, StepStage::Encoded | StepStage::Held), "written without being encoded");
        self.bytes_since_mark += bytes;
        if is_full {
            self.stage = StepStage::Held;
            return AfterWrite::Hold;
        }
        if let Some(mark) = self.mark_due {
            self.stage = StepStage::Submitted;
            self.check();
            return AfterWrite::Sync(mark);
        }
        self.stage = StepStage::Empty;
        AfterWrite::Done
    }

    /// The sync that followed the write is done: the mark of this d counts.
    pub(super) fn synced(&mut self, mark: Epoch) {
        assert_eq!(self.stage, StepStage::Submitted, "synced without being written (L3)");
        assert_eq!(self.mark_due, Some(mark), "synced is the mark that was written");
        (self.stage, self.mark_due) = (StepStage::Empty, None);
        self.bytes_recent = std::mem::take(&mut self.bytes_since_mark);
        self.check();
    }

    /// What the thread that stepped does about a new file that is due. Results of this mark do not wait for it.
    pub(super) fn end(by: StepBy, is_roll_due: bool) -> LastAction {
        match by {
            _ if !is_roll_due => LastAction::Rest,
            StepBy::Logger => LastAction::Roll,
            StepBy::Waiter => LastAction::WakeLogger,
        }
    }

    /// Nothing is written after this.
    pub(super) fn close(&mut self) {
        self.stage = StepStage::Closed;
    }
}

/// Shall the next step come soon? A strict result waits for a commit that is ending, or for the epoch's least length.
pub(super) fn is_hurried(claim: Epoch, wanted: Epoch, durable: Epoch) -> bool {
    wanted > durable && claim < wanted
}

/// May the epoch close early? A strict result of the current one waits for D.
pub(super) fn closes_epoch(wanted: Epoch, durable: Epoch, now: Epoch) -> bool {
    wanted > durable && now <= wanted
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
