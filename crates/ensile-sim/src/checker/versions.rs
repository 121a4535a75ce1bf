//! The versions of each key, in order: by the TIDs of their transactions, or by the growth of lists.
//!
//! Versions of one key stand together. The first version is the absence before the first write. A version without a
//! place (its transaction has no TID and no list shows the version) stands behind the placed versions and has no
//! neighbours.
//!
//! Neighbours: `reads` finds the version that was seen; `graph` draws edges between neighbours.

use ensile_base::{Epoch, Tid};

use super::chains::{Chains, FIRST};
use super::findings::{Findings, Kind};
use super::writes::{ABSENT, NONE, Write, Writes};
use crate::history::{History, Key, Outcome, Value};

/// A version of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    /// Final write that made the version; [`NONE`] for the first absence.
    pub(super) write: u32,
    /// Transaction of the write, or [`NONE`].
    pub(super) writer: u32,
    /// Number of the key.
    pub(super) key: u32,
    /// Value, last element of the list, or [`ABSENT`].
    pub(super) value: Value,
}

/// The versions, by key and order.
pub(super) struct Versions {
    versions: Vec<Version>,
    /// Order numbers of the placed versions.
    order: Vec<u64>,
    /// Index of each key's first version, and the end of the last key's versions.
    first: Vec<u32>,
    /// Version that the write's transaction left of the key, for each write (final or not).
    of_write: Vec<u32>,
    /// `by_tid`: true per key if TIDs give the order; `has_unplaced`: true per key if a version has no place.
    by_tid: Vec<bool>,
    has_unplaced: Vec<bool>,
    /// Per placed version of a key: the latest begin of a writer up to the version, and the earliest end behind the
    /// version.
    latest_begin: Vec<u64>,
    earliest_end_behind: Vec<u64>,
}

