//! Files of a figure: the folder, the JSON document and the fields of CSV.
//!
//! Neighbours: [`super`] and [`super::over_time`] write the files.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::rows::Row;
use super::scenes::Scene;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::verdict::Judged;

/// The JSON document.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    pub(super) figure: &'a str,
    pub(super) title: &'a str,
    pub(super) command: &'a str,
    pub(super) machine: &'a Machine,
    pub(super) rows: &'a [Row],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) verdicts: &'a [Judged],
    /// Scenes of a figure over time.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) scenes: &'a [Scene],
}

/// Makes the folder for figures and checks that the folder accepts files, before hours of measuring.
pub fn prepare(folder: &Path) -> Result<()> {
    make(folder)?;
    let probe = folder.join(format!(".ensile-{}", std::process::id()));
    let tried = fs::write(&probe, []).and_then(|()| fs::remove_file(&probe));
    tried.map_err(Failure::io(format!("making files in {}", folder.display())))
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(Failure::io(format!("making the folder {}", folder.display())))
}

/// Writes a file `NAME.EXTENSION` per text.
pub(super) fn write_files<const N: usize>(
    folder: &Path,
    name: &str,
    files: [(&str, Result<String, String>); N],
) -> Result<()> {
    make(folder)?;
    for (extension, text) in files {
        let path = folder.join(format!("{name}.{extension}"));
        let text = text.map_err(std::io::Error::other);
        text.and_then(|text| fs::write(&path, text))
            .map_err(Failure::io(format!("writing {}", path.display())))?;
    }
    Ok(())
}

/// A name as a field of CSV, in quotes if the name contains a comma.
pub(super) fn field(name: &str) -> String {
    if name.contains(',') { format!("\"{name}\"") } else { name.to_owned() }
}
