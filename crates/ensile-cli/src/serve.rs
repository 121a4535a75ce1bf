//! `ensile serve`: a database in a folder, for redis clients.
//!
//! ```text
//! configuration file < environment < options -> settings -> database -> server, until a signal or SHUTDOWN
//! ```
//! Invariants:
//! - Every check that refuses a start comes before the open of the folder, so a refused start changes nothing there.
//! - The server listens elsewhere than on loopback only with a password.
//! - The port opens before the load. Requests over data are refused with LOADING meanwhile.
//! - Standard output has one line, the address, once the data is loaded. Everything else goes to standard error.
//!
//! Exit codes: 0 if everything that was replied is durable; 1 if the folder is damaged; 2 if the server did not start;
//! 3 if the server ended early, or not everything could be made durable.
//!
//! Neighbours: `settings` has the settings and their sources; `database` opens the folder; `ensile-server` serves.

mod config_file;
mod database;
mod notices;
mod password;
mod settings;
mod shown_load;
mod socket_file;
mod tls_files;
mod values;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use ensile::Error;
use ensile_base::sync::{AtomicBool, Ordering};
use ensile_server::TransportChoice;
use ensile_server::{
    ListeningServer, LoadProgress, LoadedDatabase, LoadingError, Server, ServerBuilder, ServerConfig,
};
use ensile_serving::program::{begin_program, start_notices};

use database::{OpenedDatabase, open_database};
use notices::notify;
pub(crate) use password::print_hash;
use settings::{GivenSettings, ServeSettings};
use socket_file::SocketFile;

use crate::folder::output::{FAILED, LACKS_RESULTS, not_made};

/// `ensile serve`.
#[derive(Debug, Args)]
#[command(after_help = SOURCES)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    given: GivenSettings,
    /// Configuration file, in the form of redis.conf: `port 6379`, `appendfsync always`, `requirepass "my secret"`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

const SOURCES: &str = "Each option is also a name of the configuration file (`port 6379`) and an environment variable \
(ENSILE_PORT=6379). An option counts before a variable, and a variable before the file. No option has the password itself: \
give --requirepass-file, ENSILE_PASSWORD, or `requirepass` in the file.

Exit codes: 0 after SHUTDOWN, SIGTERM or SIGINT, with everything durable; 1 if the folder is damaged; 2 if the server did \
not start; 3 if the server ended early, or not everything could be made durable.";

/// Reason why the server ended.
enum ServeFailure {
    /// Nothing was opened. The text has the remedy.
    NotStarted(String),
    /// The folder could not be opened.
    NotOpened(Error),
    /// The server had started.
    Ended(io::Error),
}

/// Serves until the end, and prints the reason of a failure.
pub(crate) fn run(arguments: ServeCommand) -> ExitCode {
    let ServeCommand { given, config } = arguments;
    let settings = match ServeSettings::collect(given, config) {
        Ok(settings) => settings,
        Err(why) => {
            tell(&why);
            return ExitCode::from(FAILED);
        }
    };
    let settings = Arc::new(settings);
    match serve(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(ServeFailure::NotStarted(why)) => {
            tell(&why);
            ExitCode::from(FAILED)
        }
        Err(ServeFailure::NotOpened(error)) => not_made(&settings.data, &error),
        Err(ServeFailure::Ended(error)) => {
            tell(&error.to_string());
            ExitCode::from(LACKS_RESULTS)
        }
    }
}

/// Writes a line to standard error. Without a reader the server goes on.
fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "ensile: {line}");
}

/// Sets the times of scripts and of slow requests that are given.
fn with_times(mut server: ServerBuilder, settings: &ServeSettings) -> ServerBuilder {
    if let Some(time) = settings.busy_time {
        server = server.busy_reply_threshold(time);
    }
    if let Some(longest) = settings.script_time {
        server = server.script_time_limit(longest);
    }
    if let Some(micros) = settings.slow_micros {
        server = server.slowlog_log_slower_than(micros);
    }
    if let Some(requests) = settings.slow_requests {
        server = server.slowlog_max_len(requests);
    }
    server
}

fn serve(settings: &Arc<ServeSettings>) -> Result<(), ServeFailure> {
    let not_started = |error: io::Error| ServeFailure::NotStarted(error.to_string());
    let config = ServerConfig {
        address: settings.address,
        tls: settings.tls.clone(),
        unix: None,
        loops: settings.loops,
        transport: TransportChoice::Auto,
        idle: settings.idle,
        keepalive: settings.keepalive,
        client_memory: settings.client_memory,
        ended: Some(begin_program().map_err(not_started)?),
        ending: || notify("STOPPING=1"),
        tell,
    };
    config.check().map_err(not_started)?;
    let socket_file =
        settings.unix_socket.as_deref().map(|path| SocketFile::bind(path, settings.unix_socket_mode));
    let socket_file = socket_file.transpose().map_err(ServeFailure::NotStarted)?;
    let config = ServerConfig { unix: socket_file.as_ref().map(SocketFile::socket), ..config };
    let server = with_times(Server::builder_of_loading(), settings)
        .appendfsync(settings.appendfsync)
        .password(settings.password.as_ref().map_or(&[], |password| password.bytes()))
        .users(settings.users.clone())
        .keep_password(!settings.address.ip().is_loopback())
        .multi_rollback(settings.multi_rollback)
        .admin_port(settings.admin.clone())
        .build_loading()
        .map_err(ServeFailure::NotOpened)?;
    let ready = |server: ListeningServer<'_>| {
        start_notices(server.transport, server.client_memory).iter().for_each(|line| tell(line));
        if let Some(address) = server.tls_address {
            tell(&format!("clients with TLS at {address}"));
        }
        Ok(())
    };
    let opened = Arc::clone(settings);
    let load = move |progress: &Arc<LoadProgress>| {
        let OpenedDatabase { db, always_durable, notices } = open_database(&opened, progress)?;
        notices.iter().for_each(|notice| tell(notice));
        Ok::<_, Error>(LoadedDatabase { db, always_durable })
    };
    let is_loaded = Arc::new(AtomicBool::new(false));
    let has_loaded = Arc::clone(&is_loaded);
    let loaded = move |address: SocketAddr| {
        // Relaxed: the flag chooses an exit code only.
        has_loaded.store(true, Ordering::Relaxed);
        // Other programs wait for this line.
        notify("READY=1\nSTATUS=serves");
        writeln!(io::stdout(), "{address}")?;
        io::stdout().flush()
    };
    server.serve(config, ready, load, loaded).map_err(|error| match error {
        LoadingError::NotLoaded(error) => ServeFailure::NotOpened(error),
        // Relaxed: see the store.
        LoadingError::Ended(error) if is_loaded.load(Ordering::Relaxed) => ServeFailure::Ended(error),
        LoadingError::Ended(error) => ServeFailure::NotStarted(error.to_string()),
    })
}
