//! Calls of the simulated disk on names: the methods of `Disk`.
//!
//! - A process keeps used folders open, and finds a used folder again whatever happens to its name. A handle without a
//!   process looks every name up anew.
//!
//! Neighbours: [`super::world`] has the state. `file` has the calls on open files.

use std::io;
use std::path::{Path, PathBuf};

use ensile_base::sync::MutexGuard;
use ensile_disk::{
    BootId, Disk, DiskError, DiskFile, DiskLock, FileTimes, FolderId, FolderKind, KeptSpace, Operation,
    Process,
};

use super::calls::Fate;
use super::content::{Change, Inode};
use super::file::{SimFile, SimLock, SimSpace};
use super::names::{Entry, NameChange};
use super::world::{Hold, Lock, Locked, State, fail, input_output_error};
use super::{SimDisk, forked};

/// A call under way: the state, and the fate of the call.
type Begun<'a> = (MutexGuard<'a, State>, Fate);

impl SimDisk {
    /// Locks the state. Returns an error if this handle's process is dead or without power.
    pub(super) fn live_state(
        &self,
        operation: Operation,
        name: &str,
    ) -> Result<MutexGuard<'_, State>, DiskError> {
        let state = self.wait_for_device(self.lock_state(), operation);
        if self.is_dead(&state) { Err(input_output_error(operation, name)) } else { Ok(state) }
    }

    pub(super) fn check_process(&self, operation: Operation, name: &str) -> Result<(), DiskError> {
        if self.process.is_this() { Ok(()) } else { Err(forked(operation, name)) }
    }

    /// Begins a call that changes nothing. Returns an error if the call is planned to fail.
    fn ask(&self, operation: Operation, name: &str) -> Result<MutexGuard<'_, State>, DiskError> {
        let mut state = self.live_state(operation, name)?;
        let fate = state.begin(operation, name, None);
        state.end(fate, operation, name)?;
        Ok(state)
    }

    /// Begins a call that needs the right to write.
    fn change(&self, operation: Operation, name: &str) -> Result<Begun<'_>, DiskError> {
        self.check_process(operation, name)?;
        let mut state = self.live_state(operation, name)?;
        if state.read_only || state.forbidden.contains(&operation) {
            return Err(fail(operation, name, io::ErrorKind::PermissionDenied));
        }
        let fate = state.begin(operation, name, None);
        Ok((state, fate))
    }

    /// Folder of this name. A process uses the folder that it has open.
    fn folder(&self, state: &State, name: &str) -> Option<u64> {
        if name.is_empty() {
            return state.names.has(self.root).then_some(self.root);
        }
        let Some(mounted) = &self.mounted else {
            return state.mounts.find(&state.names, self.root, name);
        };
        let mut opened = mounted.opened.lock();
        if let Some(folder) = opened.get(name).filter(|folder| state.names.has(**folder)) {
            return Some(*folder);
        }
        let folder = state.mounts.find(&state.names, self.root, name)?;
        opened.insert(name.to_owned(), folder);
        Some(folder)
    }

    /// Folder of the entry with this name, and the last part of the name.
    fn parent<'n>(&self, state: &State, name: &'n str) -> Option<(u64, &'n str)> {
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        Some((self.folder(state, folder)?, last))
    }

    pub(super) fn find_file(&self, state: &State, name: &str) -> Option<usize> {
        let (folder, last) = self.parent(state, name)?;
        match state.names.entry(folder, last)? {
            Entry::File(file) => Some(*file),
            Entry::Folder(_) | Entry::Link(_) => None,
        }
    }

    fn handle(&self, inode: usize, name: &str, boot: u64) -> Box<dyn DiskFile> {
        Box::new(SimFile { disk: self.clone(), inode, name: name.to_owned(), boot })
    }

    fn open_in(&self, mut state: MutexGuard<'_, State>, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        match self.find_file(&state, name) {
            Some(inode) => Ok(self.handle(inode, name, state.boot)),
            None => Err(state.not_found(Operation::Open, name)),
        }
    }

    fn take_lock(
        &self,
        mut state: MutexGuard<'_, State>,
        name: &str,
        of: Locked,
        hold: Hold,
    ) -> Result<Box<dyn DiskLock>, DiskError> {
        let excludes = |held: &Lock| held.of == of && (held.hold, hold) != (Hold::Shared, Hold::Shared);
        if state.no_locks {
            let error = io::Error::new(io::ErrorKind::Unsupported, "this file system cannot lock files");
            return Err(DiskError::io(Operation::Lock, Path::new(name), error));
        }
        if state.locks.iter().any(excludes) {
            return Err(DiskError::InUse { path: name.into() });
        }
        let number = state.next_lock;
        state.next_lock += 1;
        state.locks.push(Lock { number, of, hold, process: self.process_number() });
        let (disk, name) = (self.clone(), name.to_owned());
        Ok(Box::new(SimLock { disk, name, of, number, boot: state.boot }))
    }

    fn take_folder_lock(&self, folder: &str, hold: Hold) -> Result<Box<dyn DiskLock>, DiskError> {
        self.check_process(Operation::Lock, folder)?;
        let mut state = self.ask(Operation::Lock, folder)?;
        match self.folder(&state, folder) {
            Some(found) if state.no_folder_locks.is_of(found) => {
                Err(fail(Operation::Lock, folder, io::ErrorKind::Unsupported))
            }
            Some(found) => self.take_lock(state, folder, Locked::Folder(found), hold),
            None => Err(state.not_found(Operation::Lock, folder)),
        }
    }

    /// Begins a question about the file of this name. Returns the state and the file.
    fn identify(&self, name: &str) -> Result<(MutexGuard<'_, State>, usize), DiskError> {
        let mut state = self.ask(Operation::Identify, name)?;
        match self.find_file(&state, name) {
            Some(inode) => Ok((state, inode)),
            None => Err(state.not_found(Operation::Identify, name)),
        }
    }

    /// Removes a file. Returns the file's space.
    fn take_name(&self, name: &str) -> Result<SimSpace, DiskError> {
        let (mut state, fate) = self.change(Operation::Remove, name)?;
        let (Some(inode), Some((folder, last))) = (self.find_file(&state, name), self.parent(&state, name))
        else {
            return Err(state.not_found(Operation::Remove, name));
        };
        if fate.is_whole() {
            state.bury(inode, 0);
            state.change_name(NameChange::set(folder, last, None));
        }
        state.end(fate, Operation::Remove, name)?;
        let (disk, last) = (self.clone(), last.to_owned());
        Ok(SimSpace {
            disk,
            folder,
            name: last,
            bytes: state.inodes[inode].allocated as u64,
            boot: state.boot,
        })
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let (state, fate) = self.change(Operation::Open, name)?;
        state.end(fate, Operation::Open, name)?;
        self.open_in(state, name)
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.open_in(self.ask(Operation::Open, name)?, name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let (mut state, fate) = self.change(Operation::Create, name)?;
        let Some((folder, last)) = self.parent(&state, name) else {
            return Err(state.not_found(Operation::Create, name));
        };
        let there = match state.names.entry(folder, last) {
            None => None,
            Some(Entry::File(file)) => Some(*file),
            Some(_) => return Err(fail(Operation::Create, name, io::ErrorKind::IsADirectory)),
        };
        if there.is_none() && state.is_full(folder) {
            return Err(state.refuse(Operation::Create, name));
        }
        let inode = there.unwrap_or(state.inodes.len());
        if fate.is_whole() {
            if there.is_some() {
                state.bury(inode, 0);
                state.inode(inode).allocated = 0;
                state.change(inode, Change::Length(0));
            } else {
                let made = state.new_inode(Inode::default());
                state.change_name(NameChange::set(folder, last, Some(Entry::File(made))));
            }
        }
        state.end(fate, Operation::Create, name)?;
        Ok(self.handle(inode, name, state.boot))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let mut state = self.ask(Operation::List, folder)?;
        let Some(found) = self.folder(&state, folder) else {
            return Err(state.not_found(Operation::List, folder));
        };
        let is_file = |(name, entry): &(&String, &Entry)| match entry {
            Entry::File(_) => true,
            Entry::Folder(_) => false,
            Entry::Link(_) => state.mounts.find(&state.names, found, name).is_none(),
        };
        Ok(state.names.entries(found).filter(is_file).map(|(name, _)| name.clone()).collect())
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let mut state = self.ask(Operation::List, folder)?;
        let Some(found) = self.folder(&state, folder) else {
            return Err(state.not_found(Operation::List, folder));
        };
        let is_folder = |(_, entry): &(&String, &Entry)| !matches!(entry, Entry::File(_));
        Ok(state.names.entries(found).filter(is_folder).map(|(name, _)| name.clone()).collect())
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        let state = self.ask(Operation::List, name)?;
        Ok(self.find_file(&state, name).is_some()
            || state.mounts.find(&state.names, self.root, name).is_some())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let (mut state, fate) = self.change(Operation::Rename, from)?;
        let (Some(inode), Some(from_place)) = (self.find_file(&state, from), self.parent(&state, from))
        else {
            return Err(state.not_found(Operation::Rename, from));
        };
        let Some(to_place) = self.parent(&state, to) else {
            return Err(state.not_found(Operation::Rename, to));
        };
        if fate.is_whole() {
            state.change_name(NameChange::rename(from_place, to_place, Entry::File(inode)));
        }
        state.end(fate, Operation::Rename, from)
    }

    fn add_name(&self, of: &str, name: &str) -> Result<(), DiskError> {
        let (mut state, fate) = self.change(Operation::AddName, of)?;
        let Some(inode) = self.find_file(&state, of) else {
            return Err(state.not_found(Operation::AddName, of));
        };
        let Some((folder, last)) = self.parent(&state, name) else {
            return Err(state.not_found(Operation::AddName, name));
        };
        if state.names.entry(folder, last).is_some() {
            return Err(fail(Operation::AddName, name, io::ErrorKind::AlreadyExists));
        }
        if fate.is_whole() {
            state.change_name(NameChange::set(folder, last, Some(Entry::File(inode))));
        }
        state.end(fate, Operation::AddName, of)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.take_name(name).map(drop)
    }

    fn remove_slowly(&self, name: &str) -> Result<Option<Box<dyn KeptSpace>>, DiskError> {
        let space = self.take_name(name)?;
        Ok(Some(Box::new(space)))
    }

    fn create_folder(&self, name: &str) -> Result<(), DiskError> {
        let (mut state, fate) = self.change(Operation::CreateFolder, name)?;
        let ends = name.match_indices('/').map(|(end, _)| end).chain([name.len()]);
        for folder in ends.map(|end| &name[..end]).filter(|_| fate.is_whole()) {
            if self.folder(&state, folder).is_some() {
                continue;
            }
            let Some((parent, last)) = self.parent(&state, folder) else {
                return Err(state.not_found(Operation::CreateFolder, folder));
            };
            if state.names.entry(parent, last).is_some() {
                return Err(fail(Operation::CreateFolder, folder, io::ErrorKind::AlreadyExists));
            }
            let made = state.new_folder();
            state.change_name(NameChange::set(parent, last, Some(Entry::Folder(made))));
        }
        state.end(fate, Operation::CreateFolder, name)
    }

    fn folder_kind(&self, name: &str) -> Result<FolderKind, DiskError> {
        let state = self.ask(Operation::List, name)?;
        let place = self.parent(&state, name);
        let is_there = || state.mounts.find(&state.names, self.root, name).is_some();
        match place.and_then(|(folder, last)| state.names.entry(folder, last)) {
            Some(Entry::Link(to)) => Ok(FolderKind::Link { to: to.clone(), is_there: is_there() }),
            Some(Entry::Folder(_)) if is_there() => Ok(FolderKind::Plain),
            Some(Entry::File(_)) => Err(fail(Operation::List, name, io::ErrorKind::NotADirectory)),
            None if name.is_empty() => Ok(FolderKind::Plain),
            Some(Entry::Folder(_)) | None => Ok(FolderKind::Missing),
        }
    }

    fn folder_place(&self, name: &str) -> Result<PathBuf, DiskError> {
        let mut state = self.live_state(Operation::List, name)?;
        match self.folder(&state, name) {
            Some(folder) => Ok(state.mounts.path(&state.names, folder)),
            None => Err(state.not_found(Operation::List, name)),
        }
    }

    /// A simulated root never has a hidden name.
    fn show_root(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn link_folder(&self, name: &str, to: &Path) -> Result<(), DiskError> {
        let (mut state, fate) = self.change(Operation::LinkFolder, name)?;
        let path = format!("/{}", to.display());
        let Some((folder, last)) = self.parent(&state, name) else {
            return Err(state.not_found(Operation::LinkFolder, name));
        };
        if let Some(there) = state.names.entry(folder, last) {
            let leads_there = matches!(there, Entry::Link(_))
                && state.mounts.find(&state.names, self.root, name)
                    == state.mounts.find(&state.names, self.root, &path);
            let exists = || fail(Operation::LinkFolder, name, io::ErrorKind::AlreadyExists);
            return if leads_there { state.end(fate, Operation::LinkFolder, name) } else { Err(exists()) };
        }
        if fate.is_whole() {
            let target = state.make_folders_at_once(self.root, &path);
            if state.names.entries(target).any(|(_, entry)| matches!(entry, Entry::File(_))) {
                return Err(fail(Operation::LinkFolder, name, io::ErrorKind::DirectoryNotEmpty));
            }
            state.change_name(NameChange::set(folder, last, Some(Entry::Link(to.to_owned()))));
        }
        state.end(fate, Operation::LinkFolder, name)
    }

    fn sync_folder(&self, folder: &str) -> Result<(), DiskError> {
        self.check_process(Operation::SyncFolder, folder)?;
        let watch = self.world.folder_sync_watch.get();
        if let Some((_, watch)) = watch.filter(|(root, _)| *root == self.root) {
            watch(folder);
        }
        let mut state = self.live_state(Operation::SyncFolder, folder)?;
        let fate = state.begin(Operation::SyncFolder, folder, None);
        let Some(found) = self.folder(&state, folder) else {
            return Err(state.not_found(Operation::SyncFolder, folder));
        };
        state.keep_moment();
        if fate != Fate::Cut && fate.is_whole() {
            state.sync_names(found);
        }
        state.end(fate, Operation::SyncFolder, folder)
    }

    fn lock(&self, name: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        let (mut state, fate) = self.change(Operation::Lock, name)?;
        state.end(fate, Operation::Lock, name)?;
        let Some((folder, last)) = self.parent(&state, name) else {
            return Err(state.not_found(Operation::Lock, name));
        };
        let inode = self.find_file(&state, name).unwrap_or_else(|| {
            let made = state.new_inode(Inode::default());
            state.change_name(NameChange::set(folder, last, Some(Entry::File(made))));
            made
        });
        self.take_lock(state, name, Locked::File(inode), Hold::Exclusive)
    }

    fn lock_to_read(&self, name: &str) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        self.check_process(Operation::Lock, name)?;
        let state = self.ask(Operation::Lock, name)?;
        let Some(inode) = self.find_file(&state, name) else { return Ok(None) };
        self.take_lock(state, name, Locked::File(inode), Hold::Shared).map(Some)
    }

    fn lock_folder(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.take_folder_lock(folder, Hold::Exclusive)
    }

    fn lock_folder_to_read(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError> {
        self.take_folder_lock(folder, Hold::Shared)
    }

    fn folder_id(&self, folder: &str) -> Result<FolderId, DiskError> {
        let mut state = self.ask(Operation::Identify, folder)?;
        match self.folder(&state, folder) {
            Some(inode) => Ok(FolderId { inode, born_nanos: Some(i128::from(inode)) }),
            None => Err(state.not_found(Operation::Identify, folder)),
        }
    }

    fn is_same_folder(&self, one: &str, other: &str) -> Result<bool, DiskError> {
        let mut state = self.ask(Operation::Identify, one)?;
        match (self.folder(&state, one), self.folder(&state, other)) {
            (Some(one), Some(other)) => Ok(one == other),
            (None, _) => Err(state.not_found(Operation::Identify, one)),
            (_, None) => Err(state.not_found(Operation::Identify, other)),
        }
    }

    fn file_id(&self, name: &str) -> Result<u64, DiskError> {
        self.identify(name).map(|(state, inode)| inode as u64 + state.renumbered)
    }

    fn file_times(&self, name: &str) -> Result<FileTimes, DiskError> {
        self.identify(name).map(|(state, inode)| FileTimes {
            born_nanos: (!state.no_births).then_some(inode as i128 + 1),
            changed_nanos: state.changed.get(&inode).copied(),
        })
    }

    fn links(&self, name: &str) -> Result<u64, DiskError> {
        self.identify(name).map(|(state, inode)| state.names.links(inode) as u64)
    }

    fn free_bytes(&self, folder: &str) -> Result<Option<u64>, DiskError> {
        let mut state = self.ask(Operation::FreeSpace, folder)?;
        match self.folder(&state, folder) {
            Some(found) => Ok(state.free_bytes(state.device_of(found))),
            None => Err(state.not_found(Operation::FreeSpace, folder)),
        }
    }

    fn mount(&self, folder: &str) -> Result<Option<u64>, DiskError> {
        let mut state = self.ask(Operation::Identify, folder)?;
        match self.folder(&state, folder) {
            Some(_) => Ok((!state.no_mount_numbers).then_some(state.mount_number)),
            None => Err(state.not_found(Operation::Identify, folder)),
        }
    }

    fn boot(&self) -> Option<BootId> {
        let state = self.lock_state();
        // The number is not 0, because a file of zeros names no boot.
        (!state.no_boot).then(|| BootId::of_number(u128::from(state.machine_boot) + 1))
    }

    fn process(&self) -> Process {
        self.process.clone()
    }
}
