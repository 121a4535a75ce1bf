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
use ensile_index::{Lookup, Masstree, Probe};

use crate::record::{Handle, Record};
use crate::table::TableCore;

/// Descents handed to the index at a time.
const CHUNK: usize = 32;
/// Bytes of a record asked for as soon as its address is known.
const PREFETCHED_BYTES: usize = 128;
/// Bytes of a record asked for at all: behind these the processor sees the pattern by itself.
const PREFETCHED_BYTES_MAX: usize = 768;

/// A key that a request of a batch says it will touch.
#[derive(Clone, Copy, Debug)]
struct Touched {
    table: u32,
    key: (u32, u32),
}

/// What a common descent found.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    found: Vec<Option<Handle>>,
    touched: Vec<Touched>,
    /// What a multi-get's descent found: a batch's request may contain one.
    many: Vec<Option<Handle>>,
    keys: Vec<u8>,
    /// The touched keys that belong to the request that runs now.
    active: (usize, usize),
    /// Where the next look at the active keys begins: keys are used in about the order that they were touched in.
    next: Cell<usize>,
}

impl Hints {
    /// Descends for all keys of a multi-get at once and asks for the records that it finds.
    pub(crate) fn descend<'k>(
        &mut self,
        keys: impl Iterator<Item = (&'k TableCore, &'k [u8])>,
        pinned: Pinned<'_>,
    ) {
        self.many.clear();
        Self::descend_into(&mut self.many, keys.map(|(table, key)| (&*table.tree, key)), pinned);
    }

    fn descend_into<'k>(
        found: &mut Vec<Option<Handle>>,
        mut keys: impl Iterator<Item = (&'k Masstree, &'k [u8])>,
        pinned: Pinned<'_>,
    ) {
        while let Some((tree, key)) = keys.next() {
            let mut probes = [Probe { tree, key }; CHUNK];
            let mut count = 1;
            for (slot, (tree, key)) in probes[1..].iter_mut().zip(&mut keys) {
                *slot = Probe { tree, key };
                count += 1;
            }
            let base = found.len();
            found.resize(base + count, None);
            Masstree::get_batch(&probes[..count], pinned, &mut |at, lookup| {
                if let Lookup::Found(value) = lookup {
                    let record = Handle::from_value(value);
                    record.prefetch(PREFETCHED_BYTES);
                    found[base + at] = Some(record);
                }
            });
            // The rest of larger records, once their first lines tell how large they are.
            for record in found[base..].iter().flatten() {
                let bytes = record.at(pinned).class().bytes().min(PREFETCHED_BYTES_MAX);
                if bytes > PREFETCHED_BYTES {
                    record.prefetch_rest(PREFETCHED_BYTES, bytes);
                }
            }
        }
    }

    /// Where a snapshot reads on for each key of the multi-get, if anywhere. The versions behind what the descent found
    /// are asked for first, all of them: with frequent updates most rows have changed since the boundary, and each
    /// version is a miss of its own.
    pub(crate) fn versions<'p>(
        &mut self,
        boundary: Epoch,
        pinned: Pinned<'p>,
    ) -> impl Iterator<Item = Option<Record<'p>>> {
        for found in &mut self.many {
            *found = found.and_then(|record| {
                record.at(pinned).toward_version(boundary, PREFETCHED_BYTES).map(Record::handle)
            });
        }
        self.many.iter().map(move |version| version.map(|version| version.at(pinned)))
    }

    /// What the multi-get's descent found for its `at`-th key.
    #[inline]
    pub(crate) fn take(&mut self, at: usize) -> Option<Handle> {
        self.many[at].take()
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
        self.keys.clear();
        self.active = (0, 0);
    }

    /// Notes a key that some request will touch.
    fn touch(&mut self, table: u32, key: &[u8]) {
        let start = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
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
        let probes = touched[found.len()..].iter().map(|touched| {
            let (start, length) = touched.key;
            (&*table(touched.table).tree, &keys[start as usize..(start + length) as usize])
        });
        Self::descend_into(found, probes, pinned);
    }

    /// From now on, hints are those of the touched keys `from..to`.
    #[inline]
    pub(crate) fn activate(&mut self, from: usize, to: usize) {
        self.active = (from, to);
        self.next.set(from);
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
        if self.found.is_empty() { None } else { self.find_active(table, key) }
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

/// Where a request of a batch says which keys it will touch. Keys that it touches without saying so, or says and does
/// not touch, are no error: they only miss the common descent.
#[derive(Debug)]
pub struct Touch<'h> {
    pub(crate) database: u64,
    pub(crate) hints: &'h mut Hints,
}

impl Touch<'_> {
    pub(crate) fn raw_key(&mut self, table: &TableCore, key: &[u8]) {
        if table.database == self.database {
            self.hints.touch(table.id, key);
        }
    }
}
