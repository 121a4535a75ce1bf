//! `slach berkeley`: the persistent hash table beside Berkeley DB (SLACH §6.5, figure 10).
//!
//! ```text
//! both sides    a process each | load at random | rounds, in turns: lookups, updates, updates with checkpoints
//! the table     that of ensile-services, in process; multi-gets of 16, too    its checkpoints: bucket by bucket
//! Berkeley DB   BTREE, 32 KB pages, DB_TXN_WRITE_NOSYNC, DB_AUTO_COMMIT   its checkpoints: txn_checkpoint
//! ```
//! One thread calls. Values are copied out. Each side makes a checkpoint per interval while updates are measured with
//! checkpoints, and a run with checkpoints goes on until three have ended. Between runs each side makes one checkpoint,
//! and is at rest.
//!
//! Invariants:
//! - A loss to checkpoints counts only if the sides made about as many checkpoints, three a run at least, and wrote
//!   data.
//! - Both sides have the same keys, loaded in the same order, and the same calls.
//! - Berkeley DB's cache holds all keys: lookups measure the share of hits.
//! - Both sides have huge pages. Results show each side's memory, and the share on huge pages.
//!
//! [`sides`] starts both processes. [`table`] is the process of the hash table.

mod element;
mod keys;
mod service;
mod sides;
pub(crate) mod table;

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use clap::ValueEnum as _;
use ensile_base::clock::Clock;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::machine::{self, Machine};
use ensile_bench::number::{grouped, median};
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};

use super::arguments::SlachArguments;
use super::arguments::berkeley::{BerkeleyArguments, PAPER_CACHE_MB};
use super::asked::Asked;
use crate::comparison::Comparison;
use sides::{Answer, Side};

const FOLDER: &str = "slach-berkeley";

const TABLE: &str = "PHT";
const TABLE_MANY: &str = "PHT, multi-gets of 16";
const TABLE_CHECKPOINTS: &str = "PHT, checkpoints";
const BERKELEY: &str = "Berkeley DB";
const BERKELEY_CHECKPOINTS: &str = "Berkeley DB, checkpoints";

const LOOKUPS: (&str, &str) = ("lookups", "a second");
const UPDATES: (&str, &str) = ("updates", "a second");
const LOSS: (&str, &str) = ("updates lost to checkpoints", "%");
const ENDED: (&str, &str) = ("checkpoints", "in a run");
const A_MINUTE: (&str, &str) = ("checkpoints", "a minute");
const TAKES: (&str, &str) = ("a checkpoint", "s");
const HITS: (&str, &str) = ("found in the cache", "%");
const RESIDENT: (&str, &str) = ("resident memory", "GB");
const HUGE: (&str, &str) = ("on huge pages", "GB");
const WRITTEN: (&str, &str) = ("checkpoints write", "MB/s");
const LOGGED: (&str, &str) = ("log of updates", "MB/s");
const DEVICE: (&str, &str) = ("sequential writes of the device", "MB/s");

/// Number of keys that fit the cache of the paper, by the bytes of a value.
const FITTING: [(u64, u64); 4] = [(30, 20_000_000), (100, 8_000_000), (1_024, 900_000), (10_240, 40_000)];
/// Maximum bytes of a table's element besides the value. A table larger than the memory is refused.
const BESIDE_VALUE: u64 = 150;
/// Minimum share of the device's write rate, if the device bounds the updates.
const OF_DEVICE_MIN: f64 = 0.8;
const HITS_MIN: f64 = 99.9;
/// Minimum number of checkpoints that end in a run, and the seconds until a run with fewer is given up.
const CHECKPOINTS_MIN: u32 = 3;
const GIVEN_UP_SECONDS: f64 = 600.0;
/// Maximum ratio of one side's number of checkpoints to the other side's number.
const CHECKPOINTS_ALIKE: f64 = 1.5;
/// Loss in percent that is always allowed, and the maximum share of Berkeley DB's loss for a larger loss.
const LOSS_MAX: f64 = 3.0;
const LOSS_SHARE: f64 = 0.25;

impl BerkeleyArguments {
    /// Each size with its number of keys.
    fn tables(&self) -> Result<Vec<(u64, u64)>> {
        if !self.keys.is_empty() && self.keys.len() != self.sizes.len() {
            return Err(Failure::Usage("--keys has one number for each of --sizes".to_owned()));
        }
        let fitting = |size: u64| {
            let known = FITTING.iter().find(|known| known.0 == size);
            known.map(|(_, keys)| (keys * self.cache_mb / PAPER_CACHE_MB).max(1)).ok_or_else(|| {
                Failure::Usage(format!(
                    "how many keys with {size} bytes fit the cache is not known: say --keys"
                ))
            })
        };
        let keys = |(at, &size): (usize, &u64)| {
            Ok((size, self.keys.get(at).map_or_else(|| fitting(size), |keys| Ok(*keys))?))
        };
        self.sizes.iter().enumerate().map(keys).collect()
    }
}

