//! Seal of an archive in the manifest: the generations that had ended in `ARCHIVE` when the manifest was written
//! (`docs/internals/formats/manifest.md`, line `archived`).
//!
//! Invariants: A2. `ARCHIVE` is written first, so a crash between the two writes leaves a newer `ARCHIVE`.
//!
//! Neighbours: the manifest has the line. The keeper of the manifest writes the seal, and `store::archive` compares the
//! seal with `ARCHIVE`.

use std::fmt;

use ensile_base::checksum::crc32c;

use crate::files::archive_list::ArchiveList;
use crate::files::text::values;
use crate::number;

/// Number of ended generations, and a checksum over the archive's database and the lines of the ended generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveSeal {
    pub(crate) ended: u64,
    pub(crate) crc: u32,
}

impl ArchiveSeal {
    /// Reads the line that `Display` writes.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let [ended, crc] = values(line, "archived seal")?;
        Some(Self { ended: number::parse(ended)?, crc: u32::from_str_radix(crc, 16).ok()? })
    }
}

impl fmt::Display for ArchiveSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "archived {} seal {:08x}", self.ended, self.crc)
    }
}

impl ArchiveList {
    /// Number of ended generations. Ended generations come first.
    fn ended_count(&self) -> usize {
        self.generations.iter().filter(|generation| generation.durable.is_some()).count()
    }

    /// Seal of the list in its current state.
    pub(crate) fn seal(&self) -> ArchiveSeal {
        let seal = self.seal_of(self.ended_count());
        debug_assert_eq!(ArchiveSeal::parse(&seal.to_string()), Some(seal), "A2: a seal reads back");
        seal
    }

    /// Seal of the first `ended` generations, which all have their D.
    fn seal_of(&self, ended: usize) -> ArchiveSeal {
        let generations = &self.generations[..ended];
        assert!(generations.iter().all(|generation| generation.durable.is_some()), "A3: each has its D");
        let own = format!("{} {}\n", self.database, self.from);
        let lines = generations.iter().map(|generation| format!("{generation}\n"));
        let text: String = std::iter::once(own).chain(lines).collect();
        ArchiveSeal { ended: ended as u64, crc: crc32c(text.as_bytes()) }
    }

    /// Checks that this list has the ended generations of the list with this seal (A2).
    pub(crate) fn check(&self, remembered: ArchiveSeal) -> Result<(), String> {
        let has = self.ended_count();
        let is_newer = usize::try_from(remembered.ended).is_ok_and(|ended| ended <= has);
        if is_newer && self.seal_of(remembered.ended as usize) == remembered {
            return Ok(());
        }
        let what = if is_newer { "they are others" } else { "the manifest knows of more" };
        Err(format!(
            "it lists {has} generations that have ended, and {what} ({}): the archive was put back to an older state, or \
             another one stands in its place. Nothing is archived, and no log file is removed, until the newest one is \
             back, or the archive is ended and another one begun",
            remembered.ended
        ))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
