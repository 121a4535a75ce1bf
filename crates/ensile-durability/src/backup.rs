//! Backups of a database, open or closed, and new databases from a backup (`docs/internals/protocols/backups.md`). A
//! backup is a database folder of its own.
//!
//! ```text
//! look: lease source, lock target --> copy missing pages or files --> directory, root, sync --> verify --> manifest
//!          ^                                    |
//!          +------- the lease was overrun ------+         the copied pages stay
//! ```
//! A picture is copied page by page, into free extents of the target's page file. The log behind the picture is then
//! copied file by file. A source without a picture is copied file by file, log included. Pages and files of the
//! target's earlier states are not copied again.
//!
//! Invariants:
//! - N16: the source is leased while a run reads the source. If a block is overwritten all the same, the checksum shows
//!   the change, and the copy continues from the newest root. The progress counts the new starts. If the missing bytes
//!   do not become fewer, the run ends with an error.
//! - N12: a run overwrites nothing that the target's manifest reaches. The new manifest is the last step, after a read
//!   of every byte that the manifest will reach. A killed run therefore leaves the backup intact.
//! - N22: everything that a backup takes from the source is on the source's medium before the backup counts.
//! - I1: a target is an empty folder, or a backup of the same database that was never opened.
//! - A2, A4, A5: a restore to an epoch has the complete state at the end of the epoch, and nothing later.
//!   [`restore_choice`] chooses the state of the backup.
//!
//! Files, low to high: `copy_options`, `copy_report`, `tally`, `source`, `known_files`, `check` and `restore_choice`;
//! `target`; `pages`; `files`; `copy_run`; `copy_source`; `copy_driver`.
//!
//! Neighbours: the engine's `Database`, the objects and the `ensile` command step a run; `checkpoint::picture` reads
//! and writes pages; `store` has leases, locks and manifests.

mod check;
mod copy_driver;
mod copy_options;
mod copy_report;
mod copy_run;
mod copy_source;
mod files;
mod known_files;
mod pages;
mod restore_choice;
mod source;
mod tally;
mod target;

pub use copy_driver::{RestoreTarget, WatchCopy, ask, copy_target, pause_copy};
pub use copy_options::{CopyOptions, check_copy};
pub use copy_report::{CopyReport, CopyStep};
pub use copy_run::CopyRun;
pub use copy_source::{CopySource, restorable_epochs};
pub(crate) use target::TargetFolder;
