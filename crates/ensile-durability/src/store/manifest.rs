//! The manifest: whose folder this is (I1, I2), which checkpoint is installed (K1), which generations of the log count,
//! and up to which epoch (L4).
//!
//! A text file and a checksum (`docs/formats/manifest.md`), of format 4 if it names a picture, a checkpoint by ranges,
//! an archive, a process-safe life, or a generation without a log, of format 5 if it names an application or a copy
//! that has not ended, and of format 6 if an older state of a backup is a picture with a log:
//! ```text
//! ensile manifest 3
//! database 5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f parent none state created
//! reserved 5000
//! folder . inode 131073 born 1763812345123456789
//! folder log0 inode 131080 born none
//! checkpoint 7 generation 3 low 62 high 64 checkpointers 2 files 4 entries 9000 bytes 1234568 salt 5e6f7a8b seal 0a1b2c3d database 5b1e..
//! generation 3 first 61 format 4 entries values logs 2 salt 1a2b3c4d database 5b1e.. durable 66
//! generation 4 first 70 format 4 entries values logs 2 salt 1a2b3c4d database 5b1e..
//! crc32c 5ba37c1e
//! ```
//! Invariants:
//! - I2: it is the first file that a database ever has. In state *creating* it lists no generation; what it lists is
//!   finished or undone by the next open.
//! - L4: the last generation is the open one; each earlier one has its durable epoch, and the first epoch of the next
//!   is above it. Generations and epochs only grow. A generation that left no entry may be missing.
//! - L6: no epoch at or above `reserved` was ever shown; the first epoch of a later life is not below it.
//! - L7: a format that this program does not know is refused here, before any block is judged.
//! - N18: the open generation may have no log. Then only a picture makes its epochs durable, and it is not listed any
//!   more once it is closed.
//! - K1, K5, N12: no generation before the checkpoint's own, of ranges the oldest of these, is listed, and a closed
//!   one's D is not below the least that the checkpoint allows.
//! - A2: with an archive it remembers what that said of generations that had ended.
//! - I1: it remembers whose files it has listed: they are removed once it does not list them any more.
//! - N23: it remembers the generations that have left the list; of a backup, those of the database that was copied.
//! - B4: of a process-safe life it says so, and in which boot it began.
//! - I5: it keeps the name of its application.
//! - N16, N21: of a backup it may name older states too; `kept` has them.
//! - It is replaced as a whole: written beside, synced, renamed, the folder synced. One [`ManifestKeeper`] does it,
//!   which recovery hands to the log. What `read` would refuse is not written.
//!
//! Neighbours: read by `recovery`, replaced by it and by the install of a checkpoint; `installed` has the line of the
//! checkpoint.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter::Peekable;
use std::path::Path;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::{BootId, Disk, DiskError, FolderId, Operation};

use super::application::ApplicationName;
use super::archive::seal::ArchiveSeal;
use super::installed::{InstalledCheckpoint, PictureCheckpoint, WrittenEpochs};
use super::kept::{FilesState, KeptState, LogSpan};
use super::lineage::Lineage;
use super::made_from::MadeFrom;
use super::names::{ARCHIVE_FOLDER, MAIN, MANIFEST, MANIFEST_NEW, SegmentName};
use super::ships_to::ShipsTo;
use super::text::{self, checked_body, parse_epoch, parse_folder_id, shown_folder_id, values, with_checksum};
use super::unfinished::UnfinishedCopy;
use crate::DurabilityError;
use crate::block::{FORMAT, Salt};
use crate::identity::Identity;
use crate::number::{self, LOGGERS_MAX, parse_count_or_none};
use crate::recoverable::EntryKind;

/// The first words of its first line; the format's number follows.
const TITLE: &str = "ensile manifest ";
/// Begins the line of the databases whose files may be here, though nothing that is listed says so.
const ANCESTORS: &str = "ancestors ";
/// Of a manifest that names no picture and no ranges, and whose generations have logs. Programs that know neither read
/// it.
const FORMAT_BEFORE_PICTURES: u32 = 3;
/// Of a manifest that names a picture, a checkpoint by ranges, an archive, a process-safe life, a generation without a
/// log, or generations that have left its list.
const FORMAT_BEFORE_NAMES: u32 = 4;
/// Of a manifest that names an application, or a copy that has not ended. Programs that read the format before know
/// neither line, and would call them damage.
const FORMAT_BEFORE_LOGGED_PICTURES: u32 = 5;
/// The newest format, of a backup with an older state that is a picture and the log behind it (N21).
const MANIFEST_FORMAT: u32 = 6;
/// Far above any real one: a longer file is not a manifest.
const BYTES_MAX: u64 = 16 << 20;

