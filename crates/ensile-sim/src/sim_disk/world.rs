//! A simulated machine's state: its folders, files, devices, processes and plans.
//!
//! Neighbours: `sim_disk` accesses the state under one lock; `names`, `content` and `calls` are its parts.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use ensile_base::random::Random;
use ensile_disk::{DiskError, Operation};

use super::calls::{Fate, Sequence};
use super::content::{Change, Content, Inode, Medium, Survival};
use super::names::{Entry, Mounts, NameChange, ROOT, Tree};
use super::{Moment, SimDisk};

#[derive(Clone, Debug)]
pub(super) struct State {
    /// Files. Std's `Arc`, because shared bytes are copied on a change; a model checker's `Arc` cannot copy.
    pub(super) inodes: Vec<Arc<Inode>>,
    pub(super) names: Tree,
    stable_names: Tree,
    unsynced_names: Vec<NameChange>,
    pub(super) mounts: Mounts,
    next_folder: u64,
    /// Held locks.
    pub(super) locks: Vec<Lock>,
    pub(super) next_lock: u64,
    /// True if nothing can be changed.
    pub(super) read_only: bool,
    /// Folders that cannot be locked.
    pub(super) no_folder_locks: NoFolderLocks,
    /// True if nothing can be locked.
    pub(super) no_locks: bool,
    /// Number of crashes, and of kills of every process: handles of an earlier boot are dead.
    pub(super) boot: u64,
    /// Number of crashes of the machine: the operating system's boot.
    pub(super) machine_boot: u64,
    /// Write-backs that the medium was told to begin: file, offset and bytes.
    pub(super) begun: Vec<(String, u64, u64)>,
    /// Number of words stored into mapped files, and the number of the word at which the machine's processes die.
    pub(super) stored_words: u64,
    pub(super) die_at_word: Option<u64>,
    /// True if the system reports no boot.
    pub(super) no_boot: bool,
    /// Number of mounts of the devices, which are mounted together.
    pub(super) mount_number: u64,
    /// True if the system reports no number of a mount.
    pub(super) no_mount_numbers: bool,
    /// True if no file can be mapped.
    pub(super) no_maps: bool,
    /// Number added to the inodes of files, as a file system may number files anew at a mount.
    pub(super) renumbered: u64,
    /// True if the file system reports no birth time of files.
    pub(super) no_births: bool,
    /// Times of change of files, in nanoseconds since 1970; only for files with a set time.
    pub(super) changed: BTreeMap<usize, i128>,
    pub(super) next_process: u64,
    /// Processes that were killed alone.
    pub(super) killed: BTreeSet<u64>,
    pub(super) sequence: Sequence,
    /// Capacity of the first device in bytes. The first device has the files that are on none of `devices`.
    pub(super) capacity: Option<u64>,
    /// Further devices: the folder of the mount, and the capacity in bytes.
    pub(super) devices: BTreeMap<u64, Option<u64>>,
    pub(super) medium: Medium,
    /// Files whose bytes the medium does not give back.
    pub(super) unreadable: BTreeSet<usize>,
    /// Kinds of calls that wait; `waiting` is the number of waiting calls.
    pub(super) stalled: Vec<Operation>,
    pub(super) forbidden: Vec<Operation>,
    pub(super) waiting: u64,
    /// Copies of the disk, if kept: a copy per call that changes or syncs, with the call's change in the cache.
    pub(super) moments: Option<Vec<Moment>>,
}

/// A held lock.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    pub(super) number: u64,
    pub(super) of: Locked,
    pub(super) hold: Hold,
    pub(super) process: u64,
}

/// Object of a lock, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locked {
    File(usize),
    Folder(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Exclusive,
    Shared,
}

/// Folders whose file system cannot lock folders.
#[derive(Clone, Debug, Default)]
pub(super) struct NoFolderLocks {
    pub(super) all: bool,
    pub(super) these: BTreeSet<u64>,
}

impl NoFolderLocks {
    pub(super) fn is_of(&self, folder: u64) -> bool {
        self.all || self.these.contains(&folder)
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            inodes: Vec::new(),
            names: Tree::default(),
            stable_names: Tree::default(),
            unsynced_names: Vec::new(),
            mounts: Mounts::default(),
            next_folder: ROOT + 1,
            locks: Vec::new(),
            next_lock: 0,
            read_only: false,
            no_folder_locks: NoFolderLocks::default(),
            no_locks: false,
            boot: 0,
            machine_boot: 0,
            begun: Vec::new(),
            stored_words: 0,
            die_at_word: None,
            no_boot: false,
            mount_number: 1,
            no_mount_numbers: false,
            no_maps: false,
            renumbered: 0,
            no_births: false,
            changed: BTreeMap::new(),
            next_process: 1,
            killed: BTreeSet::new(),
            sequence: Sequence::default(),
            capacity: None,
            devices: BTreeMap::new(),
            medium: Medium::default(),
            unreadable: BTreeSet::new(),
            stalled: Vec::new(),
            forbidden: Vec::new(),
            waiting: 0,
            moments: None,
        }
    }
}

