//! Typed reads, for transactions and snapshots alike.
//!
//! Keys go down encoded, rows come up decoded. The `raw_` functions underneath keep the read-set, the node-set and own
//! writes for the commit.
//!
//! Neighbours: [`Transaction`] and [`Snapshot`] are the two readers. `source` has tables and indexes as sources.
//! `iterator` has the iterator of ranges.

use std::ops::ControlFlow;

use ensile_index::Direction;

use super::iterator::{BatchSizes, Rows};
use super::source::{Source, one_row};
use crate::codec::bounds::ByteRange;
use crate::codec::{AsKey, CodecError, Key, KeyBounds, KeyBuffer, Value};
use crate::error::{Error, Result};
use crate::read_path::snapshot::Snapshot;
use crate::read_path::{RawRead, RowSource};
use crate::sets::rows::{BatchAsked, BatchRow};
use crate::tables::TableCore;
use crate::transaction::Transaction;

/// A reader of rows: a [`Transaction`] or a [`Snapshot`]. Every read takes a [`Source`]: a table or an index.
///
/// A transaction sees its own writes. The commit checks the transaction's reads, including absent rows and gaps in
/// ranges. A snapshot sees the state of its boundary and has no conflicts. A function that only reads takes either
/// reader:
///
/// ```
/// # extern crate ensile_engine as ensile;
/// # fn main() -> ensile::Result<()> {
/// use ensile::{Database, Readable, Result, Table};
///
/// fn total(reader: &mut impl Readable, accounts: &Table<u32, i64>) -> Result<i64> {
///     reader.range(accounts, ..).map(|row| row.map(|(_id, balance)| balance)).sum()
/// }
///
/// let db = Database::in_memory()?;
/// let accounts = db.table("accounts")?;
/// db.run(|tx| {
///     tx.put(&accounts, &1, &100)?;
///     tx.put(&accounts, &2, &50)
/// })?;
/// assert_eq!(db.run(|tx| total(tx, &accounts))?, 150);
/// assert_eq!(total(&mut db.snapshot_latest()?, &accounts)?, 150);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// All functions: [`Error::Decode`] if stored bytes are not of the table's types, [`Error::Expired`] if the reader
/// stayed open too long, [`Error::Misuse`] if the table belongs to another database. A transaction's scan may end early
/// with [`Error::Conflict`] if it meets another transaction's commit.
#[expect(
    private_bounds,
    reason = "sealed: what a read means to a commit is between the engine's two readers"
)]
pub trait Readable: RawRead + Sized {
    /// The result of a look-up of `key`: the row of a table, or the primary key and the row of a unique index; `None`
    /// without a row.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let people = db.define::<u64, String>("people").unique_index("by_name", 1, |_id, name| name.clone()).open()?;
    /// let by_name = people.index::<String>("by_name")?;
    /// db.run(|tx| tx.put(&people, &7, "Ada"))?;
    /// assert_eq!(db.run(|tx| tx.get(&people, &7))?, Some("Ada".to_string()));
    /// assert_eq!(db.run(|tx| tx.get(&by_name, "Ada"))?, Some((7, "Ada".to_string())));
    /// assert_eq!(db.run(|tx| tx.get(&by_name, "Bob"))?, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] if the source is an index that is not unique: [`find`](Self::find) returns all rows.
    #[inline]
    fn get<S: Source>(
        &mut self,
        source: &S,
        key: &(impl AsKey<S::Key> + ?Sized),
    ) -> Result<Option<S::Found>> {
        let found = source.read_one(self, key, S::decode)?;
        found.transpose().map_err(|error| undecodable::<S::Row>(source.table(), error))
    }

    /// Calls `read` with the row of `key`, if the row exists. Rows of fixed layout are read in place.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    #[inline]
    fn get_with<S: Source, R>(
        &mut self,
        source: &S,
        key: &(impl AsKey<S::Key> + ?Sized),
        read: impl FnOnce(&S::Row) -> R,
    ) -> Result<Option<R>> {
        let seen = source.read_one(self, key, |_key, row| S::Row::view(row, read))?;
        seen.transpose().map_err(|error| undecodable::<S::Row>(source.table(), error))
    }

