//! Names of the files in a database's folder.
//!
//! Neighbours: segments are made by the loggers and found by recovery; the manifest and the lock have one name each.

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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::SegmentName;

    #[test]
    fn names_are_spelled_one_way() {
        let name = SegmentName { generation: 12, logger: 3, number: 45 };
        assert_eq!(SegmentName::parse("log-3-12-45"), Some(name));
        for other in ["log-3-12", "log-3-12-45-6", "log-03-12-45", "log-3-12-x", "MANIFEST", "log--1-1"] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }
}
