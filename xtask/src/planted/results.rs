//! `docs/results/planted.csv`: the last sighting of each planted bug, with a hash of the code around the bug.
//!
//! Two runs may add rows at the same time. A run takes a lock and reads the file again before a write.
//!
//! Neighbours: [`super::run`] adds rows; [`super`] compares the hashes with the tree.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A bug that a command saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sighting {
    pub(crate) bug: String,
    pub(crate) condition: String,
    /// Hash of the bug, its command and the functions around it, in hexadecimal.
    pub(crate) hash: String,
    pub(crate) build_seconds: u64,
    pub(crate) test_seconds: u64,
    /// First line that told of the fault.
    pub(crate) output: String,
    pub(crate) command: String,
}

/// The table in a file.
pub(crate) struct Results {
    path: PathBuf,
    /// File whose lock a run holds while it changes the table.
    lock: PathBuf,
}

impl Results {
    /// The table of the tree under `root`; `is_unasserted` chooses the one of builds without debug assertions.
    pub(crate) fn of(root: &Path, is_unasserted: bool) -> Self {
        let name = if is_unasserted { "planted-unasserted.csv" } else { "planted.csv" };
        Self { path: root.join("docs/results").join(name), lock: root.join("target/planted-results.lock") }
    }

    /// All rows by the names of the bugs; no row if the table does not exist yet.
    pub(crate) fn read(&self) -> io::Result<BTreeMap<String, Sighting>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(error),
        };
        let rows = csv::Reader::from_reader(file).into_deserialize::<Sighting>();
        let rows = rows.map(|row| row.map(|row| (row.bug.clone(), row)));
        rows.collect::<Result<_, _>>().map_err(io::Error::other)
    }

    /// Adds a row, or replaces the older row of the same bug.
    pub(crate) fn add(&self, sighting: Sighting) -> io::Result<()> {
        self.change(|rows| {
            rows.insert(sighting.bug.clone(), sighting);
        })
    }

    /// Removes the rows of bugs for which `is_kept` is false.
    pub(crate) fn retain(&self, is_kept: impl Fn(&str) -> bool) -> io::Result<()> {
        if self.read()?.keys().all(|bug| is_kept(bug)) {
            return Ok(());
        }
        self.change(|rows| rows.retain(|bug, _| is_kept(bug)))
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Sighting>)) -> io::Result<()> {
        if let Some(folder) = self.lock.parent() {
            fs::create_dir_all(folder)?;
        }
        let held = File::create(&self.lock)?;
        held.lock()?;
        let mut rows = self.read()?;
        change(&mut rows);
        let next = self.path.with_extension("next");
        let mut writer = csv::Writer::from_path(&next).map_err(io::Error::other)?;
        for row in rows.values() {
            writer.serialize(row).map_err(io::Error::other)?;
        }
        writer.flush()?;
        fs::rename(&next, &self.path)
    }
}

#[cfg(test)]
mod tests;
