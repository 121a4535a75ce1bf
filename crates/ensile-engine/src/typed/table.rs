//! Tables as applications hold them, and the builder that opens them.
//!
//! Neighbours: `database` opens the bytes underneath; [`Readable`](crate::Readable) and
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
/// Cheap to clone, and shared between threads freely; it can be kept as long as the [`Database`] it came from.
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
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.core.name()
    }

    /// Its secondary index called `name`, whose keys are of type `S`.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the table was not opened with such an index, or its keys are of another type.
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
    /// Opens the table called `name`, and makes it if there is none.
    ///
    /// A table with secondary indexes is opened with [`define`](Self::define) first: the database cannot keep the
    /// functions that compute their keys from one process to the next. Once it is open with them, it is handed out
    /// with them here too.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the table exists with other types, has indexes and is not open with them yet, or the name
    /// is empty; [`Error::TooLarge`] if the name is; [`Error::TooMany`] if the database has as many tables as there can
    /// be (`TABLES_MAX` in `limits.rs`, and tables are never dropped).
    pub fn table<K: Key, V: Value>(&self, name: &str) -> Result<Table<K, V>> {
        let mut builder = self.define(name);
        builder.spec.defines_indexes = false;
        builder.open()
    }

    /// Begins to define the table called `name`; [`TableBuilder::open`] ends it.
    ///
    /// The definition is whole: an index that the table had when it was last open, and that is not named here, is not
    /// kept up any more and goes from the definition. Naming it again builds it anew.
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
            row_bytes: V::BYTES,
            indexes: Vec::new(),
            defines_indexes: true,
        };
        TableBuilder { database: self, spec, types: PhantomData }
    }
}

/// A table about to be opened, with its secondary indexes.
///
/// The function that computes a secondary key gets the primary key and the row. It must depend on nothing else, and
/// its `version` must be raised whenever it computes other keys than before: then the index is built anew. A write
/// calls it once for the old row and once for the new one. If it panics, nothing of that write is done. It may open
/// other tables, but not its own while that is being opened: that is [`Error::Misuse`].
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

    /// Adds a secondary index without two rows of the same secondary key: a transaction that would commit a second
    /// one gets [`Error::NotUnique`].
    pub fn unique_index<S: Key>(
        self,
        name: &str,
        version: u32,
        key: impl Fn(&K, &V) -> S + Send + Sync + 'static,
    ) -> Self {
        self.unique_index_some(name, version, move |primary, row| Some(key(primary, row)))
    }

    /// As [`index`](Self::index), but rows for which `key` is `None` are not in it.
    pub fn index_some<S: Key>(
        self,
        name: &str,
        version: u32,
        key: impl Fn(&K, &V) -> Option<S> + Send + Sync + 'static,
    ) -> Self {
        self.add(name, version, false, key)
    }

    /// As [`unique_index`](Self::unique_index), but rows for which `key` is `None` are not in it.
    pub fn unique_index_some<S: Key>(
        self,
        name: &str,
        version: u32,
        key: impl Fn(&K, &V) -> Option<S> + Send + Sync + 'static,
    ) -> Self {
        self.add(name, version, true, key)
    }

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

    /// Opens the table, and makes it if there is none. Its indexes are complete when this returns.
    ///
    /// # Errors
    /// - [`Error::Misuse`]: the table exists with other types, it is open with other indexes, two of its indexes have
    ///   one name, or a name is empty.
    /// - [`Error::NotUnique`]: a new unique index finds two rows with the same key.
    /// - [`Error::TooLarge`]: a name is.
    /// - [`Error::TooMany`]: there are more indexes than a table can have, or more tables or indexes than a database
    ///   can.
    /// - [`Error::Decode`]: a row does not decode, so that its secondary key cannot be computed.
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