/// One life of the database, from an open to the recovery after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    /// No entry of this generation has a smaller epoch.
    pub(crate) first: Epoch,
    /// The format of its blocks (L7).
    pub(crate) format: u16,
    /// What its entries are.
    pub(crate) entries: EntryKind,
    /// How many logs it has; 0 if it has none, and pictures alone make it durable.
    pub(crate) logs: u32,
    /// Its logs': a file with another one is of another database.
    pub(crate) salt: Salt,
    /// What its files say whose they are (I1): this database, or one of which it is an adopted copy.
    pub(crate) database: Identity,
    /// Its D, once a recovery has decided it, or a backup has closed its copy.
    pub(crate) durable: Option<Epoch>,
    /// What of each of its logs was copied; none if all that is there counts (N21).
    pub(crate) spans: Vec<LogSpan>,
}

impl Generation {
    /// Is it the same one of the same life, whatever is known of its end?
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let begun = |of: &Self| Self { durable: None, spans: Vec::new(), ..of.clone() };
        begun(self) == begun(other)
    }

    /// How many bytes of this log file of it count: 0 outside what was copied of its log, and no limit of one that was
    /// not copied (N21).
    pub(crate) fn log_bytes(&self, name: SegmentName) -> u64 {
        assert_eq!(name.generation, self.number, "a file of this generation");
        self.spans.get(name.logger as usize).map_or(u64::MAX, |span| span.bytes_of(name.number))
    }

    /// May this checkpoint stand beside it (K1, K5, N12, L4)?
    pub(crate) fn fits(&self, checkpoint: &InstalledCheckpoint) -> bool {
        if self.number < *checkpoint.generations().start() {
            return false;
        }
        checkpoint.epochs().into_iter().all(|WrittenEpochs { generation, low, high }| {
            match self.number.cmp(&generation) {
                // The log of another range goes back to here.
                Ordering::Less => self.durable.is_some_and(|durable| durable < low),
                Ordering::Equal => {
                    let has_marks = self.durable.is_none_or(|durable| durable >= high);
                    // K1 needs a log.
                    let has_log = self.logs > 0 || checkpoint.is_picture();
                    self.first <= low && has_marks && has_log
                }
                Ordering::Greater => self.first > high,
            }
        })
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, first, format, entries, logs, salt, database, durable, spans } = self;
        let entries = entries.name();
        write!(f, "generation {number} first {first} format {format} entries {entries} ")?;
        write!(f, "logs {logs} salt {salt} database {database}")?;
        durable.map_or(Ok(()), |durable| write!(f, " durable {durable}"))?;
        let separators = std::iter::once(" files ").chain(std::iter::repeat(","));
        spans.iter().zip(separators).try_for_each(|(span, separator)| write!(f, "{separator}{span}"))
    }
}

/// How far the making of a database is (I2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    /// Its folders and first files are being made: nothing was ever committed.
    Creating,
    /// It was open once.
    Created,
}

/// Whose folder this is, the installed checkpoint, and all generations that count, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) identity: Identity,
    /// Of which database this one is an adopted copy, a backup, or a restored one.
    pub(crate) parent: Option<Identity>,
    /// Other databases whose files it has had, and does not list any more (I1).
    pub(crate) ancestors: BTreeSet<Identity>,
    pub(crate) state: Making,
    /// L6: no epoch at or above this was ever shown.
    pub(crate) reserved: Epoch,
    /// Where its first state came from, if not from its own transactions.
    pub(crate) made_from: Option<MadeFrom>,
    /// N24: the copy that is being made, while it is creating. Of a take-over `ships_to` says it.
    pub(crate) unfinished: Option<UnfinishedCopy>,
    /// The main folder (`.`) and those of logs and checkpointers, by name.
    pub(crate) folders: BTreeMap<String, FolderId>,
    /// A2: its archive says no less than this.
    pub(crate) archived: Option<ArchiveSeal>,
    /// Generations that have left the list; of a backup see [`Manifest::lives`].
    pub(crate) lineage: Lineage,
    /// B4: the boot in which the open generation's process-safe life began. None once that life is closed.
    pub(crate) mapped: Option<BootId>,
    /// Where its finished files go.
    pub(crate) ships_to: Option<ShipsTo>,
    /// I5: whose folder it is, in the application's own words.
    pub(crate) application: Option<ApplicationName>,
    pub(crate) checkpoint: Option<InstalledCheckpoint>,
    /// Older states of a backup, the newest first.
    pub(crate) kept: Vec<KeptState>,
    pub(crate) generations: Vec<Generation>,
}

