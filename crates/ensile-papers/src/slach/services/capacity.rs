//! `slach table2`: memory and throughput of each service (SLACH §6.1, table 2).
//!
//! ```text
//! back to back   so many requests under way all the time: what is served is 95 % of a rate of which 5 % would be lost
//! open           arrivals at a rate, whatever the service does: the rate at which 5 % come later than a time-out
//! ```
//! The open rate is the capacity, unless `--capacity` registers a capacity. The loads of further figures are shares of
//! the capacity. The search for the open rate begins at the back-to-back rate, and the table shows the two rates.
//!
//! Neighbours: [`super::open_loop`] keeps the service busy; [`lossy_rate`] searches the open rate.

use ensile_base::random::Random;
use ensile_bench::Result;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::machine;
use ensile_bench::number::grouped;
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_services::command::ServiceKind;

use super::load::run;
use super::open_loop::{Load, Target, make, saturated};
use super::{ServiceProcess, name_of, target};
use crate::slach::arguments::SlachArguments;
use crate::slach::arguments::services::ServicesArguments;
use crate::slach::lossy_rate::{SERVED_SHARE, lossy_rate};

const FOLDER: &str = "slach-table2";

const READS: (&str, &str) = ("reads at most", "requests/s");
const WRITES: (&str, &str) = ("writes at most", "requests/s");
const READS_SERVED: (&str, &str) = ("reads back to back, over 0.95", "requests/s");
const WRITES_SERVED: (&str, &str) = ("writes back to back, over 0.95", "requests/s");
const DATA: (&str, &str) = ("data, in memory", "MB");
const OBJECT: (&str, &str) = ("an object, in memory", "bytes");

/// Capacity of a service in requests a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// Rate at which the service loses 5 %, or the registered rate, in requests a second.
    pub(super) rate: f64,
    /// Back-to-back rate divided by 0.95, in requests a second.
    pub(super) served: f64,
}

impl Capacity {
    /// The two rates as text.
    pub(super) fn words(&self, services: &ServicesArguments) -> String {
        let whence = match services.capacity {
            Some(_) => "as it was said (--capacity)".to_owned(),
            None => format!("at which 5 % are lost (later than {} ms)", services.capacity_timeout_ms),
        };
        let (rate, served) = (grouped(self.rate), grouped(self.served));
        format!("{rate} requests/s, {whence}; served back to back, over {SERVED_SHARE}: {served}")
    }
}

/// Capacity for a load with `writes` percent of writes: the registered rate, or else the result of the search.
pub(super) fn capacity(
    services: &ServicesArguments,
    registered: Option<u64>,
    (target, writes): (&Target, u64),
    random: &mut Random,
) -> Result<Capacity> {
    let served = saturated(target, writes, services.load_seconds, random)? / SERVED_SHARE;
    if let Some(registered) = registered {
        return Ok(Capacity { rate: registered as f64, served });
    }
    let probed = Target { timeout_nanos: services.capacity_timeout_ms * 1_000_000, ..target.clone() };
    let rate = lossy_rate(served.max(1.0), |rate| {
        let load = Load { rate: rate.max(1.0) as u64, writes };
        Ok(run(&probed, load, services.capacity_seconds, random)?.loss_percent())
    })?;
    Ok(Capacity { rate, served })
}

/// Measures the services one after the other.
pub(crate) fn table2(arguments: &SlachArguments) -> Result<(Figure, bool, String)> {
    let options = &arguments.services;
    let mut progress = Progress::new(arguments.rounds);
    let (mut rows, mut random) = (Vec::new(), Random::from_seed(arguments.seed));
    for service in [ServiceKind::Ups, ServiceKind::His] {
        let name = name_of(service).to_uppercase();
        let folder = fresh_folder(&arguments.data, FOLDER)?;
        let (process, address) = ServiceProcess::begin(service, &folder, &super::relaxed(options))?;
        let empty = machine::memory_of(process.id()).0;
        let target = target(arguments, service, address);
        progress.say(&format!("{name}: making {} objects", grouped(arguments.objects as f64)));
        make(&target)?;
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for round in 0..arguments.rounds {
            progress.say(&format!("{name}: round {} of {}", round + 1, arguments.rounds));
            reads.push(capacity(options, None, (&target, 0), &mut random)?);
            writes.push(capacity(options, None, (&target, 100), &mut random)?);
        }
        let data = machine::memory_of(process.id()).0.saturating_sub(empty) as f64;
        let row = |metric, values| Row::new(&name, Place::Bar(name.clone()), metric, values);
        let of = |all: &[Capacity], of: fn(&Capacity) -> f64| all.iter().map(of).collect();
        rows.extend([
            row(READS, of(&reads, |capacity| capacity.rate)),
            row(WRITES, of(&writes, |capacity| capacity.rate)),
            row(READS_SERVED, of(&reads, |capacity| capacity.served)),
            row(WRITES_SERVED, of(&writes, |capacity| capacity.served)),
            row(DATA, vec![data / 1e6]),
            row(OBJECT, vec![data / arguments.objects as f64]),
        ]);
        process.kill()?;
        std::fs::remove_dir_all(&folder)
            .map_err(ensile_bench::Failure::io(format!("removing {}", folder.display())))?;
    }
    progress.clear();
    let title = format!(
        "Services with {} objects, one thread, relaxed, over loopback: where 5 % of the requests are lost",
        grouped(arguments.objects as f64)
    );
    let notes = vec![format!(
        "at most: 5 % of an open load come later than {} ms, in runs of {} s",
        options.capacity_timeout_ms, options.capacity_seconds
    )];
    let said = notes.iter().map(|note| format!("  {note}\n")).collect();
    Ok((Figure { name: "table2", title, drawn: READS, notes, rows, ..Figure::default() }, true, said))
}
