//! What an open transaction carries: its pin, its sets, its buffers. Reused from transaction to transaction.
//!
//! Neighbours: `session` keeps idle ones; `transaction` fills one; commit uses it up.

use ensile_base::sync::Arc;
use ensile_epoch::PinHandle;

use super::node_set::NodeSet;
use super::write_set::WriteSet;
use crate::database::Core;
use crate::record::word::Word;
use crate::record::{Handle, Scratch};
use crate::session::Pool;
use crate::sets::hints::Hints;

/// Most bytes that a context keeps of what a huge transaction made it take.
pub(crate) const KEEP_BYTES_MAX: usize = 1 << 20;

/// A record in the read-set, with the word that it had (§4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) record: Handle,
    pub(crate) word: Word,
}

/// Read-set, node-set, write-set.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    pub(crate) reads: Vec<Read>,
    pub(crate) nodes: NodeSet,
    pub(crate) writes: WriteSet,
}

impl Sets {
    #[inline(always)]
    fn clear(&mut self) {
        self.reads.clear();
        self.nodes.clear();
        self.writes.clear();
    }
}

/// The record that was read last: a put that follows a get of the same key needs no second descent.
#[derive(Debug, Default)]
pub(crate) struct LastRead {
    found: Option<(u32, Handle)>,
    key: [u8; LastRead::KEY_BYTES_MAX],
    length: u8,
}

impl LastRead {
    /// Longer keys are looked up again.
    const KEY_BYTES_MAX: usize = 32;

    #[inline]
    pub(crate) fn remember(&mut self, table: u32, key: &[u8], record: Handle) {
        if key.len() <= Self::KEY_BYTES_MAX {
            // The usual length is worth a copy of its own: one store.
            if let Ok(word) = <[u8; 8]>::try_from(key) {
                self.key[..8].copy_from_slice(&word);
            } else {
                self.key[..key.len()].copy_from_slice(key);
            }
            self.length = key.len() as u8;
            self.found = Some((table, record));
        } else {
            self.found = None;
        }
    }

    #[inline]
    pub(crate) fn find(&self, table: u32, key: &[u8]) -> Option<Handle> {
        let (last_table, record) = self.found?;
        (last_table == table && &self.key[..usize::from(self.length)] == key).then_some(record)
    }

    /// The record of the last lookup, for who has just looked up the key that it will write.
    #[inline]
    pub(crate) fn latest(&self) -> Option<Handle> {
        self.found.map(|(_, record)| record)
    }

    #[inline]
    pub(crate) fn forget(&mut self) {
        self.found = None;
    }
}

/// An open transaction's state, and an idle one's allocations.
pub(crate) struct Context {
    /// Whose it is, and where its seat's worker goes in the end.
    pub(crate) database: u64,
    pub(crate) pool: Arc<Pool>,
    pub(crate) pin: PinHandle,
    pub(crate) sets: Sets,
    pub(crate) scratch: Scratch,
    /// The second record of a lookup through a secondary index.
    pub(crate) row_scratch: Scratch,
    pub(crate) last_read: LastRead,
    /// What a batch's common descent found.
    pub(crate) hints: Hints,
    /// A value being encoded.
    pub(crate) value: Vec<u8>,
    /// A secondary key being computed: of the old row, of the new one.
    pub(crate) entry_keys: (Vec<u8>, Vec<u8>),
}

impl Context {
    pub(crate) fn new(core: &Core) -> Self {
        Self {
            database: core.id,
            pool: Arc::clone(&core.pool),
            pin: core.register_pin(),
            sets: Sets::default(),
            scratch: Scratch::default(),
            row_scratch: Scratch::default(),
            last_read: LastRead::default(),
            hints: Hints::default(),
            value: Vec::new(),
            entry_keys: (Vec::new(), Vec::new()),
        }
    }

    /// Empties the sets for the next transaction, and keeps their space and the buffers', unless a huge one grew them. The
    /// smallest, of one read, do not look: what they can leave is a buffer of one value.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        let looks = self.sets.reads.len() + self.sets.nodes.len() > 1;
        self.sets.clear();
        self.last_read.forget();
        if looks && self.kept_bytes() > KEEP_BYTES_MAX {
            self.give_back();
        }
    }

    /// Bytes of memory that reads and values have grown; the write-set and the hints look after their own.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        let Self { sets, scratch, row_scratch, value, .. } = self;
        let seen = sets.reads.capacity() * size_of::<Read>() + sets.nodes.kept_bytes();
        seen + scratch.kept_bytes() + row_scratch.kept_bytes() + value.capacity()
    }

    #[cold]
    fn give_back(&mut self) {
        self.sets.reads = Vec::new();
        self.sets.nodes = NodeSet::default();
        (self.scratch, self.row_scratch) = (Scratch::default(), Scratch::default());
        self.value = Vec::new();
    }
}
