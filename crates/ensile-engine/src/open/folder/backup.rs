//! Backups of a database that may be open, and new databases from them: [`Database::backup`] and [`backup`] step a run
//! of the durability crate until it has ended, on the thread that calls.
//!
//! Neighbours: `ensile_durability::backup` copies and verifies; the `ensile` command calls [`backup`] and [`restore`].

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
    EntryKind, RestoreTarget, ask, copy_target,
};

use super::{Framing, existing};
use crate::database::Database;
use crate::error::{Error, Result};

/// The longest pause between two looks at whether the copy is to go on.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// The pause between two looks at whether the log has what was committed: a sync takes about as long.
const LOG_PAUSE: Duration = Duration::from_millis(1);

impl Database {
    /// Backs the database up into a folder, which is then a database of its own: what was committed before the call,
    /// and perhaps more. As [`Database::backup_with`], with the default options.
    ///
    /// A second backup into the same folder writes what has changed since. With fuzzy checkpoints, the default, that is
    /// the newer part of the log, and all of the newest checkpoint if there was one since: as much as the database has.
    /// With [pictures](crate::checkpoint::Strategy::Pictures) it is the pages that have changed.
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
    /// let report = db.backup(data.join("backup"))?; // Writes what has changed since.
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

    /// Backs the database up into the folder `target`, on this thread, while others go on. With pictures one is asked
    /// for first, and waited for; otherwise it is waited until all that is committed is in the log. So the backup holds
    /// all that was committed before the call.
    ///
    /// If the folder has an earlier backup of this database only what it lacks is written, and `options.keep` states
    /// are kept, the newest among them; without a number as many as it has. With
    /// [pictures](crate::checkpoint::Strategy::Pictures) a backup is the state at the end of one epoch, without a log,
    /// and the next one writes the pages that have changed. With other checkpoints its files are copied, log included,
    /// and the next one copies what the log has more, and a checkpoint that is new: a fuzzy one as a whole, of a
    /// [cycling](crate::checkpoint::Strategy::Cycling) one the ranges that were renewed.
    ///
    /// `options.bytes_per_second` holds for the picture that is asked for, and then for the copy. The picture writes no
    /// faster than [`Tuning::checkpoint_bandwidth`](crate::Tuning::checkpoint_bandwidth) either, and faster than the
    /// backup's rate if somebody else waits for it, or for the checkpoint behind it, at a larger one or without one
    /// ([`Database::checkpoint`]), if the backup is cancelled, or once space on the disk becomes scarce. A low rate
    /// has a price: no other checkpoint is made meanwhile, so the log grows, and a picture gives way if too much is
    /// displaced before it has ended ([`Tuning::displaced_bytes_max`](crate::Tuning::displaced_bytes_max)). [Without a
    /// log](crate::Builder::without_log) the picture is not slowed: results become durable by it.
    ///
    /// The backup is read as a whole before this returns; one that fails, is cancelled or killed leaves an earlier one
    /// as it was. If it was the first one, nothing takes the folder but the next run
    /// ([`DurabilityError::Unfinished`]). [`folder::restore`](crate::folder::restore) makes a database of the backup,
    /// and leaves it one; an open makes a database of the folder itself, which takes no further backup.
    ///
    /// `watch` is called between any two steps of a page or so; the backup is cancelled if it breaks.
    ///
    /// # Errors
    /// [`Error::Misuse`](crate::Error::Misuse) in memory, [`Error::Closed`](crate::Error::Closed), also if it is closed
    /// meanwhile, [`Error::Forked`](crate::Error::Forked);
    /// [`Error::Durability`](crate::Error::Durability) if the folder has something else or cannot be written, if the
    /// checkpoint failed, if it was cancelled, or if the database changes faster than it is copied, for minutes
    /// ([`DurabilityError::TooSlow`]): the progress tells before how often it began anew.
    pub fn backup_with(
        &self,
        target: &Path,
        options: CopyOptions,
        watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
    ) -> Result<CopyReport> {
        let checkpoints = self.own_checkpoints()?;
        options.check()?;
        let shared = self.shared();
        let source = checkpoints.disk();
        let found = match &shared.log {
            Some(log) if !checkpoints.begin_backups() => {
                wait_for_log(log.durable(shared.epochs.now()), &|| shared.check_open(), watch)?;
                CopySource::backup(source, options)?
            }
            _ => {
                wait_for(&checkpoints.demand_paced(options.bytes_per_second), watch)?;
                CopySource::picture(source, options)?
            }
        };
        let run = found.begin(&copy_target(target, &**source)?)?;
        run.run(&Framing, &shared.clock, &|| shared.check_open(), watch)
    }
}

