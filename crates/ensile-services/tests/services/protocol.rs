//! What every server does whatever it serves: the connection's commands, half requests, pipelines, clients that leave,
//! many clients, replies that wait until they are durable, and replies that nobody takes.

use std::time::Duration;

use ensile_base::random::Random;
use ensile_net::NetLimits;
use ensile_net::simulation::ClientId;
use ensile_objects::{AdaptiveThreshold, CheckpointPolicy, ObjectDurability, ObjectsBuilder, ObjectsResult};
use ensile_resp::encode_request;
use ensile_services::his::HostService;
use ensile_services::partition::Partition;
use ensile_services::pht::PersistentTable;
use ensile_services::server::{END_WAIT, LIMITS};
use ensile_services::service::{RestsOn, Service};
use ensile_services::ups::UrlService;
use ensile_sim::SimDisk;

use crate::rig::{Open, Rig, replies};

fn table(seed: u64) -> Rig<PersistentTable> {
    Rig::new(seed, PersistentTable::open)
}

#[test]
fn the_connections_commands_are_those_of_redis() {
    let mut rig = table(1);
    let said = rig.told(&[
        "PING",
        "ping again",
        "ECHO x",
        "GET",
        "FLUSHALL now or never",
        "CONFIG GET save appendonly appendfsync maxmemory timeout tcp-keepalive",
        "CONFIG SET save x",
        "HELLO 4",
        "COMMAND COUNT",
        "QUIT",
        "PING",
    ]);
    let wanted = [
        "+PONG",
        "again",
        "x",
        "!ERR wrong number of arguments for 'get' command",
        "!ERR unknown command 'FLUSHALL', with args beginning with: 'now' 'or' 'never' ",
        "[appendonly yes appendfsync always save  timeout 0 tcp-keepalive 300]",
        "!ERR unknown subcommand 'SET' of CONFIG: no parameter is set while the server runs",
        "!NOPROTO unsupported protocol version",
        ":28",
        "+OK",
    ];
    assert_eq!(said, wanted, "nothing is replied behind QUIT");
    let said = rig.told(&["HELLO 3", "HELLO", "COMMAND DOCS get", "COMMAND INFO get none", "GET x"]);
    assert!(said[0].starts_with("[server ensile-pht version ") && said[0].contains("proto :3"), "{said:?}");
    assert_eq!(said[0], said[1]);
    assert!(said[2].starts_with("[get [summary "), "{said:?}");
    assert!(
        said[3].starts_with("[[get :2 [+readonly +fast] :1 :1 :1 [] [] [[flags [+RO] ")
            && said[3].ends_with(" -]"),
        "{said:?}"
    );
    assert_eq!(said[4], "-");
    let said = rig.told(&["INFO"]);
    assert!(said[0].contains("service:ensile-pht") && said[0].contains("durable_epoch:"), "{said:?}");
}

#[test]
fn a_damaged_stream_is_told_and_closed() {
    let mut rig = table(2);
    let client = rig.connect();
    rig.clients().send(client, b"*1\r\n$4\r\nPING\r\n*1\r\n!oops\r\n*1\r\n$4\r\nPING\r\n");
    rig.run("it is closed", |rig| rig.clients().has_closed(client));
    let said = replies(rig.clients().received_bytes(client));
    assert_eq!(said, ["+PONG", "!ERR Protocol error: expected '$', got '!'"]);
}

#[test]
fn a_strict_reply_waits_for_its_epoch_and_keeps_those_behind_it() {
    for seed in 0..20 {
        let mut rig = table(seed);
        rig.keeps = false;
        let (writer, reader, several) = (rig.connect(), rig.connect(), rig.connect());
        rig.clients().send(writer, b"SET a 1\r\nPING\r\n");
        rig.run("it is set", |rig| rig.service_elements() == 1);
        rig.clients().send(reader, b"PING\r\nGET b\r\nGET a\r\n");
        rig.clients().send(several, b"MGET b c\r\nMGET a b\r\n");
        rig.steps(50);
        assert_eq!(rig.clients().received_bytes(writer), b"", "R1: it is not durable");
        assert_eq!(
            rig.clients().received_bytes(reader),
            b"+PONG\r\n$-1\r\n",
            "R1: what is shown is not durable"
        );
        assert_eq!(
            rig.clients().received_bytes(several),
            b"*2\r\n$-1\r\n$-1\r\n",
            "R1: one of both is not durable"
        );
        rig.keeps = true;
        rig.run("all are told", |rig| {
            rig.clients().received_bytes(writer) == b"+OK\r\n+PONG\r\n"
                && rig.clients().received_bytes(reader) == b"+PONG\r\n$-1\r\n$1\r\n1\r\n"
                && rig.clients().received_bytes(several).ends_with(b"*2\r\n$1\r\n1\r\n$-1\r\n")
        });
    }
}

