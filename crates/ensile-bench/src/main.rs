//! The `ensile-bench` command.
//!
//! Neighbours: [`ensile_bench::run`] does what the command line asks for, after [`ensile_bench::prepare`]; `ensile` is
//! the command of operators.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use ensile_bench::{Bench, Failure};

/// The laboratory of Ensile: workloads, crash tests, limits and recovery. `ensile-papers` has the papers' experiments.
#[derive(Debug, Parser)]
#[command(name = "ensile-bench", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    bench: Box<Bench>,
}

const EXAMPLES: &str = "Examples:
  ensile-bench tpcc --crash-after 3       run TPC-C with its log, kill it, recover, check
  ensile-bench tpcc --check               TPC-C with and without log, side by side
  ensile-bench ycsb --records 10000000    YCSB beside a bare key-value store and std's BTreeMap
  ensile-bench recovery log               recovery time of a killed database, as CSV, JSON and SVG
  ensile-bench help ycsb                  all options of one benchmark";

/// Exit code for arguments that cannot be carried out; clap's own.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let bench = Arguments::parse().bench;
    match ensile_bench::prepare(&bench).and_then(|()| ensile_bench::run(&bench)) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("ensile-bench: {failure}");
            ExitCode::from(if matches!(failure, Failure::Usage(_)) { USAGE } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn the_command_line_is_sound_and_its_help_names_every_benchmark() {
        let mut command = Arguments::command();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        for name in ["ycsb", "tpcc", "latency", "snapshots", "open-transaction", "limits", "recovery"] {
            assert!(help.contains(name), "{name} in {help}");
        }
        assert!(!help.contains("victim"), "the victims are not for people");
    }
}
