//! Histories: operations and results of transactions, recorded during the run for the [`checker`](crate::checker).
//!
//! ```text
//! Recorder (one per session)   begin -> Trace (any number open at a time)
//!                              -> commit | snapshot | answer | abort | unknown
//! History                      all recorders' transactions together, in columns, numbered by their begin
//! ```
//! Keys are of two kinds, told apart by their writes: a *register* holds one value, a *list* grows by appends and is
//! read whole. A value (or element) is written once to a key, so a read names the write that the read saw. Keys of both
//! kinds may be absent; an empty list is an absent list.
//!
//! Neighbours: tests of the engine record here; instants come from `ensile_base::clock`, TIDs from receipts.

use std::ops::Range;

use ensile_base::{Epoch, Tid};

mod operations;

pub use operations::Operation;
use operations::Operations;

/// A key of a history. Workloads number the keys of their tables without overlap.
pub type Key = u64;
/// Value of a register or element of a list. A key never gets the same value twice; `u64::MAX` is reserved.
pub type Value = u64;

/// Condition of a scan on the rows of its range: a number of the workload's (say, an index) and an argument (a key of
/// that index). The checker asks the workload for the matching values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicate {
    /// Number of the predicate.
    pub name: u32,
    /// Argument of the predicate.
    pub argument: u64,
}

/// End of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The transaction committed.
    Committed,
    /// A snapshot that was read and released; its place in the order is its boundary.
    Snapshot,
    /// A closure failed by itself, and its error was returned. The transaction had no effect, but its reads count as an
    /// answer (R2).
    Answered,
    /// The transaction had no effect and showed nothing.
    Aborted,
    /// The transaction may have committed or not. The checker counts the transaction as committed once another
    /// transaction saw one of its values.
    Unknown,
    /// The transaction committed and a crash took the commit back (see [`History::crash`]): as if aborted.
    Lost,
}

/// A transaction without its operations.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Session of the transaction.
    pub session: u32,
    /// Outcome of the transaction.
    pub outcome: Outcome,
    /// True if the result was shown as durable.
    pub acknowledged: bool,
    /// Instant of the begin, before the first operation.
    pub begin: u64,
    /// Instant at which the outcome was known.
    pub end: u64,
    /// For a committed transaction, its TID if known. For a snapshot, the first TID that the snapshot must not show.
    /// Zero otherwise.
    pub tid: Tid,
    first: u32,
    count: u32,
}

/// An open transaction: its operations so far, in order.
#[derive(Debug)]
pub struct Trace {
    begin: u64,
    operations: Operations,
}

impl Trace {
    /// Adds a read of a register, with the value seen.
    pub fn read(&mut self, key: Key, seen: Option<Value>) {
        self.operations.read(key, seen);
    }

    /// Adds a read that showed only the presence of the key: a refused insert, or a delete that found a row.
    pub fn read_present(&mut self, key: Key) {
        self.operations.present(key);
    }

    /// Adds a read of a list, with the elements seen; no elements if the key was absent.
    pub fn read_list(&mut self, key: Key, seen: &[Value]) {
        self.operations.list(key, seen);
    }

    /// Adds a write of a register, blind or not.
    pub fn write(&mut self, key: Key, value: Value) {
        self.operations.write(key, value);
    }

    /// Adds a delete that removed a row. A delete without a row is a read of absence. If the transaction wrote the row
    /// itself, a read in the history must show the presence or absence of an earlier row. Without such a read the
    /// checker cannot know if the delete made a version.
    pub fn delete(&mut self, key: Key) {
        self.operations.delete(key);
    }

    /// Adds an append to a list.
    pub fn append(&mut self, key: Key, element: Value) {
        self.operations.append(key, element);
    }

    /// Adds a scan of registers, with the rows seen. The scan saw the other keys of the range as absent.
    pub fn scan(&mut self, range: Range<Key>, seen: impl IntoIterator<Item = (Key, Value)>) {
        self.scan_for(range, None, seen);
    }

    /// Adds a scan of registers for matching values, with the rows seen. The other keys of the range were absent or did
    /// not match.
    pub fn scan_matching(
        &mut self,
        range: Range<Key>,
        predicate: Predicate,
        seen: impl IntoIterator<Item = (Key, Value)>,
    ) {
        self.scan_for(range, Some(predicate), seen);
    }

