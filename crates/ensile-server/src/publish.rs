//! Messages to listeners: `SUBSCRIBE` and its like, `PUBLISH`, `PUBSUB`, and `PING` of a client that listens.
//!
//! Invariants:
//! - J1: `PUBLISH` notes its message as an effect of its transaction.
//! - A client is in the table of its loop, in the count of the server and in its own list, or in none of them.
//!
//! Neighbours: [`crate::channels`] has the listeners; `served_program` ends clients and takes letters.

use ensile_resp::{ReplyEncoder, Request, RespVersion};
use ensile_serving::command::is_called;
use ensile_serving::{ANSWERED, Client, NewReply, Outcome};

use crate::channels::{ChannelKind, ListenKind, NAME_BYTES_MAX, NAMES_MAX, Subscriptions};
use crate::commands::{CommandError, CommandResult, DataCall, PATTERN_BYTES_MAX, check_channel};
use crate::served_database::{ClientData, LoopData, ServedCall};

/// `SUBSCRIBE channel ..`
pub(crate) fn subscribe(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    listen(call, ListenKind::Channel(ChannelKind::Plain), "subscribe", reply)
}

/// `SSUBSCRIBE channel ..`
pub(crate) fn subscribe_shard(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    listen(call, ListenKind::Channel(ChannelKind::Shard), "ssubscribe", reply)
}

/// `PSUBSCRIBE pattern ..`
pub(crate) fn subscribe_pattern(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    listen(call, ListenKind::Pattern, "psubscribe", reply)
}

/// `UNSUBSCRIBE [channel ..]`
pub(crate) fn unsubscribe(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    unlisten(call, ListenKind::Channel(ChannelKind::Plain), "unsubscribe", reply)
}

/// `SUNSUBSCRIBE [channel ..]`
pub(crate) fn unsubscribe_shard(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    unlisten(call, ListenKind::Channel(ChannelKind::Shard), "sunsubscribe", reply)
}

/// `PUNSUBSCRIBE [pattern ..]`
pub(crate) fn unsubscribe_pattern(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    unlisten(call, ListenKind::Pattern, "punsubscribe", reply)
}

/// Refuses names beyond a limit.
fn check_names(kind: ListenKind, request: Request<'_>, own: &Subscriptions) -> CommandResult {
    for name in request.iter().skip(1) {
        match kind {
            ListenKind::Pattern if name.len() > PATTERN_BYTES_MAX => {
                return Err(CommandError::LongPattern { bytes: name.len() });
            }
            _ => check_channel(name)?,
        }
    }
    let bytes: usize = request.iter().skip(1).map(<[u8]>::len).sum();
    if own.count() + request.len() - 1 > NAMES_MAX || own.name_bytes + bytes > NAME_BYTES_MAX {
        return Err(CommandError::Text(
            "too many subscriptions: a client has 65536 channels and patterns of 8 MiB together at most",
        ));
    }
    Ok(())
}

fn listen(call: ServedCall<'_>, kind: ListenKind, word: &str, reply: &mut NewReply<'_>) -> Outcome {
    let ServedCall { loop_state, client, request, .. } = call;
    if let Err(error) = check_names(kind, request, &client.own.subscriptions) {
        reply.fail(error.code(), &error.text());
        return ANSWERED;
    }
    reply.permit_several();
    for name in request.iter().skip(1) {
        let own = &mut client.own.subscriptions;
        if own.of_kind(kind).insert(name.into()) {
            own.name_bytes += name.len();
            loop_state.channels.add(kind, name);
            loop_state.listeners.add(kind, name, client.connection);
        }
        let count = own.count_beside(kind);
        reply.write(|reply| write_listener(word, Some(name), count, reply));
    }
    client.is_listener = client.own.subscriptions.count() > 0;
    ANSWERED
}

fn unlisten(call: ServedCall<'_>, kind: ListenKind, word: &str, reply: &mut NewReply<'_>) -> Outcome {
    let ServedCall { loop_state, client, request, .. } = call;
    reply.permit_several();
    if request.len() > 1 {
        for name in request.iter().skip(1) {
            forget(loop_state, client, kind, name);
            let count = client.own.subscriptions.count_beside(kind);
            reply.write(|reply| write_listener(word, Some(name), count, reply));
        }
    } else {
        let names: Vec<Box<[u8]>> = client.own.subscriptions.of_kind(kind).iter().cloned().collect();
        for name in &names {
            forget(loop_state, client, kind, name);
            let count = client.own.subscriptions.count_beside(kind);
            reply.write(|reply| write_listener(word, Some(name), count, reply));
        }
        if names.is_empty() {
            let count = client.own.subscriptions.count_beside(kind);
            reply.write(|reply| write_listener(word, None, count, reply));
        }
    }
    client.is_listener = client.own.subscriptions.count() > 0;
    ANSWERED
}

