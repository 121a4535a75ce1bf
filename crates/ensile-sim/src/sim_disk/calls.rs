//! Calls of a simulated disk, in one sequence: counted, traced, and made to fail by plan.
//!
//! Neighbours: every method of the disk asks [`Sequence::begin`] for the fate of its call.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, RangeBounds};

use ensile_disk::Operation;

/// Counts of calls, across crashes. Calls of dead processes, or without power, do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls of every kind; the number of the last call.
    pub all: u64,
    /// Writes of bytes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs of files, failed ones included.
    pub syncs: u64,
    /// Syncs of folders.
    pub folder_syncs: u64,
}

/// Failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    code: i32,
    landed_percent: u64,
}

impl Fault {
    /// EIO, and nothing was done.
    pub const INPUT_OUTPUT: Self = Self { code: 5, landed_percent: 0 };
    /// ENOSPC, and nothing was done.
    pub const NO_SPACE: Self = Self { code: 28, landed_percent: 0 };
    /// EMFILE: the process has no descriptor left.
    pub const NO_DESCRIPTOR: Self = Self { code: 24, landed_percent: 0 };

    /// The same error after a part of the call was done: `percent` of a write's bytes, or of a sync's changes. A change
    /// of a name or a length is done only at 100.
    #[must_use]
    pub const fn after_percent(self, percent: u64) -> Self {
        Self { landed_percent: percent, ..self }
    }
}

/// A call, as a trace shows the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Place in the sequence, from 1.
    pub number: u64,
    /// Kind of the call.
    pub operation: Operation,
    /// Name of the file or folder.
    pub name: String,
    /// Offset and bytes of a read or write; the length that is set.
    pub range: Option<(u64, u64)>,
    /// Outcome in words.
    pub outcome: &'static str,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>5} {} {:?}", self.number, self.operation, self.name)?;
        if let Some((offset, bytes)) = self.range {
            write!(f, " {bytes} bytes at {offset}")?;
        }
        write!(f, ": {}", self.outcome)
    }
}

/// Fate of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    /// The call fails, with the system's error number and the percentage done all the same.
    Fails {
        code: i32,
        landed_percent: u64,
    },
    /// Power fails in the midst of the call.
    Cut,
    /// The process died before the system was called.
    NotCalled,
}

impl Fate {
    /// The part of `whole` that is done.
    pub(super) fn share(self, whole: usize) -> usize {
        match self {
            Self::Fails { landed_percent, .. } => (whole as u64 * landed_percent / 100) as usize,
            Self::Done | Self::Cut => whole,
            Self::NotCalled => 0,
        }
    }

    /// True if the call is done as a whole, whatever the caller is told.
    pub(super) fn is_whole(self) -> bool {
        !matches!(self, Self::Fails { landed_percent: 0..100, .. } | Self::NotCalled)
    }

    /// The error number for the caller.
    pub(super) fn code(self) -> Option<i32> {
        match self {
            Self::Done => None,
            Self::Fails { code, .. } => Some(code),
            // No caller is left.
            Self::Cut | Self::NotCalled => Some(Fault::INPUT_OUTPUT.code),
        }
    }
}

/// First and last number of the failing calls, and the failure.
type Planned = (u64, u64, Fault);

/// The sequence of calls, and the plan for later calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    pub(super) calls: Calls,
    of_kind: BTreeMap<u8, u64>,
    planned: Vec<Planned>,
    /// Kind, and number of the call among the calls of its kind.
    planned_of_kind: Vec<(Operation, u64)>,
    all_syncs_fail: bool,
    cut_at: Option<u64>,
    /// True if nothing of the call `cut_at` is done.
    cuts_before: bool,
    pub(super) is_cut: bool,
    trace: Option<Vec<Call>>,
}

