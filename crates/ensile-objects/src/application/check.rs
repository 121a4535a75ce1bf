//! Check of an application's folder against the present program, without an open: for a test with a recorded folder.
//!
//! ```text
//! examined into a fresh application    its checkpoint call-back, some objects at a time  \
//!                                                                                          compared, object by object
//! examined into another fresh one      its checkpoint call-back, some objects at a time  /
//! ```
//! Neighbours: the durability crate examines and replays; `recovery` rebuilds the objects, twice;
//! `called_application` has the written objects; [`crate::check_folders`] prints.

use std::iter::Peekable;
use std::path::Path;
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_disk::Disk;
use ensile_durability::examination::{Examination, examine};

use super::call_backs::Application;
use super::called_application::WrittenObjects;
use super::log::ApplicationLog;
use super::state::ApplicationState;
use crate::collection::check::{FolderCheck, existing_disk, first_difference};
use crate::error::ObjectsResult as Result;

impl ApplicationLog {
    /// Replays a folder against this program, twice: into two applications from `make`. Every byte is judged, and every
    /// object and operation goes through the call-backs. The checkpoints that the two applications write are compared,
    /// object by object, and the first difference is named. No process may have the folder open. Nothing is changed.
    ///
    /// The check finds a dependence on a clock, on chance, on other objects or on the order of threads, and state that
    /// does not come back from an object's bytes. An object that a checkpoint does not write is not compared.
    ///
    /// For CI, on a folder that an earlier version of the program has recorded; as a whole program:
    /// ```no_run
    /// # use std::sync::Mutex;
    /// # use ensile_objects::{Application, ApplicationLog, CallBackResult, ObjectWriter, check_folders};
    /// # #[derive(Default)]
    /// # struct Items(Mutex<Vec<u8>>);
    /// # impl Application for Items {
    /// #     fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> { None }
    /// #     fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult { Ok(()) }
    /// #     fn replay_one(&self, object: u64, op: u32, parameters: &[&[u8]]) -> CallBackResult { Ok(()) }
    /// # }
    /// fn main() -> std::process::ExitCode {
    ///     let folders = std::env::args_os().skip(1);
    ///     check_folders(folders, |folder| ApplicationLog::check(folder, Items::default))
    /// }
    /// ```
    ///
    /// # Errors
    /// [`ObjectsError::Storage`](crate::ObjectsError::Storage) if the folder is in use, is a database's or no
    /// folder of ours, or is unreadable. An object or operation that this program does not understand is no error of
    /// the call: the result names the object or operation.
    pub fn check<A: Application>(folder: impl AsRef<Path>, make: impl FnMut() -> A) -> Result<FolderCheck> {
        check_on(&existing_disk(folder)?, make)
    }

    /// As [`check`](Self::check), on a test's disk.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    #[cfg(feature = "simulation")]
    pub fn check_on<A: Application>(disk: &Arc<dyn Disk>, make: impl FnMut() -> A) -> Result<FolderCheck> {
        check_on(disk, make)
    }
}

fn check_on<A: Application>(disk: &Arc<dyn Disk>, mut make: impl FnMut() -> A) -> Result<FolderCheck> {
    let mut state = || ApplicationState::new(Arc::new(make()), &Clock::machine());
    let (first, again) = (state(), state());
    let mut check = FolderCheck::from_examination(examine(disk, &first)?);
    if !check.examination.is_whole() {
        // A part was replayed: nothing to compare.
        return Ok(check);
    }
    let twice: Examination = examine(disk, &again)?;
    check.not_replayed = first.not_replayed().or_else(|| again.not_replayed());
    check.not_written = first.damage().or_else(|| again.damage());
    check.note_second(&twice);
    if check.is_whole() {
        compare(&mut check, &first, &again);
    }
    Ok(check)
}

fn compare<A: Application>(
    check: &mut FolderCheck,
    first: &ApplicationState<A>,
    again: &ApplicationState<A>,
) {
    let (mut first, mut again) =
        (WrittenObjects::new(&first.called).peekable(), WrittenObjects::new(&again.called).peekable());
    let mut compared = None;
    while check.difference.is_none() {
        let number = match (first.peek(), again.peek()) {
            (Some(Err(why)), _) | (_, Some(Err(why))) => {
                check.not_written = Some(why.clone());
                return;
            }
            (Some(Ok(object)), Some(Ok(other))) => object.number.min(other.number),
            (Some(Ok(object)), None) | (None, Some(Ok(object))) => object.number,
            (None, None) => return,
        };
        debug_assert!(compared < Some(number), "objects are compared in the order of numbers");
        compared = Some(number);
        let difference = match (take(&mut first, number), take(&mut again, number)) {
            (Some(object), Some(other)) => {
                check.objects += 1;
                first_difference(&object, &other)
            }
            (None, None) => None,
            (Some(_), None) => Some("replayed again, there is no such object".into()),
            (None, Some(_)) => Some("there is no such object; replayed again, there is".into()),
        };
        check.difference = difference.map(|difference| (number.to_string(), difference));
    }
}

/// Takes the next object if it has this number. Returns the object's bytes; `None` for another number or an absent
/// object.
fn take<A: Application>(objects: &mut Peekable<WrittenObjects<'_, A>>, number: u64) -> Option<Box<[u8]>> {
    objects.next_if(|object| matches!(object, Ok(object) if object.number == number))?.ok()?.bytes
}
