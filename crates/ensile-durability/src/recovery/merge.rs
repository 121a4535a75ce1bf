//! Merge of closed generations into one generation at an open, so that many short lives leave few files
//! (`docs/internals/protocols/durability.md`).
//!
//! ```text
//! closed:  [ 900 KiB ] [ 40 KiB ] [ 1 KiB ] x 7      open: number N + 1
//!              stays     '--------.---------'
//!                          one file, number N: entries that count, in the order of their TIDs
//! ```
//! Invariants:
//! - L4: the merge takes only entries of epochs up to their own generation's D, so discarded entries stay discarded.
//!   The merged generation begins where the oldest generation began and ends at the newest generation's D.
//! - K1: the generation in which the installed checkpoint was written is never merged, nor is an earlier generation.
//! - The merged file is synced before the manifest lists the file. The replaced files are removed after that. A crash
//!   in between leaves an unlisted merged file: the next open removes that file.
//! - A byte is rewritten only into a file that is larger by a third at least, or while the file is small.
//!
//! Neighbours: `replay` reads the entries and leaves out entries that do not count, `tid_order` sorts, `log::segments`
//! writes; recovery's `install_generation` calls.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use ensile_base::Tid;
use ensile_base::limits::{MERGED_LOG_BYTES_MAX, UNMERGED_GENERATIONS_MAX};
use ensile_base::random::Random;
use ensile_disk::Disk;

use super::generation_plan::DecidedGeneration;
use super::replay::LogPiece;
use super::tid_order;
use crate::block::origin::Origin;
use crate::block::{FORMAT, Salt};
use crate::buffers::Buffer;
use crate::error::unless_missing;
use crate::identity::Identity;
use crate::log::LogConfig;
use crate::log::segments::Segments;
use crate::store::closed_files::ClosedFile;
use crate::store::manifest::Generation;
use crate::store::names::{SegmentFile, SegmentName, log_folder};
use crate::{DurabilityError, Entry};

/// Largest ratio of a generation's bytes to the bytes of the younger generations at which the generation joins the
/// merge. The rewritten bytes then stand in a file that is larger by a third at least.
const GROWTH: u64 = 3;
/// Smallest size in bytes that `GROWTH` is applied to: for smaller sizes, the syncs of an open take most of the time.
const SMALL_BYTES: u64 = 16 << 10;
/// Bytes of free space left to the log, beside the merged file.
const FREE_BYTES_MIN: u64 = 4 << 20;

// If every generation has more than `GROWTH` times the bytes of all younger generations, the limit is not reached.
const _: () = assert!(SMALL_BYTES * (GROWTH + 1).pow(UNMERGED_GENERATIONS_MAX as u32) > MERGED_LOG_BYTES_MAX);

/// Index of the first generation to merge, from sizes in bytes, oldest first; `None` if the generations are few enough.
fn choose(bytes: &[u64]) -> Option<usize> {
    // Only the youngest generations are candidates, as many as fit into one file.
    let (mut start, mut total) = (bytes.len(), 0);
    while start > 0 && total + bytes[start - 1] <= MERGED_LOG_BYTES_MAX {
        start -= 1;
        total += bytes[start];
    }
    if bytes.len() - start <= UNMERGED_GENERATIONS_MAX {
        return None;
    }
    let mut younger = total;
    let joins = |at: &usize| {
        younger -= bytes[*at];
        bytes[*at] <= GROWTH * younger.max(SMALL_BYTES)
    };
    let from = (start..bytes.len() - 1).find(joins);
    assert!(
        from.is_none_or(|from| bytes[from..].iter().sum::<u64>() <= MERGED_LOG_BYTES_MAX),
        "it fits one file"
    );
    from
}

