//! What an examination finds, as data.
//!
//! Neighbours: filled by `judge` and `repair`; printed by the `ensile` command.

use std::path::PathBuf;

use ensile_base::Epoch;
use ensile_disk::DiskError;

use super::super::judgement::Findings;
use crate::checkpoint::picture::reached::{AgeFigures, SectionFigures};
use crate::checkpoint::picture::read::PictureReader;
use crate::checkpoint::picture_epoch;
use crate::not_proven::NotProven;
use crate::range::{KeyRange, RangeStart};
use crate::store::installed::FuzzyCheckpoint;
use crate::store::kept::KeptState;
use crate::store::manifest::Manifest;
use crate::store::names::PageFileName;
use crate::store::{MadeFrom, RememberedStore};
use crate::{DurabilityError, EntryKind, TornTail};

/// Something that was durable, or says that it is, and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, relative to the database's folder.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What is wrong there.
    pub detail: String,
    /// Whether the bytes are as they were written, and this program does not know what they mean.
    pub is_refused: bool,
}

/// How the detail ends of what only an older state of a backup needs.
pub(super) const NOT_OF_NEWEST: &str = "; the newest does not need it)";

impl Damage {
    /// Does only an older state of a backup need it?
    pub(super) fn is_of_older(&self) -> bool {
        self.detail.ends_with(NOT_OF_NEWEST)
    }

    /// Of an error that means damage; any other is given back.
    pub(in crate::recovery) fn of(error: DurabilityError) -> Result<Self, DurabilityError> {
        match error {
            DurabilityError::Damaged { file, offset, detail } => {
                Ok(Self { file, offset, detail, is_refused: false })
            }
            DurabilityError::Replay { file, offset, tid, detail } => Ok(Self {
                file: file.into(),
                offset,
                detail: format!("entry {tid}: {detail}"),
                is_refused: true,
            }),
            DurabilityError::Unknown { file, offset, detail } => {
                Ok(Self { file, offset, detail: detail.to_owned(), is_refused: true })
            }
            DurabilityError::NotOurs { file, found, own } => {
                let detail = format!("it belongs to another database ({found}, and this one is {own})");
                Ok(Self { file: file.into(), offset: 0, detail, is_refused: true })
            }
            other => Err(other),
        }
    }

    /// The outcome, or `None` for damage.
    pub(super) fn unless<T>(outcome: Result<T, DurabilityError>) -> Result<Option<T>, DurabilityError> {
        outcome.map(Some).or_else(|error| Self::of(error).map(|_| None))
    }
}

/// Something that cannot be read: whether it is damaged is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The file or folder, as the system names it.
    pub path: PathBuf,
    /// What the system said.
    pub detail: String,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Says which of the others count.
    Manifest,
    /// A witness of the durable epoch, beside those in the logs.
    Hint,
    /// What recoveries have cost: nothing depends on it.
    Rates,
    /// Space for the moment when the disk is full.
    Reserve,
    /// Held by the process that has the database open, or by readers of its files.
    Lock,
    /// Says whose a folder of a log or checkpointer is.
    Folder,
    /// Of a log that counts.
    Log {
        /// The generation.
        generation: u64,
        /// The logger.
        logger: u32,
    },
    /// A mapped buffer of a process-safe life: what it has and the log lacks, an open takes if its boot is this one.
    Buffer,
    /// Of the installed checkpoint.
    Checkpoint {
        /// Its number; of a range that of its turn.
        number: u64,
    },
    /// Counts nothing, and is removed by the next open: why.
    Discarded(&'static str),
    /// Not one of ours.
    Foreign,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its name, relative to the database's folder.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// Its length, with space that was set aside.
    pub bytes: u64,
    /// Up to where it is whole; for files of logs.
    pub whole_bytes: Option<u64>,
    /// Entries in its whole part; for files of logs.
    pub entries: u64,
    /// Their epochs.
    pub epochs: Option<(Epoch, Epoch)>,
}

