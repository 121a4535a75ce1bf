//! The record that was read last: a put that follows a get of the same key needs no second descent.
//!
//! Neighbours: reads fill it, writes ask it.

use crate::record::Handle;

/// The record that was read last: a put that follows a get of the same key needs no second descent.
#[derive(Debug, Default)]
pub(crate) struct LastRead {
    found: Option<(u32, Handle)>,
    key: [u8; LastRead::KEY_BYTES_MAX],
    length: u8,
}

impl LastRead {
    /// Longer keys are looked up again.
    const KEY_BYTES_MAX: usize = 32;

    #[inline]
    pub(crate) fn remember(&mut self, table: u32, key: &[u8], record: Handle) {
        if key.len() <= Self::KEY_BYTES_MAX {
            // The usual length is worth a copy of its own: one store.
            if let Ok(word) = <[u8; 8]>::try_from(key) {
                self.key[..8].copy_from_slice(&word);
            } else {
                self.key[..key.len()].copy_from_slice(key);
            }
            self.length = key.len() as u8;
            self.found = Some((table, record));
        } else {
            self.found = None;
        }
    }

    #[inline]
    pub(crate) fn find(&self, table: u32, key: &[u8]) -> Option<Handle> {
        let (last_table, record) = self.found?;
        (last_table == table && &self.key[..usize::from(self.length)] == key).then_some(record)
    }

    /// The record of the last lookup, for who has just looked up the key that it will write.
    #[inline]
    pub(crate) fn latest(&self) -> Option<Handle> {
        self.found.map(|(_, record)| record)
    }

    #[inline]
    pub(crate) fn forget(&mut self) {
        self.found = None;
    }
}
