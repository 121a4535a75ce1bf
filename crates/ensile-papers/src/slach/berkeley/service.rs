//! The hash table of `ensile-services`, called in this process as its service calls it.
//!
//! Neighbours: [`super::table`] calls it.

use ensile_bench::{Failure, Result};
use ensile_objects::{CheckpointHandle, ObjectsBuilder, ObjectsStats};
use ensile_services::pht::PersistentTable;
use ensile_services::service::{CallError, RestsOn, Service as _};

use super::keys::MULTI_GET;
use super::table::HashTable;

impl HashTable for PersistentTable {
    fn open(builder: ObjectsBuilder) -> Result<Self> {
        Ok(Self::open(builder)?)
    }

    #[inline]
    fn get(&self, key: u64, room: &mut [u8]) -> Result<bool> {
        self.look(&key.to_le_bytes(), &RestsOn::default(), |value| copy(value, room)).map_err(refused)
    }

    #[inline]
    fn get_many(&self, keys: &[u64; MULTI_GET], room: &mut [u8]) -> Result<bool> {
        let keys = keys.map(u64::to_le_bytes);
        let mut rooms = room.chunks_exact_mut(room.len() / MULTI_GET);
        let mut all = true;
        self.look_many(keys.iter().map(<[u8; 8]>::as_slice), &RestsOn::default(), |_, value| {
            all &= rooms.next().is_some_and(|room| copy(value, room));
        })
        .map_err(refused)?;
        Ok(all)
    }

    #[inline]
    fn set(&mut self, key: u64, value: &[u8]) -> Result<()> {
        self.put(&key.to_le_bytes(), value, &RestsOn::default()).map_err(refused)
    }

    fn checkpoint(&self) -> CheckpointHandle {
        self.persistent_objects().checkpoint()
    }

    fn stats(&self) -> ObjectsStats {
        self.persistent_objects().stats()
    }

    fn close(&self) -> Result<()> {
        Ok(self.persistent_objects().close()?)
    }
}

#[cold]
fn refused(error: CallError) -> Failure {
    Failure::Usage(format!("the table refuses a key: {error}"))
}

/// Copies a value out; false if it is not as long as its room.
#[inline]
pub(super) fn copy(value: Option<&[u8]>, room: &mut [u8]) -> bool {
    let value = value.filter(|value| value.len() == room.len());
    value.map(|value| room.copy_from_slice(value)).is_some()
}
