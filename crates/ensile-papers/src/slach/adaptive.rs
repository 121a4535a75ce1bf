//! `slach adaptive`: fixed thresholds against a threshold that follows the load (SLACH §6.4, figures 8 and 9).
//!
//! ```text
//! for each service, policy, load   fill | settle | an open loop: exponential arrivals | close | open: load, replay
//! loss           requests that waited longer than the time-out, of all
//! response       mean of the others, from the intended arrival
//! replay         mean number of records to replay, at the rate of the open afterwards; loading apart
//! ```
//! The capacity is the rate at which the open loop loses 5 %. The rate that one thread serves back to back, over 0.95,
//! stands beside. Objects are [`super::held`]'s, of about a hundred bytes each. Half of the requests write. An
//! operation mixes its object for about the time of an operation of the service. The number of objects is large enough
//! for the largest fixed threshold to lose 5 % above the high watermark, unless a number is given: [`objects`]
//! searches. Thresholds, and the window of the moving average, are a share of the paper's, so that each policy has its
//! cycles within a run. The share stands in the title.
//!
//! Invariants:
//! - Records to replay are the mean of whole cycles of checkpoints, if the run has whole cycles: from the first
//!   checkpoint installed after the settling to the last.
//! - A loss beside a fixed threshold's counts only if checkpoints cost the fixed threshold 5 % of the requests.
//!
//! [`run`] makes one run; [`super::held`] has the objects.

mod objects;
mod run;

use std::time::Duration;

use ensile_bench::figure::{Dashed, Figure, Place, Row};
use ensile_bench::machine::{self, Machine};
use ensile_bench::number::{grouped, median};
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::verdict::Judged;
use ensile_bench::{Failure, Result};

use super::arguments::SlachArguments;
use super::asked::Asked;
use super::lossy_rate::{LOST_PERCENT, SERVED_SHARE};
use crate::comparison::Comparison;
use objects::Found;
use run::{Measured, Setup};

use ensile_objects::AdaptiveThreshold;

const FOLDER: &str = "slach-adaptive";
/// Maximum replay at a low load, as a multiple of the smallest threshold's, and maximum loss at a high load, in percent
/// above the largest threshold's.
const REPLAY_MAX: f64 = 1.1;
const LOSS_MORE_MAX: f64 = 1.0;
/// Minimum number of checkpoints in a run of each compared side.
const CHECKPOINTS_MIN: u64 = 3;
/// Maximum ratio of the sides' requests.
const REQUESTS_ALIKE: f64 = 1.05;
/// Smallest window that a threshold accepts.
const WINDOW_MIN: Duration = Duration::from_secs(1);

/// Maximum loss without checkpoints, as a share of the loss. So most of the loss is the checkpoints'.
const OWN_LOSS_SHARE: f64 = 0.5;
/// Places of the policies of [`Service::policies`].
const NONE: usize = 0;
const SMALLEST: usize = 1;
const LARGEST: usize = 3;
const ADAPTIVE: usize = 4;

const LOSS: (&str, &str) = ("loss", "%");
const RESPONSE: (&str, &str) = ("response, mean", "ms");
const REPLAY: (&str, &str) = ("replay time, mean", "ms");
const LOADING: (&str, &str) = ("loading", "ms");
const RECORDS: (&str, &str) = ("records to replay, mean", "records");
const INSTALLED: (&str, &str) = ("checkpoints", "a minute");
const COUNT: (&str, &str) = ("checkpoints", "in a run");
const REQUESTS: (&str, &str) = ("requests", "a second");

/// A service of the paper: its parameters, and the fixed thresholds to compare with.
#[derive(Clone, Copy, Debug)]
struct Service {
    name: &'static str,
    adaptive: fn(u64) -> AdaptiveThreshold,
    fixed: [u64; 3],
    /// Rounds of an operation: HIS writes at about a quarter of UPS' rate (table 2).
    rounds: u32,
}

const SERVICES: [Service; 2] = [
    Service {
        name: "UPS",
        adaptive: AdaptiveThreshold::of_ups,
        fixed: [1_000_000, 3_000_000, 8_000_000],
        rounds: super::held::CHEAP_ROUNDS,
    },
    Service {
        name: "HIS",
        adaptive: AdaptiveThreshold::of_his,
        fixed: [300_000, 700_000, 1_800_000],
        rounds: 4 * super::held::CHEAP_ROUNDS,
    },
];

