//! The state that all transactions and threads of a database share, by responsibility.
//!
//! Neighbours: the other files of this folder have the parts. `open` builds the state, `database` owns the state, and
//! every module above uses it.

// `Memory` takes `self` by std's `Arc`. The `Arc` of `ensile_base::sync` is no receiver type.
use std::sync::Arc as StdArc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::sync::Arc;
use ensile_disk::Process;
use ensile_epoch::{EpochConfig, Epochs, PinHandle};
use ensile_memory::Memory;

use super::database_life::DatabaseLife;
use super::durable_storage::DurableStorage;
use super::heartbeat_state::HeartbeatState;
use super::settings::Settings;
use super::table_registry::TableRegistry;
use super::worker_registry::WorkerRegistry;
use crate::garbage::UnhookedEpoch;
use crate::pictures::loaded_pages::LoadedMaps;
use crate::pictures::picture_state::Pictures;
use crate::record::blocks::OwnedMemory;
use crate::tables::catalog::Catalog;
use crate::tables::logged_tables::LoggedTables;
use crate::worker::idle_workers::IdleWorkers;
use crate::worker::pinning::Cores;

pub(crate) struct SharedState {
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) clock: Clock,
    /// Settings. Without a log no entry has before-images, whatever the request.
    pub(crate) settings: Settings,
    pub(crate) memory: OwnedMemory,
    pub(crate) life: DatabaseLife,
    pub(crate) tables: TableRegistry,
    pub(crate) storage: DurableStorage,
    pub(crate) workers: WorkerRegistry,
    pub(crate) heartbeat: HeartbeatState,
    /// State of a database with pictures.
    pub(crate) pictures: Option<Pictures>,
    /// In a database without a log: the epoch of the newest delete with a removed record (N19). Each collection writes
    /// the epoch, so the epoch shares no line with fields that transactions read.
    pub(crate) unhooked: CachePadded<UnhookedEpoch>,
}

/// Parts from which an open builds the [`SharedState`].
pub(crate) struct SharedParts {
    pub(crate) settings: Settings,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) storage: DurableStorage,
    pub(crate) memory: StdArc<Memory>,
    pub(crate) catalog: Catalog,
    /// Pages of the loaded picture, in a database with pictures.
    pub(crate) loaded_pages: Option<LoadedMaps>,
    pub(crate) clock: Clock,
    pub(crate) cores: Option<Cores>,
    /// The process that opens the database.
    pub(crate) process: Process,
}

impl SharedState {
    pub(crate) fn new(parts: SharedParts) -> Self {
        let settings = parts.settings.settle(parts.storage.has_loggers());
        let loaded_pages = parts.loaded_pages.filter(|_| settings.pictures);
        let pictures = settings.pictures.then(|| {
            Pictures::new(settings.semi_fuzzy, settings.displaced_bytes_max, loaded_pages.is_some())
        });
        let logged = LoggedTables::new(&parts.catalog.trees, loaded_pages, parts.epochs.newest_freeze());
        Self {
            epochs: parts.epochs,
            clock: parts.clock,
            memory: OwnedMemory::new(parts.memory),
            life: DatabaseLife::begin(&parts.process, settings.is_memory_limited),
            tables: TableRegistry::new(logged, parts.catalog),
            storage: parts.storage,
            workers: WorkerRegistry::new(IdleWorkers::new(parts.process), parts.cores),
            heartbeat: HeartbeatState::new(settings.garbage_bytes_max),
            settings,
            pictures,
            unhooked: CachePadded::default(),
        }
    }

    /// A pin for a thread or an open transaction. In a forked child no scan finds the pin. The parent's list may have
    /// been locked at the fork, and the child's call is refused before the pin is used (I4).
    pub(crate) fn register_pin(&self) -> PinHandle {
        if self.life.is_own_process() {
            self.epochs.register_pin()
        } else {
            let config = EpochConfig { first: Epoch::FIRST, snapshot_interval: Duration::from_secs(1) };
            Epochs::new(&config).register_pin()
        }
    }

    /// Notes a panic of the heartbeat. No epoch is closed by time any more, so a result becomes durable only if a
    /// thread waits for it. The log stops, and every waiting thread gets an error.
    #[cold]
    pub(crate) fn note_heartbeat_panic(&self) {
        self.heartbeat.note_panic();
        if let Some(log) = &self.storage.log {
            log.stop("the heartbeat panicked");
        }
    }

    /// True if a picture is under way. A commit uses this hint before it binds.
    #[inline]
    pub(crate) fn has_picture_under_way(&self) -> bool {
        self.pictures.as_ref().is_some_and(Pictures::is_under_way)
    }

    /// True if commits leave displaced versions to the lists of their workers.
    #[inline]
    pub(crate) fn has_semi_fuzzy_pictures(&self) -> bool {
        self.pictures.as_ref().is_some_and(Pictures::is_semi_fuzzy)
    }

    /// Boundary that decides if a commit at `epoch` keeps an old version (S1); zero keeps none.
    #[inline]
    pub(crate) fn snapshot_boundary(&self, epoch: Epoch) -> Epoch {
        if self.settings.snapshots { self.epochs.boundary_at(epoch) } else { Epoch::ZERO }
    }
}
