//! A transport that a seed drives, and the clients at its other end, for tests of this crate and of servers.
//!
//! Bytes arrive in pieces and are taken in pieces, calls return `WouldBlock` without need, readiness is told late,
//! twice or in vain, clients are slow, end or vanish, and the system refuses to accept. With half of the seeds bytes
//! are sent behind the call that gave them, and a later one says how many went (W7). All of it repeats with the seed.
//! As with the machine's, a socket that is closed while bytes of its client are unread, or that gets some behind that,
//! takes what its client has not read yet with it (W13).
//! Time is a manual clock: it moves when the loop waits and nothing is ready.
//!
//! Neighbours: [`crate::transport`] says what is promised; a test plays clients by [`crate::NetLoop::transport_mut`].

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicBool, Ordering};

use crate::transport::{ListenAddress, LoopWakeUp, Readiness, SocketToken, Transport};

/// Of this many percent of the calls that could go on the answer is `WouldBlock`.
const SPURIOUS_PERCENT: u64 = 10;
/// Of this many percent of the readiness that could be told nothing is said yet.
const LATE_PERCENT: u64 = 20;

/// What the system says when a process has no descriptors left (`EMFILE` of Linux).
const NO_DESCRIPTORS: i32 = 24;

/// A client of the simulated transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(usize);

/// Both directions between a client and the loop.
#[derive(Debug)]
struct Pipe {
    token: Option<SocketToken>,
    to_loop: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// Bytes that a write gave and whose outcome it was not told yet, and how many of them went, once some did.
    given: Vec<u8>,
    sent: Option<usize>,
    taken: Vec<u8>,
    /// Bytes that `to_client` has room for.
    window_bytes: usize,
    /// Bytes that the client takes in a wait.
    speed_bytes: usize,
    has_ended: bool,
    has_vanished: bool,
    /// The client does not end when it reads the loop's end.
    stays: bool,
    /// The loop sends no more, or has closed its end.
    sends_no_more: bool,
    is_closed: bool,
    /// Readiness is to be told once it is there.
    tells_reads: bool,
    tells_writes: bool,
}

/// Sockets of a seed.
#[derive(Debug)]
pub struct SimulatedTransport {
    clock: Clock,
    random: Random,
    listeners: Vec<SocketToken>,
    tells_accept: bool,
    backlog: VecDeque<usize>,
    pipes: Vec<Pipe>,
    by_token: HashMap<SocketToken, usize>,
    /// Of this many percent of the chances readiness is told in vain. Zero for half of the seeds: it would hide that a
    /// loop has lost an edge.
    in_vain_percent: u64,
    /// Bytes are sent behind the call that gave them.
    sends_later: bool,
    refusals: usize,
    /// Calls of `accept` so far.
    accepts: usize,
    woken: Arc<AtomicBool>,
}

impl SimulatedTransport {
    /// A transport without clients; `clock` is manual.
    #[must_use]
    pub fn new(clock: Clock, seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let in_vain_percent = if random.percent(50) { 2 } else { 0 };
        let sends_later = random.percent(50);
        Self {
            clock,
            random,
            in_vain_percent,
            sends_later,
            listeners: Vec::new(),
            tells_accept: true,
            backlog: VecDeque::new(),
            pipes: Vec::new(),
            by_token: HashMap::new(),
            refusals: 0,
            accepts: 0,
            woken: Arc::new(AtomicBool::new(false)),
        }
    }

    /// A client connects. `window_bytes` are under way to it at most, and it takes `speed_bytes` in a wait of the loop;
    /// zero is a client that never reads.
    pub fn connect(&mut self, window_bytes: usize, speed_bytes: usize) -> ClientId {
        let pipe = Pipe {
            token: None,
            to_loop: VecDeque::new(),
            to_client: VecDeque::new(),
            given: Vec::new(),
            sent: None,
            taken: Vec::new(),
            window_bytes,
            speed_bytes,
            has_ended: false,
            has_vanished: false,
            stays: false,
            sends_no_more: false,
            is_closed: false,
            tells_reads: true,
            tells_writes: true,
        };
        self.pipes.push(pipe);
        self.backlog.push_back(self.pipes.len() - 1);
        ClientId(self.pipes.len() - 1)
    }

