//! Target folder of a copy: its present pictures and files, and the manifest that makes the copy count.
//!
//! Invariants:
//! - I1: a copy changes no folder but an empty one, or a backup of the same database that was never opened.
//! - N23: the source has had the generation of the target's newest state, and it ended no earlier than the state.
//! - N12: no unit of a page file that a picture of the manifest reaches is free, and no file of a state is removed.
//! - N16, N24: no process leases the target during the copy. Until a first copy counts, the manifest names the copy.
//!
//! Neighbours: [`super::pages`] and [`super::files`] write, and `shipping::take_over` begins its folder here; the store
//! has locks, marks and the manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_disk::{Disk, DiskLock};

use super::source::{DatabaseHistory, PictureSource, Purpose};
use crate::DurabilityError;
use crate::checkpoint::orphans;
use crate::files::block::extent::Extent;
use crate::files::block::origin::Origin;
use crate::files::block::{FORMAT, Salt};
use crate::files::manifest::backup_states::KeptState;
use crate::files::manifest::creation_marker::UnfinishedCopy;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::{InstalledCheckpoint, PictureCheckpoint};
use crate::files::manifest::origin::MadeFrom;
use crate::files::manifest::{Making, Manifest};
use crate::files::names::{
    MAIN, PageFileName, PartName, checkpoint_folder, checkpointer_of, log_folder, logger_of,
};
use crate::files::picture::directory::DirectoryPart;
use crate::files::picture::file::PageFile;
use crate::files::picture::page::PagePlace;
use crate::files::picture::reader::PictureReader;
use crate::identity::Identity;
use crate::number;
use crate::recovery::copied_logs::remove_unneeded;
use crate::store::claim::{Wanted, claim};
use crate::store::open::Store;
use crate::store::{Opening, leases};

/// Unique name of a page's contents: page number and checkpoint number. No two pages ever share a page number, and no
/// two pictures a checkpoint number.
pub(super) type PageName = (u64, u64);

/// A picture of the target.
#[derive(Debug)]
pub(super) struct TargetPicture {
    pub(super) picture: PictureCheckpoint,
    /// Directory of the picture, each part with its place.
    pub(super) parts: Vec<DirectoryPart>,
    /// Extents that the root reaches, and the extent of the root.
    pub(super) reached: BTreeSet<Extent>,
}

/// A locked folder that may get the copy.
#[derive(Debug)]
pub(crate) struct TargetFolder {
    pub(crate) store: Store,
    _leases: Box<dyn DiskLock>,
}

/// A target folder with a page file.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) folder: TargetFolder,
    pub(super) file: Arc<PageFile>,
    /// Database identity that the page file carries.
    database: Identity,
    /// Pictures in the page file, the newest first.
    pub(super) pictures: Vec<TargetPicture>,
    /// Pages of all pictures.
    pub(super) pages: BTreeMap<PageName, PagePlace>,
}

/// An error in the target.
pub(super) fn target_error(disk: &dyn Disk, error: impl std::fmt::Display) -> DurabilityError {
    DurabilityError::target_failed(disk, error)
}

impl TargetFolder {
    /// Locks the folder. Checks that the folder may get a copy of the database `of`.
    pub(super) fn open(
        disk: &Arc<dyn Disk>,
        of: DatabaseHistory<'_>,
        purpose: Purpose,
    ) -> Result<Self, DurabilityError> {
        let (opening, copy) = match purpose {
            Purpose::Backup { .. } => (Opening::OpenOrCreate, UnfinishedCopy::Backup { of: of.identity }),
            Purpose::Restore { .. } => (Opening::New, UnfinishedCopy::Restore { of: of.identity }),
        };
        let folder = Self::open_locked(disk, opening, copy)?;
        check(&**disk, folder.manifest(), of)?;
        Ok(folder)
    }

    /// Locks a folder that is empty, or that an earlier, unfinished run of the same copy left. A take-over begins with
    /// this call.
    pub(crate) fn open_empty(disk: &Arc<dyn Disk>, copy: UnfinishedCopy) -> Result<Self, DurabilityError> {
        Self::open_locked(disk, Opening::New, copy)
    }

