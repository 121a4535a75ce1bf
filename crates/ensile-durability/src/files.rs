//! Readers and writers of the bytes on disk: blocks, the manifest, log files, checkpoint files and page files
//! (`docs/internals/formats/` has the byte boxes). The room starts no thread and reads no clock. Two kinds of files
//! have their code where their memory is: the segments of a log (`log::segments`), and mapped buffers
//! (`store::mapped_buffers`).
//!
//! Neighbours: `buffers`, `store`, `log`, `checkpoint`, `backup` and `shipping::take_over` decide the time of each
//! write; `recovery`, `backup` and `shipping` read.

use ensile_disk::{Disk, DiskError, DiskFile};

pub(crate) mod archive_list;
pub(crate) mod block;
pub(crate) mod checkpoint;
pub(crate) mod hint;
pub(crate) mod log;
pub(crate) mod manifest;
pub(crate) mod mark;
pub(crate) mod names;
pub(crate) mod picture;
pub(crate) mod rates;
pub(crate) mod shared_manifest;
pub(crate) mod text;

/// Makes a file of these bytes, or replaces the file of the name, and syncs the bytes. The caller syncs the name.
pub(crate) fn create_synced(
    disk: &dyn Disk,
    name: &str,
    bytes: &[u8],
) -> Result<Box<dyn DiskFile>, DiskError> {
    let file = disk.create(name)?;
    file.write_at(bytes, 0)?;
    file.sync_all()?;
    Ok(file)
}
