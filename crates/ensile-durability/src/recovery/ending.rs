//! The ending of a recovery as decisions. Pure: what came of an action goes in, the next action comes out.
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
//! What fails for good leads from any stage to `ReadOnly`, if the disk is full and there is an earlier life to read,
//! and else to `Failed`. From `Logs` it leads there by `Undoing`; from `Manifest`, `Trimming` and `LastTry` too, unless
//! the new manifest may stand.
//!
//! Invariants:
//! - L3: the logs are made, each with its synced mark, before the manifest lists them. Where that manifest may stand
//!   they stay, whatever a later attempt says.
//! - L4: nothing that the older manifest lists goes before the next one is durable.
//! - R1: the unproven tail is written again before anything counts as durable.
//! - A disk that is not full is left as it is: relief comes only once a stage has found no space, each way once a
//!   stage, and the one that costs nothing first.
//!
//! Neighbours: `finish` carries the actions out and reports what came of them; `docs/protocols/durability.md` ("A crash
//! on a full disk") has the argument.

use std::sync::Arc;

use ensile_disk::{DiskError, Operation};

use super::unproven::AtOnce;
use crate::DurabilityError;

/// What is written again once there may be space for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Tail,
    Logs,
    Manifest,
    Hint,
}

/// A way to find space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relief {
    /// Free what the manifest that was read does not need.
    FreeUnneeded,
    /// Give up the reserve.
    GiveUpReserve,
}

impl Relief {
    /// What is tried after this.
    fn after(tried: Option<Self>) -> Option<Self> {
        match tried {
            None => Some(Self::FreeUnneeded),
            Some(Self::FreeUnneeded) => Some(Self::GiveUpReserve),
            Some(Self::GiveUpReserve) => None,
        }
    }
}

/// Where the ending of a recovery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndingStage {
    /// No lease may begin while files go.
    Leases,
    /// This is written.
    Writing(Written),
    /// Space is looked for, for this.
    Relief(Relief, Written),
    /// Files of no listed log go.
    Unlisted,
    /// Closed generations are merged.
    Merging,
    /// The new logs give back what they set aside.
    Trimming,
    /// The manifest once more, and then not again.
    LastTry,
    /// The new logs go, as no manifest lists them.
    Undoing,
    /// What the new manifest does not need goes.
    Clearing,
    /// The reserve is made.
    Reserve,
    /// The next generation has begun.
    Open,
    /// The disk is too full for that.
    ReadOnly,
    /// There is an error.
    Failed,
}

use EndingStage::{Clearing, LastTry, Leases, Merging, ReadOnly, Trimming, Undoing, Unlisted, Writing};

impl EndingStage {
    /// Is this an arrow of the picture?
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

/// What the hand does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndingAction {
    /// Hold the lock of the leases, if it is free.
    HoldLeases,
    /// Write the unproven tail again.
    RewriteTail(AtOnce),
    RemoveUnlisted,
    /// Merge closed generations, if there are many.
    Merge,
    /// Make the logs of the next generation; where space is short, without what they would set aside.
    MakeLogs {
        is_tight: bool,
    },
    ReplaceManifest,
    TrimLogs,
    /// Remove the logs that were made. What cannot be removed is left to the next open.
    RemoveLogs,
    MakeHint,
    Clear,
    MakeReserve,
    FreeUnneeded,
    GiveUpReserve,
}

/// What came of an action.
#[derive(Clone, Debug)]
pub(super) enum EndingOutcome {
    Done,
    /// There was no reserve to give up.
    NothingKept,
    Failed(DurabilityError),
    /// The manifest: one of the two stands, and it is unknown which.
    Unknown(DurabilityError),
}

/// What comes next.
#[derive(Clone, Debug)]
pub(super) enum EndingStep {
    Do(EndingAction),
    /// The next generation has begun.
    Open,
    /// What was recovered can be read: why nothing else.
    Read(Arc<str>),
    Fail(DurabilityError),
}

/// The ending of a recovery.
#[derive(Debug)]
pub(super) struct Ending {
    stage: EndingStage,
    /// There was a life before, so there is something to read.
    has_earlier: bool,
    /// What the last attempt at this stage has lacked space for, and what was done about it.
    shortage: Option<DurabilityError>,
    tried: Option<Relief>,
    /// The new manifest may stand although an attempt to put it there failed: what a later one says does not take that
    /// back.
    may_stand: bool,
    /// Why there is no next generation.
    failure: Option<DurabilityError>,
}

impl Ending {
    pub(super) fn new(has_earlier: bool) -> Self {
        Self { stage: Leases, has_earlier, shortage: None, tried: None, may_stand: false, failure: None }
    }

    /// What comes next.
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

    /// What came of the action that was next.
    pub(super) fn came(&mut self, outcome: EndingOutcome) {
        match outcome {
            EndingOutcome::Done => self.done(),
            EndingOutcome::NothingKept => {
                assert!(
                    matches!(self.stage, EndingStage::Relief(Relief::GiveUpReserve, _)),
                    "the reserve only"
                );
                // Another attempt would find what the last one found.
                let shortage = self.shortage.take().expect("space was looked for as there was none");
                self.give_up(shortage);
            }
            EndingOutcome::Failed(error) => self.failed(error),
            EndingOutcome::Unknown(error) => {
                assert!(matches!(self.stage, Writing(Written::Manifest) | LastTry), "the manifest only");
                self.may_stand = true;
                self.failed(error);
            }
        }
    }

    fn done(&mut self) {
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
            // It is known that space was short.
            EndingStage::Relief(_, written) => return self.enter(Writing(written)),
            Undoing => self.without_next(),
            ended @ (EndingStage::Open | ReadOnly | EndingStage::Failed) => ended,
        };
        (self.shortage, self.tried) = (None, None);
        self.enter(next);
    }

    fn failed(&mut self, error: DurabilityError) {
        let error = match (self.shortage.take(), error) {
            // What a failed sync should have written may be read as it was before. It cannot be written again then, for
            // want of space.
            (Some(before), DurabilityError::Damaged { .. }) if self.stage == Writing(Written::Tail) => before,
            (_, error) => error,
        };
        if let Writing(written) = self.stage
            && lacks_space(&error)
            && let Some(relief) = Relief::after(self.tried)
        {
            (self.tried, self.shortage) = (Some(relief), Some(error));
            return self.enter(EndingStage::Relief(relief, written));
        }
        self.give_up(error);
    }

    /// No attempt at this stage is left.
    fn give_up(&mut self, error: DurabilityError) {
        use EndingStage::Relief;
        let next = match self.stage {
            // What the logs set aside may be all that there was.
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

    /// The end without a next generation. There is something to read, whichever of the two manifests stands, and
    /// whatever of the unneeded files is there.
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

/// Does the disk lack space for what was to be made, so that a second attempt may find some? Not after a folder's sync:
/// nothing is known of its names then, and making them once more changes none of them. Files are made anew before they
/// are synced again.
fn lacks_space(error: &DurabilityError) -> bool {
    let DurabilityError::Disk(error) = error else { return false };
    error.is_full() && !matches!(**error, DiskError::Io { operation: Operation::SyncFolder, .. })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
