//! The queues of waiting clients, over all loops.
//!
//! Invariants:
//! - A client is in the queue of each of its keys, except while it has a wake-up of that key. The queue's order is the
//!   order of arrival.
//! - The count of clients changes under the lock.
//!
//! Neighbours: [`super::Wait`] is a client's side; `execution` wakes behind a commit.

use std::collections::{BTreeSet, HashMap};

use ensile_base::sync::{AtomicUsize, Mutex, Ordering, fence};
use ensile_net::ConnectionId;

use super::{Arrival, WaitedKey};
use crate::channels::{Letter, LoopMailBox};

/// Reason why a client waits no longer, by `CLIENT UNBLOCK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnblockReason {
    /// As at the end of its time.
    Timeout,
    Error,
}

/// A client that waits, as its loop knows it.
#[derive(Clone, Debug)]
pub(crate) struct WaiterName {
    pub(crate) mail: LoopMailBox,
    pub(crate) connection: ConnectionId,
    /// Number of the client, for `CLIENT UNBLOCK`.
    pub(crate) client: u64,
}

/// Wake-ups of a key for a client.
#[derive(Debug)]
struct KeyWakeUps {
    key: WaitedKey,
    /// True if a wake-up has come since the begin of the last look.
    is_woken: bool,
    /// Number of wake-ups since the client slept for which looks have begun. A look that runs again after a conflict
    /// may have begun for several.
    held: usize,
}

#[derive(Debug)]
struct KeyWaiter {
    name: WaiterName,
    keys: Vec<KeyWakeUps>,
    /// True if a letter is needed: the client does not look.
    is_asleep: bool,
    unblocked: Option<UnblockReason>,
}

impl KeyWaiter {
    /// Has the client look again, if it sleeps.
    fn rouse(&mut self) {
        if std::mem::take(&mut self.is_asleep) {
            self.name.mail.post(Letter::Resume(self.name.connection), 0);
        }
    }
}

#[derive(Debug, Default)]
struct WaitTable {
    /// Places of the clients without a wake-up, by key, the earliest first.
    queues: HashMap<WaitedKey, BTreeSet<u64>>,
    /// Waiting clients by their places.
    waiters: HashMap<u64, KeyWaiter>,
    /// Places of waiting clients by the clients' numbers.
    by_client: HashMap<u64, u64>,
    last_place: u64,
}

impl WaitTable {
    fn enqueue(&mut self, key: &WaitedKey, place: u64) {
        match self.queues.get_mut(key) {
            Some(queue) => drop(queue.insert(place)),
            None => drop(self.queues.insert(key.clone(), BTreeSet::from([place]))),
        }
    }

    fn dequeue(&mut self, key: &WaitedKey, place: u64) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        queue.remove(&place);
        if queue.is_empty() {
            self.queues.remove(key);
        }
    }

    /// Gives wake-ups of a key to the first clients without one.
    fn wake(&mut self, key: &WaitedKey, count: usize) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        for _ in 0..count {
            let Some(place) = queue.pop_first() else { break };
            let waiter = self.waiters.get_mut(&place);
            debug_assert!(waiter.is_some(), "J3: a wake-up goes to a client that waits");
            let Some(waiter) = waiter else { continue };
            waiter.keys.iter_mut().filter(|own| own.key == *key).for_each(|own| own.is_woken = true);
            waiter.rouse();
        }
        if queue.is_empty() {
            self.queues.remove(key);
        }
    }
}

/// End of a client's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The last look has taken elements of a key.
    Took,
    /// The client takes nothing: an error, the end of its time or of its connection.
    Left,
}

/// All clients that wait for keys.
#[derive(Debug, Default)]
pub(crate) struct WaitingClients {
    count: AtomicUsize,
    table: Mutex<WaitTable>,
}

impl WaitingClients {
    /// Number of waiting clients.
    pub(crate) fn count(&self) -> usize {
        // Relaxed: a figure for people.
        self.count.load(Ordering::Relaxed)
    }

