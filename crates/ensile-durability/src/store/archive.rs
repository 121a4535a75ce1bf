//! The archive of an open database: closed log files are copied there before they are removed
//! (`docs/protocols/backups.md`, section 2).
//!
//! ```text
//! archive -> a folder on another device      FOLDER                   whose it is (I1)
//!                                            ARCHIVE                  its generations, and where each ended (A3)
//!                                            log0/log-3-0             a closed file, as long as its chain of blocks
//!                                            log0/log-3-1.new         one that is being copied
//! ```
//! Invariants:
//! - A1: a log file is removed only once its copy is whole and synced, and so are the copy's name and the names of the
//!   folders above it. The copy is read once more before it gets its name: what is damaged is not archived.
//! - A3: no file is copied before `ARCHIVE` lists its generation; no generation that holds an entry leaves the manifest
//!   before `ARCHIVE` says where it ended.
//! - A2: `ARCHIVE` says all that the manifest remembers of it, or it was put back to an older state: then nothing is
//!   archived, and no file goes.
//! - I1: the folder has this database's mark. The manifest lists it from the open on that has begun it.
//! - What fails here stops nothing else: files stay where they are, and it is tried again.
//!
//! Neighbours: recovery and the removal of covered files ask; `list` has the text, `seal` what a manifest remembers of
//! it; a restore reads it.

pub(crate) mod list;
pub(crate) mod seal;

use std::collections::BTreeSet;
use std::sync::Arc;

use ensile_base::sync::Mutex;
use ensile_disk::{Disk, DiskFile, FolderKind};

use super::closed_files::ClosedFile;
use super::manifest::{Generation, Manifest};
use super::names::{ARCHIVE, ARCHIVE_FOLDER, SegmentFile, SegmentName, log_folder, logger_of};
use crate::DurabilityError;
use crate::block::origin::{OPENING_BYTES, Opened};
use crate::block::scan::{At, ChainPlace, Scanner};
use crate::counter::Counter;
use crate::error::unless_missing;
use crate::identity::Identity;
use list::{ArchiveList, in_folder};
use seal::ArchiveSeal;

/// Read and written at once while copying.
const COPY_BYTES: usize = 1 << 20;

/// What an open does with the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Archiving {
    /// It goes on as it was: with the archive that the database has, if it has one.
    #[default]
    AsBefore,
    /// The archive is in this folder. It must be empty if the database has none yet.
    To(std::path::PathBuf),
    /// There is none any more. What it has stays where it is.
    Ended,
}

impl From<std::path::PathBuf> for Archiving {
    fn from(folder: std::path::PathBuf) -> Self {
        Self::To(folder)
    }
}

impl From<&std::path::Path> for Archiving {
    fn from(folder: &std::path::Path) -> Self {
        Self::To(folder.into())
    }
}

impl From<&str> for Archiving {
    fn from(folder: &str) -> Self {
        Self::To(folder.into())
    }
}

/// The archive of an open database.
#[derive(Debug)]
pub(crate) struct Archive {
    disk: Arc<dyn Disk>,
    database: Identity,
    /// What the manifest that the open has read remembers of it.
    remembered: Option<ArchiveSeal>,
    /// Held while the archive's files are written.
    state: Mutex<ArchiveState>,
    /// Why the list, and why a file, could not be written, since it last could. Each is whole at every point.
    list_error: Mutex<Option<Arc<str>>>,
    file_error: Mutex<Option<Arc<str>>>,
    /// The first file that the last open has found damaged, and that is not in the archive; how many more there are.
    lacking: Mutex<Option<Arc<str>>>,
    pub(crate) files: Counter,
    pub(crate) bytes: Counter,
    pub(crate) failures: Counter,
}

#[derive(Debug, Default)]
struct ArchiveState {
    /// What `ARCHIVE` says, once it was read or begun.
    list: Option<ArchiveList>,
    /// The manifest's generations up to this one are in it as far as they need be.
    noted: u64,
    /// The folders of logs whose names are synced.
    folders: BTreeSet<u32>,
}

impl Archive {
    /// Of a database whose manifest lists the folder, or is about to.
    pub(crate) fn of(disk: &Arc<dyn Disk>, manifest: &Manifest) -> Self {
        Self {
            disk: Arc::clone(disk),
            database: manifest.identity,
            remembered: manifest.archived,
            state: Mutex::default(),
            list_error: Mutex::default(),
            file_error: Mutex::default(),
            lacking: Mutex::default(),
            files: Counter::default(),
            bytes: Counter::default(),
            failures: Counter::default(),
        }
    }

    /// Why it cannot be written, as far as is known, or which damaged file it lacks; `None` if nothing has failed since
    /// it last succeeded.
    pub(crate) fn last_error(&self) -> Option<Arc<str>> {
        let of_list = self.list_error.lock().clone();
        let of_files = of_list.or_else(|| self.file_error.lock().clone());
        of_files.or_else(|| self.lacking.lock().clone())
    }

    /// These files are damaged, and it has no copy of them. Another open looks again.
    pub(crate) fn lacks(&self, files: &[DurabilityError]) {
        let more = match files.len() {
            0 | 1 => String::new(),
            many => format!("; and {} more", many - 1),
        };
        *self.lacking.lock() = files.first().map(|first| format!("{first}{more}").into());
    }

