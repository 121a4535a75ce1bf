//! Names of a simulated machine: a tree of folders. A folder's identity outlives its name.
//!
//! - Two trees stand side by side, as seen and as stable, with the same numbers for the same folders and files.
//! - A link leads to a path from the machine's top. A folder may be hidden under an empty folder (the device is
//!   unmounted), or be gone (a link to the folder leads nowhere). Hidden and gone folders are the machine's state, and
//!   a crash does not change the machine's state.
//!
//! Neighbours: `sim_disk` looks names up and changes names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ensile_base::random::Random;

use super::content::Survival;

/// The machine's top folder.
pub(super) const TOP: u64 = 1;
/// Default root folder of a disk.
pub(super) const ROOT: u64 = 2;
/// Name of `ROOT` in the top folder.
pub(super) const ROOT_NAME: &str = "disk";
/// Number of links followed in one look-up.
const LINKS_MAX: usize = 8;

/// Owner of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    File(usize),
    Folder(u64),
    Link(PathBuf),
}

/// A change of names, whole or absent after a crash.
#[derive(Clone, Debug)]
pub(super) struct NameChange {
    /// Folder whose sync makes the change stable, and the other folder of a rename.
    folders: (u64, u64),
    edits: Vec<(u64, String, Option<Entry>)>,
}

impl NameChange {
    pub(super) fn set(folder: u64, name: &str, entry: Option<Entry>) -> Self {
        Self { folders: (folder, folder), edits: vec![(folder, name.to_owned(), entry)] }
    }

    pub(super) fn rename(from: (u64, &str), to: (u64, &str), entry: Entry) -> Self {
        let edits = vec![(from.0, from.1.to_owned(), None), (to.0, to.1.to_owned(), Some(entry))];
        Self { folders: (to.0, from.0), edits }
    }

    /// True if a sync of `folder` makes the change stable.
    pub(super) fn is_in(&self, folder: u64) -> bool {
        self.folders.0 == folder || self.folders.1 == folder
    }

    /// True if the change takes a name away from a folder.
    pub(super) fn removes(&self, folder: u64, name: &str) -> bool {
        self.edits.iter().any(|(of, removed, entry)| *of == folder && removed == name && entry.is_none())
    }
}

/// Contents of the folders.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    folders: BTreeMap<u64, BTreeMap<String, Entry>>,
}

impl Default for Tree {
    fn default() -> Self {
        let top = BTreeMap::from([(ROOT_NAME.to_owned(), Entry::Folder(ROOT))]);
        Self { folders: BTreeMap::from([(TOP, top), (ROOT, BTreeMap::new())]) }
    }
}

impl Tree {
    pub(super) fn entries(&self, folder: u64) -> impl Iterator<Item = (&String, &Entry)> {
        self.folders.get(&folder).into_iter().flatten()
    }

    pub(super) fn entry(&self, folder: u64, name: &str) -> Option<&Entry> {
        self.folders.get(&folder)?.get(name)
    }

    pub(super) fn has(&self, folder: u64) -> bool {
        self.folders.contains_key(&folder)
    }

    pub(super) fn apply(&mut self, change: &NameChange) {
        for (folder, name, entry) in &change.edits {
            let entries = self.folders.entry(*folder).or_default();
            match entry {
                Some(entry) => {
                    entries.insert(name.clone(), entry.clone());
                }
                None => {
                    entries.remove(name);
                }
            }
            if let Some(Entry::Folder(made)) = entry {
                self.folders.entry(*made).or_default();
            }
        }
    }

    /// Number of names of a file.
    pub(super) fn links(&self, file: usize) -> usize {
        let all = self.folders.values().flat_map(BTreeMap::values);
        all.filter(|entry| **entry == Entry::File(file)).count()
    }

    /// The files that have names, each file once.
    pub(super) fn files(&self) -> BTreeSet<usize> {
        let all = self.folders.values().flat_map(BTreeMap::values);
        all.filter_map(|entry| if let Entry::File(file) = entry { Some(*file) } else { None }).collect()
    }

