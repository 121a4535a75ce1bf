//! Snapshot transactions: read-only, slightly in the past, never in conflict (Silo §4.9).
//!
//! Invariants: S1 — snapshot S shows the versions with an epoch below S and was served with `E >= S+1`. Each call pins
//! anew and descends again, long scans batch by batch (E4), so that only versions wait for a snapshot, up to a limit.
//! R1 — the rows that a snapshot has shown are durable once the largest epoch among them is durable, including epochs
//! of deletes. A key without any record rests only on durable commits (`docs/internals/protocols/records.md`, U2).
//!
//! Neighbours: applications call [`Database::snapshot`](crate::Database::snapshot) and read with `typed_api`; `session`
//! has the kept data; snapshots read through `read_path`.

use std::collections::vec_deque::Iter;

use ensile_base::Epoch;
use ensile_durability::{DurabilityError, UserCode};
use ensile_index::{Direction, Range};

use crate::codec::KeyBuffer;
use crate::database::{Database, DatabaseRef};
use crate::error::{Error, Result};
use crate::read_path::{self, RawRead, Reader, RowSource, ScanRange, VersionRead};
use crate::record::pin_scope::Boundary;
use crate::record::{CopyTarget, Fetch, KeptRow, LeafWitness, Record};
use crate::session;
use crate::sets::context::{Context, SnapshotContext};
use crate::sets::rows::{BatchAsked, RowBatch};
use crate::sets::write_set::WriteSet;
use crate::tables::TableCore;

/// A consistent view of the database as of a recent boundary: a third of a second old at most, at the default interval.
///
/// A snapshot never conflicts. The database ends an open snapshot if more garbage waits for the snapshot than
/// `Builder::garbage_bytes_max` allows: the next call returns [`Error::Expired`](crate::Error::Expired).
pub struct Snapshot<'db> {
    database: DatabaseRef<'db>,
    /// Pin and context, until the drop.
    kept: Option<SnapshotContext>,
    boundary: Epoch,
    /// The largest epoch of a shown version, including absent versions (R1).
    shown: Epoch,
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { boundary, shown, .. } = self;
        f.debug_struct("Snapshot").field("boundary", boundary).field("shown", shown).finish_non_exhaustive()
    }
}

/// Reads versions of one boundary, and remembers only the largest epoch.
struct VersionReader<'s, 'p> {
    boundary: Boundary<'p>,
    shown: &'s mut Epoch,
}

impl<'p> Reader<'p> for VersionReader<'_, 'p> {
    const SEES_SIDE_INDEX: bool = true;

    // Always inlined: a call would be a sixth of the work, and a snapshot's scans consist of the few callers.
    #[inline(always)]
    fn read(&mut self, record: Record<'p>, scratch: &mut impl CopyTarget) -> VersionRead {
        // No version is old enough. The side index may have an older delete; else the key's absence was durable (U2).
        let Some(word) = record.read_version(self.boundary, scratch) else { return VersionRead::Unborn };
        // A placeholder stands in front of a buried record, perhaps.
        if word.is_placeholder() {
            return VersionRead::Unborn;
        }
        *self.shown = word.epoch().max(*self.shown);
        VersionRead::from_presence(!word.is_absent())
    }

    fn witness(&mut self, _witness: LeafWitness<'p>) {}

    fn write_set(&self) -> Option<&WriteSet<'p>> {
        None
    }

    #[inline]
    fn mark(&self) -> u64 {
        self.shown.number()
    }
}

impl Database {
    /// A snapshot transaction: read-only, as of the newest boundary, at most about one snapshot interval old, never in
    /// conflict (Silo §4.9).
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable, Result};
    /// # fn main() -> Result<()> {
    /// let db = Database::in_memory()?;
    /// let accounts = db.table::<u64, u64>("accounts")?;
    /// db.run(|tx| {
    ///     tx.put(&accounts, &1, &70)?;
    ///     tx.put(&accounts, &2, &30)
    /// })?;
    /// let mut snapshot = db.snapshot()?;
    /// let total = snapshot.range(&accounts, ..).map(|row| row.map(|row| row.1)).sum::<Result<u64>>()?;
    /// assert!(total == 0 || total == 100, "a moment ago there were no accounts, or both");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] if snapshots were switched off, [`Error::Closed`].
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        self.shared().life.check_open()?;
        if !self.shared().settings.snapshots {
            return Err(Error::Misuse("snapshots are switched off: see Builder::snapshots".to_owned()));
        }
        Ok(Snapshot::open(DatabaseRef::Borrowed(self.shared())))
    }

    /// A snapshot transaction that shows every commit before this call. The call makes a boundary as soon as a boundary
    /// may follow the last, and waits until the boundary is served. The wait takes three epochs at most, and these
    /// epochs are closed early.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let accounts = db.table::<u64, u64>("accounts")?;
    /// db.run(|tx| tx.put(&accounts, &1, &100))?;
    /// let mut snapshot = db.snapshot_latest()?;
    /// db.run(|tx| tx.put(&accounts, &1, &0))?;
    /// assert_eq!(snapshot.get(&accounts, &1)?, Some(100), "what is written later is not in it");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Database::snapshot`].
    pub fn snapshot_latest(&self) -> Result<Snapshot<'_>> {
        self.shared().life.check_open()?;
        let shared = self.shared();
        if !shared.settings.snapshots {
            return self.snapshot();
        }
        let seen = shared.epochs.now();
        let is_served = || shared.epochs.served_snapshot() > seen;
        if shared.advance_until(is_served, |epochs, now| epochs.try_advance_to_boundary(now, seen)) {
            // The thread that begins a boundary scans once the boundary is served (V1); others wait for the same
            // boundary.
            if shared.epochs.has_boundary_ahead() {
                shared.epochs.scan();
            }
            return self.snapshot();
        }
        // E stands still: another thread has closed the database, or no more epochs are reserved.
        shared.life.check_open()?;
        let reason = "no snapshot of what was committed last can be served".into();
        Err(DurabilityError::EpochsEnded(reason).into())
    }
}

