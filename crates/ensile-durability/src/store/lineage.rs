//! Which generations a database has had, by number and salt: what tells its history from another one that began as it
//! did (`docs/formats/manifest.md`).
//!
//! ```text
//! lineage 1:1a2b3c4d,2:5e6f7a8b
//! ```
//! An older copy of a database that goes on begins a generation of the same number, and draws another salt. So a state
//! is of this database's history if the generation in which it was taken is one of this database's, salt and all.
//!
//! Invariants:
//! - N23: a generation that leaves the manifest's list is remembered, behind those that left it before. The oldest ones
//!   are forgotten beyond [`LINEAGE_MAX`].
//! - N23: of a backup it is the lineage of the database that was copied, as it was then.
//!
//! Neighbours: `manifest` has the line; `crate::backup` compares the database's with the backup's.

use std::collections::BTreeMap;
use std::fmt;

use super::manifest::Generation;
use crate::block::Salt;
use crate::number;

/// Most generations that are remembered: some 14 KiB of the manifest. A database that is opened more often between two
/// backups is told to begin a new one.
const LINEAGE_MAX: usize = 1 << 10;

/// The generations of a database, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lineage {
    salts: BTreeMap<u64, Salt>,
}

/// Why a lineage is not behind another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotBehind {
    /// It never had this generation, or another one of that number.
    Another {
        /// The number.
        generation: u64,
    },
    /// It may have had this generation, and remembers none before `oldest`.
    Forgotten {
        /// The number.
        generation: u64,
        /// The oldest that it remembers.
        oldest: u64,
    },
}

impl fmt::Display for NotBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Another { generation } => write!(
                f,
                "generation {generation}, which the database did not have: is the database an older copy, or was it put \
                 back to one?"
            ),
            Self::Forgotten { generation, oldest } => write!(
                f,
                "generation {generation}, and the database was opened so often since that it remembers none before \
                 {oldest}: it cannot tell whether that was its own"
            ),
        }
    }
}

impl Lineage {
    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with("lineage ")
    }

    /// Reads what `Display` writes.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut salts = BTreeMap::new();
        for word in line.strip_prefix("lineage ")?.split(',') {
            let (generation, salt) = word.split_once(':')?;
            let generation = number::parse(generation)?;
            let is_behind = salts.last_key_value().is_none_or(|(last, _)| *last < generation);
            if generation == 0 || !is_behind || salts.len() == LINEAGE_MAX {
                return None;
            }
            salts.insert(generation, Salt::parse(salt)?);
        }
        Some(Self { salts })
    }

    /// Is nothing remembered?
    pub(crate) fn is_empty(&self) -> bool {
        self.salts.is_empty()
    }

    /// Remembers these generations too.
    pub(super) fn add<'g>(&mut self, generations: impl Iterator<Item = &'g Generation>) {
        self.salts.extend(generations.map(|generation| (generation.number, generation.salt)));
        while self.salts.len() > LINEAGE_MAX {
            self.salts.pop_first();
        }
    }

    /// Is this the lineage of a database that has gone on from where `before` was written? One that says nothing was
    /// written by a version before this one.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn is_behind(&self, before: &Self) -> Result<(), NotBehind> {
        let Some((&generation, salt)) = before.salts.last_key_value() else { return Ok(()) };
        if self.salts.get(&generation) == Some(salt) {
            return Ok(());
        }
        match self.salts.first_key_value() {
            Some((&oldest, _)) if oldest > generation => Err(NotBehind::Forgotten { generation, oldest }),
            _ => Err(NotBehind::Another { generation }),
        }
    }
}

/// Its line, without the line's end.
impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lineage ")?;
        let separators = std::iter::once("").chain(std::iter::repeat(","));
        let mut words = self.salts.iter().zip(separators);
        words.try_for_each(|((generation, salt), separator)| write!(f, "{separator}{generation}:{salt}"))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
