//! Takes the entries that a process-safe life left above D, if only its process died (`protocols/process.md`).
//!
//! The operating system kept the logs of the dead process up to their last whole blocks, and the mapped buffers. The
//! open writes the buffers behind the logs, then a mark of the largest epoch behind each log, and syncs.
//!
//! Invariants:
//! - B4: an open takes buffers only in the boot in which they were written.
//! - B5: in each log, the mark comes after earlier bytes are synced, and before the database serves.
//! - B6: an open takes no buffer that the log has. The log has a buffer if the buffer's first epoch is not above the
//!   log's last mark (L1), or if a block behind the mark has the same bytes, TIDs included. A block stands for one
//!   buffer. Equal lengths and checksums prove nothing.
//! - L5: damage is judged before anything is written.
//!
//! Neighbours: `scan` calls, and then judges the generation again; an examination, a repair and `mapped_probe`, for a
//! backup, look for the same entries. `store::mapped_buffers` has the buffers.

use ensile_base::Epoch;
use ensile_base::checksum::crc32c;
use ensile_disk::Disk;

use super::chain::{Chain, Link};
use super::resync_tail::{self, AtOnce};
use crate::files::block::scan::{At, Scanner};
use crate::files::block::{BlockKind, HEADER_BYTES, Header, Salt, block_bytes};
use crate::files::log::file_chain::FileChain;
use crate::files::manifest::Manifest;
use crate::files::manifest::generation::Generation;
use crate::store::boot_scope::{is_same_boot, run_of, unknown_mounts};
use crate::store::mapped_buffers::{self, BufferOwner, LeftBuffers, LeftEntries};
use crate::store::ownership;
use crate::unproven_tail::{NotProven, NotProvenReason};
use crate::{DurabilityError, Result};

/// State of the process-safe life of the open generation.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeftByProcess {
    /// The generation is closed, or the folder is a copy without a process-safe life.
    Nothing,
    /// The manifest names no process-safe life.
    NotNamed,
    /// The folder is a copy, or was a copy until its adoption.
    InCopy,
    /// The machine has started again since the life. The buffers prove nothing.
    OtherBoot(BufferOwner),
    /// A file system of the life was mounted again within the same boot. The buffers prove nothing.
    OtherMount(BufferOwner),
    /// The current boot or mount cannot be read.
    UnknownBoot,
    /// The process died in this folder, and the machine has not started again since.
    Here(BufferOwner),
}

/// Finds the state from the manifest, the boot and the numbers of the folders, without reading a buffer.
pub(super) fn find(disk: &dyn Disk, manifest: &Manifest, generation: &Generation) -> Result<LeftByProcess> {
    let Generation { number, salt, database, durable, .. } = *generation;
    if durable.is_some() {
        return Ok(LeftByProcess::Nothing);
    }
    let is_copy = database != manifest.identity || ownership::is_copy(disk, manifest)?;
    let Some(boot) = manifest.mapped else {
        return Ok(if is_copy { LeftByProcess::Nothing } else { LeftByProcess::NotNamed });
    };
    if is_copy {
        return Ok(LeftByProcess::InCopy);
    }
    let owner = BufferOwner { database, boot, generation: number, salt, logger: 0 };
    // An earlier version noted only the boot of a life.
    Ok(match (disk.boot(), run_of(disk, generation.logs)?) {
        (Some(now), _) if now == boot => LeftByProcess::Here(owner),
        (_, Some(run)) if run == boot => LeftByProcess::Here(owner),
        // A mount that is unknown now is not a different mount.
        (_, Some(run)) if is_same_boot(run, boot) && unknown_mounts(disk, generation.logs)?.is_empty() => {
            LeftByProcess::OtherMount(owner)
        }
        (_, Some(run)) if is_same_boot(run, boot) => LeftByProcess::UnknownBoot,
        (_, Some(_)) => LeftByProcess::OtherBoot(owner),
        (_, None) => LeftByProcess::UnknownBoot,
    })
}

