//! The queues of waiting clients, without loops: wake-ups and their letters.
//!
//! Neighbours: `blocking::tests` has whole servers.

use std::sync::Arc;

use ensile_net::{ConnectionId, LoopWakeUp};
use ensile_serving::LoopMail;

use super::{UnblockReason, WaitEnd, WaiterName, WaitingClients};
use crate::blocking::{Arrival, WaitKind, WaitedKey};
use crate::channels::{Letter, LoopMailBox};

/// Waiting clients of one loop, whose letters a test reads.
struct Queues {
    clients: WaitingClients,
    mail: LoopMailBox,
}

fn key(name: &str) -> WaitedKey {
    WaitedKey { database: 0, kind: WaitKind::List, key: name.as_bytes().into() }
}

impl Queues {
    fn new() -> Self {
        Self { clients: WaitingClients::default(), mail: Arc::new(LoopMail::new(LoopWakeUp::new(|| ()))) }
    }

    /// A client with this number that sleeps for keys; returns its place.
    fn sleeping(&self, client: u64, keys: &[&str]) -> u64 {
        let place = self.looking(client, keys);
        assert!(self.clients.sleep(place), "nothing has come");
        place
    }

    /// A client that has registered, and looks.
    fn looking(&self, client: u64, keys: &[&str]) -> u64 {
        let name =
            WaiterName { mail: Arc::clone(&self.mail), connection: ConnectionId::of_number(client), client };
        self.clients.register(name, keys.iter().map(|name| key(name)).collect())
    }

    fn push(&self, name: &str, count: usize) {
        self.clients.wake(vec![Arrival::Pushed(key(name), count)]);
    }

    /// The clients that got a letter since the last call.
    fn woken(&self) -> Vec<u64> {
        let number = |letter: Letter| match letter {
            Letter::Resume(connection) => connection.number(),
            Letter::Message(..) | Letter::Clients(_) => panic!("nobody publishes"),
        };
        self.mail.take().into_iter().map(number).collect()
    }
}

#[test]
fn a_push_wakes_the_longest_waiting_clients() {
    let queues = Queues::new();
    for client in 1..=4 {
        queues.sleeping(client, &["a"]);
    }
    queues.push("other", 9);
    assert!(queues.woken().is_empty());
    queues.push("a", 1);
    assert_eq!(queues.woken(), [1]);
    queues.push("a", 2);
    assert_eq!(queues.woken(), [2, 3], "the first client has its wake-up");
}

#[test]
fn a_client_that_was_too_late_keeps_its_place() {
    let queues = Queues::new();
    let first = queues.sleeping(1, &["a"]);
    queues.sleeping(2, &["a"]);
    queues.push("a", 1);
    assert_eq!(queues.woken(), [1]);
    assert_eq!(queues.clients.begin_look(first), None);
    assert!(queues.clients.sleep(first), "another client has taken the element");
    queues.push("a", 1);
    assert_eq!(queues.woken(), [1]);
}

#[test]
fn j3_a_wake_up_of_a_client_that_leaves_goes_to_the_next() {
    for looks in [false, true] {
        let queues = Queues::new();
        let first = queues.sleeping(1, &["a"]);
        queues.sleeping(2, &["a"]);
        queues.push("a", 1);
        assert_eq!(queues.woken(), [1]);
        if looks {
            assert_eq!(queues.clients.begin_look(first), None);
        }
        queues.clients.leave(first, WaitEnd::Left);
        assert_eq!(queues.woken(), [2], "J3: the element is there, and a client sleeps");
    }
}

#[test]
fn j3_a_push_during_a_look_is_seen_by_the_next_look() {
    let queues = Queues::new();
    let first = queues.looking(1, &["a"]);
    queues.push("a", 1);
    assert!(queues.woken().is_empty(), "the client does not sleep");
    assert!(!queues.clients.sleep(first), "J3: the look may have begun before the push");
    assert_eq!(queues.clients.begin_look(first), None);
    assert!(queues.clients.sleep(first));
}

#[test]
fn j3_a_client_that_takes_from_one_of_its_keys_hands_the_others_on() {
    let queues = Queues::new();
    let first = queues.sleeping(1, &["a", "b"]);
    queues.sleeping(2, &["a"]);
    queues.sleeping(3, &["b"]);
    queues.push("a", 1);
    queues.push("b", 1);
    assert_eq!(queues.woken(), [1], "the client is the first for both keys");
    assert_eq!(queues.clients.begin_look(first), None);
    queues.clients.leave(first, WaitEnd::Took);
    let mut woken = queues.woken();
    woken.sort_unstable();
    assert_eq!(woken, [2, 3], "J3: one of the elements is there");
}

#[test]
fn a_client_that_takes_the_element_of_its_wake_up_wakes_nobody() {
    let queues = Queues::new();
    let first = queues.sleeping(1, &["a"]);
    queues.sleeping(2, &["a"]);
    queues.push("a", 1);
    assert_eq!(queues.clients.begin_look(first), None);
    queues.woken();
    queues.clients.leave(first, WaitEnd::Took);
    assert!(queues.woken().is_empty());
    assert_eq!(queues.clients.count(), 1);
}

#[test]
fn a_swap_wakes_all_clients_of_the_database() {
    let queues = Queues::new();
    queues.sleeping(1, &["a"]);
    queues.sleeping(2, &["b", "c"]);
    queues.clients.wake(vec![Arrival::Swapped(1)]);
    assert!(queues.woken().is_empty());
    queues.clients.wake(vec![Arrival::Swapped(0)]);
    let mut woken = queues.woken();
    woken.sort_unstable();
    assert_eq!(woken, [1, 2]);
}

#[test]
fn an_unblocked_client_learns_the_reason_at_its_look() {
    let queues = Queues::new();
    let place = queues.sleeping(7, &["a"]);
    assert!(!queues.clients.unblock(8, UnblockReason::Error));
    assert!(queues.clients.unblock(7, UnblockReason::Error));
    assert!(!queues.clients.unblock(7, UnblockReason::Timeout), "the client waits no longer");
    assert_eq!(queues.woken(), [7]);
    assert_eq!(queues.clients.begin_look(place), Some(UnblockReason::Error));
    queues.clients.leave(place, WaitEnd::Left);
    assert_eq!(queues.clients.count(), 0);
}

#[test]
fn two_wake_ups_of_one_client_are_two() {
    let queues = Queues::new();
    let first = queues.sleeping(1, &["a"]);
    queues.sleeping(2, &["a"]);
    queues.push("a", 1);
    queues.clients.begin_look(first);
    // The look loses to the second push, and runs again.
    queues.push("a", 1);
    queues.clients.begin_look(first);
    assert_eq!(queues.woken(), [1]);
    queues.clients.leave(first, WaitEnd::Took);
    assert_eq!(queues.woken(), [2], "the second element is for the next client");
}
