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
//! - W19: during a long request of another client, a request is refused as `BUSY` unless its command is permitted.
//! - Q4: each request passes [`ServedProgram::check_rights`] before it is carried out or queued, and a queued request
//!   passes again at `EXEC`.
//!
//! Neighbours: [`crate::ServingLoop`] reads requests and sends replies; `queue` has the queued requests, `execution`
//! calls the commands.

use ensile_base::Epoch;
use ensile_resp::{ReplyEncoder, Request, RequestDecoder, RequestLimits, RespVersion};

use crate::client_state::Client;
use crate::command::{CommandInfo, WhileQueueing, is_called};
use crate::common_commands;
use crate::execution::{Ahead, KnownCommand, TOGETHER, carry_out, catch_panic};
use crate::limits::{QUEUED_REPLY_BYTES, REPLY_BYTES};
use crate::outcome::{ANSWERED, Outcome};
use crate::queue::{CommandQueue, too_large};
use crate::reply::NewReply;
use crate::served_program::{BusyCall, CommonCall, Exec, ServedProgram, ServiceCall};
use crate::state::ServingState;

/// Limits for queued requests: each was within the limits when the request came.
const UNLIMITED: RequestLimits = RequestLimits {
    arguments_max: usize::MAX,
    bulk_bytes_max: usize::MAX,
    inline_bytes_max: usize::MAX,
    request_bytes_max: usize::MAX,
};

/// Commands of a client that has not been authorized.
const STRANGERS: [&str; 4] = ["AUTH", "HELLO", "QUIT", "RESET"];

/// Commands of a client that listens in version 2 of the protocol: its pushes look like replies.
const LISTENERS: [&str; 9] = [
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "PSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SSUBSCRIBE",
    "SUNSUBSCRIBE",
    "PING",
    "QUIT",
    "RESET",
];

/// Step after the checks of a request.
enum Admitted<S: ServedProgram> {
    /// The request is carried out.
    Now(KnownCommand<S>),
    /// The queue is carried out.
    Queue,
    /// The reply is written.
    Answered(Outcome),
}

/// Takes a request, and writes the reply.
#[inline]
pub(crate) fn take<S: ServedProgram>(
    call: ServiceCall<'_, S>,
    command: Option<&'static S::Command>,
    reply: &mut NewReply<'_>,
) -> Outcome {
    match admit(call.server, call.client, call.request, command, false, reply) {
        Admitted::Now(command) => carry_out(call, &command, reply),
        Admitted::Queue => exec(call, reply),
        Admitted::Answered(outcome) => {
            // A queued request has no error.
            if let Some(command) = command.filter(|_| reply.written_bytes().first() == Some(&b'-')) {
                call.server.service.note_refused(call.loop_state, command);
            }
            outcome
        }
    }
}

/// Takes a request while a long request of another client is under way, and writes the reply.
pub(crate) fn take_while_busy<S: ServedProgram>(
    call: BusyCall<'_, S>,
    command: Option<&'static S::Command>,
    reply: &mut NewReply<'_>,
) -> Outcome {
    let server = call.server;
    match admit(server, call.client, call.request, command, true, reply) {
        Admitted::Now(command) => catch_panic(server, reply, |reply| match command {
            KnownCommand::Common(command) => {
                let BusyCall { client, request, server, waker } = call;
                common_commands::carry_out(CommonCall { client, request, server, waker }, command, reply)
            }
            KnownCommand::Service(command) => server.service.call_while_busy(call, command, reply),
        })
        .unwrap_or_else(|panicked| panicked),
        Admitted::Queue => {
            debug_assert!(false, "EXEC is not permitted during a long request");
            ANSWERED
        }
        Admitted::Answered(outcome) => outcome,
    }
}

/// Refuses a request during a long request of another client. `EXEC` drops its queue, as in redis.
fn refuse_busy<S: ServedProgram>(
    server: &ServingState<S>,
    client: &mut Client<S::ClientState>,
    command: &CommandInfo,
    reply: &mut NewReply<'_>,
) {
    refuse(server, client);
    if command.while_queueing == WhileQueueing::Exec {
        client.queue = None;
        server.service.discard(client);
        reply.fail("EXECABORT", &format!("Transaction discarded because of: BUSY {}", S::BUSY));
    } else {
        reply.fail("BUSY", S::BUSY);
    }
}

/// True if a request is permitted during a long request of another client.
fn is_permitted_while_busy(command: &CommandInfo, request: Request<'_>) -> bool {
    match command.name {
        "SHUTDOWN" => request.iter().skip(1).any(|word| is_called(word, "NOSAVE")),
        _ => command.has_flag_of(request, "allow_busy"),
    }
}

