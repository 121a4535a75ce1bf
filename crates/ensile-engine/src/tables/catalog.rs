//! Tables known to this process: recovered trees, open tables, and the next free ids.
//!
//! Neighbours: recovery passes its trees to the catalogue; `open::catalogue` opens tables with it.

use std::collections::{HashMap, HashSet};

use ensile_base::sync::Arc;

use super::{CATALOG_ID, TableCore};
use crate::record::tree::RecordTree;

/// The trees of all tables, by id.
pub(crate) type Trees = HashMap<u32, Arc<RecordTree>>;

/// Tables known to this process.
pub(crate) struct Catalog {
    /// Recovered trees whose tables are not open yet.
    pub(crate) trees: Trees,
    /// Open tables, by name.
    pub(crate) opened: HashMap<String, Arc<TableCore>>,
    /// Names of tables whose indexes are being filled now, without the catalogue's lock. Another open of such a table
    /// waits.
    pub(crate) filling: HashSet<String>,
    /// Id of the next new table.
    pub(crate) next_id: u32,
    /// Number of the next index: its id without the bit [`VOLATILE`](super::VOLATILE).
    pub(crate) next_volatile: u32,
}

impl Catalog {
    pub(crate) fn new(trees: Trees) -> Self {
        let next_id = trees.keys().copied().max().unwrap_or(CATALOG_ID) + 1;
        Self { trees, opened: HashMap::new(), filling: HashSet::new(), next_id, next_volatile: 0 }
    }

    /// The recovered tree of a table, or a new tree. The tree stays here until its table is open: an opening may fail,
    /// or panic in an index's key function, and the next opening needs the tree.
    pub(crate) fn tree(&mut self, id: u32, new: impl FnOnce() -> RecordTree) -> Arc<RecordTree> {
        Arc::clone(self.trees.entry(id).or_insert_with(|| Arc::new(new())))
    }
}
