//! Without a log (N18): a result is durable once a picture that holds it is installed, each change between a log and
//! none loses nothing, and power that is cut at any call leaves the old picture or the new one.

use std::task::{Poll, Waker};

use ensile_sim::Fault;

use super::pictures::{History, Hurt, at_end_of, checkpoint, checkpoint_and_lose_power, commit};
use crate::prelude::*;

/// Steps until a result of this epoch has its answer.
fn answer(life: &Life, epoch: Epoch) -> Result<(), DurabilityError> {
    let (mut question, mut answer) = ask(&life.rig.log, epoch, Waker::noop());
    for _ in 0..1000 {
        if let Poll::Ready(answer) = answer {
            return answer;
        }
        (0..2).for_each(|checkpointer| _ = life.step(checkpointer));
        life.rig.settle();
        answer = std::pin::Pin::new(&mut question).poll(&mut std::task::Context::from_waker(Waker::noop()));
    }
    panic!("no answer: {:?}", life.checkpoints.stats());
}

#[test]
fn n18_a_result_is_durable_once_its_picture_is_installed_and_all_that_wait_share_one() {
    let (_, life, mut worker) = Life::first_with_worker(0, pictures());
    assert!(!life.checkpoints.has_changes(&life.store));
    let first = life.commit_epoch(&mut worker, 1, Some(b"one")).epoch();
    let second = life.commit(&mut worker, 2, Some(b"two")).epoch();
    assert!(life.checkpoints.has_changes(&life.store) && second > first);
    assert!(is_durable(&life.rig.log, first).is_pending());
    answer(&life, second).expect("is durable");
    assert_eq!(life.checkpoints.stats().installed, 1, "for both");
    assert!(matches!(is_durable(&life.rig.log, first), Poll::Ready(Ok(()))));
    let report = life.checkpoints.report_of(second).expect("it says which");
    assert_eq!(report.picture_epoch(), Some(life.rig.log.durable_epoch()));
    assert_eq!(life.checkpoints.report_of(report.high.next()), None);
    assert!(!life.checkpoints.has_changes(&life.store));
    // Nobody waits, and nothing asks for another.
    (0..20).for_each(|_| _ = life.step(0));
    assert_eq!(life.checkpoints.stats().installed, 1);
    drop(worker);
    life.end();
}

#[test]
fn n18_what_no_picture_shows_is_lost_and_what_one_shows_is_not() {
    let (disk, life, mut worker) = Life::first_with_worker(0, pictures());
    life.commit(&mut worker, 1, Some(b"kept"));
    let picture = life.checkpoint().expect("is installed").high;
    life.commit_epoch(&mut worker, 2, Some(b"lost"));
    let ended = life.rig.epochs.now();
    drop((worker, life));
    disk.crash(1);
    let life = Life::open(&disk, 0, pictures()).expect("opens");
    assert_eq!(life.found.keys().copied().collect::<Vec<_>>(), [1]);
    assert_eq!(life.rig.report.durable_epoch, picture);
    assert!(life.rig.first > ended, "L6: what was shown is not used again");
    assert_eq!(life.rig.log.durable_epoch(), life.rig.first.previous());
}

#[test]
fn n18_a_close_takes_a_last_picture_if_anything_has_changed() {
    let (disk, life, mut worker) = Life::first_with_worker(0, pictures());
    let epoch = life.commit(&mut worker, 1, Some(b"kept")).epoch();
    drop(worker);
    life.checkpoints.take_last(&life.store).expect("is installed");
    life.checkpoints.close(&life.store);
    life.rig.log.close().expect("closes");
    assert!(life.rig.log.durable_epoch() >= epoch);
    let ended = life.rig.epochs.now();
    drop(life);
    disk.crash(2);
    let life = Life::open(&disk, 0, pictures()).expect("opens");
    assert_eq!(life.found.len(), 1);
    assert_eq!(life.rig.first, ended.next(), "L6: the hint says where E stood");
    let writes = disk.calls().writes;
    life.checkpoints.take_last(&life.store).expect("there is nothing to take");
    assert_eq!(disk.calls().writes, writes);
}

#[test]
fn a_close_that_cannot_take_its_picture_says_which_epochs_go() {
    let (disk, life, mut worker) = Life::first_with_worker(0, pictures());
    life.commit(&mut worker, 1, Some(b"lost"));
    drop(worker);
    disk.fail_calls(disk.calls().all + 1.., Fault::INPUT_OUTPUT);
    let error = life.checkpoints.take_last(&life.store).expect_err("the disk fails");
    let durable = life.rig.log.durable_epoch();
    assert!(error.to_string().contains(&format!("durable up to epoch {durable} and not beyond")), "{error}");
    assert_eq!(life.rig.log.close().expect_err("it was stopped").to_string(), error.to_string());
}

