//! Shipping of finished checkpoints and closed log files to a shared store, so that another machine can take over.
//!
//! ```text
//! closed log files, oldest first --> objects --> manifest-<n+1>, where there is none --> unnamed objects go, later
//! a checkpoint's files, in between -/                 |
//!                                                     '--- taken: whose? ours: go on; another term's: fenced for good
//! ```
//! Invariants: H1 to H6 (`docs/internals/protocols/shipping.md`).
//!
//! Neighbours: below, `store`, `log` and a [`SharedStore`]; above, the engine and the objects give the [`Shipper`] a
//! thread, and the `ensile` command takes over.

mod chain;
mod config;
mod folder;
#[cfg(feature = "simulation")]
mod hanging_store;
mod log_file;
#[cfg(feature = "object-store")]
mod object_store;
mod shared_store;
mod shipper;
mod state_composition;
mod take_over;

pub use config::{ShipStep, ShippingConfig, ShippingStats, WhenFenced, check_shipping};
pub use folder::SharedFolder;
#[cfg(feature = "simulation")]
pub use hanging_store::HangingStore;
#[cfg(feature = "object-store")]
pub use object_store::SharedObjects;
pub use shared_store::{Creation, SharedObject, SharedStore, SharedStoreError, SharedUpload};
pub use shipper::Shipper;
pub use take_over::{TakeOver, TakeOverReport, TakeOverStep};
