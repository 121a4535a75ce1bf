//! A machine's disks in memory, as hostile as the `Disk` trait allows.
//!
//! The model:
//! - A write or a change of length stays in the cache until a sync of its file. A crash treats cached bytes as
//!   [`Survival`] says: kept, dropped, torn at sectors of 512 bytes, or cut by a random suffix per file.
//! - Creating, renaming and removing files, and making folders, changes names in the cache. After a crash a folder has
//!   its synced names and a part of the later changes. A folder that loses its own name loses its contents.
//! - Calls count in one sequence. A call can fail by number, once or from a number on ([`SimDisk::fail_calls`]), with a
//!   part of its work done or none. Power can fail in the midst of a call ([`SimDisk::cut_power_at`]). Calls of a kind
//!   can wait, as on a stalled device ([`SimDisk::stall`]).
//! - A failed sync forgets its bytes. The bytes stay readable (or not: [`SimDisk::set_failed_syncs_revert`]), are never
//!   stable, and the next sync of the same file still succeeds (as kernels do).
//! - Full disks: a call beyond [`SimDisk::set_capacity`] is refused; a write is refused after the part with room.
//!   Removing and cutting files gives space back. Overwriting can take space until the next sync
//!   ([`SimDisk::set_copies_on_write`]). A folder may be a device of its own ([`SimDisk::set_device`]).
//! - Worse media: old bytes in space never written ([`SimDisk::set_stale_space`]), and synced bytes lost beside a torn
//!   write ([`SimDisk::set_torn_pages`]). Both are off by default.
//! - Mapped files: a store into a mapped file is in the cache at once, and in no sync's order. Processes may die
//!   between two words of one store ([`SimDisk::die_at_word`]). A kill keeps the cache and the system's boot; a crash
//!   begins another boot.
//! - Processes: a [`SimDisk::mounted`] handle is a process. Processes lock each other out, die singly or together, and
//!   fork ([`SimDisk::in_child`]). A process holds its folders open even if their names change, as on a machine.
//! - Foreign changes of folders: rename, copy, hard link, link, unmount and mount. A renamed folder keeps its identity;
//!   a copy has a new identity. Paths begin at a handle's root, or with `/` at the machine's top.
//! - Handles and locks from before a crash are dead.
//!
//! Not in the model: bits that rot by themselves (see [`SimDisk::flip`], [`SimDisk::put`]), and sectors that lie after
//! a good sync.
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

/// A copy of the disk at one call. Power fails in the midst of the call; [`SimDisk::crash_with`] decides the outcome.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Number of the call.
    pub number: u64,
    /// A disk of its own.
    pub disk: SimDisk,
}

#[derive(Debug)]
struct World {
    state: Mutex<State>,
    /// Wakes the calls that waited on a stalled device.
    released: Condvar,
    store_watch: Watch<StoreWatch>,
    /// The watch, and the root of the handles with watched calls.
    folder_sync_watch: Watch<(u64, FolderSyncWatch)>,
}

/// Callback for stores into mapped files.
type StoreWatch = Arc<dyn Fn() + Send + Sync>;

/// Callback for syncs of folders; the argument is the folder.
type FolderSyncWatch = Arc<dyn Fn(&str) + Send + Sync>;

/// Callback for calls of one kind.
struct Watch<T>(Mutex<Option<T>>);

impl<T: Clone> Watch<T> {
    fn set(&self, watch: Option<T>) {
        *self.0.lock() = watch;
    }

    /// The callback. Callers call the callback without a lock, because the callback may use the disk.
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
    /// Boot of the process.
    boot: u64,
    number: u64,
    /// Folders that the process holds open, by name.
    opened: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::of(State::default())
    }
}

