//! Operations of every kind of installed checkpoint. A kind is a variant of [`InstalledCheckpoint`].
//!
//! Neighbours: [`super`] names the invariants, and has a file for each kind's line.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use ensile_base::Epoch;

use super::cycling::{CyclingCheckpoint, InstalledRange};
use super::fuzzy::FuzzyCheckpoint;
use super::picture::{ListedPageFile, PictureCheckpoint};
use crate::files::names::{PartName, checkpoint_folder};
use crate::files::text::Lines;
use crate::identity::Identity;
use crate::range::KeyRange;

/// An installed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstalledCheckpoint {
    /// Consistent together with the log of the epochs in which the checkpoint was written (SiloR §4).
    Fuzzy(FuzzyCheckpoint),
    /// Fuzzy by ranges of keys. Every range has epochs of its own (SiloR §8).
    Cycling(CyclingCheckpoint),
    /// Consistent alone, at the end of an epoch (SIREN §3), in page files.
    Picture(PictureCheckpoint),
}

/// Epochs e_l and e_h of a walk (of a picture S and e_c), and the generation that was open meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenEpochs {
    pub(crate) generation: u64,
    pub(crate) low: Epoch,
    pub(crate) high: Epoch,
}

/// Share of a checkpoint that was written while a generation was open: all of the checkpoint, or some of its ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointShare {
    /// Largest checkpoint number in the share.
    pub(crate) number: u64,
    /// Least D of the generation when the share was installed.
    pub(crate) durable_min: Epoch,
}

/// Sum that saturates, because the figures of a damaged manifest may have any size.
fn sum(figures: impl Iterator<Item = u64>) -> u64 {
    figures.fold(0, u64::saturating_add)
}

impl InstalledCheckpoint {
    /// True if this line of the manifest names a checkpoint.
    pub(crate) fn is_line(line: &str) -> bool {
        FuzzyCheckpoint::is_line(line) || CyclingCheckpoint::is_line(line) || PictureCheckpoint::is_line(line)
    }

    /// True if this line of the manifest continues the line of a checkpoint.
    pub(crate) fn is_more(line: &str) -> bool {
        ListedPageFile::is_line(line) || InstalledRange::is_line(line)
    }

    /// Reads the lines that `Display` writes: the first line, and the following lines `more`.
    pub(crate) fn parse(line: &str, more: &[&str]) -> Option<Self> {
        if let Some(picture) = PictureCheckpoint::parse(line, more) {
            return Some(Self::Picture(picture));
        }
        if CyclingCheckpoint::is_line(line) {
            return CyclingCheckpoint::parse(line, more).map(Self::Cycling);
        }
        let alone = Some(line).filter(|_| more.is_empty())?;
        FuzzyCheckpoint::parse(alone).map(Self::Fuzzy)
    }

    /// Parses the next lines as a checkpoint, if a checkpoint begins here.
    pub(crate) fn parse_next(lines: &mut Lines<'_>) -> Option<Option<Self>> {
        let Some(line) = lines.next_if(|line| Self::is_line(line)) else { return Some(None) };
        let more = std::iter::from_fn(|| lines.next_if(|line| Self::is_more(line)));
        let more: Vec<&str> = more.collect();
        Self::parse(line, &more).map(Some)
    }

