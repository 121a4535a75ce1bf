//! Checks that a loop has everything back: each list, count and timer against the connections, and all resources at the
//! end.
//!
//! Invariants: W1 (slots), W3 (turns and timers), W6 to W9 (the transport's holdings), W16 (memory).
//!
//! Neighbours: [`super`] has the lists; `connection`, `replies`, `memory` and transports check their own parts.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use super::*;
use crate::transport::TransportHoldings;

/// Largest number of steps until the last operations of a loop have ended, and the longest wait of a step.
const LAST_STEPS_MAX: usize = 400;
const LAST_WAIT: Duration = Duration::from_millis(50);

/// A loop for tests: checked in each step; the drop calls [`NetLoop::assert_all_returned`].
#[derive(Debug)]
pub struct CheckedLoop<T: Transport>(Option<NetLoop<T>>);

impl<T: Transport> CheckedLoop<T> {
    /// Checks this loop from now on.
    pub fn new(net: NetLoop<T>) -> Self {
        Self(Some(net))
    }

    /// The loop without further checks: its end is the test's own.
    pub fn into_inner(mut self) -> NetLoop<T> {
        self.0.take().expect(IN_USE)
    }

    /// Calls [`NetLoop::step`] and [`NetLoop::check`].
    ///
    /// # Errors
    /// The errors of the step.
    pub fn step(&mut self, wait_max: Duration) -> io::Result<()> {
        let net = &mut **self;
        net.step(wait_max)?;
        net.check();
        Ok(())
    }
}

const IN_USE: &str = "a checked loop is there until it is dropped";

impl<T: Transport> Deref for CheckedLoop<T> {
    type Target = NetLoop<T>;

    fn deref(&self) -> &NetLoop<T> {
        self.0.as_ref().expect(IN_USE)
    }
}

impl<T: Transport> DerefMut for CheckedLoop<T> {
    fn deref_mut(&mut self) -> &mut NetLoop<T> {
        self.0.as_mut().expect(IN_USE)
    }
}

impl<T: Transport> Drop for CheckedLoop<T> {
    fn drop(&mut self) {
        if let Some(net) = self.0.as_mut().filter(|_| !std::thread::panicking()) {
            net.assert_all_returned();
        }
    }
}

/// True if the list has the value once and `is_there` is true, or lacks the value and `is_there` is false.
fn is_once<V: PartialEq>(is_there: bool, list: impl Iterator<Item = V>, value: V) -> bool {
    list.filter(|listed| *listed == value).count() == usize::from(is_there)
}

impl<T: Transport> NetLoop<T> {
    /// Checks places, lists, events, timers and memory against the connections, for tests.
    ///
    /// # Panics
    /// If a part is missing or is counted twice.
    pub fn check(&self) {
        let announced = || {
            self.events.iter().filter_map(|event| match event {
                NetEvent::Received(id) => Some(*id),
                _ => None,
            })
        };
        let (mut open, mut free, mut by_bytes) = (0, 0, BTreeSet::new());
        for (index, place) in self.places.iter().enumerate() {
            let is_free = place.connection.is_none() && place.generation < u32::MAX;
            free += usize::from(is_free);
            let Some(connection) = place.connection.as_deref() else {
                assert!(
                    is_once(is_free, self.free.iter(), &(index as u32)),
                    "W1: place {index} is free once"
                );
                continue;
            };
            let id = connection.id;
            assert_eq!((id.index as usize, id.generation), (index, place.generation), "W1");
            assert!(is_once(connection.is_listed, self.listed.iter(), &id), "W3: {id:?} has one turn");
            assert!(is_once(connection.is_announced, announced(), id), "W3: {id:?} is told of once");
            let timer = connection.timer.and_then(|timer| self.timers.purpose(timer));
            let has_timer = matches!(timer, Some(TimerPurpose::Connection(its)) if *its == id);
            assert!(has_timer, "W3: {id:?} has a timer");
            open += 1;
            connection.check();
            let bytes = round_to_unit(connection.memory_bytes() + self.transport.held_bytes(id.token()));
            let is_counted = connection.counted_bytes == bytes || self.touched == Some(id);
            assert!(is_counted, "W16: {id:?} has {bytes} bytes, and not {}", connection.counted_bytes);
            by_bytes.extend(Some((connection.counted_bytes, id)).filter(|(bytes, _)| *bytes > 0));
        }
        assert_eq!(self.free.len(), free, "W1: a place that is in use is not free");
        assert_eq!(self.open_count(), open, "W1: a place that is given up is not open");
        self.check_timers(open);
        self.memory.check(&by_bytes);
    }

    fn check_timers(&self, open: usize) {
        let (mut of_connections, mut of_accepts, mut of_room) = (0, 0, 0);
        for purpose in self.timers.purposes() {
            match purpose {
                TimerPurpose::Connection(_) => of_connections += 1,
                TimerPurpose::Accept => of_accepts += 1,
                TimerPurpose::Room => of_room += 1,
                TimerPurpose::Caller(_) => {}
            }
        }
        assert_eq!(of_connections, open, "W3: each open connection has one timer, and no other");
        assert_eq!(of_accepts, usize::from(self.accept_is_paused), "W5: a pause has an end");
        assert_eq!(of_room, usize::from(self.is_room_timed), "W17: one timer for all with room");
        assert!(self.is_room_timed || self.memory.bytes() == 0, "W17: room is looked at");
    }

    /// Closes all connections and listeners, takes steps until the last operation has ended, and checks that nothing is
    /// missing: slots, turns, timers, memory, descriptors, lent buffers, sends. For the end of a test.
    ///
    /// # Panics
    /// If something is missing.
    pub fn assert_all_returned(&mut self) {
        self.check();
        self.end_all(Duration::ZERO);
        let open = self.places.iter().filter_map(|place| Some(place.connection.as_ref()?.id));
        open.collect::<Vec<_>>().into_iter().for_each(|id| self.close(id));
        let mut steps = 0;
        loop {
            while self.next_event().is_some() {}
            self.step(if steps == 0 { Duration::ZERO } else { LAST_WAIT }).expect("the transport waits");
            self.check();
            let holdings = self.transport.holdings();
            if holdings == TransportHoldings::default() {
                break;
            }
            steps += 1;
            assert!(steps < LAST_STEPS_MAX, "W9: the transport does not give back {holdings:?}");
        }
        assert_eq!((self.stats().open, self.listed.len()), (0, 0), "W1, W3: all slots and turns are free");
        assert_eq!(self.memory.bytes(), 0, "W16: all memory is given back");
    }
}