/// One life of the database, from an open to the recovery after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationFacts {
    /// Its number.
    pub number: u64,
    /// No entry of it has a smaller epoch.
    pub first: Epoch,
    /// Its logs; 0 if it has none, and what counts of it is its picture.
    pub logs: u32,
    /// Whether a later open has closed it.
    pub is_closed: bool,
    /// Its last epoch that counts; `None` where damage leaves that open.
    pub durable: Option<Epoch>,
    /// Entries that count and are not in the checkpoint.
    pub entries: u64,
    /// Entries that do not count, as their epochs never became durable.
    pub ignored_entries: u64,
    /// Entries that the checkpoint covers.
    pub covered_entries: u64,
}

/// The pages of a section of a picture: of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionFacts {
    /// Its number.
    pub section: u32,
    /// Its pages, empty ones among them.
    pub pages: u64,
    /// Entries of its pages.
    pub entries: u64,
    /// Bytes that its pages take in page files.
    pub bytes: u64,
    /// Bytes of the entries in them, with what frames those.
    pub used_bytes: u64,
}

/// The pages of a picture that one checkpoint wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeFacts {
    /// Its number.
    pub checkpoint: u64,
    /// Pages of it that the installed picture still has.
    pub pages: u64,
    /// Bytes that these take in page files.
    pub bytes: u64,
}

/// A page file of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFileFacts {
    /// Its name, relative to the database's folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Bytes of it that are of the picture. The others are free, but for what opens the file, and what a backup's older
    /// pictures have there.
    pub used_bytes: u64,
}

/// What a picture has in its page files. Where something is damaged, as much of it as was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PictureFacts {
    /// Its sections, by number.
    pub sections: Vec<SectionFacts>,
    /// Which checkpoints wrote its pages, the oldest first.
    pub ages: Vec<AgeFacts>,
    /// Parts of its directory.
    pub parts: u64,
    /// Blocks of what commits have left beside its pages, in extents of their own.
    pub displaced_blocks: u64,
    /// The same in tails: in what pages leave of their last units.
    pub displaced_tails: u64,
    /// Bytes of these: of whole blocks, with their headers.
    pub displaced_tail_bytes: u64,
    /// Versions in blocks and tails.
    pub displaced: u64,
    /// Its files, by folder.
    pub files: Vec<PageFileFacts>,
}

impl PictureFacts {
    pub(super) fn of(reader: &PictureReader) -> Self {
        let reached = reader.reached();
        let section = |(section, figures): (&u32, &SectionFigures)| SectionFacts {
            section: *section,
            pages: figures.pages,
            entries: figures.entries,
            bytes: figures.bytes,
            used_bytes: figures.payload_bytes,
        };
        let age = |(checkpoint, figures): (&u64, &AgeFigures)| AgeFacts {
            checkpoint: *checkpoint,
            pages: figures.pages,
            bytes: figures.bytes,
        };
        let file = |(name, bytes): (PageFileName, u64)| PageFileFacts {
            name: name.to_string(),
            bytes,
            used_bytes: reached.bytes_in(name),
        };
        Self {
            sections: reached.sections.iter().map(section).collect(),
            ages: reached.ages.iter().map(age).collect(),
            parts: reader.root().parts.len() as u64,
            displaced_blocks: reached.removes,
            displaced_tails: reached.tails,
            displaced_tail_bytes: reached.tail_bytes,
            displaced: reached.displaced,
            files: reader.files().map(file).collect(),
        }
    }
}

/// Whose copy the folder is, or began as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupFacts {
    /// It is a backup, and was never opened.
    Backup {
        /// The identity of the database that was backed up, 32 hex digits.
        of: String,
        /// It is the state at the end of this epoch; `None` while nothing counts in it.
        epoch: Option<Epoch>,
        /// The epochs of its pictures without a log, the newest first.
        pictures: Vec<Epoch>,
        /// The epochs of its states that are a picture and the log behind it, the newest first.
        logged_pictures: Vec<Epoch>,
        /// The epochs of its copies of files, the newest first.
        files: Vec<Epoch>,
    },
    /// It began as a backup, or was restored from one, and is a database of its own.
    Restored {
        /// The identity of what it is a copy of: the backup that was restored, or, of a backup that was opened, the
        /// database that was backed up.
        from: Option<String>,
        /// It began with the state at the end of this epoch.
        epoch: Epoch,
    },
}

