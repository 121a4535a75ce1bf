//! Seeded lives with checkpoints under way, over a disk that fails and loses power at any call: whatever the schedule,
//! what was reported durable is there, nothing above the recovered D is, and nothing of a checkpoint that was not
//! installed counts.

use std::collections::HashMap;

use ensile_sim::Fault;

use crate::prelude::*;

/// Databases, and lives of each.
const DATABASES: u64 = 200;
const LIVES: u64 = 8;
/// Workers of one life.
const WORKERS: usize = 4;

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Idle,
    Reserved,
    Bound,
    Stamped,
    Installed,
    Appended,
}

struct Client {
    worker: Worker,
    stage: Stage,
    key: u64,
    value: Option<Vec<u8>>,
    tid: Tid,
    /// The pages that it has seen once it had its epoch.
    pages: Option<u64>,
}

struct Written {
    key: u64,
    tid: Tid,
    value: Option<Vec<u8>>,
}

/// One step of a commit: between any two of them E may move, loggers and checkpointers may step, and power may fail.
/// `tids` are the keys' last ones, deletes' too.
fn advance(
    clients: &mut [Client],
    at: usize,
    life: &Life,
    random: &mut Random,
    tids: &mut HashMap<u64, Tid>,
    written: &mut Vec<Written>,
) {
    let key = random.next_below(KEYS);
    let is_locked = clients.iter().any(|client| client.stage != Stage::Idle && client.key == key);
    let client = &mut clients[at];
    let worker = &mut client.worker;
    client.stage = match client.stage {
        Stage::Idle if is_locked => Stage::Idle,
        Stage::Idle => {
            client.key = key;
            let size = if random.percent(10) { 4000 } else { random.next_below(600) };
            client.value = (!random.percent(30)).then(|| vec![random.next_u64() as u8; size as usize]);
            let bytes = body(client.key, client.value.as_deref()).len();
            if worker.appender.reserve(bytes).is_err() { Stage::Idle } else { Stage::Reserved }
        }
        Stage::Reserved => {
            worker.commit.bind(life.rig.epochs.now());
            Stage::Bound
        }
        Stage::Bound => {
            client.tid = worker.stamp(&life.rig.epochs);
            if tids.get(&client.key).is_some_and(|last| *last >= client.tid) {
                // Another lane's commit of this epoch.
                worker.appender.release();
                worker.commit.unbind();
                Stage::Idle
            } else {
                tids.insert(client.key, client.tid);
                client.pages = life.store.seen_pages();
                Stage::Stamped
            }
        }
        Stage::Stamped => {
            life.store.install(client.key, client.tid, client.value.as_deref(), client.pages);
            Stage::Installed
        }
        Stage::Installed => {
            let body = body(client.key, client.value.as_deref());
            worker.appender.append(client.tid, |out| out.extend_from_slice(&body));
            written.push(Written { key: client.key, tid: client.tid, value: client.value.clone() });
            Stage::Appended
        }
        Stage::Appended => {
            worker.appender.release();
            worker.commit.unbind();
            Stage::Idle
        }
    };
}

fn disturb(disk: &SimDisk, random: &mut Random) {
    let calls = disk.calls().all;
    match random.next_below(10) {
        0 => disk.fail_sync(random.next_between(1, 12)),
        1 => disk.fail_write(random.next_between(1, 12)),
        2 => disk.fail_folder_sync(random.next_between(1, 3)),
        3 => disk.fail_calls(calls + random.next_between(1, 60).., Fault::INPUT_OUTPUT),
        4..8 => disk.cut_power_at(calls + random.next_between(1, 200)),
        _ => {}
    }
}

/// Runs one life; returns what it wrote and the largest D that it reported.
fn live(
    life: &Life,
    is_cycling: bool,
    disk: &SimDisk,
    random: &mut Random,
    seen: &mut Seen,
) -> (Vec<Written>, Epoch) {
    let mut written = Vec::new();
    let mut tids = HashMap::new();
    let client = |_| Client {
        worker: life.rig.worker(),
        stage: Stage::Idle,
        key: 0,
        value: None,
        tid: Tid::ZERO,
        pages: None,
    };
    let mut clients: Vec<Client> = (0..WORKERS).map(client).collect();
    disturb(disk, random);
    let mut reported = life.rig.log.durable_epoch();
    let steps = if is_cycling { 4000 } else { 1000 };
    for _ in 0..random.next_between(5, steps) {
        match random.next_below(100) {
            0..40 => {
                let at = random.next_below(WORKERS as u64) as usize;
                advance(&mut clients, at, life, random, &mut tids, &mut written);
            }
            40..48 => {
                life.rig.advance();
            }
            // One that goes round by ranges takes all of them then.
            48..51 if !is_cycling || random.percent(5) => drop(life.checkpoints.demand()),
            48..51 => {}
            51..85 => {
                life.step(random.next_below(2) as usize);
            }
            _ if !life.rig.log.has_loggers() => {}
            _ => {
                let logger = random.next_below(life.rig.log.loggers() as u64) as usize;
                life.rig.log.logger_step(logger);
                if random.percent(30) {
                    life.rig.log.logger_prepare(logger);
                }
            }
        }
        if disk.is_without_power() {
            break;
        }
        reported = life.rig.log.durable_epoch();
    }
    let stats = life.checkpoints.stats();
    seen.installed += stats.installed;
    seen.failed += stats.failed;
    if let Some(last) = stats.last {
        seen.pictures += u64::from(last.picture_epoch().is_some());
        // The first one takes all.
        seen.turns += last.turn.filter(|turn| turn.taken < turn.ranges).map_or(0, |_| stats.installed);
    }
    let (published, ended) = life.store.pages.as_ref().expect("it has pages").counts();
    assert!(ended == published || ended + 1 == published, "N13: {published} were begun, {ended} ended");
    let ends_cleanly = !disk.is_without_power() && random.percent(15);
    for client in &mut clients {
        // A crash finds commits at any stage; the binding only must not outlive its worker.
        client.worker.commit.unbind();
    }
    seen.without_log += u64::from(!life.rig.log.has_loggers() && stats.installed > 0);
    if ends_cleanly && clients.iter().all(|client| client.stage == Stage::Idle) {
        let taken = life.checkpoints.take_last(&life.store);
        life.checkpoints.close(&life.store);
        let closed = life.rig.log.close();
        if closed.is_ok() {
            reported = life.rig.log.durable_epoch();
        }
        if closed.is_ok() && taken.is_ok() {
            let last = written.iter().map(|change| change.tid.epoch()).max();
            assert!(last <= Some(reported), "N18: a close loses nothing");
        }
    }
    (written, reported)
}

