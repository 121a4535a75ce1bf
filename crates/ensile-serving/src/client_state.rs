//! State of a client beside its connection: version and name, the queue after `MULTI`, and the decoder of requests.
//!
//! Neighbours: [`crate::ServingLoop`] has a session for each connection; commands look at the state and change it.

use std::time::Duration;

use ensile_base::Epoch;
use ensile_net::{ConnectionEnds, ConnectionId, TimerId};
use ensile_resp::{RequestDecoder, RequestLimits, RespVersion};

use crate::limits::{REQUEST_LIMITS, STRANGER_LIMITS};
use crate::queue::CommandQueue;

/// State of a client that a service keeps.
pub trait ClientState: Default {
    /// Memory of the state in bytes, without the state's own size (W16).
    fn memory_bytes(&self) -> usize;
}

impl ClientState for () {
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// Replies to a client that are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplySilence {
    /// All replies are sent.
    None,
    /// The reply to the present request and to the next request.
    ThisAndNext,
    /// The reply to the present request.
    This,
    /// All replies.
    All,
}

impl ReplySilence {
    /// True if the reply to a request is not sent. A further call stands for the next request.
    #[inline]
    pub(crate) fn takes_reply(&mut self) -> bool {
        let takes = *self != Self::None;
        *self = match *self {
            Self::ThisAndNext => Self::This,
            Self::This => Self::None,
            silence => silence,
        };
        takes
    }
}

/// State of a client, beside the decoder of its requests.
#[derive(Debug)]
pub struct Client<C> {
    /// Version of the protocol.
    pub version: RespVersion,
    /// Number of the connection, from 1.
    pub number: u64,
    /// The connection, for letters to the loop.
    pub connection: ConnectionId,
    /// Name that the client has given itself; empty without a name.
    pub name: Box<[u8]>,
    /// Number of the database that the client has selected.
    pub database: u32,
    /// True if the client waits for pushes. Its silence is not idle, and in version 2 of the protocol it has the
    /// commands of a listener only.
    pub is_listener: bool,
    /// Replies that are not sent (`CLIENT REPLY`).
    pub silence: ReplySilence,
    /// True while the queued requests of the client are carried out.
    pub is_in_exec: bool,
    /// State that the service keeps.
    pub own: C,
    /// Queue between `MULTI` and `EXEC`.
    pub(crate) queue: Option<CommandQueue>,
    /// Newest epoch that a parked reply of the client rests on.
    pub(crate) parked: Epoch,
}

impl<C: ClientState> Client<C> {
    pub(crate) fn new(number: u64, connection: ConnectionId) -> Self {
        debug_assert!(number > 0, "the number of a client is no zero");
        Self {
            version: RespVersion::default(),
            number,
            connection,
            name: Box::default(),
            database: 0,
            is_listener: false,
            silence: ReplySilence::None,
            is_in_exec: false,
            own: C::default(),
            queue: None,
            parked: Epoch::ZERO,
        }
    }

    /// True if the client has sent `MULTI`, and neither `EXEC` nor `DISCARD` since.
    #[must_use]
    pub fn is_queueing(&self) -> bool {
        self.queue.is_some()
    }

    /// Makes the client as it was at the begin of its connection, with the same number (`RESET`).
    pub fn reset(&mut self) {
        *self = Self { parked: self.parked, ..Self::new(self.number, self.connection) };
    }

    /// Newest epoch that a reply of the client rests on and that may not be durable yet.
    #[must_use]
    pub fn parked_epoch(&self) -> Epoch {
        self.parked
    }

    /// Choices of the client that queued requests may change.
    pub(crate) fn choices(&self) -> ClientChoices {
        ClientChoices { database: self.database, name: self.name.clone() }
    }

    /// Takes the client's choices back to these choices.
    pub(crate) fn restore(&mut self, choices: ClientChoices) {
        debug_assert!(self.queue.is_none(), "Q1: choices go back between `EXEC` and the next request");
        ClientChoices { database: self.database, name: self.name } = choices;
    }

