//! Batches of descents that overlap and share the wait for memory.
//!
//! A miss to memory costs as much as the computation of a small transaction; sixteen descents in flight share the wait.
//! A common descent finds record handles, valid during its call. A handle is only a hint: a record that is no longer
//! its key's latest sends the reader back to the index.
//!
//! Neighbours: `Database::run_batch` and the multi-gets descend here; `transaction` and `read_path::snapshot` read the
//! found records.

use std::ops::ControlFlow;

use ensile_epoch::Pinned;

use super::KEEP_BYTES_MAX;
use super::write_set::WriteSet;
use crate::codec::KeyBuffer;
use crate::record::pin_scope::{Boundary, HandleSpace};
use crate::record::tree::{RecordLookup, RecordProbe, RecordTree};
use crate::record::{Fetch, Handle, Record};
use crate::tables::TableCore;

/// Number of descents handed to the index at a time: each descent has a bit in a word.
const CHUNK: usize = u32::BITS as usize;

/// Keys, concatenated.
#[derive(Debug, Default)]
struct KeyList {
    bytes: Vec<u8>,
    /// Length of each key in bytes. The keys' ends may be beyond 32 bits.
    lengths: Vec<u32>,
}

impl KeyList {
    fn refill(&mut self, keys: impl Iterator<Item = KeyBuffer>) {
        self.bytes.clear();
        self.lengths.clear();
        for key in keys {
            let key = key.as_ref();
            self.bytes.extend_from_slice(key);
            debug_assert!(u32::try_from(key.len()).is_ok(), "a length is half of a word");
            self.lengths.push(key.len() as u32);
        }
        debug_assert_eq!(
            self.iter().map(<[u8]>::len).sum::<usize>(),
            self.bytes.len(),
            "keys fill the buffer"
        );
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

/// The keys of a multi-get, and the space for the records of its descent.
#[derive(Debug, Default)]
struct Many {
    keys: KeyList,
    found: HandleSpace,
    /// Positions of keys with a chain that a snapshot has begun to follow.
    followed: Vec<u32>,
}

impl Many {
    /// Memory of the multi-get in bytes.
    #[inline]
    fn bytes(&self) -> usize {
        let KeyList { bytes, lengths } = &self.keys;
        let numbers = (lengths.capacity() + self.followed.capacity()) * size_of::<u32>();
        bytes.capacity() + numbers + self.found.kept_bytes()
    }
}

/// Space for the results of common descents: of multi-gets, and for announced keys.
#[derive(Debug, Default)]
pub(crate) struct Descents {
    /// The space of a multi-get, apart because a batch's request may contain a multi-get.
    many: Many,
    /// Records of announced keys, on their way to the table of keys.
    found: HandleSpace,
}

impl Descents {
    /// Begins a multi-get with keys that the application's code encodes.
    pub(crate) fn begin_many(&mut self, keys: impl Iterator<Item = KeyBuffer>) {
        self.many.keys.refill(keys);
    }

    /// Descends for all keys of a multi-get at once and prefetches the found records. [`Descents::end_many`] takes the
    /// result back.
    pub(crate) fn descend<'p>(
        &mut self,
        table: &TableCore,
        fetch: Fetch,
        pinned: Pinned<'p>,
    ) -> Vec<Option<Handle<'p>>> {
        let many = &mut self.many;
        let mut found = many.found.take();
        let keys = many.keys.iter().map(|key| (table, key));
        Self::descend_into(&mut found, keys, |_| fetch, pinned);
        debug_assert_eq!(found.len(), many.keys.lengths.len(), "each key has its answer");
        found
    }

    /// Descends for each key in its table; `fetch` is the amount to prefetch of the record at a position.
    #[inline(always)]
    fn descend_into<'k, 'p>(
        found: &mut Vec<Option<Handle<'p>>>,
        mut keys: impl ExactSizeIterator<Item = (&'k TableCore, &'k [u8])>,
        fetch: impl Fn(usize) -> Fetch,
        pinned: Pinned<'p>,
    ) {
        let base = found.len();
        found.resize(base + keys.len(), None);
        for (chunk, found) in found[base..].chunks_mut(CHUNK).enumerate() {
            let mut guesses = 0u32;
            let probes = (0..found.len() as u32).zip(&mut keys);
            let probes = probes.map(|(label, (table, key))| RecordProbe { tree: &table.tree, key, label });
            RecordTree::get_batch(probes, pinned, &mut |at, lookup| {
                if let RecordLookup::Found(record) = lookup {
                    let fetch = fetch(chunk * CHUNK + at as usize);
                    fetch.ask(record.address());
                    debug_assert!(found[at as usize].is_none(), "each key is answered once");
                    found[at as usize] = Some(record.handle());
                    guesses |= u32::from(fetch.is_guess()) << at;
                }
            });
            while guesses != 0 {
                let record = found[guesses.trailing_zeros() as usize];
                record.inspect(|record| Fetch::ask_for_rest(record.resolve(pinned)));
                guesses &= guesses - 1;
            }
        }
    }

    /// The version that a snapshot reads for each key of the multi-get, if the version exists. Before the reads all
    /// versions are prefetched, one step along all chains at a time. With frequent updates most rows have changed since
    /// the boundary, some rows several times, and each version is a cache miss of its own.
    pub(crate) fn versions<'f, 'p>(
        &mut self,
        found: &'f mut [Option<Handle<'p>>],
        boundary: Boundary<'p>,
        fetch: Fetch,
        pinned: Pinned<'p>,
    ) -> impl Iterator<Item = Option<Record<'p>>> + use<'f, 'p> {
        let followed = &mut self.many.followed;
        followed.clear();
        for (at, slot) in found.iter_mut().enumerate() {
            let Some(record) = slot.map(|record| record.resolve(pinned)) else { continue };
            match record.step_back(boundary, fetch) {
                ControlFlow::Break(()) => fetch.ask_knowing(record.address(), record.class()),
                ControlFlow::Continue(version) => {
                    *slot = version.map(Record::handle);
                    followed.push(at as u32);
                }
            }
        }
        while !followed.is_empty() {
            followed.retain(|at| {
                let slot = &mut found[*at as usize];
                let Some(version) = slot.map(|version| version.resolve(pinned)) else { return false };
                let ControlFlow::Continue(before) = version.step_back(boundary, fetch) else { return false };
                *slot = before.map(Record::handle);
                true
            });
        }
        found.iter().map(move |version| version.map(|version| version.resolve(pinned)))
    }

    /// The keys of the multi-get, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.many.keys.iter()
    }

    /// Ends the multi-get. The space for the keys is kept, unless a huge multi-get grew the space.
    #[inline]
    pub(crate) fn end_many(&mut self, found: Vec<Option<Handle<'_>>>) {
        self.many.found.put(found);
        if self.many.bytes() > KEEP_BYTES_MAX {
            self.many = Many::default();
        }
    }

    /// Descends for the keys announced from this position on, and notes the found records in the table of keys.
    pub(crate) fn descend_announced<'t, 'p>(
        &mut self,
        writes: &mut WriteSet<'p>,
        from: usize,
        table: impl Fn(u32) -> &'t TableCore,
        pinned: Pinned<'p>,
    ) {
        let mut found = self.found.take();
        let keys = writes.announced_keys(from).map(|(id, key)| (table(id), key));
        Self::descend_into(&mut found, keys, |at| table(writes.keys.table(from + at)).fetch, pinned);
        debug_assert_eq!(found.len(), writes.keys.len() - from, "each announced key has its answer");
        for (at, record) in found.iter().enumerate() {
            writes.keys.set_record(from + at, *record);
        }
        self.found.put(found);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
