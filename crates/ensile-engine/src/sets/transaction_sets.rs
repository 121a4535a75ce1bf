//! The sets of a transaction together: the read-set, the node-set and the write-set, with the limit of the reads (E6).
//!
//! Neighbours: `context` keeps the sets; `node_set` and `write_set` are parts; commit orders the locks.

use ensile_base::Epoch;
use ensile_base::limits::TRANSACTION_BYTES_MAX;

use super::dead_ranges::DeadRanges;
use super::node_set::NodeSet;
use super::write_set::{Expect, WriteSet};
use crate::error::{Error, Result};
use crate::record::Handle;
use crate::record::pin_scope::forgets;
use crate::record::tid_word::Word;

/// Largest number of records in a read-set and leaves in a node-set together.
const READS_MAX: usize = TRANSACTION_BYTES_MAX / size_of::<Read<'static>>();

/// True if a transaction may have `records` records in its read-set and `leaves` leaves in its node-set (E6).
#[inline(always)]
const fn has_room_for_reads(records: usize, leaves: usize) -> bool {
    records + leaves <= READS_MAX
}

/// A record in the read-set, with the word at the read (§4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read<'p> {
    pub(crate) record: Handle<'p>,
    pub(crate) word: Word,
}

/// A lock of a commit: the record, and the position of the record's entry in the write-set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockOrder<'p> {
    pub(crate) record: Handle<'p>,
    pub(crate) at: u32,
}

/// Read-set, node-set, write-set.
#[derive(Debug, Default)]
pub(crate) struct Sets<'p> {
    pub(crate) reads: Vec<Read<'p>>,
    pub(crate) nodes: NodeSet<'p>,
    pub(crate) writes: WriteSet<'p>,
    /// Commit: the write-set in lock order.
    pub(crate) order: Vec<LockOrder<'p>>,
    /// Ranges in which the transaction has found no row.
    pub(crate) dead: DeadRanges,
    /// Largest epoch of a buried delete in the tables where the transaction has found no record (N19).
    pub(crate) buried: Epoch,
}

forgets!(Sets: emptied [reads, order], forgotten [nodes, writes], free [dead, buried]);

impl Sets<'_> {
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.reads.clear();
        self.nodes.clear();
        self.writes.clear();
        self.dead.clear();
        self.buried = Epoch::ZERO;
        debug_assert!(self.is_empty(), "nothing is left of the transaction before");
    }

    /// True if the transaction has read nothing and written nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.nodes.len() == 0 && self.writes.is_empty()
    }

    /// Asserts that the sets are whole, in builds with debug assertions, at the end of a transaction.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        self.nodes.check();
        self.writes.check();
        for Read { record, word } in &self.reads {
            assert!(word.is_latest(), "a read of {record:?} saw a superseded record");
        }
    }

    /// Refuses a read-set and a node-set that are too large together (E6).
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    #[inline]
    pub(crate) fn check_reads(&self) -> Result<()> {
        if has_room_for_reads(self.reads.len(), self.nodes.len()) { Ok(()) } else { self.refuse_reads() }
    }

    #[cold]
    fn refuse_reads(&self) -> Result<()> {
        let bytes = (self.reads.len() + self.nodes.len()) * size_of::<Read<'_>>();
        Err(Error::TooLarge { what: "the transaction's read-set", bytes, bytes_max: TRANSACTION_BYTES_MAX })
    }

    /// Forgets the reads behind the first `kept`: reads of rows that a scan has copied and not shown.
    #[inline]
    pub(crate) fn forget_reads(&mut self, kept: usize) {
        debug_assert!(kept <= self.reads.len(), "rows are forgotten that were read last");
        self.reads.truncate(kept);
        self.dead.forget_reads(kept);
    }

    /// Forgets the results of a commit's preparation, after the commit has given everything back, so that the commit
    /// can begin anew. Each entry is placed again: its record may be replaced by then. The witnesses of deletes of
    /// missing keys are forgotten too.
    ///
    /// If the transaction had witnesses before the commit (`has_witnesses`), all witnesses stay, and the entries keep
    /// their records. The witness of an absent key includes the commit's own placeholder, and only the placeholder's
    /// lock shows if another commit has filled the key since (C2).
    #[cold]
    pub(crate) fn forget_preparation(&mut self, has_witnesses: bool) {
        let Self { reads, nodes, writes, order, .. } = self;
        order.clear();
        if !has_witnesses {
            nodes.clear();
        }
        for write in &mut writes.entries {
            write.forget_preparation(has_witnesses);
            // The commit has expected its own lock on the record, and has given the lock back.
            if let Some(read) = write.read.and_then(|at| reads.get_mut(at as usize)) {
                read.word = read.word.without_lock_bit();
            }
        }
        debug_assert!(self.reads.iter().all(|read| !read.word.is_locked()), "reads wait for locks");
    }

    /// Enters a write into the write-set, over an earlier write of the same key. Without a value the write is a delete.
    pub(crate) fn write(
        &mut self,
        table: u32,
        key: &[u8],
        value: Option<&[u8]>,
        expect: Expect,
    ) -> Result<()> {
        if value.is_some() {
            self.dead.forget_ranges_with(table, key);
        }
        let met = self.writes.find_key(table, key);
        match self.writes.write_position(met) {
            Some(at) => self.writes.change(at, value),
            None => self.writes.add(met, table, key, value, expect),
        }
    }
}

#[cfg(test)]
mod tests {
    use ensile_base::limits::TRANSACTION_BYTES_MAX;

    use super::{Read, has_room_for_reads};

    #[test]
    fn e6_reads_of_records_and_of_leaves_take_no_more_than_the_limit_together() {
        let most = TRANSACTION_BYTES_MAX / size_of::<Read<'static>>();
        assert!(
            has_room_for_reads(most, 0) && has_room_for_reads(0, most) && has_room_for_reads(most - 1, 1)
        );
        assert!(!has_room_for_reads(most, 1) && !has_room_for_reads(0, most + 1));
    }
}
