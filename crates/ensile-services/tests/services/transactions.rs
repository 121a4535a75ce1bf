//! `MULTI`, `EXEC` and `DISCARD`: the queue is carried out whole or not at all (Q1), the reply waits for all commands
//! (Q2), and the memory of the queue is bounded (Q3).

use ensile_objects::ObjectDurability;
use ensile_resp::encode_request;
use ensile_services::pht::PersistentTable;
use ensile_services::server::LIMITS;
use ensile_sim::SimDisk;

use crate::rig::{Rig, replies};

fn table(seed: u64) -> Rig<PersistentTable> {
    Rig::new(seed, PersistentTable::open)
}

const ABORTED: &str = "!EXECABORT Transaction discarded because of previous errors.";

#[test]
fn q1_queued_commands_are_carried_out_at_exec_in_order_and_once() {
    for seed in 0..10 {
        let mut rig = table(seed);
        let said = rig.told(&[
            "MULTI",
            "SET a 1",
            "INCR a",
            "GET a",
            "MGET a none",
            "PING",
            "DEL a",
            "DBSIZE",
            "EXEC",
            "GET a",
            "INCR b",
            "EXEC",
        ]);
        assert_eq!(said[0], "+OK");
        assert_eq!(said[1..8], ["+QUEUED"; 7]);
        assert_eq!(said[8], "[+OK :2 2 [2 -] +PONG :1 :0]", "Q1");
        assert_eq!(said[9..], ["-", ":1", "!ERR EXEC without MULTI"]);
    }
}

#[test]
fn q1_nothing_is_carried_out_before_exec_nor_after_a_lost_connection() {
    let mut rig = table(1);
    let client = rig.connect();
    rig.clients().send(client, b"MULTI\r\nINCR a\r\nINCR a\r\n");
    rig.run("all are queued", |rig| replies(rig.clients().received_bytes(client)).len() == 3);
    assert_eq!(rig.told(&["EXISTS a"]), [":0"], "Q1");
    rig.clients().vanish(client);
    rig.run("it is forgotten", |rig| rig.told(&["INFO"])[0].contains("connected_clients:1\r\n"));
    assert_eq!(rig.told(&["EXISTS a"]), [":0"], "Q1");
}

#[test]
fn q1_after_a_refused_command_exec_carries_out_nothing() {
    for refused in [
        "FLUSHALL",
        "GET",
        "SET a",
        "CLIENT KILL 1",
        "CONFIG SET save x",
        "PING a b",
        "EXEC now",
        "HELLO 3",
        "UNWATCH",
    ] {
        let mut rig = table(2);
        let said =
            rig.told(&["MULTI", "INCR a", refused, "INCR a", "EXEC", "EXISTS a", "MULTI", "INCR a", "EXEC"]);
        assert!(said[2].starts_with("!ERR "), "at once: {refused}: {said:?}");
        assert_eq!(said[3..5], ["+QUEUED", ABORTED], "Q1: {refused}");
        assert_eq!(said[5..], [":0", "+OK", "+QUEUED", "[:1]"], "Q1: {refused}");
    }
}

#[test]
fn an_error_of_a_queued_command_is_its_reply_and_the_others_are_carried_out() {
    let mut rig = table(3);
    let said = rig.told(&["SET a x", "MULTI", "INCR a", "INCR b", "SET a 1 EX", "SCAN x", "INCR b", "EXEC"]);
    let replies =
        "[!ERR value is not an integer or out of range :1 !ERR syntax error !ERR invalid cursor :2]";
    assert_eq!(said.last().expect("EXEC is replied"), replies);
}

#[test]
fn discard_drops_the_queue() {
    let mut rig = table(4);
    let said =
        rig.told(&["DISCARD", "MULTI", "INCR a", "NONE", "DISCARD", "INCR b", "EXISTS a", "MULTI", "EXEC"]);
    assert_eq!(said[0], "!ERR DISCARD without MULTI");
    assert_eq!(said[4..], ["+OK", ":1", ":0", "+OK", "[]"]);
}

#[test]
fn a_nested_multi_and_a_watch_in_a_transaction_are_errors_that_do_not_abort() {
    let mut rig = table(5);
    let said = rig.told(&["MULTI", "INCR a", "MULTI", "WATCH a", "INCR a", "EXEC"]);
    assert_eq!(said[2..4], ["!ERR MULTI calls can not be nested", "!ERR WATCH inside MULTI is not allowed"]);
    assert_eq!(said[4..], ["+QUEUED", "[:1 :2]"]);
}

#[test]
fn watch_is_refused_with_another_way() {
    let mut rig = table(6);
    for said in rig.told(&["WATCH a b", "UNWATCH"]) {
        assert!(
            said.starts_with("!ERR WATCH and UNWATCH do not exist here") && said.contains("IFEQ"),
            "{said}"
        );
    }
}

