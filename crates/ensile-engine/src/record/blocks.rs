//! Building and destroying records, and the index's nodes, in a worker's memory.
//!
//! Contract of [`Blocks::destroy`] and of [`NodeBlock`]: called by `collect` only, when the limits say that no pin
//! and no snapshot can reach the block (E3), or by a commit for a record that was never published.
//!
//! Neighbours: commit builds, `collect` destroys, the index allocates nodes through [`NodeBlocks`].

use std::alloc::Layout;
use std::ptr::NonNull;

use ensile_base::sync::{AtomicU64, Ordering, fence, note};
use ensile_epoch::{Epochs, Limbo, Pinned};
use ensile_index::NodeMemory;
use ensile_memory::{Cache, SizeClass};

use super::word::Word;
use super::{ADDRESS_BITS, ADDRESS_MASK, DATA_WORD, HEADER_BYTES, Handle, Record};

/// A worker's memory for records and nodes.
#[derive(Debug)]
pub(crate) struct Blocks {
    cache: Cache,
}

impl Blocks {
    pub(crate) fn new(cache: Cache) -> Self {
        Self { cache }
    }

    /// A record whose capacity is at least `capacity`, with this word, no data and no version before it.
    #[inline]
    fn create(&mut self, capacity: usize, word: Word) -> Handle {
        let class = SizeClass::of_bytes((HEADER_BYTES + capacity).max((DATA_WORD + 1) * 8));
        let block = self.cache.allocate(class);
        let address = block.as_ptr() as u64;
        assert_eq!(address & !ADDRESS_MASK, 0, "user addresses fit 48 bits");
        let words = block.cast::<AtomicU64>();
        let chain = (class.index() as u64) << ADDRESS_BITS;
        // SAFETY: the block is ours alone, word-aligned and at least three words long; its words become atomics here.
        unsafe {
            words.write(AtomicU64::new(word.bits()));
            words.add(1).write(AtomicU64::new(chain));
            words.add(DATA_WORD).write(AtomicU64::new(0));
        }
        note::store(block.as_ptr(), (DATA_WORD + 1) * 8);
        Handle(address)
    }

    /// A record that nobody else knows yet. The token only lends it a lifetime.
    #[inline]
    fn private(&self, handle: Handle) -> Record<'_> {
        // SAFETY: the record is unpublished, so nothing but this worker can free it.
        handle.at(unsafe { Pinned::assume() })
    }

    /// An absent record with TID 0 that has room for `capacity` bytes (§4.5 inserts; C3).
    #[inline]
    pub(crate) fn placeholder(&mut self, capacity: usize) -> Handle {
        self.create(capacity, Word::PLACEHOLDER)
    }

    /// A record that holds `value`, with the word `word`: for a replacement before it is published, or recovery.
    #[inline]
    pub(crate) fn filled(&mut self, value: &[u8], word: Word) -> Handle {
        let handle = self.create(value.len(), word);
        self.private(handle).store_data(value);
        handle
    }

    /// Room for a preserved version of up to `capacity` bytes (§4.9).
    #[inline]
    pub(crate) fn version(&mut self, capacity: usize) -> Handle {
        self.create(capacity, Word::from_bits(0))
    }

    /// Gives an unpublished replacement its final word and version chain, before it is published.
    #[inline]
    pub(crate) fn finish(&self, handle: Handle, word: Word, previous: Option<Handle>) {
        let record = self.private(handle);
        record.link(previous);
        record.unlock_with(word);
    }

    /// Frees a record (contract in the module header). Returns its bytes.
    #[inline]
    pub(crate) fn destroy(&mut self, handle: Handle) -> usize {
        let class = self.private(handle).class();
        // SAFETY: by contract nothing reaches the record any more; its class is the one it was allocated under.
        unsafe { self.cache.free(NonNull::new_unchecked(handle.value() as *mut u8), class) };
        class.bytes()
    }

    /// Frees an index node (contract in the module header). Returns its bytes.
    pub(crate) fn destroy_node(&mut self, node: NodeBlock) -> usize {
        // SAFETY: by contract nothing reaches the node any more; class and address are those of its allocation.
        unsafe { self.cache.free(NonNull::new_unchecked(node.address as *mut u8), node.class) };
        node.class.bytes()
    }
}

/// An index node on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeBlock {
    address: u64,
    class: SizeClass,
}

/// The index's view of a worker's memory: nodes come from its slabs and leave through its limbo.
pub(crate) struct NodeBlocks<'w> {
    pub(crate) blocks: &'w mut Blocks,
    pub(crate) limbo: &'w mut Limbo<NodeBlock>,
    pub(crate) epochs: &'w Epochs,
    pub(crate) retired_bytes: &'w mut usize,
}

impl NodeBlocks<'_> {
    fn class(layout: Layout) -> SizeClass {
        let bytes = if layout.align() > 8 { layout.size().next_multiple_of(64) } else { layout.size() };
        assert!(layout.align() <= 64, "slabs align to a cache line at most");
        SizeClass::of_bytes(bytes)
    }
}

// SAFETY: blocks are at least as large and as aligned as asked (classes that are multiples of 64 are aligned to 64),
// belong to nobody else, and retired ones are freed by `collect` only once every pin has passed (E3).
unsafe impl NodeMemory for NodeBlocks<'_> {
    fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        self.blocks.cache.allocate(Self::class(layout))
    }

    unsafe fn retire(&mut self, block: NonNull<u8>, layout: Layout) {
        let class = Self::class(layout);
        // SeqCst: the unlink before comes before the tag's epoch is read (E3); partner: the heavy fence of the scan.
        fence(Ordering::SeqCst);
        self.limbo.push(self.epochs.now(), NodeBlock { address: block.as_ptr() as u64, class });
        *self.retired_bytes += class.bytes();
    }
}

/// The evidence that nothing below `root` is freed, for who holds all of it: recovery, before anyone else is let in.
#[inline]
pub(crate) fn sole_owner<T>(root: &T) -> Pinned<'_> {
    let _ = root;
    // SAFETY: called by recovery only, whose workers free nothing that a tree reaches, or reached, before it ends.
    unsafe { Pinned::assume() }
}
