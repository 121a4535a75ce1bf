//! A machine's disks in memory, which behave as badly as the `Disk` trait allows.
//!
//! What it models:
//! - A write, and a change of length, is in the cache until a sync of its file; what of it a crash leaves is a matter
//!   of
//!   [`Survival`]: kept, dropped, torn at sectors of 512 bytes, or a random suffix lost of each file.
//! - Creating, renaming and removing files, and making folders, changes names in the cache; at a crash a folder keeps
//!   what was synced and some of what came after. What stands in a folder whose own name is lost is lost with it.
//! - All calls count in one sequence. By number they fail, once or from there on ([`SimDisk::fail_calls`]), with a part
//!   of their work done or none, or power fails in the midst of one ([`SimDisk::cut_power_at`]). By kind they wait, as
//!   on a device that has stalled ([`SimDisk::stall`]).
//! - A failed sync forgets what it should have written: it stays readable (or not:
//!   [`SimDisk::set_failed_syncs_revert`]), is never stable, and the next sync of the same file succeeds all the same
//!   (as kernels do).
//! - Full disks: what would take more space than [`SimDisk::set_capacity`] allows is refused, a write after the part of
//!   it that has room; removing and cutting files gives space back. Overwriting takes space too, until the next sync,
//!   if asked for ([`SimDisk::set_copies_on_write`]). A folder may be a device of its own ([`SimDisk::set_device`]).
//! - Worse media, if asked for: old bytes in space that was never written ([`SimDisk::set_stale_space`]), and synced
//!   bytes lost beside a torn write ([`SimDisk::set_torn_pages`]).
//! - Mapped files: a store into one is in the cache at once, and in no sync's order. Processes may die between two
//!   words of one store ([`SimDisk::die_at_word`]). A kill leaves the cache and the system's boot as they are; a crash
//!   begins another boot.
//! - Processes: each [`SimDisk::mounted`] handle is one. They lock each other out, die one by one or all at once, and
//!   fork ([`SimDisk::in_child`]). As on a machine a process holds its folders open, whatever becomes of their names.
//! - What others do to folders: rename, copy, hard-link, link, unmount and mount them. They keep their identities, and
//!   copies have new ones. Paths begin at a handle's root, or with `/` at the machine's top.
//! - Handles and locks from before a crash are dead.
//!
//! What it does not model: bits that rot by themselves (see [`SimDisk::flip`], [`SimDisk::put`]), and sectors that lie
//! after a good sync.
//!
//! Neighbours: implements the traits of `ensile-disk`; clones share the same machine.

mod calls;
mod content;
mod disk;
mod file;
mod names;
mod world;

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensile_base::random::Random;
use ensile_base::sync::{Condvar, Mutex, MutexGuard};
use ensile_disk::{DiskError, Operation, Process};

pub use calls::{Call, Calls, Fault};
pub use content::Survival;

use content::{Content, Inode};
use names::{Entry, NameChange, ROOT};
use world::State;

/// The disk at a call: power fails in the midst of it, and what is left is a matter of [`SimDisk::crash_with`].
#[derive(Clone, Debug)]
pub struct Moment {
    /// The call.
    pub number: u64,
    /// A disk of its own.
    pub disk: SimDisk,
}

#[derive(Debug)]
struct World {
    state: Mutex<State>,
    /// Calls that waited on a stalled device may go on.
    released: Condvar,
    store_watch: Watch<StoreWatch>,
    /// With the root of the handles whose calls it is told of.
    folder_sync_watch: Watch<(u64, FolderSyncWatch)>,
}

/// Is told of stores into mapped files.
type StoreWatch = Arc<dyn Fn() + Send + Sync>;

/// Is told of the folders that are synced.
type FolderSyncWatch = Arc<dyn Fn(&str) + Send + Sync>;

/// Who is told of some kind of calls.
struct Watch<T>(Mutex<Option<T>>);

impl<T: Clone> Watch<T> {
    fn set(&self, watch: Option<T>) {
        *self.0.lock() = watch;
    }

    /// What is set: to be called when nothing is locked, as it may use the disk.
    fn get(&self) -> Option<T> {
        self.0.lock().clone()
    }
}

impl<T> Default for Watch<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> std::fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

/// A folder of a simulated machine; clones share it.
#[derive(Clone, Debug)]
pub struct SimDisk {
    world: Arc<World>,
    root: u64,
    mounted: Option<Mounted>,
    process: Process,
}

