//! `limits prefixes`: what keys of 4,001 bytes take in pairs that differ in the last byte only, and what is left of it
//! when one of each pair is deleted: a layer that serves one key again is folded.
//!
//! Neighbours: `Stats` has the memory that the database has taken.

use std::time::Duration;

use ensile::{Database, Table};

use super::arguments::LimitsArguments;
use super::rows::Row;
use super::{builder, fill, mib, open};
use crate::failure::Result;
use crate::machine::resident_bytes;

const PAIRS: u64 = 200;
const PREFIX_BYTES: usize = 4_000;
/// How long deleted rows are waited for: boundaries of snapshots come by time.
const SECONDS: u64 = 3;

/// The key of a pair: its prefix is the pair's own from its first bytes on.
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

/// Both pairs' keys, then one of each.
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
    // A commit of this thread works off what it has left.
    db.run(|tx| tx.put(&rows, &key(1), &1))?;
    Ok(vec![pairs, row("one of each pair deleted", PAIRS)])
}
