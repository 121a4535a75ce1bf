//! Collections of any type: small in the row of the key, larger with rows of their own.

use ensile::{Readable, Table};
use ensile_sim::SimDisk;

use super::rig::{Rig, shown};

/// Number of fields of a hash whose rows have several stripes.
const MANY: usize = 5_000;

/// Sets fields from `f0` on, each with its number as the value.
fn fill(rig: &mut Rig, key: &str, fields: usize) {
    let numbers: Vec<usize> = (0..fields).collect();
    for chunk in numbers.chunks(500) {
        let pairs: String = chunk.iter().map(|number| format!(" f{number} {number}")).collect();
        let reply = rig.ask(rig.client, &format!("HSET {key}{pairs}"));
        assert_eq!(reply, format!(":{}", chunk.len()));
    }
}

#[test]
fn a_hash_grows_and_shrinks_field_by_field() {
    let mut rig = Rig::new();
    fill(&mut rig, "h", MANY);
    rig.play(
        r"
        HLEN h | :5000
        HGET h f0 | $1 0
        HGET h f4999 | $4 4999
        HGET h none | $-1
        HSET h f7 seven new 1 | :1
        HGET h f7 | $5 seven
        HLEN h | :5001
        HDEL h new none f7 f7 | :2
        HLEN h | :4999
        TYPE h | +hash
        OBJECT ENCODING h | $9 hashtable
        DBSIZE | :1
        ",
    );
    let fields: Vec<String> =
        (0..MANY).filter(|number| *number != 7).map(|number| format!("f{number}")).collect();
    for (at, field) in fields.iter().enumerate() {
        assert_eq!(rig.ask(rig.client, &format!("HDEL h {field}")), ":1", "{field}");
        if at % 997 == 0 {
            assert_eq!(rig.ask(rig.client, "HLEN h"), format!(":{}", MANY - 2 - at));
        }
    }
    assert_eq!(rig.ask(rig.client, "EXISTS h"), ":0", "Y3: the key goes with the last element");
    rig.play("DBSIZE | :0");
}

#[test]
fn a_value_of_another_type_is_refused_and_can_be_replaced() {
    let mut rig = Rig::new();
    fill(&mut rig, "h", 100);
    const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    rig.play("SET s text | +OK");
    for request in
        ["GET h", "APPEND h x", "INCR h", "STRLEN h", "GETDEL h", "GETEX h", "SET h x GET", "GETRANGE h 0 1"]
    {
        assert_eq!(rig.ask(rig.client, request), WRONG, "{request}");
    }
    let refused = "-ERR The specified keys must contain string values";
    assert_eq!(rig.ask(rig.client, "LCS h s"), refused);
    for request in ["HGET s f", "HSET s f v", "HDEL s f", "HLEN s", "HGETALL s"] {
        assert_eq!(rig.ask(rig.client, request), WRONG, "{request}");
    }
    rig.play(
        r"
        LCS h s | -ERR The specified keys must contain string values
        MGET h s none | *3 $-1 $4 text $-1
        SET h x | +OK
        GET h | $1 x
        DEL h | :1
        HSET h f v | :1
        HGETALL h | *2 $1 f $1 v
        ",
    );
}

#[test]
fn a_larger_hash_moves_with_its_key_and_is_copied_as_a_whole() {
    let mut rig = Rig::new();
    fill(&mut rig, "h", 600);
    rig.play(
        r"
        PEXPIRE h 100000 | :1
        RENAME h i | +OK
        HLEN i | :600
        PTTL i | :9..
        COPY i j | :1
        HDEL i f0 | :1
        HLEN j | :600
        HGET j f0 | $1 0
        HSET j f1 changed | :0
        HGET i f1 | $1 1
        MOVE j 1 | :1
        EXISTS j | :0
        SELECT 1 | +OK
        HGET j f1 | $7 changed
        HLEN j | :600
        SELECT 0 | +OK
        COPY i i2 DB 1 REPLACE | :1
        RENAME i k | +OK
        HSET i f 1 | :1
        HGETALL i | *2 $1 f $1 1
        HLEN k | :599
        ",
    );
}

#[test]
fn the_rows_of_removed_collections_go() {
    let mut rig = Rig::new();
    let rows = |rig: &Rig| {
        let db = rig.server.database();
        let elements: Table<(u64, u64, Vec<u8>), Vec<u8>> =
            db.table("redis.elements").expect("the type is right");
        db.run(|tx| Ok(tx.range(&elements, ..).count())).expect("a read")
    };
    for (at, removal) in [
        "DEL h",
        "SET h x",
        "PEXPIRE h 0",
        "FLUSHDB",
        "PEXPIRE h 5",
        "RENAME other h",
        "COPY other h REPLACE",
    ]
    .iter()
    .enumerate()
    {
        rig.play("FLUSHALL | +OK");
        fill(&mut rig, "h", 600);
        rig.play("SET other x | +OK");
        rig.ask(rig.client, removal);
        rig.pass(10);
        rig.server.sweep().expect("the steps commit");
        assert_eq!(rows(&rig), 0, "Y2: the rows go: {at}: {removal}");
    }
}

