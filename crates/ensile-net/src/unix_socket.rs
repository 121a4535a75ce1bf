//! A Unix socket that several loops listen at.
//!
//! Invariant: a file of a socket without a listener, as a killed process leaves, is replaced. Every other file stays.
//!
//! Neighbours: [`crate::ListenAddress`] names the socket; [`crate::Epoll`] and `IoUring` accept.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

/// A Unix socket with its address. Clients wait from the bind on until a loop accepts. The file stays: the owner
/// removes the file.
#[derive(Clone, Debug)]
pub struct UnixSocket {
    listener: Arc<UnixListener>,
    path: Arc<Path>,
}

impl PartialEq for UnixSocket {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.listener, &other.listener)
    }
}

impl Eq for UnixSocket {}

impl UnixSocket {
    /// Binds a socket to this path. The file of a socket whose process was killed is replaced.
    ///
    /// # Errors
    /// The system's error: [`io::ErrorKind::AddrInUse`] if a process listens there, or if another file is there.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let socket = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
                rustix::fs::unlink(path)?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        socket.set_nonblocking(true)?;
        Ok(Self { listener: Arc::new(socket), path: path.into() })
    }

    /// The path that the socket is bound to.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A descriptor of the socket for a loop.
    pub(crate) fn shared_descriptor(&self) -> io::Result<OwnedFd> {
        Ok(self.listener.try_clone()?.into())
    }
}

/// True if the file is of a socket that no process listens at.
fn is_abandoned(path: &Path) -> bool {
    UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
