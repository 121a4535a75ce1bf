//! Decisions in the life of a checkpoint, without effects: circumstances and outcomes of actions lead to an action.
//!
//! ```text
//!          due, and there is room: e_l = E          E >= e_l + 1: slices         all parts synced: e_h = E
//! Idle ------------------------------------> Opening ----------------> Walking ----------------------------> Walked
//!   ^                                           |                         | a part failed        marks of e_h: |
//!   |                                           v                         v                      manifest      v
//!   +---- the attempt's files are removed --- Failing <-------------------+-------- not replaced ----------- (busy)
//!   +---- covered files are removed --------- Clearing <------------------------------ replaced --------------+
//! ```
//! A picture opens in three steps: pages are published, the freeze S is announced, pages are dealt out. After the first
//! two steps, the stage is `Opening` again. The e_l of a picture is S, and the e_h is e_c = S - 1. Between `Walking`
//! and `Walked` the stage is `Closing`: the directory and the root of the picture are written.
//!
//! A turn of a cycling checkpoint has the same stages, and takes one range or all ranges: `range_schedule` decides.
//!
//! While a checkpointer carries out a `Duty`, the stage is `Busy` and the other checkpointers wait. A close, a poisoned
//! log, a removed file, an unknown manifest or a panic leads from any stage to `Ended`. After `Ended`, the attempt
//! under way changes nothing more, except that a manifest already replaced still names its checkpoint.
//!
//! Invariants:
//! - K1: `strategy` decides when the walk begins, and which marks are demanded after the walk of the last checkpointer.
//!   The manifest names the checkpoint once these marks are synced in every log.
//! - A file is removed only after the manifest that makes the file superfluous is durable.
//! - A checkpoint waits for no natural end of an epoch. Like strict waiters, a checkpoint closes epochs early (E5 keeps
//!   the least spacing).
//! - A failed attempt is cleaned up once no checkpointer writes, and changes nothing else: the log goes on.
//! - N13: each attempt ends its published pages once, when no checkpointer is to take more pages.
//!
//! Neighbours: `state` has the transitions, `action` the inputs and outputs, `strategy` the differences between kinds
//! of checkpoints. `manager` carries out the actions and reports their outcomes. `control` decides when a checkpoint is
//! due.

mod action;
mod range_schedule;
mod state;
mod strategy;

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;

use super::config::Strategy;
use super::disk_space::Room;
use super::files::writer::PartWritten;
use super::pages::{PictureAttempt, PublishedPages};
use super::picture::picture_set::ClosedPicture;
use super::request::{CheckpointReport, Ticket};
use super::stats::CheckpointStats;
use super::walk::Slice;
use crate::block::Salt;
use crate::control::adaptive::{AdaptiveThreshold, ThresholdMeasure, ThresholdReading};
use crate::control::load::{LoadAverage, LoadCounts};
use crate::control::recovery_time::{DataAmount, LogWork, RecoveryForecast, RecoveryOutlook};
use crate::control::trigger::{CheckpointReason, CheckpointVerdict, Policy, Situation};
use crate::identity::Identity;
use crate::range::RangeStart;
use crate::store::installed_checkpoint::InstalledCheckpoint;
use crate::{DurabilityError, Health};
pub(super) use action::{Action, Answers, Circumstances, CutParts, NotInstalled, PartTask};
pub(super) use range_schedule::Taken;
use range_schedule::TurnBytes;
use state::{Duty, Stage};
use strategy::{NextOpening, WalkEpochs};

/// Pause between two attempts to make a missing reserve.
const RESERVE_PAUSE_NANOS: u64 = 10_000_000_000;
/// Period, in failures in a row, of an attempt that ignores the expected size.
const TRIED_EVERY: u32 = 8;
/// Number of failures in a row from which a database's health reports the failures.
const FAILURES_TOLD: u32 = 3;
/// Reason for refusing a checkpoint after the close.
pub(super) const CLOSED: &str = "the database was closed";

/// A checkpoint under way.
#[derive(Debug)]
struct Attempt {
    /// Number of the first set of files. Further sets have the next numbers.
    number: u64,
    sets: u64,
    taken: Taken,
    /// First keys of all ranges, set by the cut.
    starts: Vec<RangeStart>,
    epochs: WalkEpochs,
    /// Attempt of the published pages; `None` before the publication, and for other kinds.
    pages: Option<PictureAttempt>,
    salt: Salt,
    ticket: Arc<Ticket>,
    reason: CheckpointReason,
    /// Forecast of recovery and reading of the adaptive threshold at the decision to begin.
    recovery: RecoveryForecast,
    adaptive: Option<ThresholdReading>,
    began_nanos: u64,
    /// Logged work at the opening of the walk; for a picture, at the announcement of the freeze.
    logged: LogWork,
    room: Arc<Room>,
    /// Number of loggers' attempts to write to a full disk, when the reserve was given up for this attempt; `None` if
    /// the reserve was not given up.
    gave_up_at: Option<u64>,
    /// True if a caller wants a lower rate than the settings.
    is_slowed: bool,
    /// Parts not yet begun, by checkpointer.
    parts: Vec<Option<Vec<Vec<Slice>>>>,
    /// Written parts, by checkpointer and set of files.
    written: Vec<Vec<PartWritten>>,
    /// Closed picture, set once the root is written.
    closed: Option<ClosedPicture>,
    /// Number of checkpointers with a part not begun or not ended.
    unfinished: usize,
    failure: Option<Arc<str>>,
}

