//! Retired things that wait for a limit. Some things can be freed earlier, so the things are also visited in turn (V1).
//!
//! Two garbage lists make a round: a visited thing goes from one list to the other, in the order of tags. When the
//! first list is empty, the lists change places.
//!
//! Neighbours: the engine's garbage keeps old versions and absent records in such lists.

use ensile_base::Epoch;

use crate::GarbageList;

/// A list of retired things, in the order of tags; the things are visited in turn.
#[derive(Debug)]
pub struct RevisitedList<T> {
    /// Things to be visited in this round.
    ahead: GarbageList<T>,
    /// Things visited in this round, older than the things in `ahead`.
    behind: GarbageList<T>,
}

impl<T> Default for RevisitedList<T> {
    fn default() -> Self {
        Self { ahead: GarbageList::default(), behind: GarbageList::default() }
    }
}

impl<T> RevisitedList<T> {
    /// Retires `thing` under `tag`.
    #[inline]
    pub fn push(&mut self, tag: Epoch, thing: T) {
        self.ahead.push(tag, thing);
    }

    /// Removes and returns a thing with a tag below `limit`, if the list has such a thing.
    #[inline]
    pub fn pop_below(&mut self, limit: Epoch) -> Option<T> {
        self.behind.pop_below(limit).or_else(|| self.ahead.pop_below(limit))
    }

    /// Visits the next thing in turn. Removes and returns the thing if `is_dead` is true of the thing.
    pub fn revisit(&mut self, is_dead: impl FnOnce(&T) -> bool) -> Option<T> {
        if self.ahead.is_empty() {
            std::mem::swap(&mut self.ahead, &mut self.behind);
        }
        let tag = self.ahead.first_tag()?;
        let thing = self.ahead.pop_below(tag.next())?;
        if is_dead(&thing) {
            return Some(thing);
        }
        self.behind.push(tag, thing);
        None
    }

    /// The thing to be visited `ahead` places after the next thing, if the thing is near.
    #[inline]
    #[must_use]
    pub fn peek_ahead(&self, ahead: usize) -> Option<&T> {
        self.ahead.peek_ahead(ahead)
    }

    /// The tag of the next thing to come out.
    #[inline]
    #[must_use]
    pub fn first_tag(&self) -> Option<Epoch> {
        self.behind.first_tag().or_else(|| self.ahead.first_tag())
    }

    /// Number of waiting things.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.behind.len() + self.ahead.len()
    }

    /// True if nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.behind.is_empty() && self.ahead.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use ensile_base::Epoch;

    use super::RevisitedList;

    #[test]
    fn rounds_find_all_that_is_dead_and_keep_the_order_of_tags() {
        let mut list = RevisitedList::default();
        (1..=100u64).for_each(|tag| list.push(Epoch::new(tag), tag));
        let mut dead = Vec::new();
        for visit in 0..150u64 {
            // Later things are visited behind the others.
            list.push(Epoch::new(101 + visit), 101 + visit);
            dead.extend(list.revisit(|thing| thing % 3 == 0));
            dead.extend(list.revisit(|thing| thing % 3 == 0));
        }
        while dead.len() < 250 / 3 {
            dead.extend(list.revisit(|thing| thing % 3 == 0));
        }
        dead.sort_unstable();
        assert!(dead.iter().copied().eq((1..=250).filter(|thing| thing % 3 == 0)), "{dead:?}");
        assert_eq!(list.len(), 250 - dead.len());
        // In the middle of a round: the older things were visited already.
        (0..40).for_each(|_| assert!(list.revisit(|_| false).is_none()));
        assert_eq!(list.first_tag(), Some(Epoch::new(1)));
        let mut last = 0;
        while let Some(thing) = list.pop_below(Epoch::new(200)) {
            assert!(thing > last && thing < 200, "{thing} after {last}");
            last = thing;
        }
        assert_eq!((last, list.first_tag()), (199, Some(Epoch::new(200))));
        assert!(!list.is_empty());
    }
}
