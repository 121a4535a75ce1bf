//! UPS over loopback while a checkpoint is written: `slach response` and `slach figure7` (SLACH §6.3).
//!
//! ```text
//! generator   an open load at a share of the capacity                           -> what was replied when, and how late
//! conductor   waits | asks for a checkpoint, and looks until it is installed | as often as there are rounds | waits
//! response    mean and p99 while there is a checkpoint, beside those of the other times, at 60 and 80 %
//! figure7     throughput and response over time, at 100 %
//! ```
//! The conductor is a thread with a connection of its own, so its waits delay no request.
//!
//! Neighbours: [`super::open_loop`] is the load, [`ensile_bench::timeline`] records the replies.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicU64, Ordering, sleep};
use ensile_bench::figure::{Figure, Line, OverTime, Place, Point, Row, Scene};
use ensile_bench::machine::{self, Machine};
use ensile_bench::number::{grouped, median};
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::tally::Step;
use ensile_bench::timeline::{Part, Recorder, Timeline, seconds_at};
use ensile_bench::{Failure, Result};
use ensile_services::client::{ClientError, RespClient, in_words};
use ensile_services::command::ServiceKind;

use super::capacity::{Capacity, capacity};
use super::open_loop::{Load, Target, Watch, make, open_loop};
use super::{ServiceProcess, target};
use crate::slach::arguments::SlachArguments;
use crate::slach::asked::Asked;

const FOLDER: &str = "slach-response";
/// Time between two checks for the checkpoint's installation.
const LOOK: Duration = Duration::from_millis(20);
/// Inverse share of replies with a recorded response time; every reply is counted.
const SAMPLED: u64 = 4;
/// Limit of points of a line.
const POINTS_MAX: usize = 600;
/// Number of objects of the first checkpoint; the first checkpoint shows the bytes of an object.
const PROBED: u64 = 20_000;
/// The service's folder of checkpoints.
const CHECKPOINT_FOLDER: &str = "checkpoint0";
/// Limits of the ratio of the mean response, by the load in percent, and of the ratio of the 99th percentile.
const MEAN_MAX: [(u32, f64); 2] = [(60, 1.20), (80, 1.35)];
const P99_MAX: f64 = 2.0;

const MEAN: (&str, &str) = ("response, mean", "ms");
const P99: (&str, &str) = ("response, p99", "ms");
const THROUGHPUT: (&str, &str) = ("throughput", "requests/s");
const LOST: (&str, &str) = ("lost", "%");

/// Measurements at one load.
struct Course {
    load: u32,
    timeline: Timeline,
    /// Begin and end of each checkpoint, in seconds.
    checkpoints: Vec<(f64, f64)>,
    total: u64,
    lost: u64,
}

impl Course {
    /// The steps of each checkpoint, after the steps between the checkpoint before (or the beginning) and this
    /// checkpoint.
    fn rounds(&self) -> Vec<(Part, Part)> {
        let mut before = 0.0;
        let part = |from: f64, to: f64| {
            self.timeline.part(|step| seconds_at(step) >= from && seconds_at(step + 1) <= to)
        };
        let rounds = self.checkpoints.iter().map(|&(from, to)| {
            let between = part(before, from);
            before = to;
            (between, part(from, to))
        });
        rounds.collect()
    }

    fn line(&self) -> Line {
        let stride = self.timeline.step_count().div_ceil(POINTS_MAX);
        let points = self.timeline.rolling(stride).into_iter().map(|(second, part)| Point {
            second,
            throughput: part.rate(),
            mean_ms: part.mean_ms(),
            p50_ms: part.quantile_ms(0.5),
            p99_ms: part.quantile_ms(0.99),
            p999_ms: part.quantile_ms(0.999),
            resident_mb: 0.0,
        });
        Line {
            system: format!("{} % of the capacity", self.load),
            durable: true,
            points: points.collect(),
            checkpoints: self.checkpoints.clone(),
        }
    }
}

/// Responses at 60 and 80 % of the capacity. False if the responses exceed the limits.
pub(crate) fn response(arguments: &SlachArguments, machine: &Machine) -> Result<(Figure, bool, String)> {
    let (courses, title, capacity) = courses(arguments, &MEAN_MAX.map(|(load, _)| load))?;
    let mut asked = noted(arguments, capacity);
    for course in &courses {
        let load = course.load;
        let rounds = course.rounds();
        let ratio = |of: &dyn Fn(&Part) -> Option<f64>| {
            let ratios = rounds.iter().filter_map(|(between, with)| Some(of(with)? / of(between)?));
            median(ratios.collect())
        };
        let limit = MEAN_MAX.iter().find(|limit| limit.0 == load).map_or(f64::INFINITY, |limit| limit.1);
        let beside = "beside a checkpoint, of that without";
        asked.at_most(&format!("mean response at {load} % {beside}"), (ratio(&Part::mean_ms), "x"), limit);
        let p99 = ratio(&|part| part.quantile_ms(0.99));
        asked.at_most(&format!("p99 response at {load} % {beside}"), (p99, "x"), P99_MAX);
    }
    told(arguments, machine, ("response", "response-over-time"), (&courses, title), asked)
}