    /// Opens and locks the folder. Also keeps readers from leasing the folder during the copy (N16).
    fn open_locked(
        disk: &Arc<dyn Disk>,
        opening: Opening,
        copy: UnfinishedCopy,
    ) -> Result<Self, DurabilityError> {
        let store = Store::open_for_copy(Arc::clone(disk), opening, copy)?;
        let Some(leases) = leases::try_lock(&**disk)? else {
            return Err(DurabilityError::InUse { path: disk.folder_place("")?.join("LEASES") });
        };
        Ok(Self { store, _leases: leases })
    }

    /// Claims folders for this many logs, and for this many checkpointers, if given.
    fn claim(&mut self, logs: usize, checkpoints: Option<usize>) -> Result<(), DurabilityError> {
        let checkpoints = checkpoints.map(|count| Wanted { count, links: &[], name: checkpoint_folder });
        let mut wanted = vec![Wanted { count: logs, links: &[], name: log_folder }];
        wanted.extend(checkpoints);
        let (locks, _) = claim(&mut self.store.keeper, &wanted)?;
        self.store.locks.extend(locks);
        Ok(())
    }

    /// Claims folders for this many logs and checkpointers in a target without a state. Removes the files that killed
    /// runs left in any folder of the target: a left log file would count as a file of this copy.
    pub(crate) fn claim_empty(&mut self, logs: usize, checkpoints: usize) -> Result<(), DurabilityError> {
        assert_eq!(self.manifest().state, Making::Creating, "I2: nothing in it counts");
        let there = self.disk().list_folders("")?;
        let all = |wanted: usize, number: fn(&str) -> Option<u32>| {
            let last = there.iter().filter_map(|folder| number(folder)).max();
            wanted.max(last.map_or(0, |last| last as usize + 1))
        };
        self.claim_more(all(logs, logger_of), all(checkpoints, checkpointer_of))?;
        for folder in self.manifest().folders.keys().filter(|folder| *folder != MAIN) {
            let is_left = |file: &String| file.starts_with("log-") || file.starts_with("ckpt-");
            for file in self.disk().list(folder)?.iter().filter(|file| is_left(file)) {
                self.disk().remove(&format!("{folder}/{file}"))?;
            }
            self.disk().sync_folder(folder)?;
        }
        Ok(())
    }

    /// Claims more folders for logs and checkpointers in a target without a state.
    pub(crate) fn claim_more(&mut self, logs: usize, checkpoints: usize) -> Result<(), DurabilityError> {
        assert_eq!(self.manifest().state, Making::Creating, "I2: nothing in it counts");
        self.claim(logs, Some(checkpoints))
    }

    /// Claims the folders of this many logs; other folders stay.
    pub(super) fn claim_logs(&mut self, logs: usize) -> Result<(), DurabilityError> {
        self.claim(logs, None).map_err(|error| target_error(self.disk(), error))
    }

    /// Claims folders in a backup, and keeps its states. Removes the files that no state has: killed runs left the
    /// files, or ended before their removal.
    ///
    /// The claim makes the present manifest durable (N12). A killed run may have left the manifest's name in the cache
    /// alone. After the claim, files and units of the previous manifest are removed or overwritten, so the previous
    /// manifest must not return.
    pub(super) fn claim_backup(&mut self, logs: usize, checkpoints: usize) -> Result<(), DurabilityError> {
        assert_eq!(self.manifest().state, Making::Created, "it has a state");
        self.claim(logs, Some(checkpoints))?;
        self.remove_unnamed()
    }

    /// Removes the files that no state of the manifest has. The manifest must be durable.
    pub(super) fn remove_unnamed(&self) -> Result<(), DurabilityError> {
        let (disk, manifest) = (self.disk(), self.manifest());
        remove_unneeded(disk, manifest)?;
        orphans::remove(disk, manifest, |_: PartName| true)?;
        orphans::remove(disk, manifest, |_: PageFileName| true).map(drop)
    }

    /// States of the target, the newest first.
    fn states(&self) -> Vec<KeptState> {
        let newest = Some(self.manifest()).filter(|manifest| manifest.state == Making::Created);
        let newest = newest.and_then(Manifest::newest_state);
        newest.into_iter().chain(self.manifest().kept.iter().cloned()).collect()
    }

