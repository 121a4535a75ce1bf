//! The end of a checkpoint: it is installed, and what it makes void is removed.
//!
//! Invariants:
//! - K1: it counts once marks of its e_h are synced in every log and the manifest names it. Log files are removed
//!   behind that.
//! - I3: nothing is removed while a reader holds a lease, up to a stated limit.
//!
//! Neighbours: `super` has the states; the log removes its files.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::sync::MutexGuard;

use super::{CheckpointStep, Checkpoints, Phase, REMOVAL_PAUSE_NANOS, State, lock};
use crate::checkpoint::ticket::CheckpointReport;
use crate::checkpoint::{parts, read};
use crate::store::manifest::{Installed, NotReplaced};
use crate::store::names::PartName;
use crate::{DurabilityError, Health};

impl Checkpoints {
    /// Walked: installs the checkpoint once D has reached e_h, by synced marks that a recovery will find (K1).
    pub(super) fn install(&self, mut state: MutexGuard<'_, State>) -> CheckpointStep {
        let Some(attempt) = &state.attempt else { return CheckpointStep::Waiting };
        let attempt_high = attempt.high;
        if !self.log.has_marks_of(attempt.high) {
            if let (Health::Full(reason), Some(attempt)) = (self.log.health(), &mut state.attempt) {
                // No mark is written before there is space. This attempt frees some once it is installed, so it may
                // have what is kept for such a moment; if that does not do, its own files may be what takes the space.
                let tries = self.log.full_tries();
                if attempt.gave_up_at.is_none() && self.log.give_up_reserve() {
                    attempt.gave_up_at = Some(tries);
                    return CheckpointStep::Worked;
                }
                let loggers = self.log.loggers() as u64;
                if attempt.gave_up_at.is_some_and(|before| tries <= before + loggers) {
                    return CheckpointStep::Waiting;
                }
                attempt.failure = Some(format!("its epochs cannot become durable: {reason}").into());
                state.phase = Phase::Failing;
                return CheckpointStep::Worked;
            }
            // No mark covers e_h before its epoch has ended.
            return self.wait_for_epoch(state, attempt_high.next());
        }
        let installed = Installed {
            number: attempt.number,
            generation: self.generation,
            low: attempt.low,
            high: attempt.high,
            checkpointers: self.stations.len() as u32,
            files: self.config.files as u32,
            entries: attempt.written.iter().map(|written| written.entries).sum(),
            bytes: attempt.written.iter().map(|written| written.bytes).sum(),
            salt: attempt.salt,
            seal: read::seal(attempt.written.iter().flat_map(|written| written.ends.iter().copied())),
            database: self.database,
        };
        state.phase = Phase::Moving;
        drop(state);
        let result = lock(&self.log.manifest).install(installed.clone());
        let mut state = lock(&self.state);
        match result {
            Ok(()) => self.note_installed(&mut state, installed),
            Err(NotReplaced::OldStands(error)) => {
                let reason: Arc<str> = error.to_string().into();
                if let Some(attempt) = &mut state.attempt {
                    attempt.failure = Some(reason);
                }
                if state.phase == Phase::Moving {
                    state.phase = Phase::Failing;
                }
            }
            Err(NotReplaced::Unknown(error)) => {
                // Not even a file of this attempt may go: the manifest may name it.
                let reason = format!("the manifest could not be replaced: {error}");
                self.end(&mut state, &reason, DurabilityError::Stopped);
                drop(state);
                self.log.poison(&reason);
                return CheckpointStep::Stopped;
            }
        }
        CheckpointStep::Worked
    }

    fn note_installed(&self, state: &mut State, installed: Installed) {
        self.counters.installed.add(1);
        let now = self.log.clock.nanos();
        if let Some(attempt) = &state.attempt {
            let Installed { number, low, high, entries, bytes, .. } = installed;
            let elapsed = Duration::from_nanos(now.saturating_sub(attempt.began_nanos));
            state.last = Some(CheckpointReport { number, low, high, entries, bytes, elapsed });
            (state.log_bytes_base, state.log_bytes_before) = (attempt.log_bytes, 0);
        }
        state.installed = Some(installed);
        if state.phase == Phase::Moving {
            state.phase = Phase::Clearing;
        }
    }

    /// Clearing: removes what the manifest has made void, and tells who asked.
    pub(super) fn clear(&self, mut state: MutexGuard<'_, State>) -> CheckpointStep {
        let Some(installed) = state.installed.clone() else { return CheckpointStep::Waiting };
        state.phase = Phase::Moving;
        drop(state);
        let again = self.remove_void(&installed);
        self.make_reserve();
        let mut state = lock(&self.state);
        state.remove_again_nanos = again;
        self.finish(&mut state, false);
        CheckpointStep::Worked
    }

    /// Idle: tries once more to remove what a lease has kept.
    pub(super) fn remove_again(&self, mut state: MutexGuard<'_, State>) -> CheckpointStep {
        let Some(installed) = state.installed.clone() else { return CheckpointStep::Idle };
        state.phase = Phase::Moving;
        drop(state);
        let again = self.remove_void(&installed);
        let mut state = lock(&self.state);
        state.remove_again_nanos = again;
        if state.phase == Phase::Moving {
            state.phase = Phase::Idle;
        }
        CheckpointStep::Idle
    }

    /// Failing: once nobody writes any more, removes the attempt's files.
    pub(super) fn clean_up(&self, mut state: MutexGuard<'_, State>) -> CheckpointStep {
        if state.attempt.as_ref().is_some_and(|attempt| attempt.unfinished > 0) {
            return CheckpointStep::Waiting;
        }
        let kept = state.installed.as_ref().map_or(0, |installed| installed.number);
        state.phase = Phase::Moving;
        drop(state);
        // No manifest ever listed them, so no lease is about them. Older ones may be leased.
        self.remove_parts(|part| part.checkpoint > kept);
        // There is space now.
        self.log.wake_loggers();
        self.make_reserve();
        let mut state = lock(&self.state);
        self.finish(&mut state, true);
        CheckpointStep::Worked
    }

    /// Removes the parts and the log files that `installed` has made void, unless a reader holds a lease (I3): when to
    /// try again then.
    pub(super) fn remove_void(&self, installed: &Installed) -> Option<u64> {
        let clearance = match self.log.ask_leases() {
            Ok(Some(clearance)) => clearance,
            Ok(None) => return Some(self.log.clock.nanos() + REMOVAL_PAUSE_NANOS),
            Err(error) => {
                self.note_removed(Err(error.into()));
                return None;
            }
        };
        self.remove_parts(|part| part.checkpoint != installed.number);
        self.note_removed(
            self.log.remove_cleared_below(installed.low, &clearance).map(|removed| removed.files),
        );
        None
    }

    /// Removes the parts that are void.
    pub(super) fn remove_parts(&self, is_void: impl Fn(&PartName) -> bool) {
        let manifest = lock(&self.log.manifest).manifest().clone();
        self.note_removed(parts::remove(&*self.disk, &manifest, is_void));
    }

    fn note_removed(&self, removed: Result<u64, DurabilityError>) {
        match removed {
            Ok(count) => self.counters.files_removed.add(count),
            Err(error) => {
                self.counters.removals_failed.add(1);
                lock(&self.state).last_error = Some(error.to_string().into());
            }
        }
    }
}