#[test]
fn what_ends_a_connection_ends_it_within_a_transaction_too() {
    for ends in ["QUIT", "SELECT 1", "AUTH secret", "POST / HTTP/1.1"] {
        let mut rig = table(7);
        let client = rig.connect();
        rig.clients().send(client, format!("MULTI\r\nINCR a\r\n{ends}\r\nEXEC\r\nINCR a\r\n").as_bytes());
        rig.run("it is closed", |rig| rig.clients().has_closed(client));
        assert_eq!(replies(rig.clients().received_bytes(client)).len(), 3, "{ends}");
        assert_eq!(rig.told(&["EXISTS a"]), [":0"], "Q1: {ends}");
    }
}

#[test]
fn commands_of_the_connection_are_queued_and_a_shutdown_is_not() {
    let mut rig = table(8);
    let said = rig.told(&[
        "MULTI",
        "SELECT 0",
        "CLIENT SETNAME a",
        "CLIENT GETNAME",
        "ECHO b",
        "COMMAND COUNT",
        "EXEC",
    ]);
    assert_eq!(said[6], "[+OK +OK a b :28]");
    let said = rig.told(&["MULTI", "SHUTDOWN", "EXEC"]);
    assert_eq!(said[1..], ["!ERR Command not allowed inside a transaction", ABORTED]);
}

#[test]
fn q2_the_reply_to_exec_waits_until_all_of_it_is_durable() {
    for seed in 0..20 {
        let mut rig = table(seed);
        assert_eq!(rig.told(&["SET old 1"]), ["+OK"]);
        rig.keeps = false;
        let (writer, reader) = (rig.connect(), rig.connect());
        // The last command rests on nothing that is not durable.
        rig.clients().send(writer, b"MULTI\r\nSET a 1\r\nGET old\r\nEXEC\r\nPING\r\n");
        rig.run("it is set", |rig| rig.service_elements() == 2);
        rig.clients().send(reader, b"MULTI\r\nGET a\r\nPING\r\nEXEC\r\n");
        rig.steps(50);
        let queued = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n";
        assert_eq!(rig.clients().received_bytes(writer), queued, "Q2: a change is not durable");
        assert_eq!(rig.clients().received_bytes(reader), queued, "Q2: a shown value is not durable");
        rig.keeps = true;
        rig.run("both are told", |rig| {
            replies(rig.clients().received_bytes(writer))
                .ends_with(&["[+OK 1]".to_owned(), "+PONG".to_owned()])
                && replies(rig.clients().received_bytes(reader)).ends_with(&["[1 +PONG]".to_owned()])
        });
    }
}

#[test]
fn q2_a_transaction_that_does_not_become_durable_is_one_error() {
    let disk = SimDisk::new();
    let mut rig = Rig::on(&disk, 9, PersistentTable::open, LIMITS);
    assert_eq!(rig.told(&["SET a 1"]), ["+OK"]);
    disk.fail_all_syncs(true);
    let said = rig.told(&["MULTI", "SET a 2", "SET b 2", "EXEC"]);
    assert!(said[3].starts_with("!NOTDURABLE ") || said[3].starts_with("[!NOTKEPT "), "{said:?}");
    let said = rig.told(&["MULTI", "SET c 3", "PING", "EXEC"]);
    assert!(said[3].starts_with("[!NOTKEPT ") && said[3].ends_with(" +PONG]"), "{said:?}");
}

/// The requests arrive in pieces, with many clients at once.
#[test]
fn transactions_of_many_clients_do_not_mix() {
    for seed in 0..10 {
        let mut rig = table(seed);
        let clients: Vec<_> = (0..6).map(|_| rig.clients().connect(7, 30)).collect();
        for (number, client) in clients.iter().enumerate() {
            let mut bytes = Vec::new();
            for _ in 0..20 {
                for words in [&["MULTI"][..], &["INCR", "all"], &["INCR", &format!("own{number}")], &["EXEC"]]
                {
                    encode_request(&mut bytes, words);
                }
            }
            rig.clients().send(*client, &bytes);
            rig.clients().end(*client);
        }
        rig.run("all are closed", |rig| clients.iter().all(|client| rig.clients().has_closed(*client)));
        for client in &clients {
            let said = replies(rig.clients().received_bytes(*client));
            for (round, exec) in said.iter().skip(3).step_by(4).enumerate() {
                assert!(exec.ends_with(&format!(" :{}]", round + 1)), "seed {seed}: {exec}");
            }
        }
        assert_eq!(rig.told(&["GET all"]), ["120"]);
    }
}

