//! Owner of the pictures of an open database: page files, the installed picture's directory, the picture under way.
//!
//! ```text
//! begin --> parts are written, each into its folder's file --> close: directory, root, synced --> (manifest)
//!   ^                                                             |                                  |
//!   +--- abandon: the attempt's extents are free at once <--------+--- promote_to_base: next base <--+
//!                                                                      release: dropped extents are free
//! ```
//! A picture keeps the untaken pages of the picture before, also of an earlier process ([`super::base_picture`]).
//!
//! Invariants:
//! - N12: extents of the installed picture are released only once the manifest that drops them is durable, and no
//!   reader holds a lease (I3). Pages are synced before the root is written, the root before the manifest names it.
//! - N13: extents that a failed attempt took are free, and the installed picture is the base of the next attempt.
//! - No disk access is made under the keeper's lock.
//!
//! Neighbours: `manager` calls, one step of a picture after another; [`super::picture_part_writer`] asks for numbers.

use std::sync::Arc;

use ensile_base::random::Random;
use ensile_base::sync::Mutex;
use ensile_disk::{Disk, DiskError};

use super::base_picture::{KnownPicture, ReopenedPicture};
use super::picture_part_writer::PagesWritten;
use crate::checkpoint::pages::WantedPages;
use crate::files::block::Salt;
use crate::files::block::extent::{Extent, ExtentPlace, UNIT_BYTES};
use crate::files::block::origin::Origin;
use crate::files::manifest::installed_checkpoint::ListedPageFile;
use crate::files::names::PageFileName;
use crate::files::picture::block_writer::BlockWriter;
use crate::files::picture::directory::PageDirectory;
use crate::files::picture::file::{HeldExtents, PageFile};
use crate::files::picture::location::{PageBound, PictureStamp};
use crate::files::picture::page::PagePlace;
use crate::files::picture::root::TailPlace;
use crate::identity::Identity;
use crate::number;
use crate::recoverable::EntryKind;
use crate::{DurabilityError, Result};

#[derive(Clone, Copy, Debug)]
pub(crate) struct PagesOrigin {
    pub(crate) identity: Identity,
    pub(crate) entries: EntryKind,
    pub(crate) generation: u64,
}

#[derive(Debug)]
struct UnfinishedPicture {
    stamp: PictureStamp,
    written: PagesWritten,
    /// Number of blocks of pending removes and of tails so far.
    removes: u64,
    closed: Option<ClosedUnderWay>,
}

/// The picture under way, once its root is written.
#[derive(Debug)]
struct ClosedUnderWay {
    picture: KnownPicture,
    /// Extents of the picture before that this picture does not have.
    dropped: Vec<Extent>,
}

/// Figures of a whole and synced picture, for the manifest and a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClosedPicture {
    /// Number of entries in everything that the root reaches.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) pages: u64,
    /// Number of pages that this attempt wrote, and bytes of all extents that this attempt wrote.
    pub(crate) pages_written: u64,
    pub(crate) bytes_written: u64,
    pub(crate) next_page: u64,
    pub(crate) root: ExtentPlace,
    pub(crate) files: Vec<ListedPageFile>,
}

#[derive(Debug)]
struct KeptPictures {
    /// Number of the next page file: larger than the number of every page file.
    next_file: u64,
    /// Number of the next page: larger than the number of every page.
    next_page: u64,
    /// Page file by checkpointer, if made: a file of the installed picture, or a file for the picture under way.
    files: Vec<Option<Arc<PageFile>>>,
    /// The installed picture, if its files are this database's, and not those of a copied database.
    base: Option<Arc<KnownPicture>>,
    under_way: Option<UnfinishedPicture>,
    /// Extents that no manifest reaches any more, but perhaps a reader with a lease.
    unreached: Vec<Extent>,
}

#[derive(Debug)]
pub(crate) struct PictureKeeper {
    origin: PagesOrigin,
    /// Number of the first page file of this process.
    first_file: u64,
    /// No operation under this lock leaves the value half changed.
    kept: Mutex<KeptPictures>,
}

const NO_NUMBER: &str = "no number is left for another page file";

