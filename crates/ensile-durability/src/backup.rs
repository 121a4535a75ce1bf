//! Backups of a database, open or closed, and new databases from a backup (`docs/internals/protocols/backups.md`). A
//! backup is a database folder of its own. A picture is copied page by page, into free extents of the target's page
//! file, then the log behind the picture. A source without a picture is copied file by file.
//!
//! Invariants: A2, A4, A5, I1, N12, N16 and N22. The new manifest is the last step, after a read of every byte that the
//! manifest will reach. A killed run therefore leaves the backup intact.
//!
//! Files, low to high: `copy_options`, `copy_report`, `tally`, `source`, `known_files`, `check` and `restore_choice`;
//! `target`; `pages`; `files`; `copy_run`; `copy_source`; `copy_driver`.
//!
//! Neighbours: the engine's `Database`, the objects and the `ensile` command run copies; `files::picture` reads and
//! writes pages; `recovery` judges the copy and reads archives; `store` has leases and locks. `shipping::take_over`
//! uses the target.

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
