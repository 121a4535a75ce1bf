//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.

use super::rig::Rig;

#[test]
fn a_queue_is_carried_out_as_one() {
    let mut rig = Rig::new();
    let other = rig.connect();
    rig.play(
        r"
        MULTI | +OK
        MULTI | -ERR MULTI calls can not be nested
        SET a 1 | +QUEUED
        INCR a | +QUEUED
        GET a | +QUEUED
        ",
    );
    rig.play_as(other, "GET a | $-1");
    rig.play(
        r"
        EXEC | *3 +OK :2 $1 2
        EXEC | -ERR EXEC without MULTI
        DISCARD | -ERR DISCARD without MULTI
        MULTI | +OK
        EXEC | *0
        MULTI | +OK
        SET a 9 | +QUEUED
        DISCARD | +OK
        GET a | $1 2
        ",
    );
}

#[test]
fn errors_while_queueing_abort_the_transaction() {
    let mut rig = Rig::new();
    for (wrong, error) in [
        ("NONE x", "-ERR unknown command 'NONE', with args beginning with: 'x'"),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("OBJECT FOO k", "-ERR unknown subcommand 'FOO'. Try OBJECT HELP."),
        ("CONFIG FOO", "-ERR unknown subcommand 'FOO'. Try CONFIG HELP."),
        ("CONFIG SET x", "-ERR wrong number of arguments for 'config|set' command"),
        ("SHUTDOWN", "-ERR Command not allowed inside a transaction"),
        ("BGREWRITEAOF", "-ERR Command not allowed inside a transaction"),
        ("SAVE", "-ERR Command not allowed inside a transaction"),
        ("MONITOR", "-ERR Command not allowed inside a transaction"),
    ] {
        rig.play(&format!("MULTI | +OK\nSET a 1 | +QUEUED\n{wrong} | {error}\nSET b 1 | +QUEUED"));
        rig.play("EXEC | -EXECABORT Transaction discarded because of previous errors.\nEXISTS a b | :0");
    }
    rig.play("MULTI | +OK\nSET a 1 | +QUEUED\nEXEC | *1 +OK");
}

#[test]
fn an_error_within_exec_keeps_the_other_writes() {
    let mut rig = Rig::new();
    rig.play(
        r"
        SET text x | +OK
        MULTI | +OK
        SET a 1 | +QUEUED
        INCR text | +QUEUED
        RENAME none b | +QUEUED
        SET b 2 | +QUEUED
        EXEC | *4 +OK -ERR value is not an integer or out of range -ERR no such key +OK
        MGET a b | *2 $1 1 $1 2
        ",
    );
}

#[test]
fn an_error_rolls_everything_back_if_the_server_says_so() {
    let mut rig = Rig::with(|builder| builder.multi_rollback(true));
    rig.play(
        r"
        SET text x | +OK
        MULTI | +OK
        SELECT 3 | +QUEUED
        SET a 1 | +QUEUED
        SELECT 0 | +QUEUED
        INCR text | +QUEUED
        SELECT 5 | +QUEUED
        EXEC | -EXECABORT Transaction rolled back..
        GET text | $1 x
        SELECT 3 | +OK
        EXISTS a | :0
        SELECT 0 | +OK
        MULTI | +OK
        SET a 1 | +QUEUED
        EXEC | *1 +OK
        CONFIG SET multi-rollback no | +OK
        MULTI | +OK
        SET a 2 | +QUEUED
        INCR text | +QUEUED
        EXEC | *2 +OK -ERR value is not an integer or out of range
        GET a | $1 2
        ",
    );
}

