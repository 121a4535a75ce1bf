//! The version that every read saw.
//!
//! A value names its write. Further cases are decided here too: own writes, values that should not have been seen, and
//! absence. Absence does not name a version. An absent read may have seen every matching version that real time allows.
//! If the reader wrote the key as well, the read saw the version before the reader's own. A single possible version
//! decides the observation. With more versions the observation is [`Ambiguous`], for `narrow` to work on.
//!
//! Neighbours: `graph` draws the edges of the observations decided here.

use ensile_base::Tid;

use super::findings::{Findings, Kind};
use super::own::{OwnView, OwnWrites};
use super::versions::{Versions, end_of};
use super::words::list_in_words;
use super::writes::{ABSENT, NONE, Writes};
use crate::history::{History, Key, Operation, Outcome, Predicate, Value};

/// Test if a predicate matches a value.
pub(super) type Matches<'m> = &'m dyn Fn(Predicate, Value) -> bool;

/// Content of an observation without a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    Absent,
    Present,
    /// The version matches.
    Match(Predicate),
    /// The version is absent or does not match.
    NoMatch(Predicate),
}

impl Told {
    pub(super) fn fits(self, value: Value, matches: Matches<'_>) -> bool {
        match self {
            Self::Absent => value == ABSENT,
            Self::Present => value != ABSENT,
            Self::Match(predicate) => value != ABSENT && matches(predicate, value),
            Self::NoMatch(predicate) => value == ABSENT || !matches(predicate, value),
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Present => "present",
            Self::Match(_) => "matching",
            Self::NoMatch(_) => "absent or not matching",
        }
    }
}

/// Origin of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A read of the key.
    Key = 0,
    /// A scan without a predicate that showed the key or did not.
    Scan = 1,
    /// A scan with a predicate that showed the key's value.
    Match = 2,
    /// A scan with a predicate that told only if the key matches.
    Predicate = 3,
}

/// An observation: a version and its origin, in one word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation(u32);

impl Observation {
    const BY_SHIFT: u32 = 30;

    fn new(version: u32, by: By) -> Self {
        assert!(version < 1 << Self::BY_SHIFT, "a history of 2^30 versions");
        Self(version | (by as u32) << Self::BY_SHIFT)
    }

    pub(super) fn version(self) -> u32 {
        self.0 & ((1 << Self::BY_SHIFT) - 1)
    }

    pub(super) fn by(self) -> By {
        match self.0 >> Self::BY_SHIFT {
            0 => By::Key,
            1 => By::Scan,
            2 => By::Match,
            _ => By::Predicate,
        }
    }
}

/// A decided observation: reader, version and origin.
pub(super) type Settled = (u32, u32, By);

/// An observation that fits the versions `low` and `high` of a key, and perhaps versions between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ambiguous {
    pub(super) reader: u32,
    pub(super) low: u32,
    pub(super) high: u32,
    pub(super) told: Told,
    pub(super) by: By,
}

/// The observations, grouped by transaction.
#[derive(Default)]
pub(super) struct Reads {
    seen: Vec<Observation>,
    first: Vec<u32>,
    pub(super) ambiguous: Vec<Ambiguous>,
    /// Number of absent reads of keys with unplaced versions: nothing follows from such reads.
    pub(super) undecided: usize,
}

impl Reads {
    /// The observations of a transaction, without the ambiguous observations.
    pub(super) fn of(&self, transaction: u32) -> &[Observation] {
        &self.seen[self.first[transaction as usize] as usize..self.first[transaction as usize + 1] as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.seen.len() + self.ambiguous.len() + self.undecided
    }

    pub(super) fn resolve<'h>(
        history: &'h History,
        writes: &Writes,
        versions: &Versions,
        matches: Matches<'_>,
        findings: &mut Findings<'h>,
    ) -> Self {
        let reads = Self::default();
        let keys = writes.keys.len();
        let mut resolving = Resolving {
            history,
            writes,
            versions,
            matches,
            findings,
            reads,
            own: OwnWrites::new(keys),
            own_version: vec![(NONE, NONE); keys],
            in_scan: vec![0; keys],
            scans: 0,
            reader: 0,
        };
        for transaction in 0..history.len() as u32 {
            resolving.reads.first.push(resolving.reads.seen.len() as u32);
            if writes.took_place[transaction as usize] {
                resolving.transaction(transaction);
            }
        }
        resolving.reads.first.push(resolving.reads.seen.len() as u32);
        resolving.reads
    }

