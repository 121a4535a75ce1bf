//! Waiting clients over simulated sockets. Strings stand for lists of bytes.

use std::time::Duration;

use ensile::Database;
use ensile_base::clock::Clock;
use ensile_net::simulation::ClientId;
use ensile_resp::{ReplyEncoder, encode_request};

use super::{KeyWait, WaitKind};
use crate::Server;
use crate::command::{Command, CommandFunction};
use crate::commands::{CommandResult, DataCall, strings};
use crate::model::keyspace::ValueSlot;
use crate::model::stored_value::{Kind, NewValue};
use crate::simulation::SimulatedServer;
use ensile_serving::command::CommandInfo;

/// Commands of these tests.
pub(crate) const COMMANDS: &[Command] = &[
    Command {
        info: CommandInfo::new("TESTPUSH", 3, &["write"], (1, 1, 1), "Appends bytes"),
        function: CommandFunction::Data(push),
        number: 0,
    },
    Command {
        info: CommandInfo::new("TESTPOP", -3, &["write"], (1, -2, 1), "Takes the first byte, or waits"),
        function: CommandFunction::Data(pop),
        number: 0,
    },
];

fn push(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    strings::append(call, reply)?;
    let (key, bytes) = (call.argument(1), call.argument(2));
    call.keyspace.note_pushed(Kind::List, key, bytes.len());
    Ok(())
}

/// `TESTPOP key .. milliseconds`
fn pop(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let last = call.request.len() - 1;
    let keys: Vec<&[u8]> = call.arguments(1).take(last - 1).collect();
    for key in &keys {
        let ValueSlot { slot, value } = call.keyspace.value_slot(key)?;
        let Some(value) = value else { continue };
        let (first, rest) = value.bytes.split_at(1);
        if rest.is_empty() {
            call.keyspace.remove(&slot, key)?;
        } else {
            call.keyspace.write(&slot, key, NewValue { header: value.header, bytes: rest })?;
        }
        reply.bulk(first);
        return Ok(());
    }
    let millis = ensile_resp::integer(call.argument(last)).and_then(|millis| u64::try_from(millis).ok());
    call.wait(KeyWait {
        kind: WaitKind::List,
        keys: keys.into_iter().map(Into::into).collect(),
        timeout: millis.filter(|millis| *millis > 0).map(Duration::from_millis),
        positions: Box::default(),
    })?;
    reply.null_array();
    Ok(())
}

struct Rig {
    server: SimulatedServer,
    clock: Clock,
    /// Number of looked at bytes of each client.
    seen: Vec<(ClientId, usize)>,
}

impl Rig {
    fn new() -> Self {
        let clock = Clock::manual();
        let db = Database::builder_in_memory().manual_clock(clock.clone()).without_threads().open();
        let server = Server::builder(db.expect("a new database")).build_simulated(&clock, 1);
        Self { server: server.expect("new tables"), clock, seen: Vec::new() }
    }

    fn connect(&mut self) -> ClientId {
        let client = self.server.transport_mut().connect(1 << 20, 1 << 20);
        self.seen.push((client, 0));
        client
    }

    fn steps(&mut self) {
        for _ in 0..20 {
            assert!(self.server.step());
            self.clock.advance(Duration::from_millis(1));
            self.server.database().heartbeat_step();
            self.server.database().boundary_step();
        }
    }

    fn send(&mut self, client: ClientId, line: &str) {
        let (mut bytes, words): (_, Vec<&str>) = (Vec::new(), line.split(' ').collect());
        encode_request(&mut bytes, &words);
        self.server.transport_mut().send(client, &bytes);
        self.steps();
    }

    /// What a client has received since the last call, with a space for each line end.
    fn heard(&mut self, client: ClientId) -> String {
        let transport = self.server.transport_mut();
        let bytes = transport.received_bytes(client);
        let (_, seen) = self.seen.iter_mut().find(|(of, _)| *of == client).expect("a client of the test");
        let text = String::from_utf8_lossy(&bytes[*seen..]).replace("\r\n", " ").trim_end().to_owned();
        *seen = bytes.len();
        text
    }

    fn ask(&mut self, client: ClientId, line: &str) -> String {
        self.send(client, line);
        self.heard(client)
    }
}

