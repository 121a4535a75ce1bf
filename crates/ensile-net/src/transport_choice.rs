//! The choice between the transports of the machine, with its reason (W11).
//!
//! Neighbours: [`crate::Epoll`] and `IoUring` are the choices; the operator of a server chooses.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::epoll::Epoll;
#[cfg(feature = "simulation")]
use crate::transport::TransportHoldings;
use crate::transport::{ConnectionEnds, ListenAddress, LoopWakeUp, Readiness, SocketToken, Transport};

/// The wanted transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportChoice {
    /// io_uring where the kernel allows it, and epoll elsewhere.
    #[default]
    Auto,
    /// io_uring, or an error with the reason.
    IoUring,
    /// epoll.
    Epoll,
}

/// The machine's sockets, by the chosen transport. The value belongs to the thread that made it.
pub struct MachineTransport {
    transport: Box<dyn Transport>,
    in_use: String,
}

impl MachineTransport {
    /// A transport without sockets.
    ///
    /// # Errors
    /// io_uring was asked for and cannot be had, with the reason: ask for another. Or the system lacks descriptors.
    pub fn new(choice: TransportChoice) -> io::Result<Self> {
        Self::from_choice(choice, Self::io_uring)
    }

    /// The chosen transport; `io_uring` makes a ring or returns the reason of a refusal.
    fn from_choice(choice: TransportChoice, io_uring: impl FnOnce() -> io::Result<Self>) -> io::Result<Self> {
        match choice {
            TransportChoice::Epoll => Self::epoll("epoll".to_owned()),
            TransportChoice::IoUring => {
                io_uring().map_err(|error| io::Error::new(error.kind(), format!("no io_uring: {error}")))
            }
            TransportChoice::Auto => {
                io_uring().or_else(|error| Self::epoll(format!("epoll, as there is no io_uring: {error}")))
            }
        }
    }

    fn epoll(in_use: String) -> io::Result<Self> {
        Ok(Self { transport: Box::new(Epoll::new()?), in_use })
    }

    #[cfg(all(
        feature = "io-uring",
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    ))]
    fn io_uring() -> io::Result<Self> {
        Ok(Self { transport: Box::new(crate::uring::IoUring::new()?), in_use: "io_uring".to_owned() })
    }

    #[cfg(not(all(
        feature = "io-uring",
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )))]
    fn io_uring() -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this build was made without it (feature io-uring)"))
    }

    /// The name of the transport; for a second choice also the reason.
    #[must_use]
    pub fn in_use(&self) -> &str {
        &self.in_use
    }
}

impl fmt::Debug for MachineTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MachineTransport").field(&self.in_use).finish()
    }
}

impl Transport for MachineTransport {
    fn listen(
        &mut self,
        address: &ListenAddress,
        listener: SocketToken,
        keepalive: Option<Duration>,
    ) -> io::Result<ListenAddress> {
        self.transport.listen(address, listener, keepalive)
    }

    fn accept(&mut self, listener: SocketToken, connection: SocketToken) -> io::Result<()> {
        self.transport.accept(listener, connection)
    }

    fn read(&mut self, connection: SocketToken, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.transport.read(connection, buffer)
    }

    fn write(&mut self, connection: SocketToken, bytes: &[u8]) -> io::Result<usize> {
        self.transport.write(connection, bytes)
    }

    fn end_sending(&mut self, connection: SocketToken) {
        self.transport.end_sending(connection);
    }

    fn close(&mut self, socket: SocketToken) {
        self.transport.close(socket);
    }

    fn wait(&mut self, wait_max: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<bool> {
        self.transport.wait(wait_max, ready)
    }

    fn ends(&self, connection: SocketToken) -> Option<ConnectionEnds> {
        self.transport.ends(connection)
    }

    fn held_bytes(&self, connection: SocketToken) -> usize {
        self.transport.held_bytes(connection)
    }

    fn wake_up(&self) -> LoopWakeUp {
        self.transport.wake_up()
    }

    #[cfg(feature = "simulation")]
    fn holdings(&self) -> TransportHoldings {
        self.transport.holdings()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::io;

    use super::{MachineTransport, TransportChoice};

    /// The transport in use, or the error, where the kernel refuses io_uring.
    fn open_without_uring(choice: TransportChoice) -> Result<String, io::Error> {
        let io_uring = || Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not allowed here"));
        MachineTransport::from_choice(choice, io_uring).map(|transport| transport.in_use().to_owned())
    }

    #[test]
    fn w11_where_io_uring_is_refused_it_is_epoll_and_says_why() {
        let told = open_without_uring(TransportChoice::Auto).expect("epoll is there");
        assert_eq!(told, "epoll, as there is no io_uring: it is not allowed here");
        assert_eq!(open_without_uring(TransportChoice::Epoll).expect("epoll is there"), "epoll");
        let error = open_without_uring(TransportChoice::IoUring).expect_err("it was asked for");
        assert_eq!(error.to_string(), "no io_uring: it is not allowed here");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
