//! Counted blocks of a larger sorted set, so that the rank of a place costs a few short scans.
//!
//! The order of the members is cut into blocks of about [`FAN_OUT`] members, the order of the blocks into blocks of
//! the next level, and so on. A block's row has the first place of the block, and the number of its members:
//!
//! ```text
//! level 1   |---------------- 5 ----------------|------------- 4 -----------
//! level 0   |------ 3 -------|------- 2 --------|-- 1 --|-------- 3 --------
//! scores      a     b     c     d         e        f       g    h    i
//! ```
//! Invariants:
//! - The blocks of a level share the order out: a block ends at the first place of the next block of its level.
//! - The first block of each level begins at [`MemberPlace::FIRST`].
//! - A block's first place is also the first place of a block of the level below.
//! - A block's count is the number of rows in `scores` between its first place and its end. So a block has as many
//!   members as its blocks of the level below have together.
//! - The highest level has [`TOP_BLOCKS_MAX`] blocks at most after a block was divided, and more than one block
//!   unless that level is 0, or was just begun. No row stands for the whole set, so clients that add members at
//!   different places seldom conflict.
//!
//! A block outside of its range of counts costs time only. Each change brings the blocks of its place back into the
//! range.
//!
//! Neighbours: [`super::sorted_set`] changes the rows in `scores`, and tells each change.

use std::ops::ControlFlow;

use ensile::{Prefix, Readable, Result, Transaction};

use super::Model;
use super::sorted_set::MemberPlace;

/// Usual number of members of a block of level 0, and of blocks below a block.
const FAN_OUT: u64 = 24;
/// Number of the highest level's blocks beyond which a level is put above.
const TOP_BLOCKS_MAX: usize = 128;
/// Number of members of a new block of level 0, if many members come together.
const NEW_BLOCK_MEMBERS: usize = 36;

/// Usual number of members of a block.
const fn usual(level: u8) -> u64 {
    FAN_OUT.saturating_pow(level as u32 + 1)
}

/// Number of members beyond which a block is divided.
const fn most(level: u8) -> u64 {
    usual(level).saturating_mul(2)
}

/// Number of members below which a block is joined with a neighbour.
const fn least(level: u8) -> u64 {
    usual(level) / 4
}

/// A block: its first place, and the number of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RankBlock {
    first: MemberPlace,
    count: u64,
}

/// The blocks of an object, within a transaction.
pub(super) struct Ranks<'t, 'db> {
    pub(super) tx: &'t mut Transaction<'db>,
    pub(super) model: &'t Model,
    pub(super) object: u64,
}

impl Ranks<'_, '_> {
    /// The highest level.
    fn top(&mut self) -> Result<u8> {
        let last = self.tx.last(&self.model.ranks, Prefix((self.object,)))?;
        Ok(last.map_or(0, |((_, level, ..), _)| level))
    }

    /// Number of all members.
    pub(super) fn count(&mut self) -> Result<u64> {
        let (top, mut sum) = (self.top()?, 0_u64);
        self.tx.scan(&self.model.ranks, Prefix((self.object, top)), |_, count| {
            sum = sum.saturating_add(*count);
            ControlFlow::Continue(())
        })?;
        Ok(sum)
    }

    /// Number of members before a place.
    pub(super) fn count_before(&mut self, place: &MemberPlace) -> Result<u64> {
        let (object, mut first, mut sum) = (self.object, MemberPlace::FIRST, 0_u64);
        for level in (0..=self.top()?).rev() {
            // The last of the visited blocks has the place, all others are before it.
            let mut last: Option<(u64, Vec<u8>, u64)> = None;
            let from = (object, level, first.order, first.member.as_slice());
            let to = (object, level, place.order, place.member.as_slice());
            self.tx.scan(&self.model.ranks, from..=to, |(_, _, order, member), count| {
                sum = sum.saturating_add(last.as_ref().map_or(0, |(.., count)| *count));
                last = Some((order, member, *count));
                ControlFlow::Continue(())
            })?;
            if let Some((order, member, _)) = last {
                first = MemberPlace { order, member };
            }
        }
        let from = (object, first.order, first.member.as_slice());
        let to = (object, place.order, place.member.as_slice());
        self.tx.scan_keys(&self.model.scores, from..to, |_| {
            sum = sum.saturating_add(1);
            ControlFlow::Continue(())
        })?;
        Ok(sum)
    }

