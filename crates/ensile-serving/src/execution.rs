//! A request is carried out: its command is called, and the reply is written.
//!
//! Invariants:
//! - O6: a command that panics gets an error as its reply, and the server goes on.
//! - W2: a reply has no more bytes than the caller permits; a longer reply becomes an error.
//!
//! Neighbours: [`crate::dispatch`] decides which requests are carried out; `common_commands` has the commands of every
//! server, a [`ServedProgram`] has its own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::panic_text;
use ensile_base::sync::Ordering;
use ensile_resp::{ReplyEncoder, Request};

use crate::command::CommandInfo;
use crate::common_commands::{self, CommonCommand};
use crate::outcome::{ANSWERED, Outcome};
use crate::reply::{ERROR_BYTES, NewReply, cut_to};
use crate::served_program::{AheadKey, CommonCall, ServedProgram, ServiceCall};
use crate::state::ServingState;

/// Largest number of requests whose memory is requested at once. More requests do not shorten the wait for memory.
pub const TOGETHER: usize = 16;

/// Longest text of a panic that a reply shows, in bytes.
const PANIC_BYTES: usize = 1024;

const _: () = assert!(PANIC_BYTES <= ERROR_BYTES / 2, "the text of a panic leaves room for the remedy");

/// Command of a request.
pub(crate) enum KnownCommand<S: ServedProgram> {
    Service(&'static S::Command),
    Common(&'static CommonCommand),
}

impl<S: ServedProgram> KnownCommand<S> {
    /// The command of a request, given the service's command of this name if there is one. `None` for an unknown
    /// command or a malformed request, with an error as the reply.
    ///
    /// # Errors
    /// [`Outcome`] after the error.
    pub(crate) fn resolve(
        command: Option<&'static S::Command>,
        request: Request<'_>,
        reply: &mut ReplyEncoder<'_>,
    ) -> Result<Self, Outcome> {
        match command {
            Some(command) if command.as_ref().takes(request.len()) => {
                if common_commands::check_subcommand(command.as_ref(), request, reply) {
                    Ok(Self::Service(command))
                } else {
                    Err(ANSWERED)
                }
            }
            Some(command) => {
                common_commands::wrong_number(command.as_ref().name, reply);
                Err(ANSWERED)
            }
            None => common_commands::find::<S>(request, reply).map(Self::Common),
        }
    }

    pub(crate) fn info(&self) -> &'static CommandInfo {
        match self {
            Self::Service(command) => (*command).as_ref(),
            Self::Common(command) => &command.info,
        }
    }
}

/// The first keys of requests that come next, and the requests' commands.
pub(crate) struct Ahead<'r, S: ServedProgram> {
    keys: [AheadKey<'r>; TOGETHER],
    count: usize,
    _service: std::marker::PhantomData<S>,
}

impl<'r, S: ServedProgram> Ahead<'r, S> {
    pub(crate) fn new() -> Self {
        Self { keys: [AheadKey::default(); TOGETHER], count: 0, _service: std::marker::PhantomData }
    }

    /// Finds the service's command of a request, and notes the request's first key.
    #[inline]
    pub(crate) fn note(&mut self, request: Request<'r>, database: u32) -> Option<&'static S::Command> {
        let command = S::find_command(request.get(0).unwrap_or_default())?;
        let key = command.as_ref().first_key().and_then(|argument| request.get(argument));
        if let (Some(key), Some(place)) = (key, self.keys.get_mut(self.count)) {
            *place = AheadKey { database, key };
            self.count += 1;
        }
        Some(command)
    }

    /// Requests the memory of the noted keys.
    #[inline]
    pub(crate) fn prefetch(&self, service: &S, state: &mut S::LoopState) {
        // A single request also waits for its memory when it is carried out.
        if self.count > 1 {
            debug_assert!(self.count <= TOGETHER, "each request has a place for its key");
            let keys = &self.keys[..self.count];
            // A hint: a broken object panics again at its use, and is reported there.
            let _ = catch_unwind(AssertUnwindSafe(|| service.prefetch(state, keys)));
        }
    }
}

/// Carries a request out and writes the reply. The reply to a panicking request is an error: the service poisons its
/// half-changed state (O6), and the server goes on.
pub(crate) fn carry_out<S: ServedProgram>(
    call: ServiceCall<'_, S>,
    command: &KnownCommand<S>,
    reply: &mut NewReply<'_>,
) -> Outcome {
    let server = call.server;
    catch_panic(server, reply, |reply| match command {
        KnownCommand::Common(command) => {
            let ServiceCall { client, request, server, waker, .. } = call;
            common_commands::carry_out(CommonCall { client, request, server, waker }, command, reply)
        }
        KnownCommand::Service(command) => server.service.call(call, command, reply),
    })
    .unwrap_or_else(|panicked| panicked)
}

/// Runs `attempt`, which writes a reply. After a panic the reply is an error.
///
/// # Errors
/// Outcome of the error reply, after a panic.
pub(crate) fn catch_panic<S: ServedProgram>(
    server: &ServingState<S>,
    reply: &mut NewReply<'_>,
    attempt: impl FnOnce(&mut NewReply<'_>) -> Outcome,
) -> Result<Outcome, Outcome> {
    match catch_unwind(AssertUnwindSafe(|| attempt(reply))) {
        Ok(outcome) => {
            debug_assert!(
                !outcome.sets_aside() || reply.is_empty(),
                "a request that is set aside has no reply"
            );
            reply.limit();
            Ok(outcome)
        }
        Err(panic) => {
            // Relaxed: a figure for people.
            server.panicked.fetch_add(1, Ordering::Relaxed);
            let told = format!(
                "the command panicked ({}): whether it was carried out is unknown; what it may have left half changed is \
                 refused as POISONED until the server is started again, and all else is served",
                cut_to(panic_text(&*panic).unwrap_or("without a text"), PANIC_BYTES)
            );
            reply.fail("PANICKED", &told);
            // The text may depend on anything logged by now.
            Err(Outcome::Reply(server.service.durable_epochs().newest_epoch()))
        }
    }
}
