//! Files of a database that a backup already has, according to the states in the backup's manifest.
//!
//! | file of the source | stays in the backup, if |
//! |---|---|
//! | checkpoint file | a state lists the same checkpoint or range: number, salt, and the seal over all blocks |
//! | log file before the file in which a state ends | the state lists the same generation; the chain of blocks proves the bytes |
//! | log file in which a state ends | the state lists the same generation; the copy continues at the end |
//!
//! Invariants:
//! - N12: no file of a state is overwritten. If the source has a different file of the same name, the run is refused.
//! - N21: a file stays because a state describes the file, and not because of the file's name.
//!
//! Neighbours: [`super::files`] asks for files, and [`super::pages`] before it copies the log too; the manifest has the
//! states; `recovery::copied_logs` reads the copied logs.

use ensile_base::Epoch;

use crate::files::manifest::Manifest;
use crate::files::manifest::backup_states::{FilesState, KeptState};
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::{InstalledCheckpoint, PartFiles};
use crate::files::names::{PartName, SegmentName};

/// States of files in a backup.
#[derive(Debug, Default)]
pub(super) struct KnownFiles {
    states: Vec<FilesState>,
    /// Newest state, of either kind.
    newest: Option<KeptState>,
}

/// Files of each walk of a checkpoint.
fn parts_of(checkpoint: Option<&InstalledCheckpoint>) -> impl Iterator<Item = &PartFiles> {
    checkpoint.into_iter().flat_map(InstalledCheckpoint::completed_walks).map(|(walked, _)| &walked.files)
}

impl KnownFiles {
    /// Known files of the folder with this manifest.
    pub(super) fn from_manifest(manifest: &Manifest) -> Self {
        let newest = manifest.newest_state().filter(|_| !manifest.generations.is_empty());
        let states = newest.iter().filter_map(KeptState::files).chain(manifest.kept_files());
        let states: Vec<FilesState> = states.cloned().collect();
        debug_assert!(
            states.is_sorted_by(|newer, older| newer.epoch() > older.epoch()),
            "N16: no two states have one epoch"
        );
        Self { states, newest }
    }

    /// Reason why a database with the manifest `source` cannot continue the backup; `None` if the database can.
    pub(super) fn why_not(&self, source: &Manifest) -> Option<String> {
        let newest = self.newest.as_ref()?;
        let number = source.checkpoint.as_ref().map_or(0, InstalledCheckpoint::number);
        let before = match newest {
            KeptState::Picture(picture) => picture.number,
            KeptState::Files(state) => state.checkpoint.as_ref().map_or(0, InstalledCheckpoint::number),
        };
        let own = || parts_of(source.checkpoint.as_ref());
        let is_another = |known: &PartFiles| own().any(|own| own.number == known.number && own != known);
        let other_part = self.parts().find(|known| is_another(known));
        let what = if number < before {
            format!("checkpoint {before}, and the database's is {number}")
        } else if let Some(part) = other_part {
            format!("another checkpoint {}", part.number)
        } else {
            let generation = self.logged_generations().find(|known| !has_gone_on(source, known))?;
            format!("another generation {}, or more of it", generation.number)
        };
        Some(format!(
            "it has the state at epoch {}, with {what}: is the database an older copy?",
            newest.epoch()
        ))
    }

    /// Epoch of the newest state.
    pub(super) fn epoch(&self) -> Epoch {
        self.newest.as_ref().map_or(Epoch::ZERO, KeptState::epoch)
    }

    /// True if a state has this file of the source's checkpoint.
    pub(super) fn has_part(&self, part: PartName, source: &Manifest) -> bool {
        let mut own = parts_of(source.checkpoint.as_ref()).filter(|own| own.number == part.checkpoint);
        own.any(|own| self.parts().any(|known| known == own))
    }

    /// Number of bytes of this log file in the states: up to the end of a state, `u64::MAX` for all bytes, or 0 if no
    /// state has the file.
    pub(super) fn log_bytes(&self, name: SegmentName) -> u64 {
        let own = self.logged_generations().filter(|known| known.number == name.generation);
        let spans = own.filter_map(|known| known.spans.get(name.logger as usize));
        spans.map(|span| span.bytes_of(name.number)).max().unwrap_or(0)
    }

    /// Checkpoint files of all states, by walk.
    fn parts(&self) -> impl Iterator<Item = &PartFiles> {
        self.states.iter().flat_map(|state| parts_of(state.checkpoint.as_ref()))
    }

    /// Generations with logs, of all states.
    fn logged_generations(&self) -> impl Iterator<Item = &Generation> {
        self.states.iter().flat_map(|state| &state.generations).filter(|known| known.logs > 0)
    }
}

/// True if the source has this generation, open or with no smaller D, or has a newer generation and needs this one no
/// longer.
fn has_gone_on(source: &Manifest, known: &Generation) -> bool {
    let Some(own) = source.generations.iter().find(|own| own.number == known.number) else {
        let newest = source.generations.last().map_or(0, |newest| newest.number);
        return newest > known.number;
    };
    own.is_same(known) && own.durable.is_none_or(|durable| known.durable <= Some(durable))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