    /// Older states that stay beside a state of this epoch, for `keep` states in total; `None` keeps the present
    /// number.
    pub(super) fn states_to_keep(&self, epoch: Epoch, keep: Option<usize>) -> Vec<KeptState> {
        let states = self.states();
        let keep = keep.unwrap_or(states.len().max(1));
        assert!(keep > 0, "the newest one is kept");
        let kept: Vec<KeptState> =
            states.into_iter().filter(|older| older.epoch() < epoch).take(keep - 1).collect();
        debug_assert!(
            kept.is_sorted_by(|newer, older| newer.epoch() > older.epoch()),
            "N16: the newest state first"
        );
        kept
    }

    /// Epochs of the target's states that are not in `epochs`.
    pub(super) fn epochs_to_drop(&self, epochs: &[Epoch]) -> Vec<Epoch> {
        let states = self.states();
        states.iter().map(KeptState::epoch).filter(|epoch| !epochs.contains(epoch)).collect()
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.store.disk
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        self.store.keeper.manifest()
    }

    /// Replaces the manifest, as the last step. From then on the copy counts.
    pub(crate) fn replace(&mut self, next: Manifest) -> Result<(), DurabilityError> {
        assert_eq!(next.identity, self.manifest().identity, "I1");
        let replaced = self.store.keeper.replace(next);
        replaced.map_err(|error| target_error(self.disk(), DurabilityError::from(error)))
    }
}

/// Checks that a folder with this manifest may get a copy of the database `of`.
fn check(disk: &dyn Disk, manifest: &Manifest, of: DatabaseHistory<'_>) -> Result<(), DurabilityError> {
    let DatabaseHistory { identity, lives } = of;
    let detail = match (manifest.state, manifest.made_from) {
        (Making::Creating, _) => return Ok(()),
        (Making::Created, Some(MadeFrom::Backup { of: found })) if found == identity => {
            match (manifest.newest_state(), lives.check_continues(&manifest.lineage)) {
                (Some(_), Ok(())) => return Ok(()),
                // N23: larger numbers and epochs alone prove nothing, because another history may have them too.
                (Some(newest), Err(why)) => {
                    format!("its newest state, of epoch {}, is of {why}", newest.epoch())
                }
                (None, _) => {
                    "a version before this one made it, and nothing is added to it: give an empty folder"
                        .to_owned()
                }
            }
        }
        (Making::Created, Some(MadeFrom::Backup { of: found })) => {
            format!("it is a backup of another database ({found}, and this one is {identity})")
        }
        (Making::Created, Some(MadeFrom::Restored { .. })) if manifest.parent == Some(identity) => {
            "it was a backup of it and has been opened since, so it is a database of its own".to_owned()
        }
        (Making::Created, _) => "it is a database of its own".to_owned(),
    };
    Err(DurabilityError::NotItsBackup { folder: disk.folder_place("")?, detail })
}

impl Target {
    /// Opens a target for the pages of this picture. An empty folder also gets this many logs.
    pub(super) fn open(
        disk: &Arc<dyn Disk>,
        source: &PictureSource,
        purpose: Purpose,
        logs: usize,
    ) -> Result<Self, DurabilityError> {
        let (generation, entries) = (source.picture.generation, source.entries);
        let mut folder = TargetFolder::open(disk, source.history(), purpose)?;
        match folder.manifest().state {
            Making::Creating => folder.claim_empty(logs, 1)?,
            Making::Created => folder.claim_backup(0, 1)?,
        }
        let pictures = pictures_of(&folder)?;
        let (name, listed) = (&folder.store.disk, pictures.first().map(|newest| &newest.picture));
        let before = orphans::list::<PageFileName>(&**name, folder.manifest())?;
        if folder.manifest().state == Making::Creating {
            // Killed runs left these page files, which no manifest reaches.
            orphans::remove(&**name, folder.manifest(), |_: PageFileName| true)?;
        }
        let (file, database) = match listed {
            Some(PictureCheckpoint { files, database, .. }) => {
                let reached: BTreeSet<Extent> =
                    pictures.iter().flat_map(|picture| &picture.reached).copied().collect();
                let file = PageFile::reopen(folder.disk(), files[0], reached.into_iter().collect());
                (file.map_err(|error| target_error(folder.disk(), error))?, *database)
            }
            None => {
                let last = before.iter().map(|file| file.number).max().unwrap_or(0);
                let number = number::next(last)
                    .ok_or_else(|| target_error(folder.disk(), "no number is left for a page file"))?;
                let identity = folder.manifest().identity;
                let origin = Origin { identity, salt: Salt::draw(&mut Random::unpredictable()), entries };
                let name = PageFileName { folder: 0, number };
                let file = PageFile::create(folder.disk(), name, &origin, generation);
                (file.map_err(|error| target_error(folder.disk(), error))?, identity)
            }
        };
        let mut pages = BTreeMap::new();
        for part in pictures.iter().flat_map(|picture| &picture.parts) {
            for page in &part.pages {
                pages.entry((page.number, page.checkpoint)).or_insert_with(|| page.clone());
            }
        }
        Ok(Self { folder, file: Arc::new(file), database, pictures, pages })
    }

