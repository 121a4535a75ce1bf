//! Files behind one small trait. Every other crate of the database reaches database files through this trait.
//!
//! The trait promises the state of the disk after a crash, and no more:
//! - Written bytes are on stable storage once [`DiskFile::sync_data`] has returned. Before that, bytes may be lost,
//!   kept, or torn at a sector.
//! - A created, renamed or removed name survives a crash once [`Disk::sync_folder`] of the folder has returned.
//! - After a failed sync, the state of the bytes written since the last successful sync is unknown. A later successful
//!   sync proves nothing about these bytes, so the caller must stop trusting the file.
//!
//! Names are relative to the disk's root folder, with parts separated by `/`.
//!
//! Neighbours: the durability crate reads and writes through [`Disk`]. `ensile-sim` has a disk that loses, tears and
//! fails on purpose. `Database` opens a [`RealDisk`].
//!
//! `unsafe` is permitted in `process`, `mapped_file`, `real_disk::write_behind` and `real_disk::removed_file` only.
#![deny(unsafe_code)]

mod boot;
mod error;
mod identity;
mod machine;
#[expect(
    unsafe_code,
    reason = "a file's pages are mapped, and written through a pointer that the kernel gave"
)]
mod mapped_file;
#[expect(unsafe_code, reason = "a page that the kernel clears at fork is mapped and read by raw calls")]
mod process;
mod real_disk;
#[cfg(test)]
mod test_folder;

use std::fmt::Debug;
use std::path::{Path, PathBuf};

pub use boot::BootId;
pub use error::{DiskError, Operation};
pub use identity::{FileTimes, FolderId};
pub use machine::{ProcessUsage, has_one_memory_node, lower_priority, process_usage};
pub use mapped_file::{MappedWords, SimulatedWords, StoredSum};
pub use process::{Process, ProcessMarks};
pub use real_disk::RealDisk;

/// Kind of the entry at a name where a folder may stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderKind {
    /// No entry.
    Missing,
    /// A folder.
    Plain,
    /// A link to a folder elsewhere. The folder may be absent because its device is missing.
    Link {
        /// Target of the link.
        to: PathBuf,
        /// True if the target is an existing folder.
        is_there: bool,
    },
}

/// A folder of files. Every method may be called from any thread.
pub trait Disk: Send + Sync + Debug {
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError>;

    /// Opens an existing file for reading only. The file or its folder may forbid writing. A write is an error.
    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError>;

    /// Makes an empty file, or empties an existing file of the name. The name survives a crash once the folder is
    /// synced.
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError>;

    /// Sorted names of the files in `folder` (`""` is the root), without folders.
    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError>;

    /// Sorted names of the folders in `folder`, of links to folders, and of dangling links.
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, DiskError>;

    /// True if there is a file or folder of this name.
    fn exists(&self, name: &str) -> Result<bool, DiskError>;

    /// Renames a file. An existing file of the new name is replaced in one step.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Gives a file another name in one step. The new name survives a crash once the folder is synced. If the name is
    /// taken, the error is [`DiskError::is_already_exists`]. On a file system without hard links, the error is
    /// [`DiskError::is_unsupported`].
    fn add_name(&self, of: &str, name: &str) -> Result<(), DiskError>;

    /// Removes a file.
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Removes a file, as [`remove`](Self::remove) does. The returned [`KeptSpace`] holds the space of the file, and
    /// frees the space by its calls, or at its drop. `None` if the space is not held: the disk cannot hold the space,
    /// or another process or handle may still read the file.
    ///
    /// The caller syncs the folder before the first piece is freed. Otherwise a crash may leave the name of a
    /// shortened file.
    fn remove_slowly(&self, name: &str) -> Result<Option<Box<dyn KeptSpace>>, DiskError> {
        self.remove(name)?;
        Ok(None)
    }

    /// Makes a folder and the folders above. An existing folder is no error.
    fn create_folder(&self, name: &str) -> Result<(), DiskError>;

    /// Kind of the entry at `name`. A file at the name is an error.
    fn folder_kind(&self, name: &str) -> Result<FolderKind, DiskError>;

    /// Real path of the folder `name`, links followed. Two names of one folder have the same path.
    fn folder_place(&self, name: &str) -> Result<PathBuf, DiskError>;

    /// Renames a root folder with a hidden name to its real name, which then survives a crash. An existing entry at the
    /// name is an error.
    fn show_root(&self) -> Result<(), DiskError>;

    /// Makes `name` a link to the folder `to`, which may be on another device. If only the last part of `to` is
    /// missing, the folder is made. The name of the folder is made to survive a crash. The folder must hold no files.
    /// An existing link to the folder is no error. For another entry at `name`, the error is
    /// [`DiskError::is_already_exists`].
    fn link_folder(&self, name: &str, to: &Path) -> Result<(), DiskError>;

    /// Makes the names in `folder` (`""` is the root) survive a crash.
    fn sync_folder(&self, folder: &str) -> Result<(), DiskError>;

    /// Takes the exclusive lock of this name without waiting. A drop of the result, or the end of the process, releases
    /// the lock. The error is [`DiskError::InUse`] while another holder lives, in this process or another.
    fn lock(&self, name: &str) -> Result<Box<dyn DiskLock>, DiskError>;

