//! Files of mapped log buffers: whose they are, how they are made, and what a dead process left in them
//! (docs/protocols/process.md, docs/formats/buffer.md).
//!
//! Invariants:
//! - B4: what is left counts only in the boot that the manifest names. Then each log has its list, and each buffer of
//!   the list is there, and is the file that was made for it. No death of a process leaves anything else: what is
//!   missing, or was put in another one's place, may hold a cause of what the others have. So that is damage.
//! - B2: it counts up to the last whole entry. Bytes that differ from what the word says are damage: no death of a
//!   process leaves them.
//! - I1: a file is removed if it says that it is this database's, or if it is empty: it was being made then. Also if
//!   it is of an earlier generation and its front is zeros: a power cut leaves that.
//!
//! Neighbours: made when a log begins and while it runs, by the queue of `buffers`; [`list`] says which there are; read
//! by `recovery::taking`.

mod list;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::checksum::crc32c;
use ensile_disk::{BootId, Disk, DiskError, DiskFile, FileTimes};

use super::manifest::{Generation, Manifest};
use super::names::{BufferListName, BufferName, log_folder, logger_of};
use crate::DurabilityError;
use crate::block::entries::FramedEntries;
use crate::block::{Salt, padded};
use crate::buffers::{BLOCKS_AT, COUNT_AT, Counted, FRONT_BYTES, MappedEntries, MappedFiles};
use crate::error::unless_missing;
use crate::identity::Identity;
use crate::not_proven::{NotProven, NotProvenReason, UnprovenEntries, UnprovenFile};
use list::{BufferList, Listed};

const FORMAT: u16 = 1;
/// Bytes of the header with its checksum.
const HEADER_BYTES: usize = 96;
const _: () = assert!(HEADER_BYTES <= BLOCKS_AT && BLOCKS_AT + 8 <= COUNT_AT && COUNT_AT + 8 == FRONT_BYTES);
/// Of a file whose birth the file system does not know.
const NO_BIRTH: i128 = 0;

/// Whose a mapped buffer is, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferOwner {
    pub(crate) database: Identity,
    pub(crate) boot: BootId,
    pub(crate) generation: u64,
    /// Of the generation's logs.
    pub(crate) salt: Salt,
    pub(crate) logger: u32,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MappedKind {
    /// A buffer of this number.
    Buffer(u64),
    /// The list of a log's buffers.
    List,
}

impl MappedKind {
    fn magic(self) -> [u8; 4] {
        match self {
            Self::Buffer(_) => *b"EnsM",
            Self::List => *b"EnsL",
        }
    }

    /// The buffer's.
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

/// What a file's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MappedHeader {
    kind: MappedKind,
    database: Identity,
    boot: BootId,
    generation: u64,
    logger: u32,
    /// Of the file itself: a copy has other ones.
    inode: u64,
    born: i128,
}

/// A header as it was read.
struct FoundHeader {
    header: MappedHeader,
    /// Of the format that this version knows.
    is_known: bool,
    /// Of a generation with the salt that was asked for.
    is_salted: bool,
}

impl MappedHeader {
    /// Of this owner's file, as it is now.
    fn of(disk: &dyn Disk, kind: MappedKind, owner: &BufferOwner) -> Result<Self, DiskError> {
        let &BufferOwner { database, boot, generation, logger, .. } = owner;
        let path = kind.path(owner);
        let (inode, times) = (disk.file_id(&path)?, disk.file_times(&path)?);
        let born = times.born_nanos.unwrap_or(NO_BIRTH);
        Ok(Self { kind, database, boot, generation, logger, inode, born })
    }

    /// Is it the same file? A file keeps its birth when a file system numbers it anew, and nobody can give a copy the
    /// birth of the original. Where births are not known it must have the same number.
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
        bytes
    }

    /// `None` for what is no header.
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

    /// Of the file of this name; `None` if it is gone, or has none.
    fn read(disk: &dyn Disk, name: &str, salt: Option<Salt>) -> Result<Option<FoundHeader>, DiskError> {
        let Some(file) = unless_missing(disk.open_to_read(name))? else { return Ok(None) };
        let mut bytes = [0; FRONT_BYTES];
        let read = file.read_at(&mut bytes, 0)?;
        Ok((read == bytes.len()).then(|| Self::decode(&bytes, salt)).flatten())
    }
}

