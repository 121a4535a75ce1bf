//! Backups of a database that may be open, and new databases from backups. [`Database::backup`] and [`backup`] step a
//! run of the durability crate to its end, on the calling thread.
//!
//! Neighbours: `ensile_durability::backup` copies and verifies. The `ensile` command calls [`backup`] and [`restore`].

use std::future::Future as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::sync::sleep;
use ensile_durability::{
    CheckpointHandle, CopyOptions, CopyPhase, CopyProgress, CopyReport, CopySource, DurabilityError, Durable,
    EntryKind, RestoreTarget, ask, check_copy, copy_target,
};

use super::{EntryFormCheck, open_existing_disk};
use crate::database::Database;
use crate::error::{Error, Result};

/// Pause between two calls of `watch` while a backup waits for a checkpoint.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// Pause between two checks that the log has all earlier commits: about the duration of a sync.
const LOG_PAUSE: Duration = Duration::from_millis(1);

impl Database {
    /// Backs the database up into a folder. The folder is then a database of its own: it has everything committed
    /// before the call, and perhaps later commits. As [`Database::backup_with`], with the default options.
    ///
    /// A second backup into the same folder writes only the changes since the first. With fuzzy checkpoints, the
    /// default, the changes are the newer part of the log, and the whole newest checkpoint if a checkpoint was made
    /// since. A whole checkpoint is as large as the database. With [pictures](crate::checkpoint::Strategy::Pictures)
    /// the changes are the changed pages.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::checkpoint::Strategy;
    /// use ensile::{Database, Readable, Tuning};
    /// # fn main() -> ensile::Result<()> {
    /// # let data = std::env::temp_dir().join(format!("ensile-backup-{}", std::process::id()));
    /// # std::fs::create_dir_all(&data).expect("a folder");
    /// let tuning = Tuning { checkpoint_strategy: Some(Strategy::Pictures), ..Tuning::default() };
    /// let db = Database::builder(data.join("shop")).tuning(tuning).open()?;
    /// let stock = db.table::<u64, u64>("stock")?;
    /// db.run(|tx| tx.put(&stock, &1, &100))?;
    /// db.backup(data.join("backup"))?;
    /// db.run(|tx| tx.put(&stock, &1, &99))?;
    /// let report = db.backup(data.join("backup"))?; // Writes the changes since.
    /// assert!(report.epoch <= db.epoch());
    ///
    /// ensile::folder::restore(&data.join("backup"), &data.join("again"), None)?;
    /// let again = Database::open(data.join("again"))?;
    /// let stock = again.table::<u64, u64>("stock")?;
    /// assert_eq!(again.run(|tx| tx.get(&stock, &1))?, Some(99));
    /// # again.close()?;
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&data).expect("it was there");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Database::backup_with`].
    pub fn backup(&self, target: impl AsRef<Path>) -> Result<CopyReport> {
        self.backup_with(target.as_ref(), CopyOptions::default(), &mut |_| ControlFlow::Continue(()))
    }

    /// Backs the database up into the folder `target`, on this thread, while other threads commit. The backup holds
    /// everything committed before the call. With pictures, the call first requests a picture and waits for the
    /// picture. With other checkpoints, the call waits until the log has everything committed before the call.
    ///
    /// If the folder has an earlier backup of this database, only the missing data is written. The folder keeps
    /// `options.keep` states, the newest included; without a number, as many as before. With
    /// [pictures](crate::checkpoint::Strategy::Pictures) a backup is the state at the end of one epoch, without a log,
    /// and the next backup writes the changed pages. With other checkpoints a backup is a copy of the files, log
    /// included. The next backup then copies the new part of the log, and a new checkpoint: a fuzzy checkpoint as a
    /// whole, and the renewed ranges of a [cycling](crate::checkpoint::Strategy::Cycling) checkpoint.
    ///
    /// `options.bytes_per_second` limits the requested picture, and then the copy. The rate of the picture is at most
    /// [`Tuning::checkpoint_bandwidth`](crate::Tuning::checkpoint_bandwidth), too. The picture exceeds the rate of the
    /// backup in three cases: another caller waits for the picture, or for the next checkpoint, at a larger rate or
    /// without a rate ([`Database::checkpoint`]); the backup is cancelled; or space on the disk becomes scarce. A low
    /// rate has a price: no other checkpoint is made meanwhile, so the log grows. A picture also gives way if too many
    /// bytes are displaced before its end ([`Tuning::displaced_bytes_max`](crate::Tuning::displaced_bytes_max)).
    /// [Without a log](crate::Builder::without_log) the picture is not slowed, because results become durable by the
    /// picture.
    ///
    /// The call reads the whole backup once more before the return. A backup that fails, is cancelled or is killed
    /// leaves an earlier backup unchanged. If no earlier backup exists, only the next run accepts the folder.
    /// [`folder::restore`](crate::folder::restore) makes a database from the backup, and leaves the backup a backup. An
    /// open makes a database of the folder itself, and the folder then takes no further backup.
    ///
    /// `watch` is called between two steps of about a page. The backup is cancelled if `watch` breaks.
    ///
    /// # Errors
    /// [`Error::Misuse`](crate::Error::Misuse) for a database in memory; [`Error::Closed`](crate::Error::Closed), also
    /// after a close during the call; [`Error::Storage`](crate::Error::Storage) if the folder has other contents or
    /// cannot be written, if the checkpoint failed, if the backup was cancelled, or if for minutes the database changes
    /// faster than the copy runs ("the backup would not end"). Before that, the progress shows how often the copy began
    /// anew.
    pub fn backup_with(
        &self,
        target: &Path,
        options: CopyOptions,
        watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
    ) -> Result<CopyReport> {
        let checkpoints = self.own_checkpoints()?;
        check_copy(options)?;
        let shared = self.shared();
        let source = checkpoints.disk();
        let found = match &shared.storage.log {
            Some(log) if !checkpoints.backups_need_checkpoint() => {
                wait_for_log(log.durable(shared.epochs.now()), &|| shared.life.check_open(), watch)?;
                CopySource::backup(source, options)?
            }
            _ => {
                wait_for(&checkpoints.demand_paced(options.bytes_per_second), watch)?;
                CopySource::picture(source, options)?
            }
        };
        let run = found.begin(&copy_target(target, &**source)?)?;
        run.run(&EntryFormCheck, &shared.clock, &|| shared.life.check_open(), watch)
    }
}

/// Backs the database in the folder `source` up into the folder `target`: the newest checkpoint, and the log after the
/// checkpoint. A process may have the database open meanwhile. The backup has everything that was durable at the begin
/// of the copy. [`CopyReport::durable`] is the durable epoch at the begin, and [`CopyReport::epoch`] is the epoch of
/// the backup. A [`lease`](super::lease) keeps the files that the copy reads. If the lease is overrun, the copy goes on
/// from the newest checkpoint.
///
/// # Errors
/// As for [`Database::backup_with`]; also if `source` has no database, or the database is damaged: the error names file
/// and offset.
pub fn backup(
    source: &Path,
    target: &Path,
    options: CopyOptions,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<CopyReport> {
    check_copy(options)?;
    let source = open_existing_disk(source)?;
    ensile_durability::expect_entries(&*source, EntryKind::Values)?;
    let run = CopySource::backup(&source, options)?.begin(&copy_target(target, &*source)?)?;
    run.run(&EntryFormCheck, &Clock::machine(), &|| Ok(()), watch)
}

/// Makes a new database in the folder `target`, which is empty or missing, from a backup. The database has the newest
/// state of the backup, or the state that the backup keeps at the end of epoch `at`. The backup stays unchanged. The
/// call reads the written data once more before the return. Until then no open makes a database of the folder. After a
/// kill, run the restore again, or remove the folder. [`restore_to_epoch`] makes a database at other epochs.
///
/// # Errors
/// [`Error::Storage`](crate::Error::Storage) if the folder is not empty, if `from` is no backup, if the backup
/// does not keep epoch `at`, or if a file is damaged. For a missing epoch, the error names the kept epochs.
pub fn restore(from: &Path, target: &Path, at: Option<Epoch>) -> Result<CopyReport> {
    restore_with(from, target, at, None, &mut |_| ControlFlow::Continue(()))
}

/// As [`restore`], but reads and writes at most `bytes_per_second`. `watch` is called between two steps. The restore is
/// cancelled if `watch` breaks.
///
/// # Errors
/// As for [`restore`]; also if the restore was cancelled.
pub fn restore_with(
    from: &Path,
    target: &Path,
    at: Option<Epoch>,
    bytes_per_second: Option<u64>,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<CopyReport> {
    let from = open_existing_disk(from)?;
    run_restore(
        CopySource::restore(&from, at, bytes_per_second)?,
        RestoreTarget::open(target, &[&*from])?,
        watch,
    )
}

/// As [`restore_with`], but restores exactly the state at the end of epoch `to`. `watch` is called between the pieces
/// of the archive, too. These epochs can be restored:
///
/// - the epochs of the backup's states ([`CopyOptions::keep`]);
/// - with the log of a state, each epoch that counted from the end of the state's checkpoint on. Every state has a log,
///   except a picture by [`Database::backup`];
/// - after a state, each epoch that counted up to the end of the database's [archive](crate::Builder::archive), if
///   `archive` is given. The archive must go on from the state without a gap.
///
/// An epoch counted if the epoch was durable in a life of the database. A receipt has the epoch of its commit
/// ([`Receipt::epoch`](crate::Receipt::epoch)), [`changes`](super::changes) has the epochs in the log, and
/// [`inspect_archive`](super::inspect_archive) has the epochs in an archive.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use std::ops::ControlFlow;
///
/// use ensile::folder::{CopyProgress, restore_to_epoch};
/// use ensile::{Database, Readable};
/// # fn main() -> ensile::Result<()> {
/// # let data = std::env::temp_dir().join(format!("ensile-to-epoch-{}", std::process::id()));
/// # std::fs::create_dir_all(&data).expect("a folder");
/// let (backup, archive) = (data.join("backup"), data.join("archive"));
/// let db = Database::builder(data.join("shop")).archive(archive.as_path()).open()?;
/// let stock = db.table::<u64, u64>("stock")?;
/// db.run(|tx| tx.put(&stock, &1, &100))?;
/// db.backup(&backup)?;
/// let ((), sold) = db.submit(|tx| tx.put(&stock, &1, &99))?;
/// sold.durable()?;
/// # while db.epoch() <= sold.epoch() { std::thread::yield_now(); }
/// db.run(|tx| tx.delete(&stock, &1))?; // By mistake.
/// db.close()?; // The archive has the last log file, too.
///
/// let then = data.join("then");
/// let watch = &mut |_: &CopyProgress| ControlFlow::Continue(());
/// restore_to_epoch(&backup, Some(&archive), &then, sold.epoch(), None, watch)?;
/// let then = Database::open(then)?;
/// let stock = then.table::<u64, u64>("stock")?;
/// assert_eq!(then.run(|tx| tx.get(&stock, &1))?, Some(99));
/// # then.close()?;
/// # std::fs::remove_dir_all(&data).expect("it was there");
/// # Ok(()) }
/// ```
///
/// # Errors
/// As for [`restore_with`]; also if epoch `to` cannot be restored. The error names the epochs that can be restored, and
/// the reason: the epoch was discarded, or is before the end of the backup's checkpoint; the archive belongs to another
/// database, or to another history than the backup, begins after the backup, or lacks a file.
pub fn restore_to_epoch(
    from: &Path,
    archive: Option<&Path>,
    target: &Path,
    to: Epoch,
    bytes_per_second: Option<u64>,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<CopyReport> {
    let (from, archive) = (open_existing_disk(from)?, archive.map(open_existing_disk).transpose()?);
    let source = CopySource::restore_to_epoch(&from, archive.as_ref(), to, bytes_per_second)?;
    let mut sources = vec![&*from];
    sources.extend(archive.as_deref());
    run_restore(source, RestoreTarget::open(target, &sources)?, watch)
}

/// Epochs to which [`restore_to_epoch`] can restore a backup, with the database's archive if given: spans of first and
/// last epoch, in order. Epochs between two lives of the database were discarded, and cannot be restored.
///
/// # Errors
/// [`Error::Storage`](crate::Error::Storage) if `from` is no backup, or if the archive belongs to another
/// database, or to another history than the backup.
pub fn restorable_epochs(from: &Path, archive: Option<&Path>) -> Result<Vec<(Epoch, Epoch)>> {
    let (from, archive) = (open_existing_disk(from)?, archive.map(open_existing_disk).transpose()?);
    Ok(ensile_durability::restorable_epochs(&from, archive.as_ref())?)
}

/// Runs a restore to its end, on the calling thread, and finishes or discards the target folder.
fn run_restore(
    source: CopySource,
    target: RestoreTarget,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<CopyReport> {
    let begun = source.begin(target.disk()).map_err(Error::from);
    let made = begun.and_then(|run| run.run(&EntryFormCheck, &Clock::machine(), &|| Ok(()), watch));
    let is_cancelled =
        made.as_ref().is_err_and(|error| matches!(error.cause(), Some(DurabilityError::Cancelled)));
    target.finish(made, is_cancelled)
}

/// Waits for the checkpoint with which a backup begins, and calls `watch` meanwhile.
fn wait_for(
    handle: &CheckpointHandle,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<()> {
    loop {
        match handle.outcome() {
            Some(Ok(_)) => return Ok(()),
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
        ask::<Error>(&CopyProgress::new(CopyPhase::Checkpoint), watch)?;
        sleep(PAUSE_MAX);
    }
}

/// Waits until the log has every commit before the call. Between two looks the call runs `may_go_on`, which fails once
/// the database is closed, and `watch`.
fn wait_for_log(
    durable: Durable,
    may_go_on: &dyn Fn() -> Result<()>,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<()> {
    let mut durable = pin!(durable);
    loop {
        // The loop polls the future again and again, as the caller may cancel. The future stays alive meanwhile, so
        // loggers hurry.
        if let Poll::Ready(outcome) = durable.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Ok(outcome?);
        }
        may_go_on()?;
        ask::<Error>(&CopyProgress::new(CopyPhase::Checkpoint), watch)?;
        sleep(LOG_PAUSE);
    }
}
