//! Runs a copy from its begin to its end on the calling thread, and opens the folder of the target.
//!
//! Invariants:
//! - A target inside the copied folder is refused, also through a link: the copy would copy itself.
//! - A restore that fails without a cancellation removes the folder that the restore has made. An open of the folder
//!   would make an empty database, or would refuse the folder.
//!
//! Neighbours: databases, objects and the `ensile` command run copies. [`super::copy_run`] takes the steps.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::sync::sleep;
use ensile_disk::{Disk, RealDisk};

use super::copy_report::{CopyReport, CopyStep};
use super::copy_run::CopyRun;
use crate::copy_progress::CopyProgress;
use crate::files::manifest::Manifest;
use crate::store::{LockMode, Locks};
use crate::{DurabilityError, Recoverable};

/// Longest pause between two calls of the callback `watch`.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Callback between two steps of a copy. A `Break` cancels the copy.
pub type WatchCopy<'w> = dyn FnMut(&CopyProgress) -> ControlFlow<()> + 'w;

/// Asks `watch` for permission to go on with the copy.
///
/// # Errors
/// [`DurabilityError::Cancelled`].
pub fn ask<E: From<DurabilityError>>(progress: &CopyProgress, watch: &mut WatchCopy<'_>) -> Result<(), E> {
    match watch(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(DurabilityError::Cancelled.into()),
    }
}

/// Pauses between two pieces of one step. `asked` is the answer of the callbacks. If `asked` is `Ok`, waits for the
/// rate, but not for long. Otherwise stores the error in `stopped` and breaks.
pub fn pause_copy<E>(wait: Duration, asked: Result<(), E>, stopped: &mut Result<(), E>) -> ControlFlow<()> {
    match asked {
        Ok(()) => {
            sleep(wait.min(PAUSE_MAX));
            ControlFlow::Continue(())
        }
        Err(error) => {
            *stopped = Err(error);
            ControlFlow::Break(())
        }
    }
}

impl CopyRun {
    /// Steps the copy until the copy has ended, or may not go on.
    ///
    /// # Errors
    /// As for [`CopyRun::step`]; [`DurabilityError::Cancelled`]; the errors of `may_go_on`.
    pub fn run<E: From<DurabilityError>>(
        mut self,
        verifier: &dyn Recoverable,
        clock: &Clock,
        may_go_on: &dyn Fn() -> Result<(), E>,
        watch: &mut WatchCopy<'_>,
    ) -> Result<CopyReport, E> {
        loop {
            may_go_on()?;
            ask::<E>(&self.progress(), watch)?;
            let mut stopped = Ok(());
            let step = self.step(verifier, clock, &mut |progress, wait| {
                let asked = may_go_on().and_then(|()| ask(progress, watch));
                pause_copy(wait, asked, &mut stopped)
            });
            stopped?;
            match step? {
                CopyStep::Worked => {}
                CopyStep::Paced(wait) => sleep(wait.min(PAUSE_MAX)),
                CopyStep::Ended(report) => return Ok(*report),
            }
        }
    }
}

/// Opens the folder of a backup, which must lie outside of the source. A missing folder is made. Callers open the
/// target after the source is known to have something to copy.
///
/// # Errors
/// [`DurabilityError::Config`] if the target lies in the source; the errors of the disk.
pub fn copy_target(target: &Path, source: &dyn Disk) -> Result<Arc<dyn Disk>, DurabilityError> {
    check_outside(target, source)?;
    Ok(Arc::new(RealDisk::open_hidden(target)?))
}

/// Folder of a restore.
#[derive(Debug)]
pub struct RestoreTarget {
    disk: Arc<dyn Disk>,
    /// The same disk, if this restore makes the folder.
    made: Option<Arc<RealDisk>>,
}

impl RestoreTarget {
    /// Opens the folder at `path`, which must lie outside of the sources. A missing folder is made.
    ///
    /// # Errors
    /// As for [`copy_target`].
    pub fn open(path: &Path, sources: &[&dyn Disk]) -> Result<Self, DurabilityError> {
        sources.iter().try_for_each(|source| check_outside(path, *source))?;
        let disk = Arc::new(RealDisk::open_hidden(path)?);
        let made = disk.is_hidden().then(|| Arc::clone(&disk));
        Ok(Self { disk, made })
    }

    /// Disk of the folder.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Returns the outcome of the restore, after the restore has released the folder. If the restore failed, a folder
    /// that the restore has made is removed. A cancelled restore keeps the folder, because the next run goes on from
    /// there.
    ///
    /// # Errors
    /// The error of `outcome`.
    pub fn finish<T, E: From<DurabilityError>>(
        self,
        outcome: Result<T, E>,
        is_cancelled: bool,
    ) -> Result<T, E> {
        // A folder that is still hidden goes with the disk, and another restore may have made the folder at the path.
        let shown = self.made.as_ref().filter(|disk| !disk.is_hidden());
        if let Some(shown) = shown.filter(|_| outcome.is_err() && !is_cancelled) {
            // If the removal fails, the remaining folder is marked as an unfinished restore.
            let _ = remove(shown);
        }
        outcome
    }
}

/// Removes the folder of a failed restore, unless another process has made something else of the folder.
fn remove(folder: &RealDisk) -> Result<(), DurabilityError> {
    // Another restore into the folder holds these locks until its end.
    let mut locks = Locks::of_folder(folder, LockMode::Exclusive)?;
    locks.add_file(folder)?;
    match Manifest::read(folder)? {
        Some(manifest) if manifest.unfinished_copy().is_some() => Ok(folder.remove_root()?),
        _ => Ok(()),
    }
}

/// Refuses a target inside the source's folder, or inside a folder to which a link of the source leads.
fn check_outside(target: &Path, source: &dyn Disk) -> Result<(), DurabilityError> {
    let real = RealDisk::real_path(target)?;
    let folders = source.list_folders("")?;
    for name in std::iter::once("").chain(folders.iter().map(String::as_str)) {
        // A dangling link has no folder below it.
        let Ok(place) = source.folder_place(name) else { continue };
        if real.starts_with(&place) {
            return Err(DurabilityError::config(format!(
                "{} lies in {}, which is copied: give a folder outside of it",
                target.display(),
                place.display()
            )));
        }
    }
    Ok(())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