    fn scan_for(
        &mut self,
        range: Range<Key>,
        predicate: Option<Predicate>,
        seen: impl IntoIterator<Item = (Key, Value)>,
    ) {
        let scan = self.operations.scan(range, predicate);
        let mut rows = 0;
        for (key, value) in seen {
            self.operations.read(key, Some(value));
            rows += 1;
        }
        self.operations.end_scan(scan, rows);
    }

    /// Adds a scan of lists, with the lists seen. The scan saw the other keys of the range as absent.
    pub fn scan_lists<L: AsRef<[Value]>>(
        &mut self,
        range: Range<Key>,
        seen: impl IntoIterator<Item = (Key, L)>,
    ) {
        let scan = self.operations.scan(range, None);
        let mut rows = 0;
        for (key, list) in seen {
            self.operations.list(key, list.as_ref());
            rows += 1;
        }
        self.operations.end_scan(scan, rows);
    }

    /// Adds a scan that showed only the keys with matching values. No other key of the range has a matching value.
    pub fn scan_keys_matching(
        &mut self,
        range: Range<Key>,
        predicate: Predicate,
        seen: impl IntoIterator<Item = Key>,
    ) {
        let scan = self.operations.scan(range, Some(predicate));
        let mut rows = 0;
        for key in seen {
            self.operations.present(key);
            rows += 1;
        }
        self.operations.end_scan(scan, rows);
    }

    /// The transaction's own last write of a register: `None` if the transaction has not written the register,
    /// `Some(None)` after a delete.
    #[must_use]
    pub fn own(&self, key: Key) -> Option<Option<Value>> {
        self.operations.iter().rev().find_map(|operation| match operation {
            Operation::Write { key: written, value } if written == key => Some(Some(value)),
            Operation::Delete { key: deleted } if deleted == key => Some(None),
            _ => None,
        })
    }

    /// True if the key was present before the transaction wrote the key; `None` if the reads do not tell.
    #[must_use]
    pub fn existed(&self, key: Key) -> Option<bool> {
        operations::existed(self.operations.iter(), key)
    }
}

/// Records the transactions of one session.
///
/// ```
/// use ensile_base::{Epoch, Tid};
/// use ensile_sim::history::{History, Recorder};
///
/// let mut recorder = Recorder::new(1);
/// let mut trace = recorder.begin(10);
/// trace.read(7, None);
/// trace.write(7, 100);
/// recorder.commit(trace, Some(Tid::first_of(Epoch::new(1))), 20);
/// let history = History::merge([recorder]);
/// assert!(ensile_sim::checker::check(&history).is_ok());
/// ```
#[derive(Debug)]
pub struct Recorder {
    session: u32,
    headers: Vec<Header>,
    operations: Operations,
    spare: Vec<Operations>,
}

impl Recorder {
    /// A recorder for the transactions of one session (say, a thread).
    #[must_use]
    pub fn new(session: u32) -> Self {
        Self { session, headers: Vec::new(), operations: Operations::default(), spare: Vec::new() }
    }

    /// Number of ended transactions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.headers.len()
    }

    /// True if no transaction has ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Begins a transaction. Several transactions may be open at a time.
    #[must_use]
    pub fn begin(&mut self, now: u64) -> Trace {
        Trace { begin: now, operations: self.spare.pop().unwrap_or_default() }
    }

    /// Records a commit; `now` is read after the commit returned. The TID may be missing if lists tell the order of
    /// versions.
    pub fn commit(&mut self, trace: Trace, tid: Option<Tid>, now: u64) {
        self.end(trace, Outcome::Committed, tid.unwrap_or(Tid::ZERO), now);
    }

    /// Marks the last ended transaction as shown durable, now or later in this process: no crash may take the
    /// transaction back.
    pub fn acknowledge(&mut self) {
        if let Some(header) = self.headers.last_mut() {
            header.acknowledged = true;
        }
    }

    /// Records the read of a snapshot of this boundary.
    pub fn snapshot(&mut self, trace: Trace, boundary: Epoch, now: u64) {
        self.end(trace, Outcome::Snapshot, Tid::first_of(boundary), now);
    }

    /// Records an error of the transaction's own closure that was returned. The transaction's reads must be consistent,
    /// and the transaction must have left nothing.
    pub fn answer(&mut self, trace: Trace, now: u64) {
        self.end(trace, Outcome::Answered, Tid::ZERO, now);
    }

    /// Records a rollback or a refusal: the transaction must have left nothing.
    pub fn abort(&mut self, trace: Trace, now: u64) {
        self.end(trace, Outcome::Aborted, Tid::ZERO, now);
    }

    /// Records a transaction with an unknown outcome.
    pub fn unknown(&mut self, trace: Trace, tid: Option<Tid>, now: u64) {
        self.end(trace, Outcome::Unknown, tid.unwrap_or(Tid::ZERO), now);
    }

    fn end(&mut self, mut trace: Trace, outcome: Outcome, tid: Tid, now: u64) {
        let (first, count) = self.operations.append_all(&trace.operations);
        let (session, begin) = (self.session, trace.begin);
        self.headers.push(Header {
            session,
            outcome,
            acknowledged: false,
            begin,
            end: now,
            tid,
            first,
            count,
        });
        trace.operations.clear();
        self.spare.push(trace.operations);
    }
}

