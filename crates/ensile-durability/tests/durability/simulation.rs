//! Seeded lives over a disk that loses, tears and lies: whatever the schedule, what was reported durable is there,
//! nothing above the recovered D is, and what one recovery discarded never comes back (L1 to L5).

use crate::prelude::*;

/// Databases, and lives of each.
const DATABASES: u64 = 300;
const LIVES: u64 = 8;

/// How far a worker is in its commit.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Idle,
    Reserved,
    Bound,
    Appended,
    Released,
}

struct Client {
    worker: Worker,
    stage: Stage,
    body: Vec<u8>,
}

#[derive(Clone)]
struct Entry {
    tid: Tid,
    body: Vec<u8>,
}

/// One step of a commit; entries are noted when they are appended.
fn advance_client(client: &mut Client, rig: &Rig, random: &mut Random, written: &mut Vec<Entry>) {
    let worker = &mut client.worker;
    client.stage = match client.stage {
        Stage::Idle => {
            let size = if random.percent(1) {
                random.next_between(100_000, 700_000)
            } else {
                random.next_below(900)
            };
            client.body = random.next_below(40).to_le_bytes().to_vec();
            client.body.resize(KEY_BYTES + size as usize, random.next_u64() as u8);
            if worker.appender.reserve(client.body.len()).is_err() {
                return;
            }
            Stage::Reserved
        }
        Stage::Reserved if random.percent(10) => {
            worker.appender.release();
            Stage::Idle
        }
        Stage::Reserved => {
            worker.commit.bind(rig.epochs.now());
            Stage::Bound
        }
        Stage::Bound => {
            let tid = worker.stamp(&rig.epochs);
            let body = &client.body;
            worker.appender.append(tid, |out| out.extend_from_slice(body));
            written.push(Entry { tid, body: body.clone() });
            Stage::Appended
        }
        // Both orders are right (see the appender's header).
        Stage::Appended if random.percent(50) => {
            worker.commit.unbind();
            worker.appender.release();
            Stage::Idle
        }
        Stage::Appended => {
            worker.appender.release();
            Stage::Released
        }
        Stage::Released => {
            worker.commit.unbind();
            Stage::Idle
        }
    };
}

/// Runs one life; returns what it wrote and the largest D that it reported.
fn live(rig: &Rig, disk: &SimDisk, random: &mut Random) -> (Vec<Entry>, Epoch) {
    let mut written = Vec::new();
    let mut clients: Vec<Client> = Vec::new();
    if random.percent(25) {
        disk.fail_sync(random.next_between(1, 12));
    } else if random.percent(10) {
        disk.fail_write(random.next_between(1, 12));
    }
    for _ in 0..random.next_between(5, 160) {
        match random.next_below(100) {
            0..4 => clients.push(Client { worker: rig.worker(), stage: Stage::Idle, body: Vec::new() }),
            4..6 => {
                // A worker ends between commits, its entries still in its buffer.
                if let Some(at) = clients.iter().position(|client| client.stage == Stage::Idle) {
                    clients.swap_remove(at);
                }
            }
            6..60 if !clients.is_empty() => {
                let at = random.next_below(clients.len() as u64) as usize;
                advance_client(&mut clients[at], rig, random, &mut written);
            }
            60..75 => {
                rig.advance();
            }
            75..80 => {
                let _ = is_durable(&rig.log, rig.epochs.now());
                rig.log.hint_step();
                if random.percent(20) {
                    rig.log.request_roll();
                }
            }
            _ => {
                let before = rig.log.durable_epoch();
                let logger = random.next_below(rig.log.loggers() as u64) as usize;
                rig.log.logger_step(logger);
                if random.percent(30) {
                    rig.log.logger_prepare(logger);
                }
                assert!(rig.log.durable_epoch() >= before, "D never goes back");
                assert!(rig.log.durable_epoch() < rig.epochs.now(), "D stays below the open epoch");
            }
        }
    }
    if random.percent(15) {
        // The engine ends its workers before it closes; what they had appended by then is part of it.
        for client in &mut clients {
            client.worker.commit.unbind();
        }
        clients.clear();
        if rig.log.close().is_ok() {
            assert_eq!(rig.log.health(), Health::Closed);
            let lost = written.iter().find(|entry| entry.tid.epoch() > rig.log.durable_epoch());
            assert!(lost.is_none(), "a clean close leaves nothing behind");
        }
    }
    for client in &mut clients {
        // A crash finds commits at any stage; the binding only must not outlive its worker.
        client.worker.commit.unbind();
    }
    let reported = rig.log.durable_epoch();
    (written, reported)
}

fn run_database(seed: u64) {
    let mut random = Random::from_seed(seed);
    let disk = SimDisk::new();
    // What is allowed: a log that is begun where another one was finds its blocks, and a failed sync's pages are
    // dropped.
    disk.set_stale_space(seed % 2 == 1);
    disk.set_failed_syncs_revert(seed % 4 >= 2);
    let mut expected = Rows::new();
    let mut last: (Vec<Entry>, Epoch) = (Vec::new(), Epoch::ZERO);
    let mut shown = Epoch::ZERO;
    for life in 0..=LIVES {
        let rig = Rig::simulated(&disk, random.next_between(1, 3) as usize);
        let durable = rig.report.durable_epoch;
        for Entry { tid, body } in &last.0 {
            if tid.epoch() > durable {
                assert!(
                    tid.epoch() > last.1,
                    "seed {seed} life {life}: {tid} was reported durable and is lost"
                );
                continue;
            }
            let (key, value) = body.split_at(KEY_BYTES);
            put(&mut expected, u64::from_le_bytes(key.try_into().expect("eight bytes")), *tid, value);
        }
        assert!(rig.rows == expected, "seed {seed} life {life}: rows differ at D = {durable}");
        assert!(rig.first > durable);
        assert!(rig.first > shown, "seed {seed} life {life}: L6, epoch {shown} was shown before");
        last = live(&rig, &disk, &mut random);
        shown = rig.epochs.now();
        drop(rig);
        disk.heal();
        if random.percent(20) {
            disk.kill();
        } else {
            disk.crash(random.next_u64());
        }
    }
}

#[test]
fn thousands_of_seeded_lives_keep_what_they_reported_and_nothing_else() {
    for seed in 0..DATABASES {
        run_database(seed);
    }
}