    /// Adds the observations that are no longer ambiguous.
    pub(super) fn settle(&mut self, mut settled: Vec<Settled>) {
        settled.sort_unstable_by_key(|(reader, ..)| *reader);
        let mut settled = settled.into_iter().peekable();
        let mut seen = Vec::with_capacity(self.seen.len() + settled.len());
        let mut first = Vec::with_capacity(self.first.len());
        for transaction in 0..self.first.len() as u32 - 1 {
            first.push(seen.len() as u32);
            seen.extend_from_slice(self.of(transaction));
            while let Some((_, version, by)) = settled.next_if(|(reader, ..)| *reader == transaction) {
                seen.push(Observation::new(version, by));
            }
        }
        first.push(seen.len() as u32);
        (self.seen, self.first) = (seen, first);
    }
}

struct Resolving<'r, 'h> {
    history: &'h History,
    writes: &'r Writes,
    versions: &'r Versions,
    matches: Matches<'r>,
    findings: &'r mut Findings<'h>,
    reads: Reads,
    own: OwnWrites,
    /// Per key: the last transaction handled here that wrote the key, and its version.
    own_version: Vec<(u32, u32)>,
    /// Per key: the last scan that showed the key.
    in_scan: Vec<u32>,
    scans: u32,
    reader: u32,
}

impl Resolving<'_, '_> {
    fn transaction(&mut self, reader: u32) {
        self.reader = reader;
        self.own.begin(reader);
        for write in self.writes.of(reader) {
            let key = self.writes.writes[write].key as usize;
            if let Some(version) = self.versions.of_write(write as u32) {
                self.own_version[key] = (reader, version);
            }
        }
        let mut operations = self.history.operations(reader as usize);
        while let Some(operation) = operations.next() {
            match operation {
                Operation::Scan { range, predicate, rows } => {
                    self.scan(range, predicate, operations.by_ref().take(rows));
                }
                Operation::Write { key, value } => self.own.write(self.number_of_written(key), value),
                Operation::Delete { key } => self.own.write(self.number_of_written(key), ABSENT),
                Operation::Append { key, element } => self.own.append(self.number_of_written(key), element),
                read => self.read(read, By::Key),
            }
        }
    }

    fn number_of_written(&self, key: Key) -> u32 {
        let Some(number) = self.writes.number(key) else {
            unreachable!("keys that are written have numbers")
        };
        number
    }

    fn read(&mut self, read: Operation<'_>, by: By) {
        match read {
            Operation::Read { key, seen: Some(value) } => match self.writes.number(key) {
                Some(number) => self.value(number, value, by),
                None => self.unknown(key, value),
            },
            Operation::Read { key, seen: None } => self.told(key, Told::Absent, by),
            Operation::ReadPresent { key } => self.told(key, Told::Present, by),
            Operation::ReadList { key, seen } => self.list(key, seen, by),
            _ => unreachable!("a scan's rows are reads"),
        }
    }

    fn unknown(&mut self, key: Key, value: Value) {
        let reader = self.reader;
        self.findings.add(Kind::UnknownValue, &[reader], |_| {
            format!("T{reader} read {value} of key {key}, which nobody wrote to it")
        });
    }

    fn internal(&mut self, key: u32, own: &str, seen: &str) {
        let (reader, key) = (self.reader, self.writes.keys[key as usize]);
        self.findings.add(Kind::Internal, &[reader], |_| {
            format!("T{reader} had made key {key} {own} itself, and saw it {seen}")
        });
    }

    /// Handles the value of a register that was seen.
    fn value(&mut self, key: u32, value: Value, by: By) {
        match self.own.view(key) {
            OwnView::None => self.others_value(key, value, by),
            OwnView::Register(own) if own == value => {}
            OwnView::Register(ABSENT) => self.internal(key, "absent", &value.to_string()),
            OwnView::Register(own) => self.internal(key, &own.to_string(), &value.to_string()),
            OwnView::List { .. } => self.internal(key, "a list", &value.to_string()),
        }
    }

