//! A logger takes appended entries from its workers, writes blocks, marks complete epochs, and syncs (SiloR §3.3 to
//! §3.5). A step calls `encode`, `submit`, `sync_mark` and `finish_submission`. `state_machine` decides; this file
//! acts.
//!
//! Invariants: L1 to L3. The queue of full buffers is drained after the scan of the slots (L1). A failed write or sync
//! poisons the log for good. A write without disk space does not: the encoded blocks are held, and the logger takes
//! nothing from workers until the held blocks are written.
//!
//! Neighbours: `buffers` gives entries, `segments` writes blocks, `marks` and `waiters` take the durable epochs.
//! Threads of the engine and of the objects step.

mod file_rotation;
mod state_machine;

use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, fence, sleep};
use ensile_disk::DiskError;
use ensile_epoch::Advance;

use super::marks::Frontier;
use super::next_file_plan::NextFilePlan;
use super::open_log::Log;
use super::segments::Segments;
use super::worker_scan::scan_slots;
use crate::buffers::{Buffer, BufferQueue, WorkerSlot};
use crate::panic_guard::OnPanic;
use crate::store::closed_files::{ClosedFile, ClosedFiles};
use crate::wake_up::WakeUp;
use state_machine::{FirstAction, StepBy, Steps, closes_epoch, is_hurried};

/// Sleep of a logger while a strict result waits for a short event: the end of a commit, or the epoch's least length.
pub(super) const RETRY_WAIT: Duration = Duration::from_micros(50);
/// Number of further attempts of a step to take a buffer that its worker owns, before the step continues without the
/// buffer.
const PATIENCE: u32 = 16;
/// Reason for the stop of a log after a panic in a step.
const PANICKED: &str = "a logger panicked";

/// Result of one logger step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggerStep {
    /// Nothing to write.
    Idle,
    /// The step wrote buffers whose epoch is not closed yet.
    Wrote,
    /// The step wrote a durable mark, and synced the mark.
    Synced,
    /// The disk is full: the unwritten blocks stay in memory, and a later step tries again.
    Held,
    /// The log is poisoned or closed: this logger has no more work.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Logger {
    index: usize,
    /// Slots of the workers. Only whole elements are added and removed under this lock.
    slots: Mutex<Vec<Arc<WorkerSlot>>>,
    pub(super) queue: BufferQueue,
    wake_up: WakeUp,
    /// True if the next step should come soon: see [`is_hurried`].
    hurry: AtomicBool,
    /// True if a new file is wanted, whatever the size and age of the current file.
    roll_asked: AtomicBool,
    writer: Mutex<Writer>,
    /// Number of threads that wait for the writer. A lone waiter lets these threads go first, because the waiter would
    /// otherwise lock the writer again and again.
    queued: AtomicUsize,
    /// Closed files of this log, oldest first.
    pub(super) closed: ClosedFiles,
    /// Bytes of the current file; `next_bytes`: of the next file. Both are figures for statistics.
    open_bytes: AtomicU64,
    next_bytes: AtomicU64,
    /// The next file. This lock is taken before the writer's lock. A panic stops the log, and a half-made file has no
    /// effect.
    next: Mutex<NextFilePlan>,
    /// Bytes of zeros that the next file needs; 0 while the next file is not due, or once the next file is ready.
    next_wanted: AtomicU64,
    next_ready: AtomicBool,
    /// True while the logger's thread works on its files. Waiters then step by themselves.
    busy_with_files: AtomicBool,
}

/// State that only the stepping thread uses.
#[expect(clippy::vec_box, reason = "the slot hands boxes over by one exchange; here they only pass through")]
#[derive(Debug)]
struct Writer {
    segments: Segments,
    steps: Steps,
    /// Buffers to be returned to the workers: their entries are copied into the pending blocks, or written.
    used: Vec<Box<Buffer>>,
}

#[derive(Debug)]
enum Submission {
    /// The disk lacks space for a part. The part stays in memory for a later step.
    Held,
    /// The whole submission is written. A mark in the submission still needs the sync.
    Written { mark: Option<Epoch> },
    /// The contents of the disk are unknown.
    Failed(DiskError),
}

