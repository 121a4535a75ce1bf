//! The catalogue: which tables there are, under which ids and types (X1).
//!
//! It is a table like any other (id 0: name -> definition), so it is logged and recovered like any other, and a
//! table's definition is durable no later than its first row. Secondary indexes are not logged: they are rebuilt when
//! their table is opened, before anyone can read them; the definition keeps each one's identity and version.
//!
//! Neighbours: `builder` bootstraps it with what `replay` recovered; `Database::table` opens tables through it.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};

use ensile_base::limits::{INDEX_KEY_BYTES_MAX, INDEXES_PER_TABLE_MAX, NAME_BYTES_MAX};
use ensile_base::sync::{Arc, AtomicUsize, Ordering};
use ensile_epoch::Pinned;
use ensile_index::{Direction, Insert, Masstree, Range, ScanVisitor, Witness};

use crate::database::{Core, CoreRef, Database};
use crate::error::{Error, Result};
use crate::open::replay::Trees;
use crate::open::threads::in_parallel;
use crate::reading::RawRead;
use crate::record::{Handle, Scratch, Seen};
use crate::session;
use crate::tables::{CATALOG_ID, IndexCore, IndexSpec, TableCore, TableSpec, VOLATILE, check_length};
use crate::transaction::Transaction;
use crate::transaction::receipt::Durability;
use crate::worker::Worker;

/// Parts of a table for each thread that rebuilds its indexes: they are not quite equal.
const PARTS_PER_THREAD: usize = 8;
/// Every key.
const ALL: Range<'static> = Range { lower: Bound::Unbounded, upper: Bound::Unbounded };

/// What is known of tables in this process.
pub(crate) struct Catalog {
    /// Recovered trees whose tables nobody has opened yet.
    trees: Trees,
    opened: HashMap<String, Arc<TableCore>>,
    next_id: u32,
    next_volatile: u32,
}

impl Catalog {
    /// The recovered trees.
    pub(crate) fn trees(&self) -> &Trees {
        &self.trees
    }

    pub(crate) fn new(trees: Trees) -> Self {
        let next_id = trees.keys().copied().max().unwrap_or(CATALOG_ID) + 1;
        Self { trees, opened: HashMap::new(), next_id, next_volatile: 0 }
    }

    /// The recovered tree of a table, or a new one. It stays here until its table is open: an opening may fail, or
    /// panic in an index's key function, and the tree stays for whoever opens the table, or a new one, after that.
    fn tree(&mut self, id: u32, core: &Core) -> Arc<Masstree> {
        Arc::clone(self.trees.entry(id).or_insert_with(|| Arc::new(new_tree(core))))
    }
}

fn new_tree(core: &Core) -> Masstree {
    session::with_worker(core, |worker| Masstree::new(&mut worker.nodes(core).0))
}

/// Trees for the entries of indexes whose table is being opened. If that fails, or panics in an index's key function,
/// they are freed: nobody has seen them.
struct NewEntries<'c> {
    core: &'c Core,
    trees: Vec<Masstree>,
}

impl<'c> NewEntries<'c> {
    fn new(core: &'c Core, count: usize) -> Self {
        Self { core, trees: (0..count).map(|_| new_tree(core)).collect() }
    }

    /// The trees, for tables to have them.
    fn take(mut self) -> Vec<Masstree> {
        std::mem::take(&mut self.trees)
    }
}

impl Drop for NewEntries<'_> {
    fn drop(&mut self) {
        let (core, trees) = (self.core, std::mem::take(&mut self.trees));
        if trees.is_empty() {
            return;
        }
        session::with_worker(core, |worker| {
            trees.into_iter().for_each(|tree| worker.blocks.destroy_tree(tree));
            // What they retired as they grew, here or at an earlier failure: the thread may never commit.
            let pin = core.epochs.register_pin();
            let call = pin.begin(core.epochs.now());
            worker.collect_idle(core, call.pinned());
        });
    }
}