impl PictureKeeper {
    /// Creates the keeper of a database. `there` lists the page files in the checkpointers' folders. `next_page` is
    /// above the number of every page. `installed` is the base of the next picture, if given.
    pub(crate) fn new(
        origin: PagesOrigin,
        checkpointers: usize,
        there: &[PageFileName],
        next_page: u64,
        installed: Option<ReopenedPicture>,
    ) -> Result<Self> {
        let last = there.iter().max_by_key(|file| file.number);
        let next_file = number::next(last.map_or(0, |last| last.number)).ok_or_else(|| {
            let file = last.map_or(String::new(), PageFileName::to_string);
            DurabilityError::damaged_file(&file, 0, NO_NUMBER)
        })?;
        assert!(checkpointers > 0, "somebody writes");
        let none = || (None, vec![None; checkpointers], Vec::new());
        let (base, files, unreached) = installed
            .map_or_else(none, |ReopenedPicture { picture, files, held }| {
                (Some(Arc::new(picture)), files, held)
            });
        assert_eq!(files.len(), checkpointers, "each checkpointer has a folder");
        let kept = KeptPictures { next_file, next_page, files, base, under_way: None, unreached };
        Ok(Self { origin, first_file: next_file, kept: Mutex::new(kept) })
    }

    /// True if this process made the file.
    pub(crate) fn is_own(&self, file: PageFileName) -> bool {
        file.number >= self.first_file
    }

    pub(crate) fn pages_to_write(&self) -> WantedPages {
        let kept = self.kept.lock();
        let is_kept = kept.base.as_ref().is_some_and(|base| base.may_be_kept);
        if is_kept { WantedPages::Changed } else { WantedPages::All }
    }

    /// Begins this picture: parts may be written from now on.
    pub(crate) fn begin(&self, stamp: PictureStamp) {
        let mut kept = self.kept.lock();
        let (written, removes, closed) = (PagesWritten::default(), 0, None);
        assert!(stamp.checkpoint > 0 && stamp.generation == self.origin.generation);
        let before = kept.under_way.replace(UnfinishedPicture { stamp, written, removes, closed });
        assert!(before.is_none(), "N13: the attempt before was abandoned or installed");
    }

    /// The stamp of the picture under way, and the page file of this checkpointer, made if there is none yet.
    pub(crate) fn open_page_file(
        &self,
        disk: &dyn Disk,
        checkpointer: usize,
    ) -> Result<(PictureStamp, Arc<PageFile>), String> {
        let (stamp, number) = {
            let mut kept = self.kept.lock();
            let stamp = kept.under_way.as_ref().expect("it was begun").stamp;
            if let Some(file) = &kept.files[checkpointer] {
                return Ok((stamp, Arc::clone(file)));
            }
            let number = kept.next_file;
            // A file that fails to be made leaves the number used.
            kept.next_file = number::next(number).ok_or(NO_NUMBER)?;
            (stamp, number)
        };
        let PagesOrigin { identity, entries, generation } = self.origin;
        let origin = Origin { identity, salt: Salt::draw(&mut Random::unpredictable()), entries };
        let name = PageFileName { folder: checkpointer as u32, number };
        let file = PageFile::create(disk, name, &origin, generation).map_err(|error| error.to_string())?;
        let file = Arc::new(file);
        let before = self.kept.lock().files[checkpointer].replace(Arc::clone(&file));
        assert!(before.is_none(), "a checkpointer makes its own file");
        Ok((stamp, file))
    }

    /// The number of the page with this range: as in the picture before, or a number that no page ever had.
    pub(crate) fn number_of(&self, from: &PageBound, to: Option<&[u8]>) -> u64 {
        let mut kept = self.kept.lock();
        debug_assert!(kept.under_way.as_ref().is_some_and(|picture| picture.closed.is_none()));
        let same = kept.base.as_ref().and_then(|base| base.directory.number_of(from, to));
        same.unwrap_or_else(|| {
            kept.next_page += 1;
            kept.next_page - 1
        })
    }