/// Ends a client's interest in a name. A client without this interest is left alone.
fn forget(loop_state: &mut LoopData, client: &mut Client<ClientData>, kind: ListenKind, name: &[u8]) {
    let own = &mut client.own.subscriptions;
    if own.of_kind(kind).remove(name) {
        own.name_bytes -= name.len();
        loop_state.channels.remove(kind, name);
        loop_state.listeners.remove(kind, name, client.connection);
    }
}

/// Ends all interests of a client: `RESET`, and the end of a connection.
pub(crate) fn forget_all(loop_state: &mut LoopData, client: &mut Client<ClientData>) {
    let kinds = [ChannelKind::Plain, ChannelKind::Shard].map(ListenKind::Channel);
    for kind in kinds.into_iter().chain([ListenKind::Pattern]) {
        for name in std::mem::take(client.own.subscriptions.of_kind(kind)) {
            loop_state.channels.remove(kind, &name);
            loop_state.listeners.remove(kind, &name, client.connection);
        }
    }
    client.own.subscriptions = Subscriptions::default();
    client.is_listener = false;
}

fn write_listener(word: &str, name: Option<&[u8]>, count: usize, reply: &mut ReplyEncoder<'_>) {
    reply.push(3);
    reply.bulk(word.as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
}

/// `PUBLISH channel message`
pub(crate) fn publish(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    note_message(call, ChannelKind::Plain, reply)
}

/// `SPUBLISH channel message`
pub(crate) fn publish_shard(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    note_message(call, ChannelKind::Shard, reply)
}

fn note_message(
    call: &mut DataCall<'_, '_>,
    kind: ChannelKind,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    let (channel, text) = (call.argument(1), call.argument(2));
    check_channel(channel)?;
    let receivers = call.channels.receivers(kind, channel);
    // Also without listeners: a client may begin to listen before the commit.
    call.keyspace.effects.publish(kind, channel, text)?;
    reply.integer(i64::try_from(receivers).unwrap_or(i64::MAX));
    Ok(())
}

/// `PUBSUB CHANNELS [pattern]`, `SHARDCHANNELS [pattern]`, `NUMSUB [channel ..]`, `SHARDNUMSUB [channel ..]`, `NUMPAT`,
/// `HELP`. The request has a known subcommand, with the right number of arguments.
pub(crate) fn pubsub(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let (request, channels) = (call.request, call.server.service().channels());
    let word = request.get(1).unwrap_or_default();
    let is = |name: &str| is_called(word, name);
    let kind = if is("SHARDCHANNELS") || is("SHARDNUMSUB") { ChannelKind::Shard } else { ChannelKind::Plain };
    if is("HELP") {
        reply.write(|reply| {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        });
    } else if is("NUMPAT") {
        let patterns = i64::try_from(channels.figures().patterns).unwrap_or(i64::MAX);
        reply.write(|reply| reply.integer(patterns));
    } else if is("NUMSUB") || is("SHARDNUMSUB") {
        reply.write(|reply| {
            reply.array(2 * (request.len() - 2));
            for name in request.iter().skip(2) {
                reply.bulk(name);
                reply.integer(i64::try_from(channels.count(kind, name)).unwrap_or(i64::MAX));
            }
        });
    } else if request.len() > 3 {
        let word = String::from_utf8_lossy(word).into_owned();
        reply.fail(
            "ERR",
            &format!("unknown subcommand or wrong number of arguments for '{word}'. Try PUBSUB HELP."),
        );
    } else if let Some(pattern) = request.get(2).filter(|pattern| pattern.len() > PATTERN_BYTES_MAX) {
        let error = CommandError::LongPattern { bytes: pattern.len() };
        reply.fail(error.code(), &error.text());
    } else {
        let names = channels.names(kind, request.get(2));
        reply.write(|reply| {
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name));
        });
    }
    ANSWERED
}

const HELP: [&str; 14] = [
    "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
    "HELP",
    "    Prints this help.",
];

/// `PING [message]`: a client that listens in version 2 gets the form of a message.
pub(crate) fn ping(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let ServedCall { client, request, .. } = call;
    let listens = client.is_listener && client.version == RespVersion::Resp2;
    match request.get(1) {
        _ if request.len() > 2 => reply.fail("ERR", "wrong number of arguments for 'ping' command"),
        text if listens => reply.write(|reply| {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(text.unwrap_or_default());
        }),
        Some(text) => reply.write(|reply| reply.bulk(text)),
        None => reply.write(|reply| reply.simple("PONG")),
    }
    ANSWERED
}
