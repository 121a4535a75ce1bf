//! `SUBSCRIBE` and its like, `PUBLISH`, `PUBSUB`: replies, messages, their order and their moment.

use ensile_net::simulation::ClientId;
use ensile_sim::SimDisk;

use super::rig::{Rig, shown};
use super::set_aside::OthersTurn;

/// The next message or reply of a client, on a line; empty without one.
fn next(rig: &mut Rig, client: ClientId) -> String {
    rig.steps(4);
    rig.received(client).map(|bytes| shown(&bytes)).unwrap_or_default()
}

#[test]
fn listeners_get_messages_in_their_version_of_the_protocol() {
    let mut rig = Rig::new();
    let (second, third, publisher) = (rig.connect(), rig.connect(), rig.connect());
    rig.play_as(third, "HELLO 3 | %7..");
    rig.play_as(
        second,
        "SUBSCRIBE a | *3 $9 subscribe $1 a :1\nPSUBSCRIBE [ab]* | *3 $10 psubscribe $5 [ab]* :2",
    );
    rig.play_as(third, "SUBSCRIBE a | >3 $9 subscribe $1 a :1\nSSUBSCRIBE a | >3 $10 ssubscribe $1 a :1");
    rig.play_as(
        publisher,
        "PUBLISH a one | :3\nPUBLISH b two | :1\nPUBLISH c three | :0\nSPUBLISH a four | :1",
    );
    assert_eq!(next(&mut rig, second), "*3 $7 message $1 a $3 one");
    assert_eq!(next(&mut rig, second), "*4 $8 pmessage $5 [ab]* $1 a $3 one");
    assert_eq!(next(&mut rig, second), "*4 $8 pmessage $5 [ab]* $1 b $3 two");
    assert_eq!(next(&mut rig, second), "");
    assert_eq!(next(&mut rig, third), ">3 $7 message $1 a $3 one");
    assert_eq!(next(&mut rig, third), ">3 $8 smessage $1 a $4 four");
    assert_eq!(next(&mut rig, third), "");
    // Version 3 has all commands beside the messages.
    rig.play_as(third, "GET k | _\nPUBLISH b x | :1\nUNSUBSCRIBE | >3 $11 unsubscribe $1 a :0");
    rig.play_as(publisher, "PUBLISH a x | :2\nSPUBLISH a x | :1");
}

#[test]
fn one_request_has_a_reply_for_each_name() {
    let mut rig = Rig::new();
    let client = rig.client;
    rig.play("SUBSCRIBE a b a | *3 $9 subscribe $1 a :1");
    assert_eq!(next(&mut rig, client), "*3 $9 subscribe $1 b :2");
    assert_eq!(next(&mut rig, client), "*3 $9 subscribe $1 a :2");
    rig.play("UNSUBSCRIBE none | *3 $11 unsubscribe $4 none :2\nUNSUBSCRIBE | *3 $11 unsubscribe $1 a :1");
    assert_eq!(next(&mut rig, client), "*3 $11 unsubscribe $1 b :0");
    rig.play("UNSUBSCRIBE | *3 $11 unsubscribe $-1 :0\nGET k | $-1");
}

#[test]
fn a_listener_in_version_2_has_few_commands() {
    let mut rig = Rig::new();
    rig.play(
        r"
        PING | +PONG
        PSUBSCRIBE a* | *3 $10 psubscribe $2 a* :1
        GET k | -ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
        CONFIG GET x | -ERR Can't execute 'config|get': only..
        MULTI | -ERR Can't execute 'multi': only..
        HELLO 3 | -ERR Can't execute 'hello': only..
        NONE | -ERR unknown command 'NONE'..
        GET | -ERR wrong number of arguments for 'get' command
        PING | *2 $4 pong $0
        PING x | *2 $4 pong $1 x
        PING x y | -ERR wrong number of arguments for 'ping' command
        RESET | +RESET
        PING | +PONG
        PUBLISH abc x | :0
        SET k v | +OK
        ",
    );
}

