//! The page files of pictures: one in each checkpointer's folder, in which a page stays where it is until it changes
//! (`docs/formats/pictures.md`).
//!
//! ```text
//! file      := opening-block extent*               units of 4 KiB; unit 0 has the opening block
//! page      := page-block continuation*            an extent each
//! directory := part*                               places of pages
//! root      := places of parts and of pending removes, in an extent that the manifest names
//! ```
//! Invariants:
//! - The manifest vouches for the root, the root for parts and pending removes, a part for its pages: each by place,
//!   number, checkpoint and header checksum.
//! - N12: nothing that a readable manifest reaches is written over. What the root does not reach is free.
//! - N10: pending removes count for the picture of their own checkpoint only.
//! - N17: the pages of a section tile it: the first begins with the empty key, each ends where the next begins.
//!
//! Neighbours: the state cuts pages and fills them ([`super::Pages`]); the store's manifest names the root; recovery
//! loads.

// In the order in which a reader finds them, and then what only a writer needs.
pub(crate) mod place;

pub(crate) mod root;

pub(crate) mod directory;

pub(crate) mod page;

pub(crate) mod reached;

mod opened;

pub(crate) mod read;

pub(crate) mod beside;

pub(crate) mod loaded;

pub(crate) mod later;

pub(crate) mod blocks;

pub(crate) mod extents;

pub(crate) mod file;

pub(super) mod base;

pub(crate) mod writer;

pub(super) mod work;

pub(super) mod keeper;
