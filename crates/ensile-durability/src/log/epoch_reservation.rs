//! The log at the end of the reserved epochs. More epochs are reserved in time, and commits are refused if the
//! reservation fails. A log that has ended reserves no more epochs (L6).
//!
//! Neighbours: a thread for which no caller waits takes the step; `store::epoch_renewal` writes the manifest;
//! `shutdown` needs a few epochs at a close.

use ensile_disk::DiskError;

use super::logger::Logger;
use super::open_log::Log;

impl Log {
    /// Reserves more epochs in the manifest after half of the epochs are used (L6). No caller may wait for the calling
    /// thread, because the manifest is synced: checkpointer 0 calls, and the heartbeat in its place after a panic.
    pub fn reserved_epochs_step(&self) {
        if self.store.is_forked() || self.waiters.has_ended() {
            return;
        }
        if self.store.renew_epochs(|| self.waiters.has_ended()) {
            self.refuse_near_epoch_limit();
        }
    }

    /// Reserves the few epochs for a close, if even the epochs kept for the close are used (L6). Returns the obstacle,
    /// if any; a log that has ended meanwhile is no obstacle.
    pub(super) fn reserve_for_close(&self) -> Option<String> {
        let Some(due) = self.store.bound_for_close() else {
            return Some("the epochs are used up".to_owned());
        };
        let reserve = || self.store.reserve_for_close(due, || self.waiters.has_ended());
        let mut reserved = reserve();
        if reserved.as_ref().is_err_and(DiskError::is_full) && self.give_up_reserve() {
            reserved = reserve();
        }
        reserved.err().map(|error| error.to_string())
    }

    /// Refuses commits while E is near the end of the reserved epochs, and expires results that have waited too long.
    /// The heartbeat and a logger call this function.
    pub(crate) fn refuse_near_epoch_limit(&self) {
        let ended = self.store.epochs_ended();
        if ended.is_some() != self.refusal.lock().epochs_ended.is_some() {
            let now = self.clock.nanos();
            self.refuse(|refusal| {
                if refusal.full.is_empty() {
                    refusal.full_since_nanos = now;
                }
                refusal.epochs_ended = ended;
            });
            self.loggers.iter().for_each(Logger::wake_workers);
        }
        self.expire_waiters();
    }

    /// Lets E use the epochs kept at the end of the reserved epochs: a close, and its last picture, need a few more
    /// epochs. Commits are refused by then.
    pub fn use_kept_epochs(&self) {
        self.store.use_kept_epochs();
    }
}
