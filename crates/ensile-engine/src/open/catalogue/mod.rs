//! The catalogue: the tables of a database, with their ids and types (X1, X2).
//!
//! The catalogue is a table (id 0: name -> definition), and is logged and recovered like any table. A table's
//! definition is durable no later than its first row. Secondary indexes are not logged. The open of a table rebuilds
//! its indexes, before any read. The definition keeps the identity and the version of each index.
//!
//! Neighbours: `startup` bootstraps the catalogue with the tables recovered by `replay`. `Database::table` opens tables
//! through the catalogue.

mod checks;
mod indexes;

use std::ops::Bound;

use ensile_base::sync::{Arc, MutexGuard};
use ensile_index::{Direction, Range};

use crate::database::{Database, DatabaseRef};
use crate::error::{Error, Result};
use crate::formats::definition::{Definition, IndexDefinition};
use crate::pictures::table_pages::TablePages;
use crate::read_path::{RawRead, RowSource};
use crate::record::tree::{RecordTree, UnseenTree};
use crate::session;
use crate::sets::rows::{BatchAsked, BatchRow};
use crate::shared_state::{Durability, SharedState};
use crate::tables::catalog::Catalog;
use crate::tables::{CATALOG_ID, IndexCore, IndexSpec, TableCore, TableSpec, VOLATILE};
use crate::transaction::Transaction;
use checks::{check_indexes_named, check_layout, check_same_indexes, check_spec, check_types};
use indexes::{NewEntries, calls_key_functions, fill_indexes};

/// Number of definitions that [`bootstrap`] reads in a batch.
const DEFINITIONS_PER_BATCH: usize = 512;

impl Database {
    /// The table of the definition `spec`: opened before, recovered, or new.
    pub(crate) fn open_table(&self, spec: TableSpec) -> Result<Arc<TableCore>> {
        self.shared().life.check_open()?;
        open_table(self, spec)
    }
}

/// Makes an empty tree, unseen by other threads, with the memory of the calling thread's worker.
fn new_tree(shared: &SharedState) -> UnseenTree {
    session::with_worker(shared, |worker| UnseenTree::new(&mut worker.nodes(&shared.epochs).0))
}

/// The definition to store for a table opened as `spec`. If the value type states no fields, the stored fields stay.
fn definition_of(id: u32, spec: &TableSpec, stored: Option<&Definition>) -> Definition {
    let index = |index: &IndexSpec| IndexDefinition {
        name: index.name.clone(),
        version: index.version,
        unique: index.unique,
        key_type: index.key_type.clone(),
    };
    Definition {
        id,
        key_type: spec.key_type.clone(),
        value_type: spec.value_type.clone(),
        value_layout: spec.value_layout.clone().or_else(|| stored?.value_layout.clone()),
        indexes: spec.indexes.iter().map(index).collect(),
    }
}

/// Makes the catalogue's own table at the open of a database, after recovery. Every new table then gets an id above the
/// ids of all definitions.
pub(super) fn bootstrap(database: &Database) -> Result<()> {
    let shared = database.shared();
    let mut catalog = shared.tables.catalog.lock();
    let tree = catalog.tree(CATALOG_ID, || new_tree(shared).publish());
    catalog.trees.remove(&CATALOG_ID);
    let spec = TableSpec {
        name: "ensile.tables".to_owned(),
        key_type: "name".to_owned(),
        value_type: "definition".to_owned(),
        value_layout: None,
        row_bytes: None,
        indexes: Vec::new(),
        defines_indexes: false,
    };
    let pages = shared.tables.logged.add(CATALOG_ID, &tree);
    let table = Arc::new(TableCore::new(shared.life.id, CATALOG_ID, tree, pages, &spec, Vec::new()));
    shared.tables.directory.add(Arc::clone(&table))?;
    let mut tx = Transaction::begin(DatabaseRef::Borrowed(shared), Durability::Relaxed);
    let mut unknown = None;
    let (mut last, mut goes_on) = (None::<Vec<u8>>, true);
    let source = RowSource { table: &table, index: None };
    let asked = BatchAsked { rows_max: DEFINITIONS_PER_BATCH, keys_only: false };
    while goes_on {
        let lower = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = Range { lower, upper: Bound::Unbounded };
        (last, goes_on) = tx.raw_batch(source, range, Direction::Forward, asked, |rows| {
            for BatchRow { key, row, .. } in rows.rows() {
                match Definition::decode(row) {
                    Some(definition) => catalog.next_id = catalog.next_id.max(definition.id + 1),
                    None => unknown = Some(String::from_utf8_lossy(key).into_owned()),
                }
            }
            (rows.rows().last().map(|row| row.key.to_vec()), rows.is_full())
        })?;
    }
    match unknown {
        None => Ok(()),
        Some(name) => Err(Error::Misuse(format!(
            "the definition of table {name} is in a form that this program does not know: use a newer version"
        ))),
    }
}

