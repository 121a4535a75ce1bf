//! Plans that each bring out one kind of fault soonest: few keys, and much of what the fault needs. They report nothing
//! unless the code has one.
//!
//! `ENSILE_PLAN=durable` hunts with that plan alone, for `ENSILE_SECONDS` (60): the patches of `planted/` name theirs.
//!
//! Neighbours: `life` runs a plan, `plan` says what it is made of.

use ensile_base::clock::Clock;
use ensile_base::limits::LOG_BUFFER_BYTES;
use ensile_base::random::Random;
use ensile_engine::checkpoint::Strategy;
use ensile_sim::{environment, schedules};

use crate::life;
use crate::plan::{Pictures, Plan, displaced_bytes_max};

/// How long the plan that is named is run.
const SECONDS: u64 = 60;
/// Runs of each plan if none is named.
const RUNS: u64 = 60;
/// Steps of a run: what goes well takes far fewer.
const STEPS_MAX: usize = 1_000_000;
/// Snapshots are never taken.
const NO_SNAPSHOTS: u64 = u64::MAX >> 20;
/// Lengths that each outgrow the record of the one before.
const GROWING: &[usize] = &[0, 40, 90, 150, 250, 400, 600, 900];

type Draw = fn(&mut Random) -> Plan;

/// All plans, by name.
const PLANS: &[(&str, Draw)] = &[
    ("narrow", narrow),
    ("wide", wide),
    ("alone", alone),
    ("scans", scans),
    ("bare", bare),
    ("puts", puts),
    ("short-epochs", short_epochs),
    ("layers", layers),
    ("sequences", sequences),
    ("deletes", deletes),
    ("folds", folds),
    ("indexed", indexed),
    ("open", open),
    ("outgrown", outgrown),
    ("replaced", replaced),
    ("snapshots", snapshots),
    ("short-boundaries", short_boundaries),
    ("held-snapshots", held_snapshots),
    ("durable", durable),
    ("failing", failing),
    ("failing-inserts", failing_inserts),
    ("durable-snapshots", durable_snapshots),
    ("receipts", receipts),
    ("replay", replay),
    ("two-logs", two_logs),
    ("full-buffers", full_buffers),
    ("gaps", gaps),
    ("tasks", tasks),
    ("tasks-without-space", tasks_without_space),
    ("rewritten", rewritten),
    ("checkpoints", checkpoints),
    ("outgrown-in-walks", outgrown_in_walks),
    ("short-walks", short_walks),
    ("pictures", pictures),
    ("short-pictures", short_pictures),
    ("alone-beside-pictures", alone_beside_pictures),
    ("no-log", no_log),
    ("cycling", cycling),
];

/// Workers that put and read, few keys.
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
        transactions: 8,
        operations_max: 5,
        operations: [1, 0, 6, 0, 6, 2, 1, 0],
        kinds: [1, 0, 0, 0, 0],
        fillers: &[0],
        ..narrow(random)
    }
}

/// One worker that scans and inserts: nothing is in its way.
fn alone(random: &mut Random) -> Plan {
    Plan {
        keys: 9,
        workers: 1,
        filled_every: 3,
        operations: [1, 0, 3, 0, 0, 3, 1, 0],
        kinds: [1, 0, 0, 0, 0],
        snapshot_micros: NO_SNAPSHOTS,
        undisturbed: true,
        ..narrow(random)
    }
}

/// Workers that scan and insert.
fn scans(random: &mut Random) -> Plan {
    Plan { keys: 5, operations: [0, 0, 3, 0, 1, 3, 1, 0], kinds: [1, 0, 0, 0, 0], ..narrow(random) }
}

/// As `scans`, into an index that is empty.
fn bare(random: &mut Random) -> Plan {
    Plan {
        filled_every: u64::MAX,
        operations: [0, 0, 2, 0, 0, 3, 1, 0],
        transactions: 1,
        operations_max: 2,
        ..scans(random)
    }
}

/// Nothing but puts.
fn puts(random: &mut Random) -> Plan {
    Plan { operations: [0, 1, 0, 0, 0, 0, 0, 0], kinds: [1, 0, 0, 0, 0], ..narrow(random) }
}

