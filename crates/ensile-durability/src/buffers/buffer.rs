//! A buffer of entries in disk format, with room for the block's header in front. Room is checked once, padding
//! included, so no append allocates or fails (E1). Entries of one buffer come from one worker, so their epochs never
//! decrease.
//!
//! Neighbours: the appender fills a buffer, the logger seals and writes a buffer, and `worker_slot` hands buffers over.
//! `recovery::merge` fills buffers with the entries of merged logs and of archives.

use ensile_base::checksum::crc32c;
use ensile_base::limits::{LOG_BUFFER_BYTES, TRANSACTION_BYTES_MAX};
use ensile_base::sync::plain_access;
use ensile_base::{Epoch, Tid};
use ensile_disk::DiskError;
use ensile_memory::prefetch;

use super::mapped_entries::{MappedEntries, MappedFiles};
use crate::files::block::entries::{ENTRY_FRAME_BYTES, FramedEntries, push_entry};
use crate::files::block::{ALIGN_BYTES, HEADER_BYTES, align_up};

/// Most bytes of an entry to prefetch; the processor recognizes the pattern beyond these bytes.
const PREFETCHED_BYTES_MAX: usize = 4 << 10;
/// Number of cache lines to prefetch behind an entry.
const NEXT_LINES: usize = 2;

const _: () = assert!(Buffer::bytes_for(0) < LOG_BUFFER_BYTES, "a usual buffer holds an entry");
const _: () =
    assert!(Buffer::bytes_for(TRANSACTION_BYTES_MAX) <= u32::MAX as usize, "a block's length fits its field");

/// Entries on their way to the log. Each buffer has a cache line of its own: each commit writes these fields, and the
/// allocator would put two workers' buffers on one line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    entries: u32,
    epoch_min: Epoch,
    epoch_max: Epoch,
    /// Copy of the entries in a mapped file, in a process-safe log.
    mapped: Option<Box<MappedEntries>>,
}

impl Buffer {
    /// A buffer without room. A stub stands in a slot whose buffer the logger took without a free replacement.
    pub(crate) fn stub() -> Box<Self> {
        Box::new(Self::empty(Vec::new()))
    }

    /// An empty buffer of the usual size.
    pub(crate) fn usual() -> Box<Self> {
        Self::of_capacity(LOG_BUFFER_BYTES)
    }

    /// An empty buffer with room for one entry with a body of `body_bytes`, and no more: for a large entry of a merge.
    pub(crate) fn for_entry(body_bytes: usize) -> Box<Self> {
        Self::of_capacity(Self::bytes_for(body_bytes))
    }

    /// Bytes of a buffer with room for one entry with a body of `body_bytes`.
    pub(crate) const fn bytes_for(body_bytes: usize) -> usize {
        HEADER_BYTES + ENTRY_FRAME_BYTES + align_up(body_bytes) + ALIGN_BYTES
    }

    /// Capacity in bytes; zero for a stub.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// True if the buffer was made for one large entry.
    pub(crate) fn is_large(&self) -> bool {
        self.bytes.capacity() > LOG_BUFFER_BYTES
    }

    /// An empty buffer of this capacity in bytes.
    pub(crate) fn of_capacity(capacity: usize) -> Box<Self> {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.resize(HEADER_BYTES, 0);
        assert_eq!(bytes.capacity(), capacity, "the allocator gave what was asked for: it is counted");
        Box::new(Self::empty(bytes))
    }

    fn empty(bytes: Vec<u8>) -> Self {
        Self { bytes, entries: 0, epoch_min: Epoch::ZERO, epoch_max: Epoch::ZERO, mapped: None }
    }

    /// The buffer with a mapped file of its own, of this number (B1).
    pub(crate) fn with_mapped(
        mut self: Box<Self>,
        files: &dyn MappedFiles,
        number: u64,
    ) -> Result<Box<Self>, DiskError> {
        assert!(self.is_empty() && self.mapped.is_none(), "a new buffer gets its file");
        self.mapped = Some(Box::new(files.make(number, self.capacity() - HEADER_BYTES)?));
        Ok(self)
    }

    /// Number of the mapped file, if any.
    pub(crate) fn mapped_number(&self) -> Option<u64> {
        self.mapped.as_ref().map(|mapped| mapped.number())
    }

    /// The mapped entries of a discarded buffer, if any.
    pub(crate) fn into_mapped(self) -> Option<MappedEntries> {
        self.mapped.map(|mapped| *mapped)
    }

    /// True if one more entry with a body of `body_bytes` has room.
    #[inline]
    pub(crate) fn has_room(&self, body_bytes: usize) -> bool {
        // A stub's capacity is zero, so a stub never has room.
        self.bytes.len() + ENTRY_FRAME_BYTES + body_bytes + ALIGN_BYTES <= self.bytes.capacity()
    }

    /// Prefetches the memory of the next entry: the logger touched the buffer last, on another core.
    #[inline]
    pub(crate) fn prefetch(&self, body_bytes: usize) {
        let next = self.bytes.as_ptr().wrapping_add(self.bytes.len());
        prefetch::lines(next, ENTRY_FRAME_BYTES + body_bytes.min(PREFETCHED_BYTES_MAX));
    }

