//! Comparison of the versions beside the pages of a picture with the pages, and with each other, in bounded memory:
//! N11: all versions of a key have one TID. A caller that only verifies keeps nothing but these keys.
//!
//! ```text
//! blocks of pending removes --> the keys of a span of the directory's parts --> each page of these parts
//!            ^                                                                        |
//!            +---- the blocks are read once more for the next span, if there is one --+
//! ```
//! A span has as many directory parts as fit into the limit, and at least one: the rows of some hundred pages.
//!
//! Neighbours: a backup's check and an examination's load feed blocks first, and then the parts in order.

use ensile_base::Tid;
use ensile_base::limits::DISPLACED_KEYS_BYTES_MAX;

use crate::files::picture::reader::{PageBuffers, PictureReader, ReadEntries};
use crate::files::picture::root::DirectoryPlace;
use crate::{DurabilityError, Entry, Recoverable, Result};

const IN_PAGE: &str = "a key of it stands beside the pages too, with another TID (N11)";
const TWICE: &str = "a key of it stands beside the pages twice, with two TIDs (N11)";

#[derive(Clone, Copy, Debug)]
struct BesideKey {
    section: u32,
    /// Offset of the key in the span's key bytes.
    from: usize,
    bytes: u32,
    tid: Tid,
    /// Index of the version's block.
    block: u32,
}

/// The keys beside the pages of a span of the directory's parts.
#[derive(Debug)]
pub(crate) struct BesideKeys {
    bytes_max: usize,
    /// First part of the span, and the part after the last one.
    from: usize,
    until: usize,
    keys: Vec<u8>,
    versions: Vec<BesideKey>,
    is_sorted: bool,
}

impl Default for BesideKeys {
    fn default() -> Self {
        Self::with_limit(DISPLACED_KEYS_BYTES_MAX)
    }
}

impl BesideKeys {
    /// Keys in at most `bytes_max` bytes, unless the keys of a single part need more.
    pub(crate) fn with_limit(bytes_max: usize) -> Self {
        let (keys, versions) = (Vec::new(), Vec::new());
        Self { bytes_max, from: 0, until: usize::MAX, keys, versions, is_sorted: false }
    }

    /// Adds the keys of a block. After the last block, an error names a key with two TIDs.
    pub(crate) fn add_block(
        &mut self,
        reader: &PictureReader,
        block: usize,
        read: &ReadEntries<'_>,
        target: &dyn Recoverable,
    ) -> Result<()> {
        assert!(self.from == 0 && !self.is_sorted, "blocks come before parts");
        self.take(reader, block, read, target)?;
        if block + 1 == reader.root().removes_block_count() { self.sort(reader) } else { Ok(()) }
    }

