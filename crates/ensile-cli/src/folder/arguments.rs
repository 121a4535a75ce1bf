//! Arguments of `ensile verify`. The arguments also decide on the advice in a verdict.
//!
//! Neighbours: [`super::verify`] repairs as the arguments say; `verdict` reads the repair that the user asked for.

use std::path::PathBuf;

use clap::Args;
use ensile::folder::RepairOptions;

/// `ensile verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// Folder of a database, of objects or of an archive
    pub(crate) folder: PathBuf,
    /// Cut damaged data back to the last consistent epoch; a folder `repaired-<n>` keeps a copy of the removed data
    #[arg(long)]
    pub(crate) repair: bool,
    /// Give up the contents of missing log folders; without this option a missing folder counts as a device that is not
    /// mounted
    #[arg(long, requires = "repair")]
    without_missing_folders: bool,
    /// Give up the whole log if no cut of the log helps, and keep the installed picture alone: the state at the end of
    /// the picture's epoch
    #[arg(long, requires = "repair")]
    pub(super) picture_alone: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

impl VerifyArguments {
    /// Data that a repair may give up.
    pub(crate) fn options(&self) -> RepairOptions {
        let Self { without_missing_folders, picture_alone, .. } = *self;
        RepairOptions { without_missing_folders, picture_alone }
    }
}
