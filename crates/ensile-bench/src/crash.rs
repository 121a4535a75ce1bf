//! `ensile-bench tpcc --crash-after`: kills a process in the middle of TPC-C, recovers its database, and proves that no
//! acknowledged order is lost.
//!
//! A *victim* (this program again, as a child process) runs TPC-C with its log. The victim writes every durable
//! new-order to a pipe. After a while of load the victim gets SIGKILL. Then this process opens the folder: recovery
//! runs, the consistency conditions must hold, and every acknowledged order must be present with all of its lines.
//!
//! Invariants:
//! - An order counts as acknowledged once its whole record has left the victim, since a client would have seen the
//!   record.
//! - With several lives the orders of all earlier lives must still be present after each kill.
//! - With `--no-log` an order is acknowledged once an installed picture has the order; recovery must then restore the
//!   order.
//! - With `--kill-in-recovery` victims that only recover are killed at random moments, as many as the option says. The
//!   judged recovery follows, so the judged recovery recovers from interrupted recoveries.
//!
//! Neighbours: [`victim`] is the child's side; [`crate::tpcc`] is the workload and its checks.

pub(crate) mod arguments;
pub(crate) mod victim;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use ensile::checkpoint::Strategy;
use ensile::recovery::RecoveryReport;
use ensile::{Database, Durability, Readable};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use serde::Serialize;
use zerocopy::FromBytes;

use crate::driver::panic_message;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::number::grouped;
use crate::progress::Progress;
use crate::system::Options;
use crate::tpcc::arguments::TpccArguments;
use crate::tpcc::consistency;
use crate::tpcc::keys::{self, LineNumber};
use crate::tpcc::tables::Tables;
use victim::Acknowledged;

/// Limit of missing orders that are reported individually.
const TOLD_MAX: usize = 5;
/// Approximate seconds of a process to start, open a small database and be ready.
const RECOVERY_SECONDS: f64 = 0.02;

/// The files that keep a victim's orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptBy {
    /// A log, and fuzzy checkpoints.
    Log,
    /// A log, and pictures.
    LogAndPictures,
    /// Pictures alone.
    Pictures,
}

impl KeptBy {
    pub(crate) fn of(pictures: bool, no_log: bool) -> Self {
        match (pictures, no_log) {
            (_, true) => Self::Pictures,
            (true, false) => Self::LogAndPictures,
            (false, false) => Self::Log,
        }
    }

    /// Opens the database in this folder. A database without a log ignores `durability`.
    fn open(self, mut options: Options, folder: &Path, durability: Durability) -> Result<Database> {
        if self != Self::Log {
            options.tuning.checkpoint_strategy = Some(Strategy::Pictures);
        }
        let builder = Database::builder(folder);
        if self == Self::Pictures {
            options.loggers = 0;
            return options.open(builder.without_log());
        }
        options.open(builder.durability(durability))
    }
}

/// The result of one kill.
#[derive(Clone, Debug, Serialize)]
struct Verdict {
    kill: u32,
    acknowledged: usize,
    durable_epoch: u64,
    entries_replayed: u64,
    bytes_replayed: u64,
    entries_ignored: u64,
    torn_tails: usize,
    recovery_seconds: f64,
    /// Number of recoveries killed before this recovery, and the number of them that had not ended.
    recoveries_killed: u32,
    recoveries_killed_midway: u32,
    /// Descriptions of the errors; empty if nothing is wrong.
    lost: Vec<String>,
}

/// All kills, as one JSON document.
#[derive(Debug, Serialize)]
struct Document {
    machine: Machine,
    kills: Vec<Verdict>,
    verdict: &'static str,
}