    /// The client sends.
    pub fn send(&mut self, client: ClientId, bytes: &[u8]) {
        let pipe = &mut self.pipes[client.0];
        pipe.to_loop.extend(bytes);
        pipe.reset_if_unread();
    }

    /// The client stays connected once it has read the loop's end. Others end then.
    pub fn stay(&mut self, client: ClientId) {
        self.pipes[client.0].stays = true;
    }

    /// The client sends no more, and goes on reading.
    pub fn end(&mut self, client: ClientId) {
        self.pipes[client.0].has_ended = true;
    }

    /// The client is gone, and what was under way with it.
    pub fn vanish(&mut self, client: ClientId) {
        let pipe = &mut self.pipes[client.0];
        pipe.has_vanished = true;
        pipe.to_loop.clear();
        pipe.to_client.clear();
    }

    /// The client takes this number of bytes in a wait from now on.
    pub fn set_speed(&mut self, client: ClientId, speed_bytes: usize) {
        self.pipes[client.0].speed_bytes = speed_bytes;
    }

    /// All that the client has received.
    #[must_use]
    pub fn received(&self, client: ClientId) -> &[u8] {
        &self.pipes[client.0].taken
    }

    /// Whether the client has read the loop's end, behind what was sent before.
    #[must_use]
    pub fn has_closed(&self, client: ClientId) -> bool {
        self.pipes[client.0].has_read_the_end()
    }

    /// The next `count` calls of `accept` fail: the process has no descriptors left.
    pub fn refuse_accepts(&mut self, count: usize) {
        self.refusals = count;
    }

    /// Calls of `accept` so far.
    #[must_use]
    pub fn accepts(&self) -> usize {
        self.accepts
    }

