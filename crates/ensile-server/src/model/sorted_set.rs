//! A sorted set within a transaction: members with scores, in the order of scores, and of members with one score.
//!
//! A small sorted set is packed in the row of its key, and is sorted at each read. A larger one has three tables:
//!
//! | table | key | value |
//! |---|---|---|
//! | `elements` | object, hash of the member, member | score, 8 bytes |
//! | `scores` | object, score in the order of numbers, member | nothing |
//! | `ranks` | object, level, first place of a block | number of the block's members ([`super::ranks`]) |
//!
//! Invariants:
//! - Each row in `scores` has a row in `elements` with the same score, and each row in `elements` of a sorted set has a
//!   row in `scores`.
//! - The blocks of each level have as many members as `scores` has rows.
//! - A score is a number, or infinite. Zero has no sign: -0 is stored as 0.
//! - The write of the score that a member has changes nothing, not even the member's stripe.
//!
//! Neighbours: the commands of sorted sets; [`super::elements`] has the members; [`super::ranks`] counts.

use std::ops::ControlFlow;

use ensile::{Error, Readable, Result};

use super::elements::{Access, Elements, OpenError};
use super::ranks::Ranks;
use super::stored_value::Kind;
use super::{Keyspace, packed};

/// A place in the order: before the member with this score, if the member is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MemberPlace {
    /// Score in the order of numbers ([`order_of`]).
    pub(crate) order: u64,
    pub(crate) member: Vec<u8>,
}

impl MemberPlace {
    /// The place before all members.
    pub(crate) const FIRST: Self = Self { order: 0, member: Vec::new() };
    /// The place behind all members: no score has this order.
    pub(crate) const END: Self = Self { order: u64::MAX, member: Vec::new() };

    /// Place of a member.
    pub(crate) fn of_member(score: f64, member: &[u8]) -> Self {
        Self { order: order_of(score), member: member.to_vec() }
    }

    /// The place before all members with a score.
    pub(crate) fn before_score(score: f64) -> Self {
        Self { order: order_of(score), member: Vec::new() }
    }

    /// The place behind all members with a score.
    pub(crate) fn behind_score(score: f64) -> Self {
        Self { order: order_of(score) + 1, member: Vec::new() }
    }

    /// The place behind this member.
    pub(crate) fn place_behind(&self) -> Self {
        Self { order: self.order, member: [self.member.as_slice(), &[0]].concat() }
    }
}

/// A score as a whole number: greater scores have greater numbers.
pub(crate) fn order_of(score: f64) -> u64 {
    let bits = without_sign_of_zero(score).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The score of a whole number of [`order_of`].
pub(crate) fn score_of(order: u64) -> f64 {
    f64::from_bits(if order >> 63 == 0 { !order } else { order & !(1 << 63) })
}

fn without_sign_of_zero(score: f64) -> f64 {
    debug_assert!(!score.is_nan(), "a score is a number");
    score + 0.0
}

/// The score in the value of a member.
///
/// # Errors
/// [`Error::Misuse`] for a value that no version has written.
pub(crate) fn score_in(value: &[u8]) -> Result<f64> {
    let bytes = value.try_into().map_err(|_| Error::Misuse("a stored score has 8 bytes".to_owned()))?;
    Ok(f64::from_le_bytes(bytes))
}

/// Direction of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkDirection {
    Up,
    Down,
}

/// The members of a key's sorted set. An absent key has no members. After a write, [`SortedSet::finish`] is called.
pub(crate) struct SortedSet<'s, 'k, 'db> {
    elements: Elements<'s, 'k, 'db>,
    /// Number of new members, for clients that wait for the key.
    came: usize,
}

impl<'s, 'k, 'db> SortedSet<'s, 'k, 'db> {
    /// Opens the sorted set of a key.
    ///
    /// # Errors
    /// [`OpenError::WrongKind`] if the key has a value of another type.
    pub(crate) fn open(
        keyspace: &'s mut Keyspace<'k, 'db>,
        key: &'s [u8],
        access: Access,
    ) -> Result<Self, OpenError> {
        Ok(Self { elements: Elements::open(keyspace, key, Kind::SortedSet, access)?, came: 0 })
    }

    /// A new sorted set without members in the place of a key's value of any type.
    pub(crate) fn replace(keyspace: &'s mut Keyspace<'k, 'db>, key: &'s [u8]) -> Result<Self> {
        Ok(Self { elements: Elements::replace(keyspace, key, Kind::SortedSet)?, came: 0 })
    }

    /// True if the sorted set is packed in the row of its key, or absent.
    pub(crate) fn is_small(&self) -> bool {
        self.elements.object().is_none()
    }

    /// Score of a member.
    pub(crate) fn score(&mut self, member: &[u8]) -> Result<Option<f64>> {
        self.elements.get(member)?.map(|value| score_in(&value)).transpose()
    }

    /// Number of members.
    pub(crate) fn count(&mut self) -> Result<u64> {
        match self.ranks() {
            Some(mut ranks) => ranks.count(),
            None => self.elements.count(),
        }
    }

