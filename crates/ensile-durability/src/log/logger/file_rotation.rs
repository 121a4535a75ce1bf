//! A logger's files. The logger prepares the next file ahead of time, continues in the next file once the current file
//! is full or old, and closes the used file. On a full disk blocks take precedence over the next file. At the close of
//! the log, the last marks carry the D that the marks before them made durable (L5).
//!
//! Invariants: L3. Waiting results wait only for the opening mark: files are made, cut and renamed under the lock of
//! the next file, without the writer's lock. The lock of the next file is always taken before the writer's lock, also
//! by a close.
//!
//! Neighbours: `next_file` and `segments` do the work; a step of `logger`, or `shutdown`, decides when work is due.

use ensile_base::sync::{MutexGuard, Ordering};
use ensile_disk::DiskError;

use super::{Logger, PANICKED, Writer, poison_on_panic, stop};
use crate::files::log::next_file::NextFile;
use crate::log::marks::Frontier;
use crate::log::next_file_plan::NextFilePlan;
use crate::log::open_log::Log;
use crate::log::segments::Segments;

impl Logger {
    /// Notes the wanted zeros of the next file, in bytes, for [`Logger::prepare`]; 0 if the file is not due.
    pub(super) fn note_next(&self, segments: &Segments, now_nanos: u64, heavy: bool) {
        // Relaxed: only the logger's thread acts on the flag, and the thread reads the file's state again under the
        // locks.
        let is_ready = self.next_ready.load(Ordering::Relaxed);
        let wanted = segments.next_wanted(now_nanos).filter(|_| !is_ready && !heavy);
        // Relaxed: a hint for `prepare`, which reads the file's state under its lock.
        self.next_wanted.store(wanted.unwrap_or(0), Ordering::Relaxed);
    }