/// Makes a file of this owner, with its header and nothing else. The header comes first, so that what a death leaves
/// here is empty, or says whose it is.
fn make(disk: &dyn Disk, kind: MappedKind, owner: &BufferOwner) -> Result<Box<dyn DiskFile>, DiskError> {
    let file = disk.create(&kind.path(owner))?;
    let header = MappedHeader::of(disk, kind, owner)?;
    file.write_at(&header.encode(owner.salt), 0)?;
    Ok(file)
}

/// What to do about a file that is not as its process left it.
const NO_DEATH_LEAVES_IT: &str = "no death of a process leaves that: put the folder back as it was, or give up what its buffers held by `ensile verify DIR \
     --repair`";

fn damaged(path: &str, offset: usize, detail: &str) -> DurabilityError {
    DurabilityError::damaged(path, offset as u64, format!("{detail}, and {NO_DEATH_LEAVES_IT}"))
}

/// Is the file of this owner there, as it was made (B4)?
///
/// # Errors
/// [`DurabilityError::Damaged`] if not.
fn check(disk: &dyn Disk, kind: MappedKind, owner: &BufferOwner) -> Result<(), DurabilityError> {
    let path = kind.path(owner);
    if !disk.exists(&path)? {
        let detail = match kind {
            MappedKind::Buffer(_) => "the buffer is missing: its log's list has it",
            MappedKind::List => "the list of its log's buffers is missing: MANIFEST says that there are some",
        };
        return Err(damaged(&path, 0, detail));
    }
    let Some(FoundHeader { header, is_known, is_salted }) =
        MappedHeader::read(disk, &path, Some(owner.salt))?
    else {
        return Err(damaged(&path, 0, "it has no header"));
    };
    let wanted = MappedHeader::of(disk, kind, owner)?;
    if header != (MappedHeader { inode: header.inode, born: header.born, ..wanted }) {
        return Err(damaged(&path, 0, "its header is that of another file or another life"));
    }
    if !is_known {
        return Err(DurabilityError::newer(&path, 0));
    }
    if !is_salted {
        return Err(damaged(&path, 0, "its header is that of another life"));
    }
    if !header.is_of_file(&wanted) {
        return Err(damaged(&path, 0, "it is a copy: another file was mapped"));
    }
    Ok(())
}

/// The files of one log's mapped buffers.
#[derive(Debug)]
pub(crate) struct BufferFiles {
    disk: Arc<dyn Disk>,
    owner: BufferOwner,
    list: BufferList,
}

impl BufferFiles {
    /// Of a log that has none, with the list of them. `epoch_interval` is how often it is told that the process lives.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn make(
        disk: Arc<dyn Disk>,
        owner: BufferOwner,
        epoch_interval: Duration,
    ) -> Result<Self, DiskError> {
        let list = BufferList::make(&*disk, &owner, epoch_interval)?;
        Ok(Self { disk, owner, list })
    }

    fn map(&self, number: u64, bytes: usize) -> Result<MappedEntries, DiskError> {
        let file = make(&*self.disk, MappedKind::Buffer(number), &self.owner)?;
        let words = file.map((FRONT_BYTES + padded(bytes)) as u64)?;
        Ok(MappedEntries::new(words, number))
    }

    /// What stays says nothing, and goes at the next open.
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
            // It holds nothing before it is listed.
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
        // Off the list before it goes: from here on it may be missing.
        self.list.strike(number);
        drop(mapped);
        self.remove_file(number);
        self.list.give_back(number);
    }

    fn note_alive(&self, unix_seconds: u64) {
        self.list.note_alive(unix_seconds);
    }
}

