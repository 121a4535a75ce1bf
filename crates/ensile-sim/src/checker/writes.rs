//! The writers of the values, and the transactions that count.
//!
//! A transaction *took place* if it committed, was a snapshot, returned an error, or has an unknown outcome and was
//! seen. Only transactions that took place must fit into a serial order. A transaction *has effect* if it took place
//! and is no error: no other transaction may see the writes of an error's closure. The last of a transaction's writes
//! to one key is *final*.
//!
//! Neighbours: `versions` puts final writes in order; `reads` looks values up here.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::findings::{Findings, Kind};
use crate::history::{Header, History, Key, Operation, Outcome, Value};

/// No transaction, write or version.
pub(super) const NONE: u32 = u32::MAX;
/// The value of an absent row.
pub(super) const ABSENT: Value = Value::MAX;

/// A multiply and fold per word: keys here are the test's own, so no attacker chooses the keys.
#[derive(Default)]
pub(super) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = u128::from(self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = (mixed >> 64) as u64 ^ mixed as u64;
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<WordHasher>>;

/// A write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) transaction: u32,
    /// Number of the key.
    pub(super) key: u32,
    /// Value or element, or [`ABSENT`].
    pub(super) value: Value,
    /// The transaction's write of the same key before this write, or [`NONE`].
    pub(super) before: u32,
    pub(super) is_final: bool,
    pub(super) is_append: bool,
}

/// The writes of a history, grouped by transaction.
pub(super) struct Writes {
    /// Written keys, sorted; a key's place here is the key's number.
    pub(super) keys: Vec<Key>,
    numbers: Map<Key, u32>,
    pub(super) writes: Vec<Write>,
    /// Index of each transaction's first write, and the end of the last transaction's writes.
    first: Vec<u32>,
    by_value: Map<(u32, Value), u32>,
    pub(super) took_place: Vec<bool>,
    pub(super) has_effect: Vec<bool>,
    pub(super) is_list: Vec<bool>,
}

impl Writes {
    pub(super) fn collect(history: &History, findings: &mut Findings<'_>) -> Self {
        let keys = written_keys(history);
        let numbers = keys.iter().enumerate().map(|(number, key)| (*key, number as u32)).collect();
        let has_effect: Vec<bool> = history
            .headers()
            .iter()
            .map(|header| matches!(header.outcome, Outcome::Committed | Outcome::Snapshot))
            .collect();
        let is_answer = |header: &Header| header.outcome == Outcome::Answered;
        let took_place = has_effect.iter().zip(history.headers());
        let took_place = took_place.map(|(has_effect, header)| *has_effect || is_answer(header)).collect();
        let mut writes = Self {
            is_list: vec![false; keys.len()],
            keys,
            numbers,
            writes: Vec::new(),
            first: Vec::with_capacity(history.len() + 1),
            by_value: Map::default(),
            took_place,
            has_effect,
        };
        let mut last = vec![(NONE, NONE); writes.keys.len()];
        for transaction in 0..history.len() {
            writes.first.push(writes.writes.len() as u32);
            writes.add(history, transaction as u32, &mut last);
        }
        writes.first.push(writes.writes.len() as u32);
        writes.index_values(findings);
        writes.settle_unknown(history);
        writes
    }

    fn add(&mut self, history: &History, transaction: u32, last: &mut [(u32, u32)]) {
        let first = self.writes.len();
        for operation in history.operations(transaction as usize) {
            let (key, value, is_append) = match operation {
                Operation::Write { key, value } => (key, value, false),
                Operation::Delete { key } => (key, ABSENT, false),
                Operation::Append { key, element } => (key, element, true),
                _ => continue,
            };
            let key = self.numbers[&key];
            self.is_list[key as usize] |= is_append;
            let at = self.writes.len() as u32;
            let before = std::mem::replace(&mut last[key as usize], (transaction, at));
            let before = if before.0 == transaction { before.1 } else { NONE };
            self.writes.push(Write { transaction, key, value, before, is_final: true, is_append });
        }
        for at in first..self.writes.len() {
            let before = self.writes[at].before;
            if before != NONE {
                self.writes[before as usize].is_final = false;
            }
        }
    }

    fn index_values(&mut self, findings: &mut Findings<'_>) {
        self.by_value.reserve(self.writes.len());
        for (at, write) in self.writes.iter().enumerate().filter(|(_, write)| write.value != ABSENT) {
            let old = self.by_value.insert((write.key, write.value), at as u32);
            let Some(old) = old else { continue };
            let other = self.writes[old as usize].transaction;
            let counts = |transaction: u32| self.has_effect[transaction as usize];
            if !counts(write.transaction) {
                self.by_value.insert((write.key, write.value), old);
            } else if counts(other) {
                let key = self.keys[write.key as usize];
                findings.add(Kind::DuplicateWrite, &[other, write.transaction], |_| {
                    format!("both wrote {} to key {key}: a workload writes a value once", write.value)
                });
            }
        }
    }

    /// Decides unknown outcomes: an unknown transaction took place if a transaction that took place saw one of its
    /// values.
    fn settle_unknown(&mut self, history: &History) {
        let headers = history.headers();
        if headers.iter().all(|header| header.outcome != Outcome::Unknown) {
            return;
        }
        let mut queue: Vec<usize> = (0..history.len()).filter(|at| self.took_place[*at]).collect();
        while let Some(reader) = queue.pop() {
            for operation in history.operations(reader) {
                let (key, values) = match &operation {
                    Operation::Read { key, seen } => (*key, seen.as_slice()),
                    Operation::ReadList { key, seen } => (*key, *seen),
                    _ => continue,
                };
                let Some(number) = self.number(key) else { continue };
                for value in values {
                    let Some(write) = self.find(number, *value) else { continue };
                    let writer = self.writes[write as usize].transaction as usize;
                    if headers[writer].outcome == Outcome::Unknown && !self.took_place[writer] {
                        self.took_place[writer] = true;
                        self.has_effect[writer] = true;
                        queue.push(writer);
                    }
                }
            }
        }
    }

    /// True if other transactions may see the write.
    pub(super) fn counts(&self, write: u32) -> bool {
        self.has_effect[self.writes[write as usize].transaction as usize]
    }

    /// The number of a key; `None` for a key that was never written.
    pub(super) fn number(&self, key: Key) -> Option<u32> {
        self.numbers.get(&key).copied()
    }

    /// The write of a value to a key.
    pub(super) fn find(&self, key: u32, value: Value) -> Option<u32> {
        self.by_value.get(&(key, value)).copied()
    }

    /// The places of a transaction's writes.
    pub(super) fn of(&self, transaction: u32) -> std::ops::Range<usize> {
        self.first[transaction as usize] as usize..self.first[transaction as usize + 1] as usize
    }
}

fn written_keys(history: &History) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for transaction in 0..history.len() {
        keys.extend(history.operations(transaction).filter_map(|operation| match operation {
            Operation::Write { key, .. } | Operation::Delete { key } | Operation::Append { key, .. } => {
                Some(key)
            }
            _ => None,
        }));
        // Keeps the list near the number of distinct keys.
        if keys.len() > 1 << 20 && transaction % 4096 == 0 {
            keys.sort_unstable();
            keys.dedup();
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}
