//! `siren bare-copy`: cost for YCSB in memory of a thread that only copies memory to a file.
//!
//! A picture must do at least this copy, so `foreground` is to be read beside this experiment. The copier takes pieces
//! of a memory as large as the rows, from begin to end and again, at `--picture-mb`; at each end the copier syncs. The
//! workers keep to the first cores, and the copier to the core behind them. Each round is a while without the copier
//! and a while with the copier.
//!
//! Neighbours: [`super::foreground`] runs the load, with a picture in place of the copy.

use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use ensile::Database;
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, Ordering, sleep};
use ensile_disk::{Disk, DiskFile, RealDisk};

use super::Made;
use super::arguments::SirenArguments;
use super::foreground::{
    Beside, KEY_BYTES, Side, THROUGHPUT, VALUE_BYTES, WITHIN, WITHOUT, loaded, rows_of_sides, watched,
};
use super::run::{failed, must_fit};
use crate::failure::{Failure, Result};
use crate::figure::{Figure, Place, Row};
use crate::machine::pin_to_core;
use crate::number::grouped;
use crate::progress::Progress;
use crate::system::{Options, SystemKind, fresh_folder};

/// Name of the folder, in the folder of all data.
const FOLDER: &str = "siren-bare-copy";
/// Default number of rounds.
pub(super) const ROUNDS: usize = 3;
/// Bytes of a piece: a large page of a picture.
const PIECE_BYTES: usize = 64 << 10;
/// Minimum size of the memory, in bytes, so that syncs are as rare as a picture's.
const MEMORY_BYTES_MIN: usize = 64 << 20;
/// Maximum deviation of the copier from the asked rate, in percent.
const OFF_MAX: f64 = 2.0;

const COPIED: (&str, &str) = ("copied", "MB/s");

/// A memory, and the file of its copy.
struct Copier {
    memory: Vec<u8>,
    file: Box<dyn DiskFile>,
    bytes_per_s: u64,
    /// The core of the copier.
    core: usize,
    is_over: AtomicBool,
}

impl Copier {
    /// Copies until `is_over`, and returns the rate in bytes a second.
    fn copy(&self) -> Result<f64> {
        pin_to_core(self.core)?;
        let clock = Clock::machine();
        let (begun, mut copied) = (clock.nanos(), 0);
        let seconds = || (clock.nanos() - begun) as f64 / 1e9;
        // Relaxed: the flag only ends a loop.
        while !self.is_over.load(Ordering::Relaxed) {
            let offset = copied % self.memory.len();
            let end = self.memory.len().min(offset + PIECE_BYTES);
            self.file.write_at(&self.memory[offset..end], offset as u64).map_err(failed)?;
            copied += end - offset;
            if end == self.memory.len() {
                self.file.sync_data().map_err(failed)?;
            }
            sleep(Duration::from_secs_f64((copied as f64 / self.bytes_per_s as f64 - seconds()).max(0.0)));
        }
        Ok(copied as f64 / seconds())
    }
}

/// A copier on a thread of its own, once begun.
struct Copying<'scope, 'c> {
    scope: &'scope Scope<'scope, 'c>,
    copier: &'c Copier,
    thread: Option<ScopedJoinHandle<'scope, Result<f64>>>,
}

impl Beside for Copying<'_, '_> {
    fn begin(&mut self) -> Result<()> {
        let copier = self.copier;
        self.thread = Some(self.scope.spawn(move || copier.copy()));
        Ok(())
    }

    /// True only if the copier has failed.
    fn has_ended(&mut self) -> Result<bool> {
        Ok(self.thread.as_ref().is_some_and(ScopedJoinHandle::is_finished))
    }
}

