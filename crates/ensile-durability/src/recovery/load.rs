//! Loading the installed checkpoint, file by file (SiloR §5.1).
//!
//! Invariant: K1: what is loaded is what was installed: every file there, whole, and together under the manifest's
//! seal.
//!
//! Neighbours: `turns` says which thread loads which file; an examination and a repair load all of them;
//! `checkpoint::files::read` reads the files.

use std::ops::Range;

use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};
use ensile_disk::Disk;

use crate::checkpoint::files::end::seal as seal_of;
use crate::checkpoint::files::read::PartReader;
use crate::recoverable::NOT_TAKEN;
use crate::store::folders;
use crate::store::installed::InstalledCheckpoint;
use crate::store::names::{MANIFEST, PartName, checkpoint_folder};
use crate::{DurabilityError, Recoverable};

#[derive(Debug)]
struct Loaded {
    files: usize,
    entries: u64,
    bytes: u64,
    /// Header checksums of end blocks, in the order of `parts`.
    ends: Vec<u32>,
}

/// The load of one checkpoint, or of none.
#[derive(Debug)]
pub(super) struct Load {
    checkpoint: Option<InstalledCheckpoint>,
    parts: Vec<PartName>,
    /// Counts, raised one after the other.
    loaded: Mutex<Loaded>,
}

impl Load {
    /// Checks that every file of the checkpoint is there.
    pub(super) fn new(
        disk: &dyn Disk,
        checkpoint: Option<InstalledCheckpoint>,
    ) -> Result<Self, DurabilityError> {
        let parts = match &checkpoint {
            None => Vec::new(),
            Some(of) => {
                let Some(files) = of.part_files() else {
                    return Err(DurabilityError::newer(MANIFEST, 0));
                };
                let parts: Vec<_> = files.parts().collect();
                let count = files.checkpointers as usize * files.files as usize;
                assert_eq!(parts.len(), count, "each file is loaded");
                for part in &parts {
                    // A link to a device that is not mounted says so, before its files are missed.
                    folders::check(disk, &checkpoint_folder(part.checkpointer))?;
                    PartReader::open(disk, *part, of)?;
                }
                parts
            }
        };
        let loaded = Loaded { files: 0, entries: 0, bytes: 0, ends: vec![0; parts.len()] };
        Ok(Self { checkpoint, parts, loaded: Mutex::new(loaded) })
    }

    /// The checkpoint.
    pub(super) fn checkpoint(&self) -> Option<&InstalledCheckpoint> {
        self.checkpoint.as_ref()
    }

    /// Entries of smaller epochs are in the checkpoint, or discarded by it (K1).
    pub(super) fn low(&self) -> Epoch {
        self.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::covered)
    }

    /// Bytes to load.
    pub(super) fn bytes_total(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, InstalledCheckpoint::bytes)
    }

    /// Bytes and entries loaded.
    pub(super) fn done(&self) -> (u64, u64) {
        let loaded = self.loaded.lock();
        (loaded.bytes, loaded.entries)
    }

    /// Its files.
    pub(super) fn files(&self) -> Range<usize> {
        0..self.parts.len()
    }

    /// How many of them are not loaded.
    pub(super) fn unloaded(&self) -> usize {
        self.parts.len() - self.loaded.lock().files
    }

    /// Loads a file; with the last one, compares all of them with what the manifest says.
    pub(super) fn load(
        &self,
        file: usize,
        disk: &dyn Disk,
        target: &dyn Recoverable,
    ) -> Result<(), DurabilityError> {
        let of = self.checkpoint.as_ref().expect("its parts are listed");
        let end = self.load_part(disk, of, self.parts[file], target)?;
        let mut loaded = self.loaded.lock();
        assert!(loaded.files < self.parts.len(), "a file is loaded once");
        loaded.ends[file] = end;
        if loaded.files + 1 == self.parts.len() {
            let found = (seal_of(loaded.ends.iter().copied()), loaded.entries, loaded.bytes);
            let seal = of.part_files().map_or(0, |files| files.seal);
            if found != (seal, of.entries(), of.bytes()) {
                return Err(not_installed());
            }
        }
        loaded.files += 1;
        Ok(())
    }

    /// Loads one file; the header checksum of its end block.
    fn load_part(
        &self,
        disk: &dyn Disk,
        of: &InstalledCheckpoint,
        part: PartName,
        target: &dyn Recoverable,
    ) -> Result<u32, DurabilityError> {
        let mut reader = PartReader::open(disk, part, of)?;
        let name = part.to_string();
        while let Some(rows) = reader.next_rows()? {
            if rows.kind != target.entries() {
                return Err(DurabilityError::Unknown { file: name, offset: 0, detail: NOT_TAKEN });
            }
            let sections =
                rows.by_section().map_err(|detail| DurabilityError::damaged(&name, rows.offset, detail))?;
            for (section, entries) in sections {
                target.load(section, &entries).map_err(|refused| DurabilityError::Replay {
                    file: name.as_str().into(),
                    offset: rows.offset,
                    tid: entries.get(refused.entry).map_or(Tid::ZERO, |entry| entry.tid),
                    detail: refused.detail.into(),
                })?;
            }
            let mut loaded = self.loaded.lock();
            loaded.bytes += rows.bytes;
            loaded.entries += u64::from(rows.entries);
        }
        // What is not of blocks is the end block.
        let (totals, end) = reader.end().expect("behind its last block a file has ended");
        assert!(totals.blocks > 0 || totals.entries == 0, "entries stand in blocks");
        let mut loaded = self.loaded.lock();
        loaded.bytes += reader.end_bytes();
        Ok(end)
    }
}

fn not_installed() -> DurabilityError {
    let detail = "the checkpoint's files are whole, but not those that it names: they, or it, are of another moment or \
                  database, and only those of one copy go together";
    DurabilityError::damaged(MANIFEST, 0, detail)
}
