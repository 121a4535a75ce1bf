//! Preparation before binding: every entry gets its record, and the memory and log space for its install (E1, C3).
//!
//! Neighbours: [`Commit::run`](super::Commit) begins here; `validation` checks that the reserved room suffices.

use ensile_base::Epoch;
use ensile_base::limits::TRANSACTION_BYTES_MAX;
use ensile_durability::{Appender, SpaceTask};
use ensile_epoch::{CommitSlot, InIndex, Pinned};
use ensile_index::NodeChanges;

use super::{Commit, CommitTask, Turned, before_images};
use crate::commit_gate::TurnedAway;
use crate::error::{Error, Result};
use crate::formats::log_entry;
use crate::record::blocks::{Blocks, NodeBlocks};
use crate::record::tid_word::Word;
use crate::record::tree::{RecordLookup, RecordPlacing, RecordRun};
use crate::record::version_page::VersionPage;
use crate::record::{HEADER_BYTES, Record};
use crate::sets::node_set::NodeSet;
use crate::sets::write_set::{Arena, OldVersion, Write, WriteKind};
use crate::sets::{LockOrder, Sets};
use crate::shared_state::SharedState;
use crate::tables::{CATALOG_ID, is_logged};
use crate::worker::Worker;

impl Commit<'_, '_> {
    /// Gives every entry of the write-set its record (C3).
    pub(super) fn place(&mut self) -> Result<()> {
        self.place_by::<false>()
    }

    /// As [`Self::place`], with a look at the room of the memory before each entry (M4).
    pub(super) fn place_watched(&mut self) -> Result<()> {
        self.place_by::<true>()
    }

    #[inline(always)]
    fn place_by<const IS_WATCHED: bool>(&mut self) -> Result<()> {
        let Self { shared, worker, sets, pinned, turned } = self;
        if worker.appender.is_none() {
            shared.storage.check_unlogged()?;
        }
        let Sets { nodes, writes, .. } = &mut **sets;
        let (entries, arena) = writes.parts();
        // All entries are placed before any read of a record: found records are fetched from memory during the next
        // look-ups.
        let mut unplaced = entries.iter_mut().filter(|write| write.record.is_none()).peekable();
        if let Some(first) = unplaced.peek() {
            let is_of_catalogue = first.table == CATALOG_ID;
            let Worker { commit, appender, blocks, retired, changes, .. } = &mut **worker;
            let memory = retired.node_memory(blocks, &shared.epochs);
            let _entered = enter_index(shared, commit, turned, is_of_catalogue)?;
            let mut placing =
                Placing { shared, appender, memory, changes, nodes, run: None, pinned: *pinned };
            unplaced.try_for_each(|write| {
                if IS_WATCHED {
                    check_room(shared, placing.memory.blocks)?;
                }
                placing.place(write, arena)
            })?;
        }
        debug_assert!(
            entries.iter().all(|write| write.record.is_some() || write.kind == WriteKind::Delete),
            "only a delete of a missing key has no record (C3)"
        );
        Ok(())
    }

    /// Obtains memory and log space for the whole write-set, and puts the records into lock order. Returns the length
    /// of the log entry in bytes.
    pub(super) fn reserve(&mut self) -> Result<usize> {
        self.reserve_by::<false>()
    }

    /// As [`Self::reserve`], with a look at the room of the memory before each entry (M4). While the memory is full, a
    /// delete copies no version: its record is replaced, and becomes the version.
    pub(super) fn reserve_watched(&mut self) -> Result<usize> {
        self.reserve_by::<true>()
    }

    #[inline(always)]
    fn reserve_by<const IS_WATCHED: bool>(&mut self) -> Result<usize> {
        let Self { shared, worker, sets, pinned, .. } = self;
        // A boundary may be published between this guess and the commit's epoch; then `check_room` refuses the commit.
        debug_assert!(
            worker.commit.slot().bound_epoch().is_none(),
            "what may wait is obtained before binding (E1)"
        );
        let boundary = shared.snapshot_boundary(shared.epochs.now());
        let (logging, overwrites) = (worker.appender.is_some(), shared.settings.switches.overwrites());
        let Sets { writes, order, .. } = &mut **sets;
        let (entries, arena) = writes.parts();
        order.clear();
        let mut log_bytes = 0;
        for (at, write) in entries.iter_mut().enumerate() {
            let Some(record) = write.record else { continue };
            if IS_WATCHED {
                check_room(shared, &mut worker.blocks)?;
            }
            order.push(LockOrder { record, at: at as u32 });
            let record = record.resolve(*pinned);
            let word = record.word();
            let in_place = overwrites || write.placed.is_some();
            let is_replaced = match write.kind {
                WriteKind::Put => {
                    !(in_place && write.may_overwrite(word) && record.fits(write.value_bytes()))
                }
                // The word does not matter: a commit may fill a placeholder before this commit locks it (V1).
                WriteKind::Delete => {
                    let is_copied = VersionPage::takes(record.class());
                    !is_copied
                        || (IS_WATCHED && needs_version(word, boundary) && worker.blocks.is_memory_full())
                }
            };
            if is_replaced {
                // The replacement gets its word at its publication: another commit may hold the lock of the present
                // word.
                write.replacement = Some(worker.blocks.create_record(arena.value(write), Word::PLACEHOLDER));
            } else if needs_version(word, boundary) {
                reserve_version(shared, &mut worker.blocks, write, record, arena.value(write), boundary);
            }
            if logging && is_logged(write.table) {
                log_bytes += log_entry::bytes(write.key_bytes(), write.value_bytes());
            }
        }
        // Any global order avoids deadlock; addresses are one (§4.4).
        order.sort_unstable_by_key(|lock| lock.record);
        debug_assert!(
            order.is_sorted_by(|a, b| a.record < b.record),
            "each record is locked once, in the order of addresses"
        );
        if log_bytes == 0 {
            return Ok(0);
        }
        if shared.settings.before_images {
            before_images::reserve(self, log_bytes)?;
        } else {
            self.reserve_log(log_bytes)?;
        }
        Ok(log_bytes)
    }

