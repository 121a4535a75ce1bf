//! Open files and locks of a simulated disk.
//!
//! Neighbours: `disk` opens the files and takes the locks; [`super::world`] has the state.

use std::sync::Arc;

use ensile_base::sync::MutexGuard;
use ensile_disk::{DiskError, DiskFile, DiskLock, KeptSpace, MappedWords, Operation, SimulatedWords};

use super::SimDisk;
use super::calls::Fate;
use super::content::Change;
use super::world::{Locked, State, fail, input_output_error};

#[derive(Debug)]
pub(super) struct SimLock {
    pub(super) disk: SimDisk,
    pub(super) name: String,
    pub(super) of: Locked,
    pub(super) number: u64,
    pub(super) boot: u64,
}

impl DiskLock for SimLock {
    fn file_id(&self) -> Result<u64, DiskError> {
        let state = self.disk.live_state(Operation::Identify, &self.name)?;
        Ok(match self.of {
            Locked::File(inode) => inode as u64 + state.renumbered,
            Locked::Folder(inode) => inode,
        })
    }

    fn links(&self) -> Result<u64, DiskError> {
        let state = self.disk.live_state(Operation::Identify, &self.name)?;
        Ok(match self.of {
            Locked::File(inode) => state.names.links(inode) as u64,
            Locked::Folder(_) => 1,
        })
    }

    fn check_named(&self) -> Result<(), DiskError> {
        if self.links()? > 0 { Ok(()) } else { Err(DiskError::Removed { path: self.name.clone().into() }) }
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.lock_state();
        // I4: a forked child does not release the parent's lock.
        if state.boot == self.boot && self.disk.process.is_this() {
            state.locks.retain(|held| held.number != self.number);
        }
    }
}

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    pub(super) inode: usize,
    pub(super) name: String,
    pub(super) boot: u64,
}

impl SimFile {
    /// The state and the fate of the call. Fails if the process of the handle is dead.
    fn begin(
        &self,
        operation: Operation,
        range: Option<(u64, u64)>,
    ) -> Result<(MutexGuard<'_, State>, Fate), DiskError> {
        let mut state = self.disk.wait_for_device(self.disk.lock_state(), operation);
        if state.boot != self.boot || self.disk.is_dead(&state) {
            return Err(input_output_error(operation, &self.name));
        }
        let fate = state.begin(operation, &self.name, range);
        Ok((state, fate))
    }

    /// As `begin`, for a call that changes the file (I4).
    fn begin_change(
        &self,
        operation: Operation,
        range: Option<(u64, u64)>,
    ) -> Result<(MutexGuard<'_, State>, Fate), DiskError> {
        self.disk.check_process(operation, &self.name)?;
        self.begin(operation, range)
    }
}

/// Space of a removed file.
#[derive(Debug)]
pub(super) struct SimSpace {
    pub(super) disk: SimDisk,
    /// Folder and last part of the removed name.
    pub(super) folder: u64,
    pub(super) name: String,
    /// Number of bytes that are not freed.
    pub(super) bytes: u64,
    pub(super) boot: u64,
}

impl KeptSpace for SimSpace {
    fn give_back(&mut self, bytes: u64) -> u64 {
        let state = self.disk.lock_state();
        if state.boot == self.boot && !self.disk.is_dead(&state) {
            let may_return = state.may_return(self.folder, &self.name);
            assert!(!may_return, "K1: {} is cut, and a crash brings its name back", self.name);
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        self.bytes
    }
}

/// A mapped file. The disk ignores the stores of a dead process.
#[derive(Debug)]
struct SimWords {
    disk: SimDisk,
    inode: usize,
    boot: u64,
}

impl SimulatedWords for SimWords {
    fn store(&self, at: usize, words: &mut dyn Iterator<Item = u64>) {
        let mut state = self.disk.lock_state();
        if state.boot != self.boot || self.disk.is_dead(&state) {
            return;
        }
        assert!(self.disk.process.is_this(), "I4: a forked child stores nothing");
        state.store_words(self.inode, at, words);
        drop(state);
        if let Some(watch) = self.disk.world.store_watch.get() {
            watch();
        }
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let (mut state, fate) = self.begin_change(Operation::Write, Some((offset, bytes.len() as u64)))?;
        let offset = offset as usize;
        let landed = fate.share(bytes.len());
        let room = state.make_room(self.inode, offset, landed);
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
        if state.unreadable.contains(&self.inode) {
            return Err(input_output_error(Operation::Read, &self.name));
        }
        Ok(state.inodes[self.inode].seen.read(bytes, offset as usize))
    }

