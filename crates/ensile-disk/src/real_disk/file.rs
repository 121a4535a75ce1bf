//! An open file of the machine: positioned reads and writes, `fdatasync`, `fallocate`. Callers see neither short nor
//! interrupted calls. A call that the file system cannot do cheaply is done the plain way.
//!
//! - No call lets a file grow beyond the process's limit (`RLIMIT_FSIZE`): the kernel would send SIGXFSZ and end the
//!   process. The call fails as on a full disk instead.
//! - A file is mapped once its whole length is written, and only on file systems that overwrite in place. A store into
//!   the mapping then finds its space (no SIGBUS), unless another process cuts the file meanwhile.
//! - I4: a forked child writes and syncs nothing.
//!
//! Neighbours: made by [`super::RealDisk`].

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use crate::error::{DiskError, Operation};
use crate::{DiskFile, MappedWords, Process};

/// Bytes of a write when a file is filled with zeros.
const ZEROS_BYTES: usize = 64 << 10;

/// File systems known to overwrite written bytes in place, and to map the cache that `read` sees. The numbers are from
/// `statfs`: ext2 to ext4, XFS, F2FS, tmpfs, overlayfs (whose upper file system must be in the list).
#[cfg(target_os = "linux")]
const MAPPED_SYSTEMS: [u64; 5] = [0xef53, 0x5846_5342, 0xf2f5_2010, 0x0102_1994, 0x794c_7630];

#[derive(Debug)]
pub(super) struct RealFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) process: Process,
    /// Largest length of a file of this process in bytes, as of the opening of the disk.
    pub(super) length_max: u64,
}

impl RealFile {
    fn fail(&self, operation: Operation) -> impl Fn(io::Error) -> DiskError + '_ {
        move |error| DiskError::io(operation, &self.path, error)
    }

    fn check_process(&self, operation: Operation) -> Result<(), DiskError> {
        if self.process.is_this() {
            Ok(())
        } else {
            Err(DiskError::Forked { operation, path: self.path.clone() })
        }
    }

    /// Fails if a change up to `end` exceeds the limit.
    fn check_end(&self, operation: Operation, end: u64) -> Result<(), DiskError> {
        if end > self.length_max {
            return Err(self.fail(operation)(rustix::io::Errno::FBIG.into()));
        }
        Ok(())
    }

    /// Fails unless stores into a mapping of the file cannot fail.
    fn check_mappable(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            let system = rustix::fs::fstatfs(&self.file)?.f_type as u64;
            if MAPPED_SYSTEMS.contains(&system) {
                return Ok(());
            }
        }
        let detail = "on this file system a store into a mapped file may fail: use ext4, XFS, F2FS or tmpfs";
        Err(io::Error::new(io::ErrorKind::Unsupported, detail))
    }

    fn grow(&self, from: u64, to: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::Errno;
            loop {
                match fallocate(&self.file, FallocateFlags::empty(), from, to - from) {
                    Ok(()) => return Ok(()),
                    Err(Errno::INTR) => {}
                    // The file system or kernel cannot: only growing the file is promised.
                    Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let _ = from;
        self.file.set_len(to)
    }
}

impl DiskFile for RealFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.check_process(Operation::Write)?;
        self.check_end(Operation::Write, offset.saturating_add(bytes.len() as u64))?;
        self.file.write_all_at(bytes, offset).map_err(self.fail(Operation::Write))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, DiskError> {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fail(Operation::Read)(error)),
            }
        }
        Ok(done)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        // Ignored advice changes nothing.
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fadvise(
            &self.file,
            offset,
            std::num::NonZero::new(bytes),
            rustix::fs::Advice::WillNeed,
        );
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, bytes);
    }

    fn write_behind(&self, offset: u64, bytes: u64) {
        #[cfg(target_os = "linux")]
        super::write_behind::begin_to_write(&self.file, offset, bytes);
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, bytes);
    }

    fn len(&self) -> Result<u64, DiskError> {
        Ok(self.file.metadata().map_err(self.fail(Operation::Length))?.len())
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        self.check_process(Operation::Length)?;
        // A file beyond the limit, as another process wrote it, may still be cut.
        if bytes > self.length_max && bytes > self.len()? {
            self.check_end(Operation::Length, bytes)?;
        }
        self.file.set_len(bytes).map_err(self.fail(Operation::Length))
    }

    fn preallocate(&self, bytes: u64) -> Result<(), DiskError> {
        self.check_process(Operation::Preallocate)?;
        let have = self.len()?;
        if have >= bytes {
            return Ok(());
        }
        self.check_end(Operation::Preallocate, bytes)?;
        self.grow(have, bytes).map_err(self.fail(Operation::Preallocate))
    }

    fn map(&self, bytes: u64) -> Result<MappedWords, DiskError> {
        self.check_process(Operation::Map)?;
        self.check_mappable().map_err(self.fail(Operation::Map))?;
        let mut have = self.len()?;
        let zeros = [0; ZEROS_BYTES];
        while have < bytes {
            let piece = &zeros[..zeros.len().min((bytes - have) as usize)];
            self.write_at(piece, have)?;
            have += piece.len() as u64;
        }
        MappedWords::of_file(&self.file, bytes as usize).map_err(self.fail(Operation::Map))
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.check_process(Operation::Sync)?;
        self.file.sync_data().map_err(self.fail(Operation::Sync))
    }

    fn sync_all(&self) -> Result<(), DiskError> {
        self.check_process(Operation::Sync)?;
        self.file.sync_all().map_err(self.fail(Operation::Sync))
    }

    fn check_named(&self) -> Result<(), DiskError> {
        let links = self.file.metadata().map_err(self.fail(Operation::Identify))?.nlink();
        if links > 0 { Ok(()) } else { Err(DiskError::Removed { path: self.path.clone() }) }
    }
}
