//! Audit of a database at its end: the database has all memory, pins and bindings back. Feature `audit`, for tests.
//!
//! Invariants, after the end of all users of the database:
//! - No pin, no registration of a snapshot, no binding, no turn and no waiter is left.
//! - Each block belongs to a tree, to a list of garbage or of a picture, or is the current page of a worker.
//! - Counts of waiting memory are zero after the lists are freed (E6).
//!
//! Neighbours: `database::owner` calls the audit before the release of the memory; `record::block_audit` frees.

use ensile_base::Epoch;
use ensile_base::sync::Arc;

use super::state::SharedState;
use crate::pictures::picture_state::Pictures;
use crate::record::block_audit::AtRest;

impl SharedState {
    /// Takes the database apart.
    ///
    /// # Panics
    /// If memory, a pin or a binding is missing.
    pub(crate) fn audit(&mut self) {
        self.life.gate.check_at_rest();
        self.check_epochs_at_rest();
        self.free_all_displaced();
        let workers = std::mem::take(&mut *self.workers.lock_all());
        self.heartbeat.collector.lock().drop_worker();
        // Live threads keep their bindings.
        let (kept, _) = self.epochs.registered_counts();
        assert!(kept <= workers.len(), "{kept} bindings of {} workers", workers.len());
        let logged = self.tables.logged.all_tables();
        let mut trees: Vec<_> = logged.iter().map(|(_, table)| Arc::clone(&table.tree)).collect();
        trees.extend(self.tables.catalog.lock().trees.values().cloned());
        trees.extend(self.tables.directory.all_tables().map(|table| Arc::clone(&table.tree)));
        let mut at_rest = AtRest::new(&mut self.memory);
        let has_picture = self.pictures.as_ref().is_some_and(Pictures::is_under_way);
        for (id, table) in &logged {
            let has_open_pages = table.pages.has_open_pages(&at_rest);
            assert!(has_picture || !has_open_pages, "table {id}: a picture that has ended closes all pages");
            table.pages.collect_at_rest(&at_rest);
        }
        let maps = &self.tables.logged.waiting_maps;
        assert_eq!((maps.count(), maps.bytes()), (0, 0), "maps of pages are missing");
        for worker in &workers {
            worker.lock_garbage().free_all(&mut at_rest);
        }
        at_rest.free_trees(trees);
        for tree in self.tables.directory.all_tables().filter_map(|table| table.side.tree()) {
            at_rest.free_side_index(tree);
        }
        at_rest.check(kept);
    }

    /// Checks that no pin, registration, binding or index entry is left. Threads may keep idle state.
    fn check_epochs_at_rest(&self) {
        let limits = self.epochs.scan();
        assert_eq!(limits.pins(), self.epochs.now(), "a pin is left");
        assert!(!self.epochs.has_reader_below(Epoch::MAX), "a snapshot is registered");
        assert!(!self.epochs.is_any_bound(), "a worker is bound");
        assert!(!self.epochs.is_index_entered(), "a worker is in the index");
    }
}
