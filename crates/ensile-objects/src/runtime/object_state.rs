//! The state that a runtime walks and rebuilds.
//!
//! Neighbours: `collection` and `application` have the states.

use std::sync::Arc;

use ensile_durability::{Recoverable, Walk};

use super::watchdog::CallBackWatch;
use crate::apply_time::AppliedTime;
use crate::error::ObjectsResult as Result;

/// Objects that can be walked and rebuilt.
pub(crate) trait ObjectState: Recoverable + Walk + Send {
    /// Checks that the loaded and replayed objects are whole. The error is the fault.
    fn check_recovered(&self) -> Result<()>;

    /// Time to apply operations, from the open on.
    fn applied_time(&self) -> &Arc<AppliedTime>;

    /// Approximate time to apply operations at recovery, in nanoseconds.
    fn replayed_nanos(&self) -> u64;

    /// Watch over the call-backs of checkpoints; `None` for objects whose locks the library has.
    fn watch(&self) -> Option<&CallBackWatch> {
        None
    }

    /// Poisons an object whose change failed. A collection poisons its own objects.
    fn change_failed(&self, object: u64) {
        let _ = object;
    }

    /// Number of operations that recovery did not replay, because their object did not exist (O10).
    fn passed_over(&self) -> u64 {
        0
    }
}
