//! Outcomes of requests, and refusals of users.
//!
//! Neighbours: a [`ServedProgram`](crate::ServedProgram) returns them; [`crate::ServingLoop`] takes the next step.

use ensile_base::Epoch;
use ensile_resp::Request;

use crate::command::CommandInfo;

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
    /// Nothing is done and nothing is replied: the request waits for an event of other clients. The loop sets the
    /// request aside, and calls the request again at [`LoopClients::resume`](crate::LoopClients::resume), or at this
    /// time of [`ServingState::nanos`](crate::ServingState::nanos). If the client ends before, the request is dropped.
    Wait {
        /// Time in nanoseconds; `u64::MAX` is never.
        until_nanos: u64,
    },
}

impl Outcome {
    /// True if the request is set aside, without a reply.
    pub(crate) fn sets_aside(self) -> bool {
        matches!(self, Self::Busy | Self::Wait { .. })
    }
}

/// Outcome of a reply that rests on no epoch.
pub const ANSWERED: Outcome = Outcome::Reply(Epoch::ZERO);

/// Progress of the check of a user and a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthProgress {
    /// The client is the user.
    Authenticated,
    /// The check goes on elsewhere, and ends with a wake-up of the loop. The request is set aside.
    Waits,
}

/// Redis' text while the data is loaded.
const LOADING: &str = "Redis is loading the dataset in memory";

/// Refusal of a request that a user has no right to, or that comes before the data is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RightsRefusal {
    /// The command or the subcommand.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A pattern that other users' keys may match.
    Pattern,
    /// Every command over data, while the data is loaded.
    Loading,
}

impl RightsRefusal {
    /// Code at the beginning of the error reply.
    #[must_use]
    pub fn code(self) -> &'static str {
        if self == Self::Loading { "LOADING" } else { "NOPERM" }
    }

    /// Text behind the code, in redis' words.
    #[must_use]
    pub fn text(self, command: &CommandInfo, request: Request<'_>) -> String {
        let own = "this user has no permissions to";
        match self {
            Self::Command => format!("{own} run the '{}' command", command.full_name(request)),
            Self::Key => format!("{own} access one of the keys used as arguments"),
            Self::Channel => format!("{own} access one of the channels used as arguments"),
            Self::Pattern => {
                format!("{own} see all keys: give a pattern that begins with a prefix of the user")
            }
            Self::Loading => LOADING.to_owned(),
        }
    }

    /// Text behind the code for a queued request at `EXEC`, in redis' words: the client has become another
    /// user since.
    #[must_use]
    pub fn text_at_exec(self) -> String {
        let reason = match self {
            Self::Loading => return LOADING.to_owned(),
            Self::Command => "no permission to execute the command or subcommand",
            Self::Key | Self::Pattern => "no permission to touch the specified keys",
            Self::Channel => "no permission to access one of the channels used as arguments",
        };
        format!(
            "ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer \
             allowed for the following reason: {reason}"
        )
    }

    /// Text of the error of a call in a script, in redis' words.
    #[must_use]
    pub fn text_in_script(self) -> &'static str {
        match self {
            Self::Loading => LOADING,
            Self::Command => "The user executing the script can't run this command or subcommand",
            Self::Key | Self::Pattern => {
                "The user executing the script can't access at least one of the keys mentioned in the command arguments"
            }
            Self::Channel => {
                "The user executing the script can't publish to the channel mentioned in the command"
            }
        }
    }
}

/// Refusal of a user or a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthRefusal {
    /// Code at the beginning of the error reply.
    pub code: &'static str,
    /// Text of the error reply.
    pub text: &'static str,
}
