//! The life of a checkpoint as steps: any checkpointer moves the shared phase on, each writes its own part.
//!
//! ```text
//! Idle --due: e_l = E--> Opening --E >= e_l + 1: slices--> Walking --all parts synced: e_h = E--> Walked
//!   ^                                                        |                                      | D >= e_h: manifest
//!   |                                                        v a write failed                       v
//!   +----files removed------------------------------------ Failing                              Clearing --void files removed--> Idle
//! ```
//! Invariants:
//! - K1: the conditions on the arrows. The walk begins when every epoch below e_l is installed; e_h is read when nobody
//!   walks any more; the manifest names the checkpoint once D has reached e_h.
//! - Nothing is removed before the manifest that makes it void is durable.
//! - It waits for no natural end of an epoch: it closes epochs early, as strict waiters do (E5 keeps the least spacing).
//! - An attempt that cannot fit is not begun, or given up in time (`room`); after failures in a row it is put off longer and longer.
//! - An attempt that fails takes its files with it, once no checkpointer writes any more, and nothing else: the log goes on.
//!
//! Neighbours: `write` has the files, `control` the decisions, `ticket` tells who asked; the log has E, D and the manifest.

mod installing;

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_base::sync::{Mutex, MutexGuard};
use ensile_disk::Disk;
use ensile_epoch::Advance;

use super::block::{CheckpointBlock, LargePermit};
use super::config::CheckpointConfig;
use super::parts;
use super::room::Room;
use super::stats::{CheckpointStats, Counters};
use super::ticket::{CheckpointHandle, CheckpointReport, Ticket};
use super::walk::{Slice, Walk};
use super::write::{Beginning, PartWriter, Written};
use crate::block::Salt;
use crate::block::origin::Origin;
use crate::control::pace::Pace;
use crate::control::trigger::{Situation, Trigger};
use crate::identity::Identity;
use crate::log::{Bell, Log};
use crate::recoverable::EntryKind;
use crate::store::claim::{Wanted, claim};
use crate::store::manifest::Installed;
use crate::store::names::PartName;
use crate::{DurabilityError, Health};

/// Between two attempts to make a reserve that is missing.
const RESERVE_PAUSE_NANOS: u64 = 10_000_000_000;
/// Between two attempts to remove what a reader's lease keeps.
const REMOVAL_PAUSE_NANOS: u64 = 1_000_000_000;
/// Of so many checkpoints in a row that seem not to fit, one is tried all the same.
const TRIED_EVERY: u32 = 8;
/// A checkpointer that waits for its bandwidth looks again after this.
const PACED_MAX: Duration = Duration::from_secs(1);
/// Why a closed database makes no checkpoint.
const CLOSED: &str = "the database was closed";
/// Why an attempt is given up when a step panics.
const PANICKED: &str = "a checkpointer panicked, and none is made before the database is opened again";

/// What one checkpointer step did, and when the next is worth while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointStep {
    /// No checkpoint is under way.
    Idle,
    /// Something was done: step again, after others had their turn.
    Worked,
    /// The checkpoint waits for an epoch, for D, or for other checkpointers.
    Waiting,
    /// The bandwidth is used up for so long.
    Paced(Duration),
    /// The database is closed, or its log stopped: there is nothing to do any more.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Opening,
    Walking,
    Walked,
    Clearing,
    Failing,
    /// Somebody is on the way from one phase to the next.
    Moving,
    Ended,
}

/// A checkpoint under way.
#[derive(Debug)]
struct Attempt {
    number: u64,
    low: Epoch,
    high: Epoch,
    salt: Salt,
    ticket: Arc<Ticket>,
    began_nanos: u64,
    /// Bytes of log when e_l was read.
    log_bytes: u64,
    room: Arc<Room>,
    /// How often the log had found the disk full when the reserve was given up for this attempt.
    gave_up_at: Option<u64>,
    /// Parts that their checkpointer has not begun.
    parts: Vec<Option<Vec<Slice>>>,
    written: Vec<Written>,
    /// Checkpointers that have not begun, or are at their part.
    unfinished: usize,
    failure: Option<Arc<str>>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    attempt: Option<Attempt>,
    /// For those who ask for the next checkpoint.
    demand: Option<Arc<Ticket>>,
    next_number: u64,
    installed: Option<Installed>,
    /// When the last attempt ended, and how many have failed since one did not.
    ended_nanos: u64,
    failures: u32,
    /// What attempts that found no space had written, at least; and why the next one is put off.
    needed_bytes: u64,
    misfit: Option<Arc<str>>,
    /// What the installed checkpoint made void is not removed yet, as a reader holds a lease; it is tried again then.
    remove_again_nanos: Option<u64>,
    /// The reserve that is missing is not tried before this.
    reserve_not_before: u64,
    /// Bytes of log when the installed checkpoint's e_l was read, and what was there before this database was opened.
    log_bytes_base: u64,
    log_bytes_before: u64,
    last: Option<CheckpointReport>,
    last_error: Option<Arc<str>>,
    /// What whoever asks for a checkpoint is told once there will be none.
    ended: Option<DurabilityError>,
}