/// Answers of both sides, by round.
#[derive(Default)]
struct Measured {
    lookups: [Vec<Answer>; 2],
    many: Vec<Answer>,
    updates: [Vec<Answer>; 2],
    with_checkpoints: [Vec<Answer>; 2],
    /// Write rate of the device, in MB/s.
    device: Vec<f64>,
    /// Bytes of memory of each side after the rounds, and bytes on huge pages.
    memory: [(u64, u64); 2],
}

/// The reason why this machine cannot run the experiment; `None` if the machine can.
pub(super) fn lacks() -> Option<String> {
    (!sides::can_be_built()).then(|| format!("berkeley: {}", sides::NEEDED))
}

/// Measures, and writes the figure of updates. False if a value is not held.
pub(super) fn berkeley(arguments: &SlachArguments, machine: &Machine) -> Result<(Figure, bool, String)> {
    let tables = arguments.berkeley.tables()?;
    for &(size, keys) in &tables {
        let bytes = (arguments.berkeley.cache_mb << 20) + keys * (size + BESIDE_VALUE);
        if bytes > machine::available_bytes() {
            let needed = grouped(bytes as f64 / 1e9);
            let why =
                format!("{needed} GB are needed with values of {size} bytes, which are not free: say --keys");
            return Err(Failure::Usage(why));
        }
    }
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let program = sides::build(&folder)?;
    let mut progress = Progress::new(arguments.rounds);
    let (mut rows, mut asked) = (Vec::new(), Asked::new());
    for &(size, keys) in &tables {
        let measured = measure(arguments, (size, keys), (&folder, &program), &mut progress)?;
        rows.extend(rows_of(&name_of(size), &measured));
        judge(&mut asked, arguments, (size, keys), &measured);
    }
    progress.clear();
    std::fs::remove_dir_all(&folder).map_err(Failure::io(format!("removing {}", folder.display())))?;
    let BerkeleyArguments { run_seconds, checkpoint_interval, cache_mb, page_kb, .. } = arguments.berkeley;
    let notes = vec![
        format!("both: runs of {run_seconds} s, keys of 8 bytes, one thread, process-safe"),
        format!(
            "both: a checkpoint begins each {checkpoint_interval} s, and {CHECKPOINTS_MIN} end in a run at least"
        ),
        format!("Berkeley DB: cache of {cache_mb} MiB, pages of {page_kb} KiB"),
        arguments.checkpoint.niceness_noted(),
    ];
    let figure = |name, title: &str, drawn| {
        let title = format!("{title} of a hash table and of Berkeley DB, by the size of values");
        let (notes, rows, verdicts) = (notes.clone(), rows.clone(), asked.judged());
        Figure { name, title, drawn, notes, rows, verdicts, ..Figure::default() }
    };
    figure("berkeley-updates", "Updates", UPDATES).write(&arguments.out, machine, &machine::command())?;
    let lookups = figure("berkeley-lookups", "Lookups", LOOKUPS);
    let (said, holds) = asked.told();
    Ok((lookups, holds, said))
}

/// A size for people.
fn name_of(bytes: u64) -> String {
    if bytes >= 1_024 && bytes.is_multiple_of(1_024) {
        format!("{} KB", bytes / 1_024)
    } else {
        format!("{bytes} B")
    }
}

