//! Examination of a folder without opening the database: reads and judges every byte like an open, and changes nothing.
//! It continues after the first finding, checks blocks that recovery ignores, and reports the role of every file.
//!
//! Invariants:
//! - If [`Examination::damage`] and [`Examination::unread`] are empty, an open succeeds, unless the folder was copied
//!   ([`Examination::refused`]). Otherwise an open would report the first of the damage.
//! - Damage in the older pictures of a backup counts, although an open would drop them: a restore could need them.
//! - A repair reports success only after an examination of the repaired folder.
//! - L5: a torn tail is no damage. [`Examination::unneeded`] lists damage in blocks that recovery does not read.
//!
//! Neighbours: `recovery::validation` judges, for recovery too; the engine and the objects provide the state for the
//! entries. A backup and a take-over examine their own folder before its manifest counts.

// From low to high: a file uses files of the groups above its group. This file uses no other file.
mod facts;

mod judge;
mod mapped_probe;
mod repair_plan;

mod generation_steps;
mod validator;

mod adoption_report;
mod folder_examination;

mod folder_repair;

pub use adoption_report::{AdoptOptions, adopt, adopt_with};
pub use facts::{
    AgeFacts, BackupFacts, CheckpointFacts, Damage, Examination, FileFacts, GenerationFacts, Loss,
    PageFileFacts, PictureFacts, RangeFacts, Remedy, Repaired, Role, SectionFacts, Unread,
};
pub use folder_examination::{examine, visit_log};
pub use folder_repair::{RepairOptions, repair, repair_with};
pub(crate) use judge::Judge;
pub(crate) use mapped_probe::left_behind;
