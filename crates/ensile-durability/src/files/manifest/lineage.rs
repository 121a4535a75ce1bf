//! Generations of a database, by number and salt, with the end of every generation
//! (`docs/internals/formats/manifest.md`, line `lineage`). A copy that is opened begins a generation of the next number
//! with a different salt. A state is in the history of this database if its generation is here with the same salt, and
//! did not end before the epoch of the state.
//!
//! Invariants: A4 and N23. A generation that a repair gives up is forgotten.
//!
//! Neighbours: `manifest` has the line. `crate::backup` and the shipper compare the lineage of the database with the
//! lineage of its copy. `recovery::archive` compares the lineage of a backup with the list of an archive.

use std::collections::BTreeMap;
use std::fmt;

use ensile_base::Epoch;

use super::generation::Generation;
use crate::files::block::Salt;
use crate::files::text::parse_epoch;
use crate::number;

/// Largest number of remembered generations: about 32 KiB of the manifest. For a backup that is older than every
/// remembered generation, only numbers and epochs are compared.
const LINEAGE_MAX: usize = 1 << 10;

/// Generations of a database, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lineage {
    lives: BTreeMap<u64, LineageEntry>,
}

/// Salt and end of a generation. The salt tells generations of the same number apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LineageEntry {
    salt: Salt,
    /// D of the generation, and in the last generation of a backup the epoch of the newest state. `None` while the
    /// generation is open.
    durable: Option<Epoch>,
}

/// Reason why a lineage does not continue an earlier lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotBehind {
    /// The lineage lacks this generation, or has a generation of this number with a different salt.
    Another { generation: u64 },
    /// The lineage has this generation, with an earlier end.
    Ended { generation: u64, durable: Epoch },
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
    /// Reads the line that `Display` writes.
    pub(crate) fn parse(line: &str) -> Option<Self> {
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

    /// True if no generation is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    /// Adds these generations, or replaces known generations of the same number. Forgets the oldest beyond
    /// [`LINEAGE_MAX`].
    pub(crate) fn add<'g>(&mut self, generations: impl Iterator<Item = &'g Generation>) {
        let newest = self.newest();
        self.lives.extend(generations.map(|generation| {
            let Generation { number, salt, durable, .. } = *generation;
            (number, LineageEntry { salt, durable })
        }));
        while self.lives.len() > LINEAGE_MAX {
            self.lives.pop_first();
        }
        debug_assert!(self.newest() >= newest, "N23: the newest generation is remembered");
    }

    /// Cuts the lineage to the lineage of a state at the end of `epoch`, taken in `generation` (N23). Later generations
    /// are dropped.
    #[must_use]
    pub(crate) fn truncate_at(mut self, generation: u64, epoch: Epoch) -> Self {
        self.lives.retain(|number, _| *number <= generation);
        if let Some(mut last) = self.lives.last_entry() {
            let durable = &mut last.get_mut().durable;
            *durable = Some(durable.map_or(epoch, |durable| durable.min(epoch)));
        }
        let last = self.lives.last_key_value();
        debug_assert!(
            last.is_none_or(
                |(newest, last)| *newest <= generation && last.durable.is_some_and(|d| d <= epoch)
            ),
            "N23: the lineage of a state ends with the state"
        );
        self
    }

    /// Number of the newest generation; 0 for an empty lineage.
    pub(crate) fn newest(&self) -> u64 {
        self.lives.last_key_value().map_or(0, |(newest, _)| *newest)
    }

    /// True if the lineage has no generation with the number of `listed`, or has the generation with the same salt.
    pub(crate) fn agrees(&self, listed: &Generation) -> bool {
        self.lives.get(&listed.number).is_none_or(|known| known.salt == listed.salt)
    }

    /// Checks that this is the lineage of the database that wrote `before`, at a later time. An empty `before` passes,
    /// because an earlier version of the program wrote no lineage. A last generation older than every remembered
    /// generation cannot be compared, and passes: numbers and epochs must do.
    pub(crate) fn check_continues(&self, before: &Self) -> Result<(), NotBehind> {
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

    /// Checks that the list of an archive, oldest first, is in the history of a backup with this lineage (A4). The list
    /// may end before the lineage or behind it. The list may lack generations: generations without an entry, and
    /// generations that were merged before the archive was begun. An empty lineage passes, and so does a generation
    /// older than the lineage. The error is the number of the first generation with a different history.
    pub(crate) fn check_archive_history(&self, listed: &[Generation]) -> Result<(), u64> {
        let (Some((&oldest, _)), Some((&newest, last))) =
            (self.lives.first_key_value(), self.lives.last_key_value())
        else {
            return Ok(());
        };
        let is_of_it = |generation: &&Generation| {
            let Generation { number, first, salt, durable, .. } = **generation;
            match self.lives.get(&number) {
                // The end of the last generation is the epoch of the newest state. The archive may go further.
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

/// Line of the lineage, without a line end.
impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_assert!(self.lives.len() <= LINEAGE_MAX, "N23: a line that `parse` refuses");
        f.write_str("lineage ")?;
        let separators = std::iter::once("").chain(std::iter::repeat(","));
        let mut words = self.lives.iter().zip(separators);
        words.try_for_each(|((generation, entry), separator)| write!(f, "{separator}{generation}:{entry}"))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