/// A checkpointer at its part.
#[derive(Debug)]
struct Work {
    slices: std::vec::IntoIter<Slice>,
    slice: Option<Slice>,
    resume: Vec<u8>,
    low: Epoch,
    writer: PartWriter,
    block: CheckpointBlock,
    ticket: Arc<Ticket>,
    room: Arc<Room>,
}

#[derive(Debug)]
struct Station {
    bell: Bell,
    work: Mutex<Option<Work>>,
}

/// The checkpoints of an open database.
#[derive(Debug)]
pub struct Checkpoints {
    log: Arc<Log>,
    disk: Arc<dyn Disk>,
    config: CheckpointConfig,
    trigger: Trigger,
    /// Whose they are, and the generation that is open.
    database: Identity,
    generation: u64,
    /// What its entries are.
    entries: EntryKind,
    stations: Box<[Station]>,
    state: Mutex<State>,
    pace: Mutex<Pace>,
    permit: LargePermit,
    counters: Counters,
}

/// The files of one checkpointer's part could not be written.
struct Failure(String);

impl From<ensile_disk::DiskError> for Failure {
    fn from(error: ensile_disk::DiskError) -> Self {
        Self(error.to_string())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A step that panics ends its attempt by itself; what it leaves is whole.
    mutex.lock()
}

impl Checkpoints {
    /// Checkpoints of the database with this log. Makes the checkpointers' folders.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] for settings that cannot work, or the disk's.
    pub fn start(log: &Arc<Log>, config: CheckpointConfig) -> Result<Arc<Self>, DurabilityError> {
        config.check()?;
        let mut keeper = lock(&log.manifest);
        let disk = Arc::clone(keeper.disk());
        let wanted = Wanted { count: config.checkpointers, links: &config.folders, name: PartName::folder };
        let (locks, is_new) = claim(&mut keeper, &[wanted])?;
        log.keep_locks(locks);
        if is_new {
            // Listed before anything is in it: once its device is missing nobody takes the mount point for it.
            let next = keeper.manifest().clone();
            keeper.replace(next)?;
        }
        let seen = parts::list(&*disk, keeper.manifest())?;
        let (database, installed) = (keeper.manifest().identity, keeper.manifest().checkpoint.clone());
        let open = keeper.manifest().generations.last();
        let (generation, entries) = open.map_or((0, EntryKind::Values), |open| (open.number, open.entries));
        drop(keeper);
        let seen = seen.into_iter().map(|part| part.checkpoint).max().unwrap_or(0);
        let state = State {
            phase: Phase::Idle,
            attempt: None,
            demand: None,
            next_number: seen.max(installed.as_ref().map_or(0, |installed| installed.number)) + 1,
            installed,
            ended_nanos: log.clock.nanos(),
            failures: 0,
            needed_bytes: 0,
            misfit: None,
            remove_again_nanos: None,
            reserve_not_before: log.clock.nanos() + RESERVE_PAUSE_NANOS,
            log_bytes_base: 0,
            log_bytes_before: log.replayed_bytes,
            last: None,
            last_error: None,
            ended: None,
        };
        let station = |_| Station { bell: Bell::new(), work: Mutex::new(None) };
        Ok(Arc::new(Self {
            log: Arc::clone(log),
            disk,
            trigger: config.trigger(),
            database,
            generation,
            entries,
            stations: (0..config.checkpointers).map(station).collect(),
            state: Mutex::new(state),
            pace: Mutex::new(Pace::new(config.bandwidth)),
            permit: LargePermit::default(),
            counters: Counters::default(),
            config,
        }))
    }

    /// How many checkpointers there are: one thread each.
    #[must_use]
    pub fn checkpointers(&self) -> usize {
        self.stations.len()
    }

