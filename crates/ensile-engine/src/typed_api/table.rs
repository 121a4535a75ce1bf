//! Typed table handles, and the builder that opens tables.
//!
//! Neighbours: `open::catalogue` opens the table of bytes underneath; [`Readable`](crate::Readable) and
//! [`Transaction`](crate::Transaction) read and write through a [`Table`].

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use ensile_base::sync::Arc;

use super::index::{Index, key_function};
use crate::codec::{Key, Value};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::tables::{IndexSpec, TableCore, TableSpec};

/// A handle on a table of rows: `K` is the primary key, `V` the row.
///
/// Cheap to clone, and freely shared between threads. A handle lives as long as its [`Database`].
///
/// ```
/// # extern crate ensile_engine as ensile;
/// # fn main() -> ensile::Result<()> {
/// use ensile::{Database, Readable, Table};
///
/// let db = Database::in_memory()?;
/// let scores: Table<String, u64> = db.table("scores")?;
/// db.run(|tx| tx.put(&scores, "ada", &7))?;
/// assert_eq!(db.run(|tx| tx.get(&scores, "ada"))?, Some(7));
/// # Ok(())
/// # }
/// ```
pub struct Table<K, V> {
    pub(crate) core: Arc<TableCore>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> Table<K, V> {
    /// Name of the table.
    #[must_use]
    pub fn name(&self) -> &str {
        self.core.name()
    }

    /// Permits puts into this table at the limit of the memory, in transactions that otherwise only delete: for rows
    /// that change with deletes, such as counts. The setting holds until the close of the database.
    ///
    /// The rows must be few. Their memory comes from the reserve for deletes, and deletes are refused, too, once the
    /// reserve is used up.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// use ensile::{Database, Error, Readable};
    ///
    /// let db = Database::builder_in_memory().memory_bytes_max(1 << 20).open()?;
    /// let (notes, counts) = (db.table::<u64, Vec<u8>>("notes")?, db.table::<u32, u64>("counts")?);
    /// counts.use_delete_reserve();
    /// let write = |key: u64| {
    ///     db.run(|tx| {
    ///         tx.put(&notes, &key, &vec![0; 100_000])?;
    ///         tx.put(&counts, &0, &(key + 1))
    ///     })
    /// };
    /// let full = (0..100).try_for_each(write);
    /// assert!(matches!(full, Err(Error::MemoryFull { .. })));
    /// db.run(|tx| {
    ///     let count = tx.get(&counts, &0)?.unwrap_or(0);
    ///     tx.put(&counts, &0, &(count - 1))?;
    ///     tx.delete(&notes, &0)
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn use_delete_reserve(&self) {
        self.core.set_uses_reserve();
    }

    /// The secondary index called `name`, with keys of type `S`.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the table was not opened with such an index, or the index has keys of another type.
    pub fn index<S: Key>(&self, name: &str) -> Result<Index<S, K, V>> {
        let table = self.name();
        let Some(index) = self.core.index(name) else {
            return Err(Error::Misuse(format!(
                "table {table} has no index {name}: give it one with Database::define"
            )));
        };
        if index.key_type != S::type_name() {
            return Err(Error::Misuse(format!(
                "index {name} of table {table} has keys of type {}, not {}: ask for it with their type",
                index.key_type,
                S::type_name()
            )));
        }
        Ok(Index::new(Arc::clone(&self.core), Arc::clone(index)))
    }
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table<{}, {}>({:?})", type_name::<K>(), type_name::<V>(), self.core.name())
    }
}

impl Database {
    /// Opens the table called `name`, and makes the table if it does not exist.
    ///
    /// Open a table with secondary indexes by [`define`](Self::define) first: the database cannot store the functions
    /// that compute secondary keys. After that, this call also returns the table with its indexes.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the table exists with other types, if the table has indexes and is not open with them yet,
    /// if the name is empty, or if the database has the largest possible number of tables (`TABLES_MAX` in `limits.rs`;
    /// tables are never dropped); [`Error::TooLarge`] if the name is too long.
    pub fn table<K: Key, V: Value>(&self, name: &str) -> Result<Table<K, V>> {
        let mut builder = self.define(name);
        builder.spec.defines_indexes = false;
        builder.open()
    }

