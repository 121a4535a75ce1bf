//! Shared parts of the crate's tests: a memory that frees at the end and keeps book, and a visitor that collects. In
//! `bench`: a tree for one thread and hostile keys.
//!
//! Neighbours: up, the tests of `tree` and `witness`.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::ptr::NonNull;

use ensile_epoch::Pinned;

#[cfg(not(shuttle))]
pub use bench::{Bench, hostile_key, partly_equal_keys};

#[cfg(test)]
use crate::Probe;
use crate::{Direction, Masstree, NodeMemory, Range, ScanVisitor, Witness};

#[cfg(not(shuttle))]
mod bench;

/// Node memory that defers every free to its own end, and catches double retires.
#[derive(Debug, Default)]
pub(crate) struct BookedMemory {
    allocated: HashMap<usize, Layout>,
    retired: HashMap<usize, Layout>,
    allocated_bytes: usize,
    retired_bytes: usize,
}

// SAFETY: blocks come from the global allocator with the layout asked for, and are freed only when the memory is
// dropped, after every use of the tree.
unsafe impl NodeMemory for BookedMemory {
    fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        // SAFETY: no node, suffix block or skip block has size zero.
        let block = NonNull::new(unsafe { std::alloc::alloc(layout) }).expect("memory for a test");
        self.allocated.insert(block.as_ptr().expose_provenance(), layout);
        self.allocated_bytes += layout.size();
        block
    }

    unsafe fn retire(&mut self, block: NonNull<u8>, layout: Layout) {
        let before = self.retired.insert(block.as_ptr() as usize, layout);
        assert!(before.is_none(), "a block was retired twice");
        self.retired_bytes += layout.size();
    }

    unsafe fn discard(&mut self, block: NonNull<u8>, layout: Layout) {
        let address = block.as_ptr() as usize;
        assert_eq!(self.allocated.remove(&address), Some(layout), "a block was discarded that is not ours");
        assert!(!self.retired.contains_key(&address), "a block was retired and discarded");
        self.allocated_bytes -= layout.size();
        // SAFETY: allocated by `allocate` with this layout, and never linked, by the caller's word.
        unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
    }
}

// SAFETY: the blocks are memory, addressed by numbers; nothing in the blocks belongs to a thread.
unsafe impl Send for BookedMemory {}

/// A probe per key, labelled with the key's position.
#[cfg(test)]
pub(crate) fn probes<'a>(
    tree: &'a Masstree,
    keys: &'a [impl AsRef<[u8]>],
) -> impl Iterator<Item = Probe<'a, usize>> {
    keys.iter().enumerate().map(move |(label, key)| Probe { tree, key: key.as_ref(), label })
}

impl BookedMemory {
    /// Takes over another thread's book.
    #[cfg(test)]
    pub(crate) fn absorb(&mut self, mut other: Self) {
        self.allocated.extend(other.allocated.drain());
        for (block, layout) in other.retired.drain() {
            assert!(self.retired.insert(block, layout).is_none(), "a block was retired twice");
        }
        self.allocated_bytes += other.allocated_bytes;
        self.retired_bytes += other.retired_bytes;
    }

    /// Bytes allocated and not retired.
    pub(crate) fn live_bytes(&self) -> usize {
        for (block, layout) in &self.retired {
            assert_eq!(self.allocated.get(block), Some(layout), "a block was retired that is not ours");
        }
        self.allocated_bytes - self.retired_bytes
    }
}

impl Drop for BookedMemory {
    fn drop(&mut self) {
        for (&block, &layout) in &self.allocated {
            // SAFETY: allocated by `allocate` with this layout, freed once; the tree is not used any more.
            unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(block), layout) };
        }
    }
}

/// The token for tests: [`BookedMemory`] frees nothing while a tree is in use.
pub(crate) fn assume_pinned<'p>() -> Pinned<'p> {
    // SAFETY: `BookedMemory` frees retired nodes only when the test drops it, after the tree's last use.
    unsafe { Pinned::assume() }
}

/// Results of a scan.
#[derive(Default, Debug)]
pub struct Collected {
    /// Witnesses of the leaves that the scan depends on.
    pub witnesses: Vec<Witness>,
    /// Keys and values.
    pub entries: Vec<(Vec<u8>, u64)>,
    /// Values that were announced.
    pub announced: Vec<u64>,
    /// Number of entries at which the scan stops; `None`: no limit.
    pub entries_max: Option<usize>,
}

impl ScanVisitor for Collected {
    fn witness(&mut self, witness: Witness) {
        self.witnesses.push(witness);
    }

    fn entry(&mut self, key: &[u8], value: u64) -> ControlFlow<()> {
        self.entries.push((key.to_vec(), value));
        if self.entries_max.is_some_and(|max| self.entries.len() >= max) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn announce(&mut self, value: u64) {
        self.announced.push(value);
    }
}

/// A whole scan.
pub(crate) fn collect(tree: &Masstree, range: Range<'_>, direction: Direction) -> Collected {
    let mut collected = Collected::default();
    tree.scan(range, direction, &mut collected, assume_pinned());
    collected
}
