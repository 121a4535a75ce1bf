//! Expiry: keys are absent from their time on, for every command, and the sweeper removes their rows.

use ensile_server::simulation::BEGIN_MILLIS;

use super::rig::Rig;

#[test]
fn an_expired_key_is_absent_for_every_command() {
    let mut rig = Rig::new();
    for key in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        rig.play(&format!("SET {key} 1 PX 10000 | +OK"));
    }
    rig.play("SET stays 1 | +OK");
    rig.pass(10_001);
    rig.play(
        r"
        GET a | $-1
        MGET a b | *2 $-1 $-1
        EXISTS a b c | :0
        TOUCH a | :0
        TTL a | :-2
        PTTL a | :-2
        EXPIRETIME a | :-2
        PEXPIRETIME a | :-2
        TYPE a | +none
        STRLEN a | :0
        GETRANGE a 0 -1 | $0
        OBJECT ENCODING a | $-1
        RENAME a z | -ERR no such key
        RENAMENX a z | -ERR no such key
        COPY a z | :0
        MOVE a 1 | :0
        DEL a | :0
        UNLINK b | :0
        PERSIST b | :0
        EXPIRE b 10 | :0
        GETDEL b | $-1
        GETEX b EX 10 | $-1
        SET b 1 XX | $-1
        KEYS * | *1 $5 stays
        SCAN 0 COUNT 100 | *2 $1 0 *1 $5 stays
        RANDOMKEY | $5 stays
        SETNX c 2 | :1
        INCR d | :1
        APPEND e x | :1
        SETRANGE f 1 x | :2
        GETSET g x | $-1
        INCRBYFLOAT h 1.5 | $3 1.5
        MSETNX i 1 j 1 | :1
        TTL c | :-1
        TTL d | :-1
        TTL e | :-1
        TTL f | :-1
        TTL h | :-1
        COPY c a | :1
        ",
    );
}

#[test]
fn a_time_is_told_in_four_ways() {
    let mut rig = Rig::new();
    let (seconds, millis) = (BEGIN_MILLIS / 1000 + 1000, BEGIN_MILLIS + 1_000_499);
    rig.play(&format!(
        r"
        SET k v | +OK
        TTL k | :-1
        PTTL k | :-1
        EXPIRETIME k | :-1
        PEXPIRETIME k | :-1
        EXPIREAT k {seconds} | :1
        PEXPIRETIME k | :{}
        EXPIRETIME k | :{seconds}
        PEXPIREAT k {millis} | :1
        PEXPIRETIME k | :{millis}
        EXPIRETIME k | :{seconds}
        PEXPIREAT k {} | :1
        EXPIRETIME k | :{}
        PERSIST k | :1
        PERSIST k | :0
        PERSIST none | :0
        SETEX k 100 w | +OK
        TTL k | :100
        PSETEX k 100000 x | +OK
        TTL k | :100
        EXPIRE k 200 | :1
        TTL k | :200
        PEXPIRE k 300000 | :1
        TTL k | :300
        SETEX k 0 v | -ERR invalid expire time in 'setex' command
        PSETEX k -5 v | -ERR invalid expire time in 'psetex' command
        SETEX k x v | -ERR value is not an integer or out of range
        GET k | $1 x
        ",
        seconds * 1000,
        millis + 1,
        seconds + 1
    ));
}

#[test]
fn an_expiry_in_the_past_deletes() {
    let mut rig = Rig::new();
    for expire in
        ["EXPIRE k 0", "EXPIRE k -1", "PEXPIRE k -1", "EXPIREAT k 1", "PEXPIREAT k -9223372036854775808"]
    {
        rig.play(&format!("SET k v | +OK\n{expire} | :1\nEXISTS k | :0\nDBSIZE | :0"));
    }
    rig.play("EXPIRE none -1 | :0");
}

#[test]
fn conditions_of_expire_are_those_of_redis() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SET k v | +OK
        EXPIRE k 100 XX | :0
        EXPIRE k 100 GT | :0
        EXPIRE k 100 LT | :1
        EXPIRE k 200 LT | :0
        EXPIRE k 200 NX | :0
        EXPIRE k 200 GT | :1
        EXPIRE k 100 GT | :0
        EXPIRE k 300 xx gt | :1
        EXPIRE k 200 XX LT | :1
        TTL k | :200
        PERSIST k | :1
        EXPIRE k 100 XX LT | :0
        EXPIRE k 100 NX | :1
        EXPIRE none 100 NX | :0
        EXPIRE k 1 NX XX | -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE k 1 NX GT | -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE k 1 LT NX | -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE k 1 GT LT | -ERR GT and LT options at the same time are not compatible
        EXPIRE k 1 AB | -ERR Unsupported option AB
        EXPIRE k x AB | -ERR Unsupported option AB
        EXPIRE k x | -ERR value is not an integer or out of range
        EXPIRE k '' | -ERR value is not an integer or out of range
        EXPIRE k 9223372036854775807 | -ERR invalid expire time in 'expire' command
        EXPIRE k -9223372036854775808 | -ERR invalid expire time in 'expire' command
        PEXPIRE k 9223372036854775807 | -ERR invalid expire time in 'pexpire' command
        EXPIREAT k 9223372036854775807 | -ERR invalid expire time in 'expireat' command
        PEXPIREAT k 9223372036854775807 | :1
        PTTL k | :922337..
        EXPIRETIME k | :9223372036854775
        EXPIRE k | -ERR wrong number of arguments for 'expire' command
        ",
    );
}

#[test]
fn a_command_removes_the_row_of_an_expired_key() {
    for command in ["GET k | $-1", "EXISTS k | :0", "TTL k | :-2", "DEL k | :0", "APPEND k '' | :0"] {
        let mut rig = Rig::new();
        rig.play("SET k v PX 10000 | +OK\nSET stays v PX 20000 | +OK");
        rig.pass(10_001);
        rig.play(&format!("DBSIZE | :2\n{command}\nDEL k | :{}", i32::from(command.starts_with("APPEND"))));
        rig.play("DBSIZE | :1\nINFO keyspace | $44 # Keyspace db0:keys=1,expires=1,avg_ttl=0");
        rig.server.sweep().expect("no conflict");
        rig.play("DBSIZE | :1");
    }
}

#[test]
fn the_sweeper_removes_expired_keys_and_no_others() {
    let mut rig = Rig::new();
    // More keys than a step of the sweeper removes.
    for number in 0..1500 {
        rig.play(&format!("SET key:{number} v PX {} | +OK", if number % 3 == 0 { 900_000 } else { 60_000 }));
    }
    rig.play(
        "SET moved v PX 60000 | +OK\nPERSIST moved | :1\nSET late v PX 60000 | +OK\nEXPIRE late 900 | :1",
    );
    rig.pass(61_000);
    rig.play("DBSIZE | :1502");
    rig.server.sweep().expect("no conflict");
    rig.play("DBSIZE | :502\nEXISTS key:0 moved late key:1 | :3");
    rig.play("INFO keyspace | $48 # Keyspace db0:keys=502,expires=501,avg_ttl=0");
    rig.pass(900_000);
    rig.server.sweep().expect("no conflict");
    rig.play("DBSIZE | :1\nINFO keyspace | $44 # Keyspace db0:keys=1,expires=0,avg_ttl=0");
}
