//! Examination and repair of a database's folder, without opening the database.
//!
//! [`verify`] reads every byte and validates the folder as an open would. [`inspect`] also lists the tables and counts
//! their rows, rebuilt in memory. [`repair`] cuts a damaged folder to its last consistent epoch. [`changes`] reads the
//! log as a sequence of changes. [`adopt`] makes a copy an independent database. These functions refuse a folder while
//! a process has the database open. The exceptions are [`lease`], which protects files from removal during a read, and
//! [`backup`]. [`verify`] and [`inspect`] write nothing: a read-only folder is enough.
//!
//! Neighbours: the durability crate reads the files; this module decodes the entries. The `ensile` command prints the
//! results.

mod backup;
mod shipping;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_base::sync::{self, Mutex};
use ensile_base::{Epoch, Tid};
use ensile_disk::{Disk, RealDisk};
use ensile_durability::archive::ArchiveRestore;
pub use ensile_durability::archive::{ArchiveFacts, ArchivedGeneration, EpochSpan, RestoredFromArchive};
pub use ensile_durability::examination::{
    AgeFacts, BackupFacts, CheckpointFacts, Damage, Examination, FileFacts, GenerationFacts, Loss,
    PageFileFacts, PictureFacts, RangeFacts, Remedy, RepairOptions, Repaired, Role, SectionFacts, Unread,
};
pub use ensile_durability::{
    AdoptOptions, Adopted, Archiving, CopyOptions, CopyPhase, CopyProgress, CopyReport, Creation, EntryType,
    NotProven, NotProvenReason, RememberedStore, SharedObject, SharedStore, SharedStoreError, SharedUpload,
    ShippingConfig, ShippingStats, StorageError, TakeOverReport, TypeRole, WhenFenced,
};
use ensile_durability::{DurabilityError, Entry, Recoverable, Refused, RestoreTarget, ask, pause_copy};
use ensile_index::{Direction, Range};
use ensile_memory::{Memory, MemoryConfig};

pub use backup::{backup, restorable_epochs, restore, restore_to_epoch, restore_with};
pub use shipping::take_over;

use crate::error::{Error, Result};
use crate::formats::checkpoint_entry::{self, key_of};
use crate::formats::definition::Definition;
pub use crate::formats::log_entry::Before;
use crate::formats::log_entry::{LoggedWrite, Writes};
use crate::open::replay::Replay;
use crate::record::tree::{RecordTree, RecordVisitor};
use crate::record::{LeafWitness, Record, Scratch, Seen};
use crate::tables::CATALOG_ID;
use crate::tables::catalog::Trees;

/// A lease that [`lease`] takes.
pub type Lease = ensile_durability::Lease<Error>;
/// A file of a [`Lease`].
pub type LeasedFile = ensile_durability::LeasedFile<Error>;
/// A shared store in a folder on several machines.
pub type SharedFolder = ensile_durability::SharedFolder<Error>;
/// A shared store in an object store.
#[cfg(feature = "object-store")]
pub type SharedObjects = ensile_durability::SharedObjects<Error>;

/// Facts about a table in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// Number of the table in the files.
    pub id: u32,
    /// Name of the table; `None` if the catalogue has no name.
    pub name: Option<String>,
    /// Type of the keys.
    pub key_type: String,
    /// Type of the values.
    pub value_type: String,
    /// Fields of a type of [`fixed_layout!`](crate::fixed_layout). `None` for another type, or if no program has stated
    /// the fields yet.
    pub value_layout: Option<String>,
    /// Secondary indexes. Indexes are built at open and are not in the files.
    pub indexes: Vec<String>,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Number of logged writes to the table that record a before-image
    /// ([`Builder::before_images`](crate::Builder::before_images)).
    pub before_images: u64,
}

