//! Results of an examination, as data.
//!
//! Neighbours: `validator` and `folder_repair` fill in the results; the `ensile` command prints the results.

use std::path::PathBuf;

use ensile_base::Epoch;
use ensile_disk::DiskError;

use super::super::validation::Findings;
use crate::checkpoint::picture_epoch;
use crate::entry_type::EntryType;
use crate::files::manifest::Manifest;
use crate::files::manifest::backup_states::KeptState;
use crate::files::manifest::installed_checkpoint::FuzzyCheckpoint;
use crate::files::manifest::origin::MadeFrom;
use crate::files::manifest::shipping_target::RememberedStore;
use crate::files::names::PageFileName;
use crate::files::picture::blocks_read::{AgeFigures, SectionFigures};
use crate::files::picture::reader::PictureReader;
use crate::range::{KeyRange, RangeStart};
use crate::unproven_tail::NotProven;
use crate::{DurabilityError, EntryKind, Result, TornTail};

/// Damaged durable data, or data that claims to be durable and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Path of the file, relative to the database's folder.
    pub file: String,
    /// Offset of the damage in the file, in bytes.
    pub offset: u64,
    /// Description of the damage.
    pub detail: String,
    /// True if the bytes are intact, but this program cannot use the data.
    pub is_refused: bool,
}

/// End of the detail, if only an older state of a backup needs the data.
pub(super) const NOT_OF_NEWEST: &str = "; the newest does not need it)";

impl Damage {
    pub(super) fn is_of_older(&self) -> bool {
        self.detail.ends_with(NOT_OF_NEWEST)
    }

    /// Converts an error that means damage. Returns any other error.
    pub(in crate::recovery) fn from_error(error: DurabilityError) -> Result<Self> {
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

    /// The value of the outcome; `None` for an error that means damage. Returns any other error.
    pub(super) fn unless<T>(outcome: Result<T>) -> Result<Option<T>> {
        outcome.map(Some).or_else(|error| Self::from_error(error).map(|_| None))
    }
}

/// An unreadable file or folder, which may be intact or damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Path of the file or folder in the system.
    pub path: PathBuf,
    /// Error text of the system.
    pub detail: String,
}

/// Role of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// The manifest, which names the counting files.
    Manifest,
    /// The hint, a witness of the durable epoch beside the logs.
    Hint,
    /// Measured cost of recoveries. Nothing depends on the file.
    Rates,
    /// Reserved space for the time when the disk is full.
    Reserve,
    /// Lock of the process that has the database open, or of readers.
    Lock,
    /// Mark that names the owner of a folder of a log or checkpointer.
    Folder,
    /// File of a counting log.
    Log {
        /// Number of the generation.
        generation: u64,
        /// Number of the logger.
        logger: u32,
    },
    /// Mapped buffer of a process-safe life. An open in the same boot takes the entries that the log lacks.
    Buffer,
    /// File of the installed checkpoint.
    Checkpoint {
        /// Number of the checkpoint, or of the turn that wrote the range.
        number: u64,
    },
    /// File that counts for nothing, with the reason. The next open removes the file.
    Discarded(&'static str),
    /// File that is not Ensile's.
    Foreign,
}

/// Facts about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Path relative to the database's folder.
    pub name: String,
    /// Role of the file.
    pub role: Role,
    /// Length in bytes, including space set aside.
    pub bytes: u64,
    /// Length of the whole part in bytes, for files of logs.
    pub whole_bytes: Option<u64>,
    /// Number of entries in the whole part, for files of logs.
    pub entries: u64,
    /// Smallest and largest epoch of the entries.
    pub epochs: Option<(Epoch, Epoch)>,
}

/// One life of the database, from an open to the next recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationFacts {
    /// Number of the generation.
    pub number: u64,
    /// Lower bound of the epochs of the generation's entries.
    pub first: Epoch,
    /// Number of logs. A generation with 0 logs has its data in a picture.
    pub logs: u32,
    /// True if a later open has closed the generation.
    pub is_closed: bool,
    /// Last epoch that counts. `None` if damage hides the epoch.
    pub durable: Option<Epoch>,
    /// Number of counting entries that are not in the checkpoint.
    pub entries: u64,
    /// Number of entries that do not count, because their epochs never became durable.
    pub ignored_entries: u64,
    /// Number of entries that the checkpoint covers.
    pub covered_entries: u64,
}

/// Pages of a picture's section. A section is a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionFacts {
    /// Number of the section.
    pub section: u32,
    /// Number of pages, including empty pages.
    pub pages: u64,
    /// Number of entries in the pages.
    pub entries: u64,
    /// Bytes of the pages in page files.
    pub bytes: u64,
    /// Bytes of the entries in the pages, with their framing.
    pub used_bytes: u64,
}