    /// Waits for the end of another thread's turn, and obtains the log space again that was given back for the turn
    /// (P1).
    #[cold]
    pub(super) fn wait_for_turn(&mut self, log_bytes: usize) -> Result<()> {
        debug_assert!(
            self.worker.commit.slot().bound_epoch().is_none(),
            "nobody waits for a turn with locks or a binding (P1)"
        );
        self.turned.away(self.shared)?;
        self.reserve_log_again(log_bytes)
    }

    /// Obtains the log space again that was given back with the binding (E1).
    #[cold]
    pub(super) fn reserve_log_again(&mut self, log_bytes: usize) -> Result<()> {
        match log_bytes {
            0 => Ok(()),
            _ if self.shared.settings.before_images => before_images::reserve_again(self),
            _ => self.reserve_log(log_bytes),
        }
    }

    /// Reserves `bytes` of log space for the log entry (E1).
    #[inline]
    pub(super) fn reserve_log(&mut self, bytes: usize) -> Result<()> {
        debug_assert!(
            self.worker.commit.slot().bound_epoch().is_none(),
            "log space is waited for before binding (E1)"
        );
        let Self { worker, turned, .. } = self;
        let Some(appender) = &mut worker.appender else { return Ok(()) };
        let is_reserved = appender.reserve_by(
            bytes,
            #[inline(always)]
            || turned.task.as_mut().map(CommitTask::space),
        )?;
        if is_reserved { Ok(()) } else { Err(self.lack_space(bytes)) }
    }

    /// Notes the lack of log space behind the look ahead, for the next try. Returns the error of this try.
    #[cold]
    fn lack_space(&mut self, bytes: usize) -> Error {
        debug_assert!(self.turned.task.is_some(), "a thread waits for space");
        if let Some(task) = &mut self.turned.task {
            task.waits.lacked_bytes = bytes;
        }
        Error::Busy
    }
}

impl CommitTask<'_> {
    /// The task at the log.
    fn space(&mut self) -> SpaceTask<'_> {
        SpaceTask { waker: self.waker, wait: &mut self.waits.space }
    }

    /// Makes way for another thread's turn.
    ///
    /// # Errors
    /// [`Error::Busy`] during the turn. The waker is registered for the turn's end, and not for log space any more.
    #[cold]
    pub(super) fn make_way(&mut self, shared: &SharedState) -> Result<()> {
        if shared.life.gate.try_make_way(&shared.clock, self.waker, &mut self.waits.passing) {
            return Ok(());
        }
        self.waits.end_space(shared);
        Err(Error::Busy)
    }

    /// Looks if a commit of these sets would wait, before anything is prepared: in another thread's turn, or without
    /// log space. The commit itself looks again, because a turn may begin afterwards, and the space may go.
    ///
    /// # Errors
    /// [`Error::Busy`]: the waker is registered. The errors of [`Appender::reserve`].
    pub(crate) fn look_ahead(
        &mut self,
        shared: &SharedState,
        worker: &mut Worker,
        sets: &Sets<'_>,
    ) -> Result<()> {
        let gate = &shared.life.gate;
        while gate.look() == Err(TurnedAway::NotMyTurn) {
            self.make_way(shared)?;
        }
        let Some(appender) = &mut worker.appender else { return Ok(()) };
        let logged = sets.writes.entries.iter().filter(|write| is_logged(write.table));
        let log_bytes: usize =
            logged.map(|write| log_entry::bytes(write.key_bytes(), write.value_bytes())).sum();
        debug_assert!(
            sets.writes.entries.iter().all(|write| write.placed.is_none()),
            "nothing is prepared before the look"
        );
        if log_bytes == 0 {
            return Ok(());
        }
        // A delete of a missing key takes no space, so the sum may exceed the limit of an entry.
        let bytes = log_bytes.max(self.waits.lacked_bytes).min(TRANSACTION_BYTES_MAX);
        if appender.reserve_by(bytes, || Some(self.space()))? {
            appender.release();
            return Ok(());
        }
        Err(Error::Busy)
    }
}

