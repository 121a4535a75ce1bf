//! The requests that a client has queued after `MULTI`.
//!
//! Invariants:
//! - Q1: after a refused request the queue keeps no request, and `EXEC` carries out nothing.
//! - Q3: the queued requests have at most [`QUEUED_BYTES`] and number [`QUEUED_REQUESTS`]. The counted memory of the
//!   queue has room for a short reply to every request.
//!
//! Neighbours: [`super::dispatch`] queues requests and carries them out; `ensile-resp` decodes them again.

use ensile_resp::Request;

use super::REQUEST_LIMITS;
use crate::service::REPLY_BYTES;

/// Largest size of the queued requests of a client, in bytes.
const QUEUED_BYTES: usize = REQUEST_LIMITS.request_bytes_max;
/// Largest number of queued requests of a client.
const QUEUED_REQUESTS: usize = 128 << 10;
/// Room in the reply of `EXEC` for each queued request, in bytes. The reply of a command that changes something fits.
pub(super) const QUEUED_REPLY_BYTES: usize = 128;

const _: () = assert!(
    QUEUED_REQUESTS * QUEUED_REPLY_BYTES <= REPLY_BYTES / 2,
    "a reply to `EXEC` has room for reads beside short replies"
);

/// The queue of a client between `MULTI` and `EXEC`.
#[derive(Debug, Default)]
pub(super) struct CommandQueue {
    /// Requests as arrays of bulk strings.
    encoded: Vec<u8>,
    count: usize,
    /// True if a queued command changes something.
    changes: bool,
    /// True if a request was refused.
    is_refused: bool,
}

/// A request on its way into a queue.
#[derive(Debug)]
pub(super) struct QueuedRequest<'b> {
    /// The request as an array of bulk strings.
    encoded: &'b [u8],
    changes: bool,
}

impl<'b> QueuedRequest<'b> {
    /// Encodes a request into `buffer`, which is empty. `changes` is true if the command changes something.
    pub(super) fn new(request: Request<'_>, changes: bool, buffer: &'b mut Vec<u8>) -> Self {
        request.encode(buffer);
        Self { encoded: buffer, changes }
    }
}

impl CommandQueue {
    /// Queued requests, as a decoder reads them.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Number of queued requests.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// True if a queued command changes something.
    pub(super) fn changes(&self) -> bool {
        self.changes
    }

    /// True if a request was refused (Q1).
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Notes a refused request. The queued requests go.
    pub(super) fn refuse(&mut self) {
        *self = Self { is_refused: true, ..Self::default() };
    }

    /// Memory of the queue, and of the short replies to its requests, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.encoded.capacity() + self.count * QUEUED_REPLY_BYTES
    }

    /// True if the limits permit this request.
    pub(super) fn has_room(&self, request: &QueuedRequest<'_>) -> bool {
        self.count < QUEUED_REQUESTS && self.encoded.len() + request.encoded.len() <= QUEUED_BYTES
    }

    /// Growth of the counted memory by this request, in bytes.
    pub(super) fn growth_bytes(&self, request: &QueuedRequest<'_>) -> usize {
        self.capacity_with(request) - self.encoded.capacity() + QUEUED_REPLY_BYTES
    }

    /// Room for the queued requests with this request. Growth by half moves a byte a constant number of times.
    fn capacity_with(&self, request: &QueuedRequest<'_>) -> usize {
        let needed = self.encoded.len() + request.encoded.len();
        if needed <= self.encoded.capacity() {
            return self.encoded.capacity();
        }
        needed.max(self.encoded.len() + self.encoded.len() / 2).min(QUEUED_BYTES)
    }

    /// Queues a request that has room.
    pub(super) fn push(&mut self, request: &QueuedRequest<'_>) {
        debug_assert!(!self.is_refused && self.has_room(request), "Q3: the caller has asked for room");
        let capacity = self.capacity_with(request);
        self.encoded.reserve_exact(capacity - self.encoded.len());
        self.encoded.extend_from_slice(request.encoded);
        self.count += 1;
        self.changes |= request.changes;
    }
}

/// Error text for a request beyond the limits of a queue.
pub(super) fn too_large() -> String {
    format!(
        "the transaction is too large: a queue between MULTI and EXEC has {QUEUED_REQUESTS} commands and {QUEUED_BYTES} bytes \
         at most"
    )
}
