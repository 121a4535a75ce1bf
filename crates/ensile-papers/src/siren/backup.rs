//! `siren backup`: cost of a backup for the load beside it, bytes of an increment, and a comparison of a restored
//! backup with the database.
//!
//! ```text
//! each round: fill -> YCSB without -> YCSB while a full backup is made, on a thread of its own -> the load stops
//!             -> backup: what the load has changed since -> 1 % of the pages are dirtied -> backup: the increment
//!             -> restore -> every row is compared with the database's
//! ```
//! A backup begins with a picture of the database, so the load feels picture and copy. The limit of each is
//! `--picture-mb` a second.
//!
//! Invariants: a backup holds every earlier commit, and no commit follows the last backup. So the database is the state
//! at the epoch of the last backup, and the restored database must have the same rows.
//!
//! Neighbours: [`super::foreground`] runs the load; [`super::increments`] picks the pages.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread::{Scope, ScopedJoinHandle};

use ensile::folder::{self, CopyOptions, CopyPhase, CopyReport};
use ensile::{Database, Durability, Readable, Table};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicBool, Ordering};
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::{grouped, median};
use ensile_bench::progress::Progress;
use ensile_bench::system::{SystemKind, fresh_folder};
use ensile_bench::ycsb::engine::Engine;
use ensile_bench::ycsb::payload::Payload;
use ensile_bench::{Failure, Result};

use super::arguments::SirenArguments;
use super::foreground::{
    Beside, KEY_BYTES, Side, THROUGHPUT, VALUE_BYTES, WITHIN, WITHOUT, loaded, paced_options, rows_of_sides,
    watched,
};
use super::increments::Pages;
use super::results::Made;
use super::run::{FOLDER, must_fit};
use super::strategy::Strategy;

/// Default number of rounds.
pub(super) const ROUNDS: usize = 5;
/// Folders of the backup and of the restored database.
const BACKUP_FOLDER: &str = "siren-backup";
const RESTORED_FOLDER: &str = "siren-restored";
/// The strategy of the pictures that a backup begins with.
const STRATEGY: Strategy = Strategy::SemiFuzzy;
/// Dirty pages of the increment, in percent.
const DIRTY_PERCENT: u64 = 1;
/// Thresholds: minimum ratio of throughput within a backup to throughput without, and maximum bytes of the increment in
/// percent of the full backup's bytes.
const THROUGHPUT_MIN: f64 = 0.97;
const BYTES_MAX: f64 = 3.0;
/// Limit of a backup's time, as a multiple of the time of the load without a backup. A longer backup is given up.
const LONGER_MAX: f64 = 500.0;
/// Rows of a transaction of updates, and of a transaction that compares.
const ROWS_PER_UPDATE: usize = 64;
const ROWS_PER_LOOK: usize = 1_024;
const MB: f64 = 1e6;

const BYTES: (&str, &str) = ("written", "% of the full backup's bytes");
const SYSTEM: &str = "backup";

type Values = Payload<VALUE_BYTES>;

/// A backup, and its time.
struct Backup {
    report: CopyReport,
    seconds: f64,
    /// Seconds until the begin of the copy: the time of the database's picture.
    picture_seconds: f64,
}

/// The measurements of one round.
struct Course {
    sides: [Side; 2],
    full: Backup,
    increment: Backup,
    restore_seconds: f64,
    compared: Compared,
}

/// Result of the comparison of two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Compared {
    /// Number of equal rows before the first difference.
    rows: u64,
    /// The first key whose rows differ.
    differs_at: Option<u64>,
}

/// A backup beside the load, on a thread of its own.
struct Backing<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    db: &'env Database,
    target: &'env Path,
    options: CopyOptions,
    is_given_up: &'env AtomicBool,
    thread: Option<ScopedJoinHandle<'scope, Result<Backup>>>,
    made: Option<Backup>,
}

impl Beside for Backing<'_, '_> {
    fn begin(&mut self) -> Result<()> {
        let Self { db, target, options, is_given_up, .. } = *self;
        self.thread = Some(self.scope.spawn(move || backup(db, target, options, is_given_up)));
        Ok(())
    }

