//! Every typed read, once, for transactions and snapshots alike.
//!
//! Keys go down encoded, rows come up decoded. What a read means for the commit (read-set, node-set, own writes) is
//! the business of the `raw_` functions underneath.
//!
//! Neighbours: [`Transaction`] and [`Snapshot`] are the two readers; `iterate` has the iterator that ranges return.

use std::ops::ControlFlow;

use ensile_index::Direction;

use super::index::Index;
use super::iterate::Rows;
use super::table::Table;
use crate::codec::bounds::{ByteRange, encoded};
use crate::codec::{AsKey, CodecError, Key, KeyBounds, KeyPrefix, Prefix, Value};
use crate::error::{Error, Result};
use crate::reading::RawRead;
use crate::reading::snapshot::Snapshot;
use crate::tables::{IndexCore, TableCore};
use crate::transaction::Transaction;

/// What rows can be read through: a [`Transaction`] or a [`Snapshot`].
///
/// A transaction sees its own writes, and what it reads is checked when it commits, absent rows and the gaps in
/// ranges included. A snapshot sees the state of its boundary and is never in conflict. A function that only reads
/// takes either:
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
/// stayed open too long, [`Error::Misuse`] if the table belongs to another database. A transaction's scan that meets
/// another's commit may end with [`Error::Conflict`] early.
#[expect(
    private_bounds,
    reason = "sealed: what a read means to a commit is between the engine's two readers"
)]
pub trait Readable: RawRead + Sized {
    /// The row with this key, if there is one.
    #[inline]
    fn get<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
    ) -> Result<Option<V>> {
        decoded(&table.core, self.raw_get(&table.core, encoded(key).as_ref(), V::decode)?)
    }

    /// Shows the row with this key to `read`, if there is one: rows of fixed layout are read where they lie.
    #[inline]
    fn get_with<K: Key, V: Value, R>(
        &mut self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        read: impl FnOnce(&V) -> R,
    ) -> Result<Option<R>> {
        let seen = self.raw_get(&table.core, encoded(key).as_ref(), |row| V::view(row, read))?;
        seen.transpose().map_err(|error| undecodable::<V>(&table.core, error))
    }

    /// Whether there is a row with this key.
    #[inline]
    fn contains<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
    ) -> Result<bool> {
        Ok(self.raw_get(&table.core, encoded(key).as_ref(), |_row| ())?.is_some())
    }

    /// The rows with these keys, in their order. Faster than one [`get`](Self::get) after the other: the ways down
    /// the index are walked side by side, so that their cache misses overlap.
    fn get_many<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        keys: &[impl AsKey<K>],
    ) -> Result<Vec<Option<V>>> {
        let mut rows = Vec::with_capacity(keys.len());
        let mut failed = None;
        self.raw_get_many(&table.core, keys.iter().map(|key| encoded(key)), &mut |at, row| {
            assert_eq!(at, rows.len(), "rows come in the order of their keys");
            let row = row.map(V::decode).transpose().unwrap_or_else(|error| {
                failed = Some(error);
                None
            });
            rows.push(row);
        })?;
        failed.map_or(Ok(rows), |error| Err(undecodable::<V>(&table.core, error)))
    }

    /// As [`get_many`](Self::get_many), handing each row to `read` with its position instead of collecting them.
    ///
    /// # Errors
    /// [`Error::Decode`](crate::Error::Decode) if a row is not of the table's type, after the others were read.
    fn get_many_with<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        keys: &[impl AsKey<K>],
        mut read: impl FnMut(usize, Option<&V>),
    ) -> Result<()> {
        let mut failed = None;
        self.raw_get_many(&table.core, keys.iter().map(|key| encoded(key)), &mut |at, row| match row {
            None => read(at, None),
            Some(row) => match V::view(row, |row| read(at, Some(row))) {
                Ok(()) => {}
                Err(error) => failed = Some(error),
            },
        })?;
        failed.map_or(Ok(()), |error| Err(undecodable::<V>(&table.core, error)))
    }

    /// The row with the least key within `bounds`, if any.
    fn first<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        bounds: impl KeyBounds<K>,
    ) -> Result<Option<(K, V)>> {
        first_row(self, &table.core, None, &bounds.encode(), Direction::Forward)
    }

    /// The row with the greatest key within `bounds`, if any.
    fn last<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        bounds: impl KeyBounds<K>,
    ) -> Result<Option<(K, V)>> {
        first_row(self, &table.core, None, &bounds.encode(), Direction::Reverse)
    }

    /// Hands the rows within `bounds` to `visit`, least key first, until it breaks. Nothing is read beyond that row.
    fn scan<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        bounds: impl KeyBounds<K>,
        visit: impl FnMut(K, V) -> ControlFlow<()>,
    ) -> Result<()> {
        visit_rows(self, &table.core, None, &bounds.encode(), Direction::Forward, visit)
    }

    /// As [`scan`](Self::scan), greatest key first.
    fn scan_reverse<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        bounds: impl KeyBounds<K>,
        visit: impl FnMut(K, V) -> ControlFlow<()>,
    ) -> Result<()> {
        visit_rows(self, &table.core, None, &bounds.encode(), Direction::Reverse, visit)
    }

    /// The rows within `bounds`, least key first. They are fetched in batches, so a few more may be read than are
    /// asked for; [`scan`](Self::scan) reads none too many.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable, Result};
    /// # fn main() -> Result<()> {
    /// let db = Database::in_memory()?;
    /// let scores = db.table::<u32, String>("scores")?;
    /// db.run(|tx| [(10, "Ada"), (20, "Bob"), (30, "Eve")].iter().try_for_each(|(k, v)| tx.put(&scores, k, *v)))?;
    /// let rows = db.run(|tx| tx.range(&scores, 15..).collect::<Result<Vec<_>>>())?;
    /// assert_eq!(rows, [(20, "Bob".to_string()), (30, "Eve".to_string())]);
    /// # Ok(()) }
    /// ```
    fn range<'r, K: Key, V: Value>(
        &'r mut self,
        table: &'r Table<K, V>,
        bounds: impl KeyBounds<K>,
    ) -> Rows<'r, Self, K, V> {
        Rows::new(self, &table.core, None, bounds.encode(), Direction::Forward)
    }

    /// As [`range`](Self::range), greatest key first.
    fn range_reverse<'r, K: Key, V: Value>(
        &'r mut self,
        table: &'r Table<K, V>,
        bounds: impl KeyBounds<K>,
    ) -> Rows<'r, Self, K, V> {
        Rows::new(self, &table.core, None, bounds.encode(), Direction::Reverse)
    }

    /// The rows whose keys begin with `prefix`, least key first: `range` over [`Prefix`], which every other function
    /// takes as bounds too.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Prefix, Readable, Result};
    /// # fn main() -> Result<()> {
    /// let db = Database::in_memory()?;
    /// let lines = db.table::<(u64, u8), String>("order lines")?; // order, line
    /// db.run(|tx| {
    ///     tx.put(&lines, &(1, 1), "tea")?;
    ///     tx.put(&lines, &(1, 2), "rice")?;
    ///     tx.put(&lines, &(2, 1), "salt")
    /// })?;
    /// let order = db.run(|tx| tx.prefix(&lines, (1,)).collect::<Result<Vec<_>>>())?;
    /// assert_eq!(order, [((1, 1), "tea".to_string()), ((1, 2), "rice".to_string())]);
    /// assert_eq!(db.run(|tx| tx.last(&lines, Prefix((2,))))?, Some(((2, 1), "salt".to_string())));
    /// # Ok(()) }
    /// ```
    fn prefix<'r, K: Key, V: Value>(
        &'r mut self,
        table: &'r Table<K, V>,
        prefix: impl KeyPrefix<K>,
    ) -> Rows<'r, Self, K, V> {
        self.range(table, Prefix(prefix))
    }

    /// The row with this key in a unique index, if there is one.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let people = db.define::<u64, String>("people").unique_index("by_name", 1, |_id, name| name.clone()).open()?;
    /// let by_name = people.index::<String>("by_name")?;
    /// db.run(|tx| tx.put(&people, &7, "Ada"))?;
    /// assert_eq!(db.run(|tx| tx.get_by(&by_name, "Ada"))?, Some((7, "Ada".to_string())));
    /// assert_eq!(db.run(|tx| tx.get_by(&by_name, "Bob"))?, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] if the index is not unique: [`find_by`](Self::find_by) finds all rows.
    fn get_by<S: Key, K: Key, V: Value>(
        &mut self,
        index: &Index<S, K, V>,
        key: &(impl AsKey<S> + ?Sized),
    ) -> Result<Option<(K, V)>> {
        if !index.is_unique() {
            let (table, name) = (index.table.name(), index.name());
            return Err(Error::Misuse(format!(
                "index {name} of table {table} is not unique: a key may have many rows, find_by finds them all"
            )));
        }
        first_row(self, &index.table, Some(&index.core), &ByteRange::of_entry(key), Direction::Forward)
    }

    /// All rows with this key in an index, in the order of their primary keys.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable, Result};
    /// # fn main() -> Result<()> {
    /// let db = Database::in_memory()?;
    /// let orders = db.define::<u64, u32>("orders").index("by_customer", 1, |_order, customer| *customer).open()?;
    /// let by_customer = orders.index::<u32>("by_customer")?;
    /// db.run(|tx| [(1, 7), (2, 8), (3, 7)].iter().try_for_each(|(order, of)| tx.put(&orders, order, of)))?;
    /// let found = db.run(|tx| tx.find_by(&by_customer, &7).collect::<Result<Vec<_>>>())?;
    /// assert_eq!(found, [(1, 7), (3, 7)]);
    /// # Ok(()) }
    /// ```
    fn find_by<'r, S: Key, K: Key, V: Value>(
        &'r mut self,
        index: &'r Index<S, K, V>,
        key: &(impl AsKey<S> + ?Sized),
    ) -> Rows<'r, Self, K, V> {
        Rows::new(self, &index.table, Some(&index.core), ByteRange::of_entry(key), Direction::Forward)
    }

    /// The first row of an index within `bounds`, if any.
    fn first_by<S: Key, K: Key, V: Value>(
        &mut self,
        index: &Index<S, K, V>,
        bounds: impl KeyBounds<S>,
    ) -> Result<Option<(K, V)>> {
        first_row(self, &index.table, Some(&index.core), &bounds.encode_delimited(), Direction::Forward)
    }

    /// The last row of an index within `bounds`, if any.
    fn last_by<S: Key, K: Key, V: Value>(
        &mut self,
        index: &Index<S, K, V>,
        bounds: impl KeyBounds<S>,
    ) -> Result<Option<(K, V)>> {
        first_row(self, &index.table, Some(&index.core), &bounds.encode_delimited(), Direction::Reverse)
    }

    /// As [`scan`](Self::scan), in the order of an index, with bounds on its keys.
    fn scan_by<S: Key, K: Key, V: Value>(
        &mut self,
        index: &Index<S, K, V>,
        bounds: impl KeyBounds<S>,
        visit: impl FnMut(K, V) -> ControlFlow<()>,
    ) -> Result<()> {
        visit_rows(
            self,
            &index.table,
            Some(&index.core),
            &bounds.encode_delimited(),
            Direction::Forward,
            visit,
        )
    }

    /// The primary keys of the rows that an index holds within `bounds`, in its order, until `visit` breaks. The rows
    /// themselves are not read: an entry stands for its row, and moves with it.
    ///
    /// # Errors
    /// As for [`scan`](Self::scan).
    fn scan_keys_by<S: Key, K: Key, V: Value>(
        &mut self,
        index: &Index<S, K, V>,
        bounds: impl KeyBounds<S>,
        mut visit: impl FnMut(K) -> ControlFlow<()>,
    ) -> Result<()> {
        let range = bounds.encode_delimited();
        if range.is_empty() {
            return Ok(());
        }
        let mut failed = None;
        self.raw_scan(&index.core.entries, range.as_range(), Direction::Forward, &mut |_entry, key| {
            match K::decode(key) {
                Ok(key) => visit(key),
                Err(error) => {
                    failed = Some(not_of_type(&index.table, K::type_name(), error));
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// As [`scan_reverse`](Self::scan_reverse), in the order of an index, with bounds on its keys.
    fn scan_reverse_by<S: Key, K: Key, V: Value>(
        &mut self,
        index: &Index<S, K, V>,
        bounds: impl KeyBounds<S>,
        visit: impl FnMut(K, V) -> ControlFlow<()>,
    ) -> Result<()> {
        visit_rows(
            self,
            &index.table,
            Some(&index.core),
            &bounds.encode_delimited(),
            Direction::Reverse,
            visit,
        )
    }

    /// As [`range`](Self::range), in the order of an index, with bounds on its keys.
    fn range_by<'r, S: Key, K: Key, V: Value>(
        &'r mut self,
        index: &'r Index<S, K, V>,
        bounds: impl KeyBounds<S>,
    ) -> Rows<'r, Self, K, V> {
        Rows::new(self, &index.table, Some(&index.core), bounds.encode_delimited(), Direction::Forward)
    }

    /// As [`range_reverse`](Self::range_reverse), in the order of an index, with bounds on its keys.
    fn range_reverse_by<'r, S: Key, K: Key, V: Value>(
        &'r mut self,
        index: &'r Index<S, K, V>,
        bounds: impl KeyBounds<S>,
    ) -> Rows<'r, Self, K, V> {
        Rows::new(self, &index.table, Some(&index.core), bounds.encode_delimited(), Direction::Reverse)
    }
}