/// A table's row in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) id: u32,
    pub(crate) key_type: String,
    pub(crate) value_type: String,
    pub(crate) indexes: Vec<IndexDefinition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexDefinition {
    pub(crate) name: String,
    version: u32,
    unique: bool,
    key_type: String,
}

/// Version of the encoding below.
const DEFINITION_VERSION: u8 = 1;

impl Definition {
    fn of(id: u32, spec: &TableSpec) -> Self {
        let index = |index: &IndexSpec| IndexDefinition {
            name: index.name.clone(),
            version: index.version,
            unique: index.unique,
            key_type: index.key_type.clone(),
        };
        Self {
            id,
            key_type: spec.key_type.clone(),
            value_type: spec.value_type.clone(),
            indexes: spec.indexes.iter().map(index).collect(),
        }
    }

    /// ```text
    /// version u8 | id u32 | key type | value type | count u16 | (name | version u32 | unique u8 | key type)*
    /// text := length u16 | UTF-8        all little-endian
    /// ```
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![DEFINITION_VERSION];
        out.extend_from_slice(&self.id.to_le_bytes());
        put_text(&mut out, &self.key_type);
        put_text(&mut out, &self.value_type);
        out.extend_from_slice(&(self.indexes.len() as u16).to_le_bytes());
        for index in &self.indexes {
            put_text(&mut out, &index.name);
            out.extend_from_slice(&index.version.to_le_bytes());
            out.push(u8::from(index.unique));
            put_text(&mut out, &index.key_type);
        }
        out
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let [version] = take(&mut bytes)?;
        if version != DEFINITION_VERSION {
            return None;
        }
        let id = u32::from_le_bytes(take(&mut bytes)?);
        let (key_type, value_type) = (take_text(&mut bytes)?, take_text(&mut bytes)?);
        let count = u16::from_le_bytes(take(&mut bytes)?);
        let mut indexes = Vec::new();
        for _ in 0..count {
            let name = take_text(&mut bytes)?;
            let version = u32::from_le_bytes(take(&mut bytes)?);
            let [unique] = take(&mut bytes)?;
            indexes.push(IndexDefinition {
                name,
                version,
                unique: unique != 0,
                key_type: take_text(&mut bytes)?,
            });
        }
        Some(Self { id, key_type, value_type, indexes })
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = u16::from_le_bytes(take(bytes)?);
    let (text, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// Makes the catalogue's own table and finds the largest id ever given.
pub(crate) fn bootstrap(database: &Database) -> Result<()> {
    let core = database.core();
    let mut catalog = core.catalog.lock();
    let tree = catalog.tree(CATALOG_ID, core);
    catalog.trees.remove(&CATALOG_ID);
    let spec = TableSpec {
        name: "ensile.tables".to_owned(),
        key_type: "name".to_owned(),
        value_type: "definition".to_owned(),
        row_bytes: None,
        indexes: Vec::new(),
        defines_indexes: false,
    };
    let table = Arc::new(TableCore::new(core.id, CATALOG_ID, tree, &spec, Vec::new()));
    core.logged_trees.add(CATALOG_ID, &table.tree);
    core.tables.add(Arc::clone(&table))?;
    let mut tx = Transaction::begin(CoreRef::Lent(core), Durability::Relaxed);
    let mut unknown = None;
    tx.raw_scan(&table, ALL, Direction::Forward, &mut |name, bytes| {
        match Definition::decode(bytes) {
            Some(definition) => catalog.next_id = catalog.next_id.max(definition.id + 1),
            None => unknown = Some(String::from_utf8_lossy(name).into_owned()),
        }
        ControlFlow::Continue(())
    })?;
    match unknown {
        None => Ok(()),
        Some(name) => Err(Error::Misuse(format!(
            "the definition of table {name} is in a form that this program does not know: use a newer version"
        ))),
    }
}

/// The table that `spec` asks for: opened before, recovered, or new.
pub(crate) fn open_table(database: &Database, spec: TableSpec) -> Result<Arc<TableCore>> {
    check_spec(&spec)?;
    let core = database.core();
    let mut catalog = core.catalog.lock();
    if let Some(table) = catalog.opened.get(&spec.name) {
        check_types(&spec, table.key_type(), table.value_type())?;
        check_same_indexes(&spec, table)?;
        return Ok(Arc::clone(table));
    }
    let name = spec.name.clone();
    let stored = read_definition(core, &name)?;
    let id = match &stored {
        Some(stored) => {
            check_types(&spec, &stored.key_type, &stored.value_type)?;
            check_indexes_named(&spec, stored)?;
            stored.id
        }
        None => catalog.next_id,
    };
    let tree = catalog.tree(id, core);
    let entries = NewEntries::new(core, spec.indexes.len());
    fill_indexes(core, &tree, &spec, &entries.trees)?;
    let ids = catalog.next_volatile..catalog.next_volatile + spec.indexes.len() as u32;
    for id in ids.clone().map(|entries_id| VOLATILE | entries_id).chain([id]) {
        core.tables.check_room(id)?;
    }
    let definition = Definition::of(id, &spec);
    if stored.as_ref() != Some(&definition) {
        write_definition(core, &name, &definition)?;
    }
    catalog.next_id = catalog.next_id.max(id + 1);
    catalog.next_volatile = ids.end;
    let entries = ids.map(|entries_id| VOLATILE | entries_id).zip(entries.take());
    let table = enter_table(core, id, tree, spec, entries)?;
    catalog.trees.remove(&id);
    catalog.opened.insert(name, Arc::clone(&table));
    Ok(table)
}

fn check_spec(spec: &TableSpec) -> Result<()> {
    let names = spec.indexes.iter().map(|index| index.name.as_str()).chain([spec.name.as_str()]);
    for name in names {
        check_length("a table's or index's name", name.len(), NAME_BYTES_MAX)?;
        if name.is_empty() {
            return Err(Error::Misuse("a table or index needs a name".to_owned()));
        }
    }
    for name in [&spec.key_type, &spec.value_type] {
        check_length("a type's name", name.len(), usize::from(u16::MAX))?;
    }
    if spec.indexes.len() > INDEXES_PER_TABLE_MAX {
        let (count, count_max) = (spec.indexes.len(), INDEXES_PER_TABLE_MAX);
        return Err(Error::TooMany { what: "the number of indexes of a table", count, count_max });
    }
    for (at, index) in spec.indexes.iter().enumerate() {
        if spec.indexes[..at].iter().any(|other| other.name == index.name) {
            return Err(Error::Misuse(format!("table {}: two indexes are named {}", spec.name, index.name)));
        }
    }
    Ok(())
}

fn check_types(spec: &TableSpec, key_type: &str, value_type: &str) -> Result<()> {
    if spec.key_type == key_type && spec.value_type == value_type {
        return Ok(());
    }
    Err(Error::Misuse(format!(
        "table {} maps {key_type} to {value_type}, not {} to {}: open it with its own types",
        spec.name, spec.key_type, spec.value_type
    )))
}

fn check_same_indexes(spec: &TableSpec, table: &TableCore) -> Result<()> {
    let same = |index: &IndexSpec, open: &IndexCore| {
        (&index.name, index.version, index.unique, &index.key_type)
            == (&open.name, open.version, open.unique, &open.key_type)
    };
    let all_same = spec.indexes.len() == table.indexes.len()
        && spec.indexes.iter().zip(&table.indexes).all(|(index, open)| same(index, open));
    // Asked for without indexes, a table is handed out with those that it has: they are maintained all the same.
    if !spec.defines_indexes || all_same {
        return Ok(());
    }
    Err(Error::Misuse(format!(
        "table {} is open with other indexes: define all of them at its first opening",
        spec.name
    )))
}

/// Refuses to open a table that has indexes as if it had none: its rows would change without them.
fn check_indexes_named(spec: &TableSpec, stored: &Definition) -> Result<()> {
    if stored.indexes.is_empty() || spec.defines_indexes {
        return Ok(());
    }
    let names: Vec<&str> = stored.indexes.iter().map(|index| index.name.as_str()).collect();
    Err(Error::Misuse(format!(
        "table {} has secondary indexes ({}): open it with Database::define and their key functions first",
        spec.name,
        names.join(", ")
    )))
}

fn read_definition(core: &Core, name: &str) -> Result<Option<Definition>> {
    let mut tx = Transaction::begin(CoreRef::Lent(core), Durability::Relaxed);
    let found = tx.raw_get(core.table(CATALOG_ID), name.as_bytes(), Definition::decode)?;
    Ok(found.flatten())
}

fn write_definition(core: &Core, name: &str, definition: &Definition) -> Result<()> {
    let encoded = definition.encode();
    loop {
        let mut tx = Transaction::begin(CoreRef::Lent(core), Durability::Relaxed);
        tx.raw_put(core.table(CATALOG_ID), name.as_bytes(), &encoded)?;
        match tx.submit() {
            Err(error) if error.is_retryable() => {}
            result => return result.map(drop),
        }
    }
}

/// Enters every present row of the table into its indexes, with as many threads as recovery has. Nobody else has the
/// table yet.
fn fill_indexes(core: &Core, tree: &Masstree, spec: &TableSpec, entries: &[Masstree]) -> Result<()> {
    if spec.indexes.is_empty() {
        return Ok(());
    }
    let parts = core.recovery_threads * PARTS_PER_THREAD;
    let cuts = {
        let pin = core.epochs.register_pin();
        let call = pin.begin(core.epochs.now());
        if core.recovery_threads > 1 { tree.separators(parts, call.pinned()) } else { Vec::new() }
    };
    let taken = AtomicUsize::new(0);
    let fill = || {
        // Relaxed: hands out numbers.
        let part = taken.fetch_add(1, Ordering::Relaxed);
        if part > cuts.len() {
            return Ok(false);
        }
        let from = part.checked_sub(1).map_or(Bound::Unbounded, |before| Bound::Included(&*cuts[before]));
        let to = cuts.get(part).map_or(Bound::Unbounded, |cut| Bound::Excluded(&**cut));
        fill_part(core, tree, spec, entries, Range { lower: from, upper: to }).map(|()| true)
    };
    in_parallel(core.recovery_threads.min(cuts.len() + 1), fill, |_| {})
}

/// Enters the rows of a range of keys.
fn fill_part(
    core: &Core,
    tree: &Masstree,
    spec: &TableSpec,
    entries: &[Masstree],
    range: Range<'_>,
) -> Result<()> {
    let pin = core.epochs.register_pin();
    let call = pin.begin(core.epochs.now());
    session::with_worker(core, |worker| {
        let mut fill = Fill {
            core,
            worker,
            spec,
            entries,
            pinned: call.pinned(),
            scratch: Scratch::default(),
            entry_key: Vec::new(),
            result: Ok(()),
        };
        tree.scan(range, Direction::Forward, &mut fill, call.pinned());
        fill.result
    })
}

struct Fill<'f> {
    core: &'f Core,
    worker: &'f mut Worker,
    spec: &'f TableSpec,
    entries: &'f [Masstree],
    pinned: Pinned<'f>,
    scratch: Scratch,
    entry_key: Vec<u8>,
    result: Result<()>,
}

impl Fill<'_> {
    fn row(&mut self, key: &[u8], value: u64) -> Result<()> {
        let Seen::Present(word) = Handle::from_value(value).at(self.pinned).read(&mut self.scratch) else {
            return Ok(());
        };
        for (index, tree) in self.spec.indexes.iter().zip(self.entries) {
            self.entry_key.clear();
            let indexed = (index.key)(key, self.scratch.bytes(), &mut self.entry_key).map_err(|detail| {
                let type_name = self.spec.value_type.clone();
                Error::decode(&self.spec.name, type_name, detail)
            })?;
            if !indexed {
                continue;
            }
            if !index.unique {
                self.entry_key.extend_from_slice(key);
            }
            check_length("the key of an index's entry", self.entry_key.len(), INDEX_KEY_BYTES_MAX)?;
            // The entry is as old as its row: a snapshot that shows the one shows the other.
            let record = self.worker.blocks.filled(key, word);
            let (mut nodes, changes) = self.worker.nodes(self.core);
            changes.clear();
            let inserted =
                tree.insert_if_absent(&self.entry_key, record.value(), &mut nodes, changes, self.pinned);
            if let Insert::Exists(_) = inserted {
                self.worker.blocks.destroy(record);
                return Err(Error::NotUnique { table: self.spec.name.clone(), index: index.name.clone() });
            }
        }
        Ok(())
    }
}

