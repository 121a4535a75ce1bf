//! Which log files are on disk, and whose they are.
//!
//! Invariant: N21: in a backup a file that no state of it names is of a run that did not end, and says nothing; nor
//! does one outside what was copied of a log, in a backup or in what was one.
//!
//! Neighbours: recovery reads the listed ones and removes the others; names are parsed in `names`.

use std::collections::BTreeMap;

use ensile_disk::Disk;

use super::file::FileChain;
use crate::DurabilityError;
use crate::block::origin::OPENING_BYTES;
use crate::store::folders::is_folder;
use crate::store::manifest::Manifest;
use crate::store::names::{MANIFEST, SegmentFile, SegmentName, logger_of};
use crate::store::whose::{proves_ours, searched};

/// Files in the order of their numbers, by generation and logger.
pub(super) type Files = BTreeMap<(u64, u32), Vec<SegmentFile>>;

/// All log files of a folder.
#[derive(Debug, Default)]
pub(super) struct FoundFiles {
    /// Of logs that the manifest lists, and of others; the former without what stands outside what was copied of them.
    pub(super) logs: Files,
    /// What a merge left that had not ended: its sources are listed still, and hold all of it.
    pub(super) unfinished: Vec<SegmentFile>,
    /// Of a backup: files of older states only.
    pub(super) older: Vec<SegmentFile>,
    /// Files that a backup has left there that had not ended.
    pub(super) left: Vec<SegmentFile>,
}

/// Finds all log files in the folders that are this database's (I1), also in those that the manifest does not list:
/// what is found does not depend on how many folders an open claims.
pub(super) fn find(disk: &dyn Disk, manifest: &Manifest) -> Result<FoundFiles, DurabilityError> {
    let FoundFiles { logs: mut found, mut unfinished, mut older, mut left } = FoundFiles::default();
    let is_of_older = |name: SegmentName| {
        manifest.kept_files().any(|state| manifest.with_kept(state).log_bytes(name).is_some())
    };
    let searched = searched(disk, manifest)?;
    for (folder, logger) in searched.iter().filter_map(|name| Some((name, logger_of(name)?))) {
        // One that is missing shows by its files, which are missing too.
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
            return Err(DurabilityError::damaged(&twice[0].to_string(), 0, detail));
        }
    }
    assert!(older.is_empty() || manifest.is_of_backup(), "N21: only a backup has older states");
    Ok(FoundFiles { logs: found, unfinished, older, left })
}

/// Takes the files of a listed log out of `found`: it has one at least.
pub(super) fn take_listed(
    found: &mut Files,
    (generation, logger): (u64, u32),
) -> Result<Vec<SegmentFile>, DurabilityError> {
    let files = found.remove(&(generation, logger));
    files.ok_or_else(|| missing_file(SegmentName { generation, logger, number: 0 }))
}

/// A file that must be there is not.
pub(super) fn missing_file(name: SegmentName) -> DurabilityError {
    DurabilityError::damaged(&name.to_string(), 0, "a log that the manifest lists is missing")
}

/// Looks at logs that are not listed: they hold nothing that counts, unless the manifest is not theirs. Returns the
/// files that may be removed: those that prove to be this database's (I1), and those that ended before their opening
/// block was whole.
///
/// # Errors
/// [`DurabilityError::NotOurs`] for a file of another database, [`DurabilityError::Unknown`] for one of a newer
/// version, [`DurabilityError::Damaged`] if one holds entries that are not listed.
pub(super) fn check_unlisted(
    disk: &dyn Disk,
    manifest: &Manifest,
    unlisted: &Files,
) -> Result<Vec<SegmentFile>, DurabilityError> {
    let open = manifest.generations.last().map_or(0, |last| last.number);
    let mut ours = Vec::new();
    for (&(generation, _), files) in unlisted {
        for file in files {
            let is_ours = proves_ours(disk, manifest, &file.to_string())?;
            if is_ours {
                ours.push(*file);
            }
            // Older ones were dropped for holding no entry that counts; newer ones were never listed, so they hold
            // none. A listed one has no logs but those that the manifest counts.
            if generation >= open || manifest.lists(generation) {
                check_empty(disk, *file, is_ours)?;
            }
        }
    }
    Ok(ours)
}

/// Behind a gap too: what is removed here cannot be asked again. Without its first block a file does not say what else
/// it holds.
fn check_empty(disk: &dyn Disk, file: SegmentFile, is_ours: bool) -> Result<(), DurabilityError> {
    let chain = FileChain::read(disk, file, None)?;
    // One of another log or generation, under a name that is not its own, holds what it held there.
    let is_misnamed = chain.opening.is_none() && chain.tail.bytes > OPENING_BYTES as u64;
    if chain.runs.is_empty() && chain.tail.epochs.is_none() && is_ours && !is_misnamed {
        return Ok(());
    }
    let detail = format!("it is missing or too old: {file} holds entries and is not listed");
    Err(DurabilityError::damaged(MANIFEST, 0, detail))
}

/// Files of merges that did not end are removed, and made again under the same name: each must prove to be this
/// database's (I1).
///
/// # Errors
/// [`DurabilityError::NotOurs`], [`DurabilityError::Unknown`]; [`DurabilityError::Damaged`] for one that does not say
/// whose it is.
pub(super) fn check_unfinished(
    disk: &dyn Disk,
    manifest: &Manifest,
    unfinished: &[SegmentFile],
) -> Result<(), DurabilityError> {
    for file in unfinished.iter().map(SegmentFile::to_string) {
        if !proves_ours(disk, manifest, &file)? {
            let detail = "its first block cannot be read, so it is unknown whose it is: move it away";
            return Err(DurabilityError::damaged(&file, 0, detail));
        }
    }
    Ok(())
}
