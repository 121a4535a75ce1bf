//! Copied part of one log of a generation, in the generation's line (`docs/internals/formats/manifest.md`, `files`;
//! N21).
//!
//! Neighbours: `generation` has a span for each log; `crate::backup` and the shipper make spans.

use std::fmt;

use crate::number;

/// Copied part of one log of a generation: the files `first` to `last`, and the number of bytes of `last` that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogSpan {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) bytes: u64,
}

impl LogSpan {
    /// Number of bytes of file `number` that count: 0 outside the span, `u64::MAX` before the last file.
    pub(crate) fn bytes_of(self, number: u64) -> u64 {
        match number {
            _ if number < self.first || number > self.last => 0,
            _ if number == self.last => self.bytes,
            _ => u64::MAX,
        }
    }

    /// Parses the spans of all logs, which `Display` writes, with commas between the spans.
    pub(crate) fn parse_all(text: &str) -> Option<Vec<Self>> {
        let parse = |span: &str| {
            let (files, bytes) = span.split_once(':')?;
            let (first, last) = files.split_once('-')?;
            let (first, last) = (number::parse(first)?, number::parse(last)?);
            let bytes = bytes.parse().ok().filter(|bytes| *bytes > 0)?;
            (first <= last).then_some(Self { first, last, bytes })
        };
        text.split(',').map(parse).collect()
    }
}

impl fmt::Display for LogSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}:{}", self.first, self.last, self.bytes)
    }
}
