//! Short lives on a real folder: each opens the database, puts one row and ends, by a close or without. What an open
//! takes and how many files there are must not grow with their number.
//!
//! `ENSILE_LIVES=10000 cargo test --profile release-plain -p ensile-engine --test engine -- --nocapture short_lives::`
//! measures times, which no assertion rests on: of one hundred opens each, the median.

use std::path::{Path, PathBuf};
use std::process::Command;

use ensile_sim::{Survival, environment};

use crate::prelude::*;

/// Set in a process that lives one life in the folder that it names, and ends without a close.
const FOLDER: &str = "ENSILE_SHORT_LIVES_FOLDER";
const LIFE: &str = "ENSILE_SHORT_LIVES_LIFE";
/// Files that a database of one logger and one checkpointer may have, whatever came before.
const FILES_MAX: usize = 16;
/// Opens of which the median is told.
const WINDOW: usize = 100;

/// A folder that is gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ensile-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left behind in the temporary folder fails no test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens, looks at the row of the life before, puts its own. Returns the time of the open in nanoseconds.
fn live(folder: &Path, life: u64, close: bool) -> Result<u64> {
    let clock = Clock::machine();
    let begun = clock.nanos();
    let db = Database::builder(folder).open()?;
    let opened = clock.nanos() - begun;
    let rows = db.table::<u64, u64>("rows")?;
    db.run(|tx| {
        assert_eq!(tx.get(&rows, &life)?, None);
        assert_eq!(life.checked_sub(1).map_or(Ok(None), |last| tx.get(&rows, &last))?, life.checked_sub(1));
        tx.put(&rows, &life, &life)
    })?;
    if close {
        db.close()?;
    } else {
        println!("opened in {opened}");
        // No drop runs: what a killed process leaves.
        std::process::exit(0);
    }
    Ok(opened)
}

/// The same in a process of its own, which does not close.
fn live_and_die(folder: &Path, life: u64, test: &str) -> u64 {
    let this = std::env::current_exe().expect("has a path");
    let mut command = Command::new(this);
    command.args(["--exact", test, "--nocapture"]).env(FOLDER, folder).env(LIFE, life.to_string());
    let output = command.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let opened = said.lines().find_map(|line| line.split_once("opened in ")).map(|(_, nanos)| nanos);
    let errors = String::from_utf8_lossy(&output.stderr);
    opened.unwrap_or_else(|| panic!("life {life}: {said}{errors}")).parse().expect("a number")
}

fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("reads").path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

fn median(times: &[u64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1e6
}

fn many_lives(name: &str, mut one: impl FnMut(&Path, u64) -> u64) {
    let folder = Folder::new(name);
    let lives = environment::count("ENSILE_LIVES", 40);
    let (mut times, mut most) = (Vec::new(), 0);
    for life in 0..lives {
        times.push(one(&folder.0, life));
        if times.len().is_multiple_of(1000) {
            println!(
                "{name}: {} lives, the last hundred opens {:.2} ms",
                times.len(),
                median(&times[times.len() - WINDOW..])
            );
        }
        let there = files(&folder.0);
        assert!(there <= FILES_MAX, "{there} files after life {life}");
        most = most.max(there);
    }
    let window = WINDOW.min(times.len() / 2);
    let (first, last) = (median(&times[1..=window]), median(&times[times.len() - window..]));
    println!(
        "{name}: {lives} lives, {most} files at most; an open took {first:.2} ms at first, {last:.2} ms at last: {:.2}",
        last / first
    );
    let db = Database::builder(&folder.0).open().expect("opens");
    let rows = db.table::<u64, u64>("rows").expect("is there");
    let count = db.run(|tx| tx.range(&rows, ..).try_fold(0, |count, row| row.map(|_| count + 1)));
    assert_eq!(count.expect("runs"), lives);
}

#[test]
fn lives_that_are_closed_leave_few_files() {
    many_lives("closed-lives", |folder, life| live(folder, life, true).expect("lives"));
}

#[test]
fn lives_that_are_killed_leave_few_files() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        live(Path::new(&folder), environment::number(LIFE, 0), false).expect("lives");
    }
    many_lives("killed-lives", |folder, life| {
        live_and_die(folder, life, "short_lives::lives_that_are_killed_leave_few_files")
    });
}

/// Driven by hand: the same run each time.
fn driven(disk: &SimDisk) -> (Database, Clock) {
    let clock = Clock::manual();
    let builder = Database::builder("unused").disk(Arc::new(disk.mounted())).manual_clock(clock.clone());
    let db =
        builder.durability(Durability::Relaxed).checkpoints(Schedule::on_demand()).without_threads().open();
    (db.expect("opens"), clock)
}

fn beat(db: &Database, clock: &Clock, beats: u64) {
    for _ in 0..beats {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
        db.logger_step(0);
    }
}

#[test]
fn the_durable_epoch_never_goes_back_and_a_lost_receipt_is_told_from_a_kept_one() -> Result<()> {
    let disk = SimDisk::new();
    let (db, clock) = driven(&disk);
    let rows = db.table::<u64, u64>("rows")?;
    let ((), kept) = db.submit(|tx| tx.put(&rows, &1, &1))?;
    // D passes many epochs without an entry, and so without a write.
    beat(&db, &clock, 200);
    let shown = db.durable_epoch();
    let ((), lost) = db.submit(|tx| tx.put(&rows, &2, &2))?;
    let (kept, lost, last) = ((kept.epoch(), kept.tid()), (lost.epoch(), lost.tid()), db.epoch());
    disk.crash_with(Survival::Nothing, 1);
    drop((rows, db));

    let (db, _clock) = driven(&disk);
    assert!(db.durable_epoch() >= shown, "D went back from {shown} to {}", db.durable_epoch());
    assert!(db.epoch() > last);
    let report = db.recovery_report().expect("there is a log");
    assert!(kept.0 <= report.durable_epoch, "kept");
    assert!(lost.0 > report.durable_epoch && lost.0 < report.first_epoch, "told to be lost");
    let rows = db.table::<u64, u64>("rows")?;
    let ((), next) = db.submit(|tx| {
        assert_eq!((tx.get(&rows, &1)?, tx.get(&rows, &2)?), (Some(1), None));
        tx.put(&rows, &2, &3)
    })?;
    assert!(next.tid() > lost.1 && lost.1 > kept.1, "no TID is given twice");
    Ok(())
}
