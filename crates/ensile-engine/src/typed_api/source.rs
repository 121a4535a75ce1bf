//! Sources of rows: a table, or an index of a table. Each source has a type of keys and a result of a look-up.
//!
//! Neighbours: [`Readable`](crate::Readable) has the operations, the same for tables and indexes.

use ensile_index::Direction;

use super::index::Index;
use super::table::Table;
use crate::codec::bounds::{ByteRange, encode_key};
use crate::codec::{AsKey, CodecError, Key, KeyBounds, Value};
use crate::error::{Error, Result};
use crate::read_path::{RawRead, RowSource};
use crate::sets::rows::{BatchAsked, BatchRow};
use crate::tables::{IndexCore, TableCore};

/// A source of rows: a [`Table`], in the order of its keys, or an [`Index`], in the order of secondary keys.
///
/// | | `Key` | `PrimaryKey` | `Row` | `Found` |
/// |---|---|---|---|---|
/// | `Table<K, V>` | `K` | `K` | `V` | `V` |
/// | `Index<S, K, V>` | `S` | `K` | `V` | `(K, V)` |
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::{Database, Readable, Result, Source};
///
/// fn count(reader: &mut impl Readable, source: &impl Source) -> Result<usize> {
///     reader.range(source, ..).try_fold(0, |count, row| row.map(|_| count + 1))
/// }
///
/// # fn main() -> Result<()> {
/// let db = Database::in_memory()?;
/// let people = db.define::<u64, String>("people").index("by_initial", 1, |_id, name| name.chars().next()).open()?;
/// let by_initial = people.index::<Option<char>>("by_initial")?;
/// db.run(|tx| tx.put(&people, &1, "Ada"))?;
/// assert_eq!(db.run(|tx| Ok((count(tx, &people)?, count(tx, &by_initial)?)))?, (1, 1));
/// # Ok(()) }
/// ```
#[expect(private_bounds, reason = "sealed: how bytes are read is between the engine and its two sources")]
pub trait Source: RawSource {
    /// Type of the key for look-ups.
    type Key: Key;
    /// Type of the table's key.
    type PrimaryKey: Key;
    /// Type of the table's rows.
    type Row: Value;
    /// Result of a look-up of a single key.
    type Found;

    /// Decodes the result of a look-up: the bytes of the row, and of the primary key unless the look-up was by primary
    /// key.
    ///
    /// # Errors
    /// [`CodecError`] if the bytes are not of these types.
    fn decode(key: &[u8], row: &[u8]) -> Result<Self::Found, CodecError>;
}

/// Callback with the position of each key, and with the primary key and the row of the result.
type VisitFound<'v> = dyn FnMut(usize, Option<(&[u8], &[u8])>) + 'v;

/// Byte reads of a source. `S` is the type of the keys.
pub(crate) trait RawSource {
    /// The table of the rows, and the index that orders the rows.
    fn row_source(&self) -> RowSource<'_>;

    /// The table of the rows.
    #[inline]
    fn table(&self) -> &TableCore {
        self.row_source().table
    }

    /// The range of keys or of entries within `bounds`.
    fn range<S: Key>(bounds: &impl KeyBounds<S>) -> ByteRange;

    /// The range of a single key: its row in a table, or its entries in an index.
    fn range_of<S: Key>(key: &(impl AsKey<S> + ?Sized)) -> ByteRange;

    /// Calls `read` with the primary key and the row of the result for `key`. A table passes an empty key, because the
    /// caller has the key.
    fn read_one<S: Key, T>(
        &self,
        reader: &mut impl RawRead,
        key: &(impl AsKey<S> + ?Sized),
        read: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Result<Option<T>>;

    /// True if `key` has a row.
    fn has<S: Key>(&self, reader: &mut impl RawRead, key: &(impl AsKey<S> + ?Sized)) -> Result<bool>;

    /// Calls `read` for each key with its position and result, in the order of the keys.
    fn read_many<S: Key>(
        &self,
        reader: &mut impl RawRead,
        keys: &[impl AsKey<S>],
        read: &mut VisitFound<'_>,
    ) -> Result<()>;
}

impl<K: Key, V: Value> Source for Table<K, V> {
    type Key = K;
    type PrimaryKey = K;
    type Row = V;
    type Found = V;

    #[inline]
    fn decode(_key: &[u8], row: &[u8]) -> Result<V, CodecError> {
        V::decode(row)
    }
}

impl<K: Key, V: Value> RawSource for Table<K, V> {
    #[inline]
    fn row_source(&self) -> RowSource<'_> {
        RowSource { table: &self.core, index: None }
    }

