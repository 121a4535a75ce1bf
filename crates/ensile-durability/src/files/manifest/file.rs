//! File of the manifest: reading, and replacement as a whole. A manifest that [`Manifest::read`] would refuse is not
//! written.
//!
//! Neighbours: [`super::keeper`] writes the manifest; every part of the store reads the manifest.

use std::path::Path;

use ensile_disk::{Disk, DiskError, Operation};

use super::contents::{Making, Manifest};
use super::text_form::Unusable;
use crate::DurabilityError;
use crate::files::create_synced;
use crate::files::names::{MANIFEST, MANIFEST_NEW};
use crate::files::text;

/// Maximum length of a manifest in bytes, far above the length of a real manifest.
const BYTES_MAX: u64 = 16 << 20;

/// Reason why the manifest was not replaced.
#[derive(Debug)]
pub(crate) enum NotReplaced {
    /// The old manifest is still in place.
    OldStands(DiskError),
    /// Either the old or the new manifest is in place. The next open finds out.
    Unknown(DiskError),
}

impl From<NotReplaced> for DurabilityError {
    fn from(error: NotReplaced) -> Self {
        let (NotReplaced::OldStands(error) | NotReplaced::Unknown(error)) = error;
        error.into()
    }
}

impl Manifest {
    /// Reads the manifest. `None` if the file is missing.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>, DurabilityError> {
        match Self::read_named(disk, MANIFEST)? {
            None => Ok(None),
            Some(manifest) => manifest.map(Some).map_err(Unusable::into_error),
        }
    }

    /// True if the file `name` is the manifest of a created database. An intact file of an unsupported format counts
    /// too.
    pub(crate) fn is_created_text(disk: &dyn Disk, name: &str) -> Result<bool, DurabilityError> {
        let manifest = Self::read_named(disk, name)?;
        Ok(matches!(manifest, Some(Ok(Self { state: Making::Created, .. }) | Err(Unusable::Foreign(_)))))
    }

    fn read_named(disk: &dyn Disk, name: &str) -> Result<Option<Result<Self, Unusable>>, DiskError> {
        let Some(bytes) = text::read(disk, name, BYTES_MAX + 1)? else { return Ok(None) };
        if bytes.len() as u64 > BYTES_MAX {
            return Ok(Some(Err(Unusable::Damaged("it is too long to be a manifest"))));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| Unusable::Damaged("it is not text"));
        Ok(Some(text.and_then(Self::parse)))
    }

    /// Replaces the manifest on disk by this manifest. After a success, this manifest survives a crash.
    pub(super) fn write(&self, disk: &dyn Disk) -> Result<(), NotReplaced> {
        assert!(self.is_whole(), "I2, L4, L6, K1: {self:?}");
        let text = self.to_string();
        if text.len() as u64 > BYTES_MAX {
            let kind = std::io::ErrorKind::FileTooLarge;
            let error = DiskError::io(Operation::Write, Path::new(MANIFEST_NEW), kind.into());
            return Err(NotReplaced::OldStands(error));
        }
        debug_assert_eq!(Self::parse(&text).as_ref(), Ok(self));
        create_synced(disk, MANIFEST_NEW, text.as_bytes()).map_err(NotReplaced::OldStands)?;
        disk.rename(MANIFEST_NEW, MANIFEST).map_err(NotReplaced::Unknown)?;
        disk.sync_folder("").map_err(NotReplaced::Unknown)
    }
}
