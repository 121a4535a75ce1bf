//! The `ensile` command.
//!
//! Neighbours: `ensile bench` is the crate `ensile-bench`; `ensile verify`, `ensile inspect`, `ensile adopt` and
//! `ensile lease` are `folder`.
#![forbid(unsafe_code)]

mod folder;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ensile_bench::{Bench, Failure};

/// Ensile: an in-memory database, serializable on all cores, durable at in-memory speed.
#[derive(Debug, Parser)]
#[command(name = "ensile", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  ensile bench tpcc --crash-after 3       run TPC-C with its log, kill it, recover, check
  ensile bench tpcc --check               TPC-C with and without log, side by side
  ensile bench ycsb --records 10000000    YCSB beside a bare key-value store and std's BTreeMap
  ensile bench silo fig4                  a figure of Silo's evaluation, as CSV, JSON and SVG
  ensile verify data                      is every byte of this database whole?
  ensile inspect data                     which files, epochs and tables are in it?
  ensile inspect data --changes           what its log has changed, as lines of JSON
  ensile adopt copy                       make a copied folder a database of its own
  ensile lease data -- ls -l data         run a command that reads its files while it is open
  ensile help bench ycsb                  all options of one benchmark";

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure: workloads, crash tests, latencies.
    #[command(subcommand, arg_required_else_help = true)]
    Bench(Box<Bench>),
    /// Read every byte of a database's folder, without opening it, and say whether it is whole. Exit code 0: whole;
    /// 1: damaged; 2: it cannot be told.
    Verify(folder::VerifyArguments),
    /// Explain a database's folder: generations, checkpoint, files, tables and their sizes.
    Inspect(folder::InspectArguments),
    /// Make a database's folder that was copied, restored or moved a database of its own: an open refuses it until then. The original must not
    /// share folders with it.
    Adopt(folder::AdoptArguments),
    /// Run a command that reads a database's files while a process may have it open: files that a checkpoint makes void
    /// are kept meanwhile, for a minute at most. Exit code: the command's; 3 if it succeeded and files were removed all
    /// the same.
    Lease(folder::lease::LeaseArguments),
}

/// Exit code for arguments that cannot be carried out; clap's own.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let bench = match Arguments::parse().command {
        Command::Bench(bench) => bench,
        Command::Verify(arguments) => return folder::verify(&arguments),
        Command::Inspect(arguments) => return folder::inspect(&arguments),
        Command::Adopt(arguments) => return folder::adopt(&arguments),
        Command::Lease(arguments) => return folder::lease::run(&arguments),
    };
    match ensile_bench::run(&bench) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("ensile: {failure}");
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
        let bench = command.find_subcommand_mut("bench").expect("it is there");
        let help = bench.render_long_help().to_string();
        for name in ["ycsb", "tpcc", "latency", "snapshots", "open-transaction", "silo", "silor"] {
            assert!(help.contains(name), "{name} in {help}");
        }
        assert!(!help.contains("victim"), "the victim is not for people");
    }
}
