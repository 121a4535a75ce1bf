//! The folders of a trial, and the acknowledged numbers.
//!
//! Neighbours: the owner appends to the file of acknowledged numbers. A trial reads it.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use super::owner::Result;

/// A number that the owner has acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) number: u64,
    pub(crate) epoch: u64,
}

/// Folder of the trials. The drop of the value removes the folder, except after a finding.
#[derive(Debug)]
pub(crate) struct Folders {
    base: PathBuf,
    pub(crate) is_kept: bool,
}

impl Folders {
    pub(crate) fn new() -> Result<Self> {
        let base = std::env::var_os("ENSILE_TEST_FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
        let base = base.join(format!("ensile-copies-{}", std::process::id()));
        fs::create_dir_all(&base)?;
        Ok(Self { base, is_kept: false })
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// Removes the folder `name`.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_dir_all(self.at(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Removes the file `name`.
    pub(crate) fn remove_file(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.at(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Removes the folders and forgets the acknowledged numbers.
    pub(crate) fn renew(&self) -> Result<()> {
        fs::remove_dir_all(&self.base)?;
        fs::create_dir_all(self.at("shared"))?;
        File::create(self.at("acknowledged"))?;
        Ok(())
    }

    /// File to which an owner appends.
    pub(crate) fn appended(&self, name: &str) -> Result<File> {
        Ok(File::options().create(true).append(true).open(self.at(name))?)
    }

    /// The acknowledged numbers in order. A line without an end is not acknowledged.
    pub(crate) fn acknowledged(&self) -> Result<Vec<Acknowledged>> {
        let text = fs::read_to_string(self.at("acknowledged"))?;
        let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let parsed = |line: &str| -> Result<Acknowledged> {
            let (number, epoch) = line.split_once(' ').ok_or("a line has no epoch")?;
            Ok(Acknowledged { number: number.parse()?, epoch: epoch.parse()? })
        };
        let all = whole.lines().map(parsed).collect::<Result<Vec<_>>>()?;
        let grows = |pair: &[Acknowledged]| pair[0].number < pair[1].number && pair[0].epoch <= pair[1].epoch;
        if all.windows(2).all(grows) { Ok(all) } else { Err("the owner lost acknowledged numbers".into()) }
    }

    /// Text of the file `name`; empty without the file.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        if !self.is_kept {
            // The temporary folder may stay behind.
            let _ = fs::remove_dir_all(&self.base);
        }
    }
}