/// Over time at 100 % of the capacity.
pub(crate) fn figure7(arguments: &SlachArguments, machine: &Machine) -> Result<(Figure, bool, String)> {
    let (courses, title, capacity) = courses(arguments, &[100])?;
    let noted = noted(arguments, capacity);
    told(arguments, machine, ("figure7", "figure7-over-time"), (&courses, title), noted)
}

/// Notes the time-out of requests, and the capacity.
fn noted(arguments: &SlachArguments, capacity: Capacity) -> Asked {
    let mut asked = Asked::new();
    asked.note(&lost_note(arguments));
    asked.note(&format!("capacity: {}", capacity.words(&arguments.services)));
    asked
}

fn lost_note(arguments: &SlachArguments) -> String {
    format!("lost: no good reply within {} ms", arguments.services.timeout_ms)
}

fn told(
    arguments: &SlachArguments,
    machine: &Machine,
    (name, over_time): (&'static str, &'static str),
    (courses, title): (&[Course], String),
    asked: Asked,
) -> Result<(Figure, bool, String)> {
    let rows: Vec<Row> = courses.iter().flat_map(rows_of).collect();
    let scene = |course: &Course| Scene {
        title: format!("{} % of the capacity", course.load),
        lines: vec![course.line()],
    };
    let scenes = courses.iter().map(scene).collect();
    let picture = OverTime { name: over_time, title: title.clone(), scenes, rows: rows.clone() };
    picture.write(&arguments.out, machine, &machine::command())?;
    let mut notes = arguments.checkpoint.noted();
    notes.push(lost_note(arguments));
    let (said, holds) = asked.told();
    let horizontal = "load (% of the capacity)";
    Ok((Figure { name, title, drawn: MEAN, notes, rows, horizontal, ..Figure::default() }, holds, said))
}

fn rows_of(course: &Course) -> Vec<Row> {
    let rounds = course.rounds();
    let (between, with): (Vec<Part>, Vec<Part>) = rounds.into_iter().unzip();
    let place = || Place::At(f64::from(course.load));
    let mut rows = Vec::new();
    for (name, parts) in [("without a checkpoint", between), ("with a checkpoint", with)] {
        let values = |of: &dyn Fn(&Part) -> Option<f64>| parts.iter().filter_map(of).collect::<Vec<f64>>();
        rows.push(Row::new(name, place(), THROUGHPUT, values(&|part| Some(part.rate()))));
        rows.push(Row::new(name, place(), MEAN, values(&Part::mean_ms)));
        rows.push(Row::new(name, place(), P99, values(&|part| part.quantile_ms(0.99))));
    }
    let lost = 100.0 * course.lost as f64 / course.total.max(1) as f64;
    rows.push(Row::new("whole run", place(), LOST, vec![lost]));
    let seconds = course.checkpoints.iter().map(|(from, to)| to - from).collect();
    rows.push(Row::new("with a checkpoint", place(), ("checkpoint", "s"), seconds));
    rows
}

/// Starts the service, fills it, and loads it at each share of its capacity.
fn courses(arguments: &SlachArguments, loads: &[u32]) -> Result<(Vec<Course>, String, Capacity)> {
    let options = &arguments.checkpoint;
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let paced = (options.paced_mb * 1_000_000).to_string();
    let mut words = super::relaxed(&arguments.services);
    words.extend(["--checkpoint-bandwidth".to_owned(), paced]);
    words.extend(["--checkpoint-niceness".to_owned(), options.checkpoint_niceness.to_string()]);
    let (process, address) = ServiceProcess::begin(ServiceKind::Ups, &folder, &words)?;
    let mut target = target(arguments, ServiceKind::Ups, address);
    let mut progress = Progress::new(arguments.rounds);
    progress.say("making the first URLs");
    target.objects = PROBED;
    make(&target)?;
    let mut conductor = Conductor::connect(address)?;
    conductor.checkpoint()?;
    let of_probed = bytes_in(&folder.join(CHECKPOINT_FOLDER))?.max(1);
    target.objects = (options.data_mb * 1_000_000 * PROBED / of_probed).max(PROBED);
    progress.say(&format!("making {} URLs", grouped(target.objects as f64)));
    make(&target)?;
    progress.say("a checkpoint of them");
    conductor.checkpoint()?;
    let bytes = bytes_in(&folder.join(CHECKPOINT_FOLDER))?;
    progress.say("capacity");
    let mut random = Random::from_seed(arguments.seed);
    let writes = options.write_percent;
    let services = &arguments.services;
    let capacity = capacity(services, services.capacity, (&target, writes), &mut random)?;
    let mut courses = Vec::new();
    for &percent in loads {
        progress.say(&format!("{percent} % of {} requests a second", grouped(capacity.rate)));
        let rate = (capacity.rate * f64::from(percent) / 100.0).max(1.0) as u64;
        courses.push(course(arguments, &target, (percent, Load { rate, writes }), &mut random)?);
    }
    progress.clear();
    process.kill()?;
    std::fs::remove_dir_all(&folder).map_err(Failure::io(format!("removing {}", folder.display())))?;
    let title = format!(
        "UPS beside checkpoints of {} MB: {} URLs, {writes} % writes, capacity {} requests/s",
        (bytes + 500_000) / 1_000_000,
        grouped(target.objects as f64),
        grouped(capacity.rate)
    );
    Ok((courses, title, capacity))
}