/// Why a text is no manifest that this program can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It is damaged: what is wrong with it.
    Damaged(&'static str),
    /// It is whole, and of another format (L7).
    Foreign(&'static str),
}

impl Unusable {
    pub(crate) fn into_error(self) -> DurabilityError {
        match self {
            Self::Damaged(detail) => DurabilityError::damaged(MANIFEST, 0, detail),
            Self::Foreign(detail) => {
                DurabilityError::Unknown { file: MANIFEST.to_owned(), offset: 0, detail }
            }
        }
    }
}

/// Why the manifest was not replaced.
#[derive(Debug)]
pub(crate) enum NotReplaced {
    /// The old one stands.
    OldStands(DiskError),
    /// One of the two stands, and it is unknown which until the next open.
    Unknown(DiskError),
}

impl From<NotReplaced> for DurabilityError {
    fn from(error: NotReplaced) -> Self {
        let (NotReplaced::OldStands(error) | NotReplaced::Unknown(error)) = error;
        error.into()
    }
}

impl Manifest {
    /// The generation that is open, of a database that runs.
    pub(crate) fn open_generation(&self) -> &Generation {
        let open = self.generations.last().expect("a database that runs has an open generation");
        assert_eq!(open.durable, None, "the last generation is the open one");
        open
    }

    /// Of a database that is about to be made in the folder `main`.
    pub(crate) fn creating(identity: Identity, main: FolderId) -> Self {
        Self {
            identity,
            parent: None,
            ancestors: BTreeSet::new(),
            state: Making::Creating,
            reserved: Epoch::FIRST,
            made_from: None,
            unfinished: None,
            folders: [(MAIN.to_owned(), main)].into(),
            archived: None,
            lineage: Lineage::default(),
            mapped: None,
            ships_to: None,
            application: None,
            checkpoint: None,
            kept: Vec::new(),
            generations: Vec::new(),
        }
    }

    /// Reads the manifest; `None` if there is none.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>, DurabilityError> {
        match Self::read_named(disk, MANIFEST)? {
            None => Ok(None),
            Some(manifest) => manifest.map(Some).map_err(Unusable::into_error),
        }
    }

    /// Is the file of this name the manifest of a database that was created?
    pub(crate) fn is_created_text(disk: &dyn Disk, name: &str) -> Result<bool, DurabilityError> {
        let manifest = Self::read_named(disk, name)?;
        Ok(matches!(manifest, Some(Ok(Self { state: Making::Created, .. }) | Err(Unusable::Foreign(_)))))
    }

    fn read_named(disk: &dyn Disk, name: &str) -> Result<Option<Result<Self, Unusable>>, DiskError> {
        let Some(bytes) = text::read(disk, name, BYTES_MAX + 1)? else { return Ok(None) };
        if bytes.len() as u64 > BYTES_MAX {
            return Ok(Some(Err(Unusable::Damaged("it is too long to be a manifest"))));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| Unusable::Damaged("it is not text"));
        Ok(Some(text.and_then(Self::parse)))
    }

    /// The least format that has what it says: a program that knows no more than it needs goes on reading it.
    fn format(&self) -> u32 {
        let is_newer = self.checkpoint.as_ref().is_some_and(|checkpoint| !checkpoint.is_of_first_release());
        let lacks_log = self.generations.iter().any(|generation| generation.logs == 0);
        // A program that knows no archive would remove what is not in it.
        let has_spans = self.generations.iter().any(|generation| !generation.spans.is_empty());
        // One that knows no mapped buffers would lose what they hold.
        let has_more = self.has_archive() || self.made_from.is_some() || has_spans || self.mapped.is_some();
        let remembers = !self.lineage.is_empty() || !self.ancestors.is_empty() || self.ships_to.is_some();
        if self.kept_files().any(|state| state.picture().is_some()) {
            return MANIFEST_FORMAT;
        }
        // One that knows no unfinished copy would make a new database of it; one that knows no names would forget whose
        // it is.
        if self.unfinished.is_some() || self.application.is_some() {
            return FORMAT_BEFORE_LOGGED_PICTURES;
        }
        if is_newer || lacks_log || has_more || remembers {
            FORMAT_BEFORE_NAMES
        } else {
            FORMAT_BEFORE_PICTURES
        }
    }

    /// The main folder's number.
    pub(crate) fn main(&self) -> FolderId {
        self.folders[MAIN]
    }

    /// Are closed log files archived?
    pub(crate) fn has_archive(&self) -> bool {
        self.folders.contains_key(ARCHIVE_FOLDER)
    }

    /// It has no archive any more.
    pub(crate) fn end_archive(&mut self) {
        self.folders.remove(ARCHIVE_FOLDER);
        self.archived = None;
    }

    /// Does it list the generation of this number?
    pub(crate) fn lists(&self, generation: u64) -> bool {
        self.generations.iter().any(|listed| listed.number == generation)
    }

    /// How many bytes of this log file count, as a listed generation says (N21). `None`: no listed log has such a file.
    pub(crate) fn log_bytes(&self, name: SegmentName) -> Option<u64> {
        let listed = self.generations.iter().find(|listed| listed.number == name.generation)?;
        let bytes = listed.log_bytes(name);
        (name.logger < listed.logs && bytes > 0).then_some(bytes)
    }

    /// Does this file stand outside what was copied of a listed log?
    pub(crate) fn is_outside(&self, name: SegmentName) -> bool {
        let mut listed = self.generations.iter().filter(|listed| listed.number == name.generation);
        listed.any(|listed| listed.log_bytes(name) == 0)
    }

    /// Is it that of a backup, which was never opened?
    pub(crate) fn is_of_backup(&self) -> bool {
        matches!(self.made_from, Some(MadeFrom::Backup { .. }))
    }

    /// All generations of the database, as far as it remembers them. Of a backup those of the database that was copied:
    /// its own generations are only of the folder (N23).
    pub(crate) fn lives(&self) -> Lineage {
        let mut lives = self.lineage.clone();
        if !self.is_of_backup() {
            lives.add(self.generations.iter());
        }
        lives
    }

    /// Its lineage behind this manifest, once these generations have left the list (N23). What leaves a backup's is of
    /// the folder alone, or its lineage has it.
    #[must_use]
    pub(crate) fn lineage_with<'g>(&self, left: impl Iterator<Item = &'g Generation>) -> Lineage {
        let mut lineage = self.lineage.clone();
        if !self.is_of_backup() {
            lineage.add(left);
        }
        lineage
    }

    /// The manifest that a folder would have with this older state alone, beside the files of the others (I1).
    pub(crate) fn with_kept(&self, state: &FilesState) -> Self {
        let lineage = self.lineage.clone().until(state.generation(), state.epoch());
        let FilesState { checkpoint, generations } = state.clone();
        let mut alone = Self { lineage, checkpoint, generations, kept: Vec::new(), ..self.clone() };
        alone.remember_files_of(self);
        alone
    }

    /// True if a state of files without a picture is whole by itself, with these reserved epochs (I2, L4, L6, K1).
    pub(super) fn is_whole_state(state: &FilesState, of: Identity, reserved: Epoch) -> bool {
        let nowhere = FolderId { inode: 0, born_nanos: None };
        let before = Self { state: Making::Created, reserved, ..Self::creating(of, nowhere) };
        let alone = before.with_kept(state);
        FilesState::of(&alone).is_some() && state.picture().is_none() && alone.is_whole()
    }

    /// The older states that are of files.
    pub(crate) fn kept_files(&self) -> impl Iterator<Item = &FilesState> {
        self.kept.iter().filter_map(KeptState::files)
    }

    /// The pictures of older states, with a log behind them or without.
    pub(crate) fn kept_pictures(&self) -> impl Iterator<Item = &PictureCheckpoint> {
        self.kept.iter().filter_map(KeptState::picture)
    }

    fn parse(text: &str) -> Result<Self, Unusable> {
        let body = checked_body(text).map_err(Unusable::Damaged)?;
        let (title, lines) = body.split_once('\n').ok_or(Unusable::Damaged("it has no title"))?;
        let format = title.strip_prefix(TITLE).and_then(|number| number.parse().ok());
        let format: u32 = format.ok_or(Unusable::Damaged("its title cannot be read"))?;
        if format > MANIFEST_FORMAT {
            return Err(Unusable::Foreign("a newer version of Ensile made it"));
        }
        if format < FORMAT_BEFORE_PICTURES {
            return Err(Unusable::Foreign("a version of Ensile before its first release made it"));
        }
        let manifest = parse_lines(lines).ok_or(Unusable::Damaged("a line cannot be read"))?;
        // The lines of the newest format stood in the one before at first, for a few days between two releases.
        let is_early = (format, manifest.format()) == (FORMAT_BEFORE_NAMES, FORMAT_BEFORE_LOGGED_PICTURES);
        if manifest.format() != format && !is_early {
            return Err(Unusable::Damaged("its format is not that of its lines"));
        }
        let kept = manifest.kept_files().flat_map(|state| &state.generations);
        if manifest.generations.iter().chain(kept).any(|generation| generation.format != FORMAT) {
            return Err(Unusable::Foreign("its logs are of another version's format"));
        }
        if manifest.is_whole() {
            Ok(manifest)
        } else {
            Err(Unusable::Damaged("its lines contradict each other"))
        }
    }

    /// The databases whose files may be here: this one, and those that it was copied from.
    fn databases(&self) -> BTreeSet<Identity> {
        let kept = || self.kept_files();
        let generations = self.generations.iter().chain(kept().flat_map(|state| &state.generations));
        let checkpoints = self.checkpoint.iter().chain(kept().flat_map(|state| &state.checkpoint));
        let listed = generations.map(|generation| generation.database);
        let listed = listed.chain(checkpoints.flat_map(InstalledCheckpoint::databases));
        let listed = listed.chain(self.kept_pictures().map(|picture| picture.database));
        listed.chain([self.identity]).chain(self.parent).chain(self.ancestors.iter().copied()).collect()
    }

    /// Files of the databases that `before` knows may be here too: what it listed is removed behind this one (I1).
    pub(crate) fn remember_files_of(&mut self, before: &Self) {
        if before.state == Making::Created {
            let known = self.databases();
            self.ancestors.extend(before.databases().difference(&known));
        }
    }

    /// May a file that says that it is of this database be removed or read (I1)? It may be older than the adoption of
    /// this copy.
    ///
    /// # Errors
    /// [`DurabilityError::NotOurs`].
    pub(crate) fn check_ours(&self, file: &str, found: Identity) -> Result<(), DurabilityError> {
        if self.databases().contains(&found) {
            return Ok(());
        }
        Err(DurabilityError::not_ours(file, found, self.identity))
    }

    /// I1's number of the main folder, I2's states, L4's order over the generations, L6's bound, and K1's order between
    /// generations and checkpoint.
    fn is_whole(&self) -> bool {
        let pairs = self.generations.windows(2).all(|pair| {
            pair[0].durable.is_some_and(|durable| durable < pair[1].first) && pair[0].number < pair[1].number
        });
        let own = self.generations.iter().all(|generation| {
            let is_numbered = generation.number > 0 && generation.first > Epoch::ZERO;
            let has_files = generation.logs > 0 || generation.durable.is_none();
            let spans = &generation.spans;
            let has_spans = generation.durable.is_some() && spans.len() == generation.logs as usize;
            is_numbered
                && has_files
                && (spans.is_empty() || has_spans)
                && generation.durable.is_none_or(|durable| durable.next() >= generation.first)
        });
        let is_open = self.generations.last().is_some_and(|last| last.durable.is_none());
        let state = self.reserved > Epoch::ZERO
            && match self.state {
                Making::Creating => self.generations.is_empty() && self.checkpoint.is_none(),
                Making::Created => is_open,
            };
        // L6: what the open generation may have shown is reserved.
        let reserved = self.generations.iter().all(|generation| generation.first <= self.reserved);
        let checkpoint = self.checkpoint.as_ref().is_none_or(|checkpoint| {
            checkpoint.is_whole() && self.generations.iter().all(|generation| generation.fits(checkpoint))
        });
        pairs
            && own
            && state
            && reserved
            && checkpoint
            && self.has_kept_whole()
            && self.has_lineage_whole()
            && self.folders.contains_key(MAIN)
            && (self.has_archive() || self.archived.is_none())
            && (self.mapped.is_none() || self.may_be_mapped())
            && (self.unfinished.is_none() || self.state == Making::Creating)
    }

    /// B4: mapped buffers are those of an open generation with logs, of a database and no backup.
    fn may_be_mapped(&self) -> bool {
        !self.is_of_backup() && self.generations.last().is_some_and(|last| last.logs > 0)
    }

    /// N23: nothing is remembered behind the last generation, or otherwise than it is listed. Those that a backup lists
    /// may be only of the folder.
    fn has_lineage_whole(&self) -> bool {
        let is_same =
            self.is_of_backup() || self.generations.iter().all(|listed| self.lineage.agrees(listed));
        is_same && self.lineage.newest() <= self.generations.last().map_or(0, |last| last.number)
    }

    /// Only a backup keeps older states. Each is whole, and older than the one before it; all pictures are in one page
    /// file.
    fn has_kept_whole(&self) -> bool {
        if self.kept.is_empty() {
            return true;
        }
        let Some(newest) = KeptState::newest(self) else { return false };
        let states = || std::iter::once(&newest).chain(&self.kept);
        let are_older = states().zip(&self.kept).all(|(newer, older)| older.epoch() < newer.epoch());
        let pictures = || states().filter_map(KeptState::picture);
        let are_in_one_file = pictures().zip(pictures().skip(1)).all(|(newer, older)| {
            let is_same = (older.database, &older.files) == (newer.database, &newer.files);
            is_same && older.generation <= newer.generation
        });
        let are_whole = self.kept.iter().all(|kept| match kept {
            KeptState::Picture(picture) => picture.is_whole(),
            KeptState::Files(state) => {
                let alone = self.with_kept(state);
                FilesState::of(&alone).is_some() && alone.is_whole()
            }
        });
        self.is_of_backup() && are_older && are_in_one_file && are_whole
    }

    /// Replaces the manifest on disk; once this returns it survives a crash.
    fn write(&self, disk: &dyn Disk) -> Result<(), NotReplaced> {
        assert!(self.is_whole(), "I2, L4, L6, K1: {self:?}");
        let text = self.to_string();
        if text.len() as u64 > BYTES_MAX {
            let kind = std::io::ErrorKind::FileTooLarge;
            let error = DiskError::io(Operation::Write, Path::new(MANIFEST_NEW), kind.into());
            return Err(NotReplaced::OldStands(error));
        }
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
    disk: Arc<dyn Disk>,
    manifest: Manifest,
}

