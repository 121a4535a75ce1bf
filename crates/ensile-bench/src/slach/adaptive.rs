//! `slach adaptive`: fixed thresholds against one that follows the load (SLACH §6.4, figures 8 and 9).
//!
//! ```text
//! for each service, policy, load   fill | settle | an open loop: exponential arrivals | close | open: load, replay
//! loss           requests that waited longer than the time-out, of all
//! response       mean of the others, from the intended arrival
//! replay         mean of what a recovery would have replayed, at the rate of the open behind it; loading apart
//! ```
//! The capacity is the rate at which the open loop loses 5 %; what one thread serves back to back, over 0.95, stands
//! beside it. Objects are [`super::held`]'s: as many as are asked for, of about a hundred bytes each; half of the
//! requests write, and an operation mixes its object so often as takes about what one of the service takes. Thresholds,
//! and the window of the moving average, are a share of the paper's, so that each policy has its cycles within a run;
//! the share stands in the title.
//!
//! Invariant: what is measured is of whole cycles of checkpoints, where there are any: from the first one that is
//! installed behind the settling to the last.
//!
//! Neighbours: [`run`] makes one run; [`super::held`] has the objects.

mod run;

use clap::Args;

use super::arguments::SlachArguments;
use super::lossy_rate::SERVED_SHARE;
use crate::failure::{Failure, Result};
use crate::figure::{Dashed, Figure, Place, Row};
use crate::machine::{self, Machine};
use crate::number::{grouped, median};
use crate::progress::Progress;
use crate::system::fresh_folder;
use run::{Measured, Setup};

use ensile_objects::AdaptiveThreshold;

const FOLDER: &str = "slach-adaptive";
/// What is asked for: replay beside that of the smallest threshold, while the load is low; loss in percent above that
/// of the largest one, while it is high.
const REPLAY_MAX: f64 = 1.1;
const LOSS_MORE_MAX: f64 = 1.0;

const LOSS: (&str, &str) = ("loss", "%");
const RESPONSE: (&str, &str) = ("response, mean", "ms");
const REPLAY: (&str, &str) = ("replay time, mean", "ms");
const LOADING: (&str, &str) = ("loading", "ms");
const RECORDS: (&str, &str) = ("records to replay, mean", "records");
const INSTALLED: (&str, &str) = ("checkpoints", "a minute");

/// The options of `slach adaptive`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdaptiveArguments {
    /// Loads, in percent of the capacity
    #[arg(long, value_delimiter = ',', default_values_t = [10, 20, 40, 60, 80, 90, 100])]
    pub(crate) loads: Vec<u32>,
    /// Services: ups, his
    #[arg(long, value_delimiter = ',', default_values_t = ["ups".to_owned(), "his".to_owned()])]
    pub(crate) of_services: Vec<String>,
    /// Seconds for which a policy is measured at a load, and up to four times that until it has had two checkpoints
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Thresholds and windows, as a share of the paper's (1: UPS' fixed ones are 1, 3 and 8 million records)
    #[arg(long, default_value_t = 0.1)]
    pub(crate) of_thresholds: f64,
    /// A request that waits longer is lost, in milliseconds
    #[arg(long, default_value_t = 100)]
    pub(crate) time_out_ms: u64,
}

/// A service of the paper: its parameters, and the thresholds that stand beside.
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

/// When checkpoints begin.
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

    /// With thresholds and windows of this share.
    fn scaled(self, share: f64) -> Self {
        let of = |records: u64| ((records as f64 * share) as u64).max(1);
        match self {
            Self::Never => Self::Never,
            Self::Fixed(records) => Self::Fixed(of(records)),
            Self::Adaptive(adaptive) => Self::Adaptive(AdaptiveThreshold {
                lower: of(adaptive.lower),
                upper: of(adaptive.upper),
                window: adaptive.window.mul_f64(share),
                ..adaptive
            }),
        }
    }
}

impl Service {
    /// All of them, with thresholds and windows of this share of the paper's.
    fn policies(&self, capacity: u64, share: f64) -> [Policy; 5] {
        let [small, middle, large] = self.fixed.map(Policy::Fixed);
        let all = [Policy::Never, small, middle, large, Policy::Adaptive((self.adaptive)(capacity))];
        all.map(|policy| policy.scaled(share))
    }

    /// What is exercised: objects, requests and thresholds.
    fn words(&self, arguments: &SlachArguments, capacity: run::Capacity) -> String {
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
            "  {name}: {} objects of about 100 bytes, half of the requests write, an operation mixes its object {} \
             times\n  {name}: checkpoints after so many records: {}, which is {} of the paper's\n  {name}: capacity {} \
             requests a second, at which 5 % are lost (later than {} ms); served back to back, over {SERVED_SHARE}: {}\n",
            grouped(arguments.objects as f64),
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
    /// One for each round.
    measured: Vec<Measured>,
}

impl Point {
    fn median_of(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.measured.iter().map(of).collect())
    }
}