    /// Asks for a checkpoint that begins from now on; one that is under way ends first.
    #[must_use]
    pub fn demand(&self) -> CheckpointHandle {
        if self.log.check_process().is_err() {
            // A ticket that nobody answers: its handle tells of the fork.
            return CheckpointHandle::new(Arc::default(), self.log.process().clone());
        }
        let mut state = lock(&self.state);
        let ticket = match &state.demand {
            Some(ticket) => Arc::clone(ticket),
            None => Arc::new(Ticket::default()),
        };
        if let Some(why) = &state.ended {
            ticket.answer(Err(why.clone()));
        } else {
            state.demand = Some(Arc::clone(&ticket));
            drop(state);
            self.ring();
        }
        CheckpointHandle::new(ticket, self.log.process().clone())
    }

    fn ring(&self) {
        self.stations.iter().for_each(|station| station.bell.ring());
    }

    /// Waits until this checkpointer has a reason to step, or `timeout`.
    pub fn wait(&self, checkpointer: usize, timeout: Duration) {
        if self.log.process().is_this() {
            self.stations[checkpointer].bell.wait(timeout);
        }
    }

    /// Has a checkpointer panicked? The log goes on, and somebody else is to renew its reserved epochs (L6).
    #[must_use]
    pub fn has_panicked(&self) -> bool {
        lock(&self.state).last_error.as_deref() == Some(PANICKED)
    }

    /// Why the next one is put off, if it does not fit.
    #[must_use]
    pub fn misfit(&self) -> Option<String> {
        if !self.log.process().is_this() {
            return None;
        }
        lock(&self.state).misfit.as_deref().map(str::to_owned)
    }

    /// What checkpoints have come to; in a forked child what was counted only.
    #[must_use]
    pub fn stats(&self) -> CheckpointStats {
        if !self.log.process().is_this() {
            return self.counters.read();
        }
        let state = lock(&self.state);
        CheckpointStats {
            last_error: state.last_error.as_deref().map(str::to_owned),
            misfit: state.misfit.as_deref().map(str::to_owned),
            last: state.last.clone(),
            running: state.attempt.as_ref().map(|attempt| attempt.ticket.progress()),
            ..self.counters.read()
        }
    }

    /// One iteration of a checkpointer: a block of its part, or the next phase.
    pub fn step(&self, checkpointer: usize, walk: &dyn Walk) -> CheckpointStep {
        if !self.log.process().is_this() {
            return CheckpointStep::Stopped;
        }
        let _guard = EndOnPanic::new(self);
        let mut work = lock(&self.stations[checkpointer].work);
        if checkpointer == 0 {
            // Here, as nothing waits for a checkpointer. Beside a walk too: it may outlast what is reserved.
            self.log.reserved_epochs_step();
        }
        if work.is_some() {
            return self.go_on(checkpointer, &mut work, walk);
        }
        let mut state = lock(&self.state);
        if state.phase != Phase::Ended {
            match self.log.health() {
                Health::Poisoned(why) => self.end(&mut state, &why, DurabilityError::Stopped),
                Health::Closed => self.end(&mut state, CLOSED, DurabilityError::Stopped),
                Health::Running | Health::Full(_) | Health::EpochsEnded(_) | Health::Forked => {}
            }
        }
        let now = self.log.clock.nanos();
        if state.phase == Phase::Idle && !self.log.reserve.is_kept() && now >= state.reserve_not_before {
            state.reserve_not_before = now + RESERVE_PAUSE_NANOS;
            drop(state);
            self.make_reserve();
            return CheckpointStep::Idle;
        }
        if state.phase == Phase::Idle && state.remove_again_nanos.is_some_and(|again| now >= again) {
            return self.remove_again(state);
        }
        match state.phase {
            Phase::Ended => CheckpointStep::Stopped,
            Phase::Moving => CheckpointStep::Waiting,
            Phase::Idle => self.begin(&mut state),
            Phase::Opening => self.open_walk(state, walk),
            Phase::Walking => self.take_part(checkpointer, state, &mut work),
            Phase::Walked => self.install(state),
            Phase::Clearing => self.clear(state),
            Phase::Failing => self.clean_up(state),
        }
    }

