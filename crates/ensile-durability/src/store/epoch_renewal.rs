//! Reservation of epochs in the manifest, before the epochs are used.
//!
//! Invariant: L6: The limit of E moves only after the manifest with the new reservation stands on disk.
//!
//! Neighbours: `reserved_epochs` decides; `log::epoch_reservation` calls, from a thread that nobody waits for.

use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::DiskError;

use super::open_store::OpenStore;
use super::reserved_epochs::reservation_end;
use crate::files::manifest::{Manifest, NotReplaced};

impl OpenStore {
    /// Reserves more epochs when half are used (L6), unless `has_ended`. True if the limit of E has moved.
    pub(crate) fn renew_epochs(&self, has_ended: impl Fn() -> bool) -> bool {
        let (epochs, now_nanos) = (self.epochs(), self.clock().nanos());
        let due = self.reserved_epochs.lock().next_end_if_due(now_nanos, epochs.now());
        let Some(due) = due else { return false };
        match self.write_reserved(due, has_ended) {
            Ok(None) => false,
            Ok(Some(due)) => {
                let mut reserved_epochs = self.reserved_epochs.lock();
                reserved_epochs.record_renewal(due);
                let limit = reserved_epochs.limit();
                epochs.set_limit(limit);
                drop(reserved_epochs);
                debug_assert!(limit <= self.manifest().manifest().reserved, "L6: E stays below {limit}");
                true
            }
            Err(error) => {
                // E stays below the earlier reservation, whichever manifest stands.
                self.reserved_epochs.lock().record_failure(now_nanos, &error.to_string());
                false
            }
        }
    }

    /// Writes `due` into the manifest, unless there is a larger bound. Returns the bound; `None` after the end.
    fn write_reserved(&self, due: Epoch, has_ended: impl Fn() -> bool) -> Result<Option<Epoch>, DiskError> {
        let mut keeper = self.manifest();
        // The check is under the manifest's lock, for which a close waits: later the manifest may be another process's.
        if has_ended() {
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

    /// End of the reservation that a close needs if even its kept epochs are used (L6); `None` if no numbers are left.
    pub(crate) fn bound_for_close(&self) -> Option<Epoch> {
        let now = self.epochs().now();
        let end = reservation_end(now, 0);
        debug_assert!(end.is_none_or(|end| end > now), "L6: a close has epochs of its own");
        end
    }

    /// Reserves the epochs up to `to` for a close, and lets it use them, unless `has_ended` says that it has ended.
    pub(crate) fn reserve_for_close(&self, to: Epoch, has_ended: impl Fn() -> bool) -> Result<(), DiskError> {
        if let Some(due) = self.write_reserved(to, has_ended)? {
            let mut reserved_epochs = self.reserved_epochs.lock();
            reserved_epochs.record_renewal(due);
            let end = reserved_epochs.use_kept_epochs();
            assert!(self.epochs().now() <= end, "E is beyond what is reserved (L6)");
            self.epochs().set_limit(end);
            drop(reserved_epochs);
            debug_assert!(end <= self.manifest().manifest().reserved, "L6: {end} stands on disk");
        }
        Ok(())
    }

    /// Reason to refuse a commit that begins now, because its epoch might be the last reserved epoch.
    pub(crate) fn epochs_ended(&self) -> Option<Arc<str>> {
        self.reserved_epochs.lock().commit_refusal(self.epochs().now())
    }

    /// Lets E use the epochs that are kept for a close.
    pub(crate) fn use_kept_epochs(&self) {
        let mut reserved_epochs = self.reserved_epochs.lock();
        self.epochs().set_limit(reserved_epochs.use_kept_epochs());
    }
}