impl BackupFacts {
    /// Of this manifest's folder; `None` if its first state is from its own transactions.
    pub(super) fn of(manifest: &Manifest) -> Option<Self> {
        let Manifest { made_from, parent, kept, .. } = manifest;
        match made_from.as_ref()? {
            MadeFrom::Backup { of } => {
                let newest = KeptState::newest(manifest);
                let epoch = newest.as_ref().map(KeptState::epoch);
                let epochs = |has_picture: bool, has_log: bool| {
                    let is_one = |state: &&KeptState| {
                        (state.picture().is_some(), state.files().is_some()) == (has_picture, has_log)
                    };
                    newest.iter().chain(kept).filter(is_one).map(KeptState::epoch).collect()
                };
                let (pictures, logged_pictures, files) =
                    (epochs(true, false), epochs(true, true), epochs(false, true));
                Some(Self::Backup { of: of.to_string(), epoch, pictures, logged_pictures, files })
            }
            MadeFrom::Restored { epoch } => {
                Some(Self::Restored { from: parent.map(|parent| parent.to_string()), epoch: *epoch })
            }
        }
    }
}

/// The installed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFacts {
    /// Its number.
    pub number: u64,
    /// e_l: the log is needed from this epoch on. Of a picture its freeze S, of ranges the least of theirs.
    pub low: Epoch,
    /// e_h: it had to be durable for the checkpoint to count. Of a picture e_c, which is S - 1; of ranges the largest
    /// of theirs.
    pub high: Epoch,
    /// Its files.
    pub files: u64,
    /// Its entries.
    pub entries: u64,
    /// Bytes of its files; of a picture those of them that are its own.
    pub bytes: u64,
    /// Its ranges, in the order of their keys, if it goes round by ranges (SiloR §8).
    pub ranges: Vec<RangeFacts>,
    /// What it has in page files, if it is a picture whose root can be read.
    pub picture: Option<PictureFacts>,
}

/// A range of a cycling checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeFacts {
    /// Where it begins; it ends where the next one begins.
    pub start: RangeStart,
    /// The number of the turn that wrote it.
    pub number: u64,
    /// The generation that was open then.
    pub generation: u64,
    /// Its e_l and e_h.
    pub low: Epoch,
    /// See [`RangeFacts::low`].
    pub high: Epoch,
    /// Its files, entries and bytes.
    pub files: u64,
    /// See [`RangeFacts::files`].
    pub entries: u64,
    /// See [`RangeFacts::files`].
    pub bytes: u64,
}

impl RangeFacts {
    pub(super) fn of((walked, keys): (&FuzzyCheckpoint, Option<KeyRange>)) -> Option<Self> {
        let FuzzyCheckpoint { low, high, files } = walked;
        Some(Self {
            start: keys?.start,
            number: files.number,
            generation: files.generation,
            low: *low,
            high: *high,
            files: u64::from(files.checkpointers) * u64::from(files.files),
            entries: files.entries,
            bytes: files.bytes,
        })
    }
}

impl CheckpointFacts {
    /// The epoch e_c at whose end the checkpoint shows the state, if it is a picture; `None` of a fuzzy one.
    #[must_use]
    pub fn picture_epoch(&self) -> Option<Epoch> {
        picture_epoch(self.low, self.high)
    }
}

/// What can be done about damage, other than to put copies of the damaged files in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Cut everything behind the last epoch that is whole: what would be lost.
    Cut(Loss),
    /// No cut of the log helps, but the installed picture is whole, and is the state at the end of an epoch by itself:
    /// give up all of the log.
    PictureAlone {
        /// Why no cut helps.
        why: String,
        /// What would be lost.
        loss: Loss,
    },
    /// Write these marks of folders anew: nothing else is damaged, and nothing is lost.
    Marks(Vec<String>),
    /// Nothing: why.
    Copy(String),
}

