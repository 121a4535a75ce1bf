//! Checkpoints of an open database: the step of any checkpointer asks for the next action and carries out the action.
//!
//! Invariants:
//! - Decisions are made under the lock of `Checkpoints::machine`, without disk access, and no thread is woken under it.
//! - A step that panics ends the checkpoints, and no caller waits for the attempt. The log goes on.
//! - I4: in a forked process every call is empty.
//!
//! Neighbours: `state_machine` decides, `executor` carries out. The log has D, the store the manifest. Threads of the
//! engine and of the objects step; a close, a demand and a receipt ask.

mod construction;
mod executor;
mod last_picture;

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::limits::NICENESS_MAX;
use ensile_base::sync::{Arc, Mutex};
use ensile_disk::Disk;
use ensile_epoch::Epochs;

use super::config::{CheckpointConfig, Strategy};
use super::pages::Pages;
use super::part::PartUnderWay;
use super::picture::picture_set::PictureKeeper;
use super::request::{CheckpointHandle, Ticket};
use super::state_machine::{Answers, CLOSED, CheckpointStateMachine, Circumstances, Rules};
use super::stats::{CheckpointCounters, CheckpointStats};
use super::walk::Walk;
use crate::control::pace::CheckpointPace;
use crate::files::checkpoint::block::LargePermit;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::PartName;
use crate::identity::Identity;
use crate::log::Log;
use crate::panic_guard::OnPanic;
use crate::recoverable::EntryKind;
use crate::reentrancy::{CallBack, CallBackScope, UserCode};
use crate::store::open_store::OpenStore;
use crate::wake_up::WakeUp;
use crate::{DurabilityError, Result};

pub use construction::CheckpointStart;

const PANICKED: &str = "a checkpointer panicked, and none is made before the database is opened again";

/// Result of one checkpointer step, and the time for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointStep {
    /// No checkpoint is under way.
    Idle,
    /// The step did work: step again at once.
    Worked,
    /// The checkpoint waits for an epoch, for D, or for the remaining checkpointers.
    Waiting,
    /// Step again after this duration: the bandwidth is used up until then, or kept space is freed then.
    Paced(Duration),
    /// The database is closed, or the log has stopped: no further step does anything.
    Stopped,
}

#[derive(Debug)]
struct CheckpointerState {
    wake_up: StdArc<WakeUp>,
    part: Mutex<Option<PartUnderWay>>,
}

impl CheckpointerState {
    fn new(number: usize, log: &Log) -> Self {
        // Without a log, checkpointer 0 is woken by requests for a picture.
        let is_asked = !log.has_loggers() && number == 0;
        let wake_up = if is_asked { log.picture_wanted() } else { StdArc::new(WakeUp::new()) };
        Self { wake_up, part: Mutex::new(None) }
    }
}

/// The checkpoints of an open database, behind std's `Arc` like its log.
#[derive(Debug)]
pub struct Checkpoints {
    log: StdArc<Log>,
    store: StdArc<OpenStore>,
    epochs: Arc<Epochs>,
    clock: Clock,
    config: CheckpointConfig,
    /// Identity of the database, and the number of the open generation.
    database: Identity,
    generation: u64,
    entries: EntryKind,
    pictures: PictureKeeper,
    checkpointers: Box<[CheckpointerState]>,
    machine: Mutex<CheckpointStateMachine>,
    /// Pace of checkpoints. A caller that locks both locks `machine` before `pace`.
    pace: StdArc<Mutex<CheckpointPace>>,
    permit: LargePermit,
    counters: CheckpointCounters,
}

impl Checkpoints {
    /// Checks that the settings allow checkpoints of this state. Call `check` before the first step.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] for pictures of a state that has no pages.
    pub fn check(&self, walk: &dyn Walk) -> Result<()> {
        match self.config.strategy {
            Strategy::Fuzzy | Strategy::Cycling => Ok(()),
            Strategy::Pictures => pages_of(walk).map(drop),
        }
    }