    #[inline]
    fn range<S: Key>(bounds: &impl KeyBounds<S>) -> ByteRange {
        bounds.encode()
    }

    #[inline]
    fn range_of<S: Key>(key: &(impl AsKey<S> + ?Sized)) -> ByteRange {
        ByteRange::of_key(key)
    }

    #[inline]
    fn read_one<S: Key, T>(
        &self,
        reader: &mut impl RawRead,
        key: &(impl AsKey<S> + ?Sized),
        read: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Result<Option<T>> {
        reader.raw_get(&self.core, encode_key(key).as_ref(), |row| read(&[], row))
    }

    #[inline]
    fn has<S: Key>(&self, reader: &mut impl RawRead, key: &(impl AsKey<S> + ?Sized)) -> Result<bool> {
        Ok(reader.raw_get(&self.core, encode_key(key).as_ref(), |_row| ())?.is_some())
    }

    fn read_many<S: Key>(
        &self,
        reader: &mut impl RawRead,
        keys: &[impl AsKey<S>],
        read: &mut VisitFound<'_>,
    ) -> Result<()> {
        reader.raw_get_many(&self.core, keys.iter().map(|key| encode_key(key)), |rows| {
            for (at, row) in rows.found_rows().enumerate() {
                read(at, row.map(|row| (&[][..], row)));
            }
        })
    }
}

impl<I: Key, K: Key, V: Value> Source for Index<I, K, V> {
    type Key = I;
    type PrimaryKey = K;
    type Row = V;
    type Found = (K, V);

    #[inline]
    fn decode(key: &[u8], row: &[u8]) -> Result<(K, V), CodecError> {
        Ok((K::decode(key)?, V::decode(row)?))
    }
}

impl<I: Key, K: Key, V: Value> RawSource for Index<I, K, V> {
    #[inline]
    fn row_source(&self) -> RowSource<'_> {
        RowSource { table: &self.table, index: Some(&self.core) }
    }

    #[inline]
    fn range<S: Key>(bounds: &impl KeyBounds<S>) -> ByteRange {
        bounds.encode_delimited()
    }

    #[inline]
    fn range_of<S: Key>(key: &(impl AsKey<S> + ?Sized)) -> ByteRange {
        ByteRange::of_entry(key)
    }

    fn read_one<S: Key, T>(
        &self,
        reader: &mut impl RawRead,
        key: &(impl AsKey<S> + ?Sized),
        read: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Result<Option<T>> {
        if !self.is_unique() {
            return Err(not_unique(&self.table, &self.core));
        }
        let range = ByteRange::of_entry(key);
        one_row(self.row_source(), reader, &range, Direction::Forward, false, |row| read(row.key, row.row))
    }

    fn has<S: Key>(&self, reader: &mut impl RawRead, key: &(impl AsKey<S> + ?Sized)) -> Result<bool> {
        let entries = RowSource { table: &self.core.entries, index: None };
        let range = ByteRange::of_entry(key);
        Ok(one_row(entries, reader, &range, Direction::Forward, true, |_entry| ())?.is_some())
    }

    fn read_many<S: Key>(
        &self,
        reader: &mut impl RawRead,
        keys: &[impl AsKey<S>],
        read: &mut VisitFound<'_>,
    ) -> Result<()> {
        for (at, key) in keys.iter().enumerate() {
            if self.read_one(reader, key, |key, row| read(at, Some((key, row))))?.is_none() {
                read(at, None);
            }
        }
        Ok(())
    }
}

/// Calls `read` with the first row of a range in scan order, and returns the result; `None` without a row.
pub(super) fn one_row<T>(
    source: RowSource<'_>,
    reader: &mut impl RawRead,
    range: &ByteRange,
    direction: Direction,
    keys_only: bool,
    read: impl FnOnce(BatchRow<'_>) -> T,
) -> Result<Option<T>> {
    if range.is_empty() {
        return Ok(None);
    }
    let asked = BatchAsked { rows_max: 1, keys_only };
    reader.raw_batch(source, range.as_range(), direction, asked, |rows| rows.rows().next().map(read))
}

#[cold]
fn not_unique(table: &TableCore, index: &IndexCore) -> Error {
    let (table, name) = (table.name(), &index.name);
    Error::Misuse(format!(
        "index {name} of table {table} is not unique: a key may have many rows, find returns them all"
    ))
}
