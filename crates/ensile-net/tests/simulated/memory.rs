//! The memory of all connections of all loops: its limit, the connection that is closed (W16), and room that is given
//! back (W17).
//!
//! Neighbours: the server of lines stands in [`super`].

use super::*;

const MEMORY_LIMITS: NetLimits =
    NetLimits { unread_bytes_max: 400_000, unsent_bytes_max: 800_000, idle: None, ..LIMITS };

/// Two loops with one memory.
fn two_loops(seed: u64, limits: NetLimits, memory: &Arc<ConnectionMemory>) -> [Server; 2] {
    [0, 1].map(|number| Server::with_memory(seed * 2 + number, limits, memory))
}

/// Steps all until `done`, a bounded number of times.
fn run_all(servers: &mut [Server], what: &str, mut done: impl FnMut(&mut [Server]) -> bool) {
    for _ in 0..200_000 {
        if done(servers) {
            return;
        }
        servers.iter_mut().for_each(Server::step);
    }
    panic!("never: {what}");
}

/// A line of this length.
fn line_of(bytes: usize) -> Vec<u8> {
    let mut line = vec![b'a'; bytes];
    line[bytes - 1] = b'\n';
    line
}

/// A client that is served, and for which the owner keeps these bytes.
fn holder(server: &mut Server, bytes: usize) -> ConnectionId {
    let client = server.clients().connect(100, 100);
    server.clients().send(client, b"a\n");
    server.run("it is replied", |server| server.clients().received_bytes(client) == b"a\n");
    let id = server.opened[0];
    server.net.parts(id).expect("it is open").1.set_owner_bytes(bytes);
    server.step();
    id
}

#[test]
fn w16_the_largest_connection_of_all_loops_is_closed_and_no_other() {
    for seed in 0..20 {
        for holder_loop in [0, 1] {
            let memory = ConnectionMemory::new(500_000);
            let mut servers = two_loops(seed, MEMORY_LIMITS, &memory);
            let id = holder(&mut servers[holder_loop], 300_000);
            let line = line_of(105_000);
            let others = [0, 1].map(|number| (number, servers[number].clients().connect(10_000, 10_000)));
            for (number, client) in others {
                servers[number].clients().send(client, &line[..104_999]);
            }
            run_all(&mut servers, "the holder is closed", |servers| !servers[holder_loop].closed.is_empty());
            assert_eq!(servers[holder_loop].closed.get(&id), Some(&CloseReason::Evicted), "W16: seed {seed}");
            for (number, client) in others {
                servers[number].clients().send(client, b"\n");
            }
            run_all(&mut servers, "all others are served", |servers| {
                others
                    .iter()
                    .all(|(number, client)| servers[*number].clients().received_bytes(*client) == line)
            });
            assert_eq!(servers[0].closed.len() + servers[1].closed.len(), 1, "W16: seed {seed}: no other");
        }
    }
}

/// Some clients take their replies slowly, or not at all.
#[test]
fn w16_all_connections_of_all_loops_stay_within_the_limit_and_others_lose_no_reply() {
    let (mut evicted, mut served) = (0, 0);
    for seed in 0..60 {
        let memory = ConnectionMemory::new(800_000);
        let limits = NetLimits { unread_bytes_max: 10_000, unsent_bytes_max: 100_000, ..MEMORY_LIMITS };
        let mut servers = two_loops(seed, limits, &memory);
        let mut random = Random::from_seed(seed);
        let mut clients = Vec::new();
        for server in &mut servers {
            server.copies = 500;
            for number in 0..4 {
                let speed = if random.percent(30) { 0 } else { random.next_between(100, 10_000) as usize };
                let client = server.clients().connect(random.next_between(100, 10_000) as usize, speed);
                let sent = lines(number, 30, &mut random);
                server.clients().send(client, &sent);
                server.clients().end(client);
                let replies: Vec<u8> =
                    sent.split_inclusive(|byte| *byte == b'\n').flat_map(|line| line.repeat(500)).collect();
                clients.push((client, replies));
            }
        }
        let mut peak = 0;
        run_all(&mut servers, "all are closed", |servers| {
            peak = peak.max(memory.bytes());
            servers.iter().all(|server| server.closed.len() == 4)
        });
        // Clients read the bytes that are under way.
        (0..200).for_each(|_| servers.iter_mut().for_each(Server::step));
        // The buffer of replies has grown to twice its bytes, in each loop.
        assert!(peak <= 800_000 + 2 * 220_000, "W16: seed {seed}: {peak} bytes");
        for (number, (client, replies)) in clients.iter().enumerate() {
            let server = &mut servers[number / 4];
            let received = server.clients().received_bytes(*client);
            assert!(replies.starts_with(received), "W1: seed {seed}");
            let is_whole = received.len() == replies.len();
            let reason = server.closed[&server.opened[number % 4]];
            assert_eq!(is_whole, reason == CloseReason::PeerEnded, "W16: seed {seed}: {reason:?}");
            evicted += usize::from(reason == CloseReason::Evicted);
            served += usize::from(is_whole);
        }
        drop(servers);
        assert_eq!(memory.bytes(), 0, "W16: all is given back");
    }
    assert!(evicted > 60 && served > 120, "{evicted} were closed, and {served} served");
}

