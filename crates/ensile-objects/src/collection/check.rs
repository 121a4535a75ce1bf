//! A folder replayed against the present program, without opening it: for a test that has a recorded folder.
//!
//! Neighbours: the durability crate examines and replays; `recover` takes in, twice, and what differs is named.

use std::path::Path;
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_disk::{Disk, RealDisk};
pub use ensile_durability::examine::Examination;
use ensile_durability::examine::examine;

use super::checked::difference_of;
pub(crate) use super::checked::first_difference;
use super::persistent::{ObjectKey, Persistent};
use super::shards::SHARDS;
use super::{Objects, ObjectsState};
use crate::error::{ObjectsError, ObjectsResult as Result};

/// What an open refuses, too (O5).
pub(crate) const LACKS_PIECES: &str = "an object of the checkpoint lacks pieces";

/// What replaying a folder came to.
#[derive(Debug)]
#[non_exhaustive]
pub struct FolderCheck {
    /// The judgement of every byte. An object or operation that this program does not understand is damage here.
    pub examination: Examination,
    /// Objects that were rebuilt.
    pub objects: u64,
    /// Keys of objects on which an operation panics, the first time or the second.
    pub poisoned: Vec<String>,
    /// The first object, by its key, that comes to something else when the folder is replayed again, and how. Or what
    /// of the folder is refused then, and why.
    pub difference: Option<(String, Box<str>)>,
    /// Of an application: the first operation that its call-backs do not replay.
    pub not_replayed: Option<ObjectsError>,
    /// Why no checkpoint can be made of what was replayed: of an application what its call-back says.
    pub not_written: Option<String>,
}

impl FolderCheck {
    /// Whether all is as it should be.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.examination.is_whole()
            && self.poisoned.is_empty()
            && self.difference.is_none()
            && self.not_replayed.is_none()
            && self.not_written.is_none()
    }

    /// The folder was examined once more. Its bytes are the same: what was understood and is not now is the program's.
    pub(crate) fn note_second(&mut self, twice: &Examination) {
        if self.examination.is_whole() && !twice.is_whole() {
            let what = twice.damage.first().map_or_else(
                || "read again, it is refused".into(),
                |damage| format!("read again, it is refused: {}", damage.detail).into(),
            );
            let place = twice
                .damage
                .first()
                .map_or_else(String::new, |damage| format!("of {} at byte {}", damage.file, damage.offset));
            self.difference = Some((place, what));
        }
    }

    /// Of a folder whose bytes were judged.
    pub(crate) fn of(examination: Examination) -> Self {
        let (poisoned, difference) = (Vec::new(), None);
        Self { examination, objects: 0, poisoned, difference, not_replayed: None, not_written: None }
    }
}

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    /// Replays a folder, which no process has open, against this program, twice: every byte is judged, every object and
    /// operation decoded and applied, and what comes to something else the second time is named. Nothing is changed.
    ///
    /// # Errors
    /// [`ObjectsError::Durability`](crate::ObjectsError::Durability) if the folder is in use, is a database's or no
    /// folder of ours, or cannot be read.
    pub fn check(folder: impl AsRef<Path>) -> Result<FolderCheck> {
        check_on::<K, T>(&(Arc::new(RealDisk::existing(folder)?) as Arc<dyn Disk>))
    }
}

pub(super) fn check_on<K: ObjectKey, T: Persistent>(disk: &Arc<dyn Disk>) -> Result<FolderCheck> {
    let clock = Clock::manual();
    let (first, again) = (ObjectsState::<K, T>::new(&clock), ObjectsState::<K, T>::new(&clock));
    let examination = examine(disk, &first)?;
    let twice = examine(disk, &again)?;
    let mut check = FolderCheck::of(examination);
    check.note_second(&twice);
    if check.examination.is_whole() && !(first.pieces.is_whole() && again.pieces.is_whole()) {
        check.not_written = Some(LACKS_PIECES.to_owned());
    }
    for shard in 0..SHARDS {
        for (_, cell) in first.shards.from(shard, 0, u32::MAX) {
            let state = cell.lock();
            let Some(key) = &state.key else { continue };
            if state.is_poisoned {
                check.poisoned.push(format!("{key:?}"));
                continue;
            }
            check.objects += u64::from(state.object.is_some());
            let other = again.shards.find(key, again.shards.hash(key)).ok().map(|cell| cell.lock());
            if other.as_ref().is_some_and(|state| state.is_poisoned) {
                // Whatever it was the first time.
                check.poisoned.push(format!("{key:?}"));
                continue;
            }
            let other = other.as_ref().and_then(|state| state.object.as_ref());
            if let Some(difference) = difference_of(state.object.as_ref(), other)
                && check.difference.is_none()
            {
                check.difference = Some((format!("{key:?}"), difference));
            }
        }
    }
    Ok(check)
}
