//! The commit protocol (Silo §4.4, figure 2), as a table of contents.
//!
//! Invariants, each from `docs/protocols/commit.md`:
//! - E1: between bind and unbind nothing waits (but for record locks), fails for lack of something, or runs user code:
//!   placeholders, memory and log space are obtained before, garbage is registered after.
//! - C1: lock all, fence, read E, fence, validate; a read-only commit fences once before validating.
//! - C2: every write-set record is the latest of its key once locked.
//! - C3: placeholders are in the index before binding.
//! - S1, K3: a version that a snapshot boundary needs is preserved before the new TID is stored.
//! - Before-images, if asked for, are read between validation and installing, under the locks (`images`).
//!
//! Neighbours: up, `transaction` hands its sets over; down, records, the index and the log's appender.

mod images;

use ensile_base::sync::{Ordering, fence, fence_after_exchange, fence_after_loads};
use ensile_base::{Epoch, Tid};
use ensile_epoch::{Epochs, Pinned};
use ensile_index::{Insert, Lookup};

use crate::database::Core;
use crate::error::{Error, Result};
use crate::formats::log_entry::{self, Image};
use crate::garbage::Unhook;
use crate::record::version_page::VersionPage;
use crate::record::word::Word;
use crate::record::{Handle, Record};
use crate::sets::context::{Read, Sets};
use crate::sets::node_set::NodeSet;
use crate::sets::write_set::{Arena, Expect, Kind, Outcome, Write};
use crate::tables::is_logged;
use crate::worker::Worker;

pub(crate) use images::Images;

/// What a commit was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) tid: Tid,
    /// The result may be shown once this epoch is durable (R1).
    pub(crate) epoch: Epoch,
}

/// Commits a transaction that wrote nothing.
#[inline(always)]
pub(crate) fn commit_reads(
    core: &Core,
    worker: &mut Worker,
    sets: &Sets,
    pinned: Pinned<'_>,
) -> Result<Committed> {
    let committed = commit_read_only(sets, pinned);
    worker.count(committed.is_ok());
    worker.collect_now_and_then(core, pinned);
    committed
}

/// Commits the transaction's sets, or leaves nothing of it but placeholders that cleanup takes away.
#[inline(never)]
pub(crate) fn commit_writes(
    core: &Core,
    worker: &mut Worker,
    sets: &mut Sets,
    pinned: Pinned<'_>,
) -> Result<Committed> {
    let committed = attempt(core, worker, sets, pinned);
    worker.count(committed.is_ok());
    worker.collect(core, sets.writes.entries.len(), pinned);
    committed
}

/// A read-only transaction: validated where it stands, no lock, no TID of its own (R1).
#[inline]
pub(crate) fn commit_read_only(sets: &Sets, pinned: Pinned<'_>) -> Result<Committed> {
    // One read, or one witnessed leaf, was consistent by itself at the moment it was read: that is its serialization
    // point, and there is nothing to validate it against.
    if sets.reads.len() + sets.nodes.len() > 1 {
        // The reads come before the validation (C1); partner: the fences of writers' commits.
        fence_after_loads();
        let unchanged = sets.reads.iter().all(|read| read.record.at(pinned).word() == read.word);
        if !unchanged || !sets.nodes.holds(pinned) {
            return Err(Error::Conflict);
        }
    }
    let tid = sets.reads.iter().map(|read| read.word.tid()).max().unwrap_or(Tid::ZERO);
    Ok(Committed { tid, epoch: tid.epoch() })
}

#[inline(always)]
fn attempt(core: &Core, worker: &mut Worker, sets: &mut Sets, pinned: Pinned<'_>) -> Result<Committed> {
    let page = worker.blocks.page();
    let mut committed = prepare(core, worker, sets, pinned).and_then(|()| bound(core, worker, sets, pinned));
    if committed.is_err() && worker.images.fell_short() {
        committed =
            images::reserve_again(worker, sets, pinned).and_then(|()| bound(core, worker, sets, pinned));
    }
    if worker.sequence_is_full {
        // E5: the next attempt needs a new epoch, and not at the next beat.
        worker.sequence_is_full = false;
        let _ = core.epochs.try_advance(core.clock.nanos());
    }
    match &committed {
        Ok(committed) => register_garbage(core, worker, sets, *committed, pinned),
        Err(_) => abandon(core, worker, sets, page),
    }
    committed
}

