//! Writing again what was decided to be durable and may be in the system's cache only.
//!
//! After a failed sync, or when only the process died, bytes can be readable and not on the medium. A result is served from
//! them after recovery, so they must be there after the next power loss too.
//!
//! Invariant: nothing is written back that is not, right then, a whole block of the log.
//!
//! Neighbours: called by recovery's finish; `chain` knows up to where later blocks show a sync.

use ensile_disk::Disk;

use super::chain::Chain;
use crate::DurabilityError;
use crate::block::scan::Scanner;

/// Blocks are written together up to about this size.
const WRITE_BYTES: usize = 1 << 20;

/// Writes again, and syncs, what no later block of the chain shows to be on stable storage.
pub(super) fn harden(disk: &dyn Disk, chain: &Chain) -> Result<(), DurabilityError> {
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
                file.write_at(&bytes, from)?;
                from += bytes.len() as u64;
                bytes.clear();
            }
        }
        file.write_at(&bytes, from)?;
        file.sync_all()?;
    }
    Ok(())
}
