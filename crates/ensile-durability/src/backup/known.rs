//! What a backup has already of a database's files, by the states in its manifest.
//!
//! | file of the source | is left where the backup has it, if |
//! |---|---|
//! | of a checkpoint | a state has the very line of the checkpoint or range: number, salt, and the seal over all its blocks |
//! | of a log, before the end that a state has | that state has the generation's line; the chain of blocks does the rest |
//! | the one in which that end is | the same; it is read on from the end |
//!
//! Invariants:
//! - N12: no file that a state has is written over: one of the source that has such a name, and is another, refuses the
//!   run.
//! - N21: a file is left for what a state says of it, and not for its name.
//!
//! Neighbours: [`super::files`] asks; the manifest has the states, `recovery::copied` reads what comes of it.

use ensile_base::Epoch;

use crate::store::installed::{InstalledCheckpoint, PartFiles};
use crate::store::kept::{FilesState, KeptState};
use crate::store::manifest::{Generation, Manifest};
use crate::store::names::{PartName, SegmentName};

/// The states of files that a backup has.
#[derive(Debug, Default)]
pub(super) struct KnownFiles {
    states: Vec<FilesState>,
    /// The newest state, of whichever kind.
    newest: Option<KeptState>,
}

/// Of which walks a checkpoint has files.
fn parts_of(checkpoint: Option<&InstalledCheckpoint>) -> impl Iterator<Item = &PartFiles> {
    checkpoint.into_iter().flat_map(InstalledCheckpoint::walked).map(|(walked, _)| &walked.files)
}

impl KnownFiles {
    /// Of the folder of this manifest.
    pub(super) fn of(manifest: &Manifest) -> Self {
        let newest = KeptState::newest(manifest).filter(|_| !manifest.generations.is_empty());
        let states = newest.iter().filter_map(KeptState::files).chain(manifest.kept_files());
        let states = states.cloned().collect();
        Self { states, newest }
    }

    /// Why a backup of a database with this manifest cannot follow on what there is, or `None`.
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
            let generation = self.logged().find(|known| !has_gone_on(source, known))?;
            format!("another generation {}, or more of it", generation.number)
        };
        Some(format!(
            "it has the state at epoch {}, with {what}: is the database an older copy?",
            newest.epoch()
        ))
    }

    /// The epoch of the newest state.
    pub(super) fn epoch(&self) -> Epoch {
        self.newest.as_ref().map_or(Epoch::ZERO, KeptState::epoch)
    }

    /// Does a state have this file of that checkpoint?
    pub(super) fn has_part(&self, part: PartName, source: &Manifest) -> bool {
        let mut own = parts_of(source.checkpoint.as_ref()).filter(|own| own.number == part.checkpoint);
        own.any(|own| self.parts().any(|known| known == own))
    }

    /// How many bytes of this log file the states have: all that there are, or those up to the end of one.
    pub(super) fn log_bytes(&self, name: SegmentName) -> u64 {
        let own = self.logged().filter(|known| known.number == name.generation);
        let spans = own.filter_map(|known| known.spans.get(name.logger as usize));
        spans.map(|span| span.bytes_of(name.number)).max().unwrap_or(0)
    }

    fn parts(&self) -> impl Iterator<Item = &PartFiles> {
        self.states.iter().flat_map(|state| parts_of(state.checkpoint.as_ref()))
    }

    /// The generations with logs of all states.
    fn logged(&self) -> impl Iterator<Item = &Generation> {
        self.states.iter().flat_map(|state| &state.generations).filter(|known| known.logs > 0)
    }
}

/// Has the database this generation with no less in it, or does it need none of it any more?
fn has_gone_on(source: &Manifest, known: &Generation) -> bool {
    let Some(own) = source.generations.iter().find(|own| own.number == known.number) else {
        let newest = source.generations.last().map_or(0, |newest| newest.number);
        return newest > known.number;
    };
    own.is_same(known) && own.durable.is_none_or(|durable| known.durable <= Some(durable))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
