//! The installed checkpoint, as the manifest names it: what is asked of it whatever its kind.
//!
//! A kind is a variant here and a file below, which knows its line in the manifest. A `match` over the kinds stands
//! only here, and where one is made.
//!
//! Invariants:
//! - K1, K5, N12, N15: [`InstalledCheckpoint::covered`] and [`InstalledCheckpoint::durable_min`] bound the log that
//!   goes with it.
//! - I1: its files say that they are of [`InstalledCheckpoint::database`].
//!
//! Neighbours: `manifest` lists it, `whose` and `leases` ask for its folders and files; the checkpoints install it,
//! recovery loads it.

mod cycling;
mod fuzzy;
mod part_files;
mod picture;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use ensile_base::Epoch;

use crate::identity::Identity;
use crate::range::KeyRange;
use crate::store::names::PartName;
pub(crate) use cycling::{CyclingCheckpoint, InstalledRange, RangesCut};
pub(crate) use fuzzy::FuzzyCheckpoint;
pub(crate) use part_files::PartFiles;
pub(crate) use picture::{ListedPageFile, PictureCheckpoint};

/// An installed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstalledCheckpoint {
    /// Consistent together with the log of the epochs in which it was written (SiloR §4).
    Fuzzy(FuzzyCheckpoint),
    /// The same by ranges of keys, each with epochs of its own (SiloR §8).
    Cycling(CyclingCheckpoint),
    /// Consistent by itself, at the end of an epoch (SIREN §3), in page files.
    Picture(PictureCheckpoint),
}

/// The epochs of what was written while a generation was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrittenEpochs {
    pub(super) generation: u64,
    pub(super) low: Epoch,
    pub(super) high: Epoch,
}

/// Figures of a damaged manifest may be of any size.
fn sum(figures: impl Iterator<Item = u64>) -> u64 {
    figures.fold(0, u64::saturating_add)
}

impl InstalledCheckpoint {
    /// Does this line of the manifest name one?
    pub(super) fn is_line(line: &str) -> bool {
        FuzzyCheckpoint::is_line(line) || CyclingCheckpoint::is_line(line) || PictureCheckpoint::is_line(line)
    }

    /// Does this line of the manifest belong to the one before it, which names one?
    pub(super) fn is_more(line: &str) -> bool {
        ListedPageFile::is_line(line) || InstalledRange::is_line(line)
    }

    /// Reads the lines that `Display` writes: the first, and those behind it.
    pub(super) fn parse(line: &str, more: &[&str]) -> Option<Self> {
        if let Some(picture) = PictureCheckpoint::parse(line, more) {
            return Some(Self::Picture(picture));
        }
        if CyclingCheckpoint::is_line(line) {
            return CyclingCheckpoint::parse(line, more).map(Self::Cycling);
        }
        let alone = Some(line).filter(|_| more.is_empty())?;
        FuzzyCheckpoint::parse(alone).map(Self::Fuzzy)
    }

