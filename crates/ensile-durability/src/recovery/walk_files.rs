//! Files of an installed checkpoint, written by walks: by a single walk, or by a walk per range.
//!
//! Invariants:
//! - K1: every file is present and whole, and the files of a walk match the walk's seal.
//! - K4: the files of a range have only keys of that range. So no key comes from two ranges.
//!
//! Neighbours: `load` hands entries over; `files::checkpoint::reader` reads files.

use ensile_disk::Disk;

use crate::files::checkpoint::end_block::seal;
use crate::files::checkpoint::reader::PartReader;
use crate::files::manifest::installed_checkpoint::{FuzzyCheckpoint, InstalledCheckpoint};
use crate::files::names::PartName;
use crate::range::KeyRange;
use crate::{Entry, Recoverable, Result};

/// Walk, with the range of keys in its files; `None` for every key.
#[derive(Debug)]
struct Walked {
    walked: FuzzyCheckpoint,
    keys: Option<KeyRange>,
}

#[derive(Debug)]
pub(super) struct WalkedFiles {
    walks: Vec<Walked>,
    /// Index of the file's walk, and name of the file: by walk, in the order of the seals.
    parts: Vec<(usize, PartName)>,
}

impl WalkedFiles {
    /// Opens every file once, as a check that no file is missing.
    pub(super) fn open(disk: &dyn Disk, installed: &InstalledCheckpoint) -> Result<Self> {
        let walks = installed.completed_walks().into_iter();
        let walks: Vec<_> = walks.map(|(walked, keys)| Walked { walked: walked.clone(), keys }).collect();
        assert!(!walks.is_empty(), "it has files that were written whole");
        let mut parts = Vec::new();
        for (at, Walked { walked, .. }) in walks.iter().enumerate() {
            let (files, before) = (&walked.files, parts.len());
            parts.extend(files.parts().map(|part| (at, part)));
            let count = files.checkpointers as usize * files.files as usize;
            assert_eq!(parts.len() - before, count, "each file is loaded");
        }
        let files = Self { walks, parts };
        (0..files.count()).try_for_each(|item| files.reader(disk, item).map(drop))?;
        Ok(files)
    }

    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn name(&self, item: usize) -> String {
        self.parts[item].1.to_string()
    }

    pub(super) fn reader(&self, disk: &dyn Disk, item: usize) -> Result<PartReader> {
        let (walk, part) = self.parts[item];
        assert_eq!(part.checkpoint, self.walks[walk].walked.files.number, "a file is of its walk");
        PartReader::open(disk, part, &self.walks[walk].walked)
    }

    /// Checks that a file may hold these entries of a section (K4). The error is the reason against it.
    pub(super) fn check_keys(
        &self,
        item: usize,
        section: u32,
        entries: &[Entry<'_>],
        target: &dyn Recoverable,
    ) -> Result<(), &'static str> {
        assert!(item < self.count(), "it is one of the files");
        let Some(keys) = &self.walks[self.parts[item].0].keys else { return Ok(()) };
        if !keys.has_section(section) {
            return Err("the block is of a section that its range does not reach");
        }
        let is_outside =
            |entry: &Entry<'_>| target.checkpoint_key(entry.body).is_some_and(|key| !keys.has(section, key));
        if entries.iter().any(is_outside) { Err("an entry's key is not in its range") } else { Ok(()) }
    }

    /// True if the header checksums of all end blocks, in the order of the files, match the seals.
    pub(super) fn are_sealed(&self, ends: &[u32]) -> bool {
        assert_eq!(ends.len(), self.count(), "each file has its end");
        let of = |walk: usize| {
            let ends = self.parts.iter().zip(ends).filter(move |((of, _), _)| *of == walk);
            seal(ends.map(|(_, end)| *end))
        };
        self.walks.iter().enumerate().all(|(at, Walked { walked, .. })| walked.files.seal == of(at))
    }
}
