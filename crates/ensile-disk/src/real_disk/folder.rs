//! A folder with an open handle. Names in the folder are looked up relative to the handle, so another folder in its
//! place is never touched. Only files are opened as files: no thread waits for a pipe. New folders and files belong to
//! their owner alone: 0700 and 0600, less the process's mask.
//!
//! Neighbours: [`super::RealDisk`] keeps a handle for its root and for every used folder.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::fs::RenameFlags;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

const FOLDER_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Kind of a directory entry. A link is not followed.
pub(super) enum NameTarget {
    Nothing,
    Folder,
    Link(PathBuf),
    File,
}

#[derive(Debug)]
pub(super) struct Folder {
    handle: File,
    /// Path at the opening or by `set_path`. Only messages and a few calls by path use the path.
    path: PathBuf,
}

impl Folder {
    /// Opens the folder at `path`, links followed.
    pub(super) fn open_path(path: &Path) -> io::Result<Self> {
        Self::open(CWD, path, path.to_owned())
    }

    /// Makes the folder at `path` in an existing folder. Returns false if the folder existed.
    pub(super) fn make_at(path: &Path) -> io::Result<bool> {
        make(CWD, path)
    }

    fn open(relative_to: BorrowedFd<'_>, name: &Path, path: PathBuf) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = retry_on_intr(|| rustix::fs::openat(relative_to, name, flags, Mode::empty()))?;
        Ok(Self { handle: handle.into(), path })
    }

    /// Opens a folder in this folder, a link followed.
    pub(super) fn sub_folder(&self, name: &str) -> io::Result<Self> {
        Self::open(self.handle.as_fd(), Path::new(name), self.path.join(name))
    }

    /// Opens this folder again. A lock belongs to its own open file.
    pub(super) fn again(&self) -> io::Result<File> {
        Ok(Self::open(self.handle.as_fd(), Path::new("."), PathBuf::new())?.handle)
    }

    /// Opens the folder above.
    pub(super) fn parent(&self) -> io::Result<Self> {
        let path = self.path.parent().unwrap_or(&self.path).to_owned();
        Self::open(self.handle.as_fd(), Path::new(".."), path)
    }

