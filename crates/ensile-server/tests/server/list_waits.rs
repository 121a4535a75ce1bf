//! Pops of lists that wait for items.

use ensile_net::simulation::ClientId;

use super::rig::{Rig, shown};

impl Rig {
    /// Sends a request that waits.
    fn wait_for(&mut self, client: ClientId, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.send(client, &words);
        self.steps(5);
        assert_eq!(self.received(client), None, "{line}: nothing is there yet");
    }

    /// The reply to a request that has waited.
    fn reply_of(&mut self, client: ClientId) -> Option<String> {
        self.steps(5);
        self.received(client).map(|reply| shown(&reply))
    }
}

#[test]
fn a_pop_takes_an_item_at_once_or_waits_for_one() {
    let mut rig = Rig::new();
    rig.play(
        r"
        RPUSH l a b c d e f | :6
        BLPOP none l 1 | *2 $1 l $1 a
        BRPOP l 0 | *2 $1 l $1 f
        BLMOVE l m RIGHT LEFT 0 | $1 e
        BRPOPLPUSH l m 0 | $1 d
        BLMPOP 0 2 none l LEFT COUNT 5 | *2 $1 l *2 $1 b $1 c
        LRANGE m 0 -1 | *2 $1 d $1 e
        BLPOP l x | -ERR timeout is not a float or out of range
        BLPOP l -1 | -ERR timeout is negative
        BLPOP l 1e30 | -ERR timeout is negative
        ",
    );
    let pops = [
        ("BLPOP none l 0", "*2 $1 l $1 a"),
        ("BRPOP l none 0", "*2 $1 l $1 b"),
        ("BLMOVE l m LEFT RIGHT 0", "$1 a"),
        ("BRPOPLPUSH l m 0", "$1 b"),
        ("BLMPOP 0 1 l RIGHT COUNT 5", "*2 $1 l *2 $1 b $1 a"),
    ];
    let (waiting, client) = (rig.connect(), rig.client);
    for (request, expected) in pops {
        rig.wait_for(waiting, request);
        assert_eq!(rig.ask(client, "RPUSH l a b"), ":2");
        assert_eq!(rig.reply_of(waiting).as_deref(), Some(expected), "{request}");
        rig.ask(client, "DEL l");
    }
}

#[test]
fn the_longest_waiting_clients_get_the_items_in_their_order() {
    let mut rig = Rig::new();
    let clients = [rig.connect(), rig.connect(), rig.connect()];
    for client in clients {
        rig.wait_for(client, "BLPOP l 0");
    }
    rig.play("RPUSH l a b | :2");
    assert_eq!(rig.reply_of(clients[0]).as_deref(), Some("*2 $1 l $1 a"));
    assert_eq!(rig.reply_of(clients[1]).as_deref(), Some("*2 $1 l $1 b"));
    assert_eq!(rig.reply_of(clients[2]), None, "no item is left");
    rig.play("RPUSH other c | :1\nRENAME other l | +OK");
    assert_eq!(rig.reply_of(clients[2]).as_deref(), Some("*2 $1 l $1 c"));
    rig.play("EXISTS l | :0");
}

#[test]
fn moves_of_items_wake_one_after_the_other() {
    let mut rig = Rig::new();
    let clients = [rig.connect(), rig.connect(), rig.connect()];
    rig.wait_for(clients[0], "BLMOVE a b LEFT LEFT 0");
    rig.wait_for(clients[1], "BLMOVE b c LEFT LEFT 0");
    rig.wait_for(clients[2], "BLPOP c 0");
    rig.play("RPUSH a item | :1");
    let replies = clients.map(|client| rig.reply_of(client));
    assert_eq!(
        replies.each_ref().map(Option::as_deref),
        [Some("$4 item"), Some("$4 item"), Some("*2 $1 c $4 item")]
    );
    rig.play("EXISTS a b c | :0");
}

#[test]
fn a_wait_ends_at_its_time() {
    let mut rig = Rig::new();
    let client = rig.connect();
    for (request, expected) in
        [("BLPOP l 0.5", "*-1"), ("BLMOVE l m LEFT LEFT 0.5", "*-1"), ("BLMPOP 0.5 1 l LEFT", "*-1")]
    {
        rig.wait_for(client, request);
        rig.pass(400);
        assert_eq!(rig.reply_of(client), None, "{request}");
        rig.pass(200);
        assert_eq!(rig.reply_of(client).as_deref(), Some(expected), "{request}");
    }
    rig.play("RPUSH l a | :1\nLLEN l | :1");
}

#[test]
fn a_queue_does_not_wait() {
    let mut rig = Rig::new();
    rig.play(
        r"
        MULTI | +OK
        BLPOP l 0 | +QUEUED
        BLMOVE l m LEFT LEFT 0 | +QUEUED
        BLMPOP 0 1 l LEFT | +QUEUED
        EXEC | *3 *-1 $-1 *-1
        ",
    );
}

#[test]
fn a_value_of_another_type_is_an_error_before_the_wait_only() {
    let mut rig = Rig::new();
    let client = rig.connect();
    const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    rig.play(&format!("SET s text | +OK\nBLPOP none s 0 | {WRONG}\nBLMOVE s l LEFT LEFT 0 | {WRONG}"));
    for request in ["BLPOP l 0", "BLMPOP 0 1 l LEFT", "BLMOVE l m LEFT LEFT 0"] {
        rig.wait_for(client, request);
        rig.play(
            "MULTI | +OK\nLPUSH l a | +QUEUED\nDEL l | +QUEUED\nSET l text | +QUEUED\nEXEC | *3 :1 :1 +OK",
        );
        assert_eq!(rig.reply_of(client), None, "{request}");
        rig.play("DEL l | :1\nLPUSH l b | :1");
        assert!(rig.reply_of(client).is_some_and(|reply| reply.ends_with("$1 b")), "{request}");
    }
    rig.wait_for(client, "BLMOVE l s LEFT LEFT 0");
    rig.play("LPUSH l a | :1");
    assert_eq!(rig.reply_of(client).as_deref(), Some(WRONG), "the list of the move is a string");
    rig.play("LLEN l | :1");
}
