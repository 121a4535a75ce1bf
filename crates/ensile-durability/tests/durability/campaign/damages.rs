//! Kinds of damage, each drawn at random.

use super::database::Database;
use crate::prelude::*;

const SECTOR_BYTES: usize = 512;

/// What is done to a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Bit,
    Bytes,
    SectorZeroed,
    SectorsExchanged,
    SectorOfAnotherFile,
    Cut,
    ExtendedWithZeros,
    ExtendedWithGarbage,
    ExtendedWithBlocks,
    BehindAClosedFile,
    Emptied,
    NewestEmptied,
    Removed,
    Renumbered,
    OlderCopy,
    OfAnotherLog,
    OfAnotherDatabase,
    CopiedUnderTheNextNumber,
    TwoNames,
    ManifestBytes,
    ManifestMissing,
    ManifestOlder,
    HintBytes,
    HintOlder,
    CheckpointBytes,
    CheckpointFileMissing,
    CheckpointFileOlder,
    FolderEmptied,
    LinkDangling,
    TwoBits,
    Unreadable,
}

impl Kind {
    pub(super) const ALL: [Self; 31] = [
        Self::Bit,
        Self::Bytes,
        Self::SectorZeroed,
        Self::SectorsExchanged,
        Self::SectorOfAnotherFile,
        Self::Cut,
        Self::ExtendedWithZeros,
        Self::ExtendedWithGarbage,
        Self::ExtendedWithBlocks,
        Self::BehindAClosedFile,
        Self::Emptied,
        Self::NewestEmptied,
        Self::Removed,
        Self::Renumbered,
        Self::OlderCopy,
        Self::OfAnotherLog,
        Self::OfAnotherDatabase,
        Self::CopiedUnderTheNextNumber,
        Self::TwoNames,
        Self::ManifestBytes,
        Self::ManifestMissing,
        Self::ManifestOlder,
        Self::HintBytes,
        Self::HintOlder,
        Self::CheckpointBytes,
        Self::CheckpointFileMissing,
        Self::CheckpointFileOlder,
        Self::FolderEmptied,
        Self::LinkDangling,
        Self::TwoBits,
        Self::Unreadable,
    ];
}

/// A folder while it is being damaged.
pub(super) struct Damaging<'d> {
    pub(super) database: &'d Database,
    pub(super) other: &'d Database,
    pub(super) disk: &'d SimDisk,
    pub(super) random: &'d mut Random,
}

/// A log file's name in parts: folder, generation, number, and what follows.
fn parts(name: &str) -> Option<(&str, u64, u64, &str)> {
    let (folder, file) = name.split_once("/log-")?;
    let (generation, rest) = file.split_once('-')?;
    let digits = rest.find('-').unwrap_or(rest.len());
    Some((folder, generation.parse().ok()?, rest[..digits].parse().ok()?, &rest[digits..]))
}

