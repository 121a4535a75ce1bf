//! What a loop asks of the machine: sockets that never block, and one place to wait for all of them.
//!
//! Neighbours: [`crate::MachineTransport`] is the machine's, [`crate::simulated`] is a seed's; [`crate::NetLoop`]
//! drives either.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// TCP. Port 0 is any free one.
    Tcp(SocketAddr),
    /// TCP, beside other loops that listen there so: each connection comes to one of them, by the kernel's choice. With
    /// port 0 the first finds the port that the others name. Every process of this user may listen there, too.
    TcpShared(SocketAddr),
    /// A Unix socket. Its file must not be there yet, and stays when the loop ends: its owner removes it.
    Unix(PathBuf),
}

/// The name that the loop has given a socket; no two sockets of a loop ever have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketToken(pub u64);

/// What a socket may have become ready for since it was last said. It is said again only after a call has returned
/// [`io::ErrorKind::WouldBlock`] (edges, not levels), and may be said in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Which socket.
    pub socket: SocketToken,
    /// It may be read, or has ended; a listener may accept.
    pub reads: bool,
    /// It may be written.
    pub writes: bool,
}

/// Sockets that never block. A call that cannot go on returns [`io::ErrorKind::WouldBlock`].
pub trait Transport {
    /// Listens, and says where: the port that was found for port 0. A TCP client that was silent for `keepalive` is
    /// asked whether it is still there ([`crate::NetLimits::keepalive`]).
    ///
    /// # Errors
    /// What the system says, such as that the address is in use.
    fn listen(
        &mut self,
        address: &ListenAddress,
        listener: SocketToken,
        keepalive: Option<Duration>,
    ) -> io::Result<ListenAddress>;

    /// Accepts a connection, to be called `connection`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if none waits, and what the system says.
    fn accept(&mut self, listener: SocketToken, connection: SocketToken) -> io::Result<()>;

    /// Appends what has arrived to `buffer`, within its capacity, which leaves room. Zero bytes: the peer has ended.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing has, and what the system says.
    fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize>;

    /// Sends the beginning of `bytes`, and says how many.
    ///
    /// A transport may send what a call that returned [`io::ErrorKind::WouldBlock`] was given, and say how many bytes
    /// went when it is called again. So until a call says how many, all are given bytes that begin alike (W7).
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room, and what the system says.
    fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize>;

    /// Nothing more is sent: the peer reads an end behind what was sent before, all of which has been told as gone.
    /// What it sends can still be read (W13).
    fn end_sending(&mut self, connection: SocketToken);

    /// Closes a listener or a connection. Bytes that were sent before still arrive, if the peer takes them and nothing
    /// of it is unread, nor comes later.
    fn close(&mut self, socket: SocketToken);

    /// Waits until a socket is ready, a wake-up comes, or `wait_max` has passed. `true` if it was woken up.
    ///
    /// # Errors
    /// What the system says; the loop cannot go on.
    fn wait(&mut self, wait_max: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<bool>;

    /// What ends a wait of this transport from another thread.
    fn wake_up(&self) -> LoopWakeUp;

    /// Resources that the transport holds, for tests.
    ///
    /// # Panics
    /// If its own counts contradict each other.
    #[cfg(feature = "simulation")]
    fn holdings(&self) -> TransportHoldings;
}

/// Resources that a transport holds until it gives them back.
#[cfg(feature = "simulation")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportHoldings {
    /// Number of listeners and connections, closed ones included while an operation of theirs is in flight.
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
    /// For a transport: `call` is what wakes it up.
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
