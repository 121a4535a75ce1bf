//! Files of a checkpoint that is written whole: m files of every checkpointer (`docs/internals/formats/checkpoint.md`).
//!
//! Neighbours: The manifest lines of fuzzy and cycling checkpoints have these fields beside their epochs.
//! `recovery::load` reads the files, and `checkpoint::orphans` removes them.

use std::fmt;

use ensile_base::Epoch;

use crate::files::block::Salt;
use crate::files::names::{PartName, checkpoint_folder};
use crate::identity::Identity;
use crate::number::{self, CHECKPOINTERS_MAX, FILES_MAX, parse_count};

/// Record of a walk, or of a picture as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalkRecord {
    /// Number of the checkpoint, or of the turn of a range.
    pub(crate) number: u64,
    /// Generation that was open meanwhile.
    pub(crate) generation: u64,
    /// e_l, and S of a picture; `high`: e_h, and e_c of a picture.
    pub(crate) low: Epoch,
    pub(crate) high: Epoch,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) database: Identity,
}

/// Files of a checkpoint that is installed, or about to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartFiles {
    pub(crate) number: u64,
    /// Generation that was open when the files were written.
    pub(crate) generation: u64,
    /// Number of checkpointers; `files`: number of files of each checkpointer.
    pub(crate) checkpointers: u32,
    pub(crate) files: u32,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// Salt of the blocks. A block of another checkpoint has another salt.
    pub(crate) salt: Salt,
    /// Checksum that vouches for every file: `files::checkpoint::end_block::seal`.
    pub(crate) seal: u32,
    /// Database in the files (I1).
    pub(crate) database: Identity,
}

impl PartFiles {
    /// Names of the fields in a line of the manifest, behind number, generation and epochs of the checkpoint.
    pub(super) const NAMES: &str = "checkpointers files entries bytes salt seal";

    pub(super) fn folders(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.checkpointers).map(checkpoint_folder)
    }

    /// Files in the order of the seal.
    pub(crate) fn parts(&self) -> impl Iterator<Item = PartName> + use<> {
        let Self { number: checkpoint, checkpointers, files, .. } = *self;
        (0..checkpointers).flat_map(move |checkpointer| {
            (0..files).map(move |file| PartName { checkpoint, checkpointer, file })
        })
    }

    pub(super) fn is_whole(&self) -> bool {
        self.number > 0 && self.checkpointers > 0 && self.files > 0
    }

    /// Reads number and generation, the values of [`PartFiles::NAMES`], and the database.
    pub(super) fn parse(
        [number, generation]: [&str; 2],
        [checkpointers, files, entries, bytes, salt, seal]: [&str; 6],
        database: &str,
    ) -> Option<Self> {
        Some(Self {
            number: number::parse(number)?,
            generation: number::parse(generation)?,
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

/// Fields behind the epochs in a line of the manifest.
impl fmt::Display for PartFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { checkpointers, files, entries, bytes, salt, seal, database, .. } = self;
        write!(f, "checkpointers {checkpointers} files {files} entries {entries} bytes {bytes} ")?;
        write!(f, "salt {salt} seal {seal:08x} database {database}")
    }
}
