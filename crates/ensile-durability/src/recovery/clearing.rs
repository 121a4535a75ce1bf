//! What a recovery removes and cuts: files behind the ends of logs, torn tails, generations that leave the list.
//!
//! Invariants:
//! - Files of a listed log go one by one, each for good before the next: a crash leaves no gap.
//! - A crash in between leaves the remainder to the next recovery.
//! - A1, A3: what is to be archived goes once it is, and its generation leaves the list once the archive says where it
//!   ended. What cannot be archived stays, and the running database tries again. What is damaged stays, and is
//!   reported.
//! - L4: a repair's files show which epochs were used. They stay until the manifest says so.
//!
//! Neighbours: `finish` calls behind the manifest, and before it where a full disk needs the space; `unlisted` judges
//! the files that no manifest lists.

use std::collections::BTreeSet;

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError};

use super::chain::Chain;
use super::plan::Plan;
use super::replaying::Recovery;
use super::unlisted::{UnlistedFile, UnlistedFiles};
use crate::DurabilityError;
use crate::block::origin::OPENING_BYTES;
use crate::checkpoint::leftovers;
use crate::error::{unless_full, unless_missing};
use crate::store::archive::Archive;
use crate::store::closed_files::ClosedFile;
use crate::store::installed::InstalledCheckpoint;
use crate::store::manifest::Manifest;
use crate::store::names::{PageFileName, PartName, SegmentFile, SegmentName, log_folder};
use crate::store::whose::proves_ours;

impl Recovery {
    /// Removes files of logs that no manifest lists: perhaps what a merge left that had not ended, and another merge
    /// may need its name. Those in a folder that is not listed stay (I1).
    ///
    /// A checkpoint may have taken them off the list and not have removed them yet: those that the archive lacks and
    /// cannot take now are added to `waiting`; one that is damaged stays, and is reported (A1).
    pub(super) fn remove_unlisted(&mut self, waiting: &mut Vec<ClosedFile>) -> Result<(), DurabilityError> {
        if !self.judged.unlisted.is_empty() || !self.judged.left.is_empty() {
            // The manifest that does not list them may be a rename that only the system's cache has.
            self.disk.sync_folder("")?;
        }
        // Before this life makes files, as some of them may have their names.
        remove_ours((&*self.disk, self.keeper.manifest()), &self.judged.left)?;
        let manifest = self.keeper.manifest();
        let is_listed = |file: &SegmentFile| {
            let SegmentName { generation, logger, .. } = file.name;
            let mut listed = manifest.generations.iter();
            listed.any(|listed| listed.number == generation && logger < listed.logs)
        };
        assert!(!self.judged.unlisted.iter().any(is_listed), "L4: no file of a listed log goes");
        let is_in_listed = |file: &&SegmentFile| manifest.folders.contains_key(&log_folder(file.name.logger));
        let mut staying = Vec::new();
        for file in self.judged.unlisted.iter().filter(is_in_listed) {
            match self.unlisted(*file)? {
                UnlistedFile::Needless => self.disk.remove(&file.to_string())?,
                UnlistedFile::Whole(closed) => match self.archived(&closed) {
                    Ok(()) => self.disk.remove(&file.to_string())?,
                    Err(why @ DurabilityError::Damaged { .. }) => staying.push(why),
                    // It is tried again.
                    Err(_) => waiting.push(closed),
                },
                UnlistedFile::Stays(why) => staying.push(why),
            }
        }
        for file in &self.judged.not_removable {
            if let UnlistedFile::Stays(why) = self.unlisted(*file)? {
                staying.push(why);
            }
        }
        assert!(self.archive.is_some() || staying.is_empty(), "without an archive nothing waits for it");
        if let Some(archive) = &self.archive {
            archive.lacks(&staying);
        }
        self.report.not_archived = staying.iter().map(DurabilityError::to_string).collect();
        Ok(())
    }

    /// What becomes of an unlisted file.
    fn unlisted(&self, file: SegmentFile) -> Result<UnlistedFile, DurabilityError> {
        let mut listed = self.keeper.manifest().generations.iter();
        // No manifest has listed it: what it was made of is listed, and its name may be needed.
        let is_unfinished = file.is_merged && listed.all(|listed| listed.number < file.name.generation);
        let Some(archive) = self.archive.as_ref().filter(|_| !is_unfinished) else {
            return Ok(UnlistedFile::Needless);
        };
        let files = self.judged.unlisted.iter().chain(&self.judged.not_removable).copied().collect();
        UnlistedFiles { disk: &*self.disk, archive, files }.judge(file)
    }

