//! The hint: one more witness of D, so that damage to the last mark of a log is not taken for a torn tail (L5).
//!
//! A text file (`docs/formats/hint.md`):
//! ```text
//! ensile hint 2
//! database 5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f
//! generation 3 durable 57
//! closed 12 7
//! ended 131
//! crc32c a252b35f
//! ```
//! Invariants:
//! - I1: it says whose it is. One of another database is refused, and never believed nor written over.
//! - Its D comes from synced marks of all logs, and so do the ends of the logs that a clean close adds. Without a log
//!   it is e_c of the installed picture.
//! - Nothing depends on its being there: one that is missing, torn, of another generation or of an older format says
//!   nothing. So it is written without a sync while the database runs, and a disk that refuses it is no failure of the
//!   log.
//!
//! Neighbours: written by the log's heartbeat step and its close; read by recovery's judgement.

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError, DiskFile};

use crate::identity::Identity;
use crate::number;
use crate::store::manifest::Generation;
use crate::store::names::HINT;
use crate::store::text::{self, checked_body, parse_epoch, values, with_checksum};

const TITLE: &str = "ensile hint 2";
/// Far above any real one.
const BYTES_MAX: u64 = 1 << 16;
/// Time between two writes.
const INTERVAL_NANOS: u64 = 1_000_000_000;

/// What the hint says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// Whose it is, as the files of its generation say.
    pub(crate) database: Identity,
    pub(crate) generation: u64,
    /// A D of synced marks.
    pub(crate) durable: Epoch,
    /// After a clean close, how many blocks each log has; empty otherwise, and without a log.
    pub(crate) closed: Vec<u64>,
    /// After a clean close, the last E: what is reserved above it was not used (L6).
    pub(crate) ended: Option<Epoch>,
}

impl Hint {
    /// Reads the hint; `None` if it says nothing.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>, DiskError> {
        let Some(bytes) = text::read(disk, HINT, BYTES_MAX)? else { return Ok(None) };
        Ok(std::str::from_utf8(&bytes).ok().and_then(Self::parse))
    }

    /// Is it of this generation? One that was adopted with its files says the same as they do.
    pub(crate) fn is_of(&self, generation: &Generation) -> bool {
        (self.database, self.generation) == (generation.database, generation.number)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = checked_body(text).ok()?.lines();
        if lines.next() != Some(TITLE) {
            return None;
        }
        let [database] = values(lines.next()?, &["database"])?;
        let [generation, durable] = values(lines.next()?, &["generation", "durable"])?;
        let durable = parse_epoch(durable)?;
        let mut lines = lines.peekable();
        // Of a database without a log it says where E stood, and no blocks.
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

/// The hint of an open database.
#[derive(Debug)]
pub(crate) struct HintWriter {
    file: Box<dyn DiskFile>,
    database: Identity,
    generation: u64,
    written: Epoch,
    next_nanos: u64,
}

impl HintWriter {
    /// Empties the hint: from here on it is the new generation's. Its name is the caller's to sync.
    pub(crate) fn create(disk: &dyn Disk, database: Identity, generation: u64) -> Result<Self, DiskError> {
        Ok(Self { file: disk.create(HINT)?, database, generation, written: Epoch::ZERO, next_nanos: 0 })
    }

    /// Writes the hint if the last one is old and D has moved.
    pub(crate) fn step(&mut self, now_nanos: u64, durable: Epoch) {
        if now_nanos < self.next_nanos || durable <= self.written {
            return;
        }
        self.next_nanos = now_nanos.saturating_add(INTERVAL_NANOS);
        if self.write(durable, Vec::new(), None).is_ok() {
            self.written = durable;
        }
    }

    /// Writes and syncs the last hint of a clean close. E moves no more, and stands at `ended`.
    pub(crate) fn close(&mut self, durable: Epoch, blocks: Vec<u64>, ended: Epoch) {
        // The heartbeat may be at its step: it must not write over this.
        self.next_nanos = u64::MAX;
        // What it vouches for is durable without it.
        let _ = self.write(durable, blocks, Some(ended)).and_then(|()| self.file.sync_all());
    }

    fn write(&self, durable: Epoch, closed: Vec<u64>, ended: Option<Epoch>) -> Result<(), DiskError> {
        let Self { database, generation, .. } = *self;
        let hint = Hint { database, generation, durable, closed, ended };
        let text = hint.to_string();
        debug_assert_eq!(Hint::parse(&text), Some(hint));
        // Its numbers only grow, and so does its length: nothing of an older one stands behind it.
        self.file.write_at(text.as_bytes(), 0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
