//! Keys of any type: presence, names, types, patterns.

use super::rig::Rig;

#[test]
fn keys_are_deleted_and_counted() {
    let mut rig = Rig::new();
    rig.play(
        r"
        MSET a 1 b 2 c 3 | +OK
        EXISTS a a none | :2
        TOUCH a b none | :2
        DEL a a none | :1
        UNLINK b none b | :1
        DBSIZE | :1
        TYPE c | +string
        TYPE a | +none
        DEL | -ERR wrong number of arguments for 'del' command
        DBSIZE x | -ERR wrong number of arguments for 'dbsize' command
        ",
    );
}

#[test]
fn a_renamed_key_takes_its_expiry_along() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SET a 1 EX 100 | +OK
        SET b 2 EX 500 | +OK
        RENAME a b | +OK
        TTL b | :100
        GET b | $1 1
        EXISTS a | :0
        RENAME none b | -ERR no such key
        RENAMENX none b | -ERR no such key
        RENAME none none | -ERR no such key
        RENAME b b | +OK
        RENAMENX b b | :0
        SET c 3 | +OK
        RENAMENX b c | :0
        RENAMENX c d | :1
        RENAME d b | +OK
        TTL b | :-1
        DBSIZE | :1
        ",
    );
}

#[test]
fn the_properties_of_a_value_are_told() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SET n 12 | +OK
        SET s text | +OK
        SET l 123456789012345678901234567890123456789012345 | +OK
        OBJECT ENCODING n | $3 int
        OBJECT ENCODING s | $6 embstr
        OBJECT encoding l | $3 raw
        OBJECT ENCODING none | $-1
        OBJECT REFCOUNT s | :1
        OBJECT FREQ s | -ERR An LFU maxmemory policy is not selected, access frequency not tracked...
        OBJECT IDLETIME s | -ERR OBJECT IDLETIME: the time of the last access is not available in this version of ensile
        OBJECT HELP | *5 +OBJECT..
        OBJECT | -ERR wrong number of arguments for 'object' command
        OBJECT ENCODING | -ERR wrong number of arguments for 'object|encoding' command
        OBJECT FOO s | -ERR unknown subcommand 'FOO'. Try OBJECT HELP.
        OBJECT FOO none | -ERR unknown subcommand 'FOO'. Try OBJECT HELP.
        ",
    );
}

#[test]
fn keys_are_found_by_a_pattern() {
    let mut rig = Rig::new();
    rig.play("MSET hello 1 hallo 2 hxllo 3 other 4 | +OK");
    for (pattern, count) in
        [("h?llo", 3), ("h[ae]llo", 2), ("h[^e]llo", 2), ("*", 4), ("none*", 0), ("h*", 3)]
    {
        let reply = rig.ask(rig.client, &format!("KEYS {pattern}"));
        assert!(reply.starts_with(&format!("*{count}")), "{pattern}: {reply}");
    }
    rig.play("KEYS hello | *1 $5 hello");
}

#[test]
fn every_key_is_a_random_key_at_times() {
    let mut rig = Rig::new();
    rig.play("RANDOMKEY | $-1");
    rig.play("MSET a 1 b 2 | +OK");
    let mut found = std::collections::BTreeSet::new();
    // Both keys have a share of the hashes, so an absence of one key in 20,000 draws has no measurable chance.
    for _ in 0..20_000 {
        found.insert(rig.ask(rig.client, "RANDOMKEY"));
        if found.len() == 2 {
            break;
        }
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["$1 a", "$1 b"]);
}

#[test]
fn unknown_commands_are_errors_in_redis_words() {
    let mut rig = Rig::new();
    rig.play(
        r"
        NONE | -ERR unknown command 'NONE', with args beginning with:
        none a b | -ERR unknown command 'none', with args beginning with: 'a' 'b'
        GET | -ERR wrong number of arguments for 'get' command
        GET a b | -ERR wrong number of arguments for 'get' command
        SETBIT a 1 1 | -ERR SETBIT is not available in this version of ensile
        ",
    );
}

#[test]
fn replies_have_the_types_of_the_third_version() {
    let mut rig = Rig::new();
    rig.play(
        r"
        HELLO 3 | %7 $6 server $5 redis $7 version $6 7.0.15..
        GET none | _
        MGET none | *1 _
        SET k v NX | +OK
        SET k v NX | _
        CONFIG GET appendfsync | %1 $11 appendfsync $6 always
        KEYS * | *1 $1 k
        SCAN 0 | *2 $1 0 *1 $1 k
        INCRBYFLOAT f 1.5 | $3 1.5
        RANDOMKEY | $1 ..
        MULTI | +OK
        EXEC | *0
        WATCH k | +OK
        SET k w | +OK
        MULTI | +OK
        EXEC | _
        RESET | +RESET
        GET none | $-1
        ",
    );
}

#[test]
fn keys_are_removed_at_the_limit_of_memory() {
    let mut rig = Rig::limited(1 << 20);
    let value = vec![b'v'; 50_000];
    let mut keys = 0;
    let refused = loop {
        let reply = rig.ask_bytes(rig.client, &[b"SET", format!("k{keys}").as_bytes(), &value]);
        if reply.starts_with(b"-") {
            break String::from_utf8_lossy(&reply).into_owned();
        }
        keys += 1;
        assert!(keys < 100, "the memory has a limit");
    };
    assert!(refused.contains("memory"), "{refused}");
    rig.play("DEL k0 | :1");
    rig.play("UNLINK k1 | :1");
    rig.play("GETDEL k2 | $50000..");
    rig.play("FLUSHALL | +OK\nDBSIZE | :0");
    rig.server.sweep().expect("no conflict");
    rig.pass(2000);
    rig.play("SET k v | +OK");
}