/// Guard: while the guard lives, calls of a simulated process are calls of its child (see [`SimDisk::in_child`]).
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
        Self { world, root: ROOT, mounted: None, process: Process::new_simulated() }
    }

    /// A handle of a new process. After the next crash the process is dead and its calls fail. A second call makes a
    /// second process.
    #[must_use]
    pub fn mounted(&self) -> Self {
        let mut state = self.lock_state();
        state.next_process += 1;
        let mounted = Mounted { boot: state.boot, number: state.next_process, opened: Arc::default() };
        let process = Process::new_simulated();
        Self { world: Arc::clone(&self.world), root: self.root, mounted: Some(mounted), process }
    }

    /// The same machine with the folder at `path` as root; the folder is made if missing. The handle belongs to no
    /// process.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        let root = self.lock_state().make_folders_at_once(self.root, path);
        Self { world: Arc::clone(&self.world), root, mounted: None, process: Process::new_simulated() }
    }

    /// A second machine with the same bytes, names and plans. The two machines are independent afterwards. The handle
    /// belongs to no process.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut state = self.lock_state().clone();
        state.moments = None;
        let disk = Self::of(state);
        Self { root: self.root, ..disk }
    }

    /// Turns the calls on this handle, and on files opened through this handle, into calls of a forked child of its
    /// process (I4). The effect ends with the drop of the guard.
    #[must_use]
    pub fn in_child(&self) -> InChild {
        self.process.set_forked(true);
        InChild(self.process.clone())
    }

    /// The machine loses power. Unsynced bytes are kept, dropped or torn, as `seed` says.
    pub fn crash(&self, seed: u64) {
        self.crash_with(Survival::Random, seed);
    }

    /// The machine loses power, if not lost before, and starts again. Unsynced bytes survive as `survival` says, drawn
    /// from `seed`.
    pub fn crash_with(&self, survival: Survival, seed: u64) {
        self.lock_state().crash(survival, &mut Random::from_seed(seed));
        self.world.released.notify_all();
    }

    /// The devices are lost and return within one boot of the machine, as a network device does or after a forced
    /// unmount. Unsynced bytes survive as `survival` says, drawn from `seed`. The processes die.
    pub fn lose_devices(&self, survival: Survival, seed: u64) {
        self.lock_state().lose_cache(survival, &mut Random::from_seed(seed));
        self.world.released.notify_all();
    }

    /// If `cannot` is true, the system reports no number of a mount.
    pub fn set_no_mount_numbers(&self, cannot: bool) {
        self.lock_state().no_mount_numbers = cannot;
    }

    /// The processes die and the machine lives on: the cache stays, locks are free, handles are dead.
    pub fn kill(&self) {
        self.lock_state().restart();
        self.world.released.notify_all();
    }

    /// The processes die at the `count`th word stored into a mapped file from now on (1 is the next). The word is not
    /// stored. Calls fail afterwards until [`SimDisk::kill`] or [`SimDisk::crash_with`].
    pub fn die_at_word(&self, count: u64) {
        let mut state = self.lock_state();
        state.die_at_word = Some(state.stored_words + count.max(1) - 1);
    }

    /// Calls `watch` after a store into a mapped file, on the storing thread.
    pub fn watch_stores(&self, watch: Option<StoreWatch>) {
        self.world.store_watch.set(watch);
    }

    /// Calls `watch` before a sync of a folder through a handle with the same root, on the syncing thread. The argument
    /// is the folder's name from the root. The callback may use the disk, because the caller holds no lock.
    pub fn watch_folder_syncs(&self, watch: Option<FolderSyncWatch>) {
        self.world.folder_sync_watch.set(watch.map(|watch| (self.root, watch)));
    }

    /// Write-backs that the medium was told to begin: file, offset and bytes.
    #[must_use]
    pub fn begun(&self) -> Vec<(String, u64, u64)> {
        self.lock_state().begun.clone()
    }

    /// Number of words stored into mapped files.
    #[must_use]
    pub fn stored_words(&self) -> u64 {
        self.lock_state().stored_words
    }

    /// If `no_boot` is true, the system reports no boot.
    pub fn set_no_boot(&self, no_boot: bool) {
        self.lock_state().no_boot = no_boot;
    }

    /// If `no_maps` is true, no file can be mapped, as on a file system where a store may fail.
    pub fn set_no_maps(&self, no_maps: bool) {
        self.lock_state().no_maps = no_maps;
    }

    /// The file system numbers files anew: an inode number grows by `by`.
    pub fn renumber_files(&self, by: u64) {
        self.lock_state().renumbered += by;
    }

    /// If `no_births` is true, the file system reports no birth time of files.
    pub fn set_no_births(&self, no_births: bool) {
        self.lock_state().no_births = no_births;
    }

    /// Sets the time of change of the file, in nanoseconds since 1970. The disk reports no time of change for files
    /// without a set time.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn set_changed(&self, name: &str, nanos: i128) {
        let mut state = self.lock_state();
        let inode = self.find_file(&state, name).expect("a file of this name");
        state.changed.insert(inode, nanos);
    }

    /// This process dies; the machine's other processes live on.
    ///
    /// # Panics
    /// If the handle belongs to no process.
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

    /// Number of the handle's process; 0 if the handle has no process.
    fn process_number(&self) -> u64 {
        self.mounted.as_ref().map_or(0, |mounted| mounted.number)
    }
}

