//! Announcement of the keys that a transaction, or a request of a batch, is about to use: the keys are fetched
//! together.
//!
//! Neighbours: `sets::multi_get` descends for the keys together; `typed_api` encodes the keys.

use super::Transaction;
use crate::error::Result;
use crate::session::Session;
use crate::sets::context::{Context, KeptContext};
use crate::shared_state::SharedState;
use crate::tables::TableCore;

impl Transaction<'_> {
    /// Announces the keys that the transaction is about to read or write, and fetches the keys from memory together.
    /// The descents of the index overlap, and the following reads and writes start from the found records. An unused
    /// key costs a descent and changes no result. Call `prefetch` once, before all else, and name the keys in about the
    /// order of use.
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
    ///     tx.prefetch(|prefetch| wanted.iter().for_each(|item| prefetch.key(&stock, item)))?;
    ///     wanted.iter().try_for_each(|item| tx.update(&stock, item, |left| *left -= 1).map(drop))
    /// })?;
    /// assert_eq!(db.run(|tx| tx.get(&stock, &92))?, Some(9));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Error::Expired`: run the transaction again.
    pub fn prefetch(&mut self, keys: impl FnOnce(&mut Prefetch<'_>)) -> Result<()> {
        self.check_alive()?;
        self.database.life.check_process()?;
        let Some(Session { kept, .. }) = &mut *self.session else {
            unreachable!("taken when the transaction ends")
        };
        let shared: &SharedState = &self.database;
        let from = kept.run_outside_call(|context| context.sets.writes.keys.len());
        keys(&mut Prefetch { database: shared.life.id, kept });
        kept.enter(
            |pinned, Context { sets, descents, .. }| {
                descents.descend_announced(&mut sets.writes, from, |id| shared.tables.table(id), pinned);
                sets.writes.keys.expect_from(from);
                Ok(())
            },
            |_| super::expire(&mut self.ended),
        )
    }
}

/// Receiver of the keys that a transaction, or a request of a batch, is about to read or write. A used key without an
/// announcement is only slower. An announced key without a use costs a descent.
pub struct Prefetch<'h> {
    pub(crate) database: u64,
    pub(crate) kept: &'h mut KeptContext,
}

impl std::fmt::Debug for Prefetch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prefetch").finish_non_exhaustive()
    }
}

impl Prefetch<'_> {
    /// Announces an encoded key. A key of a table of another database is ignored.
    #[inline]
    pub(crate) fn raw_key(&mut self, table: &TableCore, key: &[u8]) {
        if table.database == self.database {
            self.kept.run_outside_call(|context| context.sets.writes.announce(table.id, key));
        }
    }
}
