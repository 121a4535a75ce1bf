//! `slach load`: requests to a service over loopback at a given rate, whatever the service does (§6.1, figure 6).
//!
//! ```text
//! arrivals  exponential, drawn before: the load is open, and a slow service gets no fewer requests
//! response  from the intended arrival to the reply, so what waits in the generator counts too
//! lost      no good reply within the time-out; LossPercent = 100 - SuccessfulRequests / TotalRequests x 100
//! ```
//! One thread has all connections; requests go to them in turns, and each may have many under way.
//!
//! Invariants:
//! - Each arrival of the measured time is either answered in time or lost; an error reply is lost.
//! - How late the generator itself was is told: where that is as long as a response, the response is the generator's.
//!
//! Neighbours: [`super::ServiceProcess`] is the service, unless an address is given; [`clients`] sends and receives.

mod clients;

use std::net::SocketAddr;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_services::client::{ClientError, RespClient};
use ensile_services::command::{ReplyDurability, ServiceKind};
use hdrhistogram::Histogram;

use super::{ServiceProcess, ServicesArguments, name_of};
use crate::failure::{Failure, Result};
use crate::figure::{Figure, Place, Row};
use crate::number::grouped;
use crate::progress::Progress;
use crate::slach::arguments::SlachArguments;
use crate::system::fresh_folder;
use crate::tally::new_histogram;
use clients::{Clients, Reply};

const FOLDER: &str = "slach-load";
/// Before the measured time the load goes on for so much of it, and does not count.
const WARM_UP: f64 = 0.2;
/// Objects that are made in one pipeline before the load.
const PIPELINED: u64 = 256;

const LOSS: (&str, &str) = ("loss", "%");
const MEAN: (&str, &str) = ("response, mean", "ms");

/// What a run has shown.
struct Outcome {
    total: u64,
    in_time: u64,
    seconds: f64,
    /// Nanoseconds from the intended arrival, of those that were answered in time.
    responses: Histogram<u64>,
    /// Nanoseconds between an intended arrival and its request being handed to the system.
    late: Histogram<u64>,
}

impl Outcome {
    fn new(seconds: f64) -> Self {
        Self { total: 0, in_time: 0, seconds, responses: new_histogram(), late: new_histogram() }
    }

    fn loss_percent(&self) -> f64 {
        100.0 - self.in_time as f64 / self.total.max(1) as f64 * 100.0
    }
}

/// A metric, and its value in an outcome.
type Measured = ((&'static str, &'static str), fn(&Outcome) -> f64);

const MEASURED: [Measured; 7] = [
    (LOSS, Outcome::loss_percent),
    (MEAN, |outcome| outcome.responses.mean() / 1e6),
    (("response, median", "ms"), |outcome| outcome.responses.value_at_quantile(0.5) as f64 / 1e6),
    (("response, p99", "ms"), |outcome| outcome.responses.value_at_quantile(0.99) as f64 / 1e6),
    (("response, p99.9", "ms"), |outcome| outcome.responses.value_at_quantile(0.999) as f64 / 1e6),
    (("answered in time", "requests/s"), |outcome| outcome.in_time as f64 / outcome.seconds),
    (("sent late, p99", "ms"), |outcome| outcome.late.value_at_quantile(0.99) as f64 / 1e6),
];

