//! Requests of a client are carried out at once, or queued after `MULTI` and carried out at `EXEC`.
//!
//! ```text
//! request -> known, well formed? -> no queue: carried out                     -> reply
//!                                   queue:    queued                          -> QUEUED
//!                                   EXEC:     each queued request carried out -> an array of the replies
//! ```
//! Invariants:
//! - Q1: a queued request is carried out once, at `EXEC`, in order; after a refused request `EXEC` carries out nothing.
//! - Q2: the reply to `EXEC` rests on the largest epoch that the reply to a queued request rests on (R1).
//! - Q3: the queue is bounded, and counts in the memory of all clients (W16).
//!
//! Neighbours: [`super::ServiceLoop`] reads requests and sends replies; `queue` has the queued requests, `carry_out`
//! calls the commands.

use ensile_base::Epoch;
use ensile_net::{MemoryFit, ReplyQueue};
use ensile_resp::{ReplyEncoder, Request, RequestDecoder, RequestLimits};

use super::ServerState;
use super::carry_out::{
    ClientState, KnownCommand, NewReply, SHORT_REPLY_BYTES, TOGETHER, carry_out, look_ahead, may_keep,
};
use super::common::{ANSWERED, Flow, WhileQueueing};
use super::queue::{CommandQueue, QUEUED_REPLY_BYTES, QueuedRequest, too_large};
use crate::service::{CallError, REPLY_BYTES, Service, ServiceCommand};

/// Limits for queued requests: each was within the limits when the request came.
const UNLIMITED: RequestLimits = RequestLimits {
    arguments_max: usize::MAX,
    bulk_bytes_max: usize::MAX,
    inline_bytes_max: usize::MAX,
    request_bytes_max: usize::MAX,
};

/// Remedy for a client whose transaction has no memory.
const LESS_IN_MULTI: &str = "send and ask for less between MULTI and EXEC";

/// The buffer for a reply, and the replies of the client that are not sent.
pub(super) struct ClientReplies<'q> {
    pub(super) reply: &'q mut Vec<u8>,
    pub(super) unsent: &'q mut ReplyQueue,
    /// Memory of the decoder of the client's requests, in bytes.
    pub(super) decoder_bytes: usize,
}

impl ClientReplies<'_> {
    /// The client's queue has changed: its memory counts anew.
    fn count_queue(&mut self, client: &ClientState) {
        self.unsent.set_owner_bytes(self.decoder_bytes + client.queue_bytes());
    }
}

/// Takes a request, with the service's command of its name if there is one, and writes the reply. `None` if the request
/// needs memory that lacks now: nothing was carried out, and the request is to be taken again (W16).
pub(super) fn take<S: Service>(
    state: &ServerState<S>,
    client: &mut ClientState,
    request: Request<'_>,
    command: Option<&'static ServiceCommand<S>>,
    replies: &mut ClientReplies<'_>,
) -> Option<Flow> {
    replies.reply.clear();
    let mut encoder = ReplyEncoder::new(replies.reply, client.version);
    let command = match KnownCommand::of(command, request, &mut encoder) {
        Ok(command) => command,
        Err(flow) => {
            refuse(client);
            return Some(flow);
        }
    };
    let while_queueing = match &command {
        KnownCommand::Service(_) => WhileQueueing::Queued,
        KnownCommand::Common(command) => command.while_queueing(request),
    };
    match while_queueing {
        WhileQueueing::Exec => return exec(state, client, replies),
        WhileQueueing::Refused if client.queue.is_some() => {
            encoder.error("ERR", "Command not allowed inside a transaction");
            refuse(client);
            return Some(ANSWERED);
        }
        WhileQueueing::Queued if client.queue.is_some() => {
            return enqueue(state, client, &command, request, replies);
        }
        _ => {}
    }
    let reply = NewReply { buffer: replies.reply, bytes_max: REPLY_BYTES };
    let flow = carry_out(state, client, &command, request, reply);
    if command.may_repeat() && !may_keep(state, replies.unsent, client.version, replies.reply) {
        return None;
    }
    Some(flow)
}

/// Notes a refused request. A queue carries out nothing from then on (Q1).
fn refuse(client: &mut ClientState) {
    if let Some(queue) = &mut client.queue {
        queue.refuse();
    }
}

/// Queues a request. A request without room is refused. `None` if other clients have the memory now.
fn enqueue<S: Service>(
    state: &ServerState<S>,
    client: &mut ClientState,
    command: &KnownCommand<S>,
    request: Request<'_>,
    replies: &mut ClientReplies<'_>,
) -> Option<Flow> {
    let queue = client.queue.as_mut()?;
    let mut refusal = None;
    // A refused queue keeps nothing.
    if !queue.is_refused() {
        let queued = QueuedRequest::new(request, !command.may_repeat(), replies.reply);
        if queue.has_room(&queued) {
            match fit_of_growth(queue.growth_bytes(&queued), replies.unsent) {
                MemoryFit::Fits => queue.push(&queued),
                MemoryFit::Later => return None,
                MemoryFit::Never => {
                    refusal = Some(("OOM", state.out_of_memory("the transaction", LESS_IN_MULTI)))
                }
            }
        } else {
            refusal = Some(("ERR", too_large()));
        }
    }
    replies.reply.clear();
    let mut encoder = ReplyEncoder::new(replies.reply, client.version);
    match refusal {
        None => encoder.simple("QUEUED"),
        Some((code, text)) => {
            encoder.error(code, &text);
            queue.refuse();
        }
    }
    replies.count_queue(client);
    Some(ANSWERED)
}