/// Measures. False if something is not as it is asked for. The figure of replay times is written here.
pub(super) fn adaptive(arguments: &SlachArguments, machine: &Machine) -> Result<(Figure, bool, String)> {
    let mut progress = Progress::new(arguments.rounds);
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    for service in chosen(&arguments.adaptive.of_services)? {
        let folder = fresh_folder(&arguments.data, FOLDER)?;
        let capacity = run::capacity(arguments, &folder, service.rounds)?;
        said += &service.words(arguments, capacity);
        let capacity = capacity.lossy;
        let points = points(arguments, &service, capacity, &mut progress)?;
        let (more, holds) = verdict(&service, &points);
        (said, is_as_asked) = (said + &more, is_as_asked && holds);
        let policies = service.policies(capacity, arguments.adaptive.of_thresholds);
        rows.extend(points.iter().flat_map(|point| rows_of(&service, &policies, point)));
    }
    progress.clear();
    let share = arguments.adaptive.of_thresholds;
    let titled = |what: &str| format!("{what} by load; thresholds and windows are {share} of the paper's");
    let notes = vec![format!("lost: later than {} ms", arguments.adaptive.time_out_ms)];
    let of = |name, title, drawn, notes| {
        let horizontal = "load (% of capacity)";
        let dashed = Dashed::Scheme(SERVICES.map(|service| service.name));
        Figure { name, title, drawn, dashed, notes, rows: rows.clone(), horizontal, ..Figure::default() }
    };
    let replay =
        of("adaptive-replay", titled("Replay time of a recovery, loading apart,"), REPLAY, Vec::new());
    replay.write(&arguments.out, machine, &machine::command())?;
    Ok((of("adaptive-cost", titled("Requests lost"), LOSS, notes), is_as_asked, said))
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
    ];
    if policy != Policy::Never {
        rows.push(Row::new(&name, place.clone(), REPLAY, values(|measured| measured.replay_ms)));
        rows.push(Row::new(&name, place.clone(), LOADING, values(|measured| measured.loading_ms)));
        rows.push(Row::new(&name, place.clone(), RECORDS, values(|measured| measured.records)));
        rows.push(Row::new(&name, place, INSTALLED, values(|measured| measured.installed_a_minute)));
    }
    rows
}

/// What was asked for, and whether it holds.
fn verdict(service: &Service, points: &[Point]) -> (String, bool) {
    let terms = (service.adaptive)(1);
    let (small, large, adaptive) = (1, 3, 4);
    let at =
        |policy: usize, load: u32| points.iter().find(|point| (point.policy, point.load) == (policy, load));
    let (mut said, mut holds) = (String::new(), true);
    for point in points.iter().filter(|point| point.policy == adaptive) {
        let load = point.load;
        let (Some(small), Some(large)) = (at(small, load), at(large, load)) else { continue };
        if load <= u32::from(terms.low_watermark) {
            let of = |point: &Point| point.median_of(|measured| measured.replay_ms);
            let share = of(point) / of(small).max(f64::MIN_POSITIVE);
            said += &format!(
                "  {} at {load} %: replay {share:.2} of the smallest threshold's, asked <= {REPLAY_MAX}\n",
                service.name
            );
            holds &= share <= REPLAY_MAX;
        }
        if load >= u32::from(terms.high_watermark) {
            let of = |point: &Point| point.median_of(|measured| measured.loss_percent);
            let more = of(point) - of(large);
            said += &format!(
                "  {} at {load} %: loss {more:+.2} points beside the largest threshold's, asked <= {LOSS_MORE_MAX:+}\n",
                service.name
            );
            holds &= more <= LOSS_MORE_MAX;
        }
    }
    (said, holds)
}

#[cfg(test)]
mod tests {
    use super::{Measured, Point, Policy, SERVICES, verdict};

    fn point(policy: usize, load: u32, replay_ms: f64, loss_percent: f64) -> Point {
        let measured = Measured { replay_ms, loss_percent, ..Measured::default() };
        Point { policy, load, measured: vec![measured] }
    }

    #[test]
    fn below_the_low_watermark_replay_is_asked_for_and_above_the_high_one_loss() {
        let [ups, _] = SERVICES;
        let points = |adaptive: [f64; 2], quiet: u32| {
            vec![
                point(1, quiet, 100.0, 0.0),
                point(3, quiet, 800.0, 0.0),
                point(4, quiet, adaptive[0], 5.0),
                point(1, 90, 100.0, 9.0),
                point(3, 90, 800.0, 2.0),
                point(4, 90, 800.0, adaptive[1]),
            ]
        };
        for (adaptive, quiet, holds) in [
            ([110.0, 3.0], 20, true),
            ([111.0, 2.0], 20, false),
            ([90.0, 3.1], 20, false),
            // Between the watermarks nothing is asked for.
            ([500.0, 3.0], 50, true),
        ] {
            let (said, found) = verdict(&ups, &points(adaptive, quiet));
            assert_eq!(found, holds, "{said}");
        }
    }

    #[test]
    fn a_share_of_a_policy_has_a_share_of_its_thresholds_and_windows() {
        let [ups, _] = SERVICES;
        let [none, small, .., adaptive] = ups.policies(1_000, 0.1);
        assert_eq!((none, small), (Policy::Never, Policy::Fixed(100_000)));
        assert_eq!(small.name(&ups), "UPS, fixed 100,000", "the threshold that it has, not the paper's");
        let Policy::Adaptive(terms) = adaptive else { panic!("it is") };
        assert_eq!((terms.lower, terms.upper, terms.window.as_millis()), (100_000, 800_000, 500));
        assert_eq!((terms.capacity, terms.low_watermark), (1_000, 20));
    }
}