pub(super) fn fail(operation: Operation, name: &str, kind: io::ErrorKind) -> DiskError {
    DiskError::io(operation, Path::new(name), kind.into())
}

pub(super) fn system_error(operation: Operation, name: &str, code: i32) -> DiskError {
    DiskError::io(operation, Path::new(name), io::Error::from_raw_os_error(code))
}

pub(super) fn input_output_error(operation: Operation, name: &str) -> DiskError {
    system_error(operation, name, 5)
}

impl State {
    /// Counts a call and returns its fate.
    pub(super) fn begin(&mut self, operation: Operation, name: &str, range: Option<(u64, u64)>) -> Fate {
        self.sequence.begin(operation, name, range)
    }

    /// Keeps a copy of the present disk, with the work of the running call in its cache.
    pub(super) fn keep_moment(&mut self) {
        let Some(kept) = self.moments.take() else { return };
        let number = self.sequence.calls.all;
        let disk = SimDisk::of(self.clone());
        self.moments = Some(kept);
        self.moments.iter_mut().for_each(|moments| moments.push(Moment { number, disk: disk.clone() }));
    }

    pub(super) fn inode(&mut self, inode: usize) -> &mut Inode {
        Arc::make_mut(&mut self.inodes[inode])
    }

    /// A new file without a name.
    pub(super) fn new_inode(&mut self, inode: Inode) -> usize {
        self.inodes.push(Arc::new(inode));
        self.inodes.len() - 1
    }

    pub(super) fn new_folder(&mut self) -> u64 {
        self.next_folder += 1;
        self.next_folder - 1
    }

    /// The device of a folder, by the folder of its mount; `None`: the first device.
    pub(super) fn device_of(&self, folder: u64) -> Option<u64> {
        let mut at = folder;
        loop {
            if self.devices.contains_key(&at) {
                return Some(at);
            }
            at = self.names.place(at)?.0;
        }
    }

    /// The device of a file, by its first name.
    fn device_of_file(&self, file: usize) -> Option<u64> {
        let devices = self.devices.keys().copied();
        let is_device = |folder: u64| self.devices.contains_key(&folder);
        devices.filter(|device| self.names.files_under(*device, &is_device).contains(&file)).min()
    }

    pub(super) fn capacity_of(&self, device: Option<u64>) -> Option<u64> {
        match device {
            Some(device) => self.devices.get(&device).copied().flatten(),
            None => self.capacity,
        }
    }

    pub(super) fn used_bytes(&self, device: Option<u64>) -> u64 {
        let is_device = |folder: u64| self.devices.contains_key(&folder);
        let files = match device {
            Some(device) => self.names.files_under(device, &is_device),
            None if self.devices.is_empty() => self.names.files(),
            None => self.names.files_under(super::names::TOP, &is_device),
        };
        files.into_iter().map(|inode| (self.inodes[inode].allocated + self.inodes[inode].copied) as u64).sum()
    }

    pub(super) fn free_bytes(&self, device: Option<u64>) -> Option<u64> {
        Some(self.capacity_of(device)?.saturating_sub(self.used_bytes(device)))
    }

    /// Takes space for the first `to` bytes of the file. Returns the number of bytes that have space now.
    pub(super) fn allocate(&mut self, inode: usize, to: usize) -> usize {
        let have = self.inodes[inode].allocated;
        let grown = to.saturating_sub(have).min(self.free_for(inode));
        if grown > 0 {
            self.inode(inode).allocated = have + grown;
        }
        have + grown
    }

    /// Takes space for a write. Returns the number of the write's bytes that have room.
    pub(super) fn make_room(&mut self, inode: usize, offset: usize, bytes: usize) -> usize {
        let Inode { allocated, copied, .. } = *self.inodes[inode];
        let over = (offset + bytes).min(allocated).saturating_sub(offset);
        if self.medium.copies_on_write && over > 0 {
            // Never more than one copy of the whole file: unsynced bytes are overwritten in place.
            let wanted = over.min(allocated.saturating_sub(copied));
            let taken = wanted.min(self.free_for(inode));
            self.inode(inode).copied = copied + taken;
            if taken < wanted {
                return taken;
            }
        }
        self.allocate(inode, offset + bytes).saturating_sub(offset).min(bytes)
    }

    fn free_for(&self, inode: usize) -> usize {
        let device = if self.devices.is_empty() { None } else { self.device_of_file(inode) };
        self.free_bytes(device).map_or(usize::MAX, |free| free as usize)
    }

    pub(super) fn is_full(&self, folder: u64) -> bool {
        self.free_bytes(self.device_of(folder)) == Some(0)
    }

    pub(super) fn change_name(&mut self, change: NameChange) {
        self.names.apply(&change);
        self.unsynced_names.push(change);
        self.keep_moment();
    }

    /// Covers a folder with an empty, nameless folder that is seen in its place.
    pub(super) fn cover(&mut self, folder: u64) {
        let empty = self.new_folder();
        self.names.add_folder(empty);
        self.stable_names.add_folder(empty);
        self.mounts.covers.insert(folder, empty);
    }

