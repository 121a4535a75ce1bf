//! The store: ownership of the files, and the list of files that count (I1 to I6, L6, L7: `protocols/store.md`).
//!
//! Only the store knows folders, locks, identity, manifest and hint. Log and checkpoints ask for folders.
//!
//! Order of the files, low to high. A file uses files before it only:
//!
//! | files | purpose |
//! |---|---|
//! | `boot_scope`, `mapped_buffers`, `folders`, then `ownership` | a folder and its owner |
//! | `locks`, `leases`, `mark_renewal`, `naming`, `shipping_open`, then `claim`, `open` | an open |
//! | `archive` with `closed_files`, `ship_retention`, `disk_reserve`, `space_reclaim` | files of a life |
//! | `reserved_epochs`, then `open_store`, `epoch_renewal` | an open store |
//! | `adoption`, `application_rename` | changes of a closed folder |
//!
//! Neighbours: `files` has manifest, mark, hint and names. `recovery` makes the [`OpenStore`] for log and checkpoints.

pub(crate) mod archive;

pub(crate) mod boot_scope;
pub(crate) mod disk_reserve;
pub(crate) mod folders;
pub(crate) mod mapped_buffers;
pub(crate) mod mark_renewal;
pub(crate) mod ownership;
pub(crate) mod reserved_epochs;
pub(crate) mod space_reclaim;

pub(crate) mod leases;
mod locks;
pub(crate) mod naming;
pub(crate) mod shipping_open;
pub(crate) mod unlocked_disk_guard;

pub(crate) mod claim;
pub(crate) mod open;

pub(crate) mod closed_files;
mod epoch_renewal;
pub(crate) mod open_store;
pub(crate) mod ship_retention;

pub(crate) mod adoption;
mod application_rename;

pub use adoption::Adopted;
pub use application_rename::{Renamed, rename_application};
pub use archive::Archiving;
pub use leases::{Lease, LeasedFile, lease};
pub(crate) use locks::LockMode;
pub use locks::Locks;
pub use naming::{NameGiven, Naming};
pub use open::Opening;
pub use open_store::{OpenStore, StoreStart};
pub use ownership::{entries_in, expect_entries};
pub use shipping_open::{Shipping, ShippingOpen};