/// Measures one table, and Berkeley DB.
fn measure(
    arguments: &SlachArguments,
    (size, keys): (u64, u64),
    (folder, program): (&Path, &Path),
    progress: &mut Progress,
) -> Result<Measured> {
    let options = &arguments.berkeley;
    progress.say(&format!("{}: loading {} keys on both sides", name_of(size), grouped(keys as f64)));
    let (own, other) = (fresh_folder(folder, "table")?, fresh_folder(folder, "environment")?);
    let mut table = Command::new(std::env::current_exe().map_err(Failure::io("finding this program"))?);
    let kind = options.table.to_possible_value().map_or_else(String::new, |kind| kind.get_name().to_owned());
    table.args(["slach-berkeley-table", "--table", &kind, "--folder"]).arg(&own);
    table.args(["--keys", &keys.to_string(), "--value-bytes", &size.to_string()]);
    if let Some(megabytes) = options.checkpoint_mb {
        table.args(["--checkpoint-mb", &megabytes.to_string()]);
    }
    table.args(["--checkpoint-niceness", &arguments.checkpoint.checkpoint_niceness.to_string()]);
    let mut berkeley = Command::new(program);
    berkeley
        .arg(&other)
        .args([keys, size, options.cache_mb << 20, options.page_kb << 10].map(|number| number.to_string()));
    let mut sides = [Side::start(TABLE, table)?, Side::start(BERKELEY, berkeley)?];
    for side in &mut sides {
        side.answer()?;
    }
    let mut measured = Measured::default();
    for round in 0..arguments.rounds {
        let mut told = |what: &str| {
            progress.say(&format!("{}: round {} of {}: {what}", name_of(size), round + 1, arguments.rounds));
        };
        one_round(arguments, round, &mut sides, &mut measured, &mut told)?;
        told("the device's write rate");
        measured.device.push(device_rate(folder)?);
    }
    measured.memory = [sides[0].memory(), sides[1].memory()];
    drop(sides);
    for folder in [own, other] {
        std::fs::remove_dir_all(&folder).map_err(Failure::io(format!("removing {}", folder.display())))?;
    }
    Ok(measured)
}

/// Makes every run once, the sides in turns. The first side of a round alternates.
fn one_round(
    arguments: &SlachArguments,
    round: usize,
    sides: &mut [Side; 2],
    measured: &mut Measured,
    told: &mut impl FnMut(&str),
) -> Result<()> {
    let seconds = arguments.berkeley.run_seconds;
    let seed = arguments.seed.wrapping_add(round as u64);
    let turns = if round.is_multiple_of(2) { [0, 1] } else { [1, 0] };
    for side in turns {
        told(&format!("lookups, {}", [TABLE, BERKELEY][side]));
        measured.lookups[side].push(sides[side].ask(&format!("lookups {seconds} {seed}"))?);
        if side == 0 {
            told(&format!("lookups, {TABLE_MANY}"));
            measured.many.push(sides[side].ask(&format!("many {seconds} {seed}"))?);
        }
    }
    for (interval, answers, names) in [
        (0.0, &mut measured.updates, [TABLE, BERKELEY]),
        (
            arguments.berkeley.checkpoint_interval,
            &mut measured.with_checkpoints,
            [TABLE_CHECKPOINTS, BERKELEY_CHECKPOINTS],
        ),
    ] {
        for side in turns {
            told(&format!("updates, {}", names[side]));
            let most = seconds + GIVEN_UP_SECONDS;
            let request = format!("updates {seconds} {seed} {interval} {CHECKPOINTS_MIN} {most}");
            let answer = sides[side].ask(&request)?;
            if interval > 0.0 {
                has_enough(names[side], &answer)?;
            }
            answers[side].push(answer);
            sides[side].ask("settle")?;
        }
    }
    Ok(())
}

/// Fails if a run has too few checkpoints for a result.
fn has_enough(name: &str, answer: &Answer) -> Result<()> {
    let Answer { checkpoints, seconds, .. } = answer;
    if *checkpoints >= f64::from(CHECKPOINTS_MIN) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{name}: {checkpoints} checkpoints ended in {seconds:.0} s, at least {CHECKPOINTS_MIN} are needed: say a \
         shorter --checkpoint-interval, or fewer --keys"
    )))
}

/// Bytes of a write, and bytes between two syncs, as in a log.
const WRITE_BYTES: usize = 512 << 10;
const SYNC_BYTES: usize = 32 << 20;
/// Seconds of writing.
const DEVICE_SECONDS: f64 = 2.0;

/// Write rate of one thread that writes and syncs, in MB/s.
fn device_rate(folder: &Path) -> Result<f64> {
    let path = folder.join("device");
    let fail = || Failure::io(format!("writing {}", path.display()));
    let bytes = vec![1; WRITE_BYTES];
    let mut file = std::fs::File::create(&path).map_err(fail())?;
    let (clock, mut written) = (Clock::machine(), 0);
    let begun = clock.nanos();
    loop {
        for _ in 0..SYNC_BYTES / WRITE_BYTES {
            file.write_all(&bytes).map_err(fail())?;
        }
        file.sync_data().map_err(fail())?;
        written += SYNC_BYTES;
        let seconds = (clock.nanos() - begun) as f64 / 1e9;
        if seconds >= DEVICE_SECONDS {
            std::fs::remove_file(&path).map_err(fail())?;
            return Ok(written as f64 / 1e6 / seconds);
        }
    }
}