impl<'db> Snapshot<'db> {
    /// Begins a snapshot of the newest boundary.
    fn open(database: DatabaseRef<'db>) -> Self {
        let (kept, boundary) = session::take_unattached(&database).begin_snapshot(&database);
        Self { database, kept: Some(kept), boundary, shown: Epoch::ZERO }
    }

    /// The boundary: the snapshot shows every commit of an earlier epoch and no commit of this or a later epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.boundary
    }

    /// The largest epoch of the versions shown so far, including deleted keys. Once this epoch is durable, all shown
    /// rows are durable (R1). Zero while the snapshot has shown no written key.
    #[must_use]
    pub fn shown_epoch(&self) -> Epoch {
        self.shown
    }

    /// Waits until everything that this snapshot has shown so far is durable (R1). If everything is durable already,
    /// the call returns at once, on a full disk and after a failure of the log too.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage) if the log stopped before.
    pub fn durable(&self) -> Result<()> {
        UserCode::check_outside()?;
        self.database.life.check_process()?;
        // Without a log an absent key may have no record any more. Epochs of the boundary or above were not shown
        // (N19).
        let unhooked = match self.database.settings.is_without_log {
            true => self.database.unhooked.newest().min(self.boundary.previous()),
            false => Epoch::ZERO,
        };
        self.database.storage.wait_durable(self.shown.max(unhooked))
    }

    /// The database, the pin and context, and the largest epoch shown so far, as separate borrows.
    fn parts(&mut self) -> (&DatabaseRef<'db>, &mut SnapshotContext, &mut Epoch) {
        let Some(kept) = &mut self.kept else { unreachable!("taken by drop only") };
        (&self.database, kept, &mut self.shown)
    }
}

impl RawRead for Snapshot<'_> {
    fn raw_get<R>(
        &mut self,
        table: &TableCore,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let (shared, kept, shown) = self.parts();
        shared.life.check_table(table)?;
        shared.prepare_side(table);
        let present = kept.enter(shared.epochs.now(), |pinned, boundary, Context { scratch, .. }| {
            let mut reader = VersionReader { boundary, shown };
            read_path::lookup(&mut reader, table, key, None, scratch, pinned)
        })?;
        Ok(kept.run_outside_call(|Context { scratch, .. }| present.then(|| read(scratch.bytes()))))
    }

    fn raw_get_many(
        &mut self,
        table: &TableCore,
        keys: impl Iterator<Item = KeyBuffer>,
        read: impl FnOnce(&RowBatch),
    ) -> Result<()> {
        let (shared, kept, shown) = self.parts();
        shared.life.check_table(table)?;
        shared.prepare_side(table);
        kept.run_outside_call(|context| context.descents.begin_many(keys));
        kept.enter(shared.epochs.now(), |pinned, boundary, Context { descents, rows, .. }| {
            // Only the header is prefetched: often the read needs an older version than the record.
            let mut places = descents.descend(table, Fetch::HEADER, pinned);
            // A record superseded now still leads to the boundary's version. A key without a version in the index has
            // its version in the side index, if it has one (U3).
            let (rows, list) = rows.begin(BatchAsked::FOUND, false);
            let mut reader = VersionReader { boundary, shown };
            let versions = descents.versions(&mut places, boundary, table.fetch, pinned);
            list.found_rows(versions.zip(descents.keys()).map(|(version, key)| {
                let read = version.map_or(VersionRead::Unborn, |version| reader.read(version, rows));
                let is_present = match read {
                    VersionRead::Unborn => read_path::lookup_aside(&mut reader, table, key, rows, pinned),
                    read => read == VersionRead::Present,
                };
                if is_present { rows.keep() } else { KeptRow::NONE }
            }));
            descents.end_many(places);
        })?;
        kept.run_outside_call(|context| context.show_rows_once(read));
        Ok(())
    }

    /// Each batch has a pin of its own, and descends again: a long scan holds back only versions (E4).
    fn raw_batch<R>(
        &mut self,
        source: RowSource<'_>,
        range: Range<'_>,
        direction: Direction,
        asked: BatchAsked,
        read: impl FnOnce(&RowBatch) -> R,
    ) -> Result<R> {
        let (shared, kept, shown) = self.parts();
        shared.life.check_table(source.table)?;
        shared.prepare_side(source.table);
        let scanned = source.table_to_scan();
        shared.prepare_side(scanned);
        kept.enter(shared.epochs.now(), |pinned, boundary, Context { scratch, rows, scan_key, .. }| {
            let mut reader = VersionReader { boundary, shown };
            let (rows, list) = rows.begin(asked, source.index.is_some());
            let scan =
                ScanRange { table: scanned, range, direction, own: Iter::default(), key_buffer: scan_key };
            read_path::copy_rows(&mut reader, source, scan, scratch, pinned, rows, list);
        })?;
        Ok(kept.run_outside_call(|context| context.show_rows(read)))
    }

    #[inline]
    fn rows<R>(&mut self, read: impl FnOnce(&mut RowBatch) -> R) -> R {
        let (_shared, kept, _shown) = self.parts();
        kept.run_outside_call(|context| read(&mut context.rows))
    }

    /// Rows that were copied and not shown do not count as shown (R1).
    fn forget_behind(&mut self, mark: u64) {
        debug_assert!(mark <= self.shown.number(), "a mark lies behind what was read");
        self.shown = Epoch::new(mark);
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.kept.take().into_iter().for_each(session::end_snapshot);
    }
}
