//! Garbage: things retired under a tag, to be freed once a limit has passed the tag (Silo §4.8, E3).
//!
//! A queue of chunks, each with one tag, so that a retired thing costs its own size and nothing more.
//!
//! Neighbours: one [`GarbageList`] per worker and kind of garbage, filled and emptied by the worker between requests.

use std::collections::VecDeque;

use ensile_base::Epoch;

/// Most things in a chunk. The number bounds the waste of an almost empty chunk, and the memory of a recycled chunk.
const CHUNK: usize = 1024;

#[derive(Debug)]
struct Chunk<T> {
    tag: Epoch,
    things: Vec<T>,
}

/// A list of retired things, in the order of tags. Chunks leave first in, first out; within a chunk the newest thing
/// leaves first.
#[derive(Debug)]
pub struct GarbageList<T> {
    chunks: VecDeque<Chunk<T>>,
    unused: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for GarbageList<T> {
    fn default() -> Self {
        Self { chunks: VecDeque::new(), unused: Vec::new(), len: 0 }
    }
}

impl<T> GarbageList<T> {
    /// Retires `thing` under `tag`.
    #[inline]
    pub fn push(&mut self, tag: Epoch, thing: T) {
        self.len += 1;
        match self.chunks.back_mut() {
            // A thing with a smaller tag than the last waits a little longer under the larger tag: always safe.
            Some(last) if last.tag >= tag && last.things.len() < CHUNK => last.things.push(thing),
            _ => self.push_chunk(tag, thing),
        }
    }

    /// Begins a new chunk with a thing. The chunk reuses emptied memory.
    #[cold]
    fn push_chunk(&mut self, tag: Epoch, thing: T) {
        let tag = self.chunks.back().map_or(tag, |last| last.tag.max(tag));
        let mut things = self.unused.pop().unwrap_or_default();
        debug_assert!(things.is_empty(), "an emptied chunk is used again");
        things.push(thing);
        self.chunks.push_back(Chunk { tag, things });
        debug_assert!(self.check(), "things leave in the order of their tags");
    }

    /// Removes and returns a thing with a tag below `limit`, if the list has such a thing.
    #[inline]
    pub fn pop_below(&mut self, limit: Epoch) -> Option<T> {
        let first = self.chunks.front_mut()?;
        if first.tag >= limit {
            return None;
        }
        debug_assert!(!first.things.is_empty(), "a chunk that is empty has gone");
        let thing = first.things.pop();
        if first.things.is_empty() {
            self.recycle_first();
        }
        if thing.is_some() {
            self.len -= 1;
        }
        thing
    }

    /// The things that were retired together, at most some thousand: `from_back` is the number of later chunks.
    pub fn chunk_from_back(&mut self, from_back: usize) -> Option<&mut [T]> {
        let at = self.chunks.len().checked_sub(from_back + 1)?;
        Some(&mut self.chunks[at].things)
    }

    /// True if tags only grow from chunk to chunk, no chunk is empty, and the count of things is right.
    #[must_use]
    pub fn check(&self) -> bool {
        let in_order = self.chunks.iter().is_sorted_by_key(|chunk| chunk.tag);
        let count: usize = self.chunks.iter().map(|chunk| chunk.things.len()).sum();
        in_order && count == self.len && self.chunks.iter().all(|chunk| !chunk.things.is_empty())
    }

    /// Removes the emptied first chunk, and keeps the memory of a few chunks for reuse.
    #[cold]
    fn recycle_first(&mut self) {
        if let Some(chunk) = self.chunks.pop_front()
            && self.unused.len() < 4
        {
            self.unused.push(chunk.things);
        }
    }

    /// The thing that will come out `ahead` places after the next thing, if the thing is in the same chunk. The caller
    /// prefetches the thing.
    #[inline]
    #[must_use]
    pub fn peek_ahead(&self, ahead: usize) -> Option<&T> {
        let things = &self.chunks.front()?.things;
        things.get(things.len().checked_sub(ahead + 1)?)
    }

    /// The tag of the next thing to come out.
    #[inline]
    #[must_use]
    pub fn first_tag(&self) -> Option<Epoch> {
        self.chunks.front().map(|first| first.tag)
    }

    /// Number of waiting things.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests;
