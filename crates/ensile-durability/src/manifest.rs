//! The manifest: which generations of the log count, and up to which epoch (L4).
//!
//! A text file, one generation a line, oldest first, and a checksum (`docs/formats/manifest.md`):
//! ```text
//! ensile manifest 1
//! generation 1 first 1 logs 2 durable 57
//! generation 3 first 61 logs 2
//! crc32c 310e99cd
//! ```
//! Invariants:
//! - L4: the last generation is the open one; each earlier one has its durable epoch, and the first epoch of the next
//!   is above it. Generations and epochs only grow. A generation that left no entry may be missing.
//! - It is replaced as a whole: written beside, synced, renamed, the folder synced.
//!
//! Neighbours: read and written by `recovery` only.

use ensile_base::Epoch;
use ensile_base::checksum::crc32c;
use ensile_disk::{Disk, DiskError};

use crate::DurabilityError;
use crate::names::{MANIFEST, MANIFEST_NEW};

const TITLE: &str = "ensile manifest 1";
/// Far above any real one: a longer file is not a manifest.
const BYTES_MAX: u64 = 16 << 20;

/// One life of the database, from an open to the recovery after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    /// No entry of this generation has a smaller epoch.
    pub(crate) first: Epoch,
    /// How many logs it has.
    pub(crate) logs: u32,
    /// Its D, once a recovery has decided it.
    pub(crate) durable: Option<Epoch>,
}

/// All generations that count, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) generations: Vec<Generation>,
}

impl Manifest {
    /// Reads the manifest; `None` if there is none.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>, DurabilityError> {
        let file = match disk.open(MANIFEST) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let damaged = |detail: &str| DurabilityError::damaged(MANIFEST, 0, detail);
        let length = file.len()?;
        if length > BYTES_MAX {
            return Err(damaged("it is too long to be a manifest"));
        }
        let mut bytes = vec![0; length as usize];
        file.read_at(&mut bytes, 0)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged("it is not text"))?;
        Self::parse(text).map(Some).map_err(damaged)
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let without_end = text.strip_suffix('\n').ok_or("its last line is cut")?;
        let at = without_end.rfind('\n').ok_or("it has no checksum")? + 1;
        let (body, last) = without_end.split_at(at);
        let crc = last.strip_prefix("crc32c ").ok_or("it has no checksum")?;
        if crc != format!("{:08x}", crc32c(body.as_bytes())) {
            return Err("its checksum is wrong");
        }
        let mut lines = body.lines();
        if lines.next() != Some(TITLE) {
            return Err("it is of an unknown version");
        }
        let generations =
            lines.map(parse_generation).collect::<Option<Vec<_>>>().ok_or("a line cannot be read")?;
        let manifest = Self { generations };
        if manifest.is_whole() { Ok(manifest) } else { Err("its generations contradict each other") }
    }

    /// L4's order over the generations.
    fn is_whole(&self) -> bool {
        let pairs = self.generations.windows(2).all(|pair| {
            pair[0].durable.is_some_and(|durable| durable < pair[1].first) && pair[0].number < pair[1].number
        });
        let own = self.generations.iter().all(|generation| {
            generation.logs > 0 && generation.durable.is_none_or(|durable| durable.next() >= generation.first)
        });
        let open = self.generations.last().is_some_and(|last| last.durable.is_none());
        pairs && own && open
    }

    /// Replaces the manifest on disk; once this returns it survives a crash.
    pub(crate) fn write(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        assert!(self.is_whole(), "L4: {self:?}");
        let text = self.to_string();
        debug_assert_eq!(Self::parse(&text).as_ref(), Ok(self));
        let file = disk.create(MANIFEST_NEW)?;
        file.write_at(text.as_bytes(), 0)?;
        file.sync_all()?;
        disk.rename(MANIFEST_NEW, MANIFEST)?;
        disk.sync_folder("")
    }
}

impl std::fmt::Display for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write;
        let mut body = format!("{TITLE}\n");
        for Generation { number, first, logs, durable } in &self.generations {
            write!(body, "generation {number} first {first} logs {logs}")?;
            if let Some(durable) = durable {
                write!(body, " durable {durable}")?;
            }
            body.push('\n');
        }
        writeln!(f, "{body}crc32c {:08x}", crc32c(body.as_bytes()))
    }
}

fn parse_generation(line: &str) -> Option<Generation> {
    let words: Vec<&str> = line.split(' ').collect();
    let (head, tail) = words.split_at_checked(6)?;
    let ["generation", number, "first", first, "logs", logs] = head else { return None };
    let epoch = |word: &str| word.parse().ok().filter(|e| *e < Epoch::MAX.number()).map(Epoch::new);
    let durable = match tail {
        [] => None,
        ["durable", durable] => Some(epoch(durable)?),
        _ => return None,
    };
    Some(Generation { number: number.parse().ok()?, first: epoch(first)?, logs: logs.parse().ok()?, durable })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