impl LeftByProcess {
    /// Reason why the folder cannot prove the entries; `None` if there are none, or an open takes them.
    pub(super) fn reason(&self, is_whole: bool) -> Option<NotProvenReason> {
        match self {
            Self::Nothing | Self::NotNamed => None,
            Self::InCopy => Some(NotProvenReason::Copied),
            Self::OtherBoot(_) => Some(NotProvenReason::OtherBoot),
            Self::OtherMount(_) => Some(NotProvenReason::OtherMount),
            Self::UnknownBoot => Some(NotProvenReason::UnknownBoot),
            Self::Here(_) => (!is_whole).then_some(NotProvenReason::Damaged),
        }
    }

    /// Buffers that an open takes, if any. Errors: [`DurabilityError::Damaged`] for a state that no death of a process
    /// leaves; [`DurabilityError::Config`] for an unreadable boot.
    pub(super) fn buffers(self, disk: &dyn Disk, generation: &Generation) -> Result<Option<LeftBuffers>> {
        match self {
            Self::Nothing | Self::InCopy | Self::OtherBoot(_) | Self::OtherMount(_) => Ok(None),
            Self::NotNamed => {
                let run = run_of(disk, generation.logs)?;
                LeftBuffers::check_none(disk, generation, disk.boot())?;
                LeftBuffers::check_none(disk, generation, run).map(|()| None)
            }
            Self::UnknownBoot => Err(unknown_boot()),
            Self::Here(owner) => LeftBuffers::find(disk, owner, generation.logs).map(Some),
        }
    }
}

/// Checks that the boot is known, if the manifest names a process-safe life (B4): an unknown boot may be the same boot.
pub(super) fn check_boot(disk: &dyn Disk, manifest: &Manifest) -> Result<()> {
    let open = manifest.generations.last().filter(|last| last.durable.is_none());
    let is_asked = manifest.mapped.is_some() && open.is_some_and(|open| open.database == manifest.identity);
    if is_asked && disk.boot().is_none() { Err(unknown_boot()) } else { Ok(()) }
}

fn unknown_boot() -> DurabilityError {
    DurabilityError::config(
        "its last life was process-safe, and which boot of the operating system, or which mount of a file system, this is cannot \
         be read, so it is unknown whether what its log buffers hold counts: open it where \
         /proc/sys/kernel/random/boot_id, /proc/self/mountinfo and /sys can be read",
    )
}

/// Verdict of an open or an examination on the open generation.
#[derive(Clone, Copy, Debug)]
pub(super) struct JudgedLife<'j> {
    pub(super) generation: &'j Generation,
    pub(super) chains: &'j [Chain],
    /// D. `None` if damage prevents a decision.
    pub(super) durable: Option<Epoch>,
    pub(super) covered: Epoch,
    /// True if no part of the folder is damaged or unreadable.
    pub(super) is_whole: bool,
}

impl JudgedLife<'_> {
    /// D. If damage hides D, the epoch that the remaining marks and the checkpoint prove.
    pub(super) fn proven(&self) -> Epoch {
        let marked = || self.chains.iter().map(|chain| chain.mark).min().unwrap_or_default();
        let least = || marked().max(self.covered.previous()).max(self.generation.first.previous());
        self.durable.unwrap_or_else(least)
    }
}