/// A write in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'c> {
    /// TID of the transaction, which contains its epoch. Independent transactions may have the same TID.
    pub tid: Tid,
    /// Position among the writes of the transaction; 0 begins a transaction.
    pub write: usize,
    /// Number of the table in the files.
    pub table: u32,
    /// Name of the table; `None` if the catalogue has no name.
    pub table_name: Option<&'c str>,
    /// The encoded key.
    pub key: &'c [u8],
    /// The replaced value.
    pub before: Before<'c>,
    /// The encoded value; `None`: the key was deleted.
    pub after: Option<&'c [u8]>,
}

/// Reads every byte of the folder and validates the folder as an open would.
///
/// # Errors
/// [`Error::Storage`](crate::Error::Storage) if the folder is missing, unreadable or in use. Damage is no error:
/// the result reports damage. An unreadable file is no error: [`Examination::unread`] has the file. A folder of an
/// application's own objects is no database, and is refused.
pub fn verify(path: &Path) -> Result<Examination> {
    let disk = open_existing_disk(path)?;
    Ok(ensile_durability::examination::examine(&disk, &EntryFormCheck)?)
}

/// As [`verify`], and lists the tables. The list is empty for a damaged folder, because the rows would be a guess.
///
/// # Errors
/// As for [`verify`].
pub fn inspect(path: &Path) -> Result<(Examination, Vec<TableFacts>)> {
    let disk = open_existing_disk(path)?;
    // The rows live in `memory`.
    let memory = Memory::new(&MemoryConfig::default());
    let target = Counting { replay: Replay::new(&memory, false), images: Mutex::default() };
    let found = ensile_durability::examination::examine(&disk, &target)?;
    let mut trees = target.replay.finish().trees;
    let mut tables = if found.is_whole() { tables_of(&mut trees) } else { Vec::new() };
    let images = target.images.into_inner();
    for table in &mut tables {
        table.before_images = images.get(&table.id).copied().unwrap_or(0);
    }
    Ok((found, tables))
}

/// Shows the durable writes in the log in the order of their TIDs, until `visit` breaks. For a single key this order is
/// the order of the writes. Over all keys, only the order of epochs is exact. Within an epoch, a TID is above the TIDs
/// of the rows that its transaction read and overwrote. A TID is not always above the TIDs of transactions that read
/// the overwritten rows. So an application that applies changes elsewhere should show the changes epoch by epoch.
/// Changes below an installed checkpoint are left out: from the checkpoint's first epoch on, no change is missing. For
/// a damaged folder the call shows no change, and the examination reports the damage.
///
/// The call reads all files before the first change, as [`verify`] does. The changes of a few epochs are in memory at a
/// time. If the last process ended without a close, the call first writes and syncs the end of the log again. The next
/// open then finds the shown changes, even after a power failure in between.
///
/// # Errors
/// As for [`verify`].
pub fn changes(path: &Path, visit: &mut dyn FnMut(&Change<'_>) -> ControlFlow<()>) -> Result<Examination> {
    let disk = open_existing_disk(path)?;
    let names = Names(Mutex::new(BTreeMap::from([(CATALOG_ID, CATALOG_NAME.to_owned())])));
    let mut show = |Entry { tid, body }: Entry<'_>| {
        let names = names.0.lock();
        // The form of the entries was checked with the names.
        for (at, write) in Writes(body).flatten().enumerate() {
            let LoggedWrite { table, key, value: after, before } = write;
            let table_name = names.get(&table).map(String::as_str);
            visit(&Change { tid, write: at, table, table_name, key, before, after })?;
        }
        ControlFlow::Continue(())
    };
    Ok(ensile_durability::examination::visit_log(&disk, &names, &mut show)?)
}

/// True if the folder is an archive ([`Builder::archive`](crate::Builder::archive)), and not a database.
#[must_use]
pub fn is_archive(path: &Path) -> bool {
    ensile_durability::archive::is_archive(path)
}

