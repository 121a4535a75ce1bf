//! All logged tables, open or not: what a checkpoint walks.
//!
//! Invariant: a table is entered once, and stays. An opening of a recovered table finds the one that is there.
//!
//! Neighbours: recovery and the opening of tables enter tables; the walk of a checkpoint reads them.

use std::collections::BTreeMap;

use ensile_base::sync::{Arc, Mutex, MutexGuard};

use super::is_logged;
use crate::record::tree::RecordTree;
use crate::tables::catalog::Trees;

/// What a checkpoint needs to have of a table.
pub(crate) struct LoggedTable {
    pub(crate) tree: Arc<RecordTree>,
}

impl LoggedTable {
    fn new(tree: &Arc<RecordTree>) -> Arc<Self> {
        Arc::new(Self { tree: Arc::clone(tree) })
    }
}

/// All logged tables: recovered ones that are not open too.
#[derive(Default)]
pub(crate) struct LoggedTables {
    tables: Mutex<BTreeMap<u32, Arc<LoggedTable>>>,
}

impl LoggedTables {
    pub(crate) fn new(recovered: &Trees) -> Self {
        let tables = recovered.iter().map(|(id, tree)| (*id, LoggedTable::new(tree))).collect();
        Self { tables: Mutex::new(tables) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<LoggedTable>>> {
        // Only whole elements are added under this lock.
        self.tables.lock()
    }

    /// Adds a table, before the first commit can write to it: a walk that misses it misses nothing below e_l.
    pub(crate) fn add(&self, id: u32, tree: &Arc<RecordTree>) {
        if is_logged(id) {
            let mut tables = self.lock();
            let table = tables.entry(id).or_insert_with(|| LoggedTable::new(tree));
            assert!(Arc::ptr_eq(&table.tree, tree), "table {id} has one tree");
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<Arc<LoggedTable>> {
        self.lock().get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<(u32, Arc<LoggedTable>)> {
        self.lock().iter().map(|(id, table)| (*id, Arc::clone(table))).collect()
    }
}
