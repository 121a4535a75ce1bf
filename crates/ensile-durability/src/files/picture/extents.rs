//! The free units of a page file.
//!
//! Invariants: N12: a caller that gives an extent back guarantees that no readable manifest reaches the extent. No unit
//! is free twice, and the file's end is behind the last unit that is not free.
//!
//! Neighbours: a page file's writer takes and gives back extents. A file that is read again begins with the extents
//! that the root reaches.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::block::extent::Extent;

/// Units of the opening block, before a file's first extent.
const OPENING_UNITS: u32 = 1;

/// Free units of one page file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FreeUnits {
    folder: u16,
    /// Lengths of runs of free units, by their first unit. A unit that is not free separates two runs.
    runs: BTreeMap<u32, u32>,
    /// The same runs by size.
    by_size: BTreeSet<(u32, u32)>,
    /// First of the unused units at the file's end: the file may be cut here.
    end: u32,
    free: u64,
}

/// Reason why extents do not fit into a file: an extent or the file is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// Two extents share a unit: the later extent.
    Overlap(Extent),
    /// The extent is not within the file.
    BehindTheEnd(Extent),
}

impl FreeUnits {
    /// The units of a file with an opening block alone.
    pub(crate) fn of_new(folder: u16) -> Self {
        Self { folder, runs: BTreeMap::new(), by_size: BTreeSet::new(), end: OPENING_UNITS, free: 0 }
    }

    /// The units of a file of `units` units with these reached extents. The last unit may be cut short. The error is an
    /// extent that overlaps another extent, or is behind the end.
    pub(crate) fn of_reached(folder: u16, units: u32, mut reached: Vec<Extent>) -> Result<Self, Misplaced> {
        reached.sort_unstable();
        let mut free = Self::of_new(folder);
        debug_assert_eq!(free.end, OPENING_UNITS);
        for extent in reached {
            assert_eq!(extent.folder, folder, "an extent of another file");
            if extent.first < free.end {
                return Err(Misplaced::Overlap(extent));
            }
            if extent.end() > units {
                return Err(Misplaced::BehindTheEnd(extent));
            }
            let gap = extent.first - free.end;
            if gap > 0 {
                free.insert(free.end, gap);
            }
            free.end = extent.end();
        }
        Ok(free)
    }

    /// Takes the shortest run that has `units` units, or units at the end if no run is long enough. `None` if the file
    /// would be too long.
    pub(crate) fn take(&mut self, units: u32) -> Option<Extent> {
        assert!(units > 0, "an extent has a unit");
        let fitting = self.by_size.range((units, 0)..).next().copied();
        let first = match fitting {
            Some((size, first)) => {
                self.remove(first, size);
                if size > units {
                    self.insert(first + units, size - units);
                }
                first
            }
            None => {
                let first = self.end;
                self.end = first.checked_add(units)?;
                first
            }
        };
        let extent = Extent { folder: self.folder, first, units };
        debug_assert!(extent.is_whole() && extent.end() <= self.end);
        Some(extent)
    }

    /// Takes every free unit, and the units between the end and the end of a file of `units` units.
    pub(crate) fn take_all(&mut self, units: u32) -> Vec<Extent> {
        let folder = self.folder;
        let runs = std::mem::take(&mut self.runs).into_iter();
        let mut taken: Vec<Extent> = runs.map(|(first, units)| Extent { folder, first, units }).collect();
        self.by_size.clear();
        self.free = 0;
        if units > self.end {
            taken.push(Extent { folder, first: self.end, units: units - self.end });
            self.end = units;
        }
        debug_assert!(taken.iter().all(|extent| extent.is_whole() && extent.end() <= self.end));
        taken
    }

    /// Makes the units of `extent` free again.
    pub(crate) fn give_back(&mut self, extent: Extent) {
        assert!(extent.folder == self.folder && extent.is_whole(), "{extent:?} is of this file");
        assert!(extent.first >= OPENING_UNITS && extent.end() <= self.end, "{extent:?} was taken");
        let (mut first, mut end) = (extent.first, extent.end());
        if let Some((&before, &size)) = self.runs.range(..=extent.first).next_back() {
            assert!(before + size <= extent.first, "{extent:?} is free already");
            if before + size == extent.first {
                self.remove(before, size);
                first = before;
            }
        }
        if let Some((&behind, &size)) = self.runs.range(extent.first..).next() {
            assert!(behind >= extent.end(), "{extent:?} is free already");
            if behind == extent.end() {
                self.remove(behind, size);
                end = behind + size;
            }
        }
        if end == self.end {
            self.end = first;
        } else {
            self.insert(first, end - first);
        }
    }

    /// The unit behind the last used unit.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// Number of free units before the end.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    fn insert(&mut self, first: u32, units: u32) {
        let is_new = self.runs.insert(first, units).is_none() && self.by_size.insert((units, first));
        assert!(is_new && units > 0, "a run at {first} twice");
        self.free += u64::from(units);
    }

    fn remove(&mut self, first: u32, units: u32) {
        let was_there = self.runs.remove(&first) == Some(units) && self.by_size.remove(&(units, first));
        assert!(was_there, "no run at {first}");
        self.free -= u64::from(units);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
