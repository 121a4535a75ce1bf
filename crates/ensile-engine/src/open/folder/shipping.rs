//! Databases that ship finished files, and take-over by another machine from a shared store.
//!
//! Neighbours: `ensile_durability` ships and takes over. The `ensile` command calls [`take_over`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_disk::{Disk, RealDisk};
use ensile_durability::{DurabilityError, EntryKind, SharedStore, TakeOver, TakeOverReport};

use super::EntryFormCheck;
use crate::database::Database;
use crate::error::{Error, Result};

impl Database {
    /// Ships every commit so far to the shared store ([`Builder::ship_to`](crate::Builder::ship_to)). The call first
    /// waits until the commits are durable, and then at most `timeout` until the store has the commits. Another machine
    /// that takes over then has these commits. Returns the epoch up to which the store is complete.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the database does not ship, [`Error::Closed`]; [`Error::Storage`] if another machine has
    /// taken over, if the log has stopped, if shipping was cancelled, or after the timeout. After a timeout, shipping
    /// goes on.
    pub fn ship(&self, timeout: Duration) -> Result<Epoch> {
        let shared = self.shared();
        shared.life.check_open()?;
        match &shared.storage.shipping {
            Some(shipping) => Ok(shipping.ship(timeout)?),
            None => Err(Error::Misuse("nothing is shipped: open it with `Builder::ship_to`".to_owned())),
        }
    }

    /// Stops shipping until the next open. The call waits for nothing. From another thread, the call ends the wait of a
    /// close for a shared store that does not answer. Without a shared store the call does nothing.
    pub fn cancel_shipping(&self) {
        if let Some(shipping) = &self.shared().storage.shipping {
            shipping.cancel();
        }
    }
}

/// Takes over the database in this shared store ([`Builder::ship_to`](crate::Builder::ship_to)) into the folder
/// `target`. The folder must be empty or missing. Before the claim of the store, all files are fetched, compared and
/// read. From the claim on, the old machine ships nothing more. Once the old machine notices the claim, its log stops
/// by default ([`WhenFenced`](crate::folder::WhenFenced)).
///
/// The take-over follows a machine that goes on shipping. Files shipped after the reading began are fetched and
/// compared before the claim, and read after the claim. If the machine ships faster than this call fetches, the last
/// files are also fetched after the claim.
///
/// The report names the epoch at whose end the state is complete. The old machine's receipts with a larger epoch may be
/// lost. Open the folder with `ship_to` and the same store, so that a third machine can take over from this machine.
///
/// Repeat a killed take-over with the same folder. `bytes_per_second` limits fetching and reading up to the claim.
///
/// # Errors
/// [`Error::Storage`]: the store is unusable, an object in the store is damaged, the folder is not empty, or another
/// machine was faster. An error of damage names the object, and reports an existing claim. [`Error::Misuse`]: the store
/// has objects and no database, or `bytes_per_second` is 0.
pub fn take_over(
    store: &Arc<dyn SharedStore>,
    target: &Path,
    bytes_per_second: Option<u64>,
) -> Result<TakeOverReport> {
    if bytes_per_second == Some(0) {
        return Err(Error::Misuse("a take-over that may fetch 0 bytes a second never ends".to_owned()));
    }
    // The check comes before the folder is marked as a take-over's.
    if TakeOver::entries_in(&**store)? != EntryKind::Values {
        let detail =
            "the store has an application's objects, and no database: use `ensile objects take-over`";
        return Err(Error::Misuse(detail.to_owned()));
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_hidden(target).map_err(DurabilityError::from)?);
    let run = TakeOver::begin(store, &disk, bytes_per_second)?;
    Ok(run.finish(&EntryFormCheck, &Clock::machine())?)
}
