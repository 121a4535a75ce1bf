//! Seeded lives with operations, checkpoints and a disk that fails and loses power at any call: each object comes back
//! as its operations of epochs up to D have made it, each once and in order, and D is not below what was reported. At
//! the process-safe level processes die at any call and any stored word too, and then everything that was returned is
//! there.

use std::cell::RefCell;
use std::rc::Rc;

use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_objects::ObjectDurability;
use ensile_sim::environment::count;
use ensile_sim::{Fault, SimDisk};

use crate::rig::{CHECKPOINTERS, Life, Rows};
use crate::tally::{Change, Tally, changed, in_operations};

const LIVES: u64 = 6;
const KEYS: u64 = 12;

/// What was logged of an object, in order.
enum Step {
    Change(Change),
    Value(Tally),
    Removal,
}

struct Logged {
    key: u64,
    epoch: Epoch,
    step: Step,
}

/// What a life logged, and of how much of it the calls returned before its end.
struct Lived {
    logged: Vec<Logged>,
    returned: usize,
    /// The largest D that was reported.
    reported: Epoch,
}

fn replayed(rows: &Rows, logged: &[Logged], durable: Epoch) -> Rows {
    let mut rows = rows.clone();
    for Logged { key, step, .. } in logged.iter().filter(|logged| logged.epoch <= durable) {
        let mut tally = rows.remove(key);
        match step {
            Step::Change(change) => drop(changed(&mut tally, change)),
            Step::Value(value) => tally = Some(value.clone()),
            Step::Removal => tally = None,
        }
        if let Some(tally) = tally {
            rows.insert(*key, tally);
        }
    }
    rows
}

fn disturb(disk: &SimDisk, random: &mut Random, level: ObjectDurability) {
    let calls = disk.calls().all;
    if level == ObjectDurability::Process {
        match random.next_below(10) {
            0..3 => return disk.die_at_word(random.next_between(1, 3000)),
            3..5 => return disk.die_before(calls + random.next_between(1, 200)),
            _ => {}
        }
    }
    match random.next_below(10) {
        0 => disk.fail_sync(random.next_between(1, 12)),
        1 => disk.fail_write(random.next_between(1, 12)),
        2 => disk.fail_folder_sync(random.next_between(1, 3)),
        3 => disk.fail_calls(calls + random.next_between(1, 60).., Fault::INPUT_OUTPUT),
        4..8 => disk.cut_power_at(calls + random.next_between(1, 200)),
        _ => {}
    }
}

/// One operation, of which the log may not have taken anything.
fn change(life: &Life, random: &mut Random) -> Option<Logged> {
    let key = random.next_below(KEYS);
    let (receipt, step) = match random.next_below(100) {
        0..4 => (life.objects.remove(key), Step::Removal),
        4..8 => {
            let value = Tally {
                sum: random.next_u64(),
                operations: 1,
                padding: vec![7; random.next_below(50) as usize],
            };
            (life.objects.put(key, value.clone()), Step::Value(value))
        }
        percent => {
            let change = match percent {
                8..25 => Change::Toggle,
                25..27 => Change::Grow(150_000),
                27..35 => Change::Grow(random.next_below(3000) as u32),
                _ => Change::Add(random.next_below(1000)),
            };
            let submitted = life.objects.submit(key, &change);
            (submitted.map(|(_, receipt)| receipt), Step::Change(change))
        }
    };
    let epoch = receipt.ok()?.epoch();
    Some(Logged { key, epoch, step })
}

/// Between logging and applying an operation epochs close and become durable.
fn hook(life: &Life, seed: u64) -> Box<dyn Fn()> {
    let (life, random) = (life.clone(), Rc::new(RefCell::new(Random::from_seed(seed))));
    Box::new(move || match random.borrow_mut().next_below(8) {
        0 => life.tick(),
        1 => life.settle(),
        2 => life.step_loggers(),
        _ => {}
    })
}

#[derive(Debug, Default)]
struct Figures {
    installed: u64,
    failed: u64,
    loaded: u64,
    covered: u64,
    replayed: u64,
    /// Lives that ended with their process alone, what only buffers had of them, and operations that were in flight.
    killed: u64,
    taken: u64,
    in_flight: u64,
}

/// Runs one life.
fn live(
    life: &Life,
    disk: &SimDisk,
    random: &mut Random,
    (level, figures): (ObjectDurability, &mut Figures),
) -> Lived {
    let (mut logged, mut returned) = (Vec::new(), 0);
    disturb(disk, random, level);
    in_operations(Some(hook(life, random.next_u64())));
    let mut reported = life.durable();
    for _ in 0..random.next_between(5, 700) {
        match random.next_below(100) {
            0..45 => logged.extend(change(life, random)),
            45..53 => life.tick(),
            53..56 => drop(life.objects.checkpoint()),
            56..85 => {
                life.objects.checkpoint_step(random.next_below(CHECKPOINTERS as u64) as usize);
            }
            _ => {
                life.objects.logger_step(random.next_below(life.loggers as u64) as usize);
            }
        }
        if disk.is_without_power() {
            break;
        }
        (reported, returned) = (life.durable(), logged.len());
    }
    in_operations(None);
    let stats = life.objects.stats();
    figures.installed += stats.checkpoints.installed;
    figures.failed += stats.checkpoints.failed;
    if !disk.is_without_power() && random.percent(15) && life.objects.close().is_ok() {
        reported = life.durable();
        let last = logged.iter().map(|logged| logged.epoch).max();
        assert!(last <= Some(reported), "a close loses nothing");
    }
    Lived { logged, returned, reported }
}