impl Logger {
    pub(super) fn new(index: usize, segments: Segments, queue: BufferQueue) -> Self {
        assert_eq!(segments.next_name().logger as usize, index, "each logger writes its own log");
        let open_bytes = AtomicU64::new(segments.file_bytes());
        let next = Mutex::new(NextFilePlan::new(&segments));
        let writer = Writer { segments, steps: Steps::default(), used: Vec::new() };
        Self {
            index,
            slots: Mutex::new(Vec::new()),
            queue,
            wake_up: WakeUp::new(),
            hurry: AtomicBool::new(false),
            roll_asked: AtomicBool::new(false),
            writer: Mutex::new(writer),
            queued: AtomicUsize::new(0),
            closed: ClosedFiles::default(),
            open_bytes,
            next_bytes: AtomicU64::new(0),
            next,
            next_wanted: AtomicU64::new(0),
            next_ready: AtomicBool::new(false),
            busy_with_files: AtomicBool::new(false),
        }
    }

    /// Bytes of the current file and of the next file, allocated space included.
    pub(super) fn open_bytes(&self) -> u64 {
        // Relaxed, both: figures.
        self.open_bytes.load(Ordering::Relaxed) + self.next_bytes.load(Ordering::Relaxed)
    }

    /// Makes the next step begin a new file, if the current file holds anything.
    pub(super) fn ask_roll(&self) {
        // Relaxed: the wake-up orders the store before the step that the wake-up starts.
        self.roll_asked.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Locks the writer. `None` after a panic in a step: the log is half written, and the call poisons the log.
    fn lock_writer(&self, log: &Log) -> Option<MutexGuard<'_, Writer>> {
        // Relaxed: a courtesy to waiting threads; the count orders nothing.
        self.queued.fetch_add(1, Ordering::Relaxed);
        let writer = self.writer.lock_unless_panicked();
        // Relaxed: a courtesy to waiting threads; the count orders nothing.
        self.queued.fetch_sub(1, Ordering::Relaxed);
        if writer.is_none() {
            log.poison(PANICKED);
        }
        writer
    }

    /// Runs `work` on the files, on the logger's thread. The thread takes no step meanwhile.
    fn while_busy_with_files<R>(&self, work: impl FnOnce() -> R) -> R {
        // Relaxed: the fence below orders the store before `work`.
        self.busy_with_files.store(true, Ordering::Relaxed);
        // SeqCst: either `work` finds the request for a wake-up, or the waiter with the request finds `busy_with_files`
        // set (partner: the fence in `is_busy_with_files`).
        fence(Ordering::SeqCst);
        let outcome = work();
        // Relaxed: a waiter with a stale true steps once in vain.
        self.busy_with_files.store(false, Ordering::Relaxed);
        outcome
    }

    /// True if the logger's thread works on its files. Called by a waiter after a request for a step: the request may
    /// find no thread for milliseconds.
    pub(super) fn is_busy_with_files(&self) -> bool {
        // SeqCst: the load below comes after the caller's wake-up (partner: the fence in `while_busy_with_files`).
        fence(Ordering::SeqCst);
        // Relaxed: the fence above orders the load.
        self.busy_with_files.load(Ordering::Relaxed)
    }

    /// Waits until no file is being made or closed, and for the end of a running step.
    pub(super) fn wait_for_step(&self) {
        drop(self.next.lock());
        drop(self.writer.lock());
    }

    /// Last file of a closed log, for the archive. `None` if the file holds no block, or if a full disk has kept blocks
    /// from the file.
    pub(super) fn last_file(&self) -> Option<ClosedFile> {
        self.writer.lock_unless_panicked()?.segments.as_closed()
    }

    /// Adds a worker. If the logger's scan misses the worker, this lock orders the scan before the worker's later reads
    /// of E. The reads give at least the E of the scan, so the worker's entries are above the claim (L1).
    pub(super) fn add(&self, slot: Arc<WorkerSlot>) {
        self.queue.add_worker();
        let mut slots = self.slots.lock();
        assert!(!slots.iter().any(|known| Arc::ptr_eq(known, &slot)), "a worker joins once");
        slots.push(slot);
    }

    /// Ends the current or the next wait of the logger's thread.
    pub(super) fn wake(&self) {
        self.wake_up.wake();
    }

    /// Wakes the logger's thread, and the workers that wait for space.
    pub(super) fn wake_all(&self) {
        self.wake();
        self.wake_workers();
    }