/// What the first client has asked for is done, and not durable; what others are refused for it waits too, and is told
/// once all of it is durable.
fn refusals_wait<S: Service>(open: Open<S>, first: &[&str], refused: &[(&str, &str)]) {
    for seed in 0..10 {
        let mut rig = Rig::new(seed, open);
        rig.keeps = false;
        let client = rig.connect();
        first.iter().for_each(|line| rig.clients().send(client, format!("{line}\r\n").as_bytes()));
        rig.steps(50);
        assert_eq!(rig.clients().received_bytes(client), b"", "R1: it is not durable");
        let clients: Vec<ClientId> = refused.iter().map(|_| rig.connect()).collect();
        for (client, (line, _)) in clients.iter().zip(refused) {
            rig.clients().send(*client, format!("PING\r\n{line}\r\n").as_bytes());
        }
        rig.steps(50);
        for (client, (line, _)) in clients.iter().zip(refused) {
            let clients = rig.clients();
            let told = clients.received_bytes(*client);
            assert_eq!(told, b"+PONG\r\n", "R2: what it tells of is not durable: {line}");
        }
        rig.keeps = true;
        for (client, (_, told)) in clients.iter().zip(refused) {
            let told = format!("+PONG\r\n{told}\r\n").into_bytes();
            rig.run("it is told", |rig| rig.clients().received_bytes(*client) == told);
        }
    }
}

const NO_NUMBER: &str = "-ERR value is not an integer or out of range";
const OVERFLOW: &str = "-ERR increment or decrement would overflow";

#[test]
fn a_strict_refusal_of_the_table_waits_for_what_it_tells_of() {
    let refused = [("INCR a", NO_NUMBER), ("INCR b", OVERFLOW), ("SET a 2 NX", "$-1"), ("DBSIZE", ":2")];
    refusals_wait(PersistentTable::open, &["SET a x", "SET b 9223372036854775807"], &refused);
}

#[test]
fn a_strict_refusal_of_urls_waits_for_what_it_tells_of() {
    let open: Open<UrlService> = |objects| UrlService::open(objects, Partition::WHOLE);
    let most = "UPS.COUNT a inlinks 9223372036854775807";
    refusals_wait(open, &[most], &[("UPS.COUNT a inlinks 1", OVERFLOW)]);
}

#[test]
fn a_strict_refusal_of_hosts_waits_for_what_it_tells_of() {
    refusals_wait(HostService::open, &["HIS.ADD a 9223372036854775807"], &[("HIS.ADD a 1", OVERFLOW)]);
}

#[test]
fn what_is_wrong_with_a_request_itself_waits_for_nothing() {
    let mut rig = table(4);
    rig.keeps = false;
    let (writer, reader) = (rig.connect(), rig.connect());
    rig.clients().send(writer, b"SET a 1\r\n");
    rig.run("it is set", |rig| rig.service_elements() == 1);
    rig.clients().send(reader, b"INCRBY a x\r\nSET a 1 EX\r\nSCAN x\r\nGET\r\nNONE\r\n");
    rig.run("all are told", |rig| replies(rig.clients().received_bytes(reader)).len() == 5);
}

#[test]
fn a_relaxed_reply_waits_for_nothing() {
    let mut rig = Rig::with(&SimDisk::new(), 3, PersistentTable::open, LIMITS, ObjectDurability::Relaxed);
    rig.keeps = false;
    let client = rig.connect();
    rig.clients().send(client, b"SET a 1\r\nGET a\r\n");
    rig.run("both are told", |rig| rig.clients().received_bytes(client) == b"+OK\r\n$1\r\n1\r\n");
}

