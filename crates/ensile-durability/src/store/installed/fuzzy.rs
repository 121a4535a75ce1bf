//! A fuzzy checkpoint, as the manifest names it (`docs/formats/manifest.md`): m files of each of its checkpointers.
//!
//! ```text
//! checkpoint 7 generation 3 low 62 high 64 checkpointers 2 files 4 entries 9000 bytes 1234568 salt 5e6f7a8b seal 0a1b2c3d database 5b1e..
//! ```
//! Invariant: K1: it and the log from e_l on give the state at any D >= e_h.
//!
//! Neighbours: [`super`] answers for it where its kind does not matter; `checkpoint` fills it in, and reads its files.

use std::fmt;

use ensile_base::Epoch;

use crate::block::Salt;
use crate::identity::Identity;
use crate::number::{self, CHECKPOINTERS_MAX, FILES_MAX, parse_count};
use crate::store::names::{PartName, checkpoint_folder};
use crate::store::text::{parse_epoch, values};

/// A fuzzy checkpoint that is, or is about to be, installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FuzzyCheckpoint {
    pub(crate) number: u64,
    /// The generation that was open when it was written.
    pub(crate) generation: u64,
    /// e_l and e_h.
    pub(crate) low: Epoch,
    pub(crate) high: Epoch,
    /// How many checkpointers wrote it, into how many files each.
    pub(crate) checkpointers: u32,
    pub(crate) files: u32,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// Of its blocks: a block of another checkpoint has another one.
    pub(crate) salt: Salt,
    /// Vouches for all its files: `checkpoint::fuzzy::end::seal`.
    pub(crate) seal: u32,
    /// What its files say whose they are (I1).
    pub(crate) database: Identity,
}

impl FuzzyCheckpoint {
    /// The folders of its checkpointers.
    pub(super) fn folders(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.checkpointers).map(checkpoint_folder)
    }

    /// Its files, in the order that the seal is over.
    pub(crate) fn parts(&self) -> impl Iterator<Item = PartName> + use<> {
        let Self { number: checkpoint, checkpointers, files, .. } = *self;
        (0..checkpointers).flat_map(move |checkpointer| {
            (0..files).map(move |file| PartName { checkpoint, checkpointer, file })
        })
    }

    pub(super) fn is_whole(&self) -> bool {
        self.number > 0 && self.low <= self.high && self.checkpointers > 0 && self.files > 0
    }

    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with("checkpoint ")
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let (line, database) = line.split_once(" database ")?;
        let [number, generation, low, high, checkpointers, files, entries, bytes, salt, seal] = values(
            line,
            &[
                "checkpoint",
                "generation",
                "low",
                "high",
                "checkpointers",
                "files",
                "entries",
                "bytes",
                "salt",
                "seal",
            ],
        )?;
        Some(Self {
            number: number::parse(number)?,
            generation: number::parse(generation)?,
            low: parse_epoch(low)?,
            high: parse_epoch(high)?,
            checkpointers: parse_count(checkpointers, CHECKPOINTERS_MAX)?,
            files: parse_count(files, FILES_MAX)?,
            entries: entries.parse().ok()?,
            bytes: bytes.parse().ok()?,
            salt: Salt::parse(salt)?,
            seal: u32::from_str_radix(seal, 16).ok()?,
            database: Identity::parse(database)?,
        })
    }
}

impl fmt::Display for FuzzyCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, generation, low, high, checkpointers, files, .. } = self;
        let Self { entries, bytes, salt, seal, database, .. } = self;
        write!(f, "checkpoint {number} generation {generation} low {low} high {high} ")?;
        write!(f, "checkpointers {checkpointers} files {files} entries {entries} bytes {bytes} ")?;
        write!(f, "salt {salt} seal {seal:08x} database {database}")
    }
}