/// Epochs that end often, and reads that a commit of the epoch before may overwrite.
fn short_epochs(random: &mut Random) -> Plan {
    Plan {
        operations: [3, 2, 0, 0, 0, 0, 0, 0],
        kinds: [3, 2, 0, 0, 0],
        beat_micros_max: 60_000,
        beat_rest_max: 30,
        filled_every: 1,
        ..narrow(random)
    }
}

/// Keys that make layers of the index.
fn layers(random: &mut Random) -> Plan {
    Plan { layered: true, filled_every: 3, operations: [4, 1, 3, 0, 0, 0, 0, 0], ..narrow(random) }
}

/// Epochs so long that their sequences are used up.
fn sequences(random: &mut Random) -> Plan {
    Plan {
        operations: [1, 3, 0, 0, 0, 0, 0, 0],
        kinds: [5, 0, 0, 1, 0],
        transactions: 30,
        beat_rest_max: 3_000,
        ..narrow(random)
    }
}

/// Keys that are deleted and put again.
fn deletes(random: &mut Random) -> Plan {
    Plan {
        keys: 2,
        operations: [0, 3, 0, 0, 4, 0, 0, 0],
        kinds: [1, 0, 0, 0, 0],
        transactions: 6,
        beat_rest_max: 1_000,
        ..narrow(random)
    }
}

/// As `deletes`, in a layer of the index that is folded when one key is left, beside reads and scans.
fn folds(random: &mut Random) -> Plan {
    Plan { layered: true, operations: [2, 3, 0, 0, 4, 2, 0, 0], ..deletes(random) }
}

/// A table with an index.
fn indexed(random: &mut Random) -> Plan {
    Plan { indexed: true, operations: [1, 4, 1, 0, 1, 0, 0, 3], ..narrow(random) }
}

/// Transactions that stay open while garbage is at its limit.
fn open(random: &mut Random) -> Plan {
    Plan {
        garbage_bytes_max: 1,
        fillers: &[0, 100, 300],
        kinds: [4, 6, 1, 2, 0],
        beat_micros_max: 60_000,
        ..narrow(random)
    }
}

/// Records that are outgrown again and again, in commits that are long enough for an epoch to end in them, while others
/// have found the old record and wait for its lock.
fn outgrown(random: &mut Random) -> Plan {
    Plan {
        keys: 4,
        workers: 5,
        operations: [2, 5, 0, 0, 0, 0, 0, 0],
        operations_max: 4,
        transactions: 5,
        kinds: [1, 0, 0, 0, 0],
        fillers: GROWING,
        beat_micros_max: 100_000,
        beat_rest_max: 4,
        snapshot_micros: NO_SNAPSHOTS,
        filled_every: 1,
        ..narrow(random)
    }
}

/// Records that are replaced under open transactions, with a snapshot each epoch.
fn replaced(random: &mut Random) -> Plan {
    Plan {
        fillers: &[0, 100, 300],
        kinds: [4, 3, 1, 0, 0],
        beat_micros_max: 60_000,
        beat_rest_max: 30,
        snapshot_micros: 1,
        ..narrow(random)
    }
}

fn snapshots(random: &mut Random) -> Plan {
    Plan {
        operations: [1, 3, 1, 2, 2, 2, 0, 0],
        kinds: [5, 0, 0, 4, 0],
        beat_micros_max: 3_000,
        snapshot_micros: 1,
        transactions: 6,
        ..narrow(random)
    }
}

/// Epochs that end often: a boundary may go while a snapshot takes it.
fn short_boundaries(random: &mut Random) -> Plan {
    Plan {
        kinds: [3, 0, 0, 6, 0],
        beat_micros_max: 60_000,
        beat_rest_max: 6,
        transactions: 10,
        ..snapshots(random)
    }
}

/// Snapshots that are held while the rows that they show are written again and again.
fn held_snapshots(random: &mut Random) -> Plan {
    Plan {
        keys: 2,
        operations: [1, 4, 0, 0, 2, 0, 0, 0],
        kinds: [5, 0, 0, 3, 0],
        snapshot_reads_max: 12,
        filled_every: 1,
        transactions: 10,
        ..short_boundaries(random)
    }
}

/// Lives that most often end in a crash.
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

