//! Announcement of the keys that a transaction, or a request of a batch, is about to use: the keys are fetched
//! together.
//!
//! Neighbours: `sets::multi_get` descends for the keys together; `typed_api` encodes the keys.

use super::Transaction;
use crate::error::{Error, Result};
use crate::session::Session;
use crate::sets::context::{Context, KeptContext};
use crate::sets::write_set::WriteSet;
use crate::shared_state::SharedState;
use crate::tables::TableCore;

/// Error text for the prefetch of keys for several transactions behind a read or a write.
const NOT_FIRST: &str =
    "prefetch_ahead comes before all reads and writes of the transaction: begin another transaction";

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
        self.announce(keys, |_| {})
    }

    /// As [`Transaction::prefetch`], for this transaction and the next transactions in its place
    /// ([`begin_again`](Self::begin_again)): each finds the named keys. Call `prefetch_ahead` once, before all else.
    ///
    /// # Errors
    /// As for [`Transaction::prefetch`]. [`Error::Misuse`] if the transaction has read or written before.
    pub fn prefetch_ahead(&mut self, keys: impl FnOnce(&mut Prefetch<'_>)) -> Result<()> {
        self.check_alive()?;
        if !self.run_outside_call(|context| context.sets.is_empty() && context.sets.writes.keys.is_empty()) {
            return Err(Error::Misuse(NOT_FIRST.to_owned()));
        }
        self.announce(keys, |writes| writes.activate(0, writes.keys.len()))
    }

    /// Announces keys, and descends for them. `keep` is called between the two.
    #[inline(always)]
    fn announce(
        &mut self,
        keys: impl FnOnce(&mut Prefetch<'_>),
        keep: impl FnOnce(&mut WriteSet<'_>),
    ) -> Result<()> {
        self.check_alive()?;
        self.database.life.check_process()?;
        let Some(Session { kept, .. }) = &mut *self.session else {
            unreachable!("taken when the transaction ends")
        };
        let shared: &SharedState = &self.database;
        let from = kept.run_outside_call(|context| context.sets.writes.keys.len());
        keys(&mut Prefetch { database: shared.life.id, kept });
        kept.run_outside_call(|context| keep(&mut context.sets.writes));
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
