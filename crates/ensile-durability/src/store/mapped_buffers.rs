//! Files of the mapped log buffers of a process-safe life: their owners, their creation, and the entries in the files
//! of a dead process (docs/internals/protocols/process.md, docs/internals/formats/buffer.md).
//!
//! Invariants:
//! - B4: buffers of a dead process count only in the run that the manifest names (`boot_scope`). There a missing or
//!   replaced list or listed buffer is damage, because entries in the others may depend on its entries.
//! - B2: a buffer counts up to the last whole entry. Bytes that contradict the counting word are damage.
//! - I1: a file is removed if its header names this database, or if it is empty: its process died while making it. A
//!   file of an earlier generation with a front of zeros, which a power cut leaves, is removed too.
//!
//! Neighbours: `buffers::queue` makes and removes files, [`list`] lists them, `recovery::mapped_tail` reads them.

mod list;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::checksum::crc32c;
use ensile_disk::{BootId, Disk, DiskError, DiskFile, FileTimes};

use crate::buffers::{BLOCKS_AT, COUNT_AT, Counted, FRONT_BYTES, MappedEntries, MappedFiles};
use crate::error::unless_missing;
use crate::files::block::entries::FramedEntries;
use crate::files::block::{Salt, align_up};
use crate::files::manifest::Manifest;
use crate::files::manifest::generation::Generation;
use crate::files::names::{BufferListName, BufferName, log_folder, logger_of};
use crate::identity::Identity;
use crate::{DurabilityError, Result};
use list::{BufferList, Listed};

const FORMAT: u16 = 1;
/// Length of the header with its checksums, in bytes.
const HEADER_BYTES: usize = 96;
const _: () = assert!(HEADER_BYTES <= BLOCKS_AT && BLOCKS_AT + 8 <= COUNT_AT && COUNT_AT + 8 == FRONT_BYTES);
/// Birth time in a header if the file system does not know birth times.
const NO_BIRTH: i128 = 0;

/// Owner of a mapped buffer: the log, and the boot in which the log ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferOwner {
    pub(crate) database: Identity,
    pub(crate) boot: BootId,
    pub(crate) generation: u64,
    pub(crate) salt: Salt,
    pub(crate) logger: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MappedKind {
    /// Buffer with this number.
    Buffer(u64),
    List,
}

impl MappedKind {
    fn magic(self) -> [u8; 4] {
        match self {
            Self::Buffer(_) => *b"EnsM",
            Self::List => *b"EnsL",
        }
    }

    /// Number of the buffer; 0 for a list.
    fn number(self) -> u64 {
        if let Self::Buffer(number) = self { number } else { 0 }
    }

