//! The machine's sockets, by `epoll`: edges, so that no call changes what is waited for.
//!
//! Neighbours: [`crate::transport`] says what is promised; everything here is rustix's and std's safe interface.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::transport::{ListenAddress, LoopWakeUp, Readiness, SocketToken, Transport};

/// Events that one wait takes, at most; more stay for the next.
const EVENTS: usize = 256;
/// The token of wake-ups: no socket's.
const WAKE_UPS: u64 = u64::MAX;

/// The transport of the machine.
pub struct Epoll {
    epoll: OwnedFd,
    wake_ups: Arc<OwnedFd>,
    sockets: HashMap<SocketToken, Socket>,
    events: Vec<epoll::Event>,
}

/// What is open.
struct Socket {
    descriptor: OwnedFd,
    is_tcp: bool,
}

impl Epoll {
    /// A transport without sockets.
    ///
    /// # Errors
    /// What the system says: it lacks descriptors.
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

    fn add(&mut self, token: SocketToken, socket: Socket, flags: epoll::EventFlags) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token.0);
        epoll::add(&self.epoll, &socket.descriptor, data, flags | epoll::EventFlags::ET)?;
        self.sockets.insert(token, socket);
        Ok(())
    }

    fn socket(&self, token: SocketToken) -> io::Result<&Socket> {
        self.sockets.get(&token).ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))
    }
}

/// Connections that wait to be accepted, as many as std asks for.
const BACKLOG: i32 = 128;

/// A socket that listens beside others at its address, and does not block.
fn shared_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // As std does: connections of an earlier process that are not forgotten yet do not keep the address.
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

impl fmt::Debug for Epoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoll").field("sockets", &self.sockets.len()).finish_non_exhaustive()
    }
}

impl Transport for Epoll {
    fn listen(&mut self, address: &ListenAddress, listener: SocketToken) -> io::Result<ListenAddress> {
        let (descriptor, is_tcp, at): (OwnedFd, _, _) = match address {
            ListenAddress::Tcp(address) => {
                let socket = TcpListener::bind(address)?;
                socket.set_nonblocking(true)?;
                let at = ListenAddress::Tcp(socket.local_addr()?);
                (socket.into(), true, at)
            }
            ListenAddress::TcpShared(address) => {
                let socket = TcpListener::from(shared_socket(*address)?);
                let at = ListenAddress::TcpShared(socket.local_addr()?);
                (socket.into(), true, at)
            }
            ListenAddress::Unix(path) => {
                let socket = UnixListener::bind(path)?;
                socket.set_nonblocking(true)?;
                (socket.into(), false, address.clone())
            }
        };
        self.add(listener, Socket { descriptor, is_tcp }, epoll::EventFlags::IN)?;
        Ok(at)
    }

    fn accept(&mut self, listener: SocketToken, connection: SocketToken) -> io::Result<()> {
        let from = self.socket(listener)?;
        let is_tcp = from.is_tcp;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let descriptor = rustix::net::accept_with(&from.descriptor, flags)?;
        if is_tcp {
            // A reply is sent when it is told; waiting for more to go with it is the loop's part. A client that has
            // gone again is no reason to pause: its first read says so.
            let _ = rustix::net::sockopt::set_tcp_nodelay(&descriptor, true);
        }
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
        self.add(connection, Socket { descriptor, is_tcp }, flags)
    }

    fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let socket = self.socket(connection)?;
        let (bytes, _) = rustix::net::recv(&socket.descriptor, spare_capacity(buffer), RecvFlags::empty())?;
        Ok(bytes)
    }

    fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize> {
        let socket = self.socket(connection)?;
        // A program that embeds this may not ignore the signal of a broken pipe.
        Ok(rustix::net::send(&socket.descriptor, bytes, SendFlags::NOSIGNAL)?)
    }

    fn close(&mut self, socket: SocketToken) {
        // The kernel forgets a descriptor that is closed: it has no copies.
        self.sockets.remove(&socket);
    }

    fn wait(&mut self, wait_max: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<bool> {
        let wait_max = wait_max.map(|wait| Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        self.events.clear();
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
                // It is empty if another call has read it; the edge was this wake-up's all the same.
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

    fn wake_up(&self) -> LoopWakeUp {
        let wake_ups = Arc::clone(&self.wake_ups);
        LoopWakeUp::new(move || {
            // A counter that is full has not been read: the wake-up is under way.
            let _ = rustix::io::write(&*wake_ups, &1_u64.to_ne_bytes());
        })
    }
}