    /// Has the archive say where each generation ended, before one of them leaves the manifest's list (A3). If it
    /// cannot, they all stay.
    pub(super) fn note_in_archive(&self, plan: &mut Plan) {
        let Some(archive) = &self.archive else { return };
        let chains = || self.judged.closed_chains.iter().chain(&self.judged.open_chains);
        let is_empty = |number| chains().filter(|chain| chain.generation == number).all(Chain::is_empty);
        let decided = plan.decided();
        assert!(plan.merging().is_empty() || decided.len() > 1, "there is something to merge");
        // An archive is begun once the manifest lists its folder.
        let is_noted = self.is_archive_listed
            && archive.note_decided(self.keeper.manifest(), &decided, is_empty).is_ok();
        if !is_noted {
            plan.keep_all();
        }
    }

    /// Archives a file, if there is an archive and it is not in it.
    fn archived(&self, closed: &ClosedFile) -> Result<(), DurabilityError> {
        self.archive.as_ref().map_or(Ok(()), |archive| archive.keep(closed).map(drop))
    }

    /// Removes what the manifest does not need any more: files behind the ends of the logs that have just been closed,
    /// their torn tails and unused space, the files of dropped generations. A crash here leaves it to the next
    /// recovery. Returns what stays.
    pub(super) fn clear(&self, plan: &Plan) -> Result<Vec<ClosedFile>, DurabilityError> {
        self.judged.given_up.iter().try_for_each(|file| self.disk.remove(&file.to_string()))?;
        let folders: BTreeSet<u32> = self.judged.given_up.iter().map(|file| file.name.logger).collect();
        folders.into_iter().try_for_each(|logger| self.disk.sync_folder(&log_folder(logger)))?;
        remove_ours((&*self.disk, self.keeper.manifest()), &self.judged.older)?;
        self.judged.cuts.iter().try_for_each(|(file, end)| self.cut_file(&file.to_string(), *end))?;
        let (mut kept, mut changed) = (Vec::new(), BTreeSet::new());
        for chain in self.judged.closed_chains.iter().chain(&self.judged.open_chains) {
            let folder = log_folder(chain.logger);
            self.remove_unread(chain)?;
            let is_dropped = plan.drops(chain.generation);
            let is_listed = self.keeper.manifest().lists(chain.generation);
            assert_eq!(is_listed, !is_dropped, "L4: the manifest says what counts before anything goes");
            let removed = if is_dropped { &chain.links[..] } else { &[] };
            for (link, closed) in removed.iter().zip(chain.closed_files()) {
                // An empty generation is not in the archive's list.
                if self.archived(&closed).is_ok() {
                    self.disk.remove(&link.file.to_string())?;
                } else {
                    kept.push(closed);
                }
            }
            if !(chain.discarded.is_empty() && removed.is_empty()) {
                changed.insert(folder);
            }
            if !is_dropped {
                self.cut_tail(chain)?;
                kept.extend(chain.closed_files());
            }
        }
        changed.iter().try_for_each(|folder| self.disk.sync_folder(folder))?;
        Ok(kept)
    }

    /// Removes the files of a closed generation's log that recovery does not read. One that is gone was removed before.
    fn remove_unread(&self, chain: &Chain) -> Result<(), DiskError> {
        let remove = |file: &SegmentFile| unless_missing(self.disk.remove(&file.to_string())).map(drop);
        assert!(
            chain.beyond.windows(2).all(|pair| pair[0].name < pair[1].name),
            "in the order of their numbers"
        );
        // The last one first, each for good before the next: a crash must not leave a gap in a listed log.
        for file in chain.beyond.iter().rev() {
            remove(file)?;
            self.disk.sync_folder(&log_folder(chain.logger))?;
        }
        chain.discarded.iter().try_for_each(remove)
    }

    /// Gives back what stands behind the end of a chain, and behind the blocks of the files before that: a file is cut
    /// when the next one is begun, and the cut is not synced. A disk that has no space even for that keeps it: it says
    /// nothing.
    fn cut_tail(&self, chain: &Chain) -> Result<(), DiskError> {
        let ends = chain.links.iter().map(|link| (link.file.to_string(), link.end));
        for (name, end) in ends.chain([(chain.end_file(), chain.end.offset)]) {
            unless_full(self.cut_file(&name, end))?;
        }
        Ok(())
    }

    fn cut_file(&self, name: &str, end: u64) -> Result<(), DiskError> {
        assert!(end >= OPENING_BYTES as u64, "the opening block of {name} stays");
        let file = self.disk.open(name)?;
        if file.len()? > end {
            file.set_len(end)?;
            file.sync_all()?;
        }
        Ok(())
    }

