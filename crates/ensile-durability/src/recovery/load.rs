//! Load of the installed checkpoint: file by file (SiloR §5.1), or a picture, by parts of its directory (SIREN §3.4).
//!
//! Invariants:
//! - K1: every file is present and whole, and matches the manifest's seal. K4: a key comes from its range's files.
//! - N10: exactly the blocks that a picture's root reaches are loaded. Before the first row, the state learns the
//!   beginnings of the pages, and the rows that pages lack.
//! - N11: without a state that keeps rows, `load` compares keys beside pages with the pages' keys.
//!
//! Neighbours: `replay_scheduler` assigns items to threads; an examination and a repair load all items.

use std::ops::Range;

use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};
use ensile_disk::Disk;

use crate::checkpoint::picture::version_check::BesideKeys;
use crate::files::checkpoint::end_block::seal;
use crate::files::checkpoint::reader::PartReader;
use crate::files::manifest::installed_checkpoint::{FuzzyCheckpoint, InstalledCheckpoint};
use crate::files::names::{MANIFEST, PartName};
use crate::files::picture::loaded_picture::LoadedPicture;
use crate::files::picture::reader::{PageBuffers, PictureReader, ReadEntries};
use crate::range::KeyRange;
use crate::recoverable::{NOT_TAKEN, Refused};
use crate::store::folders;
use crate::{DurabilityError, Entry, Recoverable, Result};

/// Walk, with the range of keys in its files; `None` for every key.
#[derive(Debug)]
struct Walked {
    walked: FuzzyCheckpoint,
    keys: Option<KeyRange>,
}

#[derive(Debug)]
struct WalkedFiles {
    walks: Vec<Walked>,
    /// Index of the file's walk, and name of the file: by walk, in the order of the seals.
    parts: Vec<(usize, PartName)>,
}

impl WalkedFiles {
    /// Opens every file once, as a check that no file is missing.
    fn open(disk: &dyn Disk, installed: &InstalledCheckpoint) -> Result<Self> {
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

    fn count(&self) -> usize {
        self.parts.len()
    }

    fn name(&self, item: usize) -> String {
        self.parts[item].1.to_string()
    }

    fn reader(&self, disk: &dyn Disk, item: usize) -> Result<PartReader> {
        let (walk, part) = self.parts[item];
        assert_eq!(part.checkpoint, self.walks[walk].walked.files.number, "a file is of its walk");
        PartReader::open(disk, part, &self.walks[walk].walked)
    }

    /// Checks that a file may hold these entries of a section (K4). The error is the reason against it.
    fn check_keys(
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
    fn are_sealed(&self, ends: &[u32]) -> bool {
        assert_eq!(ends.len(), self.count(), "each file has its end");
        let of = |walk: usize| {
            let ends = self.parts.iter().zip(ends).filter(move |((of, _), _)| *of == walk);
            seal(ends.map(|(_, end)| *end))
        };
        self.walks.iter().enumerate().all(|(at, Walked { walked, .. })| walked.files.seal == of(at))
    }
}

#[derive(Debug)]
struct Loaded {
    items: usize,
    entries: u64,
    bytes: u64,
    /// Header checksums of end blocks, in the order of the files.
    ends: Vec<u32>,
}

/// Source of a load. An item is a file, a part of a picture's directory with its pages, or a block beside the pages.
#[derive(Debug)]
enum LoadSource {
    Nothing,
    Files(WalkedFiles),
    Picture(Box<PictureReader>),
}

impl LoadSource {
    fn items(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Files(files) => files.count(),
            // An empty picture has one item too: the check of the root's counts follows the last item.
            Self::Picture(reader) => (reader.root().parts.len() + reader.root().removes_block_count()).max(1),
        }
    }
}

#[derive(Debug)]
pub(super) struct Load {
    checkpoint: Option<InstalledCheckpoint>,
    source: LoadSource,
    /// Comparison of keys beside the pages with the pages' keys (N11), for a state without rows, blocks first.
    beside: Option<Mutex<BesideKeys>>,
    /// Number of checkpointers that the database will have. Pages in folders beyond that number are to be moved.
    checkpointers: usize,
    /// True if the state marks changed pages; `None` until the state has learned the beginnings of the pages.
    is_marked: Mutex<Option<bool>>,
    /// Counts so far. Threads raise the counts under this lock.
    loaded: Mutex<Loaded>,
}

impl Load {
    /// Checks that every file of the checkpoint is present, and reads a picture's root.
    pub(super) fn new(disk: &dyn Disk, checkpoint: Option<InstalledCheckpoint>) -> Result<Self> {
        if let Some(of) = &checkpoint {
            // An unmounted device is reported before its files are reported missing.
            of.folders().iter().try_for_each(|folder| folders::check(disk, folder).map(drop))?;
        }
        let (mut ends, mut bytes) = (Vec::new(), 0);
        let source = match &checkpoint {
            None => LoadSource::Nothing,
            Some(InstalledCheckpoint::Picture(picture)) => {
                let reader = PictureReader::open(disk, picture)?;
                bytes = reader.root_bytes();
                LoadSource::Picture(Box::new(reader))
            }
            Some(of) => {
                let files = WalkedFiles::open(disk, of)?;
                ends = vec![0; files.count()];
                LoadSource::Files(files)
            }
        };
        let loaded = Loaded { items: 0, entries: 0, bytes, ends };
        let (beside, is_marked, checkpointers) = (None, Mutex::default(), usize::MAX);
        Ok(Self { checkpoint, source, beside, checkpointers, is_marked, loaded: Mutex::new(loaded) })
    }

