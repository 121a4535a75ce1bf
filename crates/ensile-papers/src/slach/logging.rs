//! `slach logging`: cost of logging for the throughput of UPS, by the share of writes (SLACH §6.2).
//!
//! ```text
//! in process      one thread at full load: nothing logged, relaxed, process-safe, in turns
//! over loopback   the service with as many requests under way as it takes, beside
//! ```
//! Each scheme has the same URLs, and no checkpoint within a run. A ratio is of two consecutive runs.
//!
//! Neighbours: [`super::urls`] is called in process, [`super::services`] over loopback.

use std::path::Path;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_bench::figure::{Dashed, Figure, Place, RATIO, Row};
use ensile_bench::number::{grouped, median};
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};
use ensile_objects::{CheckpointPolicy, ObjectDurability, ObjectsBuilder};

use super::arguments::SlachArguments;
use super::asked::Asked;
use super::services::saturation::Saturation;
use super::urls::Urls;

const FOLDER: &str = "slach-logging";
/// Number of calls between two looks at the clock.
const CALLS_A_LOOK: u64 = 64;
const PLACES: [&str; 2] = ["in process", "over loopback"];
const SCHEMES: [(&str, ObjectDurability); 3] = [
    ("nothing logged", ObjectDurability::NoLog),
    ("relaxed", ObjectDurability::Relaxed),
    ("process-safe", ObjectDurability::Process),
];
/// Limits: writes in percent, and the minimum ratios to nothing logged, relaxed and process-safe.
const RATIOS_MIN: [(u64, [f64; 2]); 3] = [(20, [0.96, 0.94]), (50, [0.92, 0.87]), (80, [0.87, 0.80])];

const THROUGHPUT: (&str, &str) = ("throughput", "requests/s");

/// Rates of each scheme, by round, at a share of writes.
struct Measured {
    writes: u64,
    rates: [Vec<f64>; 3],
}

/// Measures. False if logging in process costs more than its limit.
pub(super) fn logging(arguments: &SlachArguments) -> Result<(Figure, bool, String)> {
    let mut progress = Progress::new(arguments.rounds);
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let own = in_process(arguments, &folder, &mut progress)?;
    let loopback = match arguments.logging.in_process_only {
        true => Vec::new(),
        false => over_loopback(arguments, &folder, &mut progress)?,
    };
    progress.clear();
    std::fs::remove_dir_all(&folder).map_err(Failure::io(format!("removing {}", folder.display())))?;
    let mut asked = Asked::new();
    judge(&mut asked, &own);
    for measured in &loopback {
        for scheme in [1, 2] {
            let ratio = median(ratios(measured, scheme));
            let (writes, name) = (measured.writes, SCHEMES[scheme].0);
            asked.note(&format!("over loopback, {writes} % writes, {name}: {ratio:.3} of nothing logged"));
        }
    }
    let [in_process, over_loopback] = PLACES;
    let mut rows = rows_of(in_process, &own);
    rows.extend(rows_of(over_loopback, &loopback));
    let title =
        format!("Throughput of UPS with and without logging: {} URLs", grouped(arguments.objects as f64));
    let (said, holds) = asked.told();
    let (horizontal, dashed) = ("writes (%)", Dashed::Scheme(PLACES));
    Ok((
        Figure { name: "logging", title, drawn: RATIO, dashed, rows, horizontal, ..Figure::default() },
        holds,
        said,
    ))
}

fn in_process(arguments: &SlachArguments, folder: &Path, progress: &mut Progress) -> Result<Vec<Measured>> {
    progress.say(&format!("making {} URLs, three times", grouped(arguments.objects as f64)));
    let open = |(name, durability): (&str, ObjectDurability)| {
        let builder = ObjectsBuilder::new(fresh_folder(folder, name)?)
            .durability(durability)
            .policy(&CheckpointPolicy::on_demand());
        let mut urls = Urls::open(builder)?;
        urls.add(arguments.objects)?;
        urls.checkpoint()?;
        Ok::<_, Failure>(urls)
    };
    let [none, relaxed, safe] = SCHEMES;
    let mut all = [open(none)?, open(relaxed)?, open(safe)?];
    let mut random = Random::from_seed(arguments.seed);
    let measured = measure(arguments, progress, "in process", |scheme, writes| {
        let urls = &mut all[scheme];
        let rate = called(urls, writes, arguments.logging.slice_seconds, &mut random)?;
        // The log of this run is removed, so that no scheme pays for another scheme's log.
        urls.checkpoint()?;
        Ok(rate)
    })?;
    all.iter().try_for_each(|urls| Ok(urls.objects.close()?)).map(|()| measured)
}