impl ScanVisitor for Fill<'_> {
    fn witness(&mut self, _witness: Witness) {}

    fn entry(&mut self, key: &[u8], value: u64) -> ControlFlow<()> {
        self.result = self.row(key, value);
        if self.result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// Enters the table and its indexes' entry tables into the directory.
fn enter_table(
    core: &Core,
    id: u32,
    tree: Arc<Masstree>,
    spec: TableSpec,
    trees: impl Iterator<Item = (u32, Masstree)>,
) -> Result<Arc<TableCore>> {
    let TableSpec { name, key_type, value_type, row_bytes, indexes, defines_indexes } = spec;
    let mut opened = Vec::new();
    for (index, (entries_id, entries_tree)) in indexes.into_iter().zip(trees) {
        let IndexSpec { name: index_name, version, unique, key_type: index_key_type, key } = index;
        let entries_spec = TableSpec {
            name: format!("{name}.{index_name}"),
            key_type: index_key_type.clone(),
            value_type: key_type.clone(),
            row_bytes: None,
            indexes: Vec::new(),
            defines_indexes: false,
        };
        let entries =
            Arc::new(TableCore::new(core.id, entries_id, Arc::new(entries_tree), &entries_spec, Vec::new()));
        core.tables.add(Arc::clone(&entries))?;
        opened.push(Arc::new(IndexCore {
            name: index_name,
            version,
            unique,
            key_type: index_key_type,
            key,
            entries,
        }));
    }
    let spec = TableSpec { name, key_type, value_type, row_bytes, indexes: Vec::new(), defines_indexes };
    let table = Arc::new(TableCore::new(core.id, id, tree, &spec, opened));
    core.logged_trees.add(id, &table.tree);
    core.tables.add(Arc::clone(&table))?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::{Definition, IndexDefinition};
    use crate::codec::documented::examples;

    fn definition() -> Definition {
        Definition {
            id: 7,
            key_type: "(u16,u8)".to_owned(),
            value_type: "Customer v1[16] le".to_owned(),
            indexes: vec![IndexDefinition {
                name: "by_name".to_owned(),
                version: 3,
                unique: true,
                key_type: "string".to_owned(),
            }],
        }
    }

    #[test]
    fn the_documented_bytes_are_the_ones_that_are_written() {
        let shown: Vec<u8> = examples("## The catalogue").into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(shown, definition().encode());
    }

    #[test]
    fn definitions_come_back_and_cut_ones_are_refused() {
        let definition = definition();
        let bytes = definition.encode();
        assert_eq!(Definition::decode(&bytes), Some(definition));
        for length in 0..bytes.len() {
            assert_eq!(Definition::decode(&bytes[..length]), None, "cut at {length}");
        }
    }
}
