//! `slach figure6`: lost requests and response times of UPS over the load, with logging and without, by the share of
//! writes (SLACH §6.2, figure 6).
//!
//! The two schemes run side by side in separate processes and are loaded in turns. A load is a share of the service's
//! capacity without logging at the same share of writes.
//!
//! Neighbours: [`super::load`] makes a run, [`super::capacity`] finds the capacity.

use ensile_base::random::Random;
use ensile_bench::figure::{Dashed, Figure, Place, Row};
use ensile_bench::machine::{self, Machine};
use ensile_bench::number::grouped;
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};
use ensile_services::command::ServiceKind;

use super::capacity::{Capacity, capacity};
use super::load::{Outcome, run};
use super::open_loop::{Load, Target, make};
use super::{ServiceProcess, target};
use crate::slach::arguments::SlachArguments;

const FOLDER: &str = "slach-figure6";
/// Names of the paper.
const SCHEMES: [&str; 2] = ["base", "log"];

const LOSS: (&str, &str) = ("loss", "%");
const RESPONSE: (&str, &str) = ("response, mean", "ms");
const RESPONSE_P99: (&str, &str) = ("response, p99", "ms");
const CAPACITY: (&str, &str) = ("capacity", "requests/s");
const SERVED: (&str, &str) = ("back to back, over 0.95", "requests/s");

/// A share of writes and a load in percent, with the outcomes of the schemes by round.
struct Measured {
    writes: u64,
    load: u32,
    capacity: Capacity,
    outcomes: [Vec<Outcome>; 2],
}

/// Measures, and writes the figure of response times.
pub(crate) fn figure6(arguments: &SlachArguments, machine: &Machine) -> Result<(Figure, bool, String)> {
    let mut progress = Progress::new(arguments.rounds);
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let relaxed = super::relaxed(&arguments.services);
    let begin = |scheme: &str, options: &[String]| {
        ServiceProcess::begin(ServiceKind::Ups, &fresh_folder(&folder, scheme)?, options)
    };
    let (base, base_address) = begin(SCHEMES[0], &super::no_log(&arguments.services))?;
    let (log, log_address) = begin(SCHEMES[1], &relaxed)?;
    let targets = [base_address, log_address].map(|address| target(arguments, ServiceKind::Ups, address));
    progress.say(&format!("making {} URLs, twice", grouped(arguments.objects as f64)));
    targets.iter().try_for_each(make)?;
    let all = measure(arguments, &targets, &mut progress)?;
    progress.clear();
    for process in [base, log] {
        process.kill()?;
    }
    std::fs::remove_dir_all(&folder).map_err(Failure::io(format!("removing {}", folder.display())))?;
    let rows: Vec<Row> = all.iter().flat_map(rows_of).collect();
    let figure = |name, what: &str, drawn| {
        let title = format!("{what} of UPS over the load: {} URLs", grouped(arguments.objects as f64));
        let notes = vec![format!("lost: no good reply within {} ms", arguments.services.timeout_ms)];
        let horizontal = "load (% of the capacity without logging)";
        Figure {
            name,
            title,
            drawn,
            dashed: Dashed::Scheme(SCHEMES),
            notes,
            rows: rows.clone(),
            horizontal,
            ..Figure::default()
        }
    };
    figure("figure6-response", "Response times", RESPONSE).write(
        &arguments.out,
        machine,
        &machine::command(),
    )?;
    Ok((figure("figure6-loss", "Lost requests", LOSS), true, words_of(arguments, &all)))
}

fn measure(
    arguments: &SlachArguments,
    targets: &[Target; 2],
    progress: &mut Progress,
) -> Result<Vec<Measured>> {
    let options = &arguments.services;
    let mut random = Random::from_seed(arguments.seed);
    let mut all = Vec::new();
    for &writes in &options.writes {
        progress.say(&format!("{writes} % writes: capacity"));
        let capacity = capacity(options, options.capacity, (&targets[0], writes), &mut random)?;
        let of = |&load: &u32| Measured { writes, load, capacity, outcomes: [Vec::new(), Vec::new()] };
        all.extend(arguments.adaptive.loads.iter().map(of));
    }
    for round in 0..arguments.rounds {
        for measured in &mut all {
            let (writes, percent) = (measured.writes, measured.load);
            let rate = (measured.capacity.rate * f64::from(percent) / 100.0).max(1.0) as u64;
            for (scheme, target) in targets.iter().enumerate() {
                progress.say(&format!(
                    "round {} of {}: {}, {writes} % writes at {percent} %",
                    round + 1,
                    arguments.rounds,
                    SCHEMES[scheme]
                ));
                let outcome = run(target, Load { rate, writes }, options.load_seconds, &mut random)?;
                measured.outcomes[scheme].push(outcome);
            }
        }
    }
    Ok(all)
}

/// Text with the definition of a lost request and the capacity per share of writes.
fn words_of(arguments: &SlachArguments, all: &[Measured]) -> String {
    let services = &arguments.services;
    let mut said = format!("  lost: no good reply within {} ms\n", services.timeout_ms);
    for &writes in &services.writes {
        if let Some(measured) = all.iter().find(|measured| measured.writes == writes) {
            said += &format!("  capacity at {writes} % writes: {}\n", measured.capacity.words(services));
        }
    }
    said
}

fn rows_of(measured: &Measured) -> Vec<Row> {
    let place = || Place::At(f64::from(measured.load));
    let mut rows = Vec::new();
    for (scheme, outcomes) in SCHEMES.iter().zip(&measured.outcomes) {
        let name = format!("{scheme}, {} % writes", measured.writes);
        let values = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).collect();
        rows.push(Row::new(&name, place(), LOSS, values(&Outcome::loss_percent)));
        rows.push(Row::new(&name, place(), RESPONSE, values(&Outcome::mean_ms)));
        rows.push(Row::new(&name, place(), RESPONSE_P99, values(&|outcome| outcome.quantile_ms(0.99))));
    }
    let capacity = format!("{} % writes", measured.writes);
    rows.push(Row::new(&capacity, place(), CAPACITY, vec![measured.capacity.rate]));
    rows.push(Row::new(&capacity, place(), SERVED, vec![measured.capacity.served]));
    rows
}
