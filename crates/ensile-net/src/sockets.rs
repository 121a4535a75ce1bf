//! Sockets of both transports of the machine: listening and accepting.
//!
//! Neighbours: [`crate::Epoll`] and `IoUring` wait for the sockets made here.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

use crate::transport::{ConnectionEnds, ListenAddress};

/// Largest number of connections that wait to be accepted. The kernel has a limit of its own (`somaxconn`, 4096 on
/// Linux). Beyond the limit a client waits a second for its next attempt.
const BACKLOG: i32 = 4096;
/// Number of probes to a silent client: redis' number.
pub const KEEPALIVE_PROBES: u32 = 3;
/// Longest keepalive time of Linux in seconds. A longer time counts as this time.
pub const KEEPALIVE_SECONDS_MAX: u64 = 32_767;

/// An open socket.
pub(crate) struct MachineSocket {
    pub(crate) descriptor: OwnedFd,
    kind: SocketKind,
}

/// Kind of a socket, with the path of a Unix socket.
#[derive(Clone)]
enum SocketKind {
    Tcp,
    Unix(Arc<Path>),
}

impl MachineSocket {
    /// Creates a socket that listens and does not block. Also returns the bound address.
    pub(crate) fn listen(
        address: &ListenAddress,
        keepalive: Option<Duration>,
    ) -> io::Result<(Self, ListenAddress)> {
        let (descriptor, kind, at): (OwnedFd, _, _) = match address {
            ListenAddress::Tcp(address) => {
                let socket = TcpListener::from(tcp_socket(*address, false, keepalive)?);
                let at = ListenAddress::Tcp(socket.local_addr()?);
                (socket.into(), SocketKind::Tcp, at)
            }
            ListenAddress::TcpShared(address) => {
                let socket = TcpListener::from(tcp_socket(*address, true, keepalive)?);
                let at = ListenAddress::TcpShared(socket.local_addr()?);
                (socket.into(), SocketKind::Tcp, at)
            }
            ListenAddress::Unix(path) => {
                let socket = UnixListener::bind(path)?;
                socket.set_nonblocking(true)?;
                (socket.into(), SocketKind::Unix(path.as_path().into()), address.clone())
            }
            ListenAddress::UnixShared(socket) => {
                let kind = SocketKind::Unix(socket.path().into());
                (socket.shared_descriptor()?, kind, address.clone())
            }
        };
        Ok((Self { descriptor, kind }, at))
    }

    /// Accepts a waiting connection; without one, an error that would block.
    pub(crate) fn accept(&self) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let descriptor = rustix::net::accept_with(&self.descriptor, flags)?;
        if let SocketKind::Tcp = self.kind {
            // A reply is sent at once; the loop joins replies. A client that has already gone is no reason to pause:
            // its first read reports the end.
            let _ = sockopt::set_tcp_nodelay(&descriptor, true);
        }
        Ok(Self { descriptor, kind: self.kind.clone() })
    }

    /// Addresses of a connection; `None` if the peer has gone.
    pub(crate) fn ends(&self) -> Option<ConnectionEnds> {
        match &self.kind {
            SocketKind::Unix(path) => Some(ConnectionEnds::Unix(path.to_path_buf())),
            SocketKind::Tcp => {
                let peer = rustix::net::getpeername(&self.descriptor).ok()??.try_into().ok()?;
                let local: SocketAddr = rustix::net::getsockname(&self.descriptor).ok()?.try_into().ok()?;
                debug_assert!(local.port() > 0, "W9: a connection is at a port");
                Some(ConnectionEnds::Tcp { peer, local })
            }
        }
    }

    /// Ends the sending direction. If the call fails, the peer has gone.
    pub(crate) fn end_sending(&self) {
        let _ = rustix::net::shutdown(&self.descriptor, Shutdown::Write);
    }
}

/// Creates a socket that listens and does not block. A shared socket listens beside other sockets at its address.
fn tcp_socket(address: SocketAddr, is_shared: bool, keepalive: Option<Duration>) -> io::Result<OwnedFd> {
    let socket = bound_socket(address, is_shared)?;
    if let Some(after) = keepalive {
        // Accepted sockets have the listener's options: on Linux an accepted socket is a copy of the listener.
        let seconds = after.as_secs().clamp(1, KEEPALIVE_SECONDS_MAX);
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, Duration::from_secs(seconds))?;
        sockopt::set_tcp_keepintvl(&socket, Duration::from_secs((seconds / 3).max(1)))?;
        sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Creates a socket with this address that does not listen: no client can connect.
fn bound_socket(address: SocketAddr, is_shared: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // As std does: connections of an earlier process that the kernel still remembers do not keep the address.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if is_shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Fails if a process already listens at this address, even as a shared listener ([`ListenAddress::TcpShared`]), or if
/// this process cannot have the address. Serves a server before the steps that a server without an address must not
/// take, and a server of several loops before its first loop listens. Without the check two servers share an address,
/// and the kernel spreads clients over both. No client can connect to the checking socket.
///
/// # Errors
/// The system's error: [`io::ErrorKind::AddrInUse`] if a process listens, [`io::ErrorKind::AddrNotAvailable`] for an
/// address that is not this machine's.
pub fn check_free(address: SocketAddr) -> io::Result<()> {
    bound_socket(address, false).map(drop)
}

/// Raises this process's limit of open descriptors as far as the system allows. Returns the limit.
pub fn raise_descriptors_max() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Error for a name without a socket.
pub(crate) fn unknown() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

#[cfg(test)]
mod tests;
