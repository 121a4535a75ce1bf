//! Plan of a log's next file: the prepared part of the file, and the limits of the preparation.
//!
//! Neighbours: `next_file` makes the file; `logger::file_rotation` has the plan under a lock, and decides the time.

use std::sync::Arc;

use ensile_disk::{Disk, DiskError};

use super::segments::{ROLL_PAUSE_NANOS, Segments};
use crate::files::log::next_file::NextFile;
use crate::files::names::SegmentName;

/// The prepared part of the next file, and the limits of the preparation.
#[derive(Debug)]
pub(super) struct NextFilePlan {
    pub(super) made: Option<NextFile>,
    pub(super) name: SegmentName,
    /// Least initial size of the file, in bytes.
    first_bytes: u64,
    /// Time before which no new attempt is made, in nanoseconds of the clock.
    pub(super) not_before: u64,
    /// True once no next file will exist.
    pub(super) is_over: bool,
}

impl NextFilePlan {
    pub(super) fn new(segments: &Segments) -> Self {
        let (name, first_bytes) = (segments.next_name(), segments.first_bytes());
        Self { made: None, name, first_bytes, not_before: 0, is_over: false }
    }

    /// Makes the file ready now. If `heavy`, the log has many writes, and the file gets no zeros. `None`, here and
    /// below, means that the disk has no space.
    pub(super) fn make_ready(&mut self, disk: &Arc<dyn Disk>, heavy: bool) -> Result<Option<()>, DiskError> {
        let first_bytes = self.first_bytes;
        match self.get_or_create(disk, first_bytes)? {
            Some(made) => made.make_ready(&**disk, first_bytes, heavy),
            None => Ok(None),
        }
    }

    /// Makes a part of the file, with `wanted` bytes of zeros in the end. True once the file is ready.
    pub(super) fn make_some(&mut self, disk: &Arc<dyn Disk>, wanted: u64) -> Result<Option<bool>, DiskError> {
        match self.get_or_create(disk, wanted)? {
            Some(made) => made.make_some(&**disk),
            None => Ok(None),
        }
    }

    /// The next file, created now if missing, with `wanted` zeros to come.
    fn get_or_create(
        &mut self,
        disk: &Arc<dyn Disk>,
        wanted: u64,
    ) -> Result<Option<&mut NextFile>, DiskError> {
        assert!(!self.is_over, "a log that has ended begins no file");
        if self.made.is_none() {
            self.made = NextFile::create(disk, self.name, wanted)?;
        }
        Ok(self.made.as_mut())
    }

    /// Checks that the prepared file has the next name, and that no file exists after the end.
    pub(super) fn check(&self) {
        assert!(
            self.made.as_ref().is_none_or(|made| made.name == self.name),
            "a file of another name is made"
        );
        assert!(!self.is_over || self.made.is_none(), "a file is made that is not going to be used");
        assert!(self.first_bytes > 0, "a file without space");
    }

    /// Removes the prepared file, and prevents attempts for [`ROLL_PAUSE_NANOS`]. True if the file existed.
    pub(super) fn give_up(&mut self, disk: &dyn Disk, now_nanos: u64) -> Result<bool, DiskError> {
        self.not_before = now_nanos.saturating_add(ROLL_PAUSE_NANOS);
        self.made.take().map_or(Ok(false), |made| made.discard(disk).map(|()| true))
    }
}
