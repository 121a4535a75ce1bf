//! Take-over of objects from a shared store by another machine.
//!
//! Neighbours: `ensile_durability::TakeOver` fetches, verifies and claims. `folder_check` reads entries without knowing
//! their types. `ensile objects take-over` calls [`take_over`].

use std::path::Path;
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_disk::{Disk, RealDisk};
use ensile_durability::{EntryKind, SharedStore, TakeOver, TakeOverReport};

use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::folder_check::verifier;

/// A shared store in a folder on several machines.
pub type SharedFolder = ensile_durability::SharedFolder<ObjectsError>;
/// A shared store in an object store.
#[cfg(feature = "object-store")]
pub type SharedObjects = ensile_durability::SharedObjects<ObjectsError>;

/// Takes over the objects in this shared store ([`ObjectsBuilder::ship_to`](crate::ObjectsBuilder::ship_to)) into the
/// folder `target`. The folder must be empty or missing. Before the claim of the store, all files are fetched, compared
/// and read. From the claim on, the old machine ships nothing more. Once the old machine notices the claim, its log
/// stops by default ([`WhenFenced`](crate::WhenFenced)).
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
/// [`ObjectsError::Storage`]: the store is unusable, an object in the store is damaged, the folder is not empty, or
/// another machine was faster. [`ObjectsError::Misuse`]: the store has a database and no objects, or
/// `bytes_per_second` is 0. An error of damage names the object, and reports an existing claim.
pub fn take_over(
    store: &Arc<dyn SharedStore>,
    target: &Path,
    bytes_per_second: Option<u64>,
) -> Result<TakeOverReport> {
    if bytes_per_second == Some(0) {
        return Err(ObjectsError::Misuse("a take-over that may fetch 0 bytes a second never ends".into()));
    }
    // The check comes before the folder is marked as a take-over's.
    if TakeOver::entries_in(&**store)? != EntryKind::Operations {
        let why = "the store has a database, and no objects: use `ensile take-over`";
        return Err(ObjectsError::Misuse(why.into()));
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_hidden(target)?);
    let take_over = TakeOver::begin(store, &disk, bytes_per_second)?;
    Ok(take_over.finish(&verifier(), &Clock::machine())?)
}
