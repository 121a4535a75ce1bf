//! The state machine of checkpoints: the stage, the attempt under way, and the decision of the next action.
//!
//! Neighbours: [`super`] has the diagram of the stages; `outcomes` records the outcomes of actions.

mod outcomes;

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;

use super::action::{Action, Answers, Circumstances, OpenFigures, Rules, Terms};
use super::attempt::{Attempt, AttemptParts};
use super::history::AttemptHistory;
use super::range_schedule::{AttemptTurn, Taken};
use super::schedule::CheckpointSchedule;
use super::state::{Duty, Stage};
use super::strategy::{NextOpening, WalkEpochs};
use crate::checkpoint::config::Strategy;
use crate::checkpoint::disk_space::DiskSpace;
use crate::checkpoint::pages::PictureAttempt;
use crate::checkpoint::request::Ticket;
use crate::checkpoint::stats::CheckpointStats;
use crate::control::recovery_time::{RecoveryForecast, RecoveryOutlook};
use crate::control::trigger::Situation;
use crate::files::block::Salt;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::{DurabilityError, Health, Result};

/// Reason for refusing a checkpoint after the close.
pub(crate) const CLOSED: &str = "the database was closed";

/// Pause between two attempts to make a missing reserve.
const RESERVE_PAUSE_NANOS: u64 = 10_000_000_000;

/// Times of the next chores, in nanoseconds.
#[derive(Debug)]
struct Upkeep {
    /// Time of the next try to remove covered files; set if a reader's lease kept covered files.
    remove_again_nanos: Option<u64>,
    /// Earliest time of the next try to make a missing reserve.
    reserve_not_before: u64,
}

impl Upkeep {
    /// Chores of a database that is opened at `now_nanos`.
    fn new(now_nanos: u64) -> Self {
        Self { remove_again_nanos: None, reserve_not_before: now_nanos + RESERVE_PAUSE_NANOS }
    }

    /// True if a missing reserve is to be made now. The next try follows after the pause.
    fn begin_reserve(&mut self, now_nanos: u64) -> bool {
        let is_due = now_nanos >= self.reserve_not_before;
        if is_due {
            self.reserve_not_before = now_nanos + RESERVE_PAUSE_NANOS;
        }
        assert!(self.reserve_not_before > now_nanos, "one try in a pause");
        is_due
    }

    /// True if covered files are to be removed again now.
    fn is_removal_due(&self, now_nanos: u64) -> bool {
        self.remove_again_nanos.is_some_and(|again| now_nanos >= again)
    }
}

/// Callers of the next checkpoint.
#[derive(Debug, Default)]
struct Callers {
    /// Ticket of callers that ask for the next checkpoint.
    ticket: Option<Arc<Ticket>>,
    /// Error for a caller that asks for a checkpoint after the end.
    refusal: Option<DurabilityError>,
}

impl Callers {
    /// Returns the ticket of the next checkpoint, which earlier callers share. After the end, the answer is an error.
    fn demand(&mut self) -> (Arc<Ticket>, Answers) {
        assert!(self.ticket.is_none() || self.refusal.is_none(), "a waiting caller hears of the end");
        if let Some(why) = &self.refusal {
            let ticket = Arc::new(Ticket::default());
            let outcomes = vec![(Arc::clone(&ticket), Err(why.clone()))];
            return (ticket, Answers { outcomes, ..Answers::default() });
        }
        (Arc::clone(self.ticket.get_or_insert_default()), Answers::default())
    }

    /// True if a caller asks for the next checkpoint.
    fn are_waiting(&self) -> bool {
        self.ticket.is_some()
    }

    /// Takes the ticket of the next checkpoint, if a caller asks.
    fn take(&mut self) -> Option<Arc<Ticket>> {
        assert!(self.refusal.is_none(), "no checkpoint begins after the end");
        self.ticket.take()
    }

    /// Refuses later callers with `error`. Returns the ticket of the next checkpoint, if a caller asks.
    fn refuse(&mut self, error: DurabilityError) -> Option<Arc<Ticket>> {
        let ticket = self.take();
        self.refusal = Some(error);
        ticket
    }

    /// True if later callers are refused, because the checkpoints have ended.
    fn are_refused(&self) -> bool {
        self.refusal.is_some()
    }
}

