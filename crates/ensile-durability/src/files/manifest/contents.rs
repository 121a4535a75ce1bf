//! Contents of a manifest: owner of the folder (I1), checkpoint, generations (N23), and older states of a backup.
//!
//! Neighbours: [`super::consistency`] judges the contents, and [`super::text_form`] has their text.

use std::collections::{BTreeMap, BTreeSet};

use ensile_base::Epoch;
use ensile_disk::{BootId, Disk, FolderId};

use crate::DurabilityError;
use crate::entry_type::EntryType;
use crate::files::manifest::application::ApplicationName;
use crate::files::manifest::archive_seal::ArchiveSeal;
use crate::files::manifest::backup_states::{FilesState, KeptState};
use crate::files::manifest::creation_marker::UnfinishedCopy;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::{InstalledCheckpoint, PictureCheckpoint};
use crate::files::manifest::lineage::Lineage;
use crate::files::manifest::origin::MadeFrom;
use crate::files::manifest::shipping_target::ShipsTo;
use crate::files::names::{ARCHIVE_FOLDER, MAIN, SegmentName};
use crate::identity::Identity;

/// Progress of the creation of the database (I2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    /// Folders and first files are still under creation. No transaction was ever committed.
    Creating,
    /// The database was open at least once.
    Created,
}

/// Owner of the folder, the installed checkpoint, and the counting generations, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) identity: Identity,
    /// Identity of the original, if this database is an adopted copy, a backup or a restored database.
    pub(crate) parent: Option<Identity>,
    /// Other databases with files that an earlier manifest listed (I1).
    pub(crate) ancestors: BTreeSet<Identity>,
    pub(crate) state: Making,
    /// Upper bound of shown epochs (L6): no epoch at or above `reserved` was ever shown.
    pub(crate) reserved: Epoch,
    /// Origin of the first state. `None` if the database's own transactions made the first state.
    pub(crate) made_from: Option<MadeFrom>,
    /// Copy under way while the database is in state `Creating` (N24). A take-over sets `ships_to` instead.
    pub(crate) unfinished: Option<UnfinishedCopy>,
    /// Inode and birth time of each folder, by name: the main folder (`.`), folders of logs and checkpointers, and the
    /// archive.
    pub(crate) folders: BTreeMap<String, FolderId>,
    /// Known state of the archive (A2): the archive's list must have at least these generations.
    pub(crate) archived: Option<ArchiveSeal>,
    /// Generations that have left the list (N23). A backup has the generations of the copied database here.
    pub(crate) lineage: Lineage,
    /// Boot in which the process-safe life of the open generation began (B4). `None` once the life is closed.
    pub(crate) mapped: Option<BootId>,
    /// Shared store that receives the finished files.
    pub(crate) ships_to: Option<ShipsTo>,
    /// Application that owns the folder, in the application's own words (I5).
    pub(crate) application: Option<ApplicationName>,
    /// Types of the entries, as far as programs have stated the types (I6).
    pub(crate) types: Vec<EntryType>,
    pub(crate) checkpoint: Option<InstalledCheckpoint>,
    /// Older states of a backup, newest first.
    pub(crate) kept: Vec<KeptState>,
    pub(crate) generations: Vec<Generation>,
}

impl Manifest {
    /// Manifest of a database whose creation begins in the folder `main`.
    pub(crate) fn new(identity: Identity, main: FolderId) -> Self {
        Self {
            identity,
            parent: None,
            ancestors: BTreeSet::new(),
            state: Making::Creating,
            reserved: Epoch::FIRST,
            made_from: None,
            unfinished: None,
            folders: [(MAIN.to_owned(), main)].into(),
            archived: None,
            lineage: Lineage::default(),
            mapped: None,
            ships_to: None,
            application: None,
            types: Vec::new(),
            checkpoint: None,
            kept: Vec::new(),
            generations: Vec::new(),
        }
    }

