//! A logger: takes what its workers appended, writes it, marks what is complete, syncs (SiloR §3.3 to §3.5).
//!
//! Invariants:
//! - L1: the claim of a mark comes from `look`, and the queue of full buffers is drained after it.
//! - L2: part-filled buffers of workers between commits are taken here, ended workers' as well.
//! - L3: marks are written where any log has an entry; one sync per mark.
//! - A failed write or sync poisons the log for good.
//!
//! Neighbours: `slot` and `queue` upstream, `segments` downstream, `marks` and `waiters` for what is durable.

use std::task::Waker;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::LOG_BUFFER_BYTES;
use ensile_base::planted::{Bug, is_planted};
use ensile_base::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering};
use ensile_disk::DiskError;
use ensile_epoch::Advance;

use super::bell::Bell;
use super::buffer::Buffer;
use super::look::look;
use super::queue::Queue;
use super::segments::Segments;
use super::slot::Slot;
use super::{Log, Step};

/// How long a logger sleeps when a strict result waits for something short: a commit to end, the epoch's least length.
const RETRY_WAIT: Duration = Duration::from_micros(50);
/// How often a step looks again at a buffer that its worker holds, before it goes on without.
const PATIENCE: u32 = 16;
/// Above this many bytes since the last mark the device is busy, and epochs close at the heartbeat's interval.
const EARLY_CLOSE_BYTES_MAX: u64 = LOG_BUFFER_BYTES as u64 / 2;

/// Why the log stops when a step panics.
const PANICKED: &str = "a logger panicked";

/// One logger and its workers.
#[derive(Debug)]
pub(crate) struct Logger {
    index: usize,
    slots: Mutex<Vec<Arc<Slot>>>,
    pub(super) queue: Queue,
    bell: Bell,
    /// The last step wants to be repeated soon.
    hurry: AtomicBool,
    writer: Mutex<Writer>,
}

/// What only the thread that steps uses.
#[derive(Debug)]
struct Writer {
    segments: Segments,
    /// Bytes since the last mark, and up to it since the one before.
    bytes_since_mark: u64,
    bytes_recent: u64,
    closed: bool,
}

/// What a look at all workers gave.
#[expect(clippy::vec_box, reason = "the slot hands boxes over by one exchange; here they only pass through")]
struct Gathered {
    /// L1's d.
    claim: Epoch,
    buffers: Vec<Box<Buffer>>,
    /// Bytes of those that came through the queue.
    queued_bytes: usize,
    workers: usize,
}

impl Logger {
    pub(super) fn new(index: usize, segments: Segments) -> Self {
        let writer = Writer { segments, bytes_since_mark: 0, bytes_recent: 0, closed: false };
        Self {
            index,
            slots: Mutex::new(Vec::new()),
            queue: Queue::new(),
            bell: Bell::new(),
            hurry: AtomicBool::new(false),
            writer: Mutex::new(writer),
        }
    }

