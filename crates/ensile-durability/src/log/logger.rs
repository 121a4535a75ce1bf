//! A logger: takes what its workers appended, writes it, marks what is complete, syncs (SiloR §3.3 to §3.5).
//!
//! Invariants:
//! - L1: the claim of a mark comes from `look`, and the queue of full buffers is drained after it.
//! - L2: part-filled buffers of workers between commits are taken here, ended workers' as well.
//! - L3: marks are written where any log has an entry; one sync per mark.
//! - A failed write or sync poisons the log for good. A write for which there is no space does not: it is held, encoded as it
//!   is, and nothing else is taken from workers until it is written.
//!
//! Neighbours: `slot` and `queue` upstream, `segments` downstream, `marks` and `waiters` for what is durable.

mod rolling;

use std::collections::VecDeque;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::LOG_BUFFER_BYTES;
use ensile_base::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, fence};
use ensile_disk::DiskError;
use ensile_epoch::Advance;

use super::buffer::Buffer;
use super::claim::scan_slots;
use super::queue::BufferQueue;
use super::segments::{ClosedFile, Segments};
use super::waiters::{LogEnd, wake_all};
use super::wake_up::WakeUp;
use super::worker_slot::WorkerSlot;
use super::{Log, LoggerStep};
use rolling::NextFilePlan;

/// How long a logger sleeps when a strict result waits for something short: a commit to end, the epoch's least length.
pub(super) const RETRY_WAIT: Duration = Duration::from_micros(50);
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
    slots: Mutex<Vec<Arc<WorkerSlot>>>,
    pub(super) queue: BufferQueue,
    wake_up: WakeUp,
    /// The last step wants to be repeated soon.
    hurry: AtomicBool,
    /// A new file is wanted, whatever the current one's size and age.
    roll_asked: AtomicBool,
    writer: Mutex<Writer>,
    /// Threads that wait for the writer: a lone waiter, who would take it again and again, leaves it to them.
    queued: AtomicUsize,
    /// This log's closed files, oldest first.
    closed: Mutex<VecDeque<ClosedFile>>,
    /// Bytes of the current file and of the next one, for statistics.
    open_bytes: AtomicU64,
    next_bytes: AtomicU64,
    /// The next file, locked before the writer.
    next: Mutex<NextFilePlan>,
    /// So many zeros the next file is to have; none: it is not time, or it is ready.
    next_wanted: AtomicU64,
    next_ready: AtomicBool,
    /// The logger's thread is at its files: waiters step by themselves.
    away: AtomicBool,
}

/// What only the thread that steps uses.
#[expect(clippy::vec_box, reason = "the slot hands boxes over by one exchange; here they only pass through")]
#[derive(Debug)]
struct Writer {
    segments: Segments,
    /// Buffers whose entries are encoded elsewhere or written.
    used: Vec<Box<Buffer>>,
    /// Bytes since the last mark, and up to it since the one before.
    bytes_since_mark: u64,
    bytes_recent: u64,
    /// A mark of this d is encoded and not synced yet.
    mark_due: Option<Epoch>,
    /// Some of what is encoded waits for space on the disk.
    held: bool,
    closed: bool,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteOutcome {
    All,
    /// The disk is full.
    Held,
}

/// What the first half of a step found.
#[derive(Clone, Copy)]
struct Ended {
    claim: Epoch,
    mark: bool,
    wrote: bool,
    heavy: bool,
    by: StepBy,
}

/// Whose thread takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepBy {
    /// The logger's own, or one that drives it.
    Logger,
    /// That of a waiter: what its result does not wait for is left to the logger.
    Waiter,
}

impl Writer {
    /// Is the device busy?
    fn is_heavy(&self) -> bool {
        self.bytes_recent.max(self.bytes_since_mark) > EARLY_CLOSE_BYTES_MAX
    }
}

/// What a look at all workers gave.
#[expect(clippy::vec_box, reason = "the slot hands boxes over by one exchange; here they only pass through")]
struct Gathered {
    /// L1's d.
    claim: Epoch,
    buffers: Vec<Box<Buffer>>,
}

impl Logger {
    pub(super) fn new(index: usize, segments: Segments) -> Self {
        let open_bytes = AtomicU64::new(segments.file_bytes());
        let next = Mutex::new(NextFilePlan::of(&segments));
        let writer = Writer {
            segments,
            used: Vec::new(),
            bytes_since_mark: 0,
            bytes_recent: 0,
            mark_due: None,
            held: false,
            closed: false,
        };
        Self {
            index,
            slots: Mutex::new(Vec::new()),
            queue: BufferQueue::new(),
            wake_up: WakeUp::new(),
            hurry: AtomicBool::new(false),
            roll_asked: AtomicBool::new(false),
            writer: Mutex::new(writer),
            queued: AtomicUsize::new(0),
            closed: Mutex::new(VecDeque::new()),
            open_bytes,
            next_bytes: AtomicU64::new(0),
            next,
            next_wanted: AtomicU64::new(0),
            next_ready: AtomicBool::new(false),
            away: AtomicBool::new(false),
        }
    }