/// The entries of a buffer that a dead process of this boot left.
#[derive(Debug)]
pub(crate) struct LeftEntries {
    pub(crate) name: BufferName,
    /// As a block has them, without padding.
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: u32,
    /// Of the first and the last.
    pub(crate) epochs: (Epoch, Epoch),
}

/// What a process-safe life of this boot left, in the logs of its generation.
#[derive(Debug, Default)]
pub(crate) struct LeftBuffers {
    /// Those that hold entries, by log and number.
    pub(crate) buffers: Vec<LeftEntries>,
    /// How many blocks its log had when each buffer's entries had been written the last time.
    pub(crate) written: Vec<(BufferName, u64)>,
    /// Those that were changed once their process was dead, and the lists that were.
    pub(crate) changed: Vec<String>,
}

impl LeftBuffers {
    /// Of the generation of this owner, whose `logger` is not looked at, with this number of logs. The manifest says
    /// that it has buffers.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] for what no death of a process leaves (B4).
    pub(crate) fn find(disk: &dyn Disk, owner: BufferOwner, logs: u32) -> Result<Self, DurabilityError> {
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
        Ok(found)
    }

    /// Checks that an open generation has no buffers that count, where the manifest says that there are none. `boot` is
    /// that which runs; where it is not known, those of every boot are looked at.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] for one that counts entries.
    pub(crate) fn check_none(
        disk: &dyn Disk,
        generation: &Generation,
        boot: Option<BootId>,
    ) -> Result<(), DurabilityError> {
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

    /// Notes it if the file was changed once its process was dead.
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
        if changed.is_some_and(|changed| changed > i128::from(listed.alive_until())) {
            self.changed.push(path);
        }
        Ok(())
    }
}

/// A mapped buffer that holds something above an epoch.
#[derive(Debug)]
pub(crate) struct HeldAbove {
    pub(crate) name: BufferName,
    /// Its entries; `None` for what is no entries. A buffer that straddles the epoch counts whole.
    pub(crate) held: Option<UnprovenEntries>,
}

impl HeldAbove {
    /// Is it a buffer of this owner's life, whatever was put at its name since?
    pub(crate) fn is_of(&self, disk: &dyn Disk, owner: &BufferOwner) -> Result<bool, DurabilityError> {
        let header = MappedHeader::read(disk, &self.name.to_string(), Some(owner.salt))?;
        Ok(header.is_some_and(|found| found.is_salted && found.header.boot == owner.boot))
    }
}

/// What the mapped buffers of a generation with this number of logs hold above `durable`, of any boot.
///
/// # Errors
/// The disk's.
pub(crate) fn held_above(
    disk: &dyn Disk,
    (generation, logs): (u64, u32),
    durable: Epoch,
) -> Result<Vec<HeldAbove>, DurabilityError> {
    let mut found = Vec::new();
    for logger in 0..logs {
        let names = buffer_files(disk, logger)?.into_iter().filter_map(BufferFile::buffer);
        for name in names.filter(|name| name.generation == generation) {
            let held = match read(disk, name) {
                Ok((None, _)) => continue,
                Ok((Some(left), _)) if left.epochs.1 <= durable => continue,
                Ok((Some(LeftEntries { bytes, entries, epochs, .. }), _)) => {
                    Some(UnprovenEntries { entries, bytes: bytes.len() as u32, epochs })
                }
                Err(DurabilityError::Damaged { .. }) => None,
                Err(error) => return Err(error),
            };
            found.push(HeldAbove { name, held });
        }
    }
    Ok(found)
}

