//! Check of a closed log file before the shipment: the file must be whole. The check finds the places of the marks.
//!
//! Invariant: H1: the shipped file is the whole chain of the file's blocks, payloads included, as the archive demands
//! too.
//!
//! Neighbours: the shipper asks; `block::scan` reads.

use ensile_base::Epoch;
use ensile_disk::DiskFile;

use crate::DurabilityError;
use crate::files::block::origin::{OPENING_BYTES, Opened};
use crate::files::block::scan::{At, ChainPlace, Scanner};
use crate::files::block::{BlockKind, Salt};
use crate::files::names::SegmentName;
use crate::store::closed_files::ClosedFile;

/// Marks of a file, each with the offset in bytes at which its block ends. Every mark is larger than the mark before.
pub(crate) type Marks = Vec<(Epoch, u64)>;

/// Contents of a closed file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LookedFile {
    pub(crate) salt: Salt,
    /// Largest epoch of entries in the earlier files of the same log.
    pub(crate) before: Epoch,
    /// Marks, with the opening block's mark first.
    pub(crate) marks: Marks,
}

/// Reads a closed log file to its end, before the upload of the file begins.
///
/// # Errors
/// [`DurabilityError::Damaged`] if the blocks do not follow each other to the end of the file; errors of the disk.
pub(crate) fn look(file: Box<dyn DiskFile>, closed: &ClosedFile) -> Result<LookedFile, DurabilityError> {
    let name = closed.file.to_string();
    let damaged = |at: u64, why: &str| {
        Err(DurabilityError::damaged_file(&name, at, format!("{why}, so it is not shipped")))
    };
    let SegmentName { generation, logger, .. } = closed.file.name;
    let mut scanner = Scanner::sequential(file)?;
    let Ok(Opened { header, crc, origin, .. }) = scanner.read_opening()? else {
        return damaged(0, "its opening block cannot be read");
    };
    if (header.generation, header.owner) != (generation, logger) {
        return damaged(0, "it is of another log");
    }
    let mut marks = vec![(header.mark, OPENING_BYTES as u64)];
    let before = header.epoch_max;
    let (mut end, mut place) = (OPENING_BYTES as u64, ChainPlace::after_block(&header, crc));
    while end < closed.bytes {
        let (header, crc) = match scanner.block_at(end, origin.salt)? {
            At::Block(header, crc) if place.matches_header(&header) => (header, crc),
            _ => return damaged(end, "what stands here is not the next block of its log"),
        };
        end += header.block_bytes() as u64;
        place = ChainPlace::after_block(&header, crc);
        let last = marks.last().map_or(Epoch::ZERO, |(mark, _)| *mark);
        if header.kind == BlockKind::Mark && header.mark > last {
            marks.push((header.mark, end));
        }
    }
    debug_assert!(
        marks.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1),
        "N20: each mark is larger than the mark before: {marks:?}"
    );
    if end == closed.bytes {
        Ok(LookedFile { salt: origin.salt, before, marks })
    } else {
        damaged(end, "it ends within a block")
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
