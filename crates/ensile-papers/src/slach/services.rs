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

use clap::{Args, ValueEnum, value_parser};
use ensile_bench::{Failure, Result};
use ensile_services::command::{self, ReplyDurability, ServeArguments, ServiceKind};
use ensile_services::server::threads::ReadyServer;

use super::arguments::SlachArguments;
use open_loop::Target;
use requests::Requests;

/// Options of the experiments on services.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServicesArguments {
    /// kills, load: the service
    #[arg(long, value_enum, default_value_t = ServiceKind::Pht)]
    pub(crate) service: ServiceKind,
    /// kills, load: threads of the service
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..=64))]
    pub(crate) loops: u64,
    /// kills: number of kills
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) kills: u32,
    /// kills: a process lives for up to this many milliseconds behind its first reply
    #[arg(long, default_value_t = 300, value_parser = value_parser!(u64).range(1..=3_600_000))]
    pub(crate) life_ms: u64,
    /// kills: recoveries that are killed before each checked recovery
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(0..=100))]
    pub(crate) kill_in_recovery: u32,
    /// kills: clients, each with a connection and 24 objects of its own
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u64).range(1..=256))]
    pub(crate) clients: u64,
    /// kills: milliseconds between checkpoints
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u64).range(1..=3_600_000))]
    pub(crate) checkpoint_ms: u64,
    /// load: requests a second, a run for each
    #[arg(long = "rate", default_value = "5000", value_delimiter = ',', value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub(crate) rates: Vec<u64>,
    /// load: percent of writes, a run for each
    #[arg(long, default_value = "20,50,80", value_delimiter = ',', value_parser = value_parser!(u64).range(0..=100))]
    pub(crate) writes: Vec<u64>,
    /// load: seconds of the measurement; an unmeasured fifth of this time goes before
    #[arg(long, default_value_t = 5.0, value_parser = positive_seconds)]
    pub(crate) load_seconds: f64,
    /// load: connections
    #[arg(long, default_value_t = 16, value_parser = value_parser!(u64).range(1..=1_000))]
    pub(crate) connections: u64,
    /// load, figures 6 and 7, response: a request without a good reply for this many milliseconds is lost
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u64).range(1..=600_000))]
    pub(crate) timeout_ms: u64,
    /// figures 6 and 7, response: the capacity in requests a second, of which loads are shares; measured if absent
    #[arg(long, value_name = "RATE", value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub(crate) capacity: Option<u64>,
    /// table2, figures 6 and 7, response: milliseconds after which a request is lost in the search for the capacity
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..=600_000))]
    pub(crate) capacity_timeout_ms: u64,
    /// table2, figures 6 and 7, response: seconds of each rate in the search for the capacity, at least twenty times
    /// the time-out; an unmeasured fifth of this time goes before
    #[arg(long, default_value_t = 2.0, value_parser = positive_seconds)]
    pub(crate) capacity_seconds: f64,
    /// load: bytes of a value of the hash table
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(0..=16 << 20))]
    pub(crate) value_bytes: u64,
    /// Moment of replies: kills strict or process, without this option strict; load without this option relaxed
    #[arg(long, value_enum)]
    pub(crate) durability: Option<ReplyDurability>,
    /// load of his: the daily burst of this many hosts comes in the midst of each run, as fast as possible, by a
    /// separate client
    #[arg(long, default_value_t = 0, value_name = "HOSTS", value_parser = value_parser!(u64).range(0..=1_000_000_000))]
    pub(crate) burst: u64,
    /// load: nothing is logged (the paper's base, beside its log)
    #[arg(long, conflicts_with = "durability")]
    pub(crate) no_log: bool,
    /// load: address of a running service, in place of a started one
    #[arg(long)]
    pub(crate) address: Option<SocketAddr>,
}

pub(super) fn positive_seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    if seconds > 0.0 && seconds < 1e6 { Ok(seconds) } else { Err("it is to be above zero".to_owned()) }
}

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
