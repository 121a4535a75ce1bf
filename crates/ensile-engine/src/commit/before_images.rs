//! Before-images: the values that a commit replaces, written into its log entry beside the new values.
//!
//! Invariants:
//! - A before-image is the value that the transaction replaced in the serial order. The value is read under the
//!   record's lock, once the commit is certain and before any install.
//! - E1: Log space is reserved before binding, when the length that the lock will find is unknown. So a guess is
//!   reserved. If the guess is too small, the commit releases everything, reserves the most that the records can hold,
//!   and runs again. A locked record is the latest of its key (C2) and never outgrows its capacity (C5), so the second
//!   room suffices.
//! - An entry is too large only by the values that the locks found, never by a guess.
//!
//! Neighbours: `prepare`, `validation` and `install` call these functions, if the database records before-images at
//! all.

use ensile_base::Tid;
use ensile_base::limits::TRANSACTION_BYTES_MAX;
use ensile_epoch::Pinned;

use super::Commit;
use crate::error::{Error, Result};
use crate::formats::log_entry::{self, Image};
use crate::record::Record;
use crate::sets::Sets;
use crate::sets::write_set::{Write, WriteKind};
use crate::tables::is_logged;

/// Reserves log space for an entry of `bytes` bytes without before-images, and for the values' present lengths, read
/// before the locks.
#[inline(never)]
pub(super) fn reserve(commit: &mut Commit<'_, '_>, bytes: usize) -> Result<()> {
    debug_assert!(commit.shared.settings.before_images, "only then the log has before-images");
    let logged = logged_writes(commit.sets).count();
    debug_assert!(logged > 0 && bytes >= logged * log_entry::bytes(0, 0), "each logged write has its header");
    let room = &mut commit.worker.images;
    room.entry_bytes = bytes + logged * log_entry::image_bytes(0);
    room.fell_short = false;
    let seen = |record: Record<'_>| if record.word().is_absent() { 0 } else { record.length() };
    let values = sum(commit.sets, seen, commit.pinned);
    reserve_for(commit, values)
}

/// Reserves log space for the longest values that the records can hold, after a commit with too little room.
#[cold]
pub(super) fn reserve_again(commit: &mut Commit<'_, '_>) -> Result<()> {
    debug_assert!(commit.worker.images.entry_bytes > 0, "a commit reserves a guess first");
    let values = sum(commit.sets, |record| record.capacity(), commit.pinned);
    reserve_for(commit, values)
}

/// Reserves log space for the entry and for `values` bytes of replaced values, up to the largest length of an entry.
fn reserve_for(commit: &mut Commit<'_, '_>, values: usize) -> Result<()> {
    debug_assert!(
        commit.worker.commit.slot().bound_epoch().is_none(),
        "log space is waited for before binding (E1)"
    );
    let room = &mut commit.worker.images;
    room.bytes = values.min(TRANSACTION_BYTES_MAX.saturating_sub(room.entry_bytes));
    let bytes = room.entry_bytes + room.bytes;
    debug_assert!(
        bytes <= TRANSACTION_BYTES_MAX.max(room.entry_bytes),
        "a guess asks for no more than an entry may take"
    );
    commit.reserve_log(bytes)
}

/// Checks, under the locks, that the present values fit the reserved room. Otherwise the commit runs again with more
/// room, or fails because its entry is too large.
#[inline(never)]
pub(super) fn check<'p>(commit: &mut Commit<'_, 'p>) -> Result<()> {
    let Commit { worker, sets, pinned, .. } = commit;
    let replaced =
        |write: &Write<'p>| if write.before.is_absent() { 0 } else { write.record_at(*pinned).length() };
    let values: usize = logged_writes(sets).map(replaced).sum();
    if values <= worker.images.bytes {
        return Ok(());
    }
    let bytes = worker.images.entry_bytes + values;
    if bytes > TRANSACTION_BYTES_MAX {
        let what = "the transaction's log entry with its before-images";
        return Err(Error::TooLarge { what, bytes, bytes_max: TRANSACTION_BYTES_MAX });
    }
    worker.images.fell_short = true;
    Err(Error::Conflict)
}

/// Appends the log entry, from the write-set and the locked records.
#[inline(never)]
pub(super) fn append(commit: &mut Commit<'_, '_>, tid: Tid) {
    let Commit { shared, worker, sets, pinned, .. } = commit;
    debug_assert!(worker.commit.slot().bound_epoch().is_some(), "old values are read under the locks");
    let Some(appender) = &mut worker.appender else { return };
    let changes = |write: &&Write<'_>| write.kind == WriteKind::Put || !write.before.is_absent();
    if !logged_writes(sets).any(|write| changes(&write)) {
        return;
    }
    let reserved = worker.images.entry_bytes + worker.images.bytes;
    appender.append(tid, |out| {
        let before = out.len();
        for write in
            logged_writes(sets).filter(|write| shared.settings.switches.logs_data() && changes(write))
        {
            let value = (write.kind == WriteKind::Put).then(|| sets.writes.value(write));
            let replaced = (!write.before.is_absent()).then(|| write.record_at(*pinned));
            let image = replaced.map_or(Image::Absent, |record| Image::Bytes(record.length()));
            log_entry::encode(out, write.table, sets.writes.key(write), value, image);
            if let Some(record) = replaced {
                record.append_locked(out);
            }
        }
        debug_assert!(out.len() - before <= reserved, "the entry fits what was reserved (E1)");
    });
}

/// The writes of logged tables that have a record. A delete of a missing key has no record, and is not logged.
fn logged_writes<'s, 'p>(sets: &'s Sets<'p>) -> impl Iterator<Item = &'s Write<'p>> {
    sets.writes.entries.iter().filter(|write| write.record.is_some() && is_logged(write.table))
}

/// The sum of `of`, a length in bytes, over the records of the logged writes.
fn sum<'p>(sets: &Sets<'p>, of: impl Fn(Record<'p>) -> usize, pinned: Pinned<'p>) -> usize {
    logged_writes(sets).map(|write| of(write.record_at(pinned))).sum()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