impl ManifestKeeper {
    /// Of the manifest that stands on this disk.
    pub(crate) fn of(disk: &Arc<dyn Disk>, manifest: Manifest) -> Self {
        Self { disk: Arc::clone(disk), manifest }
    }

    /// The keeper of a new database, whose manifest is written now, as the first that speaks of it (I2). It says of
    /// which copy the folder is to be, if it is (N24).
    pub(crate) fn begin(disk: &Arc<dyn Disk>, copy: Option<UnfinishedCopy>) -> Result<Self, DurabilityError> {
        let manifest = Manifest::creating(Identity::draw(), disk.folder_id("")?);
        let manifest = copy.map_or(manifest.clone(), |copy| copy.begin(manifest));
        manifest.write(&**disk)?;
        Ok(Self::of(disk, manifest))
    }

    /// Changes what the next manifest says of the folders.
    pub(crate) fn folders_mut(&mut self) -> &mut BTreeMap<String, FolderId> {
        &mut self.manifest.folders
    }

    /// The disk that it stands on.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The manifest as it stands.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Puts `next` in its place, which remembers whose files leave the list with it (I1).
    pub(crate) fn replace(&mut self, mut next: Manifest) -> Result<(), NotReplaced> {
        next.remember_files_of(&self.manifest);
        next.write(&*self.disk)?;
        self.manifest = next;
        Ok(())
    }