/// Closures that fail with what they have read.
fn failing(random: &mut Random) -> Plan {
    Plan { kinds: [4, 0, 0, 0, 4], failing_reads_percent: 100, ..durable(random) }
}

/// Closures that fail with what inserts have told them, beside deletes of the same keys.
fn failing_inserts(random: &mut Random) -> Plan {
    Plan {
        keys: 3,
        operations: [2, 2, 4, 0, 4, 0, 0, 0],
        kinds: [4, 0, 0, 0, 4],
        failing_reads_percent: 0,
        ..durable(random)
    }
}

fn durable_snapshots(random: &mut Random) -> Plan {
    Plan { kinds: [4, 0, 0, 4, 0], snapshot_micros: 1, ..durable(random) }
}

/// Transactions that only read wait for what they have read.
fn receipts(random: &mut Random) -> Plan {
    Plan {
        keys: 3,
        operations: [4, 2, 0, 0, 4, 1, 0, 0],
        kinds: [3, 0, 3, 0, 0],
        snapshot_micros: 1,
        ..durable(random)
    }
}

/// Puts and deletes of the same keys, for replay to put in order.
fn replay(random: &mut Random) -> Plan {
    Plan { operations: [0, 4, 0, 0, 3, 0, 0, 0], kinds: [1, 0, 0, 0, 0], transactions: 6, ..durable(random) }
}

fn two_logs(random: &mut Random) -> Plan {
    Plan { loggers: 2, ..durable(random) }
}

/// Rows so long that buffers fill up.
fn full_buffers(random: &mut Random) -> Plan {
    Plan { fillers: &[400, 600], transactions: 8, ..durable(random) }
}

/// Blocks of several sectors, so that a mark may be written whole where the block before it is not.
fn gaps(random: &mut Random) -> Plan {
    Plan { strict_percent: 0, lives: 3, ..full_buffers(random) }
}

/// Open transactions of tasks, beside each other's turns.
fn tasks(random: &mut Random) -> Plan {
    Plan { kinds: [2, 6, 1, 0, 1], tasks_percent: 80, operations: [3, 3, 2, 2, 3, 1, 0, 0], ..narrow(random) }
}

/// Tasks with large entries, and one log buffer for each worker.
fn tasks_without_space(random: &mut Random) -> Plan {
    Plan {
        kinds: [1, 6, 0, 0, 0],
        tasks_percent: 80,
        log_buffer_bytes_max: Some(LOG_BUFFER_BYTES),
        // A later return of space, or a crash, stands in for a lost wake-up.
        workers: random.next_between(1, 2) as usize,
        crash_percent: 20,
        ..full_buffers(random)
    }
}

/// Records that are overwritten soon after, by values of one length.
fn rewritten(random: &mut Random) -> Plan {
    Plan {
        keys: 2,
        fillers: &[0],
        operations: [1, 4, 0, 0, 0, 0, 0, 0],
        kinds: [1, 0, 0, 0, 0],
        beat_micros_max: 60_000,
        beat_rest_max: 10,
        ..durable(random)
    }
}

/// Lives long enough for several checkpoints.
fn checkpoints(random: &mut Random) -> Plan {
    Plan {
        keys: 4,
        transactions: 8,
        lives: 3,
        loggers: random.next_between(1, 2) as usize,
        checkpointers: random.next_between(1, 2) as usize,
        operations: [2, 4, 1, 1, 3, 1, 0, 0],
        ..durable(random)
    }
}

/// One life that ends in a recovery, and records that are outgrown: a walk that waits for the lock of one which a
/// commit of an earlier epoch replaces passes it by. Keys enough that it is not soon written again.
fn outgrown_in_walks(random: &mut Random) -> Plan {
    Plan {
        keys: 8,
        transactions: 4,
        operations_max: 3,
        operations: [0, 1, 0, 0, 0, 0, 0, 0],
        kinds: [1, 0, 0, 0, 0],
        fillers: GROWING,
        strict_percent: 80,
        crash_percent: 0,
        lives: 1,
        loggers: 1,
        checkpointers: 2,
        beat_micros_max: 60_000,
        beat_rest_max: 30,
        ..checkpoints(random)
    }
}