    pub(super) fn handle(&self) -> &File {
        &self.handle
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the path, because messages name a folder by its real or later path.
    pub(super) fn set_path(&mut self, path: PathBuf) {
        self.path = path;
    }

    pub(super) fn open_file(&self, name: &str, is_to_write: bool) -> io::Result<File> {
        let access = if is_to_write { OFlags::RDWR } else { OFlags::RDONLY };
        self.open_with(name, access)
    }

    /// Opens a file, or makes a missing file. Empties the file if `is_emptied`.
    pub(super) fn make_file(&self, name: &str, is_emptied: bool) -> io::Result<File> {
        let emptied = if is_emptied { OFlags::TRUNC } else { OFlags::empty() };
        self.open_with(name, OFlags::RDWR | OFlags::CREATE | emptied)
    }

    /// Refuses every entry that is not a regular file. Without NONBLOCK the open of a pipe waits for the other end,
    /// perhaps for ever. NONBLOCK has no effect on a regular file.
    fn open_with(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let handle = retry_on_intr(|| rustix::fs::openat(&self.handle, name, flags, FILE_MODE))?;
        match FileType::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode) {
            FileType::RegularFile => Ok(handle.into()),
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is a pipe, socket or device and no file; take it away",
            )),
        }
    }

    pub(super) fn make_folder(&self, name: &str) -> io::Result<bool> {
        make(self.handle.as_fd(), Path::new(name))
    }

    pub(super) fn make_link(&self, name: &str, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(to, &self.handle, name)?)
    }

    pub(super) fn rename(&self, from: &str, to_folder: &Self, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.handle, from, &to_folder.handle, to)?)
    }

    /// Renames an entry of this folder, unless the new name is taken. On a file system without such a rename, an empty
    /// folder that gets the new name at the same moment may be replaced.
    pub(super) fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        match rustix::fs::renameat_with(&self.handle, from, &self.handle, to, RenameFlags::NOREPLACE) {
            // The file system does not know the flag.
            Err(Errno::INVAL | Errno::NOSYS) => {}
            renamed => return Ok(renamed?),
        }
        if self.path.join(to).symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        match rustix::fs::renameat(&self.handle, from, &self.handle, to) {
            Err(Errno::NOTEMPTY) => Err(io::ErrorKind::AlreadyExists.into()),
            renamed => Ok(renamed?),
        }
    }

    pub(super) fn add_name(&self, of: &str, to_folder: &Self, name: &str) -> io::Result<()> {
        match rustix::fs::linkat(&self.handle, of, &to_folder.handle, name, AtFlags::empty()) {
            // Errors on Linux if the file system has no hard links.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
                let detail = "its file system cannot give a file two names (hard links)";
                Err(io::Error::new(io::ErrorKind::Unsupported, detail))
            }
            linked => Ok(linked?),
        }
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// True if an entry exists at `name`, links followed.
    pub(super) fn exists(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::statat(&self.handle, name, AtFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Metadata of an entry, a link followed.
    pub(super) fn status(&self, name: &str) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.handle, name, AtFlags::empty())?)
    }

    pub(super) fn find(&self, name: &str) -> io::Result<NameTarget> {
        let status = match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => status,
            Err(Errno::NOENT) => return Ok(NameTarget::Nothing),
            Err(error) => return Err(error.into()),
        };
        Ok(match FileType::from_raw_mode(status.st_mode) {
            FileType::Symlink => NameTarget::Link(self.read_link(name)?),
            FileType::Directory => NameTarget::Folder,
            _ => NameTarget::File,
        })
    }

    fn read_link(&self, name: &str) -> io::Result<PathBuf> {
        use std::ffi::OsString;
        use std::os::unix::ffi::OsStringExt;
        let to = rustix::fs::readlinkat(&self.handle, name, Vec::new())?;
        Ok(OsString::from_vec(to.into_bytes()).into())
    }

    /// Sorted names of the entries that are neither folders nor links to folders.
    pub(super) fn files(&self) -> io::Result<Vec<String>> {
        self.names(|name, kind| {
            let is_folder = match kind {
                FileType::Directory => true,
                FileType::Symlink => self.sub_folder(name).is_ok(),
                // Some file systems report no kind.
                FileType::Unknown => match self.find(name)? {
                    NameTarget::Folder => true,
                    NameTarget::Link(_) => self.sub_folder(name).is_ok(),
                    NameTarget::Nothing | NameTarget::File => false,
                },
                _ => false,
            };
            Ok(!is_folder)
        })
    }

    /// Sorted names of the folders, of links to folders, and of dangling links.
    pub(super) fn folders(&self) -> io::Result<Vec<String>> {
        self.names(|name, _| {
            if name == "." || name == ".." {
                return Ok(false);
            }
            Ok(match self.find(name)? {
                NameTarget::Folder => true,
                NameTarget::Link(_) => match self.status(name) {
                    Ok(status) => FileType::from_raw_mode(status.st_mode) == FileType::Directory,
                    Err(error) => error.kind() == io::ErrorKind::NotFound,
                },
                NameTarget::File | NameTarget::Nothing => false,
            })
        })
    }

    /// Sorted names of the wanted entries. Names of the database are UTF-8, so other names are skipped.
    fn names(&self, is_wanted: impl Fn(&str, FileType) -> io::Result<bool>) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if is_wanted(name, entry.file_type())? {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Makes the names in the folder survive a crash.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

fn make(relative_to: BorrowedFd<'_>, name: &Path) -> io::Result<bool> {
    match rustix::fs::mkdirat(relative_to, name, FOLDER_MODE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
