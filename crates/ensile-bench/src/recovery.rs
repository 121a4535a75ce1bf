//! `ensile-bench recovery`: recovery time of a killed database.
//!
//! ```text
//! log          rows of 8 + 100 bytes, each written several times in random orders; killed once all are durable
//! versions     rows of 8 + 1,024 bytes, each written twenty times
//! queue        rows put and deleted soon after: a thousand are left, however long the log is
//! checkpoint   the same, killed once a checkpoint holds them
//! interrupted  a checkpoint, writes, and a second checkpoint that is nearly written when the process dies
//! tpcc         the standard mix for a while with checkpoints as usual; killed in the middle
//! ```
//! Each recovery starts with evicted files: the files leave the system's page cache. Just before, the same files,
//! evicted as well, are read one after the other. The time of the read gives the device's rate in this run.
//!
//! The recovered content is checked: every row, or the consistency conditions of TPC-C. A recovery changes nothing that
//! the next recovery reads, so one kill serves all rounds.
//!
//! Neighbours: `victim` is killed, `content` knows the written rows, `files` evicts and reads; [`crate::crash`] kills
//! TPC-C; [`crate::figure`] writes the figures.

pub(crate) mod arguments;
mod content;
mod files;
mod processor;
pub(crate) mod victim;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ensile::checkpoint::Schedule;
use ensile::recovery::{Phase, RecoveryReport};
use ensile::{Database, Durability, Tuning};
use ensile_base::clock::Clock;
use ensile_base::sync::Mutex;

use crate::crash;
use crate::failure::{Failure, Result};
use crate::figure::{self, Figure, Place, Row};
use crate::machine::{self, Machine, memory};
use crate::number::{counted, grouped};
use crate::progress::Progress;
use crate::recovery::arguments::{Load, RecoveryArguments};
use crate::system::fresh_folder;
use crate::tpcc::arguments::TpccArguments;
use crate::tpcc::{consistency, tables::Tables};
pub(crate) use content::Writes;
use content::{LARGE_VALUE_BYTES, VALUE_BYTES};

/// One recovery.
#[derive(Debug)]
struct Measured {
    /// Seconds from the call of open to its return.
    open_seconds: f64,
    /// Seconds of processor time, over all threads.
    processor_seconds: f64,
    /// Seconds to open the tables; the open rebuilds their indexes.
    tables_seconds: f64,
    report: RecoveryReport,
    /// Bytes of all files, and seconds to read the files one after the other.
    device: (u64, f64),
    /// Share of the files' bytes in the page cache before the recovery.
    cached_share: f64,
    /// Peak memory of the process until the return of open, above its memory before, in bytes.
    peak_bytes: u64,
}

/// The folder of a killed process, and its recovery.
struct Scene<'a> {
    name: &'static str,
    folder: PathBuf,
    /// Bytes of key, value and TID of an entry, if all entries have the same size.
    entry_bytes: Option<u64>,
    /// Memory of the process at the kill, in bytes; `None` if an earlier run killed the process.
    running_bytes: Option<u64>,
    /// Opens the tables; returns the check of their content.
    open: Opener<'a>,
}

type Opener<'a> = Box<dyn Fn(&Database) -> Result<Check<'a>> + 'a>;

/// Returns the errors of a recovered database.
type Check<'a> = Box<dyn FnOnce(&Database) -> Result<Vec<String>> + 'a>;

/// Runs the experiment. False if a recovered database has errors.
pub(crate) fn run(arguments: &RecoveryArguments) -> Result<bool> {
    let command = machine::command();
    figure::prepare(&arguments.out)?;
    // The machine is examined before any load of this process, so the load average is the load of other processes.
    let machine = Machine::look();
    let mut progress = Progress::new(arguments.run.rounds);
    let (mut rows, mut is_right) = (Vec::new(), true);
    for (load, name) in Load::SCENES {
        if arguments.scene != Load::All && arguments.scene != load {
            continue;
        }
        let scene = match load {
            Load::Tpcc => tpcc(arguments, &mut progress)?,
            _ => rows_in(arguments, load, name, &mut progress)?,
        };
        for threads in arguments.thread_counts() {
            let measured = measure(arguments, &scene, threads, &mut progress, &mut is_right)?;
            rows.extend(rows_of(&scene, threads, &measured));
        }
        if !arguments.keep {
            // The removal makes room for the next scene. A failure is ignored: the next run empties the folder.
            let _ = std::fs::remove_dir_all(&scene.folder);
        }
    }
    progress.clear();
    let figure = Figure {
        name: "recovery",
        title: title(arguments),
        horizontal: "part of the recovery",
        drawn: PER_CORE,
        rows,
        ..Figure::default()
    };
    // The table is printed first, so a failed write of a file does not lose the measurements.
    print!("{}", figure.table());
    figure.write(&arguments.out, &machine, &command)?;
    println!("  in {}", arguments.out.join("recovery.{csv,json,svg}").display());
    Ok(is_right)
}