    /// Wakes the workers that wait for space, so that the workers find the lack of space.
    pub(super) fn wake_workers(&self) {
        self.queue.wake_all();
    }

    /// Waits until a thread asks for a step, at most for `timeout`. The wait is short if a strict result waits for a
    /// short event.
    pub(super) fn wait(&self, timeout: Duration) {
        // Relaxed: the stepping thread writes and reads the flag; a stale value costs one wait.
        let hurry = self.hurry.swap(false, Ordering::Relaxed);
        self.wake_up.wait(if hurry { timeout.min(RETRY_WAIT) } else { timeout });
    }

    /// Takes one step. Wakers run foreign code, and may drop the last handle, which closes this log and steps every
    /// logger. So the step wakes wakers while no lock is held.
    pub(super) fn step(&self, log: &Log) -> LoggerStep {
        // Made before the lock, so that a panic releases the lock first.
        let _guard = poison_on_panic(log);
        let Some(writer) = self.lock_writer(log) else { return LoggerStep::Stopped };
        self.step_with(log, writer, StepBy::Logger)
    }

    /// Takes one step on the thread of a lone waiter. False if the step is not for a waiter: another step runs or is
    /// about to begin, the disk is full, or the device is busy.
    pub(super) fn step_of_waiter(&self, log: &Log) -> bool {
        // Relaxed: a courtesy to waiting threads; the count orders nothing.
        if self.queued.load(Ordering::Relaxed) > 0 {
            return false;
        }
        // Made before the lock, so that a panic releases the lock first.
        let _guard = poison_on_panic(log);
        // The logger's thread reports a panic of a step.
        let Some(writer) = self.writer.try_lock_unless_panicked() else { return false };
        self.step_on(log, writer)
    }

    /// Takes one step for a waiter of `epoch`, alone or not, while the logger's thread works on its files. Waiters that
    /// come meanwhile wait for the lock, and the next step serves all of them. False if the step is not for a waiter:
    /// the disk is full, or the device is busy.
    pub(super) fn step_for_epoch(&self, log: &Log, epoch: Epoch) -> bool {
        // Made before the lock, so that a panic releases the lock first.
        let _guard = poison_on_panic(log);
        let Some(writer) = self.lock_writer(log) else { return false };
        debug_assert!(epoch <= log.epochs.now(), "a result of an epoch that has not begun");
        log.waiters.durable() >= epoch || self.step_on(log, writer)
    }

    /// Takes one step for a worker that waits for a buffer, if the worker's own thread would take the steps otherwise.
    /// The worker's caller may hold locks, so the step wakes no waker. A panic ends here, and ends the log.
    pub(super) fn step_for_space(&self, log: &Log) {
        assert!(std::ptr::eq(self, &raw const log.loggers[self.index]), "a worker steps a logger of its log");
        let step = || log.stopping_on_panic(|| self.step(log) != LoggerStep::Idle);
        if !log.waiters.keeping_wakers(step) {
            // Another thread has taken the full buffers, and writes them.
            sleep(RETRY_WAIT);
        }
    }

    /// Takes one step for a waiter. False, without a step, if the disk is full or the device is busy.
    fn step_on(&self, log: &Log, writer: MutexGuard<'_, Writer>) -> bool {
        if !writer.steps.is_for_waiter() {
            return false;
        }
        log.counters.waiter_steps.add(1);
        self.step_with(log, writer, StepBy::Waiter);
        true
    }

    /// Runs the four parts of a step. The call releases `writer` before it wakes waiters.
    fn step_with(&self, log: &Log, mut writer: MutexGuard<'_, Writer>, by: StepBy) -> LoggerStep {
        let has_entries = match writer.steps.begin(log.waiters.has_ended()) {
            FirstAction::Stop => return LoggerStep::Stopped,
            FirstAction::SubmitHeld => true,
            FirstAction::Encode { may_close_epoch } => {
                if may_close_epoch {
                    close_epoch_early(log);
                }
                self.encode(log, &mut writer)
            }
        };
        let submission = self.submit(log, &mut writer);
        let submission = Self::sync_mark(log, &writer, submission);
        self.finish_submission(log, writer, submission, has_entries, by)
    }