    /// Makes a change that is stable at once: a foreign change of long ago.
    pub(super) fn change_name_at_once(&mut self, change: &NameChange) {
        self.names.apply(change);
        self.stable_names.apply(change);
    }

    /// True if a crash may bring a removed name back.
    pub(super) fn may_return(&self, folder: u64, name: &str) -> bool {
        self.unsynced_names.iter().any(|change| change.removes(folder, name))
    }

    pub(super) fn sync_names(&mut self, folder: u64) {
        let (changes, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unsynced_names).into_iter().partition(|change| change.is_in(folder));
        changes.iter().for_each(|change| self.stable_names.apply(change));
        self.unsynced_names = others;
    }

    pub(super) fn change(&mut self, inode: usize, change: Change) {
        self.inode(inode).change(change);
        self.keep_moment();
    }

    /// Stores words into a mapped file, one behind the other, until the process dies at a word.
    pub(super) fn store_words(&mut self, inode: usize, at: usize, words: &mut dyn Iterator<Item = u64>) {
        let mut bytes = Vec::new();
        for word in words {
            if self.die_at_word == Some(self.stored_words) {
                self.sequence.is_cut = true;
                break;
            }
            self.stored_words += 1;
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        if !bytes.is_empty() {
            self.inode(inode).change(Change::write(at * size_of::<u64>(), &bytes));
        }
    }

    /// Keeps the bytes from `from` on as old bytes of the medium: the bytes no longer belong to the file, but may still
    /// be on the medium.
    pub(super) fn bury(&mut self, inode: usize, from: usize) {
        if self.medium.stale_space {
            let bytes = self.inodes[inode].stable.all();
            self.medium.bury(bytes.get(from..).unwrap_or_default());
        }
    }

    /// The result that the caller gets in the end.
    pub(super) fn end(&self, fate: Fate, operation: Operation, name: &str) -> Result<(), DiskError> {
        fate.code().map_or(Ok(()), |code| Err(system_error(operation, name, code)))
    }

    /// The error of a call without space.
    pub(super) fn refuse(&mut self, operation: Operation, name: &str) -> DiskError {
        self.sequence.note("no space");
        system_error(operation, name, 28)
    }

    pub(super) fn not_found(&mut self, operation: Operation, name: &str) -> DiskError {
        self.sequence.note("not found");
        fail(operation, name, io::ErrorKind::NotFound)
    }

    /// Starts the machine again: no process lives.
    pub(super) fn restart(&mut self) {
        self.boot += 1;
        self.locks.clear();
        self.sequence.restart();
        self.stalled.clear();
        self.die_at_word = None;
    }

    /// Power fails, and the machine starts again.
    pub(super) fn crash(&mut self, survival: Survival, random: &mut Random) {
        self.machine_boot += 1;
        self.lose_cache(survival, random);
    }

    /// The devices are lost and mounted anew, without their cache.
    pub(super) fn lose_cache(&mut self, survival: Survival, random: &mut Random) {
        self.restart();
        self.mount_number += 1;
        let medium = self.medium.clone();
        for inode in 0..self.inodes.len() {
            if !self.inodes[inode].unsynced.is_empty() || self.inodes[inode].allocated > 0 {
                self.inode(inode).crash(survival, &medium, random);
            }
        }
        let changes = std::mem::take(&mut self.unsynced_names);
        self.stable_names.crash(&changes, self.mounts.covers.values().copied(), survival, random);
        self.names = self.stable_names.clone();
        // Files without a name are gone.
        let named = self.names.files();
        for index in 0..self.inodes.len() {
            if !named.contains(&index) {
                self.inodes[index] = Arc::default();
            }
        }
    }

    /// Makes a folder and its parents, with stable names; the path begins at `start`, or with `/` at the top.
    pub(super) fn make_folders_at_once(&mut self, start: u64, path: &str) -> u64 {
        let mut at = if path.starts_with('/') { super::names::TOP } else { start };
        for part in path.split('/').filter(|part| !part.is_empty()) {
            at = self.mounts.find(&self.names, at, part).unwrap_or_else(|| {
                let made = self.new_folder();
                self.change_name_at_once(&NameChange::set(at, part, Some(Entry::Folder(made))));
                made
            });
        }
        at
    }

    /// Copies the contents of a folder into another folder: files and folders have new identities, links keep their
    /// targets.
    pub(super) fn copy_folder(&mut self, from: u64, to: u64) {
        let entries: Vec<_> =
            self.names.entries(from).map(|(name, entry)| (name.clone(), entry.clone())).collect();
        for (name, entry) in entries {
            let copy = match entry {
                Entry::File(file) => {
                    let bytes = Content::from(self.inodes[file].seen.all());
                    Entry::File(self.new_inode(Inode::stable(bytes)))
                }
                Entry::Folder(inner) => {
                    let made = self.new_folder();
                    self.change_name_at_once(&NameChange::set(to, &name, Some(Entry::Folder(made))));
                    self.copy_folder(inner, made);
                    continue;
                }
                Entry::Link(path) => Entry::Link(path),
            };
            self.change_name_at_once(&NameChange::set(to, &name, Some(copy)));
        }
    }
}
