//! Numbers in names and files, parsed and checked.
//!
//! Invariants: a consecutive number is read only below [`NUMBER_END`], and a life continues only from numbers below
//! half of that, so the numbers of a life never overflow. A count of logs, checkpointers, files or ranges is read only
//! within the limits of a configuration, so neither a loop nor memory depends on a count in a file.
//!
//! Neighbours: `files` parses names, the manifest and the hint with this module; `block` checks headers; recovery,
//! checkpoints, backups and shipping draw the next numbers.

use std::str::FromStr;

/// Exclusive upper bound of numbers that are read.
pub(crate) const NUMBER_END: u64 = 1 << 63;
/// Largest number of loggers of a database.
pub(crate) const LOGGERS_MAX: u32 = 1024;
/// Largest number of checkpointers of a database. The limit bounds the checkpointers' total memory.
pub(crate) const CHECKPOINTERS_MAX: u32 = 32;
/// Largest number of files of a checkpointer.
pub(crate) const FILES_MAX: u32 = 1024;
/// Largest number of ranges of a cycling checkpoint.
pub(crate) const RANGES_MAX: u32 = 1024;

/// Parses a consecutive number; `None` from [`NUMBER_END`] on.
pub(crate) fn parse(word: &str) -> Option<u64> {
    parse_below(word, NUMBER_END)
}

/// Parses a count from 1 to `max`.
pub(crate) fn parse_count(word: &str, max: u32) -> Option<u32> {
    parse_count_or_none(word, max).filter(|count| *count > 0)
}

/// Parses a count from 0 to `max`.
pub(crate) fn parse_count_or_none(word: &str, max: u32) -> Option<u32> {
    parse_below(word, max + 1)
}

fn parse_below<N: FromStr + PartialOrd>(word: &str, end: N) -> Option<N> {
    word.parse().ok().filter(|number| *number < end)
}

/// Number after this number; `None` if the numbers are used up.
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