/// Kills and recovers as often as the arguments say. True if every verdict is clean.
pub(crate) fn run(arguments: &TpccArguments, seconds: f64) -> Result<bool> {
    let machine = Machine::look();
    let folder = arguments.run.data.join("tpcc-crash");
    let kills = arguments.repeat * arguments.lives * (1 + arguments.kill_in_recovery);
    let mut progress = Progress::new(kills as usize);
    // A kill must not always fall at the same place within an epoch.
    let mut random = Random::unpredictable();
    let (mut verdicts, mut recovery_seconds) = (Vec::new(), 0.0);
    for _ in 0..arguments.repeat {
        arguments.run.options().fresh_folder("tpcc-crash")?;
        let mut acknowledged = Vec::new();
        for life in 0..arguments.lives {
            let number = verdicts.len() as u32 * (1 + arguments.kill_in_recovery) + 1;
            let jitter = random.unit() * arguments.run.epoch_ms as f64 / 1e3;
            acknowledged.extend(live_and_die(arguments, &folder, life, seconds + jitter, &mut progress)?);
            let mut midway = 0;
            for _ in 0..arguments.kill_in_recovery {
                let seconds = random.unit() * RECOVERY_SECONDS.max(1.5 * recovery_seconds);
                midway += u32::from(recover_and_die(arguments, &folder, seconds, &mut progress)?);
            }
            progress.say(&format!("kill {number} of {kills}: recovering"));
            // The recovery has a thread of its own. The end of the thread frees the thread's state of the database
            // before the next victim opens the folder. A panic of the recovery is a result like any other.
            let verdict = std::thread::scope(|scope| {
                scope.spawn(|| recover(arguments, &folder, &acknowledged, number)).join()
            });
            let verdict =
                verdict.unwrap_or_else(|panic| Err(Failure::Panic(panic_message(panic.as_ref()))))?;
            let recoveries_killed = arguments.kill_in_recovery;
            let verdict = Verdict { recoveries_killed, recoveries_killed_midway: midway, ..verdict };
            recovery_seconds = verdict.recovery_seconds;
            progress.clear();
            if !arguments.run.json {
                print_verdict(&verdict, kills);
            }
            verdicts.push(verdict);
        }
    }
    let clean = verdicts.iter().all(|verdict| verdict.lost.is_empty());
    let word = if clean { "clean" } else { "lost" };
    if arguments.run.json {
        let document = Document { machine, kills: verdicts, verdict: word };
        println!("{}", serde_json::to_string_pretty(&document).expect("plain numbers and strings serialize"));
    } else {
        println!("the database stays in {}", folder.display());
        println!("verdict: {word}");
    }
    Ok(clean)
}

fn print_verdict(verdict: &Verdict, kills: u32) {
    println!(
        "kill {} of {kills}: {} orders acknowledged; recovered to epoch {} in {:.2} s: {} entries ({:.1} MB) replayed, \
         {} beyond it ignored, {} torn ends cut, {} of {} recoveries killed before it had not ended: {}",
        verdict.kill,
        grouped(verdict.acknowledged as f64),
        verdict.durable_epoch,
        verdict.recovery_seconds,
        grouped(verdict.entries_replayed as f64),
        verdict.bytes_replayed as f64 / 1e6,
        verdict.entries_ignored,
        verdict.torn_tails,
        verdict.recoveries_killed_midway,
        verdict.recoveries_killed,
        if verdict.lost.is_empty() { "clean" } else { "NOT CLEAN" },
    );
    for line in &verdict.lost {
        println!("  {line}");
    }
}

/// Lets a victim run for `seconds` after its first acknowledgement, kills it, and returns all acknowledged orders. The
/// time starts at the acknowledgement because a slow machine takes long to acknowledge anything.
pub(crate) fn live_and_die(
    arguments: &TpccArguments,
    folder: &Path,
    life: u32,
    seconds: f64,
    progress: &mut Progress,
) -> Result<Vec<Acknowledged>> {
    progress.say("the victim loads");
    let mut child = spawn(arguments, folder, life)?;
    let mut pipe = child.stdout.take().expect("its standard output is a pipe");
    let (acknowledges, has_acknowledged) = mpsc::channel();
    let heard = std::thread::scope(|scope| {
        let listener = scope.spawn(move || {
            // The first record marks the begin of the load.
            let mut bytes = vec![0; 2 * size_of::<Acknowledged>()];
            pipe.read_exact(&mut bytes)?;
            // A send fails only if the process ends: the receiver lives as long as the process.
            let _ = acknowledges.send(());
            pipe.read_to_end(&mut bytes).map(|_| bytes.split_off(size_of::<Acknowledged>()))
        });
        if has_acknowledged.recv().is_ok() {
            progress.say(&format!("the victim runs and will be killed after {seconds:.2} s"));
            std::thread::sleep(Duration::from_secs_f64(seconds));
        }
        let alive = matches!(child.try_wait(), Ok(None));
        // SIGKILL: nothing that the victim still has in its hands is written.
        let killed = child.kill().and_then(|()| child.wait());
        let bytes = listener.join().expect("reading a pipe does not panic");
        match (alive, killed) {
            (true, Ok(_)) => bytes.map_err(Failure::io("reading what the victim acknowledged")),
            (_, outcome) => {
                Err(Failure::Usage(format!("the victim ended before it was killed: {outcome:?}")))
            }
        }
    })?;
    // A client cannot have seen a record that was cut off in the middle.
    let whole = heard.len() / size_of::<Acknowledged>() * size_of::<Acknowledged>();
    let records =
        <[Acknowledged]>::ref_from_bytes(&heard[..whole]).expect("a whole number of unaligned records");
    Ok(records.to_vec())
}

