//! The requests that a client has queued after `MULTI`.
//!
//! Invariants:
//! - Q1: after a refused request the queue keeps no request, and `EXEC` carries out nothing.
//! - Q3: the queued requests have at most [`QUEUED_BYTES`] and number [`QUEUED_REQUESTS`].
//!
//! Neighbours: [`crate::dispatch`] queues requests and carries them out; `ensile-resp` decodes them again.

use ensile_resp::Request;

use crate::limits::{QUEUED_REPLY_BYTES, REPLY_BYTES, REQUEST_LIMITS};

/// Largest size of the queued requests of a client, in bytes.
const QUEUED_BYTES: usize = REQUEST_LIMITS.request_bytes_max;
/// Largest number of queued requests of a client.
const QUEUED_REQUESTS: usize = 128 << 10;

const _: () = assert!(
    QUEUED_REQUESTS * QUEUED_REPLY_BYTES <= REPLY_BYTES / 2,
    "a reply to `EXEC` has room for reads beside short replies"
);

/// The queue of a client between `MULTI` and `EXEC`.
#[derive(Debug, Default)]
pub(crate) struct CommandQueue {
    /// Requests as arrays of bulk strings.
    encoded: Vec<u8>,
    count: usize,
    /// True if a request was refused.
    is_refused: bool,
}

impl CommandQueue {
    /// Queued requests, as a decoder reads them.
    pub(crate) fn encoded_requests(&self) -> &[u8] {
        &self.encoded
    }

    pub(crate) fn count(&self) -> usize {
        debug_assert!(!self.is_refused || self.count == 0, "Q1: a refused queue keeps no request");
        self.count
    }

    /// True if a request was refused (Q1).
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Notes a refused request. The queued requests go.
    pub(crate) fn refuse(&mut self) {
        *self = Self { is_refused: true, ..Self::default() };
        debug_assert_eq!(self.memory_bytes(), 0, "Q1: a refused queue gives its memory back");
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.encoded.capacity()
    }

    /// Queues a request. False if the limits do not permit the request: the request is refused.
    pub(crate) fn push(&mut self, request: Request<'_>) -> bool {
        debug_assert!(!self.is_refused, "Q1: a refused queue keeps no request");
        self.count += 1;
        let arguments: usize = request.iter().map(<[u8]>::len).sum();
        // Before the copy: a refused request takes no memory.
        let may_have_room = self.count <= QUEUED_REQUESTS && self.encoded.len() + arguments <= QUEUED_BYTES;
        if may_have_room {
            let before = self.encoded.len();
            request.encode(&mut self.encoded);
            debug_assert!(
                self.encoded.len() > before + arguments,
                "Q1: a queued request has all its arguments"
            );
        }
        let has_room = may_have_room && self.encoded.len() <= QUEUED_BYTES;
        if !has_room {
            self.refuse();
        }
        debug_assert!(
            self.encoded.len() <= QUEUED_BYTES && self.count <= QUEUED_REQUESTS,
            "Q3: a queue is bounded"
        );
        has_room
    }
}

/// Error text for a request beyond the limits of a queue.
pub(crate) fn too_large() -> String {
    format!(
        "the transaction is too large: a queue between MULTI and EXEC has {QUEUED_REQUESTS} commands and {QUEUED_BYTES} bytes \
         at most"
    )
}
