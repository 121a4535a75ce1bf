//! Variations of the business.
//!
//! Neighbours: `arguments` makes flags of the options; `desk` draws by them, [`super::terminal`] runs
//! by them.

use clap::ValueEnum;

/// The state that a read-only transaction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReadMode {
    /// A recent consistent snapshot: never aborts.
    Snapshot,
    /// The present, validated at commit like any other transaction.
    Serializable,
}

/// Variations of the business.
#[derive(Clone, Copy, Debug)]
pub struct Flags {
    /// Shares of new-order, payment, order-status, delivery and stock-level.
    pub mix: [u64; 5],
    /// Lines of orders supplied by another warehouse, per million lines.
    pub remote_items_per_million: u64,
    /// Payments by customers of another warehouse, in percent.
    pub remote_payments: u64,
    /// State that order-status reads.
    pub order_status: ReadMode,
    /// State that stock-level reads.
    pub stock_level: ReadMode,
    /// True if one order in a hundred names an unknown item, and is rolled back.
    pub entry_errors: bool,
    /// True if a transaction announces the rows that it will need, so that memory fetches of the rows overlap.
    pub announce: bool,
    /// True if a new-order reads S_DIST_xx and the brands of item and stock.
    pub stock_info: bool,
    /// True if each order comes into a random warehouse, rather than into the worker's own.
    pub any_home: bool,
    /// True if order numbers come from a counter beside the database instead of the district's row (Silo §5.4,
    /// `FastIds`). Then only new-order may run.
    pub fast_ids: bool,
}

/// The flags of the specification.
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
