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
//! So a state also says which files of each log it has, and how much of the last one. The checkpoint may be a picture:
//! such a state has the log behind the picture. A picture by itself is a state too.
//!
//! Invariants:
//! - N21: a file outside its log's span, and what stands behind that in the last file, is none of the state's.
//! - A5: a state is had at an earlier epoch only if that is not below e_h of its checkpoint, and counted.
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
    /// The checkpoint behind which the logs go on, of any kind.
    pub(crate) checkpoint: Option<InstalledCheckpoint>,
    pub(crate) generations: Vec<Generation>,
}

impl FilesState {
    /// The newest state of this manifest, if it is one of files; the line of a backup is looked at by the caller.
    pub(crate) fn of(manifest: &Manifest) -> Option<Self> {
        let Manifest { checkpoint, generations, .. } = manifest;
        let has_open_log = generations.last().is_none_or(|open| open.logs > 0);
        let is_picture_alone = checkpoint.as_ref().is_some_and(InstalledCheckpoint::is_picture)
            && generations.iter().all(|generation| generation.logs == 0);
        (!has_open_log && !is_picture_alone)
            .then(|| Self { checkpoint: checkpoint.clone(), generations: generations.clone() })
    }

    /// The picture behind which its logs go on; `None` if its checkpoint is of another kind.
    pub(crate) fn picture(&self) -> Option<&PictureCheckpoint> {
        match &self.checkpoint {
            Some(InstalledCheckpoint::Picture(picture)) => Some(picture),
            _ => None,
        }
    }

    /// The state is the database at the end of this epoch.
    pub(crate) fn epoch(&self) -> Epoch {
        self.generations.last().map_or(Epoch::ZERO, |open| open.first.previous())
    }

    /// Up to this epoch its checkpoint is complete with the log alone that it has: e_h, of ranges the largest (K1, K5).
    /// No smaller one can be had from it (A5).
    pub(crate) fn least(&self) -> Epoch {
        self.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::durable_min)
    }

    /// The epochs that counted and that it has itself, oldest first, the last of each included: each life's, from
    /// [`FilesState::least`] on; and its own epoch.
    pub(crate) fn own_epochs(&self) -> Vec<(Epoch, Epoch)> {
        let (least, epoch) = (self.least(), self.epoch());
        let lives = self.generations.iter().filter_map(|life| Some((life.first.max(least), life.durable?)));
        let mut own: Vec<_> = lives.filter(|(first, last)| first <= last).collect();
        if own.last().is_none_or(|(_, last)| *last < epoch) {
            own.push((epoch, epoch));
        }
        own
    }

    /// The state at the end of this earlier epoch: later generations are left out, and the one that has the epoch is
    /// closed there. `None` if it is not one of its own (A5).
    pub(crate) fn back_to(&self, epoch: Epoch) -> Option<Self> {
        let is_own = self.own_epochs().iter().any(|(first, last)| *first <= epoch && epoch <= *last);
        let (open, lives) = self.generations.split_last().filter(|_| is_own)?;
        let mut generations: Vec<Generation> =
            lives.iter().filter(|life| life.first <= epoch).cloned().collect();
        let last = generations.last_mut()?;
        last.durable = Some(epoch);
        let number = last.number + 1;
        assert!(number <= open.number, "numbers grow");
        generations.push(Generation { number, first: epoch.next(), ..open.clone() });
        Some(Self { checkpoint: self.checkpoint.clone(), generations })
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
    /// A picture by itself, in the page file that the backup has.
    Picture(PictureCheckpoint),
    /// Logs among the files that the backup has, and their checkpoint.
    Files(FilesState),
}

impl KeptState {
    /// The newest state of this manifest; `None` of one that is being made, or that has an open log.
    pub(crate) fn newest(manifest: &Manifest) -> Option<Self> {
        match (FilesState::of(manifest), &manifest.checkpoint) {
            (Some(state), _) => Some(Self::Files(state)),
            (None, Some(InstalledCheckpoint::Picture(picture))) => Some(Self::Picture(picture.clone())),
            (None, _) => None,
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        match self {
            Self::Picture(picture) => picture.epoch,
            Self::Files(state) => state.epoch(),
        }
    }

    /// Its picture, by itself or with logs behind it.
    pub(crate) fn picture(&self) -> Option<&PictureCheckpoint> {
        match self {
            Self::Picture(picture) => Some(picture),
            Self::Files(state) => state.picture(),
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