/// Pages of the installed picture that one checkpoint wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeFacts {
    /// Number of the checkpoint.
    pub checkpoint: u64,
    /// Number of the checkpoint's pages that the installed picture still uses.
    pub pages: u64,
    /// Bytes of the pages in page files.
    pub bytes: u64,
}

/// A page file of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFileFacts {
    /// Path relative to the database's folder.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Bytes that the picture uses. The others are free, or hold the opening block or a backup's older pictures.
    pub used_bytes: u64,
}

/// Contents of a picture's page files. If something is damaged, the readable part of the contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PictureFacts {
    /// Sections, by number.
    pub sections: Vec<SectionFacts>,
    /// Checkpoints that wrote pages of the picture, oldest first.
    pub ages: Vec<AgeFacts>,
    /// Number of parts of the directory.
    pub parts: u64,
    /// Number of blocks of displaced versions with extents of their own.
    pub displaced_blocks: u64,
    /// Number of tails with displaced versions. A tail is the unused rest of a page's last unit.
    pub displaced_tails: u64,
    /// Bytes of the tails: whole blocks, with headers.
    pub displaced_tail_bytes: u64,
    /// Number of displaced versions in blocks and tails.
    pub displaced: u64,
    /// Page files, by folder.
    pub files: Vec<PageFileFacts>,
}

