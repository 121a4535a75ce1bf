//! Names of the files in a database's folder.
//!
//! Neighbours: segments are made by the loggers, parts by the checkpointers, and found by recovery; the manifest and the
//! lock have one name each.

/// What is on this disk and which epochs count (L4).
pub(crate) const MANIFEST: &str = "MANIFEST";
/// The manifest while it is being written.
pub(crate) const MANIFEST_NEW: &str = "MANIFEST.new";
/// Held by the process that has the database open.
pub(crate) const LOCK: &str = "LOCK";

/// One file of one log: `log-<logger>-<generation>-<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentName {
    pub(crate) generation: u64,
    pub(crate) logger: u32,
    pub(crate) number: u64,
}

impl SegmentName {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("log-")?.split('-');
        let logger = parts.next()?.parse().ok()?;
        let generation = parts.next()?.parse().ok()?;
        let number = parts.next()?.parse().ok()?;
        let parsed = Self { generation, logger, number };
        // One spelling a file: `log-00-1-1` is not ours.
        (parts.next().is_none() && parsed.to_string() == name).then_some(parsed)
    }
}

impl std::fmt::Display for SegmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "log-{}-{}-{}", self.logger, self.generation, self.number)
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
    /// The folder of a checkpointer.
    pub(crate) fn folder(checkpointer: u32) -> String {
        format!("checkpoint{checkpointer}")
    }

    /// The part of this name in the folder of `checkpointer`.
    pub(crate) fn parse(checkpointer: u32, name: &str) -> Option<Self> {
        let (checkpoint, file) = name.strip_prefix("ckpt-")?.split_once('-')?;
        let parsed = Self { checkpoint: checkpoint.parse().ok()?, checkpointer, file: file.parse().ok()? };
        (format!("ckpt-{}-{}", parsed.checkpoint, parsed.file) == name).then_some(parsed)
    }
}

impl std::fmt::Display for PartName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "checkpoint{}/ckpt-{}-{}", self.checkpointer, self.checkpoint, self.file)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{PartName, SegmentName};

    #[test]
    fn parts_of_a_checkpoint_are_spelled_one_way() {
        let part = PartName { checkpoint: 7, checkpointer: 2, file: 11 };
        assert_eq!(part.to_string(), format!("{}/ckpt-7-11", PartName::folder(2)));
        assert_eq!(PartName::parse(2, "ckpt-7-11"), Some(part));
        for other in ["ckpt-7", "ckpt-07-11", "ckpt-7-11-1", "ckpt-7-+11", "ckpt--1-1", "log-0-1-1"] {
            assert_eq!(PartName::parse(2, other), None, "{other}");
        }
    }

    #[test]
    fn names_are_spelled_one_way() {
        let name = SegmentName { generation: 12, logger: 3, number: 45 };
        assert_eq!(SegmentName::parse("log-3-12-45"), Some(name));
        for other in ["log-3-12", "log-3-12-45-6", "log-03-12-45", "log-3-12-x", "MANIFEST", "log--1-1"] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }
}
