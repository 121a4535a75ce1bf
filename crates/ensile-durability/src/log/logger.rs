//! A logger: takes what its workers appended, writes it, marks what is complete, syncs (SiloR §3.3 to §3.5).
//!
//! A step is three calls: `encode` makes blocks of what the workers appended, `submit` hands them to the file with a
//! sync behind a mark, `completed` takes the answer and announces what it made durable. `steps` decides; this file
//! acts.
//!
//! Invariants:
//! - L1: the claim of a mark comes from `claim`, and the queue of full buffers is drained after it.
//! - L2: part-filled buffers of workers between commits are taken here, ended workers' as well.
//! - L3: marks are written where any log has an entry; one sync per mark.
//! - A failed write or sync poisons the log for good. A write for which there is no space does not: it is held, encoded
//!   as it is, and nothing else is taken from workers until it is written.
//!
//! Neighbours: `buffers` upstream, `segments` downstream, `marks` and `waiters` for what is durable.

mod rolling;
mod steps;

use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, fence, sleep};
use ensile_disk::DiskError;
use ensile_epoch::Advance;

use super::claim::scan_slots;
use super::marks::Frontier;
use super::segments::Segments;
use super::{Log, LoggerStep};
use crate::buffers::{Buffer, BufferQueue, WorkerSlot};
use crate::on_panic::OnPanic;
use crate::store::closed_files::{ClosedFile, ClosedFiles};
use crate::wake_up::WakeUp;
use rolling::NextFilePlan;
use steps::{AfterWrite, FirstAction, LastAction, StepBy, Steps, closes_epoch, is_hurried};

/// How long a logger sleeps when a strict result waits for something short: a commit to end, the epoch's least length.
pub(super) const RETRY_WAIT: Duration = Duration::from_micros(50);
/// How often a step tries again to take a buffer that its worker owns, before it goes on without.
const PATIENCE: u32 = 16;
/// Why the log stops when a step panics.
const PANICKED: &str = "a logger panicked";

/// One logger and its workers.
#[derive(Debug)]
pub(crate) struct Logger {
    index: usize,
    /// Only whole elements are added and removed under this lock.
    slots: Mutex<Vec<Arc<WorkerSlot>>>,
    pub(super) queue: BufferQueue,
    wake_up: WakeUp,
    /// The last step wants to be repeated soon.
    hurry: AtomicBool,
    /// A new file is wanted, whatever the current one's size and age.
    roll_asked: AtomicBool,
    writer: Mutex<Writer>,
    /// Threads that wait for the writer. A lone waiter leaves it to them: it would take it again and again.
    queued: AtomicUsize,
    /// This log's closed files, oldest first.
    pub(super) closed: ClosedFiles,
    /// Bytes of the current file and of the next one, for statistics.
    open_bytes: AtomicU64,
    next_bytes: AtomicU64,
    /// The next file, locked before the writer. A panic stops the log, and a file that is half made counts for nothing.
    next: Mutex<NextFilePlan>,
    /// Zeros that the next file is to have; 0 while it is not time for one, or it is ready.
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
    steps: Steps,
    /// Buffers whose entries are encoded elsewhere or written.
    used: Vec<Box<Buffer>>,
}

/// What came of a submission.
#[derive(Debug)]
enum Submission {
    /// The disk has no space for some of it: it is held.
    Held,
    /// All of it is written. A mark among it waits for the store's answer.
    Written {
        /// The d of that mark.
        mark: Option<Epoch>,
    },
    /// What the disk holds is not known any more.
    Failed(DiskError),
}

