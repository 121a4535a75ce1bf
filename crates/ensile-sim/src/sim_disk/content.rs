//! Bytes and names as a simulated disk has them: as seen, as stable, the changes between, and what a crash leaves of those.
//!
//! Neighbours: `sim_disk` changes and syncs them.

use std::collections::BTreeMap;

use ensile_base::random::Random;
use std::sync::Arc;

/// Writes are torn at multiples of this.
const SECTOR_BYTES: usize = 512;

/// What becomes of what was not synced when power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Each change by itself is kept, dropped or torn.
    Random,
    /// Nothing of it survives.
    Nothing,
    /// All of it survives.
    Everything,
    /// Of each write any subset of its sectors survives; names as in [`Survival::Random`].
    Torn,
    /// Of each file, and of each folder's names, what came before some moment: a random suffix is lost, of each
    /// independently, and it may begin within a write.
    Prefix,
}

impl Survival {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Random, Self::Nothing, Self::Everything, Self::Torn, Self::Prefix];
}

/// A file's bytes; behind `data` there are zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) data: Vec<u8>,
    pub(super) length: usize,
}

impl Content {
    pub(super) fn read(&self, bytes: &mut [u8], offset: usize) -> usize {
        let read = self.length.saturating_sub(offset).min(bytes.len());
        let data = self.data.get(offset..).unwrap_or_default();
        let (real, zeros) = bytes[..read].split_at_mut(data.len().min(read));
        real.copy_from_slice(&data[..real.len()]);
        zeros.fill(0);
        read
    }

    pub(super) fn all(&self) -> Vec<u8> {
        let mut bytes = self.data.clone();
        bytes.resize(self.length, 0);
        bytes
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[offset..end].copy_from_slice(bytes);
        self.length = self.length.max(end);
    }

    fn set_length(&mut self, length: usize) {
        self.data.truncate(length);
        self.length = length;
    }
}

impl From<Vec<u8>> for Content {
    fn from(data: Vec<u8>) -> Self {
        Self { length: data.len(), data }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { offset: usize, bytes: Arc<Vec<u8>> },
    Length(usize),
}

impl Change {
    pub(super) fn write(offset: usize, bytes: &[u8]) -> Self {
        Self::Write { offset, bytes: Arc::new(bytes.to_vec()) }
    }

    pub(super) fn apply(&self, to: &mut Content) {
        match self {
            Self::Write { offset, bytes } => to.write(*offset, bytes),
            Self::Length(length) => to.set_length(*length),
        }
    }

    /// Applies any subset of its sectors.
    fn apply_torn(&self, to: &mut Content, random: &mut Random) {
        let Self::Write { offset, bytes } = self else { return };
        let mut at = 0;
        while at < bytes.len() {
            let sector_end = (offset + at + 1).next_multiple_of(SECTOR_BYTES) - offset;
            let end = sector_end.min(bytes.len());
            if random.percent(50) {
                to.write(offset + at, &bytes[at..end]);
            }
            at = end;
        }
    }

    /// Applies its first bytes.
    fn apply_cut(&self, to: &mut Content, random: &mut Random) {
        let Self::Write { offset, bytes } = self else { return };
        let landed = random.below(bytes.len() as u64 + 1) as usize;
        to.write(*offset, &bytes[..landed]);
    }
}

/// A file's bytes: as seen, as stable, and the changes between.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) seen: Content,
    pub(super) stable: Content,
    pub(super) unsynced: Vec<Change>,
    /// Bytes that take up space.
    pub(super) allocated: usize,
}

impl Inode {
    pub(super) fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.unsynced.push(change);
    }

    /// Makes the first so many changes stable; the others stay readable, and never will be.
    pub(super) fn sync(&mut self, count: usize) {
        self.unsynced.iter().take(count).for_each(|change| change.apply(&mut self.stable));
        self.unsynced.clear();
    }

    pub(super) fn crash(&mut self, survival: Survival, random: &mut Random) {
        let changes = std::mem::take(&mut self.unsynced);
        let stable = &mut self.stable;
        let kept = random.below(changes.len() as u64 + 1) as usize;
        for (at, change) in changes.iter().enumerate() {
            match survival {
                Survival::Nothing => {}
                Survival::Everything => change.apply(stable),
                Survival::Torn if matches!(change, Change::Length(_)) => change.apply(stable),
                Survival::Torn => change.apply_torn(stable, random),
                Survival::Prefix if at < kept => change.apply(stable),
                Survival::Prefix if at == kept => change.apply_cut(stable, random),
                Survival::Prefix => {}
                Survival::Random => match random.below(3) {
                    0 => change.apply(stable),
                    1 => change.apply_torn(stable, random),
                    _ => {}
                },
            }
        }
        self.seen = self.stable.clone();
        self.allocated = self.seen.length;
    }
}

#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Link(String, usize),
    Unlink(String),
    Rename(String, String, usize),
    Folder(String),
}

impl NameChange {
    /// Does syncing `folder` make it stable?
    pub(super) fn is_in(&self, folder: &str) -> bool {
        match self {
            Self::Link(name, _) | Self::Unlink(name) | Self::Folder(name) => folder_of(name) == folder,
            Self::Rename(from, to, _) => folder_of(from) == folder || folder_of(to) == folder,
        }
    }

    fn folder(&self) -> &str {
        match self {
            Self::Link(name, _) | Self::Unlink(name) | Self::Folder(name) | Self::Rename(_, name, _) => {
                folder_of(name)
            }
        }
    }
}

pub(super) fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Names of files and folders.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Full names; a folder is everything up to the last `/`.
    pub(super) files: BTreeMap<String, usize>,
    pub(super) folders: Vec<String>,
}

impl Names {
    pub(super) fn has_folder(&self, name: &str) -> bool {
        name.is_empty() || self.folders.iter().any(|folder| folder == name)
    }

    pub(super) fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Link(name, inode) => {
                self.files.insert(name.clone(), *inode);
            }
            NameChange::Unlink(name) => {
                self.files.remove(name);
            }
            NameChange::Rename(from, to, inode) => {
                self.files.remove(from);
                self.files.insert(to.clone(), *inode);
            }
            NameChange::Folder(name) if self.has_folder(name) => {}
            NameChange::Folder(name) => self.folders.push(name.clone()),
        }
    }

    /// Applies what a crash leaves of the changes; what stood in a folder that is lost is lost with it.
    pub(super) fn crash(&mut self, changes: &[NameChange], survival: Survival, random: &mut Random) {
        let mut left: BTreeMap<&str, u64> = BTreeMap::new();
        for change in changes {
            let of_folder = changes.iter().filter(|other| other.folder() == change.folder()).count() as u64;
            let left = left.entry(change.folder()).or_insert_with(|| random.below(of_folder + 1));
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
        while let Some(at) = self.folders.iter().position(|folder| !self.has_folder(folder_of(folder))) {
            self.folders.remove(at);
        }
        let mut files = std::mem::take(&mut self.files);
        files.retain(|name, _| self.has_folder(folder_of(name)));
        self.files = files;
    }
}
