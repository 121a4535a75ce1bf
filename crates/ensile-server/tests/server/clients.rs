//! `CLIENT`: lists of clients, ends of connections, silent replies.

use super::rig::{Rig, shown};
use super::threads::{Connection, running};

#[test]
fn a_list_has_the_clients_and_their_state() {
    let mut rig = Rig::new();
    let (listener, queueing) = (rig.connect(), rig.connect());
    rig.play("CLIENT SETNAME me | +OK\nSELECT 3 | +OK");
    rig.play_as(listener, "SUBSCRIBE a | *3..");
    rig.play_as(queueing, "MULTI | +OK\nGET k | +QUEUED");
    let list = rig.ask(rig.client, "CLIENT LIST");
    let lines: Vec<&str> = list.split("id=").skip(1).collect();
    assert_eq!(lines.len(), 3, "{list}");
    for (line, parts) in lines.iter().zip([
        ["1 addr=127.0.0.1:40000 laddr=127.0.0.1:1 name=me ", "flags=N db=3", "multi=-1"],
        ["2 addr=127.0.0.1:40001 laddr=127.0.0.1:1 name= ", "flags=P db=0", "sub=1 psub=0"],
        ["3 addr=127.0.0.1:40002 laddr=127.0.0.1:1 name= ", "flags=x db=0", "multi=1"],
    ]) {
        assert!(line.starts_with(parts[0]) && parts.iter().all(|part| line.contains(part)), "{line}");
    }
    for (request, numbers) in [
        ("CLIENT LIST TYPE pubsub", vec!["2"]),
        ("CLIENT LIST TYPE master", vec![]),
        ("CLIENT LIST ID 3 1 99", vec!["1", "3"]),
        ("CLIENT INFO", vec!["1"]),
    ] {
        let list = rig.ask(rig.client, request);
        let told: Vec<&str> = list.split("id=").skip(1).filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(told, numbers, "{request}: {list}");
    }
    rig.play(
        r"
        CLIENT LIST TYPE x | -ERR Unknown client type 'x'
        CLIENT LIST ID x | -ERR Invalid client ID
        CLIENT LIST ID | -ERR syntax error
        CLIENT LIST x y | -ERR syntax error
        MULTI | +OK
        CLIENT LIST | +QUEUED
        EXEC | *1 -ERR CLIENT LIST is not available within MULTI
        ",
    );
}

#[test]
fn kill_ends_the_named_connections_only() {
    let mut rig = Rig::new();
    let (other, listener) = (rig.connect(), rig.connect());
    rig.play_as(other, "PING | +PONG");
    rig.play_as(listener, "SUBSCRIBE a | *3..");
    rig.play(
        r"
        CLIENT KILL ID 0 | -ERR client-id should be greater than 0
        CLIENT KILL USER none | -ERR No such user 'none'
        CLIENT KILL ID 99 | :0
        CLIENT KILL ID 1 | :0
        CLIENT KILL SKIPME x | -ERR syntax error
        CLIENT KILL ADDR 127.0.0.1:1 | :0
        CLIENT KILL LADDR 127.0.0.1:2 | :0
        CLIENT KILL 127.0.0.1:1 | -ERR No such client
        CLIENT KILL TYPE pubsub | :1
        ",
    );
    rig.steps(5);
    assert!(rig.clients().has_closed(listener) && !rig.clients().has_closed(other));
    rig.play("PUBLISH a x | :0\nCLIENT KILL USER default | :1");
    rig.steps(5);
    assert!(rig.clients().has_closed(other));
    let own = rig.client;
    rig.play("CLIENT KILL ID 1 SKIPME no | :1");
    rig.clients().end(own);
    rig.steps(20);
    assert!(rig.clients().has_closed(own), "behind its reply");
}

