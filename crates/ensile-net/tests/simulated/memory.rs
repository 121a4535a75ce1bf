//! The memory of all connections of all loops together: its limit, fair service, and room that is given back (W16).
//!
//! Neighbours: the server of lines stands in [`super`].

use super::*;

/// Requests and replies of up to some thousand bytes each, of which the limit over all is a few.
const MEMORY_LIMITS: NetLimits =
    NetLimits { unread_bytes_max: 4000, unsent_bytes_max: 8000, idle: None, ..LIMITS };

#[test]
fn w16_all_connections_of_all_loops_stay_within_the_limit_and_are_served() {
    for seed in 0..60 {
        let memory = ConnectionMemory::new(8000);
        // The requests of all, and a reply, fit.
        let memory_wait = Duration::from_secs(1000);
        let limits = NetLimits { unread_bytes_max: 1000, memory_wait, ..MEMORY_LIMITS };
        let mut servers =
            [0, 1].map(|loop_number| Server::with_memory(seed * 2 + loop_number, limits, &memory));
        let mut random = Random::seeded(seed);
        let mut clients = Vec::new();
        for server in &mut servers {
            server.copies = 20;
            for number in 0..4 {
                let (window, speed) = (random.between(1, 200) as usize, random.between(1, 100) as usize);
                let client = server.clients().connect(window, speed);
                let sent = lines(number, 30, &mut random);
                server.clients().send(client, &sent);
                server.clients().end(client);
                let replies: Vec<u8> =
                    sent.split_inclusive(|byte| *byte == b'\n').flat_map(|line| line.repeat(20)).collect();
                clients.push((client, replies));
            }
        }
        let mut peak = 0;
        for step in 0.. {
            assert!(step < 200_000, "W16: seed {seed}: somebody is never served");
            servers.iter_mut().for_each(Server::step);
            peak = peak.max(memory.bytes());
            let has_read = |(number, (client, _)): (usize, &(ClientId, Vec<u8>))| {
                servers[number / 4].net.transport_mut().has_closed(*client)
            };
            if clients.iter().enumerate().all(has_read) {
                break;
            }
        }
        // A reply of 20 lines, which was written, and its line.
        let reply_max = 21 * 66;
        assert!(peak > 4000 && peak <= 8000 + 2 * reply_max, "W16: seed {seed}: {peak} bytes");
        for (number, (client, replies)) in clients.iter().enumerate() {
            let server = &mut servers[number / 4];
            assert!(server.out_of_memory.is_empty(), "W16: they wait for each other");
            assert!(server.clients().received(*client) == replies, "W16: seed {seed}: each reply comes");
        }
        drop(servers);
        assert_eq!(memory.bytes(), 0, "W16: all is given back");
    }
}

/// Each has a part of a request, and there is no memory for the rest of any.
#[test]
fn w16_clients_that_wait_for_each_other_are_told_one_by_one_the_largest_first() {
    for seed in 0..30 {
        let memory = ConnectionMemory::new(5000);
        let mut server = Server::with_memory(seed, MEMORY_LIMITS, &memory);
        let clients: Vec<ClientId> = (0..4).map(|_| server.clients().connect(100, 100)).collect();
        for (number, client) in clients.iter().enumerate() {
            server.clients().send(*client, &vec![b'a' + number as u8; 1500 + 100 * number]);
        }
        (0..500).for_each(|_| server.step());
        clients.iter().for_each(|client| server.clients().send(*client, &[b'x'; 2000]));
        (0..500).for_each(|_| server.step());
        assert!(server.out_of_memory.is_empty(), "W16: its time is not over");
        clients.iter().for_each(|client| server.clients().send(*client, b"\n"));
        let began = server.clock.nanos();
        server.run("all are replied", |server| {
            clients.iter().all(|client| server.net.transport_mut().received(*client).ends_with(b"\n"))
        });
        let told = server.out_of_memory.len();
        assert!((1..4).contains(&told), "W16: {told} of four");
        assert!(server.clock.nanos() - began >= LIMITS.memory_wait.as_nanos() as u64 / 2);
        for client in &clients {
            let received = server.clients().received(*client);
            assert!(received == b"no memory\n" || received.len() > 3500, "W16: {} bytes", received.len());
        }
    }
}