/// Checkpoints of an open database. At most one checkpoint is under way, and at most one is installed.
#[derive(Debug)]
pub(crate) struct CheckpointStateMachine {
    terms: Terms,
    stage: Stage,
    attempt: Option<Attempt>,
    /// Attempt with published pages, until the pages are ended.
    pages: Option<PictureAttempt>,
    callers: Callers,
    next_number: u64,
    installed: Option<InstalledCheckpoint>,
    schedule: CheckpointSchedule,
    history: AttemptHistory,
    upkeep: Upkeep,
    /// True once the database closes and takes the last picture.
    is_last: bool,
}

impl CheckpointStateMachine {
    /// Creates the state machine, with the figures of the open. Every existing checkpoint's number is below `number`.
    pub(crate) fn new(
        terms: Terms,
        rules: Rules,
        installed: Option<InstalledCheckpoint>,
        number: u64,
        opened: OpenFigures,
        outlook: RecoveryOutlook,
    ) -> Self {
        assert!(installed.as_ref().is_none_or(|installed| installed.number() < number), "numbers come once");
        assert!(terms.checkpointers > 0 && terms.files > 0);
        assert!(terms.loggers > 0 || terms.strategy == Strategy::Pictures, "K1: a fuzzy one needs a log");
        assert!(terms.generation > 0, "a database that is open has a generation");
        Self {
            schedule: CheckpointSchedule::new(rules, outlook, terms.bandwidth, opened),
            terms,
            stage: Stage::Idle,
            attempt: None,
            pages: None,
            callers: Callers::default(),
            next_number: number,
            installed,
            history: AttemptHistory::new(opened.now_nanos),
            upkeep: Upkeep::new(opened.now_nanos),
            is_last: false,
        }
    }

    /// Returns the ticket of the next checkpoint: see [`Callers::demand`].
    pub(crate) fn demand(&mut self) -> (Arc<Ticket>, Answers) {
        self.callers.demand()
    }

    /// Epoch whose synced mark the checkpoint awaits in every log (K1). `None` if the checkpoint awaits no marks.
    pub(crate) fn awaited_marks(&self) -> Option<Epoch> {
        self.attempt.as_ref().filter(|_| self.stage == Stage::Walked)?.epochs.durable_min()
    }

    /// Replaces the rules: see [`CheckpointSchedule::set_rules`].
    pub(crate) fn set_rules(&mut self, rules: Rules, seen: &Circumstances) {
        self.schedule.set_rules(rules, seen);
    }

    /// Checks that a checkpoint can keep this target: loading and fixed costs alone take less.
    pub(crate) fn check_target(&self, target: Option<Duration>) -> Result<()> {
        let refusal = self.forecast(self.schedule.logged_work().bytes, target).refusal();
        refusal.map_or(Ok(()), |why| Err(DurabilityError::config(why)))
    }

    /// Measured time of applying the logged entries: see [`CheckpointSchedule::applied_nanos`].
    pub(crate) fn applied_nanos(&self) -> Option<u64> {
        self.schedule.applied_nanos()
    }

    /// Predicts a recovery after `log_bytes` of log since the open.
    fn forecast(&self, log_bytes: u64, target: Option<Duration>) -> RecoveryForecast {
        self.schedule.forecast(self.installed.as_ref(), &self.next_taken(), log_bytes, target)
    }

    /// Decides the next action of a checkpointer that has no part.
    pub(crate) fn decide(&mut self, checkpointer: usize, seen: &Circumstances) -> Action {
        assert!(checkpointer < self.terms.checkpointers, "there is no such checkpointer");
        self.schedule.observe(seen);
        match &seen.health {
            Health::Poisoned(why) => return Action::Stop(self.end(why, DurabilityError::Stopped)),
            Health::Removed(name) => return Action::Stop(self.end(name, DurabilityError::Removed)),
            Health::Closed => return Action::Stop(self.end(CLOSED, DurabilityError::Closed)),
            Health::Running | Health::Full(_) | Health::EpochsEnded(_) | Health::Forked => {}
        }
        match self.stage {
            Stage::Ended => Action::Stop(Answers::default()),
            Stage::Busy(_) => Action::Wait,
            Stage::Idle => self.decide_idle(seen),
            Stage::Opening => self.decide_opening(seen),
            Stage::Walking => self.next_part(checkpointer),
            Stage::Closing => {
                self.enter(Stage::Busy(Duty::ClosePicture));
                Action::ClosePicture
            }
            Stage::Walked => self.decide_walked(seen),
            Stage::Clearing => {
                self.enter(Stage::Busy(Duty::Clear));
                Action::Clear(self.installed.clone().expect("a checkpoint was installed before this stage"))
            }
            Stage::Failing if !self.under_way().parts.are_finished() => Action::Wait,
            Stage::Failing => {
                self.enter(Stage::Busy(Duty::CleanUp));
                Action::CleanUp { kept: self.installed_number() }
            }
        }
    }