    fn lock_slots(&self) -> MutexGuard<'_, Vec<Arc<Slot>>> {
        // Only whole elements are added and removed under this lock.
        self.slots.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// `None` once a step has panicked: that leaves a half-written log, which must not be carried on.
    fn lock_writer(&self, log: &Log) -> Option<MutexGuard<'_, Writer>> {
        match self.writer.lock() {
            Ok(writer) => Some(writer),
            Err(poisoned) => {
                // The poison wakes wakers: not under this lock.
                drop(poisoned);
                log.poison(PANICKED);
                None
            }
        }
    }

    /// Waits until no step is under way.
    pub(super) fn wait_for_step(&self) {
        drop(self.writer.lock());
    }

    /// A worker joins. If the logger's scan misses it, then by this lock the worker's later reads of E give at least
    /// the E that the scan began with, so its entries are above the claim (L1).
    pub(super) fn add(&self, slot: Arc<Slot>) {
        self.lock_slots().push(slot);
    }

    pub(super) fn ring(&self) {
        self.bell.ring();
    }

    /// Wakes the logger's thread and its workers that wait for space.
    pub(super) fn wake_all(&self) {
        self.ring();
        self.queue.wake_all();
    }

    pub(super) fn wait(&self, timeout: Duration) {
        // Relaxed: written and read by the thread that steps; a stale value costs one wait.
        let hurry = self.hurry.swap(false, Ordering::Relaxed);
        self.bell.wait(if hurry { timeout.min(RETRY_WAIT) } else { timeout });
    }

    /// One iteration. Wakers run code of others, and what they drop may be the last handle, which closes this log and
    /// steps every logger: so they are woken while no lock is held.
    pub(super) fn step(&self, log: &Log) -> Step {
        // Before the lock, so that a panic lets go of the lock first.
        let _guard = StopOnPanic::new(log);
        let Some(mut writer) = self.lock_writer(log) else { return Step::Stopped };
        if writer.closed || log.waiters.is_poisoned() {
            return Step::Stopped;
        }
        let heavy = writer.bytes_recent.max(writer.bytes_since_mark) > EARLY_CLOSE_BYTES_MAX;
        if !heavy {
            close_epoch_early(log);
        }
        let gathered = self.gather(log);
        let claim = gathered.claim;
        if let Some(high) = gathered.buffers.iter().map(|buffer| buffer.epochs().1).max() {
            log.marks.raise_high(self.index, high);
        }
        log.marks.claim(self.index, claim);
        let mark = log.marks.needs_mark(self.index, claim);
        if mark {
            // The other logs need theirs too (L3): they write while we do.
            self.others(log).filter(|other| log.marks.needs_mark(other.index, claim)).for_each(Self::ring);
        }
        let wrote = !gathered.buffers.is_empty();
        if let Err(error) = self.write(log, &mut writer, gathered, mark) {
            stop(log, writer, &error);
            return Step::Stopped;
        }
        let full = mark && writer.segments.is_full();
        drop(writer);
        log.waiters.announce(|| log.marks.durable());
        // Results of this mark did not wait for the new file.
        if full && !self.roll(log) {
            return Step::Stopped;
        }
        let wanted = log.waiters.wanted();
        // A strict result waits for a commit that is ending, or for the epoch's least length: soon, not next interval.
        let hurry = wanted > log.waiters.durable() && claim < wanted && !heavy;
        // Relaxed: as in `wait`.
        self.hurry.store(hurry, Ordering::Relaxed);
        match (mark, wrote) {
            (true, _) => Step::Synced,
            (false, true) => Step::Wrote,
            (false, false) => Step::Idle,
        }
    }

    fn others<'a>(&self, log: &'a Log) -> impl Iterator<Item = &'a Self> {
        let own = self.index;
        log.loggers.iter().filter(move |other| other.index != own)
    }

    /// Works out L1's d and takes every buffer that it would claim.
    fn gather(&self, log: &Log) -> Gathered {
        let before = log.marks.claimed(self.index);
        let mut slots = self.lock_slots();
        let mut buffers = if is_planted(Bug::QueueBeforeSlots) { self.queue.drain() } else { Vec::new() };
        let claim = look(&log.epochs, &slots, &mut || self.queue.spare(), PATIENCE, &mut buffers);
        // Ended workers whose last entries are taken (L2).
        slots.retain(|slot| !slot.is_spent());
        let workers = slots.len();
        drop(slots);
        // After the slots: a worker queues a full buffer before it shows an empty one (L1).
        let queued = if is_planted(Bug::QueueBeforeSlots) { Vec::new() } else { self.queue.drain() };
        let queued_bytes = queued.iter().map(|buffer| buffer.bytes()).sum();
        buffers.extend(queued);
        for buffer in &buffers {
            assert!(buffer.epochs().0 > before, "an entry of an epoch that this log has claimed before (L1)");
        }
        // A stale bind can lower c_w - 1 below what was claimed; the earlier claim stays true (L1, C1).
        Gathered { claim: claim.max(before), buffers, queued_bytes, workers }
    }

    /// Writes the buffers, and a mark of the claim where one is due; syncs with the mark.
    fn write(&self, log: &Log, writer: &mut Writer, gathered: Gathered, mark: bool) -> Result<(), DiskError> {
        let Gathered { claim, mut buffers, queued_bytes, workers } = gathered;
        let (synced, published) = (log.marks.synced(self.index), log.marks.synced_by_all());
        let start = writer.segments.written_bytes();
        for buffer in &mut buffers {
            writer.segments.data(buffer, synced, published)?;
            log.counters.blocks.add(1);
            log.counters.entries.add(u64::from(buffer.entries()));
        }
        if mark {
            writer.segments.mark(claim, published)?;
        }
        writer.segments.flush()?;
        let bytes = writer.segments.written_bytes() - start;
        log.counters.bytes.add(bytes);
        writer.bytes_since_mark += bytes;
        if !buffers.is_empty() {
            self.queue.give_back(buffers.into_iter(), queued_bytes, workers);
        }
        if !mark {
            return Ok(());
        }
        if is_planted(Bug::MarkBeforeSync) {
            log.marks.note_synced(self.index, claim);
            log.waiters.announce(|| log.marks.durable());
        }
        writer.segments.sync()?;
        log.counters.marks.add(1);
        log.counters.syncs.add(1);
        log.marks.note_synced(self.index, claim);
        writer.bytes_recent = std::mem::take(&mut writer.bytes_since_mark);
        Ok(())
    }

    /// Begins a new file, unless another step, or the close, came between and wrote what is not synced: then the next
    /// mark does it. False if the log has stopped.
    fn roll(&self, log: &Log) -> bool {
        let Some(mut writer) = self.lock_writer(log) else { return false };
        if writer.closed || log.waiters.is_poisoned() {
            return false;
        }
        if writer.bytes_since_mark > 0 || !writer.segments.is_full() {
            return true;
        }
        let rolled = writer.segments.roll(log.marks.synced(self.index), log.marks.synced_by_all());
        if let Err(error) = rolled {
            stop(log, writer, &error);
            return false;
        }
        log.counters.rolls.add(1);
        true
    }

    /// A mark of all that is claimed, at close; the last one also gives back the space that is not used.
    pub(super) fn write_last_mark(&self, log: &Log, last: bool) {
        let Some(mut writer) = self.lock_writer(log) else { return };
        if writer.closed || log.waiters.is_poisoned() {
            return;
        }
        if let Err(error) = self.end_with_mark(log, &mut writer, last) {
            stop(log, writer, &error);
        }
    }

    fn end_with_mark(&self, log: &Log, writer: &mut Writer, last: bool) -> Result<(), DiskError> {
        let claim = log.marks.claimed(self.index);
        writer.segments.mark(claim, log.marks.synced_by_all())?;
        writer.segments.flush()?;
        writer.segments.sync()?;
        log.marks.note_synced(self.index, claim);
        if last {
            writer.segments.trim()?;
            writer.closed = true;
        }
        Ok(())
    }
}

