//! The stages of a checkpoint's life, and the permitted successors of each stage.
//!
//! Neighbours: [`super`] has a diagram of the stages; `machine` moves from stage to stage.

/// Stage of the life of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No checkpoint is under way.
    Idle,
    /// The steps of `strategy` before the walk begins.
    Opening,
    /// Checkpointers walk and write their parts.
    Walking,
    /// Every part of a picture is written; the directory and the root are not.
    Closing,
    /// The marks of e_h are awaited: every log must have a synced mark.
    Walked,
    /// The checkpoint is installed; the covered files still exist.
    Clearing,
    /// The attempt is given up; its files still exist.
    Failing,
    /// A checkpointer carries this action out.
    Busy(Duty),
    /// No further checkpoint begins.
    Ended,
}

/// Duty of a checkpointer, for which the remaining checkpointers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    LookForRoom,
    RemoveAgain,
    Publish,
    Announce,
    Cut,
    ClosePicture,
    GiveUpReserve,
    Install,
    Clear,
    CleanUp,
}

impl Stage {
    /// True if the diagram in `super` has an arrow from `self` to `next`.
    pub(super) fn may_become(self, next: Self) -> bool {
        use Duty::*;
        use Stage::*;
        let arrows: &[Self] = match self {
            Idle => &[Busy(LookForRoom), Busy(RemoveAgain)],
            Busy(LookForRoom) => &[Idle, Opening],
            Opening => &[Busy(Publish), Busy(Announce), Busy(Cut), Failing],
            Busy(Publish) => &[Opening, Failing],
            Busy(Announce) => &[Opening, Failing],
            Busy(Cut) => &[Walking, Failing],
            Walking => &[Walked, Closing, Failing],
            Closing => &[Busy(ClosePicture)],
            Busy(ClosePicture) => &[Walked, Failing],
            Walked => &[Busy(GiveUpReserve), Busy(Install), Failing],
            Busy(GiveUpReserve) => &[Walked, Failing],
            Busy(Install) => &[Clearing, Failing],
            Clearing => &[Busy(Clear)],
            Failing => &[Busy(CleanUp)],
            Busy(RemoveAgain | Clear | CleanUp) => &[Idle],
            Ended => &[],
        };
        arrows.contains(&next) || next == Ended && self != Ended
    }

    /// True if pages of a picture are still to be taken.
    pub(super) fn needs_pages(self) -> bool {
        matches!(self, Self::Opening | Self::Busy(Duty::Announce | Duty::Cut) | Self::Walking)
    }

    /// True if a checkpoint is under way.
    pub(super) fn has_attempt(self) -> bool {
        !matches!(self, Self::Idle | Self::Busy(Duty::LookForRoom | Duty::RemoveAgain) | Self::Ended)
    }
}