#[test]
fn subscriptions_end_with_reset_and_with_the_connection() {
    let mut rig = Rig::new();
    let (first, second) = (rig.connect(), rig.connect());
    rig.play_as(first, "SUBSCRIBE c | *3..\nPSUBSCRIBE * | *3..");
    rig.play_as(second, "SUBSCRIBE c | *3..\nSSUBSCRIBE s | *3..");
    rig.play("PUBLISH c 1 | :3\nPUBSUB NUMPAT | :1\nPUBSUB SHARDCHANNELS | *1 $1 s");
    rig.play_as(first, "RESET | *3 $7 message..");
    rig.steps(4);
    rig.clients().vanish(second);
    rig.steps(4);
    rig.play("PUBLISH c 1 | :0\nPUBSUB CHANNELS | *0\nPUBSUB NUMPAT | :0\nPUBSUB SHARDCHANNELS | *0");
    let text = rig.ask(rig.client, "INFO stats");
    assert!(text.contains("pubsub_channels:0 pubsub_patterns:0 pubsubshard_channels:0"), "{text}");
}

#[test]
fn pubsub_tells_channels_and_listeners() {
    let mut rig = Rig::new();
    let (first, second) = (rig.connect(), rig.connect());
    rig.play_as(first, "SUBSCRIBE news | *3..\nSUBSCRIBE sport | *3..\nSSUBSCRIBE s | *3..");
    rig.play_as(second, "SUBSCRIBE news | *3..\nPSUBSCRIBE n* | *3..\nPSUBSCRIBE m* | *3..");
    rig.play(
        r"
        PUBSUB CHANNELS | *2 $4 news $5 sport
        PUBSUB CHANNELS n* | *1 $4 news
        PUBSUB CHANNELS a b | -ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.
        PUBSUB NUMSUB | *0
        PUBSUB NUMSUB news none | *4 $4 news :2 $4 none :0
        PUBSUB NUMPAT | :2
        PUBSUB SHARDNUMSUB s news | *4 $1 s :1 $4 news :0
        PUBSUB FOO | -ERR unknown subcommand 'FOO'. Try PUBSUB HELP.
        MULTI | +OK
        SUBSCRIBE a | -ERR Command not allowed inside a transaction
        EXEC | -EXECABORT..
        ",
    );
}

#[test]
fn j1_a_message_of_exec_is_sent_once_behind_the_commit() {
    let mut rig = Rig::new();
    let (listener, publisher) = (rig.connect(), rig.client);
    rig.play_as(listener, "SUBSCRIBE c | *3..");
    rig.play("MULTI | +OK\nPUBLISH c one | +QUEUED\nINCR n | +QUEUED\nPUBLISH c two | +QUEUED");
    assert_eq!(next(&mut rig, listener), "", "nothing is carried out yet");
    let turn = OthersTurn::begin(rig.server.database());
    rig.send(publisher, &[b"EXEC"]);
    rig.steps(20);
    assert_eq!(next(&mut rig, listener), "", "the queue has run, and has not committed");
    drop(turn);
    rig.steps(20);
    assert_eq!(next(&mut rig, publisher), "*3 :1 :1 :1");
    assert_eq!(next(&mut rig, listener), "*3 $7 message $1 c $3 one");
    assert_eq!(next(&mut rig, listener), "*3 $7 message $1 c $3 two");
    assert_eq!(next(&mut rig, listener), "", "J1: each message once");
}

#[test]
fn j1_a_transaction_without_effect_sends_no_message() {
    let mut rig = Rig::with(|builder| builder.multi_rollback(true));
    let (listener, other) = (rig.connect(), rig.connect());
    rig.play_as(listener, "SUBSCRIBE c | *3..");
    rig.play(
        "SET text x | +OK\nMULTI | +OK\nPUBLISH c 1 | +QUEUED\nINCR text | +QUEUED\nEXEC | -EXECABORT..",
    );
    rig.play("WATCH k | +OK\nMULTI | +OK\nPUBLISH c 2 | +QUEUED");
    rig.play_as(other, "SET k 1 | +OK");
    rig.play("EXEC | *-1\nMULTI | +OK\nPUBLISH c 3 | +QUEUED\nDISCARD | +OK\nPUBLISH c 4 | :1");
    assert_eq!(next(&mut rig, listener), "*3 $7 message $1 c $1 4");
}

