//! An entry on its way into a leaf.
//!
//! Neighbours: up, `insert`, `split` and `new_layer`; down, `node`.

use crate::key::{KeyPart, SLICE_BYTES};
use crate::node::{Leaf, Ptr};

/// An entry to be put into a leaf.
#[derive(Clone, Copy)]
pub(crate) struct NewEntry<'k> {
    pub(crate) part: KeyPart,
    pub(crate) value: u64,
    /// The key behind the slice, for a LONG part.
    pub(crate) suffix: &'k [u8],
}

impl<'k> NewEntry<'k> {
    pub(crate) fn new(rest: &'k [u8], value: u64) -> Self {
        Self { part: KeyPart::from_rest(rest), value, suffix: rest.get(SLICE_BYTES..).unwrap_or_default() }
    }
}

/// Puts an entry at a position of a leaf that has a free slot and room for the suffix, within a change.
pub(crate) fn put_at(leaf: Ptr<'_, Leaf>, position: usize, entry: NewEntry<'_>) {
    let permutation = leaf.permutation();
    let slot = permutation.free_slot();
    if let Some(suffixes) = leaf.suffixes().filter(|_| entry.part.is_long()) {
        suffixes.append(slot, entry.suffix);
    }
    leaf.write_slot(slot, entry.part.slice, entry.part.rank, entry.value);
    leaf.permutation.write(permutation.insert(position).bits());
}
