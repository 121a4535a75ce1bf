//! A database without users, taken apart block by block. The feature `audit`, for tests.
//!
//! Invariants:
//! - Each block in use belongs to a tree, to a single list of garbage, or is a worker's present page of versions.
//! - U1: each absent record of a tree is registered to be unhooked.
//!
//! Neighbours: `shared_state::audit` takes a database apart, and calls this module; `garbage` and `pictures` have the
//! lists.

use ensile_base::sync::Arc;
use ensile_memory::SizeClass;

use super::blocks::{Blocks, OwnedMemory, PageBlock};
use super::ownership::RegisteredAbsent;
use super::tree::RecordTree;

/// Proof that the database has no user, and the memory that takes its blocks.
pub(crate) struct AtRest<'m> {
    pub(crate) blocks: Blocks,
    memory: &'m mut OwnedMemory,
    /// Numbers of absent records in trees and of registered absent records.
    absent: usize,
    registered: usize,
}

impl<'m> AtRest<'m> {
    /// The exclusive reference is the proof, as for [`OwnedMemory::release`].
    pub(crate) fn new(memory: &'m mut OwnedMemory) -> Self {
        Self { blocks: Blocks::new(memory.cache()), memory, absent: 0, registered: 0 }
    }

    /// Frees each tree and its records. The garbage is freed before, because the garbage has the absent records.
    pub(crate) fn free_trees(&mut self, mut trees: Vec<Arc<RecordTree>>) {
        trees.sort_unstable_by_key(Arc::as_ptr);
        trees.dedup_by_key(|tree| Arc::as_ptr(tree));
        for tree in trees {
            // SAFETY: no thread uses a block of the database any more, and the vector has each tree once. Only workers
            // of the database insert into its trees.
            self.absent += unsafe { tree.destroy(&mut self.blocks) };
        }
    }

    /// Frees a side index. The garbage has its records.
    pub(crate) fn free_side_index(&mut self, tree: &RecordTree) {
        // SAFETY: no thread uses a block of the database any more, and the caller names each tree once. Only workers of
        // the database insert into its trees.
        unsafe { tree.destroy_nodes(&mut self.blocks) };
    }

    /// Frees an absent record outside its tree. An absent record inside a tree is freed with the tree.
    pub(crate) fn free_absent(&mut self, record: RegisteredAbsent) {
        if record.record().word().is_latest() {
            self.registered += 1;
        } else {
            // SAFETY: the record was superseded, and its tree leads to the successor; or it was buried, and no tree
            // that is read leads to it.
            let record = unsafe { record.into_retired() };
            // SAFETY: no thread uses a block of the database any more.
            unsafe { self.blocks.destroy(record) };
        }
    }

    /// Checks that no block is left, except the present pages of `workers` workers, which other threads keep.
    ///
    /// # Panics
    /// If another block is left, or if an absent record of a tree is not registered (U1).
    pub(crate) fn check(self, workers: usize) {
        let Self { blocks, memory, absent, registered } = self;
        assert_eq!(absent, registered, "absent records of trees, and those that are to be unhooked (U1)");
        drop(blocks);
        let page = SizeClass::of_bytes(PageBlock::BYTES);
        for class in (0..SizeClass::COUNT).map(SizeClass::from_index) {
            let (left, left_max) = (memory.blocks_in_use(class), if class == page { workers } else { 0 });
            assert!(
                left <= left_max,
                "{left} blocks of {} bytes are in use, and nothing leads to them",
                class.bytes()
            );
        }
    }
}