#[test]
fn q3_too_many_commands_are_refused_and_nothing_is_carried_out() {
    let mut rig = Rig::with(&SimDisk::new(), 10, PersistentTable::open, LIMITS, ObjectDurability::Relaxed);
    let most = 128 << 10;
    let mut bytes = Vec::new();
    encode_request(&mut bytes, &["MULTI"]);
    (0..most).for_each(|_| encode_request(&mut bytes, &["INCR", "a"]));
    let full = bytes.clone();
    (0..2).for_each(|_| encode_request(&mut bytes, &["INCR", "a"]));
    encode_request(&mut bytes, &["EXEC"]);
    for (mut bytes, is_refused) in [(bytes, true), (full, false)] {
        encode_request(&mut bytes, &["EXEC"]);
        let client = rig.connect();
        rig.clients().send(client, &bytes);
        rig.clients().end(client);
        rig.run("all is replied", |rig| rig.clients().has_closed(client));
        let said = replies(rig.clients().received_bytes(client));
        if is_refused {
            let refusal = "!ERR the transaction is too large: a queue between MULTI and EXEC has 131072 commands and 41943040 \
                           bytes at most";
            assert_eq!(said[most + 1..most + 4], [refusal, "+QUEUED", ABORTED], "Q3");
            assert_eq!(rig.told(&["EXISTS a"]), [":0"], "Q3");
        } else {
            assert!(said[most + 1].ends_with(":131072]"), "Q3: {}", said[most + 1].len());
        }
    }
}

#[test]
fn q3_too_many_bytes_are_refused_and_their_memory_is_given_back() {
    let mut rig = table(11);
    let value = vec![b'x'; 15 << 20];
    let client = rig.connect();
    let mut bytes = Vec::new();
    encode_request(&mut bytes, &["MULTI"]);
    (0..3).for_each(|_| encode_request(&mut bytes, &[b"SET".as_slice(), b"a", &value]));
    rig.clients().send(client, &bytes);
    rig.run("the third is refused", |rig| replies(rig.clients().received_bytes(client)).len() == 4);
    let said = replies(rig.clients().received_bytes(client));
    assert!(said[3].starts_with("!ERR the transaction is too large"), "Q3: {said:?}");
    rig.run("nothing counts", |rig| rig.server.client_memory_bytes() == 0);
    rig.clients().send(client, b"EXEC\r\nEXISTS a\r\n");
    rig.run("it is replied", |rig| replies(rig.clients().received_bytes(client)).len() == 6);
    assert_eq!(replies(rig.clients().received_bytes(client))[4..], [ABORTED, ":0"], "Q3");
}

#[test]
fn q3_a_queue_counts_until_it_is_gone() {
    for end in ["EXEC", "DISCARD", "QUIT"] {
        let mut rig = table(12);
        let client = rig.connect();
        let value = "x".repeat(300_000);
        let mut bytes = Vec::new();
        encode_request(&mut bytes, &["MULTI"]);
        (0..4).for_each(|_| encode_request(&mut bytes, &["SET", "a", &value]));
        rig.clients().send(client, &bytes);
        rig.run("all are queued", |rig| replies(rig.clients().received_bytes(client)).len() == 5);
        rig.steps(50);
        let counts = rig.server.client_memory_bytes();
        assert!(counts >= 1_200_000, "Q3: {counts} bytes");
        rig.clients().send(client, format!("{end}\r\n").as_bytes());
        rig.run("it is replied", |rig| replies(rig.clients().received_bytes(client)).len() == 6);
        rig.run("nothing counts", |rig| rig.server.client_memory_bytes() == 0);
    }
}

#[test]
fn w2_replies_of_a_transaction_that_would_be_too_long_are_errors_and_its_changes_are_replied() {
    let mut rig = table(15);
    let value = "x".repeat(1 << 20);
    assert_eq!(rig.told(&[&format!("SET long {value}")]), ["+OK"]);
    let mut lines = vec!["MULTI"];
    (0..40).for_each(|_| lines.extend(["GET long", "INCR n"]));
    lines.push("EXEC");
    let client = rig.connect();
    let mut bytes = Vec::new();
    lines.iter().for_each(|line| encode_request(&mut bytes, &line.split(' ').collect::<Vec<_>>()));
    rig.clients().send(client, &bytes);
    rig.clients().end(client);
    rig.run("all is replied", |rig| rig.clients().has_closed(client));
    let received = rig.clients().received_bytes(client).to_vec();
    assert!(received.len() <= (32 << 20) + 2000, "W2: {} bytes", received.len());
    let said = replies(&received).pop().expect("EXEC is replied");
    let too_long = "!ERR the reply would be longer than 33554432 bytes: ask for less at once";
    assert!(said.matches(too_long).count() >= 8, "W2");
    assert!(said.ends_with(" :40]"), "Q1: each change is replied");
}
