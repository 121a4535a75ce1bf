//! Each call of a run fails, with EIO or ENOSPC, once and for good: nothing that was promised is lost, nothing is
//! promised that should not be, and nothing waits for ever.
//!
//! `ENSILE_FAILING_CALLS=2000 cargo test --profile release-plain -p ensile-engine --test engine crashes::failing` looks
//! at all of the first 2,000 calls; otherwise at some of them.

use std::sync::mpsc::{RecvTimeoutError, channel};

use ensile_disk::Operation;
use ensile_sim::ledger::Ledger;
use ensile_sim::{Call, Fault, environment};

use super::driver::Driver;
use super::life::{Life, Setting};
use super::points::{judge, some_survival};
use crate::prelude::*;

/// A case takes milliseconds: one that takes so long hangs.
const PATIENCE: Duration = Duration::from_secs(600);
/// Rounds of all loggers after which what can be answered is.
const ROUNDS: u32 = 6;

/// One failing call.
#[derive(Clone, Copy, Debug)]
struct Case {
    call: u64,
    fault: Fault,
    for_good: bool,
    loggers: usize,
}

impl Case {
    fn plan(&self, disk: &SimDisk) {
        if self.for_good {
            disk.fail_calls(self.call.., self.fault);
        } else {
            disk.fail_calls(self.call..=self.call, self.fault);
        }
    }

    fn has_come(&self, disk: &SimDisk) -> bool {
        disk.calls().all >= self.call
    }

    fn is_no_space(&self) -> bool {
        self.fault == Fault::NO_SPACE || self.fault == Fault::NO_SPACE.after_percent(50)
    }
}

/// A refusal that says that the disk refused, or that the log has stopped: what to do is clear from it.
fn is_clean(error: &Error) -> bool {
    use DurabilityError::{Disk, NoRoomToOpen, OutcomeUnknown, Stopped};
    let is_clean =
        |why: &DurabilityError| matches!(why, Disk(_) | NoRoomToOpen(_) | Stopped(_) | OutcomeUnknown(_));
    matches!(error, Error::DiskFull(_)) || matches!(error, Error::Storage(why) if is_clean(why.cause()))
}

/// What the log must do about a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Must {
    /// It cannot know what the disk holds.
    Stop,
    /// There is no space: nothing failed of what was written.
    Hold,
    /// Nothing rests on the call: either, and if it goes on nothing is lost.
    Either,
}

impl Case {
    /// `opened_at`: the last call of the open.
    fn must(&self, failed: &Call, opened_at: u64, disk: &SimDisk) -> Must {
        // A file that is made ahead is given up, and so is its name: no block stands in it.
        let has_blocks =
            || disk.files().contains(&failed.name) && disk.bytes(&failed.name).iter().any(|byte| *byte != 0);
        match failed.operation {
            // The open has made anew what the call was for, or it would not have ended well.
            _ if failed.number <= opened_at => Must::Either,
            // The hint is one more witness of D, and D does not wait for it.
            _ if !failed.name.contains("log-") && failed.operation != Operation::SyncFolder => Must::Either,
            Operation::Sync if self.is_no_space() && !has_blocks() => Must::Either,
            Operation::SyncFolder if self.is_no_space() => Must::Either,
            Operation::Sync | Operation::SyncFolder => Must::Stop,
            Operation::Write | Operation::Preallocate | Operation::Create if self.is_no_space() => Must::Hold,
            Operation::Write | Operation::Create => Must::Stop,
            _ => Must::Either,
        }
    }
}

/// What stands after the call has failed while the database was open.
fn check_after(
    case: &Case,
    failed: &Call,
    driver: &mut Driver<'_, '_>,
    life: &Life,
    disk: &SimDisk,
    opened_at: u64,
) -> Result<(), String> {
    let (durable, must) = (life.db.durable_epoch(), case.must(failed, opened_at, disk));
    // Held or stopped, it may be refused.
    let _ = driver.write();
    for _ in 0..ROUNDS {
        driver.settle();
        driver.step();
    }
    life.read_back().map_err(|error| format!("reads do not go on: {error}"))?;
    let stops = |error: Error| matches!(cause(&error), Some(DurabilityError::Stopped(_)));
    let has_stopped = driver.write().is_err_and(stops);
    if has_stopped == (must == Must::Hold) && must != Must::Either {
        return Err(format!("the log must {must:?}, and has it stopped? {has_stopped}: {failed}"));
    }
    if case.for_good && must == Must::Hold && life.db.durable_epoch() != durable {
        return Err(format!("D was {durable} when space ended, and went on: {failed}"));
    }
    disk.heal();
    (0..ROUNDS).for_each(|_| driver.settle());
    if has_stopped && life.db.durable_epoch() != durable {
        return Err(format!("D was {durable} when the log stopped, and went on: {failed}"));
    }
    if !has_stopped {
        driver
            .write()
            .map_err(|error| format!("the disk works again, and writing does not: {error}: {failed}"))?;
        (0..ROUNDS).for_each(|_| driver.settle());
    }
    if driver.waiting() > 0 {
        return Err(format!("{} results are waited for: {failed}", driver.waiting()));
    }
    let unknown = |error: &&Error| matches!(cause(error), Some(DurabilityError::OutcomeUnknown(_)));
    if !has_stopped && driver.errors.iter().any(|error| unknown(&error)) {
        return Err(format!("the log goes on, and an outcome is unknown: {failed}"));
    }
    let unclear = driver.errors.iter().find(|error| !is_clean(error));
    unclear.map_or(Ok(()), |error| Err(format!("an unclear error: {error}: {failed}")))
}