    /// The disk that the database is on.
    #[must_use]
    pub fn disk(&self) -> &StdArc<dyn Disk> {
        self.store.disk()
    }

    /// True if a backup must begin with a checkpoint, of pictures: they are copied without later commits.
    #[must_use]
    pub fn backups_need_checkpoint(&self) -> bool {
        let keeper = self.store.manifest();
        let is_picture = keeper.manifest().checkpoint.as_ref().is_some_and(InstalledCheckpoint::is_picture);
        is_picture || self.config.strategy == Strategy::Pictures
    }

    /// Number of checkpointers: one thread for each checkpointer.
    #[must_use]
    pub fn checkpointers(&self) -> usize {
        self.checkpointers.len()
    }

    /// Lowers the priority of the calling thread by [`CheckpointConfig::niceness`]: each checkpointer's thread calls
    /// once, as it begins. [`CheckpointStats::niceness_refused`] reports a refusal of the system.
    pub fn give_way(&self) {
        assert!(self.config.niceness <= NICENESS_MAX, "settings were checked as checkpoints were started");
        self.counters.note_niceness(ensile_disk::lower_priority(self.config.niceness));
    }

    /// Asks for a checkpoint that begins after the call, for an application or for the last picture of a close. A
    /// cycling one takes all ranges at once.
    #[must_use]
    pub fn demand(&self) -> CheckpointHandle {
        self.demand_paced(None)
    }

    /// Returns a handle with the answer [`DurabilityError::InCallBack`], for a demand in a call-back (O8).
    #[must_use]
    pub fn refuse_demand(&self) -> CheckpointHandle {
        debug_assert!(UserCode::is_running(), "another demand is served");
        let ticket = StdArc::<Ticket>::default();
        ticket.answer(Err(DurabilityError::InCallBack));
        CheckpointHandle::new(ticket, self.store.process.clone(), self.log.address())
    }

    /// As [`demand`](Self::demand), with at most `bytes_per_second`, not 0, and [`CheckpointConfig::bandwidth`].
    ///
    /// If several callers ask for the same checkpoint, or wait for the checkpoint under way, the largest rate counts. A
    /// rate counts only while its handle exists: a checkpoint keeps later checkpoints from beginning.
    ///
    /// The rate stops counting once half of the space that was free at the checkpoint's start is gone, or the log waits
    /// for space: the checkpoint frees space. Without a log no rate counts, because results wait for checkpoints.
    #[must_use]
    pub fn demand_paced(&self, bytes_per_second: Option<u64>) -> CheckpointHandle {
        assert_ne!(bytes_per_second, Some(0), "it would never end");
        let process = self.store.process.clone();
        if self.store.is_forked() {
            // A ticket without an answer: the handle reports that the process was forked.
            return CheckpointHandle::new(StdArc::default(), process, self.log.address());
        }
        let rate = bytes_per_second.filter(|_| self.log.has_loggers());
        let (caller, (ticket, answers)) = {
            let mut machine = self.machine.lock();
            (self.pace.lock().ask(rate), machine.demand())
        };
        // The handle comes first: if a later call panics, the drop of the handle withdraws the caller's rate.
        let handle = CheckpointHandle::new(ticket, process, self.log.address());
        let handle = match caller {
            Some(number) => handle.with_paced_caller(number, &self.pace),
            None => handle,
        };
        self.send(answers);
        self.wake_all();
        handle
    }

    /// Schedules later checkpoints by these settings. The remaining settings stay as at the open.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] for settings that cannot work, such as a recovery time below the time of loading.
    pub fn reschedule(&self, config: &CheckpointConfig) -> Result<()> {
        config.check()?;
        if self.store.is_forked() {
            return Ok(());
        }
        {
            let mut machine = self.machine.lock();
            let seen = self.see(&machine);
            if self.log.has_loggers() {
                machine.check_target(config.recovery_time)?;
            }
            machine.set_rules(rules_of(config, !self.log.has_loggers()), &seen);
        }
        self.wake_all();
        Ok(())
    }