    /// Begins the definition of the table called `name`; [`TableBuilder::open`] ends the definition.
    ///
    /// The definition is complete. An index of the last open without a name here is not maintained any more, and is
    /// removed from the definition. A later definition with the name rebuilds the index.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// use ensile::{Database, Readable};
    ///
    /// let db = Database::in_memory()?;
    /// let people = db
    ///     .define::<u64, String>("people")
    ///     .index("by_initial", 1, |_id, name| name.chars().next())
    ///     .unique_index("by_name", 1, |_id, name| name.clone())
    ///     .open()?;
    /// let by_name = people.index::<String>("by_name")?;
    ///
    /// db.run(|tx| tx.put(&people, &1, "Ada"))?;
    /// let found = db.run(|tx| tx.get(&by_name, "Ada"))?;
    /// assert_eq!(found, Some((1, "Ada".to_string())));
    /// # Ok(())
    /// # }
    /// ```
    pub fn define<K: Key, V: Value>(&self, name: &str) -> TableBuilder<'_, K, V> {
        let spec = TableSpec {
            name: name.to_string(),
            key_type: K::type_name(),
            value_type: V::type_name(),
            value_layout: V::layout(),
            row_bytes: V::BYTES,
            indexes: Vec::new(),
            defines_indexes: true,
        };
        TableBuilder { database: self, spec, types: PhantomData }
    }
}

/// Definition of a table before its open, with its secondary indexes.
///
/// The key function of an index gets the primary key and the row. The function must depend on nothing else. Raise its
/// `version` whenever the function computes different keys: the index is then rebuilt. A write calls the function for
/// the old row and for the new row. A panic of the function undoes the write. The function may open other tables. The
/// function must not open its own table during the open of the table: the result is [`Error::Misuse`].
#[must_use = "a table is there once `open` was called"]
pub struct TableBuilder<'db, K, V> {
    database: &'db Database,
    spec: TableSpec,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> TableBuilder<'_, K, V> {
    /// Adds a secondary index: any number of rows may have the same secondary key.
    pub fn index<S: Key>(
        self,
        name: &str,
        version: u32,
        key: impl Fn(&K, &V) -> S + Send + Sync + 'static,
    ) -> Self {
        self.index_some(name, version, move |primary, row| Some(key(primary, row)))
    }

    /// Adds a unique secondary index. A transaction that would commit a second row with the same secondary key gets
    /// [`Error::NotUnique`].
    pub fn unique_index<S: Key>(
        self,
        name: &str,
        version: u32,
        key: impl Fn(&K, &V) -> S + Send + Sync + 'static,
    ) -> Self {
        self.unique_index_some(name, version, move |primary, row| Some(key(primary, row)))
    }

    /// As [`index`](Self::index), without the rows for which `key` is `None`.
    pub fn index_some<S: Key>(
        self,
        name: &str,
        version: u32,
        key: impl Fn(&K, &V) -> Option<S> + Send + Sync + 'static,
    ) -> Self {
        self.add(name, version, false, key)
    }

    /// As [`unique_index`](Self::unique_index), without the rows for which `key` is `None`.
    pub fn unique_index_some<S: Key>(
        self,
        name: &str,
        version: u32,
        key: impl Fn(&K, &V) -> Option<S> + Send + Sync + 'static,
    ) -> Self {
        self.add(name, version, true, key)
    }

    /// Adds an index to the definition. A row without a secondary key (`None`) has no entry in the index.
    fn add<S: Key>(
        mut self,
        name: &str,
        version: u32,
        unique: bool,
        key: impl Fn(&K, &V) -> Option<S> + Send + Sync + 'static,
    ) -> Self {
        self.spec.indexes.push(IndexSpec {
            name: name.to_string(),
            version,
            unique,
            key_type: S::type_name(),
            key: key_function(key),
        });
        self
    }

    /// Opens the table, and makes the table if it does not exist. Its indexes are complete at the return.
    ///
    /// # Errors
    /// - [`Error::Misuse`]: the table exists with other types or is open with other indexes, two of its indexes have
    ///   the same name, a name is empty, or the table has too many indexes, or the database too many tables or indexes.
    /// - [`Error::NotUnique`]: a new unique index finds two rows with the same key.
    /// - [`Error::TooLarge`]: a name is too long.
    /// - [`Error::Decode`]: a row does not decode, so its secondary key cannot be computed.
    pub fn open(self) -> Result<Table<K, V>> {
        let core = self.database.open_table(self.spec)?;
        Ok(Table { core, types: PhantomData })
    }
}

impl<K, V> fmt::Debug for TableBuilder<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indexes: Vec<&str> = self.spec.indexes.iter().map(|index| index.name.as_str()).collect();
        f.debug_struct("TableBuilder")
            .field("name", &self.spec.name)
            .field("indexes", &indexes)
            .finish_non_exhaustive()
    }
}
