//! The process that `slach target` kills: objects under a load whose rate and operations change tenfold, with a target
//! for the recovery time.
//!
//! The process prints the time of its open. Every [`SAY`] it prints a forecast of recovery and the number of
//! checkpoints. The load ends with the kill.
//!
//! Neighbours: [`super`] starts the process and reads the lines; [`crate::slach::held`] has the objects.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_bench::{Failure, Result};
use ensile_objects::{CheckpointPolicy, ObjectDurability, Objects, ObjectsBuilder};

use crate::slach::held::{CHEAP_ROUNDS, DEAR_ROUNDS, Mixing, Property};

/// Time between two lines.
const SAY: Duration = Duration::from_millis(20);
/// Time between two steps of the load.
const TICK: Duration = Duration::from_millis(2);
/// Higher rate over lower rate.
const TENFOLD: u64 = 10;

/// Arguments of `ensile-papers slach-target-victim`.
#[derive(Clone, Debug, Args)]
pub struct TargetVictimArguments {
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    target_ms: u64,
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    objects: u64,
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 30))]
    rate: u64,
    #[arg(long)]
    seed: u64,
}

impl TargetVictimArguments {
    /// The command line of the process.
    pub(super) fn words(folder: &std::path::Path, [target_ms, objects, rate, seed]: [u64; 4]) -> Vec<String> {
        let mut words =
            vec!["slach-target-victim".to_owned(), "--folder".to_owned(), folder.display().to_string()];
        let named = ["--target-ms", "--objects", "--rate", "--seed"]
            .into_iter()
            .zip([target_ms, objects, rate, seed]);
        words.extend(named.flat_map(|(name, number)| [name.to_owned(), number.to_string()]));
        words
    }
}

/// A load of constant rate.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Operations a second.
    rate: u64,
    /// Rounds of an operation: the work of its replay.
    rounds: u32,
    /// End of the load, in nanoseconds.
    until_nanos: u64,
}

impl Load {
    /// Draws the next load, which lasts from a third of the target to twice the target.
    fn next(random: &mut Random, arguments: &TargetVictimArguments, now_nanos: u64) -> Self {
        let rate = arguments.rate / if random.percent(50) { TENFOLD } else { 1 };
        let rounds = if random.percent(50) { DEAR_ROUNDS } else { CHEAP_ROUNDS };
        let target = arguments.target_ms * 1_000_000;
        Self {
            rate: rate.max(1),
            rounds,
            until_nanos: now_nanos + target / 3 + random.next_below(target * 5 / 3 + 1),
        }
    }
}

/// Runs the load until the kill.
pub(crate) fn run(arguments: &TargetVictimArguments) -> Result<()> {
    let clock = Clock::machine();
    let target = Duration::from_millis(arguments.target_ms);
    let policy = CheckpointPolicy { recovery_time: Some(target), ..CheckpointPolicy::on_demand() };
    let objects: Objects<u64, Property> = ObjectsBuilder::new(&arguments.folder)
        .durability(ObjectDurability::Relaxed)
        .policy(&policy)
        .open()?;
    say(&format!("open {}\n", clock.nanos()))?;
    let mut random = Random::from_seed(arguments.seed);
    if objects.stats().objects == 0 {
        for key in 0..arguments.objects {
            objects.submit(key, &Mixing { with: key, rounds: 1 })?;
        }
        // The time of loading is constant from here on.
        objects.checkpoint().wait()?;
    }
    refuse(&objects)?;
    let installed = objects.stats().checkpoints.installed;
    let (mut load, mut owed, mut last, mut said) =
        (Load::next(&mut random, arguments, clock.nanos()), 0.0, clock.nanos(), 0);
    say("ready\n")?;
    loop {
        let now = clock.nanos();
        if now >= load.until_nanos {
            load = Load::next(&mut random, arguments, now);
        }
        // At most two ticks of operations stay owed, so a slow machine sets the rate.
        owed = (owed + load.rate as f64 * (now - last) as f64 / 1e9)
            .min(2.0 * load.rate as f64 * TICK.as_secs_f64() + 1.0);
        last = now;
        while owed >= 1.0 {
            let mixing = Mixing { with: random.next_u64(), rounds: load.rounds };
            objects.submit(random.next_below(arguments.objects), &mixing)?;
            owed -= 1.0;
        }
        if now - said >= SAY.as_nanos() as u64 {
            said = now;
            say(&line(now, &objects, installed))?;
        }
        std::thread::sleep(TICK);
    }
}

/// The line `at` with six figures: milliseconds since the start, forecast of a recovery, its load and rest, its replay,
/// duration of the last checkpoint (all in milliseconds), and the number of checkpoints.
fn line(now_nanos: u64, objects: &Objects<u64, Property>, installed: u64) -> String {
    let checkpoints = objects.stats().checkpoints;
    let recovery = checkpoints.recovery.unwrap_or_default();
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let took = checkpoints.last.as_ref().map_or(recovery.checkpoint, |last| last.elapsed);
    format!(
        "at {} {} {} {} {} {}\n",
        now_nanos as f64 / 1e6,
        millis(recovery.total()),
        millis(recovery.rest + recovery.load),
        millis(recovery.replay),
        millis(took),
        checkpoints.installed - installed
    )
}

/// Checks that a target below the time of loading is refused, and prints the error.
fn refuse(objects: &Objects<u64, Property>) -> Result<()> {
    let loading =
        objects.stats().checkpoints.recovery.map_or(Duration::ZERO, |recovery| recovery.rest + recovery.load);
    let recovery_time = Some(loading / 2);
    let policy = CheckpointPolicy { recovery_time, ..CheckpointPolicy::on_demand() };
    match objects.register_policy(&policy) {
        Err(error) => say(&format!("refused {error}\n")),
        Ok(()) => Err(Failure::Usage(format!(
            "a target of {recovery_time:?} was not refused: loading takes {loading:?}"
        ))),
    }
}

fn say(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(Failure::io("telling how it goes"))
}
