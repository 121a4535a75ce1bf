//! The processes of `slach replay`: one writes, one opens, one makes a checkpoint of all operations.
//!
//! Neighbours: [`super`] starts the processes; the objects are the objects of [`crate::slach::cost`].

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum, value_parser};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_bench::machine::memory;
use ensile_bench::{Failure, Result};
use ensile_objects::{CheckpointPolicy, ObjectDurability, Objects, ObjectsBuilder};

use crate::slach::cost::run::objects::Held;

/// Bytes of an operation.
const OPERATION_BYTES: usize = 100;

/// The task of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Makes the objects and a checkpoint of the objects, and then logs operations.
    Write,
    /// Opens the folder, and prints the time and the memory of the open.
    Open,
    /// Opens the folder and makes a checkpoint, so that no operation is left in the log.
    Checkpoint,
}

/// `ensile-papers slach-replay-run`.
#[derive(Clone, Debug, Args)]
pub struct ReplayRunArguments {
    #[arg(long, value_enum)]
    part: Part,
    #[arg(long)]
    folder: PathBuf,
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    objects: u64,
    #[arg(long)]
    operations: u64,
    #[arg(long)]
    seed: u64,
}

/// An open, and the memory of its process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opened {
    pub(super) seconds: f64,
    pub(super) peak: f64,
    pub(super) resident: f64,
    pub(super) log_bytes: f64,
    /// Number of operations found in the log.
    pub(super) found: f64,
}

/// Runs a part in a process of its own. The result is zeros for a part without a measured open.
pub(super) fn in_a_process(
    part: Part,
    folder: &Path,
    [objects, operations, seed]: [u64; 3],
) -> Result<Opened> {
    let program = std::env::current_exe().map_err(Failure::io("finding this program"))?;
    let name = part.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let mut command = Command::new(program);
    command.args(["slach-replay-run", "--part", &name, "--folder"]).arg(folder);
    for (option, number) in [("--objects", objects), ("--operations", operations), ("--seed", seed)] {
        command.args([option, &number.to_string()]);
    }
    let output = command.output().map_err(Failure::io("starting this program again"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [seconds, peak, resident, log_bytes, found] if output.status.success() => {
            Ok(Opened { seconds, peak, resident, log_bytes, found })
        }
        _ => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Failure::Usage(format!("replay: a process of it failed: {why}")))
        }
    }
}

fn opened(arguments: &ReplayRunArguments) -> Result<Objects<u64, Held<OPERATION_BYTES>>> {
    let builder = ObjectsBuilder::new(&arguments.folder)
        .durability(ObjectDurability::Relaxed)
        .policy(&CheckpointPolicy::on_demand())
        .recovery_threads(1);
    Ok(builder.open()?)
}

/// Runs the part, and prints five numbers.
pub(crate) fn one_run(arguments: &ReplayRunArguments) -> Result<()> {
    let said = match arguments.part {
        Part::Write => {
            write(arguments)?;
            Opened::default()
        }
        Part::Open => open(arguments)?,
        Part::Checkpoint => {
            let objects = opened(arguments)?;
            objects.checkpoint().wait()?;
            objects.close()?;
            Opened::default()
        }
    };
    let Opened { seconds, peak, resident, log_bytes, found } = said;
    println!("{seconds} {peak} {resident} {log_bytes} {found}");
    Ok(())
}

fn write(arguments: &ReplayRunArguments) -> Result<()> {
    let objects = opened(arguments)?;
    for key in 0..arguments.objects {
        objects.submit(key, &[0; OPERATION_BYTES])?;
    }
    objects.checkpoint().wait()?;
    let mut random = Random::from_seed(arguments.seed);
    let mut operation = [7; OPERATION_BYTES];
    for number in 0..arguments.operations {
        operation[..8].copy_from_slice(&number.to_le_bytes());
        objects.submit(random.next_below(arguments.objects), &operation)?;
    }
    Ok(objects.close()?)
}

fn open(arguments: &ReplayRunArguments) -> Result<Opened> {
    memory::forget_peak();
    let clock = Clock::machine();
    let begun = clock.nanos();
    let objects = opened(arguments)?;
    let seconds = (clock.nanos() - begun) as f64 / 1e9;
    let (peak, resident) = (memory::peak() as f64, ensile_bench::machine::resident_bytes() as f64);
    let found = objects.recovery().entries as f64;
    let log_bytes = objects.recovery().bytes as f64;
    objects.close()?;
    Ok(Opened { seconds, peak, resident, log_bytes, found })
}
