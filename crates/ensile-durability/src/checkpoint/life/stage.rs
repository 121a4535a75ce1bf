//! The stages of a checkpoint's life, and which of them may follow each other.
//!
//! Neighbours: `super` has the picture, and moves from stage to stage.

/// Where the life of a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No checkpoint is under way.
    Idle,
    /// E is to reach e_l + 1.
    Opening,
    /// Checkpointers walk and write their parts.
    Walking,
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
    Cut,
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
            Opening => &[Busy(Cut), Failing],
            Busy(Cut) => &[Walking],
            Walking => &[Walked, Failing],
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

    /// Is a checkpoint under way?
    pub(super) fn has_attempt(self) -> bool {
        !matches!(self, Self::Idle | Self::Busy(Duty::LookForRoom | Duty::RemoveAgain) | Self::Ended)
    }
}