/// Runs one round: returns the sides, and the copied bytes a second.
fn round(
    arguments: &SirenArguments,
    copier: &Copier,
    mut beside: impl FnMut(&mut dyn Beside) -> Result<[Side; 2]>,
) -> Result<([Side; 2], f64)> {
    // Relaxed: the reading thread starts after this store.
    copier.is_over.store(false, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let mut copying = Copying { scope, copier, thread: None };
        let sides = beside(&mut copying);
        // Relaxed: the flag only ends a loop.
        copier.is_over.store(true, Ordering::Relaxed);
        let copied = copying.thread.map(|thread| thread.join().expect("copying does not panic")).transpose();
        // The failure of the copier matters more than the measurements that the failure cut short.
        let copied = copied?;
        let too_short = || Failure::Usage(format!("nothing was copied in {} s", arguments.seconds));
        Ok((sides?, copied.ok_or_else(too_short)?))
    })
}

/// YCSB in memory without a copier and with one.
pub(super) fn run(arguments: &SirenArguments) -> Result<Made> {
    must_fit(arguments)?;
    let path = fresh_folder(&arguments.data, FOLDER)?;
    let disk = RealDisk::existing(&path).map_err(failed)?;
    let bytes = arguments.rows as usize * (KEY_BYTES + VALUE_BYTES);
    let copier = Copier {
        // Not zeros: the system allocates the memory now, not during the copy.
        memory: vec![1; bytes.max(MEMORY_BYTES_MIN)],
        file: disk.create("copy").map_err(failed)?,
        bytes_per_s: arguments.picture_mb * 1_000_000,
        core: arguments.workers(),
        is_over: AtomicBool::new(false),
    };
    let options = Options { snapshots: arguments.snapshots, ..Options::default() };
    let engine = loaded(arguments, SystemKind::Memsilo, options.open(Database::builder_in_memory())?)?;
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    let mut progress = Progress::new(rounds);
    let (mut sides, mut copied) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        let how = (arguments.seed + number as u64, arguments.seconds, Some(0));
        let (both, bytes_per_s) =
            round(arguments, &copier, |copying| watched(arguments, &engine, how, copying))?;
        progress.round(number, "bare copy", both[WITHIN].part.rate());
        sides.push(both);
        copied.push(bytes_per_s / 1e6);
    }
    progress.clear();
    engine.database().close()?;
    drop(copier);
    std::fs::remove_dir_all(&path).map_err(Failure::io(format!("removing {}", path.display())))?;
    Ok(made(arguments, &sides, copied))
}

/// The rows, the ratio, and true if the copier kept the asked rate.
fn made(arguments: &SirenArguments, sides: &[[Side; 2]], copied: Vec<f64>) -> Made {
    let mut rows = rows_of_sides("YCSB in memory", &sides.iter().collect::<Vec<_>>());
    let rates = |side: usize| sides.iter().map(|sides| sides[side].part.rate()).collect::<Vec<f64>>();
    let place = Place::Bar(THROUGHPUT.0.to_owned());
    let ratio = Row::ratio(("within", &rates(WITHIN)), ("without", &rates(WITHOUT)), place);
    let asked = arguments.picture_mb as f64;
    let held = copied.iter().all(|copied| (copied / asked - 1.0).abs() * 100.0 <= OFF_MAX);
    let copied = Row::new("copy", Place::Bar("within".to_owned()), COPIED, copied);
    let said = format!(
        "  throughput within / without: {:.3} ({:.3} .. {:.3})\n  asked: {asked:.1} MB/s copied; held: {:.1} MB/s \
         ({:.1} .. {:.1}){}\n",
        ratio.median,
        ratio.min,
        ratio.max,
        copied.median,
        copied.min,
        copied.max,
        if held { "" } else { ": NOT HELD" }
    );
    rows.extend([ratio, copied]);
    let title = format!(
        "YCSB 80/20 in memory while a thread copies memory to a file: {} rows of {VALUE_BYTES} bytes, {} MB/s",
        grouped(arguments.rows as f64),
        arguments.picture_mb
    );
    let figure = Figure { name: "bare-copy", title, drawn: THROUGHPUT, rows, ..Figure::default() };
    Made(vec![figure], held, said)
}
