//! The call-backs that an application implements (SLACH §3.2).
//!
//! Neighbours: `called_application`, `walk` and `recovery` call; [`ObjectWriter`] takes the bytes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::panic_text;
use ensile_durability::UserCode;

use super::object_writer::ObjectWriter;
use crate::format::no_up_cast;

/// Result of a call-back of a recovery: nothing, or the fault. A fault fails the open.
pub type CallBackResult = Result<(), Box<str>>;

/// An application that keeps its own objects, each with a number below `u64::MAX` (SLACH §3.2).
///
/// # Discipline
/// Each object has a guard, a lock of the application. The application holds the guard over the call of
/// [`ApplicationLog::log`](crate::ApplicationLog::log) *and* the change behind it, and over the encoding of an object
/// *and* its [`ObjectWriter::ckpt`]. Without the guard, a checkpoint may have an object without an operation that the
/// object's TID includes, and the operation is lost. [`checkpoint`](Self::checkpoint) must be able to find an object
/// before the object's first operation is logged, or a guard must keep the call-back from passing the object.
///
/// Operations are deterministic, and depend on their own object only.
///
/// The call-backs call no handle, neither of objects nor of a database: such a call returns
/// [`InCallBack`](crate::ObjectsError::InCallBack) and changes nothing.
///
/// # Objects that come and go
/// A checkpoint may come after an object's removal, and lack the object, while the log still has operations from before
/// the removal. If the application [marks lives](crate::ObjectsBuilder::mark_lives), recovery passes these operations
/// over. Otherwise recovery replays these operations on a missing object, unless [`ObjectWriter::absent`] reported the
/// absence: [`replay_one`](Self::replay_one) must accept such an operation, and a removal must not depend
/// on the object's state.
///
/// # A change that fails after its log entry
/// Such a change leaves a logged operation that the object lacks. A recovery applies the operation. A checkpoint that
/// takes the object before a recovery loses the operation for good, because the entry has the operation's TID.
/// [`ApplicationLog::change`](crate::ApplicationLog::change) makes the change itself: if the change panics, the object
/// is poisoned, and no checkpoint is made until the next open, which applies the operation. With
/// [`ApplicationLog::log`](crate::ApplicationLog::log) alone, the application runs steps that can fail before the call,
/// or calls [`ApplicationLog::poison`](crate::ApplicationLog::poison) after a failure.
///
/// The application must show a poisoned object to nobody
/// ([`ApplicationLog::is_poisoned`](crate::ApplicationLog::is_poisoned)). A replay that fails or panics fails the open;
/// with [`open_poisoned`](crate::ObjectsBuilder::open_poisoned) the replay poisons its object, and the open goes on.
/// The guards of [`GuardedObjects`](crate::GuardedObjects) drop and refuse a poisoned object by themselves.
///
/// # Versions
/// [`version`](Self::version) is written with every object and operation. Bytes of an older program go to
/// [`load_older`](Self::load_older) and [`replay_older`](Self::replay_older); bytes of a newer program are an error
/// with file and offset, before anything is served.
pub trait Application: Send + Sync + 'static {
    /// Version of everything that this application writes: its objects' bytes, the numbers of its operations and their
    /// parameters. Raise the version when one of these changes. The method is called once, at open.
    fn version(&self) -> u16 {
        0
    }

    /// Writes a checkpoint of the application's selected objects with this number or a larger number, in the order of
    /// numbers, each by [`ObjectWriter::ckpt`] under its guard. When `ckpt` reports no more room, returns the number to
    /// go on from; `None` after the last object. [`ObjectWriter::refuse`] gives the checkpoint up.
    ///
    /// The method is called for a slice of the numbers at a time ([`slice_starts`](Self::slice_starts)), from several
    /// threads if there are several slices and checkpointers. The method need not know the end of a slice: the writer
    /// takes no object after the end, and reports no more room.
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64>;

    /// Numbers of objects, ascending, at which a new slice of a checkpoint begins. `parts` slices occupy `parts`
    /// threads, the number of [checkpointers](crate::ObjectsBuilder::checkpointers). Slices of equal duration are best.
    /// By default a single slice is written by a single thread, for any number of checkpointers. The method is called
    /// when a checkpoint begins; more slices than `parts`, and fewer, are written too.
    ///
    /// ```
    /// // Objects with the numbers 0 to 999,999, whose bytes are about as long as each other.
    /// fn slice_starts(parts: usize) -> Vec<u64> {
    ///     (1..parts as u64).map(|part| part * 1_000_000 / parts as u64).collect()
    /// }
    /// assert_eq!(slice_starts(4), [250_000, 500_000, 750_000]);
    /// ```
    fn slice_starts(&self, parts: usize) -> Vec<u64> {
        let _ = parts;
        Vec::new()
    }

    /// Loads an object from its bytes in a checkpoint. Several threads call, once for every object.
    ///
    /// # Errors
    /// The fault of the bytes: the open fails.
    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult;

    /// Replays a logged operation on an object, with the list of parameters. Several threads call; an object's
    /// operations come in order, one at a time.
    ///
    /// # Errors
    /// The fault of the operation: the open fails.
    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult;

    /// As [`load_one`](Self::load_one), from bytes of an older version, which become an object of today (an up-cast).
    ///
    /// # Errors
    /// The fault of the bytes; by default, that no up-cast exists. The open fails.
    fn load_older(&self, version: u16, object: u64, bytes: &[u8]) -> CallBackResult {
        let _ = (object, bytes);
        Err(no_up_cast(version, self.version()))
    }

    /// As [`replay_one`](Self::replay_one), for an operation of an older version, with the effect of that version.
    ///
    /// # Errors
    /// The fault of the operation; by default, that no up-cast exists. The open fails.
    fn replay_older(
        &self,
        version: u16,
        object: u64,
        operation: u32,
        parameters: &[&[u8]],
    ) -> CallBackResult {
        let _ = (object, operation, parameters);
        Err(no_up_cast(version, self.version()))
    }
}

const PANICKED: &str = "the call-back panicked";

/// Calls back, and turns a panic into an error. The call-back calls no handle (O8).
pub(super) fn called_back(call: impl FnOnce() -> CallBackResult) -> CallBackResult {
    let _user_code = UserCode::begin();
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        Err(panic_text(&*panic).map_or_else(|| PANICKED.into(), |said| format!("{PANICKED}: {said}").into()))
    })
}
