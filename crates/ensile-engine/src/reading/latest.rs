//! The reader of a transaction: the latest versions, and a memory of what it saw (Silo §4.4).
//!
//! Neighbours: `transaction` reads through it; commit validates what it remembers.

use ensile_index::Witness;

use super::{Reader, VersionRead};
use crate::record::{Handle, Record, Scratch, Seen};
use crate::sets::last_read::LastRead;
use crate::sets::node_set::NodeSet;
use crate::sets::write_set::WriteSet;
use crate::sets::{Read, Sets};
use crate::tables::TableCore;

/// Reads the latest versions and remembers what it saw.
pub(crate) struct LatestReader<'t> {
    reads: &'t mut Vec<Read>,
    nodes: &'t mut NodeSet,
    pub(crate) writes: &'t WriteSet,
    last_read: &'t mut LastRead,
}

impl Reader for LatestReader<'_> {
    #[inline]
    fn read(&mut self, record: Record<'_>, scratch: &mut Scratch) -> VersionRead {
        let (word, held) = match record.read(scratch) {
            Seen::Present(word) => (word, VersionRead::Present),
            Seen::Absent(word) => (word, VersionRead::Absent),
            Seen::Superseded => return VersionRead::Superseded,
        };
        self.reads.push(Read { record: record.handle(), word });
        held
    }

    #[inline]
    fn witness(&mut self, witness: Witness) {
        self.nodes.push(witness);
    }

    #[inline]
    fn own(&self) -> Option<&WriteSet> {
        Some(self.writes)
    }

    #[inline]
    fn found(&mut self, table: &TableCore, key: &[u8], record: Handle) {
        self.last_read.remember(table.id, key, record);
    }
}

impl Sets {
    /// The reader that remembers in these sets.
    pub(crate) fn reader<'t>(&'t mut self, last_read: &'t mut LastRead) -> LatestReader<'t> {
        LatestReader { reads: &mut self.reads, nodes: &mut self.nodes, writes: &self.writes, last_read }
    }
}
