//! Removals and cuts of a recovery: files behind the ends of logs, torn tails, generations that leave the list.
//!
//! Invariants:
//! - Each removal of a listed log's file is durable before the next: a crash leaves no gap.
//! - A1, A3: a file that cannot be archived stays, and the running database tries again. A damaged file is reported.
//! - L4: a repair's files show the used epochs, and stay until the manifest records these epochs.
//!
//! Neighbours: `install_generation` calls, after the manifest or for space before it; `orphan_logs` judges files.

use std::collections::BTreeSet;

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError};

use super::chain::Chain;
use super::generation_plan::Plan;
use super::orphan_logs::{UnlistedFile, UnlistedFiles};
use super::replay_state::Recovery;
use crate::checkpoint::orphans;
use crate::error::{unless_full, unless_missing};
use crate::files::block::origin::OPENING_BYTES;
use crate::files::manifest::Manifest;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::{PageFileName, PartName, SegmentFile, SegmentName, log_folder};
use crate::store::archive::Archive;
use crate::store::closed_files::ClosedFile;
use crate::store::ownership::proves_ours;
use crate::{DurabilityError, Result};

impl Recovery {
    /// Removes files of logs that no manifest lists: a merge may need the name. Files in an unlisted folder stay (I1).
    ///
    /// A checkpoint may have taken files off the list without removing the files yet. A file that the archive lacks and
    /// cannot take now is added to `waiting`; a damaged file stays, and is reported (A1).
    pub(super) fn remove_unlisted(&mut self, waiting: &mut Vec<ClosedFile>) -> Result<()> {
        if !self.judged.unlisted.is_empty() || !self.judged.left.is_empty() {
            // The manifest that does not list the files may be a rename that only the system's cache has.
            self.disk.sync_folder("")?;
        }
        // The removal comes before this life makes files, because a new file may need such a name.
        remove_ours(&*self.disk, self.keeper.manifest(), &self.judged.left)?;
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
            match self.classify_orphan_log(*file)? {
                UnlistedFile::Needless => self.disk.remove(&file.to_string())?,
                UnlistedFile::Whole(closed) => match self.ensure_archived(&closed) {
                    Ok(()) => self.disk.remove(&file.to_string())?,
                    Err(why @ DurabilityError::Damaged { .. }) => staying.push(why),
                    // The running database tries again.
                    Err(_) => waiting.push(closed),
                },
                UnlistedFile::Stays(why) => staying.push(why),
            }
        }
        for file in &self.judged.not_removable {
            if let UnlistedFile::Stays(why) = self.classify_orphan_log(*file)? {
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

    fn classify_orphan_log(&self, file: SegmentFile) -> Result<UnlistedFile> {
        let mut listed = self.keeper.manifest().generations.iter();
        // No manifest has listed the file: its sources are listed, and its name may be needed.
        let is_unfinished = file.is_merged && listed.all(|listed| listed.number < file.name.generation);
        let Some(archive) = self.archive.as_ref().filter(|_| !is_unfinished) else {
            return Ok(UnlistedFile::Needless);
        };
        let files = self.judged.unlisted.iter().chain(&self.judged.not_removable).copied().collect();
        UnlistedFiles { disk: &*self.disk, archive, files }.judge(file)
    }

    /// Records each generation's end in the archive before it leaves the manifest's list (A3). Otherwise all stay.
    pub(super) fn note_in_archive(&self, plan: &mut Plan) {
        let Some(archive) = &self.archive else { return };
        let chains = || self.judged.closed_chains.iter().chain(&self.judged.open_chains);
        let is_empty = |number| chains().filter(|chain| chain.generation == number).all(Chain::is_empty);
        let decided = plan.decided_generations();
        assert!(plan.merge_sources().is_empty() || decided.len() > 1, "there is something to merge");
        // An archive is begun once the manifest lists the archive's folder.
        let is_noted = self.is_archive_listed
            && archive.note_decided(self.keeper.manifest(), &decided, is_empty).is_ok();
        if !is_noted {
            plan.keep_all();
        }
    }

    /// Archives a file, if an archive exists and lacks the file.
    fn ensure_archived(&self, closed: &ClosedFile) -> Result<()> {
        self.archive.as_ref().map_or(Ok(()), |archive| archive.archive_file(closed).map(drop))
    }

    /// Removes files that the manifest no longer needs: files behind the ends of the logs just closed, their torn tails
    /// and unused space, and the files of dropped generations. Returns the files that stay.
    pub(super) fn remove_unneeded_files(&self, plan: &Plan) -> Result<Vec<ClosedFile>> {
        self.judged.given_up.iter().try_for_each(|file| self.disk.remove(&file.to_string()))?;
        let folders: BTreeSet<u32> = self.judged.given_up.iter().map(|file| file.name.logger).collect();
        folders.into_iter().try_for_each(|logger| self.disk.sync_folder(&log_folder(logger)))?;
        remove_ours(&*self.disk, self.keeper.manifest(), &self.judged.older)?;
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
                if self.ensure_archived(&closed).is_ok() {
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

    /// Removes the files of a closed generation's log that recovery does not read. A missing file was removed before.
    fn remove_unread(&self, chain: &Chain) -> Result<(), DiskError> {
        let remove = |file: &SegmentFile| unless_missing(self.disk.remove(&file.to_string())).map(drop);
        assert!(chain.beyond.windows(2).all(|pair| pair[0].name < pair[1].name), "in order");
        // The last file goes first, durably before the next removal: a crash must not leave a gap in a listed log.
        for file in chain.beyond.iter().rev() {
            remove(file)?;
            self.disk.sync_folder(&log_folder(chain.logger))?;
        }
        chain.discarded.iter().try_for_each(remove)
    }

    /// Gives back the space behind the end of a chain, and behind the blocks of the earlier files, whose cut a logger
    /// does not sync. A disk without space for the cut keeps the bytes, because the bytes mean nothing.
    fn cut_tail(&self, chain: &Chain) -> Result<(), DiskError> {
        let ends = chain.links.iter().map(|link| (link.file.to_string(), link.end));
        for (name, end) in ends.chain([(chain.end.file.to_string(), chain.end.offset)]) {
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

    /// Removes the files of checkpoints other than the installed checkpoint.
    pub(super) fn remove_other_parts(&self) -> Result<()> {
        let installed = self.load.checkpoint().map(InstalledCheckpoint::number);
        let listed = self.keeper.manifest().checkpoint.as_ref().map(InstalledCheckpoint::number);
        assert_eq!(installed, listed, "K1: the manifest names what was loaded");
        orphans::remove(&*self.disk, self.keeper.manifest(), |_: PartName| true)?;
        orphans::remove(&*self.disk, self.keeper.manifest(), |_: PageFileName| true).map(drop)
    }

    /// Cuts page files behind the last block of the installed picture. An unfinished attempt, or an earlier picture,
    /// has left the bytes there. No reader holds a lease of the bytes (I3). If a cut finds no space, the bytes stay.
    pub(super) fn cut_page_files(&self) -> Result<(), DiskError> {
        let Some(reader) = self.load.picture() else { return Ok(()) };
        assert_eq!(self.load.remaining_items(), 0, "N12: all that the picture reaches was read");
        let own = self.keeper.manifest().identity;
        let is_own = self.load.checkpoint().is_some_and(|checkpoint| checkpoint.databases() == [own]);
        let mut ends = reader.ends().filter(|_| is_own);
        ends.try_for_each(|(name, end)| unless_full(self.cut_file(name, end)).map(drop))
    }

    /// Frees the files that the manifest of the start does not need, and the torn tails of that manifest's open logs.
    ///
    /// A torn tail may go: no entry in the tail was durable, and the bytes never come back. The tail stays if a file
    /// follows: that file shows that the torn file was closed (L4, L5). Page files are cut if no lease is held (I3).
    pub(super) fn free_unneeded(&mut self, may_cut_pages: bool) -> Result<(), DiskError> {
        // The manifest that was read may be a rename that only the system's cache has.
        self.disk.sync_folder("")?;
        // The result is dropped: the same call comes again after the new manifest, and reports files that stay.
        let _ = self.remove_other_parts();
        if may_cut_pages {
            self.cut_page_files()?;
        }
        if !self.judged.given_up.is_empty() || !self.judged.cuts.is_empty() {
            // A repair's files show the used epochs, until the repair's manifest does (L4).
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
        chains.try_for_each(|chain| free_covered(disk, archive, chain, covered))
    }
}

/// Removes, durably, log files that no state needs and that prove to be ours (I1): for an open, and for a backup in its
/// target. A missing file was removed before.
pub(crate) fn remove_ours(disk: &dyn Disk, manifest: &Manifest, files: &[SegmentFile]) -> Result<()> {
    let mut folders = BTreeSet::new();
    for file in files {
        let name = file.to_string();
        let is_ours = match proves_ours(disk, manifest, &name) {
            Err(DurabilityError::Disk(error)) if error.is_not_found() => false,
            // A copier wrote the file for a state that never counted.
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

/// Removes a log's first files, as a checkpoint does. The installed checkpoint holds the entries of these files (K1).
pub(super) fn free_covered(
    disk: &dyn Disk,
    archive: Option<&Archive>,
    chain: &mut Chain,
    covered: Epoch,
) -> Result<(), DiskError> {
    while chain.links.len() > 1 && chain.links[0].largest < covered {
        let oldest = chain.closed_files().next().expect("it has links");
        if archive.is_some_and(|archive| archive.archive_file(&oldest).is_err()) {
            // The file's space cannot be freed (A1).
            break;
        }
        disk.remove(&chain.links[0].file.to_string())?;
        // A removal is durable before the next removal: a crash must not leave a gap.
        disk.sync_folder(&log_folder(chain.logger))?;
        chain.links.remove(0);
    }
    assert!(!chain.links.is_empty(), "K1: the file in which a log ends stays");
    Ok(())
}
