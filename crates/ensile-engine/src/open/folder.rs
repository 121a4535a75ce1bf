//! A database's folder looked at, or repaired, without opening the database.
//!
//! [`verify`] reads every byte and judges it as an open would; [`inspect`] also lists the tables and counts their rows,
//! which it rebuilds in memory; [`repair`] cuts a damaged folder to its last consistent epoch; [`changes`] reads the
//! log as a sequence of changes; [`adopt`] makes a copy a database of its own. None of these runs while a process has
//! the database open, except [`lease`], which keeps files from being removed while they are read, and [`backup`].
//! [`verify`] and [`inspect`] write nothing: a folder that may only be read will do.
//!
//! Neighbours: the durability crate has the files; this module knows what their entries mean. The `ensile` command
//! prints it.

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
#[cfg(feature = "object-store")]
pub use ensile_durability::SharedObjects;
use ensile_durability::archived::ArchiveRestore;
pub use ensile_durability::archived::{ArchiveFacts, ArchivedGeneration, EpochSpan, RestoredFromArchive};
pub use ensile_durability::examine::{
    AgeFacts, BackupFacts, CheckpointFacts, Damage, Examination, FileFacts, GenerationFacts, Loss,
    PageFileFacts, PictureFacts, RangeFacts, Remedy, RepairOptions, Repaired, Role, SectionFacts, Unread,
};
pub use ensile_durability::{
    AdoptOptions, Adopted, Archiving, CopyOptions, CopyPhase, CopyProgress, CopyReport, Creation, Lease,
    LeasedFile, NotProven, NotProvenReason, RememberedStore, SharedFolder, SharedObject, SharedStore,
    SharedStoreError, SharedUpload, ShippingConfig, ShippingStats, TakeOverReport, UnprovenEntries,
    UnprovenFile, WhenFenced,
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

/// A table as the folder holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// Its number in the files.
    pub id: u32,
    /// Its name; `None` if the catalogue does not name it.
    pub name: Option<String>,
    /// The type of its keys.
    pub key_type: String,
    /// The type of its values.
    pub value_type: String,
    /// Its secondary indexes, which are not in the files but built at open.
    pub indexes: Vec<String>,
    /// Its rows.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Writes to it in the log that record what they replaced
    /// ([`Builder::before_images`](crate::Builder::before_images)).
    pub before_images: u64,
}

/// A write in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'c> {
    /// The transaction's TID, which contains its epoch. Transactions that have nothing to do with each other may have
    /// the same TID.
    pub tid: Tid,
    /// Its place among its transaction's writes: 0 begins a transaction.
    pub write: usize,
    /// The table's number in the files.
    pub table: u32,
    /// The table's name; `None` if the catalogue does not name it.
    pub table_name: Option<&'c str>,
    /// The encoded key.
    pub key: &'c [u8],
    /// What it replaced.
    pub before: Before<'c>,
    /// The encoded value; `None`: the key was deleted.
    pub after: Option<&'c [u8]>,
}

/// Reads every byte of the folder and judges it as an open would.
///
/// # Errors
/// [`Error::Durability`](crate::Error::Durability) if the folder is not there, cannot be read, or is in use. Damage is
/// no error: it is what the answer is about. Nor is a file that cannot be read: it is in [`Examination::unread`]. A
/// folder of an application's own objects is no database's: [`DurabilityError::OtherEntries`].
pub fn verify(path: &Path) -> Result<Examination> {
    let disk = existing(path)?;
    Ok(ensile_durability::examine::examine(&disk, &Framing)?)
}

/// As [`verify`], and lists the tables. It lists none where something is damaged, as their rows would be a guess.
///
/// # Errors
/// As for [`verify`].
pub fn inspect(path: &Path) -> Result<(Examination, Vec<TableFacts>)> {
    let disk = existing(path)?;
    // The rows live in it.
    let memory = Memory::new(&MemoryConfig::default());
    let target = Counting { replay: Replay::new(&memory, false), images: Mutex::default() };
    let found = ensile_durability::examine::examine(&disk, &target)?;
    let mut trees = target.replay.finish().trees;
    let mut tables = if found.is_whole() { tables_of(&mut trees) } else { Vec::new() };
    let images = target.images.into_inner();
    for table in &mut tables {
        table.before_images = images.get(&table.id).copied().unwrap_or(0);
    }
    Ok((found, tables))
}

