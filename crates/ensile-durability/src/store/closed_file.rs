//! A closed log file: its name, its epochs and its bytes.
//!
//! Neighbours: `closed_files` has the list of a log, `archive` copies a closed file, and the shipper uploads one.

use ensile_base::Epoch;

use crate::files::names::SegmentFile;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClosedFile {
    pub(crate) file: SegmentFile,
    /// Largest epoch of the entries in this file and in all earlier files of its log.
    pub(crate) largest: Epoch,
    pub(crate) bytes: u64,
}