impl Attempt {
    /// Epoch whose mark every log must have before the install. The walk has ended.
    fn durable_min(&self) -> Epoch {
        self.epochs.durable_min().expect("the walk has ended")
    }

    /// Number of the last set of files.
    fn last_number(&self) -> u64 {
        self.number + self.sets - 1
    }
}

/// Settings that begin checkpoints. An application may change the rules of an open database.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) policy: Box<dyn Policy>,
    /// Settings of the adaptive threshold, if the policy uses the load.
    pub(super) adaptive: Option<AdaptiveThreshold>,
    /// Target for the recovery time.
    pub(super) recovery_time: Option<Duration>,
}

/// Settings that are fixed while the database is open.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) strategy: Strategy,
    /// Wanted number of ranges of a cycling checkpoint.
    pub(super) ranges: u32,
    /// Largest write rate of checkpoints, in bytes a second.
    pub(super) bandwidth: Option<u64>,
    pub(super) checkpointers: usize,
    /// Number of files of each checkpointer.
    pub(super) files: u32,
    /// Number of loggers; 0 without a log.
    pub(super) loggers: u64,
    /// Database of the checkpoints.
    pub(super) database: Identity,
    /// Number of the open generation.
    pub(super) generation: u64,
    /// True if the first picture keeps pages of the installed picture.
    pub(super) goes_on: bool,
}

/// Figures of the database's open.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFigures {
    /// Time of the open, in nanoseconds.
    pub(super) now_nanos: u64,
    /// Bytes of log that the open has replayed.
    pub(super) replayed_bytes: u64,
}

/// Checkpoints of an open database. At most one checkpoint is under way, and at most one is installed.
#[derive(Debug)]
pub(super) struct Life {
    terms: Terms,
    rules: Rules,
    load: LoadAverage,
    outlook: RecoveryOutlook,
    /// Last verdict, with the forecast of recovery and the reading of the adaptive threshold at the time.
    verdict: CheckpointVerdict,
    recovery: RecoveryForecast,
    adaptive: Option<ThresholdReading>,
    /// Reason of the attempt about to begin.
    due: CheckpointReason,
    stage: Stage,
    attempt: Option<Attempt>,
    /// Attempt with published pages, until the pages are ended.
    pages: Option<PictureAttempt>,
    /// Ticket of callers that ask for the next checkpoint.
    demand: Option<Arc<Ticket>>,
    next_number: u64,
    installed: Option<InstalledCheckpoint>,
    /// Time of the end of the last attempt, or of the last lack of room.
    ended_nanos: u64,
    /// Number of attempts that failed or found no room since the last cleared checkpoint.
    failures: u32,
    /// Most bytes that a failed attempt wrote since the last cleared checkpoint: the next one needs as many.
    needed_bytes: u64,
    /// Reason for putting off the next checkpoint.
    misfit: Option<Arc<str>>,
    /// Time of the next try to remove covered files, in nanoseconds; set if a reader's lease kept covered files.
    remove_again_nanos: Option<u64>,
    /// Earliest time of the next try to make a missing reserve, in nanoseconds.
    reserve_not_before: u64,
    /// Bytes logged since the open when the e_l of the installed checkpoint was fixed; 0 before the first install.
    log_bytes_base: u64,
    /// Bytes of log replayed at the open; 0 after the first install.
    log_bytes_before: u64,
    /// Entries logged since the open when the e_l of the installed checkpoint was fixed.
    log_records_base: u64,
    /// Bytes of log replayed at the open, which ranges of an earlier process need until a turn replaces them.
    replayed_bytes: u64,
    turn_bytes: TurnBytes,
    last: Option<CheckpointReport>,
    /// Duration of the last checkpoint at the full rate of the settings, and the bytes written.
    last_took: Option<(Duration, u64)>,
    /// True once the database closes and takes the last picture.
    is_last: bool,
    last_error: Option<Arc<str>>,
    /// Error for a caller that asks for a checkpoint after the end.
    ended: Option<DurabilityError>,
}

