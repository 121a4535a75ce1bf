//! Writing again what was decided to be durable and may be in the system's cache only.
//!
//! After a failed sync, or when only the process died, bytes can be readable and not on the medium. A result is served
//! from them after recovery, so they must be there after the next power loss too.
//!
//! Invariants:
//! - Nothing is written back that is not, right then, a whole block of the log.
//! - What failed can be done once more: everything is written again before it is synced again.
//!
//! Neighbours: called by recovery's finish; `chain` knows up to where later blocks show a sync.

use ensile_disk::{Disk, DiskError, DiskFile};

use super::chain::Chain;
use crate::DurabilityError;
use crate::block::scan::Scanner;

/// Blocks are written together up to about this size.
const WRITE_BYTES: usize = 1 << 20;
/// On a full disk that copies on write this much space does: a sync frees what was overwritten.
const TIGHT_BYTES: usize = 16 << 10;

/// How much is written before a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtOnce {
    /// All of a file.
    File,
    /// As little as possible: space is short.
    Little,
}

/// Writes again, and syncs, what no later block of the chain shows to be on stable storage.
pub(super) fn rewrite(disk: &dyn Disk, chain: &Chain, at_once: AtOnce) -> Result<(), DurabilityError> {
    for link in chain.links.iter().filter(|link| link.synced_to < link.end) {
        let name = link.file.to_string();
        let file = disk.open(&name)?;
        let mut scanner = Scanner::new(disk.open_to_read(&name)?)?;
        let (mut from, mut bytes) = (link.synced_to, Vec::new());
        while from + (bytes.len() as u64) < link.end {
            let at = from + bytes.len() as u64;
            let block = scanner
                .block(at, link.origin.salt)?
                .ok_or_else(|| DurabilityError::damaged(&name, at, "the block reads differently now"))?;
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
