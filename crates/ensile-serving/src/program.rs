//! Parts of every program that serves: the end by signals, addresses, times, and the lines of the start.
//!
//! Invariants:
//! - The first SIGINT or SIGTERM ends the server as a client's request for the end does. A second one ends the process.
//! - SIGHUP, as at the end of a terminal, ends nothing.
//! - An address is one socket address, IPv4 before IPv6.
//!
//! Neighbours: the commands `ensile-service` and `ensile serve` call; [`crate::threads`] serves.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use ensile_base::sync::SignalFlag;
use ensile_memory::heap::limit_kept_heap;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Longest idle time of a client in seconds: ten years.
pub const IDLE_SECONDS_MAX: u64 = 10 * 366 * 24 * 60 * 60;

const _: () = assert!(IDLE_SECONDS_MAX < u64::MAX / 1_000_000_000, "the longest time fits into nanoseconds");

/// Prepares this process for a server: limits the memory that the heap keeps, and returns the flag that SIGINT and
/// SIGTERM set. The first signal ends the server as a client's `SHUTDOWN` does, and makes everything durable; a second
/// signal ends the process. SIGHUP is ignored, as by redis.
///
/// # Errors
/// The system refuses the handlers of the signals.
pub fn begin_program() -> io::Result<&'static SignalFlag> {
    // With another C library the limits are that library's.
    let _ = limit_kept_heap();
    let ended = Arc::new(SignalFlag::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&ended))?;
        flag::register(signal, Arc::clone(&ended))?;
    }
    // A handler without an effect, in the place of the end of the process.
    flag::register(SIGHUP, Arc::new(SignalFlag::new(false)))?;
    // Leaked: a signal may come at any time in the life of the process.
    Ok(Box::leak(Box::new(ended)))
}

/// Finds the socket address of a name or a number, with a port. Among several addresses the first IPv4 address is
/// taken, or else the first.
///
/// # Errors
/// The reason in words: the name is unknown, or the text has no port.
pub fn find_address(name: impl ToSocketAddrs) -> Result<SocketAddr, String> {
    let found: Vec<SocketAddr> = name.to_socket_addrs().map_err(|error| error.to_string())?.collect();
    let chosen = found.iter().find(|address| address.is_ipv4()).or(found.first()).copied();
    debug_assert!(chosen.is_some() || found.is_empty(), "one of the found addresses is taken");
    chosen.ok_or_else(|| "the name has no address".to_owned())
}

/// Converts seconds to a duration; zero is `None`.
#[must_use]
pub fn duration_of(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Lines about a server that listens: the transport of its sockets, and the memory of all clients together in bytes.
#[must_use]
pub fn start_notices(transport: &str, client_memory: Option<usize>) -> [String; 2] {
    debug_assert!(!transport.is_empty(), "W11: the transport is known before the address is reported");
    let memory = match client_memory {
        Some(bytes) => format!("clients may have {bytes} bytes of memory together"),
        None => "the memory of all clients together has no limit".to_owned(),
    };
    [format!("sockets by {transport}"), memory]
}