/// Range of the generations to merge; `None` without such generations. `checkpoint` is the number of the generation in
/// which the checkpoint was written.
pub(super) fn sources(generations: &[DecidedGeneration], checkpoint: Option<u64>) -> Option<Range<usize>> {
    let kind = generations.last()?.generation.entries;
    let bytes_of = |DecidedGeneration { generation, log_bytes, .. }: &DecidedGeneration| {
        let is_after = checkpoint.is_none_or(|checkpoint| generation.number > checkpoint);
        log_bytes.filter(|_| is_after && generation.entries == kind)
    };
    let mut bytes: Vec<u64> = generations.iter().rev().map_while(bytes_of).collect();
    bytes.reverse();
    Some(generations.len() - bytes.len() + choose(&bytes)?..generations.len())
}

/// Writes the entries of `sources` that count into one file of a new generation with this number, and syncs the file.
/// `None` if the disk lacks space for the file: the folder then stays as is. The caller syncs the file's name.
pub(super) fn write(
    disk: &Arc<dyn Disk>,
    config: &LogConfig,
    database: Identity,
    number: u64,
    sources: &[Generation],
    logs: Vec<Vec<LogPiece>>,
) -> Result<Option<(Generation, ClosedFile)>, DurabilityError> {
    assert!(sources.len() > 1 && sources.iter().all(|source| source.entries == sources[0].entries));
    assert!(sources.windows(2).all(|pair| pair[0].durable < Some(pair[1].first)), "L4: one behind the other");
    let (oldest, newest) = (&sources[0], &sources[sources.len() - 1]);
    assert!(newest.number < number, "the merged generation has a number of its own");
    let bytes = logs.iter().flatten().map(|piece| piece.bytes).sum::<u64>();
    let free = disk.free_bytes(&log_folder(0))?;
    if free.is_some_and(|free| free < 2 * bytes + FREE_BYTES_MIN) {
        return Ok(None);
    }
    let salt = Salt::draw(&mut Random::unpredictable());
    let generation = Generation { number, format: FORMAT, logs: 1, salt, database, ..oldest.clone() };
    let generation = Generation { durable: newest.durable, spans: Vec::new(), ..generation };
    let pieces = MergePieces { disk: &**disk, logs };
    match write_file(pieces, disk, config, &generation, &mut |_| Ok(())) {
        Err(DurabilityError::Disk(error)) if error.is_full() => {
            unless_missing(disk.remove(&merged_file(number).to_string()))?;
            Ok(None)
        }
        written => Ok(Some((generation, written?))),
    }
}

/// Pieces of logs with the entries of a merged file, and the disk of the logs.
pub(super) struct MergePieces<'d> {
    pub(super) disk: &'d dyn Disk,
    /// Pieces by log, in the order of a log's entries.
    pub(super) logs: Vec<Vec<LogPiece>>,
}

/// The merged file of the generation with this number: the generation's only file.
pub(super) fn merged_file(generation: u64) -> SegmentFile {
    let name = SegmentName { generation, logger: 0, number: 0 };
    SegmentFile { is_merged: true, ..name.into() }
}

/// Writes the entries of these pieces into the merged file of a generation, on the disk `target`, and syncs the file.
/// The caller syncs the file's name. After each piece, `spend` receives the number of written bytes and may wait. An
/// error of `spend` ends the work.
pub(super) fn write_file(
    pieces: MergePieces<'_>,
    target: &Arc<dyn Disk>,
    config: &LogConfig,
    generation: &Generation,
    spend: &mut dyn FnMut(u64) -> Result<(), DurabilityError>,
) -> Result<ClosedFile, DurabilityError> {
    let before = generation.first.previous();
    let Generation { database: identity, salt, entries, .. } = *generation;
    let file = merged_file(generation.number);
    let segments = Segments::create(target, file, config, before, Origin { identity, salt, entries })?;
    let mut rewriter =
        Rewriter { segments, buffer: Buffer::usual(), generation, failed: None, last: Tid::ZERO, spend };
    tid_order::visit(pieces.disk, pieces.logs, &mut |entry| rewriter.push(entry))?;
    rewriter.end(file)
}

/// Writer of entries into the merged file.
struct Rewriter<'g> {
    segments: Segments,
    buffer: Box<Buffer>,
    generation: &'g Generation,
    failed: Option<DurabilityError>,
    /// TID of the last entry.
    last: Tid,
    /// Receiver of the number of written bytes.
    spend: &'g mut dyn FnMut(u64) -> Result<(), DurabilityError>,
}

