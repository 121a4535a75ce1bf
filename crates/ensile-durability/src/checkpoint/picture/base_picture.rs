//! Base of the next picture: the installed picture, written by this process or loaded from an earlier process.
//!
//! | the loaded picture | the first picture of the process |
//! |---|---|
//! | of this database, and its pages are marked | writes changed pages and pages of dropped folders to the same files |
//! | of a state that does not mark | writes all pages to the same files, as far as they exist |
//! | of the database that this database was copied from | writes all pages to files of its own (I1) |
//!
//! Invariants: N12: units that the loaded picture reaches are not free. I3: beside a lease, no existing unit is free.
//!
//! Neighbours: [`super::picture_set`] owns the base; [`crate::files::picture::loaded_picture`] comes from recovery.

use std::collections::BTreeSet;
use std::sync::Arc;

use ensile_disk::Disk;

use crate::Result;
use crate::files::block::extent::{Extent, ExtentPlace};
use crate::files::manifest::installed_checkpoint::ListedPageFile;
use crate::files::picture::directory::{DirectoryPart, PageDirectory, TakenRange};
use crate::files::picture::file::PageFile;
use crate::files::picture::installed_file::OpenedPageFile;
use crate::files::picture::loaded_picture::LoadedPicture;
use crate::files::picture::page::PagePlace;
use crate::files::picture::root::RemovesPlace;
use crate::identity::Identity;

/// The facts about a picture that the next picture needs.
#[derive(Debug)]
pub(super) struct KnownPicture {
    pub(super) directory: PageDirectory,
    pub(super) removes: Vec<RemovesPlace>,
    pub(super) root: ExtentPlace,
    pub(super) files: Vec<ListedPageFile>,
    /// True if the next picture may keep the pages.
    pub(super) may_be_kept: bool,
}

/// The installed picture of an earlier process, with the files opened for writing.
#[derive(Debug)]
pub(crate) struct ReopenedPicture {
    pub(super) picture: KnownPicture,
    /// File by checkpointer, if there is a file.
    pub(super) files: Vec<Option<Arc<PageFile>>>,
    /// Extents that an earlier picture may have in these files, for a reader with a lease.
    pub(super) held: Vec<Extent>,
}

impl ReopenedPicture {
    /// Opens the files of the loaded picture in the folders of the checkpointers of database `identity`. `None` if the
    /// picture belongs to another database, of which this database is a copy. `is_leased`: a reader may hold a lease.
    pub(crate) fn open(
        disk: &dyn Disk,
        loaded: LoadedPicture,
        identity: Identity,
        checkpointers: usize,
        is_leased: bool,
    ) -> Result<Option<Self>> {
        if loaded.of.database != identity {
            return Ok(None);
        }
        let (mut files, mut held) = (vec![None; checkpointers], Vec::new());
        for listed in &loaded.of.files {
            let Some(slot) = files.get_mut(listed.name.folder as usize) else { continue };
            OpenedPageFile::open(disk, &loaded.of, *listed)?;
            let reached = loaded.extents_in(listed.name.folder as u16);
            let file = PageFile::reopen(disk, *listed, reached)?;
            if is_leased {
                held.extend(file.hold_free()?);
            }
            *slot = Some(Arc::new(file));
        }
        assert!(is_leased || held.is_empty(), "I3: units are held for readers only");
        assert!(files.iter().any(Option::is_some), "the first checkpointer's folder has the root");
        let LoadedPicture { of, directory, removes, marked_for } = loaded;
        let folders = of.files.iter().map(|listed| listed.name.folder as usize + 1).max().unwrap_or(0);
        // Pages in a folder left out are marked, so the next picture has no page in such a folder.
        let may_be_kept = marked_for.is_some_and(|marked_for| marked_for.min(folders) <= checkpointers);
        let root = of.root;
        let picture = KnownPicture { directory, removes, root, files: of.files, may_be_kept };
        Ok(Some(Self { picture, files, held }))
    }
}

impl KnownPicture {
    /// The directory of the next picture, which has taken these pages. Also returns the dropped pages of this picture.
    pub(super) fn next_directory(&self, taken: Vec<TakenRange>) -> (PageDirectory, Vec<PagePlace>) {
        if self.may_be_kept {
            return self.directory.next(taken);
        }
        let (next, none) = PageDirectory::default().next(taken);
        assert!(none.is_empty(), "the next picture has all pages");
        (next, self.directory.pages().cloned().collect())
    }

    /// Bytes of the root, and of the blocks that the root reaches.
    pub(super) fn bytes(&self) -> u64 {
        let parts = self.directory.parts.iter().map(|part| {
            let place = part.place.as_ref().expect("it was written");
            place.bytes + place.place.extent.bytes()
        });
        assert!(self.removes.is_sorted_by_key(|block| block.number), "as they were numbered");
        let removes = self.removes.iter().map(|block| block.place.extent.bytes());
        parts.chain(removes).sum::<u64>() + self.root.extent.bytes()
    }

    /// Extents of the directory, the root and the pending removes that the next picture does not have.
    pub(super) fn dropped_by(&self, next: &Self) -> Vec<Extent> {
        let place = |part: &DirectoryPart| part.place.as_ref().map(|place| place.place.extent);
        let kept: BTreeSet<Extent> = next.directory.parts.iter().filter_map(place).collect();
        let parts = self.directory.parts.iter().filter_map(place).filter(|extent| !kept.contains(extent));
        let removes = self.removes.iter().map(|block| block.place.extent);
        parts.chain(removes).chain([self.root.extent]).collect()
    }
}