    /// Makes blocks of the appended entries, and a mark of the claim if a mark is due. True if there were entries.
    fn encode(&self, log: &Log, writer: &mut Writer) -> bool {
        let (claim, buffers) = self.gather(log);
        assert!(claim < log.epochs.now(), "a claim of an epoch that has not ended (L1)");
        if let Some(high) = buffers.iter().map(|buffer| buffer.epochs().1).max() {
            log.marks.raise_high(self.index, high);
        }
        log.marks.advance(self.index, Frontier::Appended, claim);
        let needs_mark = log.marks.needs_mark(self.index, claim);
        if needs_mark {
            // L3: the other logs need marks too, and write while this log writes.
            self.other_loggers(log)
                .filter(|other| log.marks.needs_mark(other.index, claim))
                .for_each(Self::wake);
        }
        let (synced, published) =
            (log.marks.frontier_epoch(self.index, Frontier::Synced), log.marks.of_all(Frontier::Synced));
        let has_entries = !buffers.is_empty();
        for buffer in buffers {
            log.counters.blocks.add(1);
            log.counters.entries.add(u64::from(buffer.entries()));
            writer.used.extend(writer.segments.data(buffer, synced, published));
        }
        if needs_mark {
            assert!(claim > synced, "a mark of {claim} that is synced already");
            writer.segments.mark(claim, published);
        }
        writer.steps.record_encode(needs_mark.then_some(claim));
        has_entries
    }

    /// Writes the encoded blocks to the file.
    fn submit(&self, log: &Log, writer: &mut Writer) -> Submission {
        let Writer { segments, steps, used } = writer;
        let (start, was_held) = (segments.written_bytes(), steps.is_held());
        let flushed = segments.flush(|buffer| used.push(buffer));
        let bytes = segments.written_bytes() - start;
        log.counters.bytes.add(bytes);
        let full = match flushed {
            Err(error) if error.is_full() => Some(error),
            Err(error) => return Submission::Failed(error),
            Ok(()) => None,
        };
        let mark = steps.record_write(bytes, full.is_some());
        if let Some(error) = full {
            log.hold(self.index, &error);
            return Submission::Held;
        }
        // The buffers go back now, because workers need not wait for the sync.
        debug_assert!(!steps.is_held(), "all of it is written");
        if was_held {
            log.resume(self.index);
        }
        if !used.is_empty() {
            self.queue.give_back(used.drain(..), segments.blocks());
        }
        if let Some(mark) = mark {
            log.marks.advance(self.index, Frontier::Written, mark);
        }
        Submission::Written { mark }
    }

    /// Syncs the file if the submission has a mark, and checks the file's name. No other part of a step waits for the
    /// medium.
    fn sync_mark(log: &Log, writer: &Writer, submission: Submission) -> Submission {
        let Submission::Written { mark: Some(mark) } = submission else { return submission };
        assert!(!writer.steps.is_held(), "a mark that is held is not submitted (L3)");
        // L9: the names are checked before a result relies on the sync.
        match writer.segments.sync().and_then(|()| log.store.check_named(log.loggers.len())) {
            Ok(()) => Submission::Written { mark: Some(mark) },
            Err(error) => Submission::Failed(error),
        }
    }

    /// Acts on the outcome of write and sync: announces durable epochs, and begins a new file if due.
    fn finish_submission(
        &self,
        log: &Log,
        mut writer: MutexGuard<'_, Writer>,
        submission: Submission,
        has_entries: bool,
        by: StepBy,
    ) -> LoggerStep {
        let mark = match submission {
            Submission::Written { mark } => mark,
            Submission::Held => {
                drop(writer);
                // The next files of all logs hold nothing yet, and give their space to blocks, because the logs may
                // share the disk.
                log.loggers.iter().for_each(|logger| logger.give_up_next(log));
                log.expire_waiters();
                log.wake_for_space();
                return LoggerStep::Held;
            }
            Submission::Failed(error) => {
                stop(log, writer, &error);
                return LoggerStep::Stopped;
            }
        };
        if let Some(mark) = mark {
            log.counters.marks.add(1);
            log.counters.syncs.add(1);
            log.marks.advance(self.index, Frontier::Synced, mark);
            writer.steps.record_sync(mark);
            debug_assert!(writer.steps.may_roll(), "all of it is synced");
        }
        let (now, heavy) = (log.clock.nanos(), writer.steps.is_heavy());
        let is_roll_due = self.is_roll_due(&writer, now);
        // Relaxed: a figure.
        self.open_bytes.store(writer.segments.file_bytes(), Ordering::Relaxed);
        self.note_next(&writer.segments, now, heavy);
        drop(writer);
        log.announce();
        log.wake_for_space();
        if is_roll_due && by == StepBy::Waiter {
            // The logger's thread begins the new file: the waiter's result needs only the mark.
            self.wake();
        } else if is_roll_due && !self.roll(log, now, heavy) {
            return LoggerStep::Stopped;
        }
        if by == StepBy::Logger {
            let claim = log.marks.frontier_epoch(self.index, Frontier::Appended);
            let hurry = !heavy && is_hurried(claim, log.waiters.wanted_epoch(), log.waiters.durable());
            // Relaxed: the stepping thread reads the flag, in `wait`; a stale value costs one wait.
            self.hurry.store(hurry, Ordering::Relaxed);
        }
        match (mark, has_entries) {
            (Some(_), _) => LoggerStep::Synced,
            (None, true) => LoggerStep::Wrote,
            (None, false) => LoggerStep::Idle,
        }
    }

