//! Hint: a file with a lower bound of D, beside the marks of the logs. With the hint, recovery does not mistake damage
//! to the last mark of a log for a torn tail (L5). `docs/internals/formats/hint.md` has the text.
//!
//! Invariants: I1. No part of the database depends on the hint: the running database writes the hint without a sync,
//! and a disk error of the hint is no failure of the log.
//!
//! Neighbours: the heartbeat and the close of the log write the hint. `recovery` reads the hint for its verdict, and
//! `backup::source` before it opens the files of a running database.

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError, DiskFile};

use crate::files::manifest::generation::Generation;
use crate::files::names::HINT;
use crate::files::text;
use crate::files::text::{checked_body, parse_epoch, values, with_checksum};
use crate::identity::Identity;
use crate::number;

const TITLE: &str = "ensile hint 2";
/// Limit far above the size of a real hint, in bytes.
const BYTES_MAX: u64 = 1 << 16;
/// Least time between two writes, in nanoseconds.
const INTERVAL_NANOS: u64 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// Database that the files of the generation name.
    pub(crate) database: Identity,
    pub(crate) generation: u64,
    /// D from synced marks.
    pub(crate) durable: Epoch,
    /// Number of blocks of every log after a clean close. Empty without a clean close, and without a log.
    pub(crate) closed: Vec<u64>,
    /// E at the end of a clean close: higher reserved epochs are unused (L6).
    pub(crate) ended: Option<Epoch>,
}

impl Hint {
    /// Reads the hint; `None` without a readable hint.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>, DiskError> {
        let Some(bytes) = text::read(disk, HINT, BYTES_MAX)? else { return Ok(None) };
        Ok(std::str::from_utf8(&bytes).ok().and_then(Self::parse))
    }

    /// True if the hint is of this generation. An adopted hint names the same database as the adopted files.
    pub(crate) fn belongs_to(&self, generation: &Generation) -> bool {
        (self.database, self.generation) == (generation.database, generation.number)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = checked_body(text).ok()?.lines();
        if lines.next() != Some(TITLE) {
            return None;
        }
        let [database] = values(lines.next()?, "database")?;
        let [generation, durable] = values(lines.next()?, "generation durable")?;
        let durable = parse_epoch(durable)?;
        let mut lines = lines.peekable();
        // The hint of a database without a log has E, and no block counts.
        let closed = match lines.next_if(|line| line.starts_with("closed ")) {
            None => Vec::new(),
            Some(line) => {
                line.strip_prefix("closed ")?.split(' ').map(number::parse).collect::<Option<_>>()?
            }
        };
        let ended = match lines.next() {
            None => None,
            Some(line) => Some(parse_epoch(line.strip_prefix("ended ")?)?),
        };
        let (database, generation) = (Identity::parse(database)?, number::parse(generation)?);
        let hint = Self { database, generation, durable, closed, ended };
        lines.next().is_none().then_some(hint)
    }
}

impl std::fmt::Display for Hint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { database, generation, durable, closed, ended } = self;
        let mut body = format!("{TITLE}\ndatabase {database}\ngeneration {generation} durable {durable}\n");
        if !closed.is_empty() {
            let blocks: Vec<String> = closed.iter().map(u64::to_string).collect();
            body.push_str(&format!("closed {}\n", blocks.join(" ")));
        }
        if let Some(ended) = ended {
            body.push_str(&format!("ended {ended}\n"));
        }
        f.write_str(&with_checksum(&body))
    }
}

/// Writer of an open database's hint.
#[derive(Debug)]
pub(crate) struct HintWriter {
    file: Box<dyn DiskFile>,
    database: Identity,
    generation: u64,
    written: Epoch,
    /// Length of the last written text in bytes.
    text_bytes: usize,
    next_nanos: u64,
}

impl HintWriter {
    /// Makes an empty hint file for the new generation, at the end of a recovery. The caller syncs the name.
    pub(crate) fn create(disk: &dyn Disk, database: Identity, generation: u64) -> Result<Self, DiskError> {
        let file = disk.create(HINT)?;
        Ok(Self { file, database, generation, written: Epoch::ZERO, text_bytes: 0, next_nanos: 0 })
    }

    /// Writes the hint if D has grown, and the last write is a second old. The heartbeat calls.
    pub(crate) fn step(&mut self, now_nanos: u64, durable: Epoch) {
        if now_nanos < self.next_nanos || durable <= self.written {
            return;
        }
        self.next_nanos = now_nanos.saturating_add(INTERVAL_NANOS);
        if self.write(durable, Vec::new(), None).is_ok() {
            self.written = durable;
        }
    }

    /// Writes and syncs the last hint of a clean close. E stands at `ended`, and moves no more.
    pub(crate) fn close(&mut self, durable: Epoch, blocks: Vec<u64>, ended: Epoch) {
        debug_assert!(self.written <= durable && durable <= ended, "L5: D grows, and stays below E");
        // The heartbeat may run at the same time, and must not overwrite the last hint.
        self.next_nanos = u64::MAX;
        // The data behind the hint is durable without the hint.
        let _ = self.write(durable, blocks, Some(ended)).and_then(|()| self.file.sync_all());
    }

    fn write(&mut self, durable: Epoch, closed: Vec<u64>, ended: Option<Epoch>) -> Result<(), DiskError> {
        let Self { database, generation, .. } = *self;
        let hint = Hint { database, generation, durable, closed, ended };
        let text = hint.to_string();
        debug_assert_eq!(Hint::parse(&text), Some(hint));
        debug_assert!(text.len() as u64 <= BYTES_MAX, "a hint is read whole");
        // The numbers only grow, so the text never shrinks: no byte of an older hint stands behind the text.
        debug_assert!(text.len() >= self.text_bytes, "bytes of an older hint stand behind the text");
        self.text_bytes = text.len();
        self.file.write_at(text.as_bytes(), 0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
