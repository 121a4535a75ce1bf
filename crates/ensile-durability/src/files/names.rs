//! Names of the files in a database's folder. Files without a number, such as the manifest, have a constant name.
//!
//! Neighbours: loggers make log files and mapped buffers, checkpointers make parts and page files; recovery, copies and
//! the shipper find the files. `files::manifest` lists the folders of a checkpoint; `checkpoint::disk_space` and
//! `checkpoint::orphans` count space by folder.

use std::fmt::{self, Display};

use ensile_base::Epoch;

use super::text::parse_epoch;
use crate::number;

/// Manifest: the files on this disk, and the epochs that count (L4).
pub(crate) const MANIFEST: &str = "MANIFEST";
/// Manifest during its write.
pub(crate) const MANIFEST_NEW: &str = "MANIFEST.new";
/// Hint: lower bound of D (L5).
pub(crate) const HINT: &str = "HINT";
/// Costs of recoveries of this folder.
pub(crate) const RATES: &str = "RATES";
/// Disk reserve: space for the moment of a full disk.
pub(crate) const RESERVE: &str = "RESERVE";
/// File with the lock of the process that has the database open.
pub(crate) const LOCK: &str = "LOCK";
/// File with the locks of readers in other processes. Removals of files wait for the locks (I3).
pub(crate) const LEASES: &str = "LEASES";
/// Mark of a folder of a logger or checkpointer: the owner of the folder (I1).
pub(crate) const FOLDER: &str = "FOLDER";
/// Mark of a folder during its write.
pub(crate) const FOLDER_NEW: &str = "FOLDER.new";
/// Folder of the archive of closed log files: a link.
pub(crate) const ARCHIVE_FOLDER: &str = "archive";
/// List of an archive: the generations of its files.
pub(crate) const ARCHIVE: &str = "ARCHIVE";
/// List of an archive during its write.
pub(crate) const ARCHIVE_NEW: &str = "ARCHIVE.new";
/// Name of the main folder in the manifest.
pub(crate) const MAIN: &str = ".";

/// Folder of a logger's files: a plain folder, or a link to a folder on another device.
pub(crate) fn log_folder(logger: u32) -> String {
    format!("log{logger}")
}

/// Index of the logger that owns this folder; `None` for any other folder.
pub(crate) fn logger_of(folder: &str) -> Option<u32> {
    let logger = folder.strip_prefix("log")?.parse().ok()?;
    (log_folder(logger) == folder).then_some(logger)
}

/// Folder of a checkpointer's files: a plain folder, or a link to a folder on another device.
pub(crate) fn checkpoint_folder(checkpointer: u32) -> String {
    format!("checkpoint{checkpointer}")
}

/// Index of the checkpointer that owns this folder; `None` for any other folder.
pub(crate) fn checkpointer_of(folder: &str) -> Option<u32> {
    let checkpointer = folder.strip_prefix("checkpoint")?.parse().ok()?;
    (checkpoint_folder(checkpointer) == folder).then_some(checkpointer)
}

/// The parsed name, if it is spelled as the file is. A file has a single spelling: `log-00-1` is a foreign file.
fn if_spelled<N: Display>(parsed: N, file: &str) -> Option<N> {
    debug_assert!(parsed.to_string().contains('/'), "{file} is in a folder");
    let is_ours = parsed.to_string().split_once('/').is_some_and(|(_, own)| own == file);
    is_ours.then_some(parsed)
}

/// Log file, by its numbers. While the file is open, its path is `log<logger>/log-<generation>-<number>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentName {
    pub(crate) generation: u64,
    pub(crate) logger: u32,
    pub(crate) number: u64,
}

impl Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log{}/log-{}-{}", self.logger, self.generation, self.number)
    }
}

/// Log file with its present name on disk. The name of a closed file has the largest epoch `to` of entries up to the
/// end of the file. The epoch is for people: the blocks of the file are the truth. The name ends with `-merged` if
/// generations were merged into the generation of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentFile {
    pub(crate) name: SegmentName,
    pub(crate) to: Option<Epoch>,
    pub(crate) is_merged: bool,
}