#[test]
fn waiting_clients_are_served_in_the_order_of_arrival() {
    let mut rig = Rig::new();
    let [first, second, third, pusher] = [(); 4].map(|()| rig.connect());
    for client in [first, second, third] {
        assert_eq!(rig.ask(client, "TESTPOP a b 0"), "");
    }
    // Later requests of a client that waits wait too.
    assert_eq!(rig.ask(first, "PING"), "");
    assert!(rig.ask(pusher, "INFO clients").contains("blocked_clients:3"));
    assert_eq!(rig.ask(pusher, "TESTPUSH b x"), ":1");
    assert_eq!((rig.heard(first), rig.heard(second)), ("$1 x +PONG".to_owned(), String::new()));
    assert_eq!(rig.ask(pusher, "TESTPUSH a yzw"), ":3");
    assert_eq!((rig.heard(second), rig.heard(third)), ("$1 y".to_owned(), "$1 z".to_owned()));
    assert_eq!(rig.ask(pusher, "GET a"), "$1 w");
    assert!(rig.ask(pusher, "INFO clients").contains("blocked_clients:0"));
}

#[test]
fn a_push_within_exec_wakes_behind_the_commit() {
    let mut rig = Rig::new();
    let (waiter, pusher) = (rig.connect(), rig.connect());
    rig.send(waiter, "TESTPOP a 0");
    for line in ["MULTI", "TESTPUSH a x", "TESTPOP none 0", "TESTPUSH a y"] {
        rig.send(pusher, line);
    }
    rig.heard(pusher);
    assert_eq!(rig.heard(waiter), "");
    assert_eq!(rig.ask(pusher, "EXEC"), "*3 :1 *-1 :2", "within MULTI nobody waits");
    assert_eq!(rig.heard(waiter), "$1 x");
}

#[test]
fn the_end_of_the_time_replies_nil() {
    let mut rig = Rig::new();
    let (waiter, pusher) = (rig.connect(), rig.connect());
    assert_eq!(rig.ask(waiter, "TESTPOP a 100"), "");
    rig.clock.advance(Duration::from_millis(101));
    rig.steps();
    assert_eq!(rig.heard(waiter), "*-1");
    assert_eq!(rig.ask(pusher, "TESTPUSH a x"), ":1");
    assert_eq!(rig.ask(waiter, "TESTPOP a 100"), "$1 x");
}

#[test]
fn j3_a_client_that_ends_leaves_its_wake_up_to_the_next() {
    let mut rig = Rig::new();
    let [gone, next, pusher] = [(); 3].map(|()| rig.connect());
    rig.send(gone, "TESTPOP a 0");
    rig.send(next, "TESTPOP a 0");
    rig.server.transport_mut().vanish(gone);
    rig.steps();
    assert!(rig.ask(pusher, "INFO clients").contains("blocked_clients:1"));
    assert_eq!(rig.ask(pusher, "TESTPUSH a x"), ":1");
    assert_eq!(rig.heard(next), "$1 x");
}

#[test]
fn a_client_that_ends_its_side_waits_no_longer() {
    let mut rig = Rig::new();
    let (half, other) = (rig.connect(), rig.connect());
    rig.send(half, "TESTPOP a 0");
    rig.server.transport_mut().end(half);
    rig.steps();
    let text = rig.ask(other, "INFO clients");
    assert!(text.contains("connected_clients:1") && text.contains("blocked_clients:0"), "{text}");
}

#[test]
fn a_value_that_appears_under_a_key_wakes() {
    let mut rig = Rig::new();
    let (waiter, other) = (rig.connect(), rig.connect());
    rig.send(waiter, "TESTPOP a 0");
    for line in ["SELECT 1", "SET a xy", "SWAPDB 0 1"] {
        assert_eq!(rig.ask(other, line), "+OK");
    }
    assert_eq!(rig.heard(waiter), "$1 x");
}

#[test]
fn client_unblock_ends_a_wait() {
    let mut rig = Rig::new();
    let (waiter, other) = (rig.connect(), rig.connect());
    let id = rig.ask(waiter, "CLIENT ID");
    let id = id.trim_start_matches(':');
    assert_eq!(rig.ask(other, &format!("CLIENT UNBLOCK {id}")), ":0");
    for (reason, reply) in
        [("", "*-1"), (" timeout", "*-1"), (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK")]
    {
        assert_eq!(rig.ask(waiter, "TESTPOP a 0"), "");
        assert_eq!(rig.ask(other, &format!("CLIENT UNBLOCK {id}{reason}")), ":1");
        assert_eq!(rig.heard(waiter), reply);
    }
    assert_eq!(
        rig.ask(other, &format!("CLIENT UNBLOCK {id} x")),
        "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"
    );
}
