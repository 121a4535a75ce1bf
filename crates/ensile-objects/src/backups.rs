//! Backups of objects that may be open, and new folders from them.
//!
//! A backup is a folder with the files of a checkpoint and of the log behind the checkpoint, read under a lease.
//!
//! Neighbours: `ensile_durability::backup` copies and verifies; the `ensile` command calls [`backup`] and [`restore`].

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_disk::Disk;
pub use ensile_durability::{CopyOptions, CopyPhase, CopyProgress, CopyReport, WatchCopy};
use ensile_durability::{
    CopySource, DurabilityError, EntryKind, HeldGuard, RestoreTarget, ask, check_copy, copy_target,
    expect_entries,
};

use crate::collection::Objects;
use crate::collection::check::existing_disk;
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::framing::ObjectFraming;
use crate::runtime::OpenRuntime;
use crate::{ApplicationLog, ObjectKey, Persistent};

/// Backs the objects in the folder `source` up into the folder `target`. `target` is then an independent folder. A
/// process may have `source` open. The backup has every change that is durable in the log at the start of the backup.
/// Later results of a process-safe owner are in [`Objects::backup`] alone.
///
/// If `target` has an earlier backup of `source`, the backup writes only the missing bytes. The backup asks `watch`
/// between steps, and is cancelled if `watch` breaks.
///
/// # Errors
/// [`ObjectsError::Storage`]: `source` holds no objects, or is damaged, with file and offset; `target` has something
/// else, lies in `source`, or cannot be written.
pub fn backup(
    source: &Path,
    target: &Path,
    options: CopyOptions,
    watch: &mut WatchCopy<'_>,
) -> Result<CopyReport> {
    check_copy(options)?;
    let source = existing_disk(source)?;
    expect_entries(&*source, EntryKind::Operations)?;
    let run = CopySource::backup(&source, options)?.begin(&copy_target(target, &*source)?)?;
    run.run(&ObjectFraming, &Clock::machine(), &|| Ok(()), watch)
}

/// Makes a new folder of objects in `target` from a backup. `target` is empty or missing. The new folder has the
/// backup's newest state, or the state at the end of epoch `at`. The restore reads and writes `bytes_per_second` at
/// most. A failed restore removes the folder that it made. A second call continues a cancelled restore.
///
/// # Errors
/// [`ObjectsError::Storage`]: `from` is no backup of objects, does not keep that epoch, or is damaged; `target` is
/// not empty.
pub fn restore(
    from: &Path,
    target: &Path,
    at: Option<Epoch>,
    bytes_per_second: Option<u64>,
    watch: &mut WatchCopy<'_>,
) -> Result<CopyReport> {
    restore_from_source(from, target, |from| CopySource::restore(from, at, bytes_per_second), watch)
}

/// Restores exactly the state at the end of epoch `to`, as [`restore`] does. A backup goes back to the end of its
/// checkpoint.
///
/// # Errors
/// As for [`restore`]; also if the epoch is not available. The error names the available epochs.
pub fn restore_to_epoch(
    from: &Path,
    target: &Path,
    to: Epoch,
    bytes_per_second: Option<u64>,
    watch: &mut WatchCopy<'_>,
) -> Result<CopyReport> {
    let source = |from: &Arc<dyn Disk>| CopySource::restore_to_epoch(from, None, to, bytes_per_second);
    restore_from_source(from, target, source, watch)
}

fn restore_from_source(
    from: &Path,
    target: &Path,
    source: impl FnOnce(&Arc<dyn Disk>) -> Result<CopySource, DurabilityError>,
    watch: &mut WatchCopy<'_>,
) -> Result<CopyReport> {
    let from = existing_disk(from)?;
    expect_entries(&*from, EntryKind::Operations)?;
    let source = source(&from)?;
    let target = RestoreTarget::open(target, &[&*from])?;
    let begun = source.begin(target.disk()).map_err(ObjectsError::from);
    let made = begun.and_then(|run| run.run(&ObjectFraming, &Clock::machine(), &|| Ok(()), watch));
    let is_cancelled =
        made.as_ref().is_err_and(|error| matches!(error.cause(), Some(DurabilityError::Cancelled)));
    target.finish(made, is_cancelled)
}