    /// Reports the numbers of requests that the application has served, and lost for want of capacity, since the last
    /// report. From then on the requests are the load, and the lost requests show the capacity (SLACH §4, §6.1).
    pub fn report_requests(&self, served: u64, lost: u64) {
        self.counters.served.add(served);
        self.counters.lost.add(lost);
    }

    fn wake_all(&self) {
        self.checkpointers.iter().for_each(|checkpointer| checkpointer.wake_up.wake());
    }

    /// Sends answers to callers. Call `send` without the lock, because callers wake up.
    fn send(&self, answers: Answers) {
        self.counters.failed.add(answers.failed);
        if let Some(reason) = &answers.put_off {
            self.log.picture_failed(reason);
        }
        answers.send();
    }

    /// Waits for a reason to step, or for `timeout`. The checkpointer's thread calls `wait` after a step without work.
    pub fn wait(&self, checkpointer: usize, timeout: Duration) {
        if !self.store.is_forked() {
            self.checkpointers[checkpointer].wake_up.wait(timeout);
        }
    }

    /// True if a checkpointer has panicked. The log goes on, and the caller then renews the log's reserved epochs (L6).
    #[must_use]
    pub fn has_panicked(&self) -> bool {
        self.machine.lock().history().last_error() == Some(PANICKED)
    }

    /// Reason of the last failure, if three or more attempts in a row have failed.
    #[must_use]
    pub fn repeated_failure(&self) -> Option<String> {
        if self.store.is_forked() {
            return None;
        }
        self.machine.lock().history().repeated_failure()
    }

    /// Reason for putting off the next checkpoint, if the disk has no room for the checkpoint.
    #[must_use]
    pub fn misfit(&self) -> Option<String> {
        if self.store.is_forked() {
            return None;
        }
        self.machine.lock().history().misfit().map(str::to_owned)
    }

    /// Statistics of the checkpoints; in a forked child only the counters.
    #[must_use]
    pub fn stats(&self) -> CheckpointStats {
        if self.store.is_forked() {
            return self.counters.read();
        }
        let (page_file_bytes, page_file_bytes_free) = self.pictures.figures();
        let counted = CheckpointStats { page_file_bytes, page_file_bytes_free, ..self.counters.read() };
        self.machine.lock().stats(counted)
    }

    /// Performs one iteration of a checkpointer: a block of the part, or the next action. Called repeatedly.
    pub fn step(&self, checkpointer: usize, walk: &dyn Walk) -> CheckpointStep {
        if self.store.is_forked() {
            return CheckpointStep::Stopped;
        }
        // A checkpointer that panics leaves the attempt unfinished for good, so no caller must wait for the attempt.
        // The log goes on. Without loggers no result becomes durable any more, and the poisoned log reports the panic.
        let _guard = OnPanic::new(|| {
            let answers = self.machine.lock().end(PANICKED, DurabilityError::CheckpointFailed);
            self.send(answers);
            if !self.log.has_loggers() {
                self.log.poison(PANICKED);
            }
            self.end_pages(walk);
        });
        assert!(checkpointer < self.checkpointers.len(), "there is no such checkpointer");
        let _in_step = CallBackScope::begin(CallBack::CheckpointStep, self.log.address());
        let mut part = self.checkpointers[checkpointer].part.lock();
        if checkpointer == 0 {
            // Checkpointer 0 renews the epochs, as no thread waits for it. A walk may outlast the reserved epochs.
            self.log.reserved_epochs_step();
            // The archive step runs beside a walk too, because a walk may take longer than the log can wait.
            self.log.archive_step();
        }
        let space = (checkpointer == 0)
            .then(|| self.store.returned_space().step(&**self.store.disk(), self.clock.nanos()))
            .flatten();
        let step = if part.is_some() {
            self.step_part(checkpointer, &mut part, walk)
        } else {
            let (action, seen) = {
                // `seen` belongs to the stage that the decision reads, so the lock covers `see` and `decide`.
                let mut machine = self.machine.lock();
                let (log_bytes, applied_nanos) = (self.log_bytes(walk), walk.applied_nanos());
                let seen = Circumstances { log_bytes, applied_nanos, ..self.see(&machine) };
                (machine.decide(checkpointer, &seen), seen)
            };
            self.carry_out(checkpointer, action, &seen, &mut part, walk)
        };
        self.end_pages(walk);
        match (step, space) {
            // The next piece of space is due before the next trigger.
            (CheckpointStep::Idle, Some(wait)) => CheckpointStep::Paced(wait),
            (step, _) => step,
        }
    }

