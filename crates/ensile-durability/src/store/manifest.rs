//! The manifest of a database folder. The manifest names the owner of the folder (I1, I2), the installed checkpoint
//! (K1), the generations whose log counts, and their durable epochs (L4).
//!
//! The manifest is a text file with a checksum (`docs/internals/formats/manifest.md`). Format 4 is for a picture, a
//! checkpoint by ranges, an archive, a process-safe life, or a generation without a log. Format 5 is for an
//! application, or a copy that has not ended. Format 6 is for a backup with an older state that is a picture with a
//! log. Format 7 is for types of the entries. A manifest without these has format 3:
//! ```text
//! ensile manifest 3
//! database 5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f parent none state created
//! reserved 5000
//! folder . inode 131073 born 1763812345123456789
//! folder log0 inode 131080 born none
//! checkpoint 7 generation 3 low 62 high 64 checkpointers 2 files 4 entries 9000 bytes 1234568 salt 5e6f7a8b seal ..
//! generation 3 first 61 format 4 entries values logs 2 salt 1a2b3c4d database 5b1e.. durable 66
//! generation 4 first 70 format 4 entries values logs 2 salt 1a2b3c4d database 5b1e..
//! crc32c 5ba37c1e
//! ```
//! Invariants:
//! - I2: the manifest is the first file of a database. In state *creating*, the manifest lists no generation. The next
//!   open finishes or undoes the creation.
//! - L4: the last generation is open. Each earlier generation has its durable epoch D, and the next generation begins
//!   above D. Numbers and epochs of generations only grow. A generation that left no entry may be missing.
//! - L6: no epoch at or above `reserved` was ever shown. A later life begins at `reserved` or above.
//! - L7: reading the manifest refuses an unknown format, before any block is judged.
//! - N18: the open generation may have no log. Then only a picture makes its epochs durable, and the list drops the
//!   generation once it is closed.
//! - K1, K5, N12: no listed generation is older than the checkpoint's, or than the oldest generation of a checkpoint's
//!   ranges. The durable epoch of each closed generation fits the checkpoint ([`Generation::fits`]).
//! - A2: with an archive, the manifest keeps a seal of the archive's list of ended generations.
//! - I1: the manifest keeps the identity of each database whose files have left the list. The files are removed after
//!   the manifest that no longer lists them.
//! - N23: the manifest remembers the generations that have left the list. In a backup, the manifest remembers the
//!   generations of the copied database.
//! - B4: the manifest of a process-safe life names the boot in which the life began.
//! - I5, I6: the manifest keeps the name of the application, and the types of the entries.
//! - N16, N21: the manifest of a backup may list older states; `backup_states` has the lines.
//! - A write replaces the whole manifest: write a new file, sync, rename, sync the folder. Only [`ManifestKeeper`]
//!   writes, and recovery hands the keeper to the log. A manifest that `read` would refuse is not written.
//!
//! Neighbours: `recovery` reads and replaces the manifest, the installation of a checkpoint replaces the manifest, and
//! `epoch_renewal` too. `installed_checkpoint` has the lines of the checkpoint.

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
use super::backup_states::{FilesState, KeptState, LogSpan};
use super::creation_marker::UnfinishedCopy;
use super::installed_checkpoint::{InstalledCheckpoint, PictureCheckpoint, WrittenEpochs};
use super::lineage::Lineage;
use super::names::{ARCHIVE_FOLDER, MAIN, MANIFEST, MANIFEST_NEW, SegmentName};
use super::origin::MadeFrom;
use super::shipping_target::ShipsTo;
use super::text::{self, checked_body, parse_epoch, parse_folder_id, shown_folder_id, values, with_checksum};
use super::types::{self, StatedTypes, are_in_order};
use crate::DurabilityError;
use crate::block::{FORMAT, Salt};
use crate::entry_type::EntryType;
use crate::identity::Identity;
use crate::number::{self, LOGGERS_MAX, parse_count_or_none};
use crate::recoverable::EntryKind;