impl OpenRuntime {
    /// Backs the open folder up: each change that was logged before the call, or, without a log, a new checkpoint.
    fn backup(&self, target: &Path, options: CopyOptions, watch: &mut WatchCopy<'_>) -> Result<CopyReport> {
        self.check_caller()?;
        HeldGuard::check_none()?;
        self.check_open()?;
        check_copy(options)?;
        if self.is_logged() {
            self.wait_for_log()?;
        } else {
            self.demand_checkpoint().wait()?;
        }
        ask::<ObjectsError>(&CopyProgress::new(CopyPhase::Checkpoint), watch)?;
        let source = self.checkpoints.disk();
        let run = CopySource::backup(source, options)?.begin(&copy_target(target, &**source)?)?;
        // Objects without threads need steps meanwhile.
        let may_go_on = || {
            let _ = self.drive();
            Ok(self.check_open()?)
        };
        run.run(&ObjectFraming, &self.clock, &may_go_on, watch)
    }
}

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    /// Backs the objects up into the folder `target`, while other threads go on. `target` is then an independent
    /// folder. The backup has every change before the call. A second backup into the same folder writes the missing
    /// bytes. [`folder::restore`](crate::folder::restore) makes a new folder from the backup.
    ///
    /// ```
    /// # use ensile_objects::{Objects, ObjectsBuilder, ObjectsError, folder};
    #[doc = include_str!("price.txt")]
    /// # fn main() -> Result<(), ObjectsError> {
    /// # let root = std::env::temp_dir().join(format!("ensile-objects-backup-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&root).expect("a folder");
    /// let prices: Objects<u64, Price> = ObjectsBuilder::new(root.join("prices")).open()?;
    /// prices.update(1, &250)?;
    /// prices.backup(root.join("backup"))?;
    /// prices.update(1, &99)?;
    /// let watch = &mut |_: &folder::CopyProgress| std::ops::ControlFlow::Continue(());
    /// folder::restore(&root.join("backup"), &root.join("again"), None, None, watch)?;
    /// let again: Objects<u64, Price> = ObjectsBuilder::new(root.join("again")).open()?;
    /// assert_eq!(again.read(&1, |price| price.map(|price| price.0))?, Some(250));
    /// # again.close()?;
    /// # prices.close()?;
    /// # std::fs::remove_dir_all(&root).expect("it is there");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ObjectsError::Storage`]: `target` has something else, lies in the folder, or cannot be written; the objects
    /// are closed.
    pub fn backup(&self, target: impl AsRef<Path>) -> Result<CopyReport> {
        self.backup_with(target.as_ref(), CopyOptions::default(), &mut |_| ControlFlow::Continue(()))
    }

    /// As [`backup`](Self::backup), with options. The backup asks `watch` between steps, and is cancelled if `watch`
    /// breaks.
    ///
    /// # Errors
    /// As for [`backup`](Self::backup).
    pub fn backup_with(
        &self,
        target: &Path,
        options: CopyOptions,
        watch: &mut WatchCopy<'_>,
    ) -> Result<CopyReport> {
        self.runtime.backup(target, options, watch)
    }
}

impl ApplicationLog {
    /// As [`Objects::backup`]. The caller holds no guard, as a checkpoint may be made.
    ///
    /// # Errors
    /// As for [`Objects::backup`].
    pub fn backup(&self, target: impl AsRef<Path>) -> Result<CopyReport> {
        self.backup_with(target.as_ref(), CopyOptions::default(), &mut |_| ControlFlow::Continue(()))
    }

    /// As [`Objects::backup_with`].
    ///
    /// # Errors
    /// As for [`Objects::backup`].
    pub fn backup_with(
        &self,
        target: &Path,
        options: CopyOptions,
        watch: &mut WatchCopy<'_>,
    ) -> Result<CopyReport> {
        self.runtime.backup(target, options, watch)
    }
}