    fn pipe(&mut self, token: SocketToken) -> io::Result<(&mut Pipe, &mut Random)> {
        let index = *self.by_token.get(&token).ok_or(io::ErrorKind::NotConnected)?;
        let pipe = &mut self.pipes[index];
        if pipe.has_vanished {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok((pipe, &mut self.random))
    }

    /// Clients take what has come, and readiness is told. `true` if there is more to tell.
    fn tell(&mut self, ready: &mut Vec<Readiness>) -> bool {
        let mut has_more = false;
        for pipe in &mut self.pipes {
            let bytes = pipe.speed_bytes.min(pipe.to_client.len());
            pipe.taken.extend(pipe.to_client.drain(..bytes));
            pipe.has_ended |= pipe.has_read_the_end() && !pipe.stays;
            let Some(socket) = pipe.token.filter(|_| !pipe.is_closed) else { continue };
            let reads = pipe.tells_reads && (pipe.has_ended || pipe.has_vanished || !pipe.to_loop.is_empty());
            let room = pipe.window_bytes - pipe.to_client.len();
            let writes = pipe.tells_writes && (pipe.has_vanished || room > 0);
            let is_in_vain = self.random.percent(self.in_vain_percent);
            if (reads || writes) && self.random.percent(LATE_PERCENT) {
                has_more = true;
            } else if reads || writes || is_in_vain {
                if writes && !pipe.has_vanished && !pipe.given.is_empty() && pipe.sent.is_none() {
                    let sent = self.random.between(1, room.min(pipe.given.len()) as u64) as usize;
                    pipe.to_client.extend(&pipe.given[..sent]);
                    pipe.sent = Some(sent);
                }
                pipe.tells_reads &= !reads;
                pipe.tells_writes &= !writes;
                ready.push(Readiness { socket, reads: reads || is_in_vain, writes: writes || is_in_vain });
            }
        }
        if self.tells_accept && !self.backlog.is_empty() {
            self.tells_accept = false;
            let told = self.listeners.iter().map(|listener| Readiness {
                socket: *listener,
                reads: true,
                writes: false,
            });
            ready.extend(told);
        }
        // The order in which the system tells is nobody's promise.
        for at in (1..ready.len()).rev() {
            ready.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        has_more
    }
}

impl Pipe {
    fn has_read_the_end(&self) -> bool {
        self.sends_no_more && self.to_client.is_empty()
    }

    /// A closed socket to which bytes have come that nobody reads: what the client has not read is lost.
    fn reset_if_unread(&mut self) {
        if self.is_closed && !self.to_loop.is_empty() {
            self.to_client.clear();
        }
    }
}

impl Transport for SimulatedTransport {
    fn listen(
        &mut self,
        address: &ListenAddress,
        listener: SocketToken,
        _: Option<Duration>,
    ) -> io::Result<ListenAddress> {
        self.listeners.push(listener);
        Ok(address.clone())
    }

    fn accept(&mut self, _: SocketToken, connection: SocketToken) -> io::Result<()> {
        self.accepts += 1;
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err(io::Error::from_raw_os_error(NO_DESCRIPTORS));
        }
        let Some(index) = self.backlog.pop_front() else {
            self.tells_accept = true;
            return Err(io::ErrorKind::WouldBlock.into());
        };
        self.pipes[index].token = Some(connection);
        self.by_token.insert(connection, index);
        Ok(())
    }

    fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let (pipe, random) = self.pipe(connection)?;
        let available = pipe.to_loop.len().min(buffer.capacity() - buffer.len());
        if pipe.to_loop.is_empty() && pipe.has_ended {
            return Ok(0);
        }
        if available == 0 || random.percent(SPURIOUS_PERCENT) {
            pipe.tells_reads = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let bytes = random.between(1, available as u64) as usize;
        buffer.extend(pipe.to_loop.drain(..bytes));
        Ok(bytes)
    }

    fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize> {
        let sends_later = self.sends_later;
        let (pipe, random) = self.pipe(connection)?;
        if sends_later {
            assert!(
                bytes.starts_with(&pipe.given),
                "W7: until it is told how many went, it gives the same bytes"
            );
            if pipe.given.is_empty() {
                let bytes = &bytes[..random.between(1, bytes.len() as u64) as usize];
                pipe.given.extend_from_slice(bytes);
                pipe.tells_writes = true;
            }
            let sent = pipe.sent.take().ok_or(io::ErrorKind::WouldBlock)?;
            pipe.given.clear();
            return Ok(sent);
        }
        let room = (pipe.window_bytes - pipe.to_client.len()).min(bytes.len());
        if room == 0 || random.percent(SPURIOUS_PERCENT) {
            pipe.tells_writes = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = random.between(1, room as u64) as usize;
        pipe.to_client.extend(&bytes[..taken]);
        Ok(taken)
    }

    fn end_sending(&mut self, connection: SocketToken) {
        if let Ok((pipe, _)) = self.pipe(connection) {
            assert!(pipe.given.is_empty(), "W7: all that was sent was told");
            pipe.sends_no_more = true;
        }
    }

    fn close(&mut self, socket: SocketToken) {
        if let Some(index) = self.by_token.remove(&socket) {
            let pipe = &mut self.pipes[index];
            (pipe.sends_no_more, pipe.is_closed) = (true, true);
            pipe.reset_if_unread();
        }
    }

    fn wait(&mut self, wait_max: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<bool> {
        let has_more = self.tell(ready);
        // Relaxed: a wake-up carries nothing but itself, and this test's one thread has set it.
        let woken = self.woken.swap(false, Ordering::Relaxed);
        if ready.is_empty() && !woken {
            let wait_max = wait_max.unwrap_or(Duration::from_millis(1));
            // Something that is told late comes after a moment, and not at the end of the wait.
            self.clock.advance(if has_more { wait_max.min(Duration::from_micros(1)) } else { wait_max });
        }
        Ok(woken)
    }

    fn wake_up(&self) -> LoopWakeUp {
        let woken = Arc::clone(&self.woken);
        // Relaxed: a wake-up carries nothing but itself; `wait` takes it.
        LoopWakeUp::new(move || woken.store(true, Ordering::Relaxed))
    }
}
