//! The `ensile-service` command: which service, of which folder, where, and how durable.
//!
//! Neighbours: the binary parses these options, the bench hands them to a process of its own;
//! [`crate::server::threads`] serves.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ensile_objects::{CheckpointPolicy, ObjectDurability, ObjectsBuilder, ObjectsResult};

use crate::his::HostService;
use crate::partition::Partition;
use crate::pht::PersistentTable;
use crate::server::threads::{ServerConfig, serve};
use crate::ups::UrlService;

/// The services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServiceKind {
    /// A persistent hash table under redis' commands.
    Pht,
    /// Properties of URLs, of one partition or all.
    Ups,
    /// Information on web hosts.
    His,
}

/// When replies are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReplyDurability {
    /// Once what they rest on is on disk.
    Strict,
    /// At once: a crash may lose the last fraction of a second.
    Relaxed,
}

/// How a service is run.
#[derive(Clone, Debug, Args)]
pub struct ServeArguments {
    /// Which service
    #[arg(value_enum)]
    pub service: ServiceKind,
    /// Folder of its objects; it is made if it is not there
    #[arg(long)]
    pub data: PathBuf,
    /// Where clients connect; port 0 is any free one
    #[arg(long, default_value = "127.0.0.1:6379")]
    pub listen: SocketAddr,
    /// When replies are sent
    #[arg(long, value_enum, default_value_t = ReplyDurability::Strict)]
    pub durability: ReplyDurability,
    /// Threads that serve
    #[arg(long, default_value_t = 1)]
    pub loops: usize,
    /// Milliseconds between two epochs: how long a relaxed reply may take to be durable
    #[arg(long, default_value_t = 40)]
    pub epoch_ms: u64,
    /// A checkpoint after this many milliseconds if the log has grown; without this after ten seconds
    #[arg(long)]
    pub checkpoint_ms: Option<u64>,
    /// ups: this process' number among its partitions, from 0
    #[arg(long, default_value_t = 0)]
    pub partition: usize,
    /// ups: how many partitions there are
    #[arg(long, default_value_t = 1)]
    pub partitions: usize,
}

impl ServeArguments {
    fn objects(&self) -> ObjectsBuilder {
        let durability = match self.durability {
            ReplyDurability::Strict => ObjectDurability::Strict,
            ReplyDurability::Relaxed => ObjectDurability::Relaxed,
        };
        let mut policy = CheckpointPolicy::default();
        if let Some(millis) = self.checkpoint_ms {
            policy.interval = Some(Duration::from_millis(millis));
        }
        let objects = ObjectsBuilder::new(&self.data).durability(durability).policy(&policy);
        objects.epoch_interval(Duration::from_millis(self.epoch_ms))
    }
}

fn opened<S>(service: ObjectsResult<S>) -> io::Result<Arc<S>> {
    service.map(Arc::new).map_err(io::Error::other)
}

/// Opens the service's folder and serves until a client asks for the end. `ready` is told the address.
///
/// # Errors
/// The folder or the address cannot be had, and why; or not everything could be made durable.
pub fn run(arguments: &ServeArguments, ready: impl FnOnce(SocketAddr) -> io::Result<()>) -> io::Result<()> {
    let config = ServerConfig {
        address: arguments.listen,
        is_strict: arguments.durability == ReplyDurability::Strict,
        loops: arguments.loops,
    };
    let objects = arguments.objects();
    match arguments.service {
        ServiceKind::Pht => serve(opened(PersistentTable::open(objects))?, config, ready),
        ServiceKind::Ups => {
            let partition = Partition::new(arguments.partition, arguments.partitions);
            let none = || io::Error::other("--partition is a number below --partitions");
            let partition = partition.ok_or_else(none)?;
            serve(opened(UrlService::open(objects, partition))?, config, ready)
        }
        ServiceKind::His => serve(opened(HostService::open(objects))?, config, ready),
    }
}
