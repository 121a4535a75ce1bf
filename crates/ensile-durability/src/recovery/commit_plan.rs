//! Ending of a recovery as a pure state machine: the outcome of an action goes in, the next action comes out.
//!
//! ```text
//! Leases -> Tail* -> Unlisted -> Merging -> Logs* -> Manifest* ----------------> Hint* -> Clearing -> Reserve -> Open
//!                                            |        |  no space: Trimming       ^
//!                                            |        |               v           |
//!                                            |        |            LastTry -------+
//!                                            v        v               v
//!                                          Undoing: the older manifest stands, so the new logs go
//!
//! * If it finds no space: Relief(FreeUnneeded), the same again, Relief(GiveUpReserve), the same again.
//! ```
//! A final failure leads from any stage to `ReadOnly` if the disk is full and an earlier life can be read, and
//! otherwise to `Failed`; through `Undoing` once logs are made, unless the new manifest may stand.
//!
//! Invariants (`docs/internals/protocols/durability.md`, "A crash on a full disk"):
//! - L3: logs that a manifest may list stay, whatever a later attempt reports.
//! - L4: nothing that the older manifest lists is removed before the next manifest is durable.
//! - R1: the unproven tail is written again before any result counts as durable.
//!
//! Neighbours: `install_generation` carries the actions out and reports the outcomes.

use std::sync::Arc;

use ensile_disk::{DiskError, Operation};

use super::resync_tail::AtOnce;
use crate::DurabilityError;

/// Write that is repeated once space may be available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Tail,
    Logs,
    Manifest,
    Hint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relief {
    /// Free the files that the manifest read at the start does not need.
    FreeUnneeded,
    GiveUpReserve,
}

