//! The interface between a served program and its server.
//!
//! Invariant: an [`Outcome`] names the epoch that its reply rests on (R1): the newest epoch of everything that the
//! command looked at or changed. An error is a reply as well.
//!
//! Neighbours: `ensile-services` and `ensile-server` implement [`ServedProgram`]; [`crate::ServingLoop`] serves.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ensile_base::sync::Ordering;
use ensile_net::NetLimits;
use ensile_resp::Request;

use crate::client_state::{Client, ClientState};
use crate::command::{CommandInfo, Subcommand};
use crate::durable_epochs::DurableEpochs;
use crate::figures::ServerFigures;
use crate::info::InfoText;
use crate::loop_poll::LoopPoll;
use crate::mail::{LoopClients, LoopMail};
use crate::outcome::{AuthProgress, AuthRefusal, Outcome, RightsRefusal};
use crate::queue::CommandQueue;
use crate::reply::NewReply;
use crate::state::ServingState;

/// A served program. The program is shared by all loops of its server.
pub trait ServedProgram: Send + Sync + Sized + 'static {
    /// Name as clients see it.
    const NAME: &'static str;
    /// Version as clients see it.
    const VERSION: &'static str = crate::info::VERSION;
    /// Number of databases that `SELECT` accepts. A server with a single database ends the connection of a client that
    /// asks for another one.
    const DATABASES: u32;
    /// True if the program has no users and no passwords. A client that names a user is refused, and its connection
    /// ends.
    const IS_WITHOUT_USERS: bool;

    /// Text of the error `BUSY`, for requests of other clients during a long request ([`LoopPoll`]).
    const BUSY: &'static str = "a long request is under way";

    /// A command of the program, with its description.
    type Command: AsRef<CommandInfo> + Sync + 'static;
    /// State of a loop, used on the loop's thread only.
    type LoopState;
    /// State of a client beside the state that all servers have. The state ends with the connection.
    type ClientState: ClientState;
    /// A letter to a loop; `()` for a program that sends none.
    type Letter: Send + 'static;

    /// Commands, the frequent commands first. A command of the program replaces a common command of the same name.
    fn commands() -> &'static [Self::Command];

    /// The command with this name, in any case. A program with many commands overrides the search through the table.
    #[inline]
    fn find_command(name: &[u8]) -> Option<&'static Self::Command> {
        Self::commands().iter().find(|command| crate::command::is_called(name, command.as_ref().name))
    }

    /// Groups of users' rights that a command or a subcommand is in, each behind `@`. A program without users has none.
    fn groups(command: &CommandInfo, subcommand: Option<&Subcommand>) -> Vec<&'static str> {
        let _ = (command, subcommand);
        Vec::new()
    }

    /// Makes the state of a loop, on the loop's thread.
    fn begin_loop(&self, parts: LoopParts<Self::Letter>) -> Self::LoopState;

    /// Takes a letter to a loop, on the loop's thread.
    fn take_letter(
        &self,
        state: &mut Self::LoopState,
        clients: &mut dyn LoopClients<Self::ClientState>,
        letter: Self::Letter,
    ) {
        let _ = (state, clients, letter);
    }

    /// Ends the wait of a client for an event (`CLIENT UNBLOCK`), with an error or as at the end of its time. False if
    /// the client does not wait.
    fn unblock(&self, client: u64, with_error: bool) -> bool {
        let _ = (client, with_error);
        false
    }

    /// Drops what the loop keeps for a client, at the end of its requests. The call may come twice.
    fn end_client(&self, state: &mut Self::LoopState, client: &mut Client<Self::ClientState>) {
        let _ = (state, client);
    }

    /// Prefetches the memory of keys: a hint, as commands with these keys come next.
    fn prefetch(&self, state: &mut Self::LoopState, keys: &[AheadKey<'_>]);

    /// Ends a group of requests, after the last call: the loop may wait now. A program gives back what it has kept for
    /// the group.
    fn end_group(&self, state: &mut Self::LoopState) {
        let _ = state;
    }

    /// Carries a request out, and writes the reply. The request has the command's number of arguments.
    ///
    /// A panic becomes an error reply, and the loop goes on. After [`Outcome::Busy`] nothing may be written, and the
    /// same request is called again later.
    fn call(
        &self,
        call: ServiceCall<'_, Self>,
        command: &'static Self::Command,
        reply: &mut NewReply<'_>,
    ) -> Outcome;

    /// Carries a request out while a long request is under way, for a command with the flag `allow_busy`. After
    /// [`Outcome::Busy`] nothing may be written, and the request is called again: behind a wake-up of
    /// [`BusyCall::waker`], and by [`call`](Self::call) behind the end of the long request.
    fn call_while_busy(
        &self,
        call: BusyCall<'_, Self>,
        command: &'static Self::Command,
        reply: &mut NewReply<'_>,
    ) -> Outcome {
        let _ = (call, command, reply);
        Outcome::Busy
    }

    /// Carries out the requests that `MULTI` has queued, and writes the array of their replies.
    /// [`Exec::call_each_alone`] carries out each request by itself; [`Exec::call_each`] serves a program with
    /// transactions.
    fn exec(&self, exec: Exec<'_, Self>, reply: &mut NewReply<'_>) -> Outcome;

    /// Drops what a client's queue of `MULTI` rests on, such as watched keys: the queue ended without `EXEC`.
    fn discard(&self, client: &mut Client<Self::ClientState>) {
        let _ = client;
    }

    /// Drops a request of the client that was set aside, and is refused when it is called again.
    fn drop_set_aside(&self, client: &mut Client<Self::ClientState>) {
        let _ = client;
    }

    /// Notes a request of a command of the program that was refused before its call: wrong arguments, no rights.
    fn note_refused(&self, state: &mut Self::LoopState, command: &'static Self::Command) {
        let _ = (state, command);
    }

    /// Checks a user and a password (`AUTH`, `HELLO`). `None` as the user is the default user. A program without users
    /// is not asked. After [`AuthProgress::Waits`] the same request is called again behind a call of `waker`.
    ///
    /// # Errors
    /// [`AuthRefusal`]: the client stays as it was.
    fn authenticate(
        &self,
        client: &mut Client<Self::ClientState>,
        user: Option<&[u8]>,
        password: &[u8],
        waker: &Waker,
    ) -> Result<AuthProgress, AuthRefusal> {
        let _ = (client, user, password, waker);
        Err(AuthRefusal { code: "WRONGPASS", text: "invalid username-password pair or user is disabled." })
    }

    /// True if the client may send commands other than `AUTH`, `HELLO`, `QUIT` and `RESET`.
    #[inline]
    fn is_authorized(&self, client: &Client<Self::ClientState>) -> bool {
        let _ = client;
        true
    }

    /// Checks the rights of the client's user. A request is checked when it is carried out or queued, and a queued
    /// request once more at `EXEC`.
    ///
    /// # Errors
    /// [`RightsRefusal`]: the request is not carried out.
    #[inline]
    fn check_rights(
        &self,
        client: &Client<Self::ClientState>,
        command: &'static CommandInfo,
        request: Request<'_>,
    ) -> Result<(), RightsRefusal> {
        let _ = (client, command, request);
        Ok(())
    }

    /// True if replies wait until they are durable, at this time.
    fn waits_for_durability(&self) -> bool;

    /// The epochs that replies rest on.
    fn durable_epochs(&self) -> &dyn DurableEpochs;

    /// Begins a checkpoint, for `BGSAVE`.
    fn checkpoint(&self);

    /// Parameters in redis' words, for `CONFIG GET`, beside the parameters of every server.
    fn parameters(&self) -> Vec<(&'static str, String)>;

    /// Writes the sections of `INFO` that the client's user may see.
    fn info(&self, client: &Client<Self::ClientState>, figures: &ServerFigures, text: &mut InfoText);

    /// Takes the number of requests served since the last report, and of requests lost for lack of capacity: the load
    /// that checkpoints may follow (SLACH §4).
    fn report_load(&self, served: u64, lost: u64) {
        let _ = (served, lost);
    }

    /// Memory that an open connection of the client keeps beside the server's state, in bytes (W16).
    fn client_bytes(&self, client: &Client<Self::ClientState>) -> usize {
        client.own.memory_bytes()
    }
}

impl<S: ServedProgram> ServingState<S> {
    /// Reports the state of the log, if the state is new.
    pub(crate) fn look_at_log(&self) {
        let epochs = self.service.durable_epochs();
        self.notices.look(&epochs.log_state(), self.clock.nanos());
        self.notices.look_at_call_back(epochs.checkpoint_wait());
    }

    /// Parameters in redis' words: the service's, and the server's. Times are in seconds, and zero is none; a memory of
    /// zero bytes is no limit.
    #[must_use]
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let seconds = |time: Option<Duration>| time.map_or(0, |time| time.as_secs()).to_string();
        let NetLimits { idle, keepalive, connections_max, .. } = *self.limits.lock();
        // Relaxed: a figure for people.
        let loops = self.loops.load(Ordering::Relaxed);
        debug_assert!(loops > 0, "a loop asks");
        let mut parameters = self.service.parameters();
        parameters.extend([
            ("databases", S::DATABASES.to_string()),
            ("timeout", seconds(idle)),
            ("tcp-keepalive", seconds(keepalive)),
            ("maxclients", connections_max.saturating_mul(loops).to_string()),
            ("maxmemory-clients", self.client_memory_max().unwrap_or(0).to_string()),
        ]);
        parameters
    }
}

/// The parts of a loop that a program needs.
#[derive(Clone, Debug)]
pub struct LoopParts<L> {
    /// Letters to the loop.
    pub mail: Arc<LoopMail<L>>,
    /// Waker of the loop: the requests that are set aside ([`Outcome::Busy`]) are called again.
    pub waker: Waker,
    /// Serves other connections of the loop during a long request.
    pub poll: LoopPoll,
}

/// A request under way, its client, and the loop that carries the request out.
#[derive(Debug)]
pub struct ServiceCall<'c, S: ServedProgram> {
    /// State of the loop.
    pub loop_state: &'c mut S::LoopState,
    /// The client that sent the request.
    pub client: &'c mut Client<S::ClientState>,
    /// The request: the command's name and its arguments.
    pub request: Request<'c>,
    /// State that the server's loops share.
    pub server: &'c ServingState<S>,
    /// Waker of the loop: the requests that are set aside are called again.
    pub waker: &'c Waker,
}

