//! Expected time of each experiment, printed before the begin, so that nobody waits in vain.
//!
//! Rates are the rates of a core of a few years ago. A slow machine takes longer, and its progress lines show the time
//! taken.
//!
//! Neighbours: [`super`] prints the times.

use super::arguments::SirenArguments;
use super::{fig9, increments};

/// Rows a second while a table is filled, and bytes a second of a picture that is not slowed down.
const FILLED_PER_S: f64 = 400_000.0;
const PICTURED_PER_S: f64 = 300e6;
/// Seconds of a picture with few bytes to write: epochs and syncs.
const PICTURE_SECONDS: f64 = 0.25;
/// Seconds to open, close and remove a database.
const AROUND_SECONDS: f64 = 1.0;
/// For `cost`: seconds of a run under valgrind without its rows, and rows a second under valgrind.
const COUNTED_SECONDS: f64 = 5.0;
const COUNTED_PER_S: f64 = 20_000.0;

/// A length of time for people.
pub(super) fn words(seconds: f64) -> String {
    match seconds {
        short if short < 90.0 => format!("{short:.0} s"),
        middle if middle < 5_400.0 => format!("{:.0} minutes", middle / 60.0),
        long => format!("{:.1} hours", long / 3_600.0),
    }
}

fn rounds(arguments: &SirenArguments, usual: usize) -> f64 {
    arguments.rounds.unwrap_or(usual) as f64
}

fn bytes(arguments: &SirenArguments) -> f64 {
    arguments.rows as f64 * arguments.row_bytes as f64
}

fn fill(arguments: &SirenArguments) -> f64 {
    arguments.rows as f64 / FILLED_PER_S + AROUND_SECONDS
}

/// Seconds of a full picture without a slow device.
fn paced(arguments: &SirenArguments) -> f64 {
    bytes(arguments) / arguments.pace().map_or(PICTURED_PER_S, |bytes_per_s| bytes_per_s as f64)
}

fn on_device(arguments: &SirenArguments) -> f64 {
    bytes(arguments) / arguments.speed().bytes_per_s as f64
}

pub(super) fn device(arguments: &SirenArguments) -> f64 {
    2.0 * arguments.seconds
}

pub(super) fn table3(arguments: &SirenArguments) -> f64 {
    let runs = arguments.ways.len() as f64
        * arguments.updates.len() as f64
        * rounds(arguments, super::table3::ROUNDS);
    runs * (fill(arguments) + 1.0 + on_device(arguments))
}

pub(super) fn against_fuzzy(arguments: &SirenArguments) -> f64 {
    let run = fill(arguments) + arguments.seconds.max(paced(arguments));
    (1 + arguments.strategies().len()) as f64 * rounds(arguments, super::against_fuzzy::ROUNDS) * run
}

pub(super) fn fig9(arguments: &SirenArguments) -> f64 {
    let run = fill(arguments) + arguments.seconds.max(paced(arguments));
    fig9::runs(arguments) as f64 * rounds(arguments, fig9::ROUNDS) * run
}

pub(super) fn fig9_one_disk(arguments: &SirenArguments) -> f64 {
    let arguments = &fig9::with_one_disk(arguments);
    let images = arguments.checkpoint_updates.unwrap_or(0) as f64 * arguments.row_bytes as f64 * 2.0;
    let turn = 2.0 * images / arguments.speed().bytes_per_s as f64;
    let run = fill(arguments) + arguments.seconds.max(on_device(arguments)).max(turn);
    fig9::runs(arguments) as f64 * rounds(arguments, fig9::ROUNDS) * run
}

fn beside(arguments: &SirenArguments, within: f64, usual: usize) -> f64 {
    let run = fill(arguments) + 1.0 + arguments.seconds + within;
    arguments.strategies().len() as f64 * rounds(arguments, usual) * run
}

pub(super) fn foreground(arguments: &SirenArguments) -> f64 {
    // Relaxed and strict.
    2.0 * beside(arguments, bytes(arguments) / PICTURED_PER_S, super::foreground::FOREGROUND_ROUNDS)
}

pub(super) fn backup(arguments: &SirenArguments) -> f64 {
    // Rows are written and read: as a picture, as a backup, as a restored database, and for the comparison.
    let run = 2.0 * fill(arguments) + 1.0 + arguments.seconds + 6.0 * bytes(arguments) / PICTURED_PER_S;
    rounds(arguments, super::backup::ROUNDS) * run
}

pub(super) fn backup_kills(arguments: &SirenArguments) -> f64 {
    // A picture, a copy, a look; two pictures are restored, opened and compared. Half as many runs are not killed.
    let restored = fill(arguments) + 4.0 * bytes(arguments) / PICTURED_PER_S;
    let run = 2.0 * PICTURE_SECONDS + 2.0 * restored;
    fill(arguments) + 1.5 * arguments.kills as f64 * run
}

pub(super) fn hang(arguments: &SirenArguments) -> f64 {
    // The hanging call ends once, when the database is closed.
    beside(arguments, arguments.seconds + arguments.hang, super::foreground::HANG_ROUNDS)
}

pub(super) fn increments(arguments: &SirenArguments) -> f64 {
    let full = fill(arguments) + bytes(arguments) / PICTURED_PER_S;
    let increment =
        |percent: &u64| PICTURE_SECONDS + bytes(arguments) * *percent as f64 / 100.0 / PICTURED_PER_S;
    let each = arguments.dirty.iter().map(increment).sum::<f64>() * increments::INCREMENTS_EACH as f64;
    let many = arguments.increments as f64 * increment(&arguments.dirty[0]);
    rounds(arguments, increments::ROUNDS) * (full + each) + many + 2.0 * full
}

pub(super) fn cost(arguments: &SirenArguments) -> f64 {
    // Four setups, N and 2N; four scenes, one scene with all rows. Last the memory, without valgrind.
    let (setups, scenes) = (4.0, 4.0);
    let counted = setups * 2.0 * (scenes * COUNTED_SECONDS + arguments.rows as f64 / COUNTED_PER_S);
    counted + setups * fill(arguments)
}
