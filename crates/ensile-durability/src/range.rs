//! Ranges of keys of a cycling checkpoint (SiloR §8), by their starts. A range ends where the next range begins,
//! perhaps in a later section. The first range begins before all keys, and the last range has no end.
//!
//! Invariant K4: every key of a section is in exactly one range, even if the section is added later.
//!
//! Neighbours: `files::manifest::installed_checkpoint` lists ranges, each turn of `checkpoint` walks a range, and
//! `recovery` checks that loaded entries are in their range.

/// Start of a range. Keys are compared by their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeStart {
    /// Section of the state: for the engine, a table.
    pub section: u32,
    /// First key of the range, in the section; empty for the section's beginning.
    pub key: Box<[u8]>,
}

impl RangeStart {
    /// True if this is the start of the first range, before all keys.
    pub(crate) fn is_first(&self) -> bool {
        self.section == 0 && self.key.is_empty()
    }
}

/// Range of an installed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) start: RangeStart,
    /// Start of the next range; `None` if the range has no end.
    pub(crate) end: Option<RangeStart>,
}

impl KeyRange {
    /// True if the range may hold entries of this section.
    pub(crate) fn has_section(&self, section: u32) -> bool {
        let is_below_end = |end: &RangeStart| (section, false) < (end.section, !end.key.is_empty());
        self.start.section <= section && self.end.as_ref().is_none_or(is_below_end)
    }

    /// True if the range holds this key of this section.
    pub(crate) fn has(&self, section: u32, key: &[u8]) -> bool {
        let is_of = |start: &RangeStart| (start.section, &*start.key) <= (section, key);
        is_of(&self.start) && !self.end.as_ref().is_some_and(is_of)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{KeyRange, RangeStart};

    fn start(section: u32, key: &[u8]) -> RangeStart {
        RangeStart { section, key: key.into() }
    }

    #[test]
    fn k4_each_key_is_in_one_of_the_ranges_that_tile_all_sections() {
        let starts = [start(0, b""), start(1, b"m"), start(1, b"mm"), start(3, b""), start(3, b"\0")];
        let end = |at: usize| starts.get(at + 1).cloned();
        let ranges: Vec<_> =
            (0..starts.len()).map(|at| KeyRange { start: starts[at].clone(), end: end(at) }).collect();
        for section in 0..5 {
            for key in [&b""[..], b"\0", b"l\xff", b"m", b"m\0", b"mm", b"z"] {
                let found: Vec<_> = (0..5).filter(|at| ranges[*at].has(section, key)).collect();
                assert_eq!(found.len(), 1, "section {section} key {key:?}");
                assert!(ranges[found[0]].has_section(section));
            }
        }
        let sections = |at: usize| (0..5).filter(|section| ranges[at].has_section(*section)).collect();
        let found: Vec<Vec<u32>> = (0..5).map(sections).collect();
        assert_eq!(found, [vec![0, 1], vec![1], vec![1, 2], vec![3], vec![3, 4]]);
    }
}