    /// The open generation of a running database.
    pub(crate) fn open_generation(&self) -> &Generation {
        let open = self.generations.last().expect("a database that runs has an open generation");
        assert_eq!(open.durable, None, "the last generation is the open one");
        open
    }

    /// Inode and birth time of the main folder.
    pub(crate) fn main(&self) -> FolderId {
        self.folders[MAIN]
    }

    /// True if closed log files go into an archive.
    pub(crate) fn has_archive(&self) -> bool {
        self.folders.contains_key(ARCHIVE_FOLDER)
    }

    /// Removes the archive from the manifest: an open may give the archive up, and an adoption and a repair do.
    pub(crate) fn end_archive(&mut self) {
        self.folders.remove(ARCHIVE_FOLDER);
        self.archived = None;
    }

    /// Copy that is being made in the folder of this manifest; `None` without a copy, or after its end (N24).
    pub(crate) fn unfinished_copy(&self) -> Option<UnfinishedCopy> {
        if self.state == Making::Created {
            return None;
        }
        let taken_over = self.ships_to.map(|ships_to| UnfinishedCopy::TakeOver { from: ships_to.store });
        self.unfinished.or(taken_over)
    }

    /// Adds the marker of `copy` to the first manifest of a folder (N24).
    #[must_use]
    pub(crate) fn for_copy(self, copy: UnfinishedCopy) -> Self {
        assert_eq!(self.state, Making::Creating, "N24: nothing counts in it yet");
        let begun = match copy {
            UnfinishedCopy::TakeOver { from } => {
                Self { ships_to: Some(ShipsTo { store: from, is_fenced: false }), ..self }
            }
            UnfinishedCopy::Backup { .. } | UnfinishedCopy::Restore { .. } => {
                Self { unfinished: Some(copy), ..self }
            }
        };
        debug_assert_eq!(begun.unfinished_copy(), Some(copy), "N24: the manifest names the copy");
        begun
    }

    /// Checks that the folder has no unfinished copy (N24).
    pub(crate) fn check_no_copy(&self, disk: &dyn Disk) -> Result<(), DurabilityError> {
        self.unfinished_copy().map_or(Ok(()), |unfinished| Err(unfinished.into_error(disk)?))
    }

    pub(crate) fn lists(&self, generation: u64) -> bool {
        self.generations.iter().any(|listed| listed.number == generation)
    }

    /// Number of bytes of the log file `name` that count (N21). `None` if no listed log has the file.
    pub(crate) fn log_bytes(&self, name: SegmentName) -> Option<u64> {
        let listed = self.generations.iter().find(|listed| listed.number == name.generation)?;
        let bytes = listed.log_bytes(name);
        debug_assert_eq!(bytes == 0, self.is_outside(name), "N21: {name} counts, or is outside");
        (name.logger < listed.logs && bytes > 0).then_some(bytes)
    }

    /// True if the log file belongs to a listed generation, and lies outside the copied span of its log (N21).
    pub(crate) fn is_outside(&self, name: SegmentName) -> bool {
        let mut listed = self.generations.iter().filter(|listed| listed.number == name.generation);
        listed.any(|listed| listed.log_bytes(name) == 0)
    }

    /// True if the folder is a backup that was never opened.
    pub(crate) fn is_of_backup(&self) -> bool {
        matches!(self.made_from, Some(MadeFrom::Backup { .. }))
    }

    /// Listed and remembered generations of the database. A backup returns the generations of the copied database,
    /// because a backup's own generations describe only the folder (N23).
    pub(crate) fn lives(&self) -> Lineage {
        let mut lives = self.lineage.clone();
        if !self.is_of_backup() {
            lives.add(self.generations.iter());
        }
        debug_assert!(lives.newest() >= self.lineage.newest(), "N23: no generation is forgotten");
        lives
    }

