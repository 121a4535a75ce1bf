//! Operations in columns: a byte and two words each, and an arena for longer parts (lists, the far end of a scan).
//!
//! Neighbours: traces, recorders and histories consist of these operations; the checker reads each as [`Operation`].

use std::ops::Range;

use super::{Key, Predicate, Value};

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation<'h> {
    /// A read of a register: its value, or absent.
    Read {
        /// Key of the register.
        key: Key,
        /// Value seen; `None` if the key was absent.
        seen: Option<Value>,
    },
    /// A read that showed only the presence of the key.
    ReadPresent {
        /// Key that was present.
        key: Key,
    },
    /// A read of a list.
    ReadList {
        /// Key of the list.
        key: Key,
        /// Elements of the list, oldest first; none if the key was absent.
        seen: &'h [Value],
    },
    /// A write of a register.
    Write {
        /// Key of the register.
        key: Key,
        /// Value written.
        value: Value,
    },
    /// A delete that removed a row.
    Delete {
        /// Key of the row.
        key: Key,
    },
    /// An append to a list.
    Append {
        /// Key of the list.
        key: Key,
        /// Element appended.
        element: Value,
    },
    /// A scan; the reads of its rows follow.
    Scan {
        /// Range of keys.
        range: Range<Key>,
        /// Condition on values; `None` for every value.
        predicate: Option<Predicate>,
        /// Number of the following operations that are reads of the scan.
        rows: usize,
    },
}

impl Operation<'_> {
    /// The key; for a scan, the begin of its range.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Read { key, .. }
            | Self::ReadPresent { key }
            | Self::ReadList { key, .. }
            | Self::Write { key, .. }
            | Self::Delete { key }
            | Self::Append { key, .. }
            | Self::Scan { range: std::ops::Range { start: key, .. }, .. } => *key,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    ReadAbsent,
    ReadPresent,
    ReadList,
    Write,
    Delete,
    Append,
    Scan,
    ScanMatching,
}

/// Words of a scan in the arena: end, rows, and the predicate's name and argument.
const SCAN_WORDS: usize = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct Operations {
    kinds: Vec<Kind>,
    keys: Vec<Key>,
    /// Value, or index in `words` of the rest.
    values: Vec<u64>,
    words: Vec<u64>,
}

impl Operations {
    fn push(&mut self, kind: Kind, key: Key, value: u64) {
        self.kinds.push(kind);
        self.keys.push(key);
        self.values.push(value);
    }

    pub(super) fn read(&mut self, key: Key, seen: Option<Value>) {
        match seen {
            Some(value) => self.push(Kind::Read, key, value),
            None => self.push(Kind::ReadAbsent, key, 0),
        }
    }

    pub(super) fn present(&mut self, key: Key) {
        self.push(Kind::ReadPresent, key, 0);
    }

    pub(super) fn list(&mut self, key: Key, seen: &[Value]) {
        self.push(Kind::ReadList, key, self.words.len() as u64);
        self.words.push(seen.len() as u64);
        self.words.extend_from_slice(seen);
    }

    pub(super) fn write(&mut self, key: Key, value: Value) {
        assert!(value != Value::MAX, "this value stands for an absent row");
        self.push(Kind::Write, key, value);
    }

    pub(super) fn delete(&mut self, key: Key) {
        self.push(Kind::Delete, key, 0);
    }

    pub(super) fn append(&mut self, key: Key, element: Value) {
        assert!(element != Value::MAX, "this value stands for an absent row");
        self.push(Kind::Append, key, element);
    }

    /// Begins a scan. [`Operations::end_scan`] takes the returned index.
    pub(super) fn scan(&mut self, range: Range<Key>, predicate: Option<Predicate>) -> usize {
        let at = self.words.len();
        let kind = if predicate.is_some() { Kind::ScanMatching } else { Kind::Scan };
        self.push(kind, range.start, at as u64);
        let Predicate { name, argument } = predicate.unwrap_or(Predicate { name: 0, argument: 0 });
        self.words.extend([range.end, 0, u64::from(name), argument]);
        at
    }

    pub(super) fn end_scan(&mut self, scan: usize, rows: u64) {
        self.words[scan + 1] = rows;
    }

    pub(super) fn clear(&mut self) {
        self.kinds.clear();
        self.keys.clear();
        self.values.clear();
        self.words.clear();
    }

    /// Appends the operations of `other`. Returns the place of the first operation and their count.
    pub(super) fn append_all(&mut self, other: &Self) -> (u32, u32) {
        let (first, base) = (self.kinds.len(), self.words.len() as u64);
        self.kinds.extend_from_slice(&other.kinds);
        self.keys.extend_from_slice(&other.keys);
        self.words.extend_from_slice(&other.words);
        let moved = other.kinds.iter().zip(&other.values).map(|(kind, value)| match kind {
            Kind::ReadList | Kind::Scan | Kind::ScanMatching => base + value,
            _ => *value,
        });
        self.values.extend(moved);
        let place = |at: usize| u32::try_from(at).unwrap_or_else(|_| panic!("a history of 2^32 operations"));
        (place(first), place(other.kinds.len()))
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Operation<'_>> {
        (0..self.kinds.len()).map(|at| self.at(at))
    }

    pub(super) fn range(&self, first: u32, count: u32) -> impl DoubleEndedIterator<Item = Operation<'_>> {
        (first as usize..(first + count) as usize).map(|at| self.at(at))
    }

    fn at(&self, at: usize) -> Operation<'_> {
        let (key, value) = (self.keys[at], self.values[at]);
        match self.kinds[at] {
            Kind::Read => Operation::Read { key, seen: Some(value) },
            Kind::ReadAbsent => Operation::Read { key, seen: None },
            Kind::ReadPresent => Operation::ReadPresent { key },
            Kind::ReadList => {
                let from = value as usize + 1;
                let count = self.words[value as usize] as usize;
                Operation::ReadList { key, seen: &self.words[from..from + count] }
            }
            Kind::Write => Operation::Write { key, value },
            Kind::Delete => Operation::Delete { key },
            Kind::Append => Operation::Append { key, element: value },
            kind @ (Kind::Scan | Kind::ScanMatching) => {
                let words = &self.words[value as usize..value as usize + SCAN_WORDS];
                let predicate = Predicate { name: words[2] as u32, argument: words[3] };
                Operation::Scan {
                    range: key..words[0],
                    predicate: (kind == Kind::ScanMatching).then_some(predicate),
                    rows: words[1] as usize,
                }
            }
        }
    }
}

/// True if a key was present before its first write among these operations; `None` if neither a read nor a scan tells.
pub(super) fn existed<'o>(mut operations: impl Iterator<Item = Operation<'o>>, key: Key) -> Option<bool> {
    loop {
        match operations.next()? {
            Operation::Read { key: read, seen } if read == key => return Some(seen.is_some()),
            Operation::ReadList { key: read, seen } if read == key => return Some(!seen.is_empty()),
            Operation::ReadPresent { key: read } if read == key => return Some(true),
            Operation::Write { key: written, .. }
            | Operation::Delete { key: written }
            | Operation::Append { key: written, .. }
                if written == key =>
            {
                return None;
            }
            Operation::Scan { range, predicate, rows } if range.contains(&key) => {
                let is_shown = operations.by_ref().take(rows).any(|row| row.key() == key);
                if is_shown || predicate.is_none() {
                    return Some(is_shown);
                }
            }
            _ => {}
        }
    }
}