/// The table of the definition `spec`: opened before, recovered, or new.
fn open_table(database: &Database, mut spec: TableSpec) -> Result<Arc<TableCore>> {
    check_spec(&spec)?;
    let shared = database.shared();
    let mut catalog = lock_unless_filling(shared, &spec.name)?;
    if let Some(table) = catalog.opened.get(&spec.name) {
        check_types(&spec, table.key_type(), table.value_type())?;
        check_layout(&spec, table.value_layout())?;
        check_same_indexes(&spec, table)?;
        return Ok(Arc::clone(table));
    }
    let name = spec.name.clone();
    let stored = read_definition(shared, &name)?;
    let id = match &stored {
        Some(stored) => {
            check_types(&spec, &stored.key_type, &stored.value_type)?;
            check_layout(&spec, stored.value_layout.as_deref())?;
            check_indexes_named(&spec, stored)?;
            stored.id
        }
        None => catalog.next_id,
    };
    let tree = catalog.tree(id, || new_tree(shared).publish());
    let entries = NewEntries::new(shared, spec.indexes.len());
    // A new table has no rows, so no function of the application is called.
    if stored.is_some() && !spec.indexes.is_empty() {
        catalog =
            fill_unlocked(shared, catalog, &name, || fill_indexes(shared, &tree, &spec, &entries.trees))?;
    }
    let ids = catalog.next_volatile..catalog.next_volatile + spec.indexes.len() as u32;
    for id in ids.clone().map(|entries_id| VOLATILE | entries_id).chain([id]) {
        shared.tables.directory.check_room(id)?;
    }
    let definition = definition_of(id, &spec, stored.as_ref());
    if stored.as_ref() != Some(&definition) {
        let written = write_definition(shared, &name, &definition);
        // X2: a database that cannot be written shows the table, and a later open adds the fields.
        if !stored.is_some_and(|stored| Definition { value_layout: None, ..definition.clone() } == stored) {
            written?;
        }
    }
    spec.value_layout = definition.value_layout;
    catalog.next_id = catalog.next_id.max(id + 1);
    catalog.next_volatile = ids.end;
    let entries = ids.map(|entries_id| VOLATILE | entries_id).zip(entries.take());
    let table = enter_table(shared, id, tree, spec, entries)?;
    catalog.trees.remove(&id);
    catalog.opened.insert(name, Arc::clone(&table));
    Ok(table)
}

/// Waits until no thread fills the indexes of the table called `name`, and returns the catalogue's lock. Refuses a call
/// from a key function that would wait for its own thread.
fn lock_unless_filling<'s>(shared: &'s SharedState, name: &str) -> Result<MutexGuard<'s, Catalog>> {
    let mut catalog = shared.tables.catalog.lock();
    while catalog.filling.contains(name) {
        if calls_key_functions() {
            return Err(Error::Misuse(format!(
                "an index's key function asks for table {name} while the table is being opened: open it before"
            )));
        }
        catalog = shared.tables.filled.wait(catalog);
    }
    Ok(catalog)
}

