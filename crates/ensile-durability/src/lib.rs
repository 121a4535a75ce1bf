//! Durability without knowledge of tables: value logging, group commit by epoch, recovery by replay (SiloR §3, §5; Silo
//! §4.10).
//!
//! The crate serves any *recoverable* state that appends entries (a TID and opaque bytes) and can replay the entries, a
//! block at a time ([`Recoverable`]):
//! - [`OpenStore`]: the folders of an open database and their guards, shared by log and checkpoints.
//! - [`Log`]: a buffer for each worker, in disk format; loggers, offered as steps; the durable epoch D, and the waits
//!   for D.
//! - [`Checkpoints`]: checkpoints of a [`Walk`] or of its [`Pages`] beside its writers. Checkpoints bound the log, and
//!   are offered as steps.
//! - [`Recovery`]: at open, reads the manifest and the chains of blocks, decides on D, torn tails or damage, and
//!   replays. Replay is offered as work items for any number of threads.
//! - [`backup()`] and [`restore`]: a database's picture, or its files, in a folder of its own, as steps.
//! - [`examination`]: the same checks of every byte without an open, and a repair that cuts a damaged database to the
//!   last consistent epoch.
//!
//! Invariants, cited by name where they are kept (`docs/internals/protocols/durability.md` argues the invariants):
//! - E1, E2: space is reserved before a worker binds; `E >= n+1` means that all entries of epochs `<= n-1` are
//!   appended.
//! - L1: a logger's durable mark d claims that the log has every entry of its workers of epochs up to d. L2: an idle or
//!   ended worker neither holds D back nor is passed by D.
//! - L3: a claim counts once a synced mark has the claim; one sync on the commit path.
//! - K1: an installed checkpoint `[e_l, e_h]` and the log from e_l on give the state at any D >= e_h
//!   (`docs/internals/protocols/checkpoints.md`).
//! - I1 to I4: the identity of the files (`docs/internals/protocols/store.md`).
//! - L4: epochs that a recovery ignored are discarded for ever. L5: torn tails are cut and reported, damage is an
//!   error.
//!
//! Neighbours: below, `ensile-disk` has the files, and `ensile-epoch` E and the bindings of workers. Above, the engine
//! and the objects append at commit, give the loggers threads, and wait for D.
#![forbid(unsafe_code)]

// A module uses only modules above it.
mod control;
mod copy_progress;
mod counter;
mod entry_type;
mod identity;
mod number;
mod panic_guard;
mod range;
mod recoverable;
mod unproven_tail;
mod wake_up;

mod error;

mod reentrancy;

mod files;

mod buffers;

mod store;

mod log;

mod checkpoint;

mod recovery;

mod backup;

mod shipping;

#[cfg(all(test, not(any(loom, shuttle))))]
mod near_duplicates;

pub use control::adaptive::{AdaptiveThreshold, ThresholdMeasure, ThresholdReading};
pub use control::recovery_time::{RecoveryForecast, RecoveryRates};
pub use control::trigger::{CheckpointReason, CheckpointVerdict};

pub use backup::{
    CopyOptions, CopyReport, CopyRun, CopySource, CopyStep, RestoreTarget, WatchCopy, ask, backup,
    check_copy, copy_target, pause_copy, restorable_epochs, restore, restore_to_epoch,
};
pub use checkpoint::{
    CheckpointConfig, CheckpointHandle, CheckpointProgress, CheckpointReport, CheckpointStart,
    CheckpointStats, CheckpointStep, CheckpointTurn, Checkpoints, Pages, PagesEnded, PictureAttempt,
    PublishedPages, RangeCut, Slice, Strategy, TakenPage, Walk, WantedPages,
};
pub use copy_progress::{CopyPhase, CopyProgress};
pub use entry_type::{EntryType, OtherType, TypeRole};
pub use error::DurabilityError;
pub use error::kind::{ErrorKind, StorageError};
pub use files::checkpoint::block::CheckpointBlock;
pub use files::checkpoint::page::PageContents;
pub use files::manifest::application::{ApplicationName, application_name};
pub use files::manifest::shipping_target::RememberedStore;
pub use files::manifest::types::{StatedType, StatedTypes};
pub use files::picture::pending_removes::DisplacedBlock;
pub use log::{Appender, Durable, Health, Log, LogConfig, LogStart, LogStats, LoggerStep, Removed};
pub use range::RangeStart;
pub use recoverable::{Entry, EntryKind, LoadedPages, Recoverable, Refused};
pub use recovery::archive;
pub use recovery::examination;
pub use recovery::{
    AdoptOptions, CheckpointAmount, Finished, LogScan, Phase, PhaseReport, Progress, ReadOnly, Recovered,
    Recovery, RecoveryReport, RecoveryWatch, TornTail, adopt, adopt_with, recover,
};
pub use reentrancy::{HeldGuard, OutermostUserCode, UserCode, WaitPermit};
#[cfg(feature = "simulation")]
pub use shipping::HangingStore;
#[cfg(feature = "object-store")]
pub use shipping::SharedObjects;
pub use shipping::{
    Creation, SharedFolder, SharedObject, SharedStore, SharedStoreError, SharedUpload, ShipStep, Shipper,
    ShippingConfig, ShippingStats, TakeOver, TakeOverReport, TakeOverStep, WhenFenced, check_shipping,
};
pub use store::{
    Adopted, Archiving, Lease, LeasedFile, Locks, NameGiven, Naming, OpenStore, Opening, Renamed, Shipping,
    ShippingOpen, StoreStart, entries_in, expect_entries, lease, rename_application,
};
pub use unproven_tail::{NotProven, NotProvenReason};
