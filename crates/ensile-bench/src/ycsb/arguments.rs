//! The options of `ensile-bench ycsb`.
//!
//! Neighbours: parsed by [`crate::command`]; [`super`] runs by them.

use clap::{Args, value_parser};

use super::distribution::Distribution;
use super::load::LoadOrder;
use super::mix::Workload;
use crate::arguments::RunArguments;

/// `ensile-bench ycsb`.
#[derive(Clone, Debug, Args)]
pub struct YcsbArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    /// Keys that the table is loaded with
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: u64,
    /// What the transactions do
    #[arg(long, value_enum, default_value_t = Workload::Silo)]
    pub(crate) workload: Workload,
    /// Choice of keys [default: the workload's own: uniform for silo, silor and rmw, zipfian for a to f]
    #[arg(long, value_enum)]
    pub(crate) distribution: Option<Distribution>,
    /// Size of a value: 8, 30, 100, 1000 or 10000
    #[arg(long, default_value_t = 100)]
    pub(crate) value_bytes: usize,
    /// Each transaction of `silo` waits until it is durable (to count a strict commit's instructions under callgrind)
    #[arg(long)]
    pub(crate) strict: bool,
    /// In which order the keys are loaded
    #[arg(long, value_enum, default_value_t = LoadOrder::InOrder)]
    pub(crate) load_order: LoadOrder,
}