#[test]
fn requests_in_pieces_and_in_pipelines_get_their_replies_in_order() {
    for seed in 0..30 {
        let mut rig = table(seed);
        let mut random = Random::from_seed(seed);
        let clients: Vec<ClientId> = (0..6).map(|_| rig.connect()).collect();
        let (mut left, mut wanted) = (Vec::new(), Vec::new());
        for client in 0..clients.len() {
            let (mut bytes, mut said, mut sum) = (Vec::new(), Vec::new(), 0);
            for _ in 0..60 {
                let key = format!("key{client}");
                match random.next_below(3) {
                    0 => {
                        sum += 1;
                        encode_request(&mut bytes, &["INCR", &key]);
                        said.push(format!(":{sum}"));
                    }
                    1 => {
                        encode_request(&mut bytes, &["GET", &key]);
                        said.push(if sum == 0 { "-".to_owned() } else { sum.to_string() });
                    }
                    _ => {
                        bytes.extend_from_slice(b"PING\r\n");
                        said.push("+PONG".to_owned());
                    }
                }
            }
            left.push(bytes);
            wanted.push(said);
        }
        while left.iter().any(|bytes| !bytes.is_empty()) {
            for (client, bytes) in clients.iter().zip(&mut left) {
                let piece = random.next_below(200).min(bytes.len() as u64) as usize;
                rig.clients().send(*client, &bytes[..piece]);
                bytes.drain(..piece);
            }
            rig.step();
        }
        clients.iter().for_each(|client| rig.clients().end(*client));
        rig.run("all are closed", |rig| clients.iter().all(|client| rig.clients().has_closed(*client)));
        for (client, wanted) in clients.iter().zip(&wanted) {
            assert_eq!(&replies(rig.clients().received_bytes(*client)), wanted, "seed {seed}");
        }
    }
}

#[test]
fn clients_that_leave_in_mid_reply_disturb_nobody() {
    for seed in 0..30 {
        let mut rig = table(seed);
        let mut random = Random::from_seed(seed);
        rig.keeps = false;
        let leavers: Vec<ClientId> = (0..20).map(|_| rig.clients().connect(10, 3)).collect();
        for leaver in &leavers {
            rig.clients().send(*leaver, b"SET left 12345678901234567890\r\nGET left\r\nINCR count\r\n");
        }
        rig.steps(random.next_below(20));
        let (first, second) = leavers.split_at(10);
        first.iter().for_each(|leaver| rig.clients().vanish(*leaver));
        rig.keeps = true;
        rig.steps(random.next_below(20));
        second.iter().for_each(|leaver| rig.clients().vanish(*leaver));
        let said = rig.told(&["SET stays 1", "GET stays"]);
        assert_eq!(said, ["+OK", "1"]);
        rig.run("all who left are forgotten", |rig| {
            rig.told(&["INFO"])[0].contains("connected_clients:1\r\n")
        });
    }
}

#[test]
fn thousands_of_clients_are_served() {
    let mut rig = table(7);
    let clients: Vec<ClientId> = (0..3000).map(|_| rig.clients().connect(100, 100)).collect();
    for client in &clients {
        rig.clients().send(*client, b"INCR visits\r\n");
    }
    rig.run("each has its number", |rig| {
        clients.iter().all(|client| rig.clients().received_bytes(*client).ends_with(b"\r\n"))
    });
    let mut numbers: Vec<i64> = clients
        .iter()
        .map(|client| replies(rig.clients().received_bytes(*client))[0][1..].parse().expect("a number"))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=3000).collect::<Vec<i64>>(), "each increment once");
}

#[test]
fn a_client_that_takes_nothing_is_not_read_on_and_then_dropped() {
    let limits = NetLimits { unsent_bytes_max: 10_000, ..LIMITS };
    let mut rig = Rig::on(&SimDisk::new(), 8, PersistentTable::open, limits);
    assert_eq!(rig.told(&[&format!("SET long {}", "x".repeat(1000))]), ["+OK"]);
    let mute = rig.clients().connect(10, 0);
    let (mut bytes, gets) = (Vec::new(), 1000);
    for at in 0..gets {
        encode_request(&mut bytes, &["GET", "long"]);
        encode_request(&mut bytes, &["INCR", &format!("done{at}")]);
    }
    rig.clients().send(mute, &bytes);
    rig.steps(2000);
    let done = rig.service_elements() - 1;
    assert!(done > 0 && done < 20, "W2: {done} of {gets} were carried out for a client that takes nothing");
    let served = rig.told(&["PING"]);
    assert_eq!(served, ["+PONG"], "W4");
    rig.clock.advance(LIMITS.stalled);
    rig.run("it is dropped", |rig| rig.told(&["INFO"])[0].contains("connected_clients:1\r\n"));
    assert_eq!(rig.told(&["DBSIZE"]), [format!(":{}", rig.service_elements())]);
}

