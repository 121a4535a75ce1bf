//! Clients with TLS over the simulated transport: torn records, resets, and handshakes that fail or never end (W20).
//!
//! Neighbours: the server of lines stands in [`super`], the clients in [`super::tls_client`].

use ensile_net::{TlsClients, TlsFailure};
use rustls::version::{TLS12, TLS13};

use super::tls_client::{CLIENT, Identity, STRANGER, TlsClient, config};
use super::*;

/// Largest number of bytes that the records of a read bring.
pub(super) const RECORDS_BYTES: usize = 32 << 10;

/// The handshake has 4 seconds.
const TLS_LIMITS: NetLimits =
    NetLimits { unread_bytes_max: 1000, unsent_bytes_max: 20_000, linger_bytes_max: 100_000, ..LIMITS };

/// Most bytes that an idle connection with TLS counts.
const IDLE_BYTES_MAX: usize = 12 << 10;

fn server(seed: u64, clients: TlsClients) -> Server {
    let memory = ConnectionMemory::new(usize::MAX);
    Server::listening(seed, TLS_LIMITS, &memory, Some(config(clients)))
}

/// A client whose window and speed a seed draws.
fn client(server: &mut Server, identity: Option<Identity>, random: &mut Random) -> TlsClient {
    let (window, speed) = (random.next_between(1, 2000), random.next_between(1, 1000));
    let id = server.clients().connect(window as usize, speed as usize);
    let version = if random.percent(50) { &TLS12 } else { &TLS13 };
    TlsClient::new(id, identity, version)
}

/// Steps server and clients until `done`, a bounded number of times.
fn run_with(
    server: &mut Server,
    clients: &mut [TlsClient],
    what: &str,
    mut done: impl FnMut(&mut Server, &[TlsClient]) -> bool,
) {
    let mut random = Random::from_seed(clients.len() as u64);
    for _ in 0..200_000 {
        if done(server, clients) {
            return;
        }
        clients.iter_mut().for_each(|client| client.turn(server.clients(), &mut random));
        server.step();
    }
    let errors: Vec<_> = clients.iter().map(|client| &client.error).collect();
    panic!("never: {what}: {:?}, {errors:?}", server.closed);
}

/// The reason of the end of the first connection.
fn first_reason(server: &Server) -> Option<CloseReason> {
    server.closed.get(server.opened.first()?).copied()
}

#[test]
fn w20_requests_and_replies_go_through_torn_records() {
    let mut versions = Vec::new();
    for seed in 0..60 {
        let mut random = Random::from_seed(seed);
        let mut server = server(seed, TlsClients::NotAsked);
        let mut clients: Vec<TlsClient> = (0..4).map(|_| client(&mut server, None, &mut random)).collect();
        let sent: Vec<Vec<u8>> = (0..clients.len()).map(|client| lines(client, 30, &mut random)).collect();
        for (client, sent) in clients.iter_mut().zip(&sent) {
            for piece in sent.chunks(random.next_between(1, 500) as usize) {
                client.request(piece);
            }
            // The client ends its side, and goes on reading.
            client.end();
        }
        run_with(&mut server, &mut clients, "all are ended", |server, clients| {
            clients.iter().all(|client| client.has_server_ended) && server.closed.len() == clients.len()
        });
        for (client, sent) in clients.iter().zip(&sent) {
            assert!(client.replies == *sent, "W1, seed {seed}: {} of {}", client.replies.len(), sent.len());
            assert_eq!(client.error, None, "seed {seed}");
            versions.extend(client.version());
        }
        let is_peers = |reason: &CloseReason| *reason == CloseReason::PeerEnded;
        assert!(server.closed.values().all(is_peers), "{:?}, seed {seed}", server.closed);
        let requests: u64 = sent.iter().map(|sent| sent.len() as u64).sum();
        let stats = server.net.stats();
        assert_eq!((stats.received_bytes, stats.sent_bytes), (requests, requests), "bytes without records");
    }
    assert!([&TLS12, &TLS13].iter().all(|version| versions.contains(&version.version)), "{versions:?}");
}

#[test]
fn w20_a_large_reply_goes_through_small_windows() {
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let mut server = server(seed, TlsClients::NotAsked);
        server.copies = 150;
        let mut clients = [client(&mut server, None, &mut random)];
        let line = lines(0, 1, &mut random);
        clients[0].request(&line);
        clients[0].end();
        run_with(&mut server, &mut clients, "it is ended", |_, clients| clients[0].has_server_ended);
        assert_eq!(clients[0].replies, line.repeat(150), "seed {seed}");
    }
}

