//! Epochs are reserved in the manifest before they are used, and commits are refused near their end.
//!
//! Invariant: L6: E's limit moves only once the manifest that reserves more stands on disk.
//!
//! Neighbours: stepped by a thread that no caller waits for; `store::reserved_epochs` decides; `ending` needs a few at
//! a close.

use ensile_base::Epoch;
use ensile_disk::DiskError;

use super::Log;
use super::logger::Logger;
use crate::store::manifest::{Manifest, NotReplaced};

impl Log {
    /// Reserves more epochs in the manifest when half of them are used (L6). For a thread that no caller waits for,
    /// since the manifest is synced.
    pub fn reserved_epochs_step(&self) {
        if !self.process.is_this() || self.waiters.has_ended() {
            return;
        }
        let now = self.clock.nanos();
        let Some(due) = self.reserved_epochs.lock().due(now, self.epochs.now()) else { return };
        match self.write_reserved(due) {
            Ok(None) => {}
            Ok(Some(due)) => {
                let mut reserved_epochs = self.reserved_epochs.lock();
                reserved_epochs.renewed(due);
                assert!(reserved_epochs.limit() <= due, "E may go beyond what is reserved (L6)");
                self.epochs.set_limit(reserved_epochs.limit());
                drop(reserved_epochs);
                self.look_at_end();
            }
            // Whichever of the two stands, E stays below what was reserved before.
            Err(error) => self.reserved_epochs.lock().failed(now, &error.to_string()),
        }
    }

    /// Puts this bound into the manifest, unless a larger one stands there by now; the bound that stands. `None` in a
    /// log that has ended: nothing was written, and E's limit stays (L6).
    fn write_reserved(&self, due: Epoch) -> Result<Option<Epoch>, DiskError> {
        // The keeper holds a manifest that stood on disk.
        let mut keeper = self.manifest.lock();
        // Under this lock, for which a close waits: afterwards the manifest may be another's.
        if self.waiters.has_ended() {
            return Ok(None);
        }
        let reserved = keeper.manifest().reserved;
        if due <= reserved {
            return Ok(Some(reserved));
        }
        let next = Manifest { reserved: due, ..keeper.manifest().clone() };
        let replaced = keeper.replace(next);
        assert!(replaced.is_err() || keeper.manifest().reserved == due, "what was reserved stands (L6)");
        replaced
            .map(|()| Some(due))
            .map_err(|(NotReplaced::OldStands(error) | NotReplaced::Unknown(error))| error)
    }

    /// Reserves the few epochs that a close needs, where even those that are kept for it are used (L6). What stands in
    /// the way, if anything.
    pub(super) fn reserve_for_close(&self) -> Option<String> {
        let Some(due) = self.reserved_epochs.lock().for_close(self.epochs.now()) else {
            return Some("the epochs are used up".to_owned());
        };
        let mut written = self.write_reserved(due);
        if written.as_ref().is_err_and(DiskError::is_full) && self.give_up_reserve() {
            written = self.write_reserved(due);
        }
        match written {
            Ok(Some(due)) => {
                self.reserved_epochs.lock().renewed(due);
                assert!(self.epochs.now() <= due, "E is beyond what is reserved (L6)");
                self.epochs.set_limit(due);
                None
            }
            // The close finds how it has ended.
            Ok(None) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    /// Refuses commits while E is near the end of what is reserved.
    pub(crate) fn look_at_end(&self) {
        let ended = self.reserved_epochs.lock().ended(self.epochs.now());
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

    /// Lets E use what is kept at the end of the reserved epochs: for a close, which needs a few epochs more. Commits
    /// are refused by then.
    pub fn use_kept_epochs(&self) {
        self.epochs.set_limit(self.reserved_epochs.lock().end());
    }
}