impl Sequence {
    /// Counts a call and returns its fate.
    pub(super) fn begin(&mut self, operation: Operation, name: &str, range: Option<(u64, u64)>) -> Fate {
        self.calls.all += 1;
        let number = self.calls.all;
        let of_kind = self.of_kind.entry(operation as u8).or_default();
        *of_kind += 1;
        let of_kind = *of_kind;
        match operation {
            Operation::Write => {
                self.calls.writes += 1;
                self.calls.written_bytes += range.map_or(0, |(_, bytes)| bytes);
            }
            Operation::Sync => self.calls.syncs += 1,
            Operation::SyncFolder => self.calls.folder_syncs += 1,
            _ => {}
        }
        let grows = matches!(
            operation,
            Operation::Write | Operation::Preallocate | Operation::Create | Operation::CreateFolder
        );
        let planned = self.planned.iter().find(|(from, to, fault)| {
            // A disk that stays full refuses only calls that grow a file or folder.
            (*from..=*to).contains(&number)
                && (*from == number || grows || fault.code != Fault::NO_SPACE.code)
        });
        let by_kind = self.planned_of_kind.contains(&(operation, of_kind))
            || self.all_syncs_fail && operation == Operation::Sync;
        let fate = if self.cut_at == Some(number) {
            self.is_cut = true;
            if self.cuts_before { Fate::NotCalled } else { Fate::Cut }
        } else if let Some(&(_, _, Fault { code, landed_percent })) = planned {
            Fate::Fails { code, landed_percent }
        } else if by_kind {
            Fate::Fails { code: Fault::INPUT_OUTPUT.code, landed_percent: 0 }
        } else {
            Fate::Done
        };
        if let Some(trace) = &mut self.trace {
            let name = name.to_owned();
            trace.push(Call { number, operation, name, range, outcome: outcome(fate) });
        }
        fate
    }

    /// Replaces the planned outcome of the call just begun.
    pub(super) fn note(&mut self, outcome: &'static str) {
        if let Some(last) = self.trace.as_mut().and_then(|trace| trace.last_mut()) {
            last.outcome = outcome;
        }
    }

    pub(super) fn fail(&mut self, calls: impl RangeBounds<u64>, fault: Fault) {
        let from = match calls.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => 0,
        };
        let to = match calls.end_bound() {
            Bound::Included(to) => *to,
            Bound::Excluded(behind) => behind.saturating_sub(1),
            Bound::Unbounded => u64::MAX,
        };
        self.planned.push((from, to, fault));
    }

    pub(super) fn fail_next(&mut self, operation: Operation, count: u64) {
        let so_far = self.of_kind.get(&(operation as u8)).copied().unwrap_or_default();
        self.planned_of_kind.push((operation, so_far + count));
    }

    pub(super) fn fail_all_syncs(&mut self, fail: bool) {
        self.all_syncs_fail = fail;
    }

    pub(super) fn cut_at(&mut self, number: u64) {
        (self.cut_at, self.cuts_before) = (Some(number), false);
    }

    pub(super) fn cut_before(&mut self, number: u64) {
        (self.cut_at, self.cuts_before) = (Some(number), true);
    }

    /// Power is back.
    pub(super) fn restart(&mut self) {
        (self.cut_at, self.is_cut) = (None, false);
    }

    pub(super) fn heal(&mut self) {
        self.planned.clear();
        self.planned_of_kind.clear();
        self.all_syncs_fail = false;
        self.cut_at = None;
    }

    pub(super) fn record(&mut self, record: bool) {
        self.trace = record.then(Vec::new);
    }

    pub(super) fn trace(&self) -> &[Call] {
        self.trace.as_deref().unwrap_or_default()
    }
}

fn outcome(fate: Fate) -> &'static str {
    match fate {
        Fate::Done => "done",
        Fate::Fails { code: 28, .. } => "ENOSPC",
        Fate::Fails { .. } => "EIO",
        Fate::Cut => "power fails",
        Fate::NotCalled => "the process dies",
    }
}