    /// Idle: begins a checkpoint if one is due.
    fn begin(&self, state: &mut State) -> CheckpointStep {
        let now = self.log.clock.nanos();
        let written = self.log.stats().bytes;
        let situation = Situation {
            is_demanded: state.demand.is_some(),
            failures: state.failures,
            is_log_full: matches!(self.log.health(), Health::Full(_)),
            since_end: Duration::from_nanos(now.saturating_sub(state.ended_nanos)),
            log_bytes: written - state.log_bytes_base + state.log_bytes_before,
            checkpoint_bytes: state.installed.as_ref().map_or(0, |installed| installed.bytes),
            load_rate: self.config.load_rate,
            replay_rate: self.config.replay_rate,
        };
        if self.trigger.decide(&situation).is_none() {
            return CheckpointStep::Idle;
        }
        let bytes = state.needed_bytes.max(state.installed.as_ref().map_or(0, |installed| installed.bytes));
        // Rows may have gone since the last one was installed, so now and then it is tried: an attempt gives up in time.
        let bytes = if state.failures % TRIED_EVERY == TRIED_EVERY - 1 { 0 } else { bytes };
        let room = match Room::look(&*self.disk, self.stations.len(), bytes) {
            Ok(room) => Arc::new(room),
            Err(why) => return self.put_off(state, why.into()),
        };
        state.misfit = None;
        let low = self.log.epochs.now();
        state.attempt = Some(Attempt {
            room,
            gave_up_at: None,
            number: state.next_number,
            low,
            high: low,
            salt: Salt::draw(&mut Random::unpredictable()),
            ticket: state.demand.take().unwrap_or_default(),
            began_nanos: now,
            log_bytes: written,
            parts: Vec::new(),
            written: vec![Written::default(); self.stations.len()],
            unfinished: self.stations.len(),
            failure: None,
        });
        state.next_number += 1;
        state.phase = Phase::Opening;
        // What is covered then stands in closed files, which can go.
        self.log.request_roll();
        self.ring();
        CheckpointStep::Worked
    }

    /// Idle: one is due, and does not fit. Whoever asked is told; otherwise it is looked at again later.
    fn put_off(&self, state: &mut State, why: Arc<str>) -> CheckpointStep {
        (state.ended_nanos, state.failures) = (self.log.clock.nanos(), state.failures.saturating_add(1));
        state.misfit = Some(Arc::clone(&why));
        if let Some(ticket) = state.demand.take() {
            self.counters.failed.add(1);
            state.last_error = Some(Arc::clone(&why));
            ticket.answer(Err(DurabilityError::CheckpointFailed(why)));
        }
        CheckpointStep::Idle
    }

    /// Makes the reserve again, if it was given up and there is space.
    fn make_reserve(&self) {
        if self.log.reserve.is_kept() {
            return;
        }
        if let Err(error) = self.log.reserve.make() {
            lock(&self.state).last_error = Some(error.to_string().into());
        }
    }

    /// Closes the epoch, if its least length has passed: for a checkpoint that waits for the next one.
    fn close_epoch_early(&self) {
        if matches!(self.log.epochs.try_advance(self.log.clock.nanos()), Advance::Advanced(_)) {
            self.log.wake_loggers();
        }
    }

    /// Opening: once every epoch below e_l is installed (K1, E2), cuts the state into parts.
    fn open_walk(&self, mut state: MutexGuard<'_, State>, walk: &dyn Walk) -> CheckpointStep {
        let Some(attempt) = &state.attempt else { return CheckpointStep::Waiting };
        let begins = attempt.low.next();
        if self.log.epochs.now() < begins {
            return self.wait_for_epoch(state, begins);
        }
        state.phase = Phase::Moving;
        drop(state);
        let mut parts = walk.slices(self.stations.len());
        parts.resize_with(self.stations.len(), Vec::new);
        let mut state = lock(&self.state);
        if state.phase != Phase::Moving {
            return CheckpointStep::Stopped;
        }
        let Some(attempt) = &mut state.attempt else { return CheckpointStep::Waiting };
        attempt.ticket.set_slices(parts.iter().map(Vec::len).sum::<usize>() as u64);
        attempt.parts = parts.into_iter().map(Some).collect();
        state.phase = Phase::Walking;
        drop(state);
        self.ring();
        CheckpointStep::Worked
    }

