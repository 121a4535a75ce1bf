//! The machine's sockets by `epoll`, with edges: no call changes the interest of a socket.
//!
//! Neighbours: [`crate::transport`] has the promises, [`crate::sockets`] the opening of sockets. All calls are the safe
//! interface of rustix and std.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::sockets::{MachineSocket, unknown};
#[cfg(feature = "simulation")]
use crate::transport::TransportHoldings;
use crate::transport::{ConnectionEnds, ListenAddress, LoopWakeUp, Readiness, SocketToken, Transport};

/// Most events of one wait; further events stay for the next wait.
const EVENTS: usize = 256;
/// Token of wake-ups: no socket has this token.
const WAKE_UPS: u64 = u64::MAX;

/// The transport of the machine.
pub struct Epoll {
    epoll: OwnedFd,
    wake_ups: Arc<OwnedFd>,
    sockets: HashMap<SocketToken, MachineSocket>,
    events: Vec<epoll::Event>,
}

impl Epoll {
    /// A transport without sockets.
    ///
    /// # Errors
    /// The system lacks descriptors.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake_ups = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let data = epoll::EventData::new_u64(WAKE_UPS);
        epoll::add(&epoll, &wake_ups, data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(Self {
            epoll,
            wake_ups: Arc::new(wake_ups),
            sockets: HashMap::new(),
            events: Vec::with_capacity(EVENTS),
        })
    }

    fn add(&mut self, token: SocketToken, socket: MachineSocket, flags: epoll::EventFlags) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token.0);
        epoll::add(&self.epoll, &socket.descriptor, data, flags | epoll::EventFlags::ET)?;
        let earlier = self.sockets.insert(token, socket);
        debug_assert!(earlier.is_none(), "W9: a token names one open socket");
        Ok(())
    }

    fn socket(&self, token: SocketToken) -> io::Result<&MachineSocket> {
        self.sockets.get(&token).ok_or_else(unknown)
    }
}

impl fmt::Debug for Epoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoll").field("sockets", &self.sockets.len()).finish_non_exhaustive()
    }
}

impl Transport for Epoll {
    fn listen(
        &mut self,
        address: &ListenAddress,
        listener: SocketToken,
        keepalive: Option<Duration>,
    ) -> io::Result<ListenAddress> {
        let (socket, at) = MachineSocket::listen(address, keepalive)?;
        self.add(listener, socket, epoll::EventFlags::IN)?;
        Ok(at)
    }

    fn accept(&mut self, listener: SocketToken, connection: SocketToken) -> io::Result<()> {
        let socket = self.socket(listener)?.accept()?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
        self.add(connection, socket, flags)
    }

    fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let socket = self.socket(connection)?;
        let (bytes, _) = rustix::net::recv(&socket.descriptor, spare_capacity(buffer), RecvFlags::empty())?;
        Ok(bytes)
    }

    fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize> {
        let socket = self.socket(connection)?;
        // An embedding program may not ignore the signal of a broken pipe.
        Ok(rustix::net::send(&socket.descriptor, bytes, SendFlags::NOSIGNAL)?)
    }

    fn end_sending(&mut self, connection: SocketToken) {
        if let Some(socket) = self.sockets.get(&connection) {
            socket.end_sending();
        }
    }

    fn close(&mut self, socket: SocketToken) {
        // The kernel forgets a closed descriptor: the descriptor has no copies.
        self.sockets.remove(&socket);
    }

    fn wait(&mut self, wait_max: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<bool> {
        let wait_max = wait_max.map(|wait| Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        self.events.clear();
        debug_assert!(self.events.capacity() > 0, "W3: a wait has room for events");
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), wait_max.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut woken = false;
        for event in &self.events {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == WAKE_UPS {
                woken = true;
                let mut count = [0; 8];
                // The counter is empty if another call has read it. The edge belongs to this wake-up even then.
                let _ = rustix::io::read(&*self.wake_ups, &mut count);
                continue;
            }
            let has_failed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            let reads = has_failed || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP);
            let writes = has_failed || flags.contains(epoll::EventFlags::OUT);
            ready.push(Readiness { socket: SocketToken(token), reads, writes });
        }
        Ok(woken)
    }

    fn ends(&self, connection: SocketToken) -> Option<ConnectionEnds> {
        self.sockets.get(&connection)?.ends()
    }

    fn wake_up(&self) -> LoopWakeUp {
        let wake_ups = Arc::clone(&self.wake_ups);
        LoopWakeUp::new(move || {
            // A counter that is full has not been read: the wake-up is under way.
            let _ = rustix::io::write(&*wake_ups, &1_u64.to_ne_bytes());
        })
    }

    #[cfg(feature = "simulation")]
    fn holdings(&self) -> TransportHoldings {
        TransportHoldings { sockets: self.sockets.len(), ..TransportHoldings::default() }
    }
}
