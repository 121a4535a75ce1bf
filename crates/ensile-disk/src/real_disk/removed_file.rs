//! Space of a removed file, freed in pieces. A file system that is mounted with `discard` sends the discards of freed
//! space to the device during the next sync, so a sync waits for one piece.
//!
//! Invariant: space is freed in pieces only if the file has no other name, no other open handle and no mapping. A
//! backup that opened the file before the removal can still read the whole file.
//!
//! `unsafe` stands here because the standard library has no call for leases of files.
//!
//! Neighbours: [`super`] removes the name; the durability crate chooses the pieces and the pauses.

use std::fs::File;
use std::os::fd::AsRawFd;

use crate::KeptSpace;

/// Largest block of usual file systems, in bytes.
const BLOCK_BYTES: u64 = 4096;
/// Command of `fcntl` that chooses the signal of a lease. The C library's crate lacks the number.
const F_SETSIG: libc::c_int = 10;

/// A removed file that only this process can reach, through this handle.
#[derive(Debug)]
pub(super) struct RemovedFile {
    file: File,
    /// Length of the file in bytes.
    bytes: u64,
}

impl RemovedFile {
    /// `None` if somebody else may read the file, or if the file system cannot tell.
    pub(super) fn new(file: File) -> Option<Self> {
        let found = rustix::fs::fstat(&file).ok()?;
        let bytes = u64::try_from(found.st_size).ok()?;
        (found.st_nlink == 0 && is_only_handle(&file)).then_some(Self { file, bytes })
    }
}

impl KeptSpace for RemovedFile {
    fn give_back(&mut self, bytes: u64) -> u64 {
        // A length within a block makes the file system write the block once more.
        let left = self.bytes.saturating_sub(bytes) / BLOCK_BYTES * BLOCK_BYTES;
        // A file that another process reads by now, or that cannot be cut, frees its space with its last handle.
        let is_cut = is_only_handle(&self.file) && self.file.set_len(left).is_ok();
        self.bytes = if is_cut { left } else { 0 };
        self.bytes
    }
}

/// True if no other open handle or mapping of the file exists. The kernel grants a lease for writing only then.
///
/// The function releases the lease at once. A process that opens the file meanwhile breaks the lease, and the kernel
/// signals the break. The usual signal ends a process that has no handler, so the function chooses a signal that does
/// nothing without a handler.
fn is_only_handle(file: &File) -> bool {
    let control = |command: libc::c_int, argument: libc::c_int| {
        // SAFETY: the file is open for as long as it is borrowed, and the call reads and writes no memory of the
        // process.
        unsafe { libc::fcntl(file.as_raw_fd(), command, argument) == 0 }
    };
    control(F_SETSIG, libc::SIGURG)
        && control(libc::F_SETLEASE, libc::F_WRLCK)
        && control(libc::F_SETLEASE, libc::F_UNLCK)
}
