//! Operations of every kind of installed checkpoint. A kind is a variant of [`InstalledCheckpoint`].
//!
//! Neighbours: [`super`] names the invariants, and has a file for each kind's line. Every room that treats checkpoints
//! alike calls.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use ensile_base::Epoch;

use super::cycling::CyclingCheckpoint;
use super::fuzzy::FuzzyCheckpoint;
use super::part_files::WalkRecord;
use super::picture::PictureCheckpoint;
use crate::files::names::{PartName, checkpoint_folder};
use crate::files::text::{Lines, next_parsed};
use crate::identity::Identity;
use crate::range::KeyRange;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstalledCheckpoint {
    /// Consistent together with the log of the epochs in which the checkpoint was written (SiloR §4).
    Fuzzy(FuzzyCheckpoint),
    /// Fuzzy by ranges of keys. Every range has epochs of its own (SiloR §8).
    Cycling(CyclingCheckpoint),
    /// Consistent alone, at the end of an epoch (SIREN §3), in page files.
    Picture(PictureCheckpoint),
}

/// Share of a checkpoint that was written while a generation was open: all of the checkpoint, or some of its ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointShare {
    /// Largest checkpoint number in the share.
    pub(crate) number: u64,
    /// Least D of the generation when the share was installed.
    pub(crate) durable_min: Epoch,
}

impl InstalledCheckpoint {
    /// Parses the next lines as a checkpoint, if a checkpoint begins here.
    pub(crate) fn parse_next(lines: &mut Lines<'_>) -> Option<Option<Self>> {
        if let Some(fuzzy) = next_parsed(lines, FuzzyCheckpoint::parse) {
            return Some(Some(Self::Fuzzy(fuzzy)));
        }
        if let Some(picture) = PictureCheckpoint::parse_next(lines) {
            return Some(Some(Self::Picture(picture)));
        }
        let cycling = lines.peek().is_some_and(|line| CyclingCheckpoint::is_line(line));
        if cycling { Some(Some(Self::Cycling(CyclingCheckpoint::parse_next(lines)?))) } else { Some(None) }
    }

    /// Records of the walks, one for each range of a cycling checkpoint.
    pub(crate) fn records(&self) -> Vec<WalkRecord> {
        match self {
            Self::Fuzzy(fuzzy) => vec![fuzzy.record()],
            Self::Cycling(cycling) => cycling.range_walks().map(FuzzyCheckpoint::record).collect(),
            Self::Picture(picture) => vec![picture.record()],
        }
    }

    fn least<T: Ord + Default>(&self, of: fn(WalkRecord) -> T) -> T {
        self.records().into_iter().map(of).min().unwrap_or_default()
    }

    fn largest<T: Ord + Default>(&self, of: fn(WalkRecord) -> T) -> T {
        self.records().into_iter().map(of).max().unwrap_or_default()
    }

    /// Sum that saturates, because the figures of a damaged manifest may have any size.
    fn sum(&self, of: fn(WalkRecord) -> u64) -> u64 {
        self.records().into_iter().map(of).fold(0, u64::saturating_add)
    }