/// The critical section: from binding to unbinding (E1).
fn bound(core: &Core, worker: &mut Worker, sets: &mut Sets, pinned: Pinned<'_>) -> Result<Committed> {
    let whole = WholeOrAbort;
    worker.commit.bind(core.epochs.now());
    let committed = lock(worker, sets, pinned).and_then(|()| {
        let epoch = serialization_point(&core.epochs, !worker.order.is_empty());
        let boundary = core.snapshot_boundary(epoch);
        // `close` waits for the commits that have not seen its mark by now, and only for them.
        let chosen = core
            .check_not_closed()
            .and_then(|()| validate(worker, sets, pinned))
            .and_then(|()| check_room(worker, sets, boundary, pinned))
            .and_then(|()| if core.before_images { images::check(worker, sets, pinned) } else { Ok(()) })
            .and_then(|()| choose_tid(core, worker, sets, epoch));
        match chosen {
            Ok(tid) => {
                if core.before_images {
                    images::append(core, worker, sets, tid, pinned);
                }
                install(core, worker, sets, tid, boundary, pinned);
                if !core.before_images {
                    append(core, worker, sets, tid);
                }
                Ok(Committed { tid, epoch })
            }
            Err(error) => {
                unlock_all(worker, sets, worker.order.len(), pinned);
                Err(error)
            }
        }
    });
    // The buffer first: unbinding is the commit's last step (E1), and the logger may take the entry from then on.
    if let Some(appender) = &mut worker.appender {
        appender.release();
    }
    worker.commit.unbind();
    std::mem::forget(whole);
    committed
}

/// The epoch of a commit, read between its locks and its validation: where it stands in the serial order (§4.4).
#[inline]
pub(crate) fn serialization_point(epochs: &Epochs, has_locked: bool) -> Epoch {
    // The locks come before E is read, and E before the validation (C1); partner: the same two fences of every other
    // commit. What is installed later stays behind the first one too (C5). The last lock was an exchange, but a
    // write-set of deletes of missing keys has taken none.
    if !has_locked {
        // SeqCst: the binding comes before E is read (E2).
        fence(Ordering::SeqCst);
    }
    fence_after_exchange();
    let epoch = epochs.now();
    fence_after_loads();
    epoch
}

/// Ends the process if a commit is left half-way: an invariant of ours is broken, some records carry the new TID and
/// others a lock, and serving either would be worse than recovering what is durable.
struct WholeOrAbort;

impl Drop for WholeOrAbort {
    fn drop(&mut self) {
        // Under shuttle the panic itself is told, and nothing is served after it.
        if !cfg!(shuttle) {
            std::process::abort();
        }
    }
}

/// Gives every write-set entry its record (C3), and obtains memory and log space for all of it, before anything is
/// bound or locked (E1).
fn prepare(core: &Core, worker: &mut Worker, sets: &mut Sets, pinned: Pinned<'_>) -> Result<()> {
    // A boundary may be published between this guess and the commit's epoch; `check_room` then sends us back.
    let boundary = core.snapshot_boundary(core.epochs.now());
    let logging = worker.appender.is_some();
    if !logging && core.read_only.is_some() {
        return Err(core.refusal_to_write());
    }
    let Sets { nodes, writes, .. } = sets;
    let (entries, arena) = writes.parts();
    // In a turn of its own: records that are found here are on their way from memory while others are looked for.
    for write in entries.iter_mut().filter(|write| write.record.is_none()) {
        place(core, worker, nodes, write, arena, pinned)?;
    }
    worker.order.clear();
    let mut log_bytes = 0;
    for (at, write) in entries.iter_mut().enumerate() {
        let Some(record) = write.record else { continue };
        worker.order.push(at as u32);
        reserve(core, worker, write, record.at(pinned), arena, boundary);
        if logging && is_logged(write.table) {
            log_bytes += log_entry::bytes(arena.key(write).len(), arena.value(write).len());
        }
    }
    // Any global order avoids deadlock; addresses are one (§4.4).
    worker.order.sort_unstable_by_key(|at| entries[*at as usize].record);
    if log_bytes == 0 {
        return Ok(());
    }
    if core.before_images {
        return images::reserve(worker, sets, log_bytes, pinned);
    }
    reserve_log(worker, log_bytes)
}

