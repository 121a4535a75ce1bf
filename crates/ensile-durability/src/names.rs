//! Names of the files in a database's folder.
//!
//! Neighbours: segments are made by the loggers and found by recovery; the manifest and the lock have one name each.

use ensile_base::Epoch;

/// What is on this disk and which epochs count (L4).
pub(crate) const MANIFEST: &str = "MANIFEST";
/// The manifest while it is being written.
pub(crate) const MANIFEST_NEW: &str = "MANIFEST.new";
/// Held by the process that has the database open.
pub(crate) const LOCK: &str = "LOCK";

/// The folder of a logger's files: a plain one, or a link to one on another device.
pub(crate) fn log_folder(logger: u32) -> String {
    format!("log{logger}")
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

/// As it is spelled on disk: a closed file's name also says the largest epoch of entries up to its end. That is for people:
/// the file's own blocks are the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentFile {
    pub(crate) name: SegmentName,
    pub(crate) to: Option<Epoch>,
}

impl SegmentFile {
    /// Reads the name of a file in a logger's folder.
    pub(crate) fn parse(logger: u32, file: &str) -> Option<Self> {
        let mut parts = file.strip_prefix("log-")?.split('-');
        let generation = parts.next()?.parse().ok()?;
        let number = parts.next()?.parse().ok()?;
        let to = match parts.next() {
            None => None,
            Some("to") => {
                Some(Epoch::new(parts.next()?.parse().ok().filter(|to| *to < Epoch::MAX.number())?))
            }
            Some(_) => return None,
        };
        let parsed = Self { name: SegmentName { generation, logger, number }, to };
        // One spelling a file: `log-00-1` is not ours.
        let is_ours = parts.next().is_none() && parsed.to_string().split('/').next_back() == Some(file);
        is_ours.then_some(parsed)
    }
}

impl From<SegmentName> for SegmentFile {
    fn from(name: SegmentName) -> Self {
        Self { name, to: None }
    }
}

impl std::fmt::Display for SegmentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name)?;
        self.to.map_or(Ok(()), |to| write!(f, "-to-{to}"))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{SegmentFile, SegmentName};
    use ensile_base::Epoch;

    #[test]
    fn names_are_spelled_one_way() {
        let name = SegmentName { generation: 12, logger: 3, number: 45 };
        assert_eq!(SegmentFile::parse(3, "log-12-45"), Some(SegmentFile::from(name)));
        let closed = SegmentFile { name, to: Some(Epoch::new(678)) };
        assert_eq!(SegmentFile::parse(3, "log-12-45-to-678"), Some(closed));
        assert_eq!(closed.to_string(), "log3/log-12-45-to-678");
        let most = format!("log-1-1-to-{}", Epoch::MAX.number());
        let others =
            ["log-12", "log-12-45-6", "log-12-45-to", "log-12-45-to-6-7", "log-012-45", "log-12-x", "log--1"];
        for other in others.into_iter().chain(["MANIFEST", "log-12-45-to-06", &most]) {
            assert_eq!(SegmentFile::parse(3, other), None, "{other}");
        }
    }
}