#[test]
fn a_client_that_begins_to_take_gets_all_in_order() {
    let limits = NetLimits { unsent_bytes_max: 10_000, parked_max: 5, ..LIMITS };
    let mut rig = Rig::on(&SimDisk::new(), 9, PersistentTable::open, limits);
    let slow = rig.clients().connect(50, 0);
    let mut bytes = Vec::new();
    (0..500).for_each(|_| encode_request(&mut bytes, &["INCR", "n"]));
    rig.clients().send(slow, &bytes);
    rig.clients().end(slow);
    rig.steps(100);
    rig.clients().set_speed(slow, 50);
    rig.run("all is replied", |rig| rig.clients().has_closed(slow));
    let wanted: Vec<String> = (1..=500).map(|number| format!(":{number}")).collect();
    assert_eq!(replies(rig.clients().received_bytes(slow)), wanted);
}

#[test]
fn a_log_that_fails_is_told_and_what_was_not_durable_is_not_confirmed() {
    let disk = SimDisk::new();
    let mut rig = Rig::on(&disk, 10, PersistentTable::open, LIMITS);
    assert_eq!(rig.told(&["SET a 1"]), ["+OK"]);
    disk.fail_all_syncs(true);
    let said = rig.told(&["SET a 2"]);
    assert!(said[0].starts_with("!NOTDURABLE ") || said[0].starts_with("!NOTKEPT "), "{said:?}");
    let said = rig.told(&["SET a 3"]);
    assert!(said[0].starts_with("!NOTKEPT "), "{said:?}");
}

#[test]
fn a_log_that_stops_is_told_once_with_what_to_do_and_shown_by_info() {
    for durability in [ObjectDurability::Strict, ObjectDurability::Relaxed] {
        let disk = SimDisk::new();
        let mut rig = Rig::with(&disk, 22, PersistentTable::open, LIMITS, durability);
        let said = rig.told(&["SET a 1", "INFO"]);
        assert!(said[1].contains("\r\nlog_status:running\r\n") && !said[1].contains("log_error"), "{said:?}");
        rig.clock.advance(Duration::from_secs(2));
        rig.steps(50);
        assert!(rig.notices.lock().expect("no panic").is_empty(), "nothing is wrong");
        disk.fail_all_syncs(true);
        rig.told(&["SET a 2"]);
        rig.run("it is told", |rig| !rig.notices.lock().expect("no panic").is_empty());
        for _ in 0..5 {
            let said = rig.told(&["SET a 3"]);
            assert!(said[0].starts_with("!NOTKEPT "), "{said:?}");
            rig.clock.advance(Duration::from_secs(100));
            rig.steps(50);
        }
        let told = rig.notices.lock().expect("no panic").clone();
        let [notice] = told.as_slice() else { panic!("once, and not {told:?}") };
        assert!(notice.starts_with("the log has stopped: "), "{notice}");
        assert!(notice.contains("(NOTKEPT)") && notice.contains("start it again"), "{notice}");
        let said = rig.told(&["INFO"]).remove(0);
        let (_, error) = said.split_once("\r\nlog_status:stopped\r\nlog_error:").expect("it is shown");
        let (why, _) = error.split_once("\r\n").expect("a line");
        assert!(notice.contains(why), "{why}: {notice}");
    }
}

/// A figure of `INFO`.
fn figure(rig: &mut Rig<PersistentTable>, name: &str) -> u64 {
    let told = rig.told(&["INFO"]).remove(0);
    let figure = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    figure.unwrap_or_else(|| panic!("{name} in {told}")).parse().expect("a number")
}