fn title(arguments: &RecoveryArguments) -> String {
    let rows =
        format!("{} rows of 8 + 100 bytes, written in random order", grouped(arguments.records as f64));
    let what = match arguments.scene {
        Load::Tpcc => "TPC-C".to_owned(),
        Load::All => format!("{rows}, and of TPC-C"),
        _ => rows,
    };
    format!("Recovery of {what}: a core's rate")
}

/// Lets a process write rows and kills it.
fn rows_in<'a>(
    arguments: &'a RecoveryArguments,
    load: Load,
    name: &'static str,
    progress: &mut Progress,
) -> Result<Scene<'a>> {
    let folder_name = format!("recovery-{name}");
    let folder = arguments.run.data.join(&folder_name);
    let writes = arguments.writes(load);
    let mut running_bytes = None;
    if !arguments.keeps(&folder) {
        fresh_folder(&arguments.run.data, &folder_name)?;
        progress
            .say(&format!("{name}: a process writes {} rows and is killed", grouped(writes.count as f64)));
        let mut child = spawn(arguments, &folder, name, &writes)?;
        let (heard, bytes) = hear_and_kill(&mut child)?;
        running_bytes = bytes;
        if heard != victim::READY {
            return Err(Failure::Usage("the victim ended before it was to be killed".to_owned()));
        }
    }
    let check = move |db: &Database| match load {
        Load::Queue => content::check_queue(db, writes.count),
        Load::Versions => writes.check::<LARGE_VALUE_BYTES>(db),
        _ => writes.check::<VALUE_BYTES>(db),
    };
    let open = Box::new(move |db: &Database| {
        match load {
            Load::Versions => content::table::<LARGE_VALUE_BYTES>(db).map(drop)?,
            _ => content::table::<VALUE_BYTES>(db).map(drop)?,
        }
        Ok(Box::new(check) as Check<'a>)
    });
    let entry_bytes = match load {
        Load::Queue => None,
        Load::Versions => Some(content::entry_bytes(LARGE_VALUE_BYTES)),
        _ => Some(content::entry_bytes(VALUE_BYTES)),
    };
    Ok(Scene { name, folder, entry_bytes, running_bytes, open })
}

