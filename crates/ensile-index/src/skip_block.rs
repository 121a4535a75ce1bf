//! Skip blocks: bytes shared by the keys of a layer, between the slot that leads to the layer and the layer's root.
//!
//! Masstree makes a layer of each eight bytes that keys share, and a leaf for the layer even if the leaf holds nothing
//! but the way to the next layer. Here such layers stand in one block: their slices, and the root of the first layer
//! with more than one entry. So a skip of `n` slices is a chain of `n` layers of one slot each, and has the properties
//! of the chain: a key goes on below the skip only if the key has the skip's bytes and more.
//!
//! **SKIP**: a skip's bytes are whole slices, at least one, and never change. A skip's root changes like the root in a
//! LAYER slot: under the lock of the leaf whose slot names the skip. A key that parts from the skip's bytes is missing
//! for as long as the leaf's version stands. The key's insert puts other blocks in the skip's place, and retires the
//! skip.
//!
//! Neighbours: up, `descent` follows a skip, `new_layer` makes a skip; down, `memory`, `seqlock_word`.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::NonNull;

use ensile_base::sync::plain_access;
use ensile_memory::prefetch;

use crate::key::SLICE_BYTES;
use crate::memory::{NodeMemory, allocate, retire};
use crate::node::{LAYER, Leaf, NodePtr, Ptr, SKIP};
use crate::seqlock_word::GuardedPtr;
use crate::version::VersionWord;

/// The head of a skip block; `length` bytes follow the head.
#[repr(C)]
#[derive(Debug)]
struct SkipBlock {
    root: GuardedPtr<VersionWord>,
    length: u64,
}

/// A skip block that is not freed within `'p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SkipRef<'p>(NonNull<SkipBlock>, PhantomData<&'p SkipBlock>);

impl<'p> SkipRef<'p> {
    /// A skip over `shared` to a layer.
    pub(crate) fn create(shared: &[u8], root: NodePtr<'p>, memory: &mut dyn NodeMemory) -> Self {
        debug_assert!(!shared.is_empty() && shared.len().is_multiple_of(SLICE_BYTES), "whole slices (SKIP)");
        let block = allocate(memory, Self::layout(shared.len())).cast::<SkipBlock>();
        let skip = SkipBlock { root: GuardedPtr::new(root.as_ptr()), length: shared.len() as u64 };
        // SAFETY: the block is ours, large and aligned enough for a head and its bytes, which follow the head.
        unsafe {
            block.write(skip);
            let bytes = block.add(1).cast::<u8>();
            bytes.as_ptr().copy_from_nonoverlapping(shared.as_ptr(), shared.len());
        }
        plain_access::store(block.as_ptr(), Self::layout(shared.len()).size());
        Self(block, PhantomData)
    }

    /// A skip as a slot holds it.
    ///
    /// # Safety
    /// `value` is the value of a SKIP slot, read under a version that was validated since, or under the leaf's lock.
    pub(crate) unsafe fn from_value(value: u64) -> Self {
        let block = std::ptr::with_exposed_provenance_mut(value as usize);
        // SAFETY: SKIP slots hold the address of a skip block, never null.
        Self(unsafe { NonNull::new_unchecked(block) }, PhantomData)
    }

    /// The skip's value in a slot.
    pub(crate) fn expose(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(size_of::<SkipBlock>() + length, align_of::<SkipBlock>())
            .expect("a skip block is far smaller than the address space")
    }

    fn head(self) -> &'p SkipBlock {
        // SAFETY: by `create` and the contract of `from_value` the head is valid for 'p; no part of the head but the
        // root, an atomic word, ever changes.
        unsafe { self.0.as_ref() }
    }

    /// Prefetches the block's first line.
    pub(crate) fn prefetch(self) {
        prefetch::line(self.0.as_ptr());
    }

    /// Bytes shared by the keys of the layer.
    pub(crate) fn bytes(self) -> &'p [u8] {
        let length = self.head().length as usize;
        // SAFETY: the bytes follow the head in the same block, were written before the block was linked, and never
        // change (SKIP).
        let bytes = unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(1).cast::<u8>(), length) };
        plain_access::load(bytes);
        bytes
    }

    /// Bytes of the whole block.
    pub(crate) fn block_bytes(self) -> usize {
        Self::layout(self.head().length as usize).size()
    }

    /// The bytes of a key within the layer, behind the skip's bytes; `None` if the key parts from the skip. `behind` is
    /// the part of the key behind the slice of the skip's slot.
    pub(crate) fn strip_shared(self, behind: &[u8]) -> Option<&[u8]> {
        behind.strip_prefix(self.bytes()).filter(|rest| !rest.is_empty())
    }

    /// The root of the layer.
    pub(crate) fn root(self) -> NodePtr<'p> {
        // SAFETY: a skip's root is a node at all times, which was linked when the skip was, or later (SKIP).
        unsafe { Ptr::new(NonNull::new_unchecked(self.head().root.read_to_follow())) }
    }

    /// Names another root: under the lock of the leaf whose slot names the skip.
    pub(crate) fn publish_root(self, root: NodePtr<'p>) {
        self.head().root.publish(root.as_ptr());
    }

    /// Gives the block back.
    ///
    /// # Safety
    /// No slot names the skip any more, and the skip is retired once.
    pub(crate) unsafe fn retire(self, memory: &mut dyn NodeMemory) {
        let layout = Self::layout(self.head().length as usize);
        // SAFETY: the caller's promise; the layout is the layout that `create` asked for.
        unsafe { retire(memory, self.0.cast(), layout) }
    }

    /// Gives back a block unseen by other threads.
    ///
    /// # Safety
    /// The skip was never linked, and is given back once.
    pub(crate) unsafe fn discard(self, memory: &mut dyn NodeMemory) {
        let layout = Self::layout(self.head().length as usize);
        // SAFETY: the caller's promise; the layout is the layout that `create` asked for.
        unsafe { memory.discard(self.0.cast(), layout) }
    }
}

/// The root of the layer that a slot of this kind and value leads to, and the skip to the layer.
///
/// # Safety
/// Kind and value were read under one version that was validated since, or under the lock; `'p` is within the pin.
pub(crate) unsafe fn layer_of<'p>(kind: u8, value: u64) -> Option<(NodePtr<'p>, Option<SkipRef<'p>>)> {
    match kind {
        // SAFETY: the caller's promise.
        LAYER => Some((unsafe { NodePtr::from_value(value) }, None)),
        SKIP => {
            // SAFETY: the caller's promise.
            let skip = unsafe { SkipRef::from_value(value) };
            Some((skip.root(), Some(skip)))
        }
        _ => None,
    }
}

/// As [`layer_of`], of a leaf's slot.
///
/// # Safety
/// The leaf's lock is held, or the tree is at rest.
pub(crate) unsafe fn layer_below(
    leaf: Ptr<'_, Leaf>,
    slot: usize,
) -> Option<(NodePtr<'_>, Option<SkipRef<'_>>)> {
    // SAFETY: the caller's promise: kind and value are of one state.
    unsafe { layer_of(leaf.kind(slot), leaf.slots[slot].value.read()) }
}
