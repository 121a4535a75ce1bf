//! Tables: a table connects the index with records (Silo §3).
//!
//! A table is a tree from encoded keys to record handles. A secondary index is a table of its own, and its rows hold
//! primary keys (§4.7). Tables are never dropped while their database lives, and ids are never reused (X1).
//!
//! Neighbours: `open::catalogue` makes tables. `read_path`, `transaction` and `commit` read and write through tables.

pub(crate) mod catalog;
pub(crate) mod logged_tables;
pub(crate) mod side_index;

use ensile_base::sync::{Arc, AtomicBool, OnceLock, Ordering};

use crossbeam_utils::CachePadded;
use ensile_base::limits::{INDEX_KEY_BYTES_MAX, KEY_BYTES_MAX, TABLES_MAX, VALUE_BYTES_MAX};

use crate::error::{Error, Result};
use crate::pictures::table_pages::TablePages;
use crate::record::Fetch;
use crate::record::tree::RecordTree;
use side_index::SideIndex;

/// Bit in the id of a table without a log: the entries of a secondary index.
pub(crate) const VOLATILE: u32 = 1 << 31;
/// Id of the catalogue.
pub(crate) const CATALOG_ID: u32 = 0;

/// Computes a row's secondary key from its primary key and value; false leaves the row out of the index.
pub(crate) type IndexKeyFn = Box<dyn Fn(&[u8], &[u8], &mut Vec<u8>) -> Result<bool, String> + Send + Sync>;

/// A table in an application's request.
pub(crate) struct TableSpec {
    pub(crate) name: String,
    pub(crate) key_type: String,
    pub(crate) value_type: String,
    /// Fields of the values' type, if the type states its fields (X2).
    pub(crate) value_layout: Option<String>,
    /// Size of a row in bytes, if all rows have the same size.
    pub(crate) row_bytes: Option<usize>,
    pub(crate) indexes: Vec<IndexSpec>,
    /// True if `indexes` is the complete list, false if the table keeps its indexes.
    pub(crate) defines_indexes: bool,
}

/// A secondary index in an application's request.
pub(crate) struct IndexSpec {
    pub(crate) name: String,
    /// Version of the key function. The application raises the version at every change of the function (X1).
    pub(crate) version: u32,
    pub(crate) unique: bool,
    pub(crate) key_type: String,
    /// Key function, with prefix-free secondary keys.
    pub(crate) key: IndexKeyFn,
}

pub(crate) struct TableCore {
    /// Number of the table's database in this process.
    pub(crate) database: u64,
    pub(crate) id: u32,
    pub(crate) tree: Arc<RecordTree>,
    /// Deleted keys that have left the tree.
    pub(crate) side: CachePadded<SideIndex>,
    /// Pages, with the lists of displaced versions while a picture is under way. The pages of an index get no versions.
    pub(crate) pages: Arc<TablePages>,
    pub(crate) indexes: Box<[Arc<IndexCore>]>,
    /// Prefetch plan for a record, used as soon as its address is known.
    pub(crate) fetch: Fetch,
    /// True if puts use the reserve for deletes (M4).
    uses_reserve: AtomicBool,
    name: String,
    key_type: String,
    value_type: String,
    value_layout: Option<String>,
}

/// A secondary index of a table.
pub(crate) struct IndexCore {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) unique: bool,
    pub(crate) key_type: String,
    pub(crate) key: IndexKeyFn,
    /// Table of entries. Entry key: the secondary key, followed by the primary key unless the index is unique. Row: the
    /// primary key.
    pub(crate) entries: Arc<TableCore>,
}