/// Fills a table's indexes without the catalogue's lock, because key functions may open tables. Another open of this
/// table waits in the meantime.
fn fill_unlocked<'s>(
    shared: &'s SharedState,
    mut catalog: MutexGuard<'s, Catalog>,
    name: &str,
    fill: impl FnOnce() -> Result<()>,
) -> Result<MutexGuard<'s, Catalog>> {
    /// Guard that ends the wait of other threads, also after a failure or a panic of a key function.
    struct Filling<'s, 'n>(&'s SharedState, &'n str);

    impl<'s> Filling<'s, '_> {
        fn end(&self) -> MutexGuard<'s, Catalog> {
            let mut catalog = self.0.tables.catalog.lock();
            catalog.filling.remove(self.1);
            self.0.tables.filled.notify_all();
            catalog
        }
    }

    impl Drop for Filling<'_, '_> {
        fn drop(&mut self) {
            drop(self.end());
        }
    }

    let is_new = catalog.filling.insert(name.to_owned());
    debug_assert!(is_new, "one thread fills a table's indexes");
    drop(catalog);
    let filling = Filling(shared, name);
    fill()?;
    // A waiting thread gets the lock only after this caller has entered the table.
    let catalog = filling.end();
    std::mem::forget(filling);
    Ok(catalog)
}

/// The stored definition of the table called `name`; `None` for a new table.
fn read_definition(shared: &SharedState, name: &str) -> Result<Option<Definition>> {
    let mut tx = Transaction::begin(DatabaseRef::Borrowed(shared), Durability::Relaxed);
    let found = tx.raw_get(shared.tables.table(CATALOG_ID), name.as_bytes(), Definition::decode)?;
    Ok(found.flatten())
}

/// Commits the definition of a table to the catalogue, with relaxed durability.
fn write_definition(shared: &SharedState, name: &str, definition: &Definition) -> Result<()> {
    let encoded = definition.encode();
    loop {
        let mut tx = Transaction::begin(DatabaseRef::Borrowed(shared), Durability::Relaxed);
        tx.raw_put(shared.tables.table(CATALOG_ID), name.as_bytes(), |out| out.extend_from_slice(&encoded))?;
        match tx.submit() {
            Err(error) if error.is_retryable() => {}
            result => return result.map(drop),
        }
    }
}

/// Enters the table and its indexes' entry tables into the directory.
fn enter_table(
    shared: &SharedState,
    id: u32,
    tree: Arc<RecordTree>,
    spec: TableSpec,
    trees: impl Iterator<Item = (u32, RecordTree)>,
) -> Result<Arc<TableCore>> {
    let TableSpec { name, key_type, value_type, value_layout, row_bytes, indexes, defines_indexes } = spec;
    let mut opened = Vec::new();
    for (index, (entries_id, entries_tree)) in indexes.into_iter().zip(trees) {
        let IndexSpec { name: index_name, version, unique, key_type: index_key_type, key } = index;
        let entries_spec = TableSpec {
            name: format!("{name}.{index_name}"),
            key_type: index_key_type.clone(),
            value_type: key_type.clone(),
            value_layout: None,
            row_bytes: None,
            indexes: Vec::new(),
            defines_indexes: false,
        };
        let entries = Arc::new(TableCore::new(
            shared.life.id,
            entries_id,
            Arc::new(entries_tree),
            Arc::new(TablePages::new(None, &Arc::default())),
            &entries_spec,
            Vec::new(),
        ));
        shared.tables.directory.add(Arc::clone(&entries))?;
        opened.push(Arc::new(IndexCore {
            name: index_name,
            version,
            unique,
            key_type: index_key_type,
            key,
            entries,
        }));
    }
    let indexes = Vec::new();
    let spec = TableSpec { name, key_type, value_type, value_layout, row_bytes, indexes, defines_indexes };
    let pages = shared.tables.logged.add(id, &tree);
    let table = Arc::new(TableCore::new(shared.life.id, id, tree, pages, &spec, opened));
    shared.tables.directory.add(Arc::clone(&table))?;
    Ok(table)
}