/// A policy for the begin of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Never,
    Fixed(u64),
    Adaptive(AdaptiveThreshold),
}

impl Policy {
    fn name(self, service: &Service) -> String {
        match self {
            Self::Never => format!("{}, none", service.name),
            Self::Fixed(records) => format!("{}, fixed {}", service.name, grouped(records as f64)),
            Self::Adaptive(_) => format!("{}, adaptive", service.name),
        }
    }

    /// The policy with thresholds and windows multiplied by `share`; a window has a second at least.
    fn scaled(self, share: f64) -> Self {
        let of = |records: u64| ((records as f64 * share) as u64).max(1);
        match self {
            Self::Never => Self::Never,
            Self::Fixed(records) => Self::Fixed(of(records)),
            Self::Adaptive(adaptive) => Self::Adaptive(AdaptiveThreshold {
                lower: of(adaptive.lower),
                upper: of(adaptive.upper),
                window: adaptive.window.mul_f64(share).max(WINDOW_MIN),
                ..adaptive
            }),
        }
    }
}

impl Service {
    /// Every policy, with thresholds and windows multiplied by `share` of the paper's.
    fn policies(&self, capacity: u64, share: f64) -> [Policy; 5] {
        let [small, middle, large] = self.fixed.map(Policy::Fixed);
        let all = [Policy::Never, small, middle, large, Policy::Adaptive((self.adaptive)(capacity))];
        all.map(|policy| policy.scaled(share))
    }

    /// Objects, requests and thresholds, in words.
    fn words(&self, arguments: &SlachArguments, found: Option<Found>, capacity: run::Capacity) -> String {
        let adaptive = &arguments.adaptive;
        let policies = self.policies(capacity.lossy, adaptive.of_thresholds);
        let bounds = policies.iter().filter_map(|policy| match policy {
            Policy::Never => None,
            Policy::Fixed(records) => Some(grouped(*records as f64)),
            Policy::Adaptive(terms) => {
                Some(format!("adaptive {} to {}", grouped(terms.lower as f64), grouped(terms.upper as f64)))
            }
        });
        format!(
            "  {name}: {} objects of about 100 bytes{}; half of the requests write, an operation mixes its object {} \
             times\n  {name}: checkpoints after so many records: {}, which is {} of the paper's\n  {name}: capacity {} \
             requests a second, at which 5 % are lost (later than {} ms); served back to back, over {SERVED_SHARE}: {}\n",
            grouped(arguments.objects as f64),
            found.map_or_else(String::new, |found| found
                .words(&self.policies(1, adaptive.of_thresholds)[LARGEST].name(self))),
            self.rounds,
            bounds.collect::<Vec<_>>().join("; "),
            adaptive.of_thresholds,
            grouped(capacity.lossy as f64),
            adaptive.time_out_ms,
            grouped(capacity.served as f64),
            name = self.name,
        )
    }
}

/// One point: a policy at a load.
struct Point {
    policy: usize,
    load: u32,
    /// Figures of each round.
    measured: Vec<Measured>,
}

impl Point {
    fn median_of(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.measured.iter().map(of).collect())
    }
}

