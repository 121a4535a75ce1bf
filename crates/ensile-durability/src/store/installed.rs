//! The installed checkpoint, as the manifest names it: what is asked of it whatever its kind.
//!
//! A kind is a variant here and a file below, which knows its line in the manifest. A `match` over the kinds stands
//! only here, and where one is made.
//!
//! Invariants:
//! - K1, N12, N15: [`InstalledCheckpoint::covered`] and [`InstalledCheckpoint::durable_min`] bound the log that goes
//!   with it.
//! - I1: its files say that they are of [`InstalledCheckpoint::database`].
//!
//! Neighbours: `manifest` lists it, `whose` and `leases` ask for its folders and files; the checkpoints install it,
//! recovery loads it.

mod fuzzy;
mod part_files;
mod picture;

use std::fmt;

use ensile_base::Epoch;

use crate::identity::Identity;
pub(crate) use fuzzy::FuzzyCheckpoint;
pub(crate) use part_files::PartFiles;
pub(crate) use picture::{ListedPageFile, PictureCheckpoint};

/// An installed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstalledCheckpoint {
    /// Consistent together with the log of the epochs in which it was written (SiloR §4).
    Fuzzy(FuzzyCheckpoint),
    /// Consistent by itself, at the end of an epoch (SIREN §3), in page files.
    Picture(PictureCheckpoint),
}

impl InstalledCheckpoint {
    /// Does this line of the manifest name one?
    pub(super) fn is_line(line: &str) -> bool {
        FuzzyCheckpoint::is_line(line) || PictureCheckpoint::is_line(line)
    }

    /// Does this line of the manifest belong to the one before it, which names one?
    pub(super) fn is_more(line: &str) -> bool {
        ListedPageFile::is_line(line)
    }

    /// Reads the lines that `Display` writes: the first, and those behind it.
    pub(super) fn parse(line: &str, more: &[&str]) -> Option<Self> {
        if let Some(picture) = PictureCheckpoint::parse(line, more) {
            return Some(Self::Picture(picture));
        }
        let alone = Some(line).filter(|_| more.is_empty())?;
        FuzzyCheckpoint::parse(alone).map(Self::Fuzzy)
    }

    /// Does what it says of itself go together?
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.is_whole(),
            Self::Picture(picture) => picture.is_whole(),
        }
    }

    /// Is it a picture?
    pub(crate) fn is_picture(&self) -> bool {
        matches!(self, Self::Picture(_))
    }

    /// What it says of its files, if they were written whole.
    pub(crate) fn part_files(&self) -> Option<&PartFiles> {
        match self {
            Self::Fuzzy(fuzzy) => Some(&fuzzy.files),
            Self::Picture(_) => None,
        }
    }

    /// A later one has a larger number, whatever its kind.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.number,
            Self::Picture(picture) => picture.number,
        }
    }

    /// The generation that was open when it was written.
    pub(crate) fn generation(&self) -> u64 {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.generation,
            Self::Picture(picture) => picture.generation,
        }
    }

    /// What its files say whose they are (I1).
    pub(crate) fn database(&self) -> Identity {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.database,
            Self::Picture(picture) => picture.database,
        }
    }

    /// Entries of smaller epochs are in it, or discarded by it: the log is needed from this epoch on (K1, N15). Of a
    /// picture S.
    pub(crate) fn covered(&self) -> Epoch {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.low,
            Self::Picture(picture) => picture.freeze(),
        }
    }

    /// The least D beside it: every log had a synced mark of this epoch before it was installed (K1, N12). Of a picture
    /// e_c.
    pub(crate) fn durable_min(&self) -> Epoch {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.high,
            Self::Picture(picture) => picture.epoch,
        }
    }

    /// No page of a picture had this number, or one above it.
    pub(crate) fn next_page(&self) -> u64 {
        match self {
            Self::Picture(picture) => picture.next_page,
            Self::Fuzzy(_) => 0,
        }
    }

    /// How many entries it has.
    pub(crate) fn entries(&self) -> u64 {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.entries,
            Self::Picture(picture) => picture.entries,
        }
    }

    /// How many bytes are read to load it.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.bytes,
            Self::Picture(picture) => picture.bytes,
        }
    }

    /// The folders that its files are in.
    pub(crate) fn folders(&self) -> Vec<String> {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.folders().collect(),
            Self::Picture(picture) => picture.folders().collect(),
        }
    }

    /// Its files, by their names below the main folder.
    pub(crate) fn files(&self) -> Vec<String> {
        match self {
            Self::Fuzzy(fuzzy) => fuzzy.files.parts().map(|part| part.to_string()).collect(),
            Self::Picture(picture) => picture.names().map(|name| name.to_string()).collect(),
        }
    }
}

/// Its lines in the manifest.
impl fmt::Display for InstalledCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fuzzy(fuzzy) => fmt::Display::fmt(fuzzy, f),
            Self::Picture(picture) => fmt::Display::fmt(picture, f),
        }
    }
}