/// Checks that the client may send a request now. Otherwise an error is the reply.
///
/// # Errors
/// [`Outcome`] after the error.
#[inline]
fn permit<S: ServedProgram>(
    server: &ServingState<S>,
    client: &mut Client<S::ClientState>,
    request: Request<'_>,
    command: Option<&'static S::Command>,
    reply: &mut NewReply<'_>,
) -> Result<KnownCommand<S>, Outcome> {
    debug_assert!(reply.is_empty(), "a request begins its reply");
    let is_stranger = !server.service.is_authorized(client);
    let resolved = reply.write(|reply| KnownCommand::<S>::resolve(command, request, reply));
    let command = match resolved {
        Ok(command) if is_stranger && !STRANGERS.contains(&command.info().name) => {
            reply.fail("NOAUTH", "Authentication required.");
            refuse(server, client);
            return Err(ANSWERED);
        }
        Ok(command)
            if client.is_listener
                && client.version == RespVersion::Resp2
                && !LISTENERS.contains(&command.info().name) =>
        {
            let name = command.info().full_name(request);
            reply.fail(
                "ERR",
                &format!(
                    "Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
                ),
            );
            refuse(server, client);
            return Err(ANSWERED);
        }
        Ok(command) => command,
        Err(outcome) => {
            let is_known = |name: &[u8]| STRANGERS.iter().any(|command| is_called(name, command));
            // A stranger learns no names of commands.
            if is_stranger && outcome == ANSWERED && !request.get(0).is_some_and(is_known) {
                reply.fail("NOAUTH", "Authentication required.");
            }
            refuse(server, client);
            return Err(outcome);
        }
    };
    // `AUTH` and its like have no rights, so that every user can become another one.
    if !STRANGERS.contains(&command.info().name)
        && let Err(refusal) = server.service.check_rights(client, command.info(), request)
    {
        reply.fail(refusal.code(), &refusal.text(command.info(), request));
        refuse(server, client);
        return Err(ANSWERED);
    }
    Ok(command)
}

/// Checks a request: the client's rights, and the queue. `is_busy` is true during a long request of another client.
#[inline]
fn admit<S: ServedProgram>(
    server: &ServingState<S>,
    client: &mut Client<S::ClientState>,
    request: Request<'_>,
    command: Option<&'static S::Command>,
    is_busy: bool,
    reply: &mut NewReply<'_>,
) -> Admitted<S> {
    let command = match permit(server, client, request, command, reply) {
        Ok(command) => command,
        Err(outcome) => return Admitted::Answered(outcome),
    };
    if is_busy && !is_permitted_while_busy(command.info(), request) {
        refuse_busy(server, client, command.info(), reply);
        return Admitted::Answered(ANSWERED);
    }
    let while_queueing = match &command {
        KnownCommand::Service(_) => command.info().while_queueing,
        KnownCommand::Common(common) => common.while_queueing::<S>(request),
    };
    match (while_queueing, &mut client.queue) {
        (WhileQueueing::Exec, _) => return Admitted::Queue,
        (WhileQueueing::Refused, Some(_)) => {
            reply.write(|reply| reply.error("ERR", "Command not allowed inside a transaction"));
            refuse(server, client);
            return Admitted::Answered(ANSWERED);
        }
        (WhileQueueing::Queued, Some(queue)) => {
            reply.write(|reply| enqueue(queue, request, reply));
            return Admitted::Answered(ANSWERED);
        }
        _ => {}
    }
    Admitted::Now(command)
}

