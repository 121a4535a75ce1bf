//! Limits of a server's connections, requests and memory, and the texts of the requests' limits.
//!
//! Neighbours: [`crate::ServingLoop`] reads requests within the limits; `threads` lowers the number of connections to
//! the descriptors of the process.

use std::time::Duration;

use ensile_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ensile_net::NetLimits;
use ensile_resp::{ProtocolError, RequestLimits};

/// Largest length of a reply in bytes: half of a connection's limit of unsent bytes, so that a single reply never ends
/// the connection. A longer reply is refused, and is never in memory as a whole.
pub const REPLY_BYTES: usize = 32 << 20;

/// Room in the reply of `EXEC` for each queued request, in bytes. The reply of a command that changes something fits.
pub const QUEUED_REPLY_BYTES: usize = 128;

/// Seconds of silence after which a client is probed; redis' number.
pub const KEEPALIVE_SECONDS: u64 = 300;

/// Limits of a server's connections. A request with the longest key and value fits.
pub const LIMITS: NetLimits = NetLimits {
    connections_max: 10_000,
    unread_bytes_max: REQUEST_LIMITS.request_bytes_max + (64 << 10),
    unsent_bytes_max: 2 * REPLY_BYTES + (1 << 20),
    parked_max: 16 << 10,
    idle: None,
    stalled: Duration::from_secs(60),
    ending: Duration::from_secs(300),
    handshake: Duration::from_secs(10),
    keepalive: Some(Duration::from_secs(KEEPALIVE_SECONDS)),
    linger: Duration::from_secs(30),
    linger_bytes_max: 1 << 30,
    room_kept: Duration::from_secs(1),
    step_bytes: 64 << 10,
    accept_pause: Duration::from_millis(100),
};

/// Bytes of unsent replies and messages beyond which a client that gets one more message is disconnected; redis' hard
/// limit for subscribers.
pub(crate) const PUSHED_BYTES_MAX: usize = 32 << 20;

/// Default memory of all clients of a server together, in bytes: the buffers of requests and replies.
pub const CLIENT_MEMORY_BYTES: usize = 1 << 30;

/// Limits of the requests of authorized clients.
pub(crate) const REQUEST_LIMITS: RequestLimits = RequestLimits {
    arguments_max: 1 << 20,
    bulk_bytes_max: 16 << 20,
    inline_bytes_max: 64 << 10,
    request_bytes_max: 40 << 20,
};

/// Limits of the requests of clients that have not been authorized.
pub(crate) const STRANGER_LIMITS: RequestLimits = RequestLimits {
    arguments_max: 10,
    bulk_bytes_max: 16 << 10,
    inline_bytes_max: 16 << 10,
    request_bytes_max: 10 * (16 << 10) + 1024,
};

/// Bytes of unsent replies beyond which a client that has not been authorized is disconnected: strangers do not fill
/// the memory of all clients.
pub(crate) const STRANGER_UNSENT_BYTES: usize = 16 << 10;

const _: () = assert!(
    STRANGER_UNSENT_BYTES * LIMITS.connections_max <= CLIENT_MEMORY_BYTES / 4,
    "W16: the replies of strangers leave memory to others"
);
const _: () = assert!(
    REQUEST_LIMITS.request_bytes_max - (16 << 20) + 1024 < PUSHED_BYTES_MAX,
    "a client that reads everything gets the longest message"
);
const _: () =
    assert!(PUSHED_BYTES_MAX < LIMITS.unsent_bytes_max, "W2: a message never ends the stream early");
const _: () = assert!(REPLY_BYTES <= LIMITS.unsent_bytes_max / 2, "W2: one reply never ends its connection");
const _: () = assert!(
    REQUEST_LIMITS.request_bytes_max < LIMITS.unread_bytes_max,
    "W3: a whole request fits into the unread bytes of a connection"
);
const _: () = assert!(VALUE_BYTES_MAX <= REQUEST_LIMITS.bulk_bytes_max, "the longest value is an argument");
const _: () = assert!(
    KEY_BYTES_MAX + 2 * VALUE_BYTES_MAX < REQUEST_LIMITS.request_bytes_max,
    "a request with the longest key, value and expected value fits"
);
const _: () = assert!(
    LIMITS.unread_bytes_max + LIMITS.unsent_bytes_max <= CLIENT_MEMORY_BYTES,
    "W16: one client alone stays within the memory of all clients"
);

/// Text of an error of the protocol; for a limit with its value.
pub(crate) fn protocol_error_text(error: ProtocolError, limits: RequestLimits) -> String {
    let RequestLimits { arguments_max, bulk_bytes_max, inline_bytes_max, request_bytes_max } = limits;
    let limit = match error {
        ProtocolError::Count => format!(": a request has {arguments_max} arguments at most"),
        ProtocolError::BulkLength => format!(": an argument has {bulk_bytes_max} bytes at most"),
        ProtocolError::InlineBytes => format!(": a line has {inline_bytes_max} bytes at most"),
        ProtocolError::RequestBytes => format!(": a request has {request_bytes_max} bytes at most"),
        _ => String::new(),
    };
    format!("{error}{limit}")
}