    /// Lineage of the next manifest, after the generations `left` have left the list (N23). The lineage of a backup
    /// does not change: a leaving generation describes only the folder, or is in the lineage already.
    #[must_use]
    pub(crate) fn lineage_with<'g>(&self, left: impl Iterator<Item = &'g Generation>) -> Lineage {
        let mut lineage = self.lineage.clone();
        if !self.is_of_backup() {
            lineage.add(left);
        }
        debug_assert!(lineage.newest() >= self.lineage.newest(), "N23: no generation is forgotten");
        lineage
    }

    /// The newest state of this manifest, if the state has files. The caller checks that the manifest is a backup's.
    pub(crate) fn newest_files_state(&self) -> Option<FilesState> {
        let Self { checkpoint, generations, .. } = self;
        let has_open_log = generations.last().is_none_or(|open| open.logs > 0);
        let is_picture_alone = checkpoint.as_ref().is_some_and(InstalledCheckpoint::is_picture)
            && generations.iter().all(|generation| generation.logs == 0);
        (!has_open_log && !is_picture_alone)
            .then(|| FilesState { checkpoint: checkpoint.clone(), generations: generations.clone() })
    }

    /// The newest state of a backup with this manifest. `None` if the manifest has no picture, and the database is
    /// under creation or has an open log.
    pub(crate) fn newest_state(&self) -> Option<KeptState> {
        match (self.newest_files_state(), &self.checkpoint) {
            (Some(state), _) => Some(KeptState::Files(state)),
            (None, Some(InstalledCheckpoint::Picture(picture))) => Some(KeptState::Picture(picture.clone())),
            (None, _) => None,
        }
    }

    /// Manifest of this backup as if it had the older state `state` alone: for a restore, an examination or a clean-up.
    /// The ancestors include the databases of the other states' files (I1).
    pub(crate) fn with_kept(&self, state: &FilesState) -> Self {
        let lineage = self.lineage.clone().truncate_at(state.generation(), state.epoch());
        let FilesState { checkpoint, generations } = state.clone();
        let mut alone = Self { lineage, checkpoint, generations, kept: Vec::new(), ..self.clone() };
        alone.remember_files_of(self);
        debug_assert!(
            self.state != Making::Created || self.databases().is_subset(&alone.databases()),
            "I1: the files of the other states stay known"
        );
        alone
    }

    /// Older states of files: checkpoint, or picture, with a log.
    pub(crate) fn kept_files(&self) -> impl Iterator<Item = &FilesState> {
        self.kept.iter().filter_map(KeptState::files)
    }

    /// Pictures of the older states, with or without a log.
    pub(crate) fn kept_pictures(&self) -> impl Iterator<Item = &PictureCheckpoint> {
        self.kept.iter().filter_map(KeptState::picture)
    }

    /// Databases whose files may be in the folder: this database, and the databases from which the folder was copied.
    pub(crate) fn databases(&self) -> BTreeSet<Identity> {
        let kept = || self.kept_files();
        let generations = self.generations.iter().chain(kept().flat_map(|state| &state.generations));
        let checkpoints = self.checkpoint.iter().chain(kept().flat_map(|state| &state.checkpoint));
        let listed = generations.map(|generation| generation.database);
        let listed = listed.chain(checkpoints.flat_map(InstalledCheckpoint::databases));
        let listed = listed.chain(self.kept_pictures().map(|picture| picture.database));
        listed.chain([self.identity]).chain(self.parent).chain(self.ancestors.iter().copied()).collect()
    }

    /// Adds the databases of `before` to the ancestors. Files that leave the list are removed only after this manifest
    /// (I1).
    pub(crate) fn remember_files_of(&mut self, before: &Self) {
        if before.state == Making::Created {
            let known = self.databases();
            self.ancestors.extend(before.databases().difference(&known));
            debug_assert!(before.databases().is_subset(&self.databases()), "I1: files of {before:?} stay");
        }
    }

    /// Checks that a file of the database `found` may be removed or read here (I1). The file may be older than the
    /// adoption of this copy.
    pub(crate) fn check_ours(&self, file: &str, found: Identity) -> Result<(), DurabilityError> {
        if self.databases().contains(&found) {
            return Ok(());
        }
        Err(DurabilityError::not_ours(file, found, self.identity))
    }
}
