//! A disk in memory that behaves as badly as the `Disk` trait allows.
//!
//! What it models:
//! - A write, and a change of length, is in the cache until a sync of its file; what of it a crash leaves is a matter of
//!   [`Survival`]: kept, dropped, torn at sectors of 512 bytes, or a random suffix lost of each file.
//! - Creating, renaming and removing files, and making folders, changes names in the cache; at a crash a folder keeps what
//!   was synced and some of what came after. What stands in a folder whose own name is lost is lost with it.
//! - All calls count in one sequence. By number they fail, once or from there on ([`SimDisk::fail_calls`]), with a part
//!   of their work done or none, or power fails in the midst of one ([`SimDisk::cut_power_at`]).
//! - A failed sync forgets what it should have written: it stays readable, is never stable, and the next sync of the
//!   same file succeeds all the same (as kernels do).
//! - A full disk: what would take more space than [`SimDisk::set_capacity`] allows is refused, a write after the part of
//!   it that has room; removing and cutting files gives space back.
//! - Handles and locks from before a crash are dead.
//!
//! What it does not model: bits that rot by themselves (see [`SimDisk::flip`], [`SimDisk::put`]), and sectors that lie
//! after a good sync.
//!
//! Neighbours: implements the traits of `ensile-disk`; clones share the same state.

mod calls;
mod content;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc as StdArc;

use ensile_base::random::Random;
use ensile_base::sync::{Arc, Mutex, MutexGuard};
use ensile_disk::{Disk, DiskError, DiskFile, DiskLock, FolderId, FolderKind, Operation, Process};

pub use calls::{Call, Calls, Fault};
pub use content::Survival;

use calls::{Fate, Sequence};
use content::{Change, Content, Inode, NameChange, Names, folder_of};

#[derive(Clone, Debug, Default)]
struct State {
    /// Behind std's `Arc`: shared bytes are copied when they change, which a checker's own cannot do.
    inodes: Vec<StdArc<Inode>>,
    names: Names,
    stable_names: Names,
    unsynced_names: Vec<NameChange>,
    /// Folders that were made as links, and whether what they lead to is there.
    links: BTreeMap<String, (PathBuf, bool)>,
    /// Files whose bytes the medium does not give back.
    unreadable: BTreeSet<String>,
    /// The inodes of folders that were asked for.
    folder_inodes: BTreeMap<String, u64>,
    /// Who holds which lock.
    locks: Vec<(Locked, Hold)>,
    /// Nothing can be changed.
    read_only: bool,
    /// Counts crashes: handles of an earlier boot are dead.
    boot: u64,
    sequence: Sequence,
    capacity: Option<u64>,
    /// The disk as each call found it, if that is kept.
    moments: Option<Vec<Moment>>,
}

/// The inode that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locked {
    File(usize),
    Folder(u64),
}

/// The root's inode; other folders have larger ones.
const ROOT_INODE: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Exclusive,
    Shared,
}

/// The disk at a call: power fails in the midst of it, and what is left is a matter of [`SimDisk::crash_with`].
#[derive(Clone, Debug)]
pub struct Moment {
    /// The call.
    pub number: u64,
    /// A disk of its own.
    pub disk: SimDisk,
}

/// A disk in memory; clones share it.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    /// The boot that this handle belongs to, if it is a process's.
    mounted: Option<u64>,
    process: Process,
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::of(State::default())
    }
}

fn fail(operation: Operation, name: &str, kind: io::ErrorKind) -> DiskError {
    DiskError::io(operation, Path::new(name), kind.into())
}

fn system_error(operation: Operation, name: &str, code: i32) -> DiskError {
    DiskError::io(operation, Path::new(name), io::Error::from_raw_os_error(code))
}

fn input_output_error(operation: Operation, name: &str) -> DiskError {
    system_error(operation, name, 5)
}

impl State {
    /// Counts a call and says what becomes of it.
    fn begin(&mut self, operation: Operation, name: &str, range: Option<(u64, u64)>) -> Fate {
        self.sequence.begin(operation, name, range)
    }

    /// Keeps the disk as it is now, the work of the call that has begun in its cache.
    fn keep_moment(&mut self) {
        let Some(kept) = self.moments.take() else { return };
        let number = self.sequence.calls.all;
        let disk = SimDisk::of(self.clone());
        self.moments = Some(kept);
        self.moments.iter_mut().for_each(|moments| moments.push(Moment { number, disk: disk.clone() }));
    }

