//! `slach checkpoint-loss`: throughput of URLs in this process while a checkpoint of a given size is written (SLACH
//! §6.3), one thread at full load.
//!
//! ```text
//! fill, until a checkpoint is of that size | rounds: without one for some seconds | one, to its end | at last: without one
//! loss      what of the throughput is lost while there is one, beside the mean of before and behind
//! ```
//! Checkpoints are paced: they write at about the requested rate.
//!
//! Neighbours: [`super::urls`] is called.

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_bench::figure::{Figure, Line, OverTime, Place, Point, Row, Scene};
use ensile_bench::machine::{self, Machine};
use ensile_bench::number::{grouped, median};
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};
use ensile_objects::{CheckpointHandle, CheckpointPolicy, ObjectDurability, ObjectsBuilder};

use super::arguments::SlachArguments;
use super::asked::Asked;
use super::urls::Urls;

const FOLDER: &str = "slach-checkpoint-loss";
/// Number of URLs of the first checkpoint; the first checkpoint shows the bytes of a URL.
const PROBED_URLS: u64 = 20_000;
/// Calls between two looks at the clock.
const CALLS_A_LOOK: u64 = 64;
/// Seconds of a point of the graph.
const POINT_SECONDS: f64 = 0.25;
/// Thresholds: loss in percent, and MB/s of the checkpoint.
const LOSS_MAX: f64 = 5.0;
const WRITTEN_MIN: f64 = 100.0;

const LOSS: (&str, &str) = ("loss while there is a checkpoint", "%");
const THROUGHPUT: (&str, &str) = ("throughput", "requests/s");
const WRITTEN: (&str, &str) = ("checkpoint writes", "MB/s");
const BYTES: (&str, &str) = ("checkpoint", "MB");

/// Requests and seconds of a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    requests: u64,
    seconds: f64,
}

