//! Batches: descents that overlap and share the wait for memory.
//!
//! A miss to memory costs as much as a small transaction computes; sixteen descents in flight share the wait. What a
//! common descent finds are [`Hints`]: record handles, good under the pin that the descent ran under, so they end where
//! that pin ends: with a retry, and with the transaction. A hint is only a place to look: a record that is no longer
//! its key's latest sends the reader back to the index.
//!
//! Neighbours: `Database::run_batch` and the multi-gets descend here; `transaction` and `snapshot` take the hints.

use std::cell::Cell;

use ensile_base::Epoch;
use ensile_epoch::Pinned;

use crate::codec::KeyBuffer;
use crate::record::tree::{RecordLookup, RecordProbe, RecordTree};
use crate::record::{Fetch, Handle, Record};
use crate::sets::KEEP_BYTES_MAX;
use crate::tables::{TableCore, TableFilter};

/// Descents handed to the index at a time: a bit each in a word.
const CHUNK: usize = u32::BITS as usize;

/// A key that a request of a batch says it will touch.
#[derive(Clone, Copy, Debug)]
struct Touched {
    table: u32,
    key: (u32, u32),
}

/// Keys, one behind the other.
#[derive(Debug, Default)]
struct KeyList {
    bytes: Vec<u8>,
    /// How long each of them is: where they end may be beyond 32 bits.
    lengths: Vec<u32>,
}

impl KeyList {
    fn refill(&mut self, keys: impl Iterator<Item = KeyBuffer>) {
        self.bytes.clear();
        self.lengths.clear();
        for key in keys {
            let key = key.as_ref();
            self.bytes.extend_from_slice(key);
            self.lengths.push(key.len() as u32);
        }
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.lengths.iter().map(move |&length| {
            let (key, behind) = rest.split_at(length as usize);
            rest = behind;
            key
        })
    }
}

/// The keys of a multi-get, and what its descent found.
#[derive(Debug, Default)]
struct Many {
    keys: KeyList,
    found: Vec<Option<Handle>>,
    /// Positions whose chains a snapshot has begun to follow.
    followed: Vec<u32>,
}

impl Many {
    /// Bytes of memory that it holds.
    #[inline]
    fn bytes(&self) -> usize {
        let KeyList { bytes, lengths } = &self.keys;
        let numbers = (lengths.capacity() + self.followed.capacity()) * size_of::<u32>();
        bytes.capacity() + numbers + self.found.capacity() * size_of::<Option<Handle>>()
    }
}

/// What a common descent found.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    found: Vec<Option<Handle>>,
    touched: Vec<Touched>,
    /// The tables that are touched.
    tables: TableFilter,
    /// A multi-get: a batch's request may contain one.
    many: Many,
    keys: Vec<u8>,
    /// The touched keys that belong to the request that runs now.
    active: (usize, usize),
    /// Where the next look at the active keys begins: keys are used in about the order that they were touched in.
    next: Cell<usize>,
}

impl Hints {
    /// Descends for all keys of a multi-get at once and asks for the records that it finds.
    pub(crate) fn descend(
        &mut self,
        table: &TableCore,
        keys: impl Iterator<Item = KeyBuffer>,
        fetch: Fetch,
        pinned: Pinned<'_>,
    ) {
        let many = &mut self.many;
        many.keys.refill(keys);
        many.found.clear();
        let keys = many.keys.iter().map(|key| (table, key));
        Self::descend_into(&mut many.found, keys, |_| fetch, pinned);
    }

