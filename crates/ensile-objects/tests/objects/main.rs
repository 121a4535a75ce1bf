//! Collections of persistent objects on a simulated disk: what calls do, what conditions say, and lives with power
//! cuts.
//!
//! Neighbours: `tally` has the objects, `rig` a life of them; `applications` is the floor form.
#![cfg(not(any(loom, shuttle)))]

mod applications;
mod backups;
mod call_backs;
mod calls;
mod conditions;
mod driven;
mod folders;
mod giving_way;
mod growing_keys;
mod guarded;
mod kept;
mod lives;
mod marked;
mod measured;
mod names;
mod poisoned;
mod policies;
mod rig;
mod serde;
mod shipping;
mod tally;
mod types;
mod unlogged;

use ensile_durability::DurabilityError;
use ensile_objects::ObjectsError;

/// What an error of the log, the disk or a folder comes from.
fn cause(error: &ObjectsError) -> Option<&DurabilityError> {
    match error {
        ObjectsError::Storage(error) => Some(error.cause()),
        _ => None,
    }
}
