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
//! Neighbours: [`super::ServiceLoop`] reads requests and sends replies; `queue` has the queued requests, `execution`
//! calls the commands.

use ensile_base::Epoch;
use ensile_resp::{ReplyEncoder, Request, RequestDecoder, RequestLimits};

use super::client_state::ClientState;
use super::common_commands::WhileQueueing;
use super::execution::{KnownCommand, NewReply, TOGETHER, carry_out, look_ahead};
use super::flow::{ANSWERED, Flow};
use super::queue::{CommandQueue, QUEUED_REPLY_BYTES, too_large};
use super::state::ServerState;
use crate::service::{CallError, REPLY_BYTES, Service, ServiceCommand};

/// Limits for queued requests: each was within the limits when the request came.
const UNLIMITED: RequestLimits = RequestLimits {
    arguments_max: usize::MAX,
    bulk_bytes_max: usize::MAX,
    inline_bytes_max: usize::MAX,
    request_bytes_max: usize::MAX,
};

/// Takes a request, and writes the reply.
pub(super) fn take<S: Service>(
    state: &ServerState<S>,
    client: &mut ClientState,
    request: Request<'_>,
    command: Option<&'static ServiceCommand<S>>,
    reply: &mut Vec<u8>,
) -> Flow {
    reply.clear();
    let mut encoder = ReplyEncoder::new(reply, client.version);
    let command = match KnownCommand::resolve(command, request, &mut encoder) {
        Ok(command) => command,
        Err(flow) => {
            refuse(client);
            return flow;
        }
    };
    let while_queueing = match &command {
        KnownCommand::Service(_) => WhileQueueing::Queued,
        KnownCommand::Common(command) => command.while_queueing(request),
    };
    match (while_queueing, &mut client.queue) {
        (WhileQueueing::Exec, _) => return exec(state, client, reply),
        (WhileQueueing::Refused, Some(_)) => {
            encoder.error("ERR", "Command not allowed inside a transaction");
            refuse(client);
            return ANSWERED;
        }
        (WhileQueueing::Queued, Some(queue)) => {
            enqueue(queue, request, &mut encoder);
            return ANSWERED;
        }
        _ => {}
    }
    carry_out(state, client, &command, request, NewReply { buffer: reply, bytes_max: REPLY_BYTES })
}

/// Notes a refused request. A queue carries out nothing from then on (Q1).
fn refuse(client: &mut ClientState) {
    if let Some(queue) = &mut client.queue {
        queue.refuse();
    }
}

/// Queues a request. A request without room is refused, and a refused queue keeps nothing.
fn enqueue(queue: &mut CommandQueue, request: Request<'_>, reply: &mut ReplyEncoder<'_>) {
    if queue.is_refused() || queue.push(request) {
        reply.simple("QUEUED");
    } else {
        reply.error("ERR", &too_large());
    }
}

/// Carries out the queued requests.
fn exec<S: Service>(state: &ServerState<S>, client: &mut ClientState, reply: &mut Vec<u8>) -> Flow {
    let mut encoder = ReplyEncoder::new(reply, client.version);
    let Some(queue) = client.queue.take() else {
        encoder.error("ERR", "EXEC without MULTI");
        return ANSWERED;
    };
    if queue.is_refused() {
        encoder.error("EXECABORT", "Transaction discarded because of previous errors.");
        return ANSWERED;
    }
    let epoch = carry_out_all(state, client, &queue, reply);
    debug_assert!(client.queue.is_none(), "Q1: no queued request begins a queue");
    Flow::Reply(epoch)
}

/// Carries out all requests of a queue, in order, and writes the array of their replies. Returns the epoch that the
/// array rests on (Q2).
fn carry_out_all<S: Service>(
    state: &ServerState<S>,
    client: &mut ClientState,
    queue: &CommandQueue,
    reply: &mut Vec<u8>,
) -> Epoch {
    ReplyEncoder::new(reply, client.version).array(queue.count());
    let (mut decoder, mut encoded) = (RequestDecoder::new(UNLIMITED), queue.encoded_requests());
    let (mut epoch, mut left) = (Epoch::ZERO, queue.count());
    loop {
        let requests = decoder.decode(encoded, TOGETHER);
        if requests.is_empty() {
            break;
        }
        let commands = look_ahead(&*state.service, requests);
        for (request, command) in requests.iter().zip(commands) {
            left -= 1;
            let behind = reply.len() + left * QUEUED_REPLY_BYTES;
            debug_assert!(
                behind + QUEUED_REPLY_BYTES <= REPLY_BYTES,
                "W2: each request has room for its reply"
            );
            let reply = NewReply { buffer: reply, bytes_max: REPLY_BYTES.saturating_sub(behind) };
            epoch = epoch.max(carry_out_queued(state, client, request, command, reply));
        }
        encoded = &encoded[requests.consumed_bytes()..];
    }
    debug_assert_eq!(left, 0, "Q1: each queued request has a reply");
    debug_assert!(encoded.is_empty(), "Q1: each queued request is decoded");
    debug_assert!(reply.len() <= REPLY_BYTES, "W2: the array of replies is a reply");
    epoch
}

/// Carries out a queued request, and returns the epoch that its reply rests on. An error replaces a reply without room.
fn carry_out_queued<S: Service>(
    state: &ServerState<S>,
    client: &mut ClientState,
    request: Request<'_>,
    command: Option<&'static ServiceCommand<S>>,
    reply: NewReply<'_>,
) -> Epoch {
    let NewReply { buffer, bytes_max } = reply;
    let (begin, version) = (buffer.len(), client.version);
    let known = KnownCommand::resolve(command, request, &mut ReplyEncoder::new(buffer, version));
    debug_assert!(known.is_ok(), "Q1: the command was known when the request was queued");
    let Ok(command) = known else { return Epoch::ZERO };
    let flow = carry_out(state, client, &command, request, NewReply { buffer: &mut *buffer, bytes_max });
    if buffer.len() - begin > bytes_max {
        let error = CallError::ReplyTooLong(REPLY_BYTES);
        buffer.truncate(begin);
        ReplyEncoder::new(buffer, version).error(error.code(), &error.to_string());
    }
    match flow {
        Flow::Reply(epoch) => epoch,
        Flow::ReplyAndClose | Flow::Stop => {
            debug_assert!(false, "Q1: a command that ends the connection is not queued");
            Epoch::ZERO
        }
    }
}