/// A table whose checkpoints follow the load, whose capacity is probed over windows of two seconds.
fn probing(objects: ObjectsBuilder) -> ObjectsResult<PersistentTable> {
    let table_3 = AdaptiveThreshold::of_ups(1_000_000);
    let adaptive = AdaptiveThreshold { is_probed: true, window: Duration::from_secs(2), ..table_3 };
    let policy = CheckpointPolicy { adaptive: Some(adaptive), ..CheckpointPolicy::on_demand() };
    PersistentTable::open(objects.policy(&policy))
}

#[test]
fn replies_that_no_client_has_waited_for_lower_a_probed_capacity() {
    let mut rig = Rig::on(&SimDisk::new(), 12, probing, LIMITS);
    assert_eq!((figure(&mut rig, "capacity"), figure(&mut rig, "replies_unheard")), (1_000_000, 0));
    for _ in 0..4 {
        rig.keeps = false;
        let clients: Vec<ClientId> = (0..5).map(|_| rig.connect()).collect();
        clients.iter().for_each(|client| rig.clients().send(*client, b"INCR n\r\nINCR n\r\n"));
        rig.steps(50);
        clients.iter().for_each(|client| rig.clients().vanish(*client));
        rig.keeps = true;
        rig.steps(300);
        rig.clock.advance(Duration::from_secs(2));
        rig.steps(5);
    }
    let unheard = figure(&mut rig, "replies_unheard");
    assert!((20..=40).contains(&unheard), "{unheard} of forty replies");
    let capacity = figure(&mut rig, "capacity");
    assert!(capacity < 1_000, "{capacity}");
}

#[test]
fn what_the_log_refuses_is_turned_away() {
    let disk = SimDisk::new();
    let mut rig = Rig::on(&disk, 13, PersistentTable::open, LIMITS);
    disk.fail_all_syncs(true);
    let said = rig.told(&["SET a 1"]);
    assert!(said[0].starts_with("!NOT"), "the log has failed: {said:?}");
    let before = figure(&mut rig, "requests_turned_away");
    let said = rig.told(&["SET a 1", "GET a", "DEL a", "SET a 1 EX"]);
    assert!(said[0].starts_with("!NOTKEPT ") && said[2].starts_with("!NOTKEPT "), "{said:?}");
    assert_eq!(figure(&mut rig, "requests_turned_away"), before + 2);
}

#[test]
fn the_server_ends_when_it_is_asked() {
    let mut rig = table(11);
    let client = rig.connect();
    rig.clients().send(client, b"SET a 1\r\nSHUTDOWN\r\n");
    let mut steps = 0;
    while rig.step() {
        steps += 1;
        assert!(steps < 10_000, "it goes on");
    }
}

#[test]
fn what_is_behind_a_shutdown_is_not_carried_out() {
    let disk = SimDisk::new();
    let mut rig = Rig::with(&disk, 12, PersistentTable::open, LIMITS, ObjectDurability::Relaxed);
    let client = rig.connect();
    rig.clients().send(client, b"SHUTDOWN ABORT\r\nSET a 1\r\nSHUTDOWN\r\nSET b 1\r\nSET c 1\r\n");
    let mut steps = 0;
    while rig.step() {
        steps += 1;
        assert!(steps < 10_000, "it goes on");
    }
    rig.step();
    rig.step();
    assert_eq!(rig.service_elements(), 1);
    let said = replies(rig.clients().received_bytes(client));
    assert_eq!(&said[said.len() - 1..], ["+OK"], "{said:?}");
    assert!(said[0].starts_with("!ERR SHUTDOWN takes no such argument"), "{said:?}");
}