#[test]
fn r1_a_message_waits_for_the_publishers_earlier_writes() {
    let mut rig = Rig::on(&SimDisk::new(), |builder| builder);
    let (listener, publisher) = (rig.connect(), rig.connect());
    rig.play_as(listener, "SUBSCRIBE c | *3..");
    rig.play("SET k old | +OK");
    rig.syncs = false;
    rig.play("PUBLISH c free | :1");
    assert_eq!(
        next(&mut rig, listener),
        "*3 $7 message $1 c $4 free",
        "the publisher has written nothing since"
    );
    rig.send(publisher, &[b"SET", b"k", b"new"]);
    rig.send(publisher, &[b"PUBLISH", b"c", b"changed"]);
    rig.steps(50);
    assert_eq!(next(&mut rig, listener), "", "the write is not durable");
    // Replies of the listener come behind the message, as they would in redis.
    rig.send(listener, &[b"PING"]);
    assert_eq!(next(&mut rig, listener), "");
    rig.syncs = true;
    rig.steps(200);
    assert_eq!(next(&mut rig, listener), "*3 $7 message $1 c $7 changed");
    assert_eq!(next(&mut rig, listener), "*2 $4 pong $0");
    assert_eq!((next(&mut rig, publisher), next(&mut rig, publisher)), ("+OK".to_owned(), ":1".to_owned()));
}

#[test]
fn j4_a_publisher_that_outruns_its_listeners_waits_and_no_message_is_lost() {
    const MESSAGES: usize = 60;
    const SCRIPT: &[u8] = b"return redis.call('PUBLISH', 'c', string.rep('x', 1048576))";
    let mut rig = Rig::new();
    let publisher = rig.client;
    let listener = rig.clients().connect(1 << 26, 1 << 26);
    rig.play_as(listener, "SUBSCRIBE c | *3..");
    for _ in 0..MESSAGES {
        rig.send(publisher, &[b"EVAL", SCRIPT, b"0"]);
    }
    let mut received = 0;
    for _ in 0..2000 {
        rig.step();
        while rig.received(listener).is_some() {
            received += 1;
        }
    }
    assert_eq!(received, MESSAGES, "J4: each message once");
    for _ in 0..MESSAGES {
        assert_eq!(rig.received(publisher).map(|reply| shown(&reply)).as_deref(), Some(":1"));
    }
    let other = rig.connect();
    let told = rig.ask(other, "INFO stats");
    assert!(told.contains("slow_subscribers:0") && told.contains("pubsub_waiting_bytes:0"), "{told}");
    assert!(!told.contains("pubsub_waits:0"), "J4: the publisher has waited: {told}");
}

#[test]
fn messages_that_wait_for_the_disk_are_no_sign_of_a_slow_listener() {
    let mut rig = Rig::on(&SimDisk::new(), |builder| builder);
    let publisher = rig.client;
    let listener = rig.clients().connect(1 << 26, 1 << 26);
    rig.play_as(listener, "SUBSCRIBE c | *3..");
    rig.syncs = false;
    rig.send(publisher, &[b"SET", b"k", b"v"]);
    let text = vec![b'x'; 8 << 20];
    for _ in 0..5 {
        rig.send(publisher, &[b"PUBLISH", b"c", &text]);
    }
    rig.steps(2000);
    assert_eq!(rig.received(listener), None, "R1: the publisher's write is not durable");
    rig.syncs = true;
    rig.steps(2000);
    assert_eq!((0..6).filter_map(|_| rig.received(listener)).count(), 5);
}

#[test]
fn a_listener_that_takes_nothing_is_disconnected_at_a_limit() {
    let mut rig = Rig::new();
    let slow = rig.clients().connect(1 << 20, 1 << 10);
    let quick = rig.connect();
    rig.play_as(slow, "SUBSCRIBE c | *3..");
    let text = vec![b'x'; 8 << 20];
    let publisher = rig.client;
    for _ in 0..5 {
        assert_eq!(rig.ask_bytes(publisher, &[b"PUBLISH", b"c", &text]), b":1\r\n");
    }
    rig.play_as(quick, "PUBSUB NUMSUB c | *2 $1 c :0");
    let told = rig.ask(quick, "INFO stats");
    assert!(told.contains("slow_subscribers:1"), "{told}");
    rig.play("PUBLISH c x | :0");
}
