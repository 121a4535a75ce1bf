//! Archive of an open database: closed log files are copied before their removal (`protocols/backups.md`, section 2).
//!
//! ```text
//! archive -> a folder on another device      FOLDER                   the mark: its owner (I1)
//!                                            ARCHIVE                  its generations, and where each ended (A3)
//!                                            log0/log-3-0             a closed file, as long as its chain of blocks
//!                                            log0/log-3-1.new         a file that is being copied
//! ```
//! Invariants:
//! - A1: before a copy gets its name, the database reads the copy again: a damaged file is not archived.
//! - A2: if `ARCHIVE` has fewer ended generations than the manifest remembers, nothing is archived or removed.
//! - A3: `ARCHIVE` lists a generation before a file of the generation is copied.
//! - A failure of the archive stops no other work: the log files stay, and a later call tries again.
//!
//! Neighbours: `recovery`, `log::archival` and `closed_files` call. `archive_list` has the text of `ARCHIVE`,
//! `archive_seal` the line of the manifest. `recovery::archive` reads the archive for a restore.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use ensile_base::sync::Mutex;
use ensile_disk::{Disk, DiskError, DiskFile, FolderKind};

use super::closed_files::ClosedFile;
use crate::counter::Counter;
use crate::error::unless_missing;
use crate::files::archive_list::{ArchiveList, in_folder};
use crate::files::block::origin::{OPENING_BYTES, Opened};
use crate::files::block::scan::{At, ChainPlace, Scanner};
use crate::files::manifest::Manifest;
use crate::files::manifest::archive_seal::ArchiveSeal;
use crate::files::manifest::generation::Generation;
use crate::files::names::{ARCHIVE, ARCHIVE_FOLDER, SegmentFile, SegmentName, log_folder, logger_of};
use crate::identity::Identity;
use crate::{DurabilityError, Result};

/// Bytes of a read and a write during a copy.
const COPY_BYTES: usize = 1 << 20;

/// Choice of an archive at an open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Archiving {
    /// The open keeps the archive of the database, if present.
    #[default]
    AsBefore,
    /// The archive is in this folder. A new archive needs an empty folder.
    To(std::path::PathBuf),
    /// The archive ends. Its files stay in place.
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

#[derive(Debug)]
pub(crate) struct Archive {
    disk: Arc<dyn Disk>,
    database: Identity,
    /// Seal in the manifest that the open has read.
    remembered: Option<ArchiveSeal>,
    /// State of the archive. The lock is held while files of the archive are written.
    state: Mutex<ArchiveState>,
    /// Error of the last write of the list, and of the last copy; `None` after a success. The value is always whole.
    list_error: Mutex<Option<Arc<str>>>,
    file_error: Mutex<Option<Arc<str>>>,
    /// First damaged file of the last open that the archive lacks, and the number of further damaged files.
    lacking: Mutex<Option<Arc<str>>>,
    pub(crate) files: Counter,
    pub(crate) bytes: Counter,
    pub(crate) failures: Counter,
}

#[derive(Debug, Default)]
struct ArchiveState {
    /// Content of `ARCHIVE`; `None` until `ARCHIVE` is read or begun.
    list: Option<ArchiveList>,
    /// Newest generation of the last manifest whose generations were noted in `ARCHIVE`; 0 if none were noted.
    noted: u64,
    /// Indexes of the loggers whose folders in the archive have synced names.
    folders: BTreeSet<u32>,
}

