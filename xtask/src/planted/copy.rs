//! A copy of the tree to plant bugs in. The checkout never has a planted bug.
//!
//! A file with the right bytes keeps its time stamp, so cargo builds only the changed crates.
//!
//! Neighbours: [`super::run`] plants and builds in the copy.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The copied tree.
pub(crate) struct Copy {
    folder: PathBuf,
}

impl Copy {
    /// Makes `folder` a copy of the files under `root` that git tracks or would add, `planted/` left out.
    pub(crate) fn new(root: &Path, folder: PathBuf) -> io::Result<Self> {
        let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = Command::new("git").args(arguments).current_dir(root).output()?;
        if !listed.status.success() {
            return Err(io::Error::other("git does not list the files of the tree: run this in a clone"));
        }
        let listed = String::from_utf8(listed.stdout).map_err(io::Error::other)?;
        let paths: BTreeSet<&str> =
            listed.split('\0').filter(|path| !path.is_empty() && !path.starts_with("planted/")).collect();
        let copy = Self { folder };
        for path in &paths {
            match fs::read(root.join(path)) {
                Ok(bytes) => copy.write(path, &bytes)?,
                // The file is removed from the checkout and still in the index.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        copy.remove_others(&copy.folder, "", root)?;
        Ok(copy)
    }

    /// Folder of the copy.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file if the bytes differ.
    pub(crate) fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.folder.join(path);
        if fs::read(&file).is_ok_and(|now| now == bytes) {
            return Ok(());
        }
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(file, bytes)
    }

    /// Removes files that the checkout does not have.
    fn remove_others(&self, folder: &Path, beginning: &str, root: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = format!("{beginning}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.remove_others(&entry.path(), &format!("{path}/"), root)?;
            } else if !root.join(&path).exists() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}
