//! Restore of a new database from an archive alone, if the archive is complete from the beginning.
//!
//! ```text
//! manifest, creating --> log0, one file with all entries up to X, synced --> it is read --> manifest, created
//! ```
//! Invariants: I2, N24: until the last step the folder is an unfinished restore. L4: the database is closed at X.
//!
//! Neighbours: `archive_source` writes the file; a backup's copy does the same beside a picture. The engine calls for a
//! restore that has no backup.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_disk::Disk;

use super::archive_source::ArchiveSource;
use crate::control::pace::WritePace;
use crate::copy_progress::{ArchivePiece, CopyPhase, CopyProgress};
use crate::error::unless_missing;
use crate::files::archive_list::ArchiveList;
use crate::files::block::{FORMAT, Salt};
use crate::files::manifest::creation_marker::UnfinishedCopy;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::{Making, Manifest};
use crate::files::names::{SegmentFile, log_folder};
use crate::identity::Identity;
use crate::store::Opening;
use crate::store::claim::{Wanted, claim};
use crate::store::open::Store;
use crate::{DurabilityError, EntryKind, Recoverable, Result};

/// Result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoredFromArchive {
    /// Identity of the new database, 32 hex digits.
    pub database: String,
    /// Identity of the archived database, 32 hex digits.
    pub parent: String,
    /// Epoch of the restored state: the state at the end of this epoch.
    pub epoch: Epoch,
    /// Last epoch with every entry that counted in the archive.
    pub durable: Epoch,
    /// Number of restored log entries.
    pub entries: u64,
    /// Number of written bytes.
    pub bytes: u64,
}

/// Checked archive that can restore an epoch.
#[derive(Debug)]
pub struct ArchiveRestore {
    source: ArchiveSource,
    parent: Identity,
    pace: WritePace,
    clock: Clock,
}

impl ArchiveRestore {
    /// Checks, without a write, that the archive on `archive` alone, begun with its database, can restore epoch `to`.
    ///
    /// # Errors
    /// [`DurabilityError::NotInArchive`] if data is missing, or if no result that counted had such an epoch;
    /// [`DurabilityError::Config`] without an archive; [`DurabilityError::Damaged`] for its list; the disk's.
    pub fn from_archive(archive: &Arc<dyn Disk>, to: Epoch) -> Result<Self> {
        let parent = parent_of(&**archive)?;
        let source = ArchiveSource::open(archive, parent, to)?;
        // The state before the first epoch has no row.
        source.check_reaches(Epoch::ZERO)?;
        Ok(Self { source, parent, pace: WritePace::new(None), clock: Clock::machine() })
    }

    /// Limits the restore to `bytes_per_second` of writing and reading again, by this clock. `None` means no limit.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] for 0.
    pub fn with_rate_limit(self, bytes_per_second: Option<u64>, clock: Clock) -> Result<Self> {
        if bytes_per_second == Some(0) {
            return Err(DurabilityError::config("a restore that may write 0 bytes a second never ends"));
        }
        Ok(Self { pace: WritePace::new(bytes_per_second), clock, ..self })
    }

    /// Makes the database in the empty folder on `target`. `verifier` receives the entries as in a recovery. After a
    /// piece, `pause` receives the progress, and the time until the rate has room for the next piece. `pause` waits for
    /// that time or less, and is called again until the rate has room. If `pause` breaks, the restore is cancelled.
    ///
    /// # Errors
    /// [`DurabilityError::Cancelled`] if `pause` breaks; [`DurabilityError::DatabaseExists`] or
    /// [`DurabilityError::NotADatabase`] if the folder is not empty; [`DurabilityError::Damaged`] for the archive;
    /// [`DurabilityError::TargetFailed`] if the target reads back different bytes; [`DurabilityError::Replay`] for a
    /// refused entry, with its place in the archive; the disks'. After an error the target's contents do not count.
    pub fn make(
        self,
        target: &Arc<dyn Disk>,
        verifier: &dyn Recoverable,
        pause: &mut dyn FnMut(&CopyProgress, Duration) -> ControlFlow<()>,
    ) -> Result<RestoredFromArchive> {
        let Self { source, parent, mut pace, clock } = self;
        let copy = UnfinishedCopy::Restore { of: parent };
        let Store { disk, mut keeper, mut locks } =
            Store::open_for_copy(Arc::clone(target), Opening::New, copy)?;
        locks.extend(claim(&mut keeper, &[Wanted { count: 1, links: &[], name: log_folder }])?.0);
        remove_remains(&*disk, keeper.manifest())?;
        let identity = keeper.manifest().identity;
        assert_ne!(identity, parent, "I1: it is another database");
        let begun = empty_manifest(keeper.manifest(), parent, verifier.entries());
        let mut progress = CopyProgress::new(CopyPhase::Archive);
        let mut spend = |piece: ArchivePiece| {
            progress.took(&piece);
            match pace.spend_by_pieces(piece.bytes(), &clock, &mut |wait| pause(&progress, wait)) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(DurabilityError::Cancelled),
            }
        };
        let (next, taken) = source.write_log_after(&disk, begun, Epoch::ZERO, verifier, &mut spend)?;
        keeper.replace(next)?;
        let (entries, bytes) = taken.map_or((0, 0), |taken| (taken.entries, taken.bytes));
        Ok(RestoredFromArchive {
            database: identity.to_string(),
            parent: parent.to_string(),
            epoch: source.target_epoch(),
            durable: source.durable(),
            entries,
            bytes,
        })
    }
}

/// Restores the archived database on `archive`, at the end of epoch `to`, into the empty folder on `target`.
///
/// # Errors
/// As for [`ArchiveRestore::from_archive`] and [`ArchiveRestore::make`].
pub fn restore_from_archive(
    archive: &Arc<dyn Disk>,
    target: &Arc<dyn Disk>,
    to: Epoch,
    verifier: &dyn Recoverable,
) -> Result<RestoredFromArchive> {
    ArchiveRestore::from_archive(archive, to)?.make(target, verifier, &mut |_, _| ControlFlow::Continue(()))
}

fn parent_of(archive: &dyn Disk) -> Result<Identity> {
    let place = archive.folder_place("")?;
    let list = ArchiveList::read(archive, "")?;
    let none = || DurabilityError::config(format!("{} is not an archive", place.display()));
    list.map(|list| list.database).ok_or_else(none)
}

/// Removes the remains of a killed restore from an unfinished database.
fn remove_remains(disk: &dyn Disk, manifest: &Manifest) -> Result<()> {
    assert_eq!(manifest.state, Making::Creating, "I2: nothing in it counts");
    let folder = log_folder(0);
    for file in disk.list(&folder)?.iter().filter(|file| SegmentFile::parse(0, file).is_some()) {
        unless_missing(disk.remove(&format!("{folder}/{file}")))?;
    }
    Ok(disk.sync_folder(&folder)?)
}

/// Manifest of a database without a row. The open generation has no log.
fn empty_manifest(before: &Manifest, parent: Identity, entries: EntryKind) -> Manifest {
    assert_eq!(before.state, Making::Creating, "I2: nothing counts before this");
    let open = Generation {
        number: 1,
        first: Epoch::FIRST,
        format: FORMAT,
        entries,
        logs: 0,
        salt: Salt::draw(&mut Random::unpredictable()),
        database: before.identity,
        durable: None,
        spans: Vec::new(),
    };
    let (parent, unfinished, generations) = (Some(parent), None, vec![open]);
    Manifest { parent, state: Making::Created, unfinished, generations, ..before.clone() }
}
