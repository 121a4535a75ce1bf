//! Things on their way out: retired under a tag, to be freed once a limit has passed it (Silo §4.8, E3).
//!
//! A queue of chunks, each with one tag, so that a retired thing costs its own size and nothing more.
//!
//! Neighbours: one [`GarbageList`] per worker and kind of garbage, filled and emptied by that worker between requests.

use std::collections::VecDeque;

use ensile_base::Epoch;

/// Most things in one chunk: bounds both what an almost empty chunk wastes and how a chunk is recycled.
const CHUNK: usize = 1024;

#[derive(Debug)]
struct Chunk<T> {
    tag: Epoch,
    things: Vec<T>,
}

/// A first-in, first-out list of retired things, by tag.
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
            // A smaller tag than the last one's waits a little longer under the larger: always safe.
            Some(last) if last.tag >= tag && last.things.len() < CHUNK => last.things.push(thing),
            _ => self.push_chunk(tag, thing),
        }
    }

    #[cold]
    fn push_chunk(&mut self, tag: Epoch, thing: T) {
        let tag = self.chunks.back().map_or(tag, |last| last.tag.max(tag));
        let mut things = self.unused.pop().unwrap_or_default();
        debug_assert!(things.is_empty(), "an emptied chunk is used again");
        things.push(thing);
        self.chunks.push_back(Chunk { tag, things });
        debug_assert!(self.check(), "things leave in the order of their tags");
    }

    /// Takes out a thing whose tag is below `limit`, if there is one.
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

    /// Whether tags only grow from chunk to chunk, no chunk is empty, and as many things wait as are counted.
    #[must_use]
    pub fn check(&self) -> bool {
        let in_order = self.chunks.iter().is_sorted_by_key(|chunk| chunk.tag);
        let count: usize = self.chunks.iter().map(|chunk| chunk.things.len()).sum();
        in_order && count == self.len && self.chunks.iter().all(|chunk| !chunk.things.is_empty())
    }

    #[cold]
    fn recycle_first(&mut self) {
        if let Some(chunk) = self.chunks.pop_front()
            && self.unused.len() < 4
        {
            self.unused.push(chunk.things);
        }
    }

    /// The thing that will come out `ahead` places after the next one, if it is in the same chunk. The caller fetches
    /// it from memory ahead of its turn.
    #[inline]
    #[must_use]
    pub fn upcoming(&self, ahead: usize) -> Option<&T> {
        let things = &self.chunks.front()?.things;
        things.get(things.len().checked_sub(ahead + 1)?)
    }

    /// The tag of what comes out next.
    #[inline]
    #[must_use]
    pub fn first_tag(&self) -> Option<Epoch> {
        self.chunks.front().map(|first| first.tag)
    }

    /// How many things wait.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, GarbageList};
    use ensile_base::Epoch;

    #[test]
    fn nothing_comes_back_before_its_limit() {
        let mut garbage_list = GarbageList::default();
        for tag in 1..=5u64 {
            for thing in 0..CHUNK as u64 + 3 {
                garbage_list.push(Epoch::new(tag), tag * 10_000 + thing);
            }
        }
        assert_eq!(garbage_list.len(), 5 * (CHUNK + 3));
        assert_eq!(garbage_list.first_tag(), Some(Epoch::new(1)));
        let mut freed = 0;
        assert!(garbage_list.check());
        while let Some(thing) = garbage_list.pop_below(Epoch::new(3)) {
            assert!(thing < 30_000, "tag 3 is not below 3");
            freed += 1;
        }
        assert_eq!(freed, 2 * (CHUNK + 3));
        let rest: Vec<u64> = std::iter::from_fn(|| garbage_list.pop_below(Epoch::new(6))).collect();
        assert_eq!(rest.len(), 3 * (CHUNK + 3));
        assert!(rest.is_sorted_by_key(|thing| thing / 10_000), "the oldest tags come first");
        assert!(garbage_list.is_empty());
    }

    #[test]
    fn the_thing_that_is_announced_comes_out_so_many_places_later() {
        let mut garbage_list = GarbageList::default();
        (0..20).for_each(|thing| garbage_list.push(Epoch::new(1), thing));
        for ahead in [0, 1, 7] {
            let announced = *garbage_list.upcoming(ahead).expect("the chunk has more");
            (0..ahead).for_each(|_| assert!(garbage_list.pop_below(Epoch::new(2)).is_some()));
            assert_eq!(garbage_list.pop_below(Epoch::new(2)), Some(announced), "{ahead} places ahead");
        }
        assert_eq!(garbage_list.upcoming(garbage_list.len()), None);
    }

    #[test]
    fn few_emptied_chunks_are_kept() {
        let mut garbage_list = GarbageList::default();
        (1..=100).for_each(|tag| garbage_list.push(Epoch::new(tag), ()));
        while garbage_list.pop_below(Epoch::MAX).is_some() {}
        assert!((1..=4).contains(&garbage_list.unused.len()), "{}", garbage_list.unused.len());
    }

    #[test]
    fn a_tag_that_goes_back_waits_for_the_larger_one() {
        let mut garbage_list = GarbageList::default();
        garbage_list.push(Epoch::new(7), 'a');
        garbage_list.push(Epoch::new(5), 'b');
        assert_eq!(garbage_list.pop_below(Epoch::new(7)), None);
        assert_eq!(garbage_list.len(), 2);
    }
}
