//! Planted bugs: the catalogue of what could break, each put in by hand to see that a checker sees it.
//!
//! A site reads `is_planted(Bug::X)`. That is `false` at compile time, and so nothing at all, unless the crates are built
//! with `--cfg planted`, which tests of checkers are; then `plant`, or `ENSILE_PLANT` in the environment, chooses one bug
//! for the whole process. Each variant
//! says which condition of `docs/protocols/` it breaks. The choice is a plain atomic of std, not the checker's:
//! looking at it is no step of the program.
//!
//! Neighbours: sites in every crate with a protocol; `ci/planted.sh` runs the catalogue.

/// Kinds of runs that bring bugs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// The whole engine under shuttle's schedules.
    Simulation,
    /// The index alone under shuttle's schedules.
    Index,
    /// The log alone, its own tests.
    Log,
    /// The interface, its own tests.
    Interface,
    /// Loom, on the kernel that has it.
    Loom,
}

macro_rules! catalogue {
    ($($(#[doc = $doc:literal])+ $bug:ident: $condition:literal, $run:ident,)+) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Bug {
            $($(#[doc = $doc])+ $bug,)+
        }

        impl Bug {
            /// The whole catalogue.
            pub const ALL: &[Self] = &[$(Self::$bug,)+];

            /// The condition that it breaks, by its name in `docs/protocols/`.
            #[must_use]
            pub const fn condition(self) -> &'static str {
                match self {
                    $(Self::$bug => $condition,)+
                }
            }

            /// The kind of run that brings it out.
            #[must_use]
            pub const fn run(self) -> Run {
                match self {
                    $(Self::$bug => Run::$run,)+
                }
            }

            /// The bug of this name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|bug| format!("{bug:?}") == name)
            }
        }
    };
}

catalogue! {
    /// A commit does not look whether what it read is still so.
    ReadsNotValidated: "commit, validate", Simulation,
    /// A commit does not look whether the leaves it depends on are still so.
    NodesNotValidated: "commit, validate", Simulation,
    /// Own inserts do not move the node-set on: a transaction that scans and inserts fails by itself, for ever.
    OwnInsertNotBlessed: "C3", Simulation,
    /// Own inserts move the node-set on from any version: another's insert in between is hidden.
    OwnInsertBlessedBlindly: "C3", Simulation,
    /// The commit's epoch is read before its locks.
    EpochBeforeLocks: "C1", Simulation,
    /// Locks are taken in the order of the writes.
    LocksInWriteOrder: "commit, lock", Simulation,
    /// The TID is not above what was read.
    TidNotAboveReads: "commit, TID", Simulation,
    /// The TID is not above what is overwritten.
    TidNotAboveOverwritten: "commit, TID", Simulation,
    /// The TID is not above the worker's last.
    TidNotAboveLast: "commit, TID", Simulation,
    /// A write goes into a record that is its key's latest no more.
    LatestNotChecked: "C2", Simulation,
    /// An insert is installed over a key that another has inserted.
    InsertOverPresent: "C3", Simulation,
    /// A miss leaves no witness.
    MissNotWitnessed: "C4", Simulation,
    /// A scan witnesses only leaves that it has found entries in.
    EmptyLeafNotWitnessed: "C4", Simulation,
    /// A copy that an overwrite has torn is believed.
    TornReadBelieved: "C5", Simulation,
    /// An insert leaves the leaf's version.
    VersionKeptByInsert: "C4", Simulation,
    /// A removal leaves the leaf's version.
    VersionKeptByRemoval: "C4", Index,
    /// A split leaves the left leaf's version.
    VersionKeptBySplit: "C4", Simulation,
    /// A slot becomes a layer and the leaf keeps its version.
    VersionKeptByLayer: "C4", Simulation,
    /// A node is unlinked and not marked so.
    UnlinkedNotMarked: "C4", Index,

    /// Data is overwritten in place before the record's lock is taken.
    DataBeforeLock: "C5", Simulation,

    /// A commit unbinds before its entry is in the buffer.
    UnbindBeforeAppend: "E1", Simulation,
    /// A log entry is read from the records again, once their locks are released.
    EntryReadAgain: "E1", Simulation,
    /// A log that is poisoned, closed or without space is not asked before binding.
    RefusalNotAsked: "E1", Log,
    /// E moves without a look at who is bound.
    AdvanceWithoutScan: "E2", Simulation,
    /// Garbage is tagged with the epoch of its owner's commit.
    TagOfOwner: "E3", Simulation,
    /// Records and nodes are freed one epoch early.
    FreedUnderPin: "E3", Simulation,
    /// A replaced record that was a version is freed without a wait for pins.
    ReplacedWithoutPins: "E3", Simulation,
    /// A version is freed one epoch early.
    VersionFreedEarly: "S1", Simulation,
    /// A doomed transaction's next call goes on.
    DoomNotSeen: "E4", Simulation,
    /// A pin is ignored while its owner is within a call.
    DoomedWithinCall: "E4", Simulation,
    /// A full sequence carries into the epoch.
    SequenceCarries: "E5", Simulation,
    /// Status bits reach the TID.
    StatusNotMasked: "E5", Simulation,

    /// A placeholder is committed into by another than who placed it, whose cleanup does not look.
    PlaceholderUnhookedAlive: "U1", Simulation,
    /// An absent record is unhooked while a snapshot needs what was before it.
    UnhookedUnderSnapshot: "U2", Simulation,
    /// An absent record is unhooked in the epoch of its delete.
    UnhookedTooYoung: "U2", Simulation,
    /// An absent record is unhooked before its delete is durable.
    UnhookedBeforeDurable: "U2", Simulation,

    /// A snapshot shows its boundary's own epoch too.
    SnapshotTooNew: "S1", Simulation,
    /// A boundary is served as soon as E reaches it.
    BoundaryServedEarly: "S1", Simulation,
    /// A boundary is published after E has reached it.
    BoundaryPublishedLate: "S1", Simulation,
    /// A version is judged by the boundary before the newest.
    VersionNotKept: "S1", Simulation,
    /// A snapshot is registered without a second look.
    SnapshotNotLookedAgain: "S1", Simulation,
    /// The version before is linked after the new TID is stored.
    VersionLinkedLate: "K3", Simulation,

    /// A strict result does not wait for D.
    ReleasedBeforeDurable: "R1", Simulation,
    /// A strict result above D is an answer once the log has stopped.
    StoppedLogAnswers: "R1", Simulation,
    /// A receipt leaves out the present records that were read.
    PresentNotInReceipt: "R1", Simulation,
    /// A receipt leaves out the absent records that were read.
    AbsentNotInReceipt: "R1", Simulation,
    /// A snapshot's results are taken as durable an epoch early.
    SnapshotReleasedEarly: "R1", Simulation,
    /// An error that rests on reads does not wait for D.
    ErrorReleasedEarly: "R1", Simulation,

    /// The logger looks at buffers before it looks at c_w.
    BufferBeforeBinding: "L1", Loom,
    /// The logger reads E after c_w.
    EpochAfterBindings: "L1", Simulation,
    /// The logger does not look at c_w.
    BindingNotLookedAt: "L1", Simulation,
    /// The claim passes a buffer that its worker holds.
    HeldBufferPassed: "L1", Simulation,
    /// The queue of full buffers is drained before the slots are looked at.
    QueueBeforeSlots: "L1", Simulation,
    /// The claim passes an idle worker's part-filled buffer.
    IdleBufferPassed: "L2", Simulation,
    /// An ended worker's last buffer is forgotten.
    EndedWorkerForgotten: "L2", Log,
    /// A mark counts before its sync.
    MarkBeforeSync: "L3", Simulation,
    /// A logger without entries writes no marks.
    IdleLoggerUnmarked: "L3", Simulation,
    /// D is the largest of the logs' marks.
    DurableAsMaximum: "L3", Simulation,
    /// The manifest lists logs before they begin with a synced mark.
    ManifestBeforeFiles: "L3", Simulation,
    /// A listed log that is missing is taken for one without entries.
    MissingLogAccepted: "L3", Log,
    /// A log goes on in a new file whose first mark is not synced.
    NewFileMarkUnsynced: "L3", Log,
    /// A log goes on in a new file whose name is not synced.
    NewFileNameUnsynced: "L3", Log,
    /// A log goes on in a new file before what the old one holds is synced.
    NewFileBeforeSync: "L3", Log,
    /// A new file does not tell the largest epoch before it: one that lost its first files passes for covered.
    BeforeNotTold: "L5", Log,
    /// What a full disk had no space for is not written again.
    HeldBlockDropped: "L3", Log,
    /// A mark counts while it waits for space.
    HeldMarkCounts: "L3", Log,
    /// A sync that reports a full disk is tried again, and believed.
    FullSyncHeld: "L3", Log,
    /// The next generation begins just above D.
    FirstJustAboveDurable: "L4", Log,
    /// What one recovery discarded is replayed by the next.
    DiscardedReplayed: "L4", Simulation,
    /// A mark behind a gap is believed.
    MarkAcrossGap: "L5", Simulation,
    /// No published D is held against a log that ends early: damage is taken for a torn tail.
    PublishedIgnored: "L5", Log,
    /// A delete that is replayed before an older put leaves nothing.
    DeleteLeavesNoTombstone: "L4, replay", Simulation,
    /// An older entry is replayed over a newer one.
    OlderReplayed: "L4, replay", Simulation,

    /// A walk begins while a commit of an epoch below e_l may not be installed.
    WalkBegunEarly: "K1", Simulation,
    /// e_h is read before the walk.
    HighReadBeforeWalk: "K1", Simulation,
    /// A checkpoint is installed before D has reached e_h.
    InstalledBeforeDurable: "K1", Simulation,
    /// Recovery accepts a checkpoint though the logs are whole for less than e_h.
    HighNotDemanded: "K1", Log,
    /// Log entries of epochs below e_l are replayed where their file is still there.
    EntriesBelowLowReplayed: "K1", Log,
    /// An earlier checkpoint is removed before the manifest names the next.
    RemovedBeforeManifest: "K1", Simulation,
    /// Log files that a checkpoint will cover are removed before the manifest names it.
    LogRemovedBeforeManifest: "K1", Simulation,
    /// A log file whose largest epoch is e_l is removed.
    FileOfLowRemoved: "K1", Simulation,
    /// Log entries of e_l itself are taken to be in the checkpoint.
    EntriesOfLowSkipped: "K1", Simulation,
    /// A walk writes entries of epochs from e_l on.
    NewEntriesWalked: "K1", Simulation,

    /// The old row of an indexed write is not in the read-set.
    OldRowNotRead: "X1", Simulation,
    /// A table is opened with other types than it has.
    TypesNotCompared: "X1", Interface,

    /// Nothing is between a commit's locks and its look at E.
    FenceBeforeEpochMissing: "C1", Loom,
    /// Nothing is between a commit's look at E and its validation.
    FenceAfterEpochMissing: "C1", Loom,
    /// The pin's half of its Dekker pair has no fence.
    LightFenceMissing: "E3", Loom,
    /// The scan's half has none.
    HeavyFenceMissing: "E3", Loom,
    /// E is moved without a fence before the scan.
    AdvanceFenceMissing: "E2", Loom,
    /// The logger's look has no fence.
    LookFenceMissing: "L1", Loom,
    /// A node's change is not fenced from the word that announces it.
    ChangeFenceMissing: "C4", Loom,
    /// A reader's second look at a node is not fenced from what it read.
    SecondLookFenceMissing: "C4", Loom,
}

#[cfg(not(planted))]
mod choice {
    use super::Bug;

    /// Whether this bug is planted: never, in a build that ships.
    #[inline(always)]
    #[must_use]
    pub const fn is_planted(_: Bug) -> bool {
        false
    }
}

#[cfg(planted)]
mod choice {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    const NOTHING: u8 = u8::MAX;
    const NOT_ASKED: u8 = NOTHING - 1;
    static CHOSEN: AtomicU8 = AtomicU8::new(NOT_ASKED);

    /// Whether this bug is planted.
    #[inline]
    #[must_use]
    pub fn is_planted(bug: Bug) -> bool {
        // Relaxed: chosen before the run begins, or by the environment, which says the same to all.
        let chosen = CHOSEN.load(Ordering::Relaxed);
        if chosen == NOT_ASKED { ask() == Some(bug) } else { chosen == bug as u8 }
    }

    /// What the environment chooses.
    #[cold]
    fn ask() -> Option<Bug> {
        let name = std::env::var("ENSILE_PLANT").ok();
        let named = |name: String| {
            Bug::named(&name)
                .unwrap_or_else(|| panic!("ENSILE_PLANT: there is no bug {name:?}, but {:?}", Bug::ALL))
        };
        let bug = name.map(named);
        plant(bug);
        bug
    }

    /// Plants a bug, or none.
    pub fn plant(bug: Option<Bug>) {
        // Relaxed: as above.
        CHOSEN.store(bug.map_or(NOTHING, |bug| bug as u8), Ordering::Relaxed);
    }
}

pub use choice::*;
