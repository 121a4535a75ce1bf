//! Reads the whole content of a copy before the copy's manifest names the content.
//!
//! Invariants:
//! - N12: the check reads synced bytes, as an open would load them: every block, page and part, and their totals.
//! - N15: no entry has an epoch above the picture's.
//! - N11: a key that stands in a page and beside the page has one TID. So blocks of pending removes come first.
//!
//! Neighbours: [`super::pages`] steps the check; `checkpoint::picture::version_check` compares the pages with the
//! versions beside them; the state takes entries as from a recovery.

use ensile_disk::Disk;

use crate::checkpoint::picture::version_check::BesideKeys;
use crate::files::manifest::installed_checkpoint::PictureCheckpoint;
use crate::files::picture::reader::{PageBuffers, PictureReader, ReadEntries};
use crate::{DurabilityError, Recoverable};

/// Check of a picture: first the blocks beside its pages, then one part of its directory a step.
#[derive(Debug)]
pub(super) struct PictureCheck {
    reader: PictureReader,
    of: PictureCheckpoint,
    /// Index of the next item: blocks beside the pages first, then parts of the directory.
    next: usize,
    beside: BesideKeys,
    /// Number of entries read so far; `bytes` and `pages` count likewise.
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) pages: u64,
}

impl PictureCheck {
    pub(super) fn begin(disk: &dyn Disk, of: &PictureCheckpoint) -> Result<Self, DurabilityError> {
        let reader = PictureReader::open(disk, of)?;
        let bytes = reader.root_bytes();
        let beside = BesideKeys::default();
        Ok(Self { reader, of: of.clone(), next: 0, beside, entries: 0, bytes, pages: 0 })
    }

    /// Reads a part or a block; false once everything was read and the totals match.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`], or the state's refusal of an entry.
    pub(super) fn step(&mut self, target: &dyn Recoverable) -> Result<bool, DurabilityError> {
        let (parts, removes) = (self.reader.root().parts.len(), self.reader.root().removes_block_count());
        let item = self.next;
        assert!(item <= removes + parts, "N12: the check ends with the last part");
        self.next += 1;
        if item < removes {
            let mut buffers = PageBuffers::default();
            let read = self.reader.removes(item, &mut buffers)?;
            show(&read, None, target)?;
            self.beside.add_block(&self.reader, item, &read, target)?;
            self.entries += u64::from(read.entries);
            self.bytes += read.bytes;
            return Ok(true);
        }
        if item < removes + parts {
            let part = item - removes;
            self.beside.turn_to(&self.reader, part, target)?;
            let (mut entries, mut bytes) = (0, self.reader.root().parts[part].place.extent.bytes());
            self.reader.pages_of(part, &mut |read| {
                entries += u64::from(read.entries);
                bytes += read.bytes;
                show(read, Some(&self.beside), target)
            })?;
            self.pages += u64::from(self.reader.root().parts[part].pages);
            (self.entries, self.bytes) = (self.entries + entries, self.bytes + bytes);
            return Ok(true);
        }
        self.reader.check_reached()?;
        let (found, said) = ((self.entries, self.bytes), (self.of.entries, self.of.bytes));
        if found == said {
            return Ok(false);
        }
        let detail = format!("what it holds, {found:?} entries and bytes, is not what was copied, {said:?}");
        Err(DurabilityError::damaged_file("its picture", 0, detail))
    }
}

/// Hands the entries of a page or a block to the state, as a load does. Compares a page with the entries beside the
/// pages.
fn show(
    read: &ReadEntries<'_>,
    beside: Option<&BesideKeys>,
    target: &dyn Recoverable,
) -> Result<(), DurabilityError> {
    let damaged = |detail: &str| DurabilityError::damaged_file(read.file, read.offset, detail);
    for (section, entries) in read.by_section(target).map_err(damaged)? {
        target.load(section, &entries).map_err(|refused| damaged(&refused.detail))?;
        beside.map_or(Ok(()), |beside| beside.compare(section, &entries, target)).map_err(damaged)?;
    }
    Ok(())
}
