//! The `ensile-papers` command.
//!
//! Neighbours: [`ensile_papers::run`] does what the command line asks for; `ensile-bench` is the command of the
//! workloads.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use ensile_bench::Failure;
use ensile_papers::Paper;

/// The experiments of Silo's, SiloR's, SIREN's and SLACH's papers.
#[derive(Debug, Parser)]
#[command(name = "ensile-papers", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    paper: Box<Paper>,
}

const EXAMPLES: &str = "Examples:
  ensile-papers silo fig4                  a figure of Silo's evaluation, as CSV, JSON and SVG
  ensile-papers help silo                  all options of one paper";

/// Exit code for arguments that cannot be carried out; clap's own.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    match ensile_papers::run(&Arguments::parse().paper) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("ensile-papers: {failure}");
            ExitCode::from(if matches!(failure, Failure::Usage(_)) { USAGE } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn the_command_line_is_sound_and_its_help_names_every_paper() {
        let mut command = Arguments::command();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        for name in ["silo", "silor", "siren", "slach"] {
            assert!(help.contains(name), "{name} in {help}");
        }
        assert!(!help.contains("victim"), "the victims are not for people");
    }
}
