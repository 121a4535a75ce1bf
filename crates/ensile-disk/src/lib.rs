//! Files behind one small trait: the only crate that opens files.
//!
//! What the trait promises is what a crash leaves behind, and no more:
//! - bytes written are on stable storage once [`DiskFile::sync_data`] has returned, and may be lost, kept or torn at a
//!   sector before that;
//! - a name that was created, renamed or removed stays so across a crash once [`Disk::sync_folder`] of its folder has
//!   returned;
//! - after a failed sync nothing is known about what was written since the last good one, and a later sync that
//!   succeeds says nothing about it: a caller that gets the error must stop trusting the file.
//!
//! Names are relative to the disk's root folder, parts separated by `/`.
//!
//! Neighbours: the durability crate reads and writes through [`Disk`]; `ensile-sim` has a disk that loses, tears and
//! fails on purpose; `Database` opens a [`RealDisk`].
//!
//! `unsafe` is permitted in `process`, `mapped` and `real::behind` only.
#![deny(unsafe_code)]

mod boot;
mod error;
mod identity;
mod machine;
#[expect(
    unsafe_code,
    reason = "a file's pages are mapped, and written through a pointer that the kernel gave"
)]
mod mapped;
#[expect(unsafe_code, reason = "a page that the kernel clears at fork is mapped and read by raw calls")]
mod process;
mod real;
#[cfg(test)]
mod test_folder;

use std::fmt::Debug;
use std::path::{Path, PathBuf};

pub use boot::BootId;
pub use error::{DiskError, Operation};
pub use identity::{FileTimes, FolderId};
pub use machine::{has_one_memory_node, lower_priority};
pub use mapped::{MappedWords, SimulatedWords, StoredSum};
pub use process::{Process, ProcessMarks};
pub use real::RealDisk;

/// What stands at a name where a folder may stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderKind {
    /// Nothing.
    Missing,
    /// A folder.
    Plain,
    /// A link to a folder elsewhere, which may not be there now: its device may be missing.
    Link {
        /// Where it leads.
        to: PathBuf,
        /// Whether there is a folder.
        is_there: bool,
    },
}

/// A folder of files. Every method may be called from any thread.
pub trait Disk: Send + Sync + Debug {
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError>;

    /// Opens an existing file for reading only: the file or its folder may forbid to write. Writing to it is an error.
    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError>;

    /// Makes an empty file, or empties the one of that name. Its name survives a crash once the folder is synced.
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError>;

    /// The names of the files in `folder` (`""` is the root), folders left out, sorted.
    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError>;

    /// The names of the folders in `folder`, and of links to folders, dangling ones included; sorted.
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, DiskError>;

    /// Is there a file or folder of this name?
    fn exists(&self, name: &str) -> Result<bool, DiskError>;

    /// Gives a file another name; a file that has that name already is replaced in one step.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Gives a file one more name, in one step, if nothing has that name; otherwise it is refused as existing already.
    /// The new name survives a crash once its folder is synced. An error that [`DiskError::is_unsupported`] where the
    /// file system knows one name for each file only.
    fn add_name(&self, of: &str, name: &str) -> Result<(), DiskError>;

    /// Removes a file.
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Makes a folder and those above it; one that is there already is fine.
    fn create_folder(&self, name: &str) -> Result<(), DiskError>;

    /// What stands at `name`, where a folder may stand?
    fn folder_kind(&self, name: &str) -> Result<FolderKind, DiskError>;

    /// Where the folder `name`, or what it leads to, really is: two names of one folder say the same.
    fn folder_place(&self, name: &str) -> Result<PathBuf, DiskError>;

    /// Gives a root folder that was made under a hidden name its own name, which then survives a crash. An existing
    /// folder at the name is an error.
    fn show_root(&self) -> Result<(), DiskError>;

    /// Makes `name` a link to the folder `to`, which may be on another device; that folder is made if only its last
    /// part is missing, its own name is made to survive a crash, and it must hold no files. One that leads there
    /// already is fine; anything else at that name is refused as existing already.
    fn link_folder(&self, name: &str, to: &Path) -> Result<(), DiskError>;

    /// Makes the names in `folder` (`""` is the root) survive a crash.
    fn sync_folder(&self, folder: &str) -> Result<(), DiskError>;

    /// Takes the exclusive lock of this name without waiting; it is given back when the result is dropped or the
    /// process ends. While another holder lives, here or in another process: [`DiskError::InUse`].
    fn lock(&self, name: &str) -> Result<Box<dyn DiskLock>, DiskError>;

    /// Takes the lock of this name as a reader. Any number of readers may hold it at a time, but not while another
    /// holds [`Disk::lock`]. It makes no file. The answer is `None` if there is no file: then nobody has ever taken the
    /// lock in this folder.
    fn lock_to_read(&self, name: &str) -> Result<Option<Box<dyn DiskLock>>, DiskError>;

