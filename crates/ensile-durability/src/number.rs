//! Numbers that names and files give: the door through which they come in.
//!
//! Invariants:
//! - A number that counts one by one (of a generation, a log's file, a block, a checkpoint) is read only below
//!   [`NUMBER_END`], and a life goes on from numbers below half of that. So what a life counts never overflows, and
//!   the next one can read it.
//! - How many logs, checkpointers, files and ranges there are is read only within what a configuration may ask for. So
//!   neither a loop nor memory depends on what a file claims.
//!
//! Neighbours: `store` parses names, the manifest and the hint with it, `block` decodes headers; recovery and
//! checkpoints take the next numbers.

use std::str::FromStr;

/// No number that is read reaches this.
pub(crate) const NUMBER_END: u64 = 1 << 63;
/// Most loggers of a database.
pub(crate) const LOGGERS_MAX: u32 = 1024;
/// Most checkpointers of a database: the memory that they take together is bounded.
pub(crate) const CHECKPOINTERS_MAX: u32 = 32;
/// Most files of a checkpointer.
pub(crate) const FILES_MAX: u32 = 1024;
/// Most ranges of a cycling checkpoint.
pub(crate) const RANGES_MAX: u32 = 1024;

/// A number that counts one by one.
pub(crate) fn parse(word: &str) -> Option<u64> {
    parse_below(word, NUMBER_END)
}

/// How many there are: one at least.
pub(crate) fn parse_count(word: &str, max: u32) -> Option<u32> {
    parse_count_or_none(word, max).filter(|count| *count > 0)
}

/// How many there are, if any.
pub(crate) fn parse_count_or_none(word: &str, max: u32) -> Option<u32> {
    parse_below(word, max + 1)
}

fn parse_below<N: FromStr + PartialOrd>(word: &str, end: N) -> Option<N> {
    word.parse().ok().filter(|number| *number < end)
}

/// The number that a life takes behind this one; `None` if they are used up.
pub(crate) fn next(number: u64) -> Option<u64> {
    (number < NUMBER_END / 2).then(|| number + 1)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{NUMBER_END, next, parse, parse_count, parse_count_or_none};

    #[test]
    fn what_no_life_counts_to_is_not_read() {
        for (number, is_read) in [(0, true), (NUMBER_END - 1, true), (NUMBER_END, false), (u64::MAX, false)] {
            assert_eq!(parse(&number.to_string()), is_read.then_some(number));
        }
        for (count, is_read) in [(0, false), (1, true), (7, true), (8, false), (u32::MAX, false)] {
            assert_eq!(parse_count(&count.to_string(), 7), is_read.then_some(count));
            assert_eq!(parse_count_or_none(&count.to_string(), 7), (is_read || count == 0).then_some(count));
        }
        for word in ["", "-1", "1 ", "18446744073709551616"] {
            assert_eq!((parse(word), parse_count(word, 7)), (None, None), "{word:?}");
        }
    }

    #[test]
    fn a_number_that_is_taken_leaves_room_for_those_of_a_life() {
        assert_eq!(next(6), Some(7));
        assert_eq!(next(NUMBER_END / 2 - 1), Some(NUMBER_END / 2));
        assert_eq!(next(NUMBER_END / 2), None);
    }
}
