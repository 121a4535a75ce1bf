//! Chains of list elements: the predecessor of each appended element, as reads saw the lists.
//!
//! Two reads of a list agree if one is a prefix of the other; after a delete a list starts anew. So every element has
//! one predecessor, or is the first.
//!
//! Neighbours: `versions` takes the order of keys without TIDs from here, and compares the order with TIDs.

use super::findings::{Findings, Kind};
use super::words::list_in_words;
use super::writes::{NONE, Writes};
use crate::history::{History, Operation, Value};

/// The element was first in its list.
pub(super) const FIRST: u32 = NONE - 1;

/// Order of list elements, from reads.
pub(super) struct Chains {
    /// Per write: the write of the element before, [`FIRST`], or [`NONE`] if no read saw the element.
    before: Vec<u32>,
    /// Per write: the reader that saw the element.
    seen_by: Vec<u32>,
}

/// State of the collection of chains.
struct Taking<'c, 'h> {
    chains: &'c mut Chains,
    writes: &'c Writes,
    findings: &'c mut Findings<'h>,
    /// Last list collected per key: most reads repeat or extend the list.
    last: Vec<&'h [Value]>,
    /// Running number of the last list with the element, per write, to detect duplicates.
    in_list: Vec<u32>,
    lists: u32,
}

impl Chains {
    pub(super) fn collect<'h>(history: &'h History, writes: &Writes, findings: &mut Findings<'h>) -> Self {
        if !writes.is_list.contains(&true) {
            return Self { before: Vec::new(), seen_by: Vec::new() };
        }
        let count = writes.writes.len();
        let mut chains = Self { before: vec![NONE; count], seen_by: vec![NONE; count] };
        let last = vec![&[][..]; writes.keys.len()];
        let in_list = vec![0; count];
        let mut taking = Taking { chains: &mut chains, writes, findings, last, in_list, lists: 0 };
        for reader in (0..history.len()).filter(|reader| writes.took_place[*reader]) {
            for operation in history.operations(reader) {
                if let Operation::ReadList { key, seen } = operation {
                    taking.take(reader as u32, key, seen);
                }
            }
        }
        chains
    }

    /// The write before this write in a list that was read: [`FIRST`] if the element was first, [`NONE`] if the element
    /// was not seen.
    pub(super) fn before(&self, write: u32) -> u32 {
        self.before[write as usize]
    }

    /// The reader that saw the element.
    pub(super) fn seen_by(&self, write: u32) -> u32 {
        self.seen_by[write as usize]
    }

    /// True if `earlier` stands anywhere before `later` in a list that was read.
    pub(super) fn has_before(&self, earlier: u32, later: u32) -> bool {
        let mut at = later;
        // A chain that other reads contradict may be a ring.
        for _ in 0..self.before.len() {
            at = self.before[at as usize];
            if at == earlier || at == FIRST || at == NONE {
                return at == earlier;
            }
        }
        false
    }

    /// Number of elements in a list up to this element, if the element was seen.
    pub(super) fn position(&self, write: u32) -> Option<u64> {
        let (mut at, mut position) = (write, 1);
        while self.before[at as usize] != FIRST {
            at = self.before[at as usize];
            position += 1;
            if at == NONE || position > self.before.len() as u64 {
                return None;
            }
        }
        Some(position)
    }
}

impl<'h> Taking<'_, 'h> {
    fn take(&mut self, reader: u32, key: u64, seen: &'h [Value]) {
        let Some(number) = self.writes.number(key) else { return };
        let seen = self.without_own(reader, number, seen);
        let known = self.last[number as usize];
        if known.starts_with(seen) {
            return;
        }
        let new_from = if seen.starts_with(known) { known.len() } else { 0 };
        self.last[number as usize] = seen;
        self.lists += 1;
        let find = |value: Value| self.writes.find(number, value);
        let mut before = if new_from == 0 { Some(FIRST) } else { find(known[new_from - 1]) };
        for (at, element) in seen.iter().enumerate().skip(new_from) {
            let write = self.writes.find(number, *element);
            let twice = match write {
                Some(write) => std::mem::replace(&mut self.in_list[write as usize], self.lists) == self.lists,
                None => false,
            };
            if twice || seen[..new_from].contains(element) {
                self.findings.add(Kind::DuplicateElement, &[reader], |_| {
                    format!("T{reader} read the list of key {key} with {element} in it twice")
                });
            } else if let Some(write) = write.filter(|write| self.writes.counts(*write)) {
                if let Some(before) = before {
                    self.link(reader, key, write, before, &seen[..=at]);
                }
                before = Some(write);
            } else {
                self.not_counted(reader, key, *element, write);
                before = None;
            }
        }
    }

    /// The list without the elements that an error's own closure appended: such elements tell nothing of the list's
    /// growth.
    fn without_own(&self, reader: u32, key: u32, seen: &'h [Value]) -> &'h [Value] {
        if self.writes.has_effect[reader as usize] {
            return seen;
        }
        let is_own = |element: &Value| {
            let write = self.writes.find(key, *element);
            write.is_some_and(|write| self.writes.writes[write as usize].transaction == reader)
        };
        let own = seen.iter().rev().take_while(|element| is_own(element)).count();
        &seen[..seen.len() - own]
    }

    fn link(&mut self, reader: u32, key: u64, write: u32, before: u32, seen: &[Value]) {
        let known = &mut self.chains.before[write as usize];
        if *known == NONE {
            *known = before;
            self.chains.seen_by[write as usize] = reader;
        } else if *known != before {
            let other = self.chains.seen_by[write as usize];
            let behind = |before: u32| match before {
                FIRST => "as the first".to_owned(),
                before => format!("behind {}", self.writes.writes[before as usize].value),
            };
            let (element, known) = (self.writes.writes[write as usize].value, behind(*known));
            let now = behind(before);
            self.findings.add(Kind::IncompatibleOrder, &[other, reader], |_| {
                format!(
                    "T{other} read {element} in the list of key {key} {known}, T{reader} {now}: {}",
                    list_in_words(seen)
                )
            });
        }
    }

    fn not_counted(&mut self, reader: u32, key: u64, element: Value, write: Option<u32>) {
        let Some(write) = write else { return self.unknown(reader, key, element) };
        let writer = self.writes.writes[write as usize].transaction;
        self.findings.add(Kind::G1a, &[writer, reader], |_| {
            format!(
                "T{reader} read {element} in the list of key {key}, which T{writer} appended without effect"
            )
        });
    }

    fn unknown(&mut self, reader: u32, key: u64, element: Value) {
        self.findings.add(Kind::UnknownValue, &[reader], |_| {
            format!("T{reader} read {element} in the list of key {key}, which nobody appended")
        });
    }
}