#[test]
fn w16_what_a_connection_that_vanishes_had_is_given_back() {
    for seed in 0..30 {
        let memory = ConnectionMemory::new(5000);
        let mut server = Server::with_memory(seed, MEMORY_LIMITS, &memory);
        let gone = server.clients().connect(100, 100);
        server.clients().send(gone, &[b'x'; 3000]);
        server.run("it has much", |_| memory.bytes() > 1000);
        server.clients().vanish(gone);
        server.run("it is closed", |server| !server.closed.is_empty());
        assert_eq!(memory.bytes(), 0, "W16: all is given back");
    }
}

#[test]
fn w16_a_request_that_is_larger_than_the_memory_of_all_is_told_at_once() {
    for seed in 0..30 {
        let memory = ConnectionMemory::new(1000);
        let mut server = Server::with_memory(seed, MEMORY_LIMITS, &memory);
        let (large, small) = (server.clients().connect(100, 100), server.clients().connect(100, 100));
        server.clients().send(large, b"first\n");
        server.clients().send(large, &[b'x'; 3000]);
        server.run("it is told", |server| server.clients().received(large) == b"first\nno memory\n");
        assert!(server.clock.nanos() < LIMITS.memory_wait.as_nanos() as u64, "W16: at once");
        server.clients().send(small, b"small\n");
        server.run("others are served", |server| server.clients().received(small) == b"small\n");
        server.run("it is closed", |server| server.closed.len() == 1);
        assert_eq!(server.out_of_memory.len(), 1, "W16: told once");
        assert_eq!(memory.bytes(), 0, "W16: all is given back");
    }
}

/// Steps all, and has a client of the first send this request until it is replied, again each time when it is told that
/// there is no memory for it. How often that was.
fn sends_until_replied(
    servers: &mut [Server],
    request: &[u8],
    mut between: impl FnMut(&mut [Server]),
) -> usize {
    for told in 0.. {
        let client = servers[0].clients().connect(1000, 1000);
        servers[0].clients().send(client, request);
        for step in 0.. {
            assert!(step < 200_000, "W16: it is neither replied nor told");
            servers.iter_mut().for_each(Server::step);
            between(servers);
            if servers[0].clients().received(client) == request {
                return told;
            }
            if servers[0].clients().has_closed(client) {
                break;
            }
        }
        assert_eq!(servers[0].clients().received(client), b"no memory\n", "W16: told each time");
        assert!(told < 5, "W16: told again and again");
    }
    unreachable!("it was replied, or told too often")
}

/// A line of this length.
fn line_of(bytes: usize) -> Vec<u8> {
    let mut line = vec![b'a'; bytes];
    line[bytes - 1] = b'\n';
    line
}

#[test]
fn w16_clients_that_have_sent_a_part_of_a_request_and_are_silent_keep_nobody_waiting_for_ever() {
    for seed in 0..10 {
        for holder_loop in [0, 1] {
            let memory = ConnectionMemory::new(3000);
            let mut servers =
                [0, 1].map(|number| Server::with_memory(seed * 2 + number, MEMORY_LIMITS, &memory));
            let silent = servers[holder_loop].clients().connect(100, 100);
            servers[holder_loop].clients().send(silent, &[b'x'; 2400]);
            servers[holder_loop].run("it has almost all memory", |_| memory.bytes() >= 2700);
            let told = sends_until_replied(&mut servers, &line_of(1500), |_| ());
            // The clock of the other loop may be behind.
            assert!(told <= 2 * holder_loop, "W16: seed {seed}: told {told} times");
            let received = servers[holder_loop].clients().received(silent);
            assert!(received == b"no memory\n", "W16: it gives back what it had");
        }
    }
}