impl Logger {
    pub(super) fn new(index: usize, segments: Segments, queue: BufferQueue) -> Self {
        assert_eq!(segments.next_name().logger as usize, index, "each logger writes its own log");
        let open_bytes = AtomicU64::new(segments.file_bytes());
        let next = Mutex::new(NextFilePlan::of(&segments));
        let writer = Writer { segments, steps: Steps::new(), used: Vec::new() };
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
            away: AtomicBool::new(false),
        }
    }

    /// Bytes of the current file and of the next one, allocated space included.
    pub(super) fn open_bytes(&self) -> u64 {
        // Relaxed, both: figures.
        self.open_bytes.load(Ordering::Relaxed) + self.next_bytes.load(Ordering::Relaxed)
    }

    /// The next step begins a new file if this one holds anything.
    pub(super) fn ask_roll(&self) {
        // Relaxed: the wake-up orders it before the step that it starts.
        self.roll_asked.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// `None` once a step has panicked: that leaves a half-written log, which must not be carried on.
    fn lock_writer(&self, log: &Log) -> Option<MutexGuard<'_, Writer>> {
        // Relaxed: a courtesy to the threads that wait, which orders nothing.
        self.queued.fetch_add(1, Ordering::Relaxed);
        let writer = self.writer.lock_unless_panicked();
        // Relaxed: a courtesy to the threads that wait, which orders nothing.
        self.queued.fetch_sub(1, Ordering::Relaxed);
        if writer.is_none() {
            log.poison(PANICKED);
        }
        writer
    }

    /// Runs `work` at the files on the logger's thread, which does not step meanwhile.
    fn while_away<R>(&self, work: impl FnOnce() -> R) -> R {
        // Relaxed: the fence below orders it before `work`.
        self.away.store(true, Ordering::Relaxed);
        // SeqCst: either `work` finds the wake-up asked for, or the waiter that asked finds this (partner: the fence in
        // `is_away`).
        fence(Ordering::SeqCst);
        let outcome = work();
        // Relaxed: a waiter that still finds it true steps once in vain.
        self.away.store(false, Ordering::Relaxed);
        outcome
    }

    /// Is the logger's thread at its files? For a waiter that has asked for a step: no thread may take it for
    /// milliseconds.
    pub(super) fn is_away(&self) -> bool {
        // SeqCst: the load below comes after the caller's wake-up (partner: the fence in `while_away`).
        fence(Ordering::SeqCst);
        // Relaxed: the fence above orders it.
        self.away.load(Ordering::Relaxed)
    }

    /// Has a thread asked for a step since the last wait?
    fn is_asked(&self) -> bool {
        self.wake_up.is_asked()
    }

    /// Waits until no step is under way.
    pub(super) fn wait_for_step(&self) {
        self.wait_for_files();
        drop(self.writer.lock());
    }

    /// The last file of a log that is closed; `None` if it holds nothing, or a full disk has kept it from its end.
    pub(super) fn last_file(&self) -> Option<ClosedFile> {
        self.writer.lock_unless_panicked()?.segments.as_closed()
    }

    /// A worker joins. If the logger's scan misses it, then by this lock the worker's later reads of E give at least
    /// the E that the scan began with, so its entries are above the claim (L1).
    pub(super) fn add(&self, slot: Arc<WorkerSlot>) {
        self.queue.add_worker();
        let mut slots = self.slots.lock();
        assert!(!slots.iter().any(|known| Arc::ptr_eq(known, &slot)), "a worker joins once");
        slots.push(slot);
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

    /// One iteration. Wakers run code of others, and may drop the last handle, which closes this log and steps every
    /// logger. So they are woken while no lock is held.
    pub(super) fn step(&self, log: &Log) -> LoggerStep {
        // Before the lock, so that a panic lets go of the lock first.
        let _guard = poison_on_panic(log);
        let Some(writer) = self.lock_writer(log) else { return LoggerStep::Stopped };
        self.step_with(log, writer, StepBy::Logger)
    }

    /// The same on the thread of a waiter that waits alone. False if it is not for a waiter to take: another step is
    /// under way or about to begin, the disk is full, or the device is busy.
    pub(super) fn step_of_waiter(&self, log: &Log) -> bool {
        // Relaxed: a courtesy to the threads that wait, which orders nothing.
        if self.queued.load(Ordering::Relaxed) > 0 {
            return false;
        }
        // Before the lock, so that a panic lets go of the lock first.
        let _guard = poison_on_panic(log);
        // A step that panicked is reported by the logger's thread.
        let Some(writer) = self.writer.try_lock_unless_panicked() else { return false };
        self.step_on(log, writer)
    }

    /// The same for a waiter of `epoch`, alone or not, whose logger is away. Waiters that come meanwhile wait for the
    /// lock, and the next step serves all of them. False if it is not for a waiter to take.
    pub(super) fn step_of_leader(&self, log: &Log, epoch: Epoch) -> bool {
        // Before the lock, so that a panic lets go of the lock first.
        let _guard = poison_on_panic(log);
        let Some(writer) = self.lock_writer(log) else { return false };
        debug_assert!(epoch <= log.epochs.now(), "a result of an epoch that has not begun");
        log.waiters.durable() >= epoch || self.step_on(log, writer)
    }

    /// The same for a worker that waits for a buffer, where its thread is the one that would step otherwise. The
    /// worker's caller may hold locks, so nobody is woken. A panic ends here, and the log with it.
    pub(super) fn step_for_space(&self, log: &Log) {
        assert!(std::ptr::eq(self, &raw const log.loggers[self.index]), "a worker steps a logger of its log");
        let step = || log.stopping_on_panic(|| self.step(log) != LoggerStep::Idle);
        if !log.waiters.keeping_wakers(step) {
            // Another thread has all that is full, and writes it.
            sleep(RETRY_WAIT);
        }
    }

    fn step_on(&self, log: &Log, writer: MutexGuard<'_, Writer>) -> bool {
        if !writer.steps.is_for_waiter() {
            return false;
        }
        log.counters.waiter_steps.add(1);
        self.step_with(log, writer, StepBy::Waiter);
        true
    }

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
        let answer = Self::answer(log, &writer, submission);
        self.completed(log, writer, answer, has_entries, by)
    }

    /// Makes blocks of what the workers appended, and a mark of the claim where one is due. False without an entry.
    fn encode(&self, log: &Log, writer: &mut Writer) -> bool {
        let (claim, buffers) = self.gather(log);
        assert!(claim < log.epochs.now(), "a claim of an epoch that has not ended (L1)");
        if let Some(high) = buffers.iter().map(|buffer| buffer.epochs().1).max() {
            log.marks.raise_high(self.index, high);
        }
        log.marks.advance(self.index, Frontier::Appended, claim);
        let needs_mark = log.marks.needs_mark(self.index, claim);
        if needs_mark {
            // The other logs need theirs too (L3): they write while this one does.
            self.others(log).filter(|other| log.marks.needs_mark(other.index, claim)).for_each(Self::wake);
        }
        let (synced, published) =
            (log.marks.at(self.index, Frontier::Synced), log.marks.of_all(Frontier::Synced));
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
        writer.steps.encoded(needs_mark.then_some(claim));
        has_entries
    }

    /// Hands what is encoded to the file.
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
        let after = steps.written(bytes, full.is_some());
        if let Some(error) = full {
            log.hold(self.index, &error);
            return Submission::Held;
        }
        // Workers need not wait for the sync.
        debug_assert!(!steps.is_held(), "all of it is written");
        if was_held {
            log.resume(self.index);
        }
        if !used.is_empty() {
            self.queue.give_back(used.drain(..), segments.blocks());
        }
        let AfterWrite::Sync(mark) = after else { return Submission::Written { mark: None } };
        log.marks.advance(self.index, Frontier::Written, mark);
        Submission::Written { mark: Some(mark) }
    }

    /// Waits for the store's answer to what was submitted: a file's is the sync behind a mark. Only here does a step
    /// wait for the medium.
    fn answer(log: &Log, writer: &Writer, submission: Submission) -> Submission {
        let Submission::Written { mark: Some(mark) } = submission else { return submission };
        assert!(!writer.steps.is_held(), "a mark that is held is not submitted (L3)");
        // L9: before a result rests on the sync.
        match writer.segments.sync().and_then(|()| log.store.check_named(log.loggers.len())) {
            Ok(()) => Submission::Written { mark: Some(mark) },
            Err(error) => Submission::Failed(error),
        }
    }

    /// The store has answered: announces what is durable now, and begins a new file.
    fn completed(
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
                // A file that holds nothing yet gives its space to blocks, of every log: they may share the disk.
                log.loggers.iter().for_each(|logger| logger.give_up_next(log));
                log.expire_waiters();
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
            writer.steps.synced(mark);
            debug_assert!(writer.steps.may_roll(), "all of it is synced");
        }
        let (now, heavy) = (log.clock.nanos(), writer.steps.is_heavy());
        let last = Steps::end(by, self.is_roll_due(&writer, now));
        // Relaxed: a figure.
        self.open_bytes.store(writer.segments.file_bytes(), Ordering::Relaxed);
        self.note_next(&writer.segments, now, heavy);
        drop(writer);
        log.announce();
        match last {
            LastAction::Roll if !self.roll(log, now, heavy) => return LoggerStep::Stopped,
            LastAction::WakeLogger => self.wake(),
            LastAction::Roll | LastAction::Rest => {}
        }
        if by == StepBy::Logger {
            let claim = log.marks.at(self.index, Frontier::Appended);
            let hurry = !heavy && is_hurried(claim, log.waiters.wanted(), log.waiters.durable());
            // Relaxed: read by the thread that steps, in `wait`; a stale value costs one wait.
            self.hurry.store(hurry, Ordering::Relaxed);
        }
        match (mark, has_entries) {
            (Some(_), _) => LoggerStep::Synced,
            (None, true) => LoggerStep::Wrote,
            (None, false) => LoggerStep::Idle,
        }
    }

    fn others<'a>(&self, log: &'a Log) -> impl Iterator<Item = &'a Self> {
        let own = self.index;
        log.loggers.iter().filter(move |other| other.index != own)
    }

    /// Works out L1's d and takes every buffer that it would claim.
    #[expect(
        clippy::vec_box,
        reason = "the slot hands boxes over by one exchange; here they only pass through"
    )]
    fn gather(&self, log: &Log) -> (Epoch, Vec<Box<Buffer>>) {
        let before = log.marks.at(self.index, Frontier::Appended);
        let mut slots = self.slots.lock();
        let mut buffers = Vec::new();
        // Under a test's clock nobody else moves while a step waits; explored threads do.
        let is_alone = log.clock.is_manual() && !cfg!(any(loom, shuttle));
        let patience = if is_alone { 0 } else { PATIENCE };
        let claim = scan_slots(&log.epochs, &slots, &mut || self.queue.free_buffer(), patience, &mut buffers);
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
            assert!(!buffer.is_empty(), "a buffer without entries is left to its worker");
            assert!(buffer.epochs().0 > before, "an entry of an epoch that this log has claimed before (L1)");
        }
        // A stale bind can lower c_w - 1 below what was claimed; the earlier claim stays true (L1, C1).
        (claim.max(before), buffers)
    }

    /// How many blocks this log has; not while a step is under way.
    pub(super) fn blocks(&self) -> u64 {
        self.writer.lock_unless_panicked().map_or(0, |writer| writer.segments.blocks())
    }

    /// A mark of all that is claimed, at close; the last one also gives back the space that is not used. False if it
    /// could not be written: everything is durable without it, so a disk that has no space for it is no failure.
    pub(super) fn write_last_mark(&self, log: &Log, last: bool) -> bool {
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
        let claim = log.marks.at(self.index, Frontier::Appended);
        writer.segments.mark(claim, log.marks.of_all(Frontier::Synced));
        assert!(!writer.steps.is_closed(), "the last mark is written once");
        if last {
            writer.steps.close();
        }
        match writer.segments.flush(|_| {}) {
            // The first round's waits for the second's.
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

/// Stops the log for a failed call before these locks are let go: no other step may sync behind it. Wakers are woken
/// after. False: the log has stopped.
fn stop<L>(log: &Log, locks: L, error: &DiskError) -> bool {
    let end = log.end_of(error);
    let woken = log.waiters.end(end.clone());
    drop(locks);
    log.end(end);
    log.waiters.wake_all(woken);
    false
}

/// A logger that panics will never announce anything again: its waiters must not wait for ever.
fn poison_on_panic(log: &Log) -> OnPanic<impl Fn()> {
    OnPanic::new(|| {
        log.poison(PANICKED);
    })
}

/// Group commit follows the device: it is idle now, so if strict results wait for the current epoch, it closes. The
/// least spacing of epochs is kept inside `try_advance_early` (E5).
fn close_epoch_early(log: &Log) {
    if !closes_epoch(log.waiters.wanted(), log.waiters.durable(), log.epochs.now()) {
        return;
    }
    debug_assert!(log.waiters.durable() < log.epochs.now(), "D is below E");
    match log.epochs.try_advance_early(log.clock.nanos()) {
        Advance::Advanced(_) => log.counters.early_closes.add(1),
        // Between two ticks of the heartbeat: new commits are refused from here on (L6).
        Advance::AtLimit => log.look_at_end(),
        _ => {}
    }
}