    /// True if a row with this key exists. The call decodes no row; in an index the call does not even read the row.
    #[inline]
    fn contains<S: Source>(&mut self, source: &S, key: &(impl AsKey<S::Key> + ?Sized)) -> Result<bool> {
        source.has(self, key)
    }

    /// The results of these keys, in their order. In a table faster than a [`get`](Self::get) for each key: the
    /// descents in the index are interleaved, so that their cache misses overlap. In a unique index as fast as `get`.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    fn get_many<S: Source>(
        &mut self,
        source: &S,
        keys: &[impl AsKey<S::Key>],
    ) -> Result<Vec<Option<S::Found>>> {
        let mut rows = Vec::with_capacity(keys.len());
        let mut failed = None;
        source.read_many(self, keys, &mut |at, row| {
            assert_eq!(at, rows.len(), "rows come in the order of their keys");
            let row = row.map(|(key, row)| S::decode(key, row)).transpose().unwrap_or_else(|error| {
                failed = Some(error);
                None
            });
            rows.push(row);
        })?;
        failed.map_or(Ok(rows), |error| Err(undecodable::<S::Row>(source.table(), error)))
    }

    /// As [`get_many`](Self::get_many), but calls `read` with each position and row, and collects no rows.
    ///
    /// # Errors
    /// [`Error::Decode`](crate::Error::Decode) if a row is not of the table's type, after the read of the other rows.
    fn get_many_with<S: Source>(
        &mut self,
        source: &S,
        keys: &[impl AsKey<S::Key>],
        mut read: impl FnMut(usize, Option<&S::Row>),
    ) -> Result<()> {
        let mut failed = None;
        source.read_many(self, keys, &mut |at, row| match row {
            None => read(at, None),
            Some((_key, row)) => match S::Row::view(row, |row| read(at, Some(row))) {
                Ok(()) => {}
                Err(error) => failed = Some(error),
            },
        })?;
        failed.map_or(Ok(()), |error| Err(undecodable::<S::Row>(source.table(), error)))
    }

    /// All rows with this key, in the order of their primary keys. A table has a single row at most.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable, Result};
    /// # fn main() -> Result<()> {
    /// let db = Database::in_memory()?;
    /// let orders = db.define::<u64, u32>("orders").index("by_customer", 1, |_order, customer| *customer).open()?;
    /// let by_customer = orders.index::<u32>("by_customer")?;
    /// db.run(|tx| [(1, 7), (2, 8), (3, 7)].iter().try_for_each(|(order, of)| tx.put(&orders, order, of)))?;
    /// let found = db.run(|tx| tx.find(&by_customer, &7).collect::<Result<Vec<_>>>())?;
    /// assert_eq!(found, [(1, 7), (3, 7)]);
    /// # Ok(()) }
    /// ```
    fn find<'r, S: Source>(
        &'r mut self,
        source: &'r S,
        key: &(impl AsKey<S::Key> + ?Sized),
    ) -> Rows<'r, Self, S::PrimaryKey, S::Row> {
        Rows::new(self, source.row_source(), S::range_of(key))
    }

    /// The row with the least key within `bounds`; `None` without a row.
    fn first<S: Source>(
        &mut self,
        source: &S,
        bounds: impl KeyBounds<S::Key>,
    ) -> Result<Option<(S::PrimaryKey, S::Row)>> {
        first_row(self, source.row_source(), &S::range(&bounds), Direction::Forward)
    }

    /// The row with the greatest key within `bounds`; `None` without a row.
    fn last<S: Source>(
        &mut self,
        source: &S,
        bounds: impl KeyBounds<S::Key>,
    ) -> Result<Option<(S::PrimaryKey, S::Row)>> {
        first_row(self, source.row_source(), &S::range(&bounds), Direction::Reverse)
    }

    /// Calls `visit` with the rows within `bounds`, least key first, until `visit` breaks. The scan reads no row beyond
    /// the last visited row. Rows of fixed layout are read in place.
    fn scan<S: Source>(
        &mut self,
        source: &S,
        bounds: impl KeyBounds<S::Key>,
        visit: impl FnMut(S::PrimaryKey, &S::Row) -> ControlFlow<()>,
    ) -> Result<()> {
        visit_rows(self, source.row_source(), &S::range(&bounds), Direction::Forward, visit)
    }

    /// As [`scan`](Self::scan), greatest key first.
    fn scan_reverse<S: Source>(
        &mut self,
        source: &S,
        bounds: impl KeyBounds<S::Key>,
        visit: impl FnMut(S::PrimaryKey, &S::Row) -> ControlFlow<()>,
    ) -> Result<()> {
        visit_rows(self, source.row_source(), &S::range(&bounds), Direction::Reverse, visit)
    }

    /// Calls `visit` with the primary keys of the rows within `bounds`, in the order of the source, until `visit`
    /// breaks. The call decodes no row. In an index the call does not even read the rows: an entry stands for its row,
    /// and moves with the row.
    ///
    /// # Errors
    /// As for [`scan`](Self::scan).
    fn scan_keys<S: Source>(
        &mut self,
        source: &S,
        bounds: impl KeyBounds<S::Key>,
        mut visit: impl FnMut(S::PrimaryKey) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut failed = None;
        let source = source.row_source();
        // An index's entry has the primary key for its row.
        let keys_only = source.index.is_none();
        let entries = RowSource { table: source.table_to_scan(), index: None };
        visit_batches(entries, self, &S::range(&bounds), Direction::Forward, keys_only, |entry| {
            let key = if keys_only { entry.key } else { entry.row };
            match S::PrimaryKey::decode(key) {
                Ok(key) => visit(key),
                Err(error) => {
                    failed = Some(undecodable_key::<S::PrimaryKey>(source.table, error));
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// The rows within `bounds`, least key first, or greatest first with [`rev`](Iterator::rev). The iterator fetches
    /// batches, so it may read a few rows too many; [`scan`](Self::scan) reads no row too many. A
    /// [`Prefix`](crate::Prefix) is a possible bound.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Prefix, Readable, Result};
    /// # fn main() -> Result<()> {
    /// let db = Database::in_memory()?;
    /// let scores = db.table::<u32, String>("scores")?;
    /// db.run(|tx| [(10, "Ada"), (20, "Bob"), (30, "Eve")].iter().try_for_each(|(k, v)| tx.put(&scores, k, *v)))?;
    /// let rows = db.run(|tx| tx.range(&scores, 15..).collect::<Result<Vec<_>>>())?;
    /// assert_eq!(rows, [(20, "Bob".to_string()), (30, "Eve".to_string())]);
    ///
    /// let lines = db.table::<(u64, u8), String>("order lines")?; // order, line
    /// db.run(|tx| {
    ///     tx.put(&lines, &(1, 1), "tea")?;
    ///     tx.put(&lines, &(1, 2), "rice")?;
    ///     tx.put(&lines, &(2, 1), "salt")
    /// })?;
    /// let order = db.run(|tx| tx.range(&lines, Prefix((1,))).rev().collect::<Result<Vec<_>>>())?;
    /// assert_eq!(order, [((1, 2), "rice".to_string()), ((1, 1), "tea".to_string())]);
    /// assert_eq!(db.run(|tx| tx.last(&lines, Prefix((2,))))?, Some(((2, 1), "salt".to_string())));
    /// # Ok(()) }
    /// ```
    fn range<'r, S: Source>(
        &'r mut self,
        source: &'r S,
        bounds: impl KeyBounds<S::Key>,
    ) -> Rows<'r, Self, S::PrimaryKey, S::Row> {
        Rows::new(self, source.row_source(), S::range(&bounds))
    }
}

impl Readable for Transaction<'_> {}
impl Readable for Snapshot<'_> {}

/// The first row in scan order, of the table or of an index; `None` without a row.
fn first_row<K: Key, V: Value>(
    reader: &mut impl RawRead,
    source: RowSource<'_>,
    range: &ByteRange,
    direction: Direction,
) -> Result<Option<(K, V)>> {
    let decode = |row: BatchRow<'_>| decode_row(source.table, row.key, row.row);
    one_row(source, reader, range, direction, false, decode)?.transpose()
}

/// Calls `visit` with rows until `visit` breaks or a row does not decode.
fn visit_rows<K: Key, V: Value>(
    reader: &mut impl RawRead,
    source: RowSource<'_>,
    range: &ByteRange,
    direction: Direction,
    mut visit: impl FnMut(K, &V) -> ControlFlow<()>,
) -> Result<()> {
    let mut failed = None;
    visit_batches(source, reader, range, direction, false, |row| {
        if let Ok(key) = K::decode(row.key)
            && let Ok(flow) = V::view(row.row, |row| visit(key, row))
        {
            return flow;
        }
        failed = Some(undecodable_row::<K, V>(source.table, row));
        ControlFlow::Break(())
    })?;
    failed.map_or(Ok(()), Err)
}

/// Calls `visit` with rows until `visit` breaks, batch by batch and between calls (E6). With `keys_only` the rows have
/// keys and no values. The reader forgets its reads of rows beyond the last visited row.
// Not inlined: the code of a scan must not prevent the inlining of shorter reads beside the scan.
#[inline(never)]
fn visit_batches(
    source: RowSource<'_>,
    reader: &mut impl RawRead,
    range: &ByteRange,
    direction: Direction,
    keys_only: bool,
    mut visit: impl FnMut(BatchRow<'_>) -> ControlFlow<()>,
) -> Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let (mut batches, mut rest) = (BatchSizes::default(), None);
    loop {
        let asked = BatchAsked { rows_max: batches.next(), keys_only };
        let left: &ByteRange = rest.as_ref().unwrap_or(range);
        let shown = reader.raw_batch(source, left.as_range(), direction, asked, |rows| {
            for row in rows.rows() {
                if visit(row).is_break() {
                    return ControlFlow::Break(Some(row.mark));
                }
            }
            rows.place_behind()
                .map_or(ControlFlow::Break(None), |place| ControlFlow::Continue(KeyBuffer::from_bytes(place)))
        })?;
        match shown {
            ControlFlow::Break(None) => return Ok(()),
            ControlFlow::Break(Some(mark)) => {
                reader.forget_behind(mark);
                return Ok(());
            }
            ControlFlow::Continue(place) => {
                rest.get_or_insert_with(|| range.clone()).resume(place, direction);
            }
        }
    }
}

/// Decodes key and row of a table. Inlined, so that unused columns are not even copied.
#[inline(always)]
pub(super) fn decode_row<K: Key, V: Value>(table: &TableCore, key: &[u8], row: &[u8]) -> Result<(K, V)> {
    let key = K::decode(key).map_err(|error| not_of_type(table, K::type_name(), error))?;
    let row = V::decode(row).map_err(|error| undecodable::<V>(table, error))?;
    Ok((key, row))
}

/// Error of a row that does not decode. The row is decoded again, so that a scan of many rows carries no errors.
#[cold]
#[inline(never)]
pub(super) fn undecodable_row<K: Key, V: Value>(table: &TableCore, row: BatchRow<'_>) -> Error {
    let detail = "it decoded at the second attempt, and not at the first";
    decode_row::<K, V>(table, row.key, row.row)
        .err()
        .unwrap_or_else(|| undecodable::<V>(table, CodecError::new(detail)))
}

/// Error of a value that does not decode as `V`.
#[cold]
pub(crate) fn undecodable<V: Value>(table: &TableCore, error: CodecError) -> Error {
    not_of_type(table, V::type_name(), error)
}

/// Error of a key that does not decode as `K`.
#[cold]
pub(super) fn undecodable_key<K: Key>(table: &TableCore, error: CodecError) -> Error {
    not_of_type(table, K::type_name(), error)
}

#[cold]
fn not_of_type(table: &TableCore, type_name: String, error: CodecError) -> Error {
    Error::decode(table.name(), type_name, error.to_string())
}
