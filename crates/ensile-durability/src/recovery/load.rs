//! Loading the installed checkpoint: its files as work items, all of them before any log entry (SiloR §5.1).
//!
//! Invariants:
//! - K1: what is loaded is what was installed: every file there, whole, and together under the manifest's seal.
//! - The state is asked to replay only once every entry of the checkpoint is loaded: a thread that finds no file left
//!   waits for those that others are at.
//!
//! Neighbours: `recovery` owns one and steps it before its log pieces; `checkpoint::read` reads the files.

use ensile_base::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering};
use ensile_base::{Epoch, Tid};
use ensile_disk::Disk;

use crate::checkpoint::read::{PartReader, seal};
use crate::recoverable::NOT_TAKEN;
use crate::store::folders;
use crate::store::manifest::InstalledCheckpoint;
use crate::store::names::{MANIFEST, PartName};
use crate::{DurabilityError, Recoverable};

/// What a step of the load came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadStep {
    /// A file was loaded.
    Loaded,
    /// All are: replay may begin.
    Ended,
    /// Another thread's file could not be loaded.
    Failed,
}

#[derive(Debug, Default)]
struct Loaded {
    files: usize,
    entries: u64,
    bytes: u64,
    /// Header checksums of end blocks, in the order of `parts`.
    ends: Vec<u32>,
    has_failed: bool,
}

/// The load of one checkpoint, or of none.
#[derive(Debug)]
pub(super) struct Load {
    checkpoint: Option<InstalledCheckpoint>,
    parts: Vec<PartName>,
    taken: AtomicUsize,
    loaded: Mutex<Loaded>,
    /// All files are loaded, or one cannot be.
    ended: Condvar,
}

/// A thread at its file: however it leaves, the threads that wait for it are woken.
struct FileTurn<'l> {
    load: &'l Load,
    is_loaded: bool,
}

impl Drop for FileTurn<'_> {
    fn drop(&mut self) {
        self.load.lock().has_failed |= !self.is_loaded;
        self.load.ended.notify_all();
    }
}

impl Load {
    /// Checks that every file of the checkpoint is there.
    pub(super) fn new(
        disk: &dyn Disk,
        checkpoint: Option<InstalledCheckpoint>,
    ) -> Result<Self, DurabilityError> {
        let parts: Vec<_> = checkpoint.iter().flat_map(InstalledCheckpoint::parts).collect();
        for (part, of) in parts.iter().zip(checkpoint.iter().cycle()) {
            // A link to a device that is not mounted says so, before its files are missed.
            folders::check(disk, &PartName::folder(part.checkpointer))?;
            PartReader::open(disk, *part, of)?;
        }
        let files = checkpoint.as_ref().map_or(0, |of| of.checkpointers as usize * of.files as usize);
        assert_eq!(parts.len(), files, "each file is loaded");
        let loaded = Loaded { ends: vec![0; parts.len()], ..Loaded::default() };
        Ok(Self {
            checkpoint,
            parts,
            taken: AtomicUsize::new(0),
            loaded: Mutex::new(loaded),
            ended: Condvar::new(),
        })
    }

    /// The checkpoint.
    pub(super) fn checkpoint(&self) -> Option<&InstalledCheckpoint> {
        self.checkpoint.as_ref()
    }

    /// Entries of smaller epochs are in the checkpoint, or discarded by it (K1).
    pub(super) fn low(&self) -> Epoch {
        self.checkpoint.as_ref().map_or(Epoch::ZERO, |checkpoint| checkpoint.low)
    }

    /// Bytes to load.
    pub(super) fn bytes_total(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.bytes)
    }

    /// Bytes and entries loaded.
    pub(super) fn done(&self) -> (u64, u64) {
        let loaded = self.lock();
        (loaded.bytes, loaded.entries)
    }

    /// Whether all is loaded.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().files == self.parts.len()
    }

    fn lock(&self) -> MutexGuard<'_, Loaded> {
        // Counts, raised one after the other.
        self.loaded.lock()
    }

    /// Loads one file that nobody has taken. When none is left, waits until all are loaded.
    pub(super) fn step(
        &self,
        disk: &dyn Disk,
        target: &dyn Recoverable,
    ) -> Result<LoadStep, DurabilityError> {
        // Relaxed: hands out numbers.
        let index = self.taken.fetch_add(1, Ordering::Relaxed);
        let Some(part) = self.parts.get(index) else { return Ok(self.wait_for_others()) };
        let mut turn = FileTurn { load: self, is_loaded: false };
        let result = self.load(disk, *part, target).and_then(|end| self.note(index, end));
        turn.is_loaded = result.is_ok();
        result.map(|()| LoadStep::Loaded)
    }

    fn wait_for_others(&self) -> LoadStep {
        let mut loaded = self.lock();
        while loaded.files < self.parts.len() && !loaded.has_failed {
            loaded = self.ended.wait(loaded);
        }
        assert!(
            loaded.has_failed || loaded.files == self.parts.len(),
            "K1: replay waits for the whole checkpoint"
        );
        if loaded.has_failed { LoadStep::Failed } else { LoadStep::Ended }
    }

    /// Loads one file; the header checksum of its end block.
    fn load(
        &self,
        disk: &dyn Disk,
        part: PartName,
        target: &dyn Recoverable,
    ) -> Result<u32, DurabilityError> {
        let of = self.checkpoint.as_ref().expect("its parts are listed");
        let mut reader = PartReader::open(disk, part, of)?;
        let name = part.to_string();
        while let Some(rows) = reader.next_rows()? {
            if rows.kind != target.entries() {
                return Err(DurabilityError::Unknown { file: name, offset: 0, detail: NOT_TAKEN });
            }
            let entries =
                rows.entries().map_err(|detail| DurabilityError::damaged(&name, rows.offset, detail))?;
            target.load(rows.section, &entries).map_err(|refused| DurabilityError::Replay {
                file: name.as_str().into(),
                offset: rows.offset,
                tid: entries.get(refused.entry).map_or(Tid::ZERO, |entry| entry.tid),
                detail: refused.detail.into(),
            })?;
            let mut loaded = self.lock();
            loaded.bytes += rows.bytes;
            loaded.entries += entries.len() as u64;
        }
        // What is not of blocks is the end block.
        let (totals, end) = reader.end().expect("behind its last block a file has ended");
        assert!(totals.blocks > 0 || totals.entries == 0, "entries stand in blocks");
        let mut loaded = self.lock();
        loaded.bytes += reader.end_bytes();
        Ok(end)
    }

    /// A file is loaded; with the last one, compares all of them with what the manifest says.
    fn note(&self, index: usize, end: u32) -> Result<(), DurabilityError> {
        let mut loaded = self.lock();
        assert!(loaded.files < self.parts.len(), "a file is loaded once");
        loaded.ends[index] = end;
        if loaded.files + 1 == self.parts.len() {
            let found = (seal(loaded.ends.iter().copied()), loaded.entries, loaded.bytes);
            let checkpoint = self.checkpoint.as_ref();
            let expected = checkpoint.map(|c| (c.seal, c.entries, c.bytes)).unwrap_or_default();
            if found != expected {
                return Err(not_installed());
            }
        }
        loaded.files += 1;
        Ok(())
    }
}

fn not_installed() -> DurabilityError {
    let detail = "the checkpoint's files are whole, but not those that it names: they, or it, are of another moment or \
                  database, and only those of one copy go together";
    DurabilityError::damaged(MANIFEST, 0, detail)
}