/// Reads the headers of an archive's files, and returns the epochs that can be restored. A database may add files at
/// the same time.
///
/// # Errors
/// [`Error::Storage`](crate::Error::Storage) if the folder is missing or unreadable, or its list is damaged;
/// [`Error::Misuse`](crate::Error::Misuse) if the folder is no archive. A damaged file is no error: the result names
/// the file.
pub fn inspect_archive(path: &Path) -> Result<ArchiveFacts> {
    Ok(ensile_durability::archive::inspect_archive(&open_existing_disk(path)?)?)
}

/// As [`inspect_archive`], and reads every byte of the archive.
///
/// # Errors
/// As for [`inspect_archive`].
pub fn verify_archive(path: &Path) -> Result<ArchiveFacts> {
    Ok(ensile_durability::archive::verify_archive(&open_existing_disk(path)?, &EntryFormCheck)?)
}

/// Makes a new database in `folder`, with the state of the archived database at the end of `epoch`. The folder is empty
/// or missing. The archive must have begun with the database; a later archive needs a backup as its base. The epoch
/// must have been durable and counted; [`inspect_archive`] lists the epochs. The call reads all restored bytes once
/// more before it returns.
///
/// # Errors
/// [`Error::Storage`](crate::Error::Storage) if the archive lacks the epoch (the text names the available
/// epochs), for damage, or if the folder is not empty; [`Error::Misuse`](crate::Error::Misuse) if `archive` is no
/// archive. The folder then has no valid database.
pub fn restore_from_archive(archive: &Path, folder: &Path, epoch: Epoch) -> Result<RestoredFromArchive> {
    restore_from_archive_with(archive, folder, epoch, None, &mut |_| ControlFlow::Continue(()))
}