impl PictureFacts {
    /// Facts about the picture, as far as the reader has read it.
    pub(super) fn from_reader(reader: &PictureReader) -> Self {
        let reached = reader.blocks_read();
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

/// Origin of a folder that is a backup, or was made from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupFacts {
    /// The folder is a backup, and was never opened.
    Backup {
        /// Identity of the backed-up database, 32 hex digits.
        of: String,
        /// Epoch of the newest state. `None` while nothing counts in the backup.
        epoch: Option<Epoch>,
        /// Epochs of the pictures without a log, newest first.
        pictures: Vec<Epoch>,
        /// Epochs of the pictures with a log, newest first.
        logged_pictures: Vec<Epoch>,
        /// Epochs of the copies of files, newest first.
        files: Vec<Epoch>,
    },
    /// The folder is a database of its own. The folder began as a backup, or was restored from one.
    Restored {
        /// Identity of the restored backup. For an opened backup, the identity of the backed-up database.
        from: Option<String>,
        /// The database began with the state at the end of this epoch.
        epoch: Epoch,
    },
}

impl BackupFacts {
    /// Origin of this manifest's folder. `None` if the database's own transactions made the first state.
    pub(super) fn from_manifest(manifest: &Manifest) -> Option<Self> {
        let Manifest { made_from, parent, kept, .. } = manifest;
        match made_from.as_ref()? {
            MadeFrom::Backup { of } => {
                let newest = manifest.newest_state();
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

/// Facts about the installed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFacts {
    /// Number of the checkpoint.
    pub number: u64,
    /// e_l: first epoch for which the log is needed. The freeze S of a picture, and the smallest e_l of ranges.
    pub low: Epoch,
    /// e_h: epoch that had to be durable before the install. Of a picture e_c = S - 1, of ranges the largest e_h.
    pub high: Epoch,
    /// Number of files.
    pub files: u64,
    /// Number of entries.
    pub entries: u64,
    /// Bytes of the files. For a picture, the bytes of the picture in the files.
    pub bytes: u64,
    /// Ranges in the order of their keys, if the checkpoint goes round by ranges (SiloR §8).
    pub ranges: Vec<RangeFacts>,
    /// Contents of the page files, if the checkpoint is a picture with a readable root.
    pub picture: Option<PictureFacts>,
}

/// A range of a cycling checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeFacts {
    /// Start of the range. The range ends at the start of the next range.
    pub start: RangeStart,
    /// Number of the turn that wrote the range.
    pub number: u64,
    /// Generation that was open during the turn.
    pub generation: u64,
    /// e_l of the range.
    pub low: Epoch,
    /// e_h of the range.
    pub high: Epoch,
    /// Number of files.
    pub files: u64,
    /// Number of entries.
    pub entries: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

impl RangeFacts {
    /// Facts about a walk over the range `keys`; `None` for a walk over every key.
    pub(super) fn from_manifest(walked: &FuzzyCheckpoint, keys: Option<KeyRange>) -> Option<Self> {
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
    /// The epoch e_c at whose end the picture shows the state. `None` for a fuzzy checkpoint.
    #[must_use]
    pub fn picture_epoch(&self) -> Option<Epoch> {
        picture_epoch(self.low, self.high)
    }
}

/// Remedy for damage, other than to put copies of the damaged files in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Cut everything after the last whole epoch, with this loss.
    Cut(Loss),
    /// Give up the whole log. No cut of the log helps. The picture is whole, and has the state at the end of an epoch.
    PictureAlone {
        /// Reason why no cut helps.
        why: String,
        /// Loss of the remedy.
        loss: Loss,
    },
    /// Write these marks of folders anew. Nothing else is damaged, and nothing is lost.
    Marks(Vec<String>),
    /// No remedy, with the reason. Only copies of the damaged files help.
    Copy(String),
}

/// Data that a cut gives up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Last epoch that is kept. After the cut, the database is in the state at the end of this epoch.
    pub durable: Epoch,
    /// First and last epoch of the loss. Results in the lost epochs may have been acknowledged.
    pub epochs: Option<(Epoch, Epoch)>,
    /// Number of entries of the lost epochs that can still be read from logs. More entries may be lost.
    pub entries: u64,
    /// Damaged files with data of unknown epochs. Empty if the cut gives up only bytes outside the files.
    pub unreadable: Vec<String>,
    /// Cut files, with the offset of the cut in bytes; 0 cuts the whole file.
    pub files: Vec<(String, u64)>,
}

/// Result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Loss of the repair.
    pub loss: Loss,
    /// Folder in the database's folder with copies of the cut data and of the old manifest. `None` if nothing was cut.
    pub copies: Option<String>,
    /// Marks of folders that the repair wrote anew.
    pub marks: Vec<String>,
}

/// Result of an examination of a database's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// Last epoch that counts. `None` if data is damaged or unreadable, or if nothing was ever written.
    pub durable_epoch: Option<Epoch>,
    /// Kind of the entries. `None` if the manifest is unreadable, or the database is still under creation.
    pub entries: Option<EntryKind>,
    /// Name of the application that owns the folder, if the folder has a name (I5).
    pub application: Option<String>,
    /// Types of the entries, as far as programs have stated the types (I6).
    pub types: Vec<EntryType>,
    /// Shared store that the folder remembers.
    pub shared_store: Option<RememberedStore>,
    /// Counting generations, oldest first.
    pub generations: Vec<GenerationFacts>,
    /// Origin of a folder that is or began as a backup. `None` for any other database.
    pub backup: Option<BackupFacts>,
    /// The installed checkpoint.
    pub checkpoint: Option<CheckpointFacts>,
    /// Files in the folder and in the linked folders.
    pub files: Vec<FileFacts>,
    /// Incomplete ends of logs. The next open cuts the ends, because no result rests on them.
    pub torn_tails: Vec<TornTail>,
    /// Epochs above the last counting epoch that only some logs have marked. If a log lost entries of these epochs, the
    /// entries are gone. If a crash took the entries, no entry was acknowledged.
    pub unfinished_epochs: Option<(Epoch, Epoch)>,
    /// Entries of a process-safe life of this boot above the last counting epoch: their number, and the epoch up to
    /// which every entry will count. The next open takes them; a repair gives them up.
    pub to_take: Option<(u64, Epoch)>,
    /// Entries of a process-safe life without proof: see
    /// [`RecoveryReport::not_proven`](crate::RecoveryReport::not_proven).
    pub not_proven: Option<NotProven>,
    /// Damage of needed data.
    pub damage: Vec<Damage>,
    /// Unreadable files and folders, which may be intact or damaged.
    pub unread: Vec<Unread>,
    /// Damage of data that is not needed any more.
    pub unneeded: Vec<Damage>,
    /// Reasons for which an open refuses an intact folder, with their remedies: the folder was copied, restored or
    /// moved (I1), or is fenced (H6), or an open that uses a folder without a mark would refuse it.
    pub refused: Vec<String>,
    /// Remedy for the damage or the unreadable data.
    pub remedy: Option<Remedy>,
}

impl Examination {
    /// True if everything was read, and nothing is damaged.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty() && self.unread.is_empty()
    }

    /// True if damage at the place of this error is noted. The description of the noted damage may differ.
    pub(super) fn has_damage_of(&self, error: &DurabilityError) -> bool {
        let DurabilityError::Damaged { file, offset, .. } = error else { return false };
        self.damage.iter().any(|known| (&known.file, known.offset) == (file, *offset))
    }
}

/// Notes damage and unreadable files. Any other error ends the examination.
impl Findings for Examination {
    fn record_finding(&mut self, finding: DurabilityError) -> Result<()> {
        if let DurabilityError::Disk(error) = &finding
            && let DiskError::Io { path, .. } = &**error
        {
            let unread = Unread { path: path.clone(), detail: error.to_string() };
            if !self.unread.contains(&unread) {
                self.unread.push(unread);
            }
            return Ok(());
        }
        let damage = Damage::from_error(finding)?;
        if !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
        Ok(())
    }
}
