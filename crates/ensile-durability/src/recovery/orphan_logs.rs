//! Judgement of a log file that no manifest lists, in a database with an archive: whole, needless, or damaged (A1).
//!
//! A checkpoint or a merge took the file's generation off the list while the archive could not be written, and the
//! process ended. The chain of blocks may end early: with a crash's torn tail, or by damage.
//!
//! | found | judgement |
//! |---|---|
//! | `ARCHIVE` does not list the generation | needless: the file holds no entry that the archive lacks |
//! | the opening block of the log's next file, here or archived, follows by sequence and checksum | whole |
//! | no next file is readable, and the last mark is at or above the D in `ARCHIVE` | whole: bytes behind that mark are void (L1, L4) |
//! | no next file is readable, and the last mark is at or above the epoch in the name, `-to-<epoch>` | whole: no entry of the file has a larger epoch, and no entry up to the mark stands behind the mark (L1) |
//! | the file's opening block is unreadable, and an earlier file has such a mark | needless: the file is behind the end |
//! | otherwise, and the archive's copy is whole by the same rules | needless |
//! | otherwise | damaged: the file stays, and is reported |
//!
//! A1: the proof comes from outside the file. An unreadable archive fails no open: the file stays.
//!
//! Neighbours: `cleanup` asks, and archives; `file_chain` and `chain` read; the archive's list has every D (A3).

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::chain::{check_origin, is_opened_next};
use crate::error::unless_missing;
use crate::files::archive_list::in_folder;
use crate::files::block::NotABlock;
use crate::files::log::file_chain::{FileChain, FileOpening};
use crate::files::manifest::generation::Generation;
use crate::files::names::{ARCHIVE_FOLDER, SegmentFile, SegmentName, log_folder};
use crate::store::archive::{Archive, whole_to};
use crate::store::closed_files::ClosedFile;
use crate::{DurabilityError, Result};

const WHAT_TO_DO: &str = "the archive has no copy of it, and the database does not need it, so it stays until it is whole again, or until \
     you move it away, and then a restore names the epochs that are missing";

#[derive(Debug)]
pub(super) enum UnlistedFile {
    /// The removal of the file loses no entry that counts.
    Needless,
    /// The file is whole up to its chain's end, and is to be archived.
    Whole(ClosedFile),
    Stays(DurabilityError),
}

enum Unreadable {
    /// A file in the database's folders cannot be read. The error ends the open.
    Here(DurabilityError),
    /// The archive cannot be read. The file stays.
    InArchive(DurabilityError),
}

/// Judgement that the file stays, because the archive's contents cannot be known now.
fn waits(file: SegmentFile, why: &DurabilityError) -> UnlistedFile {
    UnlistedFile::Stays(DurabilityError::config(format!(
        "{file} stays, as it is unknown whether it is in the archive ({why}): open again once the archive can be read"
    )))
}

/// Files that no manifest lists, in a database with an archive.
pub(super) struct UnlistedFiles<'r> {
    pub(super) disk: &'r dyn Disk,
    pub(super) archive: &'r Archive,
    /// All unlisted files, including files that may not be removed.
    pub(super) files: Vec<SegmentFile>,
}

