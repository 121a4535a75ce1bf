//! Files of mapped log buffers: whose they are, how they are made, and what a dead process left in them
//! (docs/protocols/process.md, docs/formats/buffer.md).
//!
//! Invariants:
//! - B4: what is left counts only in the boot that it was written in, in the file that was made for it, of the
//!   generation that is open.
//! - B2: it counts up to the last whole entry. Bytes that differ from what the word says are damage: no death of a
//!   process leaves them.
//! - I1: a file is removed if it says that it is this database's, or if it is empty: it was being made then.
//!
//! Neighbours: made when a log begins and while it runs, by the queue of `buffers`; read by `recovery::taking`.

use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::checksum::crc32c;
use ensile_disk::{BootId, Disk, DiskError};

use super::manifest::Manifest;
use super::names::{BufferName, log_folder};
use crate::DurabilityError;
use crate::block::entries::FramedEntries;
use crate::block::{Salt, padded};
use crate::buffers::{COUNT_AT, Counted, FRONT_BYTES, MappedEntries, MappedFiles};
use crate::error::unless_missing;
use crate::identity::Identity;

const MAGIC: [u8; 4] = *b"EnsM";
const FORMAT: u16 = 1;
/// Bytes of the header with its checksum.
const HEADER_BYTES: usize = 96;
const _: () = assert!(HEADER_BYTES <= COUNT_AT && COUNT_AT + 8 == FRONT_BYTES);

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

/// What a file's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BufferHeader {
    database: Identity,
    boot: BootId,
    generation: u64,
    logger: u32,
    number: u64,
    /// Of the file itself: a copy has another one.
    inode: u64,
}

/// A header as it was read.
struct FoundHeader {
    header: BufferHeader,
    /// Of the format that this version knows.
    is_known: bool,
    /// Of a generation with the salt that was asked for.
    is_salted: bool,
}