/// Room for the log entry (E1).
#[inline]
fn reserve_log(worker: &mut Worker, bytes: usize) -> Result<()> {
    match &mut worker.appender {
        Some(appender) => Ok(appender.reserve(bytes)?),
        None => Ok(()),
    }
}

/// Finds the record of an entry's key in the index, and puts a placeholder there if the key is missing (C3, §4.5). A
/// delete of a missing key has none: it depends on the leaf instead.
fn place(
    core: &Core,
    worker: &mut Worker,
    nodes: &mut NodeSet,
    write: &mut Write,
    arena: Arena<'_>,
    pinned: Pinned<'_>,
) -> Result<()> {
    let table = core.table(write.table);
    let key = arena.key(write);
    if write.kind == Kind::Delete {
        match table.tree.get(key, pinned) {
            Lookup::Found(value) => write.record = Some(Handle::from_value(value)),
            Lookup::Missing(witness) => nodes.push(witness),
        }
        return Ok(());
    }
    let placeholder = worker.blocks.placeholder(arena.value(write).len());
    worker.changes.clear();
    let (mut memory, changes) = worker.nodes(core);
    match table.tree.insert_if_absent(key, placeholder.value(), &mut memory, changes, pinned) {
        Insert::Inserted => {
            write.record = Some(placeholder);
            write.placed = true;
            nodes.bless(&worker.changes)
        }
        Insert::Exists(value) => {
            worker.blocks.destroy(placeholder);
            let record = Handle::from_value(value);
            record.prefetch(crate::record::HEADER_BYTES);
            write.record = Some(record);
            Ok(())
        }
    }
}

/// Obtains what installing the entry will need: a replacement, or room to preserve the present version.
#[inline]
fn reserve(
    core: &Core,
    worker: &mut Worker,
    write: &mut Write,
    record: Record<'_>,
    arena: Arena<'_>,
    boundary: Epoch,
) {
    let (word, value) = (record.word(), arena.value(write));
    let in_place = core.switches.overwrites() || write.placed;
    if write.kind == Kind::Put && !(in_place && write.may_overwrite(word) && record.fits(value.len())) {
        write.replacement = Some(worker.blocks.filled(value, word));
    } else if !word.is_absent() && word.epoch() < boundary {
        write.aside = Some(worker.blocks.version(record.class()));
    }
}

/// Phase 1: locks the write-set in order, and checks what must hold of it (C2).
#[inline]
fn lock(worker: &Worker, sets: &mut Sets, pinned: Pinned<'_>) -> Result<()> {
    for (locked, at) in worker.order.iter().enumerate() {
        let write = &mut sets.writes.entries[*at as usize];
        let record = write.record_at(pinned);
        let before = record.lock();
        write.before = before;
        let expected = write.expect == Expect::Anything || before.is_absent();
        if !(before.is_latest() && expected) {
            unlock_all(worker, sets, locked + 1, pinned);
            return Err(Error::Conflict);
        }
    }
    Ok(())
}

/// Puts back the words of the first `locked` records in lock order.
fn unlock_all(worker: &Worker, sets: &Sets, locked: usize, pinned: Pinned<'_>) {
    for at in &worker.order[..locked] {
        let write = &sets.writes.entries[*at as usize];
        write.record_at(pinned).unlock_with(write.before);
    }
}

/// Phase 2: the read-set and the node-set are as they were seen, and nobody else is changing them.
#[inline]
fn validate(worker: &Worker, sets: &Sets, pinned: Pinned<'_>) -> Result<()> {
    let own = |record: Handle| {
        let entries = &sets.writes.entries;
        if let [only] = entries.as_slice() {
            return only.record == Some(record);
        }
        worker.order.binary_search_by_key(&Some(record), |at| entries[*at as usize].record).is_ok()
    };
    for Read { record, word } in &sets.reads {
        let now = record.at(pinned).word();
        // What was read and is written now is locked, by us.
        if !(now == *word || now.unlocked() == *word && own(*record)) {
            return Err(Error::Conflict);
        }
    }
    if sets.nodes.holds(pinned) { Ok(()) } else { Err(Error::Conflict) }
}