    /// True if the fields of the checkpoint do not contradict each other.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.is_whole(),
            Self::Cycling(cycling) => cycling.is_whole(),
            Self::Picture(picture) => picture.is_whole(),
        }
    }

    /// True if the checkpoint is a picture.
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

    /// True if this file of a checkpointer belongs to the checkpoint.
    pub(crate) fn has_part(&self, part: PartName) -> bool {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.number == part.checkpoint,
            Self::Cycling(cycling) => {
                cycling.range_walks().any(|walked| walked.files.number == part.checkpoint)
            }
            // A picture has no such file. Checkpoint numbers are unique across the kinds, so no file has the number of
            // a picture.
            Self::Picture(picture) => picture.number == part.checkpoint,
        }
    }

    /// Number of the checkpoint. A later checkpoint of any kind has a larger number. The ranges of a cycling checkpoint
    /// count as their last turn.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.number,
            Self::Cycling(cycling) => {
                cycling.range_walks().map(|walked| walked.files.number).max().unwrap_or_default()
            }
            Self::Picture(picture) => picture.number,
        }
    }

    /// Oldest and newest generation that were open while the checkpoint was written. The log is needed from the oldest
    /// generation on (K5).
    pub(crate) fn generations(&self) -> RangeInclusive<u64> {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.generation..=fuzzy.files.generation,
            Self::Cycling(cycling) => {
                let generations = || cycling.range_walks().map(|walked| walked.files.generation);
                generations().min().unwrap_or_default()..=generations().max().unwrap_or_default()
            }
            Self::Picture(picture) => picture.generation..=picture.generation,
        }
    }

    /// Identities of the databases that the checkpoint's files name (I1).
    pub(crate) fn databases(&self) -> Vec<Identity> {
        match self {
            Self::Fuzzy(fuzzy) => vec![fuzzy.files.database],
            Self::Cycling(cycling) => cycling.range_walks().map(|walked| walked.files.database).collect(),
            Self::Picture(picture) => vec![picture.database],
        }
    }

    /// Epoch from which the log is needed. The checkpoint contains or discards every entry with a smaller epoch (K1,
    /// N15). The epoch is S of a picture, and the least e_l of ranges (K5).
    pub(crate) fn redo_epoch(&self) -> Epoch {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.low,
            Self::Cycling(cycling) => {
                cycling.range_walks().map(|walked| walked.low).min().unwrap_or_default()
            }
            Self::Picture(picture) => picture.freeze(),
        }
    }

    /// Smallest D with which the checkpoint is consistent. Every log had a synced mark of this epoch before the
    /// installation (K1, N12). The epoch is e_c of a picture, and the largest e_h of ranges (K5).
    pub(crate) fn durable_min(&self) -> Epoch {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.high,
            Self::Cycling(cycling) => {
                cycling.range_walks().map(|walked| walked.high).max().unwrap_or_default()
            }
            Self::Picture(picture) => picture.epoch,
        }
    }

    /// Share of the checkpoint that was written while `generation` was open. `None` without such a share.
    pub(crate) fn written_in(&self, generation: u64) -> Option<CheckpointShare> {
        let share = match self {
            Self::Fuzzy(_) | Self::Picture(_) => {
                let share = || CheckpointShare { number: self.number(), durable_min: self.durable_min() };
                self.generations().contains(&generation).then(share)
            }
            Self::Cycling(cycling) => {
                let written = cycling.range_walks().filter(|walked| walked.files.generation == generation);
                let shares = written
                    .map(|walked| CheckpointShare { number: walked.files.number, durable_min: walked.high });
                shares.reduce(|a, b| CheckpointShare {
                    number: a.number.max(b.number),
                    durable_min: a.durable_min.max(b.durable_min),
                })
            }
        };
        let is_part = |share: &CheckpointShare| {
            share.number <= self.number() && share.durable_min <= self.durable_min()
        };
        debug_assert!(share.as_ref().is_none_or(is_part), "K5: a share is no newer than its checkpoint");
        share
    }

    /// Epochs of each walk, with the generation that was open: e_l and e_h of a walk, S and e_c of a picture.
    pub(crate) fn epochs(&self) -> Vec<WrittenEpochs> {
        match self {
            Self::Fuzzy(_) | Self::Cycling(_) => {
                let walked = |(walked, _): (&FuzzyCheckpoint, _)| WrittenEpochs {
                    generation: walked.files.generation,
                    low: walked.low,
                    high: walked.high,
                };
                self.completed_walks().into_iter().map(walked).collect()
            }
            Self::Picture(picture) => {
                let (generation, low, high) = (picture.generation, picture.freeze(), picture.epoch);
                vec![WrittenEpochs { generation, low, high }]
            }
        }
    }

    /// Exclusive upper bound of the page numbers of a picture; 0 for any other kind.
    pub(crate) fn next_page(&self) -> u64 {
        match self {
            Self::Picture(picture) => picture.next_page,
            Self::Fuzzy(_) | Self::Cycling(_) => 0,
        }
    }

    /// Number of entries.
    pub(crate) fn entries(&self) -> u64 {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.entries,
            Self::Cycling(cycling) => sum(cycling.range_walks().map(|walked| walked.files.entries)),
            Self::Picture(picture) => picture.entries,
        }
    }

    /// Bytes that a load reads.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.bytes,
            Self::Cycling(cycling) => sum(cycling.range_walks().map(|walked| walked.files.bytes)),
            Self::Picture(picture) => picture.bytes,
        }
    }

    /// Folders of the files.
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
