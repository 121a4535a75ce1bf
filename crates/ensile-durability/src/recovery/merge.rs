//! Closed generations merged into one at an open, so that many short lives leave few files
//! (`docs/protocols/durability.md`).
//!
//! ```text
//! closed:  [ 900 KiB ] [ 40 KiB ] [ 1 KiB ] x 7      open: number N + 1
//!              stays     '--------.---------'
//!                          one file, number N: entries that count, in the order of their TIDs
//! ```
//! Invariants:
//! - L4: only entries of epochs up to their own generation's D are taken, so what is discarded stays discarded. The
//!   merged generation begins where the oldest one began and ends at the newest one's D.
//! - K1: the generation in which the installed checkpoint was written is never merged, nor one before it.
//! - The merged file is synced before the manifest lists it, and the files that it replaces are removed after that. A
//!   crash in between leaves a merged file that is not listed: the next open removes it.
//! - A byte is written again only into a file that is larger by a third at least, or while the file is small.
//!
//! Neighbours: `replay` reads the entries and leaves out what does not count, `ordered` sorts them, `log::segments`
//! writes; called by recovery's finish.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use ensile_base::Tid;
use ensile_base::limits::{MERGED_LOG_BYTES_MAX, UNMERGED_GENERATIONS_MAX};
use ensile_base::random::Random;
use ensile_disk::Disk;

use super::ordered;
use super::plan::DecidedGeneration;
use super::replay::LogPiece;
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

/// A generation joins the younger ones if it has at most this many times their bytes. What is written again then stands
/// in a file that is larger by a third at least.
const GROWTH: u64 = 3;
/// Sizes below this count as this: beside them the syncs of an open take most of the time.
const SMALL_BYTES: u64 = 16 << 10;
/// Free space that is left to the log, beside the merged file's own.
const FREE_BYTES_MIN: u64 = 4 << 20;

// With generations that each have more than `GROWTH` times the bytes of all younger ones, the limit is not reached.
const _: () = assert!(SMALL_BYTES * (GROWTH + 1).pow(UNMERGED_GENERATIONS_MAX as u32) > MERGED_LOG_BYTES_MAX);

/// From where on generations are merged, whose bytes are given oldest first; `None` if there are few enough.
fn choose(bytes: &[u64]) -> Option<usize> {
    // Only the youngest ones, as many as may stand in one file.
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

/// Which of these generations are merged; the checkpoint was written in the one of the number given.
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

/// Writes the entries that count of `sources` into one file of a generation of this database with this number, and
/// syncs it. `None` if the disk has no space for it: everything stays as it is. The file's name is the caller's to
/// sync.
pub(super) fn write(
    disk: &Arc<dyn Disk>,
    config: &LogConfig,
    (database, number): (Identity, u64),
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
    let name = SegmentName { generation: number, logger: 0, number: 0 };
    let file = SegmentFile { is_merged: true, ..SegmentFile::from(name) };
    match write_file((&**disk, disk), config, &generation, (file, logs), &mut |_| Ok(())) {
        Err(DurabilityError::Disk(error)) if error.is_full() => {
            unless_missing(disk.remove(&file.to_string()))?;
            Ok(None)
        }
        written => Ok(Some((generation, written?))),
    }
}

/// Writes the entries of these logs, which are on the disk `from`, into this file of a generation, and syncs it. Its
/// name is the caller's to sync. `spend` is told how many bytes were written, a piece at a time. It may wait. What
/// it fails with ends the work.
pub(super) fn write_file(
    (from, disk): (&dyn Disk, &Arc<dyn Disk>),
    config: &LogConfig,
    generation: &Generation,
    (file, logs): (SegmentFile, Vec<Vec<LogPiece>>),
    spend: &mut dyn FnMut(u64) -> Result<(), DurabilityError>,
) -> Result<ClosedFile, DurabilityError> {
    let before = generation.first.previous();
    let Generation { database: identity, salt, entries, .. } = *generation;
    let segments = Segments::create(disk, file, config, before, Origin { identity, salt, entries })?;
    let mut rewriter =
        Rewriter { segments, buffer: Buffer::usual(), generation, failed: None, last: Tid::ZERO, spend };
    ordered::visit(from, logs, &mut |entry| rewriter.push(entry))?;
    rewriter.end(file)
}

/// Entries on their way into the merged file.
struct Rewriter<'g> {
    segments: Segments,
    buffer: Box<Buffer>,
    generation: &'g Generation,
    failed: Option<DurabilityError>,
    /// Of the last entry.
    last: Tid,
    /// Is told what was written.
    spend: &'g mut dyn FnMut(u64) -> Result<(), DurabilityError>,
}

impl Rewriter<'_> {
    fn push(&mut self, Entry { tid, body }: Entry<'_>) -> ControlFlow<()> {
        // What the manifest discards must not get into a generation that ends above it (L4).
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

    /// Writes what the buffer holds; an empty one of the usual size takes its place.
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
        let mut random = ensile_base::random::Random::seeded(12);
        let (mut bytes, mut written, mut rewritten) = (Vec::new(), 0, 0);
        for _ in 0..20_000 {
            // Of some hundred bytes mostly, and up to half a megabyte.
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