#[test]
fn a_picture_that_fails_is_told_and_tried_again_and_commits_go_on() {
    let (disk, life, mut worker) = Life::first_with_worker(0, pictures());
    let epoch = life.commit(&mut worker, 1, Some(b"one")).epoch();
    disk.fail_calls(disk.calls().all + 1.., Fault::INPUT_OUTPUT);
    let error = answer(&life, epoch).expect_err("the attempt fails");
    disk.heal();
    assert!(matches!(error, DurabilityError::NotDurableYet(_)), "{error}");
    assert_eq!((life.rig.log.health(), life.checkpoints.stats().failed), (Health::Running, 1));
    let later = life.commit(&mut worker, 2, Some(b"two")).epoch();
    // Nobody waits now. What was waited for is tried again all the same, a while later.
    for _ in 0..2000 {
        life.step(0);
        life.step(1);
        life.rig.settle();
    }
    assert!(life.rig.log.durable_epoch() >= epoch);
    answer(&life, later).expect("is durable");
}

#[test]
fn bytes_that_have_changed_and_time_begin_pictures() {
    let by_bytes = CheckpointConfig { log_bytes: Some(100), ..pictures() };
    let by_time = CheckpointConfig { interval: Some(std::time::Duration::from_millis(50)), ..pictures() };
    for (settings, bytes) in [(by_bytes, 100), (by_time, 1)] {
        let (_, life, mut worker) = Life::first_with_worker(0, settings);
        for _ in 0..100 {
            life.step(0);
            life.rig.settle();
        }
        assert_eq!(life.checkpoints.stats().installed, 0, "nothing has changed");
        life.commit(&mut worker, 1, Some(&vec![1; bytes]));
        for _ in 0..100 {
            (0..2).for_each(|checkpointer| _ = life.step(checkpointer));
            life.rig.settle();
        }
        assert_eq!(life.checkpoints.stats().installed, 1);
    }
}

#[test]
fn a_fuzzy_checkpoint_without_a_log_is_refused() {
    let disk = SimDisk::new();
    match Life::open(&disk, 0, settings()).map(drop) {
        Err(DurabilityError::Config(why)) => assert!(why.contains("pictures"), "{why}"),
        found => panic!("{found:?}"),
    }
}

/// How a life keeps what it commits: with this many logs, or none, and with this kind of checkpoints.
const LEVELS: [(usize, bool); 4] = [(0, true), (2, false), (1, true), (0, true)];

fn level((loggers, is_picture): (usize, bool)) -> (usize, CheckpointConfig) {
    (loggers, if is_picture { pictures() } else { settings() })
}

/// A disk that lives of these levels have left, each with a checkpoint and changes behind it; and what was committed
/// and is durable.
fn after_lives(levels: &[(usize, bool)], random: &mut Random) -> (SimDisk, History) {
    let (disk, mut history) = (SimDisk::new(), History::new());
    for (at, &(loggers, is_picture)) in levels.iter().enumerate() {
        let (loggers, settings) = level((loggers, is_picture));
        let life = Life::open(&disk, loggers, settings).expect("opens");
        assert_eq!(life.found, at_end_of(&history, Epoch::MAX), "{levels:?}, life {at}");
        let mut worker = life.rig.worker();
        for _ in 0..20 {
            commit(&life, &mut worker, random, &mut history);
        }
        // The checkpoint of every other life covers the lives before it.
        if random.percent(50) {
            checkpoint(&life, &mut worker, random, &mut history, &disk).expect("is installed");
        }
        for _ in 0..20 {
            commit(&life, &mut worker, random, &mut history);
        }
        life.rig.settle();
        if loggers == 0 && random.percent(50) {
            life.checkpoints.take_last(&life.store).expect("is installed");
        }
        drop((worker, life));
        disk.crash(at as u64);
        let report = Life::open(&disk, 1, pictures()).expect("opens").rig.report;
        history.retain(|(_, tid, _)| tid.epoch() <= report.durable_epoch);
        disk.crash(at as u64);
    }
    (disk, history)
}

#[test]
fn n18_each_change_of_level_or_strategy_between_two_opens_loses_nothing() {
    for seed in 0..40 {
        let mut random = Random::from_seed(seed);
        let levels: Vec<_> = (0..5).map(|_| LEVELS[random.next_below(4) as usize]).collect();
        let (disk, history) = after_lives(&levels, &mut random);
        let life = Life::open(&disk, 0, pictures()).expect("opens");
        assert_eq!(life.found, at_end_of(&history, Epoch::MAX), "{levels:?}");
    }
}

