//! Search for a later picture than the installed one in a page file: it shows that the manifest may be an older copy.
//!
//! In the installed picture's own file only roots of a later generation count, as failed attempts leave roots too. A
//! recovery discards a root that shows more than the D of the root's generation (L4), and every root of a generation
//! that a listed generation has followed: a manifest of the later generation names the last picture installed before
//! it. The line of the earlier generation may be gone, as generations are merged.
//!
//! Neighbours: a repair searches before the repair gives anything up.

use ensile_base::Epoch;
use ensile_disk::Disk;

use crate::Result;
use crate::checkpoint::orphans::{self, CheckpointFile};
use crate::files::block::Header;
use crate::files::block::extent::UNIT_BYTES;
use crate::files::block::scan::{At, Scanner};
use crate::files::manifest::Manifest;
use crate::files::names::PageFileName;

/// The page file with the latest root of a checkpoint above `known`, for an epoch above `durable`, not discarded.
pub(crate) fn later_than(
    disk: &dyn Disk,
    manifest: &Manifest,
    known: u64,
    durable: Epoch,
) -> Result<Option<PageFileName>> {
    let mut latest = None;
    let newest = manifest.generations.last().map_or(0, |newest| newest.number);
    let is_over = |header: &Header| header.generation < newest;
    let is_discarded = |header: &Header| {
        let mut listed = manifest.generations.iter();
        let own = listed.find(|listed| listed.number == header.generation);
        own.and_then(|own| own.durable).is_some_and(|end| end < header.epoch_max)
    };
    let installed = manifest.checkpoint.as_ref().map_or(0, |installed| *installed.generations().end());
    for file in orphans::search::<PageFileName>(disk, manifest)? {
        let generation_min = if file.is_installed(manifest) { installed + 1 } else { 0 };
        let mut scanner = Scanner::new(disk.open_to_read(&file.to_string())?)?;
        // A file whose opening block does not name the owner holds nothing readable.
        let Ok(opened) = scanner.read_opening()? else { continue };
        for unit in 1..scanner.length().div_ceil(UNIT_BYTES as u64) {
            let found = scanner.header(unit * UNIT_BYTES as u64, opened.origin.salt)?;
            let At::Block(header, _) = found else { continue };
            let is_root = header.kind.is_root() && header.generation >= generation_min;
            let epoch = header.epoch_max;
            if is_root
                && header.checkpoint > known
                && epoch > durable
                && !is_over(&header)
                && !is_discarded(&header)
            {
                latest = latest.max(Some((epoch, file)));
            }
        }
    }
    Ok(latest.map(|(_, file)| file))
}
