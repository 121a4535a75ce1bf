//! A server of a small program over simulated sockets: requests that are set aside, strangers, and the text of replies.

mod gate;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ensile_net::NetLimits;
use ensile_net::simulation::SimulatedTransport;
use ensile_resp::encode_request;
use ensile_serving::{LIMITS, ServingLoop};

use gate::Rig;

/// Half of the seeds stand for epoll, the others for io_uring.
const SEEDS: u64 = 16;

#[test]
fn w18_requests_behind_one_that_is_set_aside_wait_and_other_clients_go_on() {
    for seed in 0..SEEDS {
        let mut rig = Rig::new(seed, LIMITS);
        let first = rig.send(b"DO a\r\nNOTE b\r\n");
        rig.run_until_set_aside();
        let other = rig.send(b"NOTE c\r\n");
        rig.run("another client is served", |rig| rig.received(other) == "+c\r\n");
        rig.server.waker().wake_by_ref();
        rig.steps(20);
        assert_eq!((rig.server.set_aside_count(), rig.received(first).as_str()), (1, ""), "seed {seed}");
        rig.open_gate();
        rig.run("the first client is served", |rig| rig.received(first) == "+a\r\n+b\r\n");
        assert_eq!(rig.done(), ["c", "a", "b"], "W18, seed {seed}");
        assert_eq!(rig.server.set_aside_count(), 0);
    }
}

#[test]
fn w19_a_wake_up_during_a_long_request_is_for_the_requests_that_wait() {
    for seed in 0..SEEDS {
        let mut rig = Rig::new(seed, LIMITS);
        let first = rig.send(b"DO a\r\nNOTE b\r\n");
        rig.run_until_set_aside();
        let long = rig.send(b"LONG\r\n");
        rig.run("the first client is served", |rig| rig.received(first) == "+a\r\n+b\r\n");
        rig.run("the long request is replied", |rig| rig.received(long) == "+long\r\n");
    }
}

#[test]
fn w18_a_letter_calls_no_request_that_is_set_aside() {
    let mut rig = Rig::new(0, LIMITS);
    let client = rig.send(b"DO a\r\n");
    rig.run_until_set_aside();
    rig.gate.is_open.store(true, Ordering::SeqCst);
    // A letter ends the loop's wait in the same way.
    rig.server.wake_up().wake();
    rig.steps(20);
    assert_eq!((rig.server.set_aside_count(), rig.received(client).as_str()), (1, ""));
    rig.open_gate();
    rig.run("it is served", |rig| rig.received(client) == "+a\r\n");
}

#[test]
fn w18_a_client_that_ends_its_side_gets_the_reply_to_a_request_that_is_set_aside() {
    for seed in 0..SEEDS {
        let mut rig = Rig::new(seed, LIMITS);
        let client = rig.send(b"DO a\r\nNOTE b\r\n");
        rig.clients().end(client);
        rig.run_until_set_aside();
        rig.steps(50);
        assert!(!rig.clients().has_closed(client), "W18: a client is owed a reply, seed {seed}");
        rig.open_gate();
        rig.run("it is closed", |rig| rig.clients().has_closed(client));
        assert_eq!(rig.received(client), "+a\r\n+b\r\n", "W18, seed {seed}");
    }
}

#[test]
fn w18_a_client_whose_request_is_set_aside_is_not_idle() {
    for seed in 0..SEEDS {
        let mut rig = Rig::new(seed, NetLimits { idle: Some(Duration::from_secs(5)), ..LIMITS });
        let client = rig.send(b"DO a\r\n");
        rig.run_until_set_aside();
        for _ in 0..10 {
            rig.clock.advance(Duration::from_secs(20));
            rig.steps(5);
        }
        assert_eq!(rig.server.set_aside_count(), 1, "W18, seed {seed}");
        rig.open_gate();
        rig.run("it is served", |rig| rig.received(client) == "+a\r\n");
    }
}

#[test]
fn w18_nothing_more_is_read_while_a_request_is_set_aside() {
    const REQUESTS: usize = 100_000;
    for seed in 0..4 {
        let mut rig = Rig::new(seed, LIMITS);
        let client = rig.send(b"DO a\r\n");
        rig.run_until_set_aside();
        rig.clients().send(client, &b"NOTE b\r\n".repeat(REQUESTS));
        for _ in 0..500 {
            rig.steps(1);
            let bytes = rig.server.client_memory_bytes();
            assert!(bytes <= 256 << 10, "W18: {bytes} bytes, seed {seed}");
        }
        rig.open_gate();
        rig.run("all are served", |rig| {
            rig.clients().received_bytes(client).len() == (1 + REQUESTS) * b"+a\r\n".len()
        });
    }
}

#[test]
fn a_connection_that_ends_drops_the_state_of_its_client() {
    for seed in 0..SEEDS {
        let mut rig = Rig::new(seed, LIMITS);
        let client = rig.send(b"DO a\r\n");
        rig.run_until_set_aside();
        assert_eq!(Arc::strong_count(&rig.gate.token), 2, "the client holds the token");
        rig.clients().vanish(client);
        rig.run("its end is seen", |rig| {
            rig.server.waker().wake_by_ref();
            Arc::strong_count(&rig.gate.token) == 1
        });
        assert_eq!(rig.server.set_aside_count(), 0, "seed {seed}");
        rig.open_gate();
        rig.steps(10);
        assert!(rig.done().is_empty(), "seed {seed}");
    }
}