fn spawn(arguments: &RecoveryArguments, folder: &Path, load: &str, writes: &Writes) -> Result<Child> {
    let run = &arguments.run;
    let program = std::env::current_exe().map_err(Failure::io("finding this program"))?;
    Command::new(program)
        .args(["recovery-victim", "--load", load, "--folder"])
        .arg(folder)
        .args(["--records", &writes.records.to_string(), "--writes", &writes.count.to_string()])
        .args(["--threads", &run.threads.to_string(), "--loggers", &run.loggers.to_string()])
        .args(["--epoch-ms", &run.epoch_ms.to_string(), "--seed", &run.seed.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Failure::io("starting the victim"))
}

/// Reads the victim's message that everything is durable, then kills the victim. Returns the message, and the victim's
/// memory in bytes.
fn hear_and_kill(child: &mut Child) -> Result<(Vec<u8>, Option<u64>)> {
    let mut heard = vec![0; victim::READY.len()];
    let pipe = child.stdout.as_mut().expect("its standard output is a pipe");
    let said = pipe.read_exact(&mut heard);
    let bytes = memory::resident(&child.id().to_string());
    // SIGKILL: nothing is closed. A victim that has already ended is only waited for.
    child.kill().and_then(|()| child.wait()).map_err(Failure::io("killing the victim"))?;
    said.map_err(Failure::io("reading what the victim said"))?;
    Ok((heard, bytes))
}

/// Lets a process run TPC-C for a while and kills it.
fn tpcc<'a>(arguments: &'a RecoveryArguments, progress: &mut Progress) -> Result<Scene<'a>> {
    let folder = arguments.run.data.join("recovery-tpcc");
    let business = TpccArguments {
        run: arguments.run.clone(),
        business: arguments.business.clone(),
        check: false,
        crash_after: None,
        picture_checkpoints: false,
        no_log: false,
        repeat: 1,
        lives: 1,
        kill_in_recovery: 0,
        checkpoint_ms: None,
    };
    if !arguments.keeps(&folder) {
        fresh_folder(&arguments.run.data, "recovery-tpcc")?;
        crash::live_and_die(&business, &folder, 0, arguments.run.seconds, progress)?;
    }
    let scale = arguments.business.scale();
    let open = Box::new(move |db: &Database| {
        let tables = Tables::open(db, scale)?;
        Ok(Box::new(move |_: &Database| {
            Ok(consistency::check(&tables)?.to_string().lines().map(str::to_owned).collect())
        }) as Check<'a>)
    });
    Ok(Scene { name: "tpcc", folder, entry_bytes: None, running_bytes: None, open })
}

/// Recovers in every round with the given number of threads.
fn measure(
    arguments: &RecoveryArguments,
    scene: &Scene<'_>,
    threads: usize,
    progress: &mut Progress,
    is_right: &mut bool,
) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for round in 0..arguments.run.rounds {
        let what = format!("{} with {}, round {}", scene.name, counted(threads, "thread"), round + 1);
        progress.say(&format!("{what}: reading the files"));
        files::evict(&scene.folder)?;
        let device = files::read_all(&scene.folder)?;
        let cached_share = files::evict(&scene.folder)?;
        let (measured, wrong) = recover(arguments, scene, threads, device, cached_share, &what)?;
        for finding in &wrong {
            progress.clear();
            println!("{what}: {finding}");
        }
        *is_right &= wrong.is_empty();
        all.push(measured);
    }
    Ok(all)
}

/// Opens the database, checks it, and closes it again.
fn recover(
    arguments: &RecoveryArguments,
    scene: &Scene<'_>,
    threads: usize,
    device: (u64, f64),
    cached_share: f64,
    what: &str,
) -> Result<(Measured, Vec<String>)> {
    let before = memory::forget_peak();
    let (clock, used_before) = (Clock::machine(), processor::seconds());
    let line = Mutex::new(Progress::new(arguments.run.rounds));
    let said = what.to_owned();
    let db = builder(arguments, &scene.folder, threads).recover(move |progress| {
        let text = format!("{said}: {}", progress_line(&progress));
        line.lock().update(&text);
    })?;
    let open_seconds = clock.nanos() as f64 / 1e9;
    let processor_seconds = processor::seconds() - used_before;
    let peak_bytes = memory::peak().saturating_sub(before);
    let check = (scene.open)(&db)?;
    let tables_seconds = clock.nanos() as f64 / 1e9 - open_seconds;
    let report = db.recovery_report().cloned().unwrap_or_default();
    let mut wrong = check(&db)?;
    if report.entries + report.checkpoint_entries == 0 {
        wrong.push("nothing was recovered".to_owned());
    }
    db.close()?;
    let measured = Measured {
        open_seconds,
        processor_seconds,
        tables_seconds,
        report,
        device,
        cached_share,
        peak_bytes,
    };
    Ok((measured, wrong))
}

fn builder(arguments: &RecoveryArguments, folder: &Path, threads: usize) -> ensile::Builder {
    Database::builder(folder)
        .durability(Durability::Relaxed)
        .tuning(Tuning {
            loggers: Some(arguments.run.loggers),
            prefault_bytes: arguments.run.prefault_mib << 20,
            recovery_threads: threads,
            ..Tuning::default()
        })
        // No checkpoint may change the recovered files.
        .checkpoints(Schedule::on_demand())
}

