//! The catalogue of planted bugs that the simulation brings out: each in a process of its own, until a checker sees it.
//!
//! `bash ci/planted.sh` runs it all and prints a table; `ENSILE_BUG=Name` chooses one. With no bug planted the same plans
//! report nothing.

use std::process::Command;

use ensile_base::clock::Clock;
use ensile_base::planted::{Bug, Run, plant};
use ensile_base::random::Random;
use ensile_sim::{environment, schedules};

use crate::life;
use crate::plan::Plan;

/// A checker sees each bug within this time.
const SECONDS_MAX: u64 = 60;
/// Runs of each plan without a bug.
const CLEAN_RUNS: u64 = 60;
/// Steps of a run: what goes well takes far fewer.
const STEPS_MAX: usize = 1_000_000;

/// Workers that put and read, few keys, and what else the bug needs.
fn narrow(random: &mut Random) -> Plan {
    Plan {
        keys: 3,
        workers: 3,
        transactions: 4,
        operations_max: 3,
        indexed: false,
        layered: false,
        garbage_bytes_max: 1 << 20,
        ..Plan::in_memory(random)
    }
}

/// Enough keys for leaves that split, empty and go.
fn wide(random: &mut Random) -> Plan {
    Plan {
        keys: 34,
        workers: 3,
        transactions: 8,
        operations_max: 5,
        operations: [1, 0, 6, 0, 6, 2, 1, 0],
        kinds: [1, 0, 0, 0, 0],
        fillers: &[0],
        indexed: false,
        ..narrow(random)
    }
}

fn durable(random: &mut Random) -> Plan {
    Plan {
        operations: [2, 4, 2, 2, 2, 1, 0, 0],
        kinds: [6, 0, 1, 0, 0],
        strict_percent: 70,
        crash_percent: 95,
        indexed: false,
        layered: false,
        ..Plan::on_disk(random)
    }
}

/// Lives long enough for several checkpoints.
fn checkpointed(random: &mut Random) -> Plan {
    Plan {
        keys: 4,
        transactions: 8,
        lives: 3,
        loggers: random.between(1, 2) as usize,
        checkpointers: random.between(1, 2) as usize,
        operations: [2, 4, 1, 1, 3, 1, 0, 0],
        ..durable(random)
    }
}

/// The plan that brings a bug out soonest.
fn plan_for(bug: Bug) -> fn(&mut Random) -> Plan {
    match bug {
        Bug::OwnInsertNotBlessed => |random| Plan {
            keys: 9,
            workers: 1,
            filled_every: 3,
            operations: [1, 0, 3, 0, 0, 3, 1, 0],
            kinds: [1, 0, 0, 0, 0],
            snapshot_micros: u64::MAX >> 20,
            undisturbed: true,
            ..narrow(random)
        },
        Bug::OwnInsertBlessedBlindly => |random| Plan {
            keys: 5,
            operations: [0, 0, 3, 0, 1, 3, 1, 0],
            kinds: [1, 0, 0, 0, 0],
            ..narrow(random)
        },
        Bug::EmptyLeafNotWitnessed => |random| Plan {
            keys: 5,
            filled_every: u64::MAX,
            operations: [0, 0, 2, 0, 0, 3, 1, 0],
            kinds: [1, 0, 0, 0, 0],
            transactions: 1,
            operations_max: 2,
            ..narrow(random)
        },
        Bug::LocksInWriteOrder | Bug::TidNotAboveOverwritten => {
            |random| Plan { operations: [0, 1, 0, 0, 0, 0, 0, 0], kinds: [1, 0, 0, 0, 0], ..narrow(random) }
        }
        // Epochs that end often, and reads that a commit of the epoch before may overwrite.
        Bug::EpochBeforeLocks => |random| Plan {
            operations: [3, 2, 0, 0, 0, 0, 0, 0],
            kinds: [3, 2, 0, 0, 0],
            beat_micros_max: 60_000,
            beat_rest_max: 30,
            filled_every: 1,
            ..narrow(random)
        },
        Bug::VersionKeptByInsert | Bug::VersionKeptBySplit => wide,
        Bug::VersionKeptByLayer => |random| Plan {
            layered: true,
            filled_every: 3,
            operations: [4, 1, 3, 0, 0, 0, 0, 0],
            ..narrow(random)
        },
        Bug::SequenceCarries => |random| Plan {
            operations: [1, 3, 0, 0, 0, 0, 0, 0],
            kinds: [5, 0, 0, 1, 0],
            transactions: 30,
            beat_rest_max: 3_000,
            ..narrow(random)
        },
        Bug::UnhookedTooYoung => |random| Plan {
            keys: 2,
            operations: [0, 3, 0, 0, 4, 0, 0, 0],
            kinds: [1, 0, 0, 0, 0],
            transactions: 6,
            beat_rest_max: 1_000,
            ..narrow(random)
        },
        Bug::OldRowNotRead => {
            |random| Plan { indexed: true, operations: [1, 4, 1, 0, 1, 0, 0, 3], ..narrow(random) }
        }
        Bug::DoomNotSeen | Bug::DoomedWithinCall => |random| Plan {
            garbage_bytes_max: 1,
            fillers: &[0, 100, 300],
            kinds: [4, 6, 1, 2, 0],
            beat_micros_max: 60_000,
            ..narrow(random)
        },
        // Records that are outgrown again and again, in commits that are long enough for an epoch to end in them, while
        // others have found the old record and wait for its lock.
        Bug::TagOfOwner => |random| Plan {
            keys: 4,
            workers: 5,
            operations: [2, 5, 0, 0, 0, 0, 0, 0],
            operations_max: 4,
            transactions: 5,
            kinds: [1, 0, 0, 0, 0],
            fillers: &[0, 40, 90, 150, 250, 400, 600, 900],
            beat_micros_max: 100_000,
            beat_rest_max: 4,
            snapshot_micros: u64::MAX >> 20,
            filled_every: 1,
            ..narrow(random)
        },
        Bug::FreedUnderPin | Bug::ReplacedWithoutPins => |random| Plan {
            fillers: &[0, 100, 300],
            kinds: [4, 3, 1, 0, 0],
            beat_micros_max: 60_000,
            beat_rest_max: 30,
            snapshot_micros: 1,
            ..narrow(random)
        },
        _ => plan_for_snapshots_and_log(bug),
    }
}