    /// The next manifest remembers this of the archive, which is durable (A2).
    pub(crate) fn remember(&mut self, archived: ArchiveSeal) {
        assert!(self.manifest.has_archive(), "A2: of the archive that it lists");
        self.manifest.archived = Some(archived);
    }

    /// It has no archive any more, as the next manifest says.
    pub(crate) fn end_archive(&mut self) {
        self.manifest.end_archive();
    }

    /// Installs a checkpoint of the open generation; those before it leave the list.
    pub(crate) fn install(&mut self, checkpoint: InstalledCheckpoint) -> Result<(), NotReplaced> {
        let mut next = self.manifest.clone();
        let oldest = *checkpoint.generations().start();
        let left =
            next.generations.extract_if(.., |generation| generation.number < oldest).collect::<Vec<_>>();
        assert!(left.iter().all(|generation| generation.durable.is_some()), "L4: each has its D");
        next.lineage = self.manifest.lineage_with(left.iter());
        next.checkpoint = Some(checkpoint);
        self.replace(next)
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        let mut body = format!("{TITLE}{}\n", self.format());
        let Self { identity, parent, state, reserved, made_from, folders, archived, lineage, .. } = self;
        let Self {
            ancestors, mapped, ships_to, application, checkpoint, kept, generations, unfinished, ..
        } = self;
        let parent = parent.map_or("none".to_owned(), |parent| parent.to_string());
        let state = match state {
            Making::Creating => "creating",
            Making::Created => "created",
        };
        writeln!(body, "database {identity} parent {parent} state {state}")?;
        writeln!(body, "reserved {reserved}")?;
        if let Some(made_from) = made_from {
            writeln!(body, "{made_from}")?;
        }
        if let Some(unfinished) = unfinished {
            writeln!(body, "{unfinished}")?;
        }
        for (name, number) in folders {
            writeln!(body, "folder {name} {}", shown_folder_id(number))?;
        }
        if let Some(archived) = archived {
            writeln!(body, "{archived}")?;
        }
        if !lineage.is_empty() {
            writeln!(body, "{lineage}")?;
        }
        if !ancestors.is_empty() {
            let ancestors: Vec<_> = ancestors.iter().map(Identity::to_string).collect();
            writeln!(body, "{ANCESTORS}{}", ancestors.join(","))?;
        }
        if let Some(boot) = mapped {
            writeln!(body, "mapped {boot}")?;
        }
        if let Some(ships_to) = ships_to {
            writeln!(body, "{ships_to}")?;
        }
        if let Some(application) = application {
            writeln!(body, "{}", application.line())?;
        }
        if let Some(checkpoint) = checkpoint {
            writeln!(body, "{checkpoint}")?;
        }
        let is_picture = checkpoint.as_ref().is_some_and(InstalledCheckpoint::is_picture);
        let (files, pictures): (Vec<_>, Vec<_>) = kept.iter().partition(|kept| kept.files().is_some());
        for picture in pictures.iter().filter(|_| is_picture) {
            writeln!(body, "{picture}")?;
        }
        for generation in generations {
            writeln!(body, "{generation}")?;
        }
        for picture in pictures.iter().filter(|_| !is_picture) {
            writeln!(body, "{picture}")?;
        }
        for files in files {
            writeln!(body, "{files}")?;
        }
        f.write_str(&with_checksum(&body))
    }
}