impl TableCore {
    pub(crate) fn new(
        database: u64,
        id: u32,
        tree: Arc<RecordTree>,
        pages: Arc<TablePages>,
        spec: &TableSpec,
        indexes: Vec<Arc<IndexCore>>,
    ) -> Self {
        Self {
            database,
            id,
            tree,
            side: CachePadded::default(),
            pages,
            indexes: indexes.into_boxed_slice(),
            fetch: Fetch::of_rows(spec.row_bytes),
            uses_reserve: AtomicBool::new(false),
            name: spec.name.clone(),
            key_type: spec.key_type.clone(),
            value_type: spec.value_type.clone(),
            value_layout: spec.value_layout.clone(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// True if puts use the reserve for deletes (M4).
    pub(crate) fn uses_reserve(&self) -> bool {
        // Relaxed: a setting. A put that misses the setting is refused, and may be repeated.
        self.uses_reserve.load(Ordering::Relaxed)
    }

    pub(crate) fn set_uses_reserve(&self) {
        debug_assert!(self.id & VOLATILE == 0, "entries of an index have no setting of their own");
        // Relaxed: a setting, which is never taken back.
        self.uses_reserve.store(true, Ordering::Relaxed);
    }

    pub(crate) fn key_type(&self) -> &str {
        &self.key_type
    }

    pub(crate) fn value_type(&self) -> &str {
        &self.value_type
    }

    pub(crate) fn value_layout(&self) -> Option<&str> {
        self.value_layout.as_deref()
    }

    pub(crate) fn index(&self, name: &str) -> Option<&Arc<IndexCore>> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// True if writes to the table go into the log.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        is_logged(self.id)
    }

    /// Refuses keys over the limit.
    #[inline]
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<()> {
        let bytes_max = if self.is_logged() { KEY_BYTES_MAX } else { INDEX_KEY_BYTES_MAX };
        check_length("the key", key.len(), bytes_max)
    }

    /// Refuses values over the limit.
    #[inline]
    pub(crate) fn check_value(&self, value: &[u8]) -> Result<()> {
        check_length("the value", value.len(), VALUE_BYTES_MAX)
    }
}

/// True if writes to the table with this id go into the log.
#[inline]
pub(crate) const fn is_logged(id: u32) -> bool {
    id & VOLATILE == 0
}

/// Refuses a length over its limit.
#[inline]
pub(crate) fn check_length(what: &'static str, bytes: usize, bytes_max: usize) -> Result<()> {
    if bytes <= bytes_max { Ok(()) } else { Err(too_large(what, bytes, bytes_max)) }
}

#[cold]
fn too_large(what: &'static str, bytes: usize, bytes_max: usize) -> Error {
    Error::TooLarge { what, bytes, bytes_max }
}

impl IndexCore {
    /// Appends the key of the entry of the row (`key`, `value`) in this index. False if the index leaves the row out.
    pub(crate) fn entry_key(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let indexed = (self.key)(key, value, out)
            .map_err(|detail| Error::decode(&self.entries.name, self.key_type.clone(), detail))?;
        if indexed && !self.unique {
            out.extend_from_slice(key);
        }
        Ok(indexed)
    }
}

/// Approximate set of the tables of a transaction. Most lookups of other tables end here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableFilter(u64);

impl TableFilter {
    /// Bit of a table, among sixty-four bits. An index has a different bit than the table with the same number.
    #[inline]
    const fn bit(table: u32) -> u64 {
        1 << ((table ^ table >> 26) % u64::BITS)
    }

    #[inline]
    pub(crate) fn add(&mut self, table: u32) {
        self.0 |= Self::bit(table);
    }

    /// False only if the table is not in the set.
    #[inline]
    pub(crate) fn may_have(self, table: u32) -> bool {
        self.0 & Self::bit(table) != 0
    }
}

/// All tables of a database by id: append-only, so that a commit looks a table up without a lock.
pub(crate) struct Directory {
    logged: Box<[OnceLock<Arc<TableCore>>]>,
    volatile: Box<[OnceLock<Arc<TableCore>>]>,
}

impl Directory {
    pub(crate) fn new() -> Self {
        let slots = || (0..TABLES_MAX).map(|_| OnceLock::new()).collect();
        Self { logged: slots(), volatile: slots() }
    }

    fn slot(&self, id: u32) -> Option<&OnceLock<Arc<TableCore>>> {
        let half = if id & VOLATILE == 0 { &self.logged } else { &self.volatile };
        half.get((id & !VOLATILE) as usize)
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Arc<TableCore>> {
        self.slot(id)?.get()
    }

    /// The logged table with this id; `None` for an index.
    #[inline(always)]
    pub(crate) fn logged_table(&self, id: u32) -> Option<&Arc<TableCore>> {
        // An index's id is beyond the range of logged tables.
        self.logged.get(id as usize)?.get()
    }

    #[cfg(feature = "audit")]
    pub(crate) fn all_tables(&self) -> impl Iterator<Item = &Arc<TableCore>> {
        self.logged.iter().chain(&self.volatile).filter_map(OnceLock::get)
    }

    /// Refuses ids beyond the largest possible id.
    pub(crate) fn check_room(&self, id: u32) -> Result<()> {
        if self.slot(id).is_some() {
            return Ok(());
        }
        let what = if is_logged(id) {
            "the number of tables, the catalogue among them,"
        } else {
            "the number of indexes of all tables"
        };
        Err(Error::too_many(what, (id & !VOLATILE) as usize + 1, TABLES_MAX))
    }

    /// Enters a table under its id. The id must be free.
    pub(crate) fn add(&self, table: Arc<TableCore>) -> Result<()> {
        self.check_room(table.id)?;
        let Some(slot) = self.slot(table.id) else { unreachable!("just checked") };
        let added = slot.set(table);
        assert!(added.is_ok(), "table ids are never reused");
        Ok(())
    }
}
