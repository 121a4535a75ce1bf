//! A folder of a test's own, and a database in it: epochs and log files are short, and nobody but the test makes
//! checkpoints.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ensile_engine::checkpoint::Schedule;
use ensile_engine::{Builder, Database, Durability, Tuning};

/// A folder that is gone when the test ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ensile-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn builder(&self) -> Builder {
        self.builder_with(2)
    }

    pub(crate) fn builder_with(&self, loggers: usize) -> Builder {
        Database::builder(&self.0)
            .durability(Durability::Relaxed)
            .epoch_interval(Duration::from_millis(2))
            .tuning(Tuning { loggers: Some(loggers), log_file_bytes: 1 << 18, ..Tuning::default() })
            .checkpoints(Schedule::on_demand())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left behind in the temporary folder fails no test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
