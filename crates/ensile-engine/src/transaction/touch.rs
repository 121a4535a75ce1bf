//! Announcing the keys that a transaction, or a request of a batch, is about to use.
//!
//! Neighbours: `sets::multi_get` descends for them together; `typed` encodes them.

use super::Transaction;
use crate::error::Result;
use crate::session::Session;
use crate::sets::context::Context;
use crate::sets::write_set::WriteSet;
use crate::tables::TableCore;

impl Transaction<'_> {
    /// Says which keys the transaction is about to read or write, and fetches them from memory together: their ways
    /// down the index overlap, and the reads and writes that follow start from what was found. It costs nothing to be
    /// wrong. Best called once, first thing, in about the order of use.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::Readable;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::in_memory()?;
    /// let stock = db.table::<u64, u64>("stock")?;
    /// db.run(|tx| (0..100).try_for_each(|item| tx.put(&stock, &item, &10)))?;
    /// let wanted = [3, 14, 15, 92];
    /// db.run(|tx| {
    ///     tx.touch(|touch| wanted.iter().for_each(|item| touch.key(&stock, item)))?;
    ///     wanted.iter().try_for_each(|item| tx.update(&stock, item, |left| *left -= 1).map(drop))
    /// })?;
    /// assert_eq!(db.run(|tx| tx.get(&stock, &92))?, Some(9));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Expired`]: run the transaction again.
    pub fn touch(&mut self, keys: impl FnOnce(&mut Touch<'_>)) -> Result<()> {
        self.check_alive()?;
        self.database.check_process()?;
        let Some(Session { context, .. }) = &mut self.session else {
            unreachable!("taken when the transaction ends")
        };
        let Context { pin, sets, descents, .. } = &mut **context;
        let Ok(call) = pin.enter() else { return self.expire() };
        let shared = &self.database;
        let from = sets.writes.keys.len();
        keys(&mut Touch { database: shared.id, writes: &mut sets.writes });
        descents.descend_announced(&mut sets.writes, from, |id| shared.table(id), call.pinned());
        sets.writes.keys.expect_from(from);
        Ok(())
    }
}

/// Where a request of a batch says which keys it will touch. Keys that it touches without saying so, or says and does
/// not touch, are no error: they only miss the common descent.
#[derive(Debug)]
pub struct Touch<'h> {
    pub(crate) database: u64,
    pub(crate) writes: &'h mut WriteSet,
}

impl Touch<'_> {
    pub(crate) fn raw_key(&mut self, table: &TableCore, key: &[u8]) {
        if table.database == self.database {
            self.writes.announce(table.id, key);
        }
    }
}