#[test]
fn a_request_that_is_set_aside_at_the_end_of_the_server_is_refused() {
    for seed in 0..SEEDS {
        let mut rig = Rig::new(seed, LIMITS);
        let client = rig.send(b"NOTE a\r\nDO b\r\nNOTE c\r\n");
        rig.run_until_set_aside();
        rig.send(b"SHUTDOWN\r\n");
        while rig.step() {}
        rig.server.end().expect("it is simulated");
        let told = rig.received(client);
        assert!(told.starts_with("+a\r\n-ERR the server ends,") && told.lines().count() == 2, "{told}");
        assert_eq!(rig.done(), ["a"], "seed {seed}");
    }
}

#[test]
fn an_exec_that_is_set_aside_begins_anew_with_the_database_and_the_name_of_its_client() {
    let mut rig = Rig::new(1, LIMITS);
    let client = rig.send(b"MULTI\r\nWHERE\r\nSELECT 3\r\nCLIENT SETNAME x\r\nEXEC\r\nWHERE\r\n");
    rig.run_until_set_aside();
    rig.server.waker().wake_by_ref();
    rig.steps(20);
    rig.open_gate();
    let told = format!("+OK\r\n{}*3\r\n+0/\r\n+OK\r\n+OK\r\n+3/x\r\n", "+QUEUED\r\n".repeat(3));
    rig.run("it is served", |rig| rig.received(client).len() >= told.len());
    assert_eq!(rig.received(client), told);
}

#[test]
fn an_exec_that_panics_leaves_the_database_and_the_name_of_its_client() {
    let mut rig = Rig::new(1, LIMITS);
    let client = rig.send(b"MULTI\r\nSELECT 3\r\nCLIENT SETNAME x\r\nPANIC\r\nEXEC\r\nWHERE\r\n");
    rig.run("it is served", |rig| rig.received(client).ends_with("/\r\n"));
    let told = rig.received(client);
    let told: Vec<&str> = told.lines().skip(4).collect();
    assert!(told[0].starts_with("-PANICKED "), "{told:?}");
    assert_eq!(told[1..], ["+0/"]);
}

#[test]
fn w16_strangers_keep_few_bytes() {
    for seed in 0..4 {
        let mut rig = Rig::new(seed, LIMITS);
        rig.gate.has_password.store(true, Ordering::SeqCst);
        let client = rig.clients().connect(200, 200);
        rig.clients().send(client, &b"NOTE a\r\n".repeat(20_000));
        rig.run("the stranger is disconnected", |rig| {
            let bytes = rig.server.client_memory_bytes();
            assert!(bytes <= 256 << 10, "W16: {bytes} bytes, seed {seed}");
            rig.clients().has_closed(client)
        });
        let told = rig.received(client);
        assert!(told.starts_with("-NOAUTH ") && told.len() > 16 << 10, "{} bytes", told.len());
        assert!(rig.done().is_empty());
    }
}

#[test]
fn a_password_makes_strangers_of_the_clients_that_are_connected() {
    let mut request = Vec::new();
    encode_request(&mut request, &["NOTE", &"b".repeat(17 << 10)]);
    let mut rig = Rig::new(1, LIMITS);
    let client = rig.send(b"NOTE a\r\n");
    rig.run("it is served", |rig| rig.received(client) == "+a\r\n");
    rig.gate.has_password.store(true, Ordering::SeqCst);
    rig.clients().send(client, &request);
    rig.run("it is disconnected", |rig| rig.clients().has_closed(client));
    let told = rig.received(client);
    assert!(told.ends_with("an argument has 16384 bytes at most\r\n"), "{told}");
    assert_eq!(rig.done(), ["a"]);
    let request = [format!("AUTH {}\r\n", gate::PASSWORD).as_bytes(), &request].concat();
    let client = rig.send(&request);
    rig.run("it is served", |rig| rig.received(client).len() > 17 << 10);
    assert!(rig.received(client).starts_with("+OK\r\n+bbb"));
}

#[test]
fn command_refuses_more_names_than_1024() {
    for subcommand in ["INFO", "DOCS"] {
        let mut rig = Rig::new(1, LIMITS);
        let ask = |names| format!("COMMAND {subcommand}{}\r\n", " note".repeat(names));
        let client = rig.send([ask(1024), ask(1025), "NOTE a\r\n".to_owned()].concat().as_bytes());
        rig.run("it is served", |rig| rig.received(client).ends_with("+a\r\n"));
        let told = rig.received(client);
        let refusals: Vec<&str> = told.lines().filter(|line| line.starts_with('-')).collect();
        assert_eq!(refusals, ["-ERR COMMAND takes 1024 names at most: ask in several requests"]);
    }
}

#[test]
fn maxclients_is_of_all_loops_together() {
    let mut rig = Rig::new(1, NetLimits { connections_max: 30, ..LIMITS });
    let limits = NetLimits { connections_max: 30, ..LIMITS };
    let transport = SimulatedTransport::new(rig.clock.clone(), 2);
    let _second = ServingLoop::new(transport, Arc::clone(&rig.state), limits);
    let client = rig.send(b"CONFIG GET maxclients\r\n");
    rig.run("it is served", |rig| rig.received(client).ends_with("$2\r\n60\r\n"));
}
