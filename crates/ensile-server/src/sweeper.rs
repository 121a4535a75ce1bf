//! The sweeper: a thread that removes the rows of expired keys, of abandoned contents and of removed objects. A test
//! takes its steps.
//!
//! Invariants:
//! - Each step is a transaction of bounded size, logged as any other, so a crash between two steps loses nothing.
//! - A row is removed only if it is expired, or of an abandoned content, within the same transaction.
//! - A content's row in `abandoned` goes with the last row of the content.
//!
//! Neighbours: `FLUSHDB` abandons contents, writes set expiries; the server starts and stops the sweeper.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ensile::{Database, Error, Prefix, Readable, Result, Transaction};
use ensile_base::panic_text;
use ensile_base::sync::{AtomicU64, Condvar, Mutex, Ordering, add_as_only_writer};

use crate::calendar::Calendar;
use crate::model::keyspace::{count_expiring, count_keys, key_of_expiry};
use crate::model::stored_value::ValueHeader;
use crate::model::{ExpiryRow, KeyRow, Model, SWEEPER_STRIPE, objects};
use crate::observed::Observed;

/// Largest number of rows that a step removes.
const ROWS_PER_STEP: usize = 512;
/// Pause after a step that has found nothing more to remove.
const PAUSE: Duration = Duration::from_millis(100);

/// Time between two looks at the checkpoints in milliseconds.
const LOOK_MILLIS: u64 = 1000;

/// The thread of a server that removes rows.
#[derive(Debug)]
pub(crate) struct Sweeper {
    work: Arc<SweeperWork>,
    signal: Arc<SweeperStop>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The swept database, and the time.
#[derive(Debug)]
struct SweeperWork {
    db: Database,
    model: Arc<Model>,
    calendar: Calendar,
    /// Number of expired keys whose rows the sweeper has removed.
    expired: AtomicU64,
}

#[derive(Debug, Default)]
struct SweeperStop {
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl SweeperStop {
    /// Waits for the stop, for `pause` at most. True if the sweeper is stopped.
    fn wait(&self, pause: Duration) -> bool {
        let is_stopped = self.is_stopped.lock();
        if *is_stopped { true } else { *self.changed.wait_timeout(is_stopped, pause) }
    }
}

impl Sweeper {
    /// Starts the thread; no thread if a test moves the time.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(
        db: Database,
        model: Arc<Model>,
        observed: Arc<Observed>,
        calendar: Calendar,
    ) -> Result<Self> {
        let (signal, is_manual) = (Arc::new(SweeperStop::default()), calendar.is_manual());
        let work = Arc::new(SweeperWork { db, model, calendar, expired: AtomicU64::new(0) });
        if is_manual {
            return Ok(Self { work, signal, thread: Mutex::new(None) });
        }
        let (until, swept) = (Arc::clone(&signal), Arc::clone(&work));
        let sweep = move || {
            let (mut pause, mut looked_millis) = (Duration::ZERO, 0);
            while !until.wait(pause) {
                pause = if step_safely(|| swept.step()) { PAUSE } else { Duration::ZERO };
                let now_millis = swept.calendar.millis();
                if now_millis >= looked_millis + LOOK_MILLIS {
                    looked_millis = now_millis;
                    observed.look(&swept.db.stats());
                }
            }
        };
        let spawned = std::thread::Builder::new().name("ensile-sweeper".to_owned()).spawn(sweep);
        let thread = spawned.map_err(|error| {
            ensile::Error::Misuse(format!("the sweeper's thread does not start: {error}"))
        })?;
        Ok(Self { work, signal, thread: Mutex::new(Some(thread)) })
    }

    /// Removes some rows. True if nothing more is to be removed now.
    #[cfg(feature = "simulation")]
    pub(crate) fn step(&self) -> Result<bool> {
        self.work.step()
    }

    /// Number of expired keys whose rows the sweeper has removed since the start.
    pub(crate) fn expired_keys(&self) -> u64 {
        // Relaxed: a figure for people.
        self.work.expired.load(Ordering::Relaxed)
    }

    /// Stops the thread, and waits for its last step.
    pub(crate) fn stop(&self) {
        *self.signal.is_stopped.lock() = true;
        self.signal.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic of the thread was printed.
            let _ = thread.join();
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.stop();
    }
}

impl SweeperWork {
    /// Removes some rows. True if nothing more is to be removed now.
    fn step(&self) -> Result<bool> {
        let done = self.remove_rows();
        self.model.set_stuck(done.is_err());
        done
    }