/// Shows the durable writes in the log in the order of their TIDs, until `visit` breaks. For each key this is the order
/// in which they happened; over all keys it is the order of the epochs. (Within an epoch a TID is above the TIDs of
/// what its transaction read and overwrote. It is not always above the TIDs of transactions that read what it
/// overwrote. So an application that applies changes elsewhere should show them epoch by epoch.) Changes that an
/// installed checkpoint covers are left out: from its first epoch on, no change is missing. If something is damaged,
/// nothing is shown and the examination says what.
///
/// All files are read before the first change is shown, as [`verify`] does; memory is taken by the changes of a few
/// epochs. If the last process ended without a close, the end of its log is written and synced once more first. So the
/// next open finds what is shown here, even if the power fails in between.
///
/// # Errors
/// As for [`verify`].
pub fn changes(path: &Path, visit: &mut dyn FnMut(&Change<'_>) -> ControlFlow<()>) -> Result<Examination> {
    let disk = existing(path)?;
    let names = Names(Mutex::new(BTreeMap::from([(CATALOG_ID, CATALOG_NAME.to_owned())])));
    let mut show = |Entry { tid, body }: Entry<'_>| {
        let names = names.0.lock();
        // Their form was checked when the names were read.
        for (at, write) in Writes(body).flatten().enumerate() {
            let LoggedWrite { table, key, value: after, before } = write;
            let table_name = names.get(&table).map(String::as_str);
            visit(&Change { tid, write: at, table, table_name, key, before, after })?;
        }
        ControlFlow::Continue(())
    };
    Ok(ensile_durability::examine::visit_log(&disk, &names, &mut show)?)
}

/// Is this the folder of an archive ([`Builder::archive`](crate::Builder::archive)), and not a database's?
#[must_use]
pub fn is_archive(path: &Path) -> bool {
    ensile_durability::archived::is_archive(path)
}

/// What can be had from an archive: reads the headers of its files. A database may be adding some meanwhile.
///
/// # Errors
/// [`Error::Durability`](crate::Error::Durability) if the folder is not there or cannot be read, or its list is
/// damaged; [`Error::Misuse`](crate::Error::Misuse) if it is no archive. A damaged file is no error: the answer names
/// it.
pub fn inspect_archive(path: &Path) -> Result<ArchiveFacts> {
    Ok(ensile_durability::archived::inspect_archive(&existing(path)?)?)
}

/// As [`inspect_archive`], and reads every byte of it.
///
/// # Errors
/// As for [`inspect_archive`].
pub fn verify_archive(path: &Path) -> Result<ArchiveFacts> {
    Ok(ensile_durability::archived::verify_archive(&existing(path)?, &Framing)?)
}

/// Makes a new database in `folder`, which is empty or not there, as the one with this archive was at the end of an
/// epoch. The archive must have been begun with the database: else it needs a backup to begin with. The epoch is one
/// that was durable and counted; [`inspect_archive`] says what can be had. Everything that is taken is read once more
/// before this returns.
///
/// # Errors
/// [`Error::Durability`](crate::Error::Durability) if the archive does not have that, naming what can be had, or if
/// something is damaged, or the folder is not empty; [`Error::Misuse`](crate::Error::Misuse) if there is no archive.
/// Nothing counts in the folder then.
pub fn restore_from_archive(archive: &Path, folder: &Path, epoch: Epoch) -> Result<RestoredFromArchive> {
    restore_from_archive_with(archive, folder, epoch, None, &mut |_| ControlFlow::Continue(()))
}

/// As [`restore_from_archive`], but writes, and reads once more, at most `bytes_per_second`. `watch` is called between
/// any two pieces, and while the rate has no room; the restore is cancelled if it breaks. One that was cancelled is run
/// again, or the folder removed.
///
/// # Errors
/// As for [`restore_from_archive`]; also if it was cancelled.
pub fn restore_from_archive_with(
    archive: &Path,
    folder: &Path,
    epoch: Epoch,
    bytes_per_second: Option<u64>,
    watch: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
) -> Result<RestoredFromArchive> {
    let archive = existing(archive)?;
    let restore = ArchiveRestore::of(&archive, epoch)?;
    let restore = restore.paced(bytes_per_second, Clock::machine())?;
    // Where nothing can be had the folder is not made.
    let target = RestoreTarget::open(folder, &[&*archive])?;
    let mut stopped = Ok(());
    let made = restore.make(target.disk(), &Framing, &mut |progress, wait| {
        pause_copy(wait, ask(progress, watch), &mut stopped)
    });
    let is_cancelled = stopped.is_err();
    target.ended(stopped.and(made.map_err(Error::from)), is_cancelled)
}