    /// The number of the next block of pending removes, or of the next tail.
    pub(crate) fn next_removes(&self) -> u64 {
        let mut kept = self.kept.lock();
        let under_way = kept.under_way.as_mut().expect("it was begun");
        assert!(under_way.closed.is_none(), "N12: its root lists every block");
        under_way.removes += 1;
        under_way.removes - 1
    }

    /// Adds the part that a checkpointer has written and synced.
    pub(crate) fn part_written(&self, part: PagesWritten) {
        let mut kept = self.kept.lock();
        assert_eq!(part.entries > 0, part.bytes > 0, "entries stand in blocks");
        let all = &mut kept.under_way.as_mut().expect("it was begun").written;
        all.taken.extend(part.taken);
        all.removes.extend(part.removes);
        all.tails.extend(part.tails);
        all.entries += part.entries;
        all.displaced += part.displaced;
        all.tail_bytes += part.tail_bytes;
        all.bytes += part.bytes;
        all.held.extend(part.held);
    }

    /// Writes and syncs the directory and the root behind the parts. After an error, the caller abandons the attempt.
    pub(crate) fn close(&self) -> Result<ClosedPicture, String> {
        let (mut under_way, base, files, next_page) = {
            let mut kept = self.kept.lock();
            let files: Option<Vec<Arc<PageFile>>> = kept.files.iter().cloned().collect();
            let files = files.expect("each checkpointer has begun its part");
            let under_way = kept.under_way.take().expect("it was begun");
            (under_way, kept.base.clone(), files, kept.next_page)
        };
        assert!(under_way.closed.is_none(), "a picture is closed once");
        let written = &mut under_way.written;
        written.removes.sort_unstable_by_key(|block| block.number);
        written.tails.sort_unstable_by_key(TailPlace::in_unit);
        let taken = std::mem::take(&mut written.taken);
        let pages_written = taken.len() as u64;
        let (mut directory, mut gone) = match &base {
            Some(base) => base.next_directory(taken),
            None => PageDirectory::default().next(taken),
        };
        assert!(!files.is_empty(), "a picture has a folder for its root");
        // N12: the manifest names the file of every page.
        if let Some(page) = directory.pages().find(|page| page.is_in_folder_from(files.len())) {
            let number = page.number;
            return Err(format!(
                "page {number} stands in a folder that is not used any more, and the state did not write it anew, \
                 though it keeps marks and was told to move it: open the database with as many checkpoint folders as \
                 before"
            ));
        }
        for writer in move_pages(&mut directory, &mut gone, &files, under_way.stamp, written.bytes)? {
            written.bytes += writer.bytes();
            written.held.push(writer.into_held());
        }
        let mut writer = BlockWriter::new(&files[0], under_way.stamp);
        let removes = std::mem::take(&mut written.removes);
        // N10: the tails belong to this picture alone. No later picture names the tails, so their places are dropped.
        let tails = std::mem::take(&mut written.tails);
        let root = writer.write_directory(&mut directory, removes.clone(), tails)?;
        writer.sync()?;
        let bytes_written = written.bytes + writer.bytes();
        written.held.push(writer.into_held());
        let listed: Vec<ListedPageFile> = files.iter().map(|file| file.manifest_entry()).collect();
        let picture = KnownPicture { directory, removes, root, files: listed.clone(), may_be_kept: true };
        let dropped = base.map_or_else(Vec::new, |base| {
            let pages = gone.iter().flat_map(|page| page.extents.iter().map(|place| place.extent));
            pages.chain(base.dropped_by(&picture)).collect()
        });
        let closed = ClosedPicture {
            entries: picture.directory.pages().map(|page| u64::from(page.entries)).sum::<u64>()
                + written.displaced,
            bytes: picture.bytes(),
            pages: picture.directory.pages().count() as u64,
            pages_written,
            bytes_written,
            next_page,
            root,
            files: listed,
        };
        under_way.closed = Some(ClosedUnderWay { picture, dropped });
        self.kept.lock().under_way = Some(under_way);
        Ok(closed)
    }

