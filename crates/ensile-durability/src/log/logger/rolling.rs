//! A logger's files: the next one is made in time, taken up when the current one is due, and the used one closed.
//!
//! Invariants:
//! - L3: the log goes on in a file whose name is synced, and writes and syncs its opening mark before anything behind
//!   it.
//! - Commits wait for that one mark and for nothing else: files are made, cut and renamed under the lock of the next
//!   file, without the writer's. The former is always taken before the latter.
//! - A full disk takes the next file away first: blocks go before it.
//! - Once the log is closed no file of it changes: the close takes this lock too.
//!
//! Neighbours: `next` and `segments` do the work; a step says when it is due.

use ensile_base::sync::{MutexGuard, Ordering};
use ensile_disk::DiskError;

use super::{Log, Logger, PANICKED, Writer, poison_on_panic, stop};
use crate::log::marks::Frontier;
use crate::log::next::NextFile;
use crate::log::segments::{ROLL_PAUSE_NANOS, Segments};
use crate::store::names::SegmentName;

/// The next file, as far as it is made.
#[derive(Debug)]
pub(super) struct NextFilePlan {
    made: Option<NextFile>,
    name: SegmentName,
    /// Bytes that it begins with, at the least.
    first_bytes: u64,
    /// It is not tried again before this.
    not_before: u64,
    /// There will be none any more.
    is_over: bool,
}

impl NextFilePlan {
    pub(super) fn of(segments: &Segments) -> Self {
        let (name, first_bytes) = (segments.next_name(), segments.first_bytes());
        Self { made: None, name, first_bytes, not_before: 0, is_over: false }
    }

    /// Makes the file so far that the log can go on in it. A log that writes much gets no zeros on the way. `None`,
    /// here and below, if there is no space.
    fn make_ready(&mut self, log: &Log, heavy: bool) -> Result<Option<()>, DiskError> {
        let first_bytes = self.first_bytes;
        match self.begun(log, first_bytes)? {
            Some(made) => made.make_ready(&**log.store.disk(), first_bytes, heavy),
            None => Ok(None),
        }
    }

    /// Makes some of it; true once it is ready.
    fn make_some(&mut self, log: &Log, wanted: u64) -> Result<Option<bool>, DiskError> {
        match self.begun(log, wanted)? {
            Some(made) => made.make_some(&**log.store.disk()),
            None => Ok(None),
        }
    }

    /// The next file. If there is none it is made now, with `wanted` zeros to come.
    fn begun(&mut self, log: &Log, wanted: u64) -> Result<Option<&mut NextFile>, DiskError> {
        assert!(!self.is_over, "a log that has ended begins no file");
        if self.made.is_none() {
            self.made = NextFile::create(log.store.disk(), self.name, wanted)?;
        }
        Ok(self.made.as_mut())
    }

    /// The file that is made has the name that comes next, and none is made once there will be none.
    fn check(&self) {
        assert!(
            self.made.as_ref().is_none_or(|made| made.name == self.name),
            "a file of another name is made"
        );
        assert!(!self.is_over || self.made.is_none(), "a file is made that is not going to be used");
        assert!(self.first_bytes > 0, "a file without space");
    }

    /// Takes it away again.
    fn give_up(&mut self, log: &Log) -> Result<bool, DiskError> {
        self.not_before = log.clock.nanos().saturating_add(ROLL_PAUSE_NANOS);
        self.made.take().map_or(Ok(false), |made| made.discard(&**log.store.disk()).map(|()| true))
    }
}

impl Logger {
    /// What a step leaves for later: how many zeros the next file is to have, if it is time to make it.
    pub(super) fn note_next(&self, segments: &Segments, now_nanos: u64, heavy: bool) {
        // Relaxed: only the logger's thread acts on it, and reads it again under the locks.
        let is_ready = self.next_ready.load(Ordering::Relaxed);
        let wanted = segments.next_wanted(now_nanos).filter(|_| !is_ready && !heavy);
        // Relaxed: a hint for `prepare`, which reads the file's state under its lock.
        self.next_wanted.store(wanted.unwrap_or(0), Ordering::Relaxed);
    }

    /// Makes some of the next file, if it is time.
    pub(in crate::log) fn prepare(&self, log: &Log) {
        // Relaxed: a hint; the file's state is read under its lock below.
        let wanted = self.next_wanted.load(Ordering::Relaxed);
        if wanted == 0 || log.full_reason().is_some() {
            // On a full disk blocks go first, of whichever log.
            return;
        }
        let _guard = poison_on_panic(log);
        let mut next = self.next.lock();
        let now = log.clock.nanos();
        if next.is_over || log.waiters.has_ended() || now < next.not_before {
            return;
        }
        let made = self.while_away(|| {
            // A wake-up from before this thread was known to be away goes first.
            if self.is_asked() { Ok(Some(false)) } else { next.make_some(log, wanted) }
        });
        next.check();
        let made = made.and_then(|made| made.map_or_else(|| next.give_up(log).map(|_| false), Ok));
        // Relaxed: a figure.
        self.next_bytes.store(next.made.as_ref().map_or(0, NextFile::bytes), Ordering::Relaxed);
        match made {
            Ok(false) => {}
            Ok(true) => {
                // Relaxed, both: hints for the logger's thread, which reads the file's state under its lock.
                self.next_wanted.store(0, Ordering::Relaxed);
                self.next_ready.store(true, Ordering::Relaxed);
            }
            Err(error) => {
                stop(log, next, &error);
            }
        }
    }