/// True if snapshots need the version of this word (S1).
#[inline(always)]
fn needs_version(word: Word, boundary: Epoch) -> bool {
    !word.is_absent() && word.epoch() < boundary
}

/// Refuses a commit if the memory lacks room (M4).
#[inline]
fn check_room(shared: &SharedState, blocks: &mut Blocks) -> Result<()> {
    debug_assert!(shared.settings.is_memory_limited, "a memory without a limit has room");
    if blocks.lacks_room() { Err(Error::memory_full(shared.memory.memory_use())) } else { Ok(()) }
}

/// Obtains the room that keeps the present version for snapshots (S1): room for a copy, or a replacement if the copy
/// would be too large for a page (V1). A delete of such a row has its replacement already. Always inlined, as
/// [`Placing::place`].
#[inline(always)]
fn reserve_version<'p>(
    shared: &SharedState,
    blocks: &mut Blocks,
    write: &mut Write<'p>,
    record: Record<'p>,
    value: &[u8],
    boundary: Epoch,
) {
    if write.kind == WriteKind::Put && !VersionPage::takes(record.class()) {
        write.replacement = Some(blocks.create_record(value, Word::PLACEHOLDER));
        return;
    }
    let by_itself = shared.epochs.has_reader_below(boundary);
    write.old_version = OldVersion::Room(blocks.version(record.class(), by_itself));
}

/// Enters the index, where placeholders change leaves, while no other thread has a turn (P1). A commit of the catalogue
/// enters during a turn too.
fn enter_index<'w, 'c>(
    shared: &'c SharedState,
    worker: &'w CommitSlot,
    turned: &mut Turned<'c>,
    is_of_catalogue: bool,
) -> Result<InIndex<'w>> {
    loop {
        let entered = shared.epochs.enter_index(worker);
        match shared.life.gate.look() {
            Ok(()) => return Ok(entered),
            Err(TurnedAway::Closed) => return Err(Error::Closed),
            Err(TurnedAway::NotMyTurn) if is_of_catalogue => return Ok(entered),
            Err(TurnedAway::NotMyTurn) => {}
        }
        drop(entered);
        turned.away(shared)?;
    }
}

/// State of placing the entries.
struct Placing<'c, 'p> {
    shared: &'c SharedState,
    appender: &'c Option<Appender>,
    memory: NodeBlocks<'c>,
    changes: &'c mut NodeChanges,
    nodes: &'c mut NodeSet<'p>,
    /// The id of a table, and a run of inserts into the table: a key that follows the last key is placed next to it.
    run: Option<(u32, RecordRun<'c, 'c>)>,
    pinned: Pinned<'p>,
}

impl<'c, 'p: 'c> Placing<'c, 'p> {
    /// Finds the record of an entry's key in the index, and puts a placeholder there if the key is missing (C3, §4.5).
    /// A delete of a missing key gets no record: the delete depends on the leaf instead.
    ///
    /// Always inlined, into the commits with a look at the room and into the commits without.
    #[inline(always)]
    fn place(&mut self, write: &mut Write<'p>, arena: Arena<'c>) -> Result<()> {
        debug_assert!(write.record.is_none() && write.placed.is_none(), "an entry is placed once");
        let table = self.shared.tables.table(write.table);
        let key = arena.key(write);
        if write.kind == WriteKind::Delete {
            match table.tree.get(key, self.pinned) {
                RecordLookup::Found(record) => write.record = Some(record.handle()),
                RecordLookup::Missing(witness) => self.nodes.push(witness),
            }
            return Ok(());
        }
        // A placeholder of a refused commit waits for D (U2), and D stands while the log refuses.
        if let Some(appender) = self.appender {
            appender.check()?;
        }
        let placeholder = self.memory.blocks.placeholder(write.value_bytes());
        let inserts = match &mut self.run {
            Some((id, inserts)) if *id == write.table => inserts,
            _ => &mut self.run.insert((write.table, RecordRun::new(&table.tree))).1,
        };
        match inserts.place(key, placeholder, &mut self.memory, self.changes, self.pinned) {
            RecordPlacing::Placed(placeholder, absent, changes) => {
                write.record = Some(placeholder.handle());
                write.placed = Some(absent);
                debug_assert!(placeholder.word().is_absent(), "a placeholder shows no row");
                self.nodes.update_after_own_insert(changes)
            }
            RecordPlacing::Exists(record, placeholder) => {
                self.memory.blocks.discard_placeholder(placeholder);
                record.address().prefetch(HEADER_BYTES);
                write.record = Some(record.handle());
                Ok(())
            }
        }
    }
}
