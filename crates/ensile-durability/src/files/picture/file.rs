//! A page file that this process writes to, and the extents that an attempt at a picture has taken in the file.
//!
//! Invariants: I1: the opening block is synced first. N12: extents that an attempt has taken are free again when the
//! attempt is dropped, and stay taken once the attempt's picture is installed.
//!
//! Neighbours: [`super::extents`] counts units; the writers of a part and of a directory fill extents.
//! `checkpoint::picture` and `backup::target` create and reopen the files.

use std::collections::BTreeSet;
use std::sync::Arc;

use ensile_base::sync::Mutex;
use ensile_disk::{Disk, DiskError, DiskFile};

use super::blocks::encode_opening;
use super::extents::{FreeUnits, Misplaced};
use crate::DurabilityError;
use crate::files::block::extent::{Extent, UNIT_BYTES};
use crate::files::block::origin::Origin;
use crate::files::checkpoint::end_block::GIVEN_AT_ONCE;
use crate::files::create_synced;
use crate::files::manifest::installed_checkpoint::ListedPageFile;
use crate::files::names::{PageFileName, checkpoint_folder};

/// A page file that this process writes to.
#[derive(Debug)]
pub(crate) struct PageFile {
    file: Box<dyn DiskFile>,
    listed: ListedPageFile,
    /// No operation under this lock leaves the value half changed.
    units: Mutex<FreeUnits>,
    /// Written bytes that were not handed to the medium. After a panic under the lock the value means nothing.
    unbegun: Mutex<UnbegunBytes>,
}

/// Run of written bytes that the medium was not asked to write.
#[derive(Debug, Default)]
struct UnbegunBytes {
    bytes: u64,
    /// First byte, and the byte after the last one.
    range: Option<(u64, u64)>,
}

/// Fault of a file that was read whole a moment ago, and is damaged now.
const CHANGED: &str =
    "the file is not the one that was loaded a moment ago: a block of the picture has no room in it";
/// Reason for refusing an extent.
const TOO_LONG: &str = "its page file would be longer than 16 TiB";

impl PageFile {
    /// Makes the file of this name in the checkpointer's folder, with a synced opening block and a synced name.
    pub(crate) fn create(
        disk: &dyn Disk,
        name: PageFileName,
        origin: &Origin,
        generation: u64,
    ) -> Result<Self, DiskError> {
        assert!(u16::try_from(name.folder).is_ok(), "a place names a folder in half a word");
        let file = create_synced(disk, &name.to_string(), &encode_opening(origin, name, generation))?;
        disk.sync_folder(&checkpoint_folder(name.folder))?;
        Ok(Self {
            file,
            listed: ListedPageFile { name, salt: origin.salt },
            units: Mutex::new(FreeUnits::of_new(name.folder as u16)),
            unbegun: Mutex::default(),
        })
    }

    /// Opens the file of an installed picture. The caller has checked the opening block. The picture reaches the
    /// extents `reached` of the file; units between the extents are free. Extents that do not fit into the file are
    /// damage.
    pub(crate) fn reopen(
        disk: &dyn Disk,
        listed: ListedPageFile,
        reached: Vec<Extent>,
    ) -> Result<Self, DurabilityError> {
        let file = disk.open(&listed.name.to_string())?;
        let units = u32::try_from(file.len()?.div_ceil(UNIT_BYTES as u64)).unwrap_or(u32::MAX);
        let units =
            FreeUnits::of_reached(listed.name.folder as u16, units, reached).map_err(|misplaced| {
                let (Misplaced::Overlap(extent) | Misplaced::BehindTheEnd(extent)) = misplaced;
                DurabilityError::damaged_file(&listed.name.to_string(), extent.offset(), CHANGED)
            })?;
        Ok(Self { file, listed, units: Mutex::new(units), unbegun: Mutex::default() })
    }

    /// Takes all free units, and units of the file behind the end of the used units, for a reader with a lease (I3).
    /// The units become free when they are given back.
    pub(crate) fn hold_free(&self) -> Result<Vec<Extent>, DiskError> {
        let units = u32::try_from(self.file.len()?.div_ceil(UNIT_BYTES as u64)).unwrap_or(u32::MAX);
        let mut all = self.units.lock();
        let taken = all.take_all(units);
        assert!(all.free() == 0 && all.end() >= units, "nothing that is there is free");
        Ok(taken)
    }

    pub(crate) fn manifest_entry(&self) -> ListedPageFile {
        self.listed
    }

