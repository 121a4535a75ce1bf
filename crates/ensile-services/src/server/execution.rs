//! A request is carried out: its command is called, and the reply is written.
//!
//! Invariants:
//! - O6: a command that panics gets an error as its reply, and the server goes on.
//! - W2: a reply has no more bytes than the caller permits; a longer reply becomes an error.
//!
//! Neighbours: [`super::dispatch`] decides which requests are carried out; `common_commands` has the commands of every
//! server, [`crate::service`] the commands of a service.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::panic_text;
use ensile_base::sync::Ordering;
use ensile_resp::{ReplyEncoder, Request, Requests, RespVersion};

use super::client_state::ClientState;
use super::common_commands::{self, CommonCommand};
use super::flow::{ANSWERED, Flow};
use super::state::ServerState;
use crate::service::{CommandRequest, Service, ServiceCommand, check_length, is_called};

/// Requests of a connection whose memory is requested at once. More requests do not shorten the wait for memory.
pub(super) const TOGETHER: usize = 16;

/// Command of a request.
pub(super) enum KnownCommand<S: Service> {
    Service(&'static ServiceCommand<S>),
    Common(&'static CommonCommand),
}

impl<S: Service> KnownCommand<S> {
    /// The command of a request, given the service's command of this name if there is one. `None` for an unknown
    /// command or a malformed request, with an error as the reply.
    ///
    /// # Errors
    /// [`Flow`] after the error.
    pub(super) fn resolve(
        command: Option<&'static ServiceCommand<S>>,
        request: Request<'_>,
        reply: &mut ReplyEncoder<'_>,
    ) -> Result<Self, Flow> {
        match command {
            Some(command) if command.info.takes(request.len()) => Ok(Self::Service(command)),
            Some(command) => {
                common_commands::wrong_number(command.info.name, reply);
                Err(ANSWERED)
            }
            None => common_commands::find(request, reply).map(Self::Common),
        }
    }
}

/// Finds the service's commands of a group of requests, and requests the memory of their first keys.
pub(super) fn look_ahead<S: Service>(
    service: &S,
    requests: Requests<'_>,
) -> [Option<&'static ServiceCommand<S>>; TOGETHER] {
    debug_assert!(requests.len() <= TOGETHER, "each request has a place for its command");
    let mut commands = [None; TOGETHER];
    let (mut keys, mut count) = ([[].as_slice(); TOGETHER], 0);
    for (place, request) in commands.iter_mut().zip(requests.iter()) {
        let name = request.get(0).unwrap_or_default();
        *place = S::COMMANDS.iter().find(|command| is_called(name, command.info.name));
        let key = place.and_then(|command| request.get(command.info.first_key()?));
        if let Some(key) = key {
            keys[count] = key;
            count += 1;
        }
    }
    // A single request also waits for its memory when it is carried out.
    if count > 1 {
        // A hint: a broken object panics again at its use, and is reported there.
        let _ = catch_unwind(AssertUnwindSafe(|| service.prefetch(&keys[..count])));
    }
    commands
}

/// A reply that is being written, after the bytes that are in the buffer.
pub(super) struct NewReply<'b> {
    pub(super) buffer: &'b mut Vec<u8>,
    /// Largest length of the reply in bytes. An error may be longer.
    pub(super) bytes_max: usize,
}

impl NewReply<'_> {
    /// Writes an error in place of the bytes from `begin` on.
    fn replace_by_error(&mut self, begin: usize, version: RespVersion, code: &str, text: &str) {
        debug_assert!(begin <= self.buffer.len(), "W1: a command takes no earlier reply away");
        self.buffer.truncate(begin);
        ReplyEncoder::new(self.buffer, version).error(code, text);
    }
}

/// Carries a request out and appends the reply. The reply to a panicking request is an error: half-changed objects are
/// poisoned (O6), and the server goes on with the rest.
pub(super) fn carry_out<S: Service>(
    state: &ServerState<S>,
    client: &mut ClientState,
    command: &KnownCommand<S>,
    request: Request<'_>,
    mut reply: NewReply<'_>,
) -> Flow {
    let begin = reply.buffer.len();
    let attempt = || carry_out_or_panic(state, client, command, request, &mut reply);
    let panic = match catch_unwind(AssertUnwindSafe(attempt)) {
        Ok(flow) => return flow,
        Err(panic) => panic,
    };
    // Relaxed: a figure for people.
    state.panicked.fetch_add(1, Ordering::Relaxed);
    let told = format!(
        "the command panicked ({}): whether it was carried out is unknown; what it may have left half changed is \
         refused as POISONED until the server is started again, and all else is served",
        panic_text(&*panic).unwrap_or("without a text")
    );
    reply.replace_by_error(begin, client.version, "PANICKED", &told);
    // The text may depend on anything logged by now.
    Flow::Reply(state.service.persistent_objects().newest_epoch())
}

/// As [`carry_out`], without the handling of panics.
fn carry_out_or_panic<S: Service>(
    state: &ServerState<S>,
    client: &mut ClientState,
    command: &KnownCommand<S>,
    request: Request<'_>,
    reply: &mut NewReply<'_>,
) -> Flow {
    let (begin, version) = (reply.buffer.len(), client.version);
    let mut encoder = ReplyEncoder::new(reply.buffer, version).at_most(reply.bytes_max);
    match command {
        KnownCommand::Common(command) => {
            let flow = common_commands::carry_out(state, client, command, request, &mut encoder);
            if let Err(error) = check_length(&encoder) {
                reply.replace_by_error(begin, version, error.code(), &error.to_string());
            }
            flow
        }
        KnownCommand::Service(command) => {
            let request = CommandRequest::new(request);
            let called = (command.call)(&state.service, &request, &mut encoder);
            match called.and_then(|()| check_length(&encoder)) {
                Ok(()) => {
                    let bytes = reply.buffer.len() - begin;
                    debug_assert!(bytes <= reply.bytes_max, "W2: {bytes} bytes of a reply");
                    Flow::Reply(request.rests.epoch())
                }
                Err(error) => {
                    if error.is_turned_away() {
                        // Relaxed: a figure.
                        state.turned_away.fetch_add(1, Ordering::Relaxed);
                    }
                    reply.replace_by_error(begin, version, error.code(), &error.to_string());
                    Flow::Reply(
                        error.rests_on(&request.rests, || state.service.persistent_objects().newest_epoch()),
                    )
                }
            }
        }
    }
}
