//! A fuzzy checkpoint, as the manifest names it (`docs/internals/formats/manifest.md`, line `checkpoint`; K1).
//!
//! Neighbours: [`super`] has the operations of every kind. `checkpoint::state_machine` fills in the fields.

use std::fmt;

use ensile_base::Epoch;

use super::part_files::PartFiles;
use crate::files::text::{parse_epoch, values};

/// A fuzzy checkpoint, installed or about to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FuzzyCheckpoint {
    /// e_l: E at the beginning of the walk; `high`: e_h, E at its end.
    pub(crate) low: Epoch,
    pub(crate) high: Epoch,
    pub(crate) files: PartFiles,
}

impl FuzzyCheckpoint {
    pub(super) fn is_whole(&self) -> bool {
        self.low <= self.high && self.files.is_whole()
    }

    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with("checkpoint ")
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let (line, database) = line.split_once(" database ")?;
        let [a, b, c, d, e, f] = PartFiles::NAMES;
        let names = ["checkpoint", "generation", "low", "high", a, b, c, d, e, f];
        let [number, generation, low, high, files @ ..] = values(line, &names)?;
        Some(Self {
            low: parse_epoch(low)?,
            high: parse_epoch(high)?,
            files: PartFiles::parse([number, generation], files, database)?,
        })
    }
}

impl fmt::Display for FuzzyCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, high, files } = self;
        let PartFiles { number, generation, .. } = files;
        write!(f, "checkpoint {number} generation {generation} low {low} high {high} {files}")
    }
}
