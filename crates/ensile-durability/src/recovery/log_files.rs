//! Log files on disk, by owner.
//!
//! Invariant N21: in a backup, a file that no state names belongs to an unfinished run and counts for nothing. A file
//! outside the copied span of a log counts for nothing either, in a backup or in a database that was a backup.
//!
//! Neighbours: recovery, examinations and backups read the listed files, and recovery removes the unlisted files;
//! `names` parses file names.

use std::collections::BTreeMap;

use ensile_disk::Disk;

use crate::files::block::origin::OPENING_BYTES;
use crate::files::log::file_chain::FileChain;
use crate::files::manifest::Manifest;
use crate::files::names::{MANIFEST, SegmentFile, SegmentName, logger_of};
use crate::store::folders::is_folder;
use crate::store::ownership::{folders_to_search, proves_ours};
use crate::{DurabilityError, Result};

/// Files in the order of their numbers, by generation and logger.
pub(super) type Files = BTreeMap<(u64, u32), Vec<SegmentFile>>;

pub(super) fn with_next(
    files: &[SegmentFile],
) -> impl Iterator<Item = (SegmentFile, Option<SegmentFile>)> + use<'_> {
    files.iter().enumerate().map(|(at, file)| (*file, files.get(at + 1).copied()))
}

#[derive(Debug, Default)]
pub(super) struct FoundFiles {
    /// Files of listed and unlisted logs. Of a listed log, only the files inside the copied span.
    pub(super) logs: Files,
    /// Files of an unfinished merge. The merge's sources are still listed and hold every entry.
    pub(super) unfinished: Vec<SegmentFile>,
    /// Files that only older states of a backup need.
    pub(super) older: Vec<SegmentFile>,
    /// Files left by an unfinished backup.
    pub(super) left: Vec<SegmentFile>,
}

/// Finds the log files in this database's folders (I1), listed or not: an open's settings do not change the result.
pub(super) fn find(disk: &dyn Disk, manifest: &Manifest) -> Result<FoundFiles> {
    let FoundFiles { logs: mut found, mut unfinished, mut older, mut left } = FoundFiles::default();
    let is_of_older = |name: SegmentName| {
        manifest.kept_files().any(|state| manifest.with_kept(state).log_bytes(name).is_some())
    };
    let searched = folders_to_search(disk, manifest)?;
    for (folder, logger) in searched.iter().filter_map(|name| Some((name, logger_of(name)?))) {
        // A missing folder shows by its missing files.
        if !is_folder(disk, folder)? {
            continue;
        }
        for file in disk.list(folder)?.iter().filter_map(|name| SegmentFile::parse(logger, name)) {
            let is_listed = manifest.lists(file.name.generation);
            let is_outside = manifest.is_outside(file.name);
            if is_outside || (manifest.is_of_backup() && manifest.log_bytes(file.name).is_none()) {
                if is_of_older(file.name) { older.push(file) } else { left.push(file) }
            } else if file.is_merged && !is_listed {
                unfinished.push(file);
            } else {
                found.entry((file.name.generation, logger)).or_default().push(file);
            }
        }
    }
    for files in found.values_mut() {
        assert!(!files.is_empty(), "a log is found by its files");
        files.sort_unstable();
        if let Some(twice) = files.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let detail = format!("{} has the same number: one of them does not belong here", twice[1]);
            return Err(DurabilityError::damaged_file(&twice[0].to_string(), 0, detail));
        }
    }
    assert!(older.is_empty() || manifest.is_of_backup(), "N21: only a backup has older states");
    Ok(FoundFiles { logs: found, unfinished, older, left })
}

/// Removes the files of a listed log from `found`. A listed log has at least one file.
pub(super) fn take_listed(found: &mut Files, generation: u64, logger: u32) -> Result<Vec<SegmentFile>> {
    let files = found.remove(&(generation, logger));
    files.ok_or_else(|| missing_log(generation, logger))
}

pub(super) fn missing_log(generation: u64, logger: u32) -> DurabilityError {
    missing_file(SegmentName { generation, logger, number: 0 })
}

pub(super) fn missing_file(name: SegmentName) -> DurabilityError {
    DurabilityError::damaged_file(&name.to_string(), 0, "a log that the manifest lists is missing")
}

/// Checks that unlisted logs hold no entry that counts, as beside a manifest of another moment. Returns the removable
/// files: this database's (I1), and files that end before a whole opening block.
pub(super) fn check_unlisted(
    disk: &dyn Disk,
    manifest: &Manifest,
    unlisted: &Files,
) -> Result<Vec<SegmentFile>> {
    let open = manifest.generations.last().map_or(0, |last| last.number);
    let mut ours = Vec::new();
    for (&(generation, _), files) in unlisted {
        for file in files {
            let is_ours = proves_ours(disk, manifest, &file.to_string())?;
            if is_ours {
                ours.push(*file);
            }
            // Older generations were dropped because no entry of theirs counts. Newer generations were never listed, so
            // they hold no entry. A listed generation has no logs beyond the manifest's count.
            if generation >= open || manifest.lists(generation) {
                check_empty(disk, *file, is_ours)?;
            }
        }
    }
    Ok(ours)
}

/// Checks that a file is empty, behind a gap too. A file without a first block gives no proof of other contents.
fn check_empty(disk: &dyn Disk, file: SegmentFile, is_ours: bool) -> Result<()> {
    let chain = FileChain::read(disk, file, None)?;
    // A file of another log or generation, under a wrong name, still holds its old contents.
    let is_misnamed = chain.opening.is_none() && chain.tail.bytes > OPENING_BYTES as u64;
    if chain.runs.is_empty() && chain.tail.epochs.is_none() && is_ours && !is_misnamed {
        return Ok(());
    }
    let detail = format!("it is missing or too old: {file} holds entries and is not listed");
    Err(DurabilityError::damaged_file(MANIFEST, 0, detail))
}

/// Checks that files of unfinished merges, which are removed and made again, prove to be this database's (I1).
pub(super) fn check_unfinished(disk: &dyn Disk, manifest: &Manifest, files: &[SegmentFile]) -> Result<()> {
    for file in files.iter().map(SegmentFile::to_string) {
        if !proves_ours(disk, manifest, &file)? {
            let detail = "its first block cannot be read, so it is unknown whose it is: move it away";
            return Err(DurabilityError::damaged_file(&file, 0, detail));
        }
    }
    Ok(())
}
