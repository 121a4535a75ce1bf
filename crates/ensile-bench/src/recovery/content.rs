//! The victim's writes: the recovering process derives every required byte from the same definition.
//!
//! Write `i` of a run goes to key `order_p(i mod records)` where `p = i / records` is its pass. Each pass writes every
//! key once, in a random order of its own. So the log has rows in random order, and the newest write of each key
//! follows from the count of writes. Unacknowledged writes may be present or absent. For each writing thread, the
//! present unacknowledged writes precede the absent writes.
//!
//! A queue differs: write `i` puts row `i` and deletes the row that is [`QUEUED`] older, so that [`QUEUED`] rows are
//! left.
//!
//! Neighbours: `victim` writes by this definition; [`super`] checks a recovered database against this definition.

use std::ops::{ControlFlow, Range};

use ensile::{Database, Readable, Table, Value};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::failure::Result;
use crate::ycsb::permutation::Permutation;

/// Limit of reported findings.
const TOLD_MAX: usize = 5;
/// Name of the table.
const TABLE: &str = "rows";
/// Bytes of a key.
const KEY_BYTES: u64 = 8;
/// Bytes of a value.
pub(super) const VALUE_BYTES: usize = 100;
/// Bytes of a value where each key is written many times.
pub(super) const LARGE_VALUE_BYTES: usize = 1024;
/// Rows of the queue.
pub(super) const QUEUED: u64 = 1_000;

/// Counted bytes of an entry: key, value and TID.
pub(super) const fn entry_bytes(value: usize) -> u64 {
    KEY_BYTES + value as u64 + 8
}

/// A row's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub(super) struct Row<const BYTES: usize>([u8; BYTES]);

ensile::fixed_layout!(Row<VALUE_BYTES> { 0: [u8; VALUE_BYTES] }, "recovery row v1");
ensile::fixed_layout!(Row<LARGE_VALUE_BYTES> { 0: [u8; LARGE_VALUE_BYTES] }, "recovery row v1");

impl<const BYTES: usize> Row<BYTES> {
    /// The value that pass `pass` writes under `key`.
    pub(super) fn of(key: u64, pass: u64) -> Self {
        let mut bytes = [(key ^ pass) as u8; BYTES];
        bytes[..8].copy_from_slice(&key.to_le_bytes());
        bytes[8..16].copy_from_slice(&pass.to_le_bytes());
        Self(bytes)
    }

    /// The pass that wrote the row.
    fn pass(&self) -> u64 {
        u64::from_le_bytes(self.0[8..16].try_into().expect("eight bytes"))
    }
}

/// The table of a database.
pub(super) fn table<const BYTES: usize>(db: &Database) -> Result<Table<u64, Row<BYTES>>>
where
    Row<BYTES>: Value,
{
    Ok(db.table(TABLE)?)
}

/// Errors in the rows of a queue of `writes` writes.
pub(super) fn check_queue(db: &Database, writes: u64) -> Result<Vec<String>> {
    let table = table::<VALUE_BYTES>(db)?;
    let expected: Vec<u64> = (writes.saturating_sub(QUEUED)..writes).collect();
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    db.snapshot_latest()?.scan(&table, .., |key, row| {
        if *row != Row::of(key, 0) {
            wrong.push(format!("key {key} has a value that nobody wrote"));
        }
        found.push(key);
        ControlFlow::Continue(())
    })?;
    if found != expected {
        let range = (found.first(), found.last());
        wrong.push(format!("{} rows, {range:?}; {QUEUED} were left, up to {}", found.len(), writes - 1));
    }
    wrong.truncate(TOLD_MAX);
    Ok(wrong)
}

/// A sequence of writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writes {
    pub(crate) records: u64,
    pub(crate) count: u64,
    /// True if the last pass was not waited for.
    pub(crate) last_is_open: bool,
    pub(crate) threads: u64,
    pub(crate) seed: u64,
}

impl Writes {
    /// The order of a pass.
    pub(super) fn order(&self, pass: u64) -> Permutation {
        Permutation::new(self.records, self.seed.wrapping_add(pass))
    }

    /// Number of writes of a pass.
    fn of_pass(&self, pass: u64) -> u64 {
        self.count.saturating_sub(pass * self.records).min(self.records)
    }

    /// Number of passes.
    pub(super) fn passes(&self) -> u64 {
        self.count.div_ceil(self.records)
    }

    /// The positions of a pass that a thread writes, in order.
    pub(super) fn share(&self, pass: u64, thread: u64) -> Range<u64> {
        let count = self.of_pass(pass);
        count * thread / self.threads..count * (thread + 1) / self.threads
    }

    /// The last waited-for pass of each key.
    fn newest(&self) -> Vec<Option<u64>> {
        let mut newest = vec![None; self.records as usize];
        let passes = self.passes() - u64::from(self.last_is_open);
        // Whole passes write every key, so only the last pass and the pass before can be the newest of a key.
        for pass in passes.saturating_sub(2)..passes {
            let order = self.order(pass);
            for at in 0..self.of_pass(pass) {
                newest[order.at(at) as usize] = Some(pass);
            }
        }
        newest
    }

    /// Errors in the rows of a database: the first few findings, or none.
    pub(super) fn check<const BYTES: usize>(&self, db: &Database) -> Result<Vec<String>>
    where
        Row<BYTES>: Value,
    {
        let table = table::<BYTES>(db)?;
        let mut found = vec![None; self.records as usize];
        let mut wrong = Vec::new();
        db.snapshot_latest()?.scan(&table, .., |key, row| {
            match found.get_mut(key as usize) {
                Some(found) if *row == Row::of(key, row.pass()) => *found = Some(row.pass()),
                _ => wrong.push(format!("key {key} has a value that nobody wrote")),
            }
            if wrong.len() < TOLD_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if wrong.is_empty() {
            wrong = self.compare(&found);
        }
        wrong.truncate(TOLD_MAX);
        Ok(wrong)
    }

    /// Errors in the passes that a database has under its keys.
    fn compare(&self, found: &[Option<u64>]) -> Vec<String> {
        let open = self.last_is_open.then(|| self.passes() - 1);
        let newest = self.newest();
        let mut wrong: Vec<_> = (found.iter().zip(&newest).enumerate())
            .filter(|(_, (found, newest))| found != newest && (open.is_none() || **found != open))
            .map(|(key, (found, newest))| format!("key {key} is of pass {found:?}, {newest:?} was durable"))
            .collect();
        if let Some(pass) = open {
            let order = self.order(pass);
            for thread in 0..self.threads {
                let is_there = |at: u64| found[order.at(at) as usize] == open;
                let mut gone = self.share(pass, thread).skip_while(|at| is_there(*at));
                if let Some(later) = gone.find(|at| is_there(*at)) {
                    wrong
                        .push(format!("write {later} of thread {thread} is there and an earlier one is not"));
                }
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests;
