//! Channels: the listeners of all loops, and the messages to them.
//!
//! ```text
//! PUBLISH -> commit -> the table: which loops have listeners? -> a letter to each such loop -> its listeners' clients
//! ```
//! Invariants:
//! - J2: all clients get the messages of a channel in one order, and the messages of a publisher in the order of its
//!   commits.
//! - J4: the messages that wait for a loop are bounded.
//! - The table counts the listeners that the loops have.
//!
//! Neighbours: `publish` has the commands; `execution` sends the messages of a transaction; loops take letters.

mod client_survey;
mod listeners;
mod subscriptions;
mod table;

use std::sync::Arc;

use ensile_base::Epoch;
use ensile_net::ConnectionId;

pub(crate) use client_survey::{Asker, ClientFilter, ClientSurvey, ClientType, SurveyAnswers};
pub(crate) use listeners::Listeners;
pub(crate) use subscriptions::{NAME_BYTES_MAX, NAMES_MAX, Subscriptions};
pub(crate) use table::{Channels, LoopChannels, LoopMailBox};

/// Name space of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ChannelKind {
    /// Channels of `SUBSCRIBE`.
    Plain,
    /// Channels of `SSUBSCRIBE`.
    Shard,
}

/// Interest of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ListenKind {
    /// Messages of a channel.
    Channel(ChannelKind),
    /// Messages of the plain channels that a pattern matches.
    Pattern,
}

/// A message to the listeners of a channel.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: ChannelKind,
    pub(crate) channel: Box<[u8]>,
    pub(crate) text: Box<[u8]>,
}

impl Message {
    /// Memory of the message in bytes (W16).
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.channel.len() + self.text.len()
    }
}

/// A letter to a loop.
#[derive(Debug)]
pub(crate) enum Letter {
    /// A message for the loop's listeners, which rests on an epoch (R1).
    Message(Arc<Message>, Epoch),
    /// The request of a client that waits for keys is to look again.
    Resume(ConnectionId),
    /// A question for the clients of the loop.
    Clients(Arc<ClientSurvey>),
}