/// `stalled` begins anew with each byte, so it never ends a client that takes one now and then.
#[test]
fn w16_a_client_that_takes_a_byte_now_and_then_is_closed_once_others_wait_for_what_it_has() {
    for seed in 0..10 {
        let memory = ConnectionMemory::new(5000);
        let mut servers = [Server::with_memory(seed, MEMORY_LIMITS, &memory)];
        (servers[0].parked_percent, servers[0].copies) = (0, 40);
        let slow = servers[0].clients().connect(3, 0);
        servers[0].clients().send(slow, &line_of(100));
        servers[0].run("it is replied", |server| server.taken.values().sum::<usize>() == 100);
        servers[0].copies = 1;
        let mut next = 0;
        let mut takes_one = |servers: &mut [Server]| {
            let goes = servers[0].clock.nanos() >= next;
            if goes {
                next = servers[0].clock.nanos() + LIMITS.stalled.as_nanos() as u64 / 2;
            }
            servers[0].clients().set_speed(slow, usize::from(goes));
        };
        let until = servers[0].clock.nanos() + 2 * LIMITS.ending.as_nanos() as u64;
        while servers[0].clock.nanos() < until {
            servers[0].step();
            takes_one(&mut servers);
        }
        assert!(servers[0].closed.is_empty(), "nobody waits for what it has");
        let id = servers[0].opened[0];
        let told = sends_until_replied(&mut servers, &line_of(2500), takes_one);
        assert_eq!((told, servers[0].closed.get(&id)), (0, Some(&CloseReason::Stalled)), "W16: seed {seed}");
        assert!(servers[0].clients().received(slow).len() > 10, "it took some");
    }
}

#[test]
fn w16_a_client_that_waits_for_memory_is_not_idle() {
    for seed in 0..20 {
        let limits = NetLimits { idle: Some(Duration::from_secs(3)), ..MEMORY_LIMITS };
        let memory = ConnectionMemory::new(3000);
        let mut server = Server::with_memory(seed, limits, &memory);
        // Its reply waits, so it is not idle either.
        (server.parked_percent, server.tells) = (100, false);
        let holder = server.clients().connect(100, 100);
        server.clients().send(holder, &line_of(2500));
        server.run("its reply waits", |server| server.parked.len() == 1);
        let waits = server.clients().connect(100, 100);
        server.clients().send(waits, &line_of(2500));
        server.run("it is told", |server| server.clients().has_closed(waits));
        assert_eq!(server.clients().received(waits), b"no memory\n", "W3, W16: seed {seed}");
    }
}

/// It has waited for too long, and there is memory again in the same step.
#[test]
fn w16_a_client_that_goes_on_is_not_told() {
    let (mut in_the_same_step, mut told) = (0, 0);
    for seed in 0..50 {
        let memory = ConnectionMemory::new(3000);
        let mut server = Server::with_memory(seed, MEMORY_LIMITS, &memory);
        (server.parked_percent, server.tells) = (100, false);
        let holder = server.clients().connect(100, 100);
        server.clients().send(holder, &line_of(2500));
        server.run("its reply waits", |server| server.parked.len() == 1);
        server.parked_percent = 0;
        let waits = server.clients().connect(100, 100);
        server.clients().send(waits, &line_of(2500));
        let before = server.clock.nanos() + LIMITS.memory_wait.as_nanos() as u64 * 9 / 10;
        server.run("it has waited", |server| server.clock.nanos() >= before);
        server.clock.advance(LIMITS.memory_wait / 5);
        server.clients().vanish(holder);
        server.step();
        if server.closed.is_empty() {
            continue;
        }
        in_the_same_step += 1;
        server.run("it is replied", |server| server.clients().received(waits).ends_with(b"\n"));
        if server.out_of_memory.is_empty() {
            assert!(server.clients().received(waits) == line_of(2500), "W16: seed {seed}");
        } else {
            // It was looked at before the other one.
            told += 1;
        }
    }
    assert!(
        in_the_same_step > 10 && told * 2 < in_the_same_step,
        "W16: {told} of {in_the_same_step} told in vain"
    );
}