#[test]
fn a_watch_of_a_hash_sees_the_change_of_any_field() {
    for fields in [2, 600] {
        let mut rig = Rig::new();
        fill(&mut rig, "h", fields);
        let other = rig.connect();
        for change in ["HSET h f1 new", "HDEL h f0", "HSET h another 1"] {
            rig.play("WATCH h | +OK");
            rig.play_as(other, &format!("{change} | :.."));
            rig.play("MULTI | +OK\nSET seen 1 | +QUEUED");
            assert_eq!(rig.ask(rig.client, "EXEC"), "*-1", "Y1: a watch sees {change} of {fields} fields");
        }
    }
}

#[test]
fn a_watch_of_a_hash_ignores_other_hashes() {
    let mut rig = Rig::new();
    fill(&mut rig, "h", 600);
    let other = rig.connect();
    rig.play("WATCH h | +OK");
    let fields: String = (0..600).map(|number| format!(" g{number} 1")).collect();
    rig.play_as(other, &format!("HSET neighbour{fields} | :600"));
    rig.play_as(other, "DEL neighbour | :1");
    rig.server.sweep().expect("the steps commit");
    rig.play(
        r"
        MULTI | +OK
        HLEN h | +QUEUED
        EXEC | *1 :600
        ",
    );
}

#[test]
fn a_watch_has_a_limit_of_rows() {
    let mut rig = Rig::new();
    fill(&mut rig, "h", MANY);
    let many = "h ".repeat(5_000);
    rig.play(&format!("WATCH {many} | -ERR the set of watched rows.."));
    rig.play("WATCH h | -ERR the set of watched rows..");
    rig.play("UNWATCH | +OK");
    rig.play("WATCH h | +OK");
}

#[test]
fn a_field_beyond_the_limit_is_no_field() {
    let mut rig = Rig::new();
    let long = "x".repeat(17_000);
    for fields in [1, 600] {
        fill(&mut rig, "h", fields);
        rig.play(&format!("HDEL h {long} | :0"));
        rig.play(&format!("HGET h {long} | $-1"));
        rig.play(&format!("HSET h {long} 1 | -ERR field or member exceeds maximum allowed size.."));
        rig.play("DEL h | :1");
    }
}

/// Fields that a request of the growing hash sets together.
const TOGETHER: usize = 3;

/// Sends requests for a growing hash until the power fails. Returns the number of requests whose replies came.
fn grow(rig: &mut Rig) -> usize {
    for request in 0.. {
        let pairs: Vec<String> =
            (0..TOGETHER).flat_map(|of| [format!("f{request}:{of}"), request.to_string()]).collect();
        let words: Vec<&[u8]> =
            ["HSET", "h"].into_iter().chain(pairs.iter().map(String::as_str)).map(str::as_bytes).collect();
        rig.send(rig.client, &words);
        let replied = (0..20).any(|_| {
            rig.step();
            rig.received(rig.client).is_some_and(|reply| shown(&reply) == format!(":{TOGETHER}"))
        });
        if !replied {
            return request;
        }
    }
    0
}

#[test]
fn a_growing_hash_survives_a_loss_of_power_at_any_call_with_whole_transactions() {
    let (mut packed, mut in_rows, mut in_stripes) = (0, 0, 0);
    for call in (1..36).step_by(4).chain((50..1100).step_by(70)) {
        let disk = SimDisk::new();
        let mut rig = Rig::on(&disk, |builder| builder);
        disk.cut_power_at(disk.calls().all + call);
        let replied = grow(&mut rig);
        assert!(disk.is_without_power(), "{call}: the requests end with the power");
        drop(rig);
        disk.crash(call);
        let mut rig = Rig::on(&disk, |builder| builder);
        let count: usize = rig.ask(rig.client, "HLEN h")[1..].parse().expect("a number");
        let shown = rig.ask(rig.client, "HKEYS h");
        let fields: Vec<&str> = shown.split(' ').skip(2).step_by(2).collect();
        assert_eq!(
            (count, count % TOGETHER),
            (fields.len(), 0),
            "{call}: whole transactions, and their count"
        );
        assert!(
            count >= replied * TOGETHER,
            "{call}: {replied} requests were replied, {count} fields are there"
        );
        for request in 0..count / TOGETHER {
            let field = format!("HGET h f{request}:{}", TOGETHER - 1);
            assert!(rig.ask(rig.client, &field).ends_with(&request.to_string()), "{call}: {field}");
        }
        *if count < 40 {
            &mut packed
        } else if count < 513 {
            &mut in_rows
        } else {
            &mut in_stripes
        } += 1;
    }
    assert!(packed > 3 && in_rows > 3 && in_stripes > 3, "{packed}, {in_rows}, {in_stripes}: all forms");
}
