//! Other clients of a loop during a long script: `BUSY`, and the commands that are permitted.

use std::time::Duration;

use ensile_net::simulation::ClientId;

use super::rig::{Rig, shown};

/// A script of some hundred looks at its limits. Each look has the loop serve others.
const LONG: &str = "redis.call('SET', 'a', 'x') for i = 1, 3000000 do end return 1";

const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// Number of rounds after which a request has come during a script. Sockets deliver late.
const ROUNDS_MAX: usize = 50;

/// A server whose scripts are long from their first look on.
fn rig() -> Rig {
    Rig::with(|builder| builder.busy_reply_threshold(Duration::ZERO))
}

fn send(rig: &mut Rig, client: ClientId, line: &str) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    rig.send(client, &words);
}

/// The next reply to a client.
fn reply(rig: &mut Rig, client: ClientId) -> String {
    for _ in 0..1000 {
        if let Some(reply) = rig.received(client) {
            return shown(&reply);
        }
        rig.step();
    }
    panic!("no reply");
}

/// Sends a request beside a long script until it comes during the script. Returns its reply, and the reply to the
/// script.
fn ask_during_script(rig: &mut Rig, other: ClientId, line: &str, is_during: fn(&str) -> bool) -> [String; 2] {
    let client = rig.client;
    for _ in 0..ROUNDS_MAX {
        rig.send(client, &[b"EVAL", LONG.as_bytes(), b"0"]);
        send(rig, other, line);
        let told = reply(rig, other);
        let of_script = reply(rig, client);
        if is_during(&told) {
            return [told, of_script];
        }
    }
    panic!("no {line} has come during a script");
}

fn is_busy(reply: &str) -> bool {
    reply.contains("BUSY")
}

#[test]
fn during_a_long_script_other_clients_get_busy() {
    let mut rig = rig();
    let other = rig.connect();
    let busy = format!("-{BUSY}");
    let get = ask_during_script(&mut rig, other, "GET a", is_busy);
    assert_eq!(get, [busy.as_str(), ":1"]);
    // Redis' order of checks.
    rig.play_as(other, "MULTI | +OK");
    assert_eq!(ask_during_script(&mut rig, other, "INCR n", is_busy)[0], busy);
    rig.play_as(other, "EXEC | -EXECABORT Transaction discarded because of previous errors.");
    rig.play_as(other, "MULTI | +OK\nINCR n | +QUEUED");
    let told = ask_during_script(&mut rig, other, "EXEC", is_busy);
    assert_eq!(told[0], format!("-EXECABORT Transaction discarded because of: {BUSY}"));
    rig.play_as(other, "EXEC | -ERR EXEC without MULTI\nGET n | $-1\nGET a | $1 x");
}

#[test]
fn a_killed_script_has_no_effect_although_it_has_written() {
    let mut rig = rig();
    let other = rig.connect();
    rig.play_as(other, "SCRIPT KILL | -NOTBUSY No scripts in execution right now.");
    let told = ask_during_script(&mut rig, other, "SCRIPT KILL", |reply| reply == "+OK");
    assert!(told[1].starts_with("-ERR Script killed by user with SCRIPT KILL..."), "{told:?}");
    rig.play_as(other, "DEL a | ..");
    let told = ask_during_script(&mut rig, other, "SCRIPT KILL", |reply| reply == "+OK");
    assert!(told[1].starts_with("-ERR Script killed"), "{told:?}");
    rig.play_as(other, "GET a | $-1");
}

#[test]
fn w19_the_connection_of_a_script_stays_untouched_although_its_client_has_ended() {
    let mut rig = rig();
    // In some round the end is read together with the requests.
    for _ in 0..ROUNDS_MAX {
        let client = rig.connect();
        send(&mut rig, client, "SET b 1");
        rig.send(client, &[b"EVAL", LONG.as_bytes(), b"0"]);
        send(&mut rig, client, "GET b");
        rig.clients().end(client);
        let replies: Vec<String> = (0..3).map(|_| reply(&mut rig, client)).collect();
        assert_eq!(replies, ["+OK", ":1", "$1 1"], "W19");
    }
}

#[test]
fn w19_a_listener_that_ends_during_a_script_is_forgotten_behind_it() {
    let mut rig = rig();
    let client = rig.client;
    for _ in 0..ROUNDS_MAX {
        let listener = rig.connect();
        rig.play_as(listener, "SUBSCRIBE news | *3 $9 subscribe $4 news :1");
        rig.send(client, &[b"EVAL", LONG.as_bytes(), b"0"]);
        rig.clients().vanish(listener);
        assert_eq!(reply(&mut rig, client), ":1");
        rig.steps(20);
        rig.play("PUBLISH news x | :0");
    }
}

#[test]
fn w19_scripts_of_one_queue_have_the_time_until_busy_together() {
    // A script takes 3 ms by its looks.
    let mut rig = Rig::with(|builder| builder.busy_reply_threshold(Duration::from_millis(5)));
    let (client, other) = (rig.client, rig.connect());
    for _ in 0..ROUNDS_MAX {
        rig.play("MULTI | +OK");
        for _ in 0..3 {
            assert_eq!(shown(&rig.ask_bytes(client, &[b"EVAL", LONG.as_bytes(), b"0"])), "+QUEUED");
        }
        rig.send(client, &[b"EXEC"]);
        send(&mut rig, other, "GET a");
        let told = reply(&mut rig, other);
        assert_eq!(reply(&mut rig, client), "*3 :1 :1 :1");
        if is_busy(&told) {
            return;
        }
    }
    panic!("no request has come during the second or third script");
}

#[test]
fn a_watch_during_a_script_waits_for_the_end_of_the_script() {
    let mut rig = rig();
    let (client, other) = (rig.client, rig.connect());
    for _ in 0..ROUNDS_MAX {
        rig.send(client, &[b"EVAL", LONG.as_bytes(), b"0"]);
        send(&mut rig, other, "WATCH a");
        assert_eq!([reply(&mut rig, other), reply(&mut rig, client)], ["+OK", ":1"]);
        rig.play_as(other, "UNWATCH | +OK");
    }
}

#[test]
fn a_shutdown_without_saving_ends_a_long_script() {
    let mut rig = rig();
    let (client, other) = (rig.client, rig.connect());
    let told = ask_during_script(&mut rig, other, "SHUTDOWN SAVE NOW BUSY", |_| true);
    assert!(told[0].starts_with("-ERR SHUTDOWN takes no such argument") || told[0] == format!("-{BUSY}"));
    rig.send(client, &[b"EVAL", LONG.as_bytes(), b"0"]);
    send(&mut rig, other, "SHUTDOWN NOSAVE");
    let ends = (0..1000).any(|_| !rig.server.step());
    assert!(ends, "the server ends");
}