/// Beginning of the first line, before the number of the format.
const TITLE: &str = "ensile manifest ";
/// Beginning of the line of [`Manifest::ancestors`].
const ANCESTORS: &str = "ancestors ";
/// Format of a manifest without pictures and ranges, in which each generation has logs. Programs that know neither
/// pictures nor ranges can read this format.
const FORMAT_BEFORE_PICTURES: u32 = 3;
/// Format of a manifest with a picture, a checkpoint by ranges, an archive, a process-safe life, a generation without a
/// log, or generations that have left the list.
const FORMAT_BEFORE_NAMES: u32 = 4;
/// Format of a manifest with an application, or with a copy that has not ended. Older programs do not know these lines,
/// and would report damage.
const FORMAT_BEFORE_LOGGED_PICTURES: u32 = 5;
/// Format of a backup with an older state that is a picture with a log (N21).
const FORMAT_BEFORE_TYPES: u32 = 6;
/// Newest format: types of the entries. Older programs do not know the lines, and would report damage.
const MANIFEST_FORMAT: u32 = 7;
/// Maximum length of a manifest in bytes, far above the length of a real manifest.
const BYTES_MAX: u64 = 16 << 20;

/// One life of the database, from an open to the next recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    /// First epoch of the generation: its entries have this epoch or a later epoch.
    pub(crate) first: Epoch,
    /// Format of the generation's blocks (L7).
    pub(crate) format: u16,
    /// Kind of the entries.
    pub(crate) entries: EntryKind,
    /// Number of logs. 0 for a generation without a log, which only pictures make durable.
    pub(crate) logs: u32,
    /// Salt of the log files. A file with another salt belongs to another database.
    pub(crate) salt: Salt,
    /// Database identity in the generation's files (I1): this database, or the original of an adopted copy.
    pub(crate) database: Identity,
    /// Durable epoch D, from the recovery or the backup that closed the generation. `None` while the generation is
    /// open.
    pub(crate) durable: Option<Epoch>,
    /// Copied files and bytes of each log (N21). Empty if the logs count as a whole.
    pub(crate) spans: Vec<LogSpan>,
}

