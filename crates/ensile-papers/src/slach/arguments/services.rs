//! The options of the experiments on services.
//!
//! Neighbours: [`super`] has the options of all experiments.

use std::net::SocketAddr;

use clap::{Args, value_parser};
use ensile_services::command::{ReplyDurability, ServiceKind};

use super::seconds::positive_seconds;

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