impl Archive {
    /// Creates the archive of a database. The manifest lists the folder, or the next manifest will.
    pub(crate) fn new(disk: &Arc<dyn Disk>, manifest: &Manifest) -> Self {
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

    /// Error of the last write, or the first damaged file that the archive lacks.
    pub(crate) fn last_error(&self) -> Option<Arc<str>> {
        let of_list = self.list_error.lock().clone();
        let of_files = of_list.or_else(|| self.file_error.lock().clone());
        of_files.or_else(|| self.lacking.lock().clone())
    }

    /// Notes damaged files that the archive lacks. The next open examines the files again.
    pub(crate) fn lacks(&self, files: &[DurabilityError]) {
        let more = match files.len() {
            0 | 1 => String::new(),
            many => format!("; and {} more", many - 1),
        };
        *self.lacking.lock() = files.first().map(|first| format!("{first}{more}").into());
    }

    /// Generation of this number, if `ARCHIVE` exists and lists it. A recovery asks for an unlisted log file.
    pub(crate) fn listed_generation(&self, generation: u64) -> Result<Option<Generation>> {
        let list = self.read(&mut self.state.lock())?;
        let generations = list.into_iter().flat_map(|list| list.generations);
        Ok(generations.into_iter().find(|listed| listed.number == generation))
    }

    /// Records the error, or the success, of an attempt in `errors` and in the figures, and returns the outcome.
    fn outcome<T>(&self, errors: &Mutex<Option<Arc<str>>>, outcome: Result<T>) -> Result<T> {
        let error = outcome.as_ref().err().map(|error| error.to_string().into());
        self.failures.add(u64::from(error.is_some()));
        *errors.lock() = error;
        outcome
    }

    /// Writes the generations of this manifest to `ARCHIVE` (A3). Begins `ARCHIVE` if it is missing.
    pub(crate) fn note(&self, manifest: &Manifest) -> Result<()> {
        let newest = manifest.generations.last().map_or(0, |newest| newest.number);
        let mut state = self.state.lock();
        if state.noted >= newest && state.list.is_some() {
            return Ok(());
        }
        let noted = self.note_generations(&mut state, manifest, &manifest.generations, &|_| false);
        state.noted = if noted.is_ok() { newest } else { state.noted };
        let lists = |list: &ArchiveList| newest == 0 || list.lists(newest);
        debug_assert!(noted.is_err() || state.list.as_ref().is_some_and(lists), "A3: {newest} is listed");
        self.outcome(&self.list_error, noted)
    }

    /// Writes generations to `ARCHIVE` as [`Archive::note`] does. A recovery calls with the ended generations, before
    /// the manifest has them. `is_empty` is true for the number of a generation without entries.
    pub(crate) fn note_decided(
        &self,
        manifest: &Manifest,
        decided: &[Generation],
        is_empty: impl Fn(u64) -> bool,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let noted = self.note_generations(&mut state, manifest, decided, &is_empty);
        self.outcome(&self.list_error, noted)
    }

    /// Seal of the durable `ARCHIVE`, for the next manifest. `None` before `ARCHIVE` is read or begun.
    pub(crate) fn seal(&self) -> Option<ArchiveSeal> {
        self.state.lock().list.as_ref().map(ArchiveList::seal)
    }

    fn note_generations(
        &self,
        state: &mut ArchiveState,
        manifest: &Manifest,
        generations: &[Generation],
        is_empty: &dyn Fn(u64) -> bool,
    ) -> Result<()> {
        let before = self.read(state)?;
        let begun = || {
            let covered = manifest.checkpoint.as_ref().map(|checkpoint| checkpoint.redo_epoch().previous());
            let from = covered.unwrap_or_default();
            ArchiveList { database: self.database, from, generations: Vec::new() }
        };
        let list = before.clone().unwrap_or_else(begun);
        let name = in_folder(ARCHIVE_FOLDER, ARCHIVE);
        let next = list
            .with_generations(generations, is_empty)
            .map_err(|why| DurabilityError::damaged_file(&name, 0, why))?;
        assert_eq!(next.database, self.database, "I1: the list of this database");
        if before.as_ref() != Some(&next) {
            next.write(&*self.disk, ARCHIVE_FOLDER)?;
        }
        state.list = Some(next);
        Ok(())
    }

    /// Content of `ARCHIVE`, read once; `None` if `ARCHIVE` is not begun. Checks owner and seal (A2).
    fn read(&self, state: &mut ArchiveState) -> Result<Option<ArchiveList>> {
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
                known.map_err(|why| DurabilityError::damaged_file(&name, 0, why))?;
                // The process that wrote `ARCHIVE` may have failed at the sync of its name.
                self.disk.sync_folder(ARCHIVE_FOLDER)?;
            }
            None if self.remembered.is_some() || self.has_files()? => {
                return Err(DurabilityError::damaged_file(
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

    fn has_files(&self) -> Result<bool> {
        for folder in self.disk.list_folders(ARCHIVE_FOLDER)? {
            if logger_of(&folder).is_some()
                && !self.disk.list(&in_folder(ARCHIVE_FOLDER, &folder))?.is_empty()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies a closed file to the archive, unless the archive has a copy, or does not list the generation of the file:
    /// an unlisted generation has no entry that the archive lacks. True if the file was copied now.
    pub(crate) fn archive_file(&self, closed: &ClosedFile) -> Result<bool> {
        let mut state = self.state.lock();
        let copied = self.copy_if_listed(&mut state, closed);
        let is_copied = self.outcome(&self.file_error, copied)?;
        if is_copied {
            self.files.add(1);
            self.bytes.add(closed.bytes);
        }
        Ok(is_copied)
    }

    fn copy_if_listed(&self, state: &mut ArchiveState, closed: &ClosedFile) -> Result<bool> {
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
            // The folder may come from a process that ended before this sync.
            self.disk.sync_folder(ARCHIVE_FOLDER)?;
            state.folders.insert(logger);
        }
        let name = in_folder(ARCHIVE_FOLDER, &closed.file.archive_name().to_string());
        // A copy that was cut meanwhile is made again while the source exists.
        let is_there = match unless_missing(self.disk.open_to_read(&name))? {
            Some(copy) => copy.len()? >= closed.bytes,
            None => false,
        };
        if !is_there {
            let beside = format!("{name}.new");
            if let Err(error) = self.copy(closed, &beside) {
                // A partial copy takes space that other files may need. The next attempt writes the whole copy.
                let _ = self.disk.remove(&beside);
                return Err(error);
            }
            self.disk.rename(&beside, &name)?;
        }
        // An existing copy needs the sync too: the process that gave the name may have ended before this sync.
        self.disk.sync_folder(&folder)?;
        Ok(!is_there)
    }

    fn copy(&self, closed: &ClosedFile, beside: &str) -> Result<()> {
        let from = closed.file.to_string();
        let (source, copy) = (self.disk.open_to_read(&from)?, self.disk.create(beside)?);
        let offset = copy_range(&*source, &*copy, 0..closed.bytes)?;
        if offset < closed.bytes {
            return Err(DurabilityError::damaged_file(&from, offset, "it ends before its last block"));
        }
        assert_eq!(offset, closed.bytes, "A1: each byte of {from} is copied");
        copy.sync_all()?;
        let end = whole_to(self.disk.open_to_read(beside)?, closed.file)?;
        if end == closed.bytes {
            return Ok(());
        }
        let detail =
            "what stands here is not the next block of its log, so the file is neither archived nor removed";
        Err(DurabilityError::damaged_file(&from, end, detail))
    }
}

/// Copies these bytes of `source`, up to its end, to the beginning of `copy`: for the archive, and for the parts that a
/// repair gives up. Returns the offset of the end.
pub(crate) fn copy_range(
    source: &dyn DiskFile,
    copy: &dyn DiskFile,
    of: Range<u64>,
) -> Result<u64, DiskError> {
    let (mut bytes, mut offset) = (vec![0; COPY_BYTES], of.start);
    while offset < of.end {
        let wanted = (of.end - offset).min(COPY_BYTES as u64) as usize;
        let read = source.read_at(&mut bytes[..wanted], offset)?;
        if read == 0 {
            break;
        }
        copy.write_at(&bytes[..read], offset - of.start)?;
        offset += read as u64;
    }
    Ok(offset)
}

/// Length in bytes of the intact beginning of a log file, payloads included; 0 without an opening block of this name.
pub(crate) fn whole_to(file: Box<dyn DiskFile>, name: SegmentFile) -> Result<u64> {
    let SegmentName { generation, logger, .. } = name.name;
    let mut scanner = Scanner::sequential(file)?;
    let Ok(Opened { header, crc, origin, .. }) = scanner.read_opening()? else { return Ok(0) };
    if (header.generation, header.owner) != (generation, logger) {
        return Ok(0);
    }
    let (mut end, mut place) = (OPENING_BYTES as u64, ChainPlace::after_block(&header, crc));
    while let At::Block(header, crc) = scanner.block_at(end, origin.salt)?
        && place.matches_header(&header)
    {
        end += header.block_bytes() as u64;
        place = ChainPlace::after_block(&header, crc);
    }
    Ok(end)
}

/// Checks that the folder of an unlisted archive has no ended archive, and that the link `archive` leads there.
pub(crate) fn check_new(disk: &dyn Disk, manifest: &Manifest, wanted: &std::path::Path) -> Result<()> {
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
    // `ARCHIVE` is written only after the manifest lists the folder.
    if leads_elsewhere || unless_missing(disk.open_to_read(&in_folder(ARCHIVE_FOLDER, ARCHIVE)))?.is_some() {
        return Err(DurabilityError::config(format!(
            "{ARCHIVE_FOLDER} in the database's folder leads to {}, an archive that has ended: it is left as it is. To \
             begin another one, remove that link, and give an empty folder",
            place.display()
        )));
    }
    Ok(())
}
