//! Histories: what transactions did and saw, recorded while they ran, to be judged by the [`checker`](crate::checker).
//!
//! ```text
//! Recorder (one per session)   begin -> Trace (any number open at a time)
//!                              -> commit | snapshot | answer | abort | unknown
//! History                      all recorders' transactions together, in columns, numbered by their begin
//! ```
//! Two kinds of keys, told apart by how they are written: a *register* holds one value, a *list* grows by appends and
//! is read whole. Every value (and element) is written once to a key, so a read names the write that it saw. Either
//! kind may be absent; an empty list is an absent one.
//!
//! Neighbours: tests of the engine record here; instants come from `ensile_base::clock`, TIDs from receipts.

use std::ops::Range;

use ensile_base::{Epoch, Tid};

mod operations;

pub use operations::Operation;
use operations::Operations;

/// A key of a history. Workloads number the keys of all their tables without overlap.
pub type Key = u64;
/// What a register holds or a list has as its element. No key is given the same one twice; `u64::MAX` is kept.
pub type Value = u64;

/// What a scan looked for among the rows of its range, as a number of the workload's (say, an index) and an argument
/// (a key of that index). The checker asks the workload which values match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicate {
    /// Which predicate.
    pub name: u32,
    /// Its argument.
    pub argument: u64,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It committed.
    Committed,
    /// A snapshot that was read and let go: it belongs where its boundary stands.
    Snapshot,
    /// A closure failed by itself, and its error was handed out. It had no effect, but all that it was told is an
    /// answer (R2).
    Answered,
    /// It had no effect and showed nothing.
    Aborted,
    /// It may have committed or not: counted as committed once somebody saw a value of it.
    Unknown,
    /// It committed and a crash took it back (see [`History::crash`]): as if aborted.
    Lost,
}

/// One transaction but for its operations.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Who ran it.
    pub session: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether its result was shown as durable.
    pub acknowledged: bool,
    /// When it began, before its first operation.
    pub begin: u64,
    /// When its outcome was known.
    pub end: u64,
    /// Of a committed transaction, its TID if it is known; of a snapshot, the first TID that it must not show. Else
    /// zero.
    pub tid: Tid,
    first: u32,
    count: u32,
}

/// An open transaction: what it did so far, in order.
#[derive(Debug)]
pub struct Trace {
    begin: u64,
    operations: Operations,
}

impl Trace {
    /// A read of a register, and what it saw.
    pub fn read(&mut self, key: Key, seen: Option<Value>) {
        self.operations.read(key, seen);
    }

    /// A read that told only that the key was there: an insert that was refused, a delete that found a row.
    pub fn read_present(&mut self, key: Key) {
        self.operations.present(key);
    }

    /// A read of a list, and what it saw; nothing if the key was absent.
    pub fn read_list(&mut self, key: Key, seen: &[Value]) {
        self.operations.list(key, seen);
    }

    /// A write of a register, blind or not.
    pub fn write(&mut self, key: Key, value: Value) {
        self.operations.write(key, value);
    }

    /// A delete that took a row away. A delete that found none is a read of absence. Of a row that this transaction
    /// wrote itself, the history must tell by a read whether there was one before: else it cannot be said whether
    /// the delete made a version.
    pub fn delete(&mut self, key: Key) {
        self.operations.delete(key);
    }

    /// An append to a list.
    pub fn append(&mut self, key: Key, element: Value) {
        self.operations.append(key, element);
    }

    /// A scan of registers: what it saw; all other keys of the range it saw absent.
    pub fn scan(&mut self, range: Range<Key>, seen: impl IntoIterator<Item = (Key, Value)>) {
        self.scan_for(range, None, seen);
    }

    /// A scan of registers for values that match: what it saw; what it did not see was absent or did not match.
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

    /// A scan of lists: what it saw; all other keys of the range it saw absent.
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

    /// A scan that told only which keys have matching values: those, and that no other key of the range has.
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

    /// The transaction's own last word on a register: `None` if it has not written it, `Some(None)` if it deleted it.
    #[must_use]
    pub fn own(&self, key: Key) -> Option<Option<Value>> {
        self.operations.iter().rev().find_map(|operation| match operation {
            Operation::Write { key: written, value } if written == key => Some(Some(value)),
            Operation::Delete { key: deleted } if deleted == key => Some(None),
            _ => None,
        })
    }