    fn others_value(&mut self, key: u32, value: Value, by: By) {
        let Some(write) = self.writes.find(key, value) else {
            return self.unknown(self.writes.keys[key as usize], value);
        };
        let made = self.writes.writes[write as usize];
        let (writer, reader) = (made.transaction, self.reader);
        let name = self.writes.keys[key as usize];
        if writer == reader {
            self.findings.add(Kind::Internal, &[reader], |_| {
                format!("T{reader} read {value} of key {name} before it wrote it")
            });
            return;
        }
        if !self.writes.has_effect[writer as usize] {
            self.findings.add(Kind::G1a, &[writer, reader], |_| {
                format!("T{reader} read {value} of key {name}, which T{writer} wrote without effect")
            });
            return;
        }
        if !made.is_final {
            self.findings.add(Kind::G1b, &[writer, reader], |_| {
                format!("T{reader} read {value} of key {name}, which T{writer} replaced before it committed")
            });
        }
        if let Some(version) = self.versions.of_write(write) {
            self.check_boundary(key, version);
            self.reads.seen.push(Observation::new(version, by));
        }
    }

    /// Checks that a snapshot saw the boundary's version.
    fn check_boundary(&mut self, key: u32, seen: u32) {
        let header = &self.history.headers()[self.reader as usize];
        if header.outcome != Outcome::Snapshot {
            return;
        }
        let boundary = header.tid.epoch();
        let Some(expected) = self.versions.at_boundary(key, boundary).filter(|expected| *expected != seen)
        else {
            return;
        };
        let (reader, name) = (self.reader, self.writes.keys[key as usize]);
        let (expected, seen) = (self.versions.get(expected), self.versions.get(seen));
        let named: Vec<u32> =
            [reader, expected.writer, seen.writer].into_iter().filter(|named| *named != NONE).collect();
        self.findings.add(Kind::SnapshotBoundary, &named, |_| {
            format!(
                "T{reader} showed key {name} as {}, the last version below epoch {boundary} is {}",
                version_in_words(seen.value, seen.writer),
                version_in_words(expected.value, expected.writer)
            )
        });
    }

    fn list(&mut self, key: Key, seen: &[Value], by: By) {
        let Some(number) = self.writes.number(key) else {
            return seen.first().into_iter().for_each(|element| self.unknown(key, *element));
        };
        let others = match self.own.view(number) {
            OwnView::None => seen,
            OwnView::List { cleared, own } => match seen.strip_suffix(own) {
                Some([]) if cleared => return,
                Some(others) if !cleared => others,
                _ => {
                    let (own, seen) = (list_in_words(own), list_in_words(seen));
                    let own = if cleared {
                        format!("the list {own}")
                    } else {
                        format!("a list that ends with {own}")
                    };
                    return self.internal(number, &own, &seen);
                }
            },
            OwnView::Register(ABSENT) if seen.is_empty() => return,
            OwnView::Register(ABSENT) => return self.internal(number, "absent", &list_in_words(seen)),
            OwnView::Register(_) => return self.internal(number, "a register", "a list"),
        };
        match others.last() {
            None => self.others_told(number, Told::Absent, by),
            // An element that was never appended, or without effect, was reported when chains were collected.
            Some(last) if self.writes.find(number, *last).is_some_and(|write| self.writes.counts(write)) => {
                self.others_value(number, *last, by);
            }
            Some(_) => {}
        }
    }