/// A client sends without a pause while another one ends the server. What it sent last is unread then.
#[test]
fn w14_a_shutdown_loses_no_reply_of_a_client_that_still_sends() {
    for seed in 0..20 {
        let mut rig = Rig::on(&SimDisk::new(), 30 + seed, PersistentTable::open, LIMITS);
        let busy = rig.clients().connect(50, 7);
        let mute = rig.clients().connect(5, 0);
        rig.told(&["SET a 1"]);
        // What is replied now waits until the objects are closed.
        rig.keeps = false;
        rig.clients().send(busy, b"INCR n\r\nPING\r\n");
        rig.clients().send(mute, b"INCR m\r\nPING\r\n");
        rig.steps(60 + seed);
        let ends = rig.connect();
        rig.clients().send(ends, b"SHUTDOWN\r\n");
        let mut steps = 0;
        while rig.step() {
            rig.clients().send(busy, b"INCR n\r\n");
            steps += 1;
            assert!(steps < 10_000, "it goes on");
        }
        rig.clients().send(busy, &b"INCR n\r\n".repeat(100));
        rig.service.persistent_objects().close().expect("closes");
        let began = rig.clock.nanos();
        rig.server.end().expect("it is simulated");
        let said = replies(rig.clients().received_bytes(busy));
        assert!(rig.clients().has_closed(busy), "W14: it reads the end behind {said:?}");
        let done = said.iter().filter(|reply| reply.starts_with(':')).count();
        let wanted: Vec<String> = (1..=done).map(|number| format!(":{number}")).collect();
        let numbers: Vec<&String> = said.iter().filter(|reply| *reply != "+PONG").collect();
        assert!(done > 0 && numbers.iter().copied().eq(wanted.iter()), "W14: {said:?}");
        let rests = RestsOn::default();
        let kept = rig.service.look(b"n", &rests, |value| value.map(<[u8]>::to_vec)).expect("it is whole");
        assert_eq!(kept, Some(done.to_string().into_bytes()), "W14: each that was carried out is replied");
        let waited = Duration::from_nanos(rig.clock.nanos() - began);
        assert!(
            waited >= END_WAIT && waited < END_WAIT + LIMITS.linger,
            "for one that takes nothing: {waited:?}"
        );
    }
}