    /// The member with a rank, counted from 0; `None` beyond the last member.
    pub(super) fn place_at(&mut self, rank: u64) -> Result<Option<MemberPlace>> {
        let (object, mut first, mut left) = (self.object, MemberPlace::FIRST, rank);
        for level in (0..=self.top()?).rev() {
            let mut found = None;
            let from = (object, level, first.order, first.member.as_slice());
            self.tx.scan(
                &self.model.ranks,
                from..(object, level + 1, 0, &[]),
                |(_, _, order, member), count| {
                    if left < *count {
                        found = Some(MemberPlace { order, member });
                        return ControlFlow::Break(());
                    }
                    left -= count;
                    ControlFlow::Continue(())
                },
            )?;
            let Some(place) = found else { return Ok(None) };
            first = place;
        }
        let (mut found, from) = (None, (object, first.order, first.member.as_slice()));
        self.tx.scan_keys(&self.model.scores, from..(object + 1, 0, &[]), |(_, order, member)| {
            if left == 0 {
                found = Some(MemberPlace { order, member });
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Counts a member that has come.
    pub(super) fn add(&mut self, place: &MemberPlace) -> Result<()> {
        let top = self.top()?;
        let mut is_in_range = true;
        for level in (0..=top).rev() {
            let block = self.block_of(level, place)?;
            is_in_range &= self.count_in(level, &block, 1)?;
        }
        if is_in_range { Ok(()) } else { self.balance(top, place) }
    }

    /// Counts a member that has gone.
    pub(super) fn take(&mut self, place: &MemberPlace) -> Result<()> {
        let top = self.top()?;
        let mut is_in_range = true;
        for level in (0..=top).rev() {
            let block = self.block_of(level, place)?;
            is_in_range &= self.count_in(level, &block, -1)?;
        }
        if is_in_range { Ok(()) } else { self.balance(top, place) }
    }

    /// Counts a member that has another place now. A block with both places does not change.
    pub(super) fn move_member(&mut self, from: &MemberPlace, to: &MemberPlace) -> Result<()> {
        let top = self.top()?;
        let mut is_in_range = true;
        for level in (0..=top).rev() {
            let (old, new) = (self.block_of(level, from)?, self.block_of(level, to)?);
            if old.first != new.first {
                is_in_range &= self.count_in(level, &old, -1)?;
                is_in_range &= self.count_in(level, &new, 1)?;
            }
        }
        if is_in_range {
            return Ok(());
        }
        self.balance(top, from)?;
        let top = self.top()?;
        self.balance(top, to)
    }

    /// Makes the blocks of a new object. The members come in their order.
    pub(super) fn build(&mut self, members: &[MemberPlace]) -> Result<()> {
        debug_assert!(members.is_sorted(), "the members come in their order");
        let new =
            |members: &[MemberPlace]| RankBlock { first: members[0].clone(), count: members.len() as u64 };
        let mut blocks: Vec<RankBlock> = members.chunks(NEW_BLOCK_MEMBERS).map(new).collect();
        for level in 0.. {
            if let Some(first) = blocks.first_mut() {
                first.first = MemberPlace::FIRST;
            }
            blocks.iter().try_for_each(|block| self.put(level, &block.first, block.count))?;
            if blocks.len() <= TOP_BLOCKS_MAX {
                break;
            }
            let join = |blocks: &[RankBlock]| {
                let count = blocks.iter().map(|block| block.count).sum();
                RankBlock { first: blocks[0].first.clone(), count }
            };
            blocks = blocks.chunks(FAN_OUT as usize).map(join).collect();
        }
        Ok(())
    }

    /// The block of a level that has a place. Without rows, as a transaction that cannot commit may see the object,
    /// the block is empty.
    fn block_of(&mut self, level: u8, place: &MemberPlace) -> Result<RankBlock> {
        let mut found = RankBlock { first: MemberPlace::FIRST, count: 0 };
        let to = (self.object, level, place.order, place.member.as_slice());
        let bounds = (self.object, level, 0, [].as_slice())..=to;
        self.tx.scan_reverse(&self.model.ranks, bounds, |(_, _, order, member), count| {
            found = RankBlock { first: MemberPlace { order, member }, count: *count };
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// The block behind a block.
    fn next(&mut self, level: u8, first: &MemberPlace) -> Result<Option<RankBlock>> {
        let mut found = None;
        let behind = first.place_behind();
        let from = (self.object, level, behind.order, behind.member.as_slice());
        self.tx.scan(
            &self.model.ranks,
            from..(self.object, level + 1, 0, &[]),
            |(_, _, order, member), count| {
                found = Some(RankBlock { first: MemberPlace { order, member }, count: *count });
                ControlFlow::Break(())
            },
        )?;
        Ok(found)
    }

    /// The block before a block.
    fn previous(&mut self, level: u8, first: &MemberPlace) -> Result<Option<RankBlock>> {
        let mut found = None;
        let to = (self.object, level, first.order, first.member.as_slice());
        let bounds = (self.object, level, 0, [].as_slice())..to;
        self.tx.scan_reverse(&self.model.ranks, bounds, |(_, _, order, member), count| {
            found = Some(RankBlock { first: MemberPlace { order, member }, count: *count });
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    fn put(&mut self, level: u8, first: &MemberPlace, count: u64) -> Result<()> {
        self.tx.put(&self.model.ranks, &(self.object, level, first.order, first.member.as_slice()), &count)
    }

    fn delete(&mut self, level: u8, first: &MemberPlace) -> Result<()> {
        let row = (self.object, level, first.order, first.member.as_slice());
        self.tx.delete(&self.model.ranks, &row).map(drop)
    }

    /// Adds to the count of a block. False if the block is to be divided or joined.
    fn count_in(&mut self, level: u8, block: &RankBlock, by: i64) -> Result<bool> {
        // No assertion compares the count: only the commit checks that all rows are of one moment.
        let count = block.count.saturating_add_signed(by);
        self.put(level, &block.first, count)?;
        Ok((least(level)..=most(level)).contains(&count))
    }

    /// Divides and joins the blocks that have a place, the highest level first.
    fn balance(&mut self, top: u8, place: &MemberPlace) -> Result<()> {
        for level in (0..=top).rev() {
            let block = self.block_of(level, place)?;
            if block.count > most(level) {
                self.divide(level, &block)?;
                if level == top {
                    self.grow(top)?;
                }
            } else if block.count < least(level) {
                let is_top = level == top;
                self.join(level, &block, is_top)?;
                if is_top && level > 0 {
                    self.shrink(top)?;
                }
            }
        }
        Ok(())
    }

    /// Divides a block in the middle.
    fn divide(&mut self, level: u8, block: &RankBlock) -> Result<()> {
        let (object, first) = (self.object, &block.first);
        let (half, mut lower, mut middle) = (block.count / 2, 0_u64, None);
        if level == 0 {
            let from = (object, first.order, first.member.as_slice());
            self.tx.scan_keys(&self.model.scores, from..(object + 1, 0, &[]), |(_, order, member)| {
                if lower == half {
                    middle = Some(MemberPlace { order, member });
                    return ControlFlow::Break(());
                }
                lower += 1;
                ControlFlow::Continue(())
            })?;
        } else {
            let from = (object, level - 1, first.order, first.member.as_slice());
            self.tx.scan(
                &self.model.ranks,
                from..(object, level, 0, &[]),
                |(_, _, order, member), count| {
                    if lower >= half && lower > 0 {
                        middle = Some(MemberPlace { order, member });
                        return ControlFlow::Break(());
                    }
                    lower = lower.saturating_add(*count);
                    ControlFlow::Continue(())
                },
            )?;
        }
        if let Some(middle) = middle {
            self.put(level, first, lower)?;
            self.put(level, &middle, block.count.saturating_sub(lower))?;
        }
        Ok(())
    }

    /// Joins a small block with a neighbour below the same block, and divides a block that is then too large. A block
    /// without such a neighbour stays.
    fn join(&mut self, level: u8, block: &RankBlock, is_top: bool) -> Result<()> {
        let begins_above = |ranks: &mut Self, first: &MemberPlace| {
            let row = (ranks.object, level + 1, first.order, first.member.as_slice());
            if is_top { Ok(false) } else { ranks.tx.contains(&ranks.model.ranks, &row) }
        };
        let is_first = block.first == MemberPlace::FIRST || begins_above(self, &block.first)?;
        let (left, right) = if is_first {
            match self.next(level, &block.first)? {
                Some(next) if !begins_above(self, &next.first)? => (block.clone(), next),
                _ => return Ok(()),
            }
        } else {
            match self.previous(level, &block.first)? {
                Some(previous) => (previous, block.clone()),
                None => return Ok(()),
            }
        };
        self.delete(level, &right.first)?;
        let joined = RankBlock { count: left.count.saturating_add(right.count), ..left };
        self.put(level, &joined.first, joined.count)?;
        if joined.count > most(level) { self.divide(level, &joined) } else { Ok(()) }
    }

    /// Puts a level above the highest level, if that level has too many blocks.
    fn grow(&mut self, top: u8) -> Result<()> {
        let mut blocks: Vec<RankBlock> = Vec::new();
        let mut block_count = 0;
        self.tx.scan(&self.model.ranks, Prefix((self.object, top)), |(_, _, order, member), count| {
            block_count += 1;
            match blocks.last_mut() {
                Some(last) if last.count < usual(top + 1) => last.count = last.count.saturating_add(*count),
                _ => blocks.push(RankBlock { first: MemberPlace { order, member }, count: *count }),
            }
            ControlFlow::Continue(())
        })?;
        if block_count <= TOP_BLOCKS_MAX {
            return Ok(());
        }
        // The last block may be small.
        if let [.., previous, last] = blocks.as_mut_slice()
            && last.count < least(top + 1)
        {
            previous.count = previous.count.saturating_add(last.count);
            blocks.pop();
        }
        blocks.iter().try_for_each(|block| self.put(top + 1, &block.first, block.count))
    }

    /// Removes the highest level, if that level has one block only.
    fn shrink(&mut self, top: u8) -> Result<()> {
        if self.next(top, &MemberPlace::FIRST)?.is_none() {
            self.delete(top, &MemberPlace::FIRST)?;
        }
        Ok(())
    }
}