/// Whether what `reserve` obtained suffices for what the locks found. If not, the caller runs again.
#[inline]
fn check_room(worker: &Worker, sets: &Sets, boundary: Epoch, pinned: Pinned<'_>) -> Result<()> {
    for at in &worker.order {
        let write = &sets.writes.entries[*at as usize];
        if write.replacement.is_some() || write.before.is_absent() && write.kind == Kind::Delete {
            continue;
        }
        let bytes = sets.writes.value(write).len();
        let in_place = write.kind == Kind::Delete
            || write.may_overwrite(write.before) && write.record_at(pinned).fits(bytes);
        if !in_place || (write.aside.is_none() && write.must_preserve(boundary)) {
            return Err(Error::Conflict);
        }
    }
    Ok(())
}

/// The smallest TID of `epoch` above everything read, overwritten, or chosen before by this worker (§4.2).
#[inline]
fn choose_tid(core: &Core, worker: &mut Worker, sets: &Sets, epoch: Epoch) -> Result<Tid> {
    let mut largest = worker.last_tid;
    for read in &sets.reads {
        largest = largest.max(read.word.tid());
    }
    for write in &sets.writes.entries {
        largest = largest.max(write.before.tid());
    }
    debug_assert!(largest.epoch() <= epoch, "whoever committed what was seen read E before we did");
    let own = if largest.epoch() < epoch { Some(Tid::first_of(epoch)) } else { largest.successor() };
    let Some(tid) = core.switches.shared_tid(epoch, largest).or(own) else {
        worker.sequence_is_full = true;
        return Err(Error::Conflict);
    };
    assert!(tid > largest && tid.epoch() == epoch, "TIDs grow, and tell the epoch of their commit (E5)");
    worker.last_tid = tid;
    Ok(tid)
}

/// Phase 3: installs every write and releases its lock.
#[inline]
fn install(core: &Core, worker: &Worker, sets: &mut Sets, tid: Tid, boundary: Epoch, pinned: Pinned<'_>) {
    let (entries, arena) = sets.writes.parts();
    for at in &worker.order {
        let write = &mut entries[*at as usize];
        write.outcome = match write.kind {
            Kind::Put if write.replacement.is_some() => {
                replace(core, worker, write, arena, tid, boundary, pinned)
            }
            Kind::Put => {
                let preserved = preserve(write, boundary, pinned);
                let record = write.record_at(pinned);
                record.overwrite(arena.value(write));
                record.unlock_with(Word::written(tid));
                Outcome::InPlace { preserved }
            }
            Kind::Delete if write.before.is_absent() => {
                write.record_at(pinned).unlock_with(write.before);
                Outcome::Untouched
            }
            Kind::Delete => {
                let preserved = preserve(write, boundary, pinned);
                write.record_at(pinned).unlock_with(Word::deleted(tid));
                Outcome::Deleted { preserved }
            }
        };
    }
}

/// Copies the present version aside if a snapshot needs it (§4.9, K3).
#[inline]
fn preserve(write: &Write, boundary: Epoch, pinned: Pinned<'_>) -> bool {
    if !write.must_preserve(boundary) {
        return false;
    }
    let Some(aside) = write.aside else { unreachable!("check_room saw to it") };
    write.record_at(pinned).preserve(write.before, aside.at(pinned));
    true
}

/// Publishes a new record in the old one's place, which becomes a version or garbage (§4.5).
fn replace(
    core: &Core,
    worker: &Worker,
    write: &Write,
    arena: Arena<'_>,
    tid: Tid,
    boundary: Epoch,
    pinned: Pinned<'_>,
) -> Outcome {
    let Some(new) = write.replacement else { unreachable!("asked by the caller") };
    let old = write.record_at(pinned);
    let kept = write.must_preserve(boundary);
    let previous = if kept { Some(old.handle()) } else { old.previous_handle() };
    worker.blocks.finish(new, Word::written(tid), previous);
    let tree = &core.table(write.table).tree;
    let replaced = tree.replace(arena.key(write), old.handle().value(), new.value(), pinned);
    assert!(replaced, "the index maps a key to its latest record");
    old.unlock_with(write.before.superseded());
    Outcome::Replaced { kept }
}

