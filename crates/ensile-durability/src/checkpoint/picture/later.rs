//! Whether a page file that the manifest does not list has a later picture than the one that is installed: then the
//! manifest may be an older copy.
//!
//! Neighbours: a repair asks before it gives anything up.

use ensile_base::Epoch;
use ensile_disk::Disk;

use crate::DurabilityError;
use crate::block::BlockKind;
use crate::block::extent::UNIT_BYTES;
use crate::block::scan::{At, Scanner};
use crate::checkpoint::leftovers::{self, CheckpointFile};
use crate::store::manifest::Manifest;
use crate::store::names::PageFileName;

/// A page file that the installed checkpoint does not reach, and in which a root of a checkpoint above `known` stands
/// that shows more than the end of `durable`: the one that shows most.
pub(crate) fn later_than(
    disk: &dyn Disk,
    manifest: &Manifest,
    (known, durable): (u64, Epoch),
) -> Result<Option<PageFileName>, DurabilityError> {
    let mut latest = None;
    let files = leftovers::search::<PageFileName>(disk, manifest)?;
    for file in files.into_iter().filter(|file| !file.is_installed(manifest)) {
        let mut scanner = Scanner::new(disk.open_to_read(&file.to_string())?)?;
        // One that does not say whose it is holds nothing that can be read.
        let Ok(opened) = scanner.opening()? else { continue };
        for unit in 1..scanner.length().div_ceil(UNIT_BYTES as u64) {
            let found = scanner.header(unit * UNIT_BYTES as u64, opened.origin.salt)?;
            let At::Block(header, _) = found else { continue };
            let (is_root, epoch) = (header.kind == BlockKind::Root, header.epoch_max);
            if is_root && header.checkpoint > known && epoch > durable {
                latest = latest.max(Some((epoch, file)));
            }
        }
    }
    Ok(latest.map(|(_, file)| file))
}
