//! The sockets of a loop, which never block, and one wait for all of them.
//!
//! Neighbours: [`crate::MachineTransport`] is the machine's transport, [`crate::simulation`] has the transport of a
//! seed; [`crate::NetLoop`] drives either.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::unix_socket::UnixSocket;

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// TCP. Port 0 is any free port.
    Tcp(SocketAddr),
    /// TCP, beside other loops at the same address: the kernel chooses the loop of a connection. With port 0, the first
    /// loop finds the port for the others. Every process of this user may listen there, too.
    TcpShared(SocketAddr),
    /// A Unix socket. Its file must not exist yet, and stays when the loop ends: the owner removes the file.
    Unix(PathBuf),
    /// A bound Unix socket, beside other loops: the first loop that accepts has the connection.
    UnixShared(UnixSocket),
}

/// Name of a socket in its loop. A loop never uses a name twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketToken(pub u64);

/// Addresses of both ends of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEnds {
    /// The peer's address, and the address of this process that the peer has connected to.
    Tcp {
        /// Address of the peer.
        peer: SocketAddr,
        /// Address of this process.
        local: SocketAddr,
    },
    /// The path of a Unix socket: the peer has no address of its own.
    Unix(PathBuf),
}

/// Possible calls on a socket. Readiness is reported again only after a call has returned [`io::ErrorKind::WouldBlock`]
/// (edges, not levels), and may be reported in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The socket.
    pub socket: SocketToken,
    /// True if the socket may be read, or has ended. A listener may accept.
    pub reads: bool,
    /// True if the socket may be written.
    pub writes: bool,
}

/// Sockets that never block. A call that cannot go on returns [`io::ErrorKind::WouldBlock`].
pub trait Transport {
    /// Listens. The returned address has the found port in the place of port 0. The kernel probes a TCP client that was
    /// silent for `keepalive` ([`crate::NetLimits::keepalive`]).
    ///
    /// # Errors
    /// An error of the system, such as an address in use.
    fn listen(
        &mut self,
        address: &ListenAddress,
        listener: SocketToken,
        keepalive: Option<Duration>,
    ) -> io::Result<ListenAddress>;

    /// Accepts a connection with the name `connection`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if no client waits, and errors of the system.
    fn accept(&mut self, listener: SocketToken, connection: SocketToken) -> io::Result<()>;

    /// Appends arrived bytes to `buffer`, within its capacity; the capacity leaves room. Zero bytes: the peer has
    /// ended.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing has arrived, and errors of the system.
    fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize>;

    /// Sends the beginning of `bytes`, and returns the number of sent bytes.
    ///
    /// A transport may send the bytes of a call that returned [`io::ErrorKind::WouldBlock`], and return their number
    /// from a later call. Until a call returns a number, the bytes of all calls therefore begin alike (W7).
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] without room, and errors of the system.
    fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize>;

    /// Ends the sending direction: the peer reads an end behind all sent bytes. A call has returned the number of these
    /// bytes. Bytes of the peer can still be read (W13).
    fn end_sending(&mut self, connection: SocketToken);

    /// Closes a listener or a connection. Sent bytes still arrive, if the peer takes the bytes, and if no byte of the
    /// peer is unread or comes later.
    fn close(&mut self, socket: SocketToken);

    /// Waits until a socket is ready, a wake-up comes, or `wait_max` has passed. True if a wake-up came.
    ///
    /// # Errors
    /// An error of the system; the loop cannot go on.
    fn wait(&mut self, wait_max: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<bool>;

    /// Addresses of a connection. `None` if the system knows no address any more, because the peer has gone.
    fn ends(&self, connection: SocketToken) -> Option<ConnectionEnds>;

    /// Memory that the transport holds for a connection, in bytes: copies of arrived bytes and of bytes that are being
    /// sent; none by default.
    fn held_bytes(&self, _connection: SocketToken) -> usize {
        0
    }

    /// A handle that ends a wait of this transport from another thread.
    fn wake_up(&self) -> LoopWakeUp;

    /// Resources that the transport holds, for tests; none by default.
    ///
    /// # Panics
    /// If counts of the transport contradict each other.
    #[cfg(feature = "simulation")]
    fn holdings(&self) -> TransportHoldings {
        TransportHoldings::default()
    }
}

/// Resources that a transport holds for a time.
#[cfg(feature = "simulation")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportHoldings {
    /// Number of listeners and connections. A closed socket counts while an operation on it is in flight.
    pub sockets: usize,
    /// Number of lent buffers with arrived bytes.
    pub buffers: usize,
    /// Number of sends in flight.
    pub sends: usize,
}

/// Ends a wait of a loop, from any thread. A wake-up of a loop that does not wait ends its next wait.
#[derive(Clone)]
pub struct LoopWakeUp(Arc<dyn Fn() + Send + Sync>);

impl LoopWakeUp {
    /// Creates a wake-up from `call`, which wakes a transport.
    #[must_use]
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    /// Wakes the loop up; its step returns with [`crate::NetEvent::WokenUp`].
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for LoopWakeUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoopWakeUp")
    }
}
