//! Consistency of a manifest's contents: I1, I2, L4, L6, K1, N16, N18, N23 and B4. A manifest that is not whole is
//! neither read nor written.
//!
//! Neighbours: [`super::text_form`] and [`super::file`] check manifests; the shared manifest checks its state.

use ensile_base::Epoch;
use ensile_disk::FolderId;

use super::contents::{Making, Manifest};
use crate::files::manifest::backup_states::{FilesState, KeptState};
use crate::files::manifest::generation;
use crate::files::manifest::types::are_in_order;
use crate::files::names::MAIN;
use crate::identity::Identity;

impl Manifest {
    /// True if the manifest has a main folder (I1), a valid state (I2), ordered generations (L4), reserved epochs (L6),
    /// and a checkpoint that fits the generations (K1).
    pub(super) fn is_whole(&self) -> bool {
        let own = self.generations.iter().all(|generation| {
            let has_files = generation.logs > 0 || generation.durable.is_none();
            let spans = &generation.spans;
            let has_spans = generation.durable.is_some() && spans.len() == generation.logs as usize;
            generation.first > Epoch::ZERO && has_files && (spans.is_empty() || has_spans)
        });
        let is_open = self.generations.last().is_some_and(|last| last.durable.is_none());
        let state = self.reserved > Epoch::ZERO
            && match self.state {
                Making::Creating => self.generations.is_empty() && self.checkpoint.is_none(),
                Making::Created => is_open,
            };
        // L6: epochs that the open generation may have shown are reserved.
        let reserved = self.generations.iter().all(|generation| generation.first <= self.reserved);
        let checkpoint = self.checkpoint.as_ref().is_none_or(|checkpoint| {
            checkpoint.is_whole() && self.generations.iter().all(|generation| generation.fits(checkpoint))
        });
        generation::are_in_order(&self.generations)
            && own
            && state
            && reserved
            && checkpoint
            && self.has_kept_whole()
            && self.has_lineage_whole()
            && self.folders.contains_key(MAIN)
            && (self.has_archive() || self.archived.is_none())
            && (self.mapped.is_none() || self.may_be_mapped())
            && (self.unfinished.is_none() || self.state == Making::Creating)
            && are_in_order(&self.types)
    }

    /// True if the life of this manifest may be process-safe, so that the manifest names a boot (B4): the open
    /// generation has logs, and the folder is no backup.
    fn may_be_mapped(&self) -> bool {
        !self.is_of_backup() && self.generations.last().is_some_and(|last| last.logs > 0)
    }

    /// True if the lineage ends at or before the last generation, and agrees with each listed generation (N23). A
    /// backup's generations are not compared, because they may describe only the folder.
    fn has_lineage_whole(&self) -> bool {
        let is_same = self.is_of_backup() || self.generations.iter().all(|life| self.lineage.agrees(life));
        is_same && self.lineage.newest() <= self.generations.last().map_or(0, |last| last.number)
    }

    /// True if the older states are valid. Only a backup has older states. Each state is whole, and older than the
    /// state before. The pictures are in one page file.
    fn has_kept_whole(&self) -> bool {
        if self.kept.is_empty() {
            return true;
        }
        let Some(newest) = self.newest_state() else { return false };
        let states = || std::iter::once(&newest).chain(&self.kept);
        let are_older = states().zip(&self.kept).all(|(newer, older)| older.epoch() < newer.epoch());
        let pictures = || states().filter_map(KeptState::picture);
        let are_in_one_file = pictures().zip(pictures().skip(1)).all(|(newer, older)| {
            let is_same = (older.database, &older.files) == (newer.database, &newer.files);
            is_same && older.generation <= newer.generation
        });
        let are_whole = self.kept.iter().all(|kept| match kept {
            KeptState::Picture(picture) => picture.is_whole(),
            KeptState::Files(state) => {
                let alone = self.with_kept(state);
                alone.newest_files_state().is_some() && alone.is_whole()
            }
        });
        self.is_of_backup() && are_older && are_in_one_file && are_whole
    }

    /// True if `state` has no picture, and a manifest of database `of` with this state alone is valid (I2, L4, L6, K1).
    /// A shared manifest has such a state.
    pub(crate) fn is_whole_state(state: &FilesState, of: Identity, reserved: Epoch) -> bool {
        let nowhere = FolderId { inode: 0, born_nanos: None };
        let before = Self { state: Making::Created, reserved, ..Self::new(of, nowhere) };
        let alone = before.with_kept(state);
        alone.newest_files_state().is_some() && state.picture().is_none() && alone.is_whole()
    }
}