    /// Writes a block into its extent, and zeros from the block to the extent's end. If a file ended within a unit, the
    /// kernel would write the unit again as the file grows. If a write began or ended within a unit, the kernel would
    /// read the unit first.
    pub(crate) fn write(&self, extent: Extent, block: &mut Vec<u8>) -> Result<(), DiskError> {
        assert_eq!(u32::from(extent.folder), self.listed.name.folder, "an extent of another file");
        assert_eq!(block.len().div_ceil(UNIT_BYTES), extent.units as usize, "a block fills its extent");
        block.resize(extent.bytes() as usize, 0);
        self.file.write_at(block, extent.offset())?;
        let mut unbegun = self.unbegun.lock();
        let (from, to) = (extent.offset(), extent.offset() + extent.bytes());
        let (first, last) = unbegun.range.unwrap_or((from, to));
        unbegun.range = Some((first.min(from), last.max(to)));
        unbegun.bytes += extent.bytes();
        drop(unbegun);
        self.write_behind(GIVEN_AT_ONCE);
        Ok(())
    }

    /// Asks the medium to begin writing the bytes written so far, if there are at least `at_once` of them.
    pub(crate) fn write_behind(&self, at_once: u64) {
        assert!(at_once <= GIVEN_AT_ONCE, "less than is given in any case");
        let due = {
            let mut unbegun = self.unbegun.lock();
            if unbegun.bytes >= at_once { std::mem::take(&mut *unbegun).range } else { None }
        };
        if let Some((from, to)) = due {
            assert!(from < to, "blocks take bytes");
            self.file.write_behind(from, to - from);
        }
    }

    /// The block in this extent, as far as the file reaches.
    pub(crate) fn read(&self, extent: Extent) -> Result<Vec<u8>, DiskError> {
        assert_eq!(u32::from(extent.folder), self.listed.name.folder, "an extent of another file");
        let mut block = vec![0; extent.bytes() as usize];
        let read = self.file.read_at(&mut block, extent.offset())?;
        block.truncate(read);
        Ok(block)
    }

    /// Makes all written blocks survive a crash.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        *self.unbegun.lock() = UnbegunBytes::default();
        self.file.sync_all()?;
        // L9: no picture becomes durable in a removed file.
        self.file.check_named()
    }

    /// Gives back extents that no readable manifest and no attempt reaches.
    pub(crate) fn give_back(&self, extents: impl IntoIterator<Item = Extent>) {
        let mut units = self.units.lock();
        extents.into_iter().for_each(|extent| units.give_back(extent));
    }

    /// Cuts the file behind the last used unit.
    pub(crate) fn cut(&self) -> Result<(), DiskError> {
        let end = u64::from(self.units.lock().end()) * UNIT_BYTES as u64;
        assert!(end >= UNIT_BYTES as u64, "the opening block stays");
        if self.file.len()? > end { self.file.set_len(end) } else { Ok(()) }
    }

    /// Number of units up to the end, and the number of free units among them.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let units = self.units.lock();
        debug_assert!(units.free() < u64::from(units.end()), "the opening block is not free");
        (u64::from(units.end()), units.free())
    }
}

/// Extents of one file that an attempt has taken. The extents are free again when the value is dropped.
#[derive(Debug)]
pub(crate) struct HeldExtents {
    file: Arc<PageFile>,
    extents: Vec<Extent>,
}

impl HeldExtents {
    /// No extents yet.
    pub(crate) fn new(file: &Arc<PageFile>) -> Self {
        Self { file: Arc::clone(file), extents: Vec::new() }
    }

    pub(crate) fn file(&self) -> &PageFile {
        &self.file
    }

    pub(crate) fn take(&mut self, units: u32) -> Result<Extent, String> {
        let extent = self.file.units.lock().take(units).ok_or(TOO_LONG)?;
        self.extents.push(extent);
        Ok(extent)
    }

    pub(crate) fn give_back_last(&mut self) {
        let last = self.extents.pop().expect("something was taken");
        self.file.give_back([last]);
    }

    /// Gives back the extents that are not in `used`, for a copy whose pages were copied again.
    pub(crate) fn keep_only(&mut self, used: &BTreeSet<Extent>) {
        let (kept, unused): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.extents).into_iter().partition(|one| used.contains(one));
        self.extents = kept;
        self.file.give_back(unused);
    }

    /// Keeps the extents in use, because the picture is installed. A later picture drops the extents.
    pub(crate) fn keep(mut self) {
        self.extents.clear();
    }
}

impl Drop for HeldExtents {
    fn drop(&mut self) {
        self.file.give_back(self.extents.drain(..));
    }
}
