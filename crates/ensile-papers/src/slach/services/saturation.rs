//! Throughput of a saturated UPS service in a separate process, in requests a second.
//!
//! Neighbours: [`super::open_loop`] saturates the service; [`crate::slach::logging`] compares the throughputs.

use std::path::Path;

use ensile_base::random::Random;
use ensile_bench::Result;
use ensile_services::command::ServiceKind;

use super::open_loop::{Target, make, saturated};
use super::{ServiceProcess, target};
use crate::slach::arguments::SlachArguments;

/// A running service and the target of the requests.
pub(in crate::slach) struct Saturation {
    process: ServiceProcess,
    target: Target,
}

impl Saturation {
    /// Starts the service with the options and creates the URLs.
    pub(in crate::slach) fn begin(arguments: &SlachArguments, data: &Path, options: &[&str]) -> Result<Self> {
        let mut words: Vec<String> = options.iter().map(|&word| word.to_owned()).collect();
        words.extend(["--loops".to_owned(), arguments.services.loops.to_string()]);
        if !options.contains(&"--no-log") {
            words.push("--checkpoint-on-demand".to_owned());
        }
        let (process, address) = ServiceProcess::begin(ServiceKind::Ups, data, &words)?;
        let target = target(arguments, ServiceKind::Ups, address);
        make(&target)?;
        Ok(Self { process, target })
    }

    /// Throughput of the service in requests a second; `writes` is the share of writes in percent.
    pub(in crate::slach) fn rate(&self, writes: u64, seconds: f64, random: &mut Random) -> Result<f64> {
        saturated(&self.target, writes, seconds, random)
    }

    pub(in crate::slach) fn end(self) -> Result<()> {
        self.process.kill()
    }
}
