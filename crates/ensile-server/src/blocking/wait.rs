//! The wait of a client for keys, from its first look to its end.
//!
//! Invariant: a wait that is dropped has left the queues. A connection that ends drops its wait.
//!
//! Neighbours: `execution` keeps the wait with the client; [`super::WaitingClients`] has the queues.

use std::collections::HashSet;
use std::sync::Arc;

use super::waiting::{WaitEnd, WaiterName};
use super::{UnblockReason, WaitedKey, WaitingClients};

/// A client's wait.
#[derive(Debug)]
pub(crate) struct Wait {
    clients: Arc<WaitingClients>,
    place: u64,
    /// End of the wait in nanoseconds of the loops' clock; `u64::MAX` is never.
    until_nanos: u64,
    /// Memory of the keys in bytes.
    key_bytes: usize,
    /// Positions of the first look (J5).
    positions: Box<[u128]>,
    end: WaitEnd,
}

impl Wait {
    /// Puts a client into the queues of keys. The client looks again behind the call.
    pub(crate) fn register(
        clients: &Arc<WaitingClients>,
        name: WaiterName,
        mut keys: Vec<WaitedKey>,
        until_nanos: u64,
        positions: Box<[u128]>,
    ) -> Self {
        let mut seen = HashSet::new();
        keys.retain(|key| seen.insert(key.clone()));
        let key_bytes = keys.iter().map(|key| 2 * (key.key.len() + size_of::<WaitedKey>())).sum();
        let place = clients.register(name, keys);
        Self { clients: Arc::clone(clients), place, until_nanos, key_bytes, positions, end: WaitEnd::Left }
    }

    pub(crate) fn positions(&self) -> &[u128] {
        &self.positions
    }

    pub(crate) fn until_nanos(&self) -> u64 {
        self.until_nanos
    }

    /// Begins a look. Returns the reason if the client is to wait no longer.
    pub(crate) fn begin_look(&self) -> Option<UnblockReason> {
        self.clients.begin_look(self.place)
    }

    /// Lets the client sleep, as its look has found nothing. False if the client is to look again.
    pub(crate) fn sleep(&self) -> bool {
        self.clients.sleep(self.place)
    }

    /// Ends the wait: the last look has taken elements.
    pub(crate) fn end_with_elements(mut self) {
        self.end = WaitEnd::Took;
    }

    /// Memory of the wait in bytes (W16).
    pub(crate) fn memory_bytes(&self) -> usize {
        self.key_bytes + size_of_val(&*self.positions) + 256
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.clients.leave(self.place, self.end);
    }
}
