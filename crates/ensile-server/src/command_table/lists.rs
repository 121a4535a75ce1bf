//! Commands of lists.
//!
//! Neighbours: `command_table` puts all commands together.

use super::entry::{
    DELETE, DELETE_SLOW, FIRST, FIRST_TWO, NO_KEYS, READ, READ_SLOW, WRITE, WRITE_SLOW, data,
};
use crate::command::Command;
use crate::command::CommandFunction::Data;
use crate::commands::{list_waits, lists};

pub(super) const COMMANDS: &[Command] = &[
    data("LPUSH", -3, WRITE, FIRST, Data(lists::push_head), "Puts items before a list"),
    data("RPUSH", -3, WRITE, FIRST, Data(lists::push_tail), "Puts items behind a list"),
    data(
        "LPUSHX",
        -3,
        WRITE,
        FIRST,
        Data(lists::push_head_present),
        "Puts items before a list, if the key is present",
    ),
    data(
        "RPUSHX",
        -3,
        WRITE,
        FIRST,
        Data(lists::push_tail_present),
        "Puts items behind a list, if the key is present",
    ),
    data("LPOP", -2, DELETE, FIRST, Data(lists::pop_head), "Takes the first items of a list"),
    data("RPOP", -2, DELETE, FIRST, Data(lists::pop_tail), "Takes the last items of a list, the last first"),
    data("LLEN", 2, READ, FIRST, Data(lists::count), "Counts the items of a list"),
    data("LINDEX", 3, READ_SLOW, FIRST, Data(lists::item_at), "Shows the item at a place"),
    data("LRANGE", 4, READ_SLOW, FIRST, Data(lists::range), "Shows the items from a place to another"),
    data("LSET", 4, WRITE_SLOW, FIRST, Data(lists::set), "Replaces the item at a place"),
    data(
        "LINSERT",
        5,
        WRITE_SLOW,
        FIRST,
        Data(lists::insert),
        "Inserts an item beside an equal item: BEFORE, AFTER",
    ),
    data("LREM", 4, DELETE_SLOW, FIRST, Data(lists::remove), "Removes equal items"),
    data("LTRIM", 4, DELETE_SLOW, FIRST, Data(lists::trim), "Keeps the items from a place to another only"),
    data("LPOS", -3, READ_SLOW, FIRST, Data(lists::search), "Finds equal items: RANK, COUNT, MAXLEN"),
    data("LMOVE", 5, WRITE_SLOW, FIRST_TWO, Data(lists::move_item), "Moves an item to another list"),
    data(
        "RPOPLPUSH",
        3,
        WRITE_SLOW,
        FIRST_TWO,
        Data(lists::move_tail_to_head),
        "Moves the last item before another list",
    ),
    data(
        "LMPOP",
        -4,
        DELETE_SLOW,
        NO_KEYS,
        Data(lists::pop_first_present),
        "Takes items of the first list that is present: LEFT, RIGHT, COUNT",
    )
    .keys_counted_by(1),
    data(
        "BLPOP",
        -3,
        BLOCKING,
        ALL_BUT_LAST,
        Data(list_waits::pop_head),
        "Takes a first item, or waits for one",
    ),
    data(
        "BRPOP",
        -3,
        BLOCKING,
        ALL_BUT_LAST,
        Data(list_waits::pop_tail),
        "Takes a last item, or waits for one",
    ),
    data(
        "BLMOVE",
        6,
        BLOCKING_WRITE,
        FIRST_TWO,
        Data(list_waits::move_item),
        "Moves an item to another list, or waits for one",
    ),
    data(
        "BRPOPLPUSH",
        4,
        BLOCKING_WRITE,
        FIRST_TWO,
        Data(list_waits::move_tail_to_head),
        "Moves the last item before another list, or waits for one",
    ),
    data(
        "BLMPOP",
        -5,
        &["write", "blocking"],
        NO_KEYS,
        Data(list_waits::pop_first_present),
        "Takes items of the first list that is present, or waits for one: LEFT, RIGHT, COUNT",
    )
    .keys_counted_by(2),
];

const BLOCKING: &[&str] = &["write", "noscript", "blocking"];
const BLOCKING_WRITE: &[&str] = &["write", "denyoom", "noscript", "blocking"];
const ALL_BUT_LAST: (i64, i64, i64) = (1, -2, 1);