    /// Puts a client into the queues of its keys, and returns its place. The client looks again behind the call.
    pub(super) fn register(&self, name: WaiterName, keys: Vec<WaitedKey>) -> u64 {
        let mut table = self.table.lock();
        table.last_place += 1;
        let place = table.last_place;
        for key in &keys {
            table.enqueue(key, place);
        }
        let keys = keys.into_iter().map(|key| KeyWakeUps { key, is_woken: false, held: 0 }).collect();
        table.by_client.insert(name.client, place);
        let waiter = KeyWaiter { name, keys, is_asleep: false, unblocked: None };
        table.waiters.insert(place, waiter);
        // Relaxed: see the fence.
        self.count.fetch_add(1, Ordering::Relaxed);
        drop(table);
        // SeqCst: pairs with the fence in `wake`. If this fence is first, a push sees the count and takes the lock. If
        // the push's fence is first, the look behind this fence sees the pushed rows.
        fence(Ordering::SeqCst);
        place
    }

    /// Begins a look. The wake-ups so far are for this look; the client is in its queues again.
    pub(super) fn begin_look(&self, place: u64) -> Option<UnblockReason> {
        let mut table = self.table.lock();
        let waiter = table.waiters.get_mut(&place)?;
        waiter.is_asleep = false;
        let unblocked = waiter.unblocked;
        let mut woken = Vec::new();
        for own in waiter.keys.iter_mut().filter(|own| own.is_woken) {
            own.is_woken = false;
            own.held += 1;
            woken.push(own.key.clone());
        }
        for key in woken {
            table.enqueue(&key, place);
        }
        unblocked
    }

    /// Lets a client sleep whose look has found nothing. False if something has come meanwhile: the client looks again.
    pub(super) fn sleep(&self, place: u64) -> bool {
        let mut table = self.table.lock();
        let Some(waiter) = table.waiters.get_mut(&place) else { return false };
        // The look began behind these wake-ups, and has found nothing: others have taken the elements.
        waiter.keys.iter_mut().for_each(|own| own.held = 0);
        let may_sleep = waiter.unblocked.is_none() && !waiter.keys.iter().any(|own| own.is_woken);
        waiter.is_asleep = may_sleep;
        may_sleep
    }

    /// Ends a client's wait. Its wake-ups that may stand for elements go to the next clients.
    pub(super) fn leave(&self, place: u64, end: WaitEnd) {
        let mut table = self.table.lock();
        let Some(waiter) = table.waiters.remove(&place) else {
            debug_assert!(false, "a wait ends once");
            return;
        };
        // Relaxed: the lock orders the count for clients that register. A push that sees too much takes the lock in
        // vain.
        self.count.fetch_sub(1, Ordering::Relaxed);
        if table.by_client.get(&waiter.name.client) == Some(&place) {
            table.by_client.remove(&waiter.name.client);
        }
        // With one key, one of the wake-ups that the looks began for is used up.
        let used = usize::from(end == WaitEnd::Took && waiter.keys.len() == 1);
        for own in &waiter.keys {
            table.dequeue(&own.key, place);
        }
        for own in &waiter.keys {
            table.wake(&own.key, usize::from(own.is_woken) + own.held.saturating_sub(used));
        }
    }

    /// Wakes clients for elements that a commit has brought. The call comes behind the commit.
    pub(crate) fn wake(&self, arrivals: Vec<Arrival>) {
        if arrivals.is_empty() {
            return;
        }
        // SeqCst: pairs with the fence in `register`.
        fence(Ordering::SeqCst);
        // Relaxed: see the fence. A client that is not counted yet sees the elements.
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut table = self.table.lock();
        for arrival in arrivals {
            match arrival {
                Arrival::Pushed(key, count) => table.wake(&key, count),
                Arrival::Swapped(database) => {
                    let keys: Vec<WaitedKey> =
                        table.queues.keys().filter(|key| key.database == database).cloned().collect();
                    keys.iter().for_each(|key| table.wake(key, usize::MAX));
                }
            }
        }
    }

    /// Ends the wait of a client from outside. False if the client does not wait.
    pub(crate) fn unblock(&self, client: u64, reason: UnblockReason) -> bool {
        let mut table = self.table.lock();
        let Some(place) = table.by_client.get(&client).copied() else { return false };
        let Some(waiter) = table.waiters.get_mut(&place) else { return false };
        if waiter.unblocked.is_some() {
            return false;
        }
        waiter.unblocked = Some(reason);
        waiter.rouse();
        true
    }
}

#[cfg(test)]
mod tests;
