//! What the YCSB victim writes, so that whoever recovers it knows every byte that must be there.
//!
//! Write `i` of a run goes to key `order_p(i mod records)` where `p = i / records` is its pass: each pass writes every
//! key once, in a random order of its own. So the log has rows in random order, and the newest write of each key
//! follows from the count of writes.
//!
//! Neighbours: `victim` writes by it; [`super`] checks a recovered database against it.

use std::ops::ControlFlow;

use ensile::{Database, Readable, Table};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::failure::Result;
use crate::workload::ycsb::permutation::Permutation;

/// Name of the table.
const TABLE: &str = "rows";
/// Bytes of a key.
const KEY_BYTES: u64 = 8;
/// Bytes of a value.
const VALUE_BYTES: usize = 100;
/// Key, value and TID: the bytes of an entry that count.
pub(super) const ENTRY_BYTES: u64 = KEY_BYTES + VALUE_BYTES as u64 + 8;

/// A row's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Row([u8; VALUE_BYTES]);

ensile::fixed_layout!(Row, "recovery row v1");

impl Row {
    /// What pass `pass` writes under `key`.
    pub(super) fn of(key: u64, pass: u64) -> Self {
        let mut bytes = [(key ^ pass) as u8; VALUE_BYTES];
        bytes[..8].copy_from_slice(&key.to_le_bytes());
        bytes[8..16].copy_from_slice(&pass.to_le_bytes());
        Self(bytes)
    }
}

/// The table of a database.
pub(super) fn table(db: &Database) -> Result<Table<u64, Row>> {
    Ok(db.table(TABLE)?)
}

/// A sequence of writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writes {
    pub(super) records: u64,
    pub(super) count: u64,
    pub(super) seed: u64,
}

impl Writes {
    /// The order of a pass.
    pub(super) fn order(&self, pass: u64) -> Permutation {
        Permutation::new(self.records, self.seed.wrapping_add(pass))
    }

    /// How many writes a pass has.
    pub(super) fn of_pass(&self, pass: u64) -> u64 {
        self.count.saturating_sub(pass * self.records).min(self.records)
    }

    /// How many passes there are.
    pub(super) fn passes(&self) -> u64 {
        self.count.div_ceil(self.records)
    }

    /// The pass that wrote each key last.
    fn newest(&self) -> Vec<Option<u64>> {
        let mut newest = vec![None; self.records as usize];
        // Whole passes write every key, so only the last one and the one before it can be anybody's newest.
        for pass in self.passes().saturating_sub(2)..self.passes() {
            let order = self.order(pass);
            for at in 0..self.of_pass(pass) {
                newest[order.at(at) as usize] = Some(pass);
            }
        }
        newest
    }

    /// What is wrong with the rows of a database: nothing, or the first few findings.
    pub(super) fn check(&self, db: &Database) -> Result<Vec<String>> {
        const TOLD_MAX: usize = 5;
        let table = table(db)?;
        let newest = self.newest();
        let mut snapshot = db.snapshot_latest()?;
        let (mut rows, mut wrong) = (0, Vec::new());
        snapshot.scan(&table, .., |key, row| {
            rows += 1;
            let expected = newest.get(key as usize).copied().flatten().map(|pass| Row::of(key, pass));
            if expected != Some(row) {
                wrong.push(format!("key {key} does not have the value that was written last"));
            }
            if wrong.len() < TOLD_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let due = newest.iter().flatten().count();
        if wrong.is_empty() && rows != due {
            wrong.push(format!("{rows} rows were recovered, {due} were durable"));
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::Writes;

    #[test]
    fn the_newest_pass_of_each_key_follows_from_the_count() {
        for count in [0, 1, 99, 100, 101, 250, 300] {
            let writes = Writes { records: 100, count, seed: 3 };
            let mut newest = vec![None; 100];
            for write in 0..count {
                newest[writes.order(write / 100).at(write % 100) as usize] = Some(write / 100);
            }
            assert_eq!(writes.newest(), newest, "{count} writes");
            assert_eq!((0..writes.passes()).map(|pass| writes.of_pass(pass)).sum::<u64>(), count);
        }
    }
}
