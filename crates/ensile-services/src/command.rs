//! The `ensile-service` command: service, folder, address and durability; and the check of recorded folders.
//!
//! Neighbours: the binary parses these options, the bench hands them to a process of its own; `checkpoints` has the
//! options for the triggers of checkpoints; [`crate::server::threads`] serves.

mod checkpoints;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum, value_parser};
use ensile_durability::DurabilityError;
use ensile_net::KEEPALIVE_SECONDS_MAX;
use ensile_objects::{
    ApplicationLog, FolderCheck, ObjectDurability, ObjectsBuilder, ObjectsResult, SharedFolder,
    ShippingConfig, check_folders,
};
use ensile_serving::program::{IDLE_SECONDS_MAX, begin_program, duration_of, find_address};

pub use checkpoints::CheckpointArguments;

use crate::his::{HostService, Hosts};
use crate::partition::Partition;
use crate::pht::{PersistentTable, PhtBuckets};
use crate::server::threads::{ReadyServer, ServerConfig, TransportChoice, serve};
use crate::server::{CLIENT_MEMORY_BYTES, KEEPALIVE_SECONDS};
use crate::service::Service as _;
use crate::ups::{UrlService, Urls};

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

/// Moment at which replies are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReplyDurability {
    /// Once the reply is durable on disk: a crash of the machine loses nothing that was replied.
    Strict,
    /// At once, when the operating system has the changes that the reply tells: the death of the process loses nothing
    /// that was replied; a crash of the machine may lose the last fraction of a second.
    Process,
    /// At once: the death of the process, too, may lose the last fraction of a second.
    Relaxed,
}

impl ReplyDurability {
    /// Durability with which the service's objects are opened.
    #[must_use]
    pub fn objects(self) -> ObjectDurability {
        match self {
            Self::Strict => ObjectDurability::Strict,
            Self::Process => ObjectDurability::Process,
            Self::Relaxed => ObjectDurability::Relaxed,
        }
    }
}

/// Mechanism that waits for sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SocketTransport {
    /// io_uring where the kernel allows it, and epoll elsewhere; INFO shows the choice and the reason.
    Auto,
    /// io_uring: fewer system calls. If the kernel refuses io_uring, the server does not start, and reports the reason.
    IoUring,
    /// epoll.
    Epoll,
}

impl From<SocketTransport> for TransportChoice {
    fn from(transport: SocketTransport) -> Self {
        match transport {
            SocketTransport::Auto => Self::Auto,
            SocketTransport::IoUring => Self::IoUring,
            SocketTransport::Epoll => Self::Epoll,
        }
    }
}

/// Longest wait of a reply for space on a full disk. The client then gets an error within a second.
const FULL_DISK_WAIT: Duration = Duration::from_millis(700);

const _: () = assert!(FULL_DISK_WAIT.as_secs() == 0, "a client waits for less than a second");

/// Address of a name or a number, with a port.
fn address(text: &str) -> Result<SocketAddr, String> {
    find_address(text).map_err(|why| format!("{why}; give an address as 127.0.0.1:6379"))
}