/// A process's part of a handle.
#[derive(Clone, Debug)]
struct Mounted {
    /// The boot that it belongs to.
    boot: u64,
    number: u64,
    /// The folders that it holds open, by name.
    opened: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::of(State::default())
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

// Machines, processes and crashes.
impl SimDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn of(state: State) -> Self {
        let world = Arc::new(World {
            state: Mutex::new(state),
            released: Condvar::new(),
            store_watch: Watch::default(),
            folder_sync_watch: Watch::default(),
        });
        Self { world, root: ROOT, mounted: None, process: Process::simulated() }
    }

    /// The disk as one process has it: after the next crash nothing that it does succeeds, as it is dead. Another
    /// process is another call.
    #[must_use]
    pub fn mounted(&self) -> Self {
        let mut state = self.lock_state();
        state.next_process += 1;
        let mounted = Mounted { boot: state.boot, number: state.next_process, opened: Arc::default() };
        let process = Process::simulated();
        Self { world: Arc::clone(&self.world), root: self.root, mounted: Some(mounted), process }
    }

    /// The same machine with another folder for its root, made if it is not there. It belongs to no process.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        let root = self.lock_state().make_folders_at_once(self.root, path);
        Self { world: Arc::clone(&self.world), root, mounted: None, process: Process::simulated() }
    }

    /// Another machine with the same bytes, names and plans, which goes its own way from here on. The handle belongs to
    /// no process.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut state = self.lock_state().clone();
        state.moments = None;
        let disk = Self::of(state);
        Self { root: self.root, ..disk }
    }

    /// Until the result is dropped, whatever is called on this handle and on what was opened through it is called by a
    /// child that was forked from its process (I4).
    #[must_use]
    pub fn in_child(&self) -> InChild {
        self.process.set_forked(true);
        InChild(self.process.clone())
    }

    /// The machine loses power: what was not synced is kept, dropped or torn, as `seed` says.
    pub fn crash(&self, seed: u64) {
        self.crash_with(Survival::Random, seed);
    }

    /// The machine loses power, if it has not yet, and starts again: what was not synced survives as `survival` says,
    /// drawn from `seed`.
    pub fn crash_with(&self, survival: Survival, seed: u64) {
        self.lock_state().crash(survival, &mut Random::seeded(seed));
        self.world.released.notify_all();
    }

    /// The devices are lost and return within one boot of the machine, as a network device does or after a forced
    /// unmount: what was not synced survives as `survival` says, drawn from `seed`. All processes die.
    pub fn lose_devices(&self, survival: Survival, seed: u64) {
        self.lock_state().lose_cache(survival, &mut Random::seeded(seed));
        self.world.released.notify_all();
    }

    /// The system tells no number of a mount, or tells it again.
    pub fn set_no_mount_numbers(&self, cannot: bool) {
        self.lock_state().no_mount_numbers = cannot;
    }

    /// All processes die and the machine lives on: the cache stays as it is, locks are free, handles are dead.
    pub fn kill(&self) {
        self.lock_state().restart();
        self.world.released.notify_all();
    }

    /// Lets the processes die at the `count`th word from now that is stored into a mapped file (1 is the next): it is
    /// not stored, and nothing succeeds from then on until [`SimDisk::kill`], or [`SimDisk::crash_with`].
    pub fn die_at_word(&self, count: u64) {
        let mut state = self.lock_state();
        state.die_at_word = Some(state.stored_words + count.max(1) - 1);
    }

    /// Calls this behind each store into a mapped file, on the thread that stores, from now on.
    pub fn watch_stores(&self, watch: Option<StoreWatch>) {
        self.world.store_watch.set(watch);
    }

    /// Calls this in front of each sync of a folder through a handle with this one's root, on the thread that syncs,
    /// from now on. It is told the folder's name from that root, and may use the disk: nothing is locked.
    pub fn watch_folder_syncs(&self, watch: Option<FolderSyncWatch>) {
        self.world.folder_sync_watch.set(watch.map(|watch| (self.root, watch)));
    }

    /// What the medium was told to begin with so far: file, offset and bytes.
    #[must_use]
    pub fn begun(&self) -> Vec<(String, u64, u64)> {
        self.lock_state().begun.clone()
    }

    /// Words that were stored into mapped files so far.
    #[must_use]
    pub fn stored_words(&self) -> u64 {
        self.lock_state().stored_words
    }

    /// The system does not tell which boot it is, or tells it again.
    pub fn set_no_boot(&self, no_boot: bool) {
        self.lock_state().no_boot = no_boot;
    }

    /// No file can be mapped, as on a file system where a store may fail, or files can be again.
    pub fn set_no_maps(&self, no_maps: bool) {
        self.lock_state().no_maps = no_maps;
    }

    /// The file system numbers files anew: each inode is larger by this.
    pub fn renumber_files(&self, by: u64) {
        self.lock_state().renumbered += by;
    }

    /// The file system does not say when a file was made, or says it again.
    pub fn set_no_births(&self, no_births: bool) {
        self.lock_state().no_births = no_births;
    }

    /// The file of this name was changed then, in nanoseconds since 1970. Of other files the disk does not tell it.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn set_changed(&self, name: &str, nanos: i128) {
        let mut state = self.lock_state();
        let inode = self.find_file(&state, name).expect("a file of this name");
        state.changed.insert(inode, nanos);
    }

    /// This process dies, and others live on.
    ///
    /// # Panics
    /// If the handle is not a process's.
    pub fn kill_process(&self) {
        let number = self.mounted.as_ref().expect("a process's handle").number;
        let mut state = self.lock_state();
        state.killed.insert(number);
        state.locks.retain(|lock| lock.process != number);
        drop(state);
        self.world.released.notify_all();
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.world.state.lock()
    }

    fn is_dead(&self, state: &State) -> bool {
        let of_process =
            |mounted: &Mounted| mounted.boot != state.boot || state.killed.contains(&mounted.number);
        state.sequence.is_cut || self.mounted.as_ref().is_some_and(of_process)
    }

    /// The number of the handle's process; 0 if it has none.
    fn process_number(&self) -> u64 {
        self.mounted.as_ref().map_or(0, |mounted| mounted.number)
    }
}

