//! The listeners of a loop, and the names that a client listens to.
//!
//! Neighbours: [`super::Channels`] counts the listeners; `publish` adds and removes; `served_program` hands messages
//! over.

use std::collections::{BTreeMap, BTreeSet};

use ensile_base::Epoch;
use ensile_net::ConnectionId;
use ensile_resp::{ReplyEncoder, RespVersion};
use ensile_serving::{LoopClients, glob};

use super::{ChannelKind, ListenKind, Message};

/// Listeners of a loop by the names that they listen to.
#[derive(Debug, Default)]
pub(crate) struct Listeners(BTreeMap<ListenKind, BTreeMap<Box<[u8]>, BTreeSet<ConnectionId>>>);

impl Listeners {
    pub(crate) fn add(&mut self, kind: ListenKind, name: &[u8], client: ConnectionId) {
        let is_new = self.0.entry(kind).or_default().entry(name.into()).or_default().insert(client);
        debug_assert!(is_new, "a client listens to a name once");
    }

    pub(crate) fn remove(&mut self, kind: ListenKind, name: &[u8], client: ConnectionId) {
        let names = self.0.entry(kind).or_default();
        let Some(clients) = names.get_mut(name) else {
            debug_assert!(false, "a client listens before its end");
            return;
        };
        let was_there = clients.remove(&client);
        debug_assert!(was_there, "a client listens before its end");
        if clients.is_empty() {
            names.remove(name);
        }
    }

    /// Sends a message to the loop's clients: to those of the channel, then to those of matching patterns.
    pub(crate) fn tell<C>(&self, message: &Message, epoch: Epoch, clients: &mut dyn LoopClients<C>) {
        let of_kind = |kind: ListenKind| self.0.get(&kind).into_iter().flatten();
        let direct = self.0.get(&ListenKind::Channel(message.kind));
        if let Some(listening) = direct.and_then(|names| names.get(&message.channel)) {
            tell_all(listening, &EncodedMessage::new(message, None), epoch, clients);
        }
        if message.kind == ChannelKind::Plain {
            for (pattern, listening) in of_kind(ListenKind::Pattern) {
                if glob::matches(pattern, &message.channel) {
                    tell_all(listening, &EncodedMessage::new(message, Some(pattern)), epoch, clients);
                }
            }
        }
    }
}

fn tell_all<C>(
    listening: &BTreeSet<ConnectionId>,
    message: &EncodedMessage,
    epoch: Epoch,
    clients: &mut dyn LoopClients<C>,
) {
    for client in listening {
        // The connection may have ended.
        let Some(version) = clients.client(*client).map(|client| client.version) else { continue };
        clients.push(*client, epoch, message.in_version(version));
    }
}

/// A message as clients get it. Both versions differ in the first byte.
struct EncodedMessage {
    resp2: Vec<u8>,
    resp3: Vec<u8>,
}

impl EncodedMessage {
    fn new(message: &Message, pattern: Option<&[u8]>) -> Self {
        let encode = |version: RespVersion| {
            let mut bytes = Vec::new();
            let mut encoder = ReplyEncoder::new(&mut bytes, version);
            encoder.push(if pattern.is_some() { 4 } else { 3 });
            encoder.bulk(match (message.kind, pattern) {
                (_, Some(_)) => b"pmessage",
                (ChannelKind::Plain, None) => b"message",
                (ChannelKind::Shard, None) => b"smessage",
            });
            if let Some(pattern) = pattern {
                encoder.bulk(pattern);
            }
            encoder.bulk(&message.channel);
            encoder.bulk(&message.text);
            bytes
        };
        Self { resp2: encode(RespVersion::Resp2), resp3: encode(RespVersion::Resp3) }
    }

    fn in_version(&self, version: RespVersion) -> &[u8] {
        match version {
            RespVersion::Resp2 => &self.resp2,
            RespVersion::Resp3 => &self.resp3,
        }
    }
}
