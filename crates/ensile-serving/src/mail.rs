//! Letters to a loop from any thread, and the clients of the loop for the receiver of a letter.
//!
//! Invariant: letters of one sender are taken in the order of their posts. A letter wakes its loop.
//!
//! Neighbours: a [`ServedProgram`](crate::ServedProgram) posts and takes letters; [`crate::ServingLoop`] hands letters
//! over; `loop_clients` has the clients.

use ensile_base::Epoch;
use ensile_base::sync::{AtomicBool, Mutex, Ordering};
use ensile_net::{ConnectionId, LoopWakeUp};

use crate::client_state::{Client, ServedClient};

/// Letters of a loop.
#[derive(Debug)]
pub struct LoopMail<L> {
    letters: Mutex<Vec<L>>,
    /// True if letters may be there.
    has_letters: AtomicBool,
    wake_up: LoopWakeUp,
}

impl<L> LoopMail<L> {
    /// The mail of the loop that `wake_up` wakes.
    #[must_use]
    pub fn new(wake_up: LoopWakeUp) -> Self {
        Self { letters: Mutex::new(Vec::new()), has_letters: AtomicBool::new(false), wake_up }
    }

    /// Handle that ends a wait of the loop.
    #[must_use]
    pub fn wake_up(&self) -> &LoopWakeUp {
        &self.wake_up
    }

    /// Posts a letter, and wakes the loop if no other letter waits.
    pub fn post(&self, letter: L) {
        let mut letters = self.letters.lock();
        letters.push(letter);
        if letters.len() == 1 {
            // Release: pairs with the swap in `take`. The loop that sees the flag sees the letter, by the lock.
            self.has_letters.store(true, Ordering::Release);
            drop(letters);
            self.wake_up.wake();
        }
    }

    /// Takes all letters, the earliest first.
    pub fn take(&self) -> Vec<L> {
        // Relaxed: a letter that is not seen now has woken the loop, and the next step looks again.
        if !self.has_letters.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut letters = self.letters.lock();
        // Relaxed: the lock orders the store before the next post.
        self.has_letters.store(false, Ordering::Relaxed);
        std::mem::take(&mut *letters)
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
