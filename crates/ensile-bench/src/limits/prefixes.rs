//! `limits prefixes`: memory of 4,001-byte keys in pairs; the keys of a pair differ only in the last byte. The second
//! row has the memory after the deletion of one key per pair: the index folds a layer with one remaining key.
//!
//! Neighbours: `Stats` has the memory of the database.

use std::time::Duration;

use ensile::{Database, Table};

use super::arguments::LimitsArguments;
use super::databases::{builder, fill, mib, open};
use super::rows::Row;
use crate::failure::Result;
use crate::machine::resident_bytes;

const PAIRS: u64 = 200;
const PREFIX_BYTES: usize = 4_000;
/// Wait in seconds for the release of deleted rows: snapshot boundaries come by time.
const SECONDS: u64 = 3;

/// Key `number`. The first bytes of the prefix already tell the pairs apart.
fn key(number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(PREFIX_BYTES + 1);
    key.extend_from_slice(&(number / 2).to_be_bytes());
    key.resize(PREFIX_BYTES, b'x');
    key.push((number % 2) as u8);
    key
}

fn taken(db: &Database) -> u64 {
    let memory = db.stats().memory;
    memory.chunk_bytes + memory.large_bytes
}

/// Measures the complete pairs, then the pairs with one deleted key.
pub(super) fn run(arguments: &LimitsArguments) -> Result<Vec<Row>> {
    let db = open(builder(arguments))?;
    let rows: Table<Vec<u8>, u64> = db.table("rows")?;
    let (before, resident) = (taken(&db), resident_bytes());
    fill(&db, &rows, 2 * PAIRS, |number| (key(number), number))?;
    let row = |what: &str, keys: u64| {
        Row::default()
            .with("what", what)
            .with("keys", keys)
            .with("key_mib", mib(keys * (PREFIX_BYTES as u64 + 1)))
            .with("memory_mib", mib(taken(&db).saturating_sub(before)))
            .with("rss_mib", mib(resident_bytes().saturating_sub(resident)))
    };
    let pairs = row("pairs", 2 * PAIRS);
    db.run(|tx| (0..PAIRS).try_for_each(|pair| tx.delete(&rows, &key(2 * pair)).map(drop)))?;
    std::thread::sleep(Duration::from_secs(SECONDS));
    // The thread frees deleted rows at a commit.
    db.run(|tx| tx.put(&rows, &key(1), &1))?;
    Ok(vec![pairs, row("one of each pair deleted", PAIRS)])
}