    fn has_ended(&mut self) -> Result<bool> {
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            self.made = Some(thread.join().expect("a backup does not panic")?);
        }
        Ok(self.made.is_some())
    }
}

/// Makes a full backup, or an increment of an earlier backup.
fn backup(db: &Database, target: &Path, options: CopyOptions, is_given_up: &AtomicBool) -> Result<Backup> {
    let clock = Clock::machine();
    let begun = clock.nanos();
    let mut copying = None;
    let report = db.backup_with(target, options, &mut |progress| {
        if progress.phase != CopyPhase::Checkpoint && copying.is_none() {
            copying = Some(clock.nanos());
        }
        // Relaxed: the flag only ends a loop.
        if is_given_up.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let seconds = |until: u64| (until - begun) as f64 / 1e9;
    let ended = clock.nanos();
    Ok(Backup { report, seconds: seconds(ended), picture_seconds: seconds(copying.unwrap_or(ended)) })
}

/// Runs the experiment.
pub(super) fn run(arguments: &SirenArguments) -> Result<Made> {
    must_fit(arguments)?;
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    let mut progress = Progress::new(rounds);
    let mut courses = Vec::new();
    for round in 0..rounds {
        let course = one(arguments, arguments.seed + round as u64)?;
        progress.round(round, SYSTEM, course.sides[WITHIN].part.rate());
        courses.push(course);
    }
    progress.clear();
    Ok(made(arguments, &courses))
}

/// Runs one round, with a fresh database and fresh folders.
fn one(arguments: &SirenArguments, seed: u64) -> Result<Course> {
    let folder = |name| fresh_folder(&arguments.data, name);
    let paths = [folder(FOLDER)?, folder(BACKUP_FOLDER)?, folder(RESTORED_FOLDER)?];
    let options = paced_options(arguments, STRATEGY, seed);
    let db = options.open(Database::builder(&paths[0]).durability(Durability::Relaxed))?;
    let engine = loaded(arguments, SystemKind::Silo, db)?;
    let made = on(arguments, &engine, &paths, seed);
    engine.database().close()?;
    for path in &paths {
        std::fs::remove_dir_all(path).map_err(Failure::io(format!("removing {}", path.display())))?;
    }
    made
}

/// Runs a round on a loaded database.
fn on(
    arguments: &SirenArguments,
    engine: &Engine<VALUE_BYTES>,
    [_, target, restored]: &[PathBuf; 3],
    seed: u64,
) -> Result<Course> {
    let options =
        CopyOptions { bytes_per_second: Some(arguments.picture_mb * 1_000_000), ..CopyOptions::default() };
    let (sides, full) = beside_a_backup(arguments, engine, (target, options), seed)?;
    let db = engine.database();
    let again = || backup(db, target, options, &AtomicBool::new(false));
    // This backup takes the changes of the load. So the next increment has only the pages that `dirty` changes.
    let pages = again()?.report.pages;
    dirty(engine, &mut Pages::of(pages, arguments.rows, Random::from_seed(seed)))?;
    let increment = again()?;
    let clock = Clock::machine();
    let begun = clock.nanos();
    folder::restore(target, restored, None)?;
    let restore_seconds = (clock.nanos() - begun) as f64 / 1e9;
    let other = paced_options(arguments, STRATEGY, seed).open_at(restored, Durability::Relaxed)?;
    let table = other.table(engine.table().name())?;
    let compared = compared((db, engine.table()), (&other, &table))?;
    other.close()?;
    Ok(Course { sides, full, increment, restore_seconds, compared })
}

/// The load without a backup, and then while a full one is made.
fn beside_a_backup(
    arguments: &SirenArguments,
    engine: &Engine<VALUE_BYTES>,
    (target, options): (&Path, CopyOptions),
    seed: u64,
) -> Result<([Side; 2], Backup)> {
    let (db, is_given_up) = (engine.database(), AtomicBool::new(false));
    let most = arguments.seconds * LONGER_MAX;
    std::thread::scope(|scope| {
        let is_given_up = &is_given_up;
        let mut backing = Backing { scope, db, target, options, is_given_up, thread: None, made: None };
        let sides = watched(arguments, engine, (seed, most, None), &mut backing);
        // Relaxed: the flag only ends a loop.
        is_given_up.store(true, Ordering::Relaxed);
        let given_up =
            || Failure::Usage(format!("no backup within {most} s: give --seconds or --picture-mb more"));
        Ok((sides?, backing.made.ok_or_else(given_up)?))
    })
}

/// Changes a row in each of the pages to be dirty.
fn dirty(engine: &Engine<VALUE_BYTES>, pages: &mut Pages) -> Result<()> {
    for rows in pages.pick(DIRTY_PERCENT).chunks(ROWS_PER_UPDATE) {
        engine.database().run(|tx| {
            for row in rows {
                tx.update(engine.table(), &u64::from(*row), Values::bump)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Compares all rows of two tables without concurrent changes.
fn compared(
    left: (&Database, &Table<u64, Values>),
    right: (&Database, &Table<u64, Values>),
) -> Result<Compared> {
    let mut so_far = Compared { rows: 0, differs_at: None };
    let mut from = Some(0);
    while let Some(first) = from {
        let (left, right) = (look(left, first)?, look(right, first)?);
        let same = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
        so_far.rows += same as u64;
        if same < left.len().max(right.len()) {
            let keys = [&left, &right].map(|rows| rows.get(same).map(|row| row.0));
            so_far.differs_at = keys.into_iter().flatten().min();
            break;
        }
        from = left.last().and_then(|row| row.0.checked_add(1));
    }
    Ok(so_far)
}

/// The next rows of a table.
fn look((db, table): (&Database, &Table<u64, Values>), first: u64) -> Result<Vec<(u64, Values)>> {
    Ok(db.run(|tx| {
        let mut rows = Vec::with_capacity(ROWS_PER_LOOK);
        tx.scan(table, first.., |key, value| {
            rows.push((key, *value));
            if rows.len() == ROWS_PER_LOOK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(rows)
    })?)
}

/// The figure's rows, and the result against the thresholds.
fn made(arguments: &SirenArguments, courses: &[Course]) -> Made {
    let sides: Vec<&[Side; 2]> = courses.iter().map(|course| &course.sides).collect();
    let mut rows = rows_of_sides(SYSTEM, &sides);
    let rates = |side: usize| sides.iter().map(|sides| sides[side].part.rate()).collect::<Vec<f64>>();
    let throughput = Row::ratio(
        ("within", &rates(WITHIN)),
        ("without", &rates(WITHOUT)),
        Place::Bar(THROUGHPUT.0.to_owned()),
    );
    let of = |of: &dyn Fn(&Course) -> f64| courses.iter().map(of).collect::<Vec<f64>>();
    let place = |name: &str| Place::Bar(name.to_owned());
    let share = of(&|course| {
        course.increment.report.bytes_written as f64 / course.full.report.bytes_written as f64 * 100.0
    });
    let increment = Row::new(SYSTEM, place("increment"), BYTES, share);
    for (name, backup) in [
        ("within", (|course| &course.full) as fn(&Course) -> &Backup),
        ("increment", |course| &course.increment),
    ] {
        for (metric, values) in [
            (("written", "MB"), of(&|course| backup(course).report.bytes_written as f64 / MB)),
            (("pages written", "1"), of(&|course| backup(course).report.pages_written as f64)),
            (("a backup", "s"), of(&|course| backup(course).seconds)),
            (("its picture", "s"), of(&|course| backup(course).picture_seconds)),
        ] {
            rows.push(Row::new(SYSTEM, place(name), metric, values));
        }
    }
    let restores = of(&|course| course.restore_seconds);
    rows.push(Row::new(SYSTEM, place("restored"), ("a restore", "s"), restores));
    let mut said = format!(
        "  throughput within / without: {:.3} ({:.3} .. {:.3}), asked >= {THROUGHPUT_MIN}\n",
        throughput.median, throughput.min, throughput.max
    );
    let (words, is_as_asked) = outcome(courses, &increment);
    said += &words;
    rows.extend([throughput, increment]);
    let title = format!(
        "YCSB 80/20 while a full backup is made, and an increment: {} rows of {VALUE_BYTES} bytes, {:.2} GB",
        grouped(arguments.rows as f64),
        arguments.rows as f64 * (KEY_BYTES + VALUE_BYTES) as f64 / 1e9
    );
    let figure = Figure { name: "backup", title, drawn: THROUGHPUT, rows, ..Figure::default() };
    Made(vec![figure], is_as_asked, said)
}

/// Describes the increment and the restored database. The bool is true if the thresholds and the comparison hold.
fn outcome(courses: &[Course], share: &Row) -> (String, bool) {
    // After a load much of the database's page file is free. A picture then moves about as many pages as it writes, and
    // a backup leaves the moved pages out. A difference of one page does not count.
    let is_held = courses.iter().all(|course| {
        let report = &course.increment.report;
        let asked = (report.pages * DIRTY_PERCENT).div_ceil(100);
        (asked - 1..=asked + 1).contains(&report.pages_written)
    });
    let mut said = format!(
        "  increment: {:.2} % of the full backup's bytes, asked <= {BYTES_MAX} %; asked: {DIRTY_PERCENT} % of {} \
         pages, {:.1} were written{}\n",
        share.median,
        grouped(courses[0].increment.report.pages as f64),
        median(courses.iter().map(|course| course.increment.report.pages_written as f64).collect()),
        if is_held { "" } else { ": NOT HELD" }
    );
    let mut is_same = true;
    for (round, course) in courses.iter().enumerate() {
        let (epoch, rows) = (course.increment.report.epoch.number(), grouped(course.compared.rows as f64));
        said += &match course.compared.differs_at {
            None => {
                format!("  round {}: restored: all {rows} rows as at the end of epoch {epoch}\n", round + 1)
            }
            Some(key) => format!(
                "  round {}: restored: DIFFERS from the state at the end of epoch {epoch}, first at key {key}\n",
                round + 1
            ),
        };
        is_same &= course.compared.differs_at.is_none();
    }
    (said, is_held && is_same)
}

#[cfg(test)]
mod tests {
    use ensile::{Database, Table};

    use super::{Compared, ROWS_PER_LOOK, Values, compared};

    /// Two full looks and some rows.
    const ROWS: u64 = 2 * ROWS_PER_LOOK as u64 + 7;

    fn table(keys: impl Iterator<Item = u64>) -> (Database, Table<u64, Values>) {
        let db = Database::in_memory().expect("it opens");
        let table = db.table("usertable").expect("it is made");
        for key in keys {
            db.run(|tx| tx.put(&table, &key, &Values::of(key))).expect("it commits");
        }
        (db, table)
    }

    #[test]
    fn a_row_that_is_missing_added_or_changed_is_found_wherever_it_is() {
        let (left, rows) = table(0..ROWS);
        let against = |(right, table): (Database, Table<u64, Values>)| {
            let outcomes = [((&left, &rows), (&right, &table)), ((&right, &table), (&left, &rows))]
                .map(|(left, right)| compared(left, right).expect("both are open"));
            assert_eq!(outcomes[0], outcomes[1], "either way round");
            outcomes[0]
        };
        assert_eq!(against(table(0..ROWS)), Compared { rows: ROWS, differs_at: None });
        for key in [0, ROWS_PER_LOOK as u64 - 1, ROWS_PER_LOOK as u64, ROWS - 1] {
            let differs = Compared { rows: key, differs_at: Some(key) };
            assert_eq!(against(table((0..ROWS).filter(|other| *other != key))), differs, "missing");
            let (other, changed) = table(0..ROWS);
            other.run(|tx| tx.update(&changed, &key, Values::bump)).expect("it commits");
            assert_eq!(against((other, changed)), differs, "changed");
        }
        let added = Compared { rows: ROWS, differs_at: Some(ROWS) };
        assert_eq!(against(table(0..=ROWS)), added);
    }
}