/// The loop of the largest connection takes no step.
#[test]
fn w16_a_loop_takes_nothing_more_while_another_is_to_close_a_connection() {
    for seed in 0..20 {
        let memory = ConnectionMemory::new(900_000);
        let [mut one, mut other] = two_loops(seed, MEMORY_LIMITS, &memory);
        let id = holder(&mut other, 800_000);
        let clients: Vec<ClientId> = (0..4).map(|_| one.clients().connect(1000, 1000)).collect();
        let line = line_of(70_000);
        clients.iter().for_each(|client| one.clients().send(*client, &line));
        (0..2000).for_each(|_| one.step());
        let bytes = memory.bytes();
        assert!(bytes > 900_000 && bytes < 1_000_000, "W16: seed {seed}: {bytes} bytes");
        assert_eq!(one.closed.len(), 0, "W16: seed {seed}: they are smaller");
        other.run("the largest is closed", |server| !server.closed.is_empty());
        assert_eq!(other.closed.get(&id), Some(&CloseReason::Evicted), "W16: seed {seed}");
        one.run("all are served", |server| {
            clients.iter().all(|client| server.net.transport_mut().received_bytes(*client) == line)
        });
    }
}

/// The loop of the largest connection takes no step.
#[test]
fn w16_a_client_of_a_paused_loop_is_not_idle() {
    for seed in 0..20 {
        let limits = NetLimits { idle: Some(Duration::from_secs(3)), ..MEMORY_LIMITS };
        let memory = ConnectionMemory::new(900_000);
        let [mut one, mut other] = two_loops(seed, limits, &memory);
        // A client whose reply waits is not idle.
        (one.parked_percent, one.tells) = (100, false);
        let owed = one.clients().connect(1000, 1000);
        one.clients().send(owed, b"b\n");
        one.run("its reply waits", |server| server.parked.len() == 1);
        one.parked_percent = 0;
        let client = one.clients().connect(1000, 1000);
        one.run("it is connected", |server| server.opened.len() == 2);
        holder(&mut other, 800_000);
        let owed = one.opened[0];
        one.net.parts(owed).expect("it is open").1.set_owner_bytes(110_000);
        one.step();
        one.clients().send(client, b"a\n");
        for _ in 0..1000 {
            one.clock.advance(Duration::from_millis(10));
            one.step();
        }
        assert!(one.closed.is_empty(), "W3, W16: seed {seed}: {:?}", one.closed);
        other.run("the largest is closed", |server| !server.closed.is_empty());
        one.run("it is served", |server| server.clients().received_bytes(client) == b"a\n");
    }
}

/// Whole requests of many clients have been read when the limit is passed.
#[test]
fn w16_a_paused_loop_hands_out_no_request() {
    for seed in 0..20 {
        let memory = ConnectionMemory::new(900_000);
        let [mut one, mut other] = two_loops(seed, MEMORY_LIMITS, &memory);
        holder(&mut other, 750_000);
        one.copies = 100;
        let clients: Vec<ClientId> = (0..5).map(|_| one.clients().connect(10_000, 0)).collect();
        one.run("all are connected", |server| server.opened.len() == 5);
        clients.iter().for_each(|client| one.clients().send(*client, &line_of(100).repeat(10)));
        (0..2000).for_each(|_| one.step());
        let bytes = memory.bytes();
        assert!(bytes > 900_000 && bytes < 1_100_000, "W16: seed {seed}: {bytes} bytes");
    }
}