/// Backs the database in the folder `source` up into the folder `target`: its newest checkpoint, and the log behind
/// the checkpoint. A process may have the database open meanwhile. The backup has all that was durable when the copy
/// began; [`CopyReport::durable`] and [`CopyReport::epoch`] have both epochs. A [`lease`](super::lease) keeps the files
/// that the copy reads. If the lease is overrun the copy goes on from the newest checkpoint.
///
/// # Errors
/// As for [`Database::backup_with`]; also if there is no database, or it is damaged: the error names file and offset.
pub fn backup(
    source: &Path,
    target: &Path,
    options: CopyOptions,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<CopyReport> {
    options.check()?;
    let source = existing(source)?;
    ensile_durability::expect_entries(&*source, EntryKind::Values)?;
    let run = CopySource::backup(&source, options)?.begin(&copy_target(target, &*source)?)?;
    run.run(&Framing, &Clock::machine(), &|| Ok(()), watch)
}

/// Makes a new database in the folder `target`, which is empty or not there, from a backup: of its newest state, or of
/// one that it keeps, at the end of epoch `at`. The backup stays what it is. What was written is read once more
/// before this returns. Until then no open makes a database of the folder; one that was killed is run again, or the
/// folder removed. [`restore_to_epoch`] makes one as the database was at other epochs.
///
/// # Errors
/// [`Error::Durability`](crate::Error::Durability) if the folder is not empty, if `from` is no backup or does not keep
/// that epoch, naming those that it does, or if something is damaged.
pub fn restore(from: &Path, target: &Path, at: Option<Epoch>) -> Result<CopyReport> {
    restore_with(from, target, at, None, &mut |_| ControlFlow::Continue(()))
}

/// As [`restore`], but reads and writes at most `bytes_per_second`. `watch` is called between any two steps, and
/// between the pieces of what an archive has; the restore is cancelled if it breaks.
///
/// # Errors
/// As for [`restore`]; also if it was cancelled.
pub fn restore_with(
    from: &Path,
    target: &Path,
    at: Option<Epoch>,
    bytes_per_second: Option<u64>,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<CopyReport> {
    let from = existing(from)?;
    restored(
        CopySource::restore(&from, at, bytes_per_second)?,
        RestoreTarget::open(target, &[&*from])?,
        watch,
    )
}

/// As [`restore_with`], but of the state at the end of epoch `to`, exactly. Which epochs can be had:
///
/// - those of the backup's states ([`CopyOptions::keep`]);
/// - of a state with a log, which every state is but a picture by [`Database::backup`], each one that counted from the
///   end of its checkpoint on: its own log goes that far back;
/// - behind a state, each one that counted up to where the database's [archive](crate::Builder::archive) ends, if that
///   is given: it must go on from the state without a gap.
///
/// An epoch counted if it was durable in a life of the database. A receipt says its commit's
/// ([`Receipt::epoch`](crate::Receipt::epoch)), [`changes`](super::changes) those in the log, and
/// [`inspect_archive`](super::inspect_archive) what an archive has.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use std::ops::ControlFlow;
///
/// use ensile::folder::restore_to_epoch;
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
/// restore_to_epoch((&backup, Some(&archive)), &then, sold.epoch(), None, &mut |_| ControlFlow::Continue(()))?;
/// let then = Database::open(then)?;
/// let stock = then.table::<u64, u64>("stock")?;
/// assert_eq!(then.run(|tx| tx.get(&stock, &1))?, Some(99));
/// # then.close()?;
/// # std::fs::remove_dir_all(&data).expect("it was there");
/// # Ok(()) }
/// ```
///
/// # Errors
/// As for [`restore_with`]; also if that epoch cannot be had, naming those that can, and what is missing: it was
/// discarded, or is before the end of the backup's checkpoint; the archive is another database's, or of another history
/// than the backup, was begun behind it, or lacks a file.
pub fn restore_to_epoch(
    (from, archive): (&Path, Option<&Path>),
    target: &Path,
    to: Epoch,
    bytes_per_second: Option<u64>,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<CopyReport> {
    let (from, archive) = (existing(from)?, archive.map(existing).transpose()?);
    let source = CopySource::restore_to_epoch((&from, archive.as_ref()), to, bytes_per_second)?;
    let mut sources = vec![&*from];
    sources.extend(archive.as_deref());
    restored(source, RestoreTarget::open(target, &sources)?, watch)
}

/// Which epochs [`restore_to_epoch`] can have from a backup, with the database's archive if that is given: spans with
/// both their ends, in order. Between two lives of the database epochs were discarded, which nothing gives back.
///
/// # Errors
/// [`Error::Durability`](crate::Error::Durability) if `from` is no backup, or the archive is another database's, or of
/// another history than the backup.
pub fn restorable_epochs(from: &Path, archive: Option<&Path>) -> Result<Vec<(Epoch, Epoch)>> {
    let (from, archive) = (existing(from)?, archive.map(existing).transpose()?);
    Ok(ensile_durability::restorable_epochs(&from, archive.as_ref())?)
}

fn restored(
    source: CopySource,
    target: RestoreTarget<'_>,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<CopyReport> {
    let begun = source.begin(target.disk()).map_err(Error::from);
    let made = begun.and_then(|run| run.run(&Framing, &Clock::machine(), &|| Ok(()), watch));
    let is_cancelled = matches!(&made, Err(Error::Durability(DurabilityError::Cancelled)));
    target.ended(made, is_cancelled)
}

/// Waits for the checkpoint that a backup begins with.
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
        ask::<Error>(&CopyProgress::before(CopyPhase::Checkpoint), watch)?;
        sleep(PAUSE_MAX);
    }
}

/// Waits until the log has what was committed.
fn wait_for_log(
    durable: Durable,
    may_go_on: &dyn Fn() -> Result<()>,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<()> {
    let mut durable = pin!(durable);
    loop {
        // Asked again and again, as the caller may cancel; the question stands meanwhile, so loggers hurry.
        if let Poll::Ready(outcome) = durable.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Ok(outcome?);
        }
        may_go_on()?;
        ask::<Error>(&CopyProgress::before(CopyPhase::Checkpoint), watch)?;
        sleep(LOG_PAUSE);
    }
}