#[test]
fn a_page_in_a_browser_cannot_post_commands() {
    let mut rig = table(13);
    let client = rig.connect();
    rig.clients().send(client, b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET a 1\r\nSHUTDOWN\r\n");
    rig.run("it is closed", |rig| rig.clients().has_closed(client));
    let said = replies(rig.clients().received_bytes(client));
    assert!(said.len() == 1 && said[0].starts_with("!ERR this is no HTTP server"), "{said:?}");
    let client = rig.connect();
    rig.clients().send(client, b"Host: localhost\r\nSET a 1\r\n");
    rig.run("it is closed", |rig| rig.clients().has_closed(client));
    assert_eq!(rig.service_elements(), 0);
}

/// A request that names a key so often that its reply would take a hundred megabytes, and one whose reply fits.
fn w2_long_reply_is_refused<S: Service>(open: Open<S>, first: &str, command: &str, key: &str) {
    let mut rig = Rig::new(17, open);
    let many = |count: usize| format!("{command}{}", format!(" {key}").repeat(count));
    rig.told(&[first]);
    let said = rig.told(&[&many(20_000), "PING"]);
    assert!(said[0].starts_with('[') && said[0].len() > 500_000, "{} bytes", said[0].len());
    let said = rig.told(&["PING", &many(1_000_000), "PING"]);
    let refused = "!ERR the reply would be longer than 33554432 bytes: ask for less at once";
    assert_eq!(said, ["+PONG", refused, "+PONG"], "W2");
}

#[test]
fn w2_a_reply_that_would_be_too_long_is_refused_of_urls() {
    let open: Open<UrlService> = |objects| UrlService::open(objects, Partition::WHOLE);
    w2_long_reply_is_refused(open, "UPS.CRAWLED a 1", "UPS.MGET", "a");
}

#[test]
fn w2_a_reply_that_would_be_too_long_is_refused_of_hosts() {
    w2_long_reply_is_refused(HostService::open, "HIS.ADD a 1", "HIS.MGET", "a");
}

#[test]
fn w2_a_request_of_too_many_commands_is_refused() {
    let mut rig = Rig::new(17, HostService::open);
    let many = |count: usize| format!("COMMAND INFO{}", " his.get".repeat(count));
    let said = rig.told(&[&many(1_024), &many(1_000_000), "PING"]);
    assert!(said[0].starts_with('[') && said[0].len() > 40_000, "{} bytes", said[0].len());
    assert_eq!(said[1..], ["!ERR COMMAND takes 1024 names at most: ask in several requests", "+PONG"], "W2");
}

#[test]
fn info_has_the_sections_that_a_client_names() {
    let mut rig = Rig::new(17, HostService::open);
    let said = rig.told(&["INFO clients STATS", "INFO", "INFO server all", "INFO none"]);
    let headings = |told: &str| told.matches("# ").count();
    assert!(
        said[0].contains("connected_clients:") && said[0].contains("total_commands_processed:"),
        "{said:?}"
    );
    assert_eq!(headings(&said[0]), 2, "{}", said[0]);
    assert!(headings(&said[1]) > 2 && headings(&said[1]) == headings(&said[2]), "{said:?}");
    assert_eq!(headings(&said[3]), 0, "{}", said[3]);
}

#[test]
fn w2_a_reply_that_would_be_too_long_is_refused_of_the_table() {
    let value = "x".repeat(500);
    w2_long_reply_is_refused(PersistentTable::open, &format!("SET a {value}"), "MGET", "a");
}

/// The client sends all of its value before it reads. A server that closes at the header, with the value unread, has
/// the kernel reset the connection, and the reason is lost.
#[test]
fn w13_a_value_that_is_too_large_is_refused_with_a_reason_that_its_client_reads() {
    let value = vec![b'x'; (16 << 20) + 1];
    let (mut long, mut wide) = (Vec::new(), Vec::new());
    encode_request(&mut long, &[b"SET".as_slice(), b"a", &value]);
    encode_request(&mut wide, &[&value[..8 << 20]; 6]);
    let cases: [(&[u8], &str); 5] = [
        (&long, "invalid bulk length: an argument has 16777216 bytes at most"),
        (&wide, "too big request: a request has 41943040 bytes at most"),
        (b"*1048577\r\n$1\r\n", "invalid multibulk length: a request has 1048576 arguments at most"),
        (&value[..100_000], "too big inline request: a line has 65536 bytes at most"),
        (b"*1\r\n!oops\r\n", "expected '$', got '!'"),
    ];
    for (seed, (sent, reason)) in cases.into_iter().enumerate() {
        let mut rig = table(16 + seed as u64);
        let client = rig.connect();
        rig.clients().send(client, b"SET b 1\r\n");
        rig.clients().send(client, sent);
        rig.run("it is closed", |rig| rig.clients().has_closed(client));
        let said = replies(rig.clients().received_bytes(client));
        assert_eq!(said, ["+OK".to_owned(), format!("!ERR Protocol error: {reason}")], "W13");
        assert_eq!(rig.told(&["GET b", "GET a"]), ["1", "-"]);
        rig.run("it is forgotten", |rig| rig.told(&["INFO"])[0].contains("connected_clients:1\r\n"));
    }
}

#[test]
fn w3_idle_clients_are_disconnected_if_that_is_asked_for_unless_a_reply_is_owed() {
    for idle in [None, Some(Duration::from_secs(30))] {
        let mut rig = Rig::on(&SimDisk::new(), 21, PersistentTable::open, NetLimits { idle, ..LIMITS });
        let (quiet, owed) = (rig.connect(), rig.connect());
        rig.clients().send(quiet, b"PING\r\n");
        rig.run("it is served", |rig| rig.clients().received_bytes(quiet) == b"+PONG\r\n");
        rig.keeps = false;
        rig.clients().send(owed, b"SET a 1\r\n");
        rig.steps(50);
        rig.clock.advance(Duration::from_secs(29));
        rig.steps(50);
        assert!(!rig.clients().has_closed(quiet), "W3: its time is not over");
        rig.clock.advance(Duration::from_secs(31));
        rig.steps(50);
        assert_eq!(rig.clients().has_closed(quiet), idle.is_some(), "W3");
        assert!(!rig.clients().has_closed(owed), "W3: its reply is not durable");
        rig.keeps = true;
        rig.run("it is told", |rig| rig.clients().received_bytes(owed) == b"+OK\r\n");
    }
}

/// They wait for one epoch, and together they are more than the client may have unsent.
#[test]
fn large_replies_that_wait_are_taken_on_as_they_go_out() {
    let limits = NetLimits { unsent_bytes_max: 10_000, ..LIMITS };
    let mut rig = Rig::on(&SimDisk::new(), 14, PersistentTable::open, limits);
    rig.keeps = false;
    let (client, value) = (rig.connect(), "x".repeat(1000));
    let mut bytes = Vec::new();
    encode_request(&mut bytes, &["SET", "long", &value]);
    (0..100).for_each(|_| encode_request(&mut bytes, &["GET", "long"]));
    rig.clients().send(client, &bytes);
    rig.clients().end(client);
    rig.steps(200);
    rig.keeps = true;
    rig.run("all is replied", |rig| rig.clients().has_closed(client));
    let said = replies(rig.clients().received_bytes(client));
    assert_eq!(said.len(), 101, "W2: a client that takes what it asked for is not dropped");
    assert!(said[0] == "+OK" && said[1..].iter().all(|reply| *reply == value));
}

#[test]
fn a_pattern_that_would_take_long_is_refused() {
    let mut rig = table(15);
    let said = rig
        .told(&[&format!("SCAN 0 MATCH {}", "a".repeat(257)), &format!("SCAN 0 MATCH {}", "a".repeat(256))]);
    assert_eq!(said[0], "!ERR a pattern has 256 bytes at most");
    assert!(said[1].starts_with('['), "{said:?}");
}

#[test]
fn w16_the_client_with_the_most_memory_is_disconnected_counted_and_told() {
    let limit = 1_000_000;
    let mut rig = Rig::with_client_memory(&SimDisk::new(), 40, PersistentTable::open, LIMITS, limit);
    let value = "x".repeat(60_000);
    assert_eq!(rig.told(&[&format!("SET long {value}")]), ["+OK"]);
    let takes_nothing = rig.clients().connect(100, 0);
    let slow = rig.clients().connect(20_000, 5_000);
    rig.clients().send(slow, &b"GET long\r\n".repeat(2));
    rig.clients().send(takes_nothing, &b"GET long\r\n".repeat(40));
    rig.run("it is disconnected", |rig| rig.told(&["INFO"])[0].contains("\r\nevicted_clients:1\r\n"));
    rig.run("the other is served", |rig| replies(rig.clients().received_bytes(slow)) == [&*value; 2]);
    let said = rig.told(&["INFO", "CONFIG GET maxmemory-clients"]);
    assert!(said[0].contains("\r\nclient_memory_bytes_max:1000000\r\n"), "{}", said[0]);
    assert!(said[0].contains("\r\nevicted_clients:1\r\n"), "W16: no other: {}", said[0]);
    assert!(said[1].contains("1000000"), "{}", said[1]);
    rig.run("people are told", |rig| {
        let notices = rig.notices.lock().expect("no panic");
        notices.iter().any(|notice| notice.starts_with("clients disconnected for their memory: 1."))
    });
}

/// The disk stands still, and clients ask for what is not durable, and go.
#[test]
fn w16_replies_that_wait_are_forgotten_when_their_clients_have_gone() {
    for seed in 0..10 {
        let mut rig = table(seed);
        let value = "x".repeat(10_000);
        rig.keeps = false;
        let stays = rig.connect();
        let mut bytes = Vec::new();
        encode_request(&mut bytes, &["SET", "long", &value]);
        rig.clients().send(stays, &bytes);
        rig.run("it waits", |rig| rig.server.deferred_count() == 1);
        for _ in 0..5 {
            let goes = rig.connect();
            rig.clients().send(goes, &b"GET long\r\n".repeat(100));
            rig.run("all wait", |rig| rig.server.deferred_count() == 101);
            rig.clients().vanish(goes);
            rig.run("they are forgotten", |rig| rig.server.deferred_count() == 1);
        }
        rig.keeps = true;
        rig.run("the other is told", |rig| rig.clients().received_bytes(stays) == b"+OK\r\n");
    }
}

/// What is known of a request's arguments is more than their bytes.
#[test]
fn w16_what_is_decoded_of_a_request_that_has_not_come_whole_counts() {
    let mut rig = table(42);
    let client = rig.connect();
    let arguments = 100_000;
    let mut bytes = format!("*{}\r\n", arguments + 1).into_bytes();
    bytes.extend(b"$0\r\n\r\n".repeat(arguments));
    rig.clients().send(client, &bytes);
    let counts = bytes.len() + 8 * arguments;
    rig.run("all of it counts", |rig| rig.server.client_memory_bytes() >= counts);
    rig.clients().send(client, b"$0\r\n\r\n");
    rig.run("it is replied", |rig| rig.clients().received_bytes(client).ends_with(b"\n"));
    rig.run("nothing counts", |rig| rig.server.client_memory_bytes() == 0);
}
