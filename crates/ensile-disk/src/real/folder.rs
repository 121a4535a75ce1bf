//! A folder that is held open: every name in it is looked up relative to its handle.
//!
//! - What becomes of the folder's own name does not matter: renamed, it goes on being this one, and another one put in
//!   its place is never touched.
//! - Only files are opened as files: what else somebody has put under such a name is an error, and nobody waits for it.
//! - Handles are closed when a program is executed. What is made here is its owner's alone: 0700 and 0600, less what
//!   the process's mask takes away.
//!
//! Neighbours: [`super::RealDisk`] keeps one for its root and each used folder.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::fs::RenameFlags;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

/// For a folder that is made.
const FOLDER_MODE: Mode = Mode::RWXU;
/// For a file that is made.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// What stands at a name, a link not followed.
pub(super) enum NameTarget {
    Nothing,
    Folder,
    Link(PathBuf),
    File,
}

#[derive(Debug)]
pub(super) struct Folder {
    handle: File,
    /// Where it was when it was opened: for messages.
    path: PathBuf,
}

impl Folder {
    /// The folder at `path`, links followed.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        Self::open(CWD, path, path.to_owned())
    }

    /// Makes the folder at `path` in a folder that is there; says whether there was none before.
    pub(super) fn make_at(path: &Path) -> io::Result<bool> {
        make(CWD, path)
    }

    fn open(relative_to: BorrowedFd<'_>, name: &Path, path: PathBuf) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = retry_on_intr(|| rustix::fs::openat(relative_to, name, flags, Mode::empty()))?;
        Ok(Self { handle: handle.into(), path })
    }

    /// A folder in this one, a link followed.
    pub(super) fn sub_folder(&self, name: &str) -> io::Result<Self> {
        Self::open(self.handle.as_fd(), Path::new(name), self.path.join(name))
    }

    /// This folder again, as an open file of its own, which a lock belongs to.
    pub(super) fn again(&self) -> io::Result<File> {
        Ok(Self::open(self.handle.as_fd(), Path::new("."), PathBuf::new())?.handle)
    }

    /// The folder that this one is in.
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

    /// From now on messages name it so.
    pub(super) fn set_path(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// An existing file.
    pub(super) fn open_file(&self, name: &str, is_to_write: bool) -> io::Result<File> {
        let access = if is_to_write { OFlags::RDWR } else { OFlags::RDONLY };
        self.open_with(name, access)
    }

    /// A file that is made if there is none, and emptied if so asked.
    pub(super) fn make_file(&self, name: &str, is_emptied: bool) -> io::Result<File> {
        let emptied = if is_emptied { OFlags::TRUNC } else { OFlags::empty() };
        self.open_with(name, OFlags::RDWR | OFlags::CREATE | emptied)
    }

    /// Anything but a file is refused. Without NONBLOCK the open of a pipe waits for its other end, perhaps for ever; a
    /// file's does not care.
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
            // How Linux says that the file system has no such links.
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

    /// Is there anything at `name`, and at the end of a link?
    pub(super) fn exists(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::statat(&self.handle, name, AtFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What the file system says of a file, a link followed.
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

    /// The names of all that is no folder nor leads to one, sorted.
    pub(super) fn files(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            // A name that is not UTF-8 is not one of ours.
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_folder = match entry.file_type() {
                FileType::Directory => true,
                FileType::Symlink => self.sub_folder(name).is_ok(),
                // Some file systems do not say.
                FileType::Unknown => match self.find(name)? {
                    NameTarget::Folder => true,
                    NameTarget::Link(_) => self.sub_folder(name).is_ok(),
                    NameTarget::Nothing | NameTarget::File => false,
                },
                _ => false,
            };
            if !is_folder {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The names of the folders in it and of links that lead to one, or to nothing now; sorted.
    pub(super) fn folders(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let is_folder = match self.find(name)? {
                NameTarget::Folder => true,
                NameTarget::Link(_) => match self.status(name) {
                    Ok(status) => FileType::from_raw_mode(status.st_mode) == FileType::Directory,
                    Err(error) => error.kind() == io::ErrorKind::NotFound,
                },
                NameTarget::File | NameTarget::Nothing => false,
            };
            if is_folder {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Makes the names in it survive a crash.
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