    /// Decides while no checkpoint is under way: makes the missing reserve, repeats a removal, or asks the rules.
    fn decide_idle(&mut self, seen: &Circumstances) -> Action {
        if !seen.has_reserve && self.upkeep.begin_reserve(seen.now_nanos) {
            return Action::MakeReserve;
        }
        if self.upkeep.is_removal_due(seen.now_nanos) {
            self.enter(Stage::Busy(Duty::RemoveAgain));
            return Action::RemoveAgain(self.installed.clone().expect("it made files unneeded"));
        }
        let taken = self.next_taken();
        let turns = taken.turns();
        let since = self.schedule.log.scaled(seen, turns);
        let situation = Situation {
            is_demanded: self.callers.are_waiting(),
            is_awaited: seen.is_awaited,
            failures: self.history.failures,
            is_log_full: matches!(seen.health, Health::Full(_)),
            since_end: self.history.since_end(seen.now_nanos),
            turns,
            log_bytes: since.bytes,
            log_records: since.entries,
            load: self.schedule.load(),
            checkpoint_bytes: self.installed.as_ref().map_or(0, InstalledCheckpoint::bytes),
            recovery: self.forecast(seen.log_bytes, self.schedule.target()),
        };
        if !self.schedule.is_due(&situation) {
            return Action::Rest;
        }
        self.enter(Stage::Busy(Duty::LookForRoom));
        // No figure predicts the first picture that keeps installed pages. 0 bytes let the attempt begin.
        let first_bytes = if self.terms.goes_on { 0 } else { taken.bytes(self.installed.as_ref()) };
        Action::LookForRoom { bytes: self.history.expected_bytes(first_bytes, taken == Taken::Whole) }
    }

    /// Part of the state that an attempt takes if the attempt begins now.
    fn next_taken(&self) -> Taken {
        match self.terms.strategy {
            Strategy::Fuzzy | Strategy::Pictures => Taken::Whole,
            Strategy::Cycling => {
                Taken::next(self.installed.as_ref(), self.terms.ranges, self.callers.are_waiting())
            }
        }
    }

    /// Decides the next step before the walk.
    fn decide_opening(&mut self, seen: &Circumstances) -> Action {
        let (duty, action) = match self.under_way().epochs.next_opening(seen.epoch) {
            NextOpening::Epoch(epoch) => return self.wait_for_epoch(seen, epoch),
            NextOpening::Pages => (Duty::Publish, Action::Publish),
            NextOpening::Freeze => {
                self.attempt_mut().logged = self.schedule.logged_work();
                (Duty::Announce, Action::Announce)
            }
            NextOpening::Parts => (Duty::Cut, Action::Cut(self.under_way().turn.taken.clone())),
        };
        self.enter(Stage::Busy(duty));
        action
    }

    /// Waits until E reaches `epoch`. If no further epoch can begin (L6), the attempt is given up.
    fn wait_for_epoch(&mut self, seen: &Circumstances, epoch: Epoch) -> Action {
        // A close may use the reserved epochs.
        if let (Health::EpochsEnded(reason), false) = (&seen.health, self.is_last) {
            self.fail_without_parts(format!("no epoch ends any more: {reason}").into());
            return Action::GoOn;
        }
        if seen.epoch < epoch { Action::CloseEpoch } else { Action::Wait }
    }

    /// Hands out this checkpointer's part once. After the part the checkpointer waits for the other parts.
    fn next_part(&mut self, checkpointer: usize) -> Action {
        self.attempt_mut().part_task(checkpointer).map_or(Action::Wait, Action::WritePart)
    }