    /// Makes the picture the base of the next picture. The manifest that names the picture is durable.
    pub(crate) fn promote_to_base(&self) {
        let mut kept = self.kept.lock();
        assert!(kept.files.iter().all(Option::is_some), "the manifest names a file of each checkpointer");
        let UnfinishedPicture { written, closed, .. } = kept.under_way.take().expect("it was closed");
        let ClosedUnderWay { picture, dropped } = closed.expect("N12: its root is written");
        written.held.into_iter().for_each(HeldExtents::keep);
        kept.base = Some(Arc::new(picture));
        kept.unreached.extend(dropped);
    }

    /// Frees the extents of a failed attempt, and gives up files that the installed picture does not have.
    pub(crate) fn abandon(&self) -> Result<(), DiskError> {
        let files = {
            let mut kept = self.kept.lock();
            kept.under_way = None;
            let KeptPictures { base, files, .. } = &mut *kept;
            let is_installed = |file: &Arc<PageFile>| {
                base.as_ref().is_some_and(|base| base.files.contains(&file.manifest_entry()))
            };
            files.iter_mut().for_each(|slot| *slot = slot.take().filter(is_installed));
            assert!(base.is_some() || files.iter().all(Option::is_none), "N13: nothing is gone on with");
            kept.files.clone()
        };
        cut(&files)
    }

    /// Frees the extents that no installed picture reaches, without a lease. After an error, a file stays longer.
    pub(crate) fn release(&self) -> Result<(), DiskError> {
        let files = {
            let mut kept = self.kept.lock();
            assert!(kept.unreached.is_empty() || kept.base.is_some(), "N12: an installed picture dropped it");
            for extent in std::mem::take(&mut kept.unreached) {
                // The settings leave the folder out: the folder's file is removed as a whole.
                let Some(file) = kept.files.get(usize::from(extent.folder)) else { continue };
                file.as_ref().expect("a picture stands in it").give_back([extent]);
            }
            kept.files.clone()
        };
        cut(&files)
    }

    /// Bytes of all page files that this process writes to, up to the last used units, and the free bytes among them.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let files = self.kept.lock().files.clone();
        let figures = files.iter().flatten().map(|file| file.figures());
        let (units, free) = figures.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        debug_assert!(free <= units, "what is free is a part of the files");
        (units * UNIT_BYTES as u64, free * UNIT_BYTES as u64)
    }
}

/// Moves pages from the last units of a file nearer to the file's beginning, and syncs them, if more than a third of
/// the file is free: about `written_bytes` bytes of kept pages. `gone` gets the places before.
fn move_pages(
    directory: &mut PageDirectory,
    gone: &mut Vec<PagePlace>,
    files: &[Arc<PageFile>],
    stamp: PictureStamp,
    written_bytes: u64,
) -> Result<Vec<BlockWriter>, String> {
    let is_sparse = |file: &&Arc<PageFile>| {
        let (units, free) = file.figures();
        3 * free > units
    };
    let mut writers = Vec::new();
    for file in files.iter().filter(is_sparse) {
        let mut writer = BlockWriter::new(file, stamp);
        let folder = file.manifest_entry().name.folder;
        let mut kept: Vec<(u32, usize, usize)> = Vec::new();
        for (part, pages) in directory.parts.iter().map(|part| &part.pages).enumerate() {
            for (at, page) in pages.iter().enumerate().filter(|(_, page)| page.checkpoint < stamp.checkpoint)
            {
                let first = page.extents.first().map(|place| place.extent);
                kept.extend(
                    first.filter(|one| u32::from(one.folder) == folder).map(|one| (one.first, part, at)),
                );
            }
        }
        kept.sort_unstable_by(|a, b| b.cmp(a));
        for (_, part, at) in kept {
            if writer.bytes() * files.len() as u64 >= written_bytes {
                break;
            }
            let part = &mut directory.parts[part];
            let Some(moved) = writer.move_page(&part.pages[at])? else { break };
            gone.push(std::mem::replace(&mut part.pages[at], moved));
            part.place = None;
        }
        if writer.bytes() > 0 {
            writer.sync()?;
            writers.push(writer);
        }
    }
    Ok(writers)
}

fn cut(files: &[Option<Arc<PageFile>>]) -> Result<(), DiskError> {
    files.iter().flatten().try_for_each(|file| file.cut())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
