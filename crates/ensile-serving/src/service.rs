//! The interface between a served program and its server.
//!
//! Invariant: an [`Outcome`] names the epoch that its reply rests on (R1): the newest epoch of everything that the
//! command looked at or changed. An error is a reply as well.
//!
//! Neighbours: `ensile-services` and `ensile-server` implement [`Service`]; [`crate::ServiceLoop`] serves.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_net::LoopWakeUp;
use ensile_resp::Request;

use crate::client_state::Client;
use crate::command::CommandInfo;
use crate::dispatch::{Exec, call_alone};
use crate::execution::NewReply;
use crate::info::InfoText;
use crate::state::{ServerFigures, ServerState};

/// A served program. The program is shared by all loops of its server.
pub trait Service: Send + Sync + Sized + 'static {
    /// Name as clients see it.
    const NAME: &'static str;
    /// Version as clients see it.
    const VERSION: &'static str = crate::common_commands::VERSION;
    /// Number of databases that `SELECT` accepts. A server with a single database ends the connection of a client that
    /// asks for another one.
    const DATABASES: u32;
    /// True if the program has no users and no passwords. A client that names a user is refused, and its connection ends.
    const IS_WITHOUT_USERS: bool;

    /// A command of the program, with its description.
    type Command: AsRef<CommandInfo> + Sync + 'static;
    /// State of a loop, used on the loop's thread only.
    type LoopState;
    /// State of a client beside the state that all servers have. The state ends with the connection.
    type ClientState: ClientState;

    /// Commands, the frequent commands first. A command of the program replaces a common command of the same name.
    fn commands() -> &'static [Self::Command];

    /// The command with this name, in any case. A program with many commands overrides the search through the table.
    #[inline]
    fn find_command(name: &[u8]) -> Option<&'static Self::Command> {
        Self::commands().iter().find(|command| crate::command::is_called(name, command.as_ref().name))
    }

    /// Makes the state of a loop, on the loop's thread. `wake_up` ends a wait of the loop; requests that are set aside
    /// are then called again.
    fn begin_loop(&self, wake_up: &LoopWakeUp) -> Self::LoopState;

    /// Prefetches the memory of keys: a hint, as commands with these keys come next.
    fn prefetch(&self, state: &mut Self::LoopState, keys: &[AheadKey<'_>]);

    /// Carries a request out, and writes the reply. The request has the command's number of arguments.
    ///
    /// A panic becomes an error reply, and the loop goes on. After [`Outcome::Busy`] nothing may be written, and the
    /// same request is called again later.
    fn call(
        &self,
        call: Call<'_, Self>,
        command: &'static Self::Command,
        reply: &mut NewReply<'_>,
    ) -> Outcome;

    /// Carries out the requests that `MULTI` has queued, and writes the array of their replies. By default each request
    /// is carried out by itself.
    fn exec(&self, mut exec: Exec<'_, Self>, reply: &mut NewReply<'_>) -> Outcome {
        Outcome::Reply(exec.call_each(reply, |_, call, command, reply| call_alone(call, command, reply)))
    }

    /// Drops what a client's queue of `MULTI` rests on, such as watched keys: the queue ended without `EXEC`.
    fn discard(&self, client: &mut Client<Self::ClientState>) {
        let _ = client;
    }

    /// Checks a user and a password (`AUTH`, `HELLO`). `None` as the user is the default user. A program without users is
    /// not asked.
    ///
    /// # Errors
    /// [`AuthRefusal`]: the client stays as it was.
    fn authenticate(
        &self,
        client: &mut Client<Self::ClientState>,
        user: Option<&[u8]>,
        password: &[u8],
    ) -> Result<(), AuthRefusal> {
        let _ = (client, user, password);
        Err(AuthRefusal { code: "WRONGPASS", text: "invalid username-password pair or user is disabled." })
    }

    /// True if the client may send commands other than `AUTH`, `HELLO`, `QUIT` and `RESET`.
    #[inline]
    fn is_authorized(&self, client: &Client<Self::ClientState>) -> bool {
        let _ = client;
        true
    }

    /// True if replies wait until they are durable, at this time.
    fn waits_for_durability(&self) -> bool;

    /// The epochs that replies rest on.
    fn durable_epochs(&self) -> &dyn DurableEpochs;

    /// Begins a checkpoint, for `BGSAVE`.
    fn checkpoint(&self);

    /// Parameters in redis' words, for `CONFIG GET`, beside the parameters of every server.
    fn parameters(&self) -> Vec<(&'static str, String)>;

    /// Writes the sections of `INFO`.
    fn info(&self, figures: &ServerFigures, text: &mut InfoText);

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

/// A request under way, its client, and the loop that carries the request out.
#[derive(Debug)]
pub struct Call<'c, S: Service> {
    /// State of the loop.
    pub loop_state: &'c mut S::LoopState,
    /// The client that sent the request.
    pub client: &'c mut Client<S::ClientState>,
    /// The request: the command's name and its arguments.
    pub request: Request<'c>,
    /// State that the server's loops share.
    pub server: &'c ServerState<S>,
}

/// A key of a request that comes next.
#[derive(Clone, Copy, Debug, Default)]
pub struct AheadKey<'k> {
    /// Number of the client's database.
    pub database: u32,
    /// The key.
    pub key: &'k [u8],
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reply goes out, in its turn, once this epoch is durable if replies wait.
    Reply(Epoch),
    /// The reply goes out, then the connection ends.
    ReplyAndClose,
    /// The server ends, without a reply.
    Stop,
    /// Nothing is done and nothing is replied: the request would have to wait. The loop sets the request aside, serves
    /// other connections, and calls the request again after a wake-up.
    Busy,
}

/// Outcome of a reply that rests on no epoch.
pub const ANSWERED: Outcome = Outcome::Reply(Epoch::ZERO);

/// Refusal of a user or a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthRefusal {
    /// Code at the beginning of the error reply.
    pub code: &'static str,
    /// Text of the error reply.
    pub text: &'static str,
}