    /// Makes a part of the next file, if the file is due. The logger's thread calls after a step.
    pub(in crate::log) fn prepare(&self, log: &Log) {
        // Relaxed: a hint; the file's state is read under its lock below.
        let wanted = self.next_wanted.load(Ordering::Relaxed);
        if wanted == 0 || log.full_reason().is_some() {
            // On a full disk the blocks of every log take precedence.
            return;
        }
        let _guard = poison_on_panic(log);
        let mut next = self.next.lock();
        let now = log.clock.nanos();
        if next.is_over || log.waiters.has_ended() || now < next.not_before {
            return;
        }
        let made = self.while_busy_with_files(|| {
            // An earlier wake-up, sent before this thread was marked as busy with files, takes precedence.
            if self.wake_up.is_asked() { Ok(Some(false)) } else { next.make_some(log.store.disk(), wanted) }
        });
        next.check();
        let made = made.and_then(|made| {
            made.map_or_else(|| next.give_up(&**log.store.disk(), log.clock.nanos()).map(|_| false), Ok)
        });
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

    /// True if a new file is due. All blocks of the current file are synced then.
    pub(super) fn is_roll_due(&self, writer: &Writer, now_nanos: u64) -> bool {
        // Relaxed: the wake-up orders the request before the step that it starts.
        let asked = self.roll_asked.load(Ordering::Relaxed);
        if asked && !writer.segments.has_blocks() {
            // Relaxed: a request at this moment concerns a file without blocks.
            self.roll_asked.store(false, Ordering::Relaxed);
            return false;
        }
        // Relaxed: a hint; `roll` makes the file ready if necessary.
        let is_small = self.next_ready.load(Ordering::Relaxed) && writer.segments.is_used_up();
        let Writer { segments, steps, .. } = writer;
        let is_due = segments.is_due(now_nanos) || (asked || is_small) && segments.may_roll(now_nanos);
        is_due && steps.may_roll()
    }

    /// Continues in the next file, and closes the used file: the last action of a step on the logger's thread. If
    /// another step or the close has written unsynced blocks since, the next mark does this work. If `heavy`, the next
    /// file gets no zeros. False if the log has stopped.
    pub(super) fn roll(&self, log: &Log, now_nanos: u64, heavy: bool) -> bool {
        let mut next = self.next.lock();
        if next.is_over || log.waiters.has_ended() {
            return false;
        }
        match self.while_busy_with_files(|| next.make_ready(log.store.disk(), heavy)) {
            Ok(Some(())) => {}
            Ok(None) => return self.hold_roll(log, next, now_nanos),
            Err(error) => return stop(log, next, &error),
        }
        // A panic's poison wakes wakers, so the lock of the next file is released before.
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
            (log.marks.frontier_epoch(self.index, Frontier::Synced), log.marks.of_all(Frontier::Synced));
        let used = match writer.segments.continue_in(&mut next.made, synced, published, now_nanos) {
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
        match self.while_busy_with_files(|| used.close(&**log.store.disk())) {
            Ok(closed) => self.closed.push(closed),
            Err(error) => return stop(log, next, &error),
        }
        true
    }

    /// Continues in the current file, because the disk has no space for a new file. False if the log has stopped.
    fn hold_roll(&self, log: &Log, mut next: MutexGuard<'_, NextFilePlan>, now_nanos: u64) -> bool {
        log.counters.rolls_held.add(1);
        if let Err(error) = next.give_up(&**log.store.disk(), log.clock.nanos()) {
            return stop(log, next, &error);
        }
        // Relaxed: a hint for the next step.
        self.next_ready.store(false, Ordering::Relaxed);
        drop(next);
        let Some(mut writer) = self.lock_writer(log) else { return false };
        writer.segments.pause_rolls(now_nanos);
        true
    }

    /// Removes the unused next file, because blocks take precedence over its space.
    pub(super) fn give_up_next(&self, log: &Log) {
        let mut next = self.next.lock();
        if next.is_over || log.waiters.has_ended() {
            // The folder may already belong to the next open.
            return;
        }
        // Relaxed, both: hints; the file's state is read under its lock.
        self.next_wanted.store(0, Ordering::Relaxed);
        self.next_ready.store(false, Ordering::Relaxed);
        match next.give_up(&**log.store.disk(), log.clock.nanos()) {
            // The disk has space now, and any log may wait for space.
            Ok(true) => log.wake_loggers(),
            Ok(false) => {}
            Err(error) => {
                stop(log, next, &error);
            }
        }
    }

    /// Ends the preparation of files at the close of the log. The next recovery removes a file that cannot be removed
    /// here.
    pub(in crate::log) fn end_next(&self, log: &Log) {
        let mut next = self.next.lock();
        next.is_over = true;
        let _ = next.give_up(&**log.store.disk(), log.clock.nanos());
        next.check();
        // Relaxed: a figure.
        self.next_bytes.store(0, Ordering::Relaxed);
    }

    /// Number of blocks of this log, for the hint of a close. Must be called between steps; 0 after a panic of a step.
    pub(in crate::log) fn blocks(&self) -> u64 {
        self.writer.lock_unless_panicked().map_or(0, |writer| writer.segments.blocks())
    }

    /// Writes and syncs a mark of the whole claim, at close. The `last` mark also gives back the unused space. False if
    /// the mark was not written. Everything is durable without the mark, so a full disk is no failure.
    pub(in crate::log) fn write_last_mark(&self, log: &Log, last: bool) -> bool {
        let Some(mut writer) = self.lock_writer(log) else { return false };
        if writer.steps.is_closed() || log.waiters.has_ended() {
            return false;
        }
        match self.end_with_mark(log, &mut writer, last) {
            Ok(stands) => stands,
            Err(error) => stop(log, writer, &error),
        }
    }

    fn end_with_mark(&self, log: &Log, writer: &mut Writer, last: bool) -> Result<bool, DiskError> {
        let claim = log.marks.frontier_epoch(self.index, Frontier::Appended);
        writer.segments.mark(claim, log.marks.of_all(Frontier::Synced));
        assert!(!writer.steps.is_closed(), "the last mark is written once");
        if last {
            writer.steps.close();
        }
        match writer.segments.flush(|_| {}) {
            // A mark of the first round is held, and is written in the second round.
            Err(error) if error.is_full() => return Ok(false),
            flushed => flushed?,
        }
        log.marks.advance(self.index, Frontier::Written, claim);
        writer.segments.sync()?;
        log.store.check_named(log.loggers.len())?;
        log.marks.advance(self.index, Frontier::Synced, claim);
        if last {
            writer.segments.trim()?;
        }
        Ok(true)
    }
}
