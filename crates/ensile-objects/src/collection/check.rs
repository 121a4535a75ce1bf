//! Check of a folder against the present program, without an open: for a test with a recorded folder.
//!
//! Neighbours: the durability crate examines and replays; `recovery` rebuilds the objects, twice, and the check names
//! differences.

use std::path::Path;
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_disk::{Disk, RealDisk};
pub use ensile_durability::examination::Examination;
use ensile_durability::examination::examine;

use super::objects::Objects;
use super::persistent::{ObjectKey, Persistent, stated_types};
use super::shadow_copy::difference_of;
pub(crate) use super::shadow_copy::first_difference;
use super::shards::SHARDS;
use super::state::ObjectsState;
use crate::chunks::LACKS_PIECES;
use crate::error::{ObjectsError, ObjectsResult as Result};

/// Outcome of replaying a folder.
#[derive(Debug)]
#[non_exhaustive]
pub struct FolderCheck {
    /// Judgement of every byte. An object or operation that this program does not understand is damage here.
    pub examination: Examination,
    /// Number of rebuilt objects.
    pub objects: u64,
    /// Keys of objects on which an operation panics, the first time or the second.
    pub poisoned: Vec<String>,
    /// First object, by its key, with another state after the second replay, and the difference; or the part of the
    /// folder that the second replay refuses, and the reason.
    pub difference: Option<(String, Box<str>)>,
    /// For an application: the first operation that its call-backs do not replay.
    pub not_replayed: Option<ObjectsError>,
    /// Reason why no checkpoint can be made of the replayed objects: for an application the error of its call-back.
    pub not_written: Option<String>,
}

impl FolderCheck {
    /// True if the check found no fault.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.examination.is_whole()
            && self.poisoned.is_empty()
            && self.difference.is_none()
            && self.not_replayed.is_none()
            && self.not_written.is_none()
    }

    /// Notes the second examination of the folder. The folder's bytes are the same: a part that was understood the
    /// first time and is not now is the program's fault.
    pub(crate) fn note_second(&mut self, twice: &Examination) {
        if self.examination.is_whole() && !twice.is_whole() {
            let damage = twice.damage.first();
            let place = damage
                .map_or_else(String::new, |damage| format!("of {} at byte {}", damage.file, damage.offset));
            let why = damage.map_or_else(String::new, |damage| format!(": {}", damage.detail));
            self.difference = Some((place, format!("read again, it is refused{why}").into()));
        }
    }

    /// Check of a folder whose bytes were judged.
    pub(crate) fn from_examination(examination: Examination) -> Self {
        let (poisoned, difference) = (Vec::new(), None);
        Self { examination, objects: 0, poisoned, difference, not_replayed: None, not_written: None }
    }
}

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    /// Replays a folder against this program, twice: every byte is judged, every object and operation is decoded and
    /// applied, and a difference of the second replay is named. No process may have the folder open. Nothing is
    /// changed.
    ///
    /// # Errors
    /// [`ObjectsError::Storage`](crate::ObjectsError::Storage) if the folder is in use, is a database's or no
    /// folder of ours, is unreadable, or has keys, objects or operations of another type.
    pub fn check(folder: impl AsRef<Path>) -> Result<FolderCheck> {
        let disk = existing_disk(folder)?;
        let clock = Clock::manual();
        let (first, again) = (ObjectsState::<K, T>::new(&clock), ObjectsState::<K, T>::new(&clock));
        let examination = examine(&disk, &first)?;
        stated_types::<K, T>().check(&*disk, &examination.types)?;
        let twice = examine(&disk, &again)?;
        let mut check = FolderCheck::from_examination(examination);
        check.note_second(&twice);
        if check.examination.is_whole() && !(first.pieces.is_whole() && again.pieces.is_whole()) {
            check.not_written = Some(LACKS_PIECES.to_owned());
        }
        for shard in 0..SHARDS {
            for (_, cell) in first.shards.from(shard, 0, u32::MAX) {
                let state = cell.lock();
                let Some(key) = &state.key else { continue };
                check.objects += u64::from(state.object.is_some() && !state.is_poisoned);
                let other = again.shards.find(key, again.shards.hash(key)).ok().map(|cell| cell.lock());
                if state.is_poisoned || other.as_ref().is_some_and(|state| state.is_poisoned) {
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
        debug_assert!(check.objects <= first.shards.count(), "an object has a cell");
        Ok(check)
    }
}

/// Disk of a folder that exists.
pub(crate) fn existing_disk(folder: impl AsRef<Path>) -> Result<Arc<dyn Disk>> {
    Ok(Arc::new(RealDisk::open_existing(folder)?))
}