impl UnlistedFiles<'_> {
    pub(super) fn judge(&self, file: SegmentFile) -> Result<UnlistedFile> {
        assert!(self.files.contains(&file), "its neighbours are among them");
        let generation = match self.archive.listed_generation(file.name.generation) {
            Ok(Some(generation)) if file.name.logger < generation.logs => generation,
            Ok(_) => return Ok(UnlistedFile::Needless),
            Err(why) => return Ok(waits(file, &why)),
        };
        match self.look(&generation, file) {
            Ok(found) => Ok(found),
            Err(Unreadable::Here(error)) => Err(error),
            Err(Unreadable::InArchive(why)) => Ok(waits(file, &why)),
        }
    }

    fn look(&self, generation: &Generation, file: SegmentFile) -> Result<UnlistedFile, Unreadable> {
        let read = FileChain::read(self.disk, file, None);
        let read = read.and_then(|chain| check_origin(generation, &chain).map(|()| chain));
        assert_eq!(file.name.generation, generation.number, "A3: each generation has its own D");
        let (offset, why) = match read {
            Ok(chain) => match self.doubt(generation, &chain, file.to)? {
                None if chain.opening.is_none() => return Ok(UnlistedFile::Needless),
                None => {
                    // The payloads are checked too. A file that waits for a full archive holds up all later files.
                    let whole = self.whole_to(file)?;
                    if whole >= chain.end {
                        let (largest, bytes) = (chain.largest, chain.end);
                        return Ok(UnlistedFile::Whole(ClosedFile { file, largest, bytes }));
                    }
                    (whole, NotABlock::BadPayload.detail().to_owned())
                }
                Some(doubt) => (chain.end, format!("{}; {doubt}", chain.detail)),
            },
            Err(DurabilityError::Damaged { offset, detail, .. }) => (offset, detail),
            Err(why @ (DurabilityError::Unknown { .. } | DurabilityError::NotOurs { .. })) => {
                return Ok(UnlistedFile::Stays(why));
            }
            Err(error) => return Err(Unreadable::Here(error)),
        };
        if self.has_whole_copy(generation, file)? {
            return Ok(UnlistedFile::Needless);
        }
        let detail = format!("{why}; {WHAT_TO_DO}");
        Ok(UnlistedFile::Stays(DurabilityError::damaged_file(&file.to_string(), offset, detail)))
    }

    /// Offset up to which the file's blocks follow each other, with valid payloads.
    fn whole_to(&self, file: SegmentFile) -> Result<u64, Unreadable> {
        let opened = self.disk.open_to_read(&file.to_string()).map_err(DurabilityError::from);
        opened.and_then(|opened| whole_to(opened, file)).map_err(Unreadable::Here)
    }

    /// Reason to suspect that entries that count stood behind the end of this chain; `to` is the name's epoch.
    fn doubt(
        &self,
        generation: &Generation,
        chain: &FileChain,
        to: Option<Epoch>,
    ) -> Result<Option<String>, Unreadable> {
        let SegmentName { number, .. } = chain.file.name;
        assert!(chain.opening.is_some() || chain.end == 0, "without its first block a file has no chain");
        let Some(durable) = generation.durable else {
            // The generation has left the manifest's list, so the generation had ended.
            return Ok(Some(format!("ARCHIVE does not say where generation {} ended", generation.number)));
        };
        if chain.opening.is_none() {
            let is_behind = self.ends_before(generation, chain.file.name)?;
            return Ok((!is_behind).then(|| "a file of its log was there, with its first block".to_owned()));
        }
        let next = SegmentName { number: number + 1, ..chain.file.name };
        if let Some(opening) = self.read_opening(next)? {
            let is_next = is_opened_next(chain, &opening);
            return Ok((!is_next).then(|| format!("{next} shows that it had more")));
        }
        let is_short = chain.mark < durable && to.is_none_or(|to| chain.mark < to);
        Ok(is_short.then(|| {
            let (number, mark) = (generation.number, chain.mark);
            format!(
                "generation {number} ended at epoch {durable}, and this log is whole up to epoch {mark} only"
            )
        }))
    }

    /// Opening block of the file of this name, here or in the archive, if readable.
    fn read_opening(&self, name: SegmentName) -> Result<Option<FileOpening>, Unreadable> {
        assert!(name.number > 0, "it comes behind another one");
        for file in self.files.iter().filter(|file| file.name == name) {
            let opening = FileOpening::read_at(self.disk, &file.to_string(), name);
            if let Some(opening) = opening.map_err(|error| Unreadable::Here(error.into()))? {
                return Ok(Some(opening));
            }
        }
        let copy = in_folder(ARCHIVE_FOLDER, &name.to_string());
        FileOpening::read_at(self.disk, &copy, name).map_err(|error| Unreadable::InArchive(error.into()))
    }

    /// True if every entry of the log that counts stands in files before this file, here or in the archive.
    fn ends_before(&self, generation: &Generation, name: SegmentName) -> Result<bool, Unreadable> {
        let durable = generation.durable.unwrap_or_default();
        assert!(durable.next() >= generation.first, "L4: a generation ends behind its beginning");
        let is_before = |other: &SegmentName| {
            (other.generation, other.logger) == (name.generation, name.logger) && other.number < name.number
        };
        let reaches = |chain: Result<FileChain>| match chain {
            Ok(chain) => Ok(check_origin(generation, &chain).is_ok() && chain.mark >= durable),
            // A missing file is archived.
            Err(DurabilityError::Disk(error)) if !error.is_not_found() => Err(DurabilityError::Disk(error)),
            Err(_) => Ok(false),
        };
        for file in self.files.iter().filter(|file| is_before(&file.name)) {
            if reaches(FileChain::read(self.disk, *file, None)).map_err(Unreadable::Here)? {
                return Ok(true);
            }
        }
        let folder = in_folder(ARCHIVE_FOLDER, &log_folder(name.logger));
        let listed = unless_missing(self.disk.list(&folder));
        let listed = listed.map_err(|error| Unreadable::InArchive(error.into()))?.unwrap_or_default();
        let copies = listed.iter().filter_map(|copy| SegmentFile::parse(name.logger, copy));
        for copy in copies.filter(|copy| is_before(&copy.name)) {
            let chain = FileChain::read_at(self.disk, &in_folder(ARCHIVE_FOLDER, &copy.to_string()), copy);
            if reaches(chain).map_err(Unreadable::InArchive)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if the archive has a copy that is whole by the same rules, to its last byte.
    fn has_whole_copy(&self, generation: &Generation, file: SegmentFile) -> Result<bool, Unreadable> {
        let copy = file.archive_name();
        assert_eq!(copy.name, file.name, "it has its number in the archive too");
        let path = in_folder(ARCHIVE_FOLDER, &copy.to_string());
        let in_archive = |error: ensile_disk::DiskError| Unreadable::InArchive(error.into());
        let Some(opened) = unless_missing(self.disk.open_to_read(&path)).map_err(in_archive)? else {
            return Ok(false);
        };
        let length = opened.len().map_err(in_archive)?;
        let chain = match FileChain::read_at(self.disk, &path, copy) {
            Ok(chain) => chain,
            Err(DurabilityError::Disk(error)) => {
                return Err(Unreadable::InArchive(DurabilityError::Disk(error)));
            }
            Err(_) => return Ok(false),
        };
        let is_opened = chain.opening.is_some() && check_origin(generation, &chain).is_ok();
        if !is_opened || chain.end < length || self.doubt(generation, &chain, file.to)?.is_some() {
            return Ok(false);
        }
        Ok(whole_to(opened, copy).map_err(Unreadable::InArchive)? == length)
    }
}
