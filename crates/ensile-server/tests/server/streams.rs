//! Streams: entries, ranges, trims, figures, and reads that wait.

use ensile::{Readable, Table};
use ensile_net::simulation::ClientId;

use super::rig::{Rig, shown};

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// Adds entries with the ids `1-0`, `2-0` and so on.
fn fill(rig: &mut Rig, key: &str, entries: usize) {
    for number in 1..=entries {
        assert_eq!(
            rig.ask(rig.client, &format!("XADD {key} {number} f {number}")),
            bulk(&format!("{number}-0"))
        );
    }
}

fn bulk(text: &str) -> String {
    format!("${} {text}", text.len())
}

/// Numbers of the rows of entries and of the rows of ends.
fn rows(rig: &Rig) -> (usize, usize) {
    let db = rig.server.database();
    let entries: Table<(u64, u128), Vec<u8>> = db.table("redis.entries").expect("the type is right");
    let ends: Table<(u64, u32), (u64, u64, u128)> = db.table("redis.streams").expect("the type is right");
    db.run(|tx| Ok((tx.range(&entries, ..).count(), tx.range(&ends, ..).count()))).expect("a read")
}

#[test]
fn an_entry_comes_behind_all_others() {
    const SMALL: &str = "-ERR The ID specified in XADD is equal or smaller than the target stream top item";
    const INVALID: &str = "-ERR Invalid stream ID specified as stream command argument";
    let mut rig = Rig::new();
    rig.play(&format!(
        r"
        XADD s NOMKSTREAM 1-1 f v | $-1
        EXISTS s | :0
        XADD s 0-0 f v | -ERR The ID specified in XADD must be greater than 0-0
        XADD s 0-* f v | $3 0-1
        XADD s 5 a 1 b 2 | $3 5-0
        XADD s 5-* f v | $3 5-1
        XADD s 5-1 f v | {SMALL}
        XADD s 4-* f v | {SMALL}
        XADD s NOMKSTREAM 6-18446744073709551615 f v | $22 6-18446744073709551615
        XADD s 6-* f v | {SMALL}
        XADD s x f v | {INVALID}
        XADD s + f v | {INVALID}
        XADD s 7-1 f | -ERR wrong number of arguments for 'xadd' command
        XADD s NOMKSTREAM MAXLEN 1 NOMKSTREAM | -ERR wrong number of arguments for 'xadd' command
        XLEN s | :4
        XRANGE s 5 5 | *2 *2 $3 5-0 *4 $1 a $1 1 $1 b $1 2 *2 $3 5-1 *2 $1 f $1 v
        SET text x | +OK
        XADD text * f v | {WRONG}
        XADD s 18446744073709551615-18446744073709551615 f v | $41 18446744073709551615-18446744073709551615
        XADD s * f v | -ERR The stream has exhausted the last possible ID, unable to add more items
        "
    ));
    // The time is that of the request, and does not go back behind the last id.
    rig.play("XADD t 99999999999999-7 f v | $16 99999999999999-7\nXADD t * f v | $16 99999999999999-8");
    let id = rig.ask(rig.client, "XADD u * f v");
    assert!(id.ends_with("-0"), "{id}");
}

