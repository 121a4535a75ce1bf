//! Scores, and bounds of ranges over sorted sets, in the texts of requests.
//!
//! Neighbours: the commands of sorted sets read their arguments here.

use super::CommandError;
use crate::model::sorted_set::MemberPlace;

/// A score or a weight.
///
/// # Errors
/// [`CommandError::NotFloat`], also for a number beyond the range of numbers with a fraction.
pub(super) fn score(text: &[u8]) -> Result<f64, CommandError> {
    let text = std::str::from_utf8(text).map_err(|_| CommandError::NotFloat)?;
    let score: f64 = text.parse().map_err(|_| CommandError::NotFloat)?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let has_digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let is_too_large = score.is_infinite() && has_digits;
    let is_too_small = score == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if score.is_nan() || is_too_large || is_too_small { Err(CommandError::NotFloat) } else { Ok(score) }
}

/// Number of a range by scores, as the C function `strtod` reads it: spaces before the number, and no number at all,
/// are permitted.
fn bound(text: &[u8]) -> Result<f64, CommandError> {
    const WRONG: CommandError = CommandError::Text("min or max is not a float");
    // A C string ends at a zero byte.
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Ok(0.0);
    }
    let text = std::str::from_utf8(text).map_err(|_| WRONG)?;
    let is_space = |c: char| matches!(c, ' ' | '\t'..='\r');
    let number: f64 = text.trim_start_matches(is_space).parse().map_err(|_| WRONG)?;
    if number.is_nan() { Err(WRONG) } else { Ok(number) }
}

/// The least place of a range by scores. The text is the least score, behind a parenthesis if the score is excluded.
pub(super) fn least_place(text: &[u8]) -> Result<MemberPlace, CommandError> {
    match text.strip_prefix(b"(") {
        Some(text) => Ok(MemberPlace::behind_score(bound(text)?)),
        None => Ok(MemberPlace::before_score(bound(text)?)),
    }
}

/// The place behind a range by scores. The text is the greatest score, behind a parenthesis if the score is excluded.
pub(super) fn end_place(text: &[u8]) -> Result<MemberPlace, CommandError> {
    match text.strip_prefix(b"(") {
        Some(text) => Ok(MemberPlace::before_score(bound(text)?)),
        None => Ok(MemberPlace::behind_score(bound(text)?)),
    }
}

/// A bound of a range by members, in a sorted set whose members have one score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberBound<'r> {
    /// Before all members.
    First,
    /// Behind all members.
    End,
    /// At a member, which the range includes or excludes.
    Included(&'r [u8]),
    Excluded(&'r [u8]),
}

impl<'r> MemberBound<'r> {
    /// # Errors
    /// A text without a known first sign.
    pub(super) fn read(text: &'r [u8]) -> Result<Self, CommandError> {
        match text {
            // A C string ends at a zero byte.
            [b'-'] | [b'-', 0, ..] => Ok(Self::First),
            [b'+'] | [b'+', 0, ..] => Ok(Self::End),
            [b'[', member @ ..] => Ok(Self::Included(member)),
            [b'(', member @ ..] => Ok(Self::Excluded(member)),
            _ => Err(CommandError::Text("min or max not valid string range item")),
        }
    }

    /// True if a range that begins here can have a member.
    pub(super) fn is_least_for(self, member: &[u8]) -> bool {
        match self {
            Self::First => true,
            Self::End => false,
            Self::Included(least) => member >= least,
            Self::Excluded(least) => member > least,
        }
    }

    /// True if a range that ends here can have a member.
    pub(super) fn is_most_for(self, member: &[u8]) -> bool {
        match self {
            Self::First => false,
            Self::End => true,
            Self::Included(most) => member <= most,
            Self::Excluded(most) => member < most,
        }
    }

    /// The least place of a range that begins here. `order` is the score of the members.
    pub(super) fn least_place(self, order: u64) -> MemberPlace {
        match self {
            Self::First => MemberPlace::FIRST,
            Self::End => MemberPlace::END,
            Self::Included(member) => MemberPlace { order, member: member.to_vec() },
            Self::Excluded(member) => MemberPlace { order, member: member.to_vec() }.place_behind(),
        }
    }

    /// The place behind a range that ends here.
    pub(super) fn end_place(self, order: u64) -> MemberPlace {
        match self {
            Self::Included(member) => MemberPlace { order, member: member.to_vec() }.place_behind(),
            Self::Excluded(member) => MemberPlace { order, member: member.to_vec() },
            Self::First | Self::End => self.least_place(order),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{bound, score};

    #[test]
    fn a_score_is_a_number_within_its_range() {
        for (text, number) in [
            ("1", 1.0),
            ("-.5e1", -5.0),
            ("+inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0e999", 0.0),
            ("4.9e-324", 5e-324),
        ] {
            assert_eq!(score(text.as_bytes()).ok(), Some(number), "{text}");
        }
        for text in ["", " 1", "1 ", "x", "nan", "1e400", "-1e400", "1e-400", "0x10", "1e", "(1", "\u{fc}"] {
            assert!(score(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bound_is_read_as_c_reads_numbers() {
        for (text, number) in
            [("", 0.0), ("\t 1", 1.0), ("1e400", f64::INFINITY), ("1e-400", 0.0), ("1\0x", 1.0)]
        {
            assert_eq!(bound(text.as_bytes()).ok(), Some(number), "{text}");
        }
        for text in [" ", "1 ", "nan", "x", "1(", "((1"] {
            assert!(bound(text.as_bytes()).is_err(), "{text}");
        }
    }
}
