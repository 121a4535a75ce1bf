//! Figures of a database, gathered when they are asked for.
//!
//! Neighbours: workers' counters, the durability crate's and the memory's figures.

use ensile_base::Epoch;
use ensile_base::sync::Ordering;
use ensile_durability::{CheckpointStats, Health, LogStats, ShippingStats};
use ensile_memory::MemoryStats;

use crate::database::Database;
use crate::shared::SharedState;

/// Figures of a database since it was opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Transactions committed, read-only ones included; snapshots are not counted.
    pub commits: u64,
    /// Commits that failed: conflicts, retried or not.
    pub aborts: u64,
    /// Runs of closures that lost to other transactions, or found too little memory, and were made again.
    pub retries: u64,
    /// Turns that closures were given which lost again and again: no other commit takes effect beside one (P1).
    pub turns: u64,
    /// Transactions and snapshots ended because too much garbage waited for them.
    pub expired: u64,
    /// The global epoch.
    pub epoch: Epoch,
    /// The durable epoch: without a log, that of the last picture; `None` in memory.
    pub durable_epoch: Option<Epoch>,
    /// The newest snapshot that can be read.
    pub snapshot_epoch: Epoch,
    /// Bytes of replaced records and index nodes that open transactions may still reach, and of what these knew of
    /// former pictures' pages.
    pub garbage_pinned_bytes: u64,
    /// Bytes of old versions kept for snapshots, or until the commits of the moment have ended, and of deleted rows
    /// that wait for snapshots and for D.
    pub garbage_version_bytes: u64,
    /// Things that wait to be freed or unhooked.
    pub garbage_things: u64,
    /// Bytes of the versions that commits have displaced and a picture under way still needs: a consistent checkpoint.
    /// They grow with each row that is changed for the first time since the picture's freeze: by its key, its value and
    /// 32 bytes, in a block of the next size; for a row of 300 bytes that is 352. They are freed as the device takes
    /// them, or, without [`Tuning::semi_fuzzy`](crate::Tuning::semi_fuzzy), page by page. They do not count against
    /// [`Builder::garbage_bytes_max`](crate::Builder::garbage_bytes_max), but have a limit of their own,
    /// [`Tuning::displaced_bytes_max`](crate::Tuning::displaced_bytes_max). What a transaction that is about to commit
    /// has copied for this is counted in `memory` only, until it has committed: at most what it changes.
    pub displaced_bytes: u64,
    /// The most that these ever were. Both err low: what is displaced and freed while they are read is not in them.
    pub displaced_bytes_peak: u64,
    /// Memory taken for records and index nodes.
    pub memory: MemoryStats,
    /// What the log has done; `None` in memory, all zero in a database without a log.
    pub log: Option<LogStats>,
    /// Whether the log works; `None` in memory. Without a log, whether pictures still make the database durable.
    pub log_health: Option<Health>,
    /// Why the archive could not be written, since it last could: the log is kept for it, and grows. Or which log file
    /// is damaged, and not in it, and what to do. `None` without one.
    pub archive_error: Option<String>,
    /// What shipping has come to, if finished files go to a shared store.
    pub shipping: Option<ShippingStats>,
    /// What checkpoints have done; `None` in memory.
    pub checkpoints: Option<CheckpointStats>,
}

/// What keeps a database from its work, if anything: see [`Database::health`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseHealth {
    /// Whether the log works, waits for space, or has stopped; `None` in memory. Without a log, whether pictures still
    /// make the database durable.
    pub log: Option<Health>,
    /// Why nothing is written: the disk was too full at open to begin a log. Free some space, and open the database
    /// again.
    pub read_only: Option<String>,
    /// Why checkpoints are put off: the next one does not fit on the disk, so the log grows. Free some space.
    pub checkpoint_misfit: Option<String>,
    /// Why no checkpoint was made three times in a row or more: the log grows, and without a log nothing becomes
    /// durable.
    pub checkpoint_failing: Option<String>,
    /// Why the archive cannot be written: closed log files are kept for it, so the log grows. It is tried again every
    /// second. Or which log file is damaged, and not in it, and what to do; the next open looks again.
    pub archive_error: Option<String>,
    /// Statement that the database is fenced: another machine has taken over from the shared store. Use that one.
    pub fenced: Option<String>,
    /// The heartbeat panicked, which is a bug: nothing becomes durable any more. Open the database again, and report
    /// it.
    pub heartbeat_has_panicked: bool,
    /// This process was forked from the one that opened the database: nothing of it works here. Open it anew once the
    /// other process has closed it.
    pub is_forked: bool,
}

