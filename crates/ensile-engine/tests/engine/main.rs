//! The engine from outside: databases on the simulated disk and on real folders, in one program, so that its code for
//! their types is made once.
//!
//! Neighbours: tests beside this folder need a process of their own (`forked`, `giving_way`, `refused_threads`,
//! `memory_of_a_dropped_database`), a feature (`variants`) or a checker (`shuttle_*`).
#![cfg(not(any(loom, shuttle)))]

mod before_images;
mod checkpoints;
mod crashes;
mod driven;
mod failing_disks;
mod found_bugs;
mod full_opens;
mod garbage_limit;
mod held_snapshots;
mod histories;
mod large_deletes;
mod logged_writes;
mod memory_limit;
#[path = "../own_folder/mod.rs"]
mod own_folder;
#[path = "../page_directory/mod.rs"]
mod page_directory;
mod pages_and_seats;
mod picture_faults;
#[path = "../picture_pages/mod.rs"]
mod picture_pages;
mod pictures;
mod pictures_reopened;
mod prelude;
mod process_safe;
mod shipping;
#[cfg(target_os = "linux")]
mod short_lives;
mod stopped_logs;
mod tails;
mod turns;
mod without_log;

use prelude::*;

/// What an error of the log, the disk or a folder comes from.
pub(crate) fn cause(error: &Error) -> Option<&DurabilityError> {
    match error {
        Error::Storage(error) => Some(error.cause()),
        _ => None,
    }
}
