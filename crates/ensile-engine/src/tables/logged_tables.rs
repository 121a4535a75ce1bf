//! All logged tables, open or not, for the walk of a checkpoint, with their pages from the first picture on.
//!
//! Invariants:
//! - A table is entered once, and stays. An opening of a recovered table finds the entered table.
//! - N1, N6: After the first picture, or the load of a picture, every table has a map of its pages. An added table gets
//!   its map before its first commit.
//!
//! Neighbours: recovery and the opening of tables enter tables. The walk of a checkpoint reads the tables.
//! `checkpoint::pages` begins and ends pictures.

use std::collections::{BTreeMap, HashMap};

use ensile_base::Epoch;
use ensile_base::sync::{Arc, Mutex};
use ensile_durability::PictureAttempt;
use ensile_epoch::Epochs;

use super::is_logged;
use crate::pictures::loaded_pages::LoadedMaps;
use crate::pictures::page_bounds::PageBounds;
use crate::pictures::page_map::{PageMap, PictureOfMaps};
use crate::pictures::pending_removes::PageMarks;
use crate::pictures::table_pages::{TablePages, WaitingMaps};
use crate::record::tree::RecordTree;
use crate::tables::catalog::Trees;

/// Parts of a table that a checkpoint needs.
pub(crate) struct LoggedTable {
    pub(crate) tree: Arc<RecordTree>,
    /// Pages, shared with the open table.
    pub(crate) pages: Arc<TablePages>,
}

impl LoggedTable {
    fn new(tree: &Arc<RecordTree>, map: Option<PageMap>, waiting: &Arc<WaitingMaps>) -> Arc<Self> {
        Arc::new(Self { tree: Arc::clone(tree), pages: Arc::new(TablePages::new(map, waiting)) })
    }
}

/// All logged tables, including recovered tables that are not open.
#[derive(Default)]
pub(crate) struct LoggedTables {
    entered: Mutex<EnteredTables>,
    /// Maps of former pictures that wait for pins.
    pub(crate) waiting_maps: Arc<WaitingMaps>,
}

#[derive(Default)]
struct EnteredTables {
    tables: BTreeMap<u32, Arc<LoggedTable>>,
    /// Picture of the tables' maps; `None` before the first picture.
    picture: Option<Arc<PictureOfMaps>>,
}

impl LoggedTables {
    /// Enters the recovered tables. After the load of a picture each table has a map from the beginning, with the marks
    /// of load and replay; `since` is the newest freeze.
    pub(crate) fn new(recovered: &Trees, loaded: Option<LoadedMaps>, since: Epoch) -> Self {
        let waiting_maps = Arc::default();
        let picture = loaded.as_ref().map(|_| PictureOfMaps::of_loaded(since));
        let mut loaded = loaded.unwrap_or_default();
        let tables = recovered.iter().map(|(id, tree)| {
            let map = picture.as_ref().map(|picture| PageMap::of_loaded(picture, loaded.remove(id)));
            (*id, LoggedTable::new(tree, map, &waiting_maps))
        });
        let tables = tables.collect();
        assert!(loaded.is_empty(), "a table whose pages were named has a tree");
        Self { entered: Mutex::new(EnteredTables { tables, picture }), waiting_maps }
    }

    /// Adds a table before the first commit can write to the table: a walk without the table misses no row below e_l.
    /// If other tables have maps, the table gets a map with a single page (N1, N6). Returns the table's pages.
    pub(crate) fn add(&self, id: u32, tree: &Arc<RecordTree>) -> Arc<TablePages> {
        debug_assert!(is_logged(id), "an index is built at open, and in no checkpoint");
        let EnteredTables { tables, picture } = &mut *self.entered.lock();
        let map = || picture.as_ref().map(PageMap::of_added_table);
        let table = tables.entry(id).or_insert_with(|| LoggedTable::new(tree, map(), &self.waiting_maps));
        assert!(Arc::ptr_eq(&table.tree, tree), "table {id} has one tree");
        Arc::clone(&table.pages)
    }

    /// The logged table with this id, open or not.
    pub(crate) fn get(&self, id: u32) -> Option<Arc<LoggedTable>> {
        self.entered.lock().tables.get(&id).cloned()
    }

    pub(crate) fn all_tables(&self) -> Vec<(u32, Arc<LoggedTable>)> {
        self.entered.lock().tables.iter().map(|(id, table)| (*id, Arc::clone(table))).collect()
    }

    /// Publishes a map for every table, with these bounds. A table added after the computation of the bounds has a
    /// single page. With `is_carried_over` the marks of the maps before come later ([`TablePages::carry_over`]).
    /// Otherwise every page is marked. Returns the freeze of the maps.
    pub(crate) fn publish_pages(
        &self,
        attempt: PictureAttempt,
        mut bounds: HashMap<u32, PageBounds>,
        is_carried_over: bool,
        epochs: &Epochs,
    ) -> Epoch {
        let EnteredTables { tables, picture } = &mut *self.entered.lock();
        let newest = epochs.newest_freeze();
        let picture = picture.insert(PictureOfMaps::new(attempt, newest));
        let marks = if is_carried_over { PageMarks::NONE } else { PageMarks::BEFORE };
        for (id, table) in tables {
            let bounds = bounds.remove(id).unwrap_or_default();
            table.pages.publish(PageMap::new(picture, bounds, marks), is_carried_over, epochs);
        }
        newest
    }

    /// Notes the end of the attempt: tables added from here on have a map with a closed page.
    pub(crate) fn end_picture(&self) {
        if let Some(picture) = &self.entered.lock().picture {
            picture.end();
        }
    }
}