impl DatabaseHealth {
    /// Whether nothing keeps it from its work.
    #[must_use]
    pub fn is_well(&self) -> bool {
        matches!(self.log, None | Some(Health::Running))
            && self.read_only.is_none()
            && self.checkpoint_misfit.is_none()
            && self.checkpoint_failing.is_none()
            && self.archive_error.is_none()
            && self.fenced.is_none()
            && !self.heartbeat_has_panicked
            && !self.is_forked
    }
}

impl Database {
    /// What keeps this database from its work, if anything. Cheap enough to ask every second.
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
            log: shared.log.as_ref().map(|log| log.health()),
            read_only: shared.read_only.as_deref().map(str::to_owned),
            checkpoint_misfit: shared.checkpoints.as_ref().and_then(|checkpoints| checkpoints.misfit()),
            checkpoint_failing: shared.checkpoints.as_ref().and_then(|checkpoints| checkpoints.failing()),
            archive_error: archive_error(shared),
            fenced: fenced(shared),
            heartbeat_has_panicked: shared.heartbeat_has_panicked(),
            is_forked: !shared.is_own_process(),
        }
    }

    /// Figures of this database; those that are behind a lock are 0 in a forked child. Cheap enough to ask every
    /// second; not meant for every request.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = self.shared();
        let (displaced_bytes, displaced_bytes_peak) = shared.displaced_bytes();
        let waiting_maps = &shared.logged_tables.waiting_maps;
        Stats {
            commits: shared.sum(|worker| &worker.commits),
            aborts: shared.sum(|worker| &worker.aborts),
            retries: shared.sum(|worker| &worker.retries),
            // Relaxed: a figure.
            turns: shared.gate.begun.load(Ordering::Relaxed),
            expired: shared.epochs.expired(),
            epoch: shared.epochs.now(),
            durable_epoch: shared.log.as_ref().map(|log| log.durable_epoch()),
            snapshot_epoch: shared.epochs.served_snapshot(),
            garbage_pinned_bytes: shared.sum(|worker| &worker.garbage_pinned_bytes) + waiting_maps.bytes(),
            garbage_version_bytes: shared.sum(|worker| &worker.garbage_version_bytes),
            garbage_things: shared.sum(|worker| &worker.garbage_things) + waiting_maps.count(),
            displaced_bytes,
            displaced_bytes_peak,
            memory: if shared.is_own_process() { shared.memory.stats() } else { MemoryStats::default() },
            log: shared.log.as_ref().map(|log| log.stats()),
            log_health: shared.log.as_ref().map(|log| log.health()),
            archive_error: archive_error(shared),
            shipping: shared.shipping.as_ref().map(|shipping| shipping.stats()),
            checkpoints: shared.checkpoints.as_ref().map(|checkpoints| checkpoints.stats()),
        }
    }
}

fn fenced(shared: &SharedState) -> Option<String> {
    if let Some(shipping) = &shared.shipping {
        return shipping.stats().fenced.map(|by| by.to_string());
    }
    let remembered = shared.report.as_ref()?.shared_store.as_ref().filter(|store| store.is_fenced)?;
    Some(format!("another machine has taken over from the shared store {}", remembered.store))
}

fn archive_error(shared: &SharedState) -> Option<String> {
    shared.log.as_ref().and_then(|log| log.archive_error()).map(|error| error.to_string())
}
