//! A temporary folder for a test. The drop asserts that the process has no open or mapped file of the folder.
//!
//! Neighbours: the tests of `real_disk`, `mapped_file` and `process` use the folder.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Path of a folder that the test creates. Declare the folder before the handles in the folder: the drop removes the
/// folder and must come last.
pub(crate) struct TestFolder(PathBuf);

impl TestFolder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only the number's uniqueness counts; no partner.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("ensile-disk-{}-{number}", std::process::id())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Open and mapped files of the process in the folder, by the names that the system shows.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_files(&self) -> Vec<String> {
        // The system appends a suffix to the name of a removed file, so a prefix is compared.
        let own = format!("{}/", self.0.display());
        let is_own = |name: &String| *name == own[..own.len() - 1] || name.starts_with(&own);
        let open = std::fs::read_dir("/proc/self/fd").expect("is listed").filter_map(|entry| {
            // The link of a handle is unreadable if another thread has just closed the handle.
            let to = std::fs::read_link(entry.ok()?.path()).ok()?;
            Some(to.display().to_string())
        });
        let maps = std::fs::read_to_string("/proc/self/maps").expect("is read");
        let mapped = maps.lines().filter_map(|line| line.find('/').map(|at| line[at..].to_owned()));
        open.chain(mapped).filter(is_own).collect()
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open_files(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let held = if std::thread::panicking() { Vec::new() } else { self.open_files() };
        let _ = std::fs::remove_dir_all(&self.0);
        assert_eq!(held, [""; 0], "handles and mappings that were not given back");
    }
}