#[test]
fn w16_a_client_that_alone_exceeds_the_memory_is_closed_and_others_are_served() {
    for seed in 0..30 {
        let memory = ConnectionMemory::new(100_000);
        let mut server = Server::with_memory(seed, MEMORY_LIMITS, &memory);
        let (large, small) = (server.clients().connect(1000, 1000), server.clients().connect(1000, 1000));
        server.clients().send(large, &[b'x'; 200_000]);
        server.clients().send(small, b"small\n");
        server.run("it is closed", |server| !server.closed.is_empty());
        let id = *server.closed.keys().next().expect("it is closed");
        assert_eq!((server.closed.len(), server.closed[&id]), (1, CloseReason::Evicted), "W16");
        server.run("the other is served", |server| server.clients().received_bytes(small) == b"small\n");
    }
}

#[test]
fn w16_memory_that_an_owner_keeps_counts() {
    for seed in 0..20 {
        let memory = ConnectionMemory::new(350_000);
        let mut server = Server::with_memory(seed, MEMORY_LIMITS, &memory);
        let id = holder(&mut server, 300_000);
        assert!(memory.bytes() >= 300_000 && server.closed.is_empty(), "W16: {} bytes", memory.bytes());
        server.net.parts(id).expect("it is open").1.set_owner_bytes(350_001);
        server.step();
        assert_eq!((server.closed[&id], memory.bytes()), (CloseReason::Evicted, 0), "W16");
    }
}

#[test]
fn w16_what_a_connection_that_vanishes_had_is_given_back() {
    for seed in 0..30 {
        let memory = ConnectionMemory::new(400_000);
        let mut server = Server::with_memory(seed, MEMORY_LIMITS, &memory);
        let gone = server.clients().connect(1000, 1000);
        server.clients().send(gone, &[b'x'; 30_000]);
        server.run("it has much", |_| memory.bytes() > 30_000);
        server.clients().vanish(gone);
        server.run("it is closed", |server| !server.closed.is_empty());
        assert_eq!(memory.bytes(), 0, "W16: all is given back");
    }
}

/// A client has sent a large request, and a byte of the next.
#[test]
fn w16_the_beginning_of_a_request_keeps_no_room_of_the_one_before() {
    for seed in 0..20 {
        let mut server = Server::with_limits(seed, MEMORY_LIMITS);
        let client = server.clients().connect(10_000, 10_000);
        let line = line_of(350_000);
        server.clients().send(client, &line);
        server.clients().send(client, b"x");
        server.run("it is replied", |server| server.clients().received_bytes(client) == line);
        server.run("it has little", |server| server.net.stats().room_bytes < 100_000);
    }
}

#[test]
fn w17_a_silent_connection_gives_its_room_back_and_is_served_again() {
    for seed in 0..20 {
        let mut server = Server::with_limits(seed, NetLimits { idle: None, ..LIMITS });
        let client = server.clients().connect(100, 100);
        for round in 1..4 {
            let sent = lines(0, 3, &mut Random::from_seed(seed));
            server.silent.clear();
            server.clients().send(client, &sent);
            server.run("it is replied", |server| {
                server.clients().received_bytes(client).len() == round * sent.len()
            });
            assert!(server.net.take_room_peak() > 0, "W17: the next request finds room");
            server.run("its room is given back", |server| server.net.stats().room_bytes == 0);
            server.run("its owner is told", |server| server.silent.contains(&server.opened[0]));
        }
    }
}

#[test]
fn w17_a_connection_with_a_reply_or_a_part_of_a_request_keeps_its_room() {
    for seed in 0..20 {
        let mut server = Server::with_limits(seed, NetLimits { idle: None, ..LIMITS });
        (server.parked_percent, server.tells) = (100, false);
        let (owed, sends) = (server.clients().connect(100, 100), server.clients().connect(100, 100));
        server.clients().send(owed, b"a\n");
        server.clients().send(sends, b"a part");
        server.run("it is parked", |server| server.parked.len() == 1);
        (0..100).for_each(|_| server.step());
        server.clock.advance(LIMITS.stalled / 2);
        (0..100).for_each(|_| server.step());
        assert_eq!(server.silent, [], "W17: seed {seed}");
    }
}
