//! Which generations a database has had, by number and salt, and where each ended: what tells its history from another
//! one that began as it did (`docs/formats/manifest.md`).
//!
//! ```text
//! lineage 1:1a2b3c4d:55,2:5e6f7a8b:66
//! ```
//! An older copy of a database that goes on closes the generation that was open, perhaps at a smaller D, begins one of
//! the next number, and draws another salt. So a state is of this database's history if the generation in which it was
//! taken is one of this database's, salt and all, and did not end before the state's epoch.
//!
//! Invariants:
//! - N23: a generation that leaves the manifest's list is remembered with its D, behind those that left it before; one
//!   that a repair gives up is not. The oldest ones are forgotten beyond [`LINEAGE_MAX`].
//! - N23: of a backup it is the lineage of the database that was copied, up to the newest state: its last generation is
//!   the one in which that state was taken, and ends with it.
//! - A4: an archive that brings a backup forward lists the generations of the backup's lineage, and later ones.
//!
//! Neighbours: `manifest` has the line; `crate::backup` compares the database's with the backup's, and the backup's
//! with an archive's list.

use std::collections::BTreeMap;
use std::fmt;

use ensile_base::Epoch;

use super::manifest::Generation;
use super::text::parse_epoch;
use crate::block::Salt;
use crate::number;

/// Most generations that are remembered: some 32 KiB of the manifest. Of a backup that is older than all of them, only
/// numbers and epochs are compared.
const LINEAGE_MAX: usize = 1 << 10;

/// The generations of a database, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lineage {
    lives: BTreeMap<u64, LineageEntry>,
}

/// What tells a generation from another one of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LineageEntry {
    salt: Salt,
    /// Its D; in a backup's last one, the epoch of the newest state. `None` while it is open.
    durable: Option<Epoch>,
}

/// Why a lineage is not behind another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotBehind {
    /// It never had this generation, or another one of that number.
    Another {
        /// The number.
        generation: u64,
    },
    /// It had this generation, which ended before the other one's.
    Ended {
        /// The number.
        generation: u64,
        /// Its D.
        durable: Epoch,
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
            Self::Ended { generation, durable } => write!(
                f,
                "generation {generation}, which ended in the database at epoch {durable}: was the database put back to \
                 an older copy, or repaired?"
            ),
        }
    }
}

impl fmt::Display for LineageEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.salt)?;
        self.durable.map_or(Ok(()), |durable| write!(f, ":{durable}"))
    }
}

impl LineageEntry {
    fn parse(text: &str) -> Option<Self> {
        let (salt, durable) = match text.split_once(':') {
            Some((salt, durable)) => (salt, Some(parse_epoch(durable)?)),
            None => (text, None),
        };
        Some(Self { salt: Salt::parse(salt)?, durable })
    }
}

impl Lineage {
    pub(super) fn is_line(line: &str) -> bool {
        line.starts_with("lineage ")
    }

    /// Reads what `Display` writes.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut lives = BTreeMap::new();
        for word in line.strip_prefix("lineage ")?.split(',') {
            let (generation, entry) = word.split_once(':')?;
            let generation = number::parse(generation)?;
            let is_behind = lives.last_key_value().is_none_or(|(last, _)| *last < generation);
            if generation == 0 || !is_behind || lives.len() == LINEAGE_MAX {
                return None;
            }
            lives.insert(generation, LineageEntry::parse(entry)?);
        }
        Some(Self { lives })
    }

    /// Is nothing remembered?
    pub(crate) fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    /// Remembers these generations too, each as it is now.
    pub(crate) fn add<'g>(&mut self, generations: impl Iterator<Item = &'g Generation>) {
        self.lives.extend(generations.map(|generation| {
            let Generation { number, salt, durable, .. } = *generation;
            (number, LineageEntry { salt, durable })
        }));
        while self.lives.len() > LINEAGE_MAX {
            self.lives.pop_first();
        }
    }

    /// The lineage of a state at the end of this epoch, which was taken in this generation (N23).
    #[must_use]
    pub(crate) fn until(mut self, generation: u64, epoch: Epoch) -> Self {
        self.lives.retain(|number, _| *number <= generation);
        if let Some(mut last) = self.lives.last_entry() {
            let durable = &mut last.get_mut().durable;
            *durable = Some(durable.map_or(epoch, |durable| durable.min(epoch)));
        }
        self
    }

    /// The newest number; 0 if nothing is remembered.
    pub(super) fn newest(&self) -> u64 {
        self.lives.last_key_value().map_or(0, |(newest, _)| *newest)
    }

    /// Is what it remembers of this number, if anything, this generation?
    pub(super) fn agrees(&self, listed: &Generation) -> bool {
        self.lives.get(&listed.number).is_none_or(|known| known.salt == listed.salt)
    }

    /// Is this the lineage of a database that has gone on from where `before` was written? One that says nothing was
    /// written by a version before this one. What is older than all that is remembered here cannot be compared, and
    /// passes: numbers and epochs must do then.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn is_behind(&self, before: &Self) -> Result<(), NotBehind> {
        let Some((&generation, of)) = before.lives.last_key_value() else { return Ok(()) };
        if self.lives.first_key_value().is_some_and(|(&oldest, _)| oldest > generation) {
            return Ok(());
        }
        match self.lives.get(&generation) {
            Some(own) if own.salt == of.salt => match (own.durable, of.durable) {
                (Some(durable), Some(epoch)) if durable < epoch => {
                    Err(NotBehind::Ended { generation, durable })
                }
                _ => Ok(()),
            },
            _ => Err(NotBehind::Another { generation }),
        }
    }

    /// Is this list of an archive, oldest first, of the history of a backup with this lineage, whichever of the two
    /// goes further (A4)? The list may lack generations: those without an entry, and those that were merged before it
    /// was begun. A lineage that says nothing passes, and so does what is older than all that it remembers.
    ///
    /// # Errors
    /// The number of the first generation that shows another history.
    pub(crate) fn goes_on_in(&self, listed: &[Generation]) -> Result<(), u64> {
        let (Some((&oldest, _)), Some((&newest, last))) =
            (self.lives.first_key_value(), self.lives.last_key_value())
        else {
            return Ok(());
        };
        let is_of_it = |generation: &&Generation| {
            let Generation { number, first, salt, durable, .. } = **generation;
            match self.lives.get(&number) {
                // Of the last one the lineage says where the newest state was taken.
                Some(own) if number == newest => {
                    own.salt == salt && durable.is_none_or(|durable| Some(durable) >= own.durable)
                }
                Some(own) => {
                    let is_known = own.durable.is_some() && durable.is_some();
                    own.salt == salt && (!is_known || own.durable == durable)
                }
                None if number > newest => Some(first) > last.durable,
                None => number < oldest,
            }
        };
        listed.iter().find(|generation| !is_of_it(generation)).map_or(Ok(()), |other| Err(other.number))
    }
}

/// Its line, without the line's end.
impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lineage ")?;
        let separators = std::iter::once("").chain(std::iter::repeat(","));
        let mut words = self.lives.iter().zip(separators);
        words.try_for_each(|((generation, entry), separator)| write!(f, "{separator}{generation}:{entry}"))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