    fn inode(&mut self, inode: usize) -> &mut Inode {
        StdArc::make_mut(&mut self.inodes[inode])
    }

    fn used_bytes(&self) -> u64 {
        self.names.files.values().map(|inode| self.inodes[*inode].allocated as u64).sum()
    }

    /// Takes up space so that the file has its first `to` bytes; says how many bytes it has now.
    fn allocate(&mut self, inode: usize, to: usize) -> usize {
        let have = self.inodes[inode].allocated;
        let free = self.capacity.map(|capacity| capacity.saturating_sub(self.used_bytes()));
        let grown = to.saturating_sub(have).min(free.map_or(usize::MAX, |free| free as usize));
        if grown > 0 {
            self.inode(inode).allocated = have + grown;
        }
        have + grown
    }

    fn is_full(&self) -> bool {
        self.capacity.is_some_and(|capacity| self.used_bytes() >= capacity)
    }

    fn change_name(&mut self, change: NameChange) {
        self.names.apply(&change);
        self.unsynced_names.push(change);
        self.keep_moment();
    }

    fn change(&mut self, inode: usize, change: Change) {
        self.inode(inode).change(change);
        self.keep_moment();
    }

    /// The inode of the folder of this name.
    fn folder_inode(&mut self, operation: Operation, folder: &str) -> Result<u64, DiskError> {
        if !self.names.has_folder(folder) {
            return Err(self.not_found(operation, folder));
        }
        if folder.is_empty() {
            return Ok(ROOT_INODE);
        }
        let next = ROOT_INODE + 1 + self.folder_inodes.len() as u64;
        Ok(*self.folder_inodes.entry(folder.to_owned()).or_insert(next))
    }

    fn links(&self, file: usize) -> u64 {
        self.names.files.values().filter(|inode| **inode == file).count() as u64
    }

    /// What the caller is told in the end.
    fn end(&self, fate: Fate, operation: Operation, name: &str) -> Result<(), DiskError> {
        fate.code().map_or(Ok(()), |code| Err(system_error(operation, name, code)))
    }

    /// No space for this call.
    fn refuse(&mut self, operation: Operation, name: &str) -> DiskError {
        self.sequence.note("no space");
        system_error(operation, name, 28)
    }

    fn not_found(&mut self, operation: Operation, name: &str) -> DiskError {
        self.sequence.note("not found");
        fail(operation, name, io::ErrorKind::NotFound)
    }