/// Options of a running service.
#[derive(Clone, Debug, Args)]
pub struct ServeArguments {
    /// Name of the service
    #[arg(value_enum)]
    pub service: ServiceKind,
    /// Folder of its objects; a missing folder is created
    #[arg(long)]
    pub data: PathBuf,
    /// Address for clients, as 127.0.0.1:6379 or localhost:6379; port 0 is any free port
    #[arg(long, default_value = "127.0.0.1:6379", value_parser = address)]
    pub listen: SocketAddr,
    /// When replies are sent
    #[arg(long, value_enum, default_value_t = ReplyDurability::Strict)]
    pub durability: ReplyDurability,
    /// Log nothing: changes without a checkpoint are lost when the process ends, however it ends. A checkpoint is made
    /// only when a client asks for it (BGSAVE). Serves as the baseline for the cost of logging, and for data that can
    /// be made again
    #[arg(long, conflicts_with = "durability", conflicts_with_all = checkpoints::REASONS)]
    pub no_log: bool,
    /// Threads that serve
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub loops: usize,
    /// Mechanism by which the threads wait for clients
    #[arg(long, value_enum, default_value_t = SocketTransport::Auto)]
    pub transport: SocketTransport,
    /// Disconnect a client after so many seconds without input, if no reply to the client is due; 0 is never
    #[arg(long, default_value_t = 0, value_name = "SECONDS",
        value_parser = value_parser!(u64).range(..=IDLE_SECONDS_MAX))]
    pub timeout: u64,
    /// Probe a client after so many seconds of silence. A client that does not answer three probes within as long again
    /// is disconnected. 0: probe no client, and keep unplugged clients
    #[arg(long, default_value_t = KEEPALIVE_SECONDS, value_name = "SECONDS",
        value_parser = value_parser!(u64).range(..=KEEPALIVE_SECONDS_MAX))]
    pub tcp_keepalive: u64,
    /// Largest memory of all clients together in bytes: requests and replies under way, with all buffers of the server
    /// for them, at least 20 KiB an active client. Above the limit the client with the most memory is disconnected. Not
    /// counted are about 1 KiB a connection (10 MiB at 10000 connections), 8 MiB and a reply of up to 32 MiB a thread,
    /// and the kernel's buffers of sockets, by Linux' defaults up to 10 MiB a connection (net.ipv4.tcp_mem limits the
    /// sum of these). 0 is no limit
    #[arg(long, default_value_t = CLIENT_MEMORY_BYTES, value_name = "BYTES")]
    pub client_memory: usize,
    /// Also copy finished checkpoints and closed log files to this shared folder, some seconds later, so that another
    /// machine can take over (`ensile objects take-over`). After a take-over, this machine takes no more changes
    #[arg(long, value_name = "FOLDER", conflicts_with = "no_log")]
    pub ship_to: Option<PathBuf>,
    /// Largest rate of writes to the shared folder, in bytes a second; unlimited by default
    #[arg(long, requires = "ship_to", value_name = "BYTES", value_parser = value_parser!(u64).range(1..))]
    pub ship_bandwidth: Option<u64>,
    /// Change the shared folder: the earlier shared folder is given up
    #[arg(long, requires = "ship_to")]
    pub ship_to_new_place: bool,
    /// Stop shipping from now on, and forget the shared folder. Without this option and --ship-to, a folder that ships
    /// is refused: another machine may have taken over
    #[arg(long, conflicts_with = "ship_to")]
    pub stop_shipping: bool,
    /// Also open a fenced folder, from which another machine has taken over: lookups are served, and changes get an
    /// error
    #[arg(long)]
    pub open_fenced: bool,
    /// Milliseconds between two epochs. A relaxed reply may take this long to be durable
    #[arg(long, default_value_t = 40)]
    pub epoch_ms: u64,
    /// ups: number of this process among the partitions, from 0
    #[arg(long, default_value_t = 0)]
    pub partition: usize,
    /// ups: number of partitions
    #[arg(long, default_value_t = 1)]
    pub partitions: usize,
    /// Triggers of checkpoints
    #[command(flatten)]
    pub checkpoints: CheckpointArguments,
}

impl ServeArguments {
    /// Durability with which the service's objects are opened.
    #[must_use]
    pub fn durability(&self) -> ObjectDurability {
        if self.no_log { ObjectDurability::NoLog } else { self.durability.objects() }
    }

    /// Warning for the person who starts the service, if there is a warning.
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        let lost =
            "nothing is logged: what no checkpoint has is lost when this process ends; BGSAVE makes one";
        self.no_log.then_some(lost)
    }

    /// Place of this process among the partitions of its service.
    ///
    /// # Errors
    /// The place does not exist, or the service is not partitioned.
    fn partition(&self) -> io::Result<Partition> {
        let partition = Partition::new(self.partition, self.partitions);
        let partition = partition.ok_or_else(|| {
            io::Error::other(format!(
                "--partition is a number below --partitions: there is no partition {} of {}",
                self.partition, self.partitions
            ))
        })?;
        if self.service != ServiceKind::Ups && partition != Partition::WHOLE {
            return Err(io::Error::other(
                "--partition and --partitions are for ups: the others have all in one process",
            ));
        }
        Ok(partition)
    }

    fn objects(&self) -> ObjectsResult<ObjectsBuilder> {
        let objects = ObjectsBuilder::new(&self.data)
            .durability(self.durability())
            .policy(&self.checkpoints.policy(self.service))
            .epoch_interval(Duration::from_millis(self.epoch_ms))
            .full_disk_wait(FULL_DISK_WAIT)
            .checkpoint_niceness(self.checkpoints.checkpoint_niceness);
        let objects = match self.checkpoints.checkpoint_bandwidth {
            Some(bytes_per_second) => objects.checkpoint_bandwidth(bytes_per_second),
            None => objects,
        };
        let objects = if self.stop_shipping { objects.stop_shipping() } else { objects };
        let objects = if self.open_fenced { objects.open_fenced() } else { objects };
        let Some(folder) = &self.ship_to else { return Ok(objects) };
        let store = SharedFolder::open(folder)?;
        Ok(objects.ship_to(ShippingConfig {
            bytes_per_second: self.ship_bandwidth,
            is_new_place: self.ship_to_new_place,
            ..ShippingConfig::new(Arc::new(store))
        }))
    }
}

