//! Blocks that a test has to give back.
//!
//! Neighbours: up, the tests of `record` and of its modules; down, `blocks`.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ensile_memory::{Memory, MemoryConfig, SizeClass};

use super::blocks::{Blocks, PageBlock};

/// Blocks in a separate memory. The drop panics if a block other than the present page is in use.
pub(crate) struct CheckedBlocks {
    blocks: Option<Blocks>,
    memory: Arc<Memory>,
}

impl CheckedBlocks {
    pub(crate) fn new() -> Self {
        let memory = Memory::new(&MemoryConfig::default());
        Self { blocks: Some(Blocks::new(memory.cache())), memory }
    }

    /// Number of blocks in use with the size of a page of versions.
    pub(crate) fn pages_in_use(&self) -> usize {
        self.memory.blocks_in_use(SizeClass::of_bytes(PageBlock::BYTES))
    }
}

impl Deref for CheckedBlocks {
    type Target = Blocks;

    fn deref(&self) -> &Blocks {
        self.blocks.as_ref().expect("taken at the drop only")
    }
}

impl DerefMut for CheckedBlocks {
    fn deref_mut(&mut self) -> &mut Blocks {
        self.blocks.as_mut().expect("taken at the drop only")
    }
}

impl Drop for CheckedBlocks {
    fn drop(&mut self) {
        drop(self.blocks.take());
        if !std::thread::panicking() {
            for class in (0..SizeClass::COUNT).map(SizeClass::from_index) {
                assert_eq!(self.memory.blocks_in_use(class), 0, "of {} bytes, at the end", class.bytes());
            }
        }
    }
}