impl SegmentFile {
    /// Reads the name of a file in a logger's folder.
    pub(crate) fn parse(logger: u32, file: &str) -> Option<Self> {
        let mut parts = file.strip_prefix("log-")?.split('-');
        let generation = number::parse(parts.next()?)?;
        let number = number::parse(parts.next()?)?;
        let (mut to, mut is_merged) = (None, false);
        match parts.next() {
            None => {}
            Some("to") => to = Some(parse_epoch(parts.next()?)?),
            Some("merged") => is_merged = true,
            Some(_) => return None,
        }
        let parsed = Self { name: SegmentName { generation, logger, number }, to, is_merged };
        if_spelled(parsed, file).filter(|_| parts.next().is_none())
    }

    /// Reads the displayed name, with the folder.
    pub(crate) fn parse_path(path: &str) -> Option<Self> {
        let (folder, name) = path.split_once('/')?;
        Self::parse(logger_of(folder)?, name)
    }

    /// Name of the file in an archive, without the largest epoch. The name is the same before and after the close of
    /// the file.
    pub(crate) fn archive_name(self) -> Self {
        let name = Self { to: None, ..self };
        debug_assert_eq!(Self::parse_path(&name.to_string()), Some(name), "the name reads back");
        name
    }
}

impl From<SegmentName> for SegmentFile {
    fn from(name: SegmentName) -> Self {
        Self { name, to: None, is_merged: false }
    }
}

impl Display for SegmentFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_assert!(self.to.is_none() || !self.is_merged, "no name has both endings: {:?}", self.name);
        write!(f, "{}", self.name)?;
        self.to.map_or(Ok(()), |to| write!(f, "-to-{to}"))?;
        f.write_str(if self.is_merged { "-merged" } else { "" })
    }
}

/// Mapped log buffer: `log<logger>/buffer-<generation>-<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BufferName {
    pub(crate) generation: u64,
    pub(crate) logger: u32,
    pub(crate) number: u64,
}

impl BufferName {
    /// Reads the name of a mapped buffer in the folder of `logger`.
    pub(crate) fn parse(logger: u32, name: &str) -> Option<Self> {
        let (generation, number) = name.strip_prefix("buffer-")?.split_once('-')?;
        let (generation, number) = (number::parse(generation)?, number::parse(number)?);
        if_spelled(Self { generation, logger, number }, name)
    }
}

impl Display for BufferName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log{}/buffer-{}-{}", self.logger, self.generation, self.number)
    }
}

/// List of the mapped buffers of a log: `log<logger>/buffers-<generation>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BufferListName {
    pub(crate) generation: u64,
    pub(crate) logger: u32,
}

impl BufferListName {
    /// Reads the name of a buffer list in the folder of `logger`.
    pub(crate) fn parse(logger: u32, name: &str) -> Option<Self> {
        let generation = number::parse(name.strip_prefix("buffers-")?)?;
        if_spelled(Self { generation, logger }, name)
    }
}

impl Display for BufferListName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log{}/buffers-{}", self.logger, self.generation)
    }
}

/// File of a checkpoint: `checkpoint<c>/ckpt-<number>-<file>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PartName {
    pub(crate) checkpoint: u64,
    pub(crate) checkpointer: u32,
    pub(crate) file: u32,
}

impl PartName {
    /// Reads the name of a checkpoint file in the folder of `checkpointer`.
    pub(crate) fn parse(checkpointer: u32, name: &str) -> Option<Self> {
        let (checkpoint, file) = name.strip_prefix("ckpt-")?.split_once('-')?;
        let (checkpoint, file) = (number::parse(checkpoint)?, file.parse().ok()?);
        if_spelled(Self { checkpoint, checkpointer, file }, name)
    }

    /// Reads the displayed name, with the folder.
    pub(crate) fn parse_path(path: &str) -> Option<Self> {
        let (folder, name) = path.split_once('/')?;
        Self::parse(checkpointer_of(folder)?, name)
    }
}

impl Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint{}/ckpt-{}-{}", self.checkpointer, self.checkpoint, self.file)
    }
}

/// File with pages of pictures in a checkpointer's folder: `checkpoint<c>/pages-<n>`. A later file of the folder has a
/// larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageFileName {
    /// Checkpointer that owns the folder.
    pub(crate) folder: u32,
    pub(crate) number: u64,
}

impl PageFileName {
    /// Reads the name of a page file in the folder of `checkpointer`.
    pub(crate) fn parse(checkpointer: u32, name: &str) -> Option<Self> {
        let number = number::parse(name.strip_prefix("pages-")?)?;
        if_spelled(Self { folder: checkpointer, number }, name)
    }
}

impl Display for PageFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint{}/pages-{}", self.folder, self.number)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
