//! What can be varied in the business.
//!
//! Neighbours: made of the options by [`super::arguments`]; [`super::desk`] draws by them, [`super::terminal`] runs by
//! them.

use clap::ValueEnum;

/// What a read-only transaction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReadMode {
    /// A recent consistent snapshot: never aborts.
    Snapshot,
    /// The present, validated at commit like any other transaction.
    Serializable,
}

/// What can be varied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flags {
    /// Shares of new-order, payment, order-status, delivery and stock-level.
    pub(crate) mix: [u64; 5],
    /// Of a million lines of orders, how many another warehouse supplies.
    pub(crate) remote_items_per_million: u64,
    /// Percent of payments by customers of another warehouse.
    pub(crate) remote_payments: u64,
    pub(crate) order_status: ReadMode,
    pub(crate) stock_level: ReadMode,
    /// Whether one order in a hundred names an item that does not exist, and is rolled back.
    pub(crate) entry_errors: bool,
    /// Whether a transaction announces the rows that it knows it will need, so that they are fetched from memory
    /// together.
    pub(crate) announce: bool,
    /// Whether a new-order reads S_DIST_xx and the brands of item and stock.
    pub(crate) stock_info: bool,
    /// Whether each order comes into any warehouse, rather than into the worker's own.
    pub(crate) any_home: bool,
    /// Whether order numbers come from a counter beside the database instead of the district's row (Silo §5.4,
    /// `FastIds`); nothing but new-order may then run.
    pub(crate) fast_ids: bool,
}

/// As the specification has it.
impl Default for Flags {
    fn default() -> Self {
        Self {
            mix: [45, 43, 4, 4, 4],
            remote_items_per_million: 10_000,
            remote_payments: 15,
            order_status: ReadMode::Snapshot,
            stock_level: ReadMode::Snapshot,
            entry_errors: true,
            announce: true,
            stock_info: true,
            any_home: false,
            fast_ids: false,
        }
    }
}
