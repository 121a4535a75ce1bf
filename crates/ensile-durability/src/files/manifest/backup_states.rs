//! Older states of a backup, and the log files of each state (`docs/internals/formats/manifest.md`, lines
//! `kept epoch`). A state of files is a checkpoint and its generations; the last generation has no log, and the
//! generation before is closed at the state's epoch. A picture without a log is a state too.
//!
//! Invariants: A5, N16 and N21. Logs of states share files, so a state lists the first and last file of each log, and
//! the bytes of the last file.
//!
//! Neighbours: `manifest` has the lines; `crate::backup` writes the lines; `recovery::log_files` omits the files
//! outside a span; `shipping::state_composition` uses a state of files as the state in a shared store.

use std::fmt;

use ensile_base::Epoch;

use super::generation::Generation;
use super::installed_checkpoint::{InstalledCheckpoint, PictureCheckpoint};
use crate::files::text::{Lines, all_parsed, parse_epoch};

/// A state of files, in the terms of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilesState {
    /// Checkpoint of any kind, behind which the logs continue.
    pub(crate) checkpoint: Option<InstalledCheckpoint>,
    pub(crate) generations: Vec<Generation>,
}

impl FilesState {
    /// Parses the next lines, which begin with the line of the state's epoch.
    pub(crate) fn parse_next(lines: &mut Lines<'_>) -> Option<Self> {
        let epoch = parse_epoch(lines.next()?.strip_prefix("kept epoch ")?)?;
        let checkpoint = InstalledCheckpoint::parse_next(lines)?;
        let state = Self { checkpoint, generations: all_parsed(lines, Generation::parse) };
        Some(state).filter(|state| state.epoch() == epoch)
    }

    /// Picture behind which the logs continue; `None` if the checkpoint is of another kind.
    pub(crate) fn picture(&self) -> Option<&PictureCheckpoint> {
        match &self.checkpoint {
            Some(InstalledCheckpoint::Picture(picture)) => Some(picture),
            _ => None,
        }
    }

    /// Epoch at whose end the database had this state.
    pub(crate) fn epoch(&self) -> Epoch {
        self.generations.last().map_or(Epoch::ZERO, |open| open.first.previous())
    }

    /// Smallest epoch to which a restore can take the state back (A5): e_h of the checkpoint, for ranges the largest
    /// e_h. The checkpoint is complete only with the log up to e_h (K1, K5).
    pub(crate) fn least(&self) -> Epoch {
        self.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::durable_min)
    }

    /// Epochs to which a restore can take the state back without an archive (A5): spans with inclusive ends, oldest
    /// first. Each life contributes its durable epochs from [`FilesState::least`] on. The last span ends with the
    /// state's own epoch.
    pub(crate) fn own_epochs(&self) -> Vec<(Epoch, Epoch)> {
        let (least, epoch) = (self.least(), self.epoch());
        let lives = self.generations.iter().filter_map(|life| Some((life.first.max(least), life.durable?)));
        let mut own: Vec<_> = lives.filter(|(first, last)| first <= last).collect();
        let pictured = self.picture().map(|picture| (picture.epoch, picture.epoch));
        if pictured.is_some_and(|(epoch, _)| own.first().is_none_or(|(first, _)| *first > epoch)) {
            // The life of the picture has left the list.
            own.splice(0..0, pictured);
        }
        if own.last().is_none_or(|(_, last)| *last < epoch) {
            own.push((epoch, epoch));
        }
        debug_assert!(own.is_sorted_by(|one, next| one.1 < next.0), "A5: spans of lives are apart: {own:?}");
        debug_assert!(own.last().is_some_and(|(_, last)| *last == epoch), "A5: a state has its own epoch");
        own
    }

    /// The state at the end of an earlier epoch. Later generations are missing, and the generation of the epoch ends
    /// there. `None` if [`FilesState::own_epochs`] does not have the epoch (A5).
    pub(crate) fn back_to(&self, epoch: Epoch) -> Option<Self> {
        let is_own = self.own_epochs().iter().any(|(first, last)| *first <= epoch && epoch <= *last);
        let (open, lives) = self.generations.split_last().filter(|_| is_own)?;
        if self.picture().is_some_and(|picture| picture.epoch == epoch) {
            let open = Generation { first: epoch.next(), ..open.clone() };
            let back = Self { checkpoint: self.checkpoint.clone(), generations: vec![open] };
            debug_assert_eq!(back.epoch(), epoch, "A5: the state ends there");
            return Some(back);
        }
        let mut generations: Vec<_> = lives.iter().filter(|life| life.first <= epoch).cloned().collect();
        let last = generations.last_mut()?;
        last.durable = Some(epoch);
        let number = last.number + 1;
        assert!(number <= open.number, "numbers grow");
        generations.push(Generation { number, first: epoch.next(), ..open.clone() });
        let back = Self { checkpoint: self.checkpoint.clone(), generations };
        debug_assert_eq!(back.epoch(), epoch, "A5: the state ends there");
        debug_assert!(back.least() <= epoch, "A5: the checkpoint is complete there");
        Some(back)
    }

    /// Number of the source's generation in which the state was taken: the last generation with a log. A later
    /// generation may belong to the backup's folder alone.
    pub(crate) fn generation(&self) -> u64 {
        let with_log = self.generations.iter().rfind(|generation| generation.logs > 0);
        with_log.or(self.generations.last()).map_or(0, |generation| generation.number)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeptState {
    /// A picture without a log, in the page file of the backup.
    Picture(PictureCheckpoint),
    /// Logs among the files of the backup, and the checkpoint before the logs.
    Files(FilesState),
}

impl KeptState {
    pub(crate) fn epoch(&self) -> Epoch {
        match self {
            Self::Picture(picture) => picture.epoch,
            Self::Files(state) => state.epoch(),
        }
    }

    /// Picture of the state, with or without logs behind the picture.
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

    /// Merges pictures and states of files by epoch. Both inputs and the result have the newest state first.
    pub(crate) fn merge(pictures: Vec<PictureCheckpoint>, files: Vec<FilesState>) -> Vec<Self> {
        let states = pictures.len() + files.len();
        let mut merged = Vec::with_capacity(states);
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
            let Some(next) = next else {
                debug_assert_eq!(merged.len(), states, "each state is merged once");
                return merged;
            };
            merged.push(next);
        }
    }
}

/// Lines of the state in a manifest, without the end of the last line.
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