    fn path(self, &BufferOwner { generation, logger, .. }: &BufferOwner) -> String {
        match self {
            Self::Buffer(number) => BufferName { generation, logger, number }.to_string(),
            Self::List => BufferListName { generation, logger }.to_string(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MappedHeader {
    kind: MappedKind,
    database: Identity,
    boot: BootId,
    generation: u64,
    logger: u32,
    /// Inode and birth time of the file itself. A copy of the file has a different inode and birth time.
    inode: u64,
    born: i128,
}

struct FoundHeader {
    header: MappedHeader,
    /// True if this version knows the header's format.
    is_known: bool,
    /// True if the header's generation has the requested salt.
    is_salted: bool,
}

impl MappedHeader {
    /// Header for an existing file of this owner, with the file's current inode and birth time.
    fn for_owner(disk: &dyn Disk, kind: MappedKind, owner: &BufferOwner) -> Result<Self, DiskError> {
        let &BufferOwner { database, boot, generation, logger, .. } = owner;
        let path = kind.path(owner);
        let (inode, times) = (disk.file_id(&path)?, disk.file_times(&path)?);
        let born = times.born_nanos.unwrap_or(NO_BIRTH);
        Ok(Self { kind, database, boot, generation, logger, inode, born })
    }

    /// True if `found` is the header of the same file. A file keeps its birth time when a file system numbers it anew,
    /// and a copy cannot get its original's. If a birth time is unknown, the inodes must be equal.
    fn is_of_file(&self, found: &Self) -> bool {
        if self.born == NO_BIRTH || found.born == NO_BIRTH {
            return self.inode == found.inode;
        }
        self.born == found.born
    }

    fn encode(&self, salt: Salt) -> [u8; FRONT_BYTES] {
        let mut bytes = [0; FRONT_BYTES];
        bytes[..4].copy_from_slice(&self.kind.magic());
        bytes[4..6].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.logger.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.kind.number().to_le_bytes());
        bytes[32..48].copy_from_slice(&self.database.to_bytes());
        bytes[48..64].copy_from_slice(&self.boot.to_bytes());
        bytes[64..72].copy_from_slice(&self.inode.to_le_bytes());
        bytes[72..88].copy_from_slice(&self.born.to_le_bytes());
        let own = crc32c(&bytes[..HEADER_BYTES - 8]);
        let salted = salt.checksum(&bytes[..HEADER_BYTES - 8]);
        bytes[HEADER_BYTES - 8..HEADER_BYTES - 4].copy_from_slice(&own.to_le_bytes());
        bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&salted.to_le_bytes());
        debug_assert!(
            Self::decode(&bytes, Some(salt))
                .is_some_and(|found| found.header == *self && found.is_known && found.is_salted),
            "B4: the header of {self:?} reads back"
        );
        bytes
    }

    /// Header in these bytes; `None` if the bytes are no header.
    fn decode(bytes: &[u8; FRONT_BYTES], salt: Option<Salt>) -> Option<FoundHeader> {
        let u32_at = |at| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let bytes_at = |at: usize| bytes[at..at + 16].try_into().expect("sixteen bytes");
        let body = &bytes[..HEADER_BYTES - 8];
        let kinds = [MappedKind::Buffer(u64_at(24)), MappedKind::List];
        let kind = kinds.into_iter().find(|kind| bytes[..4] == kind.magic())?;
        if u32_at(HEADER_BYTES - 8) != crc32c(body) {
            return None;
        }
        let is_known = bytes[4..6] == FORMAT.to_le_bytes();
        let is_salted = salt.is_some_and(|salt| salt.checksum(body) == u32_at(HEADER_BYTES - 4));
        let header = Self {
            kind,
            database: Identity::of_bytes(bytes_at(32)),
            boot: BootId::of_bytes(bytes_at(48)),
            generation: u64_at(16),
            logger: u32_at(8),
            inode: u64_at(64),
            born: i128::from_le_bytes(bytes_at(72)),
        };
        Some(FoundHeader { header, is_known, is_salted })
    }

    /// Header of the file of this name; `None` without a file or a header.
    fn read(disk: &dyn Disk, name: &str, salt: Option<Salt>) -> Result<Option<FoundHeader>, DiskError> {
        let Some(file) = unless_missing(disk.open_to_read(name))? else { return Ok(None) };
        let mut bytes = [0; FRONT_BYTES];
        let read = file.read_at(&mut bytes, 0)?;
        Ok((read == bytes.len()).then(|| Self::decode(&bytes, salt)).flatten())
    }
}

/// Makes a file of this owner, with its header: after a death of the process the file is empty, or names its owner.
fn make(disk: &dyn Disk, kind: MappedKind, owner: &BufferOwner) -> Result<Box<dyn DiskFile>, DiskError> {
    let file = disk.create(&kind.path(owner))?;
    let header = MappedHeader::for_owner(disk, kind, owner)?;
    file.write_at(&header.encode(owner.salt), 0)?;
    Ok(file)
}

/// Second part of an error text: the remedy for a file that differs from the file of the dead process.
const NO_DEATH_LEAVES_IT: &str = "no death of a process leaves that: put the folder back as it was, or give up what its buffers held by `ensile verify DIR \
     --repair`";

fn damaged_file_error(path: &str, offset: usize, detail: &str) -> DurabilityError {
    DurabilityError::damaged_file(path, offset as u64, format!("{detail}, and {NO_DEATH_LEAVES_IT}"))
}

/// Checks that the file of this owner exists, and is the file that was made (B4). Errors: [`DurabilityError::Damaged`]
/// if the file is missing, replaced or changed; [`DurabilityError::Unknown`] for a newer format; the disk's.
fn check(disk: &dyn Disk, kind: MappedKind, owner: &BufferOwner) -> Result<()> {
    let path = kind.path(owner);
    if !disk.exists(&path)? {
        let detail = match kind {
            MappedKind::Buffer(_) => "the buffer is missing: its log's list has it",
            MappedKind::List => "the list of its log's buffers is missing: MANIFEST says that there are some",
        };
        return Err(damaged_file_error(&path, 0, detail));
    }
    let Some(FoundHeader { header, is_known, is_salted }) =
        MappedHeader::read(disk, &path, Some(owner.salt))?
    else {
        return Err(damaged_file_error(&path, 0, "it has no header"));
    };
    let wanted = MappedHeader::for_owner(disk, kind, owner)?;
    if header != (MappedHeader { inode: header.inode, born: header.born, ..wanted }) {
        return Err(damaged_file_error(&path, 0, "its header is that of another file or another life"));
    }
    if !is_known {
        return Err(DurabilityError::newer(&path, 0));
    }
    if !is_salted {
        return Err(damaged_file_error(&path, 0, "its header is that of another life"));
    }
    if !header.is_of_file(&wanted) {
        return Err(damaged_file_error(&path, 0, "it is a copy: another file was mapped"));
    }
    Ok(())
}

#[derive(Debug)]
pub(crate) struct BufferFiles {
    disk: Arc<dyn Disk>,
    owner: BufferOwner,
    list: BufferList,
}

impl BufferFiles {
    /// Makes the list of a log without buffers. `epoch_interval` is the time between two calls of `note_alive`.
    pub(crate) fn make(
        disk: Arc<dyn Disk>,
        owner: BufferOwner,
        epoch_interval: Duration,
    ) -> Result<Self, DiskError> {
        let list = BufferList::make(&*disk, &owner, epoch_interval)?;
        Ok(Self { disk, owner, list })
    }

    /// Makes and maps the file of buffer `number`, with room for `bytes` bytes of entries.
    fn map(&self, number: u64, bytes: usize) -> Result<MappedEntries, DiskError> {
        let file = make(&*self.disk, MappedKind::Buffer(number), &self.owner)?;
        let words = file.map((FRONT_BYTES + align_up(bytes)) as u64)?;
        debug_assert!(words.len() * size_of::<u64>() >= FRONT_BYTES + bytes, "B1: room for {bytes} bytes");
        Ok(MappedEntries::new(words, number))
    }

    /// Removes the file of an empty buffer. If the removal fails, the next open removes the file.
    fn remove_file(&self, number: u64) {
        let _ = self.disk.remove(&MappedKind::Buffer(number).path(&self.owner));
    }
}

impl MappedFiles for BufferFiles {
    fn take_number(&self) -> Option<u64> {
        self.list.take()
    }

    fn make(&self, number: u64, bytes: usize) -> Result<MappedEntries, DiskError> {
        let mapped = self.map(number, bytes);
        match &mapped {
            // The buffer is empty until it is listed.
            Ok(_) => self.list.add(number),
            Err(_) => {
                self.remove_file(number);
                self.list.give_back(number);
            }
        }
        mapped
    }

    fn remove(&self, mapped: MappedEntries) {
        let number = mapped.number();
        // The strike comes before the removal: from here on the file may be missing.
        self.list.strike(number);
        drop(mapped);
        self.remove_file(number);
        self.list.give_back(number);
    }

    fn note_alive(&self, unix_seconds: u64) {
        self.list.note_alive(unix_seconds);
    }
}

/// Entries in a mapped buffer of a dead process.
#[derive(Debug)]
pub(crate) struct LeftEntries {
    pub(crate) name: BufferName,
    /// Entries in the format of a block, without padding.
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: u32,
    /// Epochs of the first and the last entry.
    pub(crate) epochs: (Epoch, Epoch),
}

/// Mapped buffers that a dead process left in the folders of its logs.
#[derive(Debug, Default)]
pub(crate) struct LeftBuffers {
    /// Buffers with entries, ordered by log and number.
    pub(crate) buffers: Vec<LeftEntries>,
    /// Number of blocks of its log after each listed buffer's last write. A log with fewer is older, or has lost bytes.
    pub(crate) written: Vec<(BufferName, u64)>,
    /// Paths of buffers and lists that were changed after the death of their process.
    pub(crate) changed: Vec<String>,
}

impl LeftBuffers {
    /// Finds the buffers in the `logs` logs of the owner's generation, which must have some. `owner.logger` is ignored.
    /// Errors: [`DurabilityError::Damaged`] for a state that no death of a process leaves (B4).
    pub(crate) fn find(disk: &dyn Disk, owner: BufferOwner, logs: u32) -> Result<Self> {
        let mut found = Self::default();
        for logger in 0..logs {
            let owner = BufferOwner { logger, ..owner };
            check(disk, MappedKind::List, &owner)?;
            let listed = Listed::read(disk, &MappedKind::List.path(&owner))?;
            found.doubt(disk, &listed, MappedKind::List, &owner)?;
            for number in listed.numbers() {
                check(disk, MappedKind::Buffer(number), &owner)?;
                let name = BufferName { generation: owner.generation, logger, number };
                let (left, written) = read(disk, name)?;
                found.buffers.extend(left);
                found.written.push((name, written));
                found.doubt(disk, &listed, MappedKind::Buffer(number), &owner)?;
            }
            check_unlisted(disk, &owner, Some(owner.boot), |number| listed.has(number))?;
        }
        debug_assert!(found.buffers.len() <= found.written.len(), "B4: a listed buffer is read once");
        debug_assert!(found.buffers.is_sorted_by_key(|left| left.name), "B4: in order");
        Ok(found)
    }

    /// Checks that an open generation has no buffers with entries, if the manifest names none. `boot` is the current
    /// boot; `None` counts every boot. Errors: [`DurabilityError::Damaged`] for a buffer that counts entries.
    pub(crate) fn check_none(disk: &dyn Disk, generation: &Generation, boot: Option<BootId>) -> Result<()> {
        let Generation { number: generation, salt, database, logs, .. } = *generation;
        (0..logs).try_for_each(|logger| {
            let owner = BufferOwner {
                database,
                boot: boot.unwrap_or(BootId::of_number(0)),
                generation,
                salt,
                logger,
            };
            check_unlisted(disk, &owner, boot, |_| false)
        })
    }

    /// Adds the file to `changed` if the file was changed after the death of its process.
    fn doubt(
        &mut self,
        disk: &dyn Disk,
        listed: &Listed,
        kind: MappedKind,
        owner: &BufferOwner,
    ) -> Result<(), DiskError> {
        let path = kind.path(owner);
        let FileTimes { changed_nanos, .. } = disk.file_times(&path)?;
        let changed = changed_nanos.map(|nanos| nanos.div_euclid(1_000_000_000));
        if changed.is_some_and(|changed| changed > i128::from(listed.alive_until)) {
            self.changed.push(path);
        }
        Ok(())
    }
}

/// Mapped buffer with entries above the epoch that a caller of [`held_above`] gives.
#[derive(Debug)]
pub(crate) struct HeldAbove {
    pub(crate) name: BufferName,
    /// Epoch of the last entry; `None` if the bytes are damaged.
    pub(crate) last: Option<Epoch>,
}

impl HeldAbove {
    /// True if the file at the buffer's name has a header of this owner's generation and boot.
    pub(crate) fn belongs_to(&self, disk: &dyn Disk, owner: &BufferOwner) -> Result<bool> {
        let header = MappedHeader::read(disk, &self.name.to_string(), Some(owner.salt))?;
        Ok(header.is_some_and(|found| found.is_salted && found.header.boot == owner.boot))
    }
}

/// Finds the buffers of a generation, of every boot, with entries above `durable` or with damaged bytes.
pub(crate) fn held_above(disk: &dyn Disk, generation: &Generation, durable: Epoch) -> Result<Vec<HeldAbove>> {
    let mut found = Vec::new();
    for logger in 0..generation.logs {
        let names = buffer_files(disk, logger)?.into_iter().filter_map(BufferFile::buffer);
        for name in names.filter(|name| name.generation == generation.number) {
            let last = match read(disk, name) {
                Ok((None, _)) => continue,
                Ok((Some(LeftEntries { epochs: (_, last), .. }), _)) if last <= durable => continue,
                Ok((Some(LeftEntries { epochs: (_, last), .. }), _)) => Some(last),
                Err(DurabilityError::Damaged { .. }) => None,
                Err(error) => return Err(error),
            };
            found.push(HeldAbove { name, last });
        }
    }
    Ok(found)
}

/// Finds the mapped files of a generation that this folder lacks: lists, and listed buffers. A copy, with the number of
/// `blocks` of every readable log by logger, also lacks an empty buffer whose last entries went into blocks that were
/// not copied. Entries written to an unreadable log count as lacking.
pub(crate) fn missing_files(
    disk: &dyn Disk,
    generation: &Generation,
    blocks: Option<&BTreeMap<u32, u64>>,
) -> Result<Vec<String>> {
    let is_logged = |logger: u32, written: u64| {
        blocks.is_none_or(|blocks| written == 0 || blocks.get(&logger).is_some_and(|have| *have >= written))
    };
    let mut lacking = Vec::new();
    for logger in 0..generation.logs {
        let list = BufferListName { generation: generation.number, logger }.to_string();
        let listed = match disk.exists(&list)?.then(|| Listed::read(disk, &list)).transpose() {
            Ok(Some(listed)) => listed,
            Ok(None) | Err(DurabilityError::Damaged { .. }) => {
                lacking.push(list);
                continue;
            }
            Err(error) => return Err(error),
        };
        for number in listed.numbers() {
            let name = BufferName { generation: generation.number, logger, number };
            let is_there = match disk.exists(&name.to_string())?.then(|| read(disk, name)).transpose() {
                // `held_above` reports the buffer.
                Ok(Some((Some(_), _))) | Err(DurabilityError::Damaged { .. }) => true,
                Ok(Some((None, written))) => is_logged(logger, written),
                Ok(None) => false,
                Err(error) => return Err(error),
            };
            if !is_there {
                lacking.push(name.to_string());
            }
        }
    }
    Ok(lacking)
}

/// Checks that no unlisted buffer of the owner counts an entry: a buffer is listed before its first entry, and struck
/// when it is empty (B4). The bits of the list have no checksum, so this check finds a lost bit, and the folder of an
/// earlier version whose manifest did not name its boot. `boot` selects a boot; `None` selects every boot.
fn check_unlisted(
    disk: &dyn Disk,
    owner: &BufferOwner,
    boot: Option<BootId>,
    is_listed: impl Fn(u64) -> bool,
) -> Result<()> {
    let BufferOwner { database, generation, logger, .. } = *owner;
    for name in buffer_files(disk, logger)?.into_iter().filter_map(BufferFile::buffer) {
        if name.generation != generation || is_listed(name.number) {
            continue;
        }
        let path = name.to_string();
        let Some(FoundHeader { header, is_salted, .. }) = MappedHeader::read(disk, &path, Some(owner.salt))?
        else {
            continue;
        };
        let is_own = is_salted
            && header.kind == MappedKind::Buffer(name.number)
            && (header.database, header.generation, header.logger) == (database, generation, logger)
            && boot.is_none_or(|boot| header.boot == boot);
        let mut word = [0; 8];
        let read = disk.open_to_read(&path)?.read_at(&mut word, COUNT_AT as u64)?;
        if is_own && read == word.len() && u64::from_le_bytes(word) != 0 {
            return Err(damaged_file_error(
                &path,
                COUNT_AT,
                "the buffer holds entries, and nothing lists it",
            ));
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BufferFile {
    Buffer(BufferName),
    List(BufferListName),
}

impl BufferFile {
    fn buffer(self) -> Option<BufferName> {
        if let Self::Buffer(name) = self { Some(name) } else { None }
    }

    fn generation(self) -> u64 {
        match self {
            Self::Buffer(name) => name.generation,
            Self::List(name) => name.generation,
        }
    }
}

impl std::fmt::Display for BufferFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Buffer(name) => name.fmt(f),
            Self::List(name) => name.fmt(f),
        }
    }
}

/// Mapped files in the folder of a log: buffers in the order of their numbers, then lists.
fn buffer_files(disk: &dyn Disk, logger: u32) -> Result<Vec<BufferFile>, DiskError> {
    let files = unless_missing(disk.list(&log_folder(logger)))?.unwrap_or_default();
    let parse = |file: &String| {
        let buffer = BufferName::parse(logger, file).map(BufferFile::Buffer);
        buffer.or_else(|| BufferListName::parse(logger, file).map(BufferFile::List))
    };
    let mut found: Vec<_> = files.iter().filter_map(parse).collect();
    found.sort_unstable();
    Ok(found)
}

/// Reads the entries that the buffer's counting word covers, if any, and the blocks of its log after its last write.
fn read(disk: &dyn Disk, name: BufferName) -> Result<(Option<LeftEntries>, u64)> {
    let path = name.to_string();
    let damaged = |detail: &str| damaged_file_error(&path, FRONT_BYTES, detail);
    let file = disk.open_to_read(&path)?;
    let mut front = [0; FRONT_BYTES];
    if file.read_at(&mut front, 0)? < front.len() {
        return Err(damaged("the file was cut"));
    }
    let word = |at: usize| u64::from_le_bytes(front[at..at + 8].try_into().expect("eight bytes"));
    let (counted, written) = (Counted::of_word(word(COUNT_AT)), word(BLOCKS_AT));
    if counted.bytes == 0 {
        return Ok((None, written));
    }
    if FRONT_BYTES as u64 + u64::from(counted.bytes) > file.len()? {
        return Err(damaged("it counts more bytes than the file has"));
    }
    let mut bytes = vec![0; counted.bytes as usize];
    if file.read_at(&mut bytes, FRONT_BYTES as u64)? < bytes.len() || crc32c(&bytes) != counted.crc {
        return Err(damaged("the checksum of its entries is wrong"));
    }
    let mut epochs: Option<(Epoch, Epoch)> = None;
    let mut entries = 0;
    for entry in FramedEntries::new(&bytes) {
        let epoch = entry.map_err(|_| damaged("an entry does not fit"))?.0.epoch();
        let (first, last) = epochs.unwrap_or((epoch, epoch));
        if epoch < last {
            return Err(damaged("its entries are not in the order of their epochs"));
        }
        (epochs, entries) = (Some((first, epoch)), entries + 1);
    }
    let epochs = epochs.expect("what has bytes has an entry");
    debug_assert!(entries > 0 && epochs.0 <= epochs.1, "B2: the entries are in the order of their epochs");
    Ok((Some(LeftEntries { name, bytes, entries, epochs }), written))
}

/// Names of the mapped files of a generation's logs. A repair copies the files.
pub(crate) fn names_of(disk: &dyn Disk, generation: u64, logs: u32) -> Result<Vec<String>, DiskError> {
    let mut names = Vec::new();
    for logger in 0..logs {
        let own = buffer_files(disk, logger)?.into_iter().filter(|file| file.generation() == generation);
        names.extend(own.map(|file| file.to_string()));
    }
    Ok(names)
}

/// True if `path` is the name of a mapped file, with the log's folder.
pub(crate) fn is_mapped_file(path: &str) -> bool {
    let Some((folder, name)) = path.split_once('/') else { return false };
    logger_of(folder).is_some_and(|logger| {
        BufferName::parse(logger, name).is_some() || BufferListName::parse(logger, name).is_some()
    })
}

/// Removes mapped files of a log that belong to this database (I1), if `is_needless` is true for their generation. A
/// file of zeros, as a power cut leaves, is removed by its name, if its generation is an earlier one.
pub(crate) fn remove(
    disk: &dyn Disk,
    logger: u32,
    manifest: &Manifest,
    is_needless: impl Fn(u64) -> bool,
) -> Result<(), DiskError> {
    for file in buffer_files(disk, logger)?.into_iter().filter(|file| is_needless(file.generation())) {
        let path = file.to_string();
        let header = MappedHeader::read(disk, &path, None)?;
        let is_ours = match header {
            Some(found) => manifest.check_ours(&path, found.header.database).is_ok(),
            None => {
                let open = manifest.generations.last().map_or(0, |open| open.number);
                let mut front = [0; FRONT_BYTES];
                let read = disk.open_to_read(&path)?.read_at(&mut front, 0)?;
                read == 0 || (file.generation() < open && front == [0; FRONT_BYTES])
            }
        };
        if is_ours {
            disk.remove(&path)?;
        }
    }
    Ok(())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