/// Measures, and writes the figure of replay times. False if a value is not held.
pub(super) fn adaptive(arguments: &SlachArguments, machine: &Machine) -> Result<(Figure, bool, String)> {
    let mut progress = Progress::new(arguments.rounds);
    let (mut rows, mut notes, mut asked) = (Vec::new(), Vec::new(), Asked::new());
    for service in chosen(&arguments.adaptive.of_services)? {
        let found = searched(arguments, &service, &mut progress)?;
        let objects = found.map_or(arguments.adaptive.adaptive_objects, |found| Some(found.objects));
        let arguments =
            &SlachArguments { objects: objects.unwrap_or(arguments.objects), ..arguments.clone() };
        let folder = fresh_folder(&arguments.data, FOLDER)?;
        progress.say(&format!("{}: capacity", service.name));
        let capacity = run::capacity(arguments, &folder, service.rounds)?;
        asked.note(service.words(arguments, found, capacity).trim());
        let capacity = capacity.lossy;
        let points = points(arguments, &service, capacity, &mut progress)?;
        let policies = service.policies(capacity, arguments.adaptive.of_thresholds);
        judge(&mut asked, &service, &policies, &points);
        notes.push(format!("{}: {} objects", service.name, grouped(arguments.objects as f64)));
        rows.extend(points.iter().flat_map(|point| rows_of(&service, &policies, point)));
    }
    progress.clear();
    let share = arguments.adaptive.of_thresholds;
    let titled = |what: &str| format!("{what} by load; thresholds and windows are {share} of the paper's");
    let verdicts: Vec<Judged> = asked.judged();
    let of = |name, title, drawn, notes| Figure {
        name,
        title,
        drawn,
        dashed: Dashed::Scheme(SERVICES.map(|service| service.name)),
        notes,
        rows: rows.clone(),
        verdicts: verdicts.clone(),
        horizontal: "load (% of capacity)",
    };
    let replay =
        of("adaptive-replay", titled("Replay time of a recovery, loading apart,"), REPLAY, notes.clone());
    replay.write(&arguments.out, machine, &machine::command())?;
    notes.push(format!("lost: later than {} ms", arguments.adaptive.time_out_ms));
    let (said, is_as_asked) = asked.told();
    Ok((of("adaptive-cost", titled("Requests lost"), LOSS, notes), is_as_asked, said))
}

/// The first load above the high watermark.
fn high_load(arguments: &SlachArguments, service: &Service) -> Option<u32> {
    let high = u32::from((service.adaptive)(1).high_watermark);
    arguments.adaptive.loads.iter().copied().find(|load| *load >= high)
}

/// Searches a number of objects at which the largest fixed threshold loses enough. `None` if a number was given or no
/// load is high.
fn searched(arguments: &SlachArguments, service: &Service, progress: &mut Progress) -> Result<Option<Found>> {
    let Some(load) = high_load(arguments, service).filter(|_| arguments.adaptive.adaptive_objects.is_none())
    else {
        return Ok(None);
    };
    let policy = service.policies(1, arguments.adaptive.of_thresholds)[LARGEST];
    let most = objects::most(arguments);
    let found = objects::search(arguments.objects.min(most), most, |objects| {
        let arguments = &SlachArguments { objects, ..arguments.clone() };
        let folder = fresh_folder(&arguments.data, FOLDER)?;
        let lost = run::lost_to_checkpoints(arguments, &folder, (policy, load), service.rounds)?;
        progress.say(&format!(
            "{}: {} objects: checkpoints of {} lose {lost:.2} % at {load} %",
            service.name,
            grouped(objects as f64),
            policy.name(service)
        ));
        Ok(lost)
    })?;
    Ok(Some(found))
}

fn chosen(names: &[String]) -> Result<Vec<Service>> {
    let find = |name: &String| SERVICES.into_iter().find(|service| service.name.eq_ignore_ascii_case(name));
    let unknown = |name: &String| Failure::Usage(format!("there is no service {name}: say ups, his or both"));
    names.iter().map(|name| find(name).ok_or_else(|| unknown(name))).collect()
}

/// Every policy at every load, in turns by round.
fn points(
    arguments: &SlachArguments,
    service: &Service,
    capacity: u64,
    progress: &mut Progress,
) -> Result<Vec<Point>> {
    let policies = service.policies(capacity, arguments.adaptive.of_thresholds);
    let mut points: Vec<Point> = arguments
        .adaptive
        .loads
        .iter()
        .flat_map(|&load| (0..policies.len()).map(move |policy| Point { policy, load, measured: Vec::new() }))
        .collect();
    for round in 0..arguments.rounds {
        for point in &mut points {
            let policy = policies[point.policy];
            progress.say(&format!(
                "round {} of {}: {} at {} %",
                round + 1,
                arguments.rounds,
                policy.name(service),
                point.load
            ));
            let setup = Setup {
                policy,
                rate: capacity as f64 * f64::from(point.load) / 100.0,
                rounds: service.rounds,
                seed: arguments.seed + round as u64,
            };
            let folder = fresh_folder(&arguments.data, FOLDER)?;
            point.measured.push(run::run(arguments, &folder, &setup)?);
            std::fs::remove_dir_all(&folder).map_err(Failure::io("removing the objects"))?;
        }
    }
    Ok(points)
}