    /// Whether the key was there before the transaction wrote it, if its reads tell.
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
    /// For the transactions of one session (say, a thread).
    #[must_use]
    pub fn new(session: u32) -> Self {
        Self { session, headers: Vec::new(), operations: Operations::default(), spare: Vec::new() }
    }

    /// Transactions that have ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.headers.len()
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// A transaction begins. Any number may be open side by side.
    #[must_use]
    pub fn begin(&mut self, now: u64) -> Trace {
        Trace { begin: now, operations: self.spare.pop().unwrap_or_default() }
    }

    /// It committed; `now` is read after the commit returned. The TID may be left out where lists tell the order of
    /// versions.
    pub fn commit(&mut self, trace: Trace, tid: Option<Tid>, now: u64) {
        self.end(trace, Outcome::Committed, tid.unwrap_or(Tid::ZERO), now);
    }

    /// The transaction that ended last was shown as durable, or will be in this life: no crash may take it back.
    pub fn acknowledge(&mut self) {
        if let Some(header) = self.headers.last_mut() {
            header.acknowledged = true;
        }
    }

    /// A snapshot of this boundary was read.
    pub fn snapshot(&mut self, trace: Trace, boundary: Epoch, now: u64) {
        self.end(trace, Outcome::Snapshot, Tid::first_of(boundary), now);
    }

    /// Its closure's own error was handed out: what it was told must stand together, and it must have left nothing.
    pub fn answer(&mut self, trace: Trace, now: u64) {
        self.end(trace, Outcome::Answered, Tid::ZERO, now);
    }

    /// It was rolled back, or refused: it must have left nothing.
    pub fn abort(&mut self, trace: Trace, now: u64) {
        self.end(trace, Outcome::Aborted, Tid::ZERO, now);
    }

    /// Nobody knows whether it committed.
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

/// The transactions of all sessions, numbered by their begin (after a crash, the next life's follow).
#[derive(Debug, Default)]
pub struct History {
    headers: Vec<Header>,
    /// How many of them were judged by the last crash.
    settled: usize,
    operations: Operations,
}

impl History {
    /// What these recorders recorded.
    #[must_use]
    pub fn merge(recorders: impl IntoIterator<Item = Recorder>) -> Self {
        let mut history = Self::default();
        history.extend(recorders);
        history
    }

    /// Adds what happened later: a next life of the same database.
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

    /// A crash, after which recovery brought back everything up to `durable` and nothing later. Returns how many
    /// committed transactions were taken back. A transaction of an unknown outcome whose TID is known is settled
    /// too.
    pub fn crash(&mut self, durable: Epoch) -> usize {
        let mut lost = 0;
        let settled = std::mem::replace(&mut self.settled, self.headers.len());
        let life = &mut self.headers[settled..];
        // Epochs that left no entry may be durable without a mark, so they are announced and yet used again by the next
        // life: a snapshot of them has lost nothing, and shows what there was at `durable`. So does one that was shown
        // as durable (R1), whatever its boundary: none of what it showed may be among what was taken back.
        let taken_back = life.iter().filter(|header| {
            matches!(header.outcome, Outcome::Committed | Outcome::Unknown) && header.tid.epoch() > durable
        });
        let first_lost = taken_back.map(|header| header.tid.epoch()).min().unwrap_or(Epoch::MAX);
        for header in life {
            // A snapshot shows what is below its boundary, and its "TID" is the first that it does not show.
            let kept = match header.outcome {
                Outcome::Snapshot if header.acknowledged || header.tid.epoch() <= first_lost => {
                    header.tid = header.tid.min(Tid::first_of(durable.next()));
                    true
                }
                Outcome::Snapshot => false,
                Outcome::Committed => header.tid.epoch() <= durable,
                // No TID tells what an error rests on. What was not shown as durable says nothing after a loss.
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

    /// How many transactions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.headers.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// All transactions, in order.
    #[must_use]
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// What one transaction did, in order.
    pub fn operations(&self, transaction: usize) -> impl DoubleEndedIterator<Item = Operation<'_>> {
        let Header { first, count, .. } = self.headers[transaction];
        self.operations.range(first, count)
    }

    /// Whether the key was there before this transaction wrote it, if its reads tell.
    #[must_use]
    pub fn existed(&self, transaction: usize, key: Key) -> Option<bool> {
        operations::existed(self.operations(transaction), key)
    }
}