    /// Prefetches the memory of the next entry, enough for an entry of some tens of bytes. For a worker that has just
    /// added an entry, and adds the next entry without announcing its length.
    #[inline]
    pub(crate) fn prefetch_next(&self) {
        let next = self.bytes.as_ptr().wrapping_add(self.bytes.len());
        // The first line of the next entry was stored to just now.
        for line in 1..=NEXT_LINES {
            prefetch::line(next.wrapping_add(line * prefetch::LINE_BYTES));
        }
    }

    /// Adds an entry; the caller has checked the room by `has_room`.
    #[inline]
    pub(crate) fn push(&mut self, tid: Tid, encode: impl FnOnce(&mut Vec<u8>)) {
        let capacity = self.bytes.capacity();
        let at = self.bytes.len();
        push_entry(&mut self.bytes, tid, encode);
        assert!(self.bytes.len() + ALIGN_BYTES <= capacity, "an entry larger than what was reserved (E1)");
        self.count_entry(tid, at);
    }

    /// As [`push`](Self::push), for an encoded body.
    #[inline]
    pub(crate) fn push_body(&mut self, tid: Tid, body: &[u8]) {
        assert!(self.has_room(body.len()), "an entry larger than what was reserved for it (E1)");
        let at = self.bytes.len();
        let mut frame = [0; ENTRY_FRAME_BYTES];
        frame[..8].copy_from_slice(&tid.bits().to_le_bytes());
        frame[8..].copy_from_slice(&(body.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&frame);
        self.bytes.extend_from_slice(body);
        self.count_entry(tid, at);
    }

    /// Counts the entry from `at` on as the buffer's last entry.
    #[inline(always)]
    fn count_entry(&mut self, tid: Tid, at: usize) {
        debug_assert!(tid.epoch() >= self.epoch_max, "a worker's commit epochs never decrease");
        debug_assert!(tid.epoch() > Epoch::ZERO, "an entry of no epoch");
        if self.entries == 0 {
            self.epoch_min = tid.epoch();
        }
        self.epoch_max = tid.epoch();
        self.entries += 1;
        debug_assert!(self.epoch_min <= self.epoch_max);
        if let Some(mapped) = &mut self.mapped {
            mapped.push(&self.bytes[HEADER_BYTES..]);
        }
        plain_access::store(&raw const self.bytes[at], self.bytes.len() - at);
        plain_access::store(self, size_of::<Self>());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// Epochs of the first and last entry.
    pub(crate) fn epochs(&self) -> (Epoch, Epoch) {
        (self.epoch_min, self.epoch_max)
    }

    /// Bytes of the block so far, with the space for the header.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Pads the payload; returns the payload's length without padding, and the checksum with padding.
    pub(crate) fn seal(&mut self) -> (u32, u32) {
        let payload = self.bytes.len() - HEADER_BYTES;
        assert!(self.entries > 0, "a block without entries");
        assert!(self.epoch_min <= self.epoch_max, "epochs {} to {}", self.epoch_min, self.epoch_max);
        assert!(payload >= self.entries as usize * ENTRY_FRAME_BYTES, "{payload} bytes, {}", self.entries);
        debug_assert!(self.is_framed(), "what was pushed reads back as it was");
        let capacity = self.bytes.capacity();
        self.bytes.resize(HEADER_BYTES + align_up(payload), 0);
        assert_eq!(self.bytes.capacity(), capacity, "there is room for the padding (E1)");
        assert!(self.bytes.len().is_multiple_of(ALIGN_BYTES), "{} bytes of a block", self.bytes.len());
        let entries = &self.bytes[HEADER_BYTES..HEADER_BYTES + payload];
        debug_assert!(
            self.mapped.as_ref().is_none_or(|mapped| mapped.crc() == crc32c(entries)),
            "B2: what is mapped is what is logged"
        );
        (payload as u32, crc32c(&self.bytes[HEADER_BYTES..]))
    }

    /// True if the payload reads as the pushed entries, in the order of their epochs.
    fn is_framed(&self) -> bool {
        let (mut entries, mut last) = (0, self.epoch_min);
        let in_order = FramedEntries::new(&self.bytes[HEADER_BYTES..]).all(|entry| {
            let Ok((tid, _)) = entry else { return false };
            entries += 1;
            std::mem::replace(&mut last, tid.epoch()) <= tid.epoch()
        });
        in_order && entries == self.entries && last == self.epoch_max
    }

    /// The whole block: header space, entries, padding.
    pub(crate) fn block(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Empties the buffer for its next use, after its entries, if any, are written to a log of this number of blocks
    /// (B3). The call may wait for the system.
    pub(crate) fn recycle(&mut self, log_blocks: u64) {
        if let Some(mapped) = &mut self.mapped {
            mapped.forget(log_blocks);
        }
        self.bytes.truncate(HEADER_BYTES);
        (self.entries, self.epoch_min, self.epoch_max) = (0, Epoch::ZERO, Epoch::ZERO);
        debug_assert!(self.is_empty() && self.bytes.len() == HEADER_BYTES, "a used buffer is as a new one");
    }
}
