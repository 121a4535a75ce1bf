//! A closed log file looked at before it is shipped: is it whole, and where do its marks stand?
//!
//! Invariant: H1: what is shipped is the whole chain of the file's blocks, payloads included, as the archive demands
//! too.
//!
//! Neighbours: the shipper asks; `block::scan` reads.

use ensile_base::Epoch;
use ensile_disk::DiskFile;

use crate::DurabilityError;
use crate::block::origin::{OPENING_BYTES, Opened};
use crate::block::scan::{At, ChainPlace, Scanner};
use crate::block::{BlockKind, Salt};
use crate::store::closed_files::ClosedFile;
use crate::store::names::SegmentName;

/// Marks of a file, each with the offset behind its block; only such as are larger than the one before.
pub(crate) type Marks = Vec<(Epoch, u64)>;

/// What a closed file holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LookedFile {
    pub(crate) salt: Salt,
    /// The largest epoch of entries in the files of its log before it.
    pub(crate) before: Epoch,
    /// The opening block's first.
    pub(crate) marks: Marks,
}

/// Reads the file.
///
/// # Errors
/// [`DurabilityError::Damaged`] if its blocks do not follow each other to its end; the disk's.
pub(crate) fn look(file: Box<dyn DiskFile>, closed: &ClosedFile) -> Result<LookedFile, DurabilityError> {
    let name = closed.file.to_string();
    let damaged =
        |at: u64, why: &str| Err(DurabilityError::damaged(&name, at, format!("{why}, so it is not shipped")));
    let SegmentName { generation, logger, .. } = closed.file.name;
    let mut scanner = Scanner::sequential(file)?;
    let Ok(Opened { header, crc, origin, .. }) = scanner.opening()? else {
        return damaged(0, "its opening block cannot be read");
    };
    if (header.generation, header.owner) != (generation, logger) {
        return damaged(0, "it is of another log");
    }
    let mut marks = vec![(header.mark, OPENING_BYTES as u64)];
    let before = header.epoch_max;
    let (mut end, mut place) = (OPENING_BYTES as u64, ChainPlace::behind(&header, crc));
    while end < closed.bytes {
        let (header, crc) = match scanner.at(end, origin.salt)? {
            At::Block(header, crc) if place.is_of(&header) => (header, crc),
            _ => return damaged(end, "what stands here is not the next block of its log"),
        };
        end += header.block_bytes() as u64;
        place = ChainPlace::behind(&header, crc);
        let last = marks.last().map_or(Epoch::ZERO, |(mark, _)| *mark);
        if header.kind == BlockKind::Mark && header.mark > last {
            marks.push((header.mark, end));
        }
    }
    if end == closed.bytes {
        Ok(LookedFile { salt: origin.salt, before, marks })
    } else {
        damaged(end, "it ends within a block")
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
