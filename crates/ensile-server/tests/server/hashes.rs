//! Hashes: the commands of fields.

use std::collections::BTreeSet;

use super::rig::Rig;

#[test]
fn fields_are_read_and_written_one_by_one() {
    let mut rig = Rig::new();
    rig.play(
        r"
        HMSET h a 1 b two | +OK
        HSETNX h a 2 | :0
        HSETNX h c 3 | :1
        HMGET h a none b a | *4 $1 1 $-1 $3 two $1 1
        HMGET none a b | *2 $-1 $-1
        HEXISTS h a | :1
        HEXISTS h none | :0
        HEXISTS none a | :0
        HSTRLEN h b | :3
        HSTRLEN h none | :0
        HKEYS h | *3 $1 a $1 b $1 c
        HVALS h | *3 $1 1 $3 two $1 3
        HKEYS none | *0
        HVALS none | *0
        ",
    );
}

#[test]
fn numbers_of_fields_are_added_to() {
    let mut rig = Rig::new();
    rig.play(
        r"
        HINCRBY h n 5 | :5
        HINCRBY h n -7 | :-2
        HSET h text x big 9223372036854775807 | :2
        HINCRBY h text 1 | -ERR hash value is not an integer
        HINCRBY h big 1 | -ERR increment or decrement would overflow
        HINCRBY h n x | -ERR value is not an integer or out of range
        HINCRBY other n x | -ERR value is not an integer or out of range
        EXISTS other | :0
        HINCRBYFLOAT h f 0.1 | $3 0.1
        HINCRBYFLOAT h f 0.2 | $3 0.3
        HINCRBYFLOAT h text 1 | -ERR hash value is not a float
        HINCRBYFLOAT h f x | -ERR value is not a valid float
        HINCRBYFLOAT h f inf | -ERR value is NaN or Infinity
        HSET h inf inf | :1
        HINCRBYFLOAT h inf 1 | -ERR increment would produce NaN or Infinity
        HGET h f | $3 0.3
        ",
    );
}

#[test]
fn random_fields_are_different_or_drawn_again() {
    let mut rig = Rig::new();
    rig.play(
        r"
        HSET h a 1 b 2 c 3 | :3
        HRANDFIELD none | $-1
        HRANDFIELD none 2 | *0
        HRANDFIELD none -2 WITHVALUES | *0
        HRANDFIELD h 0 | *0
        HRANDFIELD h 9 | *3 $1 a $1 b $1 c
        HRANDFIELD h 3 withvalues | *6 $1 a $1 1 $1 b $1 2 $1 c $1 3
        HRANDFIELD h -9 WITHVALUES | *18..
        HRANDFIELD h -9 | *9..
        HRANDFIELD h 2 | *2..
        HRANDFIELD h | $1..
        HRANDFIELD h x | -ERR value is not an integer or out of range
        HRANDFIELD h 1 2 | -ERR syntax error
        HRANDFIELD h 1 WITHVALUES x | -ERR syntax error
        HRANDFIELD h -9223372036854775807 WITHVALUES | -ERR value is out of range
        HRANDFIELD h -9223372036854775807 | -ERR the reply would be longer..
        HELLO 3 | %7..
        HRANDFIELD h 3 WITHVALUES | *3 *2 $1 a $1 1 *2 $1 b $1 2 *2 $1 c $1 3
        HRANDFIELD none | _
        ",
    );
    let mut shown = BTreeSet::new();
    for _ in 0..100 {
        shown.insert(rig.ask(rig.client, "HRANDFIELD h"));
    }
    assert_eq!(shown.len(), 3, "each field comes");
}

#[test]
fn values_that_no_step_shows_end_a_step() {
    let mut rig = Rig::new();
    let long = "v".repeat(1 << 20);
    for number in 0..12 {
        let field = format!("f{number}");
        assert_eq!(rig.ask_bytes(rig.client, &[b"HSET", b"h", field.as_bytes(), long.as_bytes()]), b":1\r\n");
    }
    let (mut cursor, mut steps) = ("0".to_owned(), 0);
    while steps == 0 || cursor != "0" {
        let reply = rig.ask(rig.client, &format!("HSCAN h {cursor} MATCH none COUNT 100"));
        assert!(reply.ends_with("*0"), "{reply:.100}");
        cursor = reply.split(' ').nth(2).expect("a cursor").to_owned();
        steps += 1;
    }
    assert_eq!(steps, 2, "a step looks at 8 MiB");
}