impl Rewriter<'_> {
    /// Adds an entry. Breaks after a failed write: `failed` then has the error.
    fn push(&mut self, Entry { tid, body }: Entry<'_>) -> ControlFlow<()> {
        // An entry that the manifest discards must not enter a generation that ends above the entry's epoch (L4).
        assert!(tid.epoch() >= self.generation.first && Some(tid.epoch()) <= self.generation.durable, "L4");
        debug_assert!(tid >= self.last, "in the order of their TIDs");
        self.last = tid;
        if !self.buffer.has_room(body.len()) {
            if let Err(error) = self.write_buffer() {
                self.failed = Some(error);
                return ControlFlow::Break(());
            }
            if !self.buffer.has_room(body.len()) {
                self.buffer = Buffer::for_entry(body.len());
            }
        }
        self.buffer.push(tid, |bytes| bytes.extend_from_slice(body));
        ControlFlow::Continue(())
    }

    /// Writes the buffer's entries, and puts an empty buffer of the usual size in place.
    fn write_buffer(&mut self) -> Result<(), DurabilityError> {
        let full = std::mem::replace(&mut self.buffer, Buffer::usual());
        if !full.is_empty() {
            let before = self.generation.first.previous();
            let written = self.segments.written_bytes();
            self.segments.data(full, before, before);
            self.segments.flush(drop)?;
            (self.spend)(self.segments.written_bytes() - written)?;
        }
        Ok(())
    }

    /// Ends the file with a mark of the generation's D.
    fn end(mut self, file: SegmentFile) -> Result<ClosedFile, DurabilityError> {
        self.failed.take().map_or(Ok(()), Err)?;
        self.write_buffer()?;
        assert!(self.buffer.is_empty(), "every entry is written before the mark");
        let durable = self.generation.durable.unwrap_or_default();
        self.segments.mark(durable, self.generation.first.previous());
        self.segments.flush(drop)?;
        self.segments.trim()?;
        self.segments.sync()?;
        Ok(ClosedFile { file, largest: durable, bytes: self.segments.file_bytes() })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{MERGED_LOG_BYTES_MAX, SMALL_BYTES, UNMERGED_GENERATIONS_MAX, choose};

    #[test]
    fn few_generations_are_left_alone_and_small_ones_become_one() {
        let mut lives = vec![100; UNMERGED_GENERATIONS_MAX];
        assert_eq!(choose(&lives), None);
        lives.push(100);
        assert_eq!(choose(&lives), Some(0));
        lives.insert(0, 10 * SMALL_BYTES);
        assert_eq!(choose(&lives), Some(1), "the large one is not written again for so little");
        lives.insert(1, 2 * SMALL_BYTES);
        assert_eq!(choose(&lives), Some(1), "small enough");
        lives[0] = MERGED_LOG_BYTES_MAX;
        assert_eq!(choose(&lives), Some(1), "does not fit one file with them");
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn lives_of_any_size_leave_few_generations_and_are_rewritten_seldom() {
        let mut random = ensile_base::random::Random::from_seed(12);
        let (mut bytes, mut written, mut rewritten) = (Vec::new(), 0, 0);
        for _ in 0..20_000 {
            // Most lives have some hundred bytes, and a life has up to half a megabyte.
            let life = 100 + ((random.next_u64() % (1 << 19)) >> (random.next_u64() % 19));
            written += life;
            bytes.push(life);
            if let Some(from) = choose(&bytes) {
                let merged = bytes.drain(from..).sum();
                rewritten += merged;
                bytes.push(merged);
            }
            let near = bytes.iter().rev().scan(0, |sum, bytes| {
                *sum += bytes;
                (*sum <= MERGED_LOG_BYTES_MAX).then_some(())
            });
            assert!(near.count() <= UNMERGED_GENERATIONS_MAX, "{bytes:?}");
        }
        assert!(rewritten < 12 * written, "{rewritten} bytes written again, of {written}");
    }
}
