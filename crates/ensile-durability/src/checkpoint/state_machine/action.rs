//! Settings, inputs and outputs of the decisions over checkpoints.
//!
//! Neighbours: `machine` decides; `manager` fills [`Circumstances`], carries out [`Action`]s, sends [`Answers`].

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;

use super::range_schedule::Taken;
use crate::Health;
use crate::checkpoint::config::Strategy;
use crate::checkpoint::disk_space::DiskSpace;
use crate::checkpoint::pages::PictureAttempt;
use crate::checkpoint::request::{AttemptOutcome, Ticket};
use crate::checkpoint::walk::Slice;
use crate::control::adaptive::AdaptiveThreshold;
use crate::control::load::LoadCounts;
use crate::control::trigger::Trigger;
use crate::files::block::Salt;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::identity::Identity;
use crate::range::RangeStart;

/// Settings that begin checkpoints. An application may change the rules of an open database.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) policy: Trigger,
    /// Settings of the adaptive threshold, if the policy uses the load.
    pub(crate) adaptive: Option<AdaptiveThreshold>,
    pub(crate) recovery_time: Option<Duration>,
}

/// Settings that are fixed while the database is open.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) strategy: Strategy,
    /// Wanted number of ranges of a cycling checkpoint.
    pub(crate) ranges: u32,
    pub(crate) bandwidth: Option<u64>,
    pub(crate) checkpointers: usize,
    /// Number of files of each checkpointer.
    pub(crate) files: u32,
    /// Number of loggers; 0 without a log.
    pub(crate) loggers: u64,
    pub(crate) database: Identity,
    pub(crate) generation: u64,
    /// True if the first picture keeps pages of the installed picture.
    pub(crate) goes_on: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFigures {
    /// Time of the open, in nanoseconds.
    pub(crate) now_nanos: u64,
    /// Bytes of log that the open has replayed.
    pub(crate) replayed_bytes: u64,
}

/// Inputs of the next decision, as they are now.
#[derive(Clone, Debug)]
pub(crate) struct Circumstances {
    pub(crate) now_nanos: u64,
    /// E.
    pub(crate) epoch: Epoch,
    pub(crate) health: Health,
    /// Bytes of log written since the open; without a log, bytes that commits have changed.
    pub(crate) log_bytes: u64,
    /// Number of entries written since the open.
    pub(crate) log_records: u64,
    /// Nanoseconds of applying the entries written since the open; `None` if the state does not measure the time.
    pub(crate) applied_nanos: Option<u64>,
    /// Requests that the application reports: requests that succeeded, and lost requests.
    pub(crate) served: u64,
    pub(crate) lost: u64,
    /// True if, without a log, a result waits for a picture.
    pub(crate) is_awaited: bool,
    /// True if the reserve for a full disk exists.
    pub(crate) has_reserve: bool,
    /// True if every log has a synced mark of the epoch that [`super::CheckpointStateMachine::awaited_marks`] names.
    pub(crate) has_marks: bool,
    /// Number of loggers' attempts to write to a full disk.
    pub(crate) full_tries: u64,
}

impl Circumstances {
    /// Counts for the estimate of the load.
    pub(super) fn load_counts(&self) -> LoadCounts {
        let Self { log_bytes, log_records, served, lost, .. } = *self;
        LoadCounts { log_bytes, log_records, served, lost }
    }
}

/// Next action of a checkpointer, with the methods of [`super::CheckpointStateMachine`] that record the outcome.
#[derive(Debug)]
pub(crate) enum Action {
    /// Nothing, for good.
    Stop(Answers),
    /// Nothing: no checkpoint is under way.
    Rest,
    /// Nothing: the checkpoint waits for the remaining checkpointers, or for the log.
    Wait,
    /// Close the epoch early, and wait.
    CloseEpoch,
    /// Step again.
    GoOn,
    /// Make the reserve that is missing.
    MakeReserve,
    /// Check that a checkpoint of about `bytes` bytes fits, then call `begin` or `put_off`.
    LookForRoom { bytes: u64 },
    /// Publish a picture's pages: `record_publication` or `cannot_publish`.
    Publish,
    /// Announce the freeze of the picture whose pages are published: `record_freeze`.
    Announce,
    /// Cut the attempt's part of the state into a part for each checkpointer: `cut`.
    Cut(Taken),
    /// Write this part: `part_ended`, `part_failed` or `part_left`.
    WritePart(PartTask),
    /// Write the directory and the root of the picture whose parts are written: `record_close`.
    ClosePicture,
    /// Give up the reserve, so that the marks of e_h find space: `reserve_given_up`.
    GiveUpReserve,
    /// Name the checkpoint in the manifest: `record_install`.
    Install(InstalledCheckpoint),
    /// Remove the files that the checkpoint covers: `record_clear`.
    Clear(InstalledCheckpoint),
    /// Remove the covered files again, because a lease kept the files: `removed_again`.
    RemoveAgain(InstalledCheckpoint),
    /// Remove the files of checkpoints with larger numbers than this: `cleaned_up`.
    CleanUp { kept: u64 },
}

/// A part of a checkpoint that one checkpointer writes.
#[derive(Debug)]
pub(crate) struct PartTask {
    pub(crate) number: u64,
    pub(crate) low: Epoch,
    /// Attempt that the pages belong to; `None` for a fuzzy checkpoint.
    pub(crate) pages: Option<PictureAttempt>,
    pub(crate) salt: Salt,
    /// Slices by set of files. A turn of several ranges has a set for each, with numbers from `number` upwards.
    pub(crate) slices: Vec<Vec<Slice>>,
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) disk_space: Arc<DiskSpace>,
}

/// Cut of the part of the state that an attempt takes.
#[derive(Debug)]
pub(crate) struct CutParts {
    /// Starts of all ranges, if the attempt takes all ranges.
    pub(crate) starts: Vec<RangeStart>,
    /// Slices by checkpointer and set of files.
    pub(crate) parts: Vec<Vec<Vec<Slice>>>,
}

impl CutParts {
    /// The parts of an attempt with one set of files.
    pub(crate) fn whole(parts: Vec<Vec<Slice>>) -> Self {
        Self { starts: Vec::new(), parts: parts.into_iter().map(|slices| vec![slices]).collect() }
    }
}

/// Reason why the manifest does not name the checkpoint.
#[derive(Debug)]
pub(crate) enum NotInstalled {
    /// The old manifest still stands.
    OldStands(String),
    /// The standing manifest is unknown, so not even a file of the attempt may be removed.
    Unknown(String),
}

/// Answers to callers that asked for a checkpoint, sent once the lock is free.
#[derive(Debug, Default)]
#[must_use = "callers wait for it"]
pub(crate) struct Answers {
    pub(super) outcomes: Vec<(Arc<Ticket>, AttemptOutcome)>,
    /// Number of failed attempts, including attempts not begun for want of space.
    pub(crate) failed: u64,
    /// Reason why results that wait for the next picture are not durable yet.
    pub(crate) put_off: Option<Arc<str>>,
}

impl Answers {
    pub(crate) fn send(self) {
        self.outcomes.into_iter().for_each(|(ticket, outcome)| ticket.answer(outcome));
    }
}
