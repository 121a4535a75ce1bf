//! The picture loaded by a recovery, with every extent read and checked (N12, N17), as the base of the next picture.
//!
//! Neighbours: [`super::reader`] fills the picture. A recovery hands the picture to the checkpoints. The checkpoints
//! open the picture's files to write ([`crate::checkpoint::picture::base_picture`]).

use super::directory::PageDirectory;
use super::root::RemovesPlace;
use crate::files::block::extent::{Extent, ExtentPlace};
use crate::files::manifest::installed_checkpoint::PictureCheckpoint;

#[derive(Debug)]
pub(crate) struct LoadedPicture {
    /// The checkpoint as the manifest lists it.
    pub(crate) of: PictureCheckpoint,
    pub(crate) directory: PageDirectory,
    pub(crate) removes: Vec<RemovesPlace>,
    /// Number of kept folders, if the state marks pages from the load on; `None` without marks. The state marks pages
    /// that change, and pages in folders that this number leaves out.
    pub(crate) marked_for: Option<usize>,
}

impl LoadedPicture {
    /// Extents of the picture's file in this folder.
    pub(crate) fn extents_in(&self, folder: u16) -> Vec<Extent> {
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