    /// Descends for each key in its table; `fetch` says how much of the record at a position is asked for.
    #[inline(always)]
    fn descend_into<'k>(
        found: &mut Vec<Option<Handle>>,
        mut keys: impl ExactSizeIterator<Item = (&'k TableCore, &'k [u8])>,
        fetch: impl Fn(usize) -> Fetch,
        pinned: Pinned<'_>,
    ) {
        let base = found.len();
        found.resize(base + keys.len(), None);
        for (chunk, found) in found[base..].chunks_mut(CHUNK).enumerate() {
            let mut guesses = 0u32;
            let probes = (0..found.len() as u32).zip(&mut keys);
            let probes = probes.map(|(label, (table, key))| RecordProbe { tree: &table.tree, key, label });
            RecordTree::get_batch(probes, pinned, &mut |at, lookup| {
                if let RecordLookup::Found(record) = lookup {
                    let record = record.handle();
                    let fetch = fetch(chunk * CHUNK + at as usize);
                    fetch.ask(record);
                    found[at as usize] = Some(record);
                    guesses |= u32::from(fetch.is_guess()) << at;
                }
            });
            while guesses != 0 {
                let record = found[guesses.trailing_zeros() as usize];
                record.inspect(|record| Fetch::ask_for_rest(*record, pinned));
                guesses &= guesses - 1;
            }
        }
    }

    /// Where a snapshot reads for each key of the multi-get, if anywhere. All of it is asked for first, a step along the
    /// chains at a time: with frequent updates most rows have changed since the boundary, some more than once since a
    /// later one, and each version is a miss of its own.
    pub(crate) fn versions<'p>(
        &mut self,
        boundary: Epoch,
        fetch: Fetch,
        pinned: Pinned<'p>,
    ) -> impl Iterator<Item = Option<Record<'p>>> {
        let Many { found, followed, .. } = &mut self.many;
        followed.clear();
        for (at, slot) in found.iter_mut().enumerate() {
            let Some(record) = slot.map(|record| record.at(pinned)) else { continue };
            if record.is_below(boundary) {
                fetch.ask_knowing(record.handle(), record.class());
            } else {
                *slot = record.follow(fetch);
                followed.push(at as u32);
            }
        }
        while !followed.is_empty() {
            followed.retain(|at| {
                let slot = &mut found[*at as usize];
                let too_new = slot.map(|version| version.at(pinned)).filter(|it| !it.is_below(boundary));
                too_new.inspect(|version| *slot = version.follow(fetch)).is_some()
            });
        }
        found.iter().map(move |version| version.map(|version| version.at(pinned)))
    }

    /// The keys of the multi-get, in their order, with the records that its descent found.
    pub(crate) fn found(&self) -> impl Iterator<Item = (&[u8], Option<Handle>)> {
        self.many.keys.iter().zip(self.many.found.iter().copied())
    }

    /// The multi-get is over. The space for its keys is kept, unless a huge one grew it.
    #[inline]
    pub(crate) fn end_many(&mut self) {
        if self.many.bytes() > KEEP_BYTES_MAX {
            self.many = Many::default();
        }
    }

    /// Forgets what was found, as the pin that it was found under ends. Touched keys are looked up singly from now on.
    pub(crate) fn forget(&mut self) {
        self.found.clear();
    }

    /// Forgets everything.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        self.found.clear();
        self.touched.clear();
        self.tables = TableFilter::default();
        self.keys.clear();
        self.active = (0, 0);
    }

    /// Notes a key that some request will touch.
    pub(crate) fn touch(&mut self, table: u32, key: &[u8]) {
        let start = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        self.tables.add(table);
        self.touched.push(Touched { table, key: (start, key.len() as u32) });
    }

    fn key(&self, touched: &Touched) -> &[u8] {
        let (start, length) = touched.key;
        &self.keys[start as usize..(start + length) as usize]
    }

    /// Where the next request's keys begin.
    pub(crate) fn touched_len(&self) -> usize {
        self.touched.len()
    }

    /// Descends for every touched key that has not been descended for.
    pub(crate) fn descend_touched<'t>(&mut self, table: impl Fn(u32) -> &'t TableCore, pinned: Pinned<'_>) {
        let Self { found, touched, keys, .. } = self;
        let touched = &touched[found.len()..];
        let keys = touched.iter().map(|Touched { table: id, key: (start, length) }| {
            (table(*id), &keys[*start as usize..(start + length) as usize])
        });
        Self::descend_into(found, keys, |at| table(touched[at].table).fetch, pinned);
    }

    /// From now on, hints are those of the touched keys `from..to`, as far as there are such.
    #[inline]
    pub(crate) fn activate(&mut self, from: usize, to: usize) {
        let to = to.min(self.touched.len());
        self.active = (from.min(to), to);
        self.next.set(from.min(to));
    }

    /// Makes room for keys touched by the running transaction itself; those touched before get no descent any more.
    /// Answers where the new ones begin.
    pub(crate) fn begin_touching(&mut self) -> usize {
        self.found.resize(self.touched.len(), None);
        self.touched.len()
    }

    /// The record that the running request's descent found under this key.
    #[inline]
    pub(crate) fn find(&self, table: u32, key: &[u8]) -> Option<Handle> {
        let may_be = !self.found.is_empty() && self.tables.may_have(table);
        if may_be { self.find_active(table, key) } else { None }
    }

    fn find_active(&self, table: u32, key: &[u8]) -> Option<Handle> {
        let (from, to) = self.active;
        let is_it = |at: &usize| {
            let touched = &self.touched[*at];
            touched.table == table && self.key(touched) == key
        };
        let next = self.next.get();
        let at = (next..to).chain(from..next).find(is_it)?;
        self.next.set(at);
        self.found[at]
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