    /// Is it time for a new file? All of the current one is synced then.
    pub(super) fn is_roll_due(&self, writer: &Writer, now_nanos: u64) -> bool {
        // Relaxed: the wake-up orders it before the step that it starts.
        let asked = self.roll_asked.load(Ordering::Relaxed);
        if asked && !writer.segments.has_blocks() {
            // Relaxed: a request that comes now is for a file that holds nothing.
            self.roll_asked.store(false, Ordering::Relaxed);
            return false;
        }
        // Relaxed: a hint; `roll` makes the file ready if it is not.
        let is_small = self.next_ready.load(Ordering::Relaxed) && writer.segments.is_used_up();
        let is_due =
            writer.segments.is_due(now_nanos) || (asked || is_small) && writer.segments.may_roll(now_nanos);
        is_due && writer.steps.may_roll()
    }

    /// Goes on in a new file, unless another step, or the close, came between and wrote what is not synced: then the
    /// next mark does it. False if the log has stopped.
    pub(super) fn roll(&self, log: &Log, now_nanos: u64, heavy: bool) -> bool {
        let mut next = self.next.lock();
        if next.is_over || log.waiters.has_ended() {
            return false;
        }
        match self.while_away(|| next.make_ready(log, heavy)) {
            Ok(Some(())) => {}
            Ok(None) => return self.hold_roll(log, next, now_nanos),
            Err(error) => return stop(log, next, &error),
        }
        // A panic's poison wakes wakers: not under the lock of the next file.
        let Some(mut writer) = self.writer.lock_unless_panicked() else {
            drop(next);
            log.poison(PANICKED);
            return false;
        };
        if writer.steps.is_closed() || log.waiters.has_ended() {
            return false;
        }
        if !self.is_roll_due(&writer, now_nanos) {
            return true;
        }
        let (synced, published) =
            (log.marks.at(self.index, Frontier::Synced), log.marks.of_all(Frontier::Synced));
        let used = match writer.segments.go_on_in(&mut next.made, synced, published, now_nanos) {
            Ok(Some(used)) => used,
            Ok(None) => {
                drop(writer);
                return self.hold_roll(log, next, now_nanos);
            }
            Err(error) => return stop(log, (writer, next), &error),
        };
        assert!(next.made.is_none(), "the file that was made is in use");
        assert_ne!(next.name, writer.segments.next_name(), "the log is in the next file");
        next.name = writer.segments.next_name();
        next.check();
        // Relaxed: the new file answers every request up to now.
        self.roll_asked.store(false, Ordering::Relaxed);
        // Relaxed, all: two figures, and a hint for the next step.
        self.next_ready.store(false, Ordering::Relaxed);
        self.next_bytes.store(0, Ordering::Relaxed);
        self.open_bytes.store(writer.segments.file_bytes(), Ordering::Relaxed);
        drop(writer);
        log.counters.rolls.add(1);
        match self.while_away(|| used.close(&**log.store.disk())) {
            Ok(closed) => self.closed.push(closed),
            Err(error) => return stop(log, next, &error),
        }
        true
    }

    /// There is no space for a new file: the current one goes on.
    fn hold_roll(&self, log: &Log, mut next: MutexGuard<'_, NextFilePlan>, now_nanos: u64) -> bool {
        log.counters.rolls_held.add(1);
        if let Err(error) = next.give_up(log) {
            return stop(log, next, &error);
        }
        // Relaxed: a hint for the next step.
        self.next_ready.store(false, Ordering::Relaxed);
        drop(next);
        let Some(mut writer) = self.lock_writer(log) else { return false };
        writer.segments.pause_rolls(now_nanos);
        true
    }

    /// Blocks go before a file that is not used yet: gives up its space.
    pub(super) fn give_up_next(&self, log: &Log) {
        let mut next = self.next.lock();
        if next.is_over || log.waiters.has_ended() {
            // The folder may be the next open's by now.
            return;
        }
        // Relaxed, both: hints; the file's state is read under its lock.
        self.next_wanted.store(0, Ordering::Relaxed);
        self.next_ready.store(false, Ordering::Relaxed);
        match next.give_up(log) {
            // There is space now, for whichever log waits for it.
            Ok(true) => log.wake_loggers(),
            Ok(false) => {}
            Err(error) => {
                stop(log, next, &error);
            }
        }
    }

    /// There will be no next file: the log is being closed. One that cannot be removed is left to the next recovery.
    pub(in crate::log) fn end_next(&self, log: &Log) {
        let mut next = self.next.lock();
        next.is_over = true;
        let _ = next.give_up(log);
        next.check();
        // Relaxed: a figure.
        self.next_bytes.store(0, Ordering::Relaxed);
    }

    /// Waits until no file is being made or closed.
    pub(super) fn wait_for_files(&self) {
        drop(self.next.lock());
    }
}