impl Damaging<'_> {
    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.random.next_below(from.len() as u64) as usize].clone())
    }

    fn files(&self, is_one: impl Fn(&str) -> bool) -> Vec<String> {
        self.disk.files().into_iter().filter(|name| is_one(name)).collect()
    }

    fn logs(&self) -> Vec<String> {
        self.files(|name| name.contains("/log-"))
    }

    /// Log files that are their log's last.
    fn newest(&self) -> Vec<String> {
        let key = |name: &String| {
            parts(name).map(|(folder, generation, number, _)| (folder.to_owned(), generation, number))
        };
        let logs = self.logs();
        let is_last = |name: &&String| {
            let own = key(name).expect("a log's");
            !logs.iter().filter_map(key).any(|other| other.0 == own.0 && (other.1, other.2) > (own.1, own.2))
        };
        logs.iter().filter(is_last).cloned().collect()
    }

    /// Log files that are followed by one of their log and generation.
    fn followed(&self) -> Vec<String> {
        let logs = self.logs();
        let is_followed = |name: &&String| {
            let own = parts(name).expect("a log's");
            logs.iter()
                .filter_map(|name| parts(name))
                .any(|other| (other.0, other.1) == (own.0, own.1) && other.2 > own.2)
        };
        logs.iter().filter(is_followed).cloned().collect()
    }

    /// A file: of the logs mostly.
    fn any(&mut self) -> Option<String> {
        let logs = self.logs();
        let all = self.files(|name| !["LOCK", "LEASES"].contains(&name));
        if self.random.percent(70) { self.pick(&logs) } else { self.pick(&all) }
    }

    /// Changes bytes of a file; `None` if that changes nothing.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Vec<u8>, &mut Random)) -> Option<()> {
        let before = self.disk.bytes(name);
        let mut bytes = before.clone();
        change(&mut bytes, self.random);
        self.disk.put(name, bytes.clone());
        (bytes != before).then_some(())
    }

    fn replace(&mut self, name: &str, bytes: Vec<u8>) -> Option<()> {
        self.change(name, |own, _| *own = bytes)
    }

    /// Does it; what was done, or `None` if there is nothing to do it to.
    pub(super) fn apply(&mut self, kind: Kind) -> Option<String> {
        let name = match kind {
            Kind::ManifestBytes | Kind::ManifestMissing | Kind::ManifestOlder => "MANIFEST".to_owned(),
            Kind::HintBytes | Kind::HintOlder => "HINT".to_owned(),
            Kind::CheckpointBytes | Kind::CheckpointFileMissing | Kind::CheckpointFileOlder => {
                let files = self.files(is_of_checkpoint);
                self.pick(&files)?
            }
            Kind::BehindAClosedFile => {
                let files = self.followed();
                self.pick(&files)?
            }
            Kind::NewestEmptied => {
                let files = self.newest();
                self.pick(&files)?
            }
            Kind::Renumbered | Kind::CopiedUnderTheNextNumber | Kind::TwoNames | Kind::FolderEmptied => {
                let files = self.logs();
                self.pick(&files)?
            }
            Kind::LinkDangling => self.pick(&self.database.links())?,
            _ => self.any()?,
        };
        let what = match kind {
            Kind::Bit
            | Kind::Bytes
            | Kind::SectorZeroed
            | Kind::SectorsExchanged
            | Kind::SectorOfAnotherFile
            | Kind::TwoBits
            | Kind::ManifestBytes
            | Kind::HintBytes
            | Kind::CheckpointBytes => self.inside(kind, &name)?,
            Kind::Cut
            | Kind::ExtendedWithZeros
            | Kind::ExtendedWithGarbage
            | Kind::ExtendedWithBlocks
            | Kind::BehindAClosedFile
            | Kind::Emptied
            | Kind::NewestEmptied => self.length(kind, &name)?,
            _ => self.whole(kind, &name)?,
        };
        Some(format!("{kind:?} of {name}: {what}"))
    }

    /// Bytes inside a file.
    fn inside(&mut self, kind: Kind, name: &str) -> Option<String> {
        let other = self.any()?;
        let others = self.disk.bytes(&other);
        let mut told = String::new();
        self.change(name, |bytes, random| {
            if bytes.is_empty() {
                return;
            }
            let at = random.next_below(bytes.len() as u64) as usize;
            let sector = at / SECTOR_BYTES * SECTOR_BYTES;
            let end = (sector + SECTOR_BYTES).min(bytes.len());
            told = format!("byte {at} of {}", bytes.len());
            match kind {
                Kind::SectorZeroed => bytes[sector..end].fill(0),
                Kind::SectorsExchanged => {
                    let to = random.next_below(bytes.len() as u64) as usize / SECTOR_BYTES * SECTOR_BYTES;
                    let count = (end - sector).min(bytes.len() - to);
                    let (one, two) = (bytes[sector..sector + count].to_vec(), bytes[to..to + count].to_vec());
                    bytes[sector..sector + count].copy_from_slice(&two);
                    bytes[to..to + count].copy_from_slice(&one);
                    told = format!("with the one at {to}");
                }
                Kind::SectorOfAnotherFile => {
                    let from = others.get(sector..).unwrap_or_default();
                    let count = (end - sector).min(from.len());
                    bytes[sector..sector + count].copy_from_slice(&from[..count]);
                    told = format!("the one at {sector} is that of {other}");
                }
                Kind::Bytes => {
                    let end = (at + 1 + random.next_below(64) as usize).min(bytes.len());
                    random.fill(&mut bytes[at..end]);
                }
                _ => bytes[at] ^= 1 << random.next_below(8),
            }
            if kind == Kind::TwoBits {
                let second = random.next_below(bytes.len() as u64) as usize;
                bytes[second] ^= 1 << random.next_below(8);
            }
        })?;
        Some(told)
    }

    /// Where a file ends.
    fn length(&mut self, kind: Kind, name: &str) -> Option<String> {
        let mut told = String::new();
        self.change(name, |bytes, random| {
            let before = bytes.len();
            let by = 1 + random.next_below(700) as usize;
            match kind {
                Kind::Cut if before > 0 => {
                    // Half of them where a block begins.
                    let begins = |at: &usize| bytes[*at..].starts_with(b"EnsB");
                    let blocks: Vec<usize> = (0..before).step_by(8).filter(begins).collect();
                    let at = random.next_below(before as u64) as usize;
                    let boundary = blocks.get(random.next_below(blocks.len().max(1) as u64) as usize);
                    bytes.truncate(boundary.filter(|_| random.percent(50)).copied().unwrap_or(at));
                }
                Kind::ExtendedWithZeros => bytes.resize(before + by, 0),
                Kind::ExtendedWithGarbage => {
                    bytes.resize(before + by, 0);
                    random.fill(&mut bytes[before..]);
                }
                Kind::ExtendedWithBlocks | Kind::BehindAClosedFile => {
                    // What stands in the file, once more behind its end, or garbage at any place there.
                    if random.percent(30) {
                        bytes.resize(before + by, 0);
                        random.fill(&mut bytes[before..]);
                    } else {
                        let from = random.next_below(before as u64 + 1) as usize / 8 * 8;
                        bytes.truncate(before / 8 * 8);
                        let again = bytes.get(from..).unwrap_or_default().to_vec();
                        bytes.extend_from_slice(&again);
                    }
                }
                Kind::Emptied | Kind::NewestEmptied => bytes.clear(),
                _ => {}
            }
            told = format!("{before} bytes are {}", bytes.len());
        })?;
        Some(told)
    }

    /// Whole files and folders.
    fn whole(&mut self, kind: Kind, name: &str) -> Option<String> {
        match kind {
            Kind::Removed | Kind::ManifestMissing | Kind::CheckpointFileMissing => self.disk.lose(name),
            Kind::OlderCopy | Kind::ManifestOlder | Kind::HintOlder => {
                let copy = self.pick(&self.database.earlier)?;
                // A closed file had another name before.
                let before = name.split("-to-").next().unwrap_or(name);
                let stood = copy.files().into_iter().find(|other| other == name || other == before)?;
                self.replace(name, copy.bytes(&stood))?;
            }
            Kind::OfAnotherLog | Kind::CheckpointFileOlder => {
                let is_like = |other: &str| {
                    if kind == Kind::OfAnotherLog { other.contains("/log-") } else { is_of_checkpoint(other) }
                };
                let files = self.files(|other| is_like(other) && other != name);
                let from = self.pick(&files)?;
                self.replace(name, self.disk.bytes(&from))?;
                return Some(format!("is {from}"));
            }
            Kind::OfAnotherDatabase => {
                let files = self.other.disk.files();
                let same = files.contains(&name.to_owned()).then(|| name.to_owned());
                let from = if self.random.percent(60) { same } else { None };
                let from = from.or_else(|| self.pick(&files))?;
                self.replace(name, self.other.disk.bytes(&from))?;
                return Some(format!("is {from} of another database"));
            }
            Kind::Renumbered | Kind::CopiedUnderTheNextNumber | Kind::TwoNames => {
                let (folder, generation, number, rest) = parts(name)?;
                let to = match kind {
                    Kind::TwoNames if rest.is_empty() => {
                        format!("{name}-to-{}", 1 + self.random.next_below(99))
                    }
                    Kind::TwoNames => format!("{folder}/log-{generation}-{number}"),
                    Kind::CopiedUnderTheNextNumber => format!("{folder}/log-{generation}-{}", number + 1),
                    _ if self.random.percent(50) => {
                        format!("{folder}/log-{generation}-{}{rest}", self.random.next_below(number + 4))
                    }
                    _ => format!("{folder}/log-{}-{number}{rest}", self.random.next_below(generation + 3)),
                };
                if to == name {
                    return None;
                }
                self.disk.put(&to, self.disk.bytes(name));
                if kind == Kind::Renumbered {
                    self.disk.lose(name);
                }
                return Some(format!("is {to}"));
            }
            Kind::FolderEmptied => {
                let folder = name.split('/').next().expect("it stands in one").to_owned() + "/";
                self.files(|other| other.starts_with(&folder)).iter().for_each(|file| self.disk.lose(file));
            }
            Kind::LinkDangling => self.disk.unplug(name, false),
            Kind::Unreadable => self.disk.make_unreadable(name),
            _ => unreachable!("{kind:?} is none of whole files"),
        }
        Some("done".to_owned())
    }
}

/// Is it a checkpoint's file, or a page file of pictures?
fn is_of_checkpoint(name: &str) -> bool {
    name.contains("/ckpt-") || name.contains("/pages-")
}
