//! `slach replay`: rate at which one core replays operations of 100 bytes, and memory of the replay beside the objects,
//! independent of the log's size (SLACH §6.4).
//!
//! ```text
//! written    objects, all in a checkpoint | so many operations on them, at random | closed
//! replay     a process opens that on one thread: its time, and the most memory that it had
//! without    the same folder once all is in a checkpoint: what loading takes, and the objects' own memory
//! ```
//! Invariant: a process opens once, so the memory of the process is the memory of one open.
//!
//! Neighbours: [`run`] is the process.

pub(crate) mod run;

use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::{grouped, median};
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};

use super::arguments::SlachArguments;
use super::asked::Asked;
use run::{Opened, Part};

const FOLDER: &str = "slach-replay";
/// Thresholds: operations a second and core; MiB beside the objects.
const RATE_MIN: f64 = 1.5e6;
const BESIDE_MAX: f64 = 256.0;
/// Least difference of two times, in seconds: replaces smaller and negative differences.
const SECONDS_MIN: f64 = 1e-6;

const RATE: (&str, &str) = ("replayed, one core", "operations/s");
const BESIDE: (&str, &str) = ("most memory beside the objects", "MiB");
const LOG: (&str, &str) = ("log", "MB");
const OPEN: (&str, &str) = ("open", "s");

/// One log, by round: the open of the log, and the open with all operations in a checkpoint.
struct Measured {
    operations: u64,
    opens: Vec<(Opened, Opened)>,
}

impl Measured {
    fn values(&self, of: impl Fn(&(Opened, Opened)) -> f64) -> Vec<f64> {
        self.opens.iter().map(of).collect()
    }

    fn rates(&self) -> Vec<f64> {
        self.values(|(with, without)| {
            self.operations as f64 / (with.seconds - without.seconds).max(SECONDS_MIN)
        })
    }

    /// Peak memory of the replay above the memory of the loaded objects, in MiB.
    fn beside(&self) -> Vec<f64> {
        self.values(|(with, without)| (with.peak - without.resident).max(0.0) / f64::from(1 << 20))
    }
}

/// Measures. False if the rate or the memory of a replay misses its threshold.
pub(super) fn replay(arguments: &SlachArguments) -> Result<(Figure, bool, String)> {
    let options = &arguments.replay;
    let mut progress = Progress::new(arguments.rounds);
    let mut all: Vec<Measured> =
        options.replayed.iter().map(|&operations| Measured { operations, opens: Vec::new() }).collect();
    for round in 0..arguments.rounds {
        for measured in &mut all {
            let of = grouped(measured.operations as f64);
            let folder = fresh_folder(&arguments.data, FOLDER)?;
            let mut part = |part: Part, what: &str| {
                progress.say(&format!("round {} of {}: {what} {of} operations", round + 1, arguments.rounds));
                let seed = arguments.seed.wrapping_add(round as u64);
                run::in_a_process(part, &folder, [options.replayed_objects, measured.operations, seed])
            };
            part(Part::Write, "writing")?;
            let with = part(Part::Open, "replaying")?;
            part(Part::Checkpoint, "a checkpoint of")?;
            let without = part(Part::Open, "opening without")?;
            // Beside a checkpoint the log may also have operations that the checkpoint has.
            if with.found < measured.operations as f64 || without.found > 0.0 {
                let why = format!(
                    "{} and {} operations were found instead of {of} and none",
                    with.found, without.found
                );
                return Err(Failure::Usage(why));
            }
            measured.opens.push((with, without));
            std::fs::remove_dir_all(&folder)
                .map_err(Failure::io(format!("removing {}", folder.display())))?;
        }
    }
    progress.clear();
    Ok(figure(options.replayed_objects, &all))
}

fn figure(objects: u64, all: &[Measured]) -> (Figure, bool, String) {
    let (mut rows, mut asked) = (Vec::new(), Asked::new());
    for measured in all {
        let operations = measured.operations as f64;
        let row = |metric, values| Row::new("replay", Place::At(operations / 1e6), metric, values);
        rows.push(row(RATE, measured.rates()));
        rows.push(row(BESIDE, measured.beside()));
        rows.push(row(LOG, measured.values(|(with, _)| with.log_bytes / 1e6)));
        rows.push(row(OPEN, measured.values(|(with, _)| with.seconds)));
        let what = format!("{} operations", grouped(operations));
        asked.at_least(&format!("{what}, one core"), (median(measured.rates()), " a second"), RATE_MIN);
        asked.at_most(
            &format!("{what}, beside the objects"),
            (median(measured.beside()), " MiB"),
            BESIDE_MAX,
        );
    }
    let title =
        format!("Replay of operations of 100 bytes on {} objects, one thread", grouped(objects as f64));
    let (said, holds) = asked.told();
    let horizontal = "operations (millions)";
    (Figure { name: "replay", title, drawn: RATE, rows, horizontal, ..Figure::default() }, holds, said)
}

#[cfg(test)]
mod tests {
    use super::{Measured, Opened, figure};

    #[test]
    fn loading_and_the_objects_own_memory_are_taken_off() {
        let opened = |seconds, peak, resident| Opened { seconds, peak, resident, log_bytes: 1e6, found: 3e6 };
        let of = |seconds: f64, peak: f64| Measured {
            operations: 3_000_000,
            opens: vec![(opened(seconds, peak, 7e8), opened(1.0, 8e8, 6e8)); 3],
        };
        let (_, holds, said) = figure(1, &[of(3.0, 6e8 + 256.0 * 1_048_576.0)]);
        assert!(holds && said.contains("one core: 1,500,000 a second"), "{said}");
        assert!(said.contains("beside the objects: 256 MiB, asked <= 256 MiB: held\n"), "{said}");
        let (_, holds, said) = figure(1, &[of(3.0, 6e8), of(3.1, 6e8)]);
        assert!(!holds && said.matches("NOT HELD").count() == 1, "{said}");
    }
}