    /// The files under `top`. Folders for which `is_other` is true are left out, with everything below.
    pub(super) fn files_under(&self, top: u64, is_other: &dyn Fn(u64) -> bool) -> BTreeSet<usize> {
        let mut files = BTreeSet::new();
        let mut left = vec![top];
        while let Some(folder) = left.pop() {
            for (_, entry) in self.entries(folder) {
                match entry {
                    Entry::File(file) => drop(files.insert(*file)),
                    Entry::Folder(inner) if !is_other(*inner) => left.push(*inner),
                    Entry::Folder(_) | Entry::Link(_) => {}
                }
            }
        }
        files
    }

    /// A folder's place: its parent and its name.
    pub(super) fn place(&self, folder: u64) -> Option<(u64, String)> {
        self.folders.iter().find_map(|(parent, entries)| {
            let (name, _) = entries.iter().find(|(_, entry)| **entry == Entry::Folder(folder))?;
            Some((*parent, name.clone()))
        })
    }

    /// Adds a folder without a name.
    pub(super) fn add_folder(&mut self, folder: u64) {
        self.folders.entry(folder).or_default();
    }

    /// Applies the changes that survive a crash. A lost folder loses its contents. Folders of `nameless` stay.
    pub(super) fn crash(
        &mut self,
        changes: &[NameChange],
        nameless: impl Iterator<Item = u64>,
        survival: Survival,
        random: &mut Random,
    ) {
        let mut left: BTreeMap<u64, u64> = BTreeMap::new();
        for change in changes {
            let folder = change.folders.0;
            let of_folder = changes.iter().filter(|other| other.folders.0 == folder).count() as u64;
            let left = left.entry(folder).or_insert_with(|| random.next_below(of_folder + 1));
            let survives = match survival {
                Survival::Nothing => false,
                Survival::Everything => true,
                Survival::Random | Survival::Torn => random.percent(50),
                Survival::Prefix => *left > 0,
            };
            *left = left.saturating_sub(1);
            if survives {
                self.apply(change);
            }
        }
        let mut new: Vec<u64> = nameless.chain([TOP]).collect();
        let mut reached: BTreeSet<u64> = new.iter().copied().collect();
        while let Some(folder) = new.pop() {
            for (_, entry) in self.entries(folder) {
                if let Entry::Folder(inner) = entry
                    && reached.insert(*inner)
                {
                    new.push(*inner);
                }
            }
        }
        self.folders.retain(|folder, _| reached.contains(folder));
    }
}

/// The machine's state that hides folders.
#[derive(Clone, Debug, Default)]
pub(super) struct Mounts {
    /// Visible folders that cover unmounted folders, by the unmounted folder.
    pub(super) covers: BTreeMap<u64, u64>,
    /// Folders that are gone now.
    pub(super) gone: BTreeSet<u64>,
}

impl Mounts {
    fn seen(&self, folder: u64) -> Option<u64> {
        let folder = self.covers.get(&folder).copied().unwrap_or(folder);
        (!self.gone.contains(&folder)).then_some(folder)
    }

    /// The folder at `path`, from `start` or, if the path begins with `/`, from the top; links are followed.
    pub(super) fn find(&self, tree: &Tree, start: u64, path: &str) -> Option<u64> {
        self.find_within(tree, start, path, LINKS_MAX)
    }

    fn find_within(&self, tree: &Tree, start: u64, path: &str, links_left: usize) -> Option<u64> {
        let mut at = if path.starts_with('/') { TOP } else { start };
        for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
            at = match tree.entry(at, part)? {
                Entry::File(_) => return None,
                Entry::Folder(folder) => self.seen(*folder)?,
                Entry::Link(to) => {
                    let to = to.to_str().filter(|_| links_left > 0)?;
                    self.find_within(tree, TOP, to, links_left - 1)?
                }
            };
        }
        tree.has(at).then_some(at)
    }

    /// The path from the top to a folder, links resolved.
    pub(super) fn path(&self, tree: &Tree, folder: u64) -> PathBuf {
        let under =
            self.covers.iter().find(|(_, cover)| **cover == folder).map_or(folder, |(under, _)| *under);
        match tree.place(under) {
            Some((TOP, name)) => Path::new("/").join(name),
            Some((parent, name)) => self.path(tree, parent).join(name),
            None => PathBuf::from("/"),
        }
    }
}
