//! Second write of the durable bytes that, after a failed sync or a process's death, may be only in the system's cache.
//!
//! Only bytes that are now a whole block of the log are written back, and every byte again after a failed attempt.
//!
//! Neighbours: `install_generation`, `mapped_tail` and `examination` call; `chain` knows the synced offset.

use ensile_disk::{Disk, DiskError, DiskFile};

use super::chain::Chain;
use crate::files::block::scan::Scanner;
use crate::{DurabilityError, Result};

/// Approximate largest number of bytes written together.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes written at once on a full copy-on-write disk, which has room for few. A sync frees the overwritten bytes.
const TIGHT_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtOnce {
    File,
    /// As little as possible, because space is short.
    Little,
}

/// Writes again, and syncs, the blocks that no later block shows to be synced, before an entry of them is served.
pub(super) fn rewrite(disk: &dyn Disk, chain: &Chain, at_once: AtOnce) -> Result<()> {
    for link in chain.links.iter().filter(|link| link.synced_to < link.end) {
        let name = link.file.to_string();
        let file = disk.open(&name)?;
        let mut scanner = Scanner::new(disk.open_to_read(&name)?)?;
        let (mut from, mut bytes) = (link.synced_to, Vec::new());
        while from + (bytes.len() as u64) < link.end {
            let at = from + bytes.len() as u64;
            let block = scanner
                .block(at, link.origin.salt)?
                .ok_or_else(|| DurabilityError::damaged_file(&name, at, "the block reads differently now"))?;
            bytes.extend_from_slice(block);
            if bytes.len() >= WRITE_BYTES {
                write(&*file, &bytes, from, at_once)?;
                from += bytes.len() as u64;
                bytes.clear();
            }
        }
        assert_eq!(from + bytes.len() as u64, link.end, "it is written up to the end of a block");
        write(&*file, &bytes, from, at_once)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Writes `bytes` at offset `from`. With [`AtOnce::Little`], a sync after each piece frees the overwritten bytes.
fn write(file: &dyn DiskFile, bytes: &[u8], from: u64, at_once: AtOnce) -> Result<(), DiskError> {
    if at_once == AtOnce::File {
        return file.write_at(bytes, from);
    }
    for (piece, at) in bytes.chunks(TIGHT_BYTES).zip((from..).step_by(TIGHT_BYTES)) {
        file.write_at(piece, at)?;
        file.sync_data()?;
    }
    Ok(())
}
