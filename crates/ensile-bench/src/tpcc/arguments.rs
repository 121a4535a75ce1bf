//! The options of TPC-C.
//!
//! Neighbours: parsed by [`crate::command`]; [`super::flags`] is the form for terminals.

use clap::{Args, ValueEnum, value_parser};

use super::flags::{Flags, ReadMode};
use super::tables::Scale;
use crate::arguments::{RunArguments, positive_seconds};

/// Size of TPC-C's business, and its transactions.
#[derive(Clone, Debug, Args)]
pub struct BusinessArguments {
    /// Warehouses
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u16).range(1..=4_000))]
    pub(crate) warehouses: u16,
    /// Items of the catalogue (fewer than 100000 to try things out)
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u32).range(20..=1_000_000))]
    pub(crate) items: u32,
    /// Customers of a district (fewer than 3000 to try things out)
    #[arg(long, default_value_t = 3_000, value_parser = value_parser!(u32).range(10..=60_000))]
    pub(crate) customers: u32,
    /// Shares of new-order, payment, order-status, delivery and stock-level
    #[arg(long, default_value = "45,43,4,4,4", value_parser = parse_mix)]
    pub(crate) mix: Mix,
    /// Percent of order lines that another warehouse supplies (with more than one warehouse)
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(0..=100))]
    pub(crate) remote: u64,
    /// Percent of payments by customers of another warehouse (with more than one warehouse)
    #[arg(long, default_value_t = 15, value_parser = value_parser!(u64).range(0..=100))]
    pub(crate) remote_payments: u64,
    /// Read mode of order-status
    #[arg(long, value_enum, default_value_t = ReadMode::Snapshot)]
    pub(crate) order_status: ReadMode,
    /// Read mode of stock-level
    #[arg(long, value_enum, default_value_t = ReadMode::Snapshot)]
    pub(crate) stock_level: ReadMode,
    /// Announce nothing: rows known in advance are fetched from memory one after the other
    #[arg(long)]
    pub(crate) no_announce: bool,
    /// A new-order reads neither S_DIST_xx nor the brands, as in benchmarks of other systems: a read less for each line
    #[arg(long)]
    pub(crate) no_stock_info: bool,
}

/// Shares of TPC-C's five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix(pub(crate) [u64; 5]);

impl BusinessArguments {
    /// The same options as words, for a business of `warehouses` warehouses.
    pub(crate) fn words(&self, warehouses: u16) -> Vec<String> {
        let mix: Vec<String> = self.mix.0.iter().map(u64::to_string).collect();
        let mode = |mode: ReadMode| {
            mode.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
        };
        [
            ("--warehouses", warehouses.to_string()),
            ("--items", self.items.to_string()),
            ("--customers", self.customers.to_string()),
            ("--mix", mix.join(",")),
            ("--remote", self.remote.to_string()),
            ("--remote-payments", self.remote_payments.to_string()),
            ("--order-status", mode(self.order_status)),
            ("--stock-level", mode(self.stock_level)),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value])
        .chain(self.no_announce.then(|| "--no-announce".to_owned()))
        .chain(self.no_stock_info.then(|| "--no-stock-info".to_owned()))
        .collect()
    }

    pub(crate) fn scale(&self) -> Scale {
        Scale { warehouses: self.warehouses, items: self.items, customers: self.customers }
    }

    pub(crate) fn flags(&self) -> Flags {
        Flags {
            mix: self.mix.0,
            remote_items_per_million: self.remote * 10_000,
            remote_payments: self.remote_payments,
            order_status: self.order_status,
            stock_level: self.stock_level,
            announce: !self.no_announce,
            stock_info: !self.no_stock_info,
            ..Flags::default()
        }
    }
}

/// `ensile-bench tpcc`.
#[derive(Clone, Debug, Args)]
pub struct TpccArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    #[command(flatten)]
    pub(crate) business: BusinessArguments,
    /// Check the consistency conditions 1 to 12 after all rounds
    #[arg(long)]
    pub(crate) check: bool,
    /// Run with the log in a separate process, kill the process this many seconds after its first acknowledged order,
    /// recover, and check that every acknowledged order is present
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) crash_after: Option<f64>,
    /// Repetitions of --crash-after, each on a fresh database
    #[arg(long, default_value_t = 1, requires = "crash_after", value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: u32,
    /// Kills and recoveries of each database before the next fresh database
    #[arg(long, default_value_t = 1, requires = "crash_after", value_parser = value_parser!(u32).range(1..=50))]
    pub(crate) lives: u32,
    /// Kills of the recovery after each kill, at random moments, before a recovery may end
    #[arg(long, default_value_t = 0, requires = "crash_after", value_parser = value_parser!(u32).range(0..=50))]
    pub(crate) kill_in_recovery: u32,
    /// Interval of checkpoints in the killed process, in milliseconds [default: as a database does]
    #[arg(long, requires = "crash_after", value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) checkpoint_ms: Option<u64>,
    /// The checkpoints of the killed process are pictures
    #[arg(long, requires = "crash_after")]
    pub(crate) picture_checkpoints: bool,
    /// The killed process has no log: an order is acknowledged once a picture has it
    #[arg(long, requires = "crash_after")]
    pub(crate) no_log: bool,
}

fn parse_mix(text: &str) -> Result<Mix, String> {
    let problem = || "five shares are due, such as 45,43,4,4,4".to_owned();
    let shares: Vec<u64> =
        text.split([',', '/']).map(str::parse).collect::<Result<_, _>>().map_err(|_| problem())?;
    let shares: [u64; 5] = shares.try_into().map_err(|_| problem())?;
    match shares.iter().sum() {
        0u64 => Err("the shares are all 0".to_owned()),
        1..=1_000_000 => Ok(Mix(shares)),
        _ => Err("shares of more than 1000000 in all".to_owned()),
    }
}
