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

/// What replaying a folder came to.
#[derive(Debug)]
#[non_exhaustive]
pub struct FolderCheck {
    /// The judgement of every byte. An object or operation that this program does not understand is damage here.
    pub examination: Examination,
    /// Objects that were rebuilt.
    pub objects: u64,
    /// Keys of objects on which an operation panics.
    pub poisoned: Vec<String>,
    /// The first object, by its key, that comes to something else when the folder is replayed again, and how.
    pub difference: Option<(String, Box<str>)>,
    /// Of an application: the first operation that its call-backs do not replay.
    pub not_replayed: Option<ObjectsError>,
    /// Of an application: why no checkpoint can be made of what was replayed.
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
    examine(disk, &again)?;
    let mut check = FolderCheck::of(examination);
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
