//! The manifest: which checkpoint is installed (K1), which generations of the log count, and up to which epoch (L4).
//!
//! A text file and a checksum (`docs/formats/manifest.md`), the checkpoint first if there is one, then one generation a
//! line, oldest first:
//! ```text
//! ensile manifest 2
//! checkpoint 7 generation 3 low 62 high 64 checkpointers 2 files 4 entries 9000 bytes 1234568 seal 0a1b2c3d
//! generation 3 first 61 logs 2 salt 1a2b3c4d durable 66
//! generation 4 first 70 logs 2 salt 1a2b3c4d
//! crc32c 78861cf7
//! ```
//! Invariants:
//! - L4: the last generation is the open one; each earlier one has its durable epoch, and the first epoch of the next
//!   is above it. Generations and epochs only grow. A generation that left no entry may be missing.
//! - K1: no generation before the checkpoint's own is listed, and a closed one's D is not below the checkpoint's e_h.
//! - It is replaced as a whole: written beside, synced, renamed, the folder synced. One [`ManifestKeeper`] does it, which
//!   recovery hands to the log.
//!
//! Neighbours: read by `recovery`, replaced by it and by the install of a checkpoint.

use std::cmp::Ordering;
use std::sync::Arc as StdArc;

use ensile_base::Epoch;
use ensile_base::checksum::crc32c;
use ensile_disk::{Disk, DiskError};

use crate::DurabilityError;
use crate::log::block::Salt;
use crate::names::{MANIFEST, MANIFEST_NEW, PartName};

const TITLE: &str = "ensile manifest 2";
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
    /// Its logs': a file with another one is of another database.
    pub(crate) salt: Salt,
    /// Its D, once a recovery has decided it.
    pub(crate) durable: Option<Epoch>,
}

/// An installed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) number: u64,
    /// The generation that was open when it was written.
    pub(crate) generation: u64,
    /// e_l and e_h.
    pub(crate) low: Epoch,
    pub(crate) high: Epoch,
    /// How many checkpointers wrote it, into how many files each.
    pub(crate) checkpointers: u32,
    pub(crate) files: u32,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// Vouches for all its files: `checkpoint::read::seal`.
    pub(crate) seal: u32,
}

impl Installed {
    /// Its files, in the order that the seal is over.
    pub(crate) fn parts(&self) -> impl Iterator<Item = PartName> + use<> {
        let Self { number: checkpoint, checkpointers, files, .. } = *self;
        (0..checkpointers).flat_map(move |checkpointer| {
            (0..files).map(move |file| PartName { checkpoint, checkpointer, file })
        })
    }

    /// May it stand beside this generation (K1, L4)?
    fn fits(&self, generation: &Generation) -> bool {
        match generation.number.cmp(&self.generation) {
            Ordering::Less => false,
            Ordering::Equal => {
                generation.first <= self.low && generation.durable.is_none_or(|durable| durable >= self.high)
            }
            Ordering::Greater => generation.first > self.high,
        }
    }
}

/// The installed checkpoint, and all generations that count, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) checkpoint: Option<Installed>,
    pub(crate) generations: Vec<Generation>,
}

/// Why the manifest was not replaced.
#[derive(Debug)]
pub(crate) enum NotReplaced {
    /// The old one stands.
    OldStands(DiskError),
    /// One of the two stands, and nobody knows which until the next open.
    Unknown(DiskError),
}

impl From<NotReplaced> for DurabilityError {
    fn from(error: NotReplaced) -> Self {
        let (NotReplaced::OldStands(error) | NotReplaced::Unknown(error)) = error;
        error.into()
    }
}

impl Manifest {
    /// Reads the manifest; `None` if there is none.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>, DurabilityError> {
        let file = match disk.open_to_read(MANIFEST) {
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
        let mut lines = lines.peekable();
        let checkpoint = match lines.peek().filter(|line| line.starts_with("checkpoint ")) {
            Some(line) => Some(parse_checkpoint(line).ok_or("its checkpoint cannot be read")?),
            None => None,
        };
        let lines = lines.skip(usize::from(checkpoint.is_some()));
        let generations =
            lines.map(parse_generation).collect::<Option<Vec<_>>>().ok_or("a line cannot be read")?;
        let manifest = Self { checkpoint, generations };
        if manifest.is_whole() { Ok(manifest) } else { Err("its lines contradict each other") }
    }

    /// L4's order over the generations, and K1's between them and the checkpoint.
    fn is_whole(&self) -> bool {
        let pairs = self.generations.windows(2).all(|pair| {
            pair[0].durable.is_some_and(|durable| durable < pair[1].first) && pair[0].number < pair[1].number
        });
        let own = self.generations.iter().all(|generation| {
            generation.logs > 0 && generation.durable.is_none_or(|durable| durable.next() >= generation.first)
        });
        let open = self.generations.last().is_some_and(|last| last.durable.is_none());
        let checkpoint = self.checkpoint.as_ref().is_none_or(|checkpoint| {
            checkpoint.low <= checkpoint.high
                && checkpoint.checkpointers > 0
                && checkpoint.files > 0
                && self.generations.iter().all(|generation| checkpoint.fits(generation))
        });
        pairs && own && open && checkpoint
    }

