//! SLACH's services (§5) in processes of their own: the experiments on services, and the process of a service.
//!
//! ```text
//! load    arrivals at a rate -> connections over loopback -> losses and responses
//! others  an open load, or as many requests as the service takes: `capacity`, `figure6`, `beside_checkpoint`, `saturation`
//! kills   exercise -> clients over loopback -> the process is killed -> it recovers -> each object is looked at
//! ```
//! Neighbours: `ensile-services` has servers and clients; [`load`] and [`kills`] use [`ServiceProcess`].

pub(super) mod beside_checkpoint;
pub(super) mod capacity;
mod clients;
pub(super) mod figure6;
pub(super) mod kills;
pub(super) mod load;
mod open_loop;
mod requests;
pub(super) mod saturation;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use ensile_bench::{Failure, Result};
use ensile_services::command::{self, ServeArguments, ServiceKind};
use ensile_services::server::threads::ReadyServer;

use super::arguments::SlachArguments;
use super::arguments::services::ServicesArguments;
use open_loop::Target;
use requests::Requests;

/// A choice's name on the command line.
fn name_of(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Options of a service with relaxed replies and with checkpoints only on demand.
fn relaxed(services: &ServicesArguments) -> Vec<String> {
    let loops = services.loops.to_string();
    ["--durability", "relaxed", "--checkpoint-on-demand", "--loops", &loops].map(str::to_owned).to_vec()
}

/// Options of a service without a log.
fn no_log(services: &ServicesArguments) -> Vec<String> {
    ["--no-log", "--loops", &services.loops.to_string()].map(str::to_owned).to_vec()
}

/// A service at an address, with the requests of the options.
fn target(arguments: &SlachArguments, service: ServiceKind, address: SocketAddr) -> Target {
    let services = &arguments.services;
    Target {
        address,
        requests: Requests::of(service, services.value_bytes),
        objects: arguments.objects,
        connections: services.connections as usize,
        timeout_nanos: services.timeout_ms * 1_000_000,
    }
}

/// A service in a process of its own. A drop kills the process.
pub(super) struct ServiceProcess {
    process: Child,
}

impl ServiceProcess {
    /// Starts a service: this program again, with these options.
    pub(super) fn start(service: ServiceKind, data: &Path, options: &[String]) -> Result<Self> {
        let program = std::env::current_exe().map_err(Failure::io("finding this program"))?;
        let kind = name_of(service);
        let process = Command::new(program)
            .args(["slach-service", &kind, "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::io("starting a service"))?;
        Ok(Self { process })
    }

    /// Waits until the service serves; returns its address.
    pub(super) fn address(&mut self) -> Result<SocketAddr> {
        let told = self.process.stdout.take().expect("it is piped, and asked once");
        let mut line = String::new();
        BufReader::new(told).read_line(&mut line).map_err(Failure::io("reading a service's address"))?;
        let failed = |_| Failure::Usage("the service did not begin: what it says stands above".to_owned());
        line.trim().parse().map_err(failed)
    }

    /// Starts a service, and waits until it serves.
    fn begin(service: ServiceKind, data: &Path, options: &[String]) -> Result<(Self, SocketAddr)> {
        let mut process = Self::start(service, data, options)?;
        let address = process.address()?;
        Ok((process, address))
    }

    /// The number of the process.
    fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends the process with SIGKILL.
    pub(super) fn kill(mut self) -> Result<()> {
        self.process.kill().map_err(Failure::io("killing a service"))?;
        self.process.wait().map_err(Failure::io("waiting for a killed service"))?;
        Ok(())
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The service's process: serves until a kill or a request to end.
pub(crate) fn serve(arguments: &ServeArguments) -> Result<()> {
    if let Some(warning) = arguments.warning() {
        eprintln!("{warning}");
    }
    let ready = |server: ReadyServer<'_>| {
        if let Some(why) = server.unreachable {
            eprintln!("{why}");
        }
        println!("{}", server.address);
        std::io::stdout().flush()
    };
    command::run(arguments, ready, |notice| eprintln!("{notice}")).map_err(Failure::io("serving"))
}