    fn scan<'o>(
        &mut self,
        range: std::ops::Range<Key>,
        predicate: Option<Predicate>,
        rows: impl Iterator<Item = Operation<'o>>,
    ) {
        self.scans += 1;
        let (by, told) = match predicate {
            Some(predicate) => (By::Predicate, Told::NoMatch(predicate)),
            None => (By::Scan, Told::Absent),
        };
        for row in rows {
            let (key, value) = match &row {
                Operation::Read { key, seen } => (*key, *seen),
                Operation::ReadList { key, .. } | Operation::ReadPresent { key } => (*key, None),
                _ => unreachable!("a scan's rows are reads"),
            };
            let matches =
                value.zip(predicate).is_none_or(|(value, predicate)| (self.matches)(predicate, value));
            let twice = self.writes.number(key).is_some_and(|number| {
                std::mem::replace(&mut self.in_scan[number as usize], self.scans) == self.scans
            });
            if !range.contains(&key) || !matches || twice {
                let reader = self.reader;
                self.findings.add(Kind::WrongRow, &[reader], |_| {
                    format!(
                        "T{reader} scanned {range:?} for {predicate:?} and was shown key {key} as {value:?}"
                    )
                });
            }
            match (row, predicate) {
                (Operation::ReadPresent { key }, Some(predicate)) => {
                    self.told(key, Told::Match(predicate), by)
                }
                (row, Some(_)) => self.read(row, By::Match),
                (row, None) => self.read(row, By::Scan),
            }
        }
        let number = |key: Key| self.writes.keys.partition_point(|written| *written < key);
        for key in number(range.start)..number(range.end) {
            if self.in_scan[key] != self.scans {
                self.told(self.writes.keys[key], told, by);
            }
        }
    }

    /// Handles an observation of a key without a value.
    fn told(&mut self, key: Key, told: Told, by: By) {
        let Some(number) = self.writes.number(key) else {
            // The key was never written: absent is right.
            if !told.fits(ABSENT, self.matches) {
                self.never_so(key, told);
            }
            return;
        };
        let own = match self.own.view(number) {
            OwnView::None => return self.others_told(number, told, by),
            OwnView::Register(own) => own,
            OwnView::List { own, .. } => own.last().copied().unwrap_or(ABSENT),
        };
        if !told.fits(own, self.matches) {
            let own = if own == ABSENT { "absent".to_owned() } else { own.to_string() };
            self.internal(number, &own, told.in_words());
        }
    }

    fn never_so(&mut self, key: Key, told: Told) {
        let reader = self.reader;
        self.findings.add(Kind::NeverSo, &[reader], |_| {
            format!("T{reader} saw key {key} {}, and no version of it is", told.in_words())
        });
    }

    fn others_told(&mut self, key: u32, told: Told, by: By) {
        if self.versions.has_unplaced(key) {
            self.reads.undecided += 1;
            return;
        }
        let header = &self.history.headers()[self.reader as usize];
        let fits = |version: &u32| told.fits(self.versions.get(*version).value, self.matches);
        let all = self.versions.of_key(key);
        let may = match self.boundary() {
            Some(boundary) => match self.versions.at_boundary(key, boundary) {
                Some(version) => version..=version,
                None => all.start..=all.end - 1,
            },
            None => self.versions.between(key, header.begin, end_of(self.history, self.reader)),
        };
        let may = match self.own_version[key as usize] {
            // Only the version before the transaction's own: a version between would mean a lost write.
            (reader, own) if reader == self.reader && own != NONE => own - 1..=own - 1,
            _ => may,
        };
        let (low, high) = (may.clone().find(fits), may.clone().rev().find(fits));
        let nearest = || {
            let (start, end) = (*may.start(), *may.end());
            (all.start..start).rev().find(fits).or_else(|| (end + 1..all.end).find(fits))
        };
        match (low, high) {
            (Some(low), Some(high)) if low == high => self.reads.seen.push(Observation::new(low, by)),
            (Some(low), Some(high)) => {
                let reader = self.reader;
                self.reads.ambiguous.push(Ambiguous { reader, low, high, told, by });
            }
            // No version fits at the right place: a fitting version elsewhere makes the contradiction visible as a
            // cycle.
            _ => match nearest() {
                Some(version) => {
                    self.check_boundary(key, version);
                    self.reads.seen.push(Observation::new(version, by));
                }
                None => self.never_so(self.writes.keys[key as usize], told),
            },
        }
    }

    fn boundary(&self) -> Option<ensile_base::Epoch> {
        let header = &self.history.headers()[self.reader as usize];
        (header.outcome == Outcome::Snapshot).then(|| Tid::epoch(header.tid))
    }
}

/// A version in words.
pub(super) fn version_in_words(value: Value, writer: u32) -> String {
    match (value, writer) {
        (ABSENT, NONE) => "never written".to_owned(),
        (ABSENT, writer) => format!("deleted by T{writer}"),
        (value, writer) => format!("{value} of T{writer}"),
    }
}