impl Generation {
    /// True if `other` is the same generation of the same life. The comparison ignores durable epochs and copied spans.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let begun = |of: &Self| Self { durable: None, spans: Vec::new(), ..of.clone() };
        begun(self) == begun(other)
    }

    /// Number of bytes of the log file `name` that count (N21). 0 for a file outside the copied span, and `u64::MAX`
    /// without a limit.
    pub(crate) fn log_bytes(&self, name: SegmentName) -> u64 {
        assert_eq!(name.generation, self.number, "a file of this generation");
        self.spans.get(name.logger as usize).map_or(u64::MAX, |span| span.bytes_of(name.number))
    }

    /// True if number and epochs of the generation agree with the checkpoint, so that both may be in one manifest (K1,
    /// K5, N12, L4).
    pub(crate) fn fits(&self, checkpoint: &InstalledCheckpoint) -> bool {
        if self.number < *checkpoint.generations().start() {
            return false;
        }
        checkpoint.epochs().into_iter().all(|WrittenEpochs { generation, low, high }| {
            match self.number.cmp(&generation) {
                // An older range still needs the log of this generation.
                Ordering::Less => self.durable.is_some_and(|durable| durable < low),
                Ordering::Equal => {
                    let has_marks = self.durable.is_none_or(|durable| durable >= high);
                    // A fuzzy checkpoint counts only with a log (K1).
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

/// Progress of the creation of the database (I2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    /// Folders and first files are still under creation. No transaction was ever committed.
    Creating,
    /// The database was open at least once.
    Created,
}

/// Owner of the folder, the installed checkpoint, and the counting generations, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) identity: Identity,
    /// Identity of the original, if this database is an adopted copy, a backup or a restored database.
    pub(crate) parent: Option<Identity>,
    /// Other databases with files that an earlier manifest listed (I1).
    pub(crate) ancestors: BTreeSet<Identity>,
    pub(crate) state: Making,
    /// Upper bound of shown epochs (L6): no epoch at or above `reserved` was ever shown.
    pub(crate) reserved: Epoch,
    /// Origin of the first state. `None` if the database's own transactions made the first state.
    pub(crate) made_from: Option<MadeFrom>,
    /// Copy under way while the database is in state `Creating` (N24). A take-over sets `ships_to` instead.
    pub(crate) unfinished: Option<UnfinishedCopy>,
    /// Inode and birth time of each folder, by name: the main folder (`.`), folders of logs and checkpointers, and the
    /// archive.
    pub(crate) folders: BTreeMap<String, FolderId>,
    /// Known state of the archive (A2): the archive's list must have at least these generations.
    pub(crate) archived: Option<ArchiveSeal>,
    /// Generations that have left the list (N23). A backup has the generations of the copied database here.
    pub(crate) lineage: Lineage,
    /// Boot in which the process-safe life of the open generation began (B4). `None` once the life is closed.
    pub(crate) mapped: Option<BootId>,
    /// Shared store that receives the finished files.
    pub(crate) ships_to: Option<ShipsTo>,
    /// Application that owns the folder, in the application's own words (I5).
    pub(crate) application: Option<ApplicationName>,
    /// Types of the entries, as far as programs have stated the types (I6).
    pub(crate) types: Vec<EntryType>,
    pub(crate) checkpoint: Option<InstalledCheckpoint>,
    /// Older states of a backup, newest first.
    pub(crate) kept: Vec<KeptState>,
    pub(crate) generations: Vec<Generation>,
}

/// Reason why a text is no usable manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// The text is damaged, with the detail.
    Damaged(&'static str),
    /// The text is intact, but has an unsupported format (L7).
    Foreign(&'static str),
}

impl Unusable {
    /// Converts the reason into the error that a reader of the manifest returns.
    pub(crate) fn into_error(self) -> DurabilityError {
        match self {
            Self::Damaged(detail) => DurabilityError::damaged_file(MANIFEST, 0, detail),
            Self::Foreign(detail) => {
                DurabilityError::Unknown { file: MANIFEST.to_owned(), offset: 0, detail }
            }
        }
    }
}

/// Reason why the manifest was not replaced.
#[derive(Debug)]
pub(crate) enum NotReplaced {
    /// The old manifest is still in place.
    OldStands(DiskError),
    /// Either the old or the new manifest is in place. The next open finds out.
    Unknown(DiskError),
}

impl From<NotReplaced> for DurabilityError {
    fn from(error: NotReplaced) -> Self {
        let (NotReplaced::OldStands(error) | NotReplaced::Unknown(error)) = error;
        error.into()
    }
}

impl Manifest {
    /// The open generation of a running database.
    pub(crate) fn open_generation(&self) -> &Generation {
        let open = self.generations.last().expect("a database that runs has an open generation");
        assert_eq!(open.durable, None, "the last generation is the open one");
        open
    }

    /// Manifest of a database whose creation begins in the folder `main`.
    pub(crate) fn new(identity: Identity, main: FolderId) -> Self {
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
            types: Vec::new(),
            checkpoint: None,
            kept: Vec::new(),
            generations: Vec::new(),
        }
    }

    /// Reads the manifest. `None` if the file is missing.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>, DurabilityError> {
        match Self::read_named(disk, MANIFEST)? {
            None => Ok(None),
            Some(manifest) => manifest.map(Some).map_err(Unusable::into_error),
        }
    }

    /// True if the file `name` is the manifest of a created database. An intact file of an unsupported format counts
    /// too.
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

    /// Oldest format that has every line of this manifest. Older programs can go on reading a manifest without new
    /// lines.
    fn format(&self) -> u32 {
        // A program without types would forget the types.
        if !self.types.is_empty() {
            return MANIFEST_FORMAT;
        }
        let is_newer = self.checkpoint.as_ref().is_some_and(|checkpoint| !checkpoint.is_of_first_release());
        let lacks_log = self.generations.iter().any(|generation| generation.logs == 0);
        // A program without archives would remove files that the archive lacks.
        let has_spans = self.generations.iter().any(|generation| !generation.spans.is_empty());
        // A program without mapped buffers would lose the entries in the buffers.
        let has_more = self.has_archive() || self.made_from.is_some() || has_spans || self.mapped.is_some();
        let remembers = !self.lineage.is_empty() || !self.ancestors.is_empty() || self.ships_to.is_some();
        // A program that knows no picture with a log would restore the picture alone.
        let newest = self.is_of_backup().then(|| FilesState::from_manifest(self)).flatten();
        if newest.iter().chain(self.kept_files()).any(|state| state.picture().is_some()) {
            return FORMAT_BEFORE_TYPES;
        }
        // A program without unfinished copies would make a new database here. A program without application names would
        // forget the owner.
        if self.unfinished.is_some() || self.application.is_some() {
            return FORMAT_BEFORE_LOGGED_PICTURES;
        }
        if is_newer || lacks_log || has_more || remembers {
            FORMAT_BEFORE_NAMES
        } else {
            FORMAT_BEFORE_PICTURES
        }
    }

    /// Inode and birth time of the main folder.
    pub(crate) fn main(&self) -> FolderId {
        self.folders[MAIN]
    }

    /// True if closed log files go into an archive.
    pub(crate) fn has_archive(&self) -> bool {
        self.folders.contains_key(ARCHIVE_FOLDER)
    }

    /// Removes the archive from the manifest.
    pub(crate) fn end_archive(&mut self) {
        self.folders.remove(ARCHIVE_FOLDER);
        self.archived = None;
    }

    /// True if the manifest lists the generation of this number.
    pub(crate) fn lists(&self, generation: u64) -> bool {
        self.generations.iter().any(|listed| listed.number == generation)
    }

    /// Number of bytes of the log file `name` that count (N21). `None` if no listed log has the file.
    pub(crate) fn log_bytes(&self, name: SegmentName) -> Option<u64> {
        let listed = self.generations.iter().find(|listed| listed.number == name.generation)?;
        let bytes = listed.log_bytes(name);
        (name.logger < listed.logs && bytes > 0).then_some(bytes)
    }

    /// True if the log file belongs to a listed generation, and lies outside the copied span of its log (N21).
    pub(crate) fn is_outside(&self, name: SegmentName) -> bool {
        let mut listed = self.generations.iter().filter(|listed| listed.number == name.generation);
        listed.any(|listed| listed.log_bytes(name) == 0)
    }

    /// True if the folder is a backup that was never opened.
    pub(crate) fn is_of_backup(&self) -> bool {
        matches!(self.made_from, Some(MadeFrom::Backup { .. }))
    }

    /// Listed and remembered generations of the database. A backup returns the generations of the copied database,
    /// because a backup's own generations describe only the folder (N23).
    pub(crate) fn lives(&self) -> Lineage {
        let mut lives = self.lineage.clone();
        if !self.is_of_backup() {
            lives.add(self.generations.iter());
        }
        lives
    }

    /// Lineage of the next manifest, after the generations `left` have left the list (N23). The lineage of a backup
    /// does not change: a leaving generation describes only the folder, or is in the lineage already.
    #[must_use]
    pub(crate) fn lineage_with<'g>(&self, left: impl Iterator<Item = &'g Generation>) -> Lineage {
        let mut lineage = self.lineage.clone();
        if !self.is_of_backup() {
            lineage.add(left);
        }
        lineage
    }

    /// Manifest of this backup as if it had the older state `state` alone. The ancestors include the databases of the
    /// other states' files (I1).
    pub(crate) fn with_kept(&self, state: &FilesState) -> Self {
        let lineage = self.lineage.clone().truncate_at(state.generation(), state.epoch());
        let FilesState { checkpoint, generations } = state.clone();
        let mut alone = Self { lineage, checkpoint, generations, kept: Vec::new(), ..self.clone() };
        alone.remember_files_of(self);
        alone
    }

    /// True if `state` has no picture, and a manifest of database `of` with this state alone is valid (I2, L4, L6, K1).
    /// A shared manifest has such a state.
    pub(super) fn is_whole_state(state: &FilesState, of: Identity, reserved: Epoch) -> bool {
        let nowhere = FolderId { inode: 0, born_nanos: None };
        let before = Self { state: Making::Created, reserved, ..Self::new(of, nowhere) };
        let alone = before.with_kept(state);
        FilesState::from_manifest(&alone).is_some() && state.picture().is_none() && alone.is_whole()
    }

    /// Older states of files: checkpoint, or picture, with a log.
    pub(crate) fn kept_files(&self) -> impl Iterator<Item = &FilesState> {
        self.kept.iter().filter_map(KeptState::files)
    }

    /// Pictures of the older states, with or without a log.
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
        // Between two releases, programs wrote the lines of format 5 into manifests of format 4.
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

    /// Databases whose files may be in the folder: this database, and the databases from which the folder was copied.
    fn databases(&self) -> BTreeSet<Identity> {
        let kept = || self.kept_files();
        let generations = self.generations.iter().chain(kept().flat_map(|state| &state.generations));
        let checkpoints = self.checkpoint.iter().chain(kept().flat_map(|state| &state.checkpoint));
        let listed = generations.map(|generation| generation.database);
        let listed = listed.chain(checkpoints.flat_map(InstalledCheckpoint::databases));
        let listed = listed.chain(self.kept_pictures().map(|picture| picture.database));
        listed.chain([self.identity]).chain(self.parent).chain(self.ancestors.iter().copied()).collect()
    }

    /// Adds the databases of `before` to the ancestors. Files that leave the list are removed only after this manifest
    /// (I1).
    pub(crate) fn remember_files_of(&mut self, before: &Self) {
        if before.state == Making::Created {
            let known = self.databases();
            self.ancestors.extend(before.databases().difference(&known));
        }
    }

    /// Checks that a file of the database `found` may be removed or read here (I1). The file may be older than the
    /// adoption of this copy.
    ///
    /// # Errors
    /// [`DurabilityError::NotOurs`].
    pub(crate) fn check_ours(&self, file: &str, found: Identity) -> Result<(), DurabilityError> {
        if self.databases().contains(&found) {
            return Ok(());
        }
        Err(DurabilityError::not_ours(file, found, self.identity))
    }

    /// True if the manifest has a main folder (I1), a valid state (I2), ordered generations (L4), reserved epochs (L6),
    /// and a checkpoint that fits the generations (K1).
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
        // L6: epochs that the open generation may have shown are reserved.
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
            && are_in_order(&self.types)
    }

    /// True if the life of this manifest may be process-safe, so that the manifest names a boot (B4): the open
    /// generation has logs, and the folder is no backup.
    fn may_be_mapped(&self) -> bool {
        !self.is_of_backup() && self.generations.last().is_some_and(|last| last.logs > 0)
    }

    /// True if the lineage ends at or before the last generation, and agrees with each listed generation (N23). A
    /// backup's generations are not compared, because they may describe only the folder.
    fn has_lineage_whole(&self) -> bool {
        let is_same =
            self.is_of_backup() || self.generations.iter().all(|listed| self.lineage.agrees(listed));
        is_same && self.lineage.newest() <= self.generations.last().map_or(0, |last| last.number)
    }

    /// True if the older states are valid. Only a backup has older states. Each state is whole, and older than the
    /// state before. The pictures are in one page file.
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
                FilesState::from_manifest(&alone).is_some() && alone.is_whole()
            }
        });
        self.is_of_backup() && are_older && are_in_one_file && are_whole
    }

    /// Replaces the manifest on disk by this manifest. After a success, this manifest survives a crash.
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