/// How much of what is to be seen was.
#[derive(Debug, Default)]
struct Seen {
    installed: u64,
    failed: u64,
    /// Lives whose last checkpoint was a picture.
    pictures: u64,
    /// Checkpoints of lives whose last one was a turn that took one of several ranges.
    turns: u64,
    /// Lives without a log in which a picture was installed.
    without_log: u64,
    loaded: u64,
    loaded_entries: u64,
    covered_entries: u64,
}

/// What is known after a recovery to `durable`.
fn replayed(before: &Changes, written: &[Written], durable: Epoch) -> Changes {
    let mut changes = before.clone();
    for Written { key, tid, value } in written.iter().filter(|change| change.tid.epoch() <= durable) {
        change(&mut changes, *key, *tid, value.as_deref());
    }
    changes
}

fn run_database(seed: u64, seen: &mut Seen) {
    let mut random = Random::from_seed(seed);
    let disk = SimDisk::new();
    let mut expected = Changes::new();
    let mut kind = random.next_below(3);
    let mut last: (Vec<Written>, Epoch) = (Vec::new(), Epoch::ZERO);
    for number in 0..=LIVES {
        // From one life to the next the number of logs and the strategy may change; without a log there are pictures.
        let loggers = random.next_between(0, 3) as usize;
        // Turns that take one range need a life before with the same strategy, or much time.
        kind = if random.percent(60) { kind } else { random.next_below(3) };
        let settings = match kind {
            0 if loggers > 0 => settings(),
            1 if loggers > 0 => cycling(),
            _ => pictures(),
        };
        let is_cycling = settings.strategy == Strategy::Cycling;
        let mut interrupted = false;
        while random.percent(15) {
            // Power fails while it opens, or the disk does.
            let call = disk.calls().all + random.next_between(1, 60);
            if random.percent(50) {
                disk.cut_power_at(call);
            } else {
                disk.fail_calls(call.., Fault::INPUT_OUTPUT);
            }
            drop(Life::open(&disk, loggers, settings.clone()));
            disk.heal();
            disk.crash(random.next_u64());
            interrupted = true;
        }
        let life = Life::open(&disk, loggers, settings)
            .unwrap_or_else(|error| panic!("seed {seed} life {number}: {error}"));
        let report = &life.rig.report;
        seen.loaded += u64::from(report.checkpoint.is_some());
        seen.loaded_entries += report.checkpoint_entries;
        seen.covered_entries += report.covered_entries;
        // An open that was interrupted may have decided D already, and the report tells that of its own generation.
        let most = report.durable_epoch;
        let least = if interrupted { last.1.min(most) } else { most };
        let found = (least.number()..=most.number()).map(Epoch::new).find_map(|durable| {
            let expected = replayed(&expected, &last.0, durable);
            (life.found == present(&expected)).then_some((durable, expected))
        });
        let Some((durable, rows)) = found else {
            panic!("seed {seed} life {number}: rows differ from those at D = {most}");
        };
        let lost = last.0.iter().find(|change| change.tid.epoch() > durable && change.tid.epoch() <= last.1);
        if let Some(Written { tid, .. }) = lost {
            panic!("seed {seed} life {number}: {tid} was reported durable and is lost");
        }
        expected = rows;
        last = live(&life, is_cycling, &disk, &mut random, seen);
        drop(life);
        disk.heal();
        if !disk.is_without_power() && random.percent(20) {
            disk.kill();
        } else {
            disk.crash(random.next_u64());
        }
    }
}

#[test]
fn thousands_of_seeded_lives_with_checkpoints_keep_what_they_reported_and_nothing_else() {
    let mut seen = Seen::default();
    for seed in 0..DATABASES {
        run_database(seed, &mut seen);
    }
    assert!(seen.installed > DATABASES && seen.failed > DATABASES / 4, "{seen:?}");
    assert!(seen.loaded > DATABASES && seen.loaded_entries > 10 * DATABASES, "{seen:?}");
    assert!(seen.without_log > DATABASES / 2, "{seen:?}");
    assert!(seen.turns > DATABASES / 4, "{seen:?}");
    assert!(seen.covered_entries > DATABASES && seen.pictures > DATABASES / 4, "{seen:?}");
}
