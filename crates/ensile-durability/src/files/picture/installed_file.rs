//! A page file of an installed picture, opened to be read: the opening block has named the database (I1).
//!
//! Neighbours: [`super::reader`] reads blocks of the file; `checkpoint::picture::base_picture` opens the file once more
//! to write.

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskFile};

use crate::DurabilityError;
use crate::error::unless_missing;
use crate::files::block::origin::{Opened, PartPlace};
use crate::files::block::scan::Scanner;
use crate::files::block::{BlockKind, NotABlock};
use crate::files::manifest::installed_checkpoint::{ListedPageFile, PictureCheckpoint};
use crate::recoverable::EntryKind;

/// A page file of an installed picture.
#[derive(Debug)]
pub(crate) struct OpenedPageFile {
    pub(crate) listed: ListedPageFile,
    pub(crate) name: String,
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) bytes: u64,
    pub(crate) entries: EntryKind,
}

impl OpenedPageFile {
    /// Opens a page file. The opening block must name this file (I1).
    pub(crate) fn open(
        disk: &dyn Disk,
        of: &PictureCheckpoint,
        listed: ListedPageFile,
    ) -> Result<Self, DurabilityError> {
        let name = listed.name.to_string();
        let damaged = |detail: &str| Err(DurabilityError::damaged_file(&name, 0, detail));
        let Some(file) = unless_missing(disk.open_to_read(&name))? else {
            return damaged("a file of the installed picture is missing");
        };
        let opened = match Scanner::opening_of(disk, &name)? {
            Ok(opened) => opened,
            Err(NotABlock::Unknown | NotABlock::OtherFormat) => {
                return Err(DurabilityError::newer(&name, 0));
            }
            Err(why) => return damaged(why.detail()),
        };
        let Opened { header, origin, place, .. } = opened;
        if header.kind != BlockKind::PagesOpening {
            return damaged("another kind of file's block begins here: not a page file");
        }
        if origin.identity != of.database {
            return Err(DurabilityError::not_ours(&name, origin.identity, of.database));
        }
        let found = (header.owner, header.sequence, origin.salt, place);
        let wanted = (listed.name.folder, listed.name.number, listed.salt, PartPlace::default());
        if found != wanted || header.generation > of.generation {
            return damaged("the file is another page file than MANIFEST lists");
        }
        let bytes = file.len()?;
        assert!(bytes > 0, "I1: its opening block was read");
        Ok(Self { listed, name, file, bytes, entries: origin.entries })
    }

    /// Epoch that is above the epoch of every entry in a block of a picture that shows the end of `epoch`.
    pub(crate) fn epoch_end(&self, epoch: Epoch) -> Epoch {
        self.entries.checkpoint_end(epoch.next(), epoch)
    }
}