/// The connection of a client breaks at any byte of its handshake, or behind it. Another client is served.
#[test]
fn w20_a_reset_in_the_handshake_harms_nobody() {
    for seed in 0..100 {
        let mut random = Random::from_seed(seed);
        let mut server = server(seed, TlsClients::Required);
        let mut clients = [0, 1].map(|_| client(&mut server, Some(CLIENT), &mut random));
        clients.iter_mut().for_each(|client| client.request(b"hello\n"));
        let vanishes_at = random.next_below(60);
        for turn in 0..=vanishes_at {
            clients.iter_mut().for_each(|client| client.turn(server.clients(), &mut random));
            if turn == vanishes_at {
                let gone = clients[0].id;
                server.clients().vanish(gone);
            }
            server.step();
        }
        run_with(&mut server, &mut clients[1..], "the other is served", |server, others| {
            others[0].replies == b"hello\n" && server.closed.len() == 1
        });
        let reason = *server.closed.values().next().expect("one is closed");
        assert!(matches!(reason, CloseReason::Failed(_)), "{reason:?}, seed {seed}");
    }
}

/// The client sends a byte of its handshake now and then: each byte is progress, and the limit stays.
#[test]
fn w20_an_unfinished_handshake_ends_in_time() {
    for seed in 0..20 {
        for sends in [false, true] {
            let mut random = Random::from_seed(seed);
            let mut server = server(seed, TlsClients::NotAsked);
            let mut slow = client(&mut server, None, &mut random);
            let hello = slow.take_unsent();
            for byte in hello.iter().cycle().take(1000) {
                if sends && server.clock.nanos() < 3_000_000_000 {
                    server.clients().send(slow.id, &[*byte]);
                }
                server.clock.advance(Duration::from_millis(20));
                server.step();
                if !server.closed.is_empty() {
                    break;
                }
            }
            assert_eq!(first_reason(&server), Some(CloseReason::Tls(TlsFailure::TimedOut)), "seed {seed}");
            let seconds = server.clock.nanos() as f64 / 1e9;
            assert!((4.0..5.0).contains(&seconds), "W20: {seconds} s, seed {seed}");
        }
    }
}

#[test]
fn w20_a_client_without_tls_reads_the_reason_and_is_closed() {
    for seed in 0..20 {
        let mut server = server(seed, TlsClients::NotAsked);
        let client = server.clients().connect(1000, 1000);
        server.clients().send(client, b"*1\r\n$4\r\nPING\r\n");
        server.run("it is closed", |server| !server.closed.is_empty());
        assert_eq!(first_reason(&server), Some(CloseReason::Tls(TlsFailure::PlainText)), "seed {seed}");
        let reply = server.clients().received_bytes(client);
        assert_eq!(reply, b"-ERR this port takes TLS connections only\r\n", "seed {seed}");
        assert!(server.taken.is_empty(), "no request is seen");
        let told = server.net.last_tls_failure().expect("a failure").to_owned();
        assert!(told.contains("redis-cli --tls"), "{told}");
    }
}

/// A message of a handshake that never ends: the client goes on sending parts of it.
#[test]
fn w20_a_handshake_has_bounded_memory() {
    for seed in 0..20 {
        let mut server = server(seed, TlsClients::NotAsked);
        let client = server.clients().connect(1000, 1000);
        // A hello of 60,000 bytes, in records of 1,000 bytes.
        let mut record = vec![22, 3, 1, 3, 232, 1, 0, 234, 96];
        record.resize(1005, 7);
        server.clients().send(client, &record);
        record[5..].fill(7);
        let mut most = 0;
        for _ in 0..40 {
            server.clients().send(client, &record);
            (0..20).for_each(|_| server.step());
            most = most.max(server.net.stats().room_bytes);
        }
        server.run("it is closed", |server| !server.closed.is_empty());
        assert_eq!(first_reason(&server), Some(CloseReason::Tls(TlsFailure::Handshake)), "seed {seed}");
        assert!(most <= IDLE_BYTES_MAX + 2 * RECORDS_BYTES, "W20: {most} bytes, seed {seed}");
    }
}

#[test]
fn w20_clients_show_a_certificate_of_the_authority() {
    for (clients, identity, is_served) in [
        (TlsClients::Required, Some(CLIENT), true),
        (TlsClients::Required, None, false),
        (TlsClients::Required, Some(STRANGER), false),
        (TlsClients::Optional, Some(CLIENT), true),
        (TlsClients::Optional, None, true),
        (TlsClients::Optional, Some(STRANGER), false),
        (TlsClients::NotAsked, Some(STRANGER), true),
    ] {
        for seed in 0..8 {
            let mut random = Random::from_seed(seed);
            let mut server = server(seed, clients);
            let mut all = [client(&mut server, identity, &mut random)];
            all[0].request(b"hello\n");
            run_with(&mut server, &mut all, "it is served or refused", |server, all| {
                !all[0].replies.is_empty() || !server.closed.is_empty()
            });
            assert_eq!(all[0].replies == b"hello\n", is_served, "{clients:?}, seed {seed}");
            all[0].turn(server.clients(), &mut random);
            if !is_served {
                let refused = Some(CloseReason::Tls(TlsFailure::Handshake));
                assert_eq!(first_reason(&server), refused, "{clients:?}, seed {seed}");
                assert!(all[0].error.is_some(), "the client reads the reason, seed {seed}");
                assert!(server.taken.is_empty(), "no request of it is seen");
            }
        }
    }
}