/// One life, in which the call may fail. Returns what it did with the failure.
fn live(case: &Case, life: &Life, disk: &SimDisk, ledger: &mut Ledger, seed: u64) -> Result<(), String> {
    let mut random = Random::from_seed(seed);
    let opened_at = disk.calls().all;
    std::thread::scope(|scope| {
        let mut driver = Driver::new(scope, life, disk, ledger, random.next_u64());
        for _ in 0..random.next_between(20, 120) {
            driver.step();
            if case.has_come(disk) {
                let failed = disk.trace().into_iter().find(|call| call.number == case.call);
                let failed = failed.ok_or("the trace lacks the call")?;
                return check_after(case, &failed, &mut driver, life, disk, opened_at);
            }
            if let Some(error) = driver.errors.pop() {
                return Err(format!("before the call: {error}"));
            }
        }
        Ok(())
    })
}

/// Lives until the call has failed, and then one more. Returns how it was.
fn run(case: &Case, seed: u64) -> Result<(), String> {
    let mut random = Random::from_seed(seed);
    let (disk, mut ledger) = (SimDisk::new(), Ledger::default());
    disk.record(true);
    case.plan(&disk);
    let mut interrupted = false;
    while !case.has_come(&disk) {
        match Life::open(&disk, Setting::fuzzy(case.loggers)) {
            Ok(life) => {
                judge(&life, &disk, &mut ledger, interrupted)?;
                interrupted = false;
                if life.db.health().read_only.is_some() {
                    if !case.is_no_space() {
                        return Err("opened to be read only, and not for want of space".to_owned());
                    }
                    disk.kill();
                    continue;
                }
                live(case, &life, &disk, &mut ledger, random.next_u64())?;
                if random.percent(30) {
                    let last = life.db.epoch();
                    match life.db.close() {
                        Ok(()) => ledger.promise(disk.calls().all, last, "a clean close"),
                        Err(error) if is_clean(&error) && case.has_come(&disk) => {}
                        Err(error) => return Err(format!("closing: {error}")),
                    }
                }
                if random.percent(50) {
                    disk.kill();
                }
                disk.crash_with(some_survival(&mut random), random.next_u64());
            }
            Err(error) if !case.has_come(&disk) => return Err(format!("cannot be opened: {error}")),
            Err(error) if !is_clean(&error) => return Err(format!("an unclear error at open: {error}")),
            Err(_) => {
                interrupted = true;
                // The same process may try again, or another one after power was lost.
                if random.percent(50) {
                    disk.crash_with(some_survival(&mut random), random.next_u64());
                }
            }
        }
    }
    disk.heal();
    for _ in 0..2 {
        let life = Life::open(&disk, Setting::fuzzy(case.loggers))
            .map_err(|error| format!("cannot be opened again: {error}"))?;
        judge(&life, &disk, &mut ledger, interrupted)?;
        interrupted = false;
        disk.crash_with(some_survival(&mut random), random.next_u64());
    }
    Ok(())
}

/// Runs all cases on a thread that may hang.
#[expect(clippy::disallowed_methods, reason = "a thread that hangs can be told of, and not be joined")]
fn run_all(cases: impl Iterator<Item = Case> + Send + 'static) {
    let (begins, begun) = channel();
    let thread = std::thread::spawn(move || {
        for case in cases {
            begins.send(case).expect("somebody listens");
            run(&case, 1).unwrap_or_else(|error| panic!("{case:?}: {error}"));
        }
    });
    let mut last = None;
    loop {
        match begun.recv_timeout(PATIENCE) {
            Ok(case) => last = Some(case),
            Err(RecvTimeoutError::Timeout) => panic!("it hangs: {last:?}"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn cases(fault: Fault) -> impl Iterator<Item = Case> + Send {
    let (first, calls) =
        (environment::number("ENSILE_FIRST_CALL", 1), environment::number("ENSILE_FAILING_CALLS", 0));
    // Without a wish every call of the first open, and some of the rest.
    let some = move |call: &u64| calls > 0 || *call < 40 || call.is_multiple_of(17);
    let last = if calls > 0 { first + calls } else { 700 };
    (first..last).filter(some).flat_map(move |call| {
        [false, true].map(|for_good| Case { call, fault, for_good, loggers: 1 + call as usize % 3 })
    })
}

#[test]
fn each_call_may_fail() {
    run_all(cases(Fault::INPUT_OUTPUT));
}

#[test]
fn each_call_may_fail_with_its_work_done() {
    run_all(cases(Fault::INPUT_OUTPUT.after_percent(100)));
}

#[test]
fn each_call_may_find_no_space() {
    run_all(cases(Fault::NO_SPACE));
}

#[test]
fn each_write_may_be_short() {
    run_all(cases(Fault::NO_SPACE.after_percent(50)));
}