    fn remove_rows(&self) -> Result<bool> {
        let Self { db, model, calendar, expired: count } = self;
        let now_millis = calendar.signed_millis();
        // A failure of one kind of removal does not hinder the other kind.
        let expired = db.submit(|tx| sweep_expired(tx, model, now_millis));
        if let Ok((swept, _)) = &expired {
            // The steps of a sweeper come one after the other.
            add_as_only_writer(count, swept.removed);
        }
        let abandoned = db.submit(|tx| sweep_abandoned(tx, model));
        let are_objects_swept = sweep_objects(db, model)?;
        let ((expired, _), (abandoned, _)) = (expired?, abandoned?);
        Ok(expired.due < ROWS_PER_STEP && abandoned.is_none() && are_objects_swept)
    }
}

/// Takes a step of the thread. True if the thread pauses: after a step that has found nothing more to remove, that has
/// failed, such as on a full disk, or that has panicked.
fn step_safely(step: impl FnOnce() -> Result<bool>) -> bool {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(stepped) => stepped.unwrap_or(true),
        Err(panic) => {
            let text = panic_text(&*panic).unwrap_or("no text");
            eprintln!("ensile-server: the removal of expired keys panicked, and goes on: {text}");
            true
        }
    }
}

/// Removes rows of a removed object. True if no removed object is left. A database with before-images limits the bytes
/// of a transaction's deletes, so large rows are removed a few at once.
fn sweep_objects(db: &Database, model: &Model) -> Result<bool> {
    let mut rows_max = ROWS_PER_STEP;
    loop {
        match db.submit(|tx| objects::sweep(tx, model, rows_max)) {
            Err(Error::TooLarge { .. }) if rows_max > 1 => rows_max /= 8,
            swept => return swept.map(|(is_done, _)| is_done),
        }
    }
}

/// Result of a step over expired keys.
struct SweptKeys {
    /// Number of removed expiries.
    due: usize,
    /// Number of removed keys.
    removed: u64,
}

/// Removes the rows of keys that are expired.
fn sweep_expired(tx: &mut Transaction<'_>, model: &Model, now_millis: i64) -> Result<SweptKeys> {
    let mut removed = 0;
    let mut due: Vec<ExpiryRow> = Vec::new();
    let bounds = (i64::MIN, 0, 0, Vec::new())..(now_millis.saturating_add(1), 0, 0, Vec::new());
    tx.scan_keys(&model.expiries, bounds, |row| {
        due.push(row);
        if due.len() < ROWS_PER_STEP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    for row in &due {
        let key = key_of_expiry(row.clone());
        let header = tx.get_with(&model.keys, &key, |value| value.header)?;
        tx.delete(&model.expiries, row)?;
        // A header of another time was written since the scan: the commit fails, and the step is run again.
        if let Some(header) = header.filter(|header: &ValueHeader| header.is_expired(now_millis)) {
            removed += 1;
            tx.delete(&model.keys, &key)?;
            if let Some(object) = header.object {
                objects::abandon(tx, model, object)?;
            }
            count_keys(tx, model, key.0, SWEEPER_STRIPE, -1)?;
            count_expiring(tx, model, key.0, SWEEPER_STRIPE, -1)?;
        }
    }
    Ok(SweptKeys { due: due.len(), removed })
}

/// Removes rows of an abandoned content. Returns the number of removed keys; `None` without an abandoned content.
fn sweep_abandoned(tx: &mut Transaction<'_>, model: &Model) -> Result<Option<usize>> {
    let Some((content, ())) = tx.first(&model.abandoned, ..)? else { return Ok(None) };
    let mut found: Vec<(KeyRow, ValueHeader)> = Vec::new();
    tx.scan(&model.keys, Prefix((content,)), |key, value| {
        found.push((key, value.header));
        if found.len() < ROWS_PER_STEP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    for (key, header) in &found {
        tx.delete(&model.keys, key)?;
        if let Some(expiry) = header.expiry_millis {
            tx.delete(&model.expiries, &(expiry, key.0, key.1, key.2.as_slice()))?;
        }
        if let Some(object) = header.object {
            objects::abandon(tx, model, object)?;
        }
    }
    if found.len() < ROWS_PER_STEP {
        tx.delete_range(&model.counts, Prefix((content,)))?;
        tx.delete(&model.abandoned, &content)?;
    }
    Ok(Some(found.len()))
}

#[cfg(test)]
mod tests {
    use ensile::Error;

    use super::step_safely;

    #[test]
    fn the_thread_goes_on_after_a_failed_step() {
        assert!(!step_safely(|| Ok(false)) && step_safely(|| Ok(true)));
        assert!(step_safely(|| Err(Error::Closed)));
        assert!(step_safely(|| panic!("a test's panic")));
    }
}