// Calls.
impl SimDisk {
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
    /// good, until [`SimDisk::heal`]. A disk without space refuses the first of them, whatever it is, and then what
    /// grows.
    pub fn fail_calls(&self, numbers: impl RangeBounds<u64>, fault: Fault) {
        self.lock_state().sequence.fail(numbers, fault);
    }

    /// Lets power fail in the midst of the call of this number: nothing succeeds from then on until
    /// [`SimDisk::crash_with`] says what is left.
    pub fn cut_power_at(&self, number: u64) {
        self.lock_state().sequence.cut_at(number);
    }

    /// Lets the processes die as they begin the call of this number, of which nothing is done: nothing succeeds from
    /// then on until [`SimDisk::kill`], or [`SimDisk::crash_with`].
    pub fn die_before(&self, number: u64) {
        self.lock_state().sequence.cut_before(number);
    }

    /// Has power failed at the call that [`SimDisk::cut_power_at`] names?
    #[must_use]
    pub fn is_without_power(&self) -> bool {
        self.lock_state().sequence.is_cut
    }

    /// Lets the `count`th call of this kind from now fail (1 is the next).
    pub fn fail_next(&self, operation: Operation, count: u64) {
        self.lock_state().sequence.fail_next(operation, count);
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
        let mut state = self.lock_state();
        state.sequence.heal();
        state.die_at_word = None;
    }

    /// The device stalls: calls of these kinds wait from now on, until [`SimDisk::release`], a crash or a kill.
    pub fn stall(&self, operations: &[Operation]) {
        self.lock_state().stalled = operations.to_vec();
    }

    /// The system forbids changes of these kinds from now on, and of no other kind.
    pub fn forbid(&self, operations: &[Operation]) {
        self.lock_state().forbidden = operations.to_vec();
    }

    /// The device goes on.
    pub fn release(&self) {
        self.lock_state().stalled.clear();
        self.world.released.notify_all();
    }

    /// How many calls wait on the stalled device.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.lock_state().waiting
    }

    /// Waits while the device is stalled for calls of this kind.
    fn wait_for_device<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        operation: Operation,
    ) -> MutexGuard<'a, State> {
        let boot = state.boot;
        while state.stalled.contains(&operation) && state.boot == boot && !self.is_dead(&state) {
            state.waiting += 1;
            state = self.world.released.wait(state);
            state.waiting -= 1;
        }
        state
    }
}