impl Versions {
    pub(super) fn order<'h>(history: &'h History, writes: &Writes, findings: &mut Findings<'h>) -> Self {
        let chains = Chains::collect(history, writes, findings);
        let keys = writes.keys.len();
        let mut this = Self {
            versions: Vec::new(),
            order: Vec::new(),
            first: Vec::with_capacity(keys + 1),
            of_write: vec![NONE; writes.writes.len()],
            by_tid: vec![true; keys],
            has_unplaced: vec![false; keys],
            latest_begin: Vec::new(),
            earliest_end_behind: Vec::new(),
        };
        let (placed, unplaced) = this.places(history, writes, &chains);
        this.lay_out(&placed, &unplaced, writes, findings);
        this.bound(history);
        if writes.is_list.contains(&true) {
            this.hold_against(&chains, writes, findings);
        }
        this
    }

    /// The final writes that made versions: (key, order, write), sorted; and the writes without a place.
    fn places(
        &mut self,
        history: &History,
        writes: &Writes,
        chains: &Chains,
    ) -> (Vec<(u32, u64, u32)>, Vec<u32>) {
        let tid = |write: u32| history.headers()[writes.writes[write as usize].transaction as usize].tid;
        let made_version = |write: &u32| {
            let seen = &writes.writes[*write as usize];
            seen.is_final
                && writes.has_effect[seen.transaction as usize]
                && !is_taken_back(history, writes, *write)
        };
        let made: Vec<u32> = (0..writes.writes.len() as u32).filter(made_version).collect();
        let mut has_delete = vec![false; writes.keys.len()];
        for write in &made {
            let Write { key, transaction, value, .. } = writes.writes[*write as usize];
            has_delete[key as usize] |= value == ABSENT;
            // For list keys, a committed writer without a TID makes the lists the authority.
            let committed = history.headers()[transaction as usize].outcome == Outcome::Committed;
            if tid(*write) == Tid::ZERO && writes.is_list[key as usize] && committed {
                self.by_tid[key as usize] = false;
            }
        }
        let (mut placed, mut unplaced) = (Vec::with_capacity(made.len()), Vec::new());
        for write in made {
            let key = writes.writes[write as usize].key;
            let order = if self.by_tid[key as usize] {
                Some(tid(write).bits()).filter(|bits| *bits != 0)
            } else if has_delete[key as usize] {
                // The lists of this key have no known order among themselves.
                None
            } else {
                chains.position(write)
            };
            match order {
                Some(order) => placed.push((key, order, write)),
                None => unplaced.push(write),
            }
        }
        placed.sort_unstable();
        unplaced
            .iter()
            .for_each(|write| self.has_unplaced[writes.writes[*write as usize].key as usize] = true);
        (placed, unplaced)
    }

    fn lay_out(
        &mut self,
        placed: &[(u32, u64, u32)],
        unplaced: &[u32],
        writes: &Writes,
        findings: &mut Findings<'_>,
    ) {
        let mut placed = placed.iter().peekable();
        for key in 0..writes.keys.len() as u32 {
            self.first.push(self.versions.len() as u32);
            self.versions.push(Version { write: NONE, writer: NONE, key, value: ABSENT });
            self.order.push(0);
            while let Some((_, order, write)) = placed.next_if(|(of, ..)| *of == key) {
                if self.order.last() == Some(order) && *order != 0 {
                    let other = self.versions[self.versions.len() - 1].writer;
                    let writer = writes.writes[*write as usize].transaction;
                    self.two_in_one_place(writes.keys[key as usize], key, [other, writer], findings);
                }
                self.push(writes, *write);
                self.order.push(*order);
            }
        }
        self.first.push(self.versions.len() as u32);
        unplaced.iter().for_each(|write| self.push(writes, *write));
    }

    fn two_in_one_place(&self, key: Key, number: u32, writers: [u32; 2], findings: &mut Findings<'_>) {
        let [a, b] = writers;
        if self.by_tid[number as usize] {
            findings.add(Kind::DuplicateTid, &writers, |_| {
                format!("T{a} and T{b} made two versions of key {key} with one TID")
            });
        } else {
            findings.add(Kind::IncompatibleOrder, &writers, |_| {
                format!(
                    "T{a} and T{b} appended to the list of key {key} in one place: lists were read that fork"
                )
            });
        }
    }

    fn push(&mut self, writes: &Writes, write: u32) {
        let made = &writes.writes[write as usize];
        let version = self.versions.len() as u32;
        self.versions.push(Version { write, writer: made.transaction, key: made.key, value: made.value });
        let mut at = write;
        while at != NONE {
            self.of_write[at as usize] = version;
            at = writes.writes[at as usize].before;
        }
    }

    fn bound(&mut self, history: &History) {
        let placed = self.order.len();
        self.latest_begin = vec![0; placed];
        self.earliest_end_behind = vec![u64::MAX; placed];
        for versions in self.first.windows(2) {
            let versions = versions[0] as usize..versions[1] as usize;
            let (mut begin, mut end) = (0, u64::MAX);
            for at in versions.clone().skip(1) {
                let header = &history.headers()[self.versions[at].writer as usize];
                begin = begin.max(header.begin);
                self.latest_begin[at] = begin;
            }
            for at in versions.skip(1).rev() {
                end = end.min(end_of(history, self.versions[at].writer));
                self.earliest_end_behind[at - 1] = end;
            }
        }
    }

    /// Checks that lists grew in the order of TIDs, for keys ordered by TIDs.
    fn hold_against(&self, chains: &Chains, writes: &Writes, findings: &mut Findings<'_>) {
        for at in 1..self.order.len() {
            let (version, previous) = (self.versions[at], self.versions[at - 1]);
            if version.writer == NONE || version.value == ABSENT || !self.by_tid[version.key as usize] {
                continue;
            }
            let group = appended_by_one(writes, version.write);
            for pair in group.windows(2) {
                self.expect_before(chains, writes, findings, pair[1], pair[0], version.writer);
            }
            let starts_anew = writes.writes[group[0] as usize].before != NONE || previous.value == ABSENT;
            let before = if starts_anew { FIRST } else { previous.write };
            self.expect_before(chains, writes, findings, group[0], before, previous.writer);
        }
    }

    fn expect_before(
        &self,
        chains: &Chains,
        writes: &Writes,
        findings: &mut Findings<'_>,
        write: u32,
        expected: u32,
        previous: u32,
    ) {
        let seen = chains.before(write);
        let is_placed =
            |write: u32| write == FIRST || (self.of_write[write as usize] as usize) < self.order.len();
        if seen == NONE || seen == expected || !is_placed(seen) {
            return;
        }
        let (made, reader) = (writes.writes[write as usize], chains.seen_by(write));
        let (key, element) = (writes.keys[made.key as usize], made.value);
        let apart = || !chains.has_before(expected, write) && !chains.has_before(write, expected);
        let lost = expected != FIRST && apart();
        let kind = if lost { Kind::LostUpdate } else { Kind::IncompatibleOrder };
        let mut named = vec![made.transaction, reader];
        named.extend(Some(previous).filter(|previous| *previous != NONE));
        let value = |write: u32| writes.writes[write as usize].value;
        findings.add(kind, &named, |_| match (lost, expected) {
            (true, _) => format!(
                "the version of key {key} before {element} of T{} is {} of T{previous}, \
                 which T{reader} did not read before {element}",
                made.transaction,
                value(expected)
            ),
            (false, FIRST) => format!(
                "T{} appended {element} to an absent list of key {key}, and T{reader} read {} before it",
                made.transaction,
                value(seen)
            ),
            (false, _) => format!(
                "{element} of T{} follows {} by TID in the list of key {key}, not as T{reader} read it",
                made.transaction,
                value(expected)
            ),
        });
    }

    pub(super) fn get(&self, version: u32) -> Version {
        self.versions[version as usize]
    }

    /// The versions with a place.
    pub(super) fn placed(&self) -> &[Version] {
        &self.versions[..self.order.len()]
    }

    /// The version after this version.
    pub(super) fn next(&self, version: u32) -> Option<u32> {
        if version as usize >= self.order.len() {
            return None;
        }
        let key = self.versions[version as usize].key;
        Some(version + 1).filter(|next| *next < self.first[key as usize + 1])
    }

    /// The version that a write's transaction left of the write's key.
    pub(super) fn of_write(&self, write: u32) -> Option<u32> {
        Some(self.of_write[write as usize]).filter(|version| *version != NONE)
    }

    /// Versions of a key with a place.
    pub(super) fn of_key(&self, key: u32) -> std::ops::Range<u32> {
        self.first[key as usize]..self.first[key as usize + 1]
    }

    pub(super) fn has_unplaced(&self, key: u32) -> bool {
        self.has_unplaced[key as usize]
    }

    /// The version that a snapshot of this boundary shows, if TIDs tell.
    pub(super) fn at_boundary(&self, key: u32, boundary: Epoch) -> Option<u32> {
        if !self.by_tid[key as usize] || self.has_unplaced[key as usize] {
            return None;
        }
        let versions = self.of_key(key);
        let order = &self.order[versions.start as usize..versions.end as usize];
        let below = order.partition_point(|order| *order < Tid::first_of(boundary).bits());
        Some(versions.start + below as u32 - 1)
    }

    /// The versions of a key that a transaction from `begin` to `end` may have seen, by real time.
    pub(super) fn between(&self, key: u32, begin: u64, end: u64) -> std::ops::RangeInclusive<u32> {
        let versions = self.of_key(key);
        let range = versions.start as usize..versions.end as usize;
        let stale = self.earliest_end_behind[range.clone()].partition_point(|end_behind| *end_behind < begin);
        let begun = self.latest_begin[range].partition_point(|latest| *latest < end);
        versions.start + stale as u32..=(versions.start + begun as u32).saturating_sub(1)
    }
}

/// Latest possible end of a writer.
pub(super) fn end_of(history: &History, writer: u32) -> u64 {
    let header = &history.headers()[writer as usize];
    if header.outcome == Outcome::Unknown { u64::MAX } else { header.end }
}

/// The appends to one list that end with this append, of one transaction and without a delete in between.
fn appended_by_one(writes: &Writes, last: u32) -> Vec<u32> {
    let mut group = vec![last];
    let mut at = writes.writes[last as usize].before;
    while at != NONE && writes.writes[at as usize].is_append {
        group.push(at);
        at = writes.writes[at as usize].before;
    }
    group.reverse();
    group
}

/// True if a transaction's last write of a key took back its own writes of a key that had been absent. Such a write
/// makes no version.
fn is_taken_back(history: &History, writes: &Writes, write: u32) -> bool {
    let Some(made) = Some(writes.writes[write as usize]).filter(|made| made.value == ABSENT) else {
        return false;
    };
    made.before != NONE
        && history.existed(made.transaction as usize, writes.keys[made.key as usize]) == Some(false)
}
