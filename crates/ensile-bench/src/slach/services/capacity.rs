//! `slach table2`: what each service holds, and how many requests a second it takes (SLACH §6.1, table 2).
//!
//! The capacity is the rate at which 5 % of the requests are lost: what is served while there is always more to do is
//! 95 % of it.
//!
//! Neighbours: [`super::open_loop`] keeps the service busy; figures over loopback are by the capacity found here.

use ensile_base::random::Random;
use ensile_services::command::ServiceKind;

use super::open_loop::{Target, make, saturated};
use super::{ServiceProcess, name_of, target};
use crate::failure::Result;
use crate::figure::{Figure, Place, Row};
use crate::machine;
use crate::number::grouped;
use crate::progress::Progress;
use crate::slach::arguments::SlachArguments;
use crate::system::fresh_folder;

const FOLDER: &str = "slach-table2";
/// What is served, of the rate at which the rest is lost.
const SERVED_SHARE: f64 = 0.95;

const READS: (&str, &str) = ("reads at most", "requests/s");
const WRITES: (&str, &str) = ("writes at most", "requests/s");
const DATA: (&str, &str) = ("data, in memory", "MB");
const OBJECT: (&str, &str) = ("an object, in memory", "bytes");

/// Requests a second at which 5 % are lost.
pub(super) fn capacity(target: &Target, writes: u64, seconds: f64, random: &mut Random) -> Result<f64> {
    Ok(saturated(target, writes, seconds, random)? / SERVED_SHARE)
}

/// Measures each service by itself.
pub(crate) fn table2(arguments: &SlachArguments) -> Result<(Figure, bool, String)> {
    let options = &arguments.services;
    let mut progress = Progress::new(arguments.rounds);
    let (mut rows, mut random) = (Vec::new(), Random::seeded(arguments.seed));
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
            reads.push(capacity(&target, 0, options.load_seconds, &mut random)?);
            writes.push(capacity(&target, 100, options.load_seconds, &mut random)?);
        }
        let data = machine::memory_of(process.id()).0.saturating_sub(empty) as f64;
        let row = |metric, values| Row::new(&name, Place::Bar(name.clone()), metric, values);
        rows.extend([
            row(READS, reads),
            row(WRITES, writes),
            row(DATA, vec![data / 1e6]),
            row(OBJECT, vec![data / arguments.objects as f64]),
        ]);
        process.kill()?;
        std::fs::remove_dir_all(&folder)
            .map_err(crate::failure::Failure::io(format!("removing {}", folder.display())))?;
    }
    progress.clear();
    let title = format!(
        "Services with {} objects, one thread, relaxed, over loopback: where 5 % of the requests are lost",
        grouped(arguments.objects as f64)
    );
    Ok((Figure { name: "table2", title, drawn: READS, rows, ..Figure::default() }, true, String::new()))
}
