//! The stages of a checkpoint's life, and which of them may follow each other.
//!
//! Neighbours: `super` has the picture, and moves from stage to stage.

/// Where the life of a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No checkpoint is under way.
    Idle,
    /// What `strategy` wants before the walk begins.
    Opening,
    /// Checkpointers walk and write their parts.
    Walking,
    /// Every part of a picture is written; what reaches them is not.
    Closing,
    /// Every log is to have a synced mark of e_h.
    Walked,
    /// Installed; what it covers is still there.
    Clearing,
    /// Given up; its files are still there.
    Failing,
    /// A checkpointer carries this action out.
    Busy(Duty),
    /// There will be no further checkpoint.
    Ended,
}

/// What a checkpointer does while the others wait.
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
    /// Is this an arrow of the picture?
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

    /// Are a picture's pages still to be taken?
    pub(super) fn needs_pages(self) -> bool {
        matches!(self, Self::Opening | Self::Busy(Duty::Announce | Duty::Cut) | Self::Walking)
    }

    /// Is a checkpoint under way?
    pub(super) fn has_attempt(self) -> bool {
        !matches!(self, Self::Idle | Self::Busy(Duty::LookForRoom | Duty::RemoveAgain) | Self::Ended)
    }
}
