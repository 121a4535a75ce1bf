//! Commands of streams.
//!
//! Neighbours: `command_table` puts all commands together.

use ensile_serving::command::{MoreKeys, Subcommand};

use super::entry::{
    DELETE, DELETE_SLOW, FIRST, NO_KEYS, READ, READ_SLOW, SECOND, WRITE, data, with_subcommands,
};
use crate::command::Command;
use crate::command::CommandFunction::Data;
use crate::commands::{stream_info, stream_reads, streams};

pub(super) const COMMANDS: &[Command] = &[
    data(
        "XADD",
        -5,
        WRITE,
        FIRST,
        Data(streams::add),
        "Adds an entry to a stream: NOMKSTREAM, MAXLEN, MINID, LIMIT",
    ),
    data("XLEN", 2, READ, FIRST, Data(streams::count), "Counts the entries of a stream"),
    data("XRANGE", -4, READ_SLOW, FIRST, Data(streams::range), "Shows the entries of a range of ids: COUNT"),
    data(
        "XREVRANGE",
        -4,
        READ_SLOW,
        FIRST,
        Data(streams::range_down),
        "Shows the entries of a range of ids, the last first: COUNT",
    ),
    behind_streams(data(
        "XREAD",
        -4,
        &["readonly", "blocking"],
        NO_KEYS,
        Data(stream_reads::read),
        "Shows entries of streams behind ids, or waits for entries: COUNT, BLOCK, STREAMS",
    )),
    data(
        "XTRIM",
        -4,
        DELETE_SLOW,
        FIRST,
        Data(streams::trim),
        "Removes the first entries of a stream: MAXLEN, MINID, LIMIT",
    ),
    data("XDEL", -3, DELETE, FIRST, Data(streams::remove), "Removes entries of a stream by their ids"),
    data(
        "XSETID",
        -3,
        WRITE,
        FIRST,
        Data(streams::set_last),
        "Sets the last id of a stream: ENTRIESADDED, MAXDELETEDID",
    ),
    with_subcommands(
        "XINFO",
        READ_SLOW,
        &XINFO,
        Data(stream_info::info),
        "Tells the figures of a stream: STREAM, GROUPS",
    ),
];

const XINFO: [Subcommand; 4] = [
    Subcommand::new("STREAM", -3).keys(SECOND),
    Subcommand::new("GROUPS", 3).keys(SECOND),
    Subcommand::new("CONSUMERS", 4).keys(SECOND),
    Subcommand::new("HELP", 2),
];

/// Sets the keys: the first half of the arguments behind `STREAMS`.
const fn behind_streams(command: Command) -> Command {
    Command { info: command.info.more_keys(MoreKeys::BehindStreams), ..command }
}
