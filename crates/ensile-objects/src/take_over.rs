//! Another machine takes over objects from a shared store.
//!
//! Neighbours: `ensile_durability::TakeOver` fetches, verifies and claims; `judge` takes entries apart without knowing
//! their types; `ensile objects take-over` calls this.

use std::path::Path;
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_disk::{Disk, RealDisk};
use ensile_durability::{DurabilityError, EntryKind, SharedStore, TakeOver, TakeOverReport};

use crate::error::ObjectsResult as Result;
use crate::judge::verifier;

/// Takes over the objects that were shipped to this store ([`ObjectsBuilder::ship_to`](crate::ObjectsBuilder::ship_to))
/// into the folder `target`, which is empty or not there. Everything is fetched, compared and read before the store is
/// claimed. From there on the machine that has shipped them ships nothing any more, and, once it notices, stops. One
/// that ships while this runs is followed: what it has shipped since the reading began is fetched and compared before
/// the claim, and read behind it. Where it ships faster than this fetches, it is fetched behind the claim too.
///
/// The report says up to the end of which epoch everything is there: a receipt of the other machine with a larger epoch
/// may be lost. Open the folder with `ship_to` and the same store, so that a third machine can take over from this one.
///
/// A run that is killed is run again, into the same folder. `bytes_per_second`: fetched and read at most, up to the
/// claim.
///
/// # Errors
/// [`ObjectsError::Durability`](crate::ObjectsError::Durability): the store cannot be used, something in it is damaged
/// (the error names it, and says so if the store is claimed by then), it has a database and no objects, the folder is
/// not empty, or another machine was faster.
pub fn take_over(
    store: &Arc<dyn SharedStore>,
    target: &Path,
    bytes_per_second: Option<u64>,
) -> Result<TakeOverReport> {
    if bytes_per_second == Some(0) {
        return Err(
            DurabilityError::Config("a take-over that may fetch 0 bytes a second never ends".into()).into()
        );
    }
    // Before the folder is made that of a take-over.
    if TakeOver::entries_in(&**store)? != EntryKind::Operations {
        return Err(DurabilityError::Config(
            "the store has a database, and no objects: use `ensile take-over`".into(),
        )
        .into());
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::hidden(target)?);
    let take_over = TakeOver::begin(store, &disk, bytes_per_second)?;
    Ok(take_over.finish(&verifier(), &Clock::machine())?)
}