// Devices and media.
impl SimDisk {
    /// Bytes that have room on the disk; `None`: any number.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock_state().capacity = bytes;
    }

    /// The folder at `path` is a device of its own, with room for this number of bytes; `None`: any number. The folder
    /// is made if it is not there.
    pub fn set_device(&self, path: &str, bytes: Option<u64>) {
        let mut state = self.lock_state();
        let folder = state.make_folders_at_once(self.root, path);
        state.devices.insert(folder, bytes);
    }

    /// Bytes that take up space now on the device of this handle's root.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let state = self.lock_state();
        state.used_bytes(state.device_of(self.root))
    }

    /// After a crash, space that was set aside or grown and never written on stable storage may hold bytes of files
    /// that were removed or cut before, or garbage; or it reads as zeros again, as by default.
    pub fn set_stale_space(&self, is_stale: bool) {
        self.lock_state().medium.stale_space = is_stale;
    }

    /// A write that a crash tears may damage the rest of its pages of 4 KiB, synced bytes too; or not, as by default:
    /// then overwriting is power-safe.
    pub fn set_torn_pages(&self, are_torn: bool) {
        self.lock_state().medium.torn_pages = are_torn;
    }

    /// What a failed sync should have written is read as it was before from then on, as if the cache had dropped its
    /// pages; or it stays readable, as by default.
    pub fn set_failed_syncs_revert(&self, revert: bool) {
        self.lock_state().medium.failed_syncs_revert = revert;
    }

    /// A file system that copies on write: bytes that are overwritten keep their space until the next sync of their
    /// file, so that a full disk refuses to overwrite them; or they are overwritten in place, as by default.
    pub fn set_copies_on_write(&self, copies: bool) {
        self.lock_state().medium.copies_on_write = copies;
    }

    /// Forbids to open for writing, to make, rename and remove, and to take an exclusive lock; or allows it again.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock_state().read_only = read_only;
    }

    /// The file system cannot lock folders, or can again.
    pub fn set_no_folder_locks(&self, cannot: bool) {
        self.lock_state().no_folder_locks.all = cannot;
    }

    /// The file system of the folder at `path` cannot lock it. The folder is made if it is not there.
    pub fn set_no_lock_of_folder(&self, path: &str) {
        let mut state = self.lock_state();
        let folder = state.make_folders_at_once(self.root, path);
        state.no_folder_locks.these.insert(folder);
    }

    /// The file system cannot lock anything, or can again.
    pub fn set_no_locks(&self, cannot: bool) {
        self.lock_state().no_locks = cannot;
    }
}