/// The progress of a recovery, in a line.
fn progress_line(progress: &ensile::recovery::Progress) -> String {
    let left =
        progress.time_left().map_or_else(String::new, |left| format!(", {:.0} s left", left.as_secs_f64()));
    format!(
        "{} {:.0} of {:.0} MB, {:.0} MB/s{left}",
        progress.phase.name(),
        progress.bytes_done as f64 / 1e6,
        progress.bytes_total as f64 / 1e6,
        progress.bytes_per_second() / 1e6,
    )
}

/// The metric that is drawn.
const PER_CORE: (&str, &str) = ("per core, key + value + TID", "MB/s");

/// The rows of one number of threads.
fn rows_of(scene: &Scene<'_>, threads: usize, rounds: &[Measured]) -> Vec<Row> {
    let system = format!("{}, {}", scene.name, counted(threads, "thread"));
    let mut rows = Vec::new();
    let mut row = |part: &str, metric: (&str, &'static str), value: &dyn Fn(&Measured) -> f64| {
        let values = rounds.iter().map(value).collect();
        rows.push(Row::new(&system, Place::Bar(part.to_owned()), metric, values));
    };
    let parts = [("checkpoint", Phase::Load), ("log", Phase::Replay)];
    for (part, phase) in parts.into_iter().filter(|part| rounds.iter().all(|one| entries(one, part.1) > 0)) {
        let (seconds, entries) =
            (move |one: &Measured| seconds(one, phase), move |one: &Measured| entries(one, phase) as f64);
        if let Some(bytes) = scene.entry_bytes {
            let rate =
                move |one: &Measured| entries(one) * bytes as f64 / 1e6 / seconds(one) / threads as f64;
            row(part, PER_CORE, &rate);
        }
        row(part, ("per core, bytes of files", "MB/s"), &move |one| {
            file_bytes(one, phase) as f64 / 1e6 / seconds(one) / threads as f64
        });
        row(part, ("per core", "entries/s"), &move |one| entries(one) / seconds(one) / threads as f64);
        row(part, ("time", "s"), &seconds);
    }
    for (part, phase) in [("scan", Phase::Scan), ("finish", Phase::Finish)] {
        row(part, ("time", "s"), &move |one| seconds(one, phase));
    }
    let device = |one: &Measured| one.device.0 as f64 / 1e6 / one.device.1;
    let whole = |one: &Measured| one.device.0 as f64 / 1e6 / one.open_seconds;
    row("whole", ("time", "s"), &|one| one.open_seconds);
    row("whole", ("processor's time", "s"), &|one| one.processor_seconds);
    row("after the last phase", ("share", "%"), &|one| 100.0 * after_last_phase(one) / one.open_seconds);
    row("memory", ("at most", "MB"), &|one| one.peak_bytes as f64 / 1e6);
    if let Some(running) = scene.running_bytes {
        row("memory", ("of the process that was killed", "MB"), &|_| running as f64 / 1e6);
    }
    row("whole", ("bytes of files", "MB/s"), &whole);
    row("device", ("sequential read", "MB/s"), &device);
    row("whole / device", ("ratio", "x"), &|one| whole(one) / device(one));
    row("tables and their indexes", ("time", "s"), &|one| one.tables_seconds);
    row("files", ("size", "MB"), &|one| one.device.0 as f64 / 1e6);
    row("files", ("in memory before", "%"), &|one| 100.0 * one.cached_share);
    rows
}

/// Seconds of open outside of all phases.
fn after_last_phase(one: &Measured) -> f64 {
    let phases = one.report.phases.iter().map(|phase| phase.elapsed.as_secs_f64());
    (one.open_seconds - phases.sum::<f64>()).max(0.0)
}

fn seconds(one: &Measured, phase: Phase) -> f64 {
    let of_phase = one.report.phases.iter().filter(|report| report.phase == phase);
    of_phase.map(|report| report.elapsed.as_secs_f64()).sum()
}

fn entries(one: &Measured, phase: Phase) -> u64 {
    one.report.phases.iter().filter(|report| report.phase == phase).map(|report| report.entries).sum()
}

fn file_bytes(one: &Measured, phase: Phase) -> u64 {
    one.report.phases.iter().filter(|report| report.phase == phase).map(|report| report.bytes).sum()
}

#[cfg(test)]
mod tests;
