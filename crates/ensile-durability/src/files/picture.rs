//! The page files of pictures: one file in the folder of each checkpointer. A page stays in its place until the page
//! changes (`docs/internals/formats/pictures.md`).
//!
//! ```text
//! file      := opening-block extent*               units of 4 KiB; unit 0 has the opening block
//! page      := page-block continuation*            an extent each
//! directory := part*                               places of pages
//! root      := places of parts and of pending removes, in an extent that the manifest names
//! ```
//! Invariants:
//! - The manifest vouches for the root, the root for parts and pending removes, a part for its pages: by place, number,
//!   checkpoint and header checksum.
//! - N12: no block that a readable manifest reaches is written over. Units that the root does not reach are free.
//! - N10: pending removes count for the picture of their own checkpoint only.
//! - N17: the pages of a section tile the section: the first page begins with the empty key, and a page ends where the
//!   next page begins.
//!
//! Neighbours: `checkpoint::picture` writes the pages of a state; the manifest names the root; recovery loads.

pub(crate) mod block_writer;
pub(crate) mod blocks;
pub(crate) mod blocks_read;
pub(crate) mod directory;
pub(crate) mod extents;
pub(crate) mod file;
pub(crate) mod installed_file;
pub(crate) mod loaded_picture;
pub(crate) mod location;
pub(crate) mod page;
pub(crate) mod pending_removes;
pub(crate) mod reader;
pub(crate) mod root;