/// Opens of these processes die too; with their machine, or not. True if each machine lived on.
fn interrupt_opens(
    disk: &SimDisk,
    random: &mut Random,
    (level, loggers): (ObjectDurability, usize),
) -> Option<bool> {
    let mut all_lived_on = None;
    while random.percent(if level == ObjectDurability::Process { 25 } else { 10 }) {
        disk.cut_power_at(disk.calls().all + random.next_between(1, 60));
        drop(Life::try_open_at(level, disk, loggers));
        disk.heal();
        let lives_on = level == ObjectDurability::Process && random.percent(50);
        if lives_on {
            disk.kill()
        } else {
            disk.crash(random.next_u64())
        }
        all_lived_on = Some(lives_on && all_lived_on != Some(false));
    }
    all_lived_on
}

/// What the objects of a life are to be, of these epochs at most; with the operation that was in flight or without.
fn as_at(
    found: &Rows,
    expected: &Rows,
    last: &Lived,
    (least, most): (Epoch, Epoch),
) -> Option<(Epoch, usize)> {
    (least.number()..=most.number()).map(Epoch::new).find_map(|durable| {
        let of = [last.returned, last.logged.len()];
        let count =
            of.into_iter().find(|count| replayed(expected, &last.logged[..*count], durable) == *found)?;
        Some((durable, count))
    })
}

fn run(level: ObjectDurability, seed: u64, figures: &mut Figures) {
    let mut random = Random::from_seed(seed);
    let disk = SimDisk::new();
    let mut expected = Rows::new();
    let mut last = Lived { logged: Vec::new(), returned: 0, reported: Epoch::ZERO };
    // Of the life before, did only the process die?
    let mut is_killed = false;
    for number in 0..=LIVES {
        let loggers = random.next_between(1, 3) as usize;
        let interrupted = interrupt_opens(&disk, &mut random, (level, loggers));
        is_killed &= interrupted != Some(false);
        let life = Life::try_open_at(level, &disk, loggers)
            .unwrap_or_else(|error| panic!("seed {seed} life {number}: {error}"));
        let report = life.objects.recovery();
        figures.loaded += report.checkpoint_entries;
        figures.covered += report.covered_entries;
        figures.replayed += report.entries;
        figures.taken += report.taken_entries;
        let most = report.durable_epoch;
        let keeps_all = is_killed && level == ObjectDurability::Process;
        // An open that was interrupted may have decided D already.
        let least = if interrupted.is_some() && !keeps_all { last.reported.min(most) } else { most };
        let found = life.rows();
        let Some((durable, count)) = as_at(&found, &expected, &last, (least, most)) else {
            let wanted = replayed(&expected, &last.logged, most);
            let differs = |key: &u64| wanted.get(key) != found.get(key);
            let keys: Vec<_> = (0..KEYS).filter(differs).collect();
            panic!("seed {seed} life {number}: objects {keys:?} are not as at D = {most}");
        };
        let returned = &last.logged[..last.returned];
        let kept = if keeps_all { Epoch::MAX } else { last.reported };
        let is_lost = |logged: &&Logged| logged.epoch > durable && logged.epoch <= kept;
        if let Some(Logged { key, epoch, .. }) = returned.iter().find(is_lost) {
            panic!("seed {seed} life {number}: an operation of {epoch} on {key} was to be kept and is lost");
        }
        figures.in_flight += u64::from(count > last.returned);
        expected = found;
        last = live(&life, &disk, &mut random, (level, figures));
        disk.heal();
        let lives_on = match level {
            ObjectDurability::Process => random.percent(65),
            _ => !disk.is_without_power() && random.percent(20),
        };
        if lives_on {
            disk.kill()
        } else {
            disk.crash(random.next_u64())
        }
        is_killed = lives_on;
        figures.killed += u64::from(lives_on);
        // Dead by now: it closes nothing.
        drop(life);
    }
}

#[test]
fn lives_with_power_cuts_keep_each_operation_that_was_reported_once_and_in_order() {
    let databases = count("ENSILE_SEEDS", 60);
    let mut figures = Figures::default();
    for seed in 0..databases {
        run(ObjectDurability::Relaxed, seed, &mut figures);
    }
    assert!(figures.installed > databases / 2 && figures.failed > databases / 8, "{figures:?}");
    assert!(figures.loaded > databases && figures.covered > databases, "{figures:?}");
    assert!(figures.replayed > 10 * databases, "{figures:?}");
}

#[test]
fn lives_whose_process_dies_keep_each_operation_that_was_returned_once_and_in_order() {
    let databases = count("ENSILE_SEEDS", 60);
    let mut figures = Figures::default();
    for seed in 0..databases {
        run(ObjectDurability::Process, 1_000_000 + seed, &mut figures);
    }
    assert!(figures.killed > 3 * databases && figures.taken > 4 * databases, "{figures:?}");
    assert!(figures.in_flight > databases / 10 && figures.installed > databases / 4, "{figures:?}");
}
