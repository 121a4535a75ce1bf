//! Whether a page file has a later picture than the one that is installed: then the manifest may be an older copy.
//!
//! The file may be the installed picture's own: what that does not reach is left there until it is written over. In
//! such a file only roots of a later life say something, as attempts that failed leave roots too. A root that shows
//! more than the D that a recovery has decided for its generation is discarded with it (L4). So is every root of a life
//! that a listed one has followed: a manifest of that later life names the last picture that was installed before it.
//! The line of the earlier life itself may be gone, as generations are merged.
//!
//! Neighbours: a repair asks before it gives anything up.

use ensile_base::Epoch;
use ensile_disk::Disk;

use crate::DurabilityError;
use crate::block::Header;
use crate::block::extent::UNIT_BYTES;
use crate::block::scan::{At, Scanner};
use crate::checkpoint::leftovers::{self, CheckpointFile};
use crate::store::manifest::Manifest;
use crate::store::names::PageFileName;

/// A page file in which a root of a checkpoint above `known` stands that shows more than the end of `durable`, and that
/// no recovery has discarded: the one that shows most.
pub(crate) fn later_than(
    disk: &dyn Disk,
    manifest: &Manifest,
    (known, durable): (u64, Epoch),
) -> Result<Option<PageFileName>, DurabilityError> {
    let mut latest = None;
    let newest = manifest.generations.last().map_or(0, |newest| newest.number);
    let is_over = |header: &Header| header.generation < newest;
    let is_discarded = |header: &Header| {
        let mut listed = manifest.generations.iter();
        let own = listed.find(|listed| listed.number == header.generation);
        own.and_then(|own| own.durable).is_some_and(|end| end < header.epoch_max)
    };
    let installed = manifest.checkpoint.as_ref().map_or(0, |installed| *installed.generations().end());
    for file in leftovers::search::<PageFileName>(disk, manifest)? {
        let generation_min = if file.is_installed(manifest) { installed + 1 } else { 0 };
        let mut scanner = Scanner::new(disk.open_to_read(&file.to_string())?)?;
        // One that does not say whose it is holds nothing that can be read.
        let Ok(opened) = scanner.opening()? else { continue };
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
