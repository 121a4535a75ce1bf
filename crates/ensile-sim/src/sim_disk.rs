//! A disk in memory that behaves as badly as the `Disk` trait allows.
//!
//! What it models:
//! - A write, and a change of length, is in the cache until a sync of its file; at [`SimDisk::crash`] each is kept,
//!   dropped, or torn: any subset of its 512-byte sectors is kept.
//! - Creating, renaming and removing changes names in the cache; at a crash a folder keeps what was synced and any
//!   subset of what came after.
//! - A failed sync forgets what it should have written: it stays readable, is never stable, and the next sync of the
//!   same file succeeds all the same (as kernels do).
//! - Handles and locks from before a crash are dead.
//!
//! What it does not model: bits that rot by themselves (see [`SimDisk::flip`]), and sectors that lie after a good sync.
//!
//! Neighbours: implements the traits of `ensile-disk`; clones share the same state.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use ensile_base::random::Random;
use ensile_base::sync::{Arc, Mutex, MutexGuard};
use ensile_disk::{Disk, DiskError, DiskFile, DiskLock, FolderKind, Operation};

/// Writes are torn at multiples of this.
const SECTOR_BYTES: usize = 512;

/// How often what was called, crashes included in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Writes of bytes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs of files, failed ones included.
    pub syncs: u64,
    /// Syncs of folders.
    pub folder_syncs: u64,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*offset..end].copy_from_slice(bytes);
            }
            Self::Length(length) => to.resize(*length, 0),
        }
    }

    /// Applies what a crash left of this change.
    fn apply_torn(&self, to: &mut Vec<u8>, random: &mut Random) {
        let Self::Write { offset, bytes } = self else { return };
        let mut at = 0;
        while at < bytes.len() {
            let sector_end = (offset + at + 1).next_multiple_of(SECTOR_BYTES) - offset;
            let end = sector_end.min(bytes.len());
            if random.percent(50) {
                Self::Write { offset: offset + at, bytes: bytes[at..end].to_vec() }.apply(to);
            }
            at = end;
        }
    }
}

/// A file's bytes: as seen, as stable, and the changes between.
#[derive(Clone, Debug, Default)]
struct Inode {
    seen: Vec<u8>,
    stable: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Link(String, usize),
    Unlink(String),
    Rename(String, String, usize),
}

type Names = BTreeMap<String, usize>;

fn apply_name(names: &mut Names, change: &NameChange) {
    match change {
        NameChange::Link(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        NameChange::Unlink(name) => {
            names.remove(name);
        }
        NameChange::Rename(from, to, inode) => {
            names.remove(from);
            names.insert(to.clone(), *inode);
        }
    }
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    /// Full names; a folder is everything up to the last `/`.
    names: Names,
    stable_names: Names,
    unsynced_names: Vec<NameChange>,
    folders: Vec<String>,
    /// Folders that were made as links, and whether what they lead to is there.
    links: BTreeMap<String, (PathBuf, bool)>,
    locks: Vec<String>,
    /// Counts crashes: handles of an earlier boot are dead.
    boot: u64,
    calls: Calls,
    fail_write: Option<u64>,
    fail_sync: Option<u64>,
    fail_folder_sync: Option<u64>,
    fail_all_syncs: bool,
}

/// A disk in memory; clones share it.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    /// The boot that this handle belongs to, if it is a process's.
    mounted: Option<u64>,
}

fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn fail(operation: Operation, name: &str, kind: io::ErrorKind) -> DiskError {
    DiskError::io(operation, Path::new(name), kind.into())
}

fn input_output_error(operation: Operation, name: &str) -> DiskError {
    DiskError::io(operation, Path::new(name), io::Error::from_raw_os_error(5))
}