    /// Does what it says of itself go together?
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.is_whole(),
            Self::Cycling(cycling) => cycling.is_whole(),
            Self::Picture(picture) => picture.is_whole(),
        }
    }

    /// Is it a picture?
    pub(crate) fn is_picture(&self) -> bool {
        matches!(self, Self::Picture(_))
    }

    /// Does a program that knows neither pictures nor ranges read its lines?
    pub(super) fn is_of_first_release(&self) -> bool {
        matches!(self, Self::Fuzzy(_))
    }

    /// The walks of which it has files that were written whole, each with its keys if those are not all.
    pub(crate) fn walked(&self) -> Vec<(&FuzzyCheckpoint, Option<KeyRange>)> {
        match self {
            Self::Fuzzy(fuzzy) => vec![(fuzzy, None)],
            Self::Cycling(cycling) => {
                cycling.walked().enumerate().map(|(at, walked)| (walked, Some(cycling.keys(at)))).collect()
            }
            Self::Picture(_) => Vec::new(),
        }
    }

    /// Is this file of a checkpointer one of its files?
    pub(crate) fn has_part(&self, part: PartName) -> bool {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.number == part.checkpoint,
            Self::Cycling(cycling) => cycling.walked().any(|walked| walked.files.number == part.checkpoint),
            // A picture has none. A number comes once, whatever its kind.
            Self::Picture(picture) => picture.number == part.checkpoint,
        }
    }

    /// A later one has a larger number, whatever its kind. Of ranges that of the last turn.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.number,
            Self::Cycling(cycling) => {
                cycling.walked().map(|walked| walked.files.number).max().unwrap_or_default()
            }
            Self::Picture(picture) => picture.number,
        }
    }

    /// The generations that were open when it was written, the oldest and the newest: the log is needed from the oldest
    /// one's on (K5).
    pub(crate) fn generations(&self) -> RangeInclusive<u64> {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.generation..=fuzzy.files.generation,
            Self::Cycling(cycling) => {
                let generations = || cycling.walked().map(|walked| walked.files.generation);
                generations().min().unwrap_or_default()..=generations().max().unwrap_or_default()
            }
            Self::Picture(picture) => picture.generation..=picture.generation,
        }
    }

    /// What its files say whose they are (I1).
    pub(crate) fn databases(&self) -> Vec<Identity> {
        match self {
            Self::Fuzzy(fuzzy) => vec![fuzzy.files.database],
            Self::Cycling(cycling) => cycling.walked().map(|walked| walked.files.database).collect(),
            Self::Picture(picture) => vec![picture.database],
        }
    }

    /// Entries of smaller epochs are in it, or discarded by it: the log is needed from this epoch on (K1, N15). Of a
    /// picture S, of ranges the least e_l (K5).
    pub(crate) fn covered(&self) -> Epoch {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.low,
            Self::Cycling(cycling) => cycling.walked().map(|walked| walked.low).min().unwrap_or_default(),
            Self::Picture(picture) => picture.freeze(),
        }
    }

    /// The least D beside it: every log had a synced mark of this epoch before it was installed (K1, N12). Of a picture
    /// e_c, of ranges the largest e_h (K5).
    pub(crate) fn durable_min(&self) -> Epoch {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.high,
            Self::Cycling(cycling) => cycling.walked().map(|walked| walked.high).max().unwrap_or_default(),
            Self::Picture(picture) => picture.epoch,
        }
    }

    /// What of it was written while a generation was open: the largest number, and the least D that this generation had
    /// then. `None` if nothing was.
    pub(crate) fn written_in(&self, generation: u64) -> Option<(u64, Epoch)> {
        match self {
            Self::Fuzzy(_) | Self::Picture(_) => {
                self.generations().contains(&generation).then(|| (self.number(), self.durable_min()))
            }
            Self::Cycling(cycling) => {
                let written = cycling.walked().filter(|walked| walked.files.generation == generation);
                written
                    .map(|walked| (walked.files.number, walked.high))
                    .reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
            }
        }
    }

    /// The epochs of its walks, with the generation that was open: e_l and e_h, of a picture S and e_c.
    pub(super) fn epochs(&self) -> Vec<WrittenEpochs> {
        match self {
            Self::Fuzzy(_) | Self::Cycling(_) => {
                let walked = |(walked, _): (&FuzzyCheckpoint, _)| WrittenEpochs {
                    generation: walked.files.generation,
                    low: walked.low,
                    high: walked.high,
                };
                self.walked().into_iter().map(walked).collect()
            }
            Self::Picture(picture) => {
                let (generation, low, high) = (picture.generation, picture.freeze(), picture.epoch);
                vec![WrittenEpochs { generation, low, high }]
            }
        }
    }

    /// No page of a picture had this number, or one above it.
    pub(crate) fn next_page(&self) -> u64 {
        match self {
            Self::Picture(picture) => picture.next_page,
            Self::Fuzzy(_) | Self::Cycling(_) => 0,
        }
    }

    /// How many entries it has.
    pub(crate) fn entries(&self) -> u64 {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.entries,
            Self::Cycling(cycling) => sum(cycling.walked().map(|walked| walked.files.entries)),
            Self::Picture(picture) => picture.entries,
        }
    }

    /// How many bytes are read to load it.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.bytes,
            Self::Cycling(cycling) => sum(cycling.walked().map(|walked| walked.files.bytes)),
            Self::Picture(picture) => picture.bytes,
        }
    }

    /// The folders that its files are in.
    pub(crate) fn folders(&self) -> Vec<String> {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.folders().collect(),
            Self::Cycling(cycling) => {
                let folders = cycling.walked().flat_map(|walked| walked.files.folders());
                BTreeSet::from_iter(folders).into_iter().collect()
            }
            Self::Picture(picture) => picture.folders().collect(),
        }
    }

    /// Its files, by their names below the main folder.
    pub(crate) fn files(&self) -> Vec<String> {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.parts().map(|part| part.to_string()).collect(),
            Self::Cycling(cycling) => {
                let parts = cycling.walked().flat_map(|walked| walked.files.parts());
                parts.map(|part| part.to_string()).collect()
            }
            Self::Picture(picture) => picture.names().map(|name| name.to_string()).collect(),
        }
    }
}

/// Its lines in the manifest.
impl fmt::Display for InstalledCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fuzzy(fuzzy) => fmt::Display::fmt(fuzzy, f),
            Self::Cycling(cycling) => fmt::Display::fmt(cycling, f),
            Self::Picture(picture) => fmt::Display::fmt(picture, f),
        }
    }
}
