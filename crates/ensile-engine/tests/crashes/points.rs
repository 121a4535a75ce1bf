//! Power fails at every call: what is left is recovered, judged by the ledger, written to, and crashed again.
//!
//! `ENSILE_CRASH_POINTS=100000 cargo test --profile release-plain -p ensile-engine --test crashes points` runs longer.

use ensile_base::random::Random;
use ensile_sim::ledger::Ledger;
use ensile_sim::{SimDisk, Survival, environment};

use crate::driver::Driver;
use crate::life::Life;

/// Lives of one database whose every call is a crash point.
const LIVES: usize = 3;
/// Recoveries that power may fail in, one behind the other.
const INTERRUPTED_MAX: u64 = 3;

pub(crate) fn some_survival(random: &mut Random) -> Survival {
    Survival::ALL[random.below(Survival::ALL.len() as u64) as usize]
}

/// Compares what is there with what was promised; from here on what is not there never was. A recovery that was
/// `interrupted` may have decided about the life before it: what this one reports is of an empty life then.
pub(crate) fn judge(
    life: &Life,
    disk: &SimDisk,
    ledger: &mut Ledger,
    interrupted: bool,
) -> Result<(), String> {
    ledger.judge_first(life.first_epoch())?;
    let (mut durable, rows) = (life.recovered_to(), life.read_back()?);
    if interrupted {
        durable = ledger.judge_undecided(durable, &rows)?;
    } else {
        ledger.judge(durable, &rows)?;
    }
    ledger.recovered(disk.calls().all, durable);
    Ok(())
}

/// Some steps of a life.
fn drive(life: &Life, disk: &SimDisk, ledger: &mut Ledger, steps: u64, seed: u64) -> Result<(), String> {
    std::thread::scope(|scope| {
        let mut driver = Driver::new(scope, life, disk, ledger, seed);
        (0..steps).for_each(|_| driver.step());
        match driver.errors.pop() {
            Some(error) if !disk.is_without_power() => Err(error.to_string()),
            _ => Ok(()),
        }
    })
}

/// The disk has lost power: everything that may follow.
fn check(disk: &SimDisk, mut ledger: Ledger, loggers: usize, random: &mut Random) -> Result<(), String> {
    disk.crash_with(some_survival(random), random.next_u64());
    // The crash itself may have been in the midst of a recovery.
    let mut interrupted = true;
    for _ in 0..INTERRUPTED_MAX {
        if random.percent(60) {
            break;
        }
        // In the midst of recovery, or behind it if that is short.
        disk.cut_power_at(disk.calls().all + random.between(1, 40 + 8 * loggers as u64));
        let life = Life::open(disk, loggers);
        match &life {
            Ok(life) => {
                judge(life, disk, &mut ledger, interrupted)
                    .map_err(|error| format!("recovered at once: {error}"))?;
                interrupted = false;
            }
            Err(_) if disk.is_without_power() => interrupted = true,
            Err(error) => return Err(format!("cannot be recovered: {error}")),
        }
        disk.crash_with(some_survival(random), random.next_u64());
    }
    for rounds in 0..2 {
        let loggers = if random.percent(20) { random.between(1, 4) as usize } else { loggers };
        let life = Life::open(disk, loggers).map_err(|error| format!("cannot be recovered: {error}"))?;
        judge(&life, disk, &mut ledger, interrupted)
            .map_err(|error| format!("recovery {rounds}: {error}"))?;
        interrupted = false;
        if rounds == 0 {
            drive(&life, disk, &mut ledger, random.between(0, 14), random.next_u64())?;
            disk.crash_with(some_survival(random), random.next_u64());
        } else {
            disk.kill();
        }
    }
    Ok(())
}

/// Runs the lives of one database, and power fails at every call of them. Returns how often it did.
fn run_database(seed: u64) -> u64 {
    let mut random = Random::seeded(seed);
    let loggers = [1, 2, 4, 8][random.below(4) as usize];
    let (disk, mut ledger, mut points) = (SimDisk::new(), Ledger::default(), 0);
    for number in 0..LIVES {
        let context = format!("ENSILE_SEED={seed}, {loggers} loggers, life {number}");
        disk.keep_moments();
        let life = Life::open(&disk, loggers).unwrap_or_else(|error| panic!("{context}: {error}"));
        judge(&life, &disk, &mut ledger, false).unwrap_or_else(|error| panic!("{context}: {error}"));
        let steps = random.between(10, 90);
        drive(&life, &disk, &mut ledger, steps, random.next_u64())
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        if random.percent(25) {
            let last = life.db.epoch();
            life.db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            ledger.promise(disk.calls().all, last, "a clean close");
        }
        for moment in disk.take_moments() {
            points += 1;
            let call = moment.number;
            check(&moment.disk, ledger.before(call), loggers, &mut Random::seeded(seed ^ call << 32))
                .unwrap_or_else(|error| panic!("{context}, power fails at call {call}: {error}"));
        }
        disk.crash_with(some_survival(&mut random), random.next_u64());
    }
    points
}

#[test]
fn power_may_fail_at_every_call() {
    let wanted = environment::count("ENSILE_CRASH_POINTS", 1_500);
    let (mut seed, mut points) = (environment::number("ENSILE_SEED", 0), 0);
    while points < wanted {
        points += run_database(seed);
        seed += 1;
    }
    println!("{points} crash points, databases up to seed {}", seed - 1);
}
