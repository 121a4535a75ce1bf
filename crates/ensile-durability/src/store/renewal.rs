//! Epochs are reserved in the manifest before they are used.
//!
//! Invariant: L6: E's limit moves only once the manifest that reserves more stands on disk.
//!
//! Neighbours: `reserved_epochs` decides; the log steps it on a thread that no caller waits for, and needs a few epochs
//! at a close.

use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::DiskError;

use super::handle::OpenStore;
use super::manifest::{Manifest, NotReplaced};

impl OpenStore {
    /// Reserves more epochs when half of them are used (L6). True if E may go further since. Nothing is written once
    /// `has_ended` says that the database has.
    pub(crate) fn renew_epochs(&self, has_ended: impl Fn() -> bool) -> bool {
        let (epochs, now_nanos) = (self.epochs(), self.clock().nanos());
        let Some(due) = self.reserved_epochs.lock().due(now_nanos, epochs.now()) else { return false };
        match self.write_reserved(due, has_ended) {
            Ok(None) => false,
            Ok(Some(due)) => {
                let mut reserved_epochs = self.reserved_epochs.lock();
                reserved_epochs.renewed(due);
                assert!(reserved_epochs.limit() <= due, "E may go beyond what is reserved (L6)");
                epochs.set_limit(reserved_epochs.limit());
                true
            }
            Err(error) => {
                // Whichever of the two stands, E stays below what was reserved before.
                self.reserved_epochs.lock().failed(now_nanos, &error.to_string());
                false
            }
        }
    }

    /// Puts this bound into the manifest, unless a larger one stands there by now; the bound that stands. `None` once
    /// the database has ended: nothing was written, and E's limit stays (L6).
    fn write_reserved(&self, due: Epoch, has_ended: impl Fn() -> bool) -> Result<Option<Epoch>, DiskError> {
        let mut keeper = self.manifest();
        // Under this lock, for which a close waits: afterwards the manifest may be another's.
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

    /// The bound that a close needs, where even the epochs that are kept for it are used (L6); `None` if there are no
    /// more.
    pub(crate) fn bound_for_close(&self) -> Option<Epoch> {
        self.reserved_epochs.lock().for_close(self.epochs().now())
    }

    /// Reserves up to this bound for a close, which may use all of it. A close that has ended meanwhile reserves none.
    pub(crate) fn reserve_for_close(
        &self,
        due: Epoch,
        has_ended: impl Fn() -> bool,
    ) -> Result<(), DiskError> {
        if let Some(due) = self.write_reserved(due, has_ended)? {
            self.reserved_epochs.lock().renewed(due);
            assert!(self.epochs().now() <= due, "E is beyond what is reserved (L6)");
            self.epochs().set_limit(due);
        }
        Ok(())
    }

    /// Why a commit that begins now is to be refused, if its epoch might be the last.
    pub(crate) fn epochs_ended(&self) -> Option<Arc<str>> {
        self.reserved_epochs.lock().ended(self.epochs().now())
    }

    /// Lets E use what is kept for a close.
    pub(crate) fn use_kept_epochs(&self) {
        self.epochs().set_limit(self.reserved_epochs.lock().end());
    }
}
