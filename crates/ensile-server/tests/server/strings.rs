//! Strings: values, conditions, counters, parts.

use super::rig::Rig;

#[test]
fn set_has_options_that_exclude_each_other() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SET k v NX | +OK
        SET k w NX | $-1
        SET none w XX | $-1
        SET k w XX | +OK
        SET k x GET | $1 w
        SET new x GET | $-1
        SET new y NX GET | $1 x
        GET new | $1 x
        SET new y XX GET | $1 x
        SET missing y XX GET | $-1
        EXISTS missing | :0
        set K v nx gEt | $-1
        SET k v NX XX | -ERR syntax error
        SET k v XX NX | -ERR syntax error
        SET k v NX NX | $-1
        SET k v EX 10 PX 10 | -ERR syntax error
        SET k v EX 10 KEEPTTL | -ERR syntax error
        SET k v KEEPTTL EX 10 | -ERR syntax error
        SET k v KEEPTTL KEEPTTL | +OK
        SET k v EX 10 EX 20 | +OK
        TTL k | :20
        SET k v EX | -ERR syntax error
        SET k v BOGUS | -ERR syntax error
        SET k v PERSIST | -ERR syntax error
        SET k v EX x | -ERR value is not an integer or out of range
        SET k v EX x BOGUS | -ERR syntax error
        SET k v EX 0 | -ERR invalid expire time in 'set' command
        SET k v PX -1 | -ERR invalid expire time in 'set' command
        SET k v EX 9223372036854775807 | -ERR invalid expire time in 'set' command
        SET k v PX 9223372036854775807 | -ERR invalid expire time in 'set' command
        SET k v EXAT 0 | -ERR invalid expire time in 'set' command
        SET k | -ERR wrong number of arguments for 'set' command
        GET k | $1 v
        ",
    );
}

#[test]
fn set_keeps_or_removes_the_expiry() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SET k v EX 100 | +OK
        SET k w KEEPTTL | +OK
        TTL k | :100
        GET k | $1 w
        SET k x | +OK
        TTL k | :-1
        SET k x PXAT 1700000100000 | +OK
        PEXPIRETIME k | :1700000100000
        GETSET k y | $1 x
        TTL k | :-1
        SET k x EXAT 1700000100 | +OK
        EXPIRETIME k | :1700000100
        MSET k z | +OK
        TTL k | :-1
        SET k v EXAT 1 | +OK
        GET k | $-1
        ",
    );
}

#[test]
fn getex_changes_the_expiry_only() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SET k v | +OK
        GETEX k | $1 v
        TTL k | :-1
        GETEX k EX 100 | $1 v
        TTL k | :100
        GETEX k | $1 v
        TTL k | :100
        GETEX k PERSIST | $1 v
        TTL k | :-1
        GETEX k PXAT 1700000100000 | $1 v
        PEXPIRETIME k | :1700000100000
        GETEX k PERSIST PERSIST | $1 v
        GETEX k PERSIST EX 10 | -ERR syntax error
        GETEX k EX 10 PERSIST | -ERR syntax error
        GETEX k EX 10 PX 10 | -ERR syntax error
        GETEX k KEEPTTL | -ERR syntax error
        GETEX k NX | -ERR syntax error
        GETEX k EX | -ERR syntax error
        GETEX k EX x | -ERR value is not an integer or out of range
        GETEX k EX 0 | -ERR invalid expire time in 'getex' command
        GETEX none EX 0 | $-1
        GETEX none EX x BOGUS | -ERR syntax error
        GETEX | -ERR wrong number of arguments for 'getex' command
        GETEX k EXAT 1 | $1 v
        EXISTS k | :0
        DBSIZE | :0
        ",
    );
}

#[test]
fn strings_are_set_read_and_deleted_together() {
    let mut rig = Rig::new();
    rig.play(
        r"
        MSET a 1 b 2 a 3 | +OK
        MGET a none b | *3 $1 3 $-1 $1 2
        MSETNX c 1 b 9 | :0
        EXISTS c | :0
        MSETNX c 1 d 2 c 3 | :1
        GET c | $1 3
        MSET a | -ERR wrong number of arguments for 'mset' command
        MSET a 1 b | -ERR wrong number of arguments for 'mset' command
        MSETNX a 1 b | -ERR wrong number of arguments for 'msetnx' command
        MGET | -ERR wrong number of arguments for 'mget' command
        SETNX a 9 | :0
        SETNX e 9 | :1
        GETSET f 1 | $-1
        GETSET f 2 | $1 1
        GETDEL f | $1 2
        GETDEL f | $-1
        STRLEN e | :1
        STRLEN f | :0
        SET '' '' | +OK
        GET '' | $0 
        STRLEN '' | :0
        ",
    );
}

#[test]
fn a_string_is_appended_and_changed_in_place() {
    let mut rig = Rig::new();
    rig.play(
        r"
        APPEND k ab | :2
        APPEND k cd | :4
        APPEND k '' | :4
        GET k | $4 abcd
        EXPIRE k 100 | :1
        APPEND k e | :5
        TTL k | :100
        SETRANGE k 1 XY | :5
        TTL k | :100
        GET k | $5 aXYde
        SETRANGE k 7 z | :8
        SETRANGE none 0 '' | :0
        EXISTS none | :0
        SETRANGE k -1 a | -ERR offset is out of range
        SETRANGE k x a | -ERR value is not an integer or out of range
        SETRANGE k 9223372036854775807 a | -ERR string exceeds maximum allowed size (proto-max-bulk-len)..
        SETRANGE k 2147483647 a | -ERR string exceeds maximum allowed size (proto-max-bulk-len)..
        STRLEN k | :8
        ",
    );
    let reply = rig.ask_bytes(rig.client, &[b"GET", b"k"]);
    assert_eq!(reply, b"$8\r\naXYde\0\0z\r\n", "zeros fill a gap");
}

