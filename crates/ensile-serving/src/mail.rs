//! Letters to a loop from any thread, and the clients of the loop for the receiver of a letter.
//!
//! Invariants:
//! - Letters of one sender are taken in the order of their posts. A letter wakes its loop.
//! - J4: a loop that takes its letters wakes the senders that found no room. No loop waits for room: a loop takes its
//!   letters while its own requests wait.
//!
//! Neighbours: a [`ServedProgram`](crate::ServedProgram) posts and takes letters; [`crate::ServingLoop`] hands letters
//! over; `loop_clients` has the clients.

use std::task::Waker;

use ensile_base::Epoch;
use ensile_base::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use ensile_net::{ConnectionId, LoopWakeUp};

use crate::client_state::{Client, ServedClient};

/// Bytes of waiting letters of a loop at which senders that can wait have to wait.
pub const MAIL_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
struct WaitingLetters<L> {
    letters: Vec<L>,
    /// Wakers of senders that wait for room, one of each loop.
    senders: Vec<Waker>,
}

/// Letters of a loop.
#[derive(Debug)]
pub struct LoopMail<L> {
    waiting: Mutex<WaitingLetters<L>>,
    /// True if letters may be there.
    has_letters: AtomicBool,
    /// Memory of the waiting letters in bytes. The count changes under the lock.
    bytes: AtomicUsize,
    /// Number of times that a sender has begun to wait for room.
    waits: AtomicU64,
    wake_up: LoopWakeUp,
}

impl<L> LoopMail<L> {
    /// The mail of the loop that `wake_up` wakes.
    #[must_use]
    pub fn new(wake_up: LoopWakeUp) -> Self {
        Self {
            waiting: Mutex::new(WaitingLetters { letters: Vec::new(), senders: Vec::new() }),
            has_letters: AtomicBool::new(false),
            bytes: AtomicUsize::new(0),
            waits: AtomicU64::new(0),
            wake_up,
        }
    }

    /// Posts a letter that has this number of bytes, and wakes the loop if no other letter waits. A letter of a sender
    /// that never waits has no bytes.
    pub fn post(&self, letter: L, bytes: usize) {
        let mut waiting = self.waiting.lock();
        waiting.letters.push(letter);
        if bytes > 0 {
            // Relaxed: the count changes under the lock.
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        if waiting.letters.len() == 1 {
            // Release: pairs with the swap in `take`. The loop that sees the flag sees the letter, by the lock.
            self.has_letters.store(true, Ordering::Release);
            drop(waiting);
            self.wake_up.wake();
        }
    }

    /// Takes all letters, the earliest first. The senders that wait for room are woken.
    pub fn take(&self) -> Vec<L> {
        // Relaxed: a letter that is not seen now has woken the loop, and the next step looks again.
        if !self.has_letters.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock();
        // Relaxed, both: the lock orders the stores before the next post.
        self.has_letters.store(false, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        let (letters, senders) = (std::mem::take(&mut waiting.letters), std::mem::take(&mut waiting.senders));
        drop(waiting);
        senders.iter().for_each(Waker::wake_by_ref);
        letters
    }

    /// Memory of the waiting letters in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // Relaxed: a figure for people, and a hint for senders, who look again under the lock.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of times that a sender has begun to wait for room.
    #[must_use]
    pub fn waits(&self) -> u64 {
        // Relaxed: a figure for people.
        self.waits.load(Ordering::Relaxed)
    }

    /// True if a sender may post. Otherwise the loop calls `waker` after it takes its letters (J4).
    pub fn has_room(&self, waker: &Waker) -> bool {
        if self.bytes() < MAIL_BYTES_MAX {
            return true;
        }
        let mut waiting = self.waiting.lock();
        // Under the lock: a loop that takes its letters behind this look finds the waker.
        let has_room = self.bytes() < MAIL_BYTES_MAX;
        if !has_room {
            // Relaxed: a figure for people.
            self.waits.fetch_add(1, Ordering::Relaxed);
            if !waiting.senders.iter().any(|sender| sender.will_wake(waker)) {
                waiting.senders.push(waker.clone());
            }
        }
        has_room
    }
}

/// The clients of a loop, for the receiver of a letter.
pub trait LoopClients<C> {
    /// The client of a connection; `None` if the connection has ended.
    fn client(&mut self, id: ConnectionId) -> Option<&mut Client<C>>;

    /// Visits all clients of the loop.
    fn visit(&mut self, visit: &mut dyn FnMut(&ServedClient<'_, C>));

    /// Sends bytes that are no reply to a client, once `epoch` is durable if replies wait. A client with too many
    /// unsent bytes is disconnected. The bytes for an ended connection are dropped.
    fn push(&mut self, id: ConnectionId, epoch: Epoch, bytes: &[u8]);

    /// Has the request of a client called again that waits for an event ([`Outcome::Wait`](crate::Outcome::Wait)). A
    /// client without such a request is left alone.
    fn resume(&mut self, id: ConnectionId);

    /// Ends a connection at once. Unsent bytes are lost.
    fn close(&mut self, id: ConnectionId);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use ensile_net::LoopWakeUp;

    use super::{LoopMail, MAIL_BYTES_MAX};

    #[derive(Default)]
    struct Calls(AtomicUsize);

    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn j4_a_sender_without_room_is_woken_once_the_letters_are_taken() {
        let mail = LoopMail::new(LoopWakeUp::new(|| ()));
        let calls = Arc::new(Calls::default());
        let waker = Waker::from(Arc::clone(&calls));
        mail.post('a', MAIL_BYTES_MAX - 1);
        assert!(mail.has_room(&waker));
        mail.post('b', 1);
        // A letter of a sender that never waits finds room.
        mail.post('c', 0);
        assert!(!mail.has_room(&waker) && !mail.has_room(&waker));
        assert_eq!((mail.bytes(), mail.waits(), calls.0.load(Ordering::Relaxed)), (MAIL_BYTES_MAX, 2, 0));
        assert_eq!(mail.take(), ['a', 'b', 'c']);
        assert_eq!((mail.bytes(), calls.0.load(Ordering::Relaxed)), (0, 1), "J4");
        assert!(mail.has_room(&waker));
    }
}
