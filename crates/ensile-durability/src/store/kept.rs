//! What a backup has beside its newest state, and which files of logs its states have (`docs/formats/manifest.md`).
//!
//! ```text
//! kept epoch 63
//! checkpoint 7 generation 3 low 61 high 62 ..
//! generation 3 first 61 .. durable 63 files 0-5:4096,3-7:128
//! generation 4 first 64 .. logs 0 ..
//! ```
//! A state of files is what a manifest says of a checkpoint and of generations: by itself it is a whole database. Its
//! last generation has no log, and the one before that is closed at the state's epoch. States of one database share
//! files: a later one begins behind what its checkpoint covers, and has more of the file in which an earlier one ends.
//! So a state also says which files of each log it has, and how much of the last one.
//!
//! Invariants:
//! - N21: a file outside its log's span, and what stands behind that in the last file, is none of the state's.
//! - N16: states of a backup have epochs of their own, and all its pictures stand in one page file.
//!
//! Neighbours: `manifest` has the lines; `crate::backup` writes them; `listing` leaves out what stands outside a span.

use std::fmt;

use ensile_base::Epoch;

use super::installed::{InstalledCheckpoint, PictureCheckpoint};
use super::manifest::{Generation, Manifest};
use super::text::{parse_epoch, values};
use crate::number;

/// What was copied of one log of a generation: its files from the first number to the last, and how many bytes of that
/// count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogSpan {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) bytes: u64,
}

impl LogSpan {
    /// How many bytes of the file of this number count: 0 outside, and no limit before the last one.
    pub(crate) fn bytes_of(self, number: u64) -> u64 {
        match number {
            _ if number < self.first || number > self.last => 0,
            _ if number == self.last => self.bytes,
            _ => u64::MAX,
        }
    }

    /// Reads what `Display` writes, one for each log, with commas between.
    pub(super) fn parse_all(text: &str) -> Option<Vec<Self>> {
        let parse = |span: &str| {
            let (files, bytes) = span.split_once(':')?;
            let (first, last) = files.split_once('-')?;
            let (first, last) = (number::parse(first)?, number::parse(last)?);
            let bytes = bytes.parse().ok().filter(|bytes| *bytes > 0)?;
            (first <= last).then_some(Self { first, last, bytes })
        };
        text.split(',').map(parse).collect()
    }
}

impl fmt::Display for LogSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}:{}", self.first, self.last, self.bytes)
    }
}

/// A state of files, as a manifest of its own would say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilesState {
    /// Fuzzy, or by ranges.
    pub(crate) checkpoint: Option<InstalledCheckpoint>,
    pub(crate) generations: Vec<Generation>,
}

impl FilesState {
    /// The newest state of this manifest, if it is one of files; the line of a backup is looked at by the caller.
    pub(crate) fn of(manifest: &Manifest) -> Option<Self> {
        let has_log = manifest.generations.last().is_none_or(|open| open.logs > 0);
        let is_picture = manifest.checkpoint.as_ref().is_some_and(InstalledCheckpoint::is_picture);
        let Manifest { checkpoint, generations, .. } = manifest;
        (!has_log && !is_picture)
            .then(|| Self { checkpoint: checkpoint.clone(), generations: generations.clone() })
    }

    /// The state is the database at the end of this epoch.
    pub(crate) fn epoch(&self) -> Epoch {
        self.generations.last().map_or(Epoch::ZERO, |open| open.first.previous())
    }

    /// The generation in which it was taken: the last one with a log. The one behind that may be only of the folder.
    pub(crate) fn generation(&self) -> u64 {
        let with_log = self.generations.iter().rfind(|generation| generation.logs > 0);
        with_log.or(self.generations.last()).map_or(0, |generation| generation.number)
    }
}

/// An older state of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeptState {
    /// In the page file that the backup has.
    Picture(PictureCheckpoint),
    /// Among the files that the backup has.
    Files(FilesState),
}

impl KeptState {
    /// The newest state of this manifest; `None` of one that is being made, or that has an open log.
    pub(crate) fn newest(manifest: &Manifest) -> Option<Self> {
        match &manifest.checkpoint {
            Some(InstalledCheckpoint::Picture(picture)) => Some(Self::Picture(picture.clone())),
            _ => FilesState::of(manifest).map(Self::Files),
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        match self {
            Self::Picture(picture) => picture.epoch,
            Self::Files(state) => state.epoch(),
        }
    }

    pub(crate) fn picture(&self) -> Option<&PictureCheckpoint> {
        match self {
            Self::Picture(picture) => Some(picture),
            Self::Files(_) => None,
        }
    }

    pub(crate) fn files(&self) -> Option<&FilesState> {
        match self {
            Self::Picture(_) => None,
            Self::Files(state) => Some(state),
        }
    }

    /// Does this line of the manifest begin a state of files?
    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with("kept ")
    }

    /// Reads the epoch in that line.
    pub(super) fn parse_line(line: &str) -> Option<Epoch> {
        parse_epoch(values(line.strip_prefix("kept ")?, &["epoch"])?[0])
    }

    /// Pictures and states of files, each the newest first, in one list.
    pub(super) fn merged(pictures: Vec<PictureCheckpoint>, files: Vec<FilesState>) -> Vec<Self> {
        let mut merged = Vec::with_capacity(pictures.len() + files.len());
        let (mut pictures, mut files) = (pictures.into_iter().peekable(), files.into_iter().peekable());
        loop {
            let is_picture_next = match (pictures.peek(), files.peek()) {
                (Some(picture), Some(state)) => picture.epoch >= state.epoch(),
                (is_there, _) => is_there.is_some(),
            };
            let next = match is_picture_next {
                true => pictures.next().map(Self::Picture),
                false => files.next().map(Self::Files),
            };
            let Some(next) = next else { return merged };
            merged.push(next);
        }
    }
}

/// Its lines, without the last one's end.
impl fmt::Display for KeptState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Picture(picture) => fmt::Display::fmt(picture, f),
            Self::Files(state) => {
                write!(f, "kept epoch {}", state.epoch())?;
                state.checkpoint.iter().try_for_each(|checkpoint| write!(f, "\n{checkpoint}"))?;
                state.generations.iter().try_for_each(|generation| write!(f, "\n{generation}"))
            }
        }
    }
}