    /// Sets the score of a member. `old` is the member's score.
    pub(crate) fn set(&mut self, member: &[u8], old: Option<f64>, score: f64) -> Result<()> {
        let score = without_sign_of_zero(score);
        if old == Some(score) {
            return Ok(());
        }
        self.came += usize::from(old.is_none());
        let before = self.elements.object();
        match old {
            Some(_) => self.elements.overwrite(member, &score.to_le_bytes())?,
            None => self.elements.add(member, &score.to_le_bytes()).map(drop)?,
        }
        let Some(object) = before else { return self.index_all() };
        let Keyspace { tx, model, .. } = self.elements.keyspace();
        let place = MemberPlace::of_member(score, member);
        if let Some(old) = old {
            tx.delete(&model.scores, &(object, order_of(old), member))?;
        }
        tx.put(&model.scores, &(object, place.order, member), &())?;
        let mut ranks = Ranks { tx, model, object };
        match old {
            Some(old) => ranks.move_member(&MemberPlace::of_member(old, member), &place),
            None => ranks.add(&place),
        }
    }

    /// Adds members to an empty sorted set. The members come in their order, each once.
    pub(crate) fn fill(&mut self, members: &[MemberPlace]) -> Result<()> {
        for MemberPlace { order, member } in members {
            self.elements.add(member, &score_of(*order).to_le_bytes())?;
        }
        self.came += members.len();
        self.index(members)
    }

    /// Writes the rows of all scores, if the members have got rows.
    fn index_all(&mut self) -> Result<()> {
        if self.elements.object().is_none() {
            return Ok(());
        }
        let (mut members, mut failed) = (Vec::new(), None);
        self.elements.visit(0, |_, member, value| match score_in(value) {
            Ok(score) => {
                members.push(MemberPlace::of_member(score, member));
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        members.sort_unstable();
        self.index(&members)
    }

    /// Writes the rows of these scores, if members have rows.
    fn index(&mut self, members: &[MemberPlace]) -> Result<()> {
        let Some(mut ranks) = self.ranks() else { return Ok(()) };
        for place in members {
            let row = (ranks.object, place.order, place.member.as_slice());
            ranks.tx.put(&ranks.model.scores, &row, &())?;
        }
        ranks.build(members)
    }

    /// Removes a member. True if the member was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> Result<bool> {
        match self.score(member)? {
            Some(score) => self.take(member, score).map(|()| true),
            None => Ok(false),
        }
    }

    /// Removes a member that has this score.
    pub(crate) fn take(&mut self, member: &[u8], score: f64) -> Result<()> {
        self.elements.remove(member)?;
        let Some(object) = self.elements.object() else { return Ok(()) };
        let Keyspace { tx, model, .. } = self.elements.keyspace();
        let place = MemberPlace::of_member(score, member);
        tx.delete(&model.scores, &(object, place.order, member))?;
        Ranks { tx, model, object }.take(&place)
    }

    /// Number of members before a place.
    pub(crate) fn count_before(&mut self, place: &MemberPlace) -> Result<u64> {
        match self.ranks() {
            Some(mut ranks) => ranks.count_before(place),
            None => Ok(self.sorted()?.partition_point(|member| member < place) as u64),
        }
    }

    /// Place of the member with a rank, counted from 0; the end for a rank beyond.
    pub(crate) fn place_at(&mut self, rank: u64) -> Result<MemberPlace> {
        let place = match self.ranks() {
            Some(mut ranks) => ranks.place_at(rank)?,
            None => {
                let rank = usize::try_from(rank).unwrap_or(usize::MAX);
                self.sorted()?.into_iter().nth(rank)
            }
        };
        Ok(place.unwrap_or(MemberPlace::END))
    }

    /// Visits the members from a place to another, the second excluded, until `visit` breaks.
    pub(crate) fn walk(
        &mut self,
        from: &MemberPlace,
        to: &MemberPlace,
        direction: WalkDirection,
        mut visit: impl FnMut(f64, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        if from >= to {
            return Ok(());
        }
        let Some(object) = self.elements.object() else {
            let members = self.sorted()?;
            let mut inside = members.iter().filter(|place| (from..to).contains(place));
            let mut show = |place: &MemberPlace| visit(score_of(place.order), &place.member);
            let _ = match direction {
                WalkDirection::Up => inside.try_for_each(&mut show),
                WalkDirection::Down => inside.rev().try_for_each(&mut show),
            };
            return Ok(());
        };
        let Keyspace { tx, model, copied_bytes, .. } = self.elements.keyspace();
        let from = (object, from.order, from.member.as_slice());
        let bounds = from..(object, to.order, to.member.as_slice());
        let mut show = |order: u64, member: Vec<u8>| {
            *copied_bytes += member.len();
            visit(score_of(order), &member)
        };
        match direction {
            WalkDirection::Up => {
                tx.scan_keys(&model.scores, bounds, |(_, order, member)| show(order, member))
            }
            WalkDirection::Down => {
                tx.scan_reverse(&model.scores, bounds, |(_, order, member), ()| show(order, member))
            }
        }
    }

    /// Removes the key with all members, at once.
    pub(crate) fn clear(self) -> Result<()> {
        self.elements.clear()
    }

    /// As [`Elements::finish`]. New members wake clients that wait for the key.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.elements.note_pushed(self.came);
        self.elements.finish()
    }

    /// The blocks of a larger sorted set.
    fn ranks(&mut self) -> Option<Ranks<'_, 'db>> {
        let object = self.elements.object()?;
        let Keyspace { tx, model, .. } = self.elements.keyspace();
        Some(Ranks { tx, model, object })
    }

    /// The members of a small sorted set, in their order.
    fn sorted(&mut self) -> Result<Vec<MemberPlace>> {
        let pairs = packed::pairs(self.elements.packed_bytes());
        let mut members: Vec<MemberPlace> = pairs
            .map(|pair| Ok(MemberPlace::of_member(score_in(pair.value)?, pair.element)))
            .collect::<Result<_>>()?;
        members.sort_unstable();
        Ok(members)
    }
}

#[cfg(test)]
mod tests;