impl Life {
    /// Creates the life of a database with these figures of its open. Every existing checkpoint has a smaller number
    /// than `number`. `outlook` predicts recoveries.
    pub(super) fn new(
        terms: Terms,
        rules: Rules,
        installed: Option<InstalledCheckpoint>,
        number: u64,
        OpenFigures { now_nanos, replayed_bytes }: OpenFigures,
        outlook: RecoveryOutlook,
    ) -> Self {
        assert!(installed.as_ref().is_none_or(|installed| installed.number() < number), "numbers come once");
        assert!(terms.checkpointers > 0 && terms.files > 0);
        assert!(terms.loggers > 0 || terms.strategy == Strategy::Pictures, "K1: a fuzzy one needs a log");
        assert!(terms.generation > 0, "a database that is open has a generation");
        Self {
            terms,
            rules,
            load: LoadAverage::new(now_nanos, LoadCounts::default()),
            outlook,
            verdict: CheckpointVerdict::default(),
            recovery: RecoveryForecast::default(),
            adaptive: None,
            due: CheckpointReason::Demand,
            stage: Stage::Idle,
            attempt: None,
            pages: None,
            demand: None,
            next_number: number,
            installed,
            ended_nanos: now_nanos,
            failures: 0,
            needed_bytes: 0,
            misfit: None,
            remove_again_nanos: None,
            reserve_not_before: now_nanos + RESERVE_PAUSE_NANOS,
            log_bytes_base: 0,
            log_bytes_before: replayed_bytes,
            log_records_base: 0,
            replayed_bytes,
            turn_bytes: TurnBytes::default(),
            last: None,
            last_took: None,
            is_last: false,
            last_error: None,
            ended: None,
        }
    }

    /// Returns the ticket of the next checkpoint. Callers that ask before the checkpoint begins share the ticket. After
    /// the end, the answer is an error.
    pub(super) fn demand(&mut self) -> (Arc<Ticket>, Answers) {
        if let Some(why) = &self.ended {
            let ticket = Arc::new(Ticket::default());
            let outcomes = vec![(Arc::clone(&ticket), Err(why.clone()))];
            return (ticket, Answers { outcomes, ..Answers::default() });
        }
        (Arc::clone(self.demand.get_or_insert_default()), Answers::default())
    }

    /// Epoch whose synced mark the checkpoint awaits in every log (K1). `None` if the checkpoint awaits no marks.
    pub(super) fn awaited_marks(&self) -> Option<Epoch> {
        self.attempt.as_ref().filter(|_| self.stage == Stage::Walked)?.epochs.durable_min()
    }

    /// Replaces the rules, and starts a new estimate of the load.
    pub(super) fn set_rules(&mut self, rules: Rules, seen: &Circumstances) {
        self.rules = rules;
        self.load = LoadAverage::new(seen.now_nanos, seen.load_counts());
    }

    /// Checks that a checkpoint can keep this target for the recovery time.
    ///
    /// # Errors
    /// [`DurabilityError::Config`]: the load and the fixed costs of a recovery alone take at least as long as the
    /// target.
    pub(super) fn check_target(&self, target: Option<Duration>) -> Result<(), DurabilityError> {
        let refusal = self.forecast(self.outlook.logged_work().bytes, target).refusal();
        refusal.map_or(Ok(()), |why| Err(DurabilityError::config(why)))
    }

    /// Last measured time of applying all entries logged since the open, in nanoseconds; `None` if not measured.
    pub(super) fn applied_nanos(&self) -> Option<u64> {
        self.outlook.applied_nanos()
    }

    /// Predicts a recovery after `log_bytes` of log since the open.
    fn forecast(&self, log_bytes: u64, target: Option<Duration>) -> RecoveryForecast {
        let amount = |of: &InstalledCheckpoint| DataAmount { bytes: of.bytes(), entries: of.entries() };
        let installed = self.installed.as_ref().map(amount).unwrap_or_default();
        let replayed = self.replayed_bytes(log_bytes);
        // The size of a first checkpoint is unknown, and at most the size of the log.
        let written =
            if installed.bytes > 0 { self.next_taken().bytes(self.installed.as_ref()) } else { replayed };
        let expected = RecoveryOutlook::expected_duration(written, self.last_took, self.terms.bandwidth);
        self.outlook.forecast(installed, replayed, expected, target)
    }

