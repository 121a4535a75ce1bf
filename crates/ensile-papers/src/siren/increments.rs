//! `siren increments`: cost of a picture if only some pages have changed (§2.1), and consequences of many increments:
//! their files, and the time of an open.
//!
//! ```text
//! each round: fill -> full picture -> for each share of pages: dirty as many at random, picture; ten times
//! once:       fill -> full picture -> dirty, picture; a thousand times -> close
//!             the same rows in a fresh folder -> full picture -> close -> both are opened in turns
//! ```
//! No other load runs meanwhile, so the processor time is the time of the pictures and of a database without load.
//!
//! Invariant: bytes are counted at the disk, below the database; only bytes of the log are left out.
//!
//! Neighbours: [`super::run`] has the options; [`super::slow_disk`] counts, and is not slow here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ensile::checkpoint::CheckpointReport;
use ensile::{Database, Durability};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::machine::processor_nanos_of;
use ensile_bench::number::{grouped, median};
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};

use super::arguments::SirenArguments;
use super::results::Made;
use super::run::{FOLDER, Setup, must_fit, options, slow_disk};
use super::slow_disk::{SlowDisk, SlowFiles, Speed};
use super::strategy::Strategy;
use super::updates::{Benchmark, Choice, ROWS_PER_TRANSACTION};

/// Default number of rounds.
pub(super) const ROUNDS: usize = 3;
/// Number of increments of each share of dirty pages, in a round. One increment is too short for a measurement.
pub(super) const INCREMENTS_EACH: u64 = 10;
/// Number of opens of each of the two databases.
const OPENS: usize = 5;
/// Number of points in the line of the files' bytes.
const POINTS: u64 = 50;
/// Maximum deviation of the written pages from the asked share, in percent of the asked share. A page more or less does
/// not count.
const OFF_MAX: f64 = 5.0;
/// Prefix of the names of the checkpointers' threads.
const CHECKPOINTERS: &str = "ensile-ckpt";
/// Prefix of every thread's name. No thread ends while a picture is taken.
const ALL_THREADS: &str = "";
/// The folder of the database that has a full picture.
const FULL_FOLDER: &str = "siren-full";
/// Limits: percent of dirty pages, percent of a full picture's bytes, percent of a full picture's processor time.
const ASKED: [(u64, f64, f64); 2] = [(1, 3.0, 10.0), (10, 15.0, 25.0)];
/// Limits of the bytes of files behind many increments, and of the time of an open, as ratios to a full picture.
const FILES_MAX: f64 = 1.5;
const OPEN_MAX: f64 = 1.2;

const BYTES: (&str, &str) = ("written", "% of a full picture's bytes");
const PROCESSOR: (&str, &str) = ("processor time of checkpointers", "% of a full picture's");
const FILES: (&str, &str) = ("page files", "x the first full picture's");
const MB: f64 = 1e6;

/// Cost of a picture.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Bytes written, except to the log.
    bytes: f64,
    checkpointers_ms: f64,
    process_ms: f64,
    seconds: f64,
    pages_written: f64,
}

impl Cost {
    /// The mean of `count` added costs.
    fn mean(self, count: u64) -> Self {
        let count = count as f64;
        Self {
            bytes: self.bytes / count,
            checkpointers_ms: self.checkpointers_ms / count,
            process_ms: self.process_ms / count,
            seconds: self.seconds / count,
            pages_written: self.pages_written / count,
        }
    }

    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.checkpointers_ms += other.checkpointers_ms;
        self.process_ms += other.process_ms;
        self.seconds += other.seconds;
        self.pages_written += other.pages_written;
    }
}

/// A round: the full picture, and the mean increment of each share.
struct Round {
    full: Cost,
    increments: Vec<Cost>,
    /// Number of pages of the table.
    pages: f64,
}

/// Consequences of many increments.
struct Many {
    /// Bytes of the page files after increments, as a multiple of the bytes after the full picture.
    files: Vec<(u64, f64)>,
    files_max: f64,
    /// Bytes of the last page files, as a multiple of the bytes of the rows.
    files_of_rows: f64,
    /// Seconds of opens after the increments and after a full picture, in turns.
    opens: Vec<f64>,
    opens_full: Vec<f64>,
}

/// A filled database whose first picture has been taken.
struct Pictured {
    benchmark: Benchmark,
    disk: Arc<SlowDisk>,
    pages: Pages,
    full: Cost,
}