    /// Replaces the manifest on disk; once this returns it survives a crash.
    fn write(&self, disk: &dyn Disk) -> Result<(), NotReplaced> {
        assert!(self.is_whole(), "L4, K1: {self:?}");
        let text = self.to_string();
        debug_assert_eq!(Self::parse(&text).as_ref(), Ok(self));
        let beside = || -> Result<(), DiskError> {
            let file = disk.create(MANIFEST_NEW)?;
            file.write_at(text.as_bytes(), 0)?;
            file.sync_all()
        };
        beside().map_err(NotReplaced::OldStands)?;
        disk.rename(MANIFEST_NEW, MANIFEST).map_err(NotReplaced::Unknown)?;
        disk.sync_folder("").map_err(NotReplaced::Unknown)
    }
}

/// The manifest's one owner.
#[derive(Debug)]
pub(crate) struct ManifestKeeper {
    disk: StdArc<dyn Disk>,
    manifest: Manifest,
}

impl ManifestKeeper {
    /// Reads the manifest of this folder; an empty one if there is none.
    pub(crate) fn read(disk: &StdArc<dyn Disk>) -> Result<Self, DurabilityError> {
        let manifest = Manifest::read(&**disk)?.unwrap_or_default();
        Ok(Self { disk: StdArc::clone(disk), manifest })
    }

    /// The disk that it stands on.
    pub(crate) fn disk(&self) -> &StdArc<dyn Disk> {
        &self.disk
    }

    /// The manifest as it stands.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Puts `next` in its place.
    pub(crate) fn replace(&mut self, next: Manifest) -> Result<(), NotReplaced> {
        next.write(&*self.disk)?;
        self.manifest = next;
        Ok(())
    }

    /// Installs a checkpoint of the open generation; those before it leave the list.
    pub(crate) fn install(&mut self, checkpoint: Installed) -> Result<(), NotReplaced> {
        let mut next = self.manifest.clone();
        next.generations.retain(|generation| generation.number >= checkpoint.generation);
        next.checkpoint = Some(checkpoint);
        self.replace(next)
    }
}

impl std::fmt::Display for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write;
        let mut body = format!("{TITLE}\n");
        if let Some(checkpoint) = &self.checkpoint {
            let Installed { number, generation, low, high, checkpointers, files, entries, bytes, seal } =
                checkpoint;
            write!(body, "checkpoint {number} generation {generation} low {low} high {high} ")?;
            write!(body, "checkpointers {checkpointers} files {files} entries {entries} bytes {bytes} ")?;
            writeln!(body, "seal {seal:08x}")?;
        }
        for Generation { number, first, logs, salt, durable } in &self.generations {
            write!(body, "generation {number} first {first} logs {logs} salt {salt}")?;
            if let Some(durable) = durable {
                write!(body, " durable {durable}")?;
            }
            body.push('\n');
        }
        writeln!(f, "{body}crc32c {:08x}", crc32c(body.as_bytes()))
    }
}

fn parse_epoch(word: &str) -> Option<Epoch> {
    word.parse().ok().filter(|epoch| *epoch < Epoch::MAX.number()).map(Epoch::new)
}

fn parse_checkpoint(line: &str) -> Option<Installed> {
    let words: Vec<&str> = line.split(' ').collect();
    let (names, values): (Vec<_>, Vec<_>) = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip();
    let expected =
        ["checkpoint", "generation", "low", "high", "checkpointers", "files", "entries", "bytes", "seal"];
    if names != expected || words.len() != 2 * expected.len() {
        return None;
    }
    Some(Installed {
        number: values[0].parse().ok()?,
        generation: values[1].parse().ok()?,
        low: parse_epoch(values[2])?,
        high: parse_epoch(values[3])?,
        checkpointers: values[4].parse().ok()?,
        files: values[5].parse().ok()?,
        entries: values[6].parse().ok()?,
        bytes: values[7].parse().ok()?,
        seal: u32::from_str_radix(values[8], 16).ok()?,
    })
}

fn parse_generation(line: &str) -> Option<Generation> {
    let words: Vec<&str> = line.split(' ').collect();
    let (head, tail) = words.split_at_checked(8)?;
    let ["generation", number, "first", first, "logs", logs, "salt", salt] = head else { return None };
    let durable = match tail {
        [] => None,
        ["durable", durable] => Some(parse_epoch(durable)?),
        _ => return None,
    };
    Some(Generation {
        number: number.parse().ok()?,
        first: parse_epoch(first)?,
        logs: logs.parse().ok()?,
        salt: Salt::parse(salt)?,
        durable,
    })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
