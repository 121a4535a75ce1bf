//! A question to all loops for their clients, and the answers.
//!
//! Neighbours: `admin` asks and answers; a letter carries the question ([`super::Letter`]), and the asking client
//! keeps the question ([`crate::served_database`]).

use ensile_base::sync::Mutex;
use ensile_net::ConnectionId;
use ensile_serving::Client;

use super::LoopMailBox;

/// Type of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientType {
    Normal,
    Publish,
    /// A link of replication, which this server does not have.
    Replication,
}

impl ClientType {
    pub(crate) fn of_name(name: &[u8]) -> Option<Self> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Some(Self::Normal),
            b"pubsub" => Some(Self::Publish),
            b"master" | b"replica" | b"slave" => Some(Self::Replication),
            _ => None,
        }
    }

    pub(crate) fn of_client<C>(client: &Client<C>) -> Self {
        if client.is_listener { Self::Publish } else { Self::Normal }
    }
}

/// Conditions on clients. `None` holds for all clients.
#[derive(Debug, Default)]
pub(crate) struct ClientFilter {
    pub(crate) numbers: Option<Vec<u64>>,
    pub(crate) kind: Option<ClientType>,
    /// Number of the user.
    pub(crate) user: Option<u32>,
    /// Number of the client that is left out.
    pub(crate) skipped: Option<u64>,
    /// Address of the client, in the form of `CLIENT LIST`.
    pub(crate) address: Option<Vec<u8>>,
    /// Address that the client has connected to.
    pub(crate) local_address: Option<Vec<u8>>,
}

/// Answers of the loops.
#[derive(Debug)]
pub(crate) struct SurveyAnswers {
    /// Number of loops that have not answered.
    pub(crate) left: usize,
    /// Lines of clients, by their numbers.
    pub(crate) lines: Vec<(u64, String)>,
}

/// The client that asks.
#[derive(Debug)]
pub(crate) struct Asker {
    /// Number of the client.
    pub(crate) number: u64,
    pub(crate) connection: ConnectionId,
    /// Letters to the client's loop.
    pub(crate) mail: LoopMailBox,
}

/// A question to all loops.
#[derive(Debug)]
pub(crate) struct ClientSurvey {
    pub(crate) wanted: ClientFilter,
    /// True if the connections end. The asking client itself ends behind its reply.
    pub(crate) ends: bool,
    pub(crate) asker: Asker,
    pub(crate) answers: Mutex<SurveyAnswers>,
}