fn rates(answers: &[Answer]) -> Vec<f64> {
    answers.iter().map(|answer| answer.rate).collect()
}

/// Percent of a side's updates lost to checkpoints, by round.
fn losses(measured: &Measured, side: usize) -> Vec<f64> {
    let both = measured.updates[side].iter().zip(&measured.with_checkpoints[side]);
    both.map(|(without, with)| 100.0 * (1.0 - with.rate / without.rate.max(f64::MIN_POSITIVE))).collect()
}

/// Rate of `bytes` in each run, in MB/s.
fn megabytes(answers: &[Answer], bytes: fn(&Answer) -> f64) -> Vec<f64> {
    let rate = |answer: &Answer| bytes(answer) / 1e6 / answer.seconds.max(f64::MIN_POSITIVE);
    answers.iter().map(rate).collect()
}

/// Percent of the pages found in the cache, by run.
fn hits(answers: &[Answer]) -> Vec<f64> {
    let share = |answer: &Answer| 100.0 * answer.pages[0] / answer.pages.iter().sum::<f64>().max(1.0);
    answers.iter().map(share).collect()
}

/// Number of checkpoints ended within a run, by run.
fn ended(answers: &[Answer]) -> Vec<f64> {
    answers.iter().map(|answer| answer.checkpoints).collect()
}

fn a_minute(answers: &[Answer]) -> Vec<f64> {
    let rate = |answer: &Answer| answer.checkpoints * 60.0 / answer.seconds.max(f64::MIN_POSITIVE);
    answers.iter().map(rate).collect()
}

fn rows_of(name: &str, measured: &Measured) -> Vec<Row> {
    let place = || Place::Bar(name.to_owned());
    let row = |system: &str, metric, values: Vec<f64>| Row::new(system, place(), metric, values);
    let mut rows = Vec::new();
    let [table, berkeley] = measured.lookups.each_ref().map(|answers| rates(answers));
    let many = rates(&measured.many);
    for (system, values) in [(TABLE, &table), (TABLE_MANY, &many), (BERKELEY, &berkeley)] {
        rows.push(row(system, LOOKUPS, values.clone()));
    }
    for (system, values) in [(TABLE, &table), (TABLE_MANY, &many)] {
        rows.push(Row::ratio((&format!("lookups: {system}"), values), (BERKELEY, &berkeley), place()));
    }
    let [table, berkeley] = measured.updates.each_ref().map(|answers| rates(answers));
    let ratio = Row::ratio((&format!("updates: {TABLE}"), &table), (BERKELEY, &berkeley), place());
    rows.extend([row(TABLE, UPDATES, table), row(BERKELEY, UPDATES, berkeley), ratio]);
    for (side, system) in [TABLE_CHECKPOINTS, BERKELEY_CHECKPOINTS].into_iter().enumerate() {
        let answers = &measured.with_checkpoints[side];
        rows.push(row(system, UPDATES, rates(answers)));
        rows.push(row(system, LOSS, losses(measured, side)));
        rows.push(row(system, ENDED, ended(answers)));
        rows.push(row(system, A_MINUTE, a_minute(answers)));
        let each = |answer: &Answer| answer.checkpoint_seconds / answer.checkpoints.max(1.0);
        rows.push(row(system, TAKES, answers.iter().map(each).collect()));
        rows.push(row(system, WRITTEN, megabytes(answers, |answer| answer.checkpoint_bytes)));
    }
    for (side, system) in [TABLE, BERKELEY].into_iter().enumerate() {
        rows.push(row(system, LOGGED, megabytes(&measured.updates[side], |answer| answer.log_bytes)));
    }
    rows.push(row("device", DEVICE, measured.device.clone()));
    rows.push(row(BERKELEY, HITS, hits(&measured.lookups[1])));
    for (system, (resident, huge)) in [TABLE, BERKELEY].into_iter().zip(measured.memory) {
        rows.push(row(system, RESIDENT, vec![resident as f64 / 1e9]));
        rows.push(row(system, HUGE, vec![huge as f64 / 1e9]));
    }
    rows
}

/// Judges the values of a size.
fn judge(asked: &mut Asked, arguments: &SlachArguments, (size, keys): (u64, u64), measured: &Measured) {
    asked.note(&format!("{}, {} keys:", name_of(size), grouped(keys as f64)));
    judge_lookups(asked, size, measured);
    judge_updates(asked, size, measured);
    judge_losses(asked, measured);
    let cache = (arguments.berkeley.cache_mb << 20) as f64 / 1e9;
    let [own, other] = measured.memory.map(|(resident, _)| resident as f64 / 1e9);
    let what = format!("resident memory, Berkeley DB's {other:.2} GB, PHT's");
    // Berkeley DB's memory beside the cache is allowed to the table.
    asked.at_most(&what, (own, " GB"), cache.max(other));
}