    /// Removes the files of checkpoints that are not the installed one.
    pub(super) fn remove_other_parts(&self) -> Result<(), DurabilityError> {
        let installed = self.load.checkpoint().map(InstalledCheckpoint::number);
        let listed = self.keeper.manifest().checkpoint.as_ref().map(InstalledCheckpoint::number);
        assert_eq!(installed, listed, "K1: the manifest names what was loaded");
        leftovers::remove(&*self.disk, self.keeper.manifest(), |_: PartName| true)?;
        leftovers::remove(&*self.disk, self.keeper.manifest(), |_: PageFileName| true).map(drop)
    }

    /// Cuts page files behind the last block of the installed picture: what an attempt has left there that did not end,
    /// or a picture before. No reader holds a lease of that (I3). A disk that has no space even for that keeps it.
    pub(super) fn cut_page_files(&self) -> Result<(), DiskError> {
        let Some(reader) = self.load.picture() else { return Ok(()) };
        assert_eq!(self.load.unloaded(), 0, "N12: all that the picture reaches was read");
        let own = self.keeper.manifest().identity;
        let is_own = self.load.checkpoint().is_some_and(|checkpoint| checkpoint.databases() == [own]);
        let mut ends = reader.ends().filter(|_| is_own);
        ends.try_for_each(|(name, end)| unless_full(self.cut_file(name, end)).map(drop))
    }

    /// Frees what the manifest that was read does not need, and the torn tails of the logs that it lists as open.
    ///
    /// A torn tail may go: nothing in it was durable, and its bytes never come back. It stays where a file stands
    /// behind it, as that file shows that it was closed (L4, L5). Page files are cut if no reader holds a lease (I3).
    pub(super) fn free_unneeded(&mut self, may_cut_pages: bool) -> Result<(), DiskError> {
        // The manifest that was read may be a rename that only the system's cache has.
        self.disk.sync_folder("")?;
        // What cannot be removed, or is not ours, is reported by the same call behind the manifest.
        let _ = self.remove_other_parts();
        if may_cut_pages {
            self.cut_page_files()?;
        }
        if !self.judged.given_up.is_empty() || !self.judged.cuts.is_empty() {
            // A repair's files show which epochs were used, until its manifest does (L4).
            return Ok(());
        }
        for chain in &self.judged.closed_chains {
            self.remove_unread(chain)?;
            self.cut_tail(chain)?;
            self.disk.sync_folder(&log_folder(chain.logger))?;
        }
        for chain in self.judged.open_chains.iter().filter(|chain| chain.beyond.is_empty()) {
            self.cut_tail(chain)?;
        }
        let (disk, covered) = (&*self.disk, self.load.low());
        let archive = self.archive.as_ref();
        let mut chains = self.judged.closed_chains.iter_mut().chain(&mut self.judged.open_chains);
        chains.try_for_each(|chain| free_covered((disk, archive), chain, covered))
    }
}

/// Removes log files that no state needs and that prove to be this database's (I1), and makes that durable. One that is
/// gone was removed before.
///
/// # Errors
/// The disk's.
pub(crate) fn remove_ours(
    (disk, manifest): (&dyn Disk, &Manifest),
    files: &[SegmentFile],
) -> Result<(), DurabilityError> {
    let mut folders = BTreeSet::new();
    for file in files {
        let name = file.to_string();
        let is_ours = match proves_ours(disk, manifest, &name) {
            Err(DurabilityError::Disk(error)) if error.is_not_found() => false,
            // A copier wrote it for a state that never counted.
            Err(DurabilityError::NotOurs { .. } | DurabilityError::Unknown { .. }) => false,
            is_ours => is_ours?,
        };
        if is_ours {
            disk.remove(&name)?;
            folders.insert(file.name.logger);
        }
    }
    Ok(folders.into_iter().try_for_each(|logger| disk.sync_folder(&log_folder(logger)))?)
}

/// Removes files at the beginning of a log whose entries the installed checkpoint holds, as a checkpoint does once
/// it is installed (K1).
pub(super) fn free_covered(
    (disk, archive): (&dyn Disk, Option<&Archive>),
    chain: &mut Chain,
    covered: Epoch,
) -> Result<(), DiskError> {
    while chain.links.len() > 1 && chain.links[0].largest < covered {
        let oldest = chain.closed_files().next().expect("it has links");
        if archive.is_some_and(|archive| archive.keep(&oldest).is_err()) {
            // Its space is not to be had (A1).
            break;
        }
        disk.remove(&chain.links[0].file.to_string())?;
        // Each for good before the next: a crash must not leave a gap.
        disk.sync_folder(&log_folder(chain.logger))?;
        chain.links.remove(0);
    }
    assert!(!chain.links.is_empty(), "K1: the file in which a log ends stays");
    Ok(())
}
