//! A request is carried out: its command is called, and the reply is written.
//!
//! Invariants:
//! - O6: a command that panics gets an error as its reply, and the server goes on.
//! - W2: a reply has no more bytes than the caller permits; a longer reply becomes an error.
//!
//! Neighbours: [`crate::dispatch`] decides which requests are carried out; `common_commands` has the commands of every
//! server, a [`Service`] has its own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::panic_text;
use ensile_base::sync::Ordering;
use ensile_resp::{ReplyEncoder, Request, RespVersion};

use crate::command::CommandInfo;
use crate::common_commands::{self, CommonCommand};
use crate::limits::REPLY_BYTES;
use crate::service::{ANSWERED, AheadKey, Call, Outcome, Service};
use crate::state::ServerState;

/// Largest number of requests whose memory is requested at once. More requests do not shorten the wait for memory.
pub const TOGETHER: usize = 16;

/// Command of a request.
pub(crate) enum KnownCommand<S: Service> {
    Service(&'static S::Command),
    Common(&'static CommonCommand),
}

impl<S: Service> KnownCommand<S> {
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
pub(crate) struct Ahead<'r, S: Service> {
    keys: [AheadKey<'r>; TOGETHER],
    count: usize,
    _service: std::marker::PhantomData<S>,
}

impl<'r, S: Service> Ahead<'r, S> {
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
            let keys = &self.keys[..self.count];
            // A hint: a broken object panics again at its use, and is reported there.
            let _ = catch_unwind(AssertUnwindSafe(|| service.prefetch(state, keys)));
        }
    }
}

/// A reply that is being written, after the bytes that are in the buffer.
#[derive(Debug)]
pub struct NewReply<'b> {
    buffer: &'b mut Vec<u8>,
    /// Length of the buffer before the reply, in bytes.
    begin: usize,
    /// Largest length of the reply in bytes. An error may be longer.
    bytes_max: usize,
    version: RespVersion,
    /// True if a part did not fit: the written part is no reply.
    is_beyond: bool,
}

impl<'b> NewReply<'b> {
    /// Begins a reply of at most `bytes_max` bytes behind the bytes of the buffer.
    #[inline]
    pub fn new(buffer: &'b mut Vec<u8>, bytes_max: usize, version: RespVersion) -> Self {
        let begin = buffer.len();
        Self { buffer, begin, bytes_max, version, is_beyond: false }
    }

    /// Appends to the reply. Parts behind the limit are left out, and [`NewReply::limit`] replaces the reply.
    #[inline]
    pub fn write<R>(&mut self, write: impl FnOnce(&mut ReplyEncoder<'_>) -> R) -> R {
        let bytes_max = self.bytes_max.saturating_sub(self.len());
        let mut encoder = ReplyEncoder::new(self.buffer, self.version).at_most(bytes_max);
        let written = write(&mut encoder);
        self.is_beyond |= encoder.is_beyond();
        written
    }

    /// Version of the protocol in which the reply is written.
    #[must_use]
    pub fn version(&self) -> RespVersion {
        self.version
    }

    /// Length of the written part of the reply in bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len() - self.begin
    }

    /// True if nothing is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The written part of the reply.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        &self.buffer[self.begin..]
    }

    /// Appends bytes of a reply that was written elsewhere in the same version of the protocol.
    pub fn append(&mut self, written: &[u8]) {
        self.buffer.extend_from_slice(written);
    }

    /// Takes the written part of the reply back.
    pub fn clear(&mut self) {
        self.buffer.truncate(self.begin);
        self.is_beyond = false;
    }

    /// Replaces the written part of the reply by an error.
    pub fn fail(&mut self, code: &str, text: &str) {
        debug_assert!(self.begin <= self.buffer.len(), "W1: a command takes no earlier reply away");
        self.clear();
        ReplyEncoder::new(self.buffer, self.version).error(code, text);
    }

    /// Replaces a reply beyond its limit by an error. An error may be longer than the limit.
    #[inline]
    pub fn limit(&mut self) {
        if self.is_beyond {
            self.fail("ERR", &reply_too_long());
        }
    }

    /// As [`NewReply::limit`], for errors too: other replies of the same array need their room.
    pub(crate) fn limit_all(&mut self) {
        self.is_beyond |= self.len() > self.bytes_max;
        self.limit();
    }

    /// A reply behind the written part, of at most `bytes_max` bytes.
    pub(crate) fn behind(&mut self, bytes_max: usize) -> NewReply<'_> {
        NewReply::new(self.buffer, bytes_max, self.version)
    }
}

/// Text of the error for a reply beyond [`REPLY_BYTES`].
pub(crate) fn reply_too_long() -> String {
    format!("the reply would be longer than {REPLY_BYTES} bytes: ask for less at once")
}

/// Carries a request out and writes the reply. The reply to a panicking request is an error: the service poisons its
/// half-changed state (O6), and the server goes on.
pub(crate) fn carry_out<S: Service>(
    call: Call<'_, S>,
    command: &KnownCommand<S>,
    reply: &mut NewReply<'_>,
) -> Outcome {
    let server = call.server;
    catch_panic(server, reply, |reply| match command {
        KnownCommand::Common(command) => common_commands::carry_out(call, command, reply),
        KnownCommand::Service(command) => server.service.call(call, command, reply),
    })
}

/// Runs `attempt`, which writes a reply. After a panic the reply is an error.
pub(crate) fn catch_panic<S: Service>(
    server: &ServerState<S>,
    reply: &mut NewReply<'_>,
    attempt: impl FnOnce(&mut NewReply<'_>) -> Outcome,
) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| attempt(reply))) {
        Ok(outcome) => {
            debug_assert!(
                outcome != Outcome::Busy || reply.is_empty(),
                "a request that is set aside has no reply"
            );
            reply.limit();
            outcome
        }
        Err(panic) => {
            // Relaxed: a figure for people.
            server.panicked.fetch_add(1, Ordering::Relaxed);
            let told = format!(
                "the command panicked ({}): whether it was carried out is unknown; what it may have left half changed is \
                 refused as POISONED until the server is started again, and all else is served",
                panic_text(&*panic).unwrap_or("without a text")
            );
            reply.fail("PANICKED", &told);
            // The text may depend on anything logged by now.
            Outcome::Reply(server.service.durable_epochs().newest_epoch())
        }
    }
}