// What others do: damage, copies, mounts. Paths begin at this handle's root, or with `/` at the machine's top.
impl SimDisk {
    /// The folder of the last part of `path`, and that part.
    fn split<'p>(&self, state: &State, path: &'p str) -> Option<(u64, &'p str)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = if path.starts_with('/') && folder.is_empty() { "/" } else { folder };
        Some((state.mounts.find(&state.names, self.root, folder)?, name))
    }

    fn file_at(&self, state: &State, path: &str) -> usize {
        let found =
            self.split(state, path).and_then(|(folder, name)| state.names.entry(folder, name).cloned());
        let Some(Entry::File(file)) = found else { panic!("there is no file {path}") };
        file
    }

    fn folder_at(&self, state: &State, path: &str) -> u64 {
        let found = state.mounts.find(&state.names, self.root, path);
        found.unwrap_or_else(|| panic!("there is no folder {path}"))
    }

    /// Flips the bits of `mask` in a stable byte: damage.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) {
        let mut state = self.lock_state();
        let at = self.file_at(&state, name);
        let inode = state.inode(at);
        for content in [&mut inode.seen, &mut inode.stable] {
            assert!((offset as usize) < content.length, "byte {offset} of {name} is not there");
            let used = content.data.len().max(offset as usize + 1);
            content.data.resize(used, 0);
            content.data[offset as usize] ^= mask;
        }
    }

    /// From now on reading bytes of this file fails with EIO, as where the medium cannot give them back.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn make_unreadable(&self, name: &str) {
        let mut state = self.lock_state();
        let file = self.file_at(&state, name);
        state.unreadable.insert(file);
    }

    /// Puts a file there with these bytes, name and all on stable storage, its folder too: damage, or a copy.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.lock_state();
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        let folder = state.make_folders_at_once(self.root, folder);
        let file = state.new_inode(Inode::stable(Content::from(bytes)));
        state.change_name_at_once(&NameChange::set(folder, last, Some(Entry::File(file))));
    }

    /// Removes a file, a link or a folder with all that is in it, and its stable name at once: damage.
    pub fn lose(&self, name: &str) {
        let mut state = self.lock_state();
        if let Some((folder, last)) = self.split(&state, name) {
            state.change_name_at_once(&NameChange::set(folder, last, None));
        }
    }

    /// The bytes of a file as they are seen now.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.lock_state();
        state.inodes[self.file_at(&state, name)].seen.all()
    }

    /// The full names of all files under this handle's root, through links too, sorted.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        let state = self.lock_state();
        let mut files = Vec::new();
        let mut left = vec![(self.root, String::new())];
        while let Some((folder, prefix)) = left.pop() {
            for (name, entry) in state.names.entries(folder) {
                let full = format!("{prefix}{name}");
                match entry {
                    Entry::File(_) => files.push(full),
                    Entry::Folder(_) | Entry::Link(_) => {
                        let inner = state.mounts.find(&state.names, folder, name);
                        // A link may lead to a folder that is above it.
                        let inner = inner.filter(|_| full.matches('/').count() < 8);
                        left.extend(inner.map(|inner| (inner, format!("{full}/"))));
                    }
                }
            }
        }
        files.sort_unstable();
        files
    }

    /// The device behind a linked folder is taken away, so that the link leads nowhere, or put back.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn unplug(&self, folder: &str, is_there: bool) {
        let mut state = self.lock_state();
        let found =
            self.split(&state, folder).and_then(|(parent, last)| state.names.entry(parent, last).cloned());
        let Some(Entry::Link(to)) = found else { panic!("{folder} is no link") };
        let gone = std::mem::take(&mut state.mounts.gone);
        let target = self.folder_at(&state, to.to_str().expect("a path of this machine"));
        state.mounts.gone = gone;
        if is_there {
            state.mounts.gone.remove(&target)
        } else {
            state.mounts.gone.insert(target)
        };
    }

    /// The device that is mounted at this folder is unmounted: an empty folder, with an identity of its own, stands in
    /// its place. Processes that have it open keep it.
    ///
    /// # Panics
    /// If there is no such folder.
    pub fn unmount(&self, path: &str) {
        let mut state = self.lock_state();
        let folder = self.folder_at(&state, path);
        state.cover(folder);
    }

    /// The device is mounted again.
    ///
    /// # Panics
    /// If there is no such folder, or it was not unmounted.
    pub fn mount(&self, path: &str) {
        let mut state = self.lock_state();
        let empty = self.folder_at(&state, path);
        let covered =
            state.mounts.covers.iter().find(|(_, cover)| **cover == empty).map(|(folder, _)| *folder);
        let folder = covered.unwrap_or_else(|| panic!("{path} was not unmounted"));
        state.mounts.covers.remove(&folder);
    }

    /// Gives a folder or file another name, which takes the place of what has it; it keeps its identity.
    ///
    /// # Panics
    /// If there is no such thing, or no folder to put it in.
    pub fn move_to(&self, from: &str, to: &str) {
        let mut state = self.lock_state();
        let from_place = self.split(&state, from).unwrap_or_else(|| panic!("there is no {from}"));
        let to_place = self.split(&state, to).unwrap_or_else(|| panic!("there is no folder for {to}"));
        let entry = state.names.entry(from_place.0, from_place.1).cloned();
        let entry = entry.unwrap_or_else(|| panic!("there is no {from}"));
        state.change_name_at_once(&NameChange::rename(from_place, to_place, entry));
    }

    /// Copies a folder with all that is in it, as `cp -a` does: what is copied has new identities, links lead where
    /// they led.
    ///
    /// # Panics
    /// If there is no such folder.
    pub fn copy_tree(&self, from: &str, to: &str) {
        let mut state = self.lock_state();
        let from = self.folder_at(&state, from);
        let to = state.make_folders_at_once(self.root, to);
        state.copy_folder(from, to);
    }

    /// Gives a file a second name, as `ln` and `cp -al` do.
    ///
    /// # Panics
    /// If there is no such file, or no folder for the name.
    pub fn hard_link(&self, file: &str, name: &str) {
        let mut state = self.lock_state();
        let file = self.file_at(&state, file);
        let (folder, last) =
            self.split(&state, name).unwrap_or_else(|| panic!("there is no folder for {name}"));
        state.change_name_at_once(&NameChange::set(folder, last, Some(Entry::File(file))));
    }

    /// Makes `name` a link to a path from the machine's top, whatever is there: in the place of what has the name.
    ///
    /// # Panics
    /// If there is no folder for the name.
    pub fn link(&self, name: &str, to: &Path) {
        let mut state = self.lock_state();
        let (folder, last) =
            self.split(&state, name).unwrap_or_else(|| panic!("there is no folder for {name}"));
        state.change_name_at_once(&NameChange::set(folder, last, Some(Entry::Link(to.to_owned()))));
    }

    /// The path of this handle's root from the machine's top.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let state = self.lock_state();
        state.mounts.path(&state.names, self.root)
    }
}

/// What a call says of a process that was forked.
fn forked(operation: Operation, name: &str) -> DiskError {
    DiskError::Forked { operation, path: name.into() }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