/// Options of a check of folders.
#[derive(Clone, Debug, Args)]
pub struct ServiceCheckArguments {
    /// Name of the service
    #[arg(value_enum)]
    pub service: ServiceKind,
    /// Folders of the service, recorded by an earlier version or by this version; no process has them open
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
}

impl ServiceKind {
    /// Replays a folder of this service against the present program, twice ([`ApplicationLog::check`]); nothing is
    /// changed.
    ///
    /// # Errors
    /// The folder is unreadable or in use, is no folder of objects, or belongs to another service.
    pub fn check(self, folder: &Path) -> ObjectsResult<FolderCheck> {
        let (name, check) = match self {
            Self::Pht => (PersistentTable::NAME, ApplicationLog::check(folder, PhtBuckets::new)?),
            Self::Ups => (UrlService::NAME, Urls::check(folder)?),
            Self::His => (HostService::NAME, Hosts::check(folder)?),
        };
        // The service's name is followed by the number of a partition.
        match &check.examination.application {
            Some(found) if !found.starts_with(name) => {
                let (folder, found) = (folder.into(), found.as_str().into());
                Err(DurabilityError::OtherApplication { folder, found, given: Some(name.into()) }.into())
            }
            _ => Ok(check),
        }
    }
}

/// Replays folders of a service against the present program, and prints the outcome of every folder. The exit code is 0
/// if all folders are sound, 1 if a folder is not, 2 if a folder could not be checked.
#[must_use]
pub fn check(arguments: ServiceCheckArguments) -> ExitCode {
    check_folders(arguments.folders.into_iter().map(OsString::from), |folder| arguments.service.check(folder))
}

fn into_io_result<S>(service: ObjectsResult<S>) -> io::Result<Arc<S>> {
    service.map(Arc::new).map_err(io::Error::other)
}

/// Opens the service's folder and serves until a client asks for the end, or SIGINT or SIGTERM comes. `ready` gets the
/// address. `tell` gets notices for people as they happen.
///
/// # Errors
/// The folder or the address is unavailable, with the reason; or not everything could be made durable.
pub fn run(
    arguments: &ServeArguments,
    ready: impl FnOnce(ReadyServer<'_>) -> io::Result<()>,
    tell: fn(&str),
) -> io::Result<()> {
    let ended = begin_program()?;
    let config = ServerConfig {
        address: arguments.listen,
        tls: None,
        unix: None,
        loops: arguments.loops,
        transport: arguments.transport.into(),
        idle: duration_of(arguments.timeout),
        keepalive: duration_of(arguments.tcp_keepalive),
        client_memory: Some(arguments.client_memory).filter(|bytes| *bytes > 0),
        ended: Some(ended),
        ending: || (),
        tell,
    };
    // Every check that refuses a start comes before the open, because the open may give the folder a name (I5).
    let partition = arguments.partition()?;
    config.check()?;
    let objects = arguments.objects().map_err(io::Error::other)?;
    let durability = arguments.durability();
    match arguments.service {
        ServiceKind::Pht => serve(into_io_result(PersistentTable::open(objects))?, durability, config, ready),
        ServiceKind::Ups => {
            serve(into_io_result(UrlService::open(objects, partition))?, durability, config, ready)
        }
        ServiceKind::His => serve(into_io_result(HostService::open(objects))?, durability, config, ready),
    }
}

#[cfg(test)]
mod tests;