impl Relief {
    fn next_after(tried: Option<Self>) -> Option<Self> {
        match tried {
            None => Some(Self::FreeUnneeded),
            Some(Self::FreeUnneeded) => Some(Self::GiveUpReserve),
            Some(Self::GiveUpReserve) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndingStage {
    /// The leases are locked, so that no lease begins while files are removed.
    Leases,
    Writing(Written),
    Relief(Relief, Written),
    Unlisted,
    Merging,
    /// The new logs give back their reserved space.
    Trimming,
    LastTry,
    /// The new logs are removed, because no manifest lists the logs.
    Undoing,
    /// Files that the new manifest does not need are removed.
    Clearing,
    Reserve,
    Open,
    ReadOnly,
    Failed,
}

use EndingStage::{Clearing, LastTry, Leases, Merging, ReadOnly, Trimming, Undoing, Unlisted, Writing};

impl EndingStage {
    /// True if the diagram of the module has this arrow.
    fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Writing(written), Self::Relief(_, of)) | (Self::Relief(_, written), Writing(of)) => {
                written == of
            }
            (Writing(Written::Logs) | Self::Relief(_, Written::Logs), ReadOnly | Self::Failed) => false,
            (from, ReadOnly | Self::Failed) => !matches!(from, Self::Open | ReadOnly | Self::Failed),
            (Leases, to) => to == Writing(Written::Tail),
            (Writing(Written::Tail), to) => to == Unlisted,
            (Unlisted, to) => to == Merging,
            (Merging, to) => to == Writing(Written::Logs),
            (Writing(Written::Logs), to) => matches!(to, Writing(Written::Manifest) | Undoing),
            (Writing(Written::Manifest), to) => matches!(to, Writing(Written::Hint) | Trimming | Undoing),
            (Trimming, to) => matches!(to, LastTry | Undoing),
            (LastTry, to) => matches!(to, Writing(Written::Hint) | Undoing),
            (Writing(Written::Hint), to) => to == Clearing,
            (Clearing, to) => to == Self::Reserve,
            (Self::Reserve, to) => to == Self::Open,
            (Self::Relief(_, Written::Manifest), to) => matches!(to, Trimming | Undoing),
            (Self::Relief(_, Written::Logs), to) => to == Undoing,
            (Self::Relief(..) | Undoing | Self::Open | ReadOnly | Self::Failed, _) => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndingAction {
    HoldLeases,
    RewriteTail(AtOnce),
    RemoveUnlisted,
    Merge,
    /// Make the logs of the next generation; if space is short, without reserved space.
    MakeLogs {
        is_tight: bool,
    },
    ReplaceManifest,
    TrimLogs,
    /// Remove the new logs. The next open removes logs that this action cannot remove.
    RemoveLogs,
    MakeHint,
    Clear,
    MakeReserve,
    FreeUnneeded,
    GiveUpReserve,
}

#[derive(Clone, Debug)]
pub(super) enum EndingOutcome {
    Done,
    /// No reserve existed to give up.
    NothingKept,
    Failed(DurabilityError),
    /// The outcome of replacing the manifest is unknown: either the old or the new manifest stands.
    Unknown(DurabilityError),
}

#[derive(Clone, Debug)]
pub(super) enum EndingStep {
    Do(EndingAction),
    Open,
    /// The recovered state can be read, but not changed. The text is the reason.
    Read(Arc<str>),
    Fail(DurabilityError),
}

#[derive(Debug)]
pub(super) struct Ending {
    stage: EndingStage,
    /// True if an earlier life exists, so that a state can be read.
    has_earlier: bool,
    /// Error of the last attempt at this stage for lack of space, and the relief tried.
    shortage: Option<DurabilityError>,
    tried: Option<Relief>,
    /// True if the new manifest may stand after a failed attempt to replace it, whatever a later attempt reports.
    may_stand: bool,
    /// Reason for the lack of a next generation.
    failure: Option<DurabilityError>,
}

impl Ending {
    pub(super) fn new(has_earlier: bool) -> Self {
        Self { stage: Leases, has_earlier, shortage: None, tried: None, may_stand: false, failure: None }
    }

    pub(super) fn next(&self) -> EndingStep {
        let is_tight = self.shortage.is_some();
        let failure = || self.failure.clone().expect("what fails has a reason");
        EndingStep::Do(match self.stage {
            Leases => EndingAction::HoldLeases,
            Writing(Written::Tail) => {
                EndingAction::RewriteTail(if is_tight { AtOnce::Little } else { AtOnce::File })
            }
            Unlisted => EndingAction::RemoveUnlisted,
            Merging => EndingAction::Merge,
            Writing(Written::Logs) => EndingAction::MakeLogs { is_tight },
            Writing(Written::Manifest) | LastTry => EndingAction::ReplaceManifest,
            Writing(Written::Hint) => EndingAction::MakeHint,
            EndingStage::Relief(Relief::FreeUnneeded, _) => EndingAction::FreeUnneeded,
            EndingStage::Relief(Relief::GiveUpReserve, _) => EndingAction::GiveUpReserve,
            Trimming => EndingAction::TrimLogs,
            Undoing => EndingAction::RemoveLogs,
            Clearing => EndingAction::Clear,
            EndingStage::Reserve => EndingAction::MakeReserve,
            EndingStage::Open => return EndingStep::Open,
            ReadOnly => return EndingStep::Read(failure().to_string().into()),
            EndingStage::Failed => return EndingStep::Fail(failure()),
        })
    }

    pub(super) fn record_outcome(&mut self, outcome: EndingOutcome) {
        match outcome {
            EndingOutcome::Done => self.advance(),
            EndingOutcome::NothingKept => {
                assert!(matches!(self.stage, EndingStage::Relief(Relief::GiveUpReserve, _)), "asked for");
                // Without a reserve, another attempt would fail like the last attempt.
                let shortage = self.shortage.take().expect("space was looked for as there was none");
                self.give_up(shortage);
            }
            EndingOutcome::Failed(error) => self.handle_failure(error),
            EndingOutcome::Unknown(error) => {
                assert!(matches!(self.stage, Writing(Written::Manifest) | LastTry), "the manifest only");
                self.may_stand = true;
                self.handle_failure(error);
            }
        }
    }

    fn advance(&mut self) {
        let next = match self.stage {
            Leases => Writing(Written::Tail),
            Writing(Written::Tail) => Unlisted,
            Unlisted => Merging,
            Merging => Writing(Written::Logs),
            Writing(Written::Logs) => Writing(Written::Manifest),
            Trimming => LastTry,
            Writing(Written::Manifest) | LastTry => Writing(Written::Hint),
            Writing(Written::Hint) => Clearing,
            Clearing => EndingStage::Reserve,
            EndingStage::Reserve => EndingStage::Open,
            // The shortage stays recorded: `shortage` and `tried` are kept.
            EndingStage::Relief(_, written) => return self.enter(Writing(written)),
            Undoing => self.without_next(),
            ended @ (EndingStage::Open | ReadOnly | EndingStage::Failed) => ended,
        };
        (self.shortage, self.tried) = (None, None);
        self.enter(next);
    }

    /// Handles a failed action. A write without space tries the next way of relief; otherwise the stage ends.
    fn handle_failure(&mut self, error: DurabilityError) {
        let error = match (self.shortage.take(), error) {
            // After a failed sync, a read may return old contents that look damaged: the error is the want of space.
            (Some(before), DurabilityError::Damaged { .. }) if self.stage == Writing(Written::Tail) => before,
            (_, error) => error,
        };
        if let Writing(written) = self.stage
            && lacks_space(&error)
            && let Some(relief) = Relief::next_after(self.tried)
        {
            (self.tried, self.shortage) = (Some(relief), Some(error));
            return self.enter(EndingStage::Relief(relief, written));
        }
        self.give_up(error);
    }

    /// Ends this stage, because no attempt is left.
    fn give_up(&mut self, error: DurabilityError) {
        use EndingStage::Relief;
        let next = match self.stage {
            // The logs' reserved space may have taken the last space.
            Writing(Written::Manifest) | Relief(_, Written::Manifest) if lacks_space(&error) => {
                return self.enter(Trimming);
            }
            Writing(Written::Logs) | Relief(_, Written::Logs) => Some(Undoing),
            Writing(Written::Manifest) | Relief(_, Written::Manifest) | Trimming | LastTry => {
                (!self.may_stand).then_some(Undoing)
            }
            _ => None,
        };
        self.failure = Some(error);
        self.enter(next.unwrap_or_else(|| self.without_next()));
    }

    /// Last stage without a next generation. Either manifest shows the state, with any subset of the unneeded files.
    fn without_next(&self) -> EndingStage {
        let is_full = matches!(&self.failure, Some(DurabilityError::Disk(error)) if error.is_full());
        if is_full && self.has_earlier { ReadOnly } else { EndingStage::Failed }
    }

    fn enter(&mut self, next: EndingStage) {
        assert!(self.stage.may_become(next), "{:?} does not become {next:?}", self.stage);
        assert!(next != Undoing || !self.may_stand, "L3: logs that a manifest may list stay");
        self.stage = next;
    }
}

/// True if the disk lacks space for a new file or block, so that a second attempt may succeed. False after a failed
/// sync of a folder: the state of the folder's names is unknown, and making the same names again changes none of them.
fn lacks_space(error: &DurabilityError) -> bool {
    let DurabilityError::Disk(error) = error else { return false };
    error.is_full() && !matches!(**error, DiskError::Io { operation: Operation::SyncFolder, .. })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