    /// Decides the next action of a checkpointer that has no part.
    pub(super) fn decide(&mut self, checkpointer: usize, seen: &Circumstances) -> Action {
        if let Some(adaptive) = &self.rules.adaptive {
            self.load.observe(seen.now_nanos, seen.load_counts(), adaptive);
        }
        let logged = DataAmount { bytes: seen.log_bytes, entries: seen.log_records };
        self.outlook.observe(seen.now_nanos, logged, seen.applied_nanos);
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
            Stage::Failing if self.under_way().unfinished > 0 => Action::Wait,
            Stage::Failing => {
                self.enter(Stage::Busy(Duty::CleanUp));
                Action::CleanUp { kept: self.installed_number() }
            }
        }
    }

    /// Decides while no checkpoint is under way: makes the missing reserve, repeats a removal, or asks the policy.
    fn decide_idle(&mut self, seen: &Circumstances) -> Action {
        if !seen.has_reserve && seen.now_nanos >= self.reserve_not_before {
            self.reserve_not_before = seen.now_nanos + RESERVE_PAUSE_NANOS;
            return Action::MakeReserve;
        }
        if self.remove_again_nanos.is_some_and(|again| seen.now_nanos >= again) {
            self.enter(Stage::Busy(Duty::RemoveAgain));
            return Action::RemoveAgain(self.installed.clone().expect("it made files unneeded"));
        }
        let installed_bytes = self.installed.as_ref().map_or(0, InstalledCheckpoint::bytes);
        let taken = self.next_taken();
        let turns = taken.turns();
        let since_base = seen.log_bytes - self.log_bytes_base;
        let log_bytes = since_base.saturating_mul(u64::from(turns)).saturating_add(self.log_bytes_before);
        let log_records = (seen.log_records - self.log_records_base).saturating_mul(u64::from(turns));
        let situation = Situation {
            is_demanded: self.demand.is_some(),
            is_awaited: seen.is_awaited,
            failures: self.failures,
            is_log_full: matches!(seen.health, Health::Full(_)),
            since_end: Duration::from_nanos(seen.now_nanos.saturating_sub(self.ended_nanos)),
            turns,
            log_bytes,
            log_records,
            load: self.load.load(),
            checkpoint_bytes: installed_bytes,
            recovery: self.forecast(seen.log_bytes, self.rules.recovery_time),
        };
        self.verdict = self.rules.policy.verdict(&situation);
        self.recovery = situation.recovery;
        self.adaptive =
            self.rules.adaptive.map(|terms| situation.threshold_reading(&terms, self.load.capacity(&terms)));
        let CheckpointVerdict::Begins(reason) = self.verdict else { return Action::Rest };
        self.due = reason;
        self.enter(Stage::Busy(Duty::LookForRoom));
        // Deleted rows may have made the next checkpoint smaller, so a checkpoint is tried now and then. An attempt
        // without room gives up in time.
        let is_tried = self.failures % TRIED_EVERY == TRIED_EVERY - 1;
        // A picture writes only changed pages, so the last checkpoint predicts the size of the next. The first picture
        // that keeps installed pages has no prediction, and is tried.
        let written = self.last.as_ref().filter(|_| taken == Taken::Whole).map(|last| last.bytes_written);
        let first_bytes = if self.terms.goes_on { 0 } else { taken.bytes(self.installed.as_ref()) };
        let expected = written.unwrap_or(first_bytes);
        Action::LookForRoom { bytes: if is_tried { 0 } else { self.needed_bytes.max(expected) } }
    }

    /// Part of the state that an attempt takes if the attempt begins now.
    fn next_taken(&self) -> Taken {
        match self.terms.strategy {
            Strategy::Fuzzy | Strategy::Pictures => Taken::Whole,
            Strategy::Cycling => {
                Taken::next(self.installed.as_ref(), self.terms.ranges, self.demand.is_some())
            }
        }
    }

    /// Bytes of log that a recovery would replay now. Without a log: changed bytes.
    fn replayed_bytes(&self, log_bytes: u64) -> u64 {
        match &self.installed {
            // Replay begins at the least e_l (K5).
            Some(installed @ InstalledCheckpoint::Cycling(_)) => match self.turn_bytes.least(installed) {
                Some(began) => log_bytes - began,
                None => log_bytes + self.replayed_bytes,
            },
            _ => log_bytes - self.log_bytes_base + self.log_bytes_before,
        }
    }

    /// Decides the next step before the walk.
    fn decide_opening(&mut self, seen: &Circumstances) -> Action {
        let (duty, action) = match self.under_way().epochs.next_opening(seen.epoch) {
            NextOpening::Epoch(epoch) => return self.wait_for_epoch(seen, epoch),
            NextOpening::Pages => (Duty::Publish, Action::Publish),
            NextOpening::Freeze => {
                self.attempt_mut().logged = self.outlook.logged_work();
                (Duty::Announce, Action::Announce)
            }
            NextOpening::Parts => (Duty::Cut, Action::Cut(self.under_way().taken.clone())),
        };
        self.enter(Stage::Busy(duty));
        action
    }

    /// Waits until E reaches `epoch`. If no further epoch can begin (L6), the attempt is given up.
    fn wait_for_epoch(&mut self, seen: &Circumstances, epoch: Epoch) -> Action {
        // A close may use the reserved epochs.
        if let (Health::EpochsEnded(reason), false) = (&seen.health, self.is_last) {
            // No checkpointer writes a part at this stage.
            self.attempt_mut().unfinished = 0;
            self.fail(format!("no epoch ends any more: {reason}").into());
            return Action::GoOn;
        }
        if seen.epoch < epoch { Action::CloseEpoch } else { Action::Wait }
    }

    /// Hands out this checkpointer's part once. After the part the checkpointer waits for the other parts.
    fn next_part(&mut self, checkpointer: usize) -> Action {
        let attempt = self.attempt_mut();
        let Some(slices) = attempt.parts[checkpointer].take() else { return Action::Wait };
        let (number, low, salt) = (attempt.number, attempt.epochs.low(), attempt.salt);
        let (ticket, room) = (Arc::clone(&attempt.ticket), Arc::clone(&attempt.room));
        let pages = self.pages;
        Action::WritePart(PartTask { number, low, pages, salt, slices, ticket, room })
    }

    /// Decides after the walk: installs the checkpoint once every log has the awaited marks.
    fn decide_walked(&mut self, seen: &Circumstances) -> Action {
        let loggers = self.terms.loggers;
        let attempt = self.under_way();
        if seen.has_marks {
            let installed = self.to_install(attempt);
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

    /// Returns the entry of the manifest for an attempt whose parts are all written.
    fn to_install(&self, attempt: &Attempt) -> InstalledCheckpoint {
        assert_eq!(attempt.unfinished, 0, "K1: every part is written");
        let Attempt { number, sets, epochs, salt, taken, starts, written, closed, .. } = attempt;
        if epochs.is_closed_apart() {
            return InstalledCheckpoint::Picture(epochs.picture(*number, closed.as_ref(), &self.terms));
        }
        let walked = |at: u64| {
            let written: Vec<_> = written.iter().map(|part| &part[at as usize]).collect();
            epochs.fuzzy_checkpoint(number + at, *salt, &written, &self.terms)
        };
        if *taken == Taken::Whole {
            return InstalledCheckpoint::Fuzzy(walked(0));
        }
        let walked = (0..*sets).map(walked).collect();
        InstalledCheckpoint::Cycling(range_schedule::after_turn(
            self.installed.as_ref(),
            taken,
            starts,
            walked,
        ))
    }

    /// Begins an attempt that has room on the disks, and opens the walk. Returns false if the checkpoints have ended.
    pub(super) fn begin(&mut self, room: Room, salt: Salt, seen: &Circumstances) -> bool {
        if !self.is_at(Duty::LookForRoom) {
            return false;
        }
        assert!(self.attempt.is_none(), "one at a time");
        self.misfit = None;
        let checkpointers = self.terms.checkpointers;
        self.attempt = Some(Attempt {
            number: self.next_number,
            sets: 1,
            taken: self.next_taken(),
            starts: Vec::new(),
            epochs: WalkEpochs::open(self.terms.strategy, seen.epoch),
            pages: None,
            salt,
            ticket: self.demand.take().unwrap_or_default(),
            reason: self.due,
            recovery: self.recovery,
            adaptive: self.adaptive,
            began_nanos: seen.now_nanos,
            logged: self.outlook.logged_work(),
            room: Arc::new(room),
            gave_up_at: None,
            is_slowed: false,
            parts: Vec::new(),
            written: vec![Vec::new(); checkpointers],
            closed: None,
            unfinished: checkpointers,
            failure: None,
        });
        self.next_number += 1;
        self.enter(Stage::Opening);
        true
    }

    /// Notes a lower rate than in the settings. The duration of this attempt then predicts no other checkpoint.
    pub(super) fn note_slowed(&mut self) {
        self.attempt_mut().is_slowed = true;
    }

    /// Puts the checkpoint off, because the disks have no room. A caller that asked gets an error; otherwise the room
    /// is checked again later.
    pub(super) fn put_off(&mut self, why: String, now_nanos: u64) -> Answers {
        let mut answers = Answers::default();
        if !self.is_at(Duty::LookForRoom) {
            return answers;
        }
        let why: Arc<str> = why.into();
        answers.put_off = Some(Arc::clone(&why));
        (self.ended_nanos, self.failures) = (now_nanos, self.failures.saturating_add(1));
        self.misfit = Some(Arc::clone(&why));
        if let Some(ticket) = self.demand.take() {
            self.last_error = Some(Arc::clone(&why));
            answers.failed = 1;
            answers.outcomes.push((ticket, Err(DurabilityError::CheckpointFailed(why))));
        }
        self.enter(Stage::Idle);
        answers
    }

    /// Records that the pages are published, and E as read afterwards. False if the checkpoints have ended.
    pub(super) fn record_publication(&mut self, pages: PublishedPages) -> bool {
        let before = self.pages.replace(pages.attempt);
        assert_eq!(before, None, "N13: each attempt has its own pages");
        if !self.is_at(Duty::Publish) {
            return false;
        }
        let attempt = self.attempt_mut();
        attempt.epochs.record_publication(pages.epoch);
        attempt.pages = Some(pages.attempt);
        self.enter(Stage::Opening);
        true
    }

    /// Fails the attempt: the state has no pages to publish.
    pub(super) fn cannot_publish(&mut self, reason: &str) {
        assert_eq!(self.pages, None, "there is nothing to end");
        if self.is_at(Duty::Publish) {
            // No checkpointer writes a part at this stage.
            self.attempt_mut().unfinished = 0;
            self.fail(reason.into());
        }
    }

    /// Records that the freeze is announced. False if the checkpoints have ended.
    pub(super) fn record_freeze(&mut self, freeze: Epoch) -> bool {
        if !self.is_at(Duty::Announce) {
            return false;
        }
        assert!(self.pages.is_some(), "N1: commits find pages to leave versions to");
        self.attempt_mut().epochs.record_freeze(freeze);
        self.enter(Stage::Opening);
        true
    }

    /// Attempt with published pages, until the pages are ended.
    pub(super) fn pages(&self) -> Option<PictureAttempt> {
        debug_assert!(self.pages.is_none() || self.terms.strategy == Strategy::Pictures);
        self.pages
    }

    /// Attempt that published pages for the picture under way, even after the pages are ended.
    pub(super) fn picture(&self) -> Option<PictureAttempt> {
        self.attempt.as_ref()?.pages
    }

    /// Returns the attempt with published pages, once, when no checkpointer is to take more pages. The caller then ends
    /// the pages (N13).
    pub(super) fn gives_up_pages(&mut self) -> Option<PictureAttempt> {
        if self.stage.needs_pages() { None } else { self.pages.take() }
    }

    /// Fails the attempt: the pages ended before they were dealt out.
    pub(super) fn pages_have_ended(&mut self, reason: &str) {
        if self.is_at(Duty::Announce) || self.is_at(Duty::Cut) {
            assert!(self.pages.is_some(), "a fuzzy checkpoint's slices do not end");
            // No checkpointer writes a part at this stage.
            self.attempt_mut().unfinished = 0;
            self.fail(reason.into());
        }
    }

    /// Sets the parts of the attempt, and begins the walk. False if the checkpoints have ended.
    pub(super) fn cut(&mut self, CutParts { starts, mut parts }: CutParts) -> bool {
        if !self.is_at(Duty::Cut) {
            return false;
        }
        let checkpointers = self.terms.checkpointers;
        assert!(parts.len() <= checkpointers, "a part for each checkpointer");
        let attempt = self.attempt_mut();
        let sets = if let Taken::All { .. } = attempt.taken { starts.len() } else { 1 };
        parts.resize_with(checkpointers, || vec![Vec::new(); sets]);
        assert!(
            sets > 0 && parts.iter().all(|part| part.len() == sets),
            "K4: a part has its share of each range"
        );
        assert_eq!(attempt.unfinished, checkpointers, "no part was begun");
        attempt.ticket.set_slices(parts.iter().flatten().map(Vec::len).sum::<usize>() as u64);
        attempt.parts = parts.into_iter().map(Some).collect();
        (attempt.starts, attempt.sets) = (starts, sets as u64);
        self.next_number += sets as u64 - 1;
        assert!(self.under_way().last_number() < self.next_number, "numbers come once");
        self.enter(Stage::Walking);
        true
    }

    /// True if checkpointers may go on with their parts.
    pub(super) fn is_walking(&self) -> bool {
        self.stage == Stage::Walking
    }

    /// Records that a part is written and synced. `epoch` is E, read after the sync. The last part ends the walk (K1).
    pub(super) fn part_ended(&mut self, checkpointer: usize, written: Vec<PartWritten>, epoch: Epoch) {
        if self.stage != Stage::Walking {
            return self.part_left();
        }
        let attempt = self.attempt_mut();
        assert!(attempt.parts[checkpointer].is_none(), "it was begun");
        assert!(attempt.written[checkpointer].is_empty(), "a part ends once");
        assert_eq!(written.len() as u64, attempt.sets, "K4: it has written its share of each range");
        attempt.written[checkpointer] = written;
        attempt.unfinished = attempt.unfinished.checked_sub(1).expect("it was unfinished");
        if attempt.unfinished == 0 {
            attempt.epochs.end(epoch);
            let is_closed_apart = attempt.epochs.is_closed_apart();
            self.enter(if is_closed_apart { Stage::Closing } else { Stage::Walked });
        }
    }

    /// Records that the directory and the root of a picture are written and synced, or the reason of a failed write.
    pub(super) fn record_close(&mut self, closed: Result<ClosedPicture, String>) {
        if !self.is_at(Duty::ClosePicture) {
            return;
        }
        match closed {
            Ok(closed) => {
                let before = self.attempt_mut().closed.replace(closed);
                assert!(before.is_none(), "a picture is closed once");
                self.enter(Stage::Walked);
            }
            Err(reason) => self.fail(reason.into()),
        }
    }

    /// Records that a checkpointer gives up a part, because another part failed or the checkpoints ended.
    pub(super) fn part_left(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.unfinished = attempt.unfinished.checked_sub(1).expect("it was unfinished");
        }
    }

    /// Fails the attempt: a part cannot be written, and no checkpointer goes on. Parts not begun count as ended.
    pub(super) fn part_failed(&mut self, reason: &str) {
        let Some(attempt) = &mut self.attempt else { return };
        let not_begun = attempt.parts.iter_mut().filter_map(Option::take).count();
        attempt.unfinished = attempt.unfinished.checked_sub(not_begun + 1).expect("they were unfinished");
        if self.stage == Stage::Walking {
            self.fail(reason.into());
        }
    }

    /// Records that the reserve is given up. If there was no reserve (`had_any` is false), the attempt fails.
    pub(super) fn reserve_given_up(&mut self, had_any: bool, seen: &Circumstances) {
        if !self.is_at(Duty::GiveUpReserve) {
            return;
        }
        if had_any {
            self.attempt_mut().gave_up_at = Some(seen.full_tries);
            self.enter(Stage::Walked);
        } else {
            let reason = if let Health::Full(reason) = &seen.health { reason } else { "" };
            self.fail(not_durable(reason));
        }
    }

    /// Records the outcome of replacing the manifest. Returns true if the manifest names the checkpoint.
    pub(super) fn record_install(
        &mut self,
        result: Result<InstalledCheckpoint, NotInstalled>,
        now_nanos: u64,
    ) -> (bool, Answers) {
        let is_at = self.is_at(Duty::Install);
        match result {
            Ok(installed) => {
                let before = self.installed_number();
                assert!(before < installed.number(), "a later checkpoint replaces an earlier one");
                if is_at {
                    let attempt = self.under_way();
                    let (number, high) = (installed.number(), installed.durable_min());
                    assert_eq!((attempt.last_number(), attempt.durable_min()), (number, high));
                    let (logged, reason) = (attempt.logged, attempt.reason);
                    let (recovery, adaptive) = (attempt.recovery, attempt.adaptive);
                    let written = || attempt.written.iter().flatten();
                    let displaced = written().map(|part| part.displaced).sum();
                    let displaced_tail_bytes = written().map(|part| part.tail_bytes).sum();
                    let closed = attempt.closed.as_ref();
                    let pages_written = closed.map_or(0, |closed| closed.pages_written);
                    let bytes_written = closed.map_or_else(
                        || written().map(|part| part.bytes).sum(),
                        |closed| closed.bytes_written,
                    );
                    let turn = attempt.taken.report(installed.completed_walks().len());
                    let numbers = attempt.number..=number;
                    let elapsed = Duration::from_nanos(now_nanos.saturating_sub(attempt.began_nanos));
                    let took = (!attempt.is_slowed).then_some((elapsed, bytes_written));
                    self.last = Some(CheckpointReport {
                        number,
                        low: installed.redo_epoch(),
                        high,
                        reason,
                        entries: installed.entries(),
                        displaced,
                        displaced_tail_bytes,
                        bytes: installed.bytes(),
                        pages_written,
                        pages_kept: closed.map_or(0, |closed| closed.pages - pages_written),
                        bytes_written,
                        turn,
                        recovery,
                        adaptive,
                        elapsed,
                    });
                    self.last_took = took.or(self.last_took);
                    (self.log_bytes_base, self.log_bytes_before) = (logged.bytes, 0);
                    self.log_records_base = logged.entries;
                    self.outlook.record_install(logged);
                    self.turn_bytes.add_turn(numbers, logged.bytes, &installed);
                }
                // The manifest names the checkpoint, even if a close came first.
                self.installed = Some(installed);
                if is_at {
                    self.enter(Stage::Clearing);
                }
                (true, Answers::default())
            }
            Err(NotInstalled::OldStands(reason)) => {
                if is_at {
                    self.fail(reason.into());
                }
                (false, Answers::default())
            }
            Err(NotInstalled::Unknown(reason)) => (false, self.end(&reason, DurabilityError::Stopped)),
        }
    }

    /// Records that covered files are removed, and ends the attempt. `again` is the time of the next try in
    /// nanoseconds, if files were kept.
    pub(super) fn record_clear(&mut self, again: Option<u64>, now_nanos: u64) -> Answers {
        self.remove_again_nanos = again;
        if !self.is_at(Duty::Clear) {
            return Answers::default();
        }
        let report = self.last.clone().expect("it was installed");
        assert_eq!(
            report.number,
            self.installed_number(),
            "callers hear of the checkpoint that they asked for"
        );
        (self.failures, self.needed_bytes) = (0, 0);
        let attempt = self.leave_attempt(now_nanos);
        Answers { outcomes: vec![(attempt.ticket, Ok(report))], ..Answers::default() }
    }

    /// As [`record_clear`](Self::record_clear), for a repeated removal without an attempt.
    pub(super) fn removed_again(&mut self, again: Option<u64>) {
        self.remove_again_nanos = again;
        if self.is_at(Duty::RemoveAgain) {
            self.enter(Stage::Idle);
        }
    }

    /// Records that the files of the failed attempt are removed, and ends the attempt.
    pub(super) fn cleaned_up(&mut self, now_nanos: u64) -> Answers {
        if !self.is_at(Duty::CleanUp) {
            return Answers::default();
        }
        self.failures = self.failures.saturating_add(1);
        let attempt = self.leave_attempt(now_nanos);
        self.needed_bytes = self.needed_bytes.max(attempt.ticket.progress().bytes);
        assert_eq!(attempt.unfinished, 0, "no checkpointer writes");
        let reason = attempt.failure.expect("an attempt that failed says why");
        self.last_error = Some(Arc::clone(&reason));
        let outcome = Err(DurabilityError::CheckpointFailed(Arc::clone(&reason)));
        Answers { outcomes: vec![(attempt.ticket, outcome)], failed: 1, put_off: Some(reason) }
    }

    /// Ends the checkpoints, and answers every waiting caller with `error(reason)`. Files stay as they are.
    pub(super) fn end(&mut self, reason: &str, error: fn(Arc<str>) -> DurabilityError) -> Answers {
        if self.stage == Stage::Ended {
            return Answers::default();
        }
        let reason: Arc<str> = reason.into();
        let attempt = self.attempt.take();
        let failed = u64::from(attempt.is_some());
        let tickets = attempt.map(|attempt| attempt.ticket).into_iter().chain(self.demand.take());
        let outcomes = tickets.map(|ticket| (ticket, Err(error(Arc::clone(&reason))))).collect();
        self.ended = Some(error(Arc::clone(&reason)));
        self.last_error = Some(reason);
        self.enter(Stage::Ended);
        Answers { outcomes, failed, put_off: None }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Installed checkpoint, and true if covered files are still to be removed.
    pub(super) fn owes_removal(&self) -> (Option<InstalledCheckpoint>, bool) {
        (self.installed.clone(), self.remove_again_nanos.is_some())
    }

    /// True if commits, which logged `log_bytes` so far, have changed bytes since the installed e_l was fixed.
    pub(super) fn has_changed(&self, log_bytes: u64) -> bool {
        assert!(log_bytes >= self.log_bytes_base, "what has changed only grows");
        log_bytes > self.log_bytes_base
    }

    /// Records that the database closes: later attempts may use the epochs reserved for a close (L6).
    pub(super) fn begin_last(&mut self) {
        self.is_last = true;
    }

    /// Last checkpoint installed since the open.
    pub(super) fn last(&self) -> Option<&CheckpointReport> {
        self.last.as_ref()
    }

    /// Reason of the last failure after at least [`FAILURES_TOLD`] failures in a row.
    pub(super) fn repeated_failure(&self) -> Option<String> {
        let why =
            self.misfit.as_ref().or(self.last_error.as_ref()).filter(|_| self.failures >= FAILURES_TOLD)?;
        Some(format!("no checkpoint was made {} times in a row: {why}", self.failures))
    }

    /// Reason for putting off the next checkpoint.
    pub(super) fn misfit(&self) -> Option<&str> {
        self.misfit.as_deref()
    }

    pub(super) fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Notes an error outside an attempt.
    pub(super) fn note_error(&mut self, error: &str) {
        self.last_error = Some(error.into());
    }

    /// Adds the figures of this type to `counted`.
    pub(super) fn stats(&self, counted: CheckpointStats) -> CheckpointStats {
        let adaptive = self.rules.adaptive;
        let threshold = |of: ThresholdMeasure| {
            let terms = adaptive.filter(|terms| terms.measure == of)?;
            Some(terms.threshold(self.load.load()))
        };
        let target = self.rules.recovery_time;
        let recovery =
            (self.terms.loggers > 0).then(|| self.forecast(self.outlook.logged_work().bytes, target));
        CheckpointStats {
            last_error: self.last_error().map(str::to_owned),
            misfit: self.misfit().map(str::to_owned),
            last: self.last.clone(),
            running: self.attempt.as_ref().map(|attempt| attempt.ticket.progress()),
            load: adaptive.map(|_| self.load.load()),
            capacity: adaptive.map(|terms| self.load.capacity(&terms) as u64),
            log_bytes_threshold: threshold(ThresholdMeasure::Bytes),
            log_records_threshold: threshold(ThresholdMeasure::Records),
            interval_threshold: threshold(ThresholdMeasure::Time).map(Duration::from_millis),
            verdict: self.verdict,
            unreachable: recovery.and_then(|recovery| recovery.refusal()),
            recovery,
            ..counted
        }
    }

    /// Number of the checkpoint under way. `None` if the attempt has ended.
    pub(super) fn number_under_way(&self) -> Option<u64> {
        self.attempt.as_ref().map(|attempt| attempt.number)
    }

    /// Number of the installed checkpoint; 0 if no checkpoint is installed.
    pub(super) fn installed_number(&self) -> u64 {
        self.installed.as_ref().map_or(0, InstalledCheckpoint::number)
    }

    /// True if a checkpointer carries out `duty`. False if the checkpoints have ended meanwhile.
    fn is_at(&self, duty: Duty) -> bool {
        assert!(
            matches!(self.stage, Stage::Busy(_) | Stage::Ended),
            "an action's outcome comes once: {:?}",
            self.stage
        );
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

    /// Ends the attempt, and returns to `Idle`.
    fn leave_attempt(&mut self, now_nanos: u64) -> Attempt {
        self.ended_nanos = now_nanos;
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
        assert_eq!(self.ended.is_some(), self.stage == Stage::Ended);
        assert!(self.next_number > self.installed_number(), "numbers come once");
        let Some(attempt) = &self.attempt else { return };
        assert!(attempt.last_number() < self.next_number);
        assert!(attempt.unfinished <= self.terms.checkpointers);
        match self.stage {
            Stage::Walked | Stage::Closing => {
                assert_eq!(attempt.unfinished, 0, "K1: no checkpointer walks when E is read");
            }
            Stage::Failing => assert!(attempt.failure.is_some(), "it says why"),
            Stage::Clearing => assert_eq!(attempt.last_number(), self.installed_number()),
            _ => {}
        }
    }
}

fn not_durable(reason: &str) -> Arc<str> {
    format!("its epochs cannot become durable: {reason}").into()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
