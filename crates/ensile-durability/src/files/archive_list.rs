//! Generations of an archive's files, and the end of every generation, in the file `ARCHIVE`
//! (`docs/internals/formats/archive.md`).
//!
//! Invariants: A3 and L4. Only the last generation may lack its D. `ARCHIVE` is replaced as a whole.
//!
//! Neighbours: `archive` keeps `ARCHIVE` in step with the manifest, and repeats the manifest's lines.
//! `recovery::archive` judges an archive by its `ARCHIVE`.

use std::fmt;

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError};

use crate::DurabilityError;
use crate::files::block::FORMAT;
use crate::files::create_synced;
use crate::files::manifest::generation::{Generation, are_in_order};
use crate::files::names::{ARCHIVE, ARCHIVE_NEW};
use crate::files::text::{self, add_lines, checked_body, parse_epoch, values, with_checksum};
use crate::identity::Identity;

/// First words of the first line. The number of the format follows.
const TITLE: &str = "ensile archive ";
const ARCHIVE_FORMAT: u32 = 1;
/// Limit far above the size of a real file, in bytes.
const BYTES_MAX: u64 = 64 << 20;

/// Path of a file in the archive's folder. The folder may be the disk's root.
pub(crate) fn in_folder(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveList {
    /// Database that owns the archive.
    pub(crate) database: Identity,
    /// Epoch after which the archive's entries begin. When the archive was begun, the installed checkpoint had every
    /// entry up to this epoch.
    pub(crate) from: Epoch,
    /// Generations, oldest first.
    pub(crate) generations: Vec<Generation>,
}

impl ArchiveList {
    /// Reads the list in this folder; `None` if the file is missing.
    pub(crate) fn read(disk: &dyn Disk, folder: &str) -> Result<Option<Self>, DurabilityError> {
        let name = in_folder(folder, ARCHIVE);
        let Some(bytes) = text::read(disk, &name, BYTES_MAX)? else { return Ok(None) };
        let damaged = |detail: &str| DurabilityError::damaged_file(&name, 0, detail);
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged("it is not text"))?;
        let body = checked_body(text).map_err(damaged)?;
        let title = body.lines().next().and_then(|title| title.strip_prefix(TITLE)?.parse().ok());
        let is_newer = title.is_some_and(|format: u32| format > ARCHIVE_FORMAT);
        let list = parse(body).filter(|_| !is_newer);
        if is_newer
            || list.as_ref().is_some_and(|list| list.generations.iter().any(|one| one.format != FORMAT))
        {
            let detail = "another version of Ensile made it";
            return Err(DurabilityError::Unknown { file: name, offset: 0, detail });
        }
        list.map(Some).ok_or_else(|| damaged("a line cannot be read, or its lines contradict each other"))
    }

    /// Replaces the list in this folder. The new list survives a crash after this call returns. After an error, either
    /// the old list or the new list stands.
    pub(crate) fn write(&self, disk: &dyn Disk, folder: &str) -> Result<(), DiskError> {
        assert!(self.is_whole(), "A3, L4: {self:?}");
        let text = self.to_string();
        debug_assert_eq!(checked_body(&text).ok().and_then(parse).as_ref(), Some(self), "A3: it reads back");
        let (name, beside) = (in_folder(folder, ARCHIVE), in_folder(folder, ARCHIVE_NEW));
        create_synced(disk, &beside, text.as_bytes())?;
        disk.rename(&beside, &name)?;
        disk.sync_folder(folder)
    }

    pub(crate) fn lists(&self, generation: u64) -> bool {
        self.generations.iter().any(|listed| listed.number == generation)
    }

    /// True if the generations have the order of L4.
    fn is_whole(&self) -> bool {
        are_in_order(&self.generations) && self.generations.iter().all(|generation| generation.logs > 0)
    }

    /// List with `generations` added. The generations come from a manifest, or from the decisions of a recovery, oldest
    /// first. A generation without an entry is not added. A generation into which an open has merged listed generations
    /// is not added either, because the list has the merged generations. The error says why the generations and the
    /// list are not of the same life.
    pub(crate) fn with_generations(
        &self,
        generations: &[Generation],
        is_empty: impl Fn(u64) -> bool,
    ) -> Result<Self, String> {
        let mut next = self.clone();
        let newest = generations.last().map_or(0, |newest| newest.number);
        if let Some(later) = self.generations.iter().find(|listed| listed.number > newest) {
            return Err(format!(
                "it lists generation {}, which this database has not begun: one of them was put back to an older state",
                later.number
            ));
        }
        for generation in generations {
            if next.lists(generation.number) || !is_empty(generation.number) {
                next.add(generation)?;
            }
        }
        debug_assert!(self.generations.iter().all(|one| next.lists(one.number)), "A3: a generation stays");
        debug_assert_eq!((next.database, next.from), (self.database, self.from), "A3: it is the same");
        if next.is_whole() {
            Ok(next)
        } else {
            Err("its generations and the manifest's contradict each other".into())
        }
    }

    /// Adds a generation, or the D of a listed generation. The error says that the two histories differ.
    fn add(&mut self, generation: &Generation) -> Result<(), String> {
        if let Some(listed) = self.generations.iter_mut().find(|listed| listed.number == generation.number) {
            let durable = generation.durable.or(listed.durable);
            let is_same = Generation { durable: None, ..listed.clone() }
                == Generation { durable: None, ..generation.clone() };
            if !is_same || listed.durable.is_some_and(|ended| generation.durable != Some(ended)) {
                return Err(format!(
                    "its generation {} is not this database's: one of them was put back to an older state",
                    listed.number
                ));
            }
            debug_assert!(listed.durable.is_none() || listed.durable == durable, "L4: an end stays");
            listed.durable = durable;
            return Ok(());
        }
        if self.generations.iter().any(|listed| repeats(generation, listed)) {
            return Ok(());
        }
        self.generations.push(generation.clone());
        Ok(())
    }
}

/// True if `listed` was merged into `generation`.
fn repeats(generation: &Generation, listed: &Generation) -> bool {
    listed.number < generation.number
        && listed.first >= generation.first
        && listed.durable.is_some_and(|durable| generation.durable.is_some_and(|ended| durable <= ended))
}

impl fmt::Display for ArchiveList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, from, generations } = self;
        let mut body = format!("{TITLE}{ARCHIVE_FORMAT}\ndatabase {database} from {from}\n");
        add_lines(&mut body, generations);
        f.write_str(&with_checksum(&body))
    }
}

fn parse(body: &str) -> Option<ArchiveList> {
    let mut lines = body.lines().skip(1);
    let [database, from] = values(lines.next()?, "database from")?;
    let (database, from) = (Identity::parse(database)?, parse_epoch(from)?);
    let generations = lines.map(Generation::parse).collect::<Option<_>>()?;
    let list = ArchiveList { database, from, generations };
    (list.is_whole() && list.to_string().starts_with(body)).then_some(list)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
