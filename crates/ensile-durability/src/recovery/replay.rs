//! Replay: pieces of the log that any number of threads take, parse and hand to the recoverable state (SiloR §5.2).
//!
//! Invariants:
//! - The newest pieces come first: then most older versions find a larger TID in place and cost nothing.
//! - L4: only entries of epochs up to their generation's D are replayed; the rest is counted.
//! - What the chain showed is checked again when it is read here (L5).
//!
//! Neighbours: `recovery` cuts the pieces from the chains and counts; the engine's threads call in.

use std::borrow::Cow;

use ensile_base::Epoch;
use ensile_base::checksum::crc32c;
use ensile_disk::Disk;

use super::Recoverable;
use super::chain::{BlockAt, Chain};
use crate::DurabilityError;
use crate::log::block::{Entries, HEADER_BYTES, Header, Salt};
#[cfg(feature = "experiments")]
use crate::log::compress;
use crate::names::SegmentName;

/// Neighbouring blocks are put together up to this size.
const PIECE_BYTES: u64 = 4 << 20;

/// A run of data blocks in one file.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    segment: SegmentName,
    offset: u64,
    pub(super) bytes: u64,
    salt: Salt,
    /// Epochs that count in this generation.
    first: Epoch,
    durable: Epoch,
}

/// What a piece held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) blocks: u64,
    pub(super) entries: u64,
    pub(super) ignored: u64,
}

/// Cuts a chain into pieces, oldest first; blocks without an entry that counts are left out and their entries added to
/// `ignored`.
pub(super) fn cut(chain: &Chain, first: Epoch, durable: Epoch, ignored: &mut u64) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for &BlockAt { number, offset, bytes, entries, epoch_min } in &chain.blocks {
        if epoch_min > durable {
            *ignored += u64::from(entries);
            continue;
        }
        let (segment, salt) = (chain.segment(number), chain.salt);
        match pieces.last_mut() {
            Some(last)
                if last.segment == segment
                    && last.offset + last.bytes == offset
                    && last.bytes + bytes <= PIECE_BYTES =>
            {
                last.bytes += bytes;
            }
            _ => pieces.push(Piece { segment, offset, bytes, salt, first, durable }),
        }
    }
    pieces
}

/// Reads a piece and replays its entries.
pub(super) fn replay(
    disk: &dyn Disk,
    piece: &Piece,
    target: &dyn Recoverable,
) -> Result<Counts, DurabilityError> {
    let file = piece.segment.to_string();
    let mut bytes = vec![0; piece.bytes as usize];
    let read = disk.open(&file)?.read_at(&mut bytes, piece.offset)?;
    if read < bytes.len() {
        return Err(DurabilityError::damaged(
            &file,
            piece.offset + read as u64,
            "the file ends inside a block",
        ));
    }
    let mut counts = Counts::default();
    let mut at = 0;
    while at < bytes.len() {
        let offset = piece.offset + at as u64;
        let (header, payload) = block_at(&bytes[at..], piece.salt)
            .ok_or_else(|| DurabilityError::damaged(&file, offset, "the block reads differently now"))?;
        at += header.block_bytes();
        counts.blocks += 1;
        let entries = entries_of(&header, payload).ok_or_else(|| {
            DurabilityError::damaged(&file, offset, "the block's entries do not decompress")
        })?;
        for entry in Entries::of(&entries) {
            let damaged = |detail: &str| DurabilityError::damaged(&file, offset, detail);
            let (tid, body) = entry.map_err(|_| damaged("an entry does not fit its block"))?;
            if tid.epoch() < header.epoch_min || tid.epoch() > header.epoch_max || tid.epoch() < piece.first {
                return Err(damaged("an entry's epoch is outside its block's"));
            }
            if tid.epoch() > piece.durable {
                counts.ignored += 1;
                continue;
            }
            counts.entries += 1;
            target.replay(tid, body).map_err(|detail| DurabilityError::Replay {
                file: file.clone(),
                offset,
                tid,
                detail,
            })?;
        }
    }
    Ok(counts)
}

/// The entries of a payload as they were before they were compressed, if they were.
#[cfg(feature = "experiments")]
fn entries_of<'p>(header: &Header, payload: &'p [u8]) -> Option<Cow<'p, [u8]>> {
    if header.compressed {
        compress::decompress(payload).map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(payload))
    }
}

#[cfg(not(feature = "experiments"))]
const fn entries_of<'p>(_header: &Header, payload: &'p [u8]) -> Option<Cow<'p, [u8]>> {
    Some(Cow::Borrowed(payload))
}

/// The block at the beginning of `bytes`, if it is whole.
fn block_at(bytes: &[u8], salt: Salt) -> Option<(Header, &[u8])> {
    let (header, _) = Header::decode(bytes.get(..HEADER_BYTES)?, salt).ok()?;
    let padded = bytes.get(HEADER_BYTES..header.block_bytes())?;
    let payload = &padded[..header.payload_bytes as usize];
    (crc32c(padded) == header.payload_crc).then_some((header, payload))
}