    fn write_behind(&self, offset: u64, bytes: u64) {
        self.disk.lock_state().begun.push((self.name.clone(), offset, bytes));
    }

    fn len(&self) -> Result<u64, DiskError> {
        let (state, fate) = self.begin(Operation::Length, None)?;
        state.end(fate, Operation::Length, &self.name)?;
        Ok(state.inodes[self.inode].seen.length as u64)
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        let (mut state, fate) = self.begin_change(Operation::Length, Some((bytes, 0)))?;
        if fate.is_whole() {
            state.bury(self.inode, bytes as usize);
            let inode = state.inode(self.inode);
            // The extension of a file is a hole, and a hole takes no space.
            inode.allocated = inode.allocated.min(bytes as usize);
            state.change(self.inode, Change::Length(bytes as usize));
        }
        state.end(fate, Operation::Length, &self.name)
    }

    fn preallocate(&self, bytes: u64) -> Result<(), DiskError> {
        let (mut state, fate) = self.begin_change(Operation::Preallocate, Some((bytes, 0)))?;
        let length = state.inodes[self.inode].seen.length;
        if fate.is_whole() && length < bytes as usize {
            let before = state.inodes[self.inode].allocated;
            if state.allocate(self.inode, bytes as usize) < bytes as usize {
                state.inode(self.inode).allocated = before;
                return Err(state.refuse(Operation::Preallocate, &self.name));
            }
            if state.medium.stale_space {
                state.inode(self.inode).set_aside(length, bytes as usize);
            }
            state.change(self.inode, Change::Length(bytes as usize));
        }
        state.end(fate, Operation::Preallocate, &self.name)
    }

    fn map(&self, bytes: u64) -> Result<MappedWords, DiskError> {
        let (mut state, fate) = self.begin_change(Operation::Map, Some((0, bytes)))?;
        if state.no_maps {
            return Err(fail(Operation::Map, &self.name, std::io::ErrorKind::Unsupported));
        }
        let have = state.inodes[self.inode].seen.length;
        if fate.is_whole() && have < bytes as usize {
            let room = state.make_room(self.inode, have, bytes as usize - have);
            if room > 0 {
                state.change(self.inode, Change::write(have, &vec![0; room]));
            }
            if have + room < bytes as usize {
                return Err(state.refuse(Operation::Map, &self.name));
            }
        }
        state.end(fate, Operation::Map, &self.name)?;
        let words = SimWords { disk: self.disk.clone(), inode: self.inode, boot: self.boot };
        Ok(MappedWords::from_simulated(Arc::new(words), bytes as usize / size_of::<u64>()))
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        let (mut state, fate) = self.begin_change(Operation::Sync, None)?;
        state.keep_moment();
        // A failed sync forgets the unwritten changes. After a power cut, or without a system call, the changes stay
        // unsynced.
        if !matches!(fate, Fate::Cut | Fate::NotCalled) {
            let changes = fate.share(state.inodes[self.inode].unsynced.len());
            let medium = state.medium.clone();
            state.inode(self.inode).sync(changes, &medium);
        }
        state.end(fate, Operation::Sync, &self.name)
    }

    fn sync_all(&self) -> Result<(), DiskError> {
        self.sync_data()
    }

    fn check_named(&self) -> Result<(), DiskError> {
        let (state, fate) = self.begin(Operation::Identify, None)?;
        state.end(fate, Operation::Identify, &self.name)?;
        if state.names.links(self.inode) > 0 {
            Ok(())
        } else {
            Err(DiskError::Removed { path: self.name.clone().into() })
        }
    }
}