/// The log entry, built from the write-set and never re-read from records (E1).
#[inline]
fn append(core: &Core, worker: &mut Worker, sets: &mut Sets, tid: Tid) {
    let Some(appender) = &mut worker.appender else { return };
    let (entries, arena) = sets.writes.parts();
    let logged = |write: &&Write| write.outcome != Outcome::Untouched && is_logged(write.table);
    if !entries.iter().any(|write| logged(&write)) {
        return;
    }
    appender.append(tid, |out| {
        for write in entries.iter().filter(|write| core.switches.logs_data() && logged(write)) {
            let put = write.kind == Kind::Put;
            if let Some((key, both)) = put.then(|| arena.key_and_value(write)).flatten() {
                log_entry::encode_together(out, write.table, key, both);
                continue;
            }
            let value = put.then(|| arena.value(write));
            log_entry::encode(out, write.table, arena.key(write), value, Image::NotRecorded);
        }
    });
}

/// After unbinding: what the commit left behind, and what it reserved and did not use (§4.8).
fn register_garbage(core: &Core, worker: &mut Worker, sets: &mut Sets, done: Committed, pinned: Pinned<'_>) {
    worker.retire_full_pages(done.epoch);
    let (entries, arena) = sets.writes.parts();
    for write in entries.iter() {
        let preserved = matches!(
            write.outcome,
            Outcome::InPlace { preserved: true } | Outcome::Deleted { preserved: true }
        );
        match write.aside {
            Some(aside) if preserved => {
                if let Some(bytes) = worker.blocks.bytes_of_own_block(aside) {
                    worker.garbage.version(done.epoch, aside, bytes);
                }
            }
            Some(unused) => worker.blocks.unused_version(unused),
            None => {}
        }
        match write.outcome {
            Outcome::InPlace { .. } => continue,
            Outcome::Replaced { kept } => retire_replaced(core, worker, write, kept, done.epoch, pinned),
            Outcome::Deleted { .. } => {
                let (key, record) = (arena.key(write).into(), write.record_at(pinned).handle());
                let unhook = Unhook { table: write.table, key, record, word: Word::deleted(done.tid) };
                worker.garbage.unhook(done.epoch, unhook);
            }
            Outcome::Untouched => {
                if let Some(unused) = write.replacement {
                    worker.blocks.destroy(unused);
                }
            }
        }
    }
}

/// An absent record is left to whoever registered it for cleanup; so its address stays good until then (U1).
#[cold]
fn retire_replaced(
    core: &Core,
    worker: &mut Worker,
    write: &Write,
    kept: bool,
    epoch: Epoch,
    pinned: Pinned<'_>,
) {
    if write.before.is_absent() {
        return;
    }
    let record = write.record_at(pinned);
    let bytes = record.class().bytes();
    if kept {
        worker.garbage.replaced(epoch, record.handle(), bytes);
    } else {
        // SeqCst: the unlink comes before the tag's epoch is read (E3).
        fence(Ordering::SeqCst);
        worker.garbage.record(core.epochs.now(), record.handle(), bytes);
    }
}

/// After a failed commit: reserved memory goes back, placeholders are registered for cleanup (§4.5).
#[cold]
fn abandon(core: &Core, worker: &mut Worker, sets: &mut Sets, page: VersionPage) {
    let (entries, arena) = sets.writes.parts();
    for write in entries.iter_mut() {
        if let Some(unused) = write.replacement.take() {
            worker.blocks.destroy(unused);
        }
        if let Some(unused) = write.aside.take() {
            worker.blocks.unused_version(unused);
        }
        if let (true, Some(record)) = (write.placed, write.record) {
            let key = arena.key(write).into();
            let unhook = Unhook { table: write.table, key, record, word: Word::PLACEHOLDER };
            worker.garbage.unhook(core.epochs.now(), unhook);
        }
    }
    worker.blocks.rewind(page);
}
