//! Found members of sorted sets with scores. A reply announces the number of members first, so a walk collects them.
//!
//! Neighbours: the commands of sorted sets collect, reply and store.

use ensile_resp::{ReplyEncoder, RespVersion};

use super::CommandError;
use super::arguments::check_key;
use super::found::FoundTexts;
use crate::model::keyspace::check_copies;
use crate::model::sorted_set::{MemberPlace, SortedSet};
use crate::model::{KEY_BYTES_MAX, Keyspace};

/// Rough need of the transaction beside a stored or removed member, in bytes.
const CHANGED_ROWS_BYTES: usize = 200;

/// Upper bound of a reply's bytes beside a member: the header of the member, and the score.
const SCORED_BYTES: usize = "*2\r\n$16777216\r\n\r\n".len() + 32;

/// Use of the members, which bounds their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MembersUse {
    Reply,
    /// The members are stored, or removed.
    Change,
}

/// Checks a number of members and the sum of the lengths in bytes against the limit of a transaction's changes.
pub(super) fn check_change(count: usize, member_bytes: usize) -> Result<(), CommandError> {
    Ok(check_copies(member_bytes * 2 + count * CHANGED_ROWS_BYTES)?)
}

/// Members and scores, in the order of the walk.
#[derive(Default)]
pub(super) struct FoundMembers {
    members: FoundTexts,
    scores: Vec<f64>,
}

impl FoundMembers {
    pub(super) fn push(&mut self, member: &[u8], score: f64) {
        self.members.push(member);
        self.scores.push(score);
    }

    pub(super) fn count(&self) -> usize {
        self.scores.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> {
        self.members.iter().zip(self.scores.iter().copied())
    }

    /// True if the use takes no further member. The command is then an error.
    pub(super) fn is_beyond(&self, members_use: MembersUse) -> bool {
        match members_use {
            MembersUse::Reply => self.members.is_beyond_reply(),
            MembersUse::Change => self.check_change().is_err(),
        }
    }

    /// True if a reply may have no room for a key, the members and the scores. A command refuses before the removal.
    pub(super) fn may_be_beyond_reply(&self) -> bool {
        let headers = 4 * "$16777216\r\n\r\n".len();
        self.members.bytes() + self.count() * SCORED_BYTES + headers + KEY_BYTES_MAX
            > ensile_serving::REPLY_BYTES
    }

    /// Checks the members against the limit of a transaction's changes.
    pub(super) fn check_change(&self) -> Result<(), CommandError> {
        check_change(self.count(), self.members.bytes())
    }

    /// Writes an array of the members. In the third version of the protocol a member and the score are one array.
    pub(super) fn write(&self, with_scores: bool, reply: &mut ReplyEncoder<'_>) {
        let are_pairs = with_scores && reply.version() == RespVersion::Resp3;
        let is_flat = with_scores && !are_pairs;
        reply.array(if is_flat { self.count() * 2 } else { self.count() });
        self.write_members(are_pairs, with_scores, reply);
    }

    /// Writes an array of pairs. A pair is an array of a member and the score.
    pub(super) fn write_pairs(&self, reply: &mut ReplyEncoder<'_>) {
        reply.array(self.count());
        self.write_members(true, true, reply);
    }

    /// Writes an array of members and scores by turns.
    pub(super) fn write_flat(&self, reply: &mut ReplyEncoder<'_>) {
        reply.array(self.count() * 2);
        self.write_members(false, true, reply);
    }

    fn write_members(&self, are_pairs: bool, with_scores: bool, reply: &mut ReplyEncoder<'_>) {
        for (member, score) in self.iter() {
            if are_pairs {
                reply.array(2);
            }
            reply.bulk(member);
            if with_scores {
                reply.double(score);
            }
            if reply.is_beyond() {
                return;
            }
        }
    }

    /// Replaces a key's value by the members. Without members the key is removed.
    pub(super) fn store(&self, keyspace: &mut Keyspace<'_, '_>, key: &[u8]) -> Result<(), CommandError> {
        check_key(key)?;
        self.check_change()?;
        let mut places: Vec<MemberPlace> =
            self.iter().map(|(member, score)| MemberPlace::of_member(score, member)).collect();
        places.sort_unstable();
        let mut set = SortedSet::replace(keyspace, key)?;
        set.fill(&places)?;
        Ok(set.finish()?)
    }
}
