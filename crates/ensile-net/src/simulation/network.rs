//! Simulated clients, the bytes between clients and loop, and the time that passes in waits.
//!
//! A closed socket with unread bytes, or with bytes that come later, loses the bytes that the client has not read
//! (W13). Time is a manual clock.
//!
//! Neighbours: [`super::readiness`] and [`super::ring`] are the loop's two views of these clients.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::{Arc, AtomicBool, Ordering};

use crate::transport::{ConnectionEnds, LoopWakeUp};

/// Error number of a process without free descriptors (`EMFILE` of Linux).
const NO_DESCRIPTORS: i32 = 24;

/// Percent of the readiness that comes in a later wait.
pub(super) const LATE_PERCENT: u64 = 20;

/// Port of the first client, and of the listener.
const FIRST_PORT: u16 = 40_000;
const LISTENER_PORT: u16 = 1;

/// Both directions between a client and the loop.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) to_loop: VecDeque<u8>,
    pub(super) to_client: VecDeque<u8>,
    /// Bytes that the client has read.
    pub(super) taken: Vec<u8>,
    /// Room of `to_client` in bytes.
    window_bytes: usize,
    /// Number of bytes that the client takes in a wait.
    pub(super) speed_bytes: usize,
    pub(super) has_ended: bool,
    pub(super) has_vanished: bool,
    /// True if the client does not end when it reads the loop's end.
    pub(super) stays: bool,
    /// True if the loop sends no more, or has closed its end.
    pub(super) sends_no_more: bool,
    is_closed: bool,
}

impl Pipe {
    pub(super) fn has_read_the_end(&self) -> bool {
        self.sends_no_more && self.to_client.is_empty()
    }

    /// True if a read would not block.
    pub(super) fn has_arrivals(&self) -> bool {
        self.has_ended || self.has_vanished || !self.to_loop.is_empty()
    }

    /// Number of bytes that a send could take.
    pub(super) fn room(&self) -> usize {
        assert!(self.to_client.len() <= self.window_bytes, "a send takes no more bytes than the window has");
        self.window_bytes - self.to_client.len()
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.to_loop.extend(bytes);
        self.reset_if_unread();
    }

    /// Removes the client with all bytes under way.
    pub(super) fn vanish(&mut self) {
        self.has_vanished = true;
        self.to_loop.clear();
        self.to_client.clear();
    }

    /// Closes the loop's end.
    pub(super) fn close(&mut self) {
        (self.sends_no_more, self.is_closed) = (true, true);
        self.reset_if_unread();
    }

    /// Resets a closed socket with unread bytes: the client loses the bytes that the client has not read.
    fn reset_if_unread(&mut self) {
        if self.is_closed && !self.to_loop.is_empty() {
            self.to_client.clear();
        }
    }
}

/// Clients of a seed.
#[derive(Debug)]
pub(super) struct SimulatedNetwork {
    clock: Clock,
    pub(super) random: Random,
    pub(super) pipes: Vec<Pipe>,
    /// Clients that wait to be accepted.
    pub(super) backlog: VecDeque<usize>,
    /// Calls of `accept` that are still to fail.
    pub(super) refusals: usize,
    /// Calls of `accept` so far.
    pub(super) accepts: usize,
    woken: Arc<AtomicBool>,
}

impl SimulatedNetwork {
    pub(super) fn new(clock: Clock, random: Random) -> Self {
        Self {
            clock,
            random,
            pipes: Vec::new(),
            backlog: VecDeque::new(),
            refusals: 0,
            accepts: 0,
            woken: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Connects a client. Returns its number.
    pub(super) fn connect(&mut self, window_bytes: usize, speed_bytes: usize) -> usize {
        self.pipes.push(Pipe {
            to_loop: VecDeque::new(),
            to_client: VecDeque::new(),
            taken: Vec::new(),
            window_bytes,
            speed_bytes,
            has_ended: false,
            has_vanished: false,
            stays: false,
            sends_no_more: false,
            is_closed: false,
        });
        self.backlog.push_back(self.pipes.len() - 1);
        self.pipes.len() - 1
    }

    /// Accepts a client. Returns its number.
    pub(super) fn accept(&mut self) -> io::Result<usize> {
        self.accepts += 1;
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err(io::Error::from_raw_os_error(NO_DESCRIPTORS));
        }
        self.backlog.pop_front().ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Made-up addresses of a client: ports from [`FIRST_PORT`] on. `None` for a client that has vanished.
    pub(super) fn ends(&self, client: usize) -> Option<ConnectionEnds> {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let port = u16::try_from(client).ok()?.checked_add(FIRST_PORT)?;
        debug_assert_ne!(port, LISTENER_PORT, "W9: the address of a client is the client's own");
        let ends = ConnectionEnds::Tcp { peer: at(port), local: at(LISTENER_PORT) };
        (!self.pipes[client].has_vanished).then_some(ends)
    }

    /// Lets clients read, and end at the loop's end.
    pub(super) fn clients_read(&mut self) {
        for pipe in &mut self.pipes {
            let bytes = pipe.speed_bytes.min(pipe.to_client.len());
            pipe.taken.extend(pipe.to_client.drain(..bytes));
            pipe.has_ended |= pipe.has_read_the_end() && !pipe.stays;
        }
    }

    /// Shuffles: the system promises no order.
    pub(super) fn shuffle<T>(&mut self, values: &mut [T]) {
        for at in (1..values.len()).rev() {
            values.swap(at, self.random.next_below(at as u64 + 1) as usize);
        }
    }

    /// Ends a wait: time passes if nothing is ready. True if a wake-up came.
    pub(super) fn end_wait(&mut self, wait_max: Option<Duration>, is_ready: bool, has_more: bool) -> bool {
        // Relaxed: a wake-up guards no data, and this test's one thread has set the flag.
        let woken = self.woken.swap(false, Ordering::Relaxed);
        if !is_ready && !woken {
            let wait_max = wait_max.unwrap_or(Duration::from_millis(1));
            // Late readiness comes after a moment, and not at the end of the wait.
            self.clock.advance(if has_more { wait_max.min(Duration::from_micros(1)) } else { wait_max });
        }
        woken
    }

    pub(super) fn wake_up(&self) -> LoopWakeUp {
        let woken = Arc::clone(&self.woken);
        // Relaxed: a wake-up guards no data; `end_wait` takes the flag.
        LoopWakeUp::new(move || woken.store(true, Ordering::Relaxed))
    }
}
