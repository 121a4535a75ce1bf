//! Finished checkpoints and closed log files go to a shared store, so that another machine can take over
//! (`docs/protocols/shipping.md`).
//!
//! ```text
//! closed log files, oldest first --> objects --> manifest-<n+1>, where there is none --> unnamed objects go, later
//! a checkpoint's files, in between -/                 |
//!                                                     '--- taken: whose? ours: go on; another term's: fenced for good
//! ```
//! Invariants, argued in that document:
//! - H1: a manifest comes after all that it names.
//! - H2: a manifest counts if it was created where there was none, and no larger number was there behind that.
//! - H3: its state is a database that a crash at one epoch leaves.
//! - H4: what a counting manifest names is not removed, nor what one has named within a grace.
//! - H5: local log files wait for their shipping, up to a stated limit.
//! - H6: who meets a manifest of another term is fenced for good.
//!
//! Neighbours: below, the store, the log and a [`SharedStore`]; above, the runtimes give [`Shipper`] a thread, and the
//! `ensile` command takes over.

mod chain;
mod config;
mod folder;
mod log_file;
#[cfg(feature = "object-store")]
mod object_store;
mod shared;
mod shipper;
#[cfg(feature = "simulation")]
mod simulated;
mod state;
mod take_over;

pub use config::{ShipStep, ShippingConfig, ShippingStats, WhenFenced};
pub use folder::SharedFolder;
#[cfg(feature = "object-store")]
pub use object_store::SharedObjects;
pub use shared::{Creation, SharedObject, SharedStore, SharedStoreError, SharedUpload};
pub use shipper::Shipper;
#[cfg(feature = "simulation")]
pub use simulated::HangingStore;
pub use take_over::{TakeOver, TakeOverReport, TakeOverStep};