/// Loads a service at every rate and share of writes.
pub(crate) fn load(arguments: &SlachArguments) -> Result<(Figure, bool, String)> {
    let services = &arguments.services;
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
    make(arguments, address)?;
    let mut random = Random::seeded(arguments.seed);
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
            outcomes.push(run(arguments, address, (writes, rate), &mut random)?);
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

/// How durable the service's replies are.
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

/// Makes every object, so that reads find them.
fn make(arguments: &SlachArguments, address: SocketAddr) -> Result<()> {
    let failed = |error: ClientError| Failure::Usage(format!("making objects: {error}"));
    let mut client = RespClient::connect(address).map_err(failed)?;
    let requests = Requests::of(arguments);
    let mut from = 0;
    while from < arguments.objects {
        let to = (from + PIPELINED).min(arguments.objects);
        (from..to).for_each(|object| client.request(&requests.words(object, true)));
        for _ in from..to {
            client.receive_as(|_| Some(())).map_err(failed)?;
        }
        from = to;
    }
    Ok(())
}

/// The requests of a service.
struct Requests {
    service: ServiceKind,
    value: String,
}

impl Requests {
    fn of(arguments: &SlachArguments) -> Self {
        let services = &arguments.services;
        Self { service: services.service, value: "v".repeat(services.value_bytes as usize) }
    }

    /// A read or a write of an object.
    fn words(&self, object: u64, is_write: bool) -> Vec<String> {
        let value = self.value.as_str();
        let words: &[&str] = match (self.service, is_write) {
            (ServiceKind::Pht, true) => &["SET", value],
            (ServiceKind::Pht, false) => &["GET"],
            (ServiceKind::Ups, true) => &["UPS.CRAWLED", "1700000000", "MODIFIED", "1600000000"],
            (ServiceKind::Ups, false) => &["UPS.GET"],
            (ServiceKind::His, true) => &["HIS.DAILY", "20000", "de", "1000", "35000"],
            (ServiceKind::His, false) => &["HIS.GET"],
        };
        let key = match self.service {
            ServiceKind::Pht => format!("key:{object:012}"),
            ServiceKind::Ups => format!("http://host{}.example/page{object}", object % 1000),
            ServiceKind::His => format!("host{object}.example"),
        };
        let mut all: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        all.insert(1, key);
        all
    }
}

/// One rate and share of writes: warms up, measures, and waits for what is under way.
fn run(
    arguments: &SlachArguments,
    address: SocketAddr,
    (writes, rate): (u64, u64),
    random: &mut Random,
) -> Result<Outcome> {
    let services = &arguments.services;
    let clock = Clock::machine();
    let requests = Requests::of(arguments);
    let mut clients = Clients::connect(address, services.connections as usize)?;
    let timeout = services.timeout_ms * 1_000_000;
    let measured_from = (services.load_seconds * WARM_UP * 1e9) as u64;
    let over = measured_from + (services.load_seconds * 1e9) as u64;
    let mut outcome = Outcome::new(services.load_seconds);
    let mut next = exponential(rate, random);
    let mut turn = 0;
    // More than that is under way only if what comes is lost anyway.
    let under_way_max = (2 * rate * services.timeout_ms / 1000).max(1_000) as usize;
    loop {
        let now = clock.nanos();
        while next <= now && next < over {
            let counts = next >= measured_from;
            outcome.total += u64::from(counts);
            if clients.under_way() < under_way_max {
                let words = requests.words(random.below(arguments.objects), random.percent(writes));
                clients.request(turn, &words, next);
                if counts {
                    outcome.late.saturating_record(now - next);
                }
            }
            turn = (turn + 1) % services.connections as usize;
            next += exponential(rate, random);
        }
        clients.exchange(|Reply { arrived, is_good }| {
            let response = clock.nanos() - arrived;
            if arrived >= measured_from && is_good && response <= timeout {
                outcome.in_time += 1;
                outcome.responses.saturating_record(response);
            }
        })?;
        let now = clock.nanos();
        let is_done = clients.under_way() == 0 || now >= over.saturating_add(timeout);
        if next >= over && now >= over && is_done {
            return Ok(outcome);
        }
        let wake = if next < over { next } else { over.saturating_add(timeout) };
        clients.wait(wake.saturating_sub(now))?;
    }
}

/// Nanoseconds until the next arrival: exponential, a given number a second.
fn exponential(rate: u64, random: &mut Random) -> u64 {
    let mean = 1e9 / rate as f64;
    // The unit interval has no one, so the logarithm is of no zero.
    (-(1.0 - random.unit()).ln() * mean) as u64
}

#[cfg(test)]
mod tests {
    use ensile_base::random::Random;

    use super::{Outcome, exponential};

    #[test]
    fn arrivals_are_exponential() {
        let mut random = Random::seeded(1);
        let gaps: Vec<u64> = (0..100_000).map(|_| exponential(1_000, &mut random)).collect();
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((0.98e6..1.02e6).contains(&mean), "{mean}");
        // Of an exponential one part in e is above the mean.
        let above = gaps.iter().filter(|gap| **gap as f64 > mean).count() as f64 / gaps.len() as f64;
        assert!((0.36..0.376).contains(&above), "{above}");
    }

    #[test]
    fn loss_is_what_was_not_answered_in_time() {
        let outcome = Outcome { total: 200, in_time: 150, ..Outcome::new(1.0) };
        assert!((outcome.loss_percent() - 25.0).abs() < 1e-9);
    }
}
