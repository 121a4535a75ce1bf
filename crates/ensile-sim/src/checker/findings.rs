//! Findings of the checker: anomalies by name, counted, and the first of each kind in words.
//!
//! Neighbours: every part of the checker adds here; the caller prints [`Report`].

use std::collections::BTreeMap;
use std::fmt;

use super::words::Words;
use crate::history::History;

/// Number of anomalies of a kind that are described in full; further anomalies are only counted.
const TOLD_MAX: usize = 4;

/// Kind of an anomaly. Cycles have Adya's names ("Weak Consistency", 1999): edges are ww (wrote the next version), wr
/// (read the other's write) and rw (read a version that the other overwrote).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A cycle of ww edges: two transactions' writes are interleaved.
    G0,
    /// A transaction saw a value of a transaction that aborted, or that a crash took back.
    G1a,
    /// A transaction saw a value that its writer had already replaced at the commit.
    G1b,
    /// A cycle of ww and wr edges: information flowed in a circle.
    G1c,
    /// A cycle with one rw edge: the values read were never the state at one time (read skew).
    GSingle,
    /// A cycle with one rw edge of two writers of one key: the second writer did not see the first write.
    LostUpdate,
    /// A cycle with two or more rw edges, each by a read of a single key (write skew).
    G2Item,
    /// A cycle with two or more rw edges, at least one by a row that a scan did not see or no longer would see
    /// (phantom).
    G2,
    /// As [`Kind::G0`], with the order of real time needed to close the cycle.
    G0Realtime,
    /// As [`Kind::G1c`], with real time.
    G1cRealtime,
    /// As [`Kind::GSingle`], with real time: a stale read.
    GSingleRealtime,
    /// As [`Kind::G2Item`], with real time.
    G2ItemRealtime,
    /// As [`Kind::G2`], with real time.
    G2Realtime,
    /// A read contradicts the transaction's own writes.
    Internal,
    /// A transaction saw a value that was never written to the key.
    UnknownValue,
    /// A transaction saw a state of a key that none of its versions has.
    NeverSo,
    /// Two transactions wrote the same value to a key.
    DuplicateWrite,
    /// A list has an element twice.
    DuplicateElement,
    /// Two reads of a list disagree on the order, or a list on the order of TIDs.
    IncompatibleOrder,
    /// A scan showed a row outside its range, twice, or one that does not match.
    WrongRow,
    /// A snapshot does not show the last version below its boundary.
    SnapshotBoundary,
    /// Two versions of a key have one TID.
    DuplicateTid,
    /// A TID is not above a TID that its transaction read.
    TidOrder,
    /// The version read by a transaction was overwritten in an earlier epoch than the transaction's: a crash could keep
    /// the later half.
    EpochOrder,
    /// A crash took back a transaction that had been shown as durable.
    LostDurable,
}

impl Kind {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::G0 => "G0 (dirty write)",
            Self::G1a => "G1a (aborted read)",
            Self::G1b => "G1b (intermediate read)",
            Self::G1c => "G1c (circular information flow)",
            Self::GSingle => "G-single (read skew)",
            Self::LostUpdate => "lost update",
            Self::G2Item => "G2-item (write skew)",
            Self::G2 => "G2 (phantom)",
            Self::G0Realtime => "G0-realtime",
            Self::G1cRealtime => "G1c-realtime",
            Self::GSingleRealtime => "G-single-realtime (stale read)",
            Self::G2ItemRealtime => "G2-item-realtime",
            Self::G2Realtime => "G2-realtime",
            Self::Internal => "internal (own write not seen)",
            Self::UnknownValue => "unknown value",
            Self::NeverSo => "state that never was",
            Self::DuplicateWrite => "duplicate write",
            Self::DuplicateElement => "duplicate element",
            Self::IncompatibleOrder => "incompatible order",
            Self::WrongRow => "wrong row in a scan",
            Self::SnapshotBoundary => "snapshot not of its boundary",
            Self::DuplicateTid => "duplicate TID",
            Self::TidOrder => "TID not above what was read",
            Self::EpochOrder => "overwritten in an earlier epoch",
            Self::LostDurable => "lost although durable",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One anomaly, told in words.
#[derive(Clone, Debug)]
pub struct Anomaly {
    /// Kind of the anomaly.
    pub kind: Kind,
    /// Participants, by place in the history; for a cycle, in its order.
    pub transactions: Vec<u32>,
    /// A sentence for each edge, or a single sentence.
    pub sentences: Vec<String>,
    /// Lines of the transactions.
    lines: Vec<String>,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.kind)?;
        self.lines.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        self.sentences.iter().try_for_each(|sentence| writeln!(f, "  - {sentence}"))
    }
}