/// Each that gives its memory back is followed by another one that wants more.
#[test]
fn w16_a_client_that_waits_is_served_or_told_whatever_others_want() {
    for seed in 0..10 {
        let memory = ConnectionMemory::new(3000);
        let limits = NetLimits { connections_max: 6, ..MEMORY_LIMITS };
        let mut server = Server::with_memory(seed, limits, &memory);
        server.parked_percent = 0;
        let mut greedy = Vec::new();
        let mut comes_again = |server: &mut Server| {
            greedy.retain(|client| !server.clients().has_closed(*client));
            while greedy.len() < 3 {
                let client = server.clients().connect(100, 100);
                server.clients().send(client, &[b'x'; 3900]);
                greedy.push(client);
            }
        };
        comes_again(&mut server);
        server.run("they have all memory", |_| memory.bytes() > 2000);
        let small = server.clients().connect(100, 100);
        server.clients().send(small, &line_of(1800));
        let began = server.clock.nanos();
        server.run("it is replied", |server| {
            comes_again(server);
            server.clients().received(small).ends_with(b"\n")
        });
        let waited = Duration::from_nanos(server.clock.nanos() - began);
        // Each of the three that were there before it goes first, at most.
        let most = LIMITS.memory_wait * 5 + LIMITS.stalled;
        assert!(waited <= most, "W16: seed {seed}: it waited for {waited:?}");
    }
}

/// A client has sent a large request, and a byte of the next.
#[test]
fn w16_the_beginning_of_a_request_keeps_no_room_of_the_one_before() {
    for seed in 0..20 {
        let memory = ConnectionMemory::new(5000);
        let mut server = Server::with_memory(seed, MEMORY_LIMITS, &memory);
        let client = server.clients().connect(100, 100);
        let line = line_of(3500);
        server.clients().send(client, &line);
        server.clients().send(client, b"x");
        server.run("it is replied", |server| server.clients().received(client) == line);
        server.run("it has little", |_| memory.bytes() == 0);
    }
}

#[test]
fn w16_the_room_of_a_request_that_was_read_is_given_back() {
    for seed in 0..20 {
        let memory = ConnectionMemory::new(5000);
        let mut server = Server::with_memory(seed, MEMORY_LIMITS, &memory);
        let client = server.clients().connect(100, 100);
        let line = line_of(3500);
        server.clients().send(client, &line);
        server.run("it is replied", |server| server.clients().received(client) == line);
        server.step();
        assert_eq!((memory.bytes(), server.closed.len()), (0, 0), "W16: seed {seed}");
    }
}

#[test]
fn w16_connections_that_may_have_nothing_by_themselves_are_served() {
    for free_bytes in 0..3 {
        let memory = ConnectionMemory::new(if free_bytes == 0 { 20_000 } else { usize::MAX });
        let mut server = Server::with_memory(9, NetLimits { free_bytes, ..MEMORY_LIMITS }, &memory);
        let client = server.clients().connect(100, 100);
        let line = line_of(1000);
        server.clients().send(client, &line);
        server.run("it is replied", |server| server.clients().received(client) == line);
        server.net.close_when_sent(server.opened[0]);
        server.clients().send(client, b"more");
        server.run("it is closed", |server| server.closed.len() == 1);
        assert_eq!((server.closed[&server.opened[0]], memory.bytes()), (CloseReason::Asked, 0));
    }
}

#[test]
fn w17_a_silent_connection_gives_its_room_back_and_is_served_again() {
    for seed in 0..20 {
        let mut server = Server::with_limits(seed, NetLimits { idle: None, ..LIMITS });
        let client = server.clients().connect(100, 100);
        for round in 1..4 {
            let sent = lines(0, 3, &mut Random::seeded(seed));
            server.silent.clear();
            server.clients().send(client, &sent);
            server
                .run("it is replied", |server| server.clients().received(client).len() == round * sent.len());
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

/// An owner keeps memory for a client that has sent whole requests, and others wait for that memory.
#[test]
fn w16_memory_that_an_owner_keeps_for_a_silent_client_is_claimed() {
    for seed in 0..20 {
        let memory = ConnectionMemory::new(5000);
        let mut server = Server::with_memory(seed, MEMORY_LIMITS, &memory);
        let (holds, waits) = (server.clients().connect(100, 100), server.clients().connect(100, 100));
        server.clients().send(holds, b"a\n");
        server.run("it is replied", |server| server.clients().received(holds) == b"a\n");
        let holder = server.opened[0];
        server.net.parts(holder).expect("is open").1.set_owner_bytes(5000);
        server.clients().send(waits, &vec![b'x'; 3000]);
        server.clients().send(waits, b"\n");
        server.run("the holder is told", |server| server.out_of_memory == [holder]);
        server.net.parts(holder).expect("it reads the error").1.set_owner_bytes(0);
        server.run("the other is replied", |server| server.clients().received(waits).ends_with(b"\n"));
    }
}