    /// The closed files, oldest first. Only whole elements are added and removed under this lock.
    pub(super) fn closed_files(&self) -> MutexGuard<'_, VecDeque<ClosedFile>> {
        self.closed.lock()
    }

    /// Bytes of the current file and of the next one, space set aside included.
    pub(super) fn open_bytes(&self) -> u64 {
        // Relaxed, both: figures.
        self.open_bytes.load(Ordering::Relaxed) + self.next_bytes.load(Ordering::Relaxed)
    }

    /// The next step begins a new file if this one holds anything.
    pub(super) fn ask_roll(&self) {
        // Relaxed: the bell orders it before the step that it starts.
        self.roll_asked.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn lock_slots(&self) -> MutexGuard<'_, Vec<Arc<WorkerSlot>>> {
        // Only whole elements are added and removed under this lock.
        self.slots.lock()
    }

    /// `None` once a step has panicked: that leaves a half-written log, which must not be carried on.
    fn lock_writer(&self, log: &Log) -> Option<MutexGuard<'_, Writer>> {
        // Relaxed, here and below: a courtesy, which orders nothing.
        self.queued.fetch_add(1, Ordering::Relaxed);
        let writer = self.writer.lock_unless_panicked();
        // Relaxed: as above.
        self.queued.fetch_sub(1, Ordering::Relaxed);
        if writer.is_none() {
            log.poison(PANICKED);
        }
        writer
    }

    /// Runs `work` at the files on the logger's thread, which does not step meanwhile.
    fn while_away<R>(&self, work: impl FnOnce() -> R) -> R {
        // Relaxed: the fence orders it.
        self.away.store(true, Ordering::Relaxed);
        // SeqCst: either `work` finds the bell rung, or the waiter that rang finds this (partner: the fence in `is_away`).
        fence(Ordering::SeqCst);
        let outcome = work();
        // Relaxed: a waiter that still finds it true steps once in vain.
        self.away.store(false, Ordering::Relaxed);
        outcome
    }

    /// Is the logger's thread at its files? For a waiter that has rung: nobody may step for it soon.
    pub(super) fn is_away(&self) -> bool {
        // SeqCst: after the ring (partner: the fence in `while_away`).
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders it.
        self.away.load(Ordering::Relaxed)
    }

    /// Has somebody rung since the last wait?
    fn is_asked(&self) -> bool {
        self.wake_up.is_asked()
    }

    /// Waits until no step is under way.
    pub(super) fn wait_for_step(&self) {
        self.wait_for_files();
        drop(self.writer.lock());
    }

    /// A worker joins. If the logger's scan misses it, then by this lock the worker's later reads of E give at least
    /// the E that the scan began with, so its entries are above the claim (L1).
    pub(super) fn add(&self, slot: Arc<WorkerSlot>) {
        self.queue.add_worker();
        self.lock_slots().push(slot);
    }

    pub(super) fn wake(&self) {
        self.wake_up.wake();
    }

    /// Wakes the logger's thread and its workers that wait for space.
    pub(super) fn wake_all(&self) {
        self.wake();
        self.wake_workers();
    }

    /// Wakes workers that wait for space, to find that there is none.
    pub(super) fn wake_workers(&self) {
        self.queue.wake_all();
    }

    pub(super) fn wait(&self, timeout: Duration) {
        // Relaxed: written and read by the thread that steps; a stale value costs one wait.
        let hurry = self.hurry.swap(false, Ordering::Relaxed);
        self.wake_up.wait(if hurry { timeout.min(RETRY_WAIT) } else { timeout });
    }

    /// One iteration. Wakers run code of others, and what they drop may be the last handle, which closes this log and
    /// steps every logger: so they are woken while no lock is held.
    pub(super) fn step(&self, log: &Log) -> LoggerStep {
        // Before the lock, so that a panic lets go of the lock first.
        let _guard = PoisonOnPanic::new(log);
        let Some(writer) = self.lock_writer(log) else { return LoggerStep::Stopped };
        self.step_with(log, writer, StepBy::Logger)
    }

    /// The same on the thread of a waiter that waits alone. False if it is not for a waiter to take: another step is under
    /// way or about to begin, the disk is full, or the device is busy.
    pub(super) fn step_of_waiter(&self, log: &Log) -> bool {
        // Relaxed: as in `lock_writer`.
        if self.queued.load(Ordering::Relaxed) > 0 {
            return false;
        }
        // Before the lock, so that a panic lets go of the lock first.
        let _guard = PoisonOnPanic::new(log);
        // A step that panicked is told by the logger's thread.
        let Some(writer) = self.writer.try_lock_unless_panicked() else { return false };
        self.step_on(log, writer)
    }

    /// The same for a waiter, alone or not, of `epoch` whose logger is away: those that come meanwhile wait for the lock, and the next step
    /// is for all of them. False if it is not for a waiter to take.
    pub(super) fn step_of_leader(&self, log: &Log, epoch: Epoch) -> bool {
        // Before the lock, so that a panic lets go of the lock first.
        let _guard = PoisonOnPanic::new(log);
        let Some(writer) = self.lock_writer(log) else { return false };
        log.waiters.durable() >= epoch || self.step_on(log, writer)
    }

    fn step_on(&self, log: &Log, writer: MutexGuard<'_, Writer>) -> bool {
        if writer.held || writer.is_heavy() {
            return false;
        }
        log.counters.waiter_steps.add(1);
        self.step_with(log, writer, StepBy::Waiter);
        true
    }

    fn step_with(&self, log: &Log, mut writer: MutexGuard<'_, Writer>, by: StepBy) -> LoggerStep {
        if writer.closed || log.waiters.has_ended() {
            return LoggerStep::Stopped;
        }
        if writer.held {
            // First of all what was held: it comes before anything else in the chain.
            let (claim, mark) = (log.marks.claimed(self.index), writer.mark_due.is_some());
            return self.end_step(log, writer, Ended { claim, mark, wrote: true, heavy: true, by });
        }
        let heavy = writer.is_heavy();
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
            self.others(log).filter(|other| log.marks.needs_mark(other.index, claim)).for_each(Self::wake);
        }
        let wrote = !gathered.buffers.is_empty();
        self.encode(log, &mut writer, gathered, mark);
        self.end_step(log, writer, Ended { claim, mark, wrote, heavy, by })
    }

    /// The second half of a step: writes what is encoded, announces, begins a new file.
    fn end_step(&self, log: &Log, mut writer: MutexGuard<'_, Writer>, ended: Ended) -> LoggerStep {
        let Ended { claim, mark, wrote, heavy, by } = ended;
        match self.write(log, &mut writer) {
            Ok(WriteOutcome::All) => {}
            Ok(WriteOutcome::Held) => {
                drop(writer);
                // A file that holds nothing yet gives its space to blocks, of every log: they may share the disk.
                log.loggers.iter().for_each(|logger| logger.give_up_next(log));
                log.expire_waiters();
                return LoggerStep::Held;
            }
            Err(error) => {
                stop(log, writer, &error);
                return LoggerStep::Stopped;
            }
        }
        let now = log.clock.nanos();
        let due = self.is_roll_due(&writer, now);
        // Relaxed: a figure.
        self.open_bytes.store(writer.segments.file_bytes(), Ordering::Relaxed);
        self.note_next(&writer.segments, now, heavy);
        drop(writer);
        log.waiters.announce(|| log.marks.durable());
        match by {
            // Results of this mark did not wait for the new file.
            StepBy::Logger if due && !self.roll(log, now, heavy) => return LoggerStep::Stopped,
            StepBy::Logger => {
                let wanted = log.waiters.wanted();
                // A strict result waits for a commit that is ending, or for the epoch's least length: soon, not next interval.
                let hurry = wanted > log.waiters.durable() && claim < wanted && !heavy;
                // Relaxed: as in `wait`.
                self.hurry.store(hurry, Ordering::Relaxed);
            }
            StepBy::Waiter if due => self.wake(),
            StepBy::Waiter => {}
        }
        match (mark, wrote) {
            (true, _) => LoggerStep::Synced,
            (false, true) => LoggerStep::Wrote,
            (false, false) => LoggerStep::Idle,
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
        let mut buffers = Vec::new();
        let claim = scan_slots(&log.epochs, &slots, &mut || self.queue.free_buffer(), PATIENCE, &mut buffers);
        // Ended workers whose last entries are taken (L2).
        slots.retain(|slot| {
            let is_finished = slot.is_finished();
            if is_finished {
                self.queue.remove_worker(slot.reclaim());
            }
            !is_finished
        });
        drop(slots);
        // After the slots: a worker queues a full buffer before it shows an empty one (L1).
        buffers.extend(self.queue.drain());
        for buffer in &buffers {
            assert!(buffer.epochs().0 > before, "an entry of an epoch that this log has claimed before (L1)");
        }
        // A stale bind can lower c_w - 1 below what was claimed; the earlier claim stays true (L1, C1).
        Gathered { claim: claim.max(before), buffers }
    }

    /// Encodes the buffers, and a mark of the claim where one is due.
    fn encode(&self, log: &Log, writer: &mut Writer, gathered: Gathered, mark: bool) {
        let Gathered { claim, buffers } = gathered;
        let (synced, published) = (log.marks.synced(self.index), log.marks.synced_by_all());
        for buffer in buffers {
            log.counters.blocks.add(1);
            log.counters.entries.add(u64::from(buffer.entries()));
            writer.used.extend(writer.segments.data(buffer, synced, published));
        }
        if mark {
            writer.segments.mark(claim, published);
            writer.mark_due = Some(claim);
        }
    }

    /// Writes what is encoded, and syncs it if a mark is among it.
    fn write(&self, log: &Log, writer: &mut Writer) -> Result<WriteOutcome, DiskError> {
        let start = writer.segments.written_bytes();
        let Writer { segments, used, .. } = writer;
        let flushed = segments.flush(|buffer| used.push(buffer));
        let bytes = writer.segments.written_bytes() - start;
        log.counters.bytes.add(bytes);
        writer.bytes_since_mark += bytes;
        match flushed {
            Err(error) if error.is_full() => {
                writer.held = true;
                log.hold(self.index, &error);
                return Ok(WriteOutcome::Held);
            }
            flushed => flushed?,
        }
        if std::mem::take(&mut writer.held) {
            log.resume(self.index);
        }
        if !writer.used.is_empty() {
            self.queue.give_back(writer.used.drain(..));
        }
        let Some(claim) = writer.mark_due.take() else { return Ok(WriteOutcome::All) };
        writer.segments.sync()?;
        log.counters.marks.add(1);
        log.counters.syncs.add(1);
        log.marks.note_synced(self.index, claim);
        writer.bytes_recent = std::mem::take(&mut writer.bytes_since_mark);
        Ok(WriteOutcome::All)
    }

    /// How many blocks this log has; not while a step is under way.
    pub(super) fn blocks(&self) -> u64 {
        self.writer.lock_unless_panicked().map_or(0, |writer| writer.segments.blocks())
    }

    /// A mark of all that is claimed, at close; the last one also gives back the space that is not used. False if it could not
    /// be written: everything is durable without it, so a disk that has no space for it is no failure.
    pub(super) fn write_last_mark(&self, log: &Log, last: bool) -> bool {
        let Some(mut writer) = self.lock_writer(log) else { return false };
        if writer.closed || log.waiters.has_ended() {
            return false;
        }
        match self.end_with_mark(log, &mut writer, last) {
            Ok(stands) => stands,
            Err(error) => {
                stop(log, writer, &error);
                false
            }
        }
    }

    fn end_with_mark(&self, log: &Log, writer: &mut Writer, last: bool) -> Result<bool, DiskError> {
        let claim = log.marks.claimed(self.index);
        writer.segments.mark(claim, log.marks.synced_by_all());
        writer.closed = last;
        match writer.segments.flush(|_| {}) {
            // The first round's waits for the second's.
            Err(error) if error.is_full() => return Ok(false),
            flushed => flushed?,
        }
        writer.segments.sync()?;
        log.marks.note_synced(self.index, claim);
        if last {
            writer.segments.trim()?;
        }
        Ok(true)
    }
}

/// Stops the log for a failed write or sync, before the writer is let go: no other step may sync behind it. Wakers are
/// woken after.
fn stop(log: &Log, writer: MutexGuard<'_, Writer>, error: &DiskError) {
    let woken = log.waiters.end(LogEnd::Poisoned(error.to_string().into()));
    drop(writer);
    log.poison(&error.to_string());
    wake_all(woken);
}

/// A logger that panics will never announce anything again: its waiters must not wait for ever.
struct PoisonOnPanic<'a> {
    log: &'a Log,
    /// Somebody else's panic is under way: a handle dropped by it closes the log, and these steps are as good as any.
    unwinding: bool,
}

impl<'a> PoisonOnPanic<'a> {
    fn new(log: &'a Log) -> Self {
        Self { log, unwinding: std::thread::panicking() }
    }
}

impl Drop for PoisonOnPanic<'_> {
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
    match log.epochs.try_advance(log.clock.nanos()) {
        Advance::Advanced(_) => log.counters.early_closes.add(1),
        // Between two beats of the heart: new commits are refused from here on (L6).
        Advance::AtLimit => log.look_at_end(),
        _ => {}
    }
}