/// Numbers of the checked parts of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Transactions, aborted ones included.
    pub transactions: usize,
    /// Transactions that committed, or were of unknown outcome and seen.
    pub committed: usize,
    /// Snapshots among the committed transactions.
    pub snapshots: usize,
    /// Errors of closures that were returned.
    pub answered: usize,
    /// Versions of keys.
    pub versions: usize,
    /// Observations: reads, and keys that a scan did not show.
    pub reads: usize,
    /// Observations that fit more than one version to the end (see `docs/internals/protocols/proof.md`).
    pub ambiguous: usize,
    /// Edges: ww.
    pub ww: usize,
    /// Edges: wr.
    pub wr: usize,
    /// Edges: rw.
    pub rw: usize,
    /// Edges of real time, barriers included.
    pub realtime: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transactions, committed, snapshots, answered, versions, reads, ambiguous, .. } = self;
        let Self { ww, wr, rw, realtime, .. } = self;
        write!(
            f,
            "{transactions} transactions, {committed} committed ({snapshots} snapshots), {answered} errors handed out, \
             {versions} versions, {reads} reads ({ambiguous} ambiguous), edges: {ww} ww, {wr} wr, {rw} rw, {realtime} of real time"
        )
    }
}

/// Proof that a history has no serial order.
#[derive(Clone, Debug)]
pub struct Report {
    /// Numbers of the checked parts.
    pub summary: Summary,
    /// The first few anomalies of each kind.
    pub anomalies: Vec<Anomaly>,
    /// Number of anomalies of each kind.
    pub counts: BTreeMap<Kind, usize>,
}

impl Report {
    /// True if the checker found this kind.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.counts.contains_key(&kind)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.summary)?;
        for (kind, count) in &self.counts {
            writeln!(f, "{count} x {kind}")?;
        }
        self.anomalies.iter().try_for_each(|anomaly| write!(f, "\n{anomaly}"))
    }
}

impl std::error::Error for Report {}

/// Collector of anomalies.
pub(super) struct Findings<'h> {
    history: &'h History,
    anomalies: Vec<Anomaly>,
    counts: BTreeMap<Kind, usize>,
}

impl<'h> Findings<'h> {
    pub(super) fn new(history: &'h History) -> Self {
        Self { history, anomalies: Vec::new(), counts: BTreeMap::new() }
    }

    /// Adds an anomaly with one sentence.
    pub(super) fn add(
        &mut self,
        kind: Kind,
        transactions: &[u32],
        sentence: impl FnOnce(&Words<'h>) -> String,
    ) {
        self.add_cycle(kind, transactions, |words| vec![sentence(words)]);
    }

    /// Adds an anomaly with a sentence for each edge.
    pub(super) fn add_cycle(
        &mut self,
        kind: Kind,
        transactions: &[u32],
        sentences: impl FnOnce(&Words<'h>) -> Vec<String>,
    ) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count > TOLD_MAX {
            return;
        }
        let words = Words::new(self.history);
        let mut named = transactions.to_vec();
        named.sort_unstable();
        named.dedup();
        self.anomalies.push(Anomaly {
            kind,
            transactions: transactions.to_vec(),
            sentences: sentences(&words),
            lines: named.iter().map(|transaction| words.transaction(*transaction)).collect(),
        });
    }

    /// Returns the result of the check.
    pub(super) fn close(mut self, summary: Summary) -> Result<Summary, Box<Report>> {
        if self.counts.is_empty() {
            return Ok(summary);
        }
        self.anomalies.sort_by_key(|anomaly| anomaly.kind);
        Err(Box::new(Report { summary, anomalies: self.anomalies, counts: self.counts }))
    }
}
