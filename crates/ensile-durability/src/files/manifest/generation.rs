//! A generation: one life of the database, as a line of the manifest or of an archive's list
//! (`docs/internals/formats/manifest.md`).
//!
//! Invariants: L4: only an open generation has no durable epoch D. K1, K5, N12: see [`Generation::fits`].
//!
//! Neighbours: `manifest` and `archive_list` have the line. `lineage` remembers a generation that has left the list.

use std::cmp::Ordering;
use std::fmt;

use ensile_base::Epoch;

use super::installed_checkpoint::{InstalledCheckpoint, WalkRecord};
use crate::files::block::Salt;
use crate::files::names::SegmentName;
use crate::files::text::{parse_epoch, values};
use crate::identity::Identity;
use crate::number::{self, LOGGERS_MAX, parse_count_or_none};
use crate::recoverable::EntryKind;

/// One life of the database, from an open to the next recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    /// First epoch of the generation: its entries have this epoch or a later epoch.
    pub(crate) first: Epoch,
    /// Format of the generation's blocks (L7).
    pub(crate) format: u16,
    pub(crate) entries: EntryKind,
    /// Number of logs. 0 for a generation without a log, which only pictures make durable.
    pub(crate) logs: u32,
    /// Salt of the log files. A file with another salt belongs to another database.
    pub(crate) salt: Salt,
    /// Database identity in the generation's files (I1): this database, or the original of an adopted copy.
    pub(crate) database: Identity,
    /// Durable epoch D, from the recovery or the backup that closed the generation. `None` while the generation is
    /// open.
    pub(crate) durable: Option<Epoch>,
    /// Copied files and bytes of each log (N21). Empty if the logs count as a whole.
    pub(crate) spans: Vec<LogSpan>,
}

impl Generation {
    /// True if `other` is the same generation of the same life. The comparison ignores durable epochs and copied spans.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let begun = |of: &Self| Self { durable: None, spans: Vec::new(), ..of.clone() };
        begun(self) == begun(other)
    }

    /// Number of bytes of the log file `name` that count (N21). 0 for a file outside the copied span, and `u64::MAX`
    /// without a limit.
    pub(crate) fn log_bytes(&self, name: SegmentName) -> u64 {
        assert_eq!(name.generation, self.number, "a file of this generation");
        self.spans.get(name.logger as usize).map_or(u64::MAX, |span| span.bytes_of(name.number))
    }

    /// True if number and epochs of the generation agree with the checkpoint, so that both may be in one manifest, or
    /// in one shipped state (K1, K5, N12, L4).
    pub(crate) fn fits(&self, checkpoint: &InstalledCheckpoint) -> bool {
        if self.number < *checkpoint.generations().start() {
            return false;
        }
        checkpoint.records().into_iter().all(|WalkRecord { generation, low, high, .. }| {
            match self.number.cmp(&generation) {
                // An older range still needs the log of this generation.
                Ordering::Less => self.durable.is_some_and(|durable| durable < low),
                Ordering::Equal => {
                    let has_marks = self.durable.is_none_or(|durable| durable >= high);
                    // A fuzzy checkpoint counts only with a log (K1).
                    let has_log = self.logs > 0 || checkpoint.is_picture();
                    self.first <= low && has_marks && has_log
                }
                Ordering::Greater => self.first > high,
            }
        })
    }

    /// Parses the line of a generation, from a manifest or an archive.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (line, spans) = match line.split_once(" files ") {
            Some((line, spans)) => (line, LogSpan::parse_all(spans)?),
            None => (line, Vec::new()),
        };
        let (line, durable) = match line.split_once(" durable ") {
            Some((line, durable)) => (line, Some(parse_epoch(durable)?)),
            None => (line, None),
        };
        let [number, first, format, entries, logs, salt, database] =
            values(line, "generation first format entries logs salt database")?;
        Some(Self {
            number: number::parse(number)?,
            first: parse_epoch(first)?,
            format: format.parse().ok()?,
            entries: EntryKind::from_name(entries)?,
            logs: parse_count_or_none(logs, LOGGERS_MAX)?,
            salt: Salt::parse(salt)?,
            database: Identity::parse(database)?,
            durable,
            spans,
        })
    }
}

/// True if numbers and epochs of these generations grow, and each generation but the last has its D (L4).
pub(crate) fn are_in_order(generations: &[Generation]) -> bool {
    let pairs = generations.windows(2).all(|pair| {
        pair[0].durable.is_some_and(|durable| durable < pair[1].first) && pair[0].number < pair[1].number
    });
    let ends = |of: &Generation| of.durable.is_none_or(|durable| durable.next() >= of.first);
    pairs && generations.iter().all(|generation| generation.number > 0 && ends(generation))
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, first, format, entries, logs, salt, database, durable, spans } = self;
        let entries = entries.name();
        write!(f, "generation {number} first {first} format {format} entries {entries} ")?;
        write!(f, "logs {logs} salt {salt} database {database}")?;
        durable.map_or(Ok(()), |durable| write!(f, " durable {durable}"))?;
        let separators = std::iter::once(" files ").chain(std::iter::repeat(","));
        spans.iter().zip(separators).try_for_each(|(span, separator)| write!(f, "{separator}{span}"))
    }
}

/// Copied part of one log of a generation: the files `first` to `last`, and the number of bytes of `last` that count.
/// Files and bytes outside the span do not belong to the generation (N21).
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