/// The pages of a table whose rows have one length, so that every page has as many rows.
pub(super) struct Pages {
    /// Numbers of the pages, shuffled further with each pick.
    numbers: Vec<u32>,
    rows: u64,
    random: Random,
}

impl Pages {
    /// The pages of a picture of the table and the catalogue.
    pub(super) fn of(pages: u64, rows: u64, random: Random) -> Self {
        // One page is the catalogue's.
        let pages = pages.saturating_sub(1).clamp(1, rows);
        Self { numbers: (0..pages as u32).collect(), rows, random }
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// A row in each page of a random choice of `percent` % of the pages.
    pub(super) fn pick(&mut self, percent: u64) -> Vec<u32> {
        let all = self.len();
        let picked = (all * percent as usize).div_ceil(100);
        for at in 0..picked {
            let other = at + self.random.next_below((all - at) as u64) as usize;
            self.numbers.swap(at, other);
        }
        // The row in the middle is surely in the page.
        let middle = |page: &u32| ((f64::from(*page) + 0.5) * self.rows as f64 / all as f64) as u32;
        self.numbers[..picked].iter().map(middle).collect()
    }
}

/// True if as many pages were written as were dirty.
fn is_share(pages: f64, percent: u64, written: f64) -> bool {
    let asked = (pages * percent as f64 / 100.0).ceil();
    ((written - asked).abs() - 1.0) / asked * 100.0 <= OFF_MAX
}

impl Pictured {
    /// Opens and fills a fresh database, and takes the first picture, a full one.
    fn fresh(arguments: &SirenArguments, folder: &str, seed: u64) -> Result<Self> {
        let path = fresh_folder(&arguments.data, folder)?;
        let speed = Speed { bytes_per_s: u64::MAX, sync: Duration::ZERO, write: Duration::ZERO };
        let disk = slow_disk(&path, (SlowFiles::AllButLogs, speed), &Clock::machine())?;
        let builder = Database::builder(&path).durability(Durability::Relaxed);
        let builder = builder.disk(Arc::<SlowDisk>::clone(&disk));
        let db = options(arguments, &setup(seed)).open(builder)?;
        let threads = arguments.workers() as u64;
        let benchmark = Benchmark::load(db, (arguments.rows, arguments.row_bytes), threads, true)?;
        let none = Pages::of(0, arguments.rows, Random::from_seed(seed));
        let mut made = Self { benchmark, disk, pages: none, full: Cost::default() };
        let (full, report) = made.picture()?;
        made.full = full;
        made.pages = Pages::of(report.pages_written, arguments.rows, Random::from_seed(seed));
        Ok(made)
    }

    /// Takes a picture; returns the cost and the report.
    fn picture(&self) -> Result<(Cost, CheckpointReport)> {
        let before =
            (self.disk.written(), processor_nanos_of(ALL_THREADS), processor_nanos_of(CHECKPOINTERS));
        let report = self.benchmark.db.checkpoint()?.wait()?;
        let after = (self.disk.written(), processor_nanos_of(ALL_THREADS), processor_nanos_of(CHECKPOINTERS));
        let cost = Cost {
            bytes: (after.0 - before.0) as f64,
            process_ms: (after.1 - before.1) as f64 / 1e6,
            checkpointers_ms: (after.2 - before.2) as f64 / 1e6,
            seconds: report.elapsed.as_secs_f64(),
            pages_written: report.pages_written as f64,
        };
        Ok((cost, report))
    }