    /// Takes the lock of this name as a reader. Many readers may hold the lock at a time, but not while another holds
    /// [`Disk::lock`]. The call makes no file. Returns `None` if there is no file: then the lock was never taken in
    /// this folder.
    fn lock_to_read(&self, name: &str) -> Result<Option<Box<dyn DiskLock>>, DiskError>;

    /// Takes the exclusive lock of the folder (`""` is the root), as [`Disk::lock`] takes the lock of a name. The
    /// folder has one holder, whatever happens to the folder's name and files. The error is
    /// [`DiskError::is_unsupported`] on a file system that cannot lock folders.
    fn lock_folder(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError>;

    /// Takes the folder's lock as [`Disk::lock_to_read`] does. Many readers may hold the lock, but not while another
    /// holds [`Disk::lock_folder`].
    fn lock_folder_to_read(&self, folder: &str) -> Result<Box<dyn DiskLock>, DiskError>;

    /// Identity of the folder (`""` is the root). A link stands for its target.
    fn folder_id(&self, folder: &str) -> Result<FolderId, DiskError>;

    /// True if two names lead to one folder. Both folders must exist, so the device is compared too.
    fn is_same_folder(&self, one: &str, other: &str) -> Result<bool, DiskError>;

    /// Inode of the file. A link stands for its file. A comparison with [`DiskLock::file_id`] shows whether a locked
    /// file still has its name.
    fn file_id(&self, name: &str) -> Result<u64, DiskError>;

    /// Times of birth and change of the file. A link stands for its file.
    fn file_times(&self, name: &str) -> Result<FileTimes, DiskError>;

    /// Number of names of the file. A hard link raises the number above 1.
    fn links(&self, name: &str) -> Result<u64, DiskError>;

    /// Bytes that may be written to the device of `folder` before it is full. `None` if the system does not report the
    /// number.
    fn free_bytes(&self, folder: &str) -> Result<Option<u64>, DiskError>;

    /// Present boot of the operating system. `None` if the system does not report a boot.
    fn boot(&self) -> Option<BootId>;

    /// Instance of the file system of `folder` (`""` is the root): a new number after each mount, and the same in all
    /// mount namespaces. `None` if the system does not report a number. A device lost and returned within one boot has
    /// lost unsynced writes.
    fn mount(&self, folder: &str) -> Result<Option<u64>, DiskError>;

    /// Process that opened this disk. A forked child must change nothing through the disk, and release no lock: the
    /// open files belong to the parent.
    fn process(&self) -> Process;
}

/// An open file. Every method may be called from any thread. There is no file position.
pub trait DiskFile: Send + Sync + Debug {
    /// Writes all of `bytes` at `offset`, growing the file if needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError>;

    /// Reads into `bytes` from `offset` until the buffer is full or the file ends. Returns the number of read bytes.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, DiskError>;

    /// Hints that `bytes` bytes from `offset` will be read soon, so that the medium can fetch the bytes. The hint never
    /// waits and cannot fail.
    fn will_need(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Hints that the medium should begin to write the `bytes` bytes from `offset`, just written by the caller, so that
    /// the next sync finds little left. The hint cannot fail. The call does not wait for the bytes, but may wait for
    /// room in the medium's queue.
    fn write_behind(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Length of the file in bytes.
    fn len(&self) -> Result<u64, DiskError>;

    /// True if the file is empty.
    fn is_empty(&self) -> Result<bool, DiskError> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends the file by zeros.
    fn set_len(&self, bytes: u64) -> Result<(), DiskError>;

    /// Makes the file at least `bytes` long. The new part reads as zeros. Space is reserved if the file system can do
    /// so.
    fn preallocate(&self, bytes: u64) -> Result<(), DiskError>;

    /// Extends the file to at least `bytes` bytes by writing zeros behind the old end, and maps the file. Bytes stored
    /// in the mapping survive the process at once. A crash of the machine treats stored bytes like unsynced writes. If
    /// stores may fail on the file system, the error is [`DiskError::is_unsupported`].
    fn map(&self, bytes: u64) -> Result<MappedWords, DiskError>;

    /// Makes all written bytes survive a crash, with the metadata that a read of the bytes needs.
    fn sync_data(&self) -> Result<(), DiskError>;

    /// As [`DiskFile::sync_data`], with all metadata.
    fn sync_all(&self) -> Result<(), DiskError>;

    /// Checks that the open file still has a name, under any path: [`DiskError::Removed`] if not.
    fn check_named(&self) -> Result<(), DiskError>;
}

/// Space of a removed file, not yet freed.
pub trait KeptSpace: Send + Debug {
    /// Frees up to `bytes` bytes. Returns the number of bytes that are left.
    fn give_back(&mut self, bytes: u64) -> u64;
}

/// A lock, held until dropped. Dropped in a forked child, the lock stays the parent's.
pub trait DiskLock: Send + Sync + Debug {
    /// Inode of the locked file or folder, whatever its present name.
    fn file_id(&self) -> Result<u64, DiskError>;

    /// Number of names of the locked file: 0 if removed, above 1 if hard-linked. For a folder the number has no
    /// meaning.
    fn links(&self) -> Result<u64, DiskError>;

    /// As [`DiskFile::check_named`], for the locked file or folder.
    fn check_named(&self) -> Result<(), DiskError>;
}
