//! A copy from its begin to its end, on the thread that calls; and the folders that it is made in.
//!
//! Invariants:
//! - A target within what is copied is refused, also by way of a link: the copy would copy itself.
//! - A restore that fails, and is not cancelled, leaves no folder that it has made: an open would make an empty
//!   database there, or refuse it.
//!
//! Neighbours: databases, objects and the `ensile` command run copies; [`super`] steps them.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::sync::sleep;
use ensile_disk::{Disk, RealDisk};

use super::{CopyReport, CopyRun, CopyStep};
use crate::copy_progress::CopyProgress;
use crate::store::manifest::Manifest;
use crate::store::unfinished::UnfinishedCopy;
use crate::store::{Hold, Locks, whose};
use crate::{DurabilityError, Recoverable};

/// Longest pause between two questions whether the copy is to go on.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Asked between two steps of a copy, which is cancelled if the answer is to break.
pub type WatchCopy<'w> = dyn FnMut(&CopyProgress) -> ControlFlow<()> + 'w;

/// Asks whether a copy is to go on.
///
/// # Errors
/// [`DurabilityError::Cancelled`].
pub fn ask<E: From<DurabilityError>>(progress: &CopyProgress, watch: &mut WatchCopy<'_>) -> Result<(), E> {
    match watch(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(DurabilityError::Cancelled.into()),
    }
}

/// Between two pieces of one step, which was `asked` whether it is to go on: waits for the rate, but not for long, or
/// notes why the step has `stopped`.
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
    /// Steps the copy until it has ended, or may not go on.
    ///
    /// # Errors
    /// As for [`CopyRun::step`]; [`DurabilityError::Cancelled`]; those of `may_go_on`.
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
            let step = self.step_by(verifier, clock, &mut |progress, wait| {
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

/// Folder of a backup, outside of the source, which is made if it is not there: once it is known that there is
/// something to put into it.
///
/// # Errors
/// [`DurabilityError::Config`] if it lies in the source; the disk's.
pub fn copy_target(target: &Path, source: &dyn Disk) -> Result<Arc<dyn Disk>, DurabilityError> {
    check_outside(target, source)?;
    Ok(Arc::new(RealDisk::open(target)?))
}

/// Folder of a restore.
#[derive(Debug)]
pub struct RestoreTarget<'p> {
    path: &'p Path,
    disk: Arc<dyn Disk>,
    /// True if this restore has made the folder.
    is_made: bool,
}

impl<'p> RestoreTarget<'p> {
    /// The folder at `path`, outside of what is read; made if it is not there.
    ///
    /// # Errors
    /// As for [`copy_target`].
    pub fn open(path: &'p Path, sources: &[&dyn Disk]) -> Result<Self, DurabilityError> {
        sources.iter().try_for_each(|source| check_outside(path, *source))?;
        let (disk, is_made) = match RealDisk::create_new(path) {
            Err(error) if error.is_already_exists() => (RealDisk::open(path)?, false),
            made => (made?, true),
        };
        Ok(Self { path, disk: Arc::new(disk), is_made })
    }

    /// The folder.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The outcome of the restore, which has let go of the folder. A cancelled restore is run again, and goes on.
    ///
    /// # Errors
    /// Those of the outcome.
    pub fn ended<T, E: From<DurabilityError>>(
        self,
        outcome: Result<T, E>,
        is_cancelled: bool,
    ) -> Result<T, E> {
        if outcome.is_err() && self.is_made && !is_cancelled {
            // A folder that stays says that the restore has not ended.
            let _ = self.remove();
        }
        outcome
    }

    /// Removes the folder, if nobody has made anything else of it.
    fn remove(&self) -> Result<(), DurabilityError> {
        // Another restore into the folder has this lock until it has ended.
        let _locks = Locks::of_folder(&*self.disk, Hold::Exclusive)?;
        match Manifest::read(&*self.disk)? {
            Some(manifest) if UnfinishedCopy::of(&manifest).is_some() => {
                Ok(RealDisk::remove_folder(self.path)?)
            }
            Some(_) => Ok(()),
            None if whose::why_not_new(&*self.disk)?.is_none() => Ok(RealDisk::remove_folder(self.path)?),
            None => Ok(()),
        }
    }
}

/// Refuses a target within the source's folder, and within those to which the source's links lead.
fn check_outside(target: &Path, source: &dyn Disk) -> Result<(), DurabilityError> {
    let real = RealDisk::real_path(target)?;
    let folders = source.list_folders("")?;
    for name in std::iter::once("").chain(folders.iter().map(String::as_str)) {
        // A link that leads nowhere has nothing below it.
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
