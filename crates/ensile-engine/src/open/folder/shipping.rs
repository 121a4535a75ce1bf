//! Databases that ship their finished files, and machines that take over from a shared store.
//!
//! Neighbours: `ensile_durability` ships and takes over; the `ensile` command calls [`take_over`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_disk::{Disk, RealDisk};
use ensile_durability::{DurabilityError, EntryKind, SharedStore, TakeOver, TakeOverReport};

use super::Framing;
use crate::database::Database;
use crate::error::{Error, Result};

impl Database {
    /// Brings all that is committed by now to the shared store ([`Builder::ship_to`](crate::Builder::ship_to)), and
    /// waits for that, at most for so long. Then another machine that takes over has all of it. The epoch up to which
    /// the store is complete.
    ///
    /// # Errors
    /// [`Error::Misuse`] where nothing is shipped, [`Error::Closed`]; [`Error::Durability`] where another machine has
    /// taken over, or when the time is over: it goes on.
    pub fn ship(&self, timeout: Duration) -> Result<Epoch> {
        let shared = self.shared();
        shared.check_open()?;
        match &shared.shipping {
            Some(shipping) => Ok(shipping.ship(timeout)?),
            None => Err(Error::Misuse("nothing is shipped: open it with `Builder::ship_to`".to_owned())),
        }
    }

    /// Ships nothing any more until the next open. It waits for nothing, and from another thread it ends the wait of a
    /// close for a shared store that does not answer. Without a shared store it does nothing.
    pub fn cancel_shipping(&self) {
        if let Some(shipping) = &self.shared().shipping {
            shipping.cancel();
        }
    }
}

/// Takes over the database that was shipped to this store ([`Builder::ship_to`](crate::Builder::ship_to)) into the
/// folder `target`, which is empty or not there. Everything is fetched, compared and read before the store is claimed.
/// From there on the machine that has shipped it ships nothing any more, and, once it notices, stops. One that ships
/// while this runs is followed: what it has shipped since the reading began is fetched and compared before the claim,
/// and read behind it. Where it ships faster than this fetches, it is fetched behind the claim too.
///
/// The report says up to the end of which epoch everything is there: a receipt of the other machine with a larger epoch
/// may be lost. Open the folder with `ship_to` and the same store, so that a third machine can take over from this one.
///
/// A run that is killed is run again, into the same folder. `bytes_per_second`: fetched and read at most, up to the
/// claim.
///
/// # Errors
/// [`Error::Durability`]: the store cannot be used, something in it is damaged (the error names it, and says
/// so if the store is claimed by then), the folder is not empty, or another machine was faster. [`Error::Misuse`]: it
/// has objects, and no database.
pub fn take_over(
    store: &Arc<dyn SharedStore>,
    target: &Path,
    bytes_per_second: Option<u64>,
) -> Result<TakeOverReport> {
    if bytes_per_second == Some(0) {
        return Err(Error::Misuse("a take-over that may fetch 0 bytes a second never ends".to_owned()));
    }
    // Before the folder is made that of a take-over.
    if TakeOver::entries_in(&**store)? != EntryKind::Values {
        let detail =
            "the store has an application's objects, and no database: use `ensile objects take-over`";
        return Err(Error::Misuse(detail.to_owned()));
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::hidden(target).map_err(DurabilityError::from)?);
    let run = TakeOver::begin(store, &disk, bytes_per_second)?;
    Ok(run.finish(&Framing, &Clock::machine())?)
}