/// Report of the files with entries above D that the folder cannot prove; `None` without such files. `not_taken` is the
/// reason for a report of entries that an open would take. If the manifest names a life, a damaged folder and a file
/// system that was mounted again always have a report, because they may have lost every trace of the entries.
pub(super) fn unproven_report(
    disk: &dyn Disk,
    left: &LeftByProcess,
    judged: JudgedLife<'_>,
    not_taken: Option<NotProvenReason>,
) -> Result<Option<NotProven>> {
    let Some(reason) = left.reason(judged.is_whole).or(not_taken) else { return Ok(None) };
    let JudgedLife { generation, chains, is_whole, .. } = judged;
    assert_eq!(generation.durable, None, "B4: an earlier recovery has decided over the others");
    assert!(chains.iter().all(|chain| chain.generation == generation.number), "logs of this generation");
    let durable = judged.proven();
    let mut last = durable;
    let mut files = match reason {
        NotProvenReason::OtherBoot | NotProvenReason::OtherMount => Vec::new(),
        // The folder is no copy, so its files are of one moment.
        NotProvenReason::Damaged | NotProvenReason::UnknownBoot | NotProvenReason::NotOpened => {
            mapped_buffers::missing_files(disk, generation, None)?
        }
        _ => {
            let blocks = chains.iter().map(|chain| (chain.logger, chain.blocks)).collect();
            mapped_buffers::missing_files(disk, generation, Some(&blocks))?
        }
    };
    for buffer in mapped_buffers::held_above(disk, generation, durable)? {
        // Before a power failure the system may have written any part. A readable buffer of the owner counts.
        let counts = match left {
            LeftByProcess::OtherBoot(owner) | LeftByProcess::OtherMount(owner) => {
                buffer.last.is_some() && buffer.belongs_to(disk, owner)?
            }
            _ => true,
        };
        if counts {
            last = last.max(buffer.last.unwrap_or_default());
            files.push(buffer.name.to_string());
        }
    }
    for link in chains.iter().flat_map(|chain| &chain.links) {
        let newest = link.runs.iter().map(|run| run.epoch_max).max().unwrap_or_default();
        if newest > durable {
            last = last.max(newest);
            files.push(link.file.to_string());
        }
    }
    // A device that was lost may have taken every trace of the entries with it.
    let is_unknown = !is_whole || reason == NotProvenReason::OtherMount;
    Ok((is_unknown || !files.is_empty()).then_some(NotProven { reason, durable, files, last }))
}

#[derive(Debug)]
pub(super) struct EntriesToTake {
    /// Missing entries and marks. `None` if the logs have both.
    pub(super) missing: Option<MissingEntries>,
    pub(super) not_proven: Option<NotProven>,
}

impl EntriesToTake {
    /// Finds the entries that only the buffers have, if the logs are whole and prove every epoch up to `durable`.
    pub(super) fn from_buffers(
        disk: &dyn Disk,
        chains: &[Chain],
        left: LeftBuffers,
        durable: Epoch,
    ) -> Result<Self> {
        let changed = left.changed.clone();
        let missing = MissingEntries::find_missing(disk, chains, left)?;
        let counted = missing.as_ref().map_or(durable, MissingEntries::high);
        Ok(Self { missing, not_proven: NotProven::for_changed_files(changed, counted) })
    }
}

#[derive(Debug)]
pub(super) struct MissingEntries {
    buffers: Vec<Vec<LeftEntries>>,
    high: Epoch,
}

impl MissingEntries {
    /// `None` if the logs have every entry, with marks.
    fn find_missing(disk: &dyn Disk, chains: &[Chain], left: LeftBuffers) -> Result<Option<Self>> {
        assert!(chains.iter().zip(0..).all(|(chain, logger)| chain.logger == logger), "each log has a chain");
        assert!(chains.iter().all(|chain| chain.lost.is_none()), "L5: what is damaged is judged before");
        check_written(chains, &left)?;
        let mut buffers: Vec<_> = chains.iter().map(|_| Vec::new()).collect();
        for left in left.buffers {
            let logger = left.name.logger as usize;
            if left.epochs.0 > chains[logger].mark {
                buffers[logger].push(left);
            }
        }
        for (chain, buffers) in chains.iter().zip(&mut buffers) {
            forget_logged(disk, chain, buffers)?;
        }
        let logged = chains.iter().filter_map(|chain| chain.links.last()).map(|link| link.largest);
        let missing = buffers.iter().flatten().map(|left| left.epochs.1);
        let high = logged.chain(missing).max().unwrap_or(Epoch::ZERO);
        assert!(chains.iter().all(|chain| chain.seen <= high || chain.mark >= high), "nothing above it");
        let is_whole = buffers.iter().all(Vec::is_empty) && chains.iter().all(|chain| chain.mark >= high);
        Ok((!is_whole).then_some(Self { buffers, high }))
    }

