//! Check of an application's folder against the present program, without an open: for a test with a recorded folder.
//!
//! ```text
//! examined into a fresh application    its checkpoint call-back, some objects at a time  \
//!                                                                                          compared, object by object
//! examined into another fresh one      its checkpoint call-back, some objects at a time  /
//! ```
//! Neighbours: the durability crate examines and replays; `recovery` rebuilds the objects, twice; `walk` has the writer
//! that the call-backs fill; [`crate::check_folders`] prints.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::path::Path;
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_disk::{Disk, RealDisk};
use ensile_durability::examination::{Examination, examine};

use super::walk::{CollectedObject, ObjectSink, write_objects};
use super::{Application, ApplicationLog, ApplicationState};
use crate::collection::check::{FolderCheck, first_difference};
use crate::error::ObjectsResult as Result;

/// Bytes of objects that are collected at once; a further object may exceed the number.
const COLLECTED_BYTES: usize = 1 << 20;

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
    ///
    /// # Errors
    /// [`ObjectsError::Storage`](crate::ObjectsError::Storage) if the folder is in use, is a database's or no
    /// folder of ours, or is unreadable. An object or operation that this program does not understand is no error of
    /// the call: the result names the object or operation.
    pub fn check<A: Application>(folder: impl AsRef<Path>, make: impl FnMut() -> A) -> Result<FolderCheck> {
        check_on(&(Arc::new(RealDisk::open_existing(folder)?) as Arc<dyn Disk>), make)
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

/// Compares the objects that two applications write.
fn compare<A: Application>(
    check: &mut FolderCheck,
    first: &ApplicationState<A>,
    again: &ApplicationState<A>,
) {
    let (mut first, mut again) =
        (WrittenObjects::new(first).peekable(), WrittenObjects::new(again).peekable());
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

/// Objects that an application writes as its checkpoint, in the order of numbers; an error ends the objects.
pub(super) struct WrittenObjects<'s, A> {
    state: &'s ApplicationState<A>,
    collected: VecDeque<CollectedObject>,
    /// Number where the call-back goes on; `None` after the last object.
    next: Option<u64>,
}

impl<'s, A: Application> WrittenObjects<'s, A> {
    pub(super) fn new(state: &'s ApplicationState<A>) -> Self {
        Self { state, collected: VecDeque::new(), next: Some(0) }
    }
}

impl<A: Application> Iterator for WrittenObjects<'_, A> {
    type Item = std::result::Result<CollectedObject, String>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.collected.is_empty() {
            let from = self.next.take()?;
            let sink = ObjectSink::Collected { objects: &mut self.collected, room: COLLECTED_BYTES };
            match write_objects(self.state, from..u64::MAX, sink) {
                Ok((next, _)) => self.next = next,
                Err(why) => return Some(Err(why)),
            }
        }
        self.collected.pop_front().map(Ok)
    }
}