/// The median of the rounds' ratios.
fn ratio(left: &[Answer], right: &[Answer]) -> f64 {
    let ratios = left.iter().zip(right).map(|(left, right)| left.rate / right.rate.max(f64::MIN_POSITIVE));
    median(ratios.collect())
}

fn median_of(answers: &[Answer], of: fn(&Answer) -> f64) -> f64 {
    median(answers.iter().map(of).collect())
}

/// A comparison of the table with Berkeley DB, with some of this work on each side.
fn both(what: &str, sides: &[Vec<Answer>; 2], of: fn(&Answer) -> f64) -> Comparison<'static> {
    let work = sides.each_ref().map(|answers| median_of(answers, of));
    Comparison::of([TABLE, BERKELEY]).each_at_least(what, work, 1.0)
}

/// Judges lookups, for which Berkeley DB finds all pages in the cache.
fn judge_lookups(asked: &mut Asked, size: u64, measured: &Measured) {
    let found = median(hits(&measured.lookups[1]));
    let sides = || {
        let reason = format!("Berkeley DB found {found:.1} % of its pages in its cache");
        both("lookups a second", &measured.lookups, |answer| answer.rate).only_if(found >= HITS_MIN, &reason)
    };
    let (single, many) = match size {
        ..=100 => (4.0, Some(10.0)),
        101..=1_024 => (3.5, Some(6.0)),
        _ => (2.0, None),
    };
    let berkeley = &measured.lookups[1];
    let of_single = (ratio(&measured.lookups[0], berkeley), "x");
    asked.compared_at_least("lookups, PHT / Berkeley DB", of_single, single, sides());
    let of_many = (ratio(&measured.many, berkeley), "x");
    let what = "multi-gets of 16 / single gets of Berkeley DB";
    match many {
        Some(many) => asked.compared_at_least(what, of_many, many, sides()),
        None => asked.note(&format!("{what}: {:.2}x", of_many.0)),
    }
    asked.at_least("pages found in the cache", (found, " %"), HITS_MIN);
}

/// Judges updates, logged by both sides.
fn judge_updates(asked: &mut Asked, size: u64, measured: &Measured) {
    let updates = ratio(&measured.updates[0], &measured.updates[1]);
    let sides = both("bytes of log", &measured.updates, |answer| answer.log_bytes);
    if size <= 100 {
        asked.compared_at_least("updates, PHT / Berkeley DB", (updates, "x"), 4.0, sides);
        return;
    }
    let logged = median(megabytes(&measured.updates[0], |answer| answer.log_bytes));
    let of_device = logged / median(measured.device.clone());
    let what = format!("updates, PHT / Berkeley DB, their log at {of_device:.2} of the device's write rate");
    let limit = format!(">= 4x, or {OF_DEVICE_MIN} of the device: 4");
    let holds = updates >= 4.0 || of_device >= OF_DEVICE_MIN;
    asked.judge(&what, (updates, "x"), &limit, sides.verdict(holds));
}

/// Judges updates lost to checkpoints. Both sides made about as many checkpoints.
fn judge_losses(asked: &mut Asked, measured: &Measured) {
    let [own, other] = [0, 1].map(|side| median(losses(measured, side)));
    let of = |of: fn(&[Answer]) -> Vec<f64>| measured.with_checkpoints.each_ref().map(|answers| of(answers));
    let fewest = of(ended).map(|all| all.into_iter().fold(f64::INFINITY, f64::min));
    let rates = of(a_minute).map(median);
    let sides = both("bytes of checkpoints", &measured.with_checkpoints, |answer| answer.checkpoint_bytes)
        .each_at_least("checkpoints in a run", fewest, f64::from(CHECKPOINTS_MIN))
        .alike("checkpoints a minute", rates, CHECKPOINTS_ALIKE)
        .only_if(other > 0.0, "Berkeley DB lost nothing");
    let [own_count, other_count] = of(ended).map(|all| all.iter().sum::<f64>());
    let what = format!(
        "updates lost to checkpoints, Berkeley DB's {other:.1} % to {other_count}, PHT's to {own_count}"
    );
    asked.compared_at_most(&what, (own, " %"), LOSS_MAX.max(other * LOSS_SHARE), sides);
}

#[cfg(test)]
mod tests;