    fn other_loggers<'a>(&self, log: &'a Log) -> impl Iterator<Item = &'a Self> {
        let own = self.index;
        log.loggers.iter().filter(move |other| other.index != own)
    }

    /// Computes the epoch d that a mark may claim now (L1), and takes every buffer with entries of epochs up to d.
    #[expect(
        clippy::vec_box,
        reason = "the slot hands boxes over by one exchange; here they only pass through"
    )]
    fn gather(&self, log: &Log) -> (Epoch, Vec<Box<Buffer>>) {
        let before = log.marks.frontier_epoch(self.index, Frontier::Appended);
        let mut slots = self.slots.lock();
        let mut buffers = Vec::new();
        // Under a test's clock, no other thread runs while a step waits, so patience is useless. Explored threads
        // (loom, shuttle) do run.
        let is_alone = log.clock.is_manual() && !cfg!(any(loom, shuttle));
        let patience = if is_alone { 0 } else { PATIENCE };
        let claim = scan_slots(&log.epochs, &slots, &mut || self.queue.free_buffer(), patience, &mut buffers);
        // L2: removes the slots of ended workers whose last entries are taken.
        slots.retain(|slot| {
            let is_finished = slot.is_finished();
            if is_finished {
                self.queue.remove_worker(slot.reclaim());
            }
            !is_finished
        });
        drop(slots);
        // L1: the queue is drained after the slots, because a worker queues a full buffer before it shows an empty
        // buffer.
        buffers.extend(self.queue.drain());
        for buffer in &buffers {
            assert!(!buffer.is_empty(), "a buffer without entries is left to its worker");
            assert!(buffer.epochs().0 > before, "an entry of an epoch that this log has claimed before (L1)");
        }
        // A stale bind can lower c_w - 1 below an earlier claim. The earlier claim stays true (L1, C1).
        (claim.max(before), buffers)
    }
}

/// Stops the log after a failed call, before these locks are released, so that no other step syncs after the failure.
/// Wakers are woken after the release. Always returns false, for callers whose false means a stopped log.
fn stop<L>(log: &Log, locks: L, error: &DiskError) -> bool {
    let end = log.end_of(error);
    let woken = log.waiters.end(end.clone());
    drop(locks);
    log.end(end);
    log.waiters.wake_all(woken);
    false
}

/// Poisons the log if the logger panics. The logger announces nothing after a panic, and its waiters must not wait for
/// ever.
fn poison_on_panic(log: &Log) -> OnPanic<impl Fn()> {
    OnPanic::new(|| {
        log.poison(PANICKED);
    })
}

/// Closes the current epoch if strict results wait for the epoch. Group commit follows the device, which is idle now.
/// `try_advance_early` keeps the least spacing of epochs (E5).
fn close_epoch_early(log: &Log) {
    if !closes_epoch(log.waiters.wanted_epoch(), log.waiters.durable(), log.epochs.now()) {
        return;
    }
    debug_assert!(log.waiters.durable() < log.epochs.now(), "D is below E");
    match log.epochs.try_advance_early(log.clock.nanos()) {
        Advance::Advanced(_) => log.counters.early_closes.add(1),
        // L6: new commits are refused from here on, before the next tick of the heartbeat.
        Advance::AtLimit => log.refuse_near_epoch_limit(),
        _ => {}
    }
}