    /// Ends a picture's pages, if no checkpointer is to take more pages (N13).
    fn end_pages(&self, walk: &dyn Walk) {
        if self.config.strategy != Strategy::Pictures {
            return;
        }
        let attempt = self.machine.lock().take_pages_to_end();
        if let (Some(attempt), Some(pages)) = (attempt, walk.pages()) {
            // The next attempt may have begun meanwhile: the call ends only `attempt`.
            pages.end_pages(attempt);
        }
    }

    /// Collects the inputs of a decision, and asks the loggers for awaited marks. `step` adds the state's figures.
    fn see(&self, machine: &CheckpointStateMachine) -> Circumstances {
        let has_marks = machine.awaited_marks().is_some_and(|epoch| self.log.request_marks(epoch));
        Circumstances {
            now_nanos: self.clock.nanos(),
            epoch: self.epochs.now(),
            health: self.log.health(),
            log_bytes: self.log.bytes_written(),
            log_records: self.log.counters.entries.read(),
            applied_nanos: machine.applied_nanos(),
            served: self.counters.served.read(),
            lost: self.counters.lost.read(),
            is_awaited: self.log.awaits_picture(),
            has_reserve: self.store.reserve().is_kept(),
            has_marks,
            full_tries: self.log.full_tries(),
        }
    }

    /// Bytes of log written since the open; without a log, bytes that commits have changed.
    fn log_bytes(&self, walk: &dyn Walk) -> u64 {
        if self.log.has_loggers() { self.log.bytes_written() } else { walk.changed_bytes() }
    }

    /// Ends the attempt under way, if any, and removes the attempt's files. Later steps return
    /// [`CheckpointStep::Stopped`]. Call `close` before the log is closed, because the log's close unlocks the folder.
    pub fn close(&self, walk: &dyn Walk) {
        if self.store.is_forked() {
            return;
        }
        let (was_open, answers) = {
            let mut machine = self.machine.lock();
            (!machine.has_ended(), machine.end(CLOSED, DurabilityError::Closed))
        };
        self.send(answers);
        self.wake_all();
        for checkpointer in &self.checkpointers {
            // Waits for a step under way, also where the log's failure ended the checkpoints: the step may replace the
            // manifest, or remove files, and the folder may soon belong to another process.
            *checkpointer.part.lock() = None;
        }
        self.end_pages(walk);
        if was_open && !self.log.health().has_ended() {
            let (installed, owes_removal) = self.machine.lock().owes_removal();
            let kept = installed.as_ref().map_or(0, InstalledCheckpoint::number);
            self.abandon_picture();
            self.remove_leftovers(|part: PartName| part.checkpoint > kept);
            if let Some(installed) = installed.filter(|_| owes_removal) {
                // A second try. If a reader still holds a lease, the next open removes the files.
                self.remove_covered(&installed);
            }
        }
    }
}

/// Returns the rules that begin checkpoints. Without a log there is no target for the recovery time.
fn rules_of(config: &CheckpointConfig, is_without_log: bool) -> Rules {
    let recovery_time = config.recovery_time.filter(|_| !is_without_log);
    Rules { policy: config.policy(is_without_log), adaptive: config.adaptive, recovery_time }
}

/// The state as [`Pages`], if pictures of the state can be taken.
fn pages_of(walk: &dyn Walk) -> Result<&dyn Pages> {
    let why = "no pictures can be taken of this state: it has no pages, so its checkpoints must be fuzzy";
    walk.pages().ok_or_else(|| DurabilityError::config(why))
}