/// Cuts a damaged folder to its last consistent epoch, and keeps a copy of what it cuts. `None` if nothing is damaged.
/// Before it returns it has read the whole folder once more, and found it whole.
///
/// # Errors
/// As for [`verify`]; if a log's folder is missing as a whole, as its device may not be mounted; if no consistent state
/// can be had from what is there, or something cannot be read: the message says why; and if something is damaged after
/// the cut.
pub fn repair(path: &Path) -> Result<Option<Repaired>> {
    Ok(ensile_durability::examine::repair(&existing(path)?, &Framing)?)
}

/// As [`repair`], and gives up what is asked for. A log's folder that is missing as a whole: with all that it held and
/// all that came after it in the other logs; make sure first that its device is not merely unmounted. All of the log,
/// where no cut of it helps: the installed picture is then kept alone.
///
/// # Errors
/// As for [`repair`]; also if the picture alone is to be kept, and a cut of the log keeps more.
pub fn repair_with(path: &Path, options: RepairOptions) -> Result<Option<Repaired>> {
    Ok(ensile_durability::examine::repair_with(&existing(path)?, &Framing, options)?)
}

/// Makes a folder that was copied, restored or moved a database of its own: it gets a new identity, and the old one as
/// its parent. Until then an open refuses it, as the original may be in use. Its rows are those of the copy.
///
/// # Errors
/// [`Error::Durability`](crate::Error::Durability) if the folder is in use, has no database, or has links to folders of
/// the original: copy those too and point the links to the copies. Also, as
/// [`DurabilityError::WouldLose`](crate::DurabilityError::WouldLose), if a life with
/// [`Durability::Process`](crate::Durability::Process) was not closed, and the copy proves less than that had returned.
/// [`Error::Misuse`](crate::Error::Misuse) if its files are hard links. Nothing was changed then.
pub fn adopt(path: &Path) -> Result<Adopted> {
    adopt_with(path, AdoptOptions::default())
}

/// As [`adopt`], and gives up what is asked for: [`Adopted::not_proven`] says what that was.
///
/// # Errors
/// As for [`adopt`].
pub fn adopt_with(path: &Path, options: AdoptOptions) -> Result<Adopted> {
    Ok(ensile_durability::adopt_with(&existing(path)?, options)?)
}

/// Keeps the files of a database, which may be open in any process, from being removed while they are read, and opens
/// them. A removal waits for a minute at most: [`Lease::has_all_names`] tells whether all files are still there.
///
/// The database goes on writing to its last log files. `HINT` may say more than the log files that the lease has: a
/// copy leaves it out.
///
/// # Errors
/// [`Error::Durability`](crate::Error::Durability) if the folder has no database or cannot be read, or while it is
/// being opened: try again.
pub fn lease(path: &Path) -> Result<Lease> {
    Ok(ensile_durability::lease(&existing(path)?)?)
}

/// What the catalogue itself is called here.
const CATALOG_NAME: &str = "the catalogue";

fn existing(path: &Path) -> Result<Arc<dyn Disk>> {
    Ok(Arc::new(RealDisk::existing(path).map_err(DurabilityError::from)?))
}

/// Takes entries apart and keeps nothing.
struct Framing;

impl Recoverable for Framing {
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

/// Visits the rows of a checkpoint block.
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

/// Rebuilds the rows, and counts the before-images of each table.
struct Counting {
    replay: Replay,
    images: Mutex<BTreeMap<u32, u64>>,
}

impl Recoverable for Counting {
    fn replay(&self, entries: &[Entry<'_>]) -> std::result::Result<(), Refused> {
        // Each number is whole at every point.
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

    fn passed(&self, epoch: Epoch) {
        self.replay.passed(epoch);
    }
}

/// Takes entries apart and keeps the names of tables: those that there were, whether or not they are there still.
struct Names(Mutex<BTreeMap<u32, String>>);

impl Names {
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

/// What is in recovered trees, by the catalogue among them.
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
            let Some(Definition { id, key_type, value_type, indexes }) = Definition::decode(definition)
            else {
                return;
            };
            let table = tables.entry(id).or_insert_with(|| TableFacts { id, ..TableFacts::default() });
            table.name = Some(String::from_utf8_lossy(name).into_owned());
            (table.key_type, table.value_type) = (key_type, value_type);
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