/// Future of a durable epoch. The error is the text of the reply `NOTDURABLE`.
pub type DurableEpoch = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// "Durable up to an epoch": the promise that waiting replies rest on.
pub trait DurableEpochs {
    /// True if everything of this epoch and of earlier epochs is durable by now.
    fn is_durable(&self, epoch: Epoch) -> bool;

    /// Waits until this epoch is durable. The future's waker may be called on any thread.
    fn durable(&self, epoch: Epoch) -> DurableEpoch;

    /// An epoch that no change of the past is newer than.
    fn newest_epoch(&self) -> Epoch;

    /// State of the log.
    fn log_state(&self) -> LogState;

    /// A call-back of a checkpoint that waits at an object, if the service has such call-backs.
    fn checkpoint_wait(&self) -> Option<CheckpointWait> {
        None
    }

    /// Makes everything durable, and ends the service's use of its folder.
    ///
    /// # Errors
    /// Text of the reason: not everything could be made durable.
    fn close(&self) -> Result<(), String>;
}

/// State of a log, for notices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogState {
    /// The log takes entries, or the service has no log.
    Running,
    /// The disk is full, with the reason. The log goes on by itself once the disk has space.
    Full(String),
    /// Epochs cannot be reserved, with the reason. The log goes on by itself once epochs can be reserved.
    EpochsEnded(String),
    /// A write or a sync failed, or another machine has taken over, with the reason. The log takes nothing any more.
    Poisoned(String),
    /// A file or a folder is gone, with the reason. The log takes nothing any more.
    Removed(String),
    /// The log was closed, or this process is a fork.
    Closed,
}

impl LogState {
    /// True if the log never takes entries again.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self, Self::Poisoned(_) | Self::Removed(_) | Self::Closed)
    }
}

/// A call-back of a checkpoint that makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointWait {
    /// Number of the object that the call-back waits at.
    pub object: u64,
    /// Time without progress.
    pub waited: Duration,
}