/// Kills a victim `seconds` after its start. True if the victim's recovery had not ended.
fn recover_and_die(
    arguments: &TpccArguments,
    folder: &Path,
    seconds: f64,
    progress: &mut Progress,
) -> Result<bool> {
    progress.say(&format!("recovering, killed after {seconds:.3} s"));
    let mut command = victim(arguments, folder, 0)?;
    let mut child = command.arg("--recover-only").spawn().map_err(Failure::io("starting the victim"))?;
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let alive = matches!(child.try_wait(), Ok(None));
    child.kill().and_then(|()| child.wait()).map_err(Failure::io("killing the victim"))?;
    if !alive {
        return Err(Failure::Usage("a recovery failed before it was killed".to_owned()));
    }
    let mut told = Vec::new();
    let mut pipe = child.stdout.take().expect("its standard output is a pipe");
    pipe.read_to_end(&mut told).map_err(Failure::io("reading what the victim told"))?;
    Ok(told.is_empty())
}

fn spawn(arguments: &TpccArguments, folder: &Path, life: u32) -> Result<Child> {
    victim(arguments, folder, life)?.spawn().map_err(Failure::io("starting the victim"))
}

fn victim(arguments: &TpccArguments, folder: &Path, life: u32) -> Result<Command> {
    let program = std::env::current_exe().map_err(Failure::io("finding this program"))?;
    let run = &arguments.run;
    let mut command = Command::new(program);
    command
        .args(["tpcc-victim", "--folder"])
        .arg(folder)
        .args(["--life", &life.to_string()])
        .args(["--threads", &run.threads.to_string(), "--batch", &run.batch.to_string()])
        .args(["--seed", &(run.seed + u64::from(life)).to_string(), "--loggers", &run.loggers.to_string()])
        .args(["--epoch-ms", &run.epoch_ms.to_string(), "--snapshot-ms", &run.snapshot_ms.to_string()])
        .args(arguments.business.words(arguments.business.warehouses))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if let Some(millis) = arguments.checkpoint_ms {
        command.args(["--checkpoint-ms", &millis.to_string()]);
    }
    command.args(arguments.picture_checkpoints.then_some("--picture-checkpoints"));
    command.args(arguments.no_log.then_some("--no-log"));
    Ok(command)
}

/// Opens the victim's folder, and looks for every acknowledged order.
fn recover(
    arguments: &TpccArguments,
    folder: &Path,
    acknowledged: &[Acknowledged],
    kill: u32,
) -> Result<Verdict> {
    let clock = Clock::machine();
    let db = KeptBy::of(arguments.picture_checkpoints, arguments.no_log).open(
        arguments.run.options(),
        folder,
        Durability::Relaxed,
    )?;
    let tables = Tables::open(&db, arguments.business.scale())?;
    let recovery_seconds = clock.nanos() as f64 / 1e9;
    let report = db.recovery_report().cloned().unwrap_or_default();
    let mut lost = empty_log(&report);
    let findings = consistency::check(&tables)?;
    lost.extend(findings.to_string().lines().map(str::to_owned));
    lost.extend(missing_orders(&db, &tables, acknowledged)?);
    drop(tables);
    db.close()?;
    Ok(Verdict {
        kill,
        acknowledged: acknowledged.len(),
        durable_epoch: report.durable_epoch.number(),
        entries_replayed: report.entries,
        bytes_replayed: report.bytes,
        entries_ignored: report.ignored_entries,
        torn_tails: report.torn_tails.len(),
        recovery_seconds,
        recoveries_killed: 0,
        recoveries_killed_midway: 0,
        lost,
    })
}

/// A kill does not lose written files: an empty recovery indicates a wrong folder.
fn empty_log(report: &RecoveryReport) -> Vec<String> {
    if report.entries + report.checkpoint_entries == 0 {
        vec!["recovery found an empty folder".to_owned()]
    } else {
        Vec::new()
    }
}

/// Acknowledged orders that are absent or differ from their acknowledgement.
fn missing_orders(db: &Database, tables: &Tables, acknowledged: &[Acknowledged]) -> Result<Vec<String>> {
    let mut snapshot = db.snapshot_latest()?;
    let (mut missing, mut told) = (0usize, Vec::new());
    for order in acknowledged {
        let key = keys::order(order.warehouse.get(), order.district, order.order.get());
        let announced = snapshot.get_with(&tables.order, &key, |row| row.line_count)?;
        let (mut lines, mut amount) = (0, 0);
        snapshot.scan(
            &tables.order_line,
            (key.0, key.1, key.2, 0)..=(key.0, key.1, key.2, LineNumber::MAX),
            |_, row| {
                lines += 1;
                amount += i64::from(row.amount.get());
                std::ops::ControlFlow::Continue(())
            },
        )?;
        if (announced, lines, amount) != (Some(order.line_count), order.line_count, order.amount.get()) {
            missing += 1;
            if told.len() < TOLD_MAX {
                told.push(format!(
                    "order {key:?} was acknowledged with {} lines of {} cents; found: {announced:?} announced, {lines} \
                     lines of {amount} cents",
                    order.line_count,
                    order.amount.get(),
                ));
            }
        }
    }
    if missing > told.len() {
        told.push(format!("{missing} acknowledged orders are missing or differ in all"));
    }
    Ok(told)
}

#[cfg(test)]
mod tests;