fn plan_for_snapshots_and_log(bug: Bug) -> fn(&mut Random) -> Plan {
    match bug {
        Bug::VersionFreedEarly
        | Bug::SnapshotTooNew
        | Bug::BoundaryServedEarly
        | Bug::BoundaryPublishedLate
        | Bug::VersionNotKept
        | Bug::VersionLinkedLate
        | Bug::UnhookedUnderSnapshot
        | Bug::AdvanceWithoutScan => |random| Plan {
            operations: [1, 3, 1, 2, 2, 2, 0, 0],
            kinds: [5, 0, 0, 4, 0],
            beat_micros_max: 3_000,
            snapshot_micros: 1,
            transactions: 6,
            ..narrow(random)
        },
        // Epochs that end often: a boundary may go while a snapshot takes it.
        Bug::SnapshotNotLookedAgain => |random| Plan {
            operations: [1, 3, 1, 2, 2, 2, 0, 0],
            kinds: [3, 0, 0, 6, 0],
            beat_micros_max: 60_000,
            beat_rest_max: 6,
            snapshot_micros: 1,
            transactions: 10,
            ..narrow(random)
        },
        Bug::ErrorReleasedEarly => |random| Plan { kinds: [4, 0, 0, 0, 4], ..durable(random) },
        Bug::SnapshotReleasedEarly => {
            |random| Plan { kinds: [4, 0, 0, 4, 0], snapshot_micros: 1, ..durable(random) }
        }
        Bug::AbsentNotInReceipt | Bug::PresentNotInReceipt | Bug::UnhookedBeforeDurable => |random| Plan {
            keys: 3,
            operations: [4, 2, 0, 0, 4, 1, 0, 0],
            kinds: [3, 0, 3, 0, 0],
            snapshot_micros: 1,
            ..durable(random)
        },
        Bug::DeleteLeavesNoTombstone | Bug::OlderReplayed => |random| Plan {
            operations: [0, 4, 0, 0, 3, 0, 0, 0],
            kinds: [1, 0, 0, 0, 0],
            transactions: 6,
            ..durable(random)
        },
        Bug::IdleLoggerUnmarked | Bug::DurableAsMaximum => |random| Plan { loggers: 2, ..durable(random) },
        Bug::QueueBeforeSlots => |random| Plan { fillers: &[400, 600], transactions: 8, ..durable(random) },
        // One life that ends in a recovery, and records that are outgrown: a walk that waits for the lock of one which a
        // commit of an earlier epoch replaces passes it by. Keys enough that it is not soon written again.
        Bug::WalkBegunEarly => |random| Plan {
            keys: 8,
            transactions: 4,
            operations_max: 3,
            operations: [0, 1, 0, 0, 0, 0, 0, 0],
            kinds: [1, 0, 0, 0, 0],
            fillers: &[0, 40, 90, 150, 250, 400, 600, 900],
            strict_percent: 80,
            crash_percent: 0,
            lives: 1,
            loggers: 1,
            checkpointers: 2,
            beat_micros_max: 60_000,
            beat_rest_max: 30,
            ..checkpointed(random)
        },
        // Results that hardly wait, so that a crash takes epochs back, and epochs that end often, in a walk too.
        Bug::HighReadBeforeWalk => |random| Plan {
            strict_percent: 10,
            loggers: 1,
            beat_micros_max: 60_000,
            beat_rest_max: 20,
            ..checkpointed(random)
        },
        Bug::InstalledBeforeDurable
        | Bug::RemovedBeforeManifest
        | Bug::LogRemovedBeforeManifest
        | Bug::FileOfLowRemoved
        | Bug::EntriesOfLowSkipped
        | Bug::NewEntriesWalked => checkpointed,
        // One length for all, as an entry has room for its own.
        Bug::EntryReadAgain => |random| Plan {
            keys: 2,
            fillers: &[0],
            operations: [1, 4, 0, 0, 0, 0, 0, 0],
            kinds: [1, 0, 0, 0, 0],
            beat_micros_max: 60_000,
            beat_rest_max: 10,
            ..durable(random)
        },
        Bug::ReleasedBeforeDurable
        | Bug::StoppedLogAnswers
        | Bug::UnbindBeforeAppend
        | Bug::EpochAfterBindings
        | Bug::BindingNotLookedAt
        | Bug::HeldBufferPassed
        | Bug::IdleBufferPassed
        | Bug::MarkBeforeSync
        | Bug::ManifestBeforeFiles
        | Bug::DiscardedReplayed => durable,
        // Blocks of several sectors, so that a mark may be written whole where the block before it is not.
        Bug::MarkAcrossGap => |random| Plan {
            fillers: &[400, 600],
            strict_percent: 0,
            transactions: 8,
            lives: 3,
            ..durable(random)
        },
        _ => narrow,
    }
}