    /// True if the fields of the checkpoint do not contradict each other.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.is_whole(),
            Self::Cycling(cycling) => cycling.is_whole(),
            Self::Picture(picture) => picture.is_whole(),
        }
    }

    pub(crate) fn is_picture(&self) -> bool {
        matches!(self, Self::Picture(_))
    }

    /// True if the first release of Ensile, which has neither pictures nor ranges, can read the lines.
    pub(crate) fn is_of_first_release(&self) -> bool {
        matches!(self, Self::Fuzzy(_))
    }

    /// Walks of the checkpoint, each with its range of keys; `None` for a walk over all keys. A picture has no walk.
    pub(crate) fn completed_walks(&self) -> Vec<(&FuzzyCheckpoint, Option<KeyRange>)> {
        match self {
            Self::Fuzzy(fuzzy) => vec![(fuzzy, None)],
            Self::Cycling(cycling) => cycling
                .range_walks()
                .enumerate()
                .map(|(at, walked)| (walked, Some(cycling.keys(at))))
                .collect(),
            Self::Picture(_) => Vec::new(),
        }
    }

    /// True if this file of a checkpointer belongs to the checkpoint. Numbers are unique over all kinds, so no file has
    /// the number of a picture.
    pub(crate) fn has_part(&self, part: PartName) -> bool {
        self.records().iter().any(|walk| walk.number == part.checkpoint)
    }

    /// Number of the checkpoint. A later checkpoint of any kind has a larger number. The ranges of a cycling checkpoint
    /// count as their last turn.
    pub(crate) fn number(&self) -> u64 {
        self.largest(|walk| walk.number)
    }

    /// Oldest and newest generation that were open while the checkpoint was written. The log is needed from the oldest
    /// generation on (K5).
    pub(crate) fn generations(&self) -> RangeInclusive<u64> {
        self.least(|walk| walk.generation)..=self.largest(|walk| walk.generation)
    }

    /// Identities of the databases that the checkpoint's files name (I1).
    pub(crate) fn databases(&self) -> Vec<Identity> {
        self.records().into_iter().map(|walk| walk.database).collect()
    }

    /// Epoch from which the log is needed. The checkpoint contains or discards every entry with a smaller epoch (K1,
    /// N15). The epoch is S of a picture, and the least e_l of ranges (K5).
    pub(crate) fn redo_epoch(&self) -> Epoch {
        self.least(|walk| walk.low)
    }

    /// Smallest D with which the checkpoint is consistent. Every log had a synced mark of this epoch before the
    /// installation (K1, N12). The epoch is e_c of a picture, and the largest e_h of ranges (K5).
    pub(crate) fn durable_min(&self) -> Epoch {
        self.largest(|walk| walk.high)
    }

    /// Share of the checkpoint that was written while `generation` was open. `None` without such a share.
    pub(crate) fn written_in(&self, generation: u64) -> Option<CheckpointShare> {
        let written = self.records().into_iter().filter(|walk| walk.generation == generation);
        let shares = written.map(|walk| CheckpointShare { number: walk.number, durable_min: walk.high });
        let share = shares.reduce(|a, b| CheckpointShare {
            number: a.number.max(b.number),
            durable_min: a.durable_min.max(b.durable_min),
        });
        let is_part = |share: &CheckpointShare| {
            share.number <= self.number() && share.durable_min <= self.durable_min()
        };
        debug_assert!(share.as_ref().is_none_or(is_part), "K5: a share is no newer than its checkpoint");
        share
    }

    /// Exclusive upper bound of the page numbers of a picture; 0 for any other kind.
    pub(crate) fn next_page(&self) -> u64 {
        match self {
            Self::Picture(picture) => picture.next_page,
            Self::Fuzzy(_) | Self::Cycling(_) => 0,
        }
    }

    pub(crate) fn entries(&self) -> u64 {
        self.sum(|walk| walk.entries)
    }

    /// Bytes that a load reads.
    pub(crate) fn bytes(&self) -> u64 {
        self.sum(|walk| walk.bytes)
    }

    pub(crate) fn folders(&self) -> Vec<String> {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.folders().collect(),
            Self::Cycling(cycling) => {
                let folders = cycling.range_walks().flat_map(|walked| walked.files.folders());
                BTreeSet::from_iter(folders).into_iter().collect()
            }
            Self::Picture(picture) => picture.folders().collect(),
        }
    }

    /// Names of the files below the main folder.
    pub(crate) fn files(&self) -> Vec<String> {
        let files: Vec<String> = match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.parts().map(|part| part.to_string()).collect(),
            Self::Cycling(cycling) => {
                let parts = cycling.range_walks().flat_map(|walked| walked.files.parts());
                parts.map(|part| part.to_string()).collect()
            }
            Self::Picture(picture) => picture.names().map(|name| name.to_string()).collect(),
        };
        let parts = || files.iter().filter_map(|name| PartName::parse_path(name));
        debug_assert!(parts().all(|part| self.has_part(part)), "K5: a part of another checkpoint: {files:?}");
        debug_assert!(
            parts().all(|part| self.folders().contains(&checkpoint_folder(part.checkpointer))),
            "I1: the folders hold each part: {files:?}"
        );
        files
    }
}

/// Lines of the checkpoint in the manifest.
impl fmt::Display for InstalledCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fuzzy(fuzzy) => fmt::Display::fmt(fuzzy, f),
            Self::Cycling(cycling) => fmt::Display::fmt(cycling, f),
            Self::Picture(picture) => fmt::Display::fmt(picture, f),
        }
    }
}