    /// Files without a name are gone.
    fn drop_nameless(&mut self) {
        for index in 0..self.inodes.len() {
            if !self.names.files.values().any(|inode| *inode == index) {
                self.inodes[index] = StdArc::default();
            }
        }
    }
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
        Self { state: Arc::clone(&self.state), mounted: Some(boot), process: Process::simulated() }
    }

    /// Another disk with the same bytes, names and plans, which goes its own way from here on. It belongs to no process.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::of(State { moments: None, ..self.lock_state().clone() })
    }

    fn of(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)), mounted: None, process: Process::simulated() }
    }

    /// Until the result is dropped, whatever is called on this handle and on what was opened through it is called by a child
    /// that was forked from its process (I4).
    #[must_use]
    pub fn in_child(&self) -> InChild {
        self.process.set_forked(true);
        InChild(self.process.clone())
    }

    fn check_process(&self, operation: Operation, name: &str) -> Result<(), DiskError> {
        if self.process.is_this() { Ok(()) } else { Err(DiskError::Forked { operation, path: name.into() }) }
    }

    /// The state for a call that needs the right to write.
    fn writable_state(&self, operation: Operation, name: &str) -> Result<MutexGuard<'_, State>, DiskError> {
        self.check_process(operation, name)?;
        let state = self.live_state(operation, name)?;
        if state.read_only { Err(fail(operation, name, io::ErrorKind::PermissionDenied)) } else { Ok(state) }
    }

    fn open_in(&self, mut state: MutexGuard<'_, State>, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let fate = state.begin(Operation::Open, name, None);
        state.end(fate, Operation::Open, name)?;
        match state.names.files.get(name).copied() {
            Some(inode) => Ok(self.handle(inode, name, state.boot)),
            None => Err(state.not_found(Operation::Open, name)),
        }
    }

    fn take_lock(
        &self,
        mut state: MutexGuard<'_, State>,
        name: &str,
        locked: Locked,
        hold: Hold,
    ) -> Result<Box<dyn DiskLock>, DiskError> {
        if state.locks.iter().any(|held| held.0 == locked && (held.1, hold) != (Hold::Shared, Hold::Shared)) {
            return Err(DiskError::InUse { path: name.into() });
        }
        state.locks.push((locked, hold));
        Ok(Box::new(SimLock { disk: self.clone(), name: name.to_owned(), locked, boot: state.boot }))
    }

    fn take_folder_lock(&self, folder: &str, hold: Hold) -> Result<Box<dyn DiskLock>, DiskError> {
        self.check_process(Operation::Lock, folder)?;
        let mut state = self.live_state(Operation::Lock, folder)?;
        let fate = state.begin(Operation::Lock, folder, None);
        state.end(fate, Operation::Lock, folder)?;
        let inode = state.folder_inode(Operation::Lock, folder)?;
        self.take_lock(state, folder, Locked::Folder(inode), hold)
    }

    /// The state for a question about the file of this name, and the file.
    fn identify(&self, name: &str) -> Result<(MutexGuard<'_, State>, usize), DiskError> {
        let mut state = self.live_state(Operation::Identify, name)?;
        let fate = state.begin(Operation::Identify, name, None);
        state.end(fate, Operation::Identify, name)?;
        match state.names.files.get(name).copied() {
            Some(inode) => Ok((state, inode)),
            None => Err(state.not_found(Operation::Identify, name)),
        }
    }

    /// The state, unless this handle's process is dead or without power.
    fn live_state(&self, operation: Operation, name: &str) -> Result<MutexGuard<'_, State>, DiskError> {
        let state = self.lock_state();
        let is_dead = state.sequence.is_cut || self.mounted.is_some_and(|boot| boot != state.boot);
        if is_dead { Err(input_output_error(operation, name)) } else { Ok(state) }
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics inside the disk")
    }

    /// The machine loses power: what was not synced is kept, dropped or torn, as `seed` says.
    pub fn crash(&self, seed: u64) {
        self.crash_with(Survival::Random, seed);
    }

    /// The machine loses power, if it has not yet, and starts again: what was not synced survives as `survival` says,
    /// drawn from `seed`.
    pub fn crash_with(&self, survival: Survival, seed: u64) {
        let mut random = Random::seeded(seed);
        let mut state = self.lock_state();
        let state = &mut *state;
        state.boot += 1;
        state.locks.clear();
        state.sequence.restart();
        for inode in 0..state.inodes.len() {
            if !state.inodes[inode].unsynced.is_empty() || state.inodes[inode].allocated > 0 {
                state.inode(inode).crash(survival, &mut random);
            }
        }
        let changes = std::mem::take(&mut state.unsynced_names);
        state.stable_names.crash(&changes, survival, &mut random);
        state.names = state.stable_names.clone();
        state.drop_nameless();
    }

    /// The process dies and the machine lives on: the cache stays as it is, locks are free, handles are dead.
    pub fn kill(&self) {
        let mut state = self.lock_state();
        state.boot += 1;
        state.locks.clear();
        state.sequence.restart();
    }

    /// What was called so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.lock_state().sequence.calls
    }

    /// Begins to keep a trace of calls, or ends it.
    pub fn record(&self, record: bool) {
        self.lock_state().sequence.record(record);
    }

    /// The calls since [`SimDisk::record`]; each prints as a line.
    #[must_use]
    pub fn trace(&self) -> Vec<Call> {
        self.lock_state().sequence.trace().to_vec()
    }

    /// Begins to keep the disk at every call that changes or syncs something.
    pub fn keep_moments(&self) {
        self.lock_state().moments = Some(Vec::new());
    }

    /// The moments kept so far, which are given away. Bytes are shared, so a moment is cheap.
    #[must_use]
    pub fn take_moments(&self) -> Vec<Moment> {
        self.lock_state().moments.take().unwrap_or_default()
    }

    /// Lets the calls of these numbers fail, beginning at [`Calls::all`] + 1 for the next one: `k..=k` once, `k..` for
    /// good, until [`SimDisk::heal`]. A disk without space refuses the first of them, whatever it is, and then what grows.
    pub fn fail_calls(&self, numbers: impl RangeBounds<u64>, fault: Fault) {
        self.lock_state().sequence.fail(numbers, fault);
    }

    /// Lets power fail in the midst of the call of this number: nothing succeeds from then on until
    /// [`SimDisk::crash_with`] says what is left.
    pub fn cut_power_at(&self, number: u64) {
        self.lock_state().sequence.cut_at(number);
    }

    /// Has power failed at the call that [`SimDisk::cut_power_at`] names?
    #[must_use]
    pub fn is_without_power(&self) -> bool {
        self.lock_state().sequence.is_cut
    }

    /// So many bytes have room on the disk; `None`: any number.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock_state().capacity = bytes;
    }

    /// Forbids to open for writing, to make, rename and remove, and to take an exclusive lock; or allows it again.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock_state().read_only = read_only;
    }

    /// Bytes that take up space now.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.lock_state().used_bytes()
    }

    /// Lets the `count`th write from now fail (1 is the next).
    pub fn fail_write(&self, count: u64) {
        self.lock_state().sequence.fail_next(Operation::Write, count);
    }

    /// Lets the `count`th sync of a file from now fail (1 is the next). Later ones succeed, and lie about what this
    /// one lost.
    pub fn fail_sync(&self, count: u64) {
        self.lock_state().sequence.fail_next(Operation::Sync, count);
    }

    /// Lets the `count`th sync of a folder from now fail (1 is the next).
    pub fn fail_folder_sync(&self, count: u64) {
        self.lock_state().sequence.fail_next(Operation::SyncFolder, count);
    }

    /// Lets every sync fail from now on, or none any more.
    pub fn fail_all_syncs(&self, fail: bool) {
        self.lock_state().sequence.fail_all_syncs(fail);
    }

    /// Takes back every failure that was asked for and has not come yet. A capacity stays.
    pub fn heal(&self) {
        self.lock_state().sequence.heal();
    }

    /// Flips the bits of `mask` in a stable byte: damage.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) {
        let mut state = self.lock_state();
        let at = state.names.files[name];
        let inode = state.inode(at);
        for content in [&mut inode.seen, &mut inode.stable] {
            assert!((offset as usize) < content.length, "byte {offset} of {name} is not there");
            let used = content.data.len().max(offset as usize + 1);
            content.data.resize(used, 0);
            content.data[offset as usize] ^= mask;
        }
    }

    /// Puts a file there with these bytes, name and all on stable storage, its folder too: damage, or a copy.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.lock_state();
        let inode = state.inodes.len();
        let content = Content::from(bytes);
        let allocated = content.length;
        let file = Inode { seen: content.clone(), stable: content, unsynced: Vec::new(), allocated };
        state.inodes.push(StdArc::new(file));
        let folders = name.match_indices('/').map(|(end, _)| NameChange::Folder(name[..end].to_owned()));
        for change in folders.chain([NameChange::Link(name.to_owned(), inode)]) {
            state.names.apply(&change);
            state.stable_names.apply(&change);
        }
    }

    /// Removes a file and its stable name at once: damage.
    pub fn lose(&self, name: &str) {
        let mut state = self.lock_state();
        state.names.files.remove(name);
        state.stable_names.files.remove(name);
    }

    /// The bytes of a file as they are seen now.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.lock_state();
        state.inodes[state.names.files[name]].seen.all()
    }

    /// The full names of all files, sorted.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        self.lock_state().names.files.keys().cloned().collect()
    }

    /// The device behind a linked folder is taken away, or put back. Only asking for the folder's kind shows it.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn unplug(&self, folder: &str, is_there: bool) {
        self.lock_state().links.get_mut(folder).expect("a link").1 = is_there;
    }

    /// From now on reading bytes of this file fails with EIO, as where the medium cannot give them back.
    pub fn make_unreadable(&self, name: &str) {
        self.lock_state().unreadable.insert(name.to_owned());
    }

    fn handle(&self, inode: usize, name: &str, boot: u64) -> Box<dyn DiskFile> {
        Box::new(SimFile { disk: self.clone(), inode, name: name.to_owned(), boot })
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.open_in(self.writable_state(Operation::Open, name)?, name)
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.open_in(self.live_state(Operation::Open, name)?, name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let mut state = self.writable_state(Operation::Create, name)?;
        let fate = state.begin(Operation::Create, name, None);
        if !state.names.has_folder(folder_of(name)) {
            return Err(state.not_found(Operation::Create, name));
        }
        let there = state.names.files.get(name).copied();
        if there.is_none() && state.is_full() {
            return Err(state.refuse(Operation::Create, name));
        }
        let inode = there.unwrap_or(state.inodes.len());
        if fate.is_whole() {
            if there.is_some() {
                state.inode(inode).allocated = 0;
                state.change(inode, Change::Length(0));
            } else {
                state.inodes.push(StdArc::default());
                state.change_name(NameChange::Link(name.to_owned(), inode));
            }
        }
        state.end(fate, Operation::Create, name)?;
        Ok(self.handle(inode, name, state.boot))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let mut state = self.live_state(Operation::List, folder)?;
        let fate = state.begin(Operation::List, folder, None);
        state.end(fate, Operation::List, folder)?;
        if !state.names.has_folder(folder) {
            return Err(state.not_found(Operation::List, folder));
        }
        let names = state.names.files.keys().filter(|name| folder_of(name) == folder);
        Ok(names.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()).collect())
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let mut state = self.live_state(Operation::List, folder)?;
        let fate = state.begin(Operation::List, folder, None);
        state.end(fate, Operation::List, folder)?;
        if !state.names.has_folder(folder) {
            return Err(state.not_found(Operation::List, folder));
        }
        let names = state.names.folders.iter().filter(|name| folder_of(name) == folder);
        let mut names: Vec<String> =
            names.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        let mut state = self.live_state(Operation::List, name)?;
        let fate = state.begin(Operation::List, name, None);
        state.end(fate, Operation::List, name)?;
        Ok(state.names.files.contains_key(name) || state.names.has_folder(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut state = self.writable_state(Operation::Rename, from)?;
        let fate = state.begin(Operation::Rename, from, None);
        let Some(inode) = state.names.files.get(from).copied() else {
            return Err(state.not_found(Operation::Rename, from));
        };
        if fate.is_whole() {
            state.change_name(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
        }
        state.end(fate, Operation::Rename, from)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let mut state = self.writable_state(Operation::Remove, name)?;
        let fate = state.begin(Operation::Remove, name, None);
        if !state.names.files.contains_key(name) {
            return Err(state.not_found(Operation::Remove, name));
        }
        if fate.is_whole() {
            state.change_name(NameChange::Unlink(name.to_owned()));
        }
        state.end(fate, Operation::Remove, name)
    }

    fn create_folder(&self, name: &str) -> Result<(), DiskError> {
        let mut state = self.writable_state(Operation::CreateFolder, name)?;
        let fate = state.begin(Operation::CreateFolder, name, None);
        let ends = name.match_indices('/').map(|(end, _)| end).chain([name.len()]);
        for folder in ends.map(|end| &name[..end]) {
            if fate.is_whole() && !state.names.has_folder(folder) {
                state.change_name(NameChange::Folder(folder.to_owned()));
            }
        }
        state.end(fate, Operation::CreateFolder, name)
    }

    fn folder_kind(&self, name: &str) -> Result<FolderKind, DiskError> {
        let mut state = self.live_state(Operation::List, name)?;
        let fate = state.begin(Operation::List, name, None);
        state.end(fate, Operation::List, name)?;
        Ok(match state.links.get(name) {
            _ if !state.names.has_folder(name) => FolderKind::Missing,
            Some((to, is_there)) => FolderKind::Link { to: to.clone(), is_there: *is_there },
            None => FolderKind::Plain,
        })
    }

    fn folder_place(&self, name: &str) -> Result<PathBuf, DiskError> {
        let state = self.live_state(Operation::List, name)?;
        let linked = state.links.get(name).map(|(to, _)| to.clone());
        Ok(linked.unwrap_or_else(|| PathBuf::from(name)))
    }

    fn link_folder(&self, name: &str, to: &Path) -> Result<(), DiskError> {
        let mut state = self.writable_state(Operation::LinkFolder, name)?;
        let fate = state.begin(Operation::LinkFolder, name, None);
        let there = state.links.get(name).map(|(before, _)| before == to);
        if state.names.has_folder(name) && there != Some(true) {
            return Err(fail(Operation::LinkFolder, name, io::ErrorKind::AlreadyExists));
        }
        if fate.is_whole() && !state.names.has_folder(name) {
            state.links.insert(name.to_owned(), (to.to_owned(), true));
            state.change_name(NameChange::Folder(name.to_owned()));
        }
        state.end(fate, Operation::LinkFolder, name)
    }

    fn sync_folder(&self, folder: &str) -> Result<(), DiskError> {
        self.check_process(Operation::SyncFolder, folder)?;
        let mut state = self.live_state(Operation::SyncFolder, folder)?;
        let fate = state.begin(Operation::SyncFolder, folder, None);
        if !state.names.has_folder(folder) {
            return Err(state.not_found(Operation::SyncFolder, folder));
        }
        state.keep_moment();
        if fate != Fate::Cut && fate.is_whole() {
            let (changes, others): (Vec<_>, Vec<_>) = std::mem::take(&mut state.unsynced_names)
                .into_iter()
                .partition(|change| change.is_in(folder));
            changes.iter().for_each(|change| state.stable_names.apply(change));
            state.unsynced_names = others;
        }
        state.end(fate, Operation::SyncFolder, folder)
    }

    fn lock(&self, name: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        let mut state = self.writable_state(Operation::Lock, name)?;
        let fate = state.begin(Operation::Lock, name, None);
        state.end(fate, Operation::Lock, name)?;
        if !state.names.has_folder(folder_of(name)) {
            return Err(state.not_found(Operation::Lock, name));
        }
        let inode = state.names.files.get(name).copied().unwrap_or_else(|| {
            let inode = state.inodes.len();
            state.inodes.push(StdArc::default());
            state.change_name(NameChange::Link(name.to_owned(), inode));
            inode
        });
        self.take_lock(state, name, Locked::File(inode), Hold::Exclusive)
    }

    fn lock_to_read(&self, name: &str) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        self.check_process(Operation::Lock, name)?;
        let mut state = self.live_state(Operation::Lock, name)?;
        let fate = state.begin(Operation::Lock, name, None);
        state.end(fate, Operation::Lock, name)?;
        let Some(inode) = state.names.files.get(name).copied() else { return Ok(None) };
        self.take_lock(state, name, Locked::File(inode), Hold::Shared).map(Some)
    }

    fn lock_folder(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.take_folder_lock(folder, Hold::Exclusive)
    }

    fn lock_folder_to_read(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.take_folder_lock(folder, Hold::Shared)
    }

    fn folder_id(&self, folder: &str) -> Result<FolderId, DiskError> {
        let mut state = self.live_state(Operation::Identify, folder)?;
        let fate = state.begin(Operation::Identify, folder, None);
        state.end(fate, Operation::Identify, folder)?;
        let inode = state.folder_inode(Operation::Identify, folder)?;
        Ok(FolderId { inode, born_nanos: Some(i128::from(inode)) })
    }

    fn file_id(&self, name: &str) -> Result<u64, DiskError> {
        self.identify(name).map(|(_, inode)| inode as u64)
    }

    fn links(&self, name: &str) -> Result<u64, DiskError> {
        self.identify(name).map(|(state, inode)| state.links(inode))
    }

    fn free_bytes(&self, folder: &str) -> Result<Option<u64>, DiskError> {
        let mut state = self.live_state(Operation::FreeSpace, folder)?;
        let fate = state.begin(Operation::FreeSpace, folder, None);
        state.end(fate, Operation::FreeSpace, folder)?;
        if !state.names.has_folder(folder) {
            return Err(state.not_found(Operation::FreeSpace, folder));
        }
        Ok(state.capacity.map(|capacity| capacity.saturating_sub(state.used_bytes())))
    }

    fn process(&self) -> Process {
        self.process.clone()
    }
}

/// The time in which a simulated process's calls are those of its child: see [`SimDisk::in_child`].
#[derive(Debug)]
pub struct InChild(Process);

impl Drop for InChild {
    fn drop(&mut self) {
        self.0.set_forked(false);
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    name: String,
    locked: Locked,
    boot: u64,
}

impl DiskLock for SimLock {
    fn file_id(&self) -> Result<u64, DiskError> {
        drop(self.disk.live_state(Operation::Identify, &self.name)?);
        Ok(match self.locked {
            Locked::File(inode) => inode as u64,
            Locked::Folder(inode) => inode,
        })
    }

    fn links(&self) -> Result<u64, DiskError> {
        let state = self.disk.live_state(Operation::Identify, &self.name)?;
        Ok(match self.locked {
            Locked::File(inode) => state.links(inode),
            Locked::Folder(_) => 1,
        })
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.lock_state();
        // I4: a forked child does not give back its parent's lock.
        if state.boot == self.boot && self.disk.process.is_this() {
            // Either there is one, or all of this file are shared and one as good as another.
            if let Some(at) = state.locks.iter().position(|held| held.0 == self.locked) {
                state.locks.swap_remove(at);
            }
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
    /// The state, if this handle's boot still runs, and what becomes of the call.
    fn begin(
        &self,
        operation: Operation,
        range: Option<(u64, u64)>,
    ) -> Result<(MutexGuard<'_, State>, Fate), DiskError> {
        if !matches!(operation, Operation::Read) {
            self.disk.check_process(operation, &self.name)?;
        }
        let mut state = self.disk.lock_state();
        if state.boot != self.boot || state.sequence.is_cut {
            return Err(input_output_error(operation, &self.name));
        }
        let fate = state.begin(operation, &self.name, range);
        Ok((state, fate))
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let (mut state, fate) = self.begin(Operation::Write, Some((offset, bytes.len() as u64)))?;
        let offset = offset as usize;
        let landed = fate.share(bytes.len());
        let room = state.allocate(self.inode, offset + landed).saturating_sub(offset).min(landed);
        if room > 0 {
            state.change(self.inode, Change::write(offset, &bytes[..room]));
        }
        if room < landed {
            return Err(state.refuse(Operation::Write, &self.name));
        }
        state.end(fate, Operation::Write, &self.name)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, DiskError> {
        let (state, fate) = self.begin(Operation::Read, Some((offset, bytes.len() as u64)))?;
        state.end(fate, Operation::Read, &self.name)?;
        if state.unreadable.contains(&self.name) {
            return Err(input_output_error(Operation::Read, &self.name));
        }
        Ok(state.inodes[self.inode].seen.read(bytes, offset as usize))
    }

    fn len(&self) -> Result<u64, DiskError> {
        let (state, fate) = self.begin(Operation::Length, None)?;
        state.end(fate, Operation::Length, &self.name)?;
        Ok(state.inodes[self.inode].seen.length as u64)
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        let (mut state, fate) = self.begin(Operation::Length, Some((bytes, 0)))?;
        if fate.is_whole() {
            let inode = state.inode(self.inode);
            // A longer file has a hole at its end, which takes no space.
            inode.allocated = inode.allocated.min(bytes as usize);
            state.change(self.inode, Change::Length(bytes as usize));
        }
        state.end(fate, Operation::Length, &self.name)
    }

    fn preallocate(&self, bytes: u64) -> Result<(), DiskError> {
        let (mut state, fate) = self.begin(Operation::Preallocate, Some((bytes, 0)))?;
        if fate.is_whole() && state.inodes[self.inode].seen.length < bytes as usize {
            let before = state.inodes[self.inode].allocated;
            if state.allocate(self.inode, bytes as usize) < bytes as usize {
                state.inode(self.inode).allocated = before;
                return Err(state.refuse(Operation::Preallocate, &self.name));
            }
            state.change(self.inode, Change::Length(bytes as usize));
        }
        state.end(fate, Operation::Preallocate, &self.name)
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        let (mut state, fate) = self.begin(Operation::Sync, None)?;
        state.keep_moment();
        if fate != Fate::Cut {
            let changes = fate.share(state.inodes[self.inode].unsynced.len());
            state.inode(self.inode).sync(changes);
        }
        state.end(fate, Operation::Sync, &self.name)
    }

    fn sync_all(&self) -> Result<(), DiskError> {
        self.sync_data()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