    /// What `ARCHIVE` says of the generation of this number; `None` if it does not list it, or is not begun.
    ///
    /// # Errors
    /// Why it cannot be read, or is not this database's.
    pub(crate) fn listed(&self, generation: u64) -> Result<Option<Generation>, DurabilityError> {
        let list = self.read(&mut self.state.lock())?;
        let generations = list.into_iter().flat_map(|list| list.generations);
        Ok(generations.into_iter().find(|listed| listed.number == generation))
    }

    /// Keeps what came of an attempt for the figures.
    fn outcome<T>(
        &self,
        errors: &Mutex<Option<Arc<str>>>,
        outcome: Result<T, DurabilityError>,
    ) -> Result<T, DurabilityError> {
        let error = outcome.as_ref().err().map(|error| error.to_string().into());
        self.failures.add(u64::from(error.is_some()));
        *errors.lock() = error;
        outcome
    }

    /// Has `ARCHIVE` say what this manifest says of its generations (A3). It is begun if there is none.
    ///
    /// # Errors
    /// Why it cannot be written, or is not this database's.
    pub(crate) fn note(&self, manifest: &Manifest) -> Result<(), DurabilityError> {
        let newest = manifest.generations.last().map_or(0, |newest| newest.number);
        let mut state = self.state.lock();
        if state.noted >= newest && state.list.is_some() {
            return Ok(());
        }
        let noted = self.note_generations(&mut state, manifest, (&manifest.generations, &|_| false));
        state.noted = if noted.is_ok() { newest } else { state.noted };
        self.outcome(&self.list_error, noted)
    }

    /// As [`Archive::note`], where a recovery has decided over the generations that the manifest lists, and `is_empty`
    /// says which of them hold no entry.
    ///
    /// # Errors
    /// As [`Archive::note`].
    pub(crate) fn note_decided(
        &self,
        manifest: &Manifest,
        decided: &[Generation],
        is_empty: impl Fn(u64) -> bool,
    ) -> Result<(), DurabilityError> {
        let mut state = self.state.lock();
        let noted = self.note_generations(&mut state, manifest, (decided, &is_empty));
        self.outcome(&self.list_error, noted)
    }

    /// What the next manifest is to remember of it: it is durable by now. `None` if nothing is known of it.
    pub(crate) fn seal(&self) -> Option<ArchiveSeal> {
        self.state.lock().list.as_ref().map(ArchiveList::seal)
    }

    fn note_generations(
        &self,
        state: &mut ArchiveState,
        manifest: &Manifest,
        (generations, is_empty): (&[Generation], &dyn Fn(u64) -> bool),
    ) -> Result<(), DurabilityError> {
        let before = self.read(state)?;
        let begun = || {
            let covered = manifest.checkpoint.as_ref().map(|checkpoint| checkpoint.covered().previous());
            let from = covered.unwrap_or_default();
            ArchiveList { database: self.database, from, generations: Vec::new() }
        };
        let list = before.clone().unwrap_or_else(begun);
        let name = in_folder(ARCHIVE_FOLDER, ARCHIVE);
        let next = list.with(generations, is_empty).map_err(|why| DurabilityError::damaged(&name, 0, why))?;
        if before.as_ref() != Some(&next) {
            next.write(&*self.disk, ARCHIVE_FOLDER)?;
        }
        state.list = Some(next);
        Ok(())
    }

    /// What `ARCHIVE` says; `None` if it is not begun.
    fn read(&self, state: &mut ArchiveState) -> Result<Option<ArchiveList>, DurabilityError> {
        if state.list.is_some() {
            return Ok(state.list.clone());
        }
        let list = ArchiveList::read(&*self.disk, ARCHIVE_FOLDER)?;
        let name = in_folder(ARCHIVE_FOLDER, ARCHIVE);
        match &list {
            Some(list) if list.database != self.database => {
                return Err(DurabilityError::not_ours(&name, list.database, self.database));
            }
            Some(list) => {
                let known = self.remembered.map_or(Ok(()), |remembered| list.check(remembered));
                known.map_err(|why| DurabilityError::damaged(&name, 0, why))?;
                // A sync of its name may be what failed.
                self.disk.sync_folder(ARCHIVE_FOLDER)?;
            }
            None if self.remembered.is_some() || self.has_files()? => {
                return Err(DurabilityError::damaged(
                    &name,
                    0,
                    "it is missing, and it was there: nothing is archived, and no log file is removed, until it is back, \
                     or the archive is ended and another one begun",
                ));
            }
            None => {}
        }
        state.list = list.clone();
        Ok(list)
    }

