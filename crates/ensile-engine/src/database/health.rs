//! Figures and health of a database, computed at the call.
//!
//! Neighbours: counters of workers, and figures of the durability crate and of the memory.

use ensile_base::Epoch;
use ensile_base::sync::Ordering;
use ensile_durability::{CheckpointStats, Health, LogStats, ShippingStats};
use ensile_memory::{MemoryRoom, MemoryStats, MemoryUse};

use crate::database::Database;
use crate::shared_state::SharedState;

/// Figures of a database since its open.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// Number of committed transactions, including read-only transactions; snapshots do not count.
    pub commits: u64,
    /// Number of failed commits: conflicts, with or without a retry.
    pub aborts: u64,
    /// Number of repeated runs of closures, after a conflict or a lack of memory.
    pub retries: u64,
    /// Number of exclusive turns of closures with many conflicts: no other commit takes effect during a turn (P1).
    pub turns: u64,
    /// Number of transactions and snapshots that ended because too much garbage waited for them.
    pub expired: u64,
    /// The global epoch.
    pub epoch: Epoch,
    /// The durable epoch; without a log, the epoch of the last picture; `None` in memory.
    pub durable_epoch: Option<Epoch>,
    /// Epoch of the newest readable snapshot.
    pub snapshot_epoch: Epoch,
    /// Bytes of replaced records, of index nodes and of former pictures' page maps that open transactions may still
    /// reach.
    pub garbage_pinned_bytes: u64,
    /// Bytes of old versions kept for snapshots or until the end of current commits, and of deleted rows that wait for
    /// snapshots and for D.
    pub garbage_version_bytes: u64,
    /// Number of objects that wait for their release or removal.
    pub garbage_things: u64,
    /// Bytes of displaced versions that a consistent checkpoint under way still needs. The figure grows at the first
    /// change of a row after the picture's freeze: by its key, its value and 32 bytes, in a block of the next size. A
    /// row of 300 bytes takes 352 bytes. The device's progress frees the versions, or, without
    /// [`Tuning::semi_fuzzy`](crate::Tuning::semi_fuzzy), the progress from page to page. The bytes do not count
    /// against [`Builder::garbage_bytes_max`](crate::Builder::garbage_bytes_max), but have their own limit,
    /// [`Tuning::displaced_bytes_max`](crate::Tuning::displaced_bytes_max). Copies made by a transaction before its
    /// commit count in `memory` only: at most the size of the transaction's changes.
    pub displaced_bytes: u64,
    /// Peak of `displaced_bytes`. Both figures may be a little too low, because versions displaced and freed during a
    /// read do not count.
    pub displaced_bytes_peak: u64,
    /// Memory for records and index nodes.
    pub memory: MemoryStats,
    /// Figures of the log; `None` in memory, all zero in a database without a log.
    pub log: Option<LogStats>,
    /// State of the log; `None` in memory. Without a log, the state of durability by pictures.
    pub log_health: Option<Health>,
    /// Reason why the archive cannot be written, until a write succeeds: the log is kept for the archive, and grows. Or
    /// the name of a damaged log file that is missing in the archive, with the remedy. `None` without an error.
    pub archive_error: Option<String>,
    /// Figures of shipping, if finished files go to a shared store.
    pub shipping: Option<ShippingStats>,
    /// Figures of checkpoints; `None` in memory.
    pub checkpoints: Option<CheckpointStats>,
}

/// Obstacles to the work of a database: see [`Database::health`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DatabaseHealth {
    /// State of the log: running, waiting for space, or stopped; `None` in memory. Without a log, the state of
    /// durability by pictures.
    pub log: Option<Health>,
    /// Reason for read-only operation: at open the disk was too full to begin a log. Free some space, and open the
    /// database again.
    pub read_only: Option<String>,
    /// Reason why checkpoints are put off: the next checkpoint does not fit on the disk, so the log grows. Free some
    /// space.
    pub checkpoint_misfit: Option<String>,
    /// Reason why three or more checkpoints in a row failed: the log grows, and without a log no commit becomes
    /// durable.
    pub checkpoint_failing: Option<String>,
    /// Reason why the archive cannot be written: closed log files are kept for the archive, so the log grows. The write
    /// is tried again every second. Or the name of a damaged log file that is missing in the archive, with the remedy;
    /// the next open checks again.
    pub archive_error: Option<String>,
    /// Statement that the database is fenced: another machine has taken over from the shared store. Use the database of
    /// that machine.
    pub fenced: Option<String>,
    /// Use of the memory, while writes are refused because the memory in use has reached
    /// [`Builder::memory_bytes_max`](crate::Builder::memory_bytes_max). Delete rows, or raise the limit.
    pub memory_full: Option<MemoryUse>,
    /// True if the heartbeat panicked because of a bug: no commit becomes durable any more. Open the database again,
    /// and report the bug.
    pub heartbeat_has_panicked: bool,
    /// True if this process was forked from the process that opened the database: no call works here. Open the database
    /// again after the other process has closed it.
    pub is_forked: bool,
}

