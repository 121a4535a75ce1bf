//! The installed checkpoint, as the manifest names it: what is asked of it whatever its kind.
//!
//! A kind is a variant here and a file below, which knows its line in the manifest and the names of its files. A
//! `let` or `match` over the kinds stands only where one is written, read back, or asked for here.
//!
//! Invariants:
//! - K1: [`InstalledCheckpoint::covered`] and [`InstalledCheckpoint::durable_min`] bound the log that goes with it.
//! - I1: its files say that they are of [`InstalledCheckpoint::database`].
//!
//! Neighbours: `manifest` lists it, `whose` and `leases` ask for its folders and files; the checkpoints install it,
//! recovery loads it.

mod fuzzy;

use std::fmt;

use ensile_base::Epoch;

use crate::identity::Identity;
pub(crate) use fuzzy::FuzzyCheckpoint;

/// An installed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstalledCheckpoint {
    /// Consistent together with the log of the epochs in which it was written (SiloR §4).
    Fuzzy(FuzzyCheckpoint),
}

impl InstalledCheckpoint {
    /// Does this line of the manifest name one?
    pub(super) fn is_line(line: &str) -> bool {
        FuzzyCheckpoint::is_line(line)
    }

    /// Reads the line that `Display` writes.
    pub(super) fn parse(line: &str) -> Option<Self> {
        FuzzyCheckpoint::parse(line).map(Self::Fuzzy)
    }

    /// Does what it says of itself go together?
    pub(crate) fn is_whole(&self) -> bool {
        let Self::Fuzzy(fuzzy) = self;
        fuzzy.is_whole()
    }

    /// A later one has a larger number, whatever its kind.
    pub(crate) fn number(&self) -> u64 {
        let Self::Fuzzy(fuzzy) = self;
        fuzzy.number
    }

    /// The generation that was open when it was written.
    pub(crate) fn generation(&self) -> u64 {
        let Self::Fuzzy(fuzzy) = self;
        fuzzy.generation
    }

    /// What its files say whose they are (I1).
    pub(crate) fn database(&self) -> Identity {
        let Self::Fuzzy(fuzzy) = self;
        fuzzy.database
    }

    /// Entries of smaller epochs are in it, or discarded by it: the log is needed from this epoch on (K1).
    pub(crate) fn covered(&self) -> Epoch {
        let Self::Fuzzy(fuzzy) = self;
        fuzzy.low
    }

    /// The least D beside it: every log had a synced mark of this epoch before it was installed (K1).
    pub(crate) fn durable_min(&self) -> Epoch {
        let Self::Fuzzy(fuzzy) = self;
        fuzzy.high
    }

    /// How many entries it has.
    pub(crate) fn entries(&self) -> u64 {
        let Self::Fuzzy(fuzzy) = self;
        fuzzy.entries
    }

    /// How many bytes are read to load it.
    pub(crate) fn bytes(&self) -> u64 {
        let Self::Fuzzy(fuzzy) = self;
        fuzzy.bytes
    }

    /// The folders that its files are in.
    pub(crate) fn folders(&self) -> Vec<String> {
        let Self::Fuzzy(fuzzy) = self;
        fuzzy.folders().collect()
    }

    /// Its files, by their names below the main folder.
    pub(crate) fn files(&self) -> Vec<String> {
        let Self::Fuzzy(fuzzy) = self;
        fuzzy.parts().map(|part| part.to_string()).collect()
    }
}

/// Its line in the manifest.
impl fmt::Display for InstalledCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Fuzzy(fuzzy) = self;
        fmt::Display::fmt(fuzzy, f)
    }
}
