//! Merge of closed generations into one generation at an open, so that many short lives leave few files.
//!
//! ```text
//! closed:  [ 900 KiB ] [ 40 KiB ] [ 1 KiB ] x 7      open: number N + 1
//!              stays     '--------.---------'
//!                          one file, number N: entries that count, in the order of their TIDs
//! ```
//! Invariant: L4: only entries of epochs up to their own generation's D are taken. The file is synced before the
//! manifest lists it, and the replaced files are removed after that; the next open removes an unlisted merged file.
//!
//! Neighbours: `generation_plan` chooses the generations, `replay` reads, `tid_order` sorts, `log::segments` writes.
//! `archive::archive_source` writes the entries of an archive with the same writer.

use std::ops::ControlFlow;
use std::sync::Arc;

use ensile_base::Tid;
use ensile_base::random::Random;
use ensile_disk::Disk;

use super::replay::LogPiece;
use super::tid_order;
use crate::buffers::Buffer;
use crate::error::unless_missing;
use crate::files::block::origin::Origin;
use crate::files::block::{FORMAT, Salt};
use crate::files::manifest::generation::Generation;
use crate::files::names::{SegmentFile, SegmentName, log_folder};
use crate::identity::Identity;
use crate::log::LogConfig;
use crate::log::segments::Segments;
use crate::store::closed_files::ClosedFile;
use crate::{DurabilityError, Entry, Result};

/// Bytes of free space left to the log, beside the merged file.
const FREE_BYTES_MIN: u64 = 4 << 20;

/// Writes the entries of `sources` that count into one file of a new generation with this number, and syncs the file.
/// `None` if the disk lacks space for the file: the folder then stays as is. The caller syncs the file's name.
pub(super) fn write(
    disk: &Arc<dyn Disk>,
    config: &LogConfig,
    database: Identity,
    number: u64,
    sources: &[Generation],
    logs: Vec<Vec<LogPiece>>,
) -> Result<Option<(Generation, ClosedFile)>> {
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
    match write_file(&**disk, logs, disk, config, &generation, &mut |_| Ok(())) {
        Err(DurabilityError::Disk(error)) if error.is_full() => {
            unless_missing(disk.remove(&merged_file(number).to_string()))?;
            Ok(None)
        }
        written => Ok(Some((generation, written?))),
    }
}

/// The merged file of the generation with this number: the generation's only file.
pub(super) fn merged_file(generation: u64) -> SegmentFile {
    let name = SegmentName { generation, logger: 0, number: 0 };
    SegmentFile { is_merged: true, ..name.into() }
}

/// Writes the entries of these pieces on the disk `source` into the merged file of a generation, on the disk `target`,
/// and syncs the file. The caller syncs the name. After each piece, `spend` may wait or fail.
pub(super) fn write_file(
    source: &dyn Disk,
    logs: Vec<Vec<LogPiece>>,
    target: &Arc<dyn Disk>,
    config: &LogConfig,
    generation: &Generation,
    spend: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<ClosedFile> {
    let before = generation.first.previous();
    let Generation { database: identity, salt, entries, .. } = *generation;
    let file = merged_file(generation.number);
    let segments = Segments::create(target, file, config, before, Origin { identity, salt, entries })?;
    let mut rewriter =
        Rewriter { segments, buffer: Buffer::usual(), generation, failed: None, last: Tid::ZERO, spend };
    tid_order::visit(source, logs, &mut |entry| rewriter.push(entry))?;
    rewriter.end(file)
}

struct Rewriter<'g> {
    segments: Segments,
    buffer: Box<Buffer>,
    generation: &'g Generation,
    failed: Option<DurabilityError>,
    last: Tid,
    spend: &'g mut dyn FnMut(u64) -> Result<()>,
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
    fn write_buffer(&mut self) -> Result<()> {
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

    fn end(mut self, file: SegmentFile) -> Result<ClosedFile> {
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
