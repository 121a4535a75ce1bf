//! Notices to the program that has started this process, in systemd's protocol: a datagram to the socket that the
//! variable `NOTIFY_SOCKET` names.
//!
//! Neighbours: `ensile serve` tells the end of its load, and its own end.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells a state, as `READY=1` or `STATUS=text`, to the service manager at this address: a path, or `@` and an abstract
/// name. The call never waits.
///
/// # Errors
/// The system's error. The service manager goes on without the notice.
pub fn notify_service_manager(address: &OsStr, state: &str) -> io::Result<()> {
    let bytes = address.as_bytes();
    let address = match bytes.split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}
