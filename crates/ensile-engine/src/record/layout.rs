//! Layout of a record: lengths, positions of words, and marks of the chain word (`record`'s header has the picture).
//!
//! Neighbours: every module of `record` that accesses words; `checkpoint` counts the bytes of rows.

use ensile_memory::SizeClass;

/// Length of a record's header in bytes. The paper's header has 32 (§4.3).
pub(crate) const HEADER_BYTES: usize = 20;
/// Data bytes that share the word of the length.
pub(super) const FIRST_BYTES: usize = 4;
/// Words before the word of the length and the first data bytes.
pub(super) const DATA_WORD: usize = 2;

pub(super) const ADDRESS_BITS: u32 = 48;
pub(crate) const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;

/// The address bits of a link. Records are aligned to words, so the low bits of a link are free for marks.
pub(super) const LINK_MASK: u64 = ADDRESS_MASK & !7;
/// Mark: the version lies in a page of versions. The mark is fixed for the version's life.
pub(super) const PAGED: u64 = 1;
/// Mark: the version is out of its chain, or the record is out of its tree and no link leads to the record (V1).
pub(super) const UNLINKED: u64 = 2;
/// Mark of a deleted record that has left its table's tree for the side index (U3).
pub(super) const BURIED: u64 = 4;

const _: () = assert!((PAGED | UNLINKED | BURIED) & LINK_MASK == 0 && LINK_MASK | 7 == ADDRESS_MASK);
const _: () = assert!(ADDRESS_BITS + u8::BITS <= u64::BITS, "a size class lies above the address");
const _: () = assert!(HEADER_BYTES <= 24 && HEADER_BYTES + FIRST_BYTES == (DATA_WORD + 1) * 8);
const _: () = assert!(SizeClass::BYTES_MAX >= ensile_base::limits::VALUE_BYTES_MAX + HEADER_BYTES);

/// `bytes`, padded with zeros to `N` bytes.
#[inline]
pub(crate) fn pad_with_zeros<const N: usize>(bytes: &[u8]) -> [u8; N] {
    debug_assert!(bytes.len() <= N, "what is left fills a word at most");
    let mut word = [0; N];
    word[..bytes.len()].copy_from_slice(bytes);
    word
}