fn rows_of(service: &Service, policies: &[Policy], point: &Point) -> Vec<Row> {
    let policy = policies[point.policy];
    let (name, place) = (policy.name(service), Place::At(f64::from(point.load)));
    let values = |of: fn(&Measured) -> f64| point.measured.iter().map(of).collect();
    let mut rows = vec![
        Row::new(&name, place.clone(), LOSS, values(|measured| measured.loss_percent)),
        Row::new(&name, place.clone(), RESPONSE, values(|measured| measured.response_ms)),
        Row::new(&name, place.clone(), REQUESTS, values(|measured| measured.requests)),
    ];
    if policy != Policy::Never {
        rows.push(Row::new(&name, place.clone(), REPLAY, values(|measured| measured.replay_ms)));
        rows.push(Row::new(&name, place.clone(), LOADING, values(|measured| measured.loading_ms)));
        rows.push(Row::new(&name, place.clone(), RECORDS, values(|measured| measured.records)));
        rows.push(Row::new(&name, place.clone(), COUNT, values(|measured| measured.installed as f64)));
        rows.push(Row::new(&name, place, INSTALLED, values(|measured| measured.installed_a_minute)));
    }
    rows
}

/// Judges replay below the low watermark, and loss above the high one.
fn judge(asked: &mut Asked, service: &Service, policies: &[Policy], points: &[Point]) {
    let terms = (service.adaptive)(1);
    for adaptive in points.iter().filter(|point| point.policy == ADAPTIVE) {
        let load = adaptive.load;
        let at = |policy: usize| points.iter().find(|point| (point.policy, point.load) == (policy, load));
        let name = |point: &Point| policies[point.policy].name(service);
        if let Some(smallest) = at(SMALLEST).filter(|_| load <= u32::from(terms.low_watermark)) {
            let replay = |point: &Point| point.median_of(|measured| measured.replay_ms);
            let share = replay(adaptive) / replay(smallest).max(f64::MIN_POSITIVE);
            let names = [adaptive, smallest].map(name);
            let sides = same_work(names.each_ref().map(String::as_str), [adaptive, smallest]);
            let what = format!("{} at {load} %: replay, of the smallest threshold's", service.name);
            asked.compared_at_most(&what, (share, "x"), REPLAY_MAX, sides);
        }
        let largest = at(LARGEST).zip(at(NONE)).filter(|_| load >= u32::from(terms.high_watermark));
        if let Some((largest, none)) = largest {
            let loss = |point: &Point| point.median_of(|measured| measured.loss_percent);
            let [own, fixed, without] = [adaptive, largest, none].map(loss);
            let names = [adaptive, largest].map(name);
            let sides = same_work(names.each_ref().map(String::as_str), [adaptive, largest])
                .only_if(
                    fixed >= LOST_PERCENT,
                    &format!("{} lost {fixed:.2} %, at least {LOST_PERCENT} % are needed", names[1]),
                )
                .only_if(
                    without <= fixed * OWN_LOSS_SHARE,
                    &format!("without checkpoints {without:.2} % are lost, too"),
                );
            let what = format!(
                "{} at {load} %: loss {own:.2} %, the largest threshold's {fixed:.2} %, beside that",
                service.name
            );
            asked.compared_at_most(&what, (own - fixed, " points"), LOSS_MORE_MAX, sides);
        }
    }
}

/// A comparison of sides with enough checkpoints and as many requests.
fn same_work<'n>(names: [&'n str; 2], points: [&Point; 2]) -> Comparison<'n> {
    let fewest = |point: &Point| point.measured.iter().map(|measured| measured.installed).min().unwrap_or(0);
    let requests = points.map(|point| point.median_of(|measured| measured.requests));
    Comparison::of(names)
        .each_at_least(
            "checkpoints in a run",
            points.map(|point| fewest(point) as f64),
            CHECKPOINTS_MIN as f64,
        )
        .alike("requests a second", requests, REQUESTS_ALIKE)
}

#[cfg(test)]
mod tests;
