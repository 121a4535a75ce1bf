//! State of a client beside its connection: version and name, the queue after `MULTI`, and the decoder of requests.
//!
//! Neighbours: [`super::ServiceLoop`] has a session for each connection; commands look at the state and change it.

use ensile_base::Epoch;
use ensile_resp::{RequestDecoder, RespVersion};

use super::limits::REQUEST_LIMITS;
use super::queue::CommandQueue;

/// State of a client, beside the decoder of its requests.
#[derive(Debug)]
pub(super) struct ClientState {
    pub(super) version: RespVersion,
    /// Number of the connection.
    pub(super) number: u64,
    /// Name that the client has given itself; empty without a name.
    pub(super) name: Box<[u8]>,
    /// Queue between `MULTI` and `EXEC`.
    pub(super) queue: Option<CommandQueue>,
    /// Newest epoch that a parked reply of the client rests on.
    pub(super) parked: Epoch,
}

impl ClientState {
    pub(super) fn new(number: u64) -> Self {
        debug_assert!(number > 0, "the number of a client is no zero");
        Self {
            version: RespVersion::default(),
            number,
            name: Box::default(),
            queue: None,
            parked: Epoch::ZERO,
        }
    }

    pub(super) fn queue_bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, CommandQueue::memory_bytes)
    }
}

/// State of a connection.
pub(super) struct ClientSession {
    pub(super) decoder: RequestDecoder,
    pub(super) client: ClientState,
}

impl ClientSession {
    pub(super) fn new(number: u64) -> Self {
        Self { decoder: RequestDecoder::new(REQUEST_LIMITS), client: ClientState::new(number) }
    }

    /// Memory that counts beside the connection's buffers, in bytes (W16).
    pub(super) fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes() + self.client.queue_bytes()
    }

    /// Gives the memory of the requests and of the queue back, at the end of the connection.
    pub(super) fn release(&mut self) {
        self.decoder = RequestDecoder::new(REQUEST_LIMITS);
        self.client.queue = None;
        debug_assert_eq!(self.memory_bytes(), 0, "W16: a connection that ends keeps no request");
    }
}