/// The answer of the memory to a queue that grows by this number of bytes. Small growth needs no answer: the client was
/// asked for room before the request.
fn fit_of_growth(bytes: usize, unsent: &mut ReplyQueue) -> MemoryFit {
    if bytes <= SHORT_REPLY_BYTES { MemoryFit::Fits } else { unsent.fits(bytes) }
}

/// Carries out the queued requests. `None` if the reply needs memory that lacks now: nothing was changed.
fn exec<S: Service>(
    state: &ServerState<S>,
    client: &mut ClientState,
    replies: &mut ClientReplies<'_>,
) -> Option<Flow> {
    let mut encoder = ReplyEncoder::new(replies.reply, client.version);
    let Some(queue) = client.queue.take() else {
        encoder.error("ERR", "EXEC without MULTI");
        return Some(ANSWERED);
    };
    if queue.is_refused() {
        encoder.error("EXECABORT", "Transaction discarded because of previous errors.");
        return Some(ANSWERED);
    }
    let epoch = carry_out_all(state, client, &queue, replies);
    if !queue.changes() && !may_keep(state, replies.unsent, client.version, replies.reply) {
        client.queue = Some(queue);
        return None;
    }
    replies.count_queue(client);
    Some(Flow::Reply(epoch))
}

/// Carries out all requests of a queue, in order, and writes the array of their replies. Returns the epoch that the
/// array rests on (Q2).
fn carry_out_all<S: Service>(
    state: &ServerState<S>,
    client: &mut ClientState,
    queue: &CommandQueue,
    replies: &mut ClientReplies<'_>,
) -> Epoch {
    ReplyEncoder::new(replies.reply, client.version).array(queue.count());
    let (mut decoder, mut encoded) = (RequestDecoder::new(UNLIMITED), queue.encoded());
    let (mut epoch, mut left) = (Epoch::ZERO, queue.count());
    loop {
        let requests = decoder.decode(encoded, TOGETHER);
        if requests.is_empty() {
            break;
        }
        let commands = look_ahead(&*state.service, requests);
        for (request, command) in requests.iter().zip(commands) {
            left -= 1;
            let behind = replies.reply.len() + left * QUEUED_REPLY_BYTES;
            debug_assert!(
                behind + QUEUED_REPLY_BYTES <= REPLY_BYTES,
                "W2: each request has room for its reply"
            );
            let room = QueuedRoom { bytes_max: REPLY_BYTES.saturating_sub(behind), queue };
            epoch = epoch.max(carry_out_queued(state, client, request, command, replies, &room));
        }
        encoded = &encoded[requests.consumed()..];
    }
    debug_assert_eq!(left, 0, "Q1: each queued request has a reply");
    epoch
}

/// Room for the reply to a queued request.
struct QueuedRoom<'q> {
    bytes_max: usize,
    queue: &'q CommandQueue,
}

impl QueuedRoom<'_> {
    /// True if the memory of all clients has the replies so far. The queue has memory for short replies (Q3). A queue
    /// without changes may be carried out again, so its whole reply is looked at.
    fn has_memory(&self, reply_bytes: usize, unsent: &ReplyQueue) -> bool {
        let short_bytes = SHORT_REPLY_BYTES.max(self.queue.count() * QUEUED_REPLY_BYTES);
        !self.queue.changes() || reply_bytes <= short_bytes || unsent.fit_of(reply_bytes) == MemoryFit::Fits
    }
}

/// Carries out a queued request, and returns the epoch that its reply rests on. An error replaces a reply without room.
fn carry_out_queued<S: Service>(
    state: &ServerState<S>,
    client: &mut ClientState,
    request: Request<'_>,
    command: Option<&'static ServiceCommand<S>>,
    replies: &mut ClientReplies<'_>,
    room: &QueuedRoom<'_>,
) -> Epoch {
    let (begin, version) = (replies.reply.len(), client.version);
    let known = KnownCommand::of(command, request, &mut ReplyEncoder::new(replies.reply, version));
    // The command was known when the request was queued.
    let Ok(command) = known else { return Epoch::ZERO };
    let reply = NewReply { buffer: replies.reply, bytes_max: room.bytes_max };
    let flow = carry_out(state, client, &command, request, reply);
    let bytes = replies.reply.len() - begin;
    let error = if bytes > room.bytes_max {
        let error = CallError::ReplyTooLong(REPLY_BYTES);
        Some((error.code(), error.to_string()))
    } else if command.may_repeat() && !room.has_memory(replies.reply.len(), replies.unsent) {
        Some(("OOM", state.out_of_memory(&format!("a reply of {bytes} bytes"), LESS_IN_MULTI)))
    } else {
        None
    };
    if let Some((code, text)) = error {
        replies.reply.truncate(begin);
        ReplyEncoder::new(replies.reply, version).error(code, &text);
    }
    match flow {
        Flow::Reply(epoch) => epoch,
        Flow::ReplyAndClose | Flow::Stop => {
            debug_assert!(false, "Q1: a command that ends the connection is not queued");
            Epoch::ZERO
        }
    }
}
