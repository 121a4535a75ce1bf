//! Claim of the folders of logs and checkpointers: creation or link, lock, mark, and entry in the manifest.
//!
//! Invariant: I1: An unlisted folder is taken only if it is empty or has this database's mark.
//!
//! Neighbours: a recovery, a repair, checkpoints, and copies into a new folder claim folders before they make files
//! there.

use std::path::PathBuf;
use std::sync::Arc;

use ensile_disk::Disk;

use super::locks::Locks;
use super::mark_renewal::{is_renewable, lost_mark};
use super::{folders, ownership};
use crate::files::manifest::{Manifest, ManifestKeeper};
use crate::files::names::MAIN;
use crate::{DurabilityError, Result};

/// Wanted folders of a kind, named `name(0)` to `name(count - 1)`: links to `links`, or plain folders if that is empty.
pub(crate) struct Wanted<'a> {
    pub(crate) count: usize,
    pub(crate) links: &'a [PathBuf],
    pub(crate) name: fn(u32) -> String,
}

/// Makes the wanted folders this database's folders: made or linked, locked, marked, and on the list of the next
/// manifest. Returns the locks of the new folders, and true if there are new ones: the caller replaces the manifest.
pub(crate) fn claim(keeper: &mut ManifestKeeper, wanted: &[Wanted<'_>]) -> Result<(Locks, bool)> {
    let disk = Arc::clone(keeper.disk());
    let mut locks = Locks::empty();
    let names_of = |wanted: &Wanted<'_>| (0..wanted.count as u32).map(wanted.name).collect::<Vec<_>>();
    let names: Vec<String> = wanted.iter().flat_map(names_of).collect();
    debug_assert!(!names.iter().any(|name| name == MAIN), "I1: the main folder is no folder of a log");
    for name in names.iter().filter(|name| keeper.manifest().folders.contains_key(*name)) {
        if !ownership::is_needed(keeper.manifest(), name) {
            ownership::check_listed(&*disk, keeper.manifest(), name, true)
                .map_err(|why| renewable(&*disk, keeper.manifest(), name, why))?;
        }
    }
    for wanted in wanted {
        folders::make(&*disk, &names_of(wanted), wanted.links)?;
    }
    disk.sync_folder("")?;
    let listed = keeper.manifest().folders.keys().filter(|name| *name != MAIN && !names.contains(name));
    let all: Vec<String> = listed.chain(&names).cloned().collect();
    ownership::check_apart(&*disk, &all)?;
    let unlisted = |name: &String| !keeper.manifest().folders.contains_key(name);
    let names: Vec<String> = names.into_iter().filter(unlisted).collect();
    // Every folder is checked before the first lock and the first mark, because a lock makes a file in a folder that
    // cannot be locked. A refused claim leaves neither a lock file nor a mark.
    names.iter().try_for_each(|name| ownership::check_free(&*disk, keeper.manifest(), name).map(drop))?;
    let is_new = !names.is_empty();
    for name in names {
        locks.add_folder(&*disk, &name)?;
        let mark = ownership::check_free(&*disk, keeper.manifest(), &name)?;
        mark.prepare(&*disk)?;
        mark.place(&*disk)?;
        let number = disk.folder_id(&name)?;
        keeper.folders_mut().insert(name, number);
    }
    let is_listed = |name: &String| keeper.manifest().folders.contains_key(name);
    debug_assert!(all.iter().all(is_listed), "I1: each claimed folder is on the list");
    Ok((locks, is_new))
}

/// Error of a listed folder. If only the mark is lost, the error names the remedy.
fn renewable(disk: &dyn Disk, manifest: &Manifest, name: &str, why: DurabilityError) -> DurabilityError {
    match is_renewable(disk, manifest, name) {
        Ok(true) => lost_mark(name),
        _ => why,
    }
}
