//! A fuzzy checkpoint, as the manifest names it (`docs/internals/formats/manifest.md`, line `checkpoint`; K1).
//!
//! Neighbours: [`super`] has the operations of every kind. `checkpoint::state_machine` fills in the fields.

use std::fmt;

use ensile_base::Epoch;

use super::part_files::{PartFiles, WalkRecord};
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

    pub(super) fn record(&self) -> WalkRecord {
        let Self { low, high, files } = self;
        let PartFiles { number, generation, entries, bytes, database, .. } = *files;
        WalkRecord { number, generation, low: *low, high: *high, entries, bytes, database }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let (line, database) = line.split_once(" database ")?;
        let names = format!("checkpoint generation low high {}", PartFiles::NAMES);
        let [number, generation, low, high, files @ ..]: [&str; 10] = values(line, &names)?;
        let (low, high) = (parse_epoch(low)?, parse_epoch(high)?);
        Some(Self { low, high, files: PartFiles::parse([number, generation], files, database)? })
    }
}

impl fmt::Display for FuzzyCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, high, files } = self;
        let PartFiles { number, generation, .. } = files;
        write!(f, "checkpoint {number} generation {generation} low {low} high {high} {files}")
    }
}
