//! `slach load`: requests to a service over loopback at a given rate, independent of the service's speed (§6.1, figure
//! 6).
//!
//! A request without a good reply within the time-out is lost: LossPercent = 100 - SuccessfulRequests / TotalRequests x
//! 100.
//!
//! Invariants:
//! - Each arrival of the measured time is either answered in time or lost; an error reply is lost.
//! - The generator's own lateness is reported. If the lateness is as long as a response, the response is the
//!   generator's.
//!
//! Neighbours: [`super::ServiceProcess`] is the service, unless an address is given; [`super::open_loop`] is the load.

use std::net::SocketAddr;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::sleep;
use ensile_bench::driver::panic_message;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::grouped;
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::tally::new_histogram;
use ensile_bench::{Failure, Result};
use ensile_services::client::{ClientError, HostClient};
use ensile_services::command::{ReplyDurability, ServiceKind};
use ensile_services::his::DailyFigures;
use hdrhistogram::Histogram;

use super::open_loop::{Load, Target, Watch, make, open_loop};
use super::requests::host_name;
use super::{ServiceProcess, name_of, target};
use crate::slach::arguments::SlachArguments;
use crate::slach::arguments::services::ServicesArguments;

const FOLDER: &str = "slach-load";
/// Length of the warm-up before the measured time, as a share of the measured time. The warm-up does not count.
const WARM_UP: f64 = 0.2;

const LOSS: (&str, &str) = ("loss", "%");
const MEAN: (&str, &str) = ("response, mean", "ms");
const BURST: (&str, &str) = ("daily burst", "hosts/s");
/// The day of the first burst, counted from 1970: above the day of other writes.
const FIRST_DAY: u32 = 20_001;

/// The daily figures of many hosts, sent in one burst.
#[derive(Clone, Copy)]
struct Burst {
    hosts: u64,
    day: u32,
}

/// The results of a run.
pub(super) struct Outcome {
    total: u64,
    in_time: u64,
    seconds: f64,
    /// Nanoseconds from the intended arrival to the reply, of requests answered in time.
    responses: Histogram<u64>,
    /// Nanoseconds from the intended arrival of a request to its send.
    late: Histogram<u64>,
    /// Seconds of a burst beside the run; `None` without a burst.
    burst_seconds: Option<f64>,
}

impl Outcome {
    fn new(seconds: f64) -> Self {
        let (responses, late) = (new_histogram(), new_histogram());
        Self { total: 0, in_time: 0, seconds, responses, late, burst_seconds: None }
    }

    pub(super) fn mean_ms(&self) -> f64 {
        self.responses.mean() / 1e6
    }

    pub(super) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.responses.value_at_quantile(quantile) as f64 / 1e6
    }

    pub(super) fn loss_percent(&self) -> f64 {
        100.0 - self.in_time as f64 / self.total.max(1) as f64 * 100.0
    }
}

/// A metric, and its value in an outcome.
type Measured = ((&'static str, &'static str), fn(&Outcome) -> f64);

const MEASURED: [Measured; 7] = [
    (LOSS, Outcome::loss_percent),
    (MEAN, Outcome::mean_ms),
    (("response, median", "ms"), |outcome| outcome.quantile_ms(0.5)),
    (("response, p99", "ms"), |outcome| outcome.quantile_ms(0.99)),
    (("response, p99.9", "ms"), |outcome| outcome.quantile_ms(0.999)),
    (("answered in time", "requests/s"), |outcome| outcome.in_time as f64 / outcome.seconds),
    (("sent late, p99", "ms"), |outcome| outcome.late.value_at_quantile(0.99) as f64 / 1e6),
];

/// Loads a service at every rate and share of writes.
pub(crate) fn load(arguments: &SlachArguments) -> Result<(Figure, bool, String)> {
    let services = &arguments.services;
    if services.burst > 0 && services.service != ServiceKind::His {
        return Err(Failure::Usage("--burst is of his, which has daily figures".to_owned()));
    }
    let mut process = None;
    let address = match services.address {
        Some(address) => address,
        None => {
            let folder = fresh_folder(&arguments.data, FOLDER)?;
            let started = ServiceProcess::start(services.service, &folder, &options(services))?;
            process.insert(started).address()?
        }
    };
    let mut progress = Progress::new(arguments.rounds);
    progress.say(&format!("making {} objects", grouped(arguments.objects as f64)));
    let target = target(arguments, services.service, address);
    make(&target)?;
    let mut random = Random::from_seed(arguments.seed);
    let places: Vec<(u64, u64)> = services
        .writes
        .iter()
        .flat_map(|writes| services.rates.iter().map(move |rate| (*writes, *rate)))
        .collect();
    let mut outcomes: Vec<Vec<Outcome>> = places.iter().map(|_| Vec::new()).collect();
    for round in 0..arguments.rounds {
        for (&(writes, rate), outcomes) in places.iter().zip(&mut outcomes) {
            progress.say(&format!(
                "round {} of {}: {} requests/s, {writes} % writes",
                round + 1,
                arguments.rounds,
                grouped(rate as f64)
            ));
            let load = Load { rate, writes };
            // Figures of an older day would be refused.
            let day = FIRST_DAY + u32::try_from(round).unwrap_or(u32::MAX - FIRST_DAY);
            let burst = Burst { hosts: services.burst, day };
            outcomes.push(run_with_burst(&target, load, services.load_seconds, burst, &mut random)?);
        }
    }
    progress.clear();
    drop(process);
    Ok(figure(arguments, &places, &outcomes))
}

