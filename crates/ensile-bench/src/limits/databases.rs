//! Databases of the experiments: their opens, rows and sizes.
//!
//! Neighbours: the experiments of [`super`] open their databases here.

use std::time::Duration;

use ensile::stats::RECORD_HEADER_BYTES;
use ensile::{Builder, Database};

use super::arguments::LimitsArguments;
use crate::failure::{Failure, Result};

/// A builder of a database in memory with the epochs of the options, as an application would open a database.
pub(super) fn builder(arguments: &LimitsArguments) -> Builder {
    Database::builder_in_memory().epoch_interval(Duration::from_millis(arguments.epoch_ms))
}

pub(super) fn open(builder: Builder) -> Result<Database> {
    builder.open().map_err(Failure::Database)
}

/// Puts the rows `0..count`, a thousand in a transaction.
pub(super) fn fill<K: ensile::Key, V: ensile::Value>(
    db: &Database,
    table: &ensile::Table<K, V>,
    count: u64,
    row: impl Fn(u64) -> (K, V),
) -> Result<()> {
    /// Rows of one transaction.
    const ROWS: u64 = 1_000;
    for first in (0..count).step_by(ROWS as usize) {
        db.run(|tx| {
            (first..count.min(first + ROWS)).try_for_each(|number| {
                let (key, value) = row(number);
                tx.put(table, &key, &value)
            })
        })?;
    }
    Ok(())
}

/// Bytes of a row's record: its header and value, in whole words.
pub(super) fn record_bytes(value_bytes: usize) -> u64 {
    (RECORD_HEADER_BYTES + value_bytes).next_multiple_of(8) as u64
}

/// Bytes as MiB.
pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