/// Results that hardly wait, so that a crash takes epochs back, and epochs that end often, in a walk too.
fn short_walks(random: &mut Random) -> Plan {
    Plan { strict_percent: 10, loggers: 1, beat_micros_max: 60_000, beat_rest_max: 20, ..checkpoints(random) }
}

/// Pictures, beside epochs that end often.
fn pictures(random: &mut Random) -> Plan {
    let pictures = Some(Pictures::drawn(random));
    let displaced_bytes_max = displaced_bytes_max(random);
    let strategies = vec![Strategy::Pictures];
    let (beat_micros_max, beat_rest_max) = (3_000, 30);
    Plan { pictures, strategies, displaced_bytes_max, beat_micros_max, beat_rest_max, ..checkpoints(random) }
}

/// Pictures of pages of a row or two, beside rows that are deleted, put again and outgrown, and tables that are opened
/// meanwhile. Epochs end often, and attempts fail.
fn short_pictures(random: &mut Random) -> Plan {
    Plan {
        keys: 3,
        operations: [1, 4, 1, 0, 4, 0, 0, 0],
        fillers: [GROWING, &[0]][random.next_below(2) as usize],
        page_bytes: 64,
        late_tables: 2,
        fills_checkpoint_device: random.percent(50),
        beat_micros_max: 60_000,
        beat_rest_max: 20,
        ..pictures(random)
    }
}

/// One worker beside pictures: none of its transactions may fail for them, whenever a freeze comes.
fn alone_beside_pictures(random: &mut Random) -> Plan {
    Plan {
        workers: 1,
        operations: [1, 4, 2, 2, 0, 1, 1, 0],
        kinds: [1, 0, 0, 0, 0],
        transactions: 10,
        snapshot_micros: NO_SNAPSHOTS,
        filled_every: 1,
        late_tables: 0,
        garbage_bytes_max: 1 << 20,
        undisturbed: true,
        ..short_pictures(random)
    }
}

/// Lives without a log: pictures alone make results durable, and rows that are deleted are unhooked before that.
fn no_log(random: &mut Random) -> Plan {
    Plan {
        without_log_every: random.next_between(1, 2) as usize,
        strategies: vec![Strategy::Pictures],
        strict_percent: 60,
        operations: [4, 3, 1, 0, 4, 1, 0, 0],
        late_tables: 0,
        ..short_pictures(random)
    }
}

/// Checkpoints that go round by ranges of a row or two, beside rows that are deleted, put again and outgrown, and
/// tables that are opened meanwhile; lives of other strategies between them. Epochs end often, and turns fail.
fn cycling(random: &mut Random) -> Plan {
    Plan {
        keys: random.next_between(3, 6),
        operations: [1, 4, 1, 0, 4, 0, 0, 0],
        fillers: [GROWING, &[0]][random.next_below(2) as usize],
        fills_checkpoint_device: random.percent(30),
        ..checkpoints(random)
    }
    .going_round(random)
}

/// Runs a plan for as long as asked for, and panics with what the first run reports that fails.
fn hunt(name: &str, draw: Draw, going_on: impl FnMut(u64) -> bool + 'static) {
    let first_seed = environment::number("ENSILE_SEED", 1);
    match schedules::find_failure(first_seed, going_on, STEPS_MAX, move || life::run(draw)) {
        Ok(runs) => println!("{name}: nothing in {runs} schedules"),
        Err(failure) => panic!("{name}, schedule {}: {failure}", failure.runs),
    }
}

#[test]
fn plans_that_hunt_for_faults_report_none() {
    let Ok(chosen) = std::env::var("ENSILE_PLAN") else {
        return PLANS.iter().for_each(|(name, draw)| hunt(name, *draw, |runs| runs < RUNS));
    };
    let names: Vec<_> = PLANS.iter().map(|(name, _)| *name).collect();
    let plan = PLANS.iter().find(|(name, _)| *name == chosen);
    let (name, draw) = plan.unwrap_or_else(|| panic!("ENSILE_PLAN is one of {names:?}, and not {chosen:?}"));
    let nanos_max = environment::count("ENSILE_SECONDS", SECONDS) * 1_000_000_000;
    let clock = Clock::machine();
    hunt(name, *draw, move |_| clock.nanos() < nanos_max);
}