#[test]
fn a_watched_key_that_changes_makes_exec_reply_nil() {
    for change in [
        "SET k 2 | +OK",
        "SET k 1 | +OK",
        "APPEND k x | :2",
        "DEL k | :1",
        "EXPIRE k 100 | :1",
        "RENAME k l | +OK",
        "RENAME other k | +OK",
        "COPY other k REPLACE | :1",
        "MOVE k 1 | :1",
        "GETEX k EX 100 | $1 1",
        "FLUSHDB | +OK",
        "FLUSHALL | +OK",
        "SWAPDB 0 1 | +OK",
    ] {
        let mut rig = Rig::new();
        let other = rig.connect();
        rig.play("MSET k 1 other 1 | +OK\nWATCH other k | +OK");
        rig.play_as(other, change);
        rig.play("MULTI | +OK\nSET out 1 | +QUEUED\nSELECT 7 | +QUEUED\nCLIENT SETNAME me | +QUEUED");
        rig.play("EXEC | *-1\nCLIENT GETNAME | $-1\nEXISTS out | :0");
        // The watch is over.
        rig.play("MULTI | +OK\nSET out 1 | +QUEUED\nEXEC | *1 +OK\nEXISTS out | :1");
    }
}

#[test]
fn a_watched_key_that_stays_lets_exec_go() {
    for change in [
        "SET another 2 | +OK",
        "GET k | $1 1",
        "TTL k | :-1",
        "PERSIST k | :0",
        "EXPIRE none 100 | :0",
        "SETNX k 2 | :0",
        "COPY k other | :0",
        "SCAN 0 | *2..",
        "EXPIRE k 100 XX | :0",
    ] {
        let mut rig = Rig::new();
        let other = rig.connect();
        rig.play("MSET k 1 other 1 | +OK\nWATCH k | +OK");
        rig.play_as(other, change);
        rig.play("MULTI | +OK\nINCR k | +QUEUED\nEXEC | *1 :2");
    }
}

#[test]
fn an_absent_key_is_watched_too() {
    let mut rig = Rig::new();
    let other = rig.connect();
    rig.play("WATCH none | +OK");
    rig.play_as(other, "SET none 1 | +OK");
    rig.play("MULTI | +OK\nPING | +QUEUED\nEXEC | *-1");
    // The flush of an empty database changes nothing.
    rig.play("SELECT 1 | +OK\nWATCH none | +OK\nFLUSHDB | +OK\nMULTI | +OK\nPING | +QUEUED\nEXEC | *1 +PONG");
}

#[test]
fn a_watched_key_that_expires_makes_exec_reply_nil() {
    let mut rig = Rig::new();
    rig.play("SET k 1 PX 10000 | +OK\nSET l 1 PX 20000 | +OK\nWATCH l | +OK\nWATCH k | +OK");
    rig.pass(10_001);
    rig.play("MULTI | +OK\nPING | +QUEUED\nEXEC | *-1");
    rig.play("WATCH k l | +OK\nMULTI | +OK\nPING | +QUEUED\nEXEC | *1 +PONG");
    rig.play("WATCH l | +OK\nMULTI | +OK\nPING | +QUEUED");
    rig.pass(10_001);
    rig.play("EXEC | *-1");
}

#[test]
fn a_watch_ends_with_exec_discard_unwatch_and_reset() {
    let mut rig = Rig::new();
    let other = rig.connect();
    for end in ["UNWATCH | +OK", "MULTI | +OK\nDISCARD | +OK", "MULTI | +OK\nEXEC | *0", "RESET | +RESET"] {
        rig.play("SET k 1 | +OK\nWATCH k | +OK");
        rig.play(end);
        rig.play_as(other, "SET k 2 | +OK");
        rig.play("MULTI | +OK\nPING | +QUEUED\nEXEC | *1 +PONG");
    }
    rig.play(
        r"
        UNWATCH | +OK
        MULTI | +OK
        WATCH k | -ERR WATCH inside MULTI is not allowed
        UNWATCH | +QUEUED
        EXEC | *1 +OK
        WATCH | -ERR wrong number of arguments for 'watch' command
        ",
    );
    // An aborted queue ends the watch too.
    rig.play("WATCH k | +OK\nMULTI | +OK\nNONE | -ERR..\nEXEC | -EXECABORT..");
    rig.play_as(other, "SET k 3 | +OK");
    rig.play("MULTI | +OK\nPING | +QUEUED\nEXEC | *1 +PONG");
}

