//! What the tests share: a folder of their own, and the cause of an error.
//!
//! Neighbours: the tests of what is on disk use it, `reopening` and `receipts`.

use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use ensile::Error;
use ensile_durability::DurabilityError;

/// What an error of the log, the disk or a folder comes from.
pub(crate) fn cause(error: &Error) -> Option<&DurabilityError> {
    match error {
        Error::Storage(error) => Some(error.cause()),
        _ => None,
    }
}

/// An empty folder that goes when the value does.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness within the process matters.
        let name = format!("{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("cargo's folder for tests can be written");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
