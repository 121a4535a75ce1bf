//! Keeper of the manifest: the current manifest in memory, and its installation on disk. Only the keeper writes.
//!
//! Invariants: I1: a replacement remembers the databases whose files leave the list. L4, N23: a checkpoint's
//! installation drops closed generations only, and remembers them in the lineage.
//!
//! Neighbours: [`super::file`] replaces the file. Recovery, checkpoints, `epoch_renewal`, the shipper, the close of the
//! log and copies ask for replacements.

use std::collections::BTreeMap;
use std::sync::Arc;

use ensile_disk::{Disk, FolderId};

use super::contents::{Making, Manifest};
use super::file::NotReplaced;
use crate::DurabilityError;
use crate::files::manifest::archive_seal::ArchiveSeal;
use crate::files::manifest::creation_marker::UnfinishedCopy;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::manifest::types::StatedTypes;
use crate::identity::Identity;

/// The only writer of the manifest, with the current manifest in memory.
#[derive(Debug)]
pub(crate) struct ManifestKeeper {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
    /// Types of the entries that this life writes (I6).
    types: StatedTypes,
}

impl ManifestKeeper {
    /// Makes the keeper of `manifest`, the current manifest on this disk.
    pub(crate) fn new(disk: &Arc<dyn Disk>, manifest: Manifest) -> Self {
        Self { disk: Arc::clone(disk), manifest, types: StatedTypes::default() }
    }

    /// Sets the types of the entries that this life writes.
    pub(crate) fn with_types(self, types: StatedTypes) -> Self {
        Self { types, ..self }
    }

    /// Begins a new database, and writes its first manifest (I2). The manifest names the copy that is to be made in the
    /// folder, if `copy` has a value (N24).
    pub(crate) fn begin(disk: &Arc<dyn Disk>, copy: Option<UnfinishedCopy>) -> Result<Self, DurabilityError> {
        let manifest = Manifest::new(Identity::draw(), disk.folder_id("")?);
        let manifest = copy.map_or(manifest.clone(), |copy| manifest.for_copy(copy));
        manifest.write(&**disk)?;
        Ok(Self::new(disk, manifest))
    }

    /// Folders for the next manifest: claims add folders, an open and a repair take missing folders out.
    pub(crate) fn folders_mut(&mut self) -> &mut BTreeMap<String, FolderId> {
        &mut self.manifest.folders
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Replaces the manifest by `next`, on disk and here. The ancestors of `next` gain the databases whose files leave
    /// the list (I1).
    pub(crate) fn replace(&mut self, mut next: Manifest) -> Result<(), NotReplaced> {
        let before = &self.manifest;
        let is_created = before.state == Making::Created;
        debug_assert!(!is_created || next.state == Making::Created, "I2: a created database stays created");
        debug_assert!(
            !is_created || next.identity == before.identity || next.parent == Some(before.identity),
            "I1: only an adoption changes the identity"
        );
        next.remember_files_of(before);
        debug_assert!(
            !is_created || before.databases().is_subset(&next.databases()),
            "I1: the files that the list had stay known"
        );
        next.write(&*self.disk)?;
        self.manifest = next;
        Ok(())
    }

    /// Adds the seal of the durable archive to the next manifest (A2).
    pub(crate) fn remember(&mut self, archived: ArchiveSeal) {
        assert!(self.manifest.has_archive(), "A2: of the archive that it lists");
        debug_assert!(
            self.manifest.archived.is_none_or(|before| before.ended <= archived.ended),
            "A2: generations that have ended stay in the archive's list"
        );
        self.manifest.archived = Some(archived);
    }

    /// Removes the archive from the next manifest.
    pub(crate) fn end_archive(&mut self) {
        self.manifest.end_archive();
    }

    /// Installs a checkpoint of the open generation. Generations before the checkpoint leave the list.
    pub(crate) fn install(&mut self, checkpoint: InstalledCheckpoint) -> Result<(), NotReplaced> {
        let mut next = self.manifest.clone();
        let oldest = *checkpoint.generations().start();
        let left: Vec<_> = next.generations.extract_if(.., |listed| listed.number < oldest).collect();
        assert!(left.iter().all(|generation| generation.durable.is_some()), "L4: each has its D");
        next.lineage = self.manifest.lineage_with(left.iter());
        debug_assert!(left.iter().all(|one| next.lineage.newest() >= one.number), "N23: each is remembered");
        let before = self.manifest.checkpoint.as_ref().map_or(0, InstalledCheckpoint::number);
        debug_assert!(checkpoint.number() > before, "a later checkpoint has a larger number than {before}");
        next.checkpoint = Some(checkpoint);
        // I6: then no entry of an earlier life is left.
        if oldest == self.manifest.open_generation().number {
            next.types = self.types.at_checkpoint(&self.manifest.types);
        }
        self.replace(next)
    }
}