/// Stops the log for a failed write or sync, before the writer is let go: no other step may sync behind it. Wakers are
/// woken after.
fn stop(log: &Log, writer: MutexGuard<'_, Writer>, error: &DiskError) {
    let reason = error.to_string();
    let woken = log.waiters.poison(&reason);
    drop(writer);
    log.poison(&reason);
    woken.into_iter().for_each(Waker::wake);
}

/// A logger that panics will never announce anything again: its waiters must not wait for ever.
struct StopOnPanic<'a> {
    log: &'a Log,
    /// Somebody else's panic is under way: a handle dropped by it closes the log, and these steps are as good as any.
    unwinding: bool,
}

impl<'a> StopOnPanic<'a> {
    fn new(log: &'a Log) -> Self {
        Self { log, unwinding: std::thread::panicking() }
    }
}

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinding {
            self.log.poison(PANICKED);
        }
    }
}

/// Group commit follows the device: it is idle now, so if strict results wait for the current epoch, it closes. The
/// least spacing of epochs is kept inside `try_advance` (E5).
fn close_epoch_early(log: &Log) {
    let wanted = log.waiters.wanted();
    if wanted <= log.waiters.durable() || log.epochs.now() > wanted {
        return;
    }
    if matches!(log.epochs.try_advance(log.clock.nanos()), Advance::Advanced(_)) {
        log.counters.early_closes.add(1);
    }
}
