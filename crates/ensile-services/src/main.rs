//! The `ensile-service` command: runs a service of SLACH's paper (§5).
//!
//! Neighbours: [`ensile_services::command`] has the options and runs the service.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args as _, Command, CommandFactory as _, FromArgMatches as _, Parser};
use ensile_services::command::{self, ServeArguments, ServiceCheckArguments};
use ensile_services::server::threads::ReadyServer;
use ensile_serving::program::start_notices;

/// Services that keep an application's own objects in memory, persistent, and speak RESP.
#[derive(Debug, Parser)]
#[command(name = "ensile-service", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct ServiceCommandLine {
    #[command(flatten)]
    serve: ServeArguments,
}

const CHECK: &str = "check";
const ABOUT_CHECK: &str = "Replay recorded folders against this program, twice, and name what is damaged, is not \
    understood or comes out differently; nothing is changed. Exit codes: 0 whole, 1 not, 2 untold";

/// Command line to serve, without a subcommand, or to check.
fn command_line() -> Command {
    let check = ServiceCheckArguments::augment_args(Command::new(CHECK).about(ABOUT_CHECK));
    ServiceCommandLine::command()
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .subcommand(check)
}

const EXAMPLES: &str = "Examples:
  ensile-service pht --data table.ensile                      a hash table for redis-cli, at port 6379
  ensile-service pht --data table.ensile --durability process --loops 2
  ensile-service pht --data table.ensile --checkpoint-records 1000000
  ensile-service ups --data urls.ensile --durability relaxed --adaptive 56000
  ensile-service his --data hosts.ensile --recovery-ms 5000
  ensile-service pht --data cache.ensile --no-log             only what a checkpoint has is kept
  ensile-service pht --data table.ensile --ship-to /mnt/shared  another machine can take over
  ensile-service ups --data urls-0.ensile --listen 127.0.0.1:7000 --partition 0 --partitions 2
  ensile-service his --data hosts.ensile --listen 127.0.0.1:7100
  ensile-service check pht table.ensile                       replay a recorded folder against this program";

/// Tells people something. Without a listener the service goes on.
fn tell(what: &std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "ensile-service: {what}");
}

fn main() -> ExitCode {
    let matches = command_line().get_matches();
    if let Some((CHECK, matches)) = matches.subcommand() {
        return match ServiceCheckArguments::from_arg_matches(matches) {
            Ok(arguments) => command::check(arguments),
            Err(error) => error.exit(),
        };
    }
    let arguments = match ServiceCommandLine::from_arg_matches(&matches) {
        Ok(line) => line.serve,
        Err(error) => error.exit(),
    };
    if let Some(warning) = arguments.warning() {
        tell(&format_args!("{warning}"));
    }
    let ready = |server: ReadyServer<'_>| {
        for line in start_notices(server.transport, server.client_memory) {
            tell(&format_args!("{line}"));
        }
        for what in [server.name_given, server.not_proven, server.unreachable].into_iter().flatten() {
            tell(&format_args!("{what}"));
        }
        // Other programs wait for this line.
        writeln!(io::stdout(), "{}", server.address)?;
        io::stdout().flush()
    };
    match command::run(&arguments, ready, |notice| tell(&format_args!("{notice}"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use ensile_services::command::{ReplyDurability, ServiceKind, SocketTransport};

    use super::command_line;

    #[test]
    fn the_command_line_is_sound_and_its_help_names_every_service() {
        let mut command = command_line();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        for service in ServiceKind::value_variants() {
            let name = service.to_possible_value().expect("none is hidden").get_name().to_owned();
            assert!(help.contains(&format!("- {name}:")), "{name} in {help}");
        }
        for durability in ReplyDurability::value_variants() {
            let name = durability.to_possible_value().expect("none is hidden").get_name().to_owned();
            assert!(help.contains(&format!("- {name}:")), "{name} in {help}");
        }
        for transport in SocketTransport::value_variants() {
            let name = transport.to_possible_value().expect("none is hidden").get_name().to_owned();
            assert!(help.contains(&format!("- {name}:")), "{name} in {help}");
        }
    }
}