/// An open at the second level behind lives at the first, a picture and a close there, with the disk hurt behind so
/// many calls. False if they were not reached.
fn change_hurt_at(call: u64, levels: [(usize, bool); 2], hurt: Hurt) -> bool {
    let mut random = Random::from_seed(call);
    let (disk, mut history) = after_lives(&[levels[0]; 2], &mut random);
    let at = disk.calls().all + call;
    hurt.plan(&disk, at);
    let (loggers, settings) = level(levels[1]);
    let mut durable = history.iter().map(|(_, tid, _)| tid.epoch()).max().unwrap_or_default();
    if let Ok(life) = Life::open(&disk, loggers, settings.clone()) {
        let mut worker = life.rig.worker();
        for _ in 0..5 {
            commit(&life, &mut worker, &mut random, &mut history);
        }
        let _ = checkpoint(&life, &mut worker, &mut random, &mut history, &disk);
        commit(&life, &mut worker, &mut random, &mut history);
        drop(worker);
        let _ = life.checkpoints.take_last(&life.store);
        durable = durable.max(life.rig.log.durable_epoch());
    }
    let is_reached = disk.calls().all >= at;
    hurt.end(&disk, call);
    let life = Life::open(&disk, loggers, settings).unwrap_or_else(|error| panic!("call {call}: {error}"));
    let found = life.rig.report.durable_epoch;
    assert!(found >= durable, "call {call}: {found} of {durable}");
    assert_eq!(life.found, at_end_of(&history, found), "call {call}, at the end of {found}");
    history.retain(|(_, tid, _)| tid.epoch() <= found);
    checkpoint_and_lose_power(life, &disk, &mut history, call);
    is_reached
}

/// Hurts each call of each change of level, in a life of its own.
fn changes_hurt_at_every_call(hurt: Hurt) {
    let mut reached = 0;
    for (from, to) in [(0, 1), (1, 0), (2, 0), (0, 2), (0, 3)] {
        let levels = [LEVELS[from], LEVELS[to]];
        reached += (1..1000).take_while(|call| change_hurt_at(*call, levels, hurt)).count();
    }
    assert!(reached > 250, "{reached} calls");
}

#[test]
fn n18_power_that_is_cut_in_a_change_of_level_loses_nothing() {
    changes_hurt_at_every_call(Hurt::PowerCut);
}

#[test]
fn n18_a_process_that_dies_in_a_change_of_level_leaves_the_old_picture_or_the_new_one() {
    changes_hurt_at_every_call(Hurt::Death);
}

#[test]
fn n18_a_call_that_fails_in_a_change_of_level_loses_nothing() {
    changes_hurt_at_every_call(Hurt::Failure);
}

#[test]
fn n18_an_older_manifest_than_the_hint_is_damage() {
    let (disk, life, mut worker) = Life::first_with_worker(0, pictures());
    life.commit(&mut worker, 1, Some(b"one"));
    let older = disk.bytes("MANIFEST");
    life.checkpoint().expect("is installed");
    life.rig.log.hint_step();
    drop((worker, life));
    disk.crash(5);
    disk.put("MANIFEST", older);
    match Life::open(&disk, 0, pictures()).map(drop) {
        Err(DurabilityError::Damaged { file, .. }) => assert_eq!(file, "MANIFEST"),
        found => panic!("{found:?}"),
    }
}

#[test]
fn n18_a_manifest_of_which_nothing_is_known_refuses_commits() {
    let (disk, life, mut worker) = Life::first_with_worker(0, pictures());
    let epoch = life.commit(&mut worker, 1, Some(b"one")).epoch();
    let mut is_refused = false;
    for call in 1..200 {
        let disk = disk.fork();
        disk.crash(call);
        let (life, mut worker) = Life::with_worker(&disk, 0, pictures());
        life.commit(&mut worker, 1, Some(b"one"));
        disk.fail_calls(disk.calls().all + call..=disk.calls().all + call, Fault::INPUT_OUTPUT);
        let outcome = life.checkpoint();
        if matches!(life.rig.log.health(), Health::Poisoned(_)) {
            assert!(matches!(outcome, Err(DurabilityError::Stopped(_))), "{outcome:?}");
            assert!(matches!(worker.appender.check(), Err(DurabilityError::Stopped(_))));
            is_refused = true;
        }
    }
    assert!(is_refused && epoch > Epoch::ZERO);
}