/// A request that comes while a long request of another client is under way on the same loop (W19).
#[derive(Debug)]
pub struct BusyCall<'c, S: ServedProgram> {
    /// The client that sent the request.
    pub client: &'c mut Client<S::ClientState>,
    /// The request: the command's name and its arguments.
    pub request: Request<'c>,
    /// State that the server's loops share.
    pub server: &'c ServingState<S>,
    /// Waker of the loop: the requests that are set aside are called again.
    pub waker: &'c Waker,
}

/// A request of a command of every server. The program's state of the loop is not needed.
pub(crate) struct CommonCall<'c, S: ServedProgram> {
    pub(crate) client: &'c mut Client<S::ClientState>,
    pub(crate) request: Request<'c>,
    pub(crate) server: &'c ServingState<S>,
    /// Waker of requests that are set aside.
    pub(crate) waker: &'c Waker,
}

/// The queued requests of a client at `EXEC`.
#[derive(Debug)]
pub struct Exec<'e, S: ServedProgram> {
    /// State of the loop.
    pub loop_state: &'e mut S::LoopState,
    /// The client that has queued the requests.
    pub client: &'e mut Client<S::ClientState>,
    pub(crate) queue: &'e CommandQueue,
    /// State that the server's loops share.
    pub server: &'e ServingState<S>,
    /// Waker of the loop: the requests that are set aside are called again.
    pub waker: &'e Waker,
}

/// A key of a request that comes next.
#[derive(Clone, Copy, Debug, Default)]
pub struct AheadKey<'k> {
    /// Number of the client's database.
    pub database: u32,
    /// The key.
    pub key: &'k [u8],
}
