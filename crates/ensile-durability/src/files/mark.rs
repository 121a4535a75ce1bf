//! Mark of a folder: the database and the role of the folder (I1), in a text `FOLDER` in every folder of a logger or
//! checkpointer (`docs/internals/formats/folder.md`).
//!
//! Invariants: I1. A mark is written as `FOLDER.new`, synced and renamed. A whole and correct `FOLDER.new` is a mark
//! that still needs its rename: an adoption replaces the manifest between the two steps.
//!
//! Neighbours: `ownership` compares marks; `claim`, `adoption` and `mark_renewal` write marks. The manifest lists the
//! folder with its inode.

use std::fmt;

use ensile_disk::{Disk, FolderId};

use super::create_synced;
use super::names::{FOLDER, FOLDER_NEW};
use super::text::{self, checked_body, parse_folder_id, shown_folder_id, values, with_checksum};
use crate::DurabilityError;
use crate::identity::Identity;

/// First words of the first line. The number of the format follows.
const TITLE: &str = "ensile folder ";
const FOLDER_FORMAT: u32 = 1;
/// Limit far above the size of a real mark, in bytes.
const BYTES_MAX: u64 = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) database: Identity,
    /// Name of the folder in the main folder.
    pub(crate) name: String,
    /// Inode and birth time of the main folder.
    pub(crate) main: FolderId,
}

impl Mark {
    /// Reads the mark of `folder`; `None` without a mark.
    pub(crate) fn read(disk: &dyn Disk, folder: &str) -> Result<Option<Self>, DurabilityError> {
        let name = format!("{folder}/{FOLDER}");
        let Some(bytes) = text::read(disk, &name, BYTES_MAX)? else { return Ok(None) };
        let damaged = |detail: &str| {
            let detail = format!(
                "{detail}; `ensile verify DIR --repair` writes it anew where the folder's files prove whose it is"
            );
            DurabilityError::damaged_file(&name, 0, detail)
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged("it is not text"))?;
        let body = checked_body(text).map_err(damaged)?;
        let title = body.lines().next().and_then(|title| title.strip_prefix(TITLE)?.parse().ok());
        if title.is_some_and(|format: u32| format > FOLDER_FORMAT) {
            let detail = "a newer version of Ensile made it";
            return Err(DurabilityError::Unknown { file: name, offset: 0, detail });
        }
        parse(body).map(Some).ok_or_else(|| damaged("a line cannot be read"))
    }

    /// True if this mark is prepared, and only its rename is missing.
    pub(crate) fn is_prepared(&self, disk: &dyn Disk) -> Result<bool, DurabilityError> {
        let bytes = text::read(disk, &format!("{}/{FOLDER_NEW}", self.name), BYTES_MAX)?;
        Ok(bytes.is_some_and(|bytes| bytes == self.to_string().as_bytes()))
    }

    /// Writes and syncs the mark as `FOLDER.new`. [`Mark::place`] follows.
    pub(crate) fn prepare(&self, disk: &dyn Disk) -> Result<(), DurabilityError> {
        let text = self.to_string();
        debug_assert_eq!(checked_body(&text).ok().and_then(parse).as_ref(), Some(self), "I1: it reads back");
        debug_assert!(text.len() as u64 <= BYTES_MAX, "I1: a mark is read whole");
        create_synced(disk, &format!("{}/{FOLDER_NEW}", self.name), text.as_bytes())?;
        Ok(())
    }

    /// Renames the prepared mark to `FOLDER`, and syncs the name.
    pub(crate) fn place(&self, disk: &dyn Disk) -> Result<(), DurabilityError> {
        let Self { name, .. } = self;
        disk.rename(&format!("{name}/{FOLDER_NEW}"), &format!("{name}/{FOLDER}"))?;
        Ok(disk.sync_folder(name)?)
    }
}

fn parse(body: &str) -> Option<Mark> {
    let mut lines = body.lines().skip(1);
    let [database, name] = values(lines.next()?, "database name")?;
    let main = lines.next()?.strip_prefix("main ")?;
    let [inode, born] = values(main, "inode born")?;
    let (database, main) = (Identity::parse(database)?, parse_folder_id(inode, born)?);
    let mark = Mark { database, name: name.to_owned(), main };
    (lines.next().is_none() && mark.to_string().starts_with(body)).then_some(mark)
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, name, main } = self;
        let main = shown_folder_id(main);
        let body = format!("{TITLE}{FOLDER_FORMAT}\ndatabase {database} name {name}\nmain {main}\n");
        f.write_str(&with_checksum(&body))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