/// The transactions of the sessions, numbered by their begin (after a crash, the transactions of the next process
/// follow).
#[derive(Debug, Default)]
pub struct History {
    headers: Vec<Header>,
    /// Number of transactions judged by the last crash.
    settled: usize,
    operations: Operations,
}

impl History {
    /// The history of these recorders.
    #[must_use]
    pub fn merge(recorders: impl IntoIterator<Item = Recorder>) -> Self {
        let mut history = Self::default();
        history.extend(recorders);
        history
    }

    /// Adds later transactions, of a next process of the same database.
    pub fn extend(&mut self, recorders: impl IntoIterator<Item = Recorder>) {
        let old = self.headers.len();
        for recorder in recorders {
            let (base, _) = self.operations.append_all(&recorder.operations);
            let moved =
                recorder.headers.into_iter().map(|header| Header { first: base + header.first, ..header });
            self.headers.extend(moved);
        }
        self.headers[old..].sort_by_key(|header| header.begin);
    }

    /// Records a crash, after which recovery restored the epochs up to `durable` and nothing later. Returns the number
    /// of committed transactions that were taken back. A transaction with an unknown outcome and a known TID is settled
    /// too.
    pub fn crash(&mut self, durable: Epoch) -> usize {
        let mut lost = 0;
        let settled = std::mem::replace(&mut self.settled, self.headers.len());
        let life = &mut self.headers[settled..];
        // Epochs that left no entry may be durable without a mark. Such epochs are announced and yet used again by the
        // next process. A snapshot of these epochs has lost nothing, and shows the state at `durable`. The same is true
        // of a snapshot shown as durable (R1), whatever its boundary: none of its contents may be among the lost
        // transactions.
        let taken_back = life.iter().filter(|header| {
            matches!(header.outcome, Outcome::Committed | Outcome::Unknown) && header.tid.epoch() > durable
        });
        let first_lost = taken_back.map(|header| header.tid.epoch()).min().unwrap_or(Epoch::MAX);
        for header in life {
            // A snapshot shows the versions below its boundary, and its "TID" is the first TID not shown.
            let kept = match header.outcome {
                Outcome::Snapshot if header.acknowledged || header.tid.epoch() <= first_lost => {
                    header.tid = header.tid.min(Tid::first_of(durable.next()));
                    true
                }
                Outcome::Snapshot => false,
                Outcome::Committed => header.tid.epoch() <= durable,
                // No TID tells the basis of an error. An error that was not shown as durable says nothing after a loss.
                Outcome::Answered => {
                    if !header.acknowledged && first_lost != Epoch::MAX {
                        header.outcome = Outcome::Aborted;
                    }
                    continue;
                }
                Outcome::Unknown if header.tid != Tid::ZERO => {
                    header.outcome = Outcome::Committed;
                    header.tid.epoch() <= durable
                }
                Outcome::Unknown | Outcome::Aborted | Outcome::Lost => continue,
            };
            if !kept {
                header.outcome = Outcome::Lost;
                lost += 1;
            }
        }
        lost
    }

    /// Number of transactions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.headers.len()
    }

    /// True if there are no transactions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// The transactions, in order.
    #[must_use]
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// Operations of a transaction, in order.
    pub fn operations(&self, transaction: usize) -> impl DoubleEndedIterator<Item = Operation<'_>> {
        let Header { first, count, .. } = self.headers[transaction];
        self.operations.range(first, count)
    }

    /// True if the key was present before this transaction wrote the key; `None` if the reads do not tell.
    #[must_use]
    pub fn existed(&self, transaction: usize, key: Key) -> Option<bool> {
        operations::existed(self.operations(transaction), key)
    }
}