    /// The copied picture as the manifest names it: with the target's database and page file.
    pub(super) fn picture(&self, of: PictureCheckpoint) -> PictureCheckpoint {
        PictureCheckpoint { database: self.database, files: vec![self.file.manifest_entry()], ..of }
    }

    /// Manifest of the folder with `picture` as newest state, and with the older states `kept`.
    pub(super) fn next_manifest(
        &self,
        picture: PictureCheckpoint,
        kept: Vec<KeptState>,
        source: &PictureSource,
        purpose: Purpose,
    ) -> Manifest {
        let (of, entries) = (&source.manifest, source.entries);
        let before = self.folder.manifest();
        // N23: a restored database takes the picture's generation number for a generation of its own. The lineage ends
        // before the number.
        let (made_from, last) = match purpose {
            Purpose::Backup { .. } => (MadeFrom::Backup { of: of.identity }, picture.generation),
            Purpose::Restore { .. } => {
                (MadeFrom::Restored { epoch: picture.epoch }, picture.generation.saturating_sub(1))
            }
        };
        let generation = Generation {
            number: picture.generation,
            first: picture.epoch.next(),
            format: FORMAT,
            entries,
            logs: 0,
            salt: Salt::draw(&mut Random::unpredictable()),
            database: before.identity,
            durable: None,
            spans: Vec::new(),
        };
        Manifest {
            parent: before.parent.or(Some(of.identity)),
            state: Making::Created,
            reserved: before.reserved.max(of.reserved),
            lineage: source.lives.clone().truncate_at(last, picture.epoch),
            made_from: Some(made_from),
            checkpoint: Some(InstalledCheckpoint::Picture(picture)),
            kept,
            generations: vec![generation],
            unfinished: None,
            application: of.application.clone(),
            types: of.types.clone(),
            ..before.clone()
        }
    }
}

/// Pictures in the folder's manifest, with their directories.
fn pictures_of(folder: &TargetFolder) -> Result<Vec<TargetPicture>, DurabilityError> {
    let manifest = folder.manifest();
    let newest = match &manifest.checkpoint {
        Some(InstalledCheckpoint::Picture(newest)) => Some(newest),
        _ => None,
    };
    let all = newest.into_iter().chain(manifest.kept_pictures());
    let read = all.map(|picture| TargetPicture::read(folder.disk(), picture));
    read.collect::<Result<_, _>>().map_err(|error| target_error(folder.disk(), error))
}

impl TargetPicture {
    /// Reads the root and the directory of this picture.
    fn read(disk: &dyn Disk, picture: &PictureCheckpoint) -> Result<Self, DurabilityError> {
        let reader = PictureReader::open(disk, picture)?;
        let places = reader.root().parts.iter().cloned();
        let parts: Vec<DirectoryPart> = places
            .zip(reader.directory()?)
            .map(|(place, pages)| DirectoryPart { pages, place: Some(place) })
            .collect();
        let pages = parts.iter().flat_map(|part| &part.pages).flat_map(|page| &page.extents);
        let removes = reader.root().removes.iter().map(|removes| &removes.place);
        let directory = reader.root().parts.iter().map(|part| &part.place);
        let places = pages.chain(removes).chain(directory).map(|place| place.extent);
        let reached = places.chain([picture.root.extent]).collect();
        Ok(Self { picture: picture.clone(), parts, reached })
    }
}