    /// Updates a row in each page of a random choice of `percent` % of the pages.
    fn dirty(&mut self, percent: u64) -> Result<()> {
        for rows in self.pages.pick(percent).chunks(ROWS_PER_TRANSACTION as usize) {
            self.benchmark.update(std::array::from_fn(|at| rows[at.min(rows.len() - 1)]))?;
        }
        Ok(())
    }
}

fn setup(seed: u64) -> Setup {
    // The device is neither slow nor paced.
    Setup {
        strategy: Strategy::SemiFuzzy,
        on_slow_device: true,
        choice: Choice::Uniform,
        updates_per_s: u64::MAX,
        seed,
    }
}

/// Runs the experiment.
pub(super) fn run(arguments: &SirenArguments) -> Result<Made> {
    must_fit(arguments)?;
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    let mut progress = Progress::new(rounds);
    let mut all = Vec::new();
    for round in 0..rounds {
        progress.say(&format!("increments, round {} of {rounds}", round + 1));
        all.push(one_round(arguments, arguments.seed + round as u64)?);
    }
    let many = many(arguments, &mut progress)?;
    progress.clear();
    Ok(made(arguments, &all, &many))
}

/// A full picture, and increments of each share.
fn one_round(arguments: &SirenArguments, seed: u64) -> Result<Round> {
    let mut pictured = Pictured::fresh(arguments, FOLDER, seed)?;
    let mut increments = Vec::new();
    for &percent in &arguments.dirty {
        let mut sum = Cost::default();
        for _ in 0..INCREMENTS_EACH {
            pictured.dirty(percent)?;
            sum.add(pictured.picture()?.0);
        }
        increments.push(sum.mean(INCREMENTS_EACH));
    }
    let Pictured { benchmark, full, pages, .. } = pictured;
    benchmark.db.close()?;
    remove(&arguments.data.join(FOLDER))?;
    Ok(Round { full, increments, pages: pages.len() as f64 })
}

/// Makes many increments in a row; then opens the database in turns with a database that has a full picture.
fn many(arguments: &SirenArguments, progress: &mut Progress) -> Result<Many> {
    let [path, full_path] = [FOLDER, FULL_FOLDER].map(|folder| arguments.data.join(folder));
    let mut pictured = Pictured::fresh(arguments, FOLDER, arguments.seed)?;
    let full_bytes = page_file_bytes(&path)? as f64;
    let (percent, count) = (arguments.dirty[0], arguments.increments);
    let (mut files, mut files_max, mut last) = (Vec::new(), 0.0_f64, full_bytes);
    for increment in 1..=count {
        pictured.dirty(percent)?;
        pictured.picture()?;
        last = page_file_bytes(&path)? as f64;
        files_max = files_max.max(last / full_bytes);
        if increment == count || increment.is_multiple_of(count.div_ceil(POINTS)) {
            files.push((increment, last / full_bytes));
            progress.update(&format!("increment {increment} of {count}"));
        }
    }
    pictured.benchmark.db.close()?;
    progress.say("the same rows in a full picture");
    Pictured::fresh(arguments, FULL_FOLDER, arguments.seed)?.benchmark.db.close()?;
    let (mut opens, mut opens_full) = (Vec::new(), Vec::new());
    for turn in 0..OPENS {
        progress.say(&format!("opening both, {} of {OPENS}", turn + 1));
        let mut sides = [(&path, &mut opens), (&full_path, &mut opens_full)];
        // The sides begin in turns.
        sides.rotate_left(turn % 2);
        for (path, seconds) in sides {
            seconds.push(seconds_to_open(arguments, path)?);
        }
    }
    remove(&path)?;
    remove(&full_path)?;
    let files_of_rows = last / (arguments.rows as f64 * arguments.row_bytes as f64);
    Ok(Many { files, files_max, files_of_rows, opens, opens_full })
}

/// Opens a database, and closes the database: without a change the close writes nothing again.
fn seconds_to_open(arguments: &SirenArguments, path: &Path) -> Result<f64> {
    let clock = Clock::machine();
    let begun = clock.nanos();
    let db = options(arguments, &setup(arguments.seed)).open_at(path, Durability::Relaxed)?;
    let seconds = (clock.nanos() - begun) as f64 / 1e9;
    db.close()?;
    Ok(seconds)
}

/// Bytes of all page files of a database.
fn page_file_bytes(path: &Path) -> Result<u64> {
    let failed = || Failure::io(format!("looking at page files in {}", path.display()));
    let mut bytes = 0;
    for folder in std::fs::read_dir(path).map_err(failed())? {
        let folder = folder.map_err(failed())?.path();
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with("checkpoint") || !folder.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&folder).map_err(failed())? {
            let file = file.map_err(failed())?;
            if file.file_name().to_string_lossy().starts_with("pages-") {
                bytes += file.metadata().map_err(failed())?.len();
            }
        }
    }
    Ok(bytes)
}

fn remove(path: &Path) -> Result<()> {
    std::fs::remove_dir_all(path).map_err(Failure::io(format!("removing {}", path.display())))
}

