//! Contents of databases: a database is a number that names a content id, so a database is emptied or exchanged at
//! once.
//!
//! Invariants:
//! - A content id is used once: the row [`NEXT_CONTENT`] of `databases` has the next one.
//! - An abandoned content has a row in `abandoned` until the sweeper has removed all its rows.
//!
//! Neighbours: [`super::Keyspace`] reads the content id; the commands `FLUSHDB`, `FLUSHALL` and `SWAPDB` change it.

use ensile::{Error, Prefix, Readable, Result, Transaction};

use super::{DATABASES, Model};

/// Key in `databases` under which the next content id stands.
const NEXT_CONTENT: u32 = u32::MAX;

/// Content id of a database. A database that was never emptied has the content of its own number.
#[inline]
pub(crate) fn content_of(tx: &mut Transaction<'_>, model: &Model, database: u32) -> Result<u32> {
    debug_assert!(database < DATABASES, "`SELECT` takes existing databases only");
    Ok(tx.get(&model.databases, &database)?.unwrap_or(database))
}

/// Gives a database a new, empty content. An empty content stays: the flush of an empty database changes nothing.
pub(crate) fn abandon(tx: &mut Transaction<'_>, model: &Model, database: u32) -> Result<()> {
    let old = content_of(tx, model, database)?;
    if tx.first(&model.keys, Prefix((old,)))?.is_none() {
        return Ok(());
    }
    // No assertion compares both numbers: only the commit checks that both are of one moment.
    let next = tx.get(&model.databases, &NEXT_CONTENT)?.unwrap_or(DATABASES);
    // The bound of a walk is the content id behind the walked one.
    let behind = next.checked_add(1).ok_or_else(|| {
        Error::Misuse("all content ids of the database are used up: copy the keys to a new folder".to_owned())
    })?;
    tx.put(&model.databases, &database, &next)?;
    tx.put(&model.databases, &NEXT_CONTENT, &behind)?;
    tx.put(&model.abandoned, &old, &())
}

/// Exchanges the contents of two databases.
pub(crate) fn swap(tx: &mut Transaction<'_>, model: &Model, first: u32, second: u32) -> Result<()> {
    let contents = (content_of(tx, model, first)?, content_of(tx, model, second)?);
    tx.put(&model.databases, &first, &contents.1)?;
    tx.put(&model.databases, &second, &contents.0)
}
