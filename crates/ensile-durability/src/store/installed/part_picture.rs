//! A picture in files that were written whole, as the manifest names it (`docs/formats/manifest.md`).
//!
//! ```text
//! picture 7 generation 3 epoch 63 checkpointers 2 files 4 entries 9000 bytes 1234568 salt 5e6f7a8b seal 0a1b2c3d database 5b1e..
//! ```
//! Invariant: N12, N15: it is the state at the end of e_c, and the log of the epochs above that goes with it, for any D
//! >= e_c.
//!
//! Neighbours: [`super`] answers for it where its kind does not matter; a checkpoint's life fills it in.

use std::fmt;

use ensile_base::Epoch;

use super::part_files::PartFiles;
use crate::store::text::{parse_epoch, values};

/// A picture that is, or is about to be, installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartPicture {
    /// e_c: it shows the state at the end of this epoch.
    pub(crate) epoch: Epoch,
    pub(crate) files: PartFiles,
}

impl PartPicture {
    /// S: no entry has this epoch or a larger one.
    pub(super) fn freeze(&self) -> Epoch {
        self.epoch.next()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.epoch > Epoch::ZERO && self.files.is_whole()
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let (line, database) = line.split_once(" database ")?;
        let [a, b, c, d, e, f] = PartFiles::NAMES;
        let names = ["picture", "generation", "epoch", a, b, c, d, e, f];
        let [number, generation, epoch, files @ ..] = values(line, &names)?;
        // Its freeze is an epoch too.
        let epoch = parse_epoch(epoch).filter(|epoch| epoch.next() < Epoch::MAX)?;
        Some(Self { epoch, files: PartFiles::parse([number, generation], files, database)? })
    }
}

impl fmt::Display for PartPicture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, files } = self;
        let PartFiles { number, generation, .. } = files;
        write!(f, "picture {number} generation {generation} epoch {epoch} {files}")
    }
}
