//! Databases: `SELECT`, `SWAPDB`, `MOVE`, `COPY`, `FLUSHDB`, and counts of keys.

use ensile::{Readable, Table};

use super::rig::Rig;

#[test]
fn databases_have_keys_of_their_own() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SET k zero | +OK
        SELECT 15 | +OK
        GET k | $-1
        SET k last | +OK
        SELECT 0 | +OK
        GET k | $4 zero
        SELECT 16 | -ERR DB index is out of range..
        SELECT -1 | -ERR DB index is out of range..
        SELECT x | -ERR value is not an integer or out of range
        SELECT 01 | -ERR value is not an integer or out of range
        SELECT 9999999999 | -ERR value is out of range, value must between -2147483648 and 2147483647
        SELECT | -ERR wrong number of arguments for 'select' command
        GET k | $4 zero
        INFO keyspace | $77 # Keyspace db0:keys=1,expires=0,avg_ttl=0 db15:keys=1,expires=0,avg_ttl=0
        ",
    );
}

#[test]
fn a_key_is_moved_and_copied_between_databases() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SET k v EX 100 | +OK
        MOVE k 1 | :1
        EXISTS k | :0
        DBSIZE | :0
        MOVE k 1 | :0
        SET k w | +OK
        MOVE k 1 | :0
        MOVE k 0 | -ERR source and destination objects are the same
        MOVE k 16 | -ERR DB index is out of range
        MOVE k x | -ERR value is not an integer or out of range
        MOVE k 9999999999 | -ERR value is out of range, value must between -2147483648 and 2147483647
        SELECT 1 | +OK
        TTL k | :100
        GET k | $1 v
        COPY k c | :1
        TTL c | :100
        COPY k c | :0
        COPY k c DB 0 | :1
        COPY k k DB 0 | :0
        COPY k k DB 0 REPLACE | :1
        COPY k k | -ERR source and destination objects are the same
        COPY k k DB 1 | -ERR source and destination objects are the same
        COPY none x | :0
        COPY k x DB | -ERR syntax error
        COPY k x DB 16 | -ERR DB index is out of range
        COPY k x DB x | -ERR value is not an integer or out of range
        COPY k x BOGUS | -ERR syntax error
        APPEND k w | :2
        GET c | $1 v
        DBSIZE | :2
        SELECT 0 | +OK
        GET k | $1 v
        DBSIZE | :2
        ",
    );
}

#[test]
fn two_databases_exchange_their_keys() {
    let mut rig = Rig::new();
    let other = rig.connect();
    rig.play_as(other, "SELECT 1 | +OK\nSET b 1 EX 100 | +OK\nSET c 1 | +OK");
    rig.play(
        r"
        SET a 1 | +OK
        SWAPDB 0 1 | +OK
        DBSIZE | :2
        TTL b | :100
        SWAPDB 0 0 | +OK
        SWAPDB x 1 | -ERR invalid first DB index
        SWAPDB 0 x | -ERR invalid second DB index
        SWAPDB 0 9999999999 | -ERR invalid second DB index
        SWAPDB 0 16 | -ERR DB index is out of range
        SWAPDB -1 0 | -ERR DB index is out of range
        ",
    );
    rig.play_as(other, "DBSIZE | :1\nEXISTS a | :1");
    rig.pass(101_000);
    rig.server.sweep().expect("no conflict");
    rig.play("KEYS * | *1 $1 c\nDBSIZE | :1");
}

#[test]
fn the_last_content_of_all_is_never_given() {
    let mut rig = Rig::new();
    let db = rig.server.database();
    let databases: Table<u32, u32> = db.table("redis.databases").expect("it is a table");
    db.run(|tx| tx.put(&databases, &u32::MAX, &(u32::MAX - 1))).expect("no conflict");
    rig.play("SET k v | +OK\nFLUSHDB | +OK\nSET k v | +OK\nKEYS * | *1 $1 k");
    rig.play("FLUSHDB | -ERR..\nGET k | $1 v\nKEYS * | *1 $1 k");
}

#[test]
fn a_flush_empties_at_once_and_its_rows_are_removed_later() {
    let mut rig = Rig::new();
    for number in 0..1200 {
        rig.play(&format!("SET key:{number} v PX 60000 | +OK"));
    }
    rig.play(
        r"
        SELECT 1 | +OK
        SET stays 1 | +OK
        SELECT 0 | +OK
        FLUSHDB BOGUS | -ERR syntax error
        FLUSHDB ASYNC SYNC | -ERR syntax error
        FLUSHALL BOGUS | -ERR syntax error
        DBSIZE | :1200
        FLUSHDB async | +OK
        DBSIZE | :0
        SCAN 0 | *2 $1 0 *0
        SET key:1 w | +OK
        DBSIZE | :1
        ",
    );
    rig.server.sweep().expect("no conflict");
    rig.play("GET key:1 | $1 w\nDBSIZE | :1");
    rig.pass(61_000);
    rig.server.sweep().expect("no conflict");
    rig.play("GET key:1 | $1 w\nTTL key:1 | :-1\nINFO keyspace | $76 # Keyspace db0:keys=1,expires=0,avg_ttl=0 db1:keys=1,expires=0,avg_ttl=0");
    let db = rig.server.database();
    let expiries: Table<(i64, u32, u64, Vec<u8>), ()> = db.table("redis.expiries").expect("it is a table");
    let abandoned: Table<u32, ()> = db.table("redis.abandoned").expect("it is a table");
    let left = db.run(|tx| Ok((tx.first(&expiries, ..)?, tx.first(&abandoned, ..)?))).expect("no conflict");
    assert_eq!(left, (None, None), "the sweeper leaves no row");
    rig.play("FLUSHALL SYNC | +OK\nDBSIZE | :0\nSELECT 1 | +OK\nDBSIZE | :0");
    // Several small contents are removed in one go.
    rig.play("SET a 1 | +OK\nFLUSHDB | +OK\nSET a 1 | +OK\nFLUSHDB | +OK\nSET a 1 | +OK\nFLUSHDB | +OK");
    rig.server.sweep().expect("no conflict");
    let db = rig.server.database();
    let left = db.run(|tx| tx.first(&abandoned, ..)).expect("no conflict");
    assert_eq!(left, None, "the sweeper leaves no content");
}
