//! The trees of all logged tables: what a checkpoint walks.
//!
//! Neighbours: recovery and the opening of tables enter trees; the walk of a checkpoint reads them.

use std::collections::BTreeMap;

use ensile_base::sync::{Arc, Mutex, MutexGuard};

use super::is_logged;
use crate::record::tree::RecordTree;
use crate::tables::catalog::Trees;

/// The trees of all logged tables: those of recovered tables that are not open too.
#[derive(Default)]
pub(crate) struct LoggedTrees {
    trees: Mutex<BTreeMap<u32, Arc<RecordTree>>>,
}

impl LoggedTrees {
    pub(crate) fn new(recovered: &Trees) -> Self {
        let trees = recovered.iter().map(|(id, tree)| (*id, Arc::clone(tree))).collect();
        Self { trees: Mutex::new(trees) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<RecordTree>>> {
        // Only whole elements are added under this lock.
        self.trees.lock()
    }

    /// Adds a table's tree, before the first commit can write to it: a walk that misses it misses nothing below e_l.
    pub(crate) fn add(&self, id: u32, tree: &Arc<RecordTree>) {
        if is_logged(id) {
            self.lock().insert(id, Arc::clone(tree));
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<Arc<RecordTree>> {
        self.lock().get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<(u32, Arc<RecordTree>)> {
        self.lock().iter().map(|(id, tree)| (*id, Arc::clone(tree))).collect()
    }
}