impl Stretch {
    fn rate(self) -> f64 {
        self.requests as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// A run: stretches without a checkpoint, and between two of these a stretch with a checkpoint.
#[derive(Debug, Default)]
struct Measured {
    without: Vec<Stretch>,
    with: Vec<Stretch>,
    /// Bytes of each checkpoint.
    bytes: Vec<u64>,
    points: Vec<Point>,
    checkpoints: Vec<(f64, f64)>,
}

impl Measured {
    /// Loss during a checkpoint, in percent, by round.
    fn losses(&self) -> Vec<f64> {
        let beside = self.without.windows(2).map(|pair| f64::midpoint(pair[0].rate(), pair[1].rate()));
        let both = self.with.iter().zip(beside);
        both.map(|(with, without)| 100.0 * (1.0 - with.rate() / without.max(f64::MIN_POSITIVE))).collect()
    }

    /// MB/s of each checkpoint.
    fn written(&self) -> Vec<f64> {
        let each = self.bytes.iter().zip(&self.with);
        each.map(|(bytes, with)| *bytes as f64 / 1e6 / with.seconds.max(f64::MIN_POSITIVE)).collect()
    }
}

/// Measures, and writes the graph over time. False if a threshold is missed.
pub(super) fn checkpoint_loss(
    arguments: &SlachArguments,
    machine: &Machine,
) -> Result<(Figure, bool, String)> {
    let options = &arguments.checkpoint;
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let builder = ObjectsBuilder::new(&folder)
        .durability(ObjectDurability::Relaxed)
        .policy(&CheckpointPolicy::on_demand())
        .checkpoint_bandwidth(options.paced_mb * 1_000_000)
        .checkpoint_niceness(options.checkpoint_niceness);
    let mut urls = Urls::open(builder)?;
    let mut progress = Progress::new(arguments.rounds);
    fill(&mut urls, options.data_mb * 1_000_000, &mut progress)?;
    let measured = measure(arguments, &mut urls, &mut progress)?;
    progress.clear();
    let count = urls.count();
    urls.objects.close()?;
    std::fs::remove_dir_all(&folder).map_err(Failure::io(format!("removing {}", folder.display())))?;

    let title = format!(
        "A checkpoint of {} MB beside one thread at full load: {} URLs, {} % writes, relaxed",
        options.data_mb,
        grouped(count as f64),
        options.write_percent
    );
    let mut asked = Asked::new();
    asked.at_most("throughput lost while there is a checkpoint", (median(measured.losses()), " %"), LOSS_MAX);
    asked.at_least("the checkpoint writes", (median(measured.written()), " MB/s"), WRITTEN_MIN);
    let rows = rows_of(&measured);
    let line = Line {
        system: "UPS in process".to_owned(),
        durable: false,
        points: measured.points,
        checkpoints: measured.checkpoints,
    };
    let scenes = vec![Scene { title: String::new(), lines: vec![line] }];
    let picture =
        OverTime { name: "checkpoint-loss-over-time", title: title.clone(), scenes, rows: rows.clone() };
    picture.write(&arguments.out, machine, &machine::command())?;
    let (said, holds) = asked.told();
    let notes = options.noted();
    Ok((
        Figure { name: "checkpoint-loss", title, drawn: THROUGHPUT, notes, rows, ..Figure::default() },
        holds,
        said,
    ))
}

/// Makes URLs until a checkpoint of the URLs has about `bytes` bytes.
fn fill(urls: &mut Urls, bytes: u64, progress: &mut Progress) -> Result<()> {
    progress.say("making the first URLs");
    urls.add(PROBED_URLS)?;
    let of_probed = urls.checkpoint()?.max(1);
    let wanted = u128::from(bytes) * u128::from(PROBED_URLS) / u128::from(of_probed);
    let more = (wanted as u64).saturating_sub(PROBED_URLS);
    progress.say(&format!("making {} URLs", grouped(more as f64)));
    urls.add(more)?;
    // The checkpoint truncates the log of the new URLs.
    urls.checkpoint().map(drop)
}

fn measure(arguments: &SlachArguments, urls: &mut Urls, progress: &mut Progress) -> Result<Measured> {
    let options = &arguments.checkpoint;
    let mut caller = Caller {
        clock: Clock::machine(),
        random: Random::from_seed(arguments.seed),
        writes_percent: options.write_percent,
        point: (0.0, 0),
        points: Vec::new(),
    };
    let mut measured = Measured::default();
    for round in 0..arguments.rounds {
        progress.say(&format!("round {} of {}: without a checkpoint", round + 1, arguments.rounds));
        measured.without.push(caller.call(urls, |seconds| Ok(seconds >= options.between_seconds))?);
        progress.say(&format!("round {} of {}: with a checkpoint", round + 1, arguments.rounds));
        let handle: CheckpointHandle = urls.objects.checkpoint();
        let (begun, mut report) = (caller.second(), None);
        let with = caller.call(urls, |_| {
            report = handle.outcome().transpose()?;
            Ok(report.is_some())
        })?;
        measured.with.push(with);
        measured.bytes.push(report.map_or(0, |report| report.bytes_written));
        measured.checkpoints.push((begun, caller.second()));
    }
    progress.say("without a checkpoint");
    measured.without.push(caller.call(urls, |seconds| Ok(seconds >= options.between_seconds))?);
    measured.points = caller.points;
    Ok(measured)
}

/// The calling thread, and its points.
struct Caller {
    clock: Clock,
    random: Random,
    writes_percent: u64,
    /// Begin of the point under way, and its requests.
    point: (f64, u64),
    points: Vec<Point>,
}

impl Caller {
    fn second(&self) -> f64 {
        self.clock.nanos() as f64 / 1e9
    }

    /// Calls until `is_over` returns true for the seconds so far.
    fn call(&mut self, urls: &mut Urls, mut is_over: impl FnMut(f64) -> Result<bool>) -> Result<Stretch> {
        let (begun, mut requests) = (self.second(), 0);
        loop {
            for _ in 0..CALLS_A_LOOK {
                urls.request(&mut self.random, self.writes_percent)?;
            }
            requests += CALLS_A_LOOK;
            let now = self.second();
            self.note(now);
            if is_over(now - begun)? {
                return Ok(Stretch { requests, seconds: now - begun });
            }
        }
    }

    fn note(&mut self, now: f64) {
        let (begun, requests) = &mut self.point;
        *requests += CALLS_A_LOOK;
        if now - *begun < POINT_SECONDS {
            return;
        }
        // The first point is left out: it includes the time before the calls.
        if *begun > 0.0 {
            self.points.push(Point {
                second: now,
                throughput: *requests as f64 / (now - *begun),
                mean_ms: None,
                p50_ms: None,
                p99_ms: None,
                p999_ms: None,
                resident_mb: machine::resident_bytes() as f64 / 1e6,
            });
        }
        self.point = (now, 0);
    }
}

fn rows_of(measured: &Measured) -> Vec<Row> {
    let rates = |stretches: &[Stretch]| stretches.iter().map(|stretch| stretch.rate()).collect();
    let (without, with) = ("without a checkpoint", "with a checkpoint");
    let row = |system: &str, metric, values| Row::new(system, Place::Bar(system.to_owned()), metric, values);
    vec![
        row(without, THROUGHPUT, rates(&measured.without)),
        row(with, THROUGHPUT, rates(&measured.with)),
        row(with, LOSS, measured.losses()),
        row(with, WRITTEN, measured.written()),
        row(with, BYTES, measured.bytes.iter().map(|bytes| *bytes as f64 / 1e6).collect()),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Measured, Stretch};
    use crate::slach::arguments::checkpoint::CheckpointArguments;

    #[derive(Debug, Parser)]
    struct OptionsOnly {
        #[command(flatten)]
        checkpoint: CheckpointArguments,
    }

    #[test]
    fn a_figure_notes_the_pace_and_the_niceness_of_its_checkpoints() {
        let parsed = |line: &str| {
            OptionsOnly::try_parse_from(["bench"].into_iter().chain(line.split_whitespace()))
                .map(|options| options.checkpoint.noted().join("; "))
        };
        let noted = |niceness| {
            format!(
                "checkpoints are paced to 110 MB/s; checkpointers' niceness: {niceness} above the others'"
            )
        };
        assert_eq!(parsed("").expect("it is a command line"), noted(0));
        assert_eq!(parsed("--checkpoint-niceness 10").expect("it is a command line"), noted(10));
        assert!(parsed("--checkpoint-niceness 20").is_err());
    }

    #[test]
    fn a_loss_is_beside_the_mean_of_before_and_behind() {
        let of = |requests: u64| Stretch { requests, seconds: 2.0 };
        let measured = Measured {
            without: vec![of(200), of(180), of(100)],
            with: vec![of(171), of(140)],
            bytes: vec![1_000_000, 3_000_000],
            ..Measured::default()
        };
        let losses: Vec<f64> = measured.losses().iter().map(|loss| loss.round()).collect();
        assert_eq!(losses, [10.0, 0.0]);
        assert_eq!(measured.written(), [0.5, 1.5]);
    }
}
