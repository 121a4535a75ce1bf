//! `SCAN`: options, and the guarantee for keys that stay during the whole walk.

use std::collections::BTreeSet;

use ensile_resp::{Reply, ReplyDecoder, ReplyLimits};

use super::rig::Rig;

/// A step of a walk: the next cursor, and the shown keys.
fn step(rig: &mut Rig, cursor: &str, options: &str) -> (String, Vec<String>) {
    let words: Vec<String> =
        ["SCAN", cursor].into_iter().chain(options.split_ascii_whitespace()).map(str::to_owned).collect();
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    let reply = rig.ask_bytes(rig.client, &words);
    let mut decoder = ReplyDecoder::new(ReplyLimits::default());
    let decoded = decoder.decode(&reply).expect("it is RESP").expect("it is whole");
    let text = |reply: Reply<'_>| match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("a string, not {other:?}"),
    };
    let Reply::Array(mut parts) = decoded.reply() else { panic!("an array: {reply:?}") };
    let next = text(parts.next().expect("a cursor"));
    let Some(Reply::Array(keys)) = parts.next() else { panic!("keys: {reply:?}") };
    (next, keys.map(text).collect())
}

fn walk(rig: &mut Rig, options: &str) -> Vec<String> {
    let (mut cursor, mut all) = ("0".to_owned(), Vec::new());
    loop {
        let (next, keys) = step(rig, &cursor, options);
        all.extend(keys);
        cursor = next;
        if cursor == "0" {
            return all;
        }
    }
}

#[test]
fn a_walk_shows_every_key_once() {
    let mut rig = Rig::new();
    assert_eq!(walk(&mut rig, ""), Vec::<String>::new());
    for number in 0..300 {
        rig.play(&format!("SET key:{number} v | +OK"));
    }
    for options in
        ["", "COUNT 1", "COUNT 7", "COUNT 299", "COUNT 300", "COUNT 1000", "TYPE string", "MATCH key:*"]
    {
        let keys = walk(&mut rig, options);
        let different: BTreeSet<_> = keys.iter().collect();
        assert_eq!((keys.len(), different.len()), (300, 300), "{options}");
    }
    let (_, first) = step(&mut rig, "0", "COUNT 7");
    assert_eq!(first.len(), 7, "COUNT is the number of keys of a step");
    assert_eq!(walk(&mut rig, "MATCH key:1?? COUNT 3").len(), 100);
    assert_eq!(walk(&mut rig, "TYPE list"), Vec::<String>::new());
    assert_eq!(walk(&mut rig, "TYPE none"), Vec::<String>::new());
}

#[test]
fn a_key_that_stays_is_shown_while_others_come_and_go() {
    let mut rig = Rig::new();
    for number in 0..200 {
        rig.play(&format!("SET stays:{number} v | +OK\nSET goes:{number} v | +OK"));
    }
    let (mut cursor, mut shown, mut round) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let (next, keys) = step(&mut rig, &cursor, "COUNT 5");
        shown.extend(keys);
        if next == "0" {
            break;
        }
        rig.play(&format!("SET comes:{round} v | +OK\nDEL goes:{round} | :1\nAPPEND stays:{round} w | :2"));
        (cursor, round) = (next, round + 1);
    }
    assert!(round > 30, "the walk has many steps");
    for number in 0..200 {
        assert!(shown.contains(&format!("stays:{number}")), "{number}");
    }
    let gone = format!("goes:{round}");
    assert!(
        !shown.iter().any(|key| key.is_empty()) && shown.contains(&gone),
        "{gone} was there all the time"
    );
}

#[test]
fn a_step_of_a_walk_is_bounded() {
    let mut rig = Rig::new();
    let long = "k".repeat(16_000);
    for number in 0..1100 {
        let key = format!("{number}{long}");
        assert_eq!(rig.ask_bytes(rig.client, &[b"SET", key.as_bytes(), b"v"]), b"+OK\r\n");
    }
    let (next, keys) = step(&mut rig, "0", "COUNT 10000");
    assert!(next != "0" && keys.len() < 1100, "{} keys of 16 KB are more than a step", keys.len());
    let (end, rest) = step(&mut rig, &next, "COUNT 10000");
    assert_eq!((end.as_str(), keys.len() + rest.len()), ("0", 1100));
    // Expired keys count, as their rows are looked at.
    let mut rig = Rig::new();
    for number in 0..100 {
        rig.play(&format!("SET goes:{number} v PX 10000 | +OK"));
    }
    rig.pass(10_001);
    let (next, keys) = step(&mut rig, "0", "COUNT 10");
    assert!(next != "0" && keys.is_empty(), "ten rows are a step");
}

#[test]
fn a_long_pattern_is_refused() {
    let mut rig = Rig::new();
    rig.play("SET k v | +OK");
    let longest = "*".repeat(1024);
    let refused = "-ERR pattern of 1025 bytes: a pattern has 1024 bytes at most";
    rig.play(&format!("KEYS {longest} | *1 $1 k\nSCAN 0 MATCH {longest} | *2 $1 0 *1 $1 k"));
    rig.play(&format!("KEYS {longest}* | {refused}\nSCAN 0 MATCH {longest}* | {refused}"));
    rig.play(&format!("CONFIG GET save {longest}* | {refused}"));
}

#[test]
fn wrong_arguments_of_scan_are_errors() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SCAN x | -ERR invalid cursor
        SCAN 1x | -ERR invalid cursor
        SCAN \s1 | -ERR invalid cursor
        SCAN 99999999999999999999 | -ERR invalid cursor
        SCAN 18446744073709551615 | *2 $1 0 *0
        SCAN 0 MATCH | -ERR syntax error
        SCAN 0 COUNT | -ERR syntax error
        SCAN 0 COUNT 0 | -ERR syntax error
        SCAN 0 COUNT -1 | -ERR syntax error
        SCAN 0 COUNT 0 COUNT 1 | -ERR syntax error
        SCAN 0 COUNT x | -ERR value is not an integer or out of range
        SCAN 0 BOGUS 1 | -ERR syntax error
        SCAN 0 COUNT 9223372036854775807 | *2 $1 0 *0
        SCAN | -ERR wrong number of arguments for 'scan' command
        ",
    );
}