// Calls.
impl SimDisk {
    /// Counts of the calls since the start.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.lock_state().sequence.calls
    }

    /// Starts or ends the trace of calls.
    pub fn record(&self, record: bool) {
        self.lock_state().sequence.record(record);
    }

    /// The calls since [`SimDisk::record`]; each prints as a line.
    #[must_use]
    pub fn trace(&self) -> Vec<Call> {
        self.lock_state().sequence.trace().to_vec()
    }

    /// Starts to keep a copy of the disk at every call that changes or syncs something.
    pub fn keep_moments(&self) {
        self.lock_state().moments = Some(Vec::new());
    }

    /// Removes and returns the kept moments. Moments share bytes, so a moment is cheap.
    #[must_use]
    pub fn take_moments(&self) -> Vec<Moment> {
        self.lock_state().moments.take().unwrap_or_default()
    }

    /// Makes the calls with these numbers fail; [`Calls::all`] + 1 is the next call. `k..=k` fails once, `k..` fails
    /// until [`SimDisk::heal`]. A disk without space refuses the first call of the range, whatever its kind, and
    /// afterwards the calls that grow a file.
    pub fn fail_calls(&self, numbers: impl RangeBounds<u64>, fault: Fault) {
        self.lock_state().sequence.fail(numbers, fault);
    }

    /// Power fails in the midst of the call with this number. Calls fail afterwards until [`SimDisk::crash_with`]
    /// decides the outcome.
    pub fn cut_power_at(&self, number: u64) {
        self.lock_state().sequence.cut_at(number);
    }

    /// The processes die at the begin of the call with this number; the call does nothing. Calls fail afterwards until
    /// [`SimDisk::kill`] or [`SimDisk::crash_with`].
    pub fn die_before(&self, number: u64) {
        self.lock_state().sequence.cut_before(number);
    }

    /// True if power has failed at the call that [`SimDisk::cut_power_at`] names.
    #[must_use]
    pub fn is_without_power(&self) -> bool {
        self.lock_state().sequence.is_cut
    }

    /// Makes the `count`th call of this kind from now fail (1 is the next).
    pub fn fail_next(&self, operation: Operation, count: u64) {
        self.lock_state().sequence.fail_next(operation, count);
    }

    /// Makes the `count`th write from now fail (1 is the next).
    pub fn fail_write(&self, count: u64) {
        self.lock_state().sequence.fail_next(Operation::Write, count);
    }

    /// Makes the `count`th sync of a file from now fail (1 is the next). Later syncs succeed and lie about the lost
    /// bytes.
    pub fn fail_sync(&self, count: u64) {
        self.lock_state().sequence.fail_next(Operation::Sync, count);
    }

    /// Makes the `count`th sync of a folder from now fail (1 is the next).
    pub fn fail_folder_sync(&self, count: u64) {
        self.lock_state().sequence.fail_next(Operation::SyncFolder, count);
    }

    /// Makes every sync fail from now on, or none.
    pub fn fail_all_syncs(&self, fail: bool) {
        self.lock_state().sequence.fail_all_syncs(fail);
    }

    /// Takes back the failures that have not happened. A capacity stays.
    pub fn heal(&self) {
        let mut state = self.lock_state();
        state.sequence.heal();
        state.die_at_word = None;
    }

    /// The device stalls: calls of these kinds wait until [`SimDisk::release`], a crash or a kill.
    pub fn stall(&self, operations: &[Operation]) {
        self.lock_state().stalled = operations.to_vec();
    }

    /// The system forbids changes of these kinds, and of no other kind.
    pub fn forbid(&self, operations: &[Operation]) {
        self.lock_state().forbidden = operations.to_vec();
    }

    /// Ends the stall of the device.
    pub fn release(&self) {
        self.lock_state().stalled.clear();
        self.world.released.notify_all();
    }

    /// Number of calls that wait on the stalled device.
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
    /// Sets the capacity of the disk in bytes; `None`: unlimited.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock_state().capacity = bytes;
    }

    /// Makes the folder at `path` a device with a capacity of `bytes`; `None`: unlimited. The folder is made if
    /// missing.
    pub fn set_device(&self, path: &str, bytes: Option<u64>) {
        let mut state = self.lock_state();
        let folder = state.make_folders_at_once(self.root, path);
        state.devices.insert(folder, bytes);
    }

    /// Bytes in use on the device of this handle's root.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let state = self.lock_state();
        state.used_bytes(state.device_of(self.root))
    }

    /// If `is_stale` is true, reserved or grown space that was never stable may hold other bytes after a crash. These
    /// are bytes of removed or cut files, or garbage. By default such space reads as zeros.
    pub fn set_stale_space(&self, is_stale: bool) {
        self.lock_state().medium.stale_space = is_stale;
    }

    /// If `are_torn` is true, a write torn by a crash may damage the rest of its pages of 4 KiB, synced bytes too. By
    /// default overwriting is power-safe.
    pub fn set_torn_pages(&self, are_torn: bool) {
        self.lock_state().medium.torn_pages = are_torn;
    }

    /// If `revert` is true, the bytes of a failed sync read as before the write, as if the cache had dropped its pages.
    /// By default the bytes stay readable.
    pub fn set_failed_syncs_revert(&self, revert: bool) {
        self.lock_state().medium.failed_syncs_revert = revert;
    }

    /// If `copies` is true, overwritten bytes keep their space until the next sync of their file, as on a file system
    /// that copies on write. A full disk refuses to overwrite then. By default bytes are overwritten in place.
    pub fn set_copies_on_write(&self, copies: bool) {
        self.lock_state().medium.copies_on_write = copies;
    }

    /// If `read_only` is true, the disk forbids opens for writing, exclusive locks, and making, renaming and removing.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock_state().read_only = read_only;
    }

    /// If `cannot` is true, the file system cannot lock folders.
    pub fn set_no_folder_locks(&self, cannot: bool) {
        self.lock_state().no_folder_locks.all = cannot;
    }

    /// The file system of the folder at `path` cannot lock the folder. The folder is made if missing.
    pub fn set_no_lock_of_folder(&self, path: &str) {
        let mut state = self.lock_state();
        let folder = state.make_folders_at_once(self.root, path);
        state.no_folder_locks.these.insert(folder);
    }

    /// If `cannot` is true, the file system cannot lock anything.
    pub fn set_no_locks(&self, cannot: bool) {
        self.lock_state().no_locks = cannot;
    }
}

