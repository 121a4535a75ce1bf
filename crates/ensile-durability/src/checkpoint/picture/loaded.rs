//! The picture that a recovery has loaded, as far as the next one goes on from it.
//!
//! Invariants:
//! - All that its root reaches was read, and goes together: no two extents share a unit (N12), and pages tile their
//!   sections (N17).
//!
//! Neighbours: [`super::read`] fills it; a recovery hands it to the checkpoints, which open its files to write
//! ([`super::base`]).

use super::directory::PageDirectory;
use super::root::RemovesPlace;
use crate::block::extent::{Extent, ExtentPlace};
use crate::store::installed::PictureCheckpoint;

/// A picture that was loaded.
#[derive(Debug)]
pub(crate) struct LoadedPicture {
    /// As the manifest has it.
    pub(super) of: PictureCheckpoint,
    pub(super) directory: PageDirectory,
    pub(super) removes: Vec<RemovesPlace>,
    /// The state knows its pages, and marks those that change from the load on, and those in folders that are
    /// left out where this many are kept.
    pub(super) marked_for: Option<usize>,
}

impl LoadedPicture {
    /// All extents of its file in this folder.
    pub(super) fn extents_in(&self, folder: u16) -> Vec<Extent> {
        assert!(self.of.file_in(folder).is_some(), "it has a file in folder {folder}");
        let pages = self.directory.pages().flat_map(|page| &*page.extents);
        let parts = self.directory.parts.iter().filter_map(|part| part.place.as_ref());
        let parts = parts.map(|part| &part.place);
        let removes = self.removes.iter().map(|block| &block.place);
        let all = pages.chain(parts).chain(removes).chain([&self.of.root]);
        let extents = all.map(|ExtentPlace { extent, .. }| *extent);
        extents.filter(|extent| extent.folder == folder).collect()
    }
}
