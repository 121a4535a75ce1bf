//! Retired things that wait for a limit, some of which may go earlier: they are visited in turn (V1).
//!
//! Two garbage lists make a round: what was visited goes from the one to the other, in the order of tags. When the
//! first is empty, they change places.
//!
//! Neighbours: the engine's garbage keeps old versions and absent records in such lists.

use ensile_base::Epoch;

use crate::GarbageList;

/// A first-in, first-out list of retired things, by tag, whose things are visited in turn.
#[derive(Debug)]
pub struct RevisitedList<T> {
    /// To be visited in this round.
    ahead: GarbageList<T>,
    /// Visited in this round: older than what is ahead.
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

    /// Takes out a thing whose tag is below `limit`, if there is one.
    #[inline]
    pub fn pop_below(&mut self, limit: Epoch) -> Option<T> {
        self.behind.pop_below(limit).or_else(|| self.ahead.pop_below(limit))
    }

    /// Visits the next thing in turn, and takes it out if `is_dead` says so.
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

    /// The thing that is to be visited `ahead` places after the next one, if it is near.
    #[inline]
    #[must_use]
    pub fn upcoming(&self, ahead: usize) -> Option<&T> {
        self.ahead.upcoming(ahead)
    }

    /// The tag of what comes out next.
    #[inline]
    #[must_use]
    pub fn first_tag(&self) -> Option<Epoch> {
        self.behind.first_tag().or_else(|| self.ahead.first_tag())
    }

    /// How many things wait.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.behind.len() + self.ahead.len()
    }

    /// Whether nothing waits.
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
            // What comes meanwhile is visited behind all others.
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
        // In the middle of a round: the older ones were visited already.
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