    /// E must reach `epoch` first, and is helped. Once E stands at its end (L6), the attempt is given up.
    fn wait_for_epoch(&self, mut state: MutexGuard<'_, State>, epoch: Epoch) -> CheckpointStep {
        if self.log.epochs.now() < epoch {
            self.close_epoch_early();
        }
        let (Health::EpochsEnded(reason), Some(attempt)) = (self.log.health(), &mut state.attempt) else {
            return CheckpointStep::Waiting;
        };
        attempt.failure = Some(format!("no epoch ends any more: {reason}").into());
        // Nobody writes a part now.
        attempt.unfinished = 0;
        state.phase = Phase::Failing;
        CheckpointStep::Worked
    }

    /// Walking: makes the files of this checkpointer's part.
    fn take_part(
        &self,
        checkpointer: usize,
        mut state: MutexGuard<'_, State>,
        work: &mut Option<Work>,
    ) -> CheckpointStep {
        let Some(attempt) = &mut state.attempt else { return CheckpointStep::Waiting };
        let Some(slices) = attempt.parts[checkpointer].take() else { return CheckpointStep::Waiting };
        let Attempt { number, low, salt, .. } = *attempt;
        let (ticket, room) = (Arc::clone(&attempt.ticket), Arc::clone(&attempt.room));
        drop(state);
        let origin = Origin { identity: self.database, salt, entries: self.entries };
        let beginning = Beginning { number, generation: self.generation, low, origin };
        match PartWriter::create(&self.disk, &beginning, checkpointer as u32, &self.config) {
            Ok(writer) => {
                let block = CheckpointBlock::sharing(self.permit.clone());
                let slices = slices.into_iter();
                let resume = Vec::new();
                *work = Some(Work { slices, slice: None, resume, low, writer, block, ticket, room });
            }
            Err(error) => self.give_up(&error.to_string()),
        }
        CheckpointStep::Worked
    }

    /// Walking: a block of this checkpointer's part.
    fn go_on(&self, checkpointer: usize, work: &mut Option<Work>, walk: &dyn Walk) -> CheckpointStep {
        let phase = lock(&self.state).phase;
        if phase != Phase::Walking || self.log.health().has_ended() {
            *work = None;
            self.leave();
            return if phase == Phase::Ended { CheckpointStep::Stopped } else { CheckpointStep::Worked };
        }
        let wait = lock(&self.pace).wait(self.log.clock.nanos());
        if !wait.is_zero() {
            // Not longer: this thread renews what is reserved, too.
            return CheckpointStep::Paced(wait.min(PACED_MAX));
        }
        let Some(at) = work.as_mut() else { return CheckpointStep::Waiting };
        let written = at.room.check(&*self.disk, checkpointer).map_err(Failure);
        match written.and_then(|()| self.write_block(at, walk)) {
            Ok(Some(step)) => step,
            Ok(None) => {
                let ended = work.take().map(|work| work.writer.end());
                match ended.transpose() {
                    Ok(written) => self.end_part(checkpointer, written.unwrap_or_default()),
                    Err(error) => self.give_up(&error.to_string()),
                }
                CheckpointStep::Worked
            }
            Err(Failure(reason)) => {
                *work = None;
                self.give_up(&reason);
                CheckpointStep::Worked
            }
        }
    }

    /// Fills and writes one block; `None` when the part has ended.
    fn write_block(&self, work: &mut Work, walk: &dyn Walk) -> Result<Option<CheckpointStep>, Failure> {
        let slice = match &work.slice {
            Some(slice) => slice,
            None => {
                let Some(next) = work.slices.next() else { return Ok(None) };
                work.resume.clear();
                work.slice.insert(next)
            }
        };
        let section = slice.section;
        let more = walk.walk(slice, &mut work.resume, work.low, &mut work.block);
        if more && work.block.entries() == 0 && work.block.take_refusal() {
            return Ok(Some(CheckpointStep::Waiting));
        }
        let entries = u64::from(work.block.entries());
        if entries > 0 {
            let (bytes, synced) = work.writer.write(section, &mut work.block)?;
            lock(&self.pace).spend(bytes);
            work.ticket.add_block(bytes, entries);
            self.counters.bytes.add(bytes);
            self.counters.entries.add(entries);
            self.counters.syncs.add(u64::from(synced));
        }
        if !more {
            work.slice = None;
            work.ticket.add_slice();
        }
        Ok(Some(CheckpointStep::Worked))
    }

