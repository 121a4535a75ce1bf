//! An application's own objects made persistent at in-memory speed: operation logging and object-level fuzzy
//! checkpoints (SLACH, on SiloR's logs).
//!
//! A program with its own data structures keeps them, in its own process. A change of an object is an *operation*,
//! logged before it is applied, under the object's lock. Checkpoints write one object at a time, under the object's
//! lock, beside everything else. After a crash every object is loaded from the checkpoint, and the later operations are
//! applied again.
//!
//! [`Objects`] is a collection of objects; its type names the [`Persistent`] objects and the [`ObjectKey`]s.
//! [`ObjectsBuilder`] opens a collection. An application that keeps its own objects, in its own structures and under
//! its own locks, implements [`Application`] and logs through [`ApplicationLog`]: the paper's interface (§3.2).
//!
//! Promises, per object and for all objects (`docs/internals/protocols/objects.md` argues them):
//! - A result that was reported durable survives a crash, once, in order: the recovered operations are the operations
//!   of epochs up to one epoch D, and a durable receipt's epoch is at most D.
//! - Objects are independent. An operation is atomic; several operations together are not.
//!
//! # Features
//! - `object-store`: `SharedObjects`, for [`ObjectsBuilder::ship_to`] and [`take_over`]: a shared store in an object
//!   store, over the crate `object_store` 0.14. An application also depends on the crate, with its features `aws`,
//!   `gcp` or `azure`.
//! - `serde`: objects, operations and keys in postcard's format, `codec`, `serde_codec!` and `serde_key!`.
//! - `simulation`: objects with disk, clock and threads driven by a test; not for applications.
//!
//! Neighbours: applications above; below, `ensile-durability` has logs, checkpoints and recovery, as for the engine.
#![forbid(unsafe_code)]

// A module uses only modules above it.
mod epoch_count;
mod error;
mod format;
mod framing;
mod read_dependency;
mod segments;
mod shape;

mod apply_time;
mod chunks;
mod replay;

mod runtime;

mod receipt;

mod application;
mod collection;
mod object_guards;

mod settings;

#[cfg(all(test, not(any(loom, shuttle))))]
mod testing;

mod backups;
mod command;
mod folder_check;
mod take_over;

pub mod folder;

#[cfg(feature = "serde")]
pub mod codec;

pub use application::{Application, ApplicationLog, CallBackResult, ObjectWriter};
pub use collection::Objects;
pub use collection::check::{Examination, FolderCheck};
pub use collection::persistent::{CodecResult, ObjectKey, Persistent};
pub use command::{check_command, check_folders};
pub use ensile_base::{Epoch, Tid};
pub use ensile_durability::{
    AdaptiveThreshold, CheckpointProgress, CheckpointReason, CheckpointReport, CheckpointStats,
    CheckpointTurn, CheckpointVerdict, Creation, EntryType, ErrorKind, Health as LogHealth, LogStats,
    NameGiven, NotProven, NotProvenReason, Phase, PhaseReport, RecoveryForecast, RecoveryRates,
    RecoveryReport, RememberedStore, SharedObject, SharedStore, SharedStoreError, SharedUpload, ShipStep,
    ShippingConfig, ShippingStats, StorageError, TakeOverReport, ThresholdMeasure, ThresholdReading,
    TornTail, TypeRole, WhenFenced,
};
pub use epoch_count::EpochCount;
pub use error::{ObjectsError, ObjectsResult};
pub use folder_check::{FolderJudgement, judge_folder};
pub use format::ObjectLife;
pub use object_guards::{GuardedObjects, ObjectGuard, PoisonedObject};
pub use read_dependency::RestsOn;
pub use receipt::{ChangeReceipt, DurableObjects, ObjectReceipt};
pub use runtime::{CheckpointHandle, ObjectsStats, WaitingCallBack};
pub use segments::Parts;
pub use settings::{CheckpointPolicy, ObjectDurability, ObjectsBuilder};
pub use shape::TypeShape;
#[cfg(feature = "object-store")]
pub use take_over::SharedObjects;
pub use take_over::{SharedFolder, take_over};

/// Figures of open objects under names of their own, for Prometheus and other programs.
pub mod stats {
    pub use ensile_base::figures::{Figure, FigureKind, FigureUnit};

    pub use crate::runtime::figures::{figures, prometheus};
}

/// Limits of this crate's arguments.
pub mod limits {
    pub use ensile_base::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, OBJECT_BYTES_MAX, TRANSACTION_BYTES_MAX};
}

/// Parts that a test drives itself: the disk, the clock, and the outcome of a step.
#[cfg(feature = "simulation")]
pub mod simulation {
    pub use ensile_base::clock::Clock;
    pub use ensile_disk::Disk;
    pub use ensile_durability::{CheckpointStep, LoggerStep};
}

/// The guide for users. The programs of the guide compile as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/objects.md")]
struct Guide;