#[test]
fn a_watched_key_belongs_to_its_database() {
    let mut rig = Rig::new();
    let other = rig.connect();
    rig.play("SELECT 5 | +OK\nSET k 1 | +OK\nWATCH k | +OK\nSELECT 1 | +OK");
    rig.play_as(other, "SELECT 1 | +OK\nSET k 9 | +OK");
    rig.play("MULTI | +OK\nPING | +QUEUED\nEXEC | *1 +PONG");
    rig.play("SELECT 5 | +OK\nWATCH k | +OK\nSELECT 1 | +OK");
    rig.play_as(other, "SELECT 5 | +OK\nSET k 9 | +OK");
    rig.play("MULTI | +OK\nPING | +QUEUED\nEXEC | *-1");
}

#[test]
fn a_queued_select_holds_from_its_place_on() {
    let mut rig = Rig::new();
    rig.play(
        r"
        MULTI | +OK
        SET a zero | +QUEUED
        SELECT 3 | +QUEUED
        SET a three | +QUEUED
        SELECT 99 | +QUEUED
        GET a | +QUEUED
        EXEC | *5 +OK +OK +OK -ERR DB index is out of range: the last database is 15 $5 three
        GET a | $5 three
        SELECT 0 | +OK
        GET a | $4 zero
        ",
    );
}

#[test]
fn conflicts_are_counted() {
    let mut rig = Rig::new();
    let other = rig.connect();
    rig.play("WATCH k | +OK");
    rig.play_as(other, "SET k 1 | +OK");
    rig.play("MULTI | +OK\nEXEC | *-1");
    let text = rig.ask(rig.client, "INFO stats");
    assert!(text.contains("watch_conflicts:1") && text.contains("watch_expired:0"), "{text}");
}

#[test]
fn an_expired_key_is_watched_as_an_absent_key() {
    let mut rig = Rig::new();
    rig.play("SET k 1 PX 10000 | +OK");
    rig.pass(10_001);
    rig.play("WATCH k | +OK");
    rig.server.sweep().expect("no conflict");
    rig.play("MULTI | +OK\nGET k | +QUEUED\nEXEC | *1 $-1");
}

#[test]
fn a_client_watches_a_bounded_number_of_keys() {
    let mut rig = Rig::new();
    let keys: Vec<String> = (0..1000).map(|number| format!("key:{number}")).collect();
    let words: Vec<&[u8]> =
        ["WATCH"].into_iter().chain(keys.iter().map(String::as_str)).map(str::as_bytes).collect();
    for _ in 0..65 {
        assert_eq!(rig.ask_bytes(rig.client, &words), b"+OK\r\n");
    }
    let text = rig.ask(rig.client, "INFO clients");
    let figure = |text: &str| -> Option<u64> {
        text.split(' ').find_map(|word| word.strip_prefix("client_memory_bytes:"))?.parse().ok()
    };
    assert!(figure(&text).expect("a figure") > 65_000 * 64, "{text}");
    rig.play("WATCH last | +OK");
    let refused = rig.ask_bytes(rig.client, &words);
    assert!(refused.starts_with(b"-ERR WATCH of too many keys: 65536 keys"), "{refused:?}");
    // The watched keys stay watched.
    let other = rig.connect();
    rig.play_as(other, "SET last 1 | +OK");
    rig.play("MULTI | +OK\nEXEC | *-1");
    let long = vec![b'k'; 1 << 14];
    let words = [&b"WATCH"[..]].into_iter().chain(vec![&long[..]; 65]).collect::<Vec<_>>();
    let refused = rig.ask_bytes(rig.client, &words);
    assert!(refused.starts_with(b"-ERR WATCH of too many keys"), "{refused:?}");
}

#[test]
fn a_queue_reads_a_bounded_number_of_bytes() {
    let mut rig = Rig::new();
    let value = vec![b'v'; 1 << 19];
    assert_eq!(rig.ask_bytes(rig.client, &[b"SET", b"k", &value]), b"+OK\r\n");
    for (reads, is_refused) in [(512, false), (513, true)] {
        rig.play("MULTI | +OK\nINCR n | +QUEUED");
        (0..reads).for_each(|_| rig.play("GETRANGE k 0 0 | +QUEUED\nSTRLEN k | +QUEUED"));
        let reply = rig.ask(rig.client, "EXEC");
        assert_eq!(
            reply.starts_with("-ERR the transaction's sum of read values"),
            is_refused,
            "{reply:.100}"
        );
    }
    rig.play("GET n | $1 1");
}