/// Notes a refused request. A queue carries out nothing from then on (Q1), and a request that was set aside before is
/// dropped.
fn refuse<S: ServedProgram>(server: &ServingState<S>, client: &mut Client<S::ClientState>) {
    server.service.drop_set_aside(client);
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

/// Carries out the queued requests. A queue that is set aside stays the client's queue.
fn exec<S: ServedProgram>(call: ServiceCall<'_, S>, reply: &mut NewReply<'_>) -> Outcome {
    let ServiceCall { loop_state, client, server, waker, .. } = call;
    let Some(queue) = client.queue.take() else {
        reply.write(|reply| reply.error("ERR", "EXEC without MULTI"));
        return ANSWERED;
    };
    if queue.is_refused() {
        server.service.discard(client);
        reply.fail("EXECABORT", "Transaction discarded because of previous errors.");
        return ANSWERED;
    }
    let choices = client.choices();
    client.is_in_exec = true;
    let exec = Exec { loop_state, client: &mut *client, queue: &queue, server, waker };
    let outcome = catch_panic(server, reply, |reply| server.service.exec(exec, reply));
    client.is_in_exec = false;
    debug_assert!(client.queue.is_none(), "Q1: no queued request begins a queue");
    match outcome {
        Ok(Outcome::Busy) => {
            client.restore(choices);
            client.queue = Some(queue);
        }
        Ok(_) => {}
        // The queued requests before the panic may have no effect.
        Err(_) => client.restore(choices),
    }
    outcome.unwrap_or_else(|panicked| panicked)
}

impl<S: ServedProgram> Exec<'_, S> {
    /// Number of queued requests.
    #[must_use]
    pub fn count(&self) -> usize {
        self.queue.count()
    }

    /// Carries out each request of the queue by itself, in order, and writes the array of their replies. A panic ends
    /// its request only (O6).
    pub fn call_each_alone(&mut self, reply: &mut NewReply<'_>) -> Outcome {
        Outcome::Reply(self.call_each(reply, |_, call, command, reply| call_alone(call, command, reply)))
    }

    /// Carries out all requests of the queue, in order, and writes the array of their replies. `each` carries out a
    /// request of a command of the service, and returns the epoch that the reply rests on. Returns the epoch that the
    /// array rests on (Q2). A second call carries the requests out again.
    ///
    /// A panic of `each` ends the whole `EXEC`.
    pub fn call_each(
        &mut self,
        reply: &mut NewReply<'_>,
        mut each: impl FnMut(&S, ServiceCall<'_, S>, &'static S::Command, &mut NewReply<'_>) -> Epoch,
    ) -> Epoch {
        debug_assert!(reply.is_empty(), "Q1: the array of replies begins anew");
        debug_assert!(!self.queue.is_refused(), "Q1: a refused queue is not carried out");
        reply.write(|reply| reply.array(self.queue.count()));
        let Self { loop_state, client, queue, server, waker } = self;
        let (mut decoder, mut encoded) = (RequestDecoder::new(UNLIMITED), queue.encoded_requests());
        let (mut epoch, mut left) = (Epoch::ZERO, queue.count());
        loop {
            let requests = decoder.decode(encoded, TOGETHER);
            if requests.is_empty() {
                break;
            }
            let mut commands = [None; TOGETHER];
            let mut ahead = Ahead::<S>::new();
            for (place, request) in commands.iter_mut().zip(requests.iter()) {
                *place = ahead.note(request, client.database);
            }
            ahead.prefetch(&server.service, loop_state);
            for (request, command) in requests.iter().zip(commands) {
                left -= 1;
                let behind = reply.len() + left * QUEUED_REPLY_BYTES;
                debug_assert!(
                    behind + QUEUED_REPLY_BYTES <= REPLY_BYTES,
                    "W2: each request has room for its reply"
                );
                let mut reply = reply.reply_behind(REPLY_BYTES.saturating_sub(behind));
                let (loop_state, client) = (&mut **loop_state, &mut **client);
                let call = ServiceCall { loop_state, client, request, server, waker };
                epoch = epoch.max(call_queued(call, command, &mut reply, &mut each));
                reply.limit_all();
            }
            encoded = &encoded[requests.consumed_bytes()..];
        }
        debug_assert_eq!(left, 0, "Q1: each queued request has a reply");
        debug_assert!(encoded.is_empty(), "Q1: each queued request is decoded");
        debug_assert!(reply.len() <= REPLY_BYTES, "W2: the array of replies is a reply");
        epoch
    }
}

/// Carries out a queued request by itself. A panic ends this request only (O6).
fn call_alone<S: ServedProgram>(
    call: ServiceCall<'_, S>,
    command: &'static S::Command,
    reply: &mut NewReply<'_>,
) -> Epoch {
    match carry_out(call, &KnownCommand::Service(command), reply) {
        Outcome::Reply(epoch) => epoch,
        outcome => {
            debug_assert!(false, "Q1: {outcome:?} of a queued request");
            Epoch::ZERO
        }
    }
}

/// Carries out a queued request, and returns the epoch that its reply rests on.
fn call_queued<S: ServedProgram>(
    call: ServiceCall<'_, S>,
    command: Option<&'static S::Command>,
    reply: &mut NewReply<'_>,
    each: &mut impl FnMut(&S, ServiceCall<'_, S>, &'static S::Command, &mut NewReply<'_>) -> Epoch,
) -> Epoch {
    let known = reply.write(|reply| KnownCommand::<S>::resolve(command, call.request, reply));
    debug_assert!(call.client.queue.is_none(), "Q1: the queue is taken at `EXEC`");
    debug_assert!(known.is_ok(), "Q1: the command was known when the request was queued");
    // `AUTH` acts at once, so the client may have become another user since.
    if let Ok(command) = &known
        && let Err(refusal) = call.server.service.check_rights(call.client, command.info(), call.request)
    {
        reply.fail(refusal.code(), &refusal.text_at_exec());
        return Epoch::ZERO;
    }
    match known {
        Ok(KnownCommand::Service(command)) => each(&call.server.service, call, command, reply),
        Ok(command @ KnownCommand::Common(_)) => match carry_out(call, &command, reply) {
            Outcome::Reply(epoch) => epoch,
            outcome => {
                debug_assert!(false, "Q1: {outcome:?}: a command that ends the connection is not queued");
                Epoch::ZERO
            }
        },
        Err(_) => Epoch::ZERO,
    }
}