/// The lines behind the title. `None`: a line is not one that `Display` writes, or not at its place.
fn parse_lines(text: &str) -> Option<Manifest> {
    let mut lines = text.lines().peekable();
    let mut manifest = parse_database(lines.next()?)?;
    manifest.folders.clear();
    manifest.reserved = parse_epoch(values(lines.next()?, &["reserved"])?[0])?;
    if let Some(line) = lines.next_if(|line| MadeFrom::is_line(line)) {
        manifest.made_from = Some(MadeFrom::parse(line)?);
    }
    if let Some(line) = lines.next_if(|line| UnfinishedCopy::is_line(line)) {
        manifest.unfinished = Some(UnfinishedCopy::parse(line)?);
    }
    while let Some(line) = lines.next_if(|line| line.starts_with("folder ")) {
        let (name, number) = parse_folder(line)?;
        if manifest.folders.insert(name, number).is_some() {
            return None;
        }
    }
    if let Some(line) = lines.next_if(|line| ArchiveSeal::is_line(line)) {
        manifest.archived = Some(ArchiveSeal::parse(line)?);
    }
    if let Some(line) = lines.next_if(|line| Lineage::is_line(line)) {
        manifest.lineage = Lineage::parse(line)?;
    }
    if let Some(line) = lines.next_if(|line| line.starts_with(ANCESTORS)) {
        manifest.ancestors = parse_ancestors(line)?;
    }
    if let Some(line) = lines.next_if(|line| line.starts_with("mapped ")) {
        let boot = BootId::parse(values(line, &["mapped"])?[0])?;
        manifest.mapped = Some(boot).filter(|boot| format!("mapped {boot}") == line);
        manifest.mapped?;
    }
    if let Some(line) = lines.next_if(|line| ShipsTo::is_line(line)) {
        manifest.ships_to = Some(ShipsTo::parse(line)?);
    }
    if let Some(line) = lines.next_if(|line| ApplicationName::is_line(line)) {
        manifest.application = Some(ApplicationName::parse(line)?);
    }
    manifest.checkpoint = parse_checkpoint(&mut lines)?;
    // Older pictures stand behind the newest, or behind the generations of newer files.
    let is_picture = manifest.checkpoint.as_ref().is_some_and(InstalledCheckpoint::is_picture);
    let mut pictures = if is_picture { parse_pictures(&mut lines)? } else { Vec::new() };
    manifest.generations = parse_generations(&mut lines)?;
    if !is_picture {
        pictures = parse_pictures(&mut lines)?;
    }
    let mut files = Vec::new();
    while lines.peek().is_some_and(|line| KeptState::is_line(line)) {
        files.push(parse_files_state(&mut lines)?);
    }
    manifest.kept = KeptState::merged(pictures, files);
    lines.next().is_none().then_some(manifest)
}

