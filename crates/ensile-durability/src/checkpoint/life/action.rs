//! What a decision over checkpoints depends on, and what comes of it.
//!
//! Neighbours: `super` decides; `manager` fills [`Circumstances`], carries each [`Action`] out and sends the
//! [`Answers`].

use ensile_base::Epoch;
use std::sync::Arc;

use super::turn::Taken;
use crate::Health;
use crate::block::Salt;
use crate::checkpoint::pages::PictureAttempt;
use crate::checkpoint::room::Room;
use crate::checkpoint::ticket::{AttemptOutcome, Ticket};
use crate::checkpoint::walk::Slice;
use crate::control::load::LoadCounts;
use crate::range::RangeStart;
use crate::store::installed::InstalledCheckpoint;

/// What the next decision depends on, as it is now.
#[derive(Clone, Debug)]
pub(in crate::checkpoint) struct Circumstances {
    pub(in crate::checkpoint) now_nanos: u64,
    /// E.
    pub(in crate::checkpoint) epoch: Epoch,
    pub(in crate::checkpoint) health: Health,
    /// Bytes of log that were written since the open; without a log, bytes that commits have changed.
    pub(in crate::checkpoint) log_bytes: u64,
    /// Entries that were written since the open.
    pub(in crate::checkpoint) log_records: u64,
    /// What applying them took, where the state measures that.
    pub(in crate::checkpoint) applied_nanos: Option<u64>,
    /// Requests that the application reports: those that succeeded, and those that were lost.
    pub(in crate::checkpoint) served: u64,
    pub(in crate::checkpoint) lost: u64,
    /// Without a log: a result waits for a picture.
    pub(in crate::checkpoint) is_awaited: bool,
    /// The space that is kept for a full disk is there.
    pub(in crate::checkpoint) has_reserve: bool,
    /// Every log has a synced mark of the epoch that [`super::Life::awaited_marks`] names.
    pub(in crate::checkpoint) has_marks: bool,
    /// How often loggers have tried to write to a full disk.
    pub(in crate::checkpoint) full_tries: u64,
}

impl Circumstances {
    /// What the load is estimated from.
    pub(super) fn load_counts(&self) -> LoadCounts {
        let Self { log_bytes, log_records, served, lost, .. } = *self;
        LoadCounts { log_bytes, log_records, served, lost }
    }
}

/// What a checkpointer does next.
#[derive(Debug)]
pub(in crate::checkpoint) enum Action {
    /// Nothing, for good.
    Stop(Answers),
    /// Nothing: no checkpoint is under way.
    Rest,
    /// Nothing: the checkpoint waits for other checkpointers, or for the log.
    Wait,
    /// Close the epoch early, and wait.
    CloseEpoch,
    /// Step again.
    GoOn,
    /// Make the reserve that is missing.
    MakeReserve,
    /// Find out whether a checkpoint of about `bytes` bytes fits, then call [`super::Life::begin`] or
    /// [`super::Life::put_off`].
    LookForRoom { bytes: u64 },
    /// Publish a picture's pages: [`super::Life::published`] or [`super::Life::cannot_publish`].
    Publish,
    /// Announce the freeze of the picture whose pages are published: [`super::Life::announced`].
    Announce,
    /// Cut what the attempt takes into a part for each checkpointer: [`super::Life::cut`].
    Cut(Taken),
    /// Write this part: [`super::Life::part_ended`], [`super::Life::part_failed`] or [`super::Life::part_left`].
    WritePart(PartTask),
    /// Write the directory and the root of the picture whose parts are written: [`super::Life::closed`].
    ClosePicture,
    /// Give up the reserve, so that the marks of e_h find space: [`super::Life::reserve_given_up`].
    GiveUpReserve,
    /// Name the checkpoint in the manifest: [`super::Life::installed`].
    Install(InstalledCheckpoint),
    /// Remove what the checkpoint covers: [`super::Life::cleared`].
    Clear(InstalledCheckpoint),
    /// The same once more, as a lease kept it: [`super::Life::removed_again`].
    RemoveAgain(InstalledCheckpoint),
    /// Remove the files of checkpoints with larger numbers than this: [`super::Life::cleaned_up`].
    CleanUp { kept: u64 },
}

/// A part of a checkpoint that one checkpointer writes.
#[derive(Debug)]
pub(in crate::checkpoint) struct PartTask {
    pub(in crate::checkpoint) number: u64,
    pub(in crate::checkpoint) low: Epoch,
    /// Whose pages are taken; a fuzzy checkpoint has none.
    pub(in crate::checkpoint) pages: Option<PictureAttempt>,
    pub(in crate::checkpoint) salt: Salt,
    /// By set of files: of a turn that takes several ranges one for each, with numbers that go up from `number`.
    pub(in crate::checkpoint) slices: Vec<Vec<Slice>>,
    pub(in crate::checkpoint) ticket: Arc<Ticket>,
    pub(in crate::checkpoint) room: Arc<Room>,
}

/// What an attempt takes, cut.
#[derive(Debug)]
pub(in crate::checkpoint) struct CutParts {
    /// Where all ranges begin, if the attempt takes all.
    pub(in crate::checkpoint) starts: Vec<RangeStart>,
    /// By checkpointer and set of files.
    pub(in crate::checkpoint) parts: Vec<Vec<Vec<Slice>>>,
}

impl CutParts {
    /// Of an attempt that has one set of files.
    pub(in crate::checkpoint) fn whole(parts: Vec<Vec<Slice>>) -> Self {
        Self { starts: Vec::new(), parts: parts.into_iter().map(|slices| vec![slices]).collect() }
    }
}

/// Why the manifest does not name the checkpoint.
#[derive(Debug)]
pub(in crate::checkpoint) enum NotInstalled {
    /// The manifest stands as it was.
    OldStands(String),
    /// It is not known which manifest stands, so not even a file of the attempt may be removed.
    Unknown(String),
}

/// What callers that asked for a checkpoint are to hear, once the lock is free.
#[derive(Debug, Default)]
#[must_use = "callers wait for it"]
pub(in crate::checkpoint) struct Answers {
    pub(super) outcomes: Vec<(Arc<Ticket>, AttemptOutcome)>,
    /// Attempts that failed, those that were not begun for want of space included.
    pub(in crate::checkpoint) failed: u64,
    /// Why what waits for the next picture is not durable yet.
    pub(in crate::checkpoint) put_off: Option<Arc<str>>,
}

impl Answers {
    pub(in crate::checkpoint) fn send(self) {
        self.outcomes.into_iter().for_each(|(ticket, outcome)| ticket.answer(outcome));
    }
}
