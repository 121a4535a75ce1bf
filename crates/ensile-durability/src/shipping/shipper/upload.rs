//! A file on its way to the shared store: the file, its objects, and the place of the next piece.
//!
//! Invariant: a failed object is put again from its beginning; earlier objects of its file stay.
//!
//! Neighbours: [`super::uploads`] takes the steps of an upload.

use std::collections::VecDeque;
use std::sync::Arc;

use ensile_disk::DiskFile;

use crate::files::names::PartName;
use crate::files::shared_manifest::{SharedFile, SharedPiece};
use crate::shipping::log_file::LookedFile;
use crate::shipping::shared_store::SharedUpload;
use crate::store::closed_files::ClosedFile;

/// File of an upload.
#[derive(Debug)]
pub(super) enum UploadOf {
    Part(PartName),
    Log(ClosedFile, LookedFile),
}

impl UploadOf {
    /// Name of the file, without the end epoch of a closed file's name.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Part(part) => part.to_string(),
            Self::Log(closed, _) => closed.file.archive_name().to_string(),
        }
    }
}

/// State of the present object.
#[derive(Debug)]
pub(super) enum ObjectUnderWay {
    /// No work done yet.
    NotBegun,
    /// The object exists in the store. The shipper compares the object, and computes its checksum.
    Compared,
    /// The object is being written.
    Written(Box<dyn SharedUpload>),
}

/// A file on its way.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) of: UploadOf,
    pub(super) name: String,
    pub(super) file: Arc<dyn DiskFile>,
    /// Description of the file, with the checksum of its bytes before the present object.
    pub(super) shared: SharedFile,
    /// Objects that the store lacks; the first object is under way.
    pub(super) pieces: VecDeque<SharedPiece>,
    pub(super) object: ObjectUnderWay,
    pub(super) offset: u64,
    /// Checksum of all bytes up to `offset`.
    pub(super) crc: u32,
    /// True if an object of the file was written.
    pub(super) is_written: bool,
}

impl Upload {
    /// Name of the file in the store.
    pub(super) fn shared_name(&self) -> String {
        self.shared.object(&self.name)
    }

    /// The closed log file of the upload, if any.
    pub(super) fn log_file(&self) -> Option<&ClosedFile> {
        match &self.of {
            UploadOf::Log(closed, _) => Some(closed),
            UploadOf::Part(_) => None,
        }
    }

    /// Restarts the present object.
    pub(super) fn begin_object_again(&mut self) {
        self.object = ObjectUnderWay::NotBegun;
        (self.offset, self.crc) =
            (self.pieces.front().map_or(self.offset, |piece| piece.offset), self.shared.crc);
    }
}