/// The only writer of the manifest, with the current manifest in memory.
#[derive(Debug)]
pub(crate) struct ManifestKeeper {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
    /// Types of the entries that this life writes (I6).
    types: StatedTypes,
}

impl ManifestKeeper {
    /// Makes the keeper of `manifest`, the current manifest on this disk.
    pub(crate) fn new(disk: &Arc<dyn Disk>, manifest: Manifest) -> Self {
        Self { disk: Arc::clone(disk), manifest, types: StatedTypes::default() }
    }

    /// Sets the types of the entries that this life writes.
    pub(crate) fn with_types(self, types: StatedTypes) -> Self {
        Self { types, ..self }
    }

    /// Begins a new database, and writes its first manifest (I2). The manifest names the copy that is to be made in the
    /// folder, if `copy` has a value (N24).
    pub(crate) fn begin(disk: &Arc<dyn Disk>, copy: Option<UnfinishedCopy>) -> Result<Self, DurabilityError> {
        let manifest = Manifest::new(Identity::draw(), disk.folder_id("")?);
        let manifest = copy.map_or(manifest.clone(), |copy| copy.begin(manifest));
        manifest.write(&**disk)?;
        Ok(Self::new(disk, manifest))
    }

    /// Folders for the next manifest.
    pub(crate) fn folders_mut(&mut self) -> &mut BTreeMap<String, FolderId> {
        &mut self.manifest.folders
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The current manifest.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Replaces the manifest by `next`, on disk and here. The ancestors of `next` gain the databases whose files leave
    /// the list (I1).
    pub(crate) fn replace(&mut self, mut next: Manifest) -> Result<(), NotReplaced> {
        next.remember_files_of(&self.manifest);
        next.write(&*self.disk)?;
        self.manifest = next;
        Ok(())
    }

    /// Adds the seal of the durable archive to the next manifest (A2).
    pub(crate) fn remember(&mut self, archived: ArchiveSeal) {
        assert!(self.manifest.has_archive(), "A2: of the archive that it lists");
        self.manifest.archived = Some(archived);
    }

    /// Removes the archive from the next manifest.
    pub(crate) fn end_archive(&mut self) {
        self.manifest.end_archive();
    }

    /// Installs a checkpoint of the open generation. Generations before the checkpoint leave the list.
    pub(crate) fn install(&mut self, checkpoint: InstalledCheckpoint) -> Result<(), NotReplaced> {
        let mut next = self.manifest.clone();
        let oldest = *checkpoint.generations().start();
        let left =
            next.generations.extract_if(.., |generation| generation.number < oldest).collect::<Vec<_>>();
        assert!(left.iter().all(|generation| generation.durable.is_some()), "L4: each has its D");
        next.lineage = self.manifest.lineage_with(left.iter());
        next.checkpoint = Some(checkpoint);
        // I6: then no entry of an earlier life is left.
        if oldest == self.manifest.open_generation().number {
            next.types = self.types.at_checkpoint(&self.manifest.types);
        }
        self.replace(next)
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        let mut body = format!("{TITLE}{}\n", self.format());
        let Self { identity, parent, state, reserved, made_from, folders, archived, lineage, .. } = self;
        let Self {
            ancestors,
            mapped,
            ships_to,
            application,
            types,
            checkpoint,
            kept,
            generations,
            unfinished,
            ..
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
        application.iter().try_for_each(|name| writeln!(body, "{}", name.line()))?;
        types.iter().try_for_each(|entry_type| writeln!(body, "{}", entry_type.line()))?;
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

/// Parses the lines after the title. `None` if a line is unknown or out of place.
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
    manifest.types = types::parse(&mut lines)?;
    manifest.checkpoint = parse_checkpoint(&mut lines)?;
    // Older pictures follow the newest picture. If the newest state has files, the older pictures follow its
    // generations.
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
    manifest.kept = KeptState::merge(pictures, files);
    lines.next().is_none().then_some(manifest)
}

/// Lines of a manifest, in reading order.
pub(super) type Lines<'l> = Peekable<std::str::Lines<'l>>;

/// Parses the next lines as a state of files.
pub(super) fn parse_files_state(lines: &mut Lines<'_>) -> Option<FilesState> {
    let epoch = KeptState::parse_line(lines.next()?)?;
    let checkpoint = parse_checkpoint(lines)?;
    let state = FilesState { checkpoint, generations: parse_generations(lines)? };
    Some(state).filter(|state| state.epoch() == epoch)
}

/// Parses the next lines as a checkpoint, if a checkpoint begins here.
fn parse_checkpoint(lines: &mut Lines<'_>) -> Option<Option<InstalledCheckpoint>> {
    let Some(line) = lines.next_if(|line| InstalledCheckpoint::is_line(line)) else { return Some(None) };
    let more = std::iter::from_fn(|| lines.next_if(|line| InstalledCheckpoint::is_more(line)));
    let more: Vec<&str> = more.collect();
    InstalledCheckpoint::parse(line, &more).map(Some)
}

/// Parses the pictures at the beginning of the next lines.
fn parse_pictures(lines: &mut Lines<'_>) -> Option<Vec<PictureCheckpoint>> {
    let mut pictures = Vec::new();
    while lines.peek().is_some_and(|line| PictureCheckpoint::is_line(line)) {
        let Some(InstalledCheckpoint::Picture(picture)) = parse_checkpoint(lines)? else { return None };
        pictures.push(picture);
    }
    Some(pictures)
}

/// Parses the generations at the beginning of the next lines.
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
    // The folders come on later lines.
    let nowhere = FolderId { inode: 0, born_nanos: None };
    Some(Manifest { parent, state, ..Manifest::new(Identity::parse(identity)?, nowhere) })
}

/// Parses the ancestors, which are sorted and unique.
fn parse_ancestors(line: &str) -> Option<BTreeSet<Identity>> {
    let words = line.strip_prefix(ANCESTORS)?.split(',');
    let ancestors: Vec<Identity> = words.map(Identity::parse).collect::<Option<_>>()?;
    ancestors.is_sorted_by(|one, next| one < next).then(|| ancestors.into_iter().collect())
}

fn parse_folder(line: &str) -> Option<(String, FolderId)> {
    let [name, inode, born] = values(line, &["folder", "inode", "born"])?;
    Some((name.to_owned(), parse_folder_id(inode, born)?))
}

/// Parses the line of a generation, from a manifest or an archive.
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
        entries: EntryKind::from_name(entries)?,
        logs: parse_count_or_none(logs, LOGGERS_MAX)?,
        salt: Salt::parse(salt)?,
        database: Identity::parse(database)?,
        durable,
        spans,
    })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
