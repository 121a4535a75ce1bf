//! A file on its way to the shared store, one object after the other, one piece a step.
//!
//! Invariants:
//! - H1: an upload has ended, and is durable in the store, before the inventory has its file.
//! - An object of an earlier life, or of an upload that was given up, is compared with the file, byte by byte.
//!
//! Neighbours: [`super::steps`] begins and continues an upload; `shared_store` has the trait of the store.

use std::sync::Arc;

use ensile_base::checksum::crc32c_append;
use ensile_disk::DiskFile;

use super::state::{ObjectUnderWay, ShipWork, Shipper, Upload, UploadOf};
use crate::DurabilityError;
use crate::error::unless_missing;
use crate::files::block::Salt;
use crate::files::shared_manifest::SharedFile;
use crate::shipping::chain;
use crate::shipping::log_file::{self, LookedFile};
use crate::shipping::state_composition::ShippedLog;
use crate::store::closed_files::ClosedFile;

/// Bytes that one step reads and writes.
const STEP_BYTES: usize = 1 << 20;

impl Shipper {
    /// Checks a closed log file, and begins its upload. A file that was removed meanwhile is skipped.
    pub(super) fn begin_log(&self, work: &mut ShipWork, closed: ClosedFile) -> Result<(), DurabilityError> {
        debug_assert!(work.log_upload.is_none(), "one log file is under way");
        let (disk, name) = (self.store.disk(), closed.file.to_string());
        let Some(file) = unless_missing(disk.open_to_read(&name))? else {
            // The file may have been removed beyond the hold since the listing.
            return match self.log.closed_list().contains(&closed) {
                true => Err(DurabilityError::damaged_file(&name, 0, "it is missing, so it is not shipped")),
                false => Ok(()),
            };
        };
        let looked = log_file::look(disk.open_to_read(&name)?, &closed)?;
        let (bytes, salt) = (closed.bytes, looked.salt);
        let of = UploadOf::Log(closed, looked);
        work.log_upload = Some(self.upload_of(of, bytes, salt, file.into()));
        Ok(())
    }

    /// An upload of this file of `bytes` bytes, with no work done yet.
    pub(super) fn upload_of(&self, of: UploadOf, bytes: u64, salt: Salt, file: Arc<dyn DiskFile>) -> Upload {
        let name = of.name();
        let object_bytes = Some(self.config.object_bytes).filter(|most| *most < bytes);
        let shared = SharedFile { shipper: self.database, salt, bytes, crc: 0, object_bytes };
        let pieces = shared.pieces(&name).into();
        let object = ObjectUnderWay::NotBegun;
        debug_assert!(
            shared.pieces(&name).iter().all(|piece| piece.bytes <= self.config.object_bytes),
            "H1: an object of {name} is larger than the settings say"
        );
        Upload { of, name, file, shared, pieces, object, offset: 0, crc: 0, is_written: false }
    }

    /// Uploads the next piece of a file; true once the store has the whole file. After a failure the next call starts
    /// at the beginning of the present object.
    pub(super) fn go_on(&self, work: &mut ShipWork, upload: &mut Upload) -> Result<bool, DurabilityError> {
        let gone_on = self.go_on_in_object(work, upload);
        if gone_on.is_err() {
            upload.begin_object_again();
        }
        gone_on
    }

    /// Uploads or compares the next piece of the present object; true once the store has the whole file.
    fn go_on_in_object(&self, work: &mut ShipWork, upload: &mut Upload) -> Result<bool, DurabilityError> {
        let piece = upload.pieces.front().expect("an object is under way").clone();
        let end = piece.offset + piece.bytes;
        assert!(
            piece.offset <= upload.offset && upload.offset <= end,
            "H1: the next byte is in {}",
            piece.object
        );
        let wanted = (end - upload.offset).min(STEP_BYTES as u64) as usize;
        let mut bytes = vec![0; wanted];
        let read = upload.file.read_at(&mut bytes, upload.offset)?;
        if read < wanted {
            let at = upload.offset + read as u64;
            return Err(DurabilityError::damaged_file(&upload.name, at, "it ends before its last block"));
        }
        let failed = |error| self.unusable(error);
        if matches!(upload.object, ObjectUnderWay::NotBegun) {
            upload.object = match work.left.get(&piece.object) == Some(&piece.bytes) {
                true => ObjectUnderWay::Compared,
                false => ObjectUnderWay::Written(self.shared_store().upload(&piece.object).map_err(failed)?),
            };
        }
        match &mut upload.object {
            ObjectUnderWay::Written(to) => to.write(&bytes).map_err(failed)?,
            _ => self.compare(work, &piece.object, &bytes, upload.offset - piece.offset)?,
        }
        work.pace.spend(wanted as u64);
        upload.crc = crc32c_append(upload.crc, &bytes);
        upload.offset += wanted as u64;
        if upload.offset < end {
            return Ok(false);
        }
        assert_eq!(upload.offset, end, "H1: each byte of {} is there", piece.object);
        if let ObjectUnderWay::Written(to) = std::mem::replace(&mut upload.object, ObjectUnderWay::NotBegun) {
            to.finish().map_err(failed)?;
            upload.is_written = true;
            self.stats.lock().bytes += piece.bytes;
        }
        upload.shared.crc = upload.crc;
        upload.pieces.pop_front();
        if upload.pieces.is_empty() {
            return Ok(true);
        }
        // If this upload is given up, the next upload of the file finds the object.
        work.left.insert(piece.object, piece.bytes);
        Ok(false)
    }

    /// Records a complete upload.
    pub(super) fn record_upload(&self, work: &mut ShipWork, upload: Upload) {
        let Upload { of, name, shared, pieces, offset, is_written, .. } = upload;
        assert!(pieces.is_empty() && offset == shared.bytes, "H1: all of {name} is there");
        self.stats.lock().files += u64::from(is_written);
        for piece in shared.pieces(&name) {
            work.left.remove(&piece.object);
        }
        match of {
            UploadOf::Part(part) => drop(work.inventory.parts.insert(part, shared)),
            UploadOf::Log(ClosedFile { file, largest, .. }, LookedFile { before, marks, .. }) => {
                work.inventory
                    .logs
                    .insert(file.archive_name(), ShippedLog { shared, largest, before, marks });
            }
        }
    }

    /// Compares an object of the store with the bytes here.
    fn compare(
        &self,
        work: &mut ShipWork,
        object: &str,
        bytes: &[u8],
        offset: u64,
    ) -> Result<(), DurabilityError> {
        let mut there = vec![0; bytes.len()];
        let read = self.shared_store().read_at(object, &mut there, offset);
        match read.map_err(|error| self.unusable(error))? {
            Some(read) if read == bytes.len() && there == bytes => Ok(()),
            Some(read) if read == bytes.len() => Err(chain::damaged_object_error(
                self.shared_store(),
                object,
                "it has other bytes than the file here: if no copy of this database ships there too, remove it",
            )),
            _ => {
                // The next attempt puts the object.
                work.left.remove(object);
                Err(self.missing_object_error(object))
            }
        }
    }
}
