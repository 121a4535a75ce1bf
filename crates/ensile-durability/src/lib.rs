//! Durability without knowledge of tables: value logging, group commit by epoch, recovery by replay (SiloR §3, §5; Silo
//! §4.10).
//!
//! The crate serves any [`Recoverable`] state that appends entries (a TID and opaque bytes) and can replay the entries:
//! - [`OpenStore`] has the folders, [`Log`] a buffer for each worker and the durable epoch D, [`Checkpoints`] bound the
//!   log.
//! - [`Recovery`] reads chains of blocks at open and decides on D, torn tails or damage. [`CopySource`] and
//!   [`examination`] work on folders. No thread is spawned here: all work is offered as steps.
//!
//! Invariants are cited by name where they are kept; `docs/internals/protocols/durability.md` argues the invariants.
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

mod figures;

#[cfg(all(test, not(any(loom, shuttle))))]
mod near_duplicates;

#[cfg(all(test, not(any(loom, shuttle))))]
mod samples;

pub use control::adaptive::{AdaptiveThreshold, ThresholdMeasure, ThresholdReading};
pub use control::recovery_time::{RecoveryForecast, RecoveryRates};
pub use control::trigger::{CheckpointReason, CheckpointVerdict};

pub use backup::{
    CopyOptions, CopyReport, CopyRun, CopySource, CopyStep, RestoreTarget, WatchCopy, ask, check_copy,
    copy_target, pause_copy, restorable_epochs,
};
pub use checkpoint::{
    CheckpointConfig, CheckpointHandle, CheckpointProgress, CheckpointReport, CheckpointStart,
    CheckpointStats, CheckpointStep, CheckpointTurn, Checkpoints, Pages, PagesEnded, PictureAttempt,
    PublishedPages, RangeCut, Slice, Strategy, TakenPage, Walk, WantedPages,
};
pub use copy_progress::{CopyPhase, CopyProgress};
pub use entry_type::{EntryType, OtherType, TypeRole};
pub use error::DurabilityError;
pub(crate) use error::DurabilityResult as Result;
pub use error::kind::{ErrorKind, StorageError};
pub use files::checkpoint::block::CheckpointBlock;
pub use files::checkpoint::page::PageContents;
pub use files::manifest::application::{ApplicationName, application_name};
pub use files::manifest::shipping_target::RememberedStore;
pub use files::manifest::types::{StatedType, StatedTypes};
pub use files::picture::pending_removes::DisplacedBlock;
pub use log::{
    Appender, Durable, Health, Log, LogConfig, LogStart, LogStats, LoggerStep, Removed, SpaceTask, SpaceWait,
};
pub use range::RangeStart;
pub use recoverable::{Entry, EntryKind, LoadedPages, Recoverable, Refused};
pub use recovery::archive;
pub use recovery::examination;
pub use recovery::{
    AdoptOptions, CheckpointAmount, Finished, LogScan, Phase, PhaseReport, Progress, ReadOnly, Recovered,
    Recovery, RecoveryReport, RecoveryWatch, TornTail, adopt, adopt_with, recover,
};
pub use reentrancy::{CallBackOwner, HeldGuard, OutermostUserCode, UserCode, WaitPermit};
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