impl Readable for Transaction<'_> {}
impl Readable for Snapshot<'_> {}

/// The first row in scan order, if any: of the table, or of one of its indexes.
fn first_row<K: Key, V: Value>(
    reader: &mut impl RawRead,
    table: &TableCore,
    index: Option<&IndexCore>,
    range: &ByteRange,
    direction: Direction,
) -> Result<Option<(K, V)>> {
    let mut first = None;
    visit_rows(reader, table, index, range, direction, |key, row| {
        first = Some((key, row));
        ControlFlow::Break(())
    })?;
    Ok(first)
}

/// Hands decoded rows to `visit` until it breaks or a row does not decode.
fn visit_rows<K: Key, V: Value>(
    reader: &mut impl RawRead,
    table: &TableCore,
    index: Option<&IndexCore>,
    range: &ByteRange,
    direction: Direction,
    mut visit: impl FnMut(K, V) -> ControlFlow<()>,
) -> Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let mut failed = None;
    let mut visit = |key: &[u8], row: &[u8]| {
        if let Ok(key) = K::decode(key)
            && let Ok(row) = V::decode(row)
        {
            return visit(key, row);
        }
        failed = Some(undecodable_row::<K, V>(table, key, row));
        ControlFlow::Break(())
    };
    match index {
        None => reader.raw_scan(table, range.as_range(), direction, &mut visit)?,
        Some(index) => {
            reader.raw_scan_index(table, index, range.as_range(), direction, &mut |_entry, key, row| {
                visit(key, row)
            })?;
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Inlined, so that columns nobody asks for are not even copied.
#[inline(always)]
pub(super) fn decode_row<K: Key, V: Value>(table: &TableCore, key: &[u8], row: &[u8]) -> Result<(K, V)> {
    let key = K::decode(key).map_err(|error| not_of_type(table, K::type_name(), error))?;
    let row = V::decode(row).map_err(|error| undecodable::<V>(table, error))?;
    Ok((key, row))
}

/// What is wrong with a row that does not decode. Found out anew, so that who reads rows in numbers carries no errors
/// about.
#[cold]
#[inline(never)]
fn undecodable_row<K: Key, V: Value>(table: &TableCore, key: &[u8], row: &[u8]) -> Error {
    let detail = "it decoded at the second attempt, and not at the first";
    decode_row::<K, V>(table, key, row)
        .err()
        .unwrap_or_else(|| undecodable::<V>(table, CodecError::new(detail)))
}

#[inline]
fn decoded<V: Value>(table: &TableCore, row: Option<Result<V, CodecError>>) -> Result<Option<V>> {
    row.transpose().map_err(|error| undecodable::<V>(table, error))
}

#[cold]
pub(crate) fn undecodable<V: Value>(table: &TableCore, error: CodecError) -> Error {
    not_of_type(table, V::type_name(), error)
}

#[cold]
fn not_of_type(table: &TableCore, type_name: String, error: CodecError) -> Error {
    Error::decode(table.name(), type_name, error.to_string())
}