/// What a cut gives up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// The last epoch that is kept: the database is then as it was at its end.
    pub durable: Epoch,
    /// The epochs that are given up. Results in them may have been acknowledged.
    pub epochs: Option<(Epoch, Epoch)>,
    /// Entries of those epochs that can still be read; there may have been more.
    pub entries: u64,
    /// Files that are damaged and held more than can be read: its epochs are unknown. None if the cut gives up
    /// nothing but bytes that do not belong there.
    pub unreadable: Vec<String>,
    /// Files that are cut, each with where; 0 is the whole file.
    pub files: Vec<(String, u64)>,
}

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// What was given up.
    pub loss: Loss,
    /// Folder in the database's own with a copy of what was cut, and of the manifest as it was; `None` if nothing was
    /// cut.
    pub copies: Option<String>,
    /// Marks of folders that were written anew.
    pub marks: Vec<String>,
}

/// What is in a database's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// The last epoch that counts; `None` where something is damaged or cannot be read, or nothing was ever written.
    pub durable_epoch: Option<Epoch>,
    /// What its entries are, also if there is none yet; `None` if its manifest cannot be read, or it is being made.
    pub entries: Option<EntryKind>,
    /// The name of the application whose folder it is, if it has one (I5).
    pub application: Option<String>,
    /// Shared store that the folder remembers.
    pub shared_store: Option<RememberedStore>,
    /// The generations that count, oldest first.
    pub generations: Vec<GenerationFacts>,
    /// Whose backup it is, or began as; `None` of any other database.
    pub backup: Option<BackupFacts>,
    /// The installed checkpoint.
    pub checkpoint: Option<CheckpointFacts>,
    /// All files.
    pub files: Vec<FileFacts>,
    /// Ends of logs that were being written when the database stopped; the next open cuts them, as no result rests on
    /// them.
    pub torn_tails: Vec<TornTail>,
    /// Epochs above the last one that counts which some logs have a mark of and others not. Entries of them, if a log
    /// lost any, are gone; if it was a crash that took them, none was acknowledged.
    pub unfinished_epochs: Option<(Epoch, Epoch)>,
    /// A process-safe life has left entries above the last epoch that counts, in this boot: how many only its buffers
    /// have, and up to which epoch all will count. The next open takes them; a repair gives them up.
    pub to_take: Option<(u64, Epoch)>,
    /// What a process-safe life returned and nothing proves here: see [`RecoveryReport::not_proven`
    /// ](crate::RecoveryReport::not_proven).
    pub not_proven: Option<NotProven>,
    /// What is damaged.
    pub damage: Vec<Damage>,
    /// What cannot be read, so that it is unknown whether it is damaged.
    pub unread: Vec<Unread>,
    /// What is damaged and not needed any more.
    pub unneeded: Vec<Damage>,
    /// Reasons for which an open refuses the folder all the same, with their remedies: it was copied, restored or moved
    /// (I1), or is fenced (H6). A folder without a mark, in which nothing counts, is refused by an open that uses it.
    pub refused: Vec<String>,
    /// What can be done about the damage, or about what cannot be read.
    pub remedy: Option<Remedy>,
}

impl Examination {
    /// Is all of it read, and nothing damaged?
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty() && self.unread.is_empty()
    }
}

/// An examination's: damage and what cannot be read are noted; anything else ends it.
impl Findings for Examination {
    fn found(&mut self, finding: DurabilityError) -> Result<(), DurabilityError> {
        if let DurabilityError::Disk(error) = &finding
            && let DiskError::Io { path, .. } = &**error
        {
            let unread = Unread { path: path.clone(), detail: error.to_string() };
            if !self.unread.contains(&unread) {
                self.unread.push(unread);
            }
            return Ok(());
        }
        let damage = Damage::of(finding)?;
        if !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
        Ok(())
    }
}