#[test]
fn w20_handshakes_leave_turns_to_others() {
    for seed in 0..20 {
        let mut server = server(seed, TlsClients::NotAsked);
        let ids: Vec<ClientId> = (0..6).map(|_| server.clients().connect(10_000, 10_000)).collect();
        let hellos: Vec<Vec<u8>> =
            ids.iter().map(|id| TlsClient::new(*id, None, &TLS13).take_unsent()).collect();
        server.run("all are open", |server| server.opened.len() == ids.len());
        for (id, hello) in ids.iter().zip(&hellos) {
            server.clients().send(*id, hello);
        }
        let mut before = server.net.stats().handshake_turns;
        server.run("all are answered", |server| {
            let turns = server.net.stats().handshake_turns;
            assert!(turns - before <= 4, "W20: {} turns in a step, seed {seed}", turns - before);
            before = turns;
            ids.iter().all(|id| !server.clients().received_bytes(*id).is_empty())
        });
    }
}

#[test]
fn w13_an_ending_server_says_its_last_record_to_each_client() {
    for seed in 0..40 {
        let mut random = Random::from_seed(seed);
        let mut server = server(seed, TlsClients::NotAsked);
        server.parked_percent = 100;
        server.tells = false;
        let mut clients = [0, 1].map(|_| client(&mut server, None, &mut random));
        clients[0].request(b"a\nb\n");
        clients[1].request(b"c\n");
        run_with(&mut server, &mut clients, "all are parked", |server, _| server.parked.len() == 3);
        server.net.end_all(Duration::from_secs(1));
        server.tells = true;
        run_with(&mut server, &mut clients, "all are told", |_, clients| {
            clients.iter().all(|client| client.has_server_ended)
        });
        assert_eq!(clients[0].replies, b"a\nb\n", "W14, seed {seed}");
        assert_eq!(clients[1].replies, b"c\n", "W14, seed {seed}");
    }
}

#[test]
fn w16_sessions_count_and_silent_ones_give_room_back() {
    for seed in 0..10 {
        let mut random = Random::from_seed(seed);
        let mut server = server(seed, TlsClients::NotAsked);
        server.copies = 20;
        let mut clients = [client(&mut server, None, &mut random)];
        clients[0].request(&vec![b'x'; 900]);
        clients[0].request(b"\n");
        run_with(&mut server, &mut clients, "it is served", |_, clients| {
            clients[0].replies.len() == 901 * 20
        });
        let busy = server.net.stats().room_bytes;
        server.clock.advance(3 * LIMITS.room_kept);
        (0..20).for_each(|_| server.step());
        let silent = server.net.stats().room_bytes;
        assert!(!server.silent.is_empty() && silent < busy, "W17: {silent} of {busy}, seed {seed}");
        assert!((4096..=IDLE_BYTES_MAX).contains(&silent), "W16: {silent} bytes, seed {seed}");
        clients[0].request(b"again\n");
        run_with(&mut server, &mut clients, "it goes on", |_, clients| {
            clients[0].replies.ends_with(b"again\n")
        });
    }
}

/// A message to a client that ends its side at that moment.
#[test]
fn w20_a_push_behind_the_last_record_is_dropped() {
    for seed in 0..40 {
        let mut random = Random::from_seed(seed);
        let mut server = server(seed, TlsClients::NotAsked);
        let mut clients = [client(&mut server, None, &mut random)];
        clients[0].request(b"a\n");
        clients[0].end();
        run_with(&mut server, &mut clients, "it is ended", |server, clients| {
            if let Some((_, replies)) = server.opened.first().and_then(|id| server.net.parts(*id)) {
                replies.reply(|buffer| buffer.push(b'!'));
            }
            clients[0].has_server_ended && !server.closed.is_empty()
        });
        assert_eq!(first_reason(&server), Some(CloseReason::PeerEnded), "seed {seed}");
        assert!(server.clock.nanos() < LIMITS.stalled.as_nanos() as u64, "W3, seed {seed}");
    }
}

/// Bytes behind the handshake that are no record of the client: an attacker on the way.
#[test]
fn w20_a_false_record_ends_the_connection_without_a_request() {
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let mut server = server(seed, TlsClients::NotAsked);
        let mut clients = [client(&mut server, None, &mut random)];
        clients[0].request(b"a\n");
        run_with(&mut server, &mut clients, "it is served", |_, clients| {
            clients[0].replies == b"a\n" && clients[0].has_sent()
        });
        clients[0].request(b"b\n");
        let mut record = clients[0].take_unsent();
        *record.last_mut().expect("a record") ^= 1;
        let id = clients[0].id;
        server.clients().send(id, &record);
        run_with(&mut server, &mut clients, "it is closed", |server, _| !server.closed.is_empty());
        assert_eq!(first_reason(&server), Some(CloseReason::Tls(TlsFailure::Broken)), "seed {seed}");
        assert_eq!(server.taken.values().sum::<usize>(), 2, "the changed request is not seen");
    }
}
