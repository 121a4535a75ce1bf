//! Commands of sorted sets.
//!
//! Neighbours: `command_table` puts all commands together.

use super::entry::{
    DELETE, DELETE_SLOW, FIRST, FIRST_TWO, NO_KEYS, READ, READ_SLOW, WRITE, WRITE_SLOW, data,
};
use crate::command::Command;
use crate::command::CommandFunction::Data;
use crate::commands::{
    sorted_set_operations as operations, sorted_set_ranges as ranges, sorted_set_waits, sorted_sets,
};

pub(super) const COMMANDS: &[Command] = &[
    data(
        "ZADD",
        -4,
        WRITE,
        FIRST,
        Data(sorted_sets::add),
        "Sets scores of members: NX, XX, GT, LT, CH, INCR",
    ),
    data("ZSCORE", 3, READ, FIRST, Data(sorted_sets::score_of), "Shows the score of a member"),
    data(
        "ZRANK",
        3,
        READ,
        FIRST,
        Data(sorted_sets::rank),
        "Tells the rank of a member, from the least score on",
    ),
    data(
        "ZRANGE",
        -4,
        READ_SLOW,
        FIRST,
        Data(ranges::range),
        "Shows a range of members: BYSCORE, BYLEX, REV, LIMIT, WITHSCORES",
    ),
    data("ZINCRBY", 4, WRITE, FIRST, Data(sorted_sets::increment), "Adds to the score of a member"),
    data("ZREM", -3, DELETE, FIRST, Data(sorted_sets::remove), "Removes members of a sorted set"),
    data("ZCARD", 2, READ, FIRST, Data(sorted_sets::count), "Counts the members of a sorted set"),
    data("ZMSCORE", -3, READ, FIRST, Data(sorted_sets::scores_of), "Shows the scores of members"),
    data(
        "ZREVRANK",
        3,
        READ,
        FIRST,
        Data(sorted_sets::rank_down),
        "Tells the rank of a member, from the greatest score on",
    ),
    data("ZCOUNT", 4, READ, FIRST, Data(ranges::count_by_score), "Counts members by their scores"),
    data(
        "ZLEXCOUNT",
        4,
        READ,
        FIRST,
        Data(ranges::count_by_member),
        "Counts members of one score in a range",
    ),
    data(
        "ZRANGESTORE",
        -5,
        WRITE_SLOW,
        FIRST_TWO,
        Data(ranges::store_range),
        "Stores a range of members: BYSCORE, BYLEX, REV, LIMIT",
    ),
    data(
        "ZRANGEBYSCORE",
        -4,
        READ_SLOW,
        FIRST,
        Data(ranges::range_by_score),
        "Shows members by their scores: WITHSCORES, LIMIT",
    ),
    data(
        "ZREVRANGEBYSCORE",
        -4,
        READ_SLOW,
        FIRST,
        Data(ranges::range_by_score_down),
        "Shows members by their scores, the greatest first: WITHSCORES, LIMIT",
    ),
    data(
        "ZRANGEBYLEX",
        -4,
        READ_SLOW,
        FIRST,
        Data(ranges::range_by_member),
        "Shows members of one score in a range: LIMIT",
    ),
    data(
        "ZREVRANGEBYLEX",
        -4,
        READ_SLOW,
        FIRST,
        Data(ranges::range_by_member_down),
        "Shows members of one score in a range, the last first: LIMIT",
    ),
    data(
        "ZREVRANGE",
        -4,
        READ_SLOW,
        FIRST,
        Data(ranges::range_down),
        "Shows members by their ranks, the greatest score first: WITHSCORES",
    ),
    data(
        "ZREMRANGEBYRANK",
        4,
        DELETE_SLOW,
        FIRST,
        Data(ranges::remove_by_rank),
        "Removes members by their ranks",
    ),
    data(
        "ZREMRANGEBYSCORE",
        4,
        DELETE_SLOW,
        FIRST,
        Data(ranges::remove_by_score),
        "Removes members by their scores",
    ),
    data(
        "ZREMRANGEBYLEX",
        4,
        DELETE_SLOW,
        FIRST,
        Data(ranges::remove_by_member),
        "Removes members of one score in a range",
    ),
    data(
        "ZPOPMIN",
        -2,
        DELETE,
        FIRST,
        Data(sorted_sets::pop_first),
        "Shows the members of the least scores, and removes them",
    ),
    data(
        "ZPOPMAX",
        -2,
        DELETE,
        FIRST,
        Data(sorted_sets::pop_last),
        "Shows the members of the greatest scores, and removes them",
    ),
    data(
        "ZMPOP",
        -4,
        DELETE_SLOW,
        NO_KEYS,
        Data(sorted_sets::pop_many),
        "Shows members of the first key that is present, and removes them: MIN, MAX, COUNT",
    )
    .keys_counted_by(1),
    data(
        "ZRANDMEMBER",
        -2,
        READ_SLOW,
        FIRST,
        Data(sorted_sets::random_member),
        "Shows random members: WITHSCORES",
    ),
    data(
        "ZSCAN",
        -3,
        READ_SLOW,
        FIRST,
        Data(sorted_sets::scan),
        "Shows members from a cursor on: MATCH, COUNT",
    ),
    data(
        "ZUNION",
        -3,
        READ_SLOW,
        NO_KEYS,
        Data(operations::union),
        "Shows the members of all sorted sets: WEIGHTS, AGGREGATE, WITHSCORES",
    )
    .keys_counted_by(1),
    data(
        "ZINTER",
        -3,
        READ_SLOW,
        NO_KEYS,
        Data(operations::intersection),
        "Shows the members that all sorted sets have: WEIGHTS, AGGREGATE, WITHSCORES",
    )
    .keys_counted_by(1),
    data(
        "ZDIFF",
        -3,
        READ_SLOW,
        NO_KEYS,
        Data(operations::difference),
        "Shows the members of the first sorted set that no other has: WITHSCORES",
    )
    .keys_counted_by(1),
    data(
        "ZUNIONSTORE",
        -4,
        WRITE_SLOW,
        FIRST,
        Data(operations::store_union),
        "Stores the members of all sorted sets: WEIGHTS, AGGREGATE",
    )
    .keys_counted_by(2),
    data(
        "ZINTERSTORE",
        -4,
        WRITE_SLOW,
        FIRST,
        Data(operations::store_intersection),
        "Stores the members that all sorted sets have: WEIGHTS, AGGREGATE",
    )
    .keys_counted_by(2),
    data(
        "ZDIFFSTORE",
        -4,
        WRITE_SLOW,
        FIRST,
        Data(operations::store_difference),
        "Stores the members of the first sorted set that no other has",
    )
    .keys_counted_by(2),
    data(
        "ZINTERCARD",
        -3,
        READ_SLOW,
        NO_KEYS,
        Data(operations::count_intersection),
        "Counts the members that all sorted sets have: LIMIT",
    )
    .keys_counted_by(1),
    data(
        "BZPOPMIN",
        -3,
        BLOCKING,
        ALL_BUT_LAST,
        Data(sorted_set_waits::pop_first),
        "Takes a member of the least score, or waits for one",
    ),
    data(
        "BZPOPMAX",
        -3,
        BLOCKING,
        ALL_BUT_LAST,
        Data(sorted_set_waits::pop_last),
        "Takes a member of the greatest score, or waits for one",
    ),
    data(
        "BZMPOP",
        -5,
        &["write", "blocking"],
        NO_KEYS,
        Data(sorted_set_waits::pop_many),
        "Takes members of the first sorted set that is present, or waits for one: MIN, MAX, COUNT",
    )
    .keys_counted_by(2),
];

const BLOCKING: &[&str] = &["write", "noscript", "fast", "blocking"];
const ALL_BUT_LAST: (i64, i64, i64) = (1, -2, 1);
