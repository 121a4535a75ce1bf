//! Whose a file is that nothing names any more, before it is removed (I1).
//!
//! Neighbours: recovery asks before it removes what a crash left, checkpoints before they remove what an install made void;
//! the opening block answers.

use ensile_disk::Disk;

use super::manifest::Manifest;
use crate::DurabilityError;
use crate::block::origin::OPENING_BYTES;
use crate::block::scan::Scanner;
use crate::block::{NEWER, NotABlock};

/// Does a file that nothing names any more prove to be this database's (I1)? So does one that ended before its opening block was
/// whole, as that is synced before anything is written behind it.
///
/// # Errors
/// [`DurabilityError::NotOurs`], [`DurabilityError::Unknown`].
pub(crate) fn proves_ours(disk: &dyn Disk, manifest: &Manifest, name: &str) -> Result<bool, DurabilityError> {
    let opening = Scanner::of_first_block(disk.open_to_read(name)?)?.opening()?;
    match opening {
        Ok(opened) => manifest.check_ours(name, opened.origin.identity).map(|()| true),
        Err(NotABlock::Unknown | NotABlock::OtherFormat) => {
            Err(DurabilityError::Unknown { file: name.to_owned(), offset: 0, detail: NEWER })
        }
        Err(_) => Ok(Scanner::new(disk.open_to_read(name)?)?.used_to(0)? <= OPENING_BYTES as u64),
    }
}