impl SimDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The disk as one process has it: after the next crash nothing that it does succeeds, as it is dead.
    #[must_use]
    pub fn mounted(&self) -> Self {
        let boot = self.lock_state().boot;
        Self { state: Arc::clone(&self.state), mounted: Some(boot) }
    }

    /// The state, unless this handle's process is dead.
    fn live_state(&self, operation: Operation, name: &str) -> Result<MutexGuard<'_, State>, DiskError> {
        let state = self.lock_state();
        let is_dead = self.mounted.is_some_and(|boot| boot != state.boot);
        if is_dead { Err(input_output_error(operation, name)) } else { Ok(state) }
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics inside the disk")
    }

    /// The machine loses power: what was not synced is kept, dropped or torn, as `seed` says.
    pub fn crash(&self, seed: u64) {
        let mut random = Random::seeded(seed);
        let mut state = self.lock_state();
        let state = &mut *state;
        state.boot += 1;
        state.locks.clear();
        for inode in &mut state.inodes {
            let mut stable = std::mem::take(&mut inode.stable);
            for change in inode.unsynced.drain(..) {
                match random.below(3) {
                    0 => change.apply(&mut stable),
                    1 => change.apply_torn(&mut stable, &mut random),
                    _ => {}
                }
            }
            inode.seen.clone_from(&stable);
            inode.stable = stable;
        }
        for change in std::mem::take(&mut state.unsynced_names) {
            if random.percent(50) {
                apply_name(&mut state.stable_names, &change);
            }
        }
        state.names = state.stable_names.clone();
        // Files without a name are gone.
        for index in 0..state.inodes.len() {
            if !state.names.values().any(|inode| *inode == index) {
                state.inodes[index] = Inode::default();
            }
        }
    }

    /// The process dies and the machine lives on: the cache stays as it is, locks are free, handles are dead.
    pub fn kill(&self) {
        let mut state = self.lock_state();
        state.boot += 1;
        state.locks.clear();
    }

    /// What was called so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.lock_state().calls
    }

    /// Lets the `count`th write from now fail (1 is the next).
    pub fn fail_write(&self, count: u64) {
        let mut state = self.lock_state();
        state.fail_write = Some(state.calls.writes + count);
    }

    /// Lets the `count`th sync of a file from now fail (1 is the next). Later ones succeed, and lie about what this
    /// one lost.
    pub fn fail_sync(&self, count: u64) {
        let mut state = self.lock_state();
        state.fail_sync = Some(state.calls.syncs + count);
    }

    /// Lets the `count`th sync of a folder from now fail (1 is the next).
    pub fn fail_folder_sync(&self, count: u64) {
        let mut state = self.lock_state();
        state.fail_folder_sync = Some(state.calls.folder_syncs + count);
    }

    /// Lets every sync fail from now on, or none any more.
    pub fn fail_all_syncs(&self, fail: bool) {
        self.lock_state().fail_all_syncs = fail;
    }

    /// Takes back every failure that was asked for and has not come yet.
    pub fn heal(&self) {
        let mut state = self.lock_state();
        (state.fail_write, state.fail_sync, state.fail_folder_sync) = (None, None, None);
        state.fail_all_syncs = false;
    }

    /// Flips the bits of `mask` in a stable byte: damage.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) {
        let mut state = self.lock_state();
        let inode = state.names[name];
        let inode = &mut state.inodes[inode];
        inode.seen[offset as usize] ^= mask;
        inode.stable[offset as usize] ^= mask;
    }

    /// Removes a file and its stable name at once: damage.
    pub fn lose(&self, name: &str) {
        let mut state = self.lock_state();
        state.names.remove(name);
        state.stable_names.remove(name);
    }

    /// The bytes of a file as they are seen now.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.lock_state();
        state.inodes[state.names[name]].seen.clone()
    }

    /// The device behind a linked folder is taken away, or put back. Only asking for the folder's kind shows it.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn unplug(&self, folder: &str, is_there: bool) {
        self.lock_state().links.get_mut(folder).expect("a link").1 = is_there;
    }

    fn handle(&self, inode: usize, name: &str, boot: u64) -> Box<dyn DiskFile> {
        Box::new(SimFile { disk: self.clone(), inode, name: name.to_owned(), boot })
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let state = self.live_state(Operation::Open, name)?;
        let inode =
            *state.names.get(name).ok_or_else(|| fail(Operation::Open, name, io::ErrorKind::NotFound))?;
        Ok(self.handle(inode, name, state.boot))
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let mut state = self.live_state(Operation::Create, name)?;
        let folder = folder_of(name);
        if !folder.is_empty() && !state.folders.iter().any(|known| known == folder) {
            return Err(fail(Operation::Create, name, io::ErrorKind::NotFound));
        }
        let inode = match state.names.get(name).copied() {
            Some(inode) => {
                let file = &mut state.inodes[inode];
                file.seen.clear();
                file.unsynced.push(Change::Length(0));
                inode
            }
            None => {
                let inode = state.inodes.len();
                state.inodes.push(Inode::default());
                state.names.insert(name.to_owned(), inode);
                state.unsynced_names.push(NameChange::Link(name.to_owned(), inode));
                inode
            }
        };
        Ok(self.handle(inode, name, state.boot))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let state = self.live_state(Operation::List, folder)?;
        let names = state.names.keys().filter(|name| folder_of(name) == folder);
        Ok(names.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()).collect())
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        let state = self.live_state(Operation::List, name)?;
        Ok(state.names.contains_key(name) || state.folders.iter().any(|folder| folder == name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut state = self.live_state(Operation::Rename, from)?;
        let Some(inode) = state.names.get(from).copied() else {
            return Err(fail(Operation::Rename, from, io::ErrorKind::NotFound));
        };
        let change = NameChange::Rename(from.to_owned(), to.to_owned(), inode);
        apply_name(&mut state.names, &change);
        state.unsynced_names.push(change);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let mut state = self.live_state(Operation::Remove, name)?;
        state.names.remove(name).ok_or_else(|| fail(Operation::Remove, name, io::ErrorKind::NotFound))?;
        state.unsynced_names.push(NameChange::Unlink(name.to_owned()));
        Ok(())
    }

    fn create_folder(&self, name: &str) -> Result<(), DiskError> {
        let mut state = self.live_state(Operation::CreateFolder, name)?;
        if !state.folders.iter().any(|folder| folder == name) {
            state.folders.push(name.to_owned());
        }
        Ok(())
    }

    fn folder_kind(&self, name: &str) -> Result<FolderKind, DiskError> {
        let state = self.live_state(Operation::List, name)?;
        Ok(match state.links.get(name) {
            Some((to, is_there)) => FolderKind::Link { to: to.clone(), is_there: *is_there },
            None if state.folders.iter().any(|folder| folder == name) => FolderKind::Plain,
            None => FolderKind::Missing,
        })
    }

    fn link_folder(&self, name: &str, to: &Path) -> Result<(), DiskError> {
        let kind = self.folder_kind(name)?;
        match kind {
            FolderKind::Link { to: before, .. } if before == to => return Ok(()),
            FolderKind::Missing => self.create_folder(name)?,
            _ => return Err(fail(Operation::LinkFolder, name, io::ErrorKind::AlreadyExists)),
        }
        let mut state = self.live_state(Operation::LinkFolder, name)?;
        state.links.insert(name.to_owned(), (to.to_owned(), true));
        Ok(())
    }

    fn sync_folder(&self, folder: &str) -> Result<(), DiskError> {
        let mut state = self.live_state(Operation::SyncFolder, folder)?;
        let state = &mut *state;
        state.calls.folder_syncs += 1;
        if state.fail_folder_sync == Some(state.calls.folder_syncs) {
            return Err(input_output_error(Operation::SyncFolder, folder));
        }
        let changes = std::mem::take(&mut state.unsynced_names);
        for change in changes {
            let (NameChange::Link(name, _) | NameChange::Unlink(name) | NameChange::Rename(name, ..)) =
                &change;
            if folder_of(name) == folder {
                apply_name(&mut state.stable_names, &change);
            } else {
                state.unsynced_names.push(change);
            }
        }
        Ok(())
    }

    fn lock(&self, name: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        let mut state = self.live_state(Operation::Lock, name)?;
        if state.locks.iter().any(|held| held == name) {
            return Err(DiskError::InUse { path: name.into() });
        }
        state.locks.push(name.to_owned());
        Ok(Box::new(SimLock { disk: self.clone(), name: name.to_owned(), boot: state.boot }))
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    name: String,
    boot: u64,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.lock_state();
        if state.boot == self.boot {
            state.locks.retain(|held| *held != self.name);
        }
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: usize,
    name: String,
    boot: u64,
}

impl SimFile {
    /// The state, if this handle's boot still runs.
    fn live(&self, operation: Operation) -> Result<MutexGuard<'_, State>, DiskError> {
        let state = self.disk.lock_state();
        if state.boot == self.boot { Ok(state) } else { Err(input_output_error(operation, &self.name)) }
    }

    fn change(&self, state: &mut State, change: Change) {
        let inode = &mut state.inodes[self.inode];
        change.apply(&mut inode.seen);
        inode.unsynced.push(change);
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let mut state = self.live(Operation::Write)?;
        state.calls.writes += 1;
        state.calls.written_bytes += bytes.len() as u64;
        if state.fail_write == Some(state.calls.writes) {
            return Err(input_output_error(Operation::Write, &self.name));
        }
        self.change(&mut state, Change::Write { offset: offset as usize, bytes: bytes.to_vec() });
        Ok(())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, DiskError> {
        let state = self.live(Operation::Read)?;
        let seen = &state.inodes[self.inode].seen;
        let rest = seen.get(offset as usize..).unwrap_or_default();
        let read = rest.len().min(bytes.len());
        bytes[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn len(&self) -> Result<u64, DiskError> {
        Ok(self.live(Operation::Length)?.inodes[self.inode].seen.len() as u64)
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        let mut state = self.live(Operation::Length)?;
        self.change(&mut state, Change::Length(bytes as usize));
        Ok(())
    }

    fn preallocate(&self, bytes: u64) -> Result<(), DiskError> {
        let mut state = self.live(Operation::Preallocate)?;
        if state.inodes[self.inode].seen.len() < bytes as usize {
            self.change(&mut state, Change::Length(bytes as usize));
        }
        Ok(())
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        let mut state = self.live(Operation::Sync)?;
        state.calls.syncs += 1;
        let failed = state.fail_all_syncs || state.fail_sync == Some(state.calls.syncs);
        let inode = &mut state.inodes[self.inode];
        let changes = std::mem::take(&mut inode.unsynced);
        if failed {
            return Err(input_output_error(Operation::Sync, &self.name));
        }
        changes.iter().for_each(|change| change.apply(&mut inode.stable));
        Ok(())
    }

    fn sync_all(&self) -> Result<(), DiskError> {
        self.sync_data()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
