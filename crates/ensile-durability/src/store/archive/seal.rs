//! What a manifest remembers of its archive: which generations `ARCHIVE` said had ended, when the manifest was written
//! (`docs/formats/manifest.md`).
//!
//! ```text
//! archived 2 seal 5e6f7a8b
//! ```
//! Invariants:
//! - A2: `ARCHIVE` says no less than the manifest remembers. It is written first, so a crash in between leaves one that
//!   says more; one that says less was put back to an older state.
//! - The line of a generation that has ended never changes, nor does its place, so a checksum over the first lines
//!   stands for all of them.
//!
//! Neighbours: `list` has the lines; the manifest's owners take the seal along; `archive` compares it.

use std::fmt;

use ensile_base::checksum::crc32c;

use super::list::ArchiveList;
use crate::number;
use crate::store::text::values;

/// How many generations had ended, and a checksum over whose archive it is and over their lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveSeal {
    pub(crate) ended: u64,
    pub(crate) crc: u32,
}

impl ArchiveSeal {
    /// Does this line of a manifest have one?
    pub(crate) fn is_line(line: &str) -> bool {
        line.starts_with("archived ")
    }

    /// Reads the line that `Display` writes.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let [ended, crc] = values(line, &["archived", "seal"])?;
        Some(Self { ended: number::parse(ended)?, crc: u32::from_str_radix(crc, 16).ok()? })
    }
}

impl fmt::Display for ArchiveSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "archived {} seal {:08x}", self.ended, self.crc)
    }
}

impl ArchiveList {
    /// How many of its generations have ended: they come first.
    fn ended(&self) -> usize {
        self.generations.iter().filter(|generation| generation.durable.is_some()).count()
    }

    /// What a manifest remembers of it as it is now.
    pub(crate) fn seal(&self) -> ArchiveSeal {
        self.seal_of(self.ended())
    }

    fn seal_of(&self, ended: usize) -> ArchiveSeal {
        let generations = &self.generations[..ended];
        assert!(generations.iter().all(|generation| generation.durable.is_some()), "A3: each has its D");
        let own = format!("{} {}\n", self.database, self.from);
        let lines = generations.iter().map(|generation| format!("{generation}\n"));
        let text: String = std::iter::once(own).chain(lines).collect();
        ArchiveSeal { ended: ended as u64, crc: crc32c(text.as_bytes()) }
    }

    /// Does it say all that one with this seal said (A2)?
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, remembered: ArchiveSeal) -> Result<(), String> {
        let has = self.ended();
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
