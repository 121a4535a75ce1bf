//! The files of the tree, read as text.
//!
//! Neighbours: [`mod@crate::tidy`] and [`mod@crate::planted`] look at the files.

use std::path::Path;
use std::{fs, io};

/// Reads every file under `folder` with a name that ends in `ending`, in the order of names. A missing folder has no
/// files.
pub(crate) fn read_tree(
    root: &Path,
    folder: &str,
    ending: &str,
    found: &mut Vec<(String, String)>,
) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return Ok(()) };
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    for name in names.iter().filter(|name| *name != "target" && !name.starts_with('.')) {
        let path = format!("{folder}/{name}");
        if root.join(&path).is_dir() {
            read_tree(root, &path, ending, found)?;
        } else if name.ends_with(ending) {
            let text = fs::read_to_string(root.join(&path))?;
            found.push((path, text));
        }
    }
    Ok(())
}