fn options(services: &ServicesArguments) -> Vec<String> {
    let mut options = vec!["--loops".to_owned(), services.loops.to_string()];
    if services.no_log {
        options.push("--no-log".to_owned());
    } else {
        options.extend(["--durability".to_owned(), level(services)]);
    }
    options
}

/// Durability of the service's replies, in words.
fn level(services: &ServicesArguments) -> String {
    match services.no_log {
        true => "no log".to_owned(),
        false => name_of(services.durability.unwrap_or(ReplyDurability::Relaxed)),
    }
}

fn figure(
    arguments: &SlachArguments,
    places: &[(u64, u64)],
    outcomes: &[Vec<Outcome>],
) -> (Figure, bool, String) {
    let services = &arguments.services;
    let mut rows = Vec::new();
    for (&(writes, rate), outcomes) in places.iter().zip(outcomes) {
        for (metric, of) in MEASURED {
            let values = outcomes.iter().map(of).collect();
            rows.push(Row::new(&format!("{writes} % writes"), Place::At(rate as f64), metric, values));
        }
        let bursts: Vec<f64> = outcomes
            .iter()
            .filter_map(|outcome| Some(services.burst as f64 / outcome.burst_seconds?))
            .collect();
        if !bursts.is_empty() {
            rows.push(Row::new(&format!("{writes} % writes"), Place::At(rate as f64), BURST, bursts));
        }
    }
    let title = format!(
        "{} under an open load, {}: {} objects, {} connections",
        name_of(services.service),
        level(services),
        grouped(arguments.objects as f64),
        services.connections
    );
    let notes = vec![
        format!("lost: no good reply within {} ms of the intended arrival", services.timeout_ms),
        "responses are counted from the intended arrival, of requests answered in time".to_owned(),
    ];
    let said = notes.iter().map(|note| format!("  {note}\n")).collect();
    let horizontal = "requests a second";
    let figure = Figure { name: "load", title, horizontal, drawn: MEAN, notes, rows, ..Figure::default() };
    (figure, true, said)
}

/// The observer of the measured time, from the end of the warm-up.
struct Measuring<'o> {
    outcome: &'o mut Outcome,
    from: u64,
    over: u64,
    timeout: u64,
}

impl Watch for Measuring<'_> {
    fn end(&mut self, _: u64) -> Result<u64> {
        Ok(self.over)
    }

    fn arrived(&mut self, at: u64, late: Option<u64>) {
        if at < self.from {
            return;
        }
        self.outcome.total += 1;
        if let Some(late) = late {
            self.outcome.late.saturating_record(late);
        }
    }

    fn replied(&mut self, arrived: u64, response: u64, is_good: bool) {
        if arrived >= self.from && is_good && response <= self.timeout {
            self.outcome.in_time += 1;
            self.outcome.responses.saturating_record(response);
        }
    }
}

/// As [`run`], with a burst in the middle of the measured time, if the burst has hosts.
fn run_with_burst(
    target: &Target,
    load: Load,
    seconds: f64,
    burst: Burst,
    random: &mut Random,
) -> Result<Outcome> {
    if burst.hosts == 0 {
        return run(target, load, seconds, random);
    }
    std::thread::scope(|scope| {
        let bursting = scope.spawn(move || {
            sleep(Duration::from_secs_f64(seconds * (WARM_UP + 0.5)));
            send_burst(target.address, burst)
        });
        let outcome = run(target, load, seconds, random);
        let burst = bursting.join().map_err(|panic| Failure::Panic(panic_message(panic.as_ref())))?;
        Ok(Outcome { burst_seconds: Some(burst?), ..outcome? })
    })
}

/// Sends a burst; returns its time in seconds.
fn send_burst(address: SocketAddr, burst: Burst) -> Result<f64> {
    let failed = |error: ClientError| Failure::Usage(format!("the daily burst: {error}"));
    let clock = Clock::machine();
    let mut client = HostClient::connect(address).map_err(failed)?;
    let figures = DailyFigures { day: burst.day, country: *b"de", urls: 1_000, delay_micros: 35_000 };
    let hosts: Vec<Vec<u8>> = (0..burst.hosts).map(host_name).collect();
    let begun = clock.nanos();
    client.daily(hosts.iter().map(|host| (host.as_slice(), figures))).map_err(failed)?;
    Ok((clock.nanos() - begun) as f64 / 1e9)
}

/// Runs one rate and share of writes: warms up, measures, and waits for the requests under way.
pub(super) fn run(target: &Target, load: Load, seconds: f64, random: &mut Random) -> Result<Outcome> {
    let clock = Clock::machine();
    let from = (seconds * WARM_UP * 1e9) as u64;
    let over = from + (seconds * 1e9) as u64;
    let mut outcome = Outcome::new(seconds);
    let mut measuring = Measuring { outcome: &mut outcome, from, over, timeout: target.timeout_nanos };
    open_loop(target, load, (&clock, random), &mut measuring)?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::Outcome;

    #[test]
    fn loss_is_what_was_not_answered_in_time() {
        let outcome = Outcome { total: 200, in_time: 150, ..Outcome::new(1.0) };
        assert!((outcome.loss_percent() - 25.0).abs() < 1e-9);
    }
}