#[test]
fn kill_finds_clients_by_their_addresses() {
    let mut rig = Rig::new();
    let (first, second, third) = (rig.connect(), rig.connect(), rig.connect());
    for client in [first, second, third] {
        rig.play_as(client, "PING | +PONG");
    }
    rig.play("CLIENT KILL 127.0.0.1:40001 | +OK\nCLIENT KILL ADDR 127.0.0.1:40002 | :1");
    rig.steps(5);
    assert!(rig.clients().has_closed(first) && rig.clients().has_closed(second));
    assert!(!rig.clients().has_closed(third));
    rig.play("CLIENT KILL LADDR 127.0.0.1:1 | :1\nCLIENT KILL 127.0.0.1:40000 | +OK");
    let own = rig.client;
    rig.clients().end(own);
    rig.steps(20);
    assert!(rig.clients().has_closed(third), "the address of the server");
    assert!(rig.clients().has_closed(own), "the old form ends the asking client behind its reply");
}

#[test]
fn silent_replies_are_left_out_and_requests_are_carried_out() {
    let mut rig = Rig::new();
    let (client, other) = (rig.client, rig.connect());
    for request in ["CLIENT REPLY OFF", "SET a 1", "GET", "CLIENT REPLY SKIP", "GET a"] {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        rig.send(client, &words);
    }
    rig.steps(20);
    assert_eq!(rig.received(client), None);
    rig.play("CLIENT REPLY ON | +OK\nGET a | $1 1");
    for request in ["CLIENT REPLY SKIP", "SET a 2", "GET a"] {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        rig.send(client, &words);
    }
    rig.steps(20);
    assert_eq!(rig.received(client).as_deref().map(shown).as_deref(), Some("$1 2"));
    assert_eq!(rig.received(client), None);
    rig.play_as(other, "GET a | $1 2\nCLIENT REPLY x | -ERR syntax error");
}

#[test]
fn a_list_has_the_clients_of_all_loops() {
    let server = running();
    let mut clients: Vec<Connection> = (0..8).map(|_| Connection::open(server.address())).collect();
    for client in &mut clients {
        assert_eq!(shown(&client.ask(&["PING"])), "+PONG");
    }
    let list = shown(&clients[0].ask(&["CLIENT", "LIST"]));
    assert_eq!(list.matches("id=").count(), clients.len(), "{list}");
    let killed = shown(&clients[0].ask(&["CLIENT", "KILL", "TYPE", "normal"]));
    assert_eq!(killed, ":7");
    server.stop().expect("a server without a log");
}

#[test]
fn missing_subcommands_are_refused_by_name() {
    Rig::new().play(
        r"
        CLIENT NO-TOUCH on | +OK
        CLIENT NO-TOUCH x | -ERR syntax error
        CLIENT GETREDIR | :-1
        CLIENT PAUSE 10 | -ERR CLIENT PAUSE is not available in this version of ensile
        CLIENT UNPAUSE | -ERR CLIENT UNPAUSE is not available in this version of ensile
        CLIENT NO-EVICT on | -ERR CLIENT NO-EVICT is not available in this version of ensile
        CLIENT TRACKING on | -ERR CLIENT TRACKING is not available in this version of ensile
        CLIENT FOO | -ERR unknown subcommand 'FOO'. Try CLIENT HELP.
        ",
    );
}

#[test]
fn a_client_of_long_replies_leaves_other_clients_their_turns() {
    const REQUESTS: usize = 8;
    let mut rig = Rig::new();
    let (client, other) = (rig.client, rig.connect());
    let value = vec![b'x'; 512 << 10];
    rig.ask_bytes(other, &[b"SET", b"long", &value]);
    for round in 0..50 {
        let requests = b"GET long\r\n".repeat(REQUESTS);
        rig.clients().send(client, &requests);
        let told = rig.ask(other, "INFO commandstats");
        let calls = told.split_once("cmdstat_get:calls=").map_or("0", |(_, rest)| rest);
        let calls: usize = calls.split(',').next().and_then(|digits| digits.parse().ok()).expect("a number");
        for _ in 0..REQUESTS {
            while rig.received(client).is_none() {
                rig.step();
            }
        }
        if (1..REQUESTS).contains(&calls.saturating_sub(round * REQUESTS)) {
            return;
        }
    }
    panic!("the other client always waits for all replies");
}