// Foreign changes: damage, copies, mounts. Paths begin at this handle's root, or with `/` at the machine's top.
impl SimDisk {
    /// The folder of the last part of `path`, and the last part.
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

    /// Makes reads of this file's bytes fail with EIO, as on a damaged medium.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn make_unreadable(&self, name: &str) {
        let mut state = self.lock_state();
        let file = self.file_at(&state, name);
        state.unreadable.insert(file);
    }

    /// Creates a file with these bytes. File, name and folder are stable at once: damage, or a copy.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.lock_state();
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        let folder = state.make_folders_at_once(self.root, folder);
        let file = state.new_inode(Inode::stable(Content::from(bytes)));
        state.change_name_at_once(&NameChange::set(folder, last, Some(Entry::File(file))));
    }

    /// Removes a file, a link or a folder with its contents, and its stable name at once: damage.
    pub fn lose(&self, name: &str) {
        let mut state = self.lock_state();
        if let Some((folder, last)) = self.split(&state, name) {
            state.change_name_at_once(&NameChange::set(folder, last, None));
        }
    }

    /// The visible bytes of a file.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.lock_state();
        state.inodes[self.file_at(&state, name)].seen.all()
    }

    /// The full names of the files under this handle's root, through links too, sorted.
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
                        // A link may lead to a folder above the link.
                        let inner = inner.filter(|_| full.matches('/').count() < 8);
                        left.extend(inner.map(|inner| (inner, format!("{full}/"))));
                    }
                }
            }
        }
        files.sort_unstable();
        files
    }

    /// Removes the device behind a linked folder, so that the link leads nowhere, or restores the device.
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

    /// Unmounts the device at this folder: an empty folder with an identity of its own takes its place. Processes with
    /// the folder open keep the folder.
    ///
    /// # Panics
    /// If there is no such folder.
    pub fn unmount(&self, path: &str) {
        let mut state = self.lock_state();
        let folder = self.folder_at(&state, path);
        state.cover(folder);
    }

    /// Mounts the device again.
    ///
    /// # Panics
    /// If there is no such folder, or the folder was not unmounted.
    pub fn mount(&self, path: &str) {
        let mut state = self.lock_state();
        let empty = self.folder_at(&state, path);
        let covered =
            state.mounts.covers.iter().find(|(_, cover)| **cover == empty).map(|(folder, _)| *folder);
        let folder = covered.unwrap_or_else(|| panic!("{path} was not unmounted"));
        state.mounts.covers.remove(&folder);
    }

    /// Renames a folder or file, and replaces the owner of the new name. The folder or file keeps its identity.
    ///
    /// # Panics
    /// If there is no such thing, or no folder for the new name.
    pub fn move_to(&self, from: &str, to: &str) {
        let mut state = self.lock_state();
        let from_place = self.split(&state, from).unwrap_or_else(|| panic!("there is no {from}"));
        let to_place = self.split(&state, to).unwrap_or_else(|| panic!("there is no folder for {to}"));
        let entry = state.names.entry(from_place.0, from_place.1).cloned();
        let entry = entry.unwrap_or_else(|| panic!("there is no {from}"));
        state.change_name_at_once(&NameChange::rename(from_place, to_place, entry));
    }

    /// Copies a folder with its contents, as `cp -a` does. Copies have new identities; links keep their targets.
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

    /// Makes `name` a link to a path from the machine's top, with or without a target. The link replaces the owner of
    /// the name.
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

/// The error of a call by a forked process.
fn forked(operation: Operation, name: &str) -> DiskError {
    DiskError::Forked { operation, path: name.into() }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