/// Calls for `seconds`; returns requests a second.
fn called(urls: &mut Urls, writes: u64, seconds: f64, random: &mut Random) -> Result<f64> {
    let (clock, mut calls) = (Clock::machine(), 0);
    loop {
        for _ in 0..CALLS_A_LOOK {
            urls.request(random, writes)?;
        }
        calls += CALLS_A_LOOK;
        let now = clock.nanos() as f64 / 1e9;
        if now >= seconds {
            return Ok(calls as f64 / now);
        }
    }
}

fn over_loopback(
    arguments: &SlachArguments,
    folder: &Path,
    progress: &mut Progress,
) -> Result<Vec<Measured>> {
    progress.say(&format!("over loopback: making {} URLs, three times", grouped(arguments.objects as f64)));
    let options = [&["--no-log"][..], &["--durability", "relaxed"], &["--durability", "process"]];
    let begin = |scheme: usize| {
        let folder = fresh_folder(folder, &format!("loopback-{scheme}"))?;
        Saturation::begin(arguments, &folder, options[scheme])
    };
    let services = [begin(0)?, begin(1)?, begin(2)?];
    let mut random = Random::from_seed(arguments.seed);
    let measured = measure(arguments, progress, "over loopback", |scheme, writes| {
        services[scheme].rate(writes, arguments.logging.slice_seconds, &mut random)
    })?;
    services.into_iter().try_for_each(Saturation::end).map(|()| measured)
}

/// Measures every scheme at every share of writes, in turns by round; each round begins with another scheme.
fn measure(
    arguments: &SlachArguments,
    progress: &mut Progress,
    place: &str,
    mut run: impl FnMut(usize, u64) -> Result<f64>,
) -> Result<Vec<Measured>> {
    let of = |&writes: &u64| Measured { writes, rates: Default::default() };
    let mut all: Vec<Measured> = arguments.services.writes.iter().map(of).collect();
    for round in 0..arguments.rounds {
        for measured in &mut all {
            for turn in 0..SCHEMES.len() {
                let scheme = (round + turn) % SCHEMES.len();
                progress.say(&format!(
                    "{place}: round {} of {}: {} % writes, {}",
                    round + 1,
                    arguments.rounds,
                    measured.writes,
                    SCHEMES[scheme].0
                ));
                measured.rates[scheme].push(run(scheme, measured.writes)?);
            }
        }
    }
    Ok(all)
}

/// Ratio of a scheme's throughput to the throughput with nothing logged, by round.
fn ratios(measured: &Measured, scheme: usize) -> Vec<f64> {
    let [none, ..] = &measured.rates;
    measured.rates[scheme].iter().zip(none).map(|(rate, none)| rate / none.max(f64::MIN_POSITIVE)).collect()
}

fn judge(asked: &mut Asked, all: &[Measured]) {
    for measured in all {
        for scheme in [1, 2] {
            let (writes, name) = (measured.writes, SCHEMES[scheme].0);
            let what = format!("in process, {writes} % writes, {name}, of nothing logged");
            let ratio = median(ratios(measured, scheme));
            match RATIOS_MIN.iter().find(|limit| limit.0 == writes) {
                Some((_, limits)) => asked.at_least(&what, (ratio, "x"), limits[scheme - 1]),
                None => asked.note(&format!("{what}: {ratio:.3}x")),
            }
        }
    }
}

fn rows_of(place: &str, all: &[Measured]) -> Vec<Row> {
    let mut rows = Vec::new();
    for measured in all {
        let at = || Place::At(measured.writes as f64);
        for (scheme, (name, _)) in SCHEMES.into_iter().enumerate() {
            let system = format!("{place}, {name}");
            rows.push(Row::new(&system, at(), THROUGHPUT, measured.rates[scheme].clone()));
            if scheme > 0 {
                rows.push(Row::new(&system, at(), RATIO, ratios(measured, scheme)));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{Measured, judge};
    use crate::slach::asked::Asked;

    #[test]
    fn each_scheme_is_held_against_its_limit() {
        let judged = |rates: [f64; 3]| {
            let mut asked = Asked::new();
            judge(&mut asked, &[Measured { writes: 50, rates: rates.map(|rate| vec![rate; 3]) }]);
            asked.told()
        };
        assert!(judged([100.0, 92.0, 87.0]).1);
        let (said, holds) = judged([100.0, 91.0, 88.0]);
        assert!(
            !holds && said.contains("relaxed, of nothing logged: 0.91x, asked >= 0.92x: NOT HELD"),
            "{said}"
        );
    }
}
