//! Names of the files in a database's folder.
//!
//! Neighbours: segments are made by the loggers, parts and page files by the checkpointers, and found by recovery; the
//! manifest and the lock have one name each.

use ensile_base::Epoch;

use super::text::parse_epoch;
use crate::number;

/// What is on this disk and which epochs count (L4).
pub(crate) const MANIFEST: &str = "MANIFEST";
/// The manifest while it is being written.
pub(crate) const MANIFEST_NEW: &str = "MANIFEST.new";
/// A witness of D (L5).
pub(crate) const HINT: &str = "HINT";
/// What recoveries of this folder have cost.
pub(crate) const RATES: &str = "RATES";
/// Space for the moment when the disk is full.
pub(crate) const RESERVE: &str = "RESERVE";
/// Held by the process that has the database open.
pub(crate) const LOCK: &str = "LOCK";
/// Held by readers of other processes, for which the removal of files waits (I3).
pub(crate) const LEASES: &str = "LEASES";
/// In a folder of a logger or checkpointer: whose it is (I1).
pub(crate) const FOLDER: &str = "FOLDER";
/// That while it is being written.
pub(crate) const FOLDER_NEW: &str = "FOLDER.new";
/// The folder of the archive of closed log files: a link.
pub(crate) const ARCHIVE_FOLDER: &str = "archive";
/// In an archive: which generations its files are of.
pub(crate) const ARCHIVE: &str = "ARCHIVE";
/// That while it is being written.
pub(crate) const ARCHIVE_NEW: &str = "ARCHIVE.new";
/// What the manifest calls the main folder.
pub(crate) const MAIN: &str = ".";

/// The folder of a logger's files: a plain one, or a link to one on another device.
pub(crate) fn log_folder(logger: u32) -> String {
    format!("log{logger}")
}

/// The logger whose folder this is.
pub(crate) fn logger_of(folder: &str) -> Option<u32> {
    let logger = folder.strip_prefix("log")?.parse().ok()?;
    (log_folder(logger) == folder).then_some(logger)
}

/// The folder of a checkpointer's files: as a logger's.
pub(crate) fn checkpoint_folder(checkpointer: u32) -> String {
    format!("checkpoint{checkpointer}")
}

/// The checkpointer whose folder this is.
pub(crate) fn checkpointer_of(folder: &str) -> Option<u32> {
    let checkpointer = folder.strip_prefix("checkpoint")?.parse().ok()?;
    (checkpoint_folder(checkpointer) == folder).then_some(checkpointer)
}

/// One file of one log: `log<logger>/log-<generation>-<number>`, while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentName {
    pub(crate) generation: u64,
    pub(crate) logger: u32,
    pub(crate) number: u64,
}

impl std::fmt::Display for SegmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "log{}/log-{}-{}", self.logger, self.generation, self.number)
    }
}

/// As it is spelled on disk: a closed file's name also says the largest epoch of entries up to its end. That is for
/// people: the file's own blocks are the truth. The file of a generation that others were merged into says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
        // One spelling a file: `log-00-1` is not ours.
        let is_ours = parts.next().is_none() && parsed.to_string().split('/').next_back() == Some(file);
        is_ours.then_some(parsed)
    }
}

impl SegmentFile {
    /// Reads its name with its folder's, as it is displayed.
    pub(crate) fn at(path: &str) -> Option<Self> {
        let (folder, name) = path.split_once('/')?;
        Self::parse(logger_of(folder)?, name)
    }

    /// What an archive calls it: without the end that a closed file's name says, as a crash may leave either spelling.
    pub(crate) fn archived(self) -> Self {
        Self { to: None, ..self }
    }
}

impl From<SegmentName> for SegmentFile {
    fn from(name: SegmentName) -> Self {
        Self { name, to: None, is_merged: false }
    }
}

impl std::fmt::Display for SegmentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name)?;
        self.to.map_or(Ok(()), |to| write!(f, "-to-{to}"))?;
        f.write_str(if self.is_merged { "-merged" } else { "" })
    }
}

/// A log buffer that is mapped: `log<logger>/buffer-<generation>-<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BufferName {
    pub(crate) generation: u64,
    pub(crate) logger: u32,
    pub(crate) number: u64,
}

impl BufferName {
    /// The buffer of this name in the folder of `logger`.
    pub(crate) fn parse(logger: u32, name: &str) -> Option<Self> {
        let (generation, number) = name.strip_prefix("buffer-")?.split_once('-')?;
        let parsed = Self { generation: number::parse(generation)?, logger, number: number::parse(number)? };
        (format!("buffer-{}-{}", parsed.generation, parsed.number) == name).then_some(parsed)
    }
}

impl std::fmt::Display for BufferName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "log{}/buffer-{}-{}", self.logger, self.generation, self.number)
    }
}

/// Which buffers of a log are mapped: `log<logger>/buffers-<generation>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BufferListName {
    pub(crate) generation: u64,
    pub(crate) logger: u32,
}

impl BufferListName {
    /// The list of this name in the folder of `logger`.
    pub(crate) fn parse(logger: u32, name: &str) -> Option<Self> {
        let generation = number::parse(name.strip_prefix("buffers-")?)?;
        (format!("buffers-{generation}") == name).then_some(Self { generation, logger })
    }
}

impl std::fmt::Display for BufferListName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "log{}/buffers-{}", self.logger, self.generation)
    }
}

/// One file of one checkpoint: `checkpoint<c>/ckpt-<number>-<file>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PartName {
    /// The checkpoint's number.
    pub(crate) checkpoint: u64,
    pub(crate) checkpointer: u32,
    pub(crate) file: u32,
}

impl PartName {
    /// The part of this name in the folder of `checkpointer`.
    pub(crate) fn parse(checkpointer: u32, name: &str) -> Option<Self> {
        let (checkpoint, file) = name.strip_prefix("ckpt-")?.split_once('-')?;
        let parsed = Self { checkpoint: number::parse(checkpoint)?, checkpointer, file: file.parse().ok()? };
        (format!("ckpt-{}-{}", parsed.checkpoint, parsed.file) == name).then_some(parsed)
    }

    /// Reads its name with its folder's, as it is displayed.
    pub(crate) fn at(path: &str) -> Option<Self> {
        let (folder, name) = path.split_once('/')?;
        Self::parse(checkpointer_of(folder)?, name)
    }
}

impl std::fmt::Display for PartName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "checkpoint{}/ckpt-{}-{}", self.checkpointer, self.checkpoint, self.file)
    }
}

/// The file of a checkpointer's folder that has pages of pictures: `checkpoint<c>/pages-<n>`. A folder's later one has
/// a larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageFileName {
    /// The checkpointer whose folder it is in.
    pub(crate) folder: u32,
    pub(crate) number: u64,
}

impl PageFileName {
    /// The page file of this name in the folder of `checkpointer`.
    pub(crate) fn parse(checkpointer: u32, name: &str) -> Option<Self> {
        let number = number::parse(name.strip_prefix("pages-")?)?;
        let parsed = Self { folder: checkpointer, number };
        (format!("pages-{number}") == name).then_some(parsed)
    }
}

impl std::fmt::Display for PageFileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "checkpoint{}/pages-{}", self.folder, self.number)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