    /// Prepares for the pages of `part`. Reads the blocks once more if the keys of the part's span are not in memory.
    pub(crate) fn turn_to(
        &mut self,
        reader: &PictureReader,
        part: usize,
        target: &dyn Recoverable,
    ) -> Result<()> {
        assert!(part >= self.from, "parts come in order");
        if part >= self.until {
            (self.from, self.until, self.is_sorted) = (part, usize::MAX, false);
            self.keys.clear();
            self.versions.clear();
            let mut buffers = PageBuffers::default();
            for block in 0..reader.root().removes_block_count() {
                let read = reader.removes_again(block, &mut buffers);
                match read.and_then(|read| self.take(reader, block, &read, target)) {
                    // The first read has reported the damage.
                    Ok(()) | Err(DurabilityError::Damaged { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        if self.is_sorted { Ok(()) } else { self.sort(reader) }
    }

    /// Compares a page's entries with the keys, behind [`BesideKeys::turn_to`]. The error is the page's fault.
    pub(crate) fn compare(
        &self,
        section: u32,
        entries: &[Entry<'_>],
        target: &dyn Recoverable,
    ) -> Result<(), &'static str> {
        assert!(self.is_sorted, "N11: all blocks came before");
        if self.versions.is_empty() {
            return Ok(());
        }
        let mut at = None;
        for Entry { tid, body } in entries {
            let Some(key) = target.checkpoint_key(body) else { continue };
            let is_before = |version: &BesideKey| (version.section, self.key(version)) < (section, key);
            let mut next = at.unwrap_or_else(|| self.versions.partition_point(is_before));
            // A page's keys ascend (N17).
            while self.versions.get(next).is_some_and(is_before) {
                next += 1;
            }
            at = Some(next);
            // The versions of a key have one TID, or `sort` would have failed.
            let version = self.versions.get(next);
            let is_it = |version: &&BesideKey| (version.section, self.key(version)) == (section, key);
            if version.filter(is_it).is_some_and(|version| version.tid != *tid) {
                return Err(IN_PAGE);
            }
        }
        Ok(())
    }

    fn key(&self, version: &BesideKey) -> &[u8] {
        &self.keys[version.from..version.from + version.bytes as usize]
    }

    /// Adds the keys of a block that are within the span.
    fn take(
        &mut self,
        reader: &PictureReader,
        block: usize,
        read: &ReadEntries<'_>,
        target: &dyn Recoverable,
    ) -> Result<()> {
        assert!(!self.is_sorted, "the span is being filled");
        let parts = &reader.root().parts;
        let sections = read.by_section(target);
        let sections = sections.map_err(|why| DurabilityError::damaged_file(read.file, read.offset, why))?;
        for (section, entries) in sections {
            for Entry { tid, body } in entries {
                let Some(key) = target.checkpoint_key(body) else { continue };
                let is_behind = |part: usize| parts.get(part).is_some_and(|at| starts(at) <= (section, key));
                // Keys before the first part belong to the first part's span.
                if is_behind(self.until) || (self.from > 0 && !is_behind(self.from)) {
                    continue;
                }
                let (from, bytes) = (self.keys.len(), key.len() as u32);
                self.keys.extend_from_slice(key);
                self.versions.push(BesideKey { section, from, bytes, tid, block: block as u32 });
            }
        }
        while self.bytes() > self.bytes_max && self.until.min(parts.len()) > self.from + 1 {
            self.end_earlier(parts);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.keys.len() + self.versions.len() * size_of::<BesideKey>()
    }

    /// Sorts the versions by key, and versions of one key by block.
    fn order(&mut self) {
        let mut versions = std::mem::take(&mut self.versions);
        let of = |version: &BesideKey| (version.section, self.key(version), version.block);
        versions.sort_unstable_by(|one, other| of(one).cmp(&of(other)));
        self.versions = versions;
    }

    /// Shortens the span to about half of the keys, in whole parts. The span keeps its first part.
    fn end_earlier(&mut self, parts: &[DirectoryPlace]) {
        let before = self.until.min(parts.len());
        assert!(before > self.from + 1, "it keeps its first part");
        self.order();
        let middle = &self.versions[self.versions.len() / 2];
        let middle = (middle.section, self.key(middle));
        let part = parts.partition_point(|part| starts(part) <= middle).saturating_sub(1);
        let until = part.clamp(self.from + 1, before - 1);
        let end = starts(&parts[until]);
        let stay = self.versions.partition_point(|version| (version.section, self.key(version)) < end);
        self.versions.truncate(stay);
        let mut keys = Vec::new();
        for version in &mut self.versions {
            let key = version.from..version.from + version.bytes as usize;
            version.from = keys.len();
            keys.extend_from_slice(&self.keys[key]);
        }
        (self.keys, self.until) = (keys, until);
        assert!(self.until > self.from && self.until < before, "it is shorter, and has a part");
    }

    /// Sorts the span's keys, which are complete, and compares equal keys with each other.
    fn sort(&mut self, reader: &PictureReader) -> Result<()> {
        assert!(!self.is_sorted, "once a span");
        self.order();
        self.is_sorted = true;
        for pair in self.versions.windows(2) {
            let (one, other) = (&pair[0], &pair[1]);
            let is_same = one.section == other.section && self.key(one) == self.key(other);
            if is_same && one.tid != other.tid {
                return Err(reader.damaged_removes(other.block as usize, TWICE));
            }
        }
        Ok(())
    }
}

fn starts(part: &DirectoryPlace) -> (u32, &[u8]) {
    (part.bound.section, &part.bound.first_key)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