    /// A part is written and synced. The last one to end reads e_h (K1).
    fn end_part(&self, checkpointer: usize, written: Written) {
        let mut state = lock(&self.state);
        if state.phase != Phase::Walking {
            drop(state);
            return self.leave();
        }
        let Some(attempt) = &mut state.attempt else { return };
        attempt.written[checkpointer] = written;
        attempt.unfinished -= 1;
        if attempt.unfinished == 0 {
            attempt.high = self.log.epochs.now();
            state.phase = Phase::Walked;
        }
    }

    /// A checkpointer that was at its part is not any more.
    fn leave(&self) {
        if let Some(attempt) = &mut lock(&self.state).attempt {
            attempt.unfinished -= 1;
        }
    }

    /// This checkpointer's part cannot be written: nobody goes on.
    fn give_up(&self, reason: &str) {
        let mut state = lock(&self.state);
        if let Some(attempt) = &mut state.attempt {
            let waiting = attempt.parts.iter_mut().filter_map(Option::take).count();
            attempt.unfinished -= waiting + 1;
            attempt.failure.get_or_insert_with(|| reason.into());
        }
        if state.phase == Phase::Walking {
            state.phase = Phase::Failing;
        }
        drop(state);
        self.ring();
    }

    /// The attempt is over: who asked is told.
    fn finish(&self, state: &mut State, has_failed: bool) {
        if state.phase == Phase::Moving {
            state.phase = Phase::Idle;
        }
        state.ended_nanos = self.log.clock.nanos();
        state.failures = if has_failed { state.failures.saturating_add(1) } else { 0 };
        let Some(attempt) = state.attempt.take() else { return };
        let written = attempt.ticket.progress().bytes;
        state.needed_bytes = if has_failed { state.needed_bytes.max(written) } else { 0 };
        let outcome = match (has_failed, &state.last) {
            (false, Some(report)) => Ok(report.clone()),
            _ => {
                self.counters.failed.add(1);
                let reason = attempt.failure.unwrap_or_else(|| CLOSED.into());
                state.last_error = Some(Arc::clone(&reason));
                Err(DurabilityError::CheckpointFailed(reason))
            }
        };
        attempt.ticket.answer(outcome);
    }

    /// No further checkpoint: tells everybody who waits for one, or will ask. Files stay as they are.
    fn end(&self, state: &mut State, reason: &str, error: fn(Arc<str>) -> DurabilityError) {
        state.phase = Phase::Ended;
        let reason: Arc<str> = reason.into();
        let attempt = state.attempt.take();
        self.counters.failed.add(u64::from(attempt.is_some()));
        for ticket in attempt.map(|attempt| attempt.ticket).into_iter().chain(state.demand.take()) {
            ticket.answer(Err(error(Arc::clone(&reason))));
        }
        state.ended = Some(error(Arc::clone(&reason)));
        state.last_error = Some(reason);
    }

    /// Ends the attempt under way, if there is one, and removes its files. Steps find [`CheckpointStep::Stopped`]
    /// afterwards. To be called before the log is closed, which gives the folder free.
    pub fn close(&self) {
        if !self.log.process().is_this() {
            return;
        }
        let mut state = lock(&self.state);
        let was_open = state.phase != Phase::Ended;
        if was_open {
            self.end(&mut state, CLOSED, DurabilityError::Stopped);
        }
        drop(state);
        self.ring();
        for station in &self.stations {
            // Waits for a step that is under way, also where the log's failure ended the checkpoints: it may be at the
            // manifest, or remove files, which are soon another's.
            *lock(&station.work) = None;
        }
        if was_open && !self.log.health().has_ended() {
            let (installed, owes) = {
                let state = lock(&self.state);
                (state.installed.clone(), state.remove_again_nanos.is_some())
            };
            let kept = installed.as_ref().map_or(0, |installed| installed.number);
            self.remove_parts(|part| part.checkpoint > kept);
            if let Some(installed) = installed.filter(|_| owes) {
                // Once more; if a lease is held still, the next open removes them.
                self.remove_void(&installed);
            }
        }
    }
}

/// A checkpointer that panics leaves its attempt unfinished for good: nobody must wait for it.
struct EndOnPanic<'a> {
    checkpoints: &'a Checkpoints,
    unwinding: bool,
}

impl<'a> EndOnPanic<'a> {
    fn new(checkpoints: &'a Checkpoints) -> Self {
        Self { checkpoints, unwinding: std::thread::panicking() }
    }
}

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinding {
            // The log goes on.
            let mut state = lock(&self.checkpoints.state);
            self.checkpoints.end(&mut state, PANICKED, DurabilityError::CheckpointFailed);
        }
    }
}