/// The lines of a manifest, to be read one behind the other.
pub(super) type Lines<'l> = Peekable<std::str::Lines<'l>>;

/// The next lines, which are those of a state of files.
pub(super) fn parse_files_state(lines: &mut Lines<'_>) -> Option<FilesState> {
    let epoch = KeptState::parse_line(lines.next()?)?;
    let checkpoint = parse_checkpoint(lines)?;
    let state = FilesState { checkpoint, generations: parse_generations(lines)? };
    Some(state).filter(|state| state.epoch() == epoch)
}

/// The next lines, if they name a checkpoint.
fn parse_checkpoint(lines: &mut Lines<'_>) -> Option<Option<InstalledCheckpoint>> {
    let Some(line) = lines.next_if(|line| InstalledCheckpoint::is_line(line)) else { return Some(None) };
    let more = std::iter::from_fn(|| lines.next_if(|line| InstalledCheckpoint::is_more(line)));
    let more: Vec<&str> = more.collect();
    InstalledCheckpoint::parse(line, &more).map(Some)
}

/// The next lines, as far as they name pictures.
fn parse_pictures(lines: &mut Lines<'_>) -> Option<Vec<PictureCheckpoint>> {
    let mut pictures = Vec::new();
    while lines.peek().is_some_and(|line| PictureCheckpoint::is_line(line)) {
        let Some(InstalledCheckpoint::Picture(picture)) = parse_checkpoint(lines)? else { return None };
        pictures.push(picture);
    }
    Some(pictures)
}