    /// Takes the exclusive lock of the folder itself (`""` is the root), as [`Disk::lock`] does of a name: whatever
    /// becomes of the folder's name and of the files in it, one holder has it. An error that
    /// [`DiskError::is_unsupported`] where the file system cannot lock folders.
    fn lock_folder(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError>;

    /// Takes the folder's lock as [`Disk::lock_to_read`] does: any number of readers beside no holder of
    /// [`Disk::lock_folder`].
    fn lock_folder_to_read(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError>;

    /// Which folder this is (`""` is the root; a link stands for the folder that it leads to).
    fn folder_id(&self, folder: &str) -> Result<FolderId, DiskError>;

    /// Do these two names lead to one folder, by whatever paths? Asked of folders that are there now, so the device
    /// counts too.
    fn is_same_folder(&self, one: &str, other: &str) -> Result<bool, DiskError>;

    /// The inode of the file of this name (a link stands for its file). Compared with [`DiskLock::file_id`], it shows
    /// whether a locked file still has its name.
    fn file_id(&self, name: &str) -> Result<u64, DiskError>;

    /// When the file of this name was made and changed (a link stands for its file).
    fn file_times(&self, name: &str) -> Result<FileTimes, DiskError>;

    /// How many names the file has: more than one if it was hard-linked.
    fn links(&self, name: &str) -> Result<u64, DiskError>;

    /// Bytes that may be written to the device of `folder` before it is full; `None` if the system does not say.
    fn free_bytes(&self, folder: &str) -> Result<Option<u64>, DiskError>;

    /// Which run of the operating system this is; `None` if the system does not say.
    fn boot(&self) -> Option<BootId>;

    /// Instance of the file system that `folder` (`""` is the root) is in: another number after each mount, and the
    /// same in all mount namespaces; `None` if the system does not say. A device that was lost and returned within one
    /// boot has lost the writes that were not synced.
    fn mount(&self, folder: &str) -> Result<Option<u64>, DiskError>;

    /// The process that opened this disk. A child that is forked from it must not change anything through the disk, nor
    /// give a lock back: the files behind the handles are its parent's.
    fn process(&self) -> Process;
}

/// An open file. Every method may be called from any thread; there is no file position.
pub trait DiskFile: Send + Sync + Debug {
    /// Writes all of `bytes` at `offset`, growing the file where needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError>;

    /// Reads into `bytes` from `offset` until it is full or the file ends; returns how many bytes were read.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, DiskError>;

    /// Says that `bytes` bytes from `offset` on will be read soon, so that the medium can fetch them meanwhile. This is
    /// a hint: it does not wait and cannot fail.
    fn will_need(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Asks the medium to begin to write `bytes` bytes from `offset` on, which were just given to it, so that the next
    /// sync finds little left. This is a hint: it cannot fail, and waits for none of them, but for room among what the
    /// medium has to do.
    fn write_behind(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// The file's length in bytes.
    fn len(&self) -> Result<u64, DiskError>;

    /// Is the file empty?
    fn is_empty(&self) -> Result<bool, DiskError> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it by zeros.
    fn set_len(&self, bytes: u64) -> Result<(), DiskError>;

    /// Makes the file at least `bytes` long, the new part reading as zeros, with space set aside where the file
    /// system can do so.
    fn preallocate(&self, bytes: u64) -> Result<(), DiskError>;

    /// Makes the file `bytes` long, all of it written with zeros behind what it has, and maps it. Bytes that are stored
    /// there survive the process at once, and a crash of the machine as unsynced writes do. An error that
    /// [`DiskError::is_unsupported`] on a file system of which it is not known that a store there cannot fail.
    fn map(&self, bytes: u64) -> Result<MappedWords, DiskError>;

    /// Makes all bytes written so far survive a crash, and of the metadata what reading them back needs.
    fn sync_data(&self) -> Result<(), DiskError>;

    /// As [`DiskFile::sync_data`], with all metadata.
    fn sync_all(&self) -> Result<(), DiskError>;

    /// Asks whether the open file still has a name, under whichever path: [`DiskError::Removed`] if it has none.
    fn check_named(&self) -> Result<(), DiskError>;
}

/// A lock, held until dropped. Dropped in a forked child it stays its parent's.
pub trait DiskLock: Send + Sync + Debug {
    /// The inode of the locked file or folder, whatever its name is by now.
    fn file_id(&self) -> Result<u64, DiskError>;

    /// How many names the locked file has: 0 once it was removed, more than one if it was hard-linked. Of a folder the
    /// number says nothing.
    fn links(&self) -> Result<u64, DiskError>;

    /// As [`DiskFile::check_named`], of the locked file or folder.
    fn check_named(&self) -> Result<(), DiskError>;
}