/// The mapped files of a generation that are not in this folder: a list, or a buffer that the list has. In a copy also
/// a buffer that was written to its log behind the blocks that were copied. `blocks`: of a copy, those of each log that
/// can be read, by logger. What was written to another one is unknown.
///
/// # Errors
/// The disk's.
pub(crate) fn lacking(
    disk: &dyn Disk,
    generation: &Generation,
    blocks: Option<&BTreeMap<u32, u64>>,
) -> Result<Vec<String>, DurabilityError> {
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
                // What it holds is told where it is read.
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

/// What the mapped buffers of this generation hold above `durable` that `counts`, and these files that a copy lacks,
/// beside what stands in its logs: this number of entries, up to this epoch. `None` if there is nothing.
///
/// # Errors
/// The disk's.
pub(crate) fn not_proven(
    disk: &dyn Disk,
    (reason, durable): (NotProvenReason, Epoch),
    generation: &Generation,
    ((log_entries, log_last), lacking): ((u64, Epoch), Vec<String>),
    counts: impl Fn(&HeldAbove) -> Result<bool, DurabilityError>,
) -> Result<Option<NotProven>, DurabilityError> {
    let mut files: Vec<_> = lacking.into_iter().map(|file| UnprovenFile { file, held: None }).collect();
    let mut last = durable.max(log_last);
    for buffer in held_above(disk, (generation.number, generation.logs), durable)? {
        if counts(&buffer)? {
            let HeldAbove { name, held } = buffer;
            last = last.max(held.map_or(Epoch::ZERO, |held| held.epochs.1));
            files.push(UnprovenFile { file: name.to_string(), held });
        }
    }
    let found = !files.is_empty() || log_entries > 0;
    Ok(found.then_some(NotProven { reason, durable, files, log_entries, last }))
}

/// Looks at the owner's buffers that are not listed: none of them counts anything, as one is listed before it holds an
/// entry, and struck when it holds none (B4). The list's bits have no checksum. So a lost bit shows here, and an
/// earlier version's folder, whose manifest did not name its boot. `boot`: whose buffers are looked at; those of all if
/// it is `None`.
///
/// # Errors
/// [`DurabilityError::Damaged`] for one that counts something.
fn check_unlisted(
    disk: &dyn Disk,
    owner: &BufferOwner,
    boot: Option<BootId>,
    is_listed: impl Fn(u64) -> bool,
) -> Result<(), DurabilityError> {
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
            return Err(damaged(&path, COUNT_AT, "the buffer holds entries, and nothing lists it"));
        }
    }
    Ok(())
}

/// A mapped file in a log's folder.
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

/// The mapped files in a log's folder, in the order of their numbers, the lists behind the buffers.
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

/// The entries that its word counts, none if there are none, and how many blocks the log had when it was written the
/// last time.
fn read(disk: &dyn Disk, name: BufferName) -> Result<(Option<LeftEntries>, u64), DurabilityError> {
    let path = name.to_string();
    let damaged = |detail: &str| damaged(&path, FRONT_BYTES, detail);
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
    for entry in FramedEntries::of(&bytes) {
        let epoch = entry.map_err(|_| damaged("an entry does not fit"))?.0.epoch();
        let (first, last) = epochs.unwrap_or((epoch, epoch));
        if epoch < last {
            return Err(damaged("its entries are not in the order of their epochs"));
        }
        (epochs, entries) = (Some((first, epoch)), entries + 1);
    }
    let epochs = epochs.expect("what has bytes has an entry");
    Ok((Some(LeftEntries { name, bytes, entries, epochs }), written))
}

/// The names of the mapped files of a generation's logs, for a repair to copy.
///
/// # Errors
/// The disk's.
pub(crate) fn names_of(disk: &dyn Disk, generation: u64, logs: u32) -> Result<Vec<String>, DiskError> {
    let mut names = Vec::new();
    for logger in 0..logs {
        let own = buffer_files(disk, logger)?.into_iter().filter(|file| file.generation() == generation);
        names.extend(own.map(|file| file.to_string()));
    }
    Ok(names)
}

/// Is it the name of a mapped file, with its folder's?
pub(crate) fn is_mapped_file(path: &str) -> bool {
    let Some((folder, name)) = path.split_once('/') else { return false };
    logger_of(folder).is_some_and(|logger| {
        BufferName::parse(logger, name).is_some() || BufferListName::parse(logger, name).is_some()
    })
}

/// Removes the mapped files of a log whose generation `is_needless` names, if they prove to be this database's (I1). A
/// power cut may leave nothing but zeros of a file: in a folder that is ours it goes by its name, once its generation
/// is an earlier one.
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