#[test]
fn a_range_is_read_from_both_sides() {
    let mut rig = Rig::new();
    fill(&mut rig, "s", 5);
    let entry = |number: u64| format!("*2 $3 {number}-0 *2 $1 f $1 {number}");
    let entries = |numbers: &[u64]| {
        let all: Vec<String> = numbers.iter().map(|number| entry(*number)).collect();
        format!("*{} {}", numbers.len(), all.join(" ")).trim_end().to_owned()
    };
    for (request, numbers) in [
        ("XRANGE s - +", &[1, 2, 3, 4, 5][..]),
        ("XREVRANGE s + -", &[5, 4, 3, 2, 1]),
        ("XRANGE s 2 4", &[2, 3, 4]),
        ("XRANGE s (2 4", &[3, 4]),
        ("XRANGE s (2-0 (4-0", &[3]),
        ("XREVRANGE s (4-0 (2-0", &[3]),
        ("XRANGE s 4 2", &[]),
        ("XRANGE s - + COUNT 2", &[1, 2]),
        ("XREVRANGE s + - COUNT 2", &[5, 4]),
        ("XRANGE none - + COUNT 0", &[]),
    ] {
        assert_eq!(rig.ask(rig.client, request), entries(numbers), "{request}");
    }
    rig.play(&format!(
        r"
        XRANGE s - + COUNT 0 | *-1
        XRANGE s - + COUNT x | -ERR value is not an integer or out of range
        XRANGE s - + COUNT | -ERR syntax error
        XRANGE s (18446744073709551615-18446744073709551615 + | -ERR invalid start ID for the interval
        XRANGE s - (0-0 | -ERR invalid end ID for the interval
        XRANGE s (- + | -ERR Invalid stream ID specified as stream command argument
        SET text x | +OK
        XRANGE text - + | {WRONG}
        XLEN text | {WRONG}
        XLEN none | :0
        "
    ));
}

#[test]
fn a_stream_without_entries_keeps_its_key_and_its_last_id() {
    let mut rig = Rig::new();
    fill(&mut rig, "s", 3);
    rig.play(
        r"
        XDEL s 2 2 9-9 | :1
        XDEL none 1 x | :0
        XDEL s 1 x | -ERR Invalid stream ID specified as stream command argument
        XLEN s | :2
        XDEL s 1 3 | :2
        XLEN s | :0
        EXISTS s | :1
        XRANGE s - + | *0
        XADD s 3-0 f v | -ERR The ID specified in XADD is equal or smaller than the target stream top item
        XINFO STREAM s | *20 $6 length :0 $15 radix-tree-keys :0 $16 radix-tree-nodes :1 $17 last-generated-id $3 3-0 $20 max-deleted-entry-id $3 3-0 $13 entries-added :3 $23 recorded-first-entry-id $3 0-0 $6 groups :0 $11 first-entry $-1 $10 last-entry $-1
        XADD new MAXLEN 0 1-1 f v | $3 1-1
        XLEN new | :0
        EXISTS new | :1
        ",
    );
}

#[test]
fn a_trim_keeps_the_last_entries() {
    let mut rig = Rig::new();
    fill(&mut rig, "s", 250);
    rig.play(
        r"
        XTRIM s MAXLEN 245 | :5
        XTRIM s MAXLEN = 245 | :0
        XTRIM s MINID 10 | :4
        XTRIM s MAXLEN ~ 200 | :0
        XTRIM s MAXLEN ~ 140 | :91
        XTRIM s MAXLEN ~ 40 LIMIT 99 | :0
        XTRIM s MINID ~ 240 | :100
        XTRIM s MINID ~ 9999 | :50
        XLEN s | :0
        XADD s MAXLEN 2 300 f v | $5 300-0
        XADD s MAXLEN 2 301 f v | $5 301-0
        XADD s MAXLEN 2 302 f v | $5 302-0
        XADD s MINID 302 303 f v | $5 303-0
        XLEN s | :2
        XTRIM none MAXLEN 0 | :0
        XTRIM s MAXLEN 1 LIMIT 5 | -ERR syntax error, LIMIT cannot be used without the special ~ option
        XTRIM s LIMIT 5 MAXLEN | -ERR syntax error
        XTRIM s LIMIT 5 | -ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
        XTRIM s LIMIT 0 | -ERR syntax error, XTRIM must be called with a trimming strategy
        XTRIM s MAXLEN -1 | -ERR The MAXLEN argument must be >= 0.
        XTRIM s MAXLEN 1 MINID 1 | -ERR syntax error, MAXLEN and MINID options at the same time are not compatible
        ",
    );
    // Few kept entries of many move, and keep the ids and the figures.
    fill(&mut rig, "large", 1500);
    rig.play(
        r"
        XDEL large 1499 | :1
        XTRIM large MAXLEN 2 | :1497
        XLEN large | :2
        XRANGE large - + | *2 *2 $6 1498-0 *2 $1 f $4 1498 *2 $6 1500-0 *2 $1 f $4 1500
        XADD large 1500-* f v | $6 1500-1
        XLEN large | :3
        XTRIM large MAXLEN 1 | :2
        XINFO STREAM large FULL | *18 $6 length :1 $15 radix-tree-keys :1 $16 radix-tree-nodes :2 $17 last-generated-id $6 1500-1 $20 max-deleted-entry-id $6 1499-0 $13 entries-added :1501 $23 recorded-first-entry-id $6 1500-1 $7 entries *1 *2 $6 1500-1 *2 $1 f $1 v $6 groups *0
        DEL s | :1
        ",
    );
    rig.server.sweep().expect("the steps commit");
    assert_eq!(rows(&rig), (1, 2), "Y2: the rows of the removed entries go");
}

#[test]
fn a_last_id_is_set_within_bounds() {
    let mut rig = Rig::new();
    fill(&mut rig, "s", 2);
    rig.play(
        r"
        XSETID none 1-1 | -ERR no such key
        XSETID s 1-1 | -ERR The ID specified in XSETID is smaller than the target stream top item
        XSETID s 5-1 ENTRIESADDED 1 | -ERR The entries_added specified in XSETID is smaller than the target stream length
        XSETID s 5-1 ENTRIESADDED -1 | -ERR entries_added must be positive
        XSETID s 5-1 MAXDELETEDID 6-1 | -ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id
        XSETID s 5-1 9 | -ERR syntax error
        XSETID s 5-1 ENTRIESADDED 100 MAXDELETEDID 4-4 | +OK
        XADD s 5-* f v | $3 5-2
        XLEN s | :3
        HELLO 3 | %7 ..
        XINFO STREAM s | %10 $6 length :3 $15 radix-tree-keys :1 $16 radix-tree-nodes :2 $17 last-generated-id $3 5-2 $20 max-deleted-entry-id $3 4-4 $13 entries-added :101 $23 recorded-first-entry-id $3 1-0 $6 groups :0 $11 first-entry *2 $3 1-0 *2 $1 f $1 1 $10 last-entry *2 $3 5-2 *2 $1 f $1 v
        XINFO GROUPS s | *0
        XINFO GROUPS none | -ERR no such key
        XINFO CONSUMERS s g | -ERR XINFO CONSUMERS is not available in this version of ensile
        XINFO STREAM s FULL x | -ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.
        XINFO HELP x | -ERR wrong number of arguments for 'xinfo|help' command
        XGROUP CREATE s g $ | -ERR XGROUP is not available in this version of ensile
        ",
    );
}

#[test]
fn a_stream_is_a_value_as_others_are() {
    let mut rig = Rig::new();
    fill(&mut rig, "s", 20);
    rig.play(&format!(
        r"
        TYPE s | +stream
        OBJECT ENCODING s | $6 stream
        GET s | {WRONG}
        LPUSH s x | {WRONG}
        SCAN 0 TYPE stream | *2 $1 0 *1 $1 s
        RANDOMKEY | $1 s
        PEXPIRE s 100000 | :1
        COPY s t | :1
        RENAME s u | +OK
        XDEL u 1 | :1
        XADD u * f v | ..
        PTTL u | :9..
        XLEN t | :20
        XLEN u | :20
        XADD t 20-* f v | $4 20-1
        MOVE t 1 | :1
        SELECT 1 | +OK
        XLEN t | :21
        "
    ));
    let usage = |rig: &mut Rig, line: &str| -> u64 {
        rig.ask(rig.client, line).trim_start_matches(':').parse().expect("a number")
    };
    let (sampled, whole) = (usage(&mut rig, "MEMORY USAGE t"), usage(&mut rig, "MEMORY USAGE t SAMPLES 0"));
    assert!(sampled.abs_diff(whole) < 40 && whole > 21 * 24, "{sampled}, {whole}");
    for removal in ["DEL t", "SET t x", "FLUSHALL", "PEXPIRE t 5"] {
        rig.play("FLUSHALL | +OK");
        fill(&mut rig, "t", 20);
        rig.ask(rig.client, removal);
        rig.pass(10);
        rig.server.sweep().expect("the steps commit");
        assert_eq!(rows(&rig), (0, 0), "Y2: the rows go: {removal}");
    }
}

#[test]
fn a_watch_of_a_stream_sees_every_write_of_an_entry() {
    let mut rig = Rig::new();
    let other = rig.connect();
    for write in ["XADD s 9-* f v", "XDEL s 2", "XTRIM s MAXLEN 1", "XSETID s 50-0", "DEL s"] {
        rig.ask(other, "DEL s");
        fill(&mut rig, "s", 3);
        rig.play("WATCH s | +OK");
        rig.ask(other, write);
        rig.play("MULTI | +OK\nXLEN s | +QUEUED");
        assert_eq!(rig.ask(rig.client, "EXEC"), "*-1", "Y8: the watch rests on all entries: {write}");
    }
    rig.ask(other, "DEL s");
    fill(&mut rig, "s", 3);
    rig.play("WATCH s | +OK");
    rig.ask(other, "XDEL s 7");
    rig.play("MULTI | +OK\nXLEN s | +QUEUED\nEXEC | *1 :3");
}

#[test]
fn a_script_uses_streams() {
    let mut rig = Rig::new();
    let script = "redis.call('XADD', KEYS[1], '1-1', 'f', 'v')
        return {redis.call('XRANGE', KEYS[1], '-', '+'), redis.call('XREAD', 'STREAMS', KEYS[1], '0')}";
    let reply = rig.ask_bytes(rig.client, &[b"EVAL", script.as_bytes(), b"1", b"s"]);
    let entries = "*1 *2 $3 1-1 *2 $1 f $1 v";
    assert_eq!(shown(&reply), format!("*2 {entries} *1 *2 $1 s {entries}"));
    let script = "return redis.pcall('xread', 'BLOCK', '0', 'STREAMS', KEYS[1], '$')";
    let reply = rig.ask_bytes(rig.client, &[b"EVAL", script.as_bytes(), b"1", b"s"]);
    assert_eq!(shown(&reply), "-ERR xread command is not allowed with BLOCK option from scripts");
}

#[test]
fn a_read_shows_the_entries_behind_positions() {
    let mut rig = Rig::new();
    fill(&mut rig, "s", 3);
    rig.play(&format!(
        r"
        XADD t 1-1 f v | $3 1-1
        XREAD COUNT 1 STREAMS none s t 0 1 0-0 | *2 *2 $1 s *1 *2 $3 2-0 *2 $1 f $1 2 *2 $1 t *1 *2 $3 1-1 *2 $1 f $1 v
        XREAD STREAMS s 2-0 | *1 *2 $1 s *1 *2 $3 3-0 *2 $1 f $1 3
        XREAD STREAMS s 3 | *-1
        XREAD STREAMS s $ | *-1
        XREAD STREAMS s 18446744073709551615-18446744073709551615 | *-1
        XREAD BLOCK 0 STREAMS s 2 | *1 *2 $1 s *1 *2 $3 3-0 *2 $1 f $1 3
        XREAD STREAMS s t 0 | -ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.
        XREAD STREAMS s > | -ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.
        XREAD GROUP g c STREAMS s 0 | -ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.
        XREAD BLOCK x STREAMS s 0 | -ERR timeout is not an integer or out of range
        XREAD BLOCK -1 STREAMS s 0 | -ERR timeout is negative
        XREAD COUNT 1 s 0 | -ERR syntax error
        SET text x | +OK
        XREAD STREAMS s text 0 0 | {WRONG}
        HELLO 3 | %7 ..
        XREAD STREAMS s 2 | %1 $1 s *1 *2 $3 3-0 *2 $1 f $1 3
        XREAD STREAMS s 3 | _
        COMMAND GETKEYS XREAD COUNT 2 STREAMS a b 0 0 | *2 $1 a $1 b
        "
    ));
}

impl Rig {
    /// Sends a read that waits.
    fn read_waits(&mut self, client: ClientId, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.send(client, &words);
        self.steps(5);
        assert_eq!(self.received(client), None, "{line}: nothing is there yet");
    }

    /// The reply to a read that has waited.
    fn read_reply(&mut self, client: ClientId) -> Option<String> {
        self.steps(5);
        self.received(client).map(|reply| shown(&reply))
    }
}

#[test]
fn an_entry_wakes_all_readers_of_its_key() {
    let mut rig = Rig::new();
    fill(&mut rig, "s", 2);
    let readers = [rig.connect(), rig.connect(), rig.connect()];
    rig.read_waits(readers[0], "XREAD BLOCK 0 STREAMS s $");
    rig.read_waits(readers[1], "XREAD BLOCK 0 STREAMS none s $ 2-0");
    rig.read_waits(readers[2], "XREAD COUNT 1 BLOCK 0 STREAMS s s $ 5-0");
    rig.play("MULTI | +OK\nXADD s 3 f 3 | +QUEUED\nXADD s 4 f 4 | +QUEUED\nEXEC | *2 $3 3-0 $3 4-0");
    let (third, fourth) = ("*2 $3 3-0 *2 $1 f $1 3", "*2 $3 4-0 *2 $1 f $1 4");
    let both = format!("*1 *2 $1 s *2 {third} {fourth}");
    assert_eq!(rig.read_reply(readers[0]), Some(both.clone()), "J5: both entries came behind the first look");
    assert_eq!(rig.read_reply(readers[1]), Some(both));
    assert_eq!(rig.read_reply(readers[2]), Some(format!("*1 *2 $1 s *1 {third}")));
    // `RENAME` and `COPY` bring entries, too.
    rig.read_waits(readers[0], "XREAD BLOCK 0 STREAMS t $");
    rig.play("RENAME s t | +OK");
    assert!(rig.read_reply(readers[0]).is_some_and(|reply| reply.ends_with(fourth)));
}

#[test]
fn a_reader_sleeps_on_until_an_entry_is_behind_its_position() {
    let mut rig = Rig::new();
    let reader = rig.connect();
    rig.read_waits(reader, "XREAD BLOCK 0 STREAMS s 5-5");
    rig.play("XADD s 1 f v | $3 1-0");
    assert_eq!(rig.read_reply(reader), None, "the entry is before the position");
    rig.play(
        "MULTI | +OK\nXADD s 6 f v | +QUEUED\nDEL s | +QUEUED\nLPUSH s x | +QUEUED\nEXEC | *3 $3 6-0 :1 :1",
    );
    assert_eq!(rig.read_reply(reader), None, "the entry is gone, and the list is no error");
    rig.play("DEL s | :1\nXADD s 5-6 f v | $3 5-6");
    assert_eq!(rig.read_reply(reader).as_deref(), Some("*1 *2 $1 s *1 *2 $3 5-6 *2 $1 f $1 v"));
}

#[test]
fn a_read_ends_at_its_time_and_does_not_wait_in_a_queue() {
    let mut rig = Rig::new();
    fill(&mut rig, "s", 1);
    let reader = rig.connect();
    rig.read_waits(reader, "XREAD BLOCK 500 STREAMS s $");
    rig.pass(400);
    assert_eq!(rig.read_reply(reader), None);
    rig.pass(200);
    assert_eq!(rig.read_reply(reader).as_deref(), Some("*-1"));
    rig.play("MULTI | +OK\nXREAD BLOCK 0 STREAMS s $ | +QUEUED\nEXEC | *1 *-1");
}
