//! `LCS`: the longest common subsequence of two strings, by the table of the lengths for all pairs of beginnings.
//!
//! Invariant: the table is bounded, so the command's time and memory are.
//!
//! Neighbours: `strings` has the other commands of strings.

use std::ops::Range;

use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;

use super::arguments::whole;
use super::strings::string_of;
use super::{CommandError, CommandResult, DataCall};

/// Largest number of entries of the table: 64 MiB.
const ENTRIES_MAX: usize = 16 << 20;

/// Lengths of the common subsequences of all beginnings of two strings.
struct LengthTable<'s> {
    first: &'s [u8],
    second: &'s [u8],
    /// Row by row: an entry for each beginning of `second`.
    lengths: Vec<u32>,
}

/// Parts of both strings that are equal, byte by byte.
struct CommonRange {
    first: Range<usize>,
    second: Range<usize>,
}

impl<'s> LengthTable<'s> {
    /// Fills the table; `None` for strings whose table is too large.
    fn new(first: &'s [u8], second: &'s [u8]) -> Option<Self> {
        let width = second.len() + 1;
        let entries = width.checked_mul(first.len() + 1).filter(|entries| *entries <= ENTRIES_MAX)?;
        let mut lengths = vec![0_u32; entries];
        for (row, byte) in first.iter().enumerate() {
            let (above, below) = lengths[row * width..(row + 2) * width].split_at_mut(width);
            for (column, other) in second.iter().enumerate() {
                below[column + 1] =
                    if byte == other { above[column] + 1 } else { above[column + 1].max(below[column]) };
            }
        }
        Some(Self { first, second, lengths })
    }

    /// Length of the common subsequence of two beginnings.
    fn length(&self, first: usize, second: usize) -> u32 {
        debug_assert!(
            first <= self.first.len() && second <= self.second.len(),
            "a beginning is of the string"
        );
        self.lengths[first * (self.second.len() + 1) + second]
    }

    fn whole_length(&self) -> i64 {
        i64::from(self.length(self.first.len(), self.second.len()))
    }

    /// The equal parts that make up the subsequence, the last part first, as redis finds them.
    fn ranges(&self) -> Vec<CommonRange> {
        let mut ranges: Vec<CommonRange> = Vec::new();
        let (mut first, mut second) = (self.first.len(), self.second.len());
        let mut is_open = false;
        while first > 0 && second > 0 {
            if self.first[first - 1] == self.second[second - 1] {
                (first, second) = (first - 1, second - 1);
                match ranges.last_mut().filter(|_| is_open) {
                    Some(range) => (range.first.start, range.second.start) = (first, second),
                    None => {
                        ranges.push(CommonRange { first: first..first + 1, second: second..second + 1 });
                    }
                }
                is_open = true;
            } else {
                is_open = false;
                if self.length(first - 1, second) > self.length(first, second - 1) {
                    first -= 1;
                } else {
                    second -= 1;
                }
            }
        }
        ranges
    }

    fn subsequence(&self) -> Vec<u8> {
        let ranges = self.ranges();
        let bytes: Vec<u8> =
            ranges.iter().rev().flat_map(|range| &self.first[range.first.clone()]).copied().collect();
        debug_assert_eq!(bytes.len() as i64, self.whole_length(), "the ranges make up the subsequence");
        bytes
    }
}

/// Options of `LCS`.
#[derive(Default)]
struct SubsequenceOptions {
    replies_length: bool,
    replies_ranges: bool,
    has_lengths: bool,
    /// Shortest range that is replied, in bytes.
    bytes_min: i64,
}

impl SubsequenceOptions {
    fn read(call: &DataCall<'_, '_>) -> Result<Self, CommandError> {
        let (mut options, mut at) = (Self::default(), 3);
        while at < call.request.len() {
            let word = call.argument(at);
            if is_called(word, "IDX") {
                options.replies_ranges = true;
            } else if is_called(word, "LEN") {
                options.replies_length = true;
            } else if is_called(word, "WITHMATCHLEN") {
                options.has_lengths = true;
            } else if is_called(word, "MINMATCHLEN") && at + 1 < call.request.len() {
                options.bytes_min = whole(call.argument(at + 1))?;
                at += 1;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        if options.replies_length && options.replies_ranges {
            return Err(CommandError::Text("If you want both the length and indexes, please just use IDX."));
        }
        Ok(options)
    }
}

/// `LCS key key [LEN] [IDX] [MINMATCHLEN number] [WITHMATCHLEN]`: an absent key counts as an empty string.
pub(crate) fn common_subsequence(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let [first, second] = [call.keyspace.get(call.argument(1))?, call.keyspace.get(call.argument(2))?];
    let (Ok(first), Ok(second)) = (string_of(first.as_ref()), string_of(second.as_ref())) else {
        return Err(CommandError::Text("The specified keys must contain string values"));
    };
    let (first, second) = (first.unwrap_or_default(), second.unwrap_or_default());
    let options = SubsequenceOptions::read(call)?;
    let table = LengthTable::new(first, second).ok_or(CommandError::Text(
        "Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len: the product of both lengths is 16777216 at \
         most",
    ))?;
    if options.replies_ranges {
        reply_ranges(&table, &options, reply);
    } else if options.replies_length {
        reply.integer(table.whole_length());
    } else {
        reply.bulk(&table.subsequence());
    }
    Ok(())
}

fn reply_ranges(table: &LengthTable<'_>, options: &SubsequenceOptions, reply: &mut ReplyEncoder<'_>) {
    let mut ranges = table.ranges();
    ranges.retain(|range| range.first.len() as i64 >= options.bytes_min);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(ranges.len());
    for range in ranges {
        let bytes = range.first.len() as i64;
        reply.array(2 + usize::from(options.has_lengths));
        for part in [range.first, range.second] {
            reply.array(2);
            reply.integer(part.start as i64);
            reply.integer(part.end as i64 - 1);
        }
        if options.has_lengths {
            reply.integer(bytes);
        }
    }
    reply.bulk(b"len");
    reply.integer(table.whole_length());
}