    pub(super) fn entries(&self) -> u64 {
        self.buffers.iter().flatten().map(|left| u64::from(left.entries)).sum()
    }

    pub(super) fn high(&self) -> Epoch {
        self.high
    }

    /// Writes the buffers and a mark behind each log, and syncs (B5). An error breaks no promise: an open starts over.
    pub(super) fn write(self, disk: &dyn Disk, chains: &[Chain]) -> Result<()> {
        assert_eq!(chains.len(), self.buffers.len(), "each log gets its own");
        for chain in chains {
            if chain.lacks_next() {
                let detail = "the file behind it is missing, and its process alone died";
                return Err(chain.end.damage_error(detail));
            }
            // After a failed sync, bytes of the dead process may be in the system's cache only.
            resync_tail::rewrite(disk, chain, AtOnce::File)?;
        }
        for (chain, buffers) in chains.iter().zip(self.buffers) {
            append(disk, chain, buffers, self.high)?;
        }
        Ok(())
    }
}

/// Length and checksum of the payload of the buffer's block.
fn of_block(left: &LeftEntries) -> (u32, u32) {
    let mut padded = left.bytes.clone();
    padded.resize(block_bytes(left.bytes.len()) - HEADER_BYTES, 0);
    assert!(left.entries > 0 && left.epochs.0 <= left.epochs.1, "{} is empty", left.name);
    (left.bytes.len() as u32, crc32c(&padded))
}

/// Checks that the logs have the blocks into which the buffers were written. The process had seen the blocks in the log
/// (B3). A log without a written block is an older log that was put back, or its device has lost bytes.
fn check_written(chains: &[Chain], left: &LeftBuffers) -> Result<()> {
    for (name, written) in &left.written {
        let chain = &chains[name.logger as usize];
        if chain.blocks < *written {
            let detail = format!(
                "the log ends with {} blocks here, and had {written} when {name} was written to it in this boot: it is an older \
                 one, or its device lost some of it",
                chain.blocks
            );
            return Err(chain.end.damage_error(detail));
        }
    }
    Ok(())
}

/// Removes from `left` the buffers that this log already has in a data block behind its last mark.
fn forget_logged(disk: &dyn Disk, chain: &Chain, left: &mut Vec<LeftEntries>) -> Result<()> {
    for link in chain.links.iter().filter(|link| link.largest > chain.mark) {
        let mut scanner = Scanner::new(disk.open_to_read(&link.file.to_string())?)?;
        let mut offset = 0;
        let Ok(opened) = scanner.read_opening()? else { continue };
        let mut header = opened.header;
        while !left.is_empty() {
            if header.kind == BlockKind::Data && header.epoch_min > chain.mark {
                forget_block(&mut scanner, link, offset, &header, left)?;
            }
            offset += header.block_bytes() as u64;
            if offset >= link.end {
                break;
            }
            let At::Block(next, _) = scanner.header(offset, link.origin.salt)? else { break };
            header = next;
        }
    }
    Ok(())
}

/// Removes the buffer from `left` of which the block at `offset` was made, if present, by its bytes: buffers of two
/// workers may have the same length and checksum. A buffer with only a block's beginning is an older copy.
fn forget_block(
    scanner: &mut Scanner,
    link: &Link,
    offset: u64,
    header: &Header,
    left: &mut Vec<LeftEntries>,
) -> Result<()> {
    let is_alike = |left: &LeftEntries| {
        left.bytes.len() <= header.payload_bytes as usize && left.epochs.0 == header.epoch_min
    };
    if !left.iter().any(is_alike) {
        return Ok(());
    }
    let Some(payload) = scanner.payload(offset, header)? else {
        let detail = "the block's payload is not what its header promises";
        return Err(DurabilityError::damaged_file(&link.file.to_string(), offset, detail));
    };
    if let Some(at) = left.iter().position(|left| payload.starts_with(&left.bytes)) {
        assert!(is_alike(&left[at]), "{} is the block at {offset} of {}", left[at].name, link.file);
        left.remove(at);
    }
    Ok(())
}

