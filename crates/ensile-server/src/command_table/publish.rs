//! Commands of channels.
//!
//! Neighbours: `command_table` puts all commands together.

use super::entry::{NO_KEYS, data, server, with_subcommands};
use crate::command::Command;
use crate::command::CommandFunction::{Data, Server};
use crate::publish;
use ensile_serving::command::Subcommand;

const CHANNEL: &[&str] = &["pubsub", "noscript", "loading", "stale"];
const CHANNEL_FAST: &[&str] = &["pubsub", "loading", "stale", "fast"];

pub(super) const COMMANDS: &[Command] = &[
    server("PING", -1, &["fast"], Server(publish::ping), "Replies PONG, or the argument"),
    data(
        "PUBLISH",
        3,
        CHANNEL_FAST,
        NO_KEYS,
        Data(publish::publish),
        "Sends a message to the listeners of a channel",
    ),
    data(
        "SPUBLISH",
        3,
        CHANNEL_FAST,
        NO_KEYS,
        Data(publish::publish_shard),
        "Sends a message to the listeners of a shard channel",
    ),
    server("SUBSCRIBE", -2, CHANNEL, Server(publish::subscribe), "Begins to listen to channels")
        .refused_while_queueing(),
    server("UNSUBSCRIBE", -1, CHANNEL, Server(publish::unsubscribe), "Ends listening to channels, or to all")
        .refused_while_queueing(),
    server(
        "PSUBSCRIBE",
        -2,
        CHANNEL,
        Server(publish::subscribe_pattern),
        "Begins to listen to patterns of channels",
    )
    .refused_while_queueing(),
    server(
        "PUNSUBSCRIBE",
        -1,
        CHANNEL,
        Server(publish::unsubscribe_pattern),
        "Ends listening to patterns of channels, or to all",
    )
    .refused_while_queueing(),
    server("SSUBSCRIBE", -2, CHANNEL, Server(publish::subscribe_shard), "Begins to listen to shard channels")
        .refused_while_queueing(),
    server(
        "SUNSUBSCRIBE",
        -1,
        CHANNEL,
        Server(publish::unsubscribe_shard),
        "Ends listening to shard channels, or to all",
    )
    .refused_while_queueing(),
    with_subcommands(
        "PUBSUB",
        &[],
        &PUBSUB,
        Server(publish::pubsub),
        "Tells channels and listeners: CHANNELS, NUMSUB, NUMPAT, SHARDCHANNELS, SHARDNUMSUB",
    ),
];

const PUBSUB: [Subcommand; 6] = [
    Subcommand::new("CHANNELS", -2),
    Subcommand::new("NUMPAT", 2),
    Subcommand::new("NUMSUB", -2),
    Subcommand::new("SHARDCHANNELS", -2),
    Subcommand::new("SHARDNUMSUB", -2),
    Subcommand::new("HELP", 2),
];