impl BufferHeader {
    fn encode(&self, salt: Salt) -> [u8; FRONT_BYTES] {
        let mut bytes = [0; FRONT_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.logger.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.database.to_bytes());
        bytes[48..64].copy_from_slice(&self.boot.to_bytes());
        bytes[64..72].copy_from_slice(&self.inode.to_le_bytes());
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
        if bytes[..4] != MAGIC || u32_at(HEADER_BYTES - 8) != crc32c(body) {
            return None;
        }
        let is_known = bytes[4..6] == FORMAT.to_le_bytes();
        let is_salted = salt.is_some_and(|salt| salt.checksum(body) == u32_at(HEADER_BYTES - 4));
        let header = Self {
            database: Identity::of_bytes(bytes_at(32)),
            boot: BootId::of_bytes(bytes_at(48)),
            generation: u64_at(16),
            logger: u32_at(8),
            number: u64_at(24),
            inode: u64_at(64),
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

/// The files of one log's mapped buffers.
#[derive(Debug)]
pub(crate) struct BufferFiles {
    disk: Arc<dyn Disk>,
    owner: BufferOwner,
    next: u64,
}

impl BufferFiles {
    /// Of a log that has none.
    pub(crate) fn new(disk: Arc<dyn Disk>, owner: BufferOwner) -> Self {
        Self { disk, owner, next: 0 }
    }

    fn name(&self, number: u64) -> BufferName {
        BufferName { generation: self.owner.generation, logger: self.owner.logger, number }
    }
}

impl MappedFiles for BufferFiles {
    /// The header comes first, so that what a death leaves here is empty, or says whose it is.
    fn make(&mut self, bytes: usize) -> Result<MappedEntries, DiskError> {
        let number = self.next;
        let name = self.name(number).to_string();
        let file = self.disk.create(&name)?;
        self.next += 1;
        let inode = self.disk.file_id(&name)?;
        let BufferOwner { database, boot, generation, salt, logger } = self.owner;
        let header = BufferHeader { database, boot, generation, logger, number, inode };
        let made = file.write_at(&header.encode(salt), 0);
        let mapped = made.and_then(|()| file.map((FRONT_BYTES + padded(bytes)) as u64));
        if mapped.is_err() {
            self.remove(number);
        }
        Ok(MappedEntries::new(mapped?, number))
    }

    fn remove(&self, number: u64) {
        // What stays holds nothing that the log lacks, and goes at the next open.
        let _ = self.disk.remove(&self.name(number).to_string());
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
#[derive(Debug)]
pub(crate) struct LeftBuffers {
    /// Those that hold entries, by log and number.
    pub(crate) buffers: Vec<LeftEntries>,
}

impl LeftBuffers {
    /// Of the generation of this owner, whose `logger` is not looked at, with this number of logs. `None` if it was not
    /// process-safe, or in another boot: then only what is durable counts (B4).
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] for bytes that no death of a process leaves.
    pub(crate) fn find(
        disk: &dyn Disk,
        owner: BufferOwner,
        logs: u32,
    ) -> Result<Option<Self>, DurabilityError> {
        let (mut is_of_this_boot, mut buffers, mut nameless) = (false, Vec::new(), None);
        for logger in 0..logs {
            for name in names(disk, logger)? {
                let owner = BufferOwner { logger, ..owner };
                if is_left_by(disk, name, &owner)? {
                    is_of_this_boot = true;
                    buffers.extend(read(disk, name)?);
                } else if name.generation == owner.generation && has_lost_its_header(disk, name)? {
                    nameless = Some(name);
                }
            }
        }
        // A power cut may take a header, and then it is another boot. The boot that wrote them finds them all: without
        // this one a cause may be missing of what the others have.
        if let Some(name) = nameless.filter(|_| is_of_this_boot) {
            let detail =
                "it has no header, the others of its life have theirs, and no death of a process leaves that";
            return Err(DurabilityError::damaged(&name.to_string(), 0, detail));
        }
        Ok(is_of_this_boot.then_some(Self { buffers }))
    }
}

/// Has it bytes, and no header before them? A file that is being made gets its header with its first bytes.
fn has_lost_its_header(disk: &dyn Disk, name: BufferName) -> Result<bool, DiskError> {
    let path = name.to_string();
    Ok(BufferHeader::read(disk, &path, None)?.is_none() && !disk.open_to_read(&path)?.is_empty()?)
}

/// The mapped buffers in a log's folder, in the order of their numbers.
fn names(disk: &dyn Disk, logger: u32) -> Result<Vec<BufferName>, DiskError> {
    let files = unless_missing(disk.list(&log_folder(logger)))?.unwrap_or_default();
    let mut names: Vec<_> = files.iter().filter_map(|file| BufferName::parse(logger, file)).collect();
    names.sort_unstable();
    Ok(names)
}

/// Was it written in this boot, for this log, and in this very file (B4)?
fn is_left_by(disk: &dyn Disk, name: BufferName, owner: &BufferOwner) -> Result<bool, DurabilityError> {
    let BufferOwner { database, boot, generation, salt, logger } = *owner;
    let path = name.to_string();
    let Some(found) = BufferHeader::read(disk, &path, Some(salt))? else { return Ok(false) };
    let inode = disk.file_id(&path)?;
    let wanted = BufferHeader { database, boot, generation, logger, number: name.number, inode };
    if found.header != wanted {
        return Ok(false);
    }
    if !found.is_known {
        return Err(DurabilityError::newer(&path, 0));
    }
    Ok(found.is_salted)
}

/// The entries that its word counts; `None` if there are none.
fn read(disk: &dyn Disk, name: BufferName) -> Result<Option<LeftEntries>, DurabilityError> {
    let path = name.to_string();
    let damaged = |detail: &str| {
        let detail = format!("{detail}, and no death of a process leaves that");
        DurabilityError::damaged(&path, FRONT_BYTES as u64, detail)
    };
    let file = disk.open_to_read(&path)?;
    let mut word = [0; 8];
    if file.read_at(&mut word, COUNT_AT as u64)? < word.len() {
        return Err(damaged("the file was cut"));
    }
    let counted = Counted::of_word(u64::from_le_bytes(word));
    if counted.bytes == 0 {
        return Ok(None);
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
    Ok(Some(LeftEntries { name, bytes, entries, epochs }))
}

/// Removes the mapped buffers of a log that `is_needless` names, if they prove to be this database's (I1).
pub(crate) fn remove(
    disk: &dyn Disk,
    logger: u32,
    manifest: &Manifest,
    is_needless: impl Fn(BufferName) -> bool,
) -> Result<(), DiskError> {
    for name in names(disk, logger)?.into_iter().filter(|name| is_needless(*name)) {
        let path = name.to_string();
        let header = BufferHeader::read(disk, &path, None)?;
        let is_ours = match header {
            Some(found) => manifest.check_ours(&path, found.header.database).is_ok(),
            None => disk.open_to_read(&path)?.is_empty()?,
        };
        if is_ours {
            disk.remove(&path)?;
        }
    }
    Ok(())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