/// Appends the buffers and a mark of `high` to a log. The earlier bytes of the log are synced.
fn append(disk: &dyn Disk, chain: &Chain, buffers: Vec<LeftEntries>, high: Epoch) -> Result<()> {
    // Without a link the log could not keep the buffers, but the open would report their entries as present.
    let Some(Link { origin, .. }) = chain.links.last() else {
        return Err(chain.end.damage_error(chain.end.detail));
    };
    let mut end =
        GrownEnd { chain, salt: origin.salt, sequence: chain.blocks, crc: chain.crc, bytes: Vec::new() };
    for left in buffers {
        let (first, mark) = (left.epochs.0, chain.mark);
        assert!(first > mark, "an entry of {first} behind a mark of {mark} (L1)");
        end.data(&left);
    }
    if chain.mark < high {
        end.mark(high);
    }
    assert!(!end.bytes.is_empty() || chain.mark >= high, "B5: each log has a mark of it");
    let file = disk.open(&chain.end.file.to_string())?;
    // The cut removes an unfinished block and the set-aside space of the dead process.
    file.set_len(chain.end.offset)?;
    file.write_at(&end.bytes, chain.end.offset)?;
    Ok(file.sync_all()?)
}

/// Blocks to append to a log.
struct GrownEnd<'c> {
    chain: &'c Chain,
    salt: Salt,
    sequence: u64,
    /// Checksum of the block before.
    crc: u32,
    bytes: Vec<u8>,
}

impl GrownEnd<'_> {
    fn header(&self, kind: BlockKind, mark: Epoch) -> Header {
        let Chain { logger, generation, published, .. } = *self.chain;
        let header = Header::new(kind, logger, generation);
        Header { sequence: self.sequence, previous_crc: self.crc, mark, published, ..header }
    }

    /// Adds a data block. `mark` of a data block is the last synced mark.
    fn data(&mut self, left: &LeftEntries) {
        assert_eq!(left.name.logger, self.chain.logger, "B5: a buffer goes behind its own log");
        let (payload_bytes, payload_crc) = of_block(left);
        let (epoch_min, epoch_max) = left.epochs;
        let header = self.header(BlockKind::Data, self.chain.mark);
        let header =
            Header { payload_bytes, payload_crc, entries: left.entries, epoch_min, epoch_max, ..header };
        self.push(&header, &left.bytes);
    }

    fn mark(&mut self, d: Epoch) {
        assert!(d > self.chain.mark, "a mark of {d} behind one of {} (L3)", self.chain.mark);
        self.push(&self.header(BlockKind::Mark, d), &[]);
    }

    fn push(&mut self, header: &Header, payload: &[u8]) {
        let from = self.bytes.len();
        assert_eq!(payload.len(), header.payload_bytes as usize, "the header is of this payload");
        self.bytes.resize(from + HEADER_BYTES, 0);
        self.bytes.extend_from_slice(payload);
        self.bytes.resize(from + header.block_bytes(), 0);
        self.crc = header.encode(&mut self.bytes[from..], self.salt);
        self.sequence += 1;
    }
}

/// Reads the grown last file of a log again. `files` are the files of the log as they were read before.
pub(super) fn reread(disk: &dyn Disk, chain: &Chain, mut files: Vec<FileChain>) -> Result<Vec<FileChain>> {
    let last = files.iter().position(|file| file.file == chain.end.file).expect("a log ends in its files");
    let next = files.get(last + 1).map(|next| next.file);
    assert!(!files[last + 1..].iter().any(|file| file.opening.is_some()), "L5: the log ends there");
    files[last] = FileChain::read(disk, chain.end.file, next)?;
    Ok(files)
}
