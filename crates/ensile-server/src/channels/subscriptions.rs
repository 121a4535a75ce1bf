//! The names that a client listens to.
//!
//! Neighbours: `publish` adds and removes names; [`super::Listeners`] has the clients of a loop.

use std::collections::BTreeSet;

use super::{ChannelKind, ListenKind};

/// Largest number of names that a client listens to.
pub(crate) const NAMES_MAX: usize = 1 << 16;
/// Largest length of all names that a client listens to, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 8 << 20;
/// Memory of a listener beside the name's own bytes, in bytes (W16): entries of three trees, of which two may be new.
const LISTENER_BYTES: usize = 256;

const _: () = assert!(
    NAME_BYTES_MAX + 64 * NAMES_MAX < ensile_serving::REPLY_BYTES,
    "W2: the replies to an UNSUBSCRIBE of everything are within the limit"
);

/// The names that a client listens to.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    channels: BTreeSet<Box<[u8]>>,
    shard_channels: BTreeSet<Box<[u8]>>,
    patterns: BTreeSet<Box<[u8]>>,
    /// Length of all names in bytes; a name of two kinds counts twice.
    pub(crate) name_bytes: usize,
}

impl Subscriptions {
    pub(crate) fn of_kind(&mut self, kind: ListenKind) -> &mut BTreeSet<Box<[u8]>> {
        match kind {
            ListenKind::Channel(ChannelKind::Plain) => &mut self.channels,
            ListenKind::Channel(ChannelKind::Shard) => &mut self.shard_channels,
            ListenKind::Pattern => &mut self.patterns,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.channels.len() + self.shard_channels.len() + self.patterns.len()
    }

    /// Numbers of channels, patterns and shard channels.
    pub(crate) fn counts(&self) -> [usize; 3] {
        [self.channels.len(), self.patterns.len(), self.shard_channels.len()]
    }

    /// Number of names in the reply of a command of this kind: the shard channels count apart.
    pub(crate) fn count_beside(&self, kind: ListenKind) -> usize {
        match kind {
            ListenKind::Channel(ChannelKind::Shard) => self.shard_channels.len(),
            _ => self.channels.len() + self.patterns.len(),
        }
    }

    /// Memory of the names in bytes (W16).
    pub(crate) fn memory_bytes(&self) -> usize {
        LISTENER_BYTES * self.count() + 3 * self.name_bytes
    }
}