/// The next lines, as far as they are generations'.
fn parse_generations(lines: &mut Lines<'_>) -> Option<Vec<Generation>> {
    let own = std::iter::from_fn(|| lines.next_if(|line| line.starts_with("generation ")));
    own.map(parse_generation).collect()
}

fn parse_database(line: &str) -> Option<Manifest> {
    let [identity, parent, state] = values(line, &["database", "parent", "state"])?;
    let parent = if parent == "none" { None } else { Some(Identity::parse(parent)?) };
    let state = match state {
        "creating" => Making::Creating,
        "created" => Making::Created,
        _ => return None,
    };
    // The folders' lines come later.
    let nowhere = FolderId { inode: 0, born_nanos: None };
    Some(Manifest { parent, state, ..Manifest::creating(Identity::parse(identity)?, nowhere) })
}

/// Each once, in order.
fn parse_ancestors(line: &str) -> Option<BTreeSet<Identity>> {
    let words = line.strip_prefix(ANCESTORS)?.split(',');
    let ancestors: Vec<Identity> = words.map(Identity::parse).collect::<Option<_>>()?;
    ancestors.is_sorted_by(|one, next| one < next).then(|| ancestors.into_iter().collect())
}

fn parse_folder(line: &str) -> Option<(String, FolderId)> {
    let [name, inode, born] = values(line, &["folder", "inode", "born"])?;
    Some((name.to_owned(), parse_folder_id(inode, born)?))
}

/// Reads the line of a generation, in the manifest or in an archive.
pub(super) fn parse_generation(line: &str) -> Option<Generation> {
    let (line, spans) = match line.split_once(" files ") {
        Some((line, spans)) => (line, LogSpan::parse_all(spans)?),
        None => (line, Vec::new()),
    };
    let (line, durable) = match line.split_once(" durable ") {
        Some((line, durable)) => (line, Some(parse_epoch(durable)?)),
        None => (line, None),
    };
    let [number, first, format, entries, logs, salt, database] =
        values(line, &["generation", "first", "format", "entries", "logs", "salt", "database"])?;
    Some(Generation {
        number: number::parse(number)?,
        first: parse_epoch(first)?,
        format: format.parse().ok()?,
        entries: EntryKind::named(entries)?,
        logs: parse_count_or_none(logs, LOGGERS_MAX)?,
        salt: Salt::parse(salt)?,
        database: Identity::parse(database)?,
        durable,
        spans,
    })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