    fn has_files(&self) -> Result<bool, DurabilityError> {
        for folder in self.disk.list_folders(ARCHIVE_FOLDER)? {
            if logger_of(&folder).is_some()
                && !self.disk.list(&in_folder(ARCHIVE_FOLDER, &folder))?.is_empty()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies a file that gets no more blocks, unless it is there already; true if it was copied now. A file of a
    /// generation that is not listed holds nothing that the archive lacks.
    ///
    /// # Errors
    /// Why it is not archived: it must stay.
    pub(crate) fn keep(&self, closed: &ClosedFile) -> Result<bool, DurabilityError> {
        let mut state = self.state.lock();
        let kept = self.keep_listed(&mut state, closed);
        let is_copied = self.outcome(&self.file_error, kept)?;
        if is_copied {
            self.files.add(1);
            self.bytes.add(closed.bytes);
        }
        Ok(is_copied)
    }

    fn keep_listed(&self, state: &mut ArchiveState, closed: &ClosedFile) -> Result<bool, DurabilityError> {
        let SegmentName { generation, logger, .. } = closed.file.name;
        let Some(list) = self.read(state)? else {
            return Err(DurabilityError::config("the archive is not begun"));
        };
        if !list.lists(generation) {
            return Ok(false);
        }
        let folder = in_folder(ARCHIVE_FOLDER, &log_folder(logger));
        if !state.folders.contains(&logger) {
            self.disk.create_folder(&folder)?;
            // It may have been made by a process that ended before this sync.
            self.disk.sync_folder(ARCHIVE_FOLDER)?;
            state.folders.insert(logger);
        }
        let name = in_folder(ARCHIVE_FOLDER, &closed.file.archived().to_string());
        // One that somebody has cut since is made again while that can be done.
        let is_there = match unless_missing(self.disk.open_to_read(&name))? {
            Some(copy) => copy.len()? >= closed.bytes,
            None => false,
        };
        if !is_there {
            let beside = format!("{name}.new");
            if let Err(error) = self.copy(closed, &beside) {
                // A part takes space that others may need; the next attempt writes it anew.
                let _ = self.disk.remove(&beside);
                return Err(error);
            }
            self.disk.rename(&beside, &name)?;
        }
        // Of one that is there, too: who gave it its name may have ended before this sync.
        self.disk.sync_folder(&folder)?;
        Ok(!is_there)
    }

    fn copy(&self, closed: &ClosedFile, beside: &str) -> Result<(), DurabilityError> {
        let from = closed.file.to_string();
        let (source, copy) = (self.disk.open_to_read(&from)?, self.disk.create(beside)?);
        let (mut bytes, mut offset) = (vec![0; COPY_BYTES], 0);
        while offset < closed.bytes {
            let wanted = (closed.bytes - offset).min(COPY_BYTES as u64) as usize;
            let read = source.read_at(&mut bytes[..wanted], offset)?;
            if read == 0 {
                return Err(DurabilityError::damaged(&from, offset, "it ends before its last block"));
            }
            copy.write_at(&bytes[..read], offset)?;
            offset += read as u64;
        }
        copy.sync_all()?;
        let end = whole_to(self.disk.open_to_read(beside)?, closed.file)?;
        if end == closed.bytes {
            return Ok(());
        }
        let detail =
            "what stands here is not the next block of its log, so the file is neither archived nor removed";
        Err(DurabilityError::damaged(&from, end, detail))
    }
}

/// Up to where the blocks of a log's file follow each other, payloads included.
pub(crate) fn whole_to(file: Box<dyn DiskFile>, name: SegmentFile) -> Result<u64, DurabilityError> {
    let SegmentName { generation, logger, .. } = name.name;
    let mut scanner = Scanner::sequential(file)?;
    let Ok(Opened { header, crc, origin, .. }) = scanner.opening()? else { return Ok(0) };
    if (header.generation, header.owner) != (generation, logger) {
        return Ok(0);
    }
    let (mut end, mut place) = (OPENING_BYTES as u64, ChainPlace::behind(&header, crc));
    while let At::Block(header, crc) = scanner.at(end, origin.salt)?
        && place.is_of(&header)
    {
        end += header.block_bytes() as u64;
        place = ChainPlace::behind(&header, crc);
    }
    Ok(end)
}

/// May the folder of an archive that the manifest does not list become this database's?
///
/// # Errors
/// [`DurabilityError::Config`] if it was this database's archive before, or the folder `archive` leads elsewhere.
pub(crate) fn check_new(
    disk: &dyn Disk,
    manifest: &Manifest,
    wanted: &std::path::Path,
) -> Result<(), DurabilityError> {
    if manifest.has_archive() {
        return Ok(());
    }
    let place = match disk.folder_kind(ARCHIVE_FOLDER)? {
        FolderKind::Link { to, .. } => to,
        _ => return Ok(()),
    };
    let leads_elsewhere = match disk.link_folder(ARCHIVE_FOLDER, wanted) {
        Err(error) if error.is_already_exists() => true,
        linked => {
            linked?;
            false
        }
    };
    // Its list is written once the manifest lists the folder.
    if leads_elsewhere || unless_missing(disk.open_to_read(&in_folder(ARCHIVE_FOLDER, ARCHIVE)))?.is_some() {
        return Err(DurabilityError::config(format!(
            "{ARCHIVE_FOLDER} in the database's folder leads to {}, an archive that has ended: it is left as it is. To \
             begin another one, remove that link, and give an empty folder",
            place.display()
        )));
    }
    Ok(())
}