#[test]
fn a_range_counts_from_both_ends() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SET k Hello | +OK
        GETRANGE k 0 -1 | $5 Hello
        GETRANGE k 1 3 | $3 ell
        GETRANGE k -3 -2 | $2 ll
        GETRANGE k -100 1 | $2 He
        GETRANGE k 3 100 | $2 lo
        GETRANGE k 0 -100 | $1 H
        GETRANGE k -100 -100 | $1 H
        GETRANGE k -1 -5 | $0
        GETRANGE k 4 2 | $0
        GETRANGE k 5 9 | $0
        GETRANGE k -9223372036854775808 9223372036854775807 | $5 Hello
        GETRANGE none 0 -1 | $0
        GETRANGE none x 1 | -ERR value is not an integer or out of range
        SUBSTR k 0 0 | $1 H
        ",
    );
}

#[test]
fn counters_have_64_bits_and_keep_the_expiry() {
    let mut rig = Rig::new();
    rig.play(
        r"
        INCR n | :1
        INCRBY n 41 | :42
        DECR n | :41
        DECRBY n -1 | :42
        EXPIRE n 100 | :1
        INCR n | :43
        TTL n | :100
        SET n 9223372036854775807 | +OK
        INCR n | -ERR increment or decrement would overflow
        DECRBY n -9223372036854775808 | -ERR decrement would overflow
        SET n -9223372036854775808 | +OK
        DECR n | -ERR increment or decrement would overflow
        INCRBY n x | -ERR value is not an integer or out of range
        INCRBY n 1.5 | -ERR value is not an integer or out of range
        INCRBY n +1 | -ERR value is not an integer or out of range
        SET n 01 | +OK
        INCR n | -ERR value is not an integer or out of range
        SET n \s1 | +OK
        INCR n | -ERR value is not an integer or out of range
        SET n '' | +OK
        INCR n | -ERR value is not an integer or out of range
        GET n | $0
        ",
    );
}

#[test]
fn numbers_with_a_fraction_are_added_exactly() {
    let mut rig = Rig::new();
    rig.play(
        r"
        INCRBYFLOAT f 0.1 | $3 0.1
        INCRBYFLOAT f 0.2 | $3 0.3
        EXPIRE f 100 | :1
        INCRBYFLOAT f -0.3 | $1 0
        TTL f | :100
        SET f 5.0e3 | +OK
        INCRBYFLOAT f 2.0e2 | $4 5200
        INCRBYFLOAT f x | -ERR value is not a valid float
        INCRBYFLOAT f nan | -ERR value is not a valid float
        INCRBYFLOAT f inf | -ERR increment would produce NaN or Infinity
        GET f | $4 5200
        SET f abc | +OK
        INCRBYFLOAT f 1 | -ERR value is not a valid float
        SET f 3 | +OK
        INCRBYFLOAT f 1.5 | $3 4.5
        INCR f | -ERR value is not an integer or out of range
        ",
    );
}

#[test]
fn the_longest_common_subsequence_is_told_in_three_ways() {
    let mut rig = Rig::new();
    rig.play(
        r"
        MSET a ohmytext b mynewtext | +OK
        LCS a b | $6 mytext
        LCS a b LEN | :6
        LCS a b IDX | *4 $7 matches *2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 *2 :0 :1 $3 len :6
        LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN | *4 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6
        LCS a none | $0
        LCS none none2 LEN | :0
        LCS a b LEN IDX | -ERR If you want both the length and indexes, please just use IDX.
        LCS a b BOGUS | -ERR syntax error
        LCS a b MINMATCHLEN x | -ERR value is not an integer or out of range
        SETRANGE a 4095 x | :4096
        SETRANGE b 4095 x | :4096
        LCS a b LEN | -ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len..
        ",
    );
}

#[test]
fn keys_and_values_have_limits() {
    let mut rig = Rig::new();
    let (key, value) = (vec![b'k'; 70_000], vec![b'v'; (16 << 20) - 100]);
    let client = rig.client;
    for command in [&b"SET"[..], b"SETNX", b"GETSET", b"APPEND", b"MSET", b"MSETNX"] {
        let reply = rig.ask_bytes(client, &[command, &key, b"v"]);
        assert!(reply.starts_with(b"-ERR key exceeds maximum allowed size"), "{reply:?}");
    }
    assert_eq!(rig.ask_bytes(client, &[b"GET", &key]), b"$-1\r\n", "no such key can be present");
    assert_eq!(rig.ask_bytes(client, &[b"SET", b"k", &value]), b"+OK\r\n");
    let reply = rig.ask_bytes(client, &[b"APPEND", b"k", &[b'v'; 200]]);
    assert!(reply.starts_with(b"-ERR string exceeds maximum allowed size"), "{reply:?}");
    rig.play("STRLEN k | :16777116");
}
