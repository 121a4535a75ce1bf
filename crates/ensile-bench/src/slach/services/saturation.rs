//! UPS in a process of its own, kept busy: how many requests a second it takes.
//!
//! Neighbours: [`super::open_loop`] keeps it busy; [`crate::slach::logging`] compares.

use std::path::Path;

use ensile_base::random::Random;
use ensile_services::command::ServiceKind;

use super::open_loop::{Target, make, saturated};
use super::{ServiceProcess, target};
use crate::failure::Result;
use crate::slach::arguments::SlachArguments;

/// A service, and how it is asked.
pub(in crate::slach) struct Saturation {
    process: ServiceProcess,
    target: Target,
}

impl Saturation {
    /// Starts it with these options, and makes its URLs.
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

    /// Requests a second that it takes.
    pub(in crate::slach) fn rate(&self, writes: u64, seconds: f64, random: &mut Random) -> Result<f64> {
        saturated(&self.target, writes, seconds, random)
    }

    pub(in crate::slach) fn end(self) -> Result<()> {
        self.process.kill()
    }
}