/// Which checker it was, by what it said.
fn checker_of(what: &str) -> &'static str {
    let is_of = |words: &[&str]| words.iter().any(|word| what.contains(word));
    if is_of(&["transactions, "]) {
        "history"
    } else if is_of(&["exceeded max_steps", "deadlock"]) {
        "progress"
    } else if is_of(&["was freed"]) {
        "freed memory"
    } else if is_of(&["cannot be recovered"]) {
        "recovery"
    } else {
        "assertion"
    }
}

/// The line of a report that says most: an anomaly's name, or the panic itself.
fn headline(what: &str) -> String {
    let said = |line: &&str| !line.contains("panicked at");
    let line = what.lines().find(|line| line.contains(" x ")).or_else(|| what.lines().find(said));
    line.unwrap_or_default().chars().take(100).collect()
}

/// Plants one bug for good and looks for a run that fails: in a process of its own, which prints what came of it.
fn hunt(bug: Bug) {
    plant(Some(bug));
    let seconds_max = environment::count("ENSILE_SECONDS", SECONDS_MAX);
    let clock = Clock::machine();
    let started = clock.clone();
    let going_on = move |_| started.nanos() < seconds_max * 1_000_000_000;
    let plan = plan_for(bug);
    let found = schedules::find_failure(1, going_on, STEPS_MAX, move || life::run(plan));
    let seconds = clock.nanos() as f64 / 1e9;
    match found {
        Ok(runs) => println!("MISSED | {bug:?} | {} | {runs} schedules, {seconds:.1} s", bug.condition()),
        Err(failure) => println!(
            "SEEN | {bug:?} | {} | {} | {} | {seconds:.1} | {}",
            bug.condition(),
            checker_of(&failure.what),
            failure.runs,
            headline(&failure.what)
        ),
    }
}

/// Says to a process that the catalogue has started which bug it is to hunt.
const HUNTED: &str = "ENSILE_HUNTED";

/// The simulation's part of the catalogue.
fn simulated() -> Vec<Bug> {
    Bug::ALL.iter().copied().filter(|bug| bug.run() == Run::Simulation).collect()
}

/// The bugs that `ENSILE_BUG` names, or all.
fn chosen() -> Vec<Bug> {
    let Ok(names) = std::env::var("ENSILE_BUG") else { return simulated() };
    let named = |name| {
        let bug = Bug::named(name).filter(|bug| bug.run() == Run::Simulation);
        bug.unwrap_or_else(|| {
            panic!("ENSILE_BUG: the simulation has no bug {name:?}; it has {:?}", simulated())
        })
    };
    names.split(',').map(named).collect()
}

/// The catalogue: a table, a row for each bug. It starts itself again for each.
#[test]
fn every_planted_bug_is_seen() {
    if let Ok(name) = std::env::var(HUNTED) {
        return hunt(Bug::named(&name).expect("a bug of the catalogue"));
    }
    let catalogue = chosen();
    let mut missed = Vec::new();
    println!("| bug | condition | checker | schedules | seconds | what it said |\n|---|---|---|---|---|---|");
    for bug in &catalogue {
        let output = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "planted::every_planted_bug_is_seen", "--nocapture"])
            .env(HUNTED, format!("{bug:?}"))
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("this test runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let row = text.lines().find_map(|line| line.split_once("SEEN | ").map(|(_, row)| row.to_owned()));
        match row {
            Some(row) => println!("| {row} |"),
            None if text.contains("MISSED | ") => missed.push(*bug),
            // A process that a signal has ended shows the bug too: nothing but the bug could have sent it.
            None if output.status.code().is_none() => {
                println!("| {bug:?} | {} | the process: {} | | | |", bug.condition(), output.status);
            }
            None => panic!("{bug:?}: {}\n{text}", output.status),
        }
    }
    assert!(missed.is_empty(), "no checker saw {missed:?}");
}

#[test]
fn nothing_is_reported_without_a_bug() {
    plant(None);
    for bug in simulated() {
        let plan = plan_for(bug);
        let found = schedules::find_failure(1, |runs| runs < CLEAN_RUNS, STEPS_MAX, move || life::run(plan));
        if let Err(failure) = found {
            panic!("the plan for {bug:?}, without it: {failure}");
        }
    }
}
