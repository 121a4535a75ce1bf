//! Asks the kernel to begin writing part of a file, and for nothing else.
//!
//! `fadvise` with `DONTNEED` begins to write as well, and then interrupts every core to drop what they hold back of the
//! page cache, so commits would wait. `unsafe` stands here because only the C library has the call.
//!
//! Neighbours: [`super::file`] answers [`crate::DiskFile::write_behind`] with it.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Begins to write these bytes, and waits for none of them, but for room in the device's queue. Nothing comes of it
/// where the file system cannot.
pub(super) fn begin_to_write(file: &File, offset: u64, bytes: u64) {
    let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return };
    // SAFETY: the file is open for as long as it is borrowed, and the call reads and writes no memory of the process.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}