    pub(crate) fn queue_bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, CommandQueue::memory_bytes)
    }
}

/// A client, as a list of clients shows the client.
pub struct ServedClient<'s, C> {
    /// The client.
    pub client: &'s Client<C>,
    /// Time since the connection's begin.
    pub age: Duration,
    /// Number of queued requests behind `MULTI`; `None` without a queue.
    pub queued: Option<usize>,
    /// Bytes of replies that wait or are unsent.
    pub unsent_bytes: usize,
    /// Memory of replies, requests and state, in bytes.
    pub memory_bytes: usize,
    /// Asks the system for the addresses of the connection; `None` if the peer has gone.
    pub ends: &'s dyn Fn() -> Option<ConnectionEnds>,
}

impl<C: std::fmt::Debug> std::fmt::Debug for ServedClient<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedClient").field("client", self.client).finish_non_exhaustive()
    }
}

/// Choices of a client that a queue without an effect leaves as they were.
#[derive(Clone, Debug)]
pub(crate) struct ClientChoices {
    /// Number of the database.
    database: u32,
    name: Box<[u8]>,
}

/// State of a connection.
pub(crate) struct ClientSession<C> {
    pub(crate) decoder: RequestDecoder,
    pub(crate) client: Client<C>,
    /// True if the decoder has the limits of authorized clients.
    has_full_limits: bool,
    /// Time of the connection's begin in nanoseconds.
    begun_nanos: u64,
    /// True if the first unread request is set aside, and is not called again yet.
    pub(crate) is_set_aside: bool,
    /// Wait of the request that is set aside for an event.
    pub(crate) wait: Option<EventWait>,
}

/// Wait of a request for an event.
#[derive(Debug)]
pub(crate) struct EventWait {
    /// Timer of the wait's end; `None` for a wait without an end.
    pub(crate) timer: Option<TimerId>,
}

impl<C: ClientState> ClientSession<C> {
    pub(crate) fn new(number: u64, connection: ConnectionId, begun_nanos: u64) -> Self {
        Self {
            decoder: RequestDecoder::new(STRANGER_LIMITS),
            client: Client::new(number, connection),
            has_full_limits: false,
            begun_nanos,
            is_set_aside: false,
            wait: None,
        }
    }

    /// Gives the decoder the limits of an authorized client, or of a stranger. The call comes between two requests.
    pub(crate) fn set_authorized(&mut self, is_authorized: bool) {
        if self.has_full_limits != is_authorized {
            self.has_full_limits = is_authorized;
            self.decoder = RequestDecoder::new(self.limits());
        }
    }

    /// Limits of the client's requests.
    pub(crate) fn limits(&self) -> RequestLimits {
        if self.has_full_limits { REQUEST_LIMITS } else { STRANGER_LIMITS }
    }

    /// The client, as a list of clients shows the client.
    pub(crate) fn served<'s>(
        &'s self,
        now_nanos: u64,
        unsent_bytes: usize,
        ends: &'s dyn Fn() -> Option<ConnectionEnds>,
    ) -> ServedClient<'s, C> {
        ServedClient {
            client: &self.client,
            age: Duration::from_nanos(now_nanos.saturating_sub(self.begun_nanos)),
            queued: self.client.queue.as_ref().map(CommandQueue::count),
            unsent_bytes,
            memory_bytes: unsent_bytes + self.memory_bytes(),
            ends,
        }
    }

    /// Memory that counts beside the connection's buffers, in bytes (W16).
    pub(crate) fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes() + self.client.queue_bytes() + self.client.own.memory_bytes()
    }

    /// Gives the memory of the requests and of the queue back.
    pub(crate) fn release_requests(&mut self) {
        self.decoder = RequestDecoder::new(self.limits());
        self.client.queue = None;
    }

    /// Gives the memory of the requests, of the queue and of the service's state back, at the end of the connection.
    pub(crate) fn release(&mut self) {
        self.release_requests();
        self.client.own = C::default();
        debug_assert_eq!(self.memory_bytes(), 0, "W16: a connection that ends keeps no request");
    }
}