/// Bytes of the files of a folder.
fn bytes_in(folder: &Path) -> Result<u64> {
    let fail = || Failure::io(format!("listing {}", folder.display()));
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(fail())? {
        // A file that disappears meanwhile counts nothing.
        bytes += entry.map_err(fail())?.metadata().map_or(0, |file| file.len());
    }
    Ok(bytes)
}

/// One load, with a checkpoint in each round.
fn course(
    arguments: &SlachArguments,
    target: &Target,
    (percent, load): (u32, Load),
    random: &mut Random,
) -> Result<Course> {
    let between = Duration::from_secs_f64(arguments.checkpoint.between_seconds);
    let (clock, end) = (Clock::machine(), AtomicU64::new(u64::MAX));
    let mut noted = Noted {
        recorder: Recorder::new(false),
        replies: 0,
        total: 0,
        lost: 0,
        timeout: target.timeout_nanos,
        end: &end,
        clock: &clock,
    };
    let checkpoints = std::thread::scope(|scope| {
        let conductor = scope.spawn(|| {
            let conducted = conduct(arguments.rounds, target.address, between, &clock);
            // Relaxed: the end of arrivals; no other data depends on the value.
            end.store(clock.nanos(), Ordering::Relaxed);
            conducted
        });
        open_loop(target, load, (&clock, random), &mut noted)?;
        conductor.join().expect("it does not panic")
    })?;
    let Noted { recorder, replies, total, lost, .. } = noted;
    let lost = lost + (total - replies.min(total));
    // Relaxed: the thread that stored the value has ended, and was joined.
    let timeline = Timeline::new(vec![recorder], end.load(Ordering::Relaxed));
    Ok(Course { load: percent, timeline, checkpoints, total, lost })
}

/// Records the replies.
struct Noted<'c> {
    recorder: Recorder,
    replies: u64,
    total: u64,
    lost: u64,
    timeout: u64,
    end: &'c AtomicU64,
    clock: &'c Clock,
}

impl Watch for Noted<'_> {
    fn end(&mut self, _: u64) -> Result<u64> {
        // Relaxed: see the store in `course`.
        Ok(self.end.load(Ordering::Relaxed))
    }

    fn arrived(&mut self, _: u64, _: Option<u64>) {
        self.total += 1;
    }

    fn replied(&mut self, arrived: u64, response: u64, is_good: bool) {
        self.replies += 1;
        if !is_good || response > self.timeout {
            self.lost += 1;
            return;
        }
        let step = Step { committed: 1, ..Step::default() };
        self.recorder.note(step);
        if self.replies.is_multiple_of(SAMPLED) {
            self.recorder.sample(step, arrived, self.clock.nanos());
        }
    }
}

/// Asks for a checkpoint in each round. Returns begin and end of each checkpoint, in seconds.
fn conduct(rounds: usize, address: SocketAddr, between: Duration, clock: &Clock) -> Result<Vec<(f64, f64)>> {
    let mut conductor = Conductor::connect(address)?;
    let second = || clock.nanos() as f64 / 1e9;
    let mut checkpoints = Vec::new();
    for _ in 0..rounds {
        sleep(between);
        let from = second();
        conductor.checkpoint()?;
        checkpoints.push((from, second()));
    }
    sleep(between);
    Ok(checkpoints)
}

/// The connection that asks for checkpoints.
struct Conductor(RespClient);

impl Conductor {
    fn connect(address: SocketAddr) -> Result<Self> {
        RespClient::connect(address).map(Self).map_err(failed)
    }

    /// Asks for a checkpoint, and waits for its installation.
    fn checkpoint(&mut self) -> Result<()> {
        let before = self.installed()?;
        self.0.call(&["BGSAVE"], |_| Some(())).map_err(failed)?;
        while self.installed()? == before {
            sleep(LOOK);
        }
        Ok(())
    }

    /// Number of checkpoints that the service has installed.
    fn installed(&mut self) -> Result<u64> {
        let told = self.0.call(&["INFO"], |reply| Some(in_words(reply))).map_err(failed)?;
        let figure = told.lines().find_map(|line| line.strip_prefix("checkpoints_installed:"));
        let missing =
            || Failure::Usage("the service does not tell how many checkpoints it has made".to_owned());
        figure.and_then(|figure| figure.trim().parse().ok()).ok_or_else(missing)
    }
}

fn failed(error: ClientError) -> Failure {
    Failure::Usage(format!("asking for a checkpoint: {error}"))
}
