//! Replay: any number of threads take pieces of the log, parse them, and hand the entries to the state (SiloR §5.2).
//!
//! Invariants:
//! - L4, K1: entries above their generation's D, and entries that the checkpoint covers, are counted and not replayed.
//!   Of a key's put and delete, one may be removed and the other still present.
//! - L5: the payload of every block that counts is checked, even if the chain's reader has checked the payload.
//!
//! Neighbours: `replay_state` has the pieces, and calls for threads of the engine and of the objects. An examination, a
//! merge and an archive's reader replay pieces in order.

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::chain::Chain;
use super::load::told_where;
use super::read_ahead::{ReadBuffers, recycle_vec};
use super::report::RecoveryReport;
use crate::files::block::scan::ReadBlocks;
use crate::files::block::{BlockKind, Header, Salt, entries};
use crate::files::log::file_chain::BlockRun;
use crate::files::names::SegmentFile;
use crate::recoverable::{EntryKind, NOT_TAKEN};
use crate::{DurabilityError, Entry, Recoverable, Result};

/// Epochs of a generation, with the limits of replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Smallest epoch that an entry may have.
    pub(super) first: Epoch,
    /// Epoch below which a checkpoint holds the entries.
    pub(super) covered: Epoch,
    /// Epoch above which entries are discarded.
    pub(super) durable: Epoch,
}

/// Neighbouring blocks of one file.
#[derive(Clone, Debug)]
pub(super) struct LogPiece {
    pub(super) file: SegmentFile,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Lower bound of the epochs of the replayed entries.
    pub(super) oldest: Epoch,
    pub(super) newest: Epoch,
    pub(super) kind: EntryKind,
    salt: Salt,
    bounds: Bounds,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) blocks: u64,
    pub(super) entries: u64,
    /// Number of entries above D.
    pub(super) ignored: u64,
    /// Number of entries that the checkpoint covers.
    pub(super) covered: u64,
}

impl Counts {
    pub(super) fn add(&mut self, Self { blocks, entries, ignored, covered }: Self) {
        self.blocks += blocks;
        self.entries += entries;
        self.ignored += ignored;
        self.covered += covered;
    }
}

/// Cuts a chain into pieces. A run without an entry that counts is left out, and its entries are counted in the report.
pub(super) fn cut(chain: &Chain, bounds: Bounds, report: &mut RecoveryReport) -> Vec<LogPiece> {
    let mut pieces = Vec::new();
    for link in &chain.links {
        for &BlockRun { offset, bytes, entries, epoch_min, epoch_max } in &link.runs {
            assert!(epoch_min <= epoch_max && entries > 0, "a run is of blocks with entries");
            if epoch_min > bounds.durable {
                report.ignored_entries += entries;
            } else if epoch_max < bounds.covered {
                report.covered_entries += entries;
            } else {
                let (file, salt, kind) = (link.file, link.origin.salt, link.origin.entries);
                // Entries of smaller epochs are not handed over.
                let (oldest, newest) = (epoch_min.max(bounds.covered), epoch_max);
                pieces.push(LogPiece { file, offset, bytes, oldest, newest, kind, salt, bounds });
            }
        }
    }
    pieces
}

/// Prefetches a piece before its turn.
pub(super) fn ask_for(disk: &dyn Disk, piece: &LogPiece) {
    // Errors are ignored here: the later read reports them.
    if let Ok(file) = disk.open_to_read(&piece.file.to_string()) {
        file.will_need(piece.offset, piece.bytes);
    }
}

pub(super) fn replay(
    disk: &dyn Disk,
    piece: &LogPiece,
    buffers: &mut ReadBuffers,
    target: &dyn Recoverable,
) -> Result<Counts> {
    let file = piece.file.to_string();
    if piece.kind != target.entries() {
        return Err(DurabilityError::Unknown { file, offset: 0, detail: NOT_TAKEN });
    }
    let Bounds { covered, durable, .. } = piece.bounds;
    let (bytes, mut batch) = buffers.read(disk, &file, piece.offset, piece.bytes)?;
    let (mut counts, mut end) = (Counts::default(), 0);
    for block in ReadBlocks::new(bytes, piece.salt) {
        let damaged =
            |at: usize, detail: &str| DurabilityError::damaged_file(&file, piece.offset + at as u64, detail);
        let block = block.map_err(|at| damaged(at, "the block reads differently now"))?;
        let (at, header) = (block.at, &block.header);
        end = at + header.block_bytes();
        if header.kind != BlockKind::Data {
            continue;
        }
        if header.epoch_max < covered {
            counts.covered += u64::from(header.entries);
            continue;
        }
        if header.epoch_min > durable {
            counts.ignored += u64::from(header.entries);
            continue;
        }
        let payload = block.payload().ok_or_else(|| damaged(at, "the block's checksum is wrong"))?;
        counts.blocks += 1;
        let mut entries = recycle_vec(batch);
        parse(piece, header, payload, &mut entries, &mut counts).map_err(|detail| damaged(at, detail))?;
        told_where(target.replay(&entries), &entries, &file, piece.offset + at as u64)?;
        counts.entries += entries.len() as u64;
        batch = recycle_vec(entries);
    }
    assert_eq!(end, bytes.len(), "a piece ends with its last block");
    assert!(counts.entries == 0 || counts.blocks > 0, "entries stand in blocks");
    let batch = recycle_vec(batch);
    buffers.keep(batch);
    Ok(counts)
}

/// Fills `batch` with the block's entries that count, and counts the others. The error is the block's fault.
fn parse<'p>(
    piece: &LogPiece,
    header: &Header,
    payload: &'p [u8],
    batch: &mut Vec<Entry<'p>>,
    counts: &mut Counts,
) -> Result<(), &'static str> {
    let Bounds { first, covered, durable } = piece.bounds;
    assert!(batch.is_empty(), "a batch is of one block");
    entries::try_for_each(payload, header.entries, |tid, body| {
        let epoch = tid.epoch();
        if epoch < header.epoch_min || epoch > header.epoch_max || epoch < first {
            return Err("an entry's epoch is outside its block's");
        }
        if epoch > durable {
            counts.ignored += 1;
        } else if epoch < covered {
            counts.covered += 1;
        } else {
            batch.push(Entry { tid, body });
        }
        Ok(())
    })
}