impl DatabaseHealth {
    /// True if the database works without an obstacle.
    #[must_use]
    pub fn is_well(&self) -> bool {
        matches!(self.log, None | Some(Health::Running))
            && self.read_only.is_none()
            && self.checkpoint_misfit.is_none()
            && self.checkpoint_failing.is_none()
            && self.archive_error.is_none()
            && self.fenced.is_none()
            && self.memory_full.is_none()
            && !self.heartbeat_has_panicked
            && !self.is_forked
    }
}

impl Database {
    /// Obstacles to the work of this database. Cheap enough for a call every second.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::in_memory()?;
    /// let health = db.health();
    /// assert!(health.is_well(), "{health:?}");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn health(&self) -> DatabaseHealth {
        let shared = self.shared();
        DatabaseHealth {
            log: shared.storage.log.as_ref().map(|log| log.health()),
            read_only: shared.storage.read_only.as_deref().map(str::to_owned),
            checkpoint_misfit: shared
                .storage
                .checkpoints
                .as_ref()
                .and_then(|checkpoints| checkpoints.misfit()),
            checkpoint_failing: shared
                .storage
                .checkpoints
                .as_ref()
                .and_then(|checkpoints| checkpoints.repeated_failure()),
            archive_error: archive_error(shared),
            fenced: fence_reason(shared),
            memory_full: (shared.memory.room() >= MemoryRoom::Full).then(|| shared.memory.memory_use()),
            heartbeat_has_panicked: shared.heartbeat.has_panicked(),
            is_forked: !shared.life.is_own_process(),
        }
    }

    /// Figures of this database. In a forked child the figures behind a lock are 0. Cheap enough for a call every
    /// second; too expensive for every request.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = self.shared();
        let (displaced_bytes, displaced_bytes_peak) = shared.displaced_bytes();
        let waiting_maps = &shared.tables.logged.waiting_maps;
        Stats {
            commits: shared.workers.sum(|worker| &worker.commits),
            aborts: shared.workers.sum(|worker| &worker.aborts),
            retries: shared.workers.sum(|worker| &worker.retries),
            // Relaxed: a figure.
            turns: shared.life.gate.begun.load(Ordering::Relaxed),
            expired: shared.epochs.expired_count(),
            epoch: shared.epochs.now(),
            durable_epoch: shared.storage.log.as_ref().map(|log| log.durable_epoch()),
            snapshot_epoch: shared.epochs.served_snapshot(),
            garbage_pinned_bytes: shared.workers.sum(|worker| &worker.garbage_pinned_bytes)
                + waiting_maps.bytes(),
            garbage_version_bytes: shared.workers.sum(|worker| &worker.garbage_version_bytes),
            garbage_things: shared.workers.sum(|worker| &worker.garbage_things) + waiting_maps.count(),
            displaced_bytes,
            displaced_bytes_peak,
            memory: if shared.life.is_own_process() { shared.memory.stats() } else { MemoryStats::default() },
            log: shared.storage.log.as_ref().map(|log| log.stats()),
            log_health: shared.storage.log.as_ref().map(|log| log.health()),
            archive_error: archive_error(shared),
            shipping: shared.storage.shipping.as_ref().map(|shipping| shipping.stats()),
            checkpoints: shared.storage.checkpoints.as_ref().map(|checkpoints| checkpoints.stats()),
        }
    }
}

/// Statement for [`DatabaseHealth::fenced`]; `None` without a fence. The shipper knows the fence, or the folder
/// remembers the fence in a database opened without shipping.
fn fence_reason(shared: &SharedState) -> Option<String> {
    if let Some(shipping) = &shared.storage.shipping {
        return shipping.stats().fenced.map(|by| by.to_string());
    }
    let remembered = shared.storage.report.as_ref()?.shared_store.as_ref().filter(|store| store.is_fenced)?;
    Some(format!("another machine has taken over from the shared store {}", remembered.store))
}

/// Text for [`Stats::archive_error`] and [`DatabaseHealth::archive_error`]; `None` without an error.
fn archive_error(shared: &SharedState) -> Option<String> {
    shared.storage.log.as_ref().and_then(|log| log.archive_error()).map(|error| error.to_string())
}