    /// Decides after the walk: installs the checkpoint once every log has the awaited marks.
    fn decide_walked(&mut self, seen: &Circumstances) -> Action {
        let loggers = self.terms.loggers;
        let attempt = self.under_way();
        if seen.has_marks {
            let installed = attempt.to_install(self.installed.as_ref(), &self.terms);
            self.enter(Stage::Busy(Duty::Install));
            return Action::Install(installed);
        }
        let Health::Full(reason) = &seen.health else {
            // A mark covers only epochs that have ended.
            let ended = attempt.durable_min().next();
            return self.wait_for_epoch(seen, ended);
        };
        // No mark is written on a full disk. An installed checkpoint frees space, so this attempt may use the reserve.
        // If the reserve is too small, the attempt's own files may fill the disk, and the attempt fails.
        match attempt.gave_up_at {
            None => {
                self.enter(Stage::Busy(Duty::GiveUpReserve));
                Action::GiveUpReserve
            }
            Some(before) if seen.full_tries <= before + loggers => Action::Wait,
            Some(_) => {
                self.fail(not_durable(reason));
                Action::GoOn
            }
        }
    }

    /// Begins an attempt that has room on the disks, and opens the walk. Returns false if the checkpoints have ended.
    pub(crate) fn begin(&mut self, disk_space: DiskSpace, salt: Salt, seen: &Circumstances) -> bool {
        if !self.is_at(Duty::LookForRoom) {
            return false;
        }
        assert!(self.attempt.is_none(), "one at a time");
        self.history.note_room();
        // The turn depends on a waiting ticket, so the turn is decided before the ticket is taken.
        let turn = AttemptTurn::new(self.next_number, salt, self.next_taken());
        self.attempt = Some(Attempt {
            turn,
            parts: AttemptParts::new(self.terms.checkpointers),
            epochs: WalkEpochs::open(self.terms.strategy, seen.epoch),
            pages: None,
            ticket: self.callers.take().unwrap_or_default(),
            disk_space: Arc::new(disk_space),
            occasion: self.schedule.occasion(),
            began_nanos: seen.now_nanos,
            logged: self.schedule.logged_work(),
            gave_up_at: None,
            is_slowed: false,
            failure: None,
        });
        self.next_number += 1;
        self.enter(Stage::Opening);
        true
    }

    /// Attempt with published pages, until the pages are ended.
    pub(crate) fn open_pages(&self) -> Option<PictureAttempt> {
        debug_assert!(self.pages.is_none() || self.terms.strategy == Strategy::Pictures);
        self.pages
    }

    /// Attempt that published pages for the picture under way, even after the pages are ended.
    pub(crate) fn published_attempt(&self) -> Option<PictureAttempt> {
        self.attempt.as_ref()?.pages
    }

    /// Returns the attempt whose pages the caller now ends (N13), once, when no checkpointer is to take more pages.
    pub(crate) fn take_pages_to_end(&mut self) -> Option<PictureAttempt> {
        if self.stage.needs_pages() { None } else { self.pages.take() }
    }

    /// True if checkpointers may go on with their parts.
    pub(crate) fn is_walking(&self) -> bool {
        self.stage == Stage::Walking
    }

