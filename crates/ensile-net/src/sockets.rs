//! Sockets as both transports of the machine have them: how they listen, and how they are accepted.
//!
//! Neighbours: [`crate::Epoll`] and `IoUring` wait for what is made here.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

use crate::transport::ListenAddress;

/// Largest number of connections that wait to be accepted. The kernel has a limit of its own (`somaxconn`, 4096 on
/// Linux). Beyond the limit a client waits a second for its next attempt.
const BACKLOG: i32 = 4096;
/// How often a silent client is asked whether it is still there: redis' number.
pub const KEEPALIVE_PROBES: u32 = 3;
/// The longest time of keepalive that Linux takes, in seconds. A longer one is as this.
pub const KEEPALIVE_SECONDS_MAX: u64 = 32_767;

/// What is open.
pub(crate) struct MachineSocket {
    pub(crate) descriptor: OwnedFd,
    is_tcp: bool,
}

impl MachineSocket {
    /// A socket that listens and does not block, and where.
    pub(crate) fn listening(
        address: &ListenAddress,
        keepalive: Option<Duration>,
    ) -> io::Result<(Self, ListenAddress)> {
        let (descriptor, is_tcp, at): (OwnedFd, _, _) = match address {
            ListenAddress::Tcp(address) => {
                let socket = TcpListener::from(tcp_socket(*address, false, keepalive)?);
                let at = ListenAddress::Tcp(socket.local_addr()?);
                (socket.into(), true, at)
            }
            ListenAddress::TcpShared(address) => {
                let socket = TcpListener::from(tcp_socket(*address, true, keepalive)?);
                let at = ListenAddress::TcpShared(socket.local_addr()?);
                (socket.into(), true, at)
            }
            ListenAddress::Unix(path) => {
                let socket = UnixListener::bind(path)?;
                socket.set_nonblocking(true)?;
                (socket.into(), false, address.clone())
            }
        };
        Ok((Self { descriptor, is_tcp }, at))
    }

    /// A connection that waits; an error that would block if there is none.
    pub(crate) fn accept(&self) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let descriptor = rustix::net::accept_with(&self.descriptor, flags)?;
        if self.is_tcp {
            // A reply is sent when it is told; waiting for more to go with it is the loop's part. A client that has
            // gone again is no reason to pause: its first read says so.
            let _ = sockopt::set_tcp_nodelay(&descriptor, true);
        }
        Ok(Self { descriptor, is_tcp: self.is_tcp })
    }

    /// Nothing more is sent. If that fails the peer has gone.
    pub(crate) fn end_sending(&self) {
        let _ = rustix::net::shutdown(&self.descriptor, Shutdown::Write);
    }
}

/// A socket that listens, beside others at its address if it is shared, and does not block.
fn tcp_socket(address: SocketAddr, is_shared: bool, keepalive: Option<Duration>) -> io::Result<OwnedFd> {
    let socket = bound_socket(address, is_shared)?;
    if let Some(after) = keepalive {
        // What is accepted has the listener's: on Linux an accepted socket is a copy of it.
        let seconds = after.as_secs().clamp(1, KEEPALIVE_SECONDS_MAX);
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, Duration::from_secs(seconds))?;
        sockopt::set_tcp_keepintvl(&socket, Duration::from_secs((seconds / 3).max(1)))?;
        sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A socket that has this address and does not listen: nobody can connect to it.
fn bound_socket(address: SocketAddr, is_shared: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // As std does: connections of an earlier process that are not forgotten yet do not keep the address.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if is_shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Fails where somebody listens at this address already, also one who would share it
/// ([`ListenAddress::TcpShared`]), and where this process cannot have it: for a server, before it does what one that
/// cannot listen is not to do, and for one of several loops, before its first one listens. Without it two servers share
/// an address, and the kernel deals clients out between them. Nobody can connect to what looks.
///
/// # Errors
/// What the system says: [`io::ErrorKind::AddrInUse`] where somebody listens, [`io::ErrorKind::AddrNotAvailable`] for
/// an address that is not this machine's.
pub fn check_free(address: SocketAddr) -> io::Result<()> {
    bound_socket(address, false).map(drop)
}

/// Raises this process's limit of open descriptors as far as the system lets it, and returns it.
pub fn raise_descriptors_max() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// No socket has this name.
pub(crate) fn unknown() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

#[cfg(test)]
mod tests;