/// The rows, and the limits.
fn made(arguments: &SirenArguments, rounds: &[Round], many: &Many) -> Made {
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    let full = |of: fn(&Cost) -> f64| rounds.iter().map(|round| of(&round.full)).collect::<Vec<f64>>();
    let place = || Place::Bar("full picture".to_owned());
    rows.push(Row::new("full picture", place(), ("written", "MB"), full(|cost| cost.bytes / MB)));
    for (metric, of) in MEASURED {
        rows.push(Row::new("full picture", place(), metric, full(of)));
    }
    for (at, &percent) in arguments.dirty.iter().enumerate() {
        let place = || Place::Bar(format!("{percent} % of pages"));
        let share = |of: fn(&Cost) -> f64| -> Vec<f64> {
            rounds.iter().map(|round| of(&round.increments[at]) / of(&round.full) * 100.0).collect()
        };
        let bytes = Row::new("increment", place(), BYTES, share(|cost| cost.bytes));
        let processor = Row::new("increment", place(), PROCESSOR, share(|cost| cost.checkpointers_ms));
        let asked = ASKED.iter().find(|asked| asked.0 == percent);
        let limits =
            asked.map_or_else(String::new, |asked| format!("; asked <= {} %, <= {} %", asked.1, asked.2));
        let is_held =
            rounds.iter().all(|round| is_share(round.pages, percent, round.increments[at].pages_written));
        is_as_asked &= is_held;
        said += &format!(
            "  {percent} % of pages: {:.2} % of the bytes, {:.2} % of the processor time{limits}; asked: {percent} % of {} \
             pages, {:.1} were written{}\n",
            bytes.median,
            processor.median,
            grouped(rounds[0].pages),
            median(rounds.iter().map(|round| round.increments[at].pages_written).collect()),
            if is_held { "" } else { ": NOT HELD" }
        );
        let process = Row::new(
            "increment",
            place(),
            ("processor time of all threads", "% of a full picture's"),
            share(|cost| cost.process_ms),
        );
        rows.extend([bytes, processor, process]);
        for (metric, of) in MEASURED {
            let values = rounds.iter().map(|round| of(&round.increments[at])).collect();
            rows.push(Row::new("increment", place(), metric, values));
        }
    }
    let title = format!(
        "Increments: {} rows of {} bytes in pages of {} bytes",
        grouped(arguments.rows as f64),
        arguments.row_bytes,
        arguments.page_bytes
    );
    let figure = Figure { name: "increments", title, drawn: BYTES, rows, ..Figure::default() };
    let (behind, words) = behind_many(arguments, many);
    Made(vec![figure, behind], is_as_asked, said + &words)
}

type Measured = ((&'static str, &'static str), fn(&Cost) -> f64);

/// Measured values of every kind of picture.
const MEASURED: [Measured; 4] = [
    (("processor time of checkpointers", "ms"), |cost| cost.checkpointers_ms),
    (("processor time of all threads", "ms"), |cost| cost.process_ms),
    (("a picture", "s"), |cost| cost.seconds),
    (("pages written", "1"), |cost| cost.pages_written),
];

/// The figure of the consequences of many increments.
fn behind_many(arguments: &SirenArguments, many: &Many) -> (Figure, String) {
    let Many { files, files_max, files_of_rows, opens, opens_full } = many;
    let percent = arguments.dirty[0];
    let system = format!("increments of {percent} %");
    let mut rows: Vec<Row> = files
        .iter()
        .map(|&(at, value)| Row::new(&system, Place::At(at as f64), FILES, vec![value]))
        .collect();
    let last = || Place::At(arguments.increments as f64);
    rows.push(Row::new(
        &system,
        last(),
        ("page files at most", "x the first full picture's"),
        vec![*files_max],
    ));
    rows.push(Row::new(&system, last(), ("page files", "x the rows' bytes"), vec![*files_of_rows]));
    let names = (&*system, "a full picture");
    rows.push(Row::new(names.0, last(), ("open", "s"), opens.clone()));
    rows.push(Row::new(names.1, last(), ("open", "s"), opens_full.clone()));
    let ratio = Row::ratio((names.0, opens), (names.1, opens_full), last());
    let said = format!(
        "  {} increments of {percent} %: files at most {files_max:.3} times the first full picture's, asked <= \
         {FILES_MAX}; {files_of_rows:.3} times the rows' bytes; an open takes {:.3} ({:.3} .. {:.3}) of what it takes \
         behind a full picture, asked <= {OPEN_MAX}\n",
        grouped(arguments.increments as f64),
        ratio.median,
        ratio.min,
        ratio.max
    );
    rows.push(ratio);
    let title = format!(
        "Page files behind increments of {percent} % of pages: {} rows of {} bytes",
        grouped(arguments.rows as f64),
        arguments.row_bytes
    );
    let figure = Figure {
        name: "increments-files",
        title,
        horizontal: "increments",
        drawn: FILES,
        rows,
        ..Figure::default()
    };
    (figure, said)
}