    /// Ends the checkpoints, and answers every waiting caller with `error(reason)`. Files stay as they are.
    pub(crate) fn end(&mut self, reason: &str, error: fn(Arc<str>) -> DurabilityError) -> Answers {
        if self.stage == Stage::Ended {
            return Answers::default();
        }
        let reason: Arc<str> = reason.into();
        let attempt = self.attempt.take();
        let failed = u64::from(attempt.is_some());
        let waiting = self.callers.refuse(error(Arc::clone(&reason)));
        let tickets = attempt.map(|attempt| attempt.ticket).into_iter().chain(waiting);
        let outcomes = tickets.map(|ticket| (ticket, Err(error(Arc::clone(&reason))))).collect();
        self.history.note_error(reason);
        self.enter(Stage::Ended);
        Answers { outcomes, failed, put_off: None }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Installed checkpoint, and true if covered files are still to be removed.
    pub(crate) fn owes_removal(&self) -> (Option<InstalledCheckpoint>, bool) {
        assert!(self.installed.is_some() || self.upkeep.remove_again_nanos.is_none(), "nothing is covered");
        (self.installed.clone(), self.upkeep.remove_again_nanos.is_some())
    }

    /// True if commits, which logged `log_bytes` so far, have changed bytes since the installed e_l was fixed.
    pub(crate) fn has_changed(&self, log_bytes: u64) -> bool {
        self.schedule.log.has_changed(log_bytes)
    }

    /// Records that the database closes: later attempts may use the epochs reserved for a close (L6).
    pub(crate) fn begin_last(&mut self) {
        assert_eq!(self.terms.loggers, 0, "N18: a log has the last changes");
        self.is_last = true;
    }

    pub(crate) fn history(&self) -> &AttemptHistory {
        &self.history
    }

    /// Notes an error outside an attempt.
    pub(crate) fn note_error(&mut self, error: &str) {
        self.history.note_error(error.into());
    }

    /// Adds the figures of this type to `counted`.
    pub(crate) fn stats(&self, counted: CheckpointStats) -> CheckpointStats {
        let recovery = (self.terms.loggers > 0)
            .then(|| self.forecast(self.schedule.logged_work().bytes, self.schedule.target()));
        CheckpointStats {
            last_error: self.history.last_error().map(str::to_owned),
            misfit: self.history.misfit().map(str::to_owned),
            last: self.history.last().cloned(),
            running: self.attempt.as_ref().map(|attempt| attempt.ticket.progress()),
            unreachable: recovery.and_then(|recovery| recovery.refusal()),
            recovery,
            ..self.schedule.stats(counted)
        }
    }

    /// Number of the checkpoint under way. `None` if the attempt has ended.
    pub(crate) fn number_under_way(&self) -> Option<u64> {
        self.attempt.as_ref().map(|attempt| attempt.turn.number)
    }

    /// Number of the installed checkpoint; 0 if no checkpoint is installed.
    pub(crate) fn installed_number(&self) -> u64 {
        self.installed.as_ref().map_or(0, InstalledCheckpoint::number)
    }

    /// True if a checkpointer carries out `duty`. False if the checkpoints have ended meanwhile.
    fn is_at(&self, duty: Duty) -> bool {
        assert!(matches!(self.stage, Stage::Busy(_) | Stage::Ended), "one outcome: {:?}", self.stage);
        self.stage == Stage::Busy(duty)
    }

    /// Moves to the stage `next`, which the diagram permits.
    fn enter(&mut self, next: Stage) {
        assert!(self.stage.may_become(next), "{:?} does not become {next:?}", self.stage);
        self.stage = next;
        self.check();
    }

    /// Gives the attempt up. The first reason counts.
    fn fail(&mut self, reason: Arc<str>) {
        self.attempt_mut().failure.get_or_insert(reason);
        self.enter(Stage::Failing);
    }

    /// Gives the attempt up at a stage in which no checkpointer writes a part.
    fn fail_without_parts(&mut self, reason: Arc<str>) {
        self.attempt_mut().parts.abandon();
        self.fail(reason);
    }

    /// Ends the attempt, and returns to `Idle`.
    fn leave_attempt(&mut self) -> Attempt {
        let attempt = self.attempt.take().expect("one was under way");
        self.enter(Stage::Idle);
        attempt
    }

    fn under_way(&self) -> &Attempt {
        self.attempt.as_ref().expect("this stage has an attempt")
    }

    fn attempt_mut(&mut self) -> &mut Attempt {
        self.attempt.as_mut().expect("this stage has an attempt")
    }

    /// Checks the invariants between two events.
    fn check(&self) {
        assert_eq!(self.attempt.is_some(), self.stage.has_attempt(), "{:?}", self.stage);
        assert_eq!(self.callers.are_refused(), self.stage == Stage::Ended);
        assert!(self.next_number > self.installed_number(), "numbers come once");
        let Some(attempt) = &self.attempt else { return };
        assert!(attempt.turn.last_number() < self.next_number);
        match self.stage {
            Stage::Walked | Stage::Closing => {
                assert!(attempt.parts.are_finished(), "K1: no checkpointer walks when E is read");
            }
            Stage::Failing => assert!(attempt.failure.is_some(), "it says why"),
            Stage::Clearing => assert_eq!(attempt.turn.last_number(), self.installed_number()),
            _ => {}
        }
    }
}

fn not_durable(reason: &str) -> Arc<str> {
    format!("its epochs cannot become durable: {reason}").into()
}

#[cfg(all(test, not(any(loom, shuttle))))]
pub(super) mod tests;