    /// This load, for a database with the given number of checkpointers; 0 if the number is unknown.
    pub(super) fn of_database_with(self, checkpointers: usize) -> Self {
        Self { checkpointers: if checkpointers == 0 { usize::MAX } else { checkpointers }, ..self }
    }

    /// This load, for a state that may keep no rows: the load compares TIDs in its place (N11). Items come in order.
    pub(super) fn with_version_check(self) -> Self {
        assert_eq!(self.loaded.lock().items, 0, "N11: from the first item on");
        let is_picture = self.picture().is_some_and(|reader| reader.root().removes_block_count() > 0);
        Self { beside: is_picture.then(Mutex::default), ..self }
    }

    pub(super) fn checkpoint(&self) -> Option<&InstalledCheckpoint> {
        self.checkpoint.as_ref()
    }

    /// Epoch below which every entry is in the checkpoint, or discarded by the checkpoint (K1).
    pub(super) fn low(&self) -> Epoch {
        self.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::redo_epoch)
    }

    pub(super) fn bytes_total(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, InstalledCheckpoint::bytes)
    }

    pub(super) fn loaded_totals(&self) -> (u64, u64) {
        let loaded = self.loaded.lock();
        (loaded.bytes, loaded.entries)
    }

    pub(super) fn picture(&self) -> Option<&PictureReader> {
        if let LoadSource::Picture(reader) = &self.source { Some(reader) } else { None }
    }

    /// Basis of the next picture, once all items are loaded; `None` if the checkpoint is no picture.
    pub(super) fn into_loaded_picture(self) -> Option<LoadedPicture> {
        let is_marked = self.is_marked.into_inner().unwrap_or_default();
        let LoadSource::Picture(reader) = self.source else { return None };
        reader.into_loaded(is_marked.then_some(self.checkpointers))
    }

    pub(super) fn items(&self) -> Range<usize> {
        0..self.source.items()
    }

    pub(super) fn remaining_items(&self) -> usize {
        self.source.items() - self.loaded.lock().items
    }

    /// Loads an item. After the last item, compares the whole load with the manifest.
    pub(super) fn load(&self, item: usize, disk: &dyn Disk, target: &dyn Recoverable) -> Result<()> {
        let is_whole = self.load_more(item, disk, &mut None, u64::MAX, target)?;
        assert!(is_whole, "no file has more bytes");
        Ok(())
    }

    /// Loads about `bytes` bytes of a file from the position of `part`, or an item of a picture. True at its end.
    pub(super) fn load_more(
        &self,
        item: usize,
        disk: &dyn Disk,
        part: &mut Option<PartReader>,
        bytes: u64,
        target: &dyn Recoverable,
    ) -> Result<bool> {
        let of = self.checkpoint.as_ref().expect("its items are listed");
        match &self.source {
            LoadSource::Nothing => unreachable!("there is no item"),
            LoadSource::Files(files) => {
                let mut reader = part.take().map_or_else(|| files.reader(disk, item), Ok)?;
                let Some(end) = self.load_rows(files, item, &mut reader, bytes, target)? else {
                    *part = Some(reader);
                    return Ok(false);
                };
                self.loaded.lock().ends[item] = end;
            }
            LoadSource::Picture(reader) => self.load_item(reader, item, target)?,
        }
        let mut loaded = self.loaded.lock();
        assert!(loaded.items < self.source.items(), "an item is loaded once");
        if loaded.items + 1 == self.source.items() {
            self.check_whole(of, &loaded)?;
        }
        loaded.items += 1;
        Ok(true)
    }

    fn check_whole(&self, of: &InstalledCheckpoint, loaded: &Loaded) -> Result<()> {
        assert_eq!(loaded.items + 1, self.source.items(), "N10: all that there is");
        let is_sealed = match &self.source {
            LoadSource::Files(files) => files.are_sealed(&loaded.ends),
            LoadSource::Picture(reader) => reader.check_reached().map(|()| true)?,
            LoadSource::Nothing => true,
        };
        let is_counted = (loaded.entries, loaded.bytes) == (of.entries(), of.bytes());
        if is_sealed && is_counted {
            return Ok(());
        }
        let detail = "the checkpoint's files are whole, but not those that it names: they, or it, are of another moment or \
                      database, and only those of one copy go together";
        Err(DurabilityError::damaged_file(MANIFEST, 0, detail))
    }

    /// Loads a part of a picture's directory with its pages, or a block of entries left beside the pages.
    fn load_item(&self, reader: &PictureReader, item: usize, target: &dyn Recoverable) -> Result<()> {
        reader.check_kind(target.entries())?;
        // The state learns the beginnings once, before the first item: other threads wait for the lock.
        self.is_marked.lock().get_or_insert_with(|| reader.name_pages(target, self.checkpointers));
        let (parts, removes) = (&reader.root().parts, reader.root().removes_block_count());
        // The item is a part, or a block; blocks follow the parts.
        let item = match &self.beside {
            Some(_) => (item + parts.len()) % (parts.len() + removes),
            None => item,
        };
        let Some(part) = parts.get(item) else {
            let block = item - parts.len();
            if block == removes {
                return Ok(());
            }
            let mut buffers = PageBuffers::default();
            let read = reader.removes(block, &mut buffers)?;
            self.load_entries(&read, target)?;
            let beside = self.beside.as_ref();
            return beside.map_or(Ok(()), |beside| beside.lock().add_block(reader, block, &read, target));
        };
        self.beside.as_ref().map_or(Ok(()), |beside| beside.lock().turn_to(reader, item, target))?;
        reader.pages_of(item, &mut |page| self.load_entries(page, target))?;
        self.loaded.lock().bytes += part.place.extent.bytes();
        Ok(())
    }

    fn load_entries(&self, read: &ReadEntries<'_>, target: &dyn Recoverable) -> Result<()> {
        let damaged = |detail| DurabilityError::damaged_file(read.file, read.offset, detail);
        for (section, entries) in read.by_section(target).map_err(damaged)? {
            let outcome = if read.are_displaced() {
                target.load_displaced(section, &entries)
            } else {
                target.load(section, &entries)
            };
            told_where(outcome, &entries, read.file, read.offset)?;
            if let Some(beside) = self.beside.as_ref().filter(|_| !read.are_displaced()) {
                beside.lock().compare(section, &entries, target).map_err(damaged)?;
            }
        }
        let mut loaded = self.loaded.lock();
        loaded.bytes += read.bytes;
        loaded.entries += u64::from(read.entries);
        Ok(())
    }

    /// Loads about `bytes` bytes of a file. Returns the header checksum of the end block if the file ends there.
    fn load_rows(
        &self,
        files: &WalkedFiles,
        item: usize,
        reader: &mut PartReader,
        bytes: u64,
        target: &dyn Recoverable,
    ) -> Result<Option<u32>> {
        let (name, mut done) = (files.name(item), 0);
        while let Some(rows) = reader.next_rows()? {
            if rows.kind != target.entries() {
                return Err(DurabilityError::Unknown { file: name, offset: 0, detail: NOT_TAKEN });
            }
            let damaged = |detail| DurabilityError::damaged_file(&name, rows.offset, detail);
            let entries = rows.entries().map_err(damaged)?;
            files.check_keys(item, rows.section, &entries, target).map_err(damaged)?;
            told_where(target.load(rows.section, &entries), &entries, &name, rows.offset)?;
            let mut loaded = self.loaded.lock();
            loaded.bytes += rows.bytes;
            loaded.entries += u64::from(rows.count);
            done += rows.bytes;
            if done >= bytes {
                return Ok(None);
            }
        }
        // Every other byte is in the end block.
        let (totals, end) = reader.end().expect("behind its last block a file has ended");
        assert!(totals.blocks > 0 || totals.entries == 0, "entries stand in blocks");
        let mut loaded = self.loaded.lock();
        loaded.bytes += reader.end_bytes();
        Ok(Some(end))
    }
}

pub(super) fn told_where(
    outcome: Result<(), Refused>,
    entries: &[Entry<'_>],
    file: &str,
    offset: u64,
) -> Result<()> {
    outcome.map_err(|refused| DurabilityError::Replay {
        file: file.into(),
        offset,
        tid: entries.get(refused.entry).map_or(Tid::ZERO, |entry| entry.tid),
        detail: refused.detail.into(),
    })
}