/// As [`restore_from_archive`], with a limit of `bytes_per_second` for writes and for the second read. The call runs
/// `watch` between any two pieces, and while the rate has no room. The restore is cancelled if `watch` breaks. After a
/// cancellation run the restore again, or remove the folder.
///
/// # Errors
/// As for [`restore_from_archive`]; also after a cancellation.
pub fn restore_from_archive_with(
    archive: &Path,
    folder: &Path,
    epoch: Epoch,
    bytes_per_second: Option<u64>,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<RestoredFromArchive> {
    let archive = open_existing_disk(archive)?;
    let restore = ArchiveRestore::from_archive(&archive, epoch)?;
    let restore = restore.with_rate_limit(bytes_per_second, Clock::machine())?;
    // The folder is only made for an available epoch.
    let target = RestoreTarget::open(folder, &[&*archive])?;
    let mut stopped = Ok(());
    let made = restore.make(target.disk(), &EntryFormCheck, &mut |progress, wait| {
        pause_copy(wait, ask(progress, watch), &mut stopped)
    });
    let is_cancelled = stopped.is_err();
    target.finish(stopped.and(made.map_err(Error::from)), is_cancelled)
}

/// Cuts a damaged folder to its last consistent epoch, and keeps a copy of the cut bytes. `None` if the folder has no
/// damage. Before a return the call reads the whole folder once more and finds no damage.
///
/// # Errors
/// As for [`verify`]; if a log's folder is missing as a whole, because its device may not be mounted; if no consistent
/// state is left, or a file is unreadable: the message gives the reason; and if a file is damaged after the cut.
pub fn repair(path: &Path) -> Result<Option<Repaired>> {
    Ok(ensile_durability::examination::repair(&open_existing_disk(path)?, &EntryFormCheck)?)
}

/// As [`repair`], and gives up the data named by `options`. The first option gives up a missing folder of a log, with
/// its entries and all later entries of the other logs. Make sure first that the folder's device is not merely
/// unmounted. The second option gives up the whole log, if no cut of the log helps: only the installed picture is kept.
///
/// # Errors
/// As for [`repair`]; also if only the picture is to be kept, and a cut of the log keeps more.
pub fn repair_with(path: &Path, options: RepairOptions) -> Result<Option<Repaired>> {
    Ok(ensile_durability::examination::repair_with(&open_existing_disk(path)?, &EntryFormCheck, options)?)
}

/// Makes a copied, restored or moved folder an independent database, with a new identity and the old identity as its
/// parent. Until then an open refuses the folder, because the original may be in use. The rows are the rows of the
/// copy.
///
/// # Errors
/// [`Error::Storage`](crate::Error::Storage) if the folder is in use, has no database, or has links to folders of the
/// original: copy these folders too, and point the links to the copies. Also if a process with
/// [`Durability::Process`](crate::Durability::Process) did not close the database, and acknowledged results that the
/// copy does not prove ("not adopted"). [`Error::Misuse`](crate::Error::Misuse) if its files are hard links. The folder
/// is then unchanged.
pub fn adopt(path: &Path) -> Result<Adopted> {
    adopt_with(path, AdoptOptions::default())
}

/// As [`adopt`], and gives up the results named by `options`: [`Adopted::not_proven`] reports these results.
///
/// # Errors
/// As for [`adopt`].
pub fn adopt_with(path: &Path, options: AdoptOptions) -> Result<Adopted> {
    Ok(ensile_durability::adopt_with(&open_existing_disk(path)?, options)?)
}

/// Protects the files of a database from removal during a read, and opens the files. The database may be open in any
/// process. A removal waits for a minute at most: [`Lease::has_all_names`] is true if all files still exist.
///
/// The database continues to write to its last log files. `HINT` may describe more than the leased log files: a copy
/// leaves `HINT` out.
///
/// # Errors
/// [`Error::Storage`](crate::Error::Storage) if the folder has no database or is unreadable, or during an open:
/// try again.
pub fn lease(path: &Path) -> Result<Lease> {
    Ok(ensile_durability::lease(&open_existing_disk(path)?)?.returning())
}

/// Name of the catalogue in results.
const CATALOG_NAME: &str = "the catalogue";

/// The disk of an existing folder. No folder is made.
fn open_existing_disk(path: &Path) -> Result<Arc<dyn Disk>> {
    Ok(Arc::new(RealDisk::open_existing(path).map_err(DurabilityError::from)?))
}

/// Recovery target that only checks the form of entries, and keeps no data.
struct EntryFormCheck;

impl Recoverable for EntryFormCheck {
    fn replay(&self, entries: &[Entry<'_>]) -> std::result::Result<(), Refused> {
        each_write(entries, &mut |_| {})
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> std::result::Result<(), Refused> {
        each_row_of(entries, &mut |_, _| {})
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        key_of(body)
    }
}

/// Visits the writes of a log block.
fn each_write(
    entries: &[Entry<'_>],
    visit: &mut dyn FnMut(&LoggedWrite<'_>),
) -> std::result::Result<(), Refused> {
    for (entry, Entry { body, .. }) in entries.iter().enumerate() {
        for write in Writes(body) {
            visit(&write.map_err(|detail| Refused { entry, detail })?);
        }
    }
    Ok(())
}

/// Visits key and value of each row in a checkpoint block.
fn each_row_of(
    entries: &[Entry<'_>],
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> std::result::Result<(), Refused> {
    entries.iter().enumerate().try_for_each(|(entry, Entry { body, .. })| {
        let row =
            checkpoint_entry::decode(body).map_err(|detail| Refused { entry, detail: detail.to_owned() })?;
        visit(row.0, row.1);
        Ok(())
    })
}

/// Recovery target of [`inspect`]. It rebuilds the rows, and counts the before-images of each table.
struct Counting {
    replay: Replay,
    images: Mutex<BTreeMap<u32, u64>>,
}

impl Recoverable for Counting {
    fn replay(&self, entries: &[Entry<'_>]) -> std::result::Result<(), Refused> {
        // Each count is valid at any time, also after a panic.
        let mut images = self.images.lock();
        each_write(entries, &mut |write| {
            if write.before != Before::NotRecorded {
                *images.entry(write.table).or_default() += 1;
            }
        })?;
        self.replay.replay(entries)
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> std::result::Result<(), Refused> {
        self.replay.load(section, entries)
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        key_of(body)
    }

    fn advance_watermark(&self, epoch: Epoch) {
        self.replay.advance_watermark(epoch);
    }
}

/// Recovery target of [`changes`]. It keeps the names of all tables by id, also of removed tables.
struct Names(Mutex<BTreeMap<u32, String>>);

impl Names {
    /// Notes the name of the table with this definition. Ignores a definition that does not decode.
    fn note(&self, name: &[u8], definition: &[u8]) {
        if let Some(Definition { id, .. }) = Definition::decode(definition) {
            let mut names = self.0.lock();
            names.insert(id, String::from_utf8_lossy(name).into_owned());
        }
    }
}

impl Recoverable for Names {
    fn replay(&self, entries: &[Entry<'_>]) -> std::result::Result<(), Refused> {
        each_write(entries, &mut |write| {
            if let (CATALOG_ID, Some(definition)) = (write.table, write.value) {
                self.note(write.key, definition);
            }
        })
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> std::result::Result<(), Refused> {
        each_row_of(entries, &mut |name, definition| {
            if section == CATALOG_ID {
                self.note(name, definition);
            }
        })
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        key_of(body)
    }
}

/// Facts about recovered trees, with names from the catalogue.
fn tables_of(trees: &mut Trees) -> Vec<TableFacts> {
    let mut tables: BTreeMap<u32, TableFacts> = BTreeMap::new();
    for (&id, tree) in &mut *trees {
        let table = tables.entry(id).or_insert_with(|| TableFacts { id, ..TableFacts::default() });
        each_row(tree, &mut |key, value| {
            table.rows += 1;
            table.bytes += (key.len() + value.len()) as u64;
        });
    }
    if let Some(catalog) = tables.get_mut(&CATALOG_ID) {
        catalog.name = Some(CATALOG_NAME.to_owned());
    }
    if let Some(tree) = trees.get_mut(&CATALOG_ID) {
        each_row(tree, &mut |name, definition| {
            let Some(definition) = Definition::decode(definition) else { return };
            let Definition { id, key_type, value_type, value_layout, indexes } = definition;
            let table = tables.entry(id).or_insert_with(|| TableFacts { id, ..TableFacts::default() });
            table.name = Some(String::from_utf8_lossy(name).into_owned());
            (table.key_type, table.value_type, table.value_layout) = (key_type, value_type, value_layout);
            table.indexes = indexes.into_iter().map(|index| index.name).collect();
        });
    }
    tables.into_values().collect()
}

/// Visits every row of a recovered tree.
fn each_row(tree: &mut sync::Arc<RecordTree>, visit: &mut dyn FnMut(&[u8], &[u8])) {
    const ALL: Range<'static> = Range { lower: Bound::Unbounded, upper: Bound::Unbounded };
    let tree = sync::Arc::get_mut(tree).expect("replay is over, so its threads have given their trees back");
    let mut rows = RowVisitor { scratch: Scratch::default(), visit };
    tree.scan_alone(ALL, Direction::Forward, &mut rows);
}

/// Scan visitor of [`each_row`]. It skips absent records.
struct RowVisitor<'v> {
    scratch: Scratch,
    visit: &'v mut dyn FnMut(&[u8], &[u8]),
}

impl<'p> RecordVisitor<'p> for RowVisitor<'_> {
    fn witness(&mut self, _witness: LeafWitness<'p>) {}

    fn entry(&mut self, key: &[u8], record: Record<'p>) -> ControlFlow<()> {
        if matches!(record.read(&mut self.scratch), Seen::Present(_)) {
            (self.visit)(key, self.scratch.bytes());
        }
        ControlFlow::Continue(())
    }
}
